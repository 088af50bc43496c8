"""The dialects of C that render_c writes, each a record: what differs from one device's to another's.

Values are scalars, or vectors where the dialect has them. Integers of either sign are held in
unsigned types, whose arithmetic wraps as the op table asks; what depends on the sign casts.
"""
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Dialect:
    """One dialect of C.

    head: lines that every program begins with. float64: lines that it needs to use doubles. kernel:
    what stands before a kernel's name. memory: the qualifier of pointers to buffers. restrict: of a
    pointer that nothing else reads or writes through. item: the number of the work item among all
    that were launched, an unsigned 64-bit integer. function: the qualifier of helper functions.
    vectors: whether there are OpenCL's vector types.
    """

    name: str
    head: tuple[str, ...]
    float64: tuple[str, ...]
    kernel: str
    memory: str
    restrict: str
    item: str
    function: str
    vectors: bool


OPENCL = Dialect(
    name="opencl",
    head=("#pragma OPENCL FP_CONTRACT OFF",),
    float64=("#pragma OPENCL EXTENSION cl_khr_fp64 : enable",),
    kernel="kernel void",
    memory="global ",
    restrict="restrict ",
    item="get_global_id(0)",
    function="static ",
    vectors=True)
"""OpenCL C 1.2. Programs are built with correctly rounded division and square root, and without any
option that lets the compiler change floats."""
