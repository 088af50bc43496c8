"""Runs CUDA text on the processor, compiled by g++: a thread for each work item of a group.

The instructions of tensor cores are functions here, written from the layouts that PTX's ISA has.
"""
from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from lazyten.codegen.generated import Generated
from lazyten.codegen.render_c import function_name

COMPILER = shutil.which("g++")

HEAD = r"""
#include <algorithm>
#include <barrier>
#include <cmath>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>
#define LAZYTEN_ON_CPU
#define __global__
#define __device__
#define __shared__ static
#define __align__(n) __attribute__((aligned(n)))
#define VECTORS(T, N) \
  struct alignas(2 * sizeof(T)) N##2 { T x, y; }; \
  struct alignas(sizeof(T) > 4 ? 16 : 4 * sizeof(T)) N##4 { T x, y, z, w; }; \
  static N##2 make_##N##2(T x, T y) { return {x, y}; } \
  static N##4 make_##N##4(T x, T y, T z, T w) { return {x, y, z, w}; }
VECTORS(float, float)
VECTORS(unsigned, uint)
VECTORS(unsigned short, ushort)
using std::fma;
struct Dim { unsigned x; };
static thread_local Dim threadIdx, blockIdx, blockDim;
static std::unique_ptr<std::barrier<>> all;
static std::vector<std::unique_ptr<std::barrier<>>> warps;
static void __syncthreads() { all->arrive_and_wait(); }
template <class To, class From> static To bits(From x) { To y; std::memcpy(&y, &x, 4); return y; }
static float __uint_as_float(unsigned x) { return bits<float>(x); }
static unsigned __float_as_uint(float x) { return bits<unsigned>(x); }
static double __longlong_as_double(long x) { double y; std::memcpy(&y, &x, 8); return y; }
static long __double_as_longlong(double x) { long y; std::memcpy(&y, &x, 8); return y; }

static unsigned held[32][32][6];  // by warp, item and register: a, then b

static float f16(unsigned short x) { _Float16 y; std::memcpy(&y, &x, 2); return (float)y; }
static float bf16(unsigned short x) { return bits<float>((unsigned)x << 16); }

template <class Product> static void exchanged(float *c[4], const unsigned (&own)[6], Product p) {
  unsigned warp = threadIdx.x / 32, item = threadIdx.x % 32;
  std::memcpy(held[warp][item], own, sizeof own);
  warps[warp]->arrive_and_wait();
  for (int i = 0; i < 4; ++i)
    *c[i] += p(held[warp], item / 4 + 8 * (i / 2), item % 4 * 2 + i % 2);
  warps[warp]->arrive_and_wait();
}
template <class Decode> static void halves(float *c[4], const unsigned (&own)[6], Decode decode) {
  exchanged(c, own, [&](unsigned (*all)[6], int row, int column) {
    float total = 0;
    for (int k = 0; k < 16; ++k) {
      unsigned a = all[row % 8 * 4 + k % 8 / 2][row / 8 + 2 * (k / 8)] >> 16 * (k % 2);
      unsigned b = all[column * 4 + k % 8 / 2][4 + k / 8] >> 16 * (k % 2);
      total += decode((unsigned short)a) * decode((unsigned short)b);
    }
    return total;
  });
}
#define RESULTS float &c0, float &c1, float &c2, float &c3
#define FACTORS unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1
#define PASSED float *c[4] = {&c0, &c1, &c2, &c3}; unsigned own[6] = {a0, a1, a2, a3, b0, b1};
static void lazyten_mma_m16n8k16_f16(RESULTS, FACTORS) { PASSED halves(c, own, f16); }
static void lazyten_mma_m16n8k16_bf16(RESULTS, FACTORS) { PASSED halves(c, own, bf16); }
static void lazyten_mma_m16n8k8_tf32(RESULTS, FACTORS) {
  PASSED
  exchanged(c, own, [](unsigned (*all)[6], int row, int column) {
    float total = 0;
    for (int k = 0; k < 8; ++k)
      total += bits<float>(all[row % 8 * 4 + k % 4][row / 8 + 2 * (k / 4)])
             * bits<float>(all[column * 4 + k % 4][4 + k / 4]);
    return total;
  });
}
"""

TAIL = r"""
extern "C" void run(void **p, unsigned groups, unsigned size) {
  warps.clear();
  for (unsigned i = 0; i < size; i += 32)
    warps.push_back(std::make_unique<std::barrier<>>(std::min(size - i, 32u)));
  all = std::make_unique<std::barrier<>>(size);
  std::vector<std::thread> items;
  for (unsigned item = 0; item < size; ++item)
    items.emplace_back([=] {
      for (unsigned group = 0; group < groups; ++group) {
        threadIdx.x = item; blockIdx.x = group; blockDim.x = size;
        NAME(ARGUMENTS);
        all->arrive_and_wait();
      }
    });
  for (auto &item : items) item.join();
}
"""


def run_cuda(made: Generated, arrays: list[np.ndarray[Any, Any]], folder: Path) -> None:
    """Run a kernel of one function on arrays, outputs first, which it changes."""
    assert COMPILER is not None
    kinds = {1: "uchar", 2: "ushort", 4: "uint", 8: "ulong"}
    arguments = ", ".join(f"({'float' if a.dtype == np.float32 else kinds[a.itemsize]} *)p[{i}]"
                          for i, a in enumerate(arrays))
    source = folder / f"{made.name}.cpp"
    tail = TAIL.replace("NAME", function_name(made.name)).replace("ARGUMENTS", arguments)
    source.write_text("\n".join([HEAD, *made.declares, made.source, tail]))
    library = source.with_suffix(".so")
    subprocess.run([COMPILER, "-std=c++20", "-O1", "-shared", "-fPIC", "-pthread",
                    "-ffp-contract=off", str(source), "-o", str(library)], check=True)
    pointers = (ctypes.c_void_p * len(arrays))(*(a.ctypes.data for a in arrays))
    group = made.groups[-1] or 32
    ctypes.CDLL(str(library)).run(pointers, -(-made.work_items[-1] // group), group)
