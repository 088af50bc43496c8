"""What every runtime promises, and what the cpu runtime adds to it."""
from __future__ import annotations

import errno
import gc
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cuda_on_cpu
import numpy as np
import opencl_grid
import pytest
from numpy.testing import assert_array_equal

from lazyten.codegen.targets.generated import Generated
from lazyten.codegen.targets.target import Target
from lazyten.devices.executor import Executor
from lazyten.devices.program import Program
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.ir.kernel import Kernel, Slot
from lazyten.ir.node import Node, const, expand, make, reshape
from lazyten.ir.ops import Op
from lazyten.runtimes.contract import refusal, with_distinct_names
from lazyten.runtimes.cpu.cpu import CpuRuntime
from lazyten.runtimes.host.host import target_of
from lazyten.storage.device import available, executor
from lazyten.storage.placement import canonical
from lazyten.storage.storage import Buffer
from lazyten.support.errors import CompileError, DeviceError, DTypeError
from lazyten.support.location import Location

Array = np.ndarray[Any, Any]


def source(slot: int, size: int, dtype: DType = dt.float32) -> Node:
    return make(Op.BUFFER, dtype, (), Slot(slot, size))


def scale(by: float, size: int, name: str = "scale", dtype: DType = dt.float32) -> Kernel:
    """out[i] = in[i] * by"""
    factor = expand(reshape(const(by, dtype), (1,)), (size,))
    product = make(Op.MUL, dtype, (source(1, size, dtype), factor))
    return Kernel(name, (product,), ((dtype, size),), Location("/home/user/train.py", 12))


def run(device: str, program: Program, values: Array, dtype: DType = dt.float32) -> Array:
    """A program's output, of as many elements as the input has."""
    given, out = Buffer.from_numpy(values, dtype, device), Buffer(device, dtype, values.size)
    program.launch([out.handle, given.handle])
    return out.numpy()


# ---- memory --------------------------------------------------------------------------------------

@pytest.mark.parametrize("size", [0, 1, 7, 1000, 300_000])
@pytest.mark.parametrize("dtype", dt.ALL, ids=lambda d: d.name)
def test_copying_in_and_out_keeps_every_byte(device: str, dtype: DType, size: int) -> None:
    nbytes = size * dtype.itemsize
    values = np.random.default_rng(size).integers(0, 256, nbytes).astype(np.uint8)
    values = (values % 2 if dtype is dt.bool_ else values).view(dtype.numpy)
    assert_array_equal(Buffer.from_numpy(values, dtype, device).numpy().view(np.uint8),
                       values.view(np.uint8))


def test_a_copy_may_be_shorter_than_the_memory(device: str) -> None:
    runtime = executor(device)
    handle = runtime.alloc(100)
    runtime.copy_in(handle, np.arange(100, dtype=np.uint8))
    runtime.copy_in(handle, np.full(3, 255, np.uint8))
    out = np.empty(5, np.uint8)
    runtime.copy_out(out, handle)
    assert out.tolist() == [255, 255, 255, 3, 4]
    runtime.free(handle)


def test_an_absurd_allocation_is_a_device_error(device: str) -> None:
    with pytest.raises(DeviceError, match=f"{device}: cannot allocate {1 << 60:,} bytes"):
        executor(device).alloc(1 << 60)


def test_a_dead_buffer_gives_its_memory_back() -> None:
    runtime = executor("cpu")
    assert isinstance(runtime, CpuRuntime)
    gc.collect()
    before = runtime.memory_stats().in_use
    buffer = Buffer("cpu", dt.float32, 1 << 20)
    assert runtime.memory_stats().in_use == before + (4 << 20)
    del buffer
    assert runtime.memory_stats().in_use == before


# ---- programs ------------------------------------------------------------------------------------

@pytest.mark.few(1)
def test_many_threads_may_launch_one_program_at_once(device: str) -> None:
    size, rounds = 5000, 100
    program, = executor(device).build([scale(3.0, size)])
    wrong: list[int] = []
    start = threading.Barrier(8)

    def work(number: int) -> None:
        values = np.arange(size, dtype=np.float32) + number
        given, out = Buffer.from_numpy(values, dt.float32, device), Buffer(device, dt.float32, size)
        start.wait()
        for _ in range(rounds):
            executor(device).copy_in(out.handle, np.zeros(size, np.float32))
            program.launch([out.handle, given.handle])
            if not np.array_equal(out.numpy(), values * 3):
                wrong.append(number)
    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.few(1)
def test_a_program_outlives_the_others_of_its_build(device: str) -> None:
    values = np.arange(10, dtype=np.float32)
    programs = executor(device).build([scale(float(i), 10, f"times_{i}") for i in range(4)])
    last = programs.pop()
    del programs
    for _ in range(3):  # other engines come and go
        executor(device).build([scale(9.0, 10, "times_3")])
        gc.collect()
    assert_array_equal(run(device, last, values), values * 3)


