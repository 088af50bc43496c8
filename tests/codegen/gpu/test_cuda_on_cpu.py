"""The harness that runs CUDA C++ on the CPU: it does what a GPU does, and sees what goes wrong.

Each program here is CUDA as NVIDIA's compiler takes it, too.
"""
from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cuda_on_cpu
import numpy as np
import nvrtc
import pytest
from cuda_programs import Program, driver, results

from lazyten.codegen.targets.generated import Generated

__all__ = ["driver"]

pytestmark = pytest.mark.skipif(cuda_on_cpu.missing() is not None,
                                reason=cuda_on_cpu.missing() or "")

SUM = '''
extern "C" __global__ void kernel_sum(float *out, const float *in) {
  __shared__ float part[64];
  unsigned i = threadIdx.x;
  part[i] = in[blockIdx.x * 64 + i];
  %s
  for (unsigned step = 32; step; step /= 2) {
    if (i < step) part[i] = part[i] + part[i + step];
    %s
  }
  if (i == 0) out[blockIdx.x] = part[0];
}
'''
BARRIER = "__syncthreads();"
WARPS = '''
extern "C" __global__ void kernel_warps(int *out, const int *in) {
  unsigned i = threadIdx.x;
  int x = in[i];
  for (int by = 16; by; by /= 2) x += __shfl_xor_sync(0xffffffffu, x, by);
  out[i] = x;
  out[64 + i] = __shfl_down_sync(0xffffffffu, in[i], 3);
  out[128 + i] = __shfl_up_sync(0xffffffffu, in[i], 2, 8);
  out[192 + i] = __shfl_sync(0xffffffffu, in[i], 5);
  out[256 + i] = (int)__ballot_sync(0xffffffffu, in[i] % 3 == 0);
}
'''
WRONG = {
    "an access that is not aligned to its size": "out[0] = ((const int2 *)(out + 1))->x;",
    "lines 5 and 7": "if (i % 2) __syncthreads();\n  else {\n    __syncthreads(); }",
    "only some threads": "if (i < 16) __shfl_sync(~0u, i, 0); else __syncthreads();",
    "waits for lane 7 of its warp, which has ended": "if (i == 7) return; __shfl_sync(~0u, i, 0);",
}


@pytest.fixture(autouse=True)
def any_order(driver: Any) -> Iterator[None]:
    """Each test begins with the first order, and on a device in order."""
    yield
    cuda_on_cpu.run_in_order(0)
    cuda_on_cpu.driver().fake_repair()


@pytest.mark.slow
def test_a_block_shares_memory_between_barriers(driver: Any) -> None:
    program = Program(driver, SUM % (BARRIER, BARRIER), "kernel_sum")
    values = np.arange(192, dtype=np.float32)
    for sums in results(program, np.zeros(3, np.float32), [values], 64, 3):
        np.testing.assert_array_equal(sums, values.reshape(3, 64).sum(1))


@pytest.mark.few(1)
@pytest.mark.parametrize("barriers", [("", BARRIER), (BARRIER, ""), ("", "")])
def test_a_missing_barrier_shows_in_some_order(driver: Any, barriers: tuple[str, str]) -> None:
    program = Program(driver, SUM % barriers, "kernel_sum")
    values = np.arange(64, dtype=np.float32)
    found = results(program, np.zeros(1, np.float32), [values], 64)
    assert any(sums[0] != values.sum() for sums in found)


@pytest.mark.slow
def test_a_race_on_global_memory_shows_in_some_order(driver: Any) -> None:
    race = 'extern "C" __global__ void kernel_race(int *out) { out[0] = threadIdx.x; }'
    found = results(Program(driver, race, "kernel_race"), np.zeros(1, np.int32), [], 32)
    assert len({int(value[0]) for value in found}) > 1


@pytest.mark.slow
def test_what_was_never_written_is_nan(driver: Any) -> None:
    text = ('extern "C" __global__ void kernel_read(float *out) { __shared__ float a[2]; '
            'if (threadIdx.x == 0) a[0] = 1; __syncthreads(); out[0] = a[0]; out[1] = a[1]; }')
    out = Program(driver, text, "kernel_read")(np.zeros(3, np.float32), [], 2, 2)
    assert out[0] == 1
    assert np.isnan(out[1:]).all()


