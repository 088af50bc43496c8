"""The dialects of C that render_c writes, each a record of what differs from the others.

Values are scalars, or vectors where the dialect has them. Integers of either sign are held in
unsigned types, whose arithmetic wraps as the op table asks; what depends on the sign casts.
"""
from __future__ import annotations

from dataclasses import dataclass, replace

from lazyten.codegen.targets.cp_async import CUDA_COPIES
from lazyten.codegen.targets.ldmatrix import CUDA_MATRICES
from lazyten.codegen.targets.native_half import CUDA_HALVES, OPENCL_HALVES
from lazyten.codegen.targets.near import CUDA_NEAR
from lazyten.codegen.targets.wgmma import CUDA_LOCAL_MATRICES


@dataclass(frozen=True, slots=True)
class Dialect:
    """One dialect of C. A runtime in another package may bring one of its own.

    name: what a target's `language` calls it. head: lines that every program begins with. float64:
    lines that it needs to use doubles. kernel: what stands before a kernel's name; grouped: the
    same for groups of {group} items, so that these fit in the registers, and no less than those are
    used. memory: the qualifier of pointers to buffers. restrict: of a pointer that nothing else
    reads or writes through. item: the number of the work item among all that were launched, an
    unsigned 64-bit integer. function: the qualifier of helper functions. mulacc: a * b + c of
    floats. last: a parameter after the buffers, where the number of the item comes so. local_item:
    the number of the work item in its group; group: that of its group; local: the qualifier of
    arrays that a group shares, aligned to {alignment} bytes; barrier: the statement at which the
    items of a group wait for each other; all four empty where there are no groups. most_declared:
    bytes of such arrays that a kernel may declare, 0 for all; where it has more they are parts of
    one, `asked`, which the line
    `ask` declares, and whose size its launch gives. load, store: a vector `kind` of lanes at a
    pointer `to`, aligned as an element is. convert: a vector to one of type `kind`. unaligned: the
    type of such a vector in memory, where a load or store names it. whole: the place in memory
    `space` of a vector `kind` that is aligned to its size, at a pointer `to`; local_space: that of
    a group's arrays; vector: one made of its elements; all three empty where scalars are read one
    by one. lane_below: the value `x` of the item that is `by` further on in a warp; lane: that of
    item `lane` modulo the warp's size; `lanes` is a mask of a warp's items; both empty where items
    cannot ask each other. warp: how many items that is. call_lanes: most lanes of what built-in
    functions take; wider vectors are taken apart. guards_choices: whether integers are compared
    as unsigned ones whose sign bits are turned over, and it is hidden from the compiler that one
    of two is chosen which were compared. functions: names and definitions of what text calls for
    16-bit floats, where a device has them (native_half.py), for what it computes to fewer bits
    (near.py), for copies that go on by themselves (cp_async.py) and for matrices that a warp reads
    at once (ldmatrix.py), or that an instruction reads by itself (wgmma.py), if there are such.
    """

    name: str
    head: tuple[str, ...]
    float64: tuple[str, ...]
    kernel: str
    memory: str
    restrict: str
    item: str
    function: str
    mulacc: str
    last: str = ""
    grouped: str = ""
    local_item: str = ""
    group: str = ""
    local: str = ""
    most_declared: int = 0
    asked: str = ""
    ask: str = ""
    barrier: str = ""
    load: str = ""
    store: str = ""
    convert: str = ""
    unaligned: str = ""
    whole: str = ""
    local_space: str = ""
    vector: str = ""
    lane_below: str = ""
    lane: str = ""
    warp: int = 32
    call_lanes: int = 16
    guards_choices: bool = False
    functions: tuple[tuple[str, str], ...] = ()


OPENCL = Dialect(
    name="opencl",
    head=("#pragma OPENCL FP_CONTRACT OFF",),
    float64=("#pragma OPENCL EXTENSION cl_khr_fp64 : enable",),
    kernel="kernel void",
    memory="global ",
    restrict="restrict ",
    item="get_global_id(0)",
    local_item="get_local_id(0)",
    group="get_group_id(0)",
    local="local __attribute__((aligned({alignment}))) ",
    grouped="__attribute__((reqd_work_group_size({group}, 1, 1)))\nkernel void",
    barrier="barrier(CLK_LOCAL_MEM_FENCE);",
    function="static ",
    mulacc="fma({a}, {b}, {c})",
    load="vload{lanes}(0, {to})",
    store="vstore{lanes}({value}, 0, {to})",
    convert="convert_{kind}({x})",
    whole="*({space}{kind} *)({to})",
    local_space="local ",
    vector="({kind})({elements})",
    functions=OPENCL_HALVES)
