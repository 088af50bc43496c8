"""Processes that begin at once compile each kernel once; none waits for one that is gone."""
from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from lazyten.codegen.targets.generated import Generated
from lazyten.ir import dtype as dt
from lazyten.ir.kernel import Kernel
from lazyten.ir.node import const
from lazyten.runtimes import claims
from lazyten.runtimes.claims import Claims
from lazyten.runtimes.code_cache import CodeCache
from lazyten.support.disk_cache import DiskCache
from lazyten.support.errors import CompileError

pytestmark = pytest.mark.skipif(not claims.HAS_LOCKS, reason="this system has no locks of bytes")

PROGRAM = """
import sys
import lazyten as lt
from lazyten.runtimes import claims
from lazyten.support import observers

claims.PATIENCE_SECONDS = 60  # the machine may be busy
compiled = []

class Noting(observers.Observer):
    def compiled(self, what, span):
        compiled.append(what)

print("ready", flush=True)
sys.stdin.readline()
x = lt.arange(12.0).reshape(3, 4)
with observers.told(Noting()):
    for n in range(2, 12):
        total = (x * n).amax(0) if n % 2 else (x + n).prod(1)
        lt.realize(total.sum(), lt.softmax(x[:, :3] - total.sum(), n % 3 % 2))
print(*(name for names in compiled for name in names.split(", ")))
"""

HOLDER = """
import sys, time
from pathlib import Path
from lazyten.runtimes.claims import Claims
print(Claims(Path(sys.argv[1])).take("key"), flush=True)
time.sleep(600)
"""


TAKER = """
import ast, sys
from pathlib import Path
from lazyten.runtimes.claims import Claims
for key in ast.literal_eval(sys.argv[2]):
    print(Claims(Path(sys.argv[1])).take(key))
"""


def started(program: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """A process that runs a program, once it has printed its first line."""
    process = subprocess.Popen(
        [sys.executable, "-c", program, *arguments], text=True, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, env={**os.environ, "LAZYTEN_INTERPRET": "never", **environment})
    assert process.stdout is not None and process.stdout.readline() in ("ready\n", "True\n")
    return process


def compiled_by(count: int, folder: Path) -> list[list[str]]:
    """Names of the kernels that each of some processes compiles, which begin at the same time."""
    processes = [started(PROGRAM, LAZYTEN_CACHE=str(folder)) for _ in range(count)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    return [process.communicate(timeout=120)[0].split() for process in processes]


def test_each_kernel_is_compiled_by_one_process(tmp_path: Path) -> None:
    alone, = compiled_by(1, tmp_path / "one")
    parts = compiled_by(3, tmp_path / "three")
    assert len(alone) > 10
    assert sorted(name for part in parts for name in part) == sorted(alone)
    assert compiled_by(1, tmp_path / "three") == [[]]


@contextmanager
def held(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that has claimed "key" and goes on."""
    process = started(HOLDER, str(folder))
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_claim_ends_with_its_process(tmp_path: Path) -> None:
    with held(tmp_path) as process:
        assert not Claims(tmp_path).take("key")
        assert Claims(tmp_path).take("another")
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert Claims(tmp_path).take("key")


def test_what_was_stopped_is_not_waited_for_forever(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "PATIENCE_SECONDS", 0.2)
    with held(tmp_path) as process:
        process.send_signal(signal.SIGSTOP)
        before = time.monotonic()
        assert not Claims(tmp_path).wait("key")
        assert 0.2 <= time.monotonic() - before < 20
        assert not Claims(tmp_path).take("key")


def test_without_a_folder_or_locks_everything_is_ones_own(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    for found in (Claims(None), Claims(tmp_path / "file" / "below")):
        assert not found.are_shared
        assert found.take("key")
        assert found.wait("key")
        found.give_back("key")
    with held(tmp_path):
        def unsupported(*_: object) -> None:
            raise OSError(errno.ENOLCK, "no locks available")
        monkeypatch.setattr(claims, "lockf", unsupported)
        assert Claims(tmp_path).take("key")
        Claims(tmp_path).give_back("key")


def kernels_by_key(*names: str) -> dict[str, Kernel]:
    return {name: Kernel(name, (const(1.0, dt.float32),), ((dt.float32, 1),)) for name in names}


def generated(kernels: Sequence[Kernel]) -> list[Generated]:
    return [Generated(kernel.name, "", (), "") for kernel in kernels]


@pytest.mark.parametrize("together", [False, True])
def test_code_is_made_all_the_same_where_its_maker_stops(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, together: bool) -> None:
    """What another process has claimed and never makes is made here, after the wait."""
    monkeypatch.setattr(claims, "PATIENCE_SECONDS", 0.2)
    cache, kernels = CodeCache("context", DiskCache(tmp_path)), kernels_by_key("a")
    monkeypatch.setattr(cache, "_entry", lambda key: "key")
    with held(tmp_path):
        found: tuple[list[Generated], bytes | list[bytes]]
        if together:
            found = cache.translate_together(kernels, generated, lambda _: b"code")
        else:
            found = cache.translate(kernels, generated, lambda _: [b"code"])
        assert found == (generated(list(kernels.values())), b"code" if together else [b"code"])


def test_a_process_that_stopped_is_waited_for_once(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "PATIENCE_SECONDS", 0.5)
    cache = CodeCache("context", DiskCache(tmp_path))
    kernels = kernels_by_key(*map(str, range(40)))
    monkeypatch.setattr(cache, "_entry", lambda key: "key")
    with held(tmp_path):
        before = time.monotonic()
        cache.translate(kernels, generated, lambda texts: [b"code"] * len(texts))
        assert time.monotonic() - before < 10  # not 20


@pytest.mark.parametrize("together", [False, True])
def test_what_failed_is_anybodys(tmp_path: Path, together: bool) -> None:
    """An error of a compiler leaves no claim: another process may try, and does not wait."""
    def refuse(_: object) -> bytes:
        raise CompileError("no")
    cache, kernels = CodeCache("context", DiskCache(tmp_path)), kernels_by_key("a", "b")
    with pytest.raises(CompileError):
        if together:
            cache.translate_together(kernels, generated, refuse)
        else:
            cache.translate(kernels, generated, refuse)
    keys = ["a\n\nb"] if together else ["a", "b"]
    entries = repr([cache._entry(key) for key in keys])
    assert subprocess.run([sys.executable, "-c", TAKER, str(tmp_path), entries], check=True,
                          capture_output=True, text=True).stdout.split() == ["True"] * len(keys)
