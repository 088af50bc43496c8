"""A file that cannot be written whole is not: what was there stays, and nothing beside it."""
from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Barrier

import pytest

import lazyten as lt
from lazyten import nn
from lazyten.support.errors import ArgumentError
from lazyten.support.paths import write_files

LIMIT = 1 << 10
"""Bytes of the largest file that the system lets be written, in place of a disk that is full."""


@contextmanager
def full_disk() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


MODEL = nn.Linear(64, 32)


def _view(path: Path) -> None:
    lt.view(MODEL, path, (lt.ones(2, 64),))


def _trace(path: Path) -> None:
    with lt.profile() as profile:
        MODEL(lt.ones(3, 64)).realize()
    profile.save_trace(path)


WRITERS: dict[str, Callable[[Path], object]] = {
    "save": lambda path: lt.save(MODEL.state_dict(), path),
    "save_safetensors": lambda path: lt.save_safetensors(MODEL.state_dict(), path),
    "onnx.export": lambda path: lt.onnx.export(MODEL, lt.ones(2, 64), path),
    "ONNXProgram.save": lambda path: lt.onnx.export(MODEL, lt.ones(2, 64), dynamo=True).save(path),
    "export": lambda path: lt.export(MODEL, lt.ones(2, 64), path),
    "view": _view, "save_trace": _trace,
}


@pytest.mark.parametrize("name", [*WRITERS])
def test_a_disk_that_is_full_loses_nothing(name: str, tmp_path: Path) -> None:
    if "onnx" in name.lower():
        pytest.importorskip("onnx")
    path = tmp_path / "file.c"
    path.write_text("before")
    with full_disk(), pytest.raises(ArgumentError, match=rf"^{name}: cannot write .*too large"):
        WRITERS[name](path)
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"file.c": "before"}


def test_weights_of_their_own_file_stay_with_their_model(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnx")
    from lazyten.onnx.writing import exporting
    monkeypatch.setattr(exporting, "MOST_BYTES", 1 << 12)
    lt.onnx.export(MODEL, lt.ones(2, 64), tmp_path / "net.onnx")
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    with full_disk(), pytest.raises(ArgumentError, match=r"^onnx\.export: cannot write"):
        lt.onnx.export(nn.Linear(64, 32), lt.ones(2, 64), tmp_path / "net.onnx")
    assert len(before) == 2 and {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


def test_a_launch_that_does_not_fit_leaves_no_file(tmp_path: Path) -> None:
    with full_disk(), pytest.raises(ArgumentError, match="dump_kernels: cannot write to"), \
            lt.dump_kernels(tmp_path):
        (lt.randn(64, 64) @ lt.randn(64, 64)).realize()
    assert not [*tmp_path.iterdir()]


def test_a_link_stays_one_and_what_is_no_file_is_written_to(tmp_path: Path) -> None:
    target, link, pipe = tmp_path / "target", tmp_path / "link", tmp_path / "pipe"
    target.write_text("before")
    link.symlink_to(target)
    write_files({link: b"after"}, "test")
    assert link.is_symlink() and target.read_text() == "after"
    os.mkfifo(pipe)
    number = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_files({pipe: b"sent"}, "test")
        assert pipe.is_fifo() and os.read(number, 9) == b"sent"
    finally:
        os.close(number)
    assert len([*tmp_path.iterdir()]) == 3


def test_threads_that_write_the_same_file_leave_one_whole(tmp_path: Path) -> None:
    """One writes while another is between its content and its name."""
    path, places = tmp_path / "file", []
    real = Path.write_bytes

    def write_bytes(self: Path, content: bytes) -> int:
        places.append(self)
        return real(self, content)

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(2) as pool:
        patch.setattr(Path, "write_bytes", write_bytes)
        together = Barrier(2)
        for job in [pool.submit(lambda x: (together.wait(), write_files({path: x}, "test")), x)
                    for x in (b"one", b"other")]:
            job.result()
    assert len({*places}) == 2 and path.read_bytes() in (b"one", b"other")


def test_events_that_do_not_fit_say_so(tmp_path: Path) -> None:
    from lazyten.utils.tensorboard import SummaryWriter
    writer = SummaryWriter(tmp_path)
    writer.add_embedding(lt.ones(2, 2), tag="small")
    before = (tmp_path / "projector_config.pbtxt").read_text()
    with full_disk():
        with pytest.raises(ArgumentError, match=r"^add_embedding: cannot write .*too large"):
            writer.add_embedding(lt.ones(64, 64))
        writer.add_text("long", "x" * LIMIT)
        with pytest.raises(ArgumentError, match=r"^SummaryWriter: cannot write .*too large"):
            writer.flush()
    writer.close()  # what was left over is written now
    assert (tmp_path / "projector_config.pbtxt").read_text() == before
    assert next(tmp_path.glob("events*")).stat().st_size > LIMIT
