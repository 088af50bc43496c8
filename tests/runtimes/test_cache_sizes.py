"""The caches that kernels are made for are those of the machine, as the system tells them."""
from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lazyten.codegen.model.accesses import Access
from lazyten.codegen.targets.target import Target
from lazyten.ir import dtype as dt
from lazyten.ir.arguments import Range
from lazyten.ir.kernel import Kernel, Slot
from lazyten.ir.node import make, reduce, reshape
from lazyten.ir.ops import Op
from lazyten.runtimes.cpu.cpu import CpuRuntime
from lazyten.runtimes.host import host
from lazyten.runtimes.host.cache_sizes import Caches, from_sysctl, from_sysfs, host_caches
from lazyten.support.errors import DeviceError

KIB, MIB = 1 << 10, 1 << 20
USUAL = Caches(Target().l1_bytes, Target().l1_ways, Target().l2_bytes)


def write(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text + "\n")


def processor(root: Path, number: int, l1: str, l2: str, *, ways: str = "8",
              siblings: str = "", sharing: str = "") -> None:
    """A processor as sysfs shows it, with an instruction cache and a third one besides."""
    folder = root / f"cpu{number}"
    write(folder / "topology", thread_siblings_list=siblings or str(number))
    entries = (("1", "Data", l1), ("1", "Instruction", "64K"), ("2", "Unified", l2),
               ("3", "Unified", "32768K"))
    for i, (level, kind, size) in enumerate(entries):
        write(folder / f"cache/index{i}", level=level, type=kind, size=size,
              ways_of_associativity=ways if i == 0 else "16",
              shared_cpu_list=sharing or siblings or str(number))


def test_sizes_and_ways_are_read(tmp_path: Path) -> None:
    processor(tmp_path, 0, "48K", "2048K", ways="12")
    (tmp_path / "cpufreq").mkdir()
    assert from_sysfs(tmp_path) == Caches(48 * KIB, 12, 2 * MIB)


def test_threads_of_one_core_have_its_whole_second_cache(tmp_path: Path) -> None:
    processor(tmp_path, 0, "32K", "1M", siblings="0,4")
    assert from_sysfs(tmp_path).l2_bytes == MIB


def test_cores_that_share_a_second_cache_have_a_part_of_it_each(tmp_path: Path) -> None:
    processor(tmp_path, 0, "32K", "4M", siblings="0-1", sharing="0-7")
    assert from_sysfs(tmp_path).l2_bytes == MIB


def test_of_cores_that_differ_the_smallest_caches_count(tmp_path: Path) -> None:
    processor(tmp_path, 0, "48K", "1280K", ways="12", siblings="0-1")
    for number in (2, 9, 10):
        processor(tmp_path, number, "32K", "2048K", sharing="8-9")
    assert from_sysfs(tmp_path) == Caches(32 * KIB, 8, MIB)


@pytest.mark.parametrize("text", ["", "many", "0K", "-1K", "K"])
def test_what_the_system_does_not_tell_is_taken_to_be_usual(tmp_path: Path, text: str) -> None:
    assert from_sysfs(tmp_path) == from_sysfs(tmp_path / "none") == USUAL
    processor(tmp_path, 0, text, text, ways=text, siblings=text or "?", sharing=text)
    assert from_sysfs(tmp_path) == USUAL


def test_macos_tells_the_sizes_of_each_kind_of_core() -> None:
    numbers = {"hw.nperflevels": 2, "hw.perflevel0.l1dcachesize": 128 * KIB,
               "hw.perflevel0.l2cachesize": 12 * MIB, "hw.perflevel0.cpusperl2": 4,
               "hw.perflevel1.l1dcachesize": 64 * KIB, "hw.perflevel1.l2cachesize": 4 * MIB,
               "hw.perflevel1.cpusperl2": 2}
    assert from_sysctl(lambda name: numbers.get(name, 0)) == Caches(64 * KIB, 8, 2 * MIB)
    older = {"hw.l1dcachesize": 32 * KIB, "hw.l2cachesize": 256 * KIB}
    assert from_sysctl(lambda name: older.get(name, 0)) == Caches(32 * KIB, 8, 256 * KIB)
    assert from_sysctl(lambda name: 0) == USUAL


