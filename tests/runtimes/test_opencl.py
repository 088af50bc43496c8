"""The opencl runtime and the C that it compiles, on PoCL: every kind of kernel, devices, errors.

Compiling is slow there, so many kernels are built as one program. `opencl-grid` is the same device
with kernels as a GPU gets them.
"""
from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from c_kernels import leaf
from example_counts import examples
from golden_text import Golden
from hypothesis import given
from hypothesis import strategies as st
from kernel_checks import check_every_op, check_random_kernels, run_all
from numpy.testing import assert_array_equal
from opencl_grid import GROUPS
from opencl_grid import NAME as GRID
from slow_rows import OF_EACH_KIND, slow_but

import lazyten as lt
from lazyten.codegen.pipeline import generate
from lazyten.codegen.targets.target import Target
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.ir.kernel import Kernel, structure
from lazyten.ir.node import cast, const, expand, make, reduce, reshape
from lazyten.ir.ops import Op
from lazyten.runtimes.code_cache import CodeCache
from lazyten.runtimes.contract import LoadedProgram
from lazyten.runtimes.opencl import devices as opencl_devices
from lazyten.runtimes.opencl.opencl import OpenCLFunction, OpenCLRuntime
from lazyten.runtimes.opencl.targets import gpu_target
from lazyten.storage.device import executor
from lazyten.storage.placement import canonical
from lazyten.storage.storage import Buffer
from lazyten.support.disk_cache import DiskCache
from lazyten.support.errors import CompileError, DeviceError, DTypeError
from lazyten.support.location import Location

pytestmark = pytest.mark.opencl

Array = np.ndarray[Any, Any]
DEVICES = ["opencl", GRID, GROUPS]
CPU = Target("opencl-cpu", 32, 16, threads=True, language="clang-opencl", most_lanes=16)
GPU = Target("opencl-gpu", 4, 64, threads=True, language="opencl", most_lanes=1, work_group=64,
             local_memory=32 << 10)


# ---- every kind of kernel ------------------------------------------------------------------------

@pytest.mark.few(1)
@pytest.mark.parametrize("on", DEVICES)
@pytest.mark.parametrize("dtype", slow_but(dt.ARITHMETIC, dt.float32, dt.int64),
                         ids=lambda d: d.name)
@given(data=st.data())
@examples(2)
def test_random_kernels_agree_with_the_interpreter(on: str, dtype: DType,
                                                   data: st.DataObject) -> None:
    check_random_kernels(on, dtype, data)


@pytest.mark.parametrize("on", DEVICES)
@pytest.mark.parametrize("size", (1, 3, 40))
@pytest.mark.parametrize("dtype", (lt.int8, lt.int16, lt.int32, lt.uint32, lt.int64, lt.uint64),
                         ids=lambda d: d.name)
def test_the_smaller_and_the_greater_of_a_complement(dtype: DType, size: int, on: str) -> None:
    """What one compiler takes together wrongly: a complement that is compared and then chosen."""
    def pairs(a: Any, b: Any) -> list[tuple[Any, Any]]:
        return [(~a, b), (b, ~a), (~a, ~b), (~a, a), (-a, ~b), (-a - 1, -b - 1)]

    kind = np.dtype(dtype.name).type
    for number, other in ((28, 28), (-5, 3), (100, -120), (-1, 0), (0, -1)):
        given = [np.full(size, n).astype(kind) for n in (number, other)]
        a, b = (lt.tensor(array, device=on) for array in given)
        for (x, y), wanted in zip(pairs(a, b), pairs(*given), strict=True):
            numbers = [int(array[0]) for array in wanted]
            assert lt.where(x < y, x, y).tolist() == [min(numbers)] * size
            assert lt.minimum(x, y).tolist() == [min(numbers)] * size
            assert lt.where(x < y, y, x).tolist() == [max(numbers)] * size
            assert lt.maximum(x, y).tolist() == [max(numbers)] * size


@pytest.mark.few(2)
@pytest.mark.parametrize("on", DEVICES)
@pytest.mark.parametrize("dtype", slow_but(dt.ALL, *OF_EACH_KIND), ids=lambda d: d.name)
def test_every_op_gives_the_bits_that_it_gives_on_the_cpu(dtype: DType, on: str) -> None:
    check_every_op(on, dtype)


