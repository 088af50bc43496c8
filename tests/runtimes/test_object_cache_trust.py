"""Entries on disk that are damaged or foreign are not taken for machine code."""
from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from cached_kernels import folder, only_entry, scale, use

from lazyten.runtimes import claims
from lazyten.runtimes.cpu.cpu import CpuRuntime
from lazyten.support import disk_cache

__all__ = ["folder"]


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1:]


DAMAGE = {
    "empty": lambda data: b"",
    "truncated": lambda data: data[:-7],
    "cut in its header": lambda data: data[:20],
    "longer": lambda data: data + b"\0",
    "of another program": lambda data: b"\x7fELF" + bytes(400),
    "of another format": lambda data: data.replace(b"entry 1", b"entry 0"),
    "zeros after a power cut": lambda data: bytes(len(data)),
    **{f"flipped at {at}": lambda data, at=at: flipped(data, at)
       for at in (0, 16, 30, 48, 56, 100, -1000, -1)},
}


@pytest.mark.few(9)
@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_entry_is_compiled_again_and_replaced(folder: Path, damage: Any) -> None:
    use()
    entry = only_entry(folder)
    good = entry.read_bytes()
    entry.write_bytes(damage(good))
    assert use() == ["scale"]
    assert entry.read_bytes() == good
    assert use() == []


def test_an_entry_under_the_name_of_another_kernel_is_not_taken_for_it(folder: Path) -> None:
    use(2.0)
    wrong = only_entry(folder)
    content = wrong.read_bytes()
    wrong.unlink()
    use(3.0)
    only_entry(folder).write_bytes(content)
    assert use(3.0) == ["scale"]


def test_a_checksum_alone_does_not_make_an_entry(folder: Path) -> None:
    use()
    for parts in ([], [b"no key"]):
        only_entry(folder).write_bytes(disk_cache.pack(parts))
        assert use() == ["scale"]


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no owners on this system")
def test_files_of_another_user_are_not_loaded(
        folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use()
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        assert use() == ["scale"]
    assert use() == []


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no permissions on this system")
@pytest.mark.parametrize("writer", [stat.S_IWGRP, stat.S_IWOTH])
def test_files_that_others_may_write_are_not_loaded(folder: Path, writer: int) -> None:
    use()
    only_entry(folder).chmod(0o600 | writer)
    assert use() == ["scale"]


@pytest.mark.skipif(not hasattr(os, "O_NOFOLLOW"), reason="links are followed on this system")
def test_links_and_pipes_are_not_read(folder: Path, tmp_path: Path) -> None:
    use()
    entry = only_entry(folder)
    entry.rename(tmp_path / "elsewhere")
    entry.symlink_to(tmp_path / "elsewhere")
    assert use() == ["scale"]
    entry.unlink()
    os.mkfifo(entry)
    assert use() == ["scale"]


def test_a_folder_in_place_of_an_entry_costs_a_compilation(folder: Path) -> None:
    use()
    entry = only_entry(folder)
    entry.unlink()
    entry.mkdir()
    assert use() == ["scale"]
    assert not list(folder.glob("*.unfinished"))


@pytest.mark.few(1)
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT])
def test_a_disk_that_takes_nothing_costs_a_compilation(
        folder: Path, monkeypatch: pytest.MonkeyPatch, error: int) -> None:
    def fail(*args: object, **options: object) -> None:
        raise OSError(error, os.strerror(error))
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fail)
        assert use() == use() == ["scale"]
        assert [f.name for f in folder.iterdir() if f.name != claims.NAME] == []
    with monkeypatch.context() as patch:
        patch.setattr(os, "makedirs", fail)
        assert use() == ["scale"]
    use()
    assert use() == []


def test_a_file_where_the_folder_should_be_costs_a_compilation(folder: Path) -> None:
    folder.write_text("not a folder")
    assert use() == use() == ["scale"]
    assert folder.read_text() == "not a folder"


def test_after_one_failed_write_no_more_are_tried(
        folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[object] = []

    def fail(*args: object, **options: object) -> None:
        tried.append(args)
        raise PermissionError
    monkeypatch.setattr(os, "replace", fail)
    CpuRuntime().build([scale(1.0), scale(2.0, "b"), scale(3.0, "c")])
    assert len(tried) == 1
