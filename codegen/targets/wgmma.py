"""Products that tensor cores take from shared memory, while threads go on: PTX's wgmma.

group_text.py makes the calls; see MatrixDescriptor, MatrixFence and MatrixWait in instructions.py,
and PTX ISA, "Asynchronous warpgroup level matrix instructions". Matrices are in rows of 128, 64 or
32 bytes, which copies write as wholes, with the instruction's swizzling of the 16 bytes in them; an
array of rows begins at a multiple of 1024 bytes. Only sm_90a has them.
"""
from __future__ import annotations


def multiply(name: str, shape: str, held: int) -> str:
    """The function that adds a product of this shape and type, of the matrices of two descriptors,
    to `held` floats of each item. transposed_a, transposed_b: whether lines are along rows, or
    columns, and not along the reduction."""
    params = ", ".join(f"float &c{i}" for i in range(held))
    places = ", ".join(f"%{i}" for i in range(held))
    outs = ", ".join(f'"+f"(c{i})' for i in range(held))
    a, b, transposed_a, transposed_b = (f"%{held + i}" for i in range(4))
    return (f"#ifndef LAZYTEN_ON_CPU\ntemplate <int transposed_a, int transposed_b>\n"
            f"static __device__ inline void lazyten_mma_{name}({params}, ulong a, ulong b) {{\n"
            f'  asm volatile("wgmma.mma_async.sync.aligned.{shape} {{{places}}}, {a}, {b}, '
            f'1, 1, 1, {transposed_a}, {transposed_b};"\n'
            f'      : {outs} : "l"(a), "l"(b), "n"(transposed_a), "n"(transposed_b) : "memory");'
            "\n}\n#endif")


CUDA_LOCAL_MATRICES = (
    ("lazyten_descriptor",
     "static __device__ inline ulong lazyten_descriptor(const void *from, uint width, "
     "uint apart) {\n"
     "  uint start = (uint)__cvta_generic_to_shared(from), mode = width == 128 ? 1 : "
     "width == 64 ? 2 : 3;\n"
     "  return (ulong)(start >> 4 & 0x3fff) | (ulong)(apart >> 4 & 0x3fff) << 16\n"
     "      | (ulong)(8 * width >> 4) << 32 | (ulong)mode << 62;\n}"),
    *((f"lazyten_{name}", f"#ifndef LAZYTEN_ON_CPU\nstatic __device__ inline void lazyten_{name}() "
       f'{{\n  asm volatile("{text}" ::: "memory");\n}}\n#endif') for name, text in (
           ("matrix_fence", "wgmma.fence.sync.aligned;"),
           ("matrix_wait", "wgmma.commit_group.sync.aligned;\\n "
            "wgmma.wait_group.sync.aligned 0;"),
           ("proxy_fence", "fence.proxy.async.shared::cta;"))))
"""By name. All but the first are left out under LAZYTEN_ON_CPU, where a test defines them."""