@pytest.mark.few(1)
@pytest.mark.parametrize("on", DEVICES)
def test_products_convolutions_and_transposes_agree_with_the_interpreter(on: str) -> None:
    """Register tiles, packed operands, masked tails, loads along other axes."""
    def results(where: str) -> list[lt.Tensor]:
        r = np.random.default_rng(1)
        a, b = (lt.tensor(r.normal(size=s).astype(np.float32), device=where)
                for s in ((65, 130), (130, 47)))
        x = lt.tensor(r.normal(size=(3, 4, 13, 12)).astype(np.float32), device=where)
        w = lt.tensor(r.normal(size=(5, 4, 3, 3)).astype(np.float32), device=where)
        wide = lt.tensor(r.normal(size=(300, 257)).astype(np.float32), device=where)
        return [a @ b, (b.T @ a.T).contiguous(), wide.T.contiguous() + 1, wide.softmax(1),
                lt.nn.functional.conv2d(x, w, padding=1),
                lt.nn.functional.max_pool2d(x, 2), wide.cumsum(1), wide.sum(), wide.max(0).values,
                wide.argmax(1)]
    here, there = results(on), results("interpreter")
    lt.realize(*here)
    for number, (got, wanted) in enumerate(zip(here, there, strict=True)):
        np.testing.assert_allclose(got.numpy(), wanted.numpy(), rtol=2e-4, atol=2e-4,
                                   err_msg=str(number))


@pytest.mark.parametrize("on", DEVICES)
def test_work_items_share_a_large_product(on: str, capsys: pytest.CaptureFixture[str],
                                          monkeypatch: pytest.MonkeyPatch) -> None:
    """257 rows leave a last chunk, or group, that is not full."""
    r = np.random.default_rng(2)
    a, b = (r.normal(size=s).astype(np.float32) for s in ((257, 300), (300, 401)))
    monkeypatch.setenv("DEBUG", "3")
    product = (lt.tensor(a, device=on) @ lt.tensor(b, device=on)).numpy()
    np.testing.assert_allclose(product, a.astype(np.float64) @ b, rtol=1e-4, atol=1e-4)
    assert " parallel " in capsys.readouterr().out


@pytest.mark.parametrize("on", DEVICES)
def test_gather_and_scatter_stay_inside_and_agree_with_the_interpreter(on: str) -> None:
    r = np.random.default_rng(1)
    table, rows = r.normal(size=(50, 6)).astype(np.float32), r.integers(0, 50, 400)

    def results(where: str) -> list[lt.Tensor]:
        t = lt.tensor(table, device=where, requires_grad=True)
        i = lt.tensor(rows, device=where)
        (t[i] * 2).sum().backward()
        assert t.grad is not None
        return [t[i], t.grad, lt.zeros(50, 6, device=where).index_add(0, i, t.detach()[i])]
    for got, wanted in zip(results(on), results("interpreter"), strict=True):
        np.testing.assert_allclose(got.numpy(), wanted.numpy(), rtol=1e-5)


def test_a_kernel_may_be_called_like_a_function_of_the_language() -> None:
    node = make(Op.ADD, dt.float32, (leaf(1, (4,), dt.float32), leaf(1, (4,), dt.float32)))
    names = ["exp", "float", "kernel", "x.y"]
    made = [Kernel(name, (node,), ((dt.float32, 4),)) for name in names]
    values = np.arange(4, dtype=np.float32)
    for result, in run_all("opencl", made, [[values]] * 4):
        np.testing.assert_array_equal(result, values * 2)


# ---- text ----------------------------------------------------------------------------------------

def row_sums() -> Kernel:
    """out[i] = sum over j of max(a[i, j], 0) * b[j]; 4 rows of 20."""
    a = leaf(1, (4, 20), dt.float32)
    b = expand(reshape(leaf(2, (20,), dt.float32), (1, 20)), (4, 20))
    zero = expand(reshape(const(0.0, dt.float32), (1, 1)), (4, 20))
    product = make(Op.MUL, dt.float32, (make(Op.MAX, dt.float32, (a, zero)), b))
    return Kernel("row_sums", (reduce(product, Op.ADD, (1,)),),
                  ((dt.float32, 80), (dt.float32, 20)))


