"""Matrices of 8 rows of 16 bytes, read from shared memory by a warp: PTX's ldmatrix, as functions.

group_text.py makes the calls. Each item gives the place of a row; see MatrixLoad in instructions.py
and PTX ISA, "Warp-level matrix load instruction: ldmatrix". Devices with tensor cores have it.
"""
from __future__ import annotations


def _cuda_load(count: int, transposed: bool) -> tuple[str, str]:
    """The name and the definition of a function that reads so many matrices."""
    name = f"lazyten_matrices_{count}{'_transposed' if transposed else ''}"
    words = [f"x{i}" for i in range(count)]
    params = ", ".join([*(f"uint &{x}" for x in words), "const void *from"])
    outs = ", ".join(f'"=r"({x})' for x in words)
    places = ", ".join(f"%{i}" for i in range(count))
    kind = f"ldmatrix.sync.aligned.m8n8.x{count}{'.trans' if transposed else ''}.shared.b16"
    return name, (f"#ifndef LAZYTEN_ON_CPU\nstatic __device__ inline void {name}({params}) {{\n"
                  f'  asm volatile("{kind} {{{places}}}, [%{count}];"\n'
                  f'      : {outs} : "r"((uint)__cvta_generic_to_shared(from)) : "memory");\n}}\n'
                  "#endif")


CUDA_MATRICES = tuple(_cuda_load(count, transposed)
                      for count in (1, 2, 4) for transposed in (False, True))
"""By name. They are left out under LAZYTEN_ON_CPU, where a test defines them."""