"""OpenCL C 1.2. Programs are built with correctly rounded division and square root, and without any
option that lets the compiler change floats."""

CLANG_OPENCL = replace(
    OPENCL,
    name="clang-opencl",
    head=("#pragma OPENCL FP_CONTRACT ON",),
    mulacc="{a} * {b} + {c}",
    load="*(global const unaligned_{kind} *)({to})",
    store="*(global unaligned_{kind} *)({to}) = {value}",
    convert="__builtin_convertvector({x}, {kind})",
    unaligned="typedef {kind} __attribute__((aligned({alignment}))) unaligned_{kind};")
"""The same without calls of built-in functions, for compilers of processors, which are made from
Clang: PoCL inlines none. Contraction is within one expression, so in a `mulacc` alone."""

CUDA = Dialect(
    name="cuda",
    head=("typedef unsigned char uchar; typedef unsigned short ushort; typedef unsigned int uint; "
          "typedef unsigned long ulong;",
          "static __device__ inline float as_float(uint x) { return __uint_as_float(x); }",
          "static __device__ inline uint as_uint(float x) { return __float_as_uint(x); }",
          "static __device__ inline double as_double(ulong x) "
          "{ return __longlong_as_double(x); }",
          "static __device__ inline ulong as_ulong(double x) "
          "{ return __double_as_longlong(x); }"),
    float64=(),
    kernel='extern "C" __global__ void',
    grouped='extern "C" __global__ void __launch_bounds__({group})',
    memory="",
    restrict="__restrict__ ",
    item="(blockIdx.x * (ulong)blockDim.x + threadIdx.x)",
    local_item="threadIdx.x",
    group="blockIdx.x",
    local="__shared__ __align__({alignment}) ",
    most_declared=48 << 10,
    asked="lazyten_shared",
    ask="#ifndef LAZYTEN_ON_CPU\n"
        "extern __shared__ __align__(1024) unsigned char lazyten_shared[];\n#endif",
    barrier="__syncthreads();",
    function="static __device__ inline ",
    mulacc="fma({a}, {b}, {c})",
    whole="*({space}{kind} *)({to})",
    vector="make_{kind}({elements})",
    lane_below="__shfl_down_sync({lanes}, {x}, {by})",
    lane="__shfl_sync({lanes}, {x}, {lane})",
    functions=CUDA_HALVES + CUDA_NEAR + CUDA_COPIES + CUDA_MATRICES + CUDA_LOCAL_MATRICES)
"""CUDA C++ for NVRTC, without arithmetic on vectors, to be compiled with -fmad=false."""

C = Dialect(
    name="c",
    head=("#include <stdbool.h>", "#include <stdint.h>", "#include <tgmath.h>",
          "typedef uint8_t uchar; typedef uint16_t ushort; typedef uint32_t uint; "
          "typedef uint64_t ulong;",
          "static inline float as_float(uint x) "
          "{ union { uint i; float f; } u = {x}; return u.f; }",
          "static inline uint as_uint(float x) "
          "{ union { float f; uint i; } u = {x}; return u.i; }",
          "static inline double as_double(ulong x) "
          "{ union { ulong i; double f; } u = {x}; return u.f; }",
          "static inline ulong as_ulong(double x) "
          "{ union { double f; ulong i; } u = {x}; return u.i; }",
          "static inline ulong min(ulong a, ulong b) { return a < b ? a : b; }",
          "#ifdef FP_FAST_FMAF\n#define mulacc(a, b, c) fma(a, b, c)\n#else\n"
          "#define mulacc(a, b, c) ((a) * (b) + (c))\n#endif"),
    float64=(),
    kernel="void",
    memory="",
    restrict="restrict ",
    item="item",
    function="static inline ",
    mulacc="mulacc({a}, {b}, {c})",
    last="ulong item")
"""C11 without vectors, for machines whose long has 64 bits. A kernel is called once for each of its
work items, with its number as the last argument. To be compiled with -fsigned-char and
-ffp-contract=off, and without options that let the compiler change floats."""

DIALECTS = {dialect.name: dialect for dialect in (OPENCL, CLANG_OPENCL, CUDA, C)}
"""By the name that a target's `language` has."""


def dialect_of(language: str | Dialect) -> Dialect | None:
    """The record of a target's `language`, None where that is no dialect of C."""
    return DIALECTS.get(language) if isinstance(language, str) else language