@pytest.mark.parametrize("target", [CPU, GPU], ids=lambda t: t.name)
def test_opencl_kernel_text(target: Target, golden: Golden) -> None:
    made = generate(row_sums(), target)
    text = "\n".join([made.loops, "", *made.declares, made.source, ""])
    assert text == golden


def test_debug_shows_the_source_and_the_devices_time(capsys: pytest.CaptureFixture[str],
                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEBUG", "4")
    (lt.tensor([1.0, 2.0], device="opencl") * 3).numpy()
    printed = capsys.readouterr().out
    assert "kernel void kernel_map_2(global float *restrict p0," in printed
    time = re.search(r"^map_2 +float32\[2\] +([\d.]+) ", printed, re.MULTILINE)
    assert time is not None
    assert 0 < float(time[1]) < 1e6


# ---- devices -------------------------------------------------------------------------------------

def test_a_device_is_found_by_number_and_by_name() -> None:
    number = int(canonical("opencl:portable computing").partition(":")[2] or 0)
    device = opencl_devices.devices()[number]
    assert "Portable Computing Language" in opencl_devices.describe(device)
    assert canonical("OpenCL:0") == canonical("opencl") == "opencl"
    assert canonical(f"opencl:{device.name.strip()}") == canonical(f"opencl:{number}")


def test_a_device_that_is_not_there_lists_those_that_are() -> None:
    with pytest.raises(DeviceError, match=r"is called so; there are: 'opencl:0' is"):
        canonical("opencl:voodoo")
    with pytest.raises(DeviceError, match=r"'opencl:60': there is no such OpenCL device; there"):
        lt.zeros(1, device="opencl:60").numpy()


@pytest.fixture
def fresh_lists() -> Any:
    """The list of devices is made anew, here and afterwards."""
    opencl_devices.devices.cache_clear()
    yield
    opencl_devices.devices.cache_clear()


def test_without_drivers_the_error_says_what_to_install(fresh_lists: None,
                                                        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opencl_devices.package(), "get_platforms", list)
    with pytest.raises(DeviceError, match=r"no OpenCL device is installed: pip install 'lazyten\["):
        OpenCLRuntime(0)


def test_without_pyopencl_the_error_says_what_to_install(fresh_lists: None,
                                                         monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opencl_devices, "installed", None)
    with pytest.raises(DeviceError, match=r"needs the package pyopencl.*'lazyten\[opencl\]'"):
        OpenCLRuntime(0)


def test_memory_is_counted_and_given_back() -> None:
    gc.collect()
    before = lt.memory_stats("opencl").in_use
    x = lt.zeros(1 << 20, device="opencl").realize()
    assert lt.memory_stats("opencl").in_use == before + (4 << 20)
    del x
    gc.collect()
    lt.empty_cache("opencl")
    assert lt.memory_stats("opencl").in_use == before


def test_an_empty_cache_leaves_nothing_that_is_free_as_a_whole() -> None:
    runtime = OpenCLRuntime()
    handles = [runtime.alloc(n) for n in (100, 5000, 3 << 20)]
    for handle in handles:
        runtime.free(handle)
    assert runtime.memory_stats().pooled >= 3 << 20
    runtime.empty_cache()
    assert (runtime.memory_stats().in_use, runtime.memory_stats().pooled) == (0, 0)


def test_a_captured_program_sets_only_arguments_that_are_others(
        monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = opencl_devices.package().Kernel
    numbers: list[int] = []
    set_arg = kernel.set_arg

    def counted(self: Any, number: int, value: Any) -> None:
        numbers.append(number)
        set_arg(self, number, value)
    monkeypatch.setattr(kernel, "set_arg", counted)

    @lt.jit
    def step(x: lt.Tensor, weight: lt.Tensor) -> lt.Tensor:
        return ((x @ weight).contiguous() @ weight).sum(0)

    x, y, weight = (lt.rand(8, 8, device="opencl").realize() for _ in range(3))
    wanted = {id(a): (a.numpy() @ weight.numpy() @ weight.numpy()).sum(0) for a in (x, y)}
    step(x, weight)
    set_at_first = len(numbers)
    for operand, most in [(x, set_at_first), (x, 0), (x, 0), (y, 1), (y, 0), (x, 1)]:
        numbers.clear()
        np.testing.assert_allclose(step(operand, weight).numpy(), wanted[id(operand)], rtol=1e-5)
        assert len(numbers) <= most
    executor("opencl").empty_cache()
    numbers.clear()
    np.testing.assert_allclose(step(x, weight).numpy(), wanted[id(x)], rtol=1e-5)
    assert len(numbers) == set_at_first


def test_programs_are_kept_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.arange(80, dtype=np.float32), np.arange(20, dtype=np.float32)
    expected = np.maximum(values[0].reshape(4, 20), 0) @ values[1]
    kernel = row_sums()
    built = []
    for compiles in (True, False, True):
        runtime = OpenCLRuntime()
        runtime.code = CodeCache("test", DiskCache(tmp_path))
        if not compiles:
            monkeypatch.setattr(runtime.builder, "compiled", None)  # nothing is compiled
        program, = runtime.build([kernel])
        handles = [runtime.alloc(n) for n in (16, 320, 80)]
        for handle, array in zip(handles[1:], values, strict=True):
            runtime.copy_in(handle, array)
        program.launch(handles)
        out = np.empty(4, np.float32)
        runtime.copy_out(out, handles[0])
        np.testing.assert_array_equal(out, expected)
        built.append(program)
        if not compiles:
            entry, = tmp_path.glob("*.entry")
            entry.write_bytes(entry.read_bytes()[:-1] + b"x")  # is not to be trusted any more
            again = OpenCLRuntime()
            again.code = runtime.code
            monkeypatch.setattr(again.builder, "compiled", None)
            with pytest.raises(TypeError, match="not callable"):
                again.build([kernel])


def test_a_binary_that_the_driver_refuses_is_compiled_anew(tmp_path: Path) -> None:
    runtime = OpenCLRuntime()
    runtime.code = CodeCache("test", DiskCache(tmp_path))
    given = {structure(k): k for k in [row_sums()]}
    runtime.code.translate_together(given, runtime.generate, lambda kernels: b"no binary")
    program, = runtime.build(list(given.values()))
    assert program.name == "row_sums"


def test_no_binary_is_asked_for_that_nothing_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """For one PoCL compiles all kernels of a program for each way to launch them."""
    program = pytest.importorskip("pyopencl").Program
    asked: list[str] = []
    found = program.get_info

    def noted(self: Any, what: int) -> Any:
        asked.append(str(what))
        return found(self, what)
    monkeypatch.setattr(program, "get_info", noted)
    runtime = OpenCLRuntime()
    assert runtime.code.disk is None
    assert runtime.build([row_sums()])[0].name == "row_sums"
    assert str(opencl_devices.package().program_info.BINARIES) not in asked


def test_out_of_memory_names_the_value_and_the_device() -> None:
    with pytest.raises(DeviceError, match=r"cannot store .*float32.*opencl: cannot allocate.*has "
                                          r"[\d,]+ bytes of memory"):
        (lt.zeros(1 << 40, device="opencl") + 1).realize()


def test_what_the_compiler_refuses_names_the_kernel_and_keeps_the_source() -> None:
    runtime = executor("opencl")
    assert isinstance(runtime, OpenCLRuntime)
    good, bad = (generate(Kernel(name, row_sums().outputs, row_sums().inputs,
                                 Location("train.py", 12)), CPU) for name in ("good", "bad"))
    object.__setattr__(bad, "source", bad.source + "\n!")
    with pytest.raises(CompileError, match=r"kernel bad \(from train.py:12\).*its source is in "
                                           r".*\.cl") as raised:
        runtime.compile([good, bad])
    path = Path(re.search(r"is in (\S+\.cl)", str(raised.value))[1])  # type: ignore[index]
    assert path.read_text().endswith("!\n")
    path.unlink()


def test_a_device_without_float64_refuses_what_needs_it() -> None:
    class Single(OpenCLRuntime):
        def __init__(self) -> None:
            super().__init__()
            made = gpu_target(self.device)
            object.__setattr__(made, "dtypes", made.dtypes - {dt.float64})
            self.target = made
    x = leaf(1, (4,), dt.float32)
    runtime = Single()
    with pytest.raises(DTypeError, match="has no float64"):
        runtime.build([Kernel("wide", (cast(x, dt.float64),), ((dt.float32, 4),))])
    sine = Kernel("sine", (make(Op.SIN, dt.float32, (x,)), make(Op.POW, dt.float32, (x, x))),
                  ((dt.float32, 4),))
    assert len(runtime.build([sine])) == 1
    total = make(Op.REDUCE, dt.int32, (leaf(1, (4, 4), dt.int32),), (Op.ADD, (0,)))
    with pytest.raises(DTypeError, match=r"total .*as checks of integer sums"):
        runtime.build([Kernel("total", (total,), ((dt.int32, 16),), checks=("overflow",))])


def test_groups_are_as_large_as_the_device_lets_up_to_256() -> None:
    def target(most: int, along: int) -> tuple[int, int]:
        made = gpu_target(SimpleNamespace(
            max_work_group_size=most, max_work_item_sizes=[along, 64, 64], local_mem_size=32 << 10,
            double_fp_config=0, extensions=""))
        return made.work_group, made.local_memory
    assert target(1024, 1024) == (256, 32 << 10)
    assert target(128, 1024)[0] == target(1024, 128)[0] == 128


def test_a_group_has_no_more_items_than_a_kernels_registers_let(
        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OpenCLFunction, "_most_items", lambda self: 5)
    x = leaf(1, (12,), dt.float32)
    program, = executor(GROUPS).build([Kernel("few_registers", (make(Op.ADD, dt.float32, (x, x)),),
                                              ((dt.float32, 12),))])
    assert isinstance(program, LoadedProgram)
    assert [f.sizes for f in program.functions] == [((15,), (5,))]
    out, values = Buffer(GROUPS, dt.float32, 12), np.arange(12, dtype=np.float32)
    program.launch([out.handle, Buffer.from_numpy(values, dt.float32, GROUPS).handle])
    assert_array_equal(out.numpy(), values * 2)


LENET = "import lenet; trainer, _ = lenet.prepare(['--device', 'opencl', '--epochs', '1'" \
        "]); print(trainer.epoch(0, '').test_accuracy > 0.4)"


@pytest.mark.slow
def test_lenet_trains_on_opencl() -> None:
    examples = Path(__file__).parents[2] / "examples"
    done = subprocess.run([sys.executable, "-c", LENET], cwd=examples, text=True,
                          capture_output=True, env=os.environ | {"PYTHONPATH": str(examples)})
    assert done.stdout == "True\n", done.stderr


@pytest.mark.parametrize("on", DEVICES)
def test_arrays_are_copied_to_memory_that_is_not_the_hosts(on: str) -> None:
    array = np.ones(3)
    x = lt.as_tensor(array, device=on)
    given = np.from_dlpack(x)
    array[:] = 5
    x.add_(1)
    assert x.tolist() == [2, 2, 2] and given.tolist() == [1, 1, 1]
    with pytest.raises(lt.ArgumentError, match="host's memory"):
        np.asarray(x, copy=False)


def test_a_home_that_cannot_be_written_is_none_to_opencl(tmp_path: Path) -> None:
    """pyopencl would have a database there, with nothing in it that is needed."""
    (tmp_path / "home").write_text("no folder")
    homes = dict.fromkeys(("HOME", "XDG_CACHE_HOME"), str(tmp_path / "home"))
    program = "import lazyten as lt, os; print(lt.ones(3, device='opencl').add(1).tolist(), " \
        "'PYOPENCL_NO_CACHE' in os.environ)"
    alone = {name: text for name, text in os.environ.items() if name != "PYOPENCL_NO_CACHE"}
    done = subprocess.run([sys.executable, "-c", program], text=True, capture_output=True,
                          env=alone | homes)
    assert done.stdout == "[2.0, 2.0, 2.0] False\n", done.stderr
