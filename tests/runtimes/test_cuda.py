"""The cuda runtime: memory, graphs, code and errors, on the driver for tests (cuda_on_cpu.py)."""
from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cuda_on_cpu
import numpy as np
import nvrtc
import pytest
from c_kernels import leaf
from cuda_on_cpu import NAME, ORDERS
from kernel_checks import values
from numpy.testing import assert_allclose, assert_array_equal
from tensor_core_kernels import product

import lazyten as lt
from lazyten.codegen.targets.generated import Generated
from lazyten.devices.program import Argument
from lazyten.execution.plans import making
from lazyten.ir import dtype as dt
from lazyten.ir.kernel import Given, Kernel
from lazyten.ir.node import make
from lazyten.ir.ops import Op
from lazyten.runtimes.code_cache import CodeCache
from lazyten.storage.device import executor
from lazyten.storage.placement import canonical
from lazyten.support.errors import CompileError, DeviceError
from lazyten.support.location import Location

pytestmark = pytest.mark.skipif(cuda_on_cpu.missing() is not None,
                                reason=cuda_on_cpu.missing() or "")
needs_nvrtc = pytest.mark.skipif(nvrtc.library() is None,
                                 reason="the package nvidia-cuda-nvrtc is not installed")

Array = np.ndarray[Any, Any]
MIB = 1 << 20


@pytest.fixture(autouse=True)
def repaired() -> Iterator[None]:
    """Each test leaves the driver as it was."""
    yield
    driver = cuda_on_cpu.driver()
    for act in (driver.fake_set_order, driver.fake_set_memory, driver.fake_set_version,
                driver.fake_set_devices):
        act({"fake_set_memory": 4 << 30, "fake_set_version": 13020, "fake_set_devices": 2}.get(
            act.__name__, 0))
    driver.fake_repair()


def counts() -> tuple[int, ...]:
    """Kernels that ran, graphs there are, graphs launched, modules loaded."""
    return tuple(cuda_on_cpu.driver().fake_count(i) for i in range(4))


# ---- memory and copies ---------------------------------------------------------------------------

