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
from typing import Any

import numpy as np
import pytest
from c_kernels import every_op, leaf
from golden_text import Golden
from graphs import SIZES, arrays, expressions
from hypothesis import given, settings
from hypothesis import strategies as st
from opencl_grid import GROUPS
from opencl_grid import NAME as GRID

import lazyten as lt
from lazyten import dtype as dt
from lazyten import ops
from lazyten.codegen.pipeline import generate
from lazyten.codegen.target import Target
from lazyten.device import canonical, executor
from lazyten.dtype import DType
from lazyten.errors import CompileError, DeviceError, DTypeError
from lazyten.kernel import Kernel
from lazyten.location import Location
from lazyten.node import cast, const, expand, make, reduce, reshape
from lazyten.ops import Op
from lazyten.runtimes import opencl_devices
from lazyten.runtimes.interpreter import evaluate
from lazyten.runtimes.opencl import OpenCLRuntime, gpu_capabilities
from lazyten.storage import Buffer

pytest.importorskip("pyopencl", reason="the extra lazyten[opencl] is not installed")

Array = np.ndarray[Any, Any]
DEVICES = ["opencl", GRID, GROUPS]
CPU = Target("opencl-cpu", 32, 16, threads=True, language="clang-opencl", most_lanes=16)
GPU = Target("opencl-gpu", 4, 64, threads=True, language="opencl", most_lanes=1, work_group=64,
             local_memory=32 << 10)


def run_all(device: str, kernels: list[Kernel], inputs: list[list[Array]]) -> list[list[Array]]:
    """Outputs of kernels on their inputs, as stored; all are one program."""
    runtime = executor(device)
    results = []
    for program, kernel, values in zip(runtime.build(kernels), kernels, inputs, strict=True):
        outs = [Buffer(device, o.dtype, o.numel) for o in kernel.outputs]
        ins = [Buffer.from_numpy(v, dtype, device)
               for v, (dtype, _) in zip(values, kernel.inputs, strict=True)]
        program.launch([b.handle for b in (*outs, *ins)])
        results.append([b.numpy() for b in outs])
    return results


# ---- every kind of kernel ------------------------------------------------------------------------

@st.composite
def kernels(draw: st.DrawFn, dtype: DType) -> tuple[Kernel, list[Array]]:
    """A random kernel and what it reads."""
    shapes = draw(st.lists(st.lists(SIZES, max_size=4).map(tuple), min_size=1, max_size=2))
    shapes = [s for s in shapes if 0 < np.prod(s) <= 2000] or [(3, 4)]
    values = [ops.encode(draw(arrays(dtype, s)), dtype) for s in shapes]
    node = draw(expressions(dtype, [leaf(1 + i, s, dtype) for i, s in enumerate(shapes)]))
    return Kernel("random", (node,), tuple((dtype, v.size) for v in values)), values


@pytest.mark.parametrize("on", DEVICES)
@pytest.mark.parametrize("dtype", dt.ALL, ids=lambda d: d.name)
@given(data=st.data())
@settings(max_examples=2)
def test_random_kernels_agree_with_the_interpreter(on: str, dtype: DType,
                                                   data: st.DataObject) -> None:
    drawn = data.draw(st.lists(kernels(dtype), min_size=12, max_size=12))
    drawn = [(kernel, values) for kernel, values in drawn if kernel.outputs[0].numel]
    found = run_all(on, [k for k, _ in drawn], [v for _, v in drawn])
    for (kernel, values), (got,) in zip(drawn, found, strict=True):
        node = kernel.outputs[0]
        stored = {1 + i: v.reshape(-1) for i, v in enumerate(values)}
        expected, = evaluate([node], stored)
        result = ops.decode(got, dtype).reshape(node.shape)
        exact = np.abs(expected) < 200
        np.testing.assert_array_equal(result[exact], expected[exact])
        np.testing.assert_allclose(result, expected, rtol=2.0**-6 if dtype.is_half else 2.0**-18)