@pytest.mark.slow
def test_lanes_of_a_warp_exchange_values(driver: Any) -> None:
    values = np.random.default_rng(0).integers(0, 1000, 64).astype(np.int32)
    lanes = np.arange(64)
    program = Program(driver, WARPS, "kernel_warps")
    for out in results(program, np.zeros(320, np.int32), [values], 64):
        total, down, up, first, votes = out.reshape(5, 64)
        np.testing.assert_array_equal(total, values.reshape(2, 32).sum(1).repeat(32))
        np.testing.assert_array_equal(down, values[np.where(lanes % 32 < 29, lanes + 3, lanes)])
        np.testing.assert_array_equal(up, values[np.where(lanes % 8 >= 2, lanes - 2, lanes)])
        np.testing.assert_array_equal(first, values[lanes // 32 * 32 + 5])
        bits = ((values.reshape(2, 32) % 3 == 0) << np.arange(32, dtype=np.uint64)).sum(1)
        np.testing.assert_array_equal(votes.view(np.uint32), bits.astype(np.uint32).repeat(32))


@pytest.mark.few(1)
@pytest.mark.parametrize(("name", "inner"), [("m16n8k16_f16", 16), ("m16n8k16_bf16", 16),
                                             ("m16n8k8_tf32", 8)])
def test_a_warp_multiplies_matrices_as_the_ptx_manual_lays_them_out(driver: Any, name: str,
                                                                    inner: int) -> None:
    """The fragments are made here from the manual's tables: element i of register r."""
    registers = ", ".join([*(f"d[4 * i + {j}]" for j in range(4)),
                           *(f"a[4 * i + {j}]" for j in range(4)), "b[2 * i]", "b[2 * i + 1]"])
    text = ('extern "C" __global__ void kernel_mma(float *d, const unsigned *a, const unsigned *b)'
            f" {{ unsigned i = threadIdx.x; for (int j = 0; j < 4; ++j) d[4 * i + j] = 1; "
            f"lazyten_mma_{name}({registers}); }}")
    rng = np.random.default_rng(3)
    a = rng.integers(-8, 8, (16, inner)).astype(np.float32)
    b = rng.integers(-8, 8, (inner, 8)).astype(np.float32)
    packed = inner // 8
    left, right = np.zeros((32, 4), np.uint32), np.zeros((32, 2), np.uint32)
    for lane in range(32):
        group, place = divmod(lane, 4)
        for i in range(packed):
            for r in range(4):
                row, k = group + 8 * (r % 2), packed * place + i + 4 * packed * (r // 2)
                left[lane, r] |= bits(a[row, k], name) << np.uint32(16 * i)
            for r in range(2):
                k = packed * place + i + 4 * packed * r
                right[lane, r] |= bits(b[k, group], name) << np.uint32(16 * i)
    program = Program(driver, text, "kernel_mma")
    for out in results(program, np.zeros(128, np.float32), [left, right], 32):
        wanted = a @ b + 1
        for lane in range(32):
            group, place = divmod(lane, 4)
            for i in range(4):
                assert out[4 * lane + i] == wanted[group + 8 * (i // 2), 2 * place + i % 2]


def bits(value: np.float32, name: str) -> np.uint32:
    """A float in the type of an instruction."""
    if name.endswith("_f16"):
        return np.uint32(np.float16(value).view(np.uint16))
    whole = np.float32(value).view(np.uint32)
    return np.uint32(whole >> 16) if name.endswith("bf16") else np.uint32(whole)


@pytest.mark.few(1)
@pytest.mark.parametrize("message", WRONG)
def test_what_cuda_does_not_allow_is_reported(driver: Any, message: str) -> None:
    text = ('\n\nextern "C" __global__ void kernel_wrong(int *out) {\n  unsigned i = threadIdx.x;\n'
            f"  {WRONG[message]}\n  out[0] = 1;\n}}\n")
    with pytest.raises(driver.DriverError, match=f"LAUNCH_FAILED .*{message}"):
        Program(driver, text, "kernel_wrong")(np.zeros(1, np.int32), [], 64)


@pytest.mark.slow
def test_a_stray_access_breaks_the_device_until_it_is_repaired(driver: Any) -> None:
    text = 'extern "C" __global__ void kernel_stray(int *out) { out[1ll << 40] = 1; }'
    program = Program(driver, text, "kernel_stray")
    with pytest.raises(driver.DriverError, match="ILLEGAL_ADDRESS"):
        program(np.zeros(1, np.int32), [], 1)
    with pytest.raises(driver.DriverError, match="ILLEGAL_ADDRESS"):
        program.context.allocate(100)


def test_nothing_is_done_before_something_waits(driver: Any) -> None:
    context = driver.Context(0)
    address = context.allocate(4)
    source, target = (ctypes.c_int * 1)(5), (ctypes.c_int * 1)(1)
    context.copy_in(address, ctypes.addressof(source), 4)
    source[0] = 6
    context.copy_out(ctypes.addressof(target), address, 4)
    assert target[0] == 1
    context.synchronize()
    assert target[0] == 6
    context.release(address)


@pytest.mark.skipif(nvrtc.library() is None, reason="nvidia-cuda-nvrtc is not installed")
@pytest.mark.parametrize("text", [SUM % (BARRIER, BARRIER), WARPS], ids=["sum", "warps"])
def test_nvidias_compiler_takes_these_programs(text: str) -> None:
    assert nvrtc.compile_cuda(text, ["-arch=sm_80"]).startswith(b"\x7fELF")


@pytest.mark.skipif(nvrtc.library() is None, reason="nvidia-cuda-nvrtc is not installed")
def test_a_text_is_known_by_all_but_its_names_and_numbers() -> None:
    def file(body: str, name: str = "map_8", *options: str) -> Path:
        return nvrtc.taken(Generated(name, f"void {name}(float *p) {{ {body} }}", (), ""), options)
    known = file("if (i < 8u) p[i * 4] = 0.5f;")
    assert file("if (i < 16u) p[i * 2] = 0.5f;", "map_16") == known
    for other in ("if (i < 8ul) p[i * 4] = 0.5f;", "if (i < 8u) p[i + 4] = 0.5f;",
                  "if (i < 8u) p[i * 4] = 0.25f;"):
        assert file(other) != known
    assert file("if (i < 8u) p[i * 4] = 0.5f;", "map_8", "-arch=sm_90") != known
    for counts in ("__shared__ float q[{}];", 'asm("mma.m16n8k{};");'):
        assert file(counts.format(8)) != file(counts.format(16))