@pytest.mark.slow
def test_a_driver_without_memory_left_gets_back_what_is_kept() -> None:
    runtime = executor(NAME)
    runtime.empty_cache()
    used = cuda_on_cpu.driver().fake_used()
    cuda_on_cpu.driver().fake_set_memory(used + 20 * MIB)
    x = lt.ones(4 * MIB, device=NAME).realize()
    del x
    assert cuda_on_cpu.driver().fake_used() == used + 16 * MIB
    y = lt.ones(18 * MIB // 4, device=NAME).realize()
    assert cuda_on_cpu.driver().fake_used() == used + 18 * MIB
    with pytest.raises(DeviceError, match=r"cannot store float32\[2097152\], 8,388,608 bytes.*"
                                          r"cuda-on-cpu: cannot allocate.*Processor 0 has"):
        (y[:2 * MIB] + 1).realize()
    del y
    gc.collect()
    runtime.empty_cache()
    assert cuda_on_cpu.driver().fake_used() == used


def test_freed_memory_serves_again_without_the_driver() -> None:
    runtime = executor(NAME)
    handle = runtime.alloc(3 * MIB)
    used = cuda_on_cpu.driver().fake_used()
    runtime.free(handle)
    assert runtime.alloc(3 * MIB - 5000) == handle
    assert cuda_on_cpu.driver().fake_used() == used
    runtime.free(handle)


# ---- graphs --------------------------------------------------------------------------------------

def test_a_captured_step_is_one_graph_launch() -> None:
    step = lt.jit(lambda x: ((x @ x.T).softmax(1) @ x).sum(0).cumsum(0))
    inputs = [lt.tensor(values(9, 5, seed=i), device=NAME) for i in range(2)]
    wanted = [((lambda e: e / e.sum(1, keepdims=True))(np.exp(v @ v.T)) @ v).sum(0).cumsum()
              for v in (values(9, 5, seed=i) for i in range(2))]
    for order in ORDERS:
        cuda_on_cpu.run_in_order(order)
        for _ in range(3):
            for x, expected in zip(inputs, wanted, strict=True):
                assert_allclose(step(x).numpy(), expected, rtol=1e-4)
    ran, _, launched, _ = counts()
    for x in inputs:
        step(x).numpy()
    assert counts()[2] == launched + 2
    assert counts()[0] - ran >= 4  # kernels, in two launches


def test_programs_of_a_launch_have_scratch_memory_of_their_own() -> None:
    from lazyten.runtimes.cuda.graphs import stages_of

    def program(*scratch: int) -> Any:
        function = SimpleNamespace(address=1, grid=(1, 1, 1), block=(1, 1, 1), shared=0)
        return SimpleNamespace(generated=SimpleNamespace(scratch=scratch), functions=[function] * 2)
    given = [Argument(0), Argument(2, 8)]
    stages, scratch = stages_of([[(program(100, 600), given), (program(), given)],
                                 [(program(5), given), (program(513), given)]])
    assert scratch == 512 + 1024
    arguments = [[[step.arguments for step in chain] for chain in stage] for stage in stages]
    own = (Argument(1), Argument(3, 8))  # the table begins with the scratch memory
    assert arguments == [
        [[(*own, Argument(0, 0), Argument(0, 512))] * 2, [own] * 2],
        [[(*own, Argument(0, 0))] * 2, [(*own, Argument(0, 512))] * 2]]


def test_a_sequence_keeps_graphs_for_a_few_sets_of_addresses() -> None:
    runtime: Any = cuda_on_cpu.runtime()
    node = make(Op.ADD, dt.int32, (leaf(1, (40,), dt.int32),) * 2)
    program, = runtime.build([Kernel("twice", (node,), ((dt.int32, 40),))])
    launch = runtime.sequence([[(program, [Argument(1), Argument(0)])],
                               [(program, [Argument(2), Argument(1)])]])
    source, middle, *results = (runtime.alloc(160) for _ in range(12))
    runtime.copy_in(source, np.arange(40, dtype=np.int32))
    graphs, launched = counts()[1:3]
    out = np.zeros(40, np.int32)
    for result in results:
        for _ in range(3):
            launch([source, middle, result])
            runtime.copy_out(out, result)
            assert_array_equal(out, np.arange(40) * 4)
    runtime._bury()
    assert counts()[1] == graphs + 4
    assert counts()[2] == launched + 2 * len(results)
    del launch
    runtime._bury()
    assert counts()[1] == graphs


def test_launches_and_graphs_ask_for_shared_memory() -> None:
    runtime: Any = cuda_on_cpu.runtime()
    staged = " ".join(f"stage(argument {slot}, local, 4 buffers)" for slot in (1, 2))
    kernel = replace(product(dt.float16, 256, 128, 128), decisions=Given(
        "tensor(i0, i1, r0.2: m16n8k16_f16) tile(i0:2, i1:4) local(i0:4, i1:2) group(r0.2:32) "
        f"{staged} parallel(i0*i1:1)"))
    program, = runtime.build([kernel])
    assert program.generated.local[0] > 48 << 10
    a, b = (np.random.default_rng(i).integers(-1, 2, shape).astype(np.float16)
            for i, shape in enumerate(((256, 128), (128, 128))))
    left, right, *outs = (runtime.alloc(256 * 128 * 2) for _ in range(4))
    runtime.copy_in(left, a)
    runtime.copy_in(right, b)
    launch = runtime.sequence([[(program, [Argument(0), Argument(2), Argument(3)])],
                               [(program, [Argument(1), Argument(2), Argument(3)])]])
    found = np.zeros((256, 128), np.float16)
    for _ in range(3):  # one by one, then twice by a graph
        for out in outs:
            runtime.copy_in(out, np.zeros_like(found))
        launch([*outs, left, right])
        for out in outs:
            runtime.copy_out(found, out)
            assert_array_equal(found, a @ b)
    for handle in (left, right, *outs):
        runtime.free(handle)


@pytest.mark.slow
def test_graphs_and_programs_go_when_nothing_uses_them() -> None:
    def use(number: int) -> None:
        step = lt.jit(lambda x: ((x @ x.T).softmax(1) @ x).sum(0) + number)
        x = lt.tensor(values(6, 5), device=NAME)
        for _ in range(4):
            step(x).numpy()
    use(-1)
    gc.collect()
    making._plans.clear()
    runtime: Any = executor(NAME)
    runtime._bury()
    before = counts()
    for number in range(3):
        use(number)
    assert counts()[1] > before[1]
    making._plans.clear()
    gc.collect()
    runtime._bury()
    assert counts()[1] == before[1]
    assert counts()[3] <= before[3]


# ---- code ----------------------------------------------------------------------------------------

GOOD, BAD = (Generated(name, f'extern "C" __global__ void kernel_{name}(int *p0) {{ {body} }}', (),
                       "", Location("train.py", 12), (name,), (), (1,), (0,))
             for name, body in (("good", "p0[0] = 1;"), ("bad", "p0[0] = nonsense;")))


def test_what_the_compiler_refuses_names_the_kernel_and_keeps_the_source() -> None:
    runtime: Any = executor(NAME)
    with pytest.raises(CompileError, match=r"(?s)Processor 0, refuses kernel bad \(from train\.py:"
                                           r"12\); its source is in .*\.cu: .*nonsen") as raised:
        runtime.compile([GOOD, BAD])
    path = Path(re.search(r"is in (\S+\.cu)", str(raised.value))[1])  # type: ignore[index]
    assert "nonsense" in path.read_text()
    path.unlink()


@needs_nvrtc
@pytest.mark.parametrize("gpu", [80, 86, 90, 120])
def test_nvrtc_makes_machine_code_and_assembly(gpu: int) -> None:
    from lazyten.runtimes.cuda import compiler as cuda_compiler

    architecture = cuda_compiler.architecture_for(gpu, "a GPU")
    assert cuda_compiler.machine_code(GOOD.source, architecture).startswith(b"\x7fELF")
    assert ".visible .entry kernel_good(" in cuda_compiler.assembly(GOOD.source, architecture)
    with pytest.raises(cuda_compiler.RefusedError, match='identifier "nonsense" is undefined'):
        cuda_compiler.machine_code(BAD.source, architecture)


PTX = """.visible .entry first(.param .u64 first_param_0) {{
    setp.ne.s32 %p1, %r7, 5;
    @%p1 bra $L__BB0_3;
    not.b32 %r8, %r{0};
}}
.visible .entry second(.param .u64 second_param_0) {{
    not.b32 %r1, %r9;
}}"""


@pytest.mark.parametrize(("inverted", "is_lost"), [(7, True), (9, False), (77, False)])
def test_a_register_that_is_compared_and_inverted_is_seen(inverted: int, is_lost: bool) -> None:
    from lazyten.runtimes.cuda.compiler import may_lose_inversions
    assert may_lose_inversions(PTX.format(inverted)) is is_lost


@pytest.mark.parametrize(("version", "inverted", "options"), [
    (13030, 7, [(), ("--ptxas-options=-O0",)]), (13030, 9, [()]), (13050, 7, [()])])
def test_what_an_assembler_would_get_wrong_is_not_optimized(
        version: int, inverted: int, options: list[tuple[str, ...]],
        monkeypatch: pytest.MonkeyPatch) -> None:
    from lazyten.runtimes.cuda import compiler as cuda_compiler
    asked: list[tuple[str, ...]] = []

    def compiled(source: str, more: list[str], *kinds: str) -> list[bytes]:
        asked.append(tuple(more[1:]))
        results = {"CUBIN": str(len(asked)).encode(), "PTX": PTX.format(inverted).encode()}
        return [results[kind] for kind in kinds]
    monkeypatch.setattr(cuda_compiler, "_compiled", compiled)
    monkeypatch.setattr(cuda_compiler, "version", lambda: version)
    assert cuda_compiler.machine_code("", 90) == str(len(options)).encode()
    assert asked == options


@needs_nvrtc
def test_code_is_for_the_gpu_or_an_older_one_of_its_kind() -> None:
    from lazyten.runtimes.cuda.compiler import architecture_for

    assert architecture_for(90, "H100") == 90
    assert architecture_for(89, "L4") == 89
    assert architecture_for(129, "a newer one") // 10 == 12
    with pytest.raises(DeviceError, match=r"no code for GTX 480 \(sm_20\), only for sm_"):
        architecture_for(20, "GTX 480")


@pytest.mark.slow
def test_programs_are_kept_on_disk_with_all_their_kernels(tmp_path: Path,
                                                          monkeypatch: pytest.MonkeyPatch) -> None:
    from lazyten.support.disk_cache import DiskCache

    runtime: Any = cuda_on_cpu.runtime()
    runtime.code = CodeCache("test", DiskCache(tmp_path))
    given = kernels()
    first, _ = runtime.translate(given)
    monkeypatch.setattr(runtime, "compile_text", None)  # nothing is compiled
    again, program = runtime.translate(kernels())
    assert [(k.name, k.source, k.work_items, k.groups) for k in again] == [
        (k.name, k.source, k.work_items, k.groups) for k in first]
    functions = runtime.load(program, [entry for k in again for entry in k.entries])
    assert len(functions) == len(given)
    entry, = tmp_path.glob("*.entry")
    entry.write_bytes(entry.read_bytes()[:-1] + b"x")
    with pytest.raises(TypeError, match="not callable"):  # what is damaged is compiled anew
        runtime.translate(kernels())


def kernels() -> dict[str, Any]:
    """A few kernels, by their structure."""
    from c_kernels import every_op

    from lazyten.ir.kernel import structure
    from lazyten.runtimes.contract import with_distinct_names
    return {structure(k): k for k in with_distinct_names(every_op(dt.int32, 40))}


# ---- what goes wrong -----------------------------------------------------------------------------

def stray(runtime: Any, name: str) -> Any:
    """A kernel that writes where nothing is."""
    text = f'extern "C" __global__ void kernel_{name}(int *p0) {{ p0[1ll << 40] = 1; }}'
    kernel = Generated(name, text, (), "", Location("train.py", 34), (name,), (), (1,), (0,))
    return runtime.load(runtime.compile([kernel]), [name])[0]


def test_a_stray_access_names_the_kernel_and_the_users_line() -> None:
    runtime: Any = cuda_on_cpu.runtime()
    handle = runtime.alloc(4)
    runtime.launch(stray(runtime, "astray"), [handle])
    with pytest.raises(DeviceError, match=r"cuda-on-cpu \(Processor 0\): a kernel failed: .*"
                                          r"ILLEGAL_ADDRESS.*The kernel is astray \(from "
                                          r"train.py:34\)\. The GPU cannot be used any more"):
        runtime.synchronize()


@pytest.mark.slow
def test_a_stray_access_among_several_kernels_says_how_to_find_it(
        monkeypatch: pytest.MonkeyPatch) -> None:
    runtime: Any = cuda_on_cpu.runtime()
    good, = runtime.load(runtime.compile([GOOD]), ["good"])
    bad = stray(runtime, "astray")
    handle = runtime.alloc(4)
    runtime.synchronize()
    runtime.launch(good, [handle])
    runtime.launch(bad, [handle])
    with pytest.raises(DeviceError, match=r"one of these kernels: good \(from train.py:12\), "
                                          r"astray \(from train.py:34\); run .* "
                                          "CUDA_LAUNCH_BLOCKING=1"):
        runtime.copy_out(np.zeros(1, np.int32), handle)
    cuda_on_cpu.driver().fake_repair()
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    waiting: Any = cuda_on_cpu.runtime()
    good, = waiting.load(waiting.compile([GOOD]), ["good"])
    handle = waiting.alloc(4)
    waiting.launch(good, [handle])
    with pytest.raises(DeviceError, match=r"a launch failed.*The kernel is astray"):
        waiting.launch(stray(waiting, "astray"), [handle])


def test_a_device_is_found_by_number_and_by_name() -> None:
    assert canonical(f"{NAME}:1") == f"{NAME}:1"
    runtime: Any = type(executor(NAME))
    assert runtime.find("processor 1") == 1
    with pytest.raises(DeviceError, match=r"no GPU is called so; there are: 'cuda:0' is Processor"):
        runtime.find("h100")
    with pytest.raises(DeviceError, match=r"'cuda:7': there is no such GPU; there are: 'cuda:0'"):
        cuda_on_cpu.runtime(7)


def test_a_driver_without_gpus_or_of_an_old_cuda_says_so() -> None:
    driver = cuda_on_cpu.driver()
    driver.fake_set_devices(0)
    with pytest.raises(DeviceError, match="there is no such GPU; the driver finds no GPU"):
        cuda_on_cpu.runtime()
    driver.fake_set_devices(1)
    driver.fake_set_version(11040)
    with pytest.raises(DeviceError, match=r"driver is for CUDA 11\.4, and CUDA 12\.0 or newer"):
        cuda_on_cpu.runtime()


@needs_nvrtc
def test_a_driver_older_than_the_compiler_says_so() -> None:
    cuda_on_cpu.driver().fake_set_version(12080)
    with pytest.raises(DeviceError, match=r"driver is for CUDA 12\.8, and CUDA 13\.0 or newer is "
                                          "needed: update the driver, or install"):
        cuda_on_cpu.runtime()


@pytest.mark.slow
@pytest.mark.parametrize(("code", "message"), [
    ("", "there is no NVIDIA driver on this machine"),
    ("from lazyten.runtimes.cuda import driver as cuda_driver; cuda_driver.api = None",
     r"needs the package cuda-bindings: install it with pip install 'lazyten\[cuda\]'"),
])
def test_what_is_missing_is_named(code: str, message: str) -> None:
    """In a process of its own, which has not met the driver for tests."""
    program = (f"import lazyten as lt\n{code}\ntry:\n    lt.zeros(2, device='cuda').numpy()\n"
               "except lt.DeviceError as error:\n    print(error)\nelse:\n    print('a GPU')")
    done = subprocess.run([sys.executable, "-c", program], text=True, capture_output=True,
                          env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})
    assert re.search(message, done.stdout) or not code and done.stdout == "a GPU\n", done
