"""Copies to shared memory that go on while threads compute: PTX's cp.async, as functions.

async_copy.py makes the calls. `bytes` are read, all or none; zeros take the place of the others.
"""
from __future__ import annotations

MOST_BUFFERS = 4
"""Batches that are under way at a time are one less."""


def _cuda_copy(nbytes: int) -> str:
    kind = {4: "uint", 8: "uint2", 16: "uint4"}[nbytes]
    zero = "0" if nbytes == 4 else f"make_{kind}({', '.join('0' * (nbytes // 4))})"
    level = "cg" if nbytes == 16 else "ca"
    return _function(
        f"copy_{nbytes}", "void *to, const void *from, uint bytes",
        f'asm volatile("cp.async.{level}.shared.global [%0], [%1], {nbytes}, %2;"\n'
        '               :: "r"((uint)__cvta_generic_to_shared(to)), '
        '"l"(__cvta_generic_to_global(from)), "r"(bytes)\n               : "memory");',
        f"*({kind} *)to = bytes ? *(const {kind} *)from : {zero};")


def _function(name: str, params: str, text: str, older: str = "") -> str:
    """A function for sm_80 and newer, and what does the same at once for older ones."""
    return (f"#ifndef LAZYTEN_ON_CPU\nstatic __device__ inline void lazyten_{name}({params}) {{\n"
            f"#if __CUDA_ARCH__ >= 800\n  {text}\n#else\n  {older}\n#endif\n}}\n#endif")


CUDA_COPIES = (
    *((f"lazyten_copy_{n}", _cuda_copy(n)) for n in (4, 8, 16)),
    ("lazyten_commit", _function("commit", "",
                                 'asm volatile("cp.async.commit_group;" ::: "memory");')),
    *((f"lazyten_wait_{n}", _function(
        f"wait_{n}", "", f'asm volatile("cp.async.wait_group {n};" ::: "memory");'))
      for n in range(MOST_BUFFERS)))
"""By name. They are left out under LAZYTEN_ON_CPU, where a test defines them."""
