"""Compiled kernels on disk: found by the next process, and never trusted further than they go."""
from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cached_kernels import SIZE, Counting, folder, only_entry, scale, use
from import_graph import source_files

from lazyten import __main__ as program
from lazyten.codegen import pipeline
from lazyten.codegen.targets.generated import Generated
from lazyten.codegen.targets.target import Target
from lazyten.ir import dtype as dt
from lazyten.ir.kernel import Kernel, Slot, structure
from lazyten.ir.node import const, make
from lazyten.ir.ops import Op
from lazyten.runtimes import code_cache
from lazyten.runtimes.cpu import cpu
from lazyten.runtimes.cpu.cpu import CpuRuntime
from lazyten.support import disk_cache
from lazyten.support.disk_cache import DiskCache
from lazyten.support.errors import ArgumentError

__all__ = ["folder"]

# ---- what is found -------------------------------------------------------------------------------

def test_a_kernel_is_compiled_once(folder: Path) -> None:
    assert use() == ["scale"]
    assert use() == []


def test_a_hit_skips_the_code_generator(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use()

    def fail(kernel: Kernel, target: object) -> Generated:
        raise AssertionError("generated again")
    monkeypatch.setattr("lazyten.codegen.pipeline.generate", fail)
    assert use() == []


def test_other_values_are_other_kernels_and_other_names_are_not(folder: Path) -> None:
    use(3.0)
    assert use(2.0) == ["scale"]
    assert use(3.0, "other") == []
    assert use(2.0) == use(3.0) == use(3.0, "other") == []


def test_kernels_that_were_compiled_under_one_name_are_told_apart_when_they_meet(
        folder: Path) -> None:
    use(3.0)
    use(2.0)
    runtime = Counting()
    for first in (3.0, 2.0):
        pair = [first, 5.0 - first]
        assert applied(runtime.build([scale(pair[0], "a"), scale(pair[1], "b")])) == pair
    programs = runtime.build([scale(3.0, "b"), scale(2.0, "a"), scale(3.0, "c"), scale(3.0, "b")])
    assert applied(programs) == [3.0, 2.0, 3.0, 3.0]
    assert runtime.compiled == []


def test_a_program_of_another_name_serves_in_its_process_too() -> None:
    runtime = Counting()
    first, = runtime.build([scale(3.0, "map_8_n12")])
    second, third = runtime.build([scale(3.0, "map_8_n1"), scale(4.0, "map_8_n12")])
    assert runtime.compiled == ["map_8_n12", "map_8_n12"]
    assert applied([first, second, third]) == [3.0, 3.0, 4.0]
    assert (second.name, runtime.build([scale(3.0, "map_8_n1")])) == ("map_8_n1", [second])
    alone, = Counting().build([scale(3.0, "map_8_n1")])
    assert second.source == alone.source
    assert second.assembly() == alone.assembly()


@pytest.mark.parametrize("target", [Target(), Target(language="opencl"), Target(language="cuda")],
                         ids=lambda target: str(target.language))
@pytest.mark.parametrize("name", ["fmul", "float", "i64", "map_8_n1", "p0"])
def test_a_name_that_the_text_has_for_something_else_is_changed_as_a_name_alone(
        name: str, target: Target) -> None:
    made, other = (pipeline.generate(scale(3.0, n), target) for n in (name, "other"))
    for one, another in ((made, other), (other, made)):
        found = one.called(another.name, None)
        assert found.source.split() == another.source.split()
        assert found.entries == another.entries


def test_structure_tells_signs_types_and_outputs_apart() -> None:
    zero = [const(0.0, dt.float32, (4,)), const(-0.0, dt.float32, (4,)),
            const(0.0, dt.float64, (4,)), const(0, dt.int32, (4,))]
    x = make(Op.BUFFER, dt.float32, (), Slot(2, 4))
    negated = make(Op.NEG, dt.float32, (x,))
    kernels = [Kernel("k", (z,), ()) for z in zero]
    kernels += [Kernel("k", outputs, ((dt.float32, 4),))
                for outputs in ((x, negated), (negated, x), (negated,), (negated, negated))]
    assert len({structure(kernel) for kernel in kernels}) == len(kernels)


def applied(programs: Sequence[Any]) -> list[float]:
    """What programs of `scale` make of 1."""
    found = []
    for made in programs:
        given, out = (made.runtime.alloc(4 * SIZE) for _ in "12")
        made.runtime.copy_in(given, np.ones(SIZE, np.float32))
        made.launch([out, given])
        result = np.empty(SIZE, np.float32)
        made.runtime.copy_out(result, out)
        found.append(float(result[0]))
    return found


def test_several_kernels_are_compiled_together_and_found_one_by_one(folder: Path) -> None:
    runtime = Counting()
    names = [f"k{i}" for i in range(17)]
    programs = runtime.build([scale(2.0 + i, name) for i, name in enumerate(names)])
    assert runtime.batches == [4, 4, 4, 4, 1]
    assert applied(programs) == [2.0 + i for i in range(17)]
    for by, first in ((100.0, True), (200.0, False)):
        again, order = Counting(), 1 if first else -1
        programs = again.build([scale(by, "k1"), scale(2.0, "k0")][::order])
        assert again.compiled == ["k1"], "k0 is on disk, in one piece with another k1"
        assert applied(programs) == [by, 2.0][::order]


def test_a_few_kernels_are_compiled_while_others_are_generated(folder: Path) -> None:
    runtime = Counting()
    runtime.build([scale(2.0, "a"), scale(3.0, "b"), scale(4.0, "c")])
    assert runtime.batches == [1, 1, 1]


def test_text_for_debug_and_the_users_line_are_the_same_from_disk(folder: Path) -> None:
    runtimes = CpuRuntime(), CpuRuntime()
    cold, warm = (runtime.build([scale(3.0)])[0] for runtime in runtimes)
    assert cold is not warm
    assert (cold.name, cold.source) == (warm.name, warm.source)
    assert cold.describe() == warm.describe()
    assert cold.assembly() == warm.assembly()


def test_what_is_on_disk_is_compiled_anew_where_its_passes_are_to_be_printed(
        folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    use()
    monkeypatch.setenv("LAZYTEN_PRINT_AFTER", "render")
    assert use() == ["scale"]
    assert "; after render, " in capsys.readouterr().out
    monkeypatch.delenv("LAZYTEN_PRINT_AFTER")
    assert use() == []


# ---- what the key says ---------------------------------------------------------------------------

def test_changed_source_changes_the_key(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_cache, "FOLDERS", (tmp_path,))
    monkeypatch.setattr(code_cache, "IMPORTED", time.time() + 60)
    version = code_cache.code_version.__wrapped__
    assert version() is None, "there is no source at all"
    (tmp_path / "lower.py").write_text("x = 1")
    one = version()
    os.utime(tmp_path / "lower.py", (0, 1000))
    assert version() == one, "a copy of the same source"
    (tmp_path / "lower.py").write_text("x = 2")
    two = version()
    (tmp_path / "lower.py").rename(tmp_path / "upper.py")
    three = version()
    assert len({one, two, three, None}) == 4


def test_code_of_another_version_is_not_taken(folder: Path) -> None:
    made = []

    def compiled(text: str) -> bytes:
        made.append(text)
        return str(len(made)).encode()
    found = []
    for version in ("1", "2", "1"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(code_cache, "code_version", lambda version=version: version)
            found.append(code_cache.open_cache("cpu").translate_own("text", compiled))
    assert found == [b"1", b"2", b"1"] and len(made) == 2


def test_source_that_has_just_changed_keeps_the_disk_out(
        folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    newest = max(path.stat().st_mtime for place in code_cache.FOLDERS
                 for path in place.rglob("*.py"))
    monkeypatch.setattr(code_cache, "IMPORTED", newest + 1)
    assert use() == use() == ["scale"]
    assert not folder.exists()


def test_each_source_file_is_in_the_key() -> None:
    covered = {path for place in code_cache.FOLDERS for path in place.rglob("*.py")}
    assert set(source_files().values()) <= covered


def test_a_change_in_any_folder_changes_the_key(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or machine code of before the change would be trusted."""
    copies = [shutil.copytree(folder, tmp_path / str(i), ignore=shutil.ignore_patterns("*.pyc"))
              for i, folder in enumerate(code_cache.FOLDERS)]
    monkeypatch.setattr(code_cache, "FOLDERS", tuple(map(Path, copies)))
    monkeypatch.setattr(code_cache, "IMPORTED", time.time() + 60)
    first = {path.parent: path for path in sorted(tmp_path.rglob("*.py"))}
    versions = [code_cache.code_version.__wrapped__()]
    for path in first.values():
        path.write_bytes(path.read_bytes() + b"\n")
        versions.append(code_cache.code_version.__wrapped__())
    assert len({*versions, None}) == len(first) + 2


@pytest.mark.parametrize("change", ["compiler_version", "LAZYTEN_TARGET"])
def test_another_compiler_or_target_has_other_entries(
        folder: Path, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    monkeypatch.setenv("LAZYTEN_TARGET", "avx2")
    use()
    with monkeypatch.context() as patch:
        if change == "LAZYTEN_TARGET":
            patch.setenv("LAZYTEN_TARGET", "sse")
        else:
            patch.setattr(cpu, change, lambda level: "LLVM 1")
        assert use() == ["scale"]
    assert use() == []


# ---- settings, size and the command --------------------------------------------------------------

@pytest.mark.parametrize("value", ["0", "off", "OFF"])
def test_it_can_be_switched_off(
        folder: Path, monkeypatch: pytest.MonkeyPatch, value: str,
        capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("LAZYTEN_CACHE", value)
    assert use() == use() == ["scale"]
    assert not folder.exists()
    program.main(["cache"])
    assert "LAZYTEN_CACHE switches it off" in capsys.readouterr().out


def test_the_folder_follows_the_environment(
        monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("LAZYTEN_CACHE", "~/mine")
    assert disk_cache.default_folder() == tmp_path / "mine"
    monkeypatch.delenv("LAZYTEN_CACHE")
    assert disk_cache.default_folder() == tmp_path / "xdg" / "lazyten"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert disk_cache.default_folder() == tmp_path / ".cache" / "lazyten"


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no permissions on this system")
def test_folder_and_entries_belong_to_the_user_alone(folder: Path) -> None:
    use()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(only_entry(folder).stat().st_mode) == 0o600


def test_what_was_unused_longest_goes_first(tmp_path: Path) -> None:
    kept = DiskCache(tmp_path, limit=10_000)
    for i in range(8):
        kept.put(str(i), [bytes(1000)])
        os.utime(kept._path(str(i)), (i * 1000.0, i * 1000.0))
    assert kept.get("0") is not None, "a use of an old entry is noted"
    for i in range(8, 12):
        kept.put(str(i), [bytes(1000)])
        assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 11_100
    there = [i for i in range(12) if kept.get(str(i)) is not None]
    assert there == [0, *range(there[1], 12)]
    assert there[1] > 1


def test_a_use_within_a_day_writes_nothing(tmp_path: Path) -> None:
    kept = DiskCache(tmp_path)
    kept.put("a", [b"1"])
    hour_ago = time.time() - 3600
    os.utime(kept._path("a"), (hour_ago, hour_ago))
    before = os.stat(kept._path("a")).st_mtime
    assert kept.get("a") == [b"1"]
    assert os.stat(kept._path("a")).st_mtime == before


def test_what_a_dead_process_left_goes_and_other_files_stay(tmp_path: Path) -> None:
    old, new, other = (tmp_path / name for name in ("a.unfinished", "b.unfinished", "notes.txt"))
    for path in (old, new, other):
        path.write_text("x")
    os.utime(old, (0, 0))
    kept = DiskCache(tmp_path, limit=16)
    kept.put("a", [b"1"])
    assert not old.exists()
    assert new.exists()
    kept.clear()
    assert list(tmp_path.iterdir()) == [other]


def test_processes_that_write_little_look_at_the_size_once_in_a_while(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks, evict = [], DiskCache._evict
    monkeypatch.setattr(DiskCache, "_evict", lambda self: (looks.append(self), evict(self)))
    for i in range(320):
        kept = DiskCache(tmp_path, limit=160_000)
        kept.put(str(i), [bytes(1000)])
        assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 320_000
    assert 10 <= len(looks) <= 80, "one in ten, as a look is due after 10,000 bytes"


def test_a_wrong_size_says_what_to_give(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAZYTEN_CACHE_SIZE", "256M")
    with pytest.raises(ArgumentError, match="LAZYTEN_CACHE_SIZE='256M': give a number of bytes"):
        disk_cache.default_limit()


def test_the_command_shows_and_clears(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program.main(["cache"])
    assert capsys.readouterr().out == (
        f"cache: {folder}: 0 entries, 0 bytes of at most 268,435,456\n")
    use(2.0)
    use(3.0)
    size = sum(path.stat().st_size for path in folder.iterdir())
    program.main(["cache"])
    assert f"{folder}: 2 entries, {size:,} bytes of" in capsys.readouterr().out
    program.main(["cache", "--clear"])
    assert "2 entries removed; 0 entries, 0 bytes" in capsys.readouterr().out
    assert use(2.0) == ["scale"]