def edges(dtype: DType, count: int) -> Array:
    """Values of a dtype, as stored: limits, zeros, NaN and random bits."""
    rng = np.random.default_rng(dtype.bits)
    if dtype is dt.bool_:
        return rng.random(count) < 0.5
    bits = rng.integers(0, 256, count * dtype.itemsize, dtype=np.uint8).view(dtype.numpy)
    if dtype.is_float:
        special = [0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -3.7, np.inf, -np.inf, np.nan, 1e-40, 7.0, 88.7]
        small = ops.encode(rng.normal(size=count // 2).astype(dtype.compute) * 20, dtype)
        bits[:count // 2] = small
    else:
        special = [0, 1, 2, 3, 7, 40, dtype.max, dtype.min, int(dtype.max) - 1]
        bits[:count // 2] = bits[:count // 2] % dtype.numpy.type(11)
    bits[:len(special)] = ops.encode(np.array(special, dtype.compute), dtype)
    return rng.permutation(bits)


@pytest.mark.parametrize("on", DEVICES)
@pytest.mark.parametrize("dtype", dt.ALL, ids=lambda d: d.name)
def test_every_op_gives_the_bits_that_it_gives_on_the_cpu(dtype: DType, on: str) -> None:
    """In vectors, and the last few elements beside them. Only a MULACC may round once or twice, and
    which NaN comes out is nobody's promise."""
    made = every_op(dtype, 250)
    inputs = [[np.roll(edges(d, size), 17 * i) for i, (d, size) in enumerate(k.inputs)]
              for k in made]
    here, there = run_all(on, made, inputs), run_all("cpu", made, inputs)
    for kernel, found, expected in zip(made, here, there, strict=True):
        for node, got, wanted in zip(kernel.outputs, found, expected, strict=True):
            a, b = ops.decode(got, node.dtype), ops.decode(wanted, node.dtype)
            same = (got == wanted) | (a != a) & (b != b)
            if node.op is Op.MULACC and node.dtype.is_float:
                with np.errstate(all="ignore"):
                    same |= np.abs(a - b) <= np.abs(b) * 1e-2
            assert same.all(), (node.op, node.dtype, a[~same][:5], b[~same][:5])


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
    with pytest.raises(DeviceError, match=r"'opencl:99': there is no such OpenCL device; there"):
        lt.zeros(1, device="opencl:99").numpy()


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
    stats = lt.memory_stats("opencl")
    assert (stats.in_use, stats.pooled) == (before, 0)


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
            made = gpu_capabilities(self.device)
            object.__setattr__(made, "dtypes", made.dtypes - {dt.float64})
            self.capabilities = made
    x = leaf(1, (4,), dt.float32)
    runtime = Single()
    with pytest.raises(DTypeError, match="has no float64"):
        runtime.build([Kernel("wide", (cast(x, dt.float64),), ((dt.float32, 4),))])
    with pytest.raises(DTypeError, match=r"kernel sine .*computes in float64, as sin"):
        runtime.build([Kernel("sine", (make(Op.SIN, dt.float32, (x,)),), ((dt.float32, 4),))])
    assert len(runtime.build([Kernel("sum", (make(Op.ADD, dt.float32, (x, x)),),
                                     ((dt.float32, 4),))])) == 1


LENET = "import lenet; trainer, _ = lenet.prepare(['--device', 'opencl', '--epochs', '1'" \
        "]); print(trainer.epoch(0, '').test_accuracy > 0.4)"


def test_lenet_trains_on_opencl() -> None:
    examples = Path(__file__).parents[1] / "examples"
    done = subprocess.run([sys.executable, "-c", LENET], cwd=examples, text=True,
                          capture_output=True, env=os.environ | {"PYTHONPATH": str(examples)})
    assert done.stdout == "True\n", done.stderr