def test_kernels_of_one_name_are_told_apart(device: str) -> None:
    values = np.arange(10, dtype=np.float32)
    programs = executor(device).build([scale(float(i), 10) for i in range(3)])
    for i, program in enumerate(programs):
        assert_array_equal(run(device, program, values), values * i)


def test_a_numbered_name_is_not_given_twice() -> None:
    kernels = [scale(1.0, 4, name) for name in ("a", "a_2", "a", "a", "b")]
    assert [k.name for k in with_distinct_names(kernels)] == ["a", "a_2", "a_3", "a_4", "b"]


def test_building_nothing_gives_no_program(device: str) -> None:
    assert executor(device).build([]) == []


def test_programs_show_their_source_assembly_and_loops() -> None:
    program, = executor("cpu").build([scale(3.0, 1000)])
    assert program.name == "scale"
    assert program.source.startswith("define void @scale(ptr")
    first, *rest = program.assembly().splitlines()
    assert first == "scale:"
    assert any("ret" in line for line in rest)
    assert not any(line.startswith("\t.") for line in rest)
    assert "i0" in program.describe()


# ---- what goes wrong -----------------------------------------------------------------------------

GOOD = Generated("good", "define void @good(ptr %args) {\n  ret void\n}", (), "", entries=("good",))


@pytest.mark.parametrize(("body", "message"), [
    ("  %x = nonsense i32 1\n  ret void", "expected instruction opcode"),
    ("  %x = add i32 1, 2.5\n  ret void", "floating point constant invalid for type"),
    ("  call void @missing()\n  ret void", "undefined value '@missing'"),
    ("  br label %a\nb:\n  br label %a\na:\n  %x = phi i32 [1, %b]\n  ret void", "PHI"),
])
def test_text_that_llvm_refuses_names_the_kernel_and_the_users_line(
        body: str, message: str) -> None:
    bad = Generated("broken", f"define void @broken(ptr %args) {{\n{body}\n}}", (), "",
                    Location("/home/user/train.py", 12))
    with pytest.raises(CompileError) as raised:
        CpuRuntime().compile([GOOD, bad])
    assert "kernel broken (from train.py:12)" in str(raised.value)
    assert message in str(raised.value)


def test_a_program_in_use_serves_equal_kernels_again() -> None:
    runtime = CpuRuntime()
    first, second = runtime.build([scale(2.0, 4), scale(3.0, 4, "other")])
    again, fresh = runtime.build([scale(3.0, 4, "other"), scale(2.5, 4)])
    assert again is second
    assert fresh is not first


def test_an_element_type_that_a_device_lacks_names_the_users_line() -> None:
    class Narrow(CpuRuntime):
        def __init__(self) -> None:
            super().__init__()
            self.target = Target("narrow", dtypes=frozenset({dt.float32}))
    runtime = Narrow()
    assert len(runtime.build([scale(2.0, 4)])) == 1
    with pytest.raises(DTypeError, match=r"'narrow' has no float64.*scale \(train.py:12\)"):
        runtime.build([scale(2.0, 4, dtype=dt.float64)])


def test_an_unknown_device_lists_what_there_is() -> None:
    with pytest.raises(DeviceError, match=r"no device 'gpu9'.*one of cpu, interpreter"):
        canonical("gpu9")


@pytest.mark.parametrize("name", ["cpu", "CPU", " cpu:0", "Cpu:00"])
def test_device_zero_is_the_device(name: str) -> None:
    assert canonical(name) == "cpu"


def test_numbered_devices_have_memory_of_their_own() -> None:
    assert canonical("CPU:1") == "cpu:1"
    assert executor("cpu:1") is executor("cpu:1") is not executor("cpu")
    with pytest.raises(DeviceError, match=r"'cpu:x': what follows the colon is a number"):
        canonical("cpu:x")


# ---- the host ------------------------------------------------------------------------------------

@pytest.mark.parametrize(("features", "machine", "expected"), [
    ({"sse2": True, "avx": True, "avx2": True, "avx512f": True}, "x86_64", (64, 32)),
    ({"sse2": True, "avx": True, "avx2": True, "avx512f": False}, "AMD64", (32, 16)),
    ({"sse2": True, "avx": True}, "x86_64", (32, 16)),
    ({"sse2": True}, "x86_64", (16, 16)),
    ({}, "x86_64", (16, 16)),
    ({}, "arm64", (16, 32)),
    ({"neon": True}, "aarch64", (16, 32)),
    ({}, "riscv64", (16, 16)),
])
def test_the_vector_unit_follows_from_the_processors_features(
        features: dict[str, bool], machine: str, expected: tuple[int, int]) -> None:
    target = target_of(features, machine)
    assert (target.vector_bytes, target.vector_registers) == expected