def test_the_cpu_compiles_for_this_machines_caches_and_a_named_target_for_usual_ones(
        monkeypatch: pytest.MonkeyPatch) -> None:
    mine = Caches(16 * KIB, 4, 3 * MIB)
    monkeypatch.setattr(host, "host_caches", lambda: mine)
    monkeypatch.delenv("LAZYTEN_TARGET", raising=False)
    target = CpuRuntime().target
    assert (target.l1_bytes, target.l1_ways, target.l2_bytes) == mine
    monkeypatch.setenv("LAZYTEN_TARGET", "avx2")
    target = CpuRuntime().target
    assert (target.l1_bytes, target.l1_ways, target.l2_bytes) == USUAL


@pytest.mark.parametrize(("name", "vector_bytes", "registers"), [
    ("x86-64-v2", 16, 16), ("x86-64-v3", 32, 16), ("x86-64-v4", 64, 32), ("neon", 16, 32),
    ("riscv-v", 16, 32), ("wasm-simd", 16, 16)])
def test_a_named_target_is_the_same_on_every_machine(
        name: str, vector_bytes: int, registers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAZYTEN_TARGET", name)
    monkeypatch.setattr(host, "host_caches", lambda: Caches(16 * KIB, 4, 3 * MIB))
    runtime = CpuRuntime()
    target = runtime.target
    assert target == Target("cpu", vector_bytes, registers, *USUAL, threads=True,
                            adds_pairs=name.startswith("x86"),
                            masked_loads=name in ("x86-64-v3", "x86-64-v4"),
                            long_integers=name == "x86-64-v4",
                            fuses=name not in ("x86-64-v2", "wasm-simd"))
    x, y = (reshape(make(Op.BUFFER, dt.float32, (), Slot(i, 99)), (9, 11)) for i in (1, 2))
    program, = runtime.build([Kernel("sums", (reduce(make(Op.MUL, dt.float32, (x, y)), Op.ADD,
                                                     (1,)),), ((dt.float32, 99),) * 2)])
    values = np.arange(99, dtype=np.float32)  # vectors of any width run on any machine
    out, given = np.empty(9, np.float32), [runtime.alloc(36), runtime.alloc(396)]
    runtime.copy_in(given[1], values)
    program.launch([*given, given[1]])
    runtime.copy_out(out, given[0])
    np.testing.assert_array_equal(out, (values * values).reshape(9, 11).sum(1))


def test_the_machines_own_target_may_be_named_and_others_are_an_error(
        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAZYTEN_TARGET", raising=False)
    mine = CpuRuntime().target
    monkeypatch.setenv("LAZYTEN_TARGET", "host")
    assert CpuRuntime().target == mine
    monkeypatch.setenv("LAZYTEN_TARGET", "x86-64-v9")
    with pytest.raises(DeviceError, match=r"'x86-64-v9' is not a target; use one of x86-64-v2, .*"
                                          r"or host for this"):
        CpuRuntime()


def test_code_on_disk_is_kept_apart_by_cache_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAZYTEN_TARGET", raising=False)
    contexts = set()
    for caches in (USUAL, USUAL._replace(l1_bytes=48 * KIB), USUAL._replace(l1_ways=12),
                   USUAL._replace(l2_bytes=MIB)):
        monkeypatch.setattr(host, "host_caches", lambda caches=caches: caches)
        contexts.add(CpuRuntime().code.context)
    assert len(contexts) == 4


def test_this_machines_caches_are_found() -> None:
    caches = host_caches()
    assert 1 * KIB <= caches.l1_bytes <= caches.l2_bytes <= 64 * MIB
    assert 1 <= caches.l1_ways <= 64


@pytest.mark.parametrize(("rows", "missing"), [(4, []), (5, [8]), (6, [8]), (7, [8, 12])])
def test_rows_a_page_apart_stay_in_the_first_cache_up_to_half_its_ways(
        rows: int, missing: list[int]) -> None:
    step = make(Op.RANGE, dt.INDEX, (), Range((0,), rows, "loop"))
    access = Access({step: 4 * KIB}, {step: frozenset()}, 1.0, False, 1)
    caches = {8: Target(), 12: replace(Target(), l1_bytes=48 * KIB, l1_ways=12)}
    assert [ways for ways, target in caches.items() if access.misses(step, target)] == missing