def test_float16_is_converted_by_instructions_where_there_are_any() -> None:
    with_them, without = (target_of({"avx2": True, "f16c": there}, "x86_64").halves
                          for there in (True, False))
    assert with_them.converts(dt.float16) and not with_them.converts(dt.bfloat16)
    assert not without.converts(dt.float16)


def test_gathers_are_used_where_they_are_known_to_be_fast() -> None:
    assert [target_of({"avx512f": True, "amx-tile": there}, "x86_64").gathers
            for there in (True, False)] == [True, False]


# ---- a runtime from another package --------------------------------------------------------------

TOY = '''
"""A device written against the public contract alone."""
import ctypes
import llvmlite.binding as llvm
import numpy as np
from lazyten.codegen.targets.target import Target
from lazyten.runtimes.contract import Runtime
from lazyten.storage.device import (  # as runtimes written before do
    Argument, AtSize, AtSizes, Executor, Handle, Kept, Launch, Limit, MemoryStats, Program, in_slot)

llvm.initialize_native_target()
llvm.initialize_native_asmprinter()


class ToyRuntime(Runtime):
    contract = 2
    target = Target("toy", vector_bytes=16, vector_registers=8)
    launches = 0

    def alloc(self, nbytes):
        memory = np.empty(nbytes + 128, np.uint8)
        return memory[-memory.ctypes.data % 64:]

    def free(self, handle):
        pass

    def copy_in(self, handle, source):
        handle[:source.nbytes] = source.view(np.uint8)

    def copy_out(self, target, handle):
        target.view(np.uint8)[:] = handle[:target.nbytes]

    def synchronize(self):
        pass

    def compile(self, kernels):
        declares = {line for kernel in kernels for line in kernel.declares}
        return "\\n".join([*declares, *(kernel.source for kernel in kernels)])

    def load(self, compiled, names):
        machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(compiled), machine)
        return [(engine, engine.get_function_address(name)) for name in names]

    def launch(self, function, buffers):
        ToyRuntime.launches += 1
        table = (ctypes.c_void_p * len(buffers))(*[b.ctypes.data for b in buffers])
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(function[1])(ctypes.addressof(table))
'''
USE = '''
import numpy as np
import toy_runtime
from lazyten.ir import dtype as dt
from lazyten.storage.device import available
from lazyten.storage.placement import default_device
from lazyten.ir.node import elementwise, reduce
from lazyten.ir.ops import Op
from lazyten.execution.realization import realize
from lazyten.storage.storage import Buffer, Storage

device = default_device()
x = Buffer.from_numpy(np.arange(12, dtype=np.float32), dt.float32, device).node((3, 4))
storage = Storage(reduce(elementwise(Op.MUL, x, x), Op.ADD, [1]), device)
realize([storage])
print(device, available(), storage.read().ravel().tolist(), toy_runtime.ToyRuntime.launches > 0)
'''


@pytest.mark.slow
def test_a_runtime_of_another_package_is_found_and_runs_kernels(tmp_path: Path) -> None:
    info = tmp_path / "toy-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[lazyten.runtimes]\ntoy = toy_runtime:ToyRuntime\n")
    (tmp_path / "toy_runtime.py").write_text(TOY)
    env = os.environ | {"DEVICE": "TOY", "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", USE], env=env, text=True, capture_output=True)
    assert done.stderr == ""
    ours = (*opencl_grid.NAMES, cuda_on_cpu.NAME)
    names = (*(n for n in available() if n not in ours), "toy")
    assert done.stdout == f"toy {names} [14.0, 126.0, 366.0] True\n"


def test_a_runtime_that_cannot_start_says_why_and_what_else_there_is(
        monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Executor, index: int = 0) -> None:
        raise OSError("no such hardware")
    monkeypatch.setattr(CpuRuntime, "__init__", fail)
    with pytest.raises(DeviceError, match=r"'cpu:7' cannot be used here: no such hardware.*"
                                          r"installed: interpreter"):
        executor("cpu:7")


def test_a_compilers_error_is_said_where_its_kernel_cannot_be_kept(
        monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr(tempfile, "NamedTemporaryFile", full)
    kernel: Any = SimpleNamespace(name="map_3", where="train.py:12")
    error = refusal("the compiler", kernel, "text", ".cl", ValueError("nonsense"))
    assert str(error) == ("the compiler refuses kernel map_3 (from train.py:12); its source could "
                          "not be kept (No space left on device): nonsense")
