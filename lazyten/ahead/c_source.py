"""A program as C source: kernels by the C renderer, constants as arrays, and the function around.

In: a `Program` whose kernels are written in `DIALECT`. Out: one C11 file. It needs <math.h> and
nothing else of a library, allocates nothing, and says itself what compilers must not do to floats.
"""
from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

import numpy as np

from lazyten.ahead.header import Form, c_type, prototype
from lazyten.ahead.program import Call, Copy, Kept, Place, Program
from lazyten.codegen.render.c_ops import element_type, literal
from lazyten.codegen.render.render_c import function_name
from lazyten.codegen.targets.dialect import C
from lazyten.codegen.targets.target import Target
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType

GUARDS = """\
#ifdef __FAST_MATH__
#error "compile without -ffast-math: it changes what floats mean"
#endif
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=off")
#endif"""
TYPES = """\
#include <limits.h>
#if CHAR_MIN == 0
#define char signed char
#endif
#if LONG_MAX == INT32_MAX
#define long long long
#endif"""
LONG = re.compile(r"\b(0x[0-9a-f]+|[0-9]+)ul\b")
"""A number of 64 bits as kernels spell it."""
DIALECT = replace(C, name="c-ahead", kernel="static void", head=(GUARDS, *C.head, TYPES))
"""C that does not depend on options of the compiler, nor on which types have a sign or 64 bits, in
functions that are the file's own."""
TARGET = Target("c", vector_bytes=4, language=DIALECT, most_lanes=1)
IN_A_LINE = 12


def memory_kind(dtype: DType) -> str:
    """Arrays of the workspace share memory if this is equal: C forbids reading what was written as
    another type."""
    return element_type(_stored(dtype))


def _stored(dtype: DType) -> DType:
    """The type whose values kernels in C get."""
    return dt.uint8 if dtype.is_stored else dtype


def source(program: Program, form: Form, file: str) -> str:
    """The text of the file. file: the name of the header."""
    declares = dict.fromkeys(line for k in program.kernels for line in k.declares) \
        or dict.fromkeys(DIALECT.head)
    parts = [f'#include "{file}"', "\n".join(declares)]
    if not form.beside:
        parts += [_constant(program, i) for i in range(len(program.constants))]
        parts += [_initialize(program)] if program.states else []
    if program.blocks and not form.by_caller:
        parts.append(f"static _Alignas(64) uchar workspace[{max(program.workspace_bytes, 1)}];")
    parts += [LONG.sub(r"\1ull", k.source) for k in program.kernels]
    return "\n\n".join([*parts, _function(program, form)]) + "\n"


def _constant(program: Program, number: int) -> str:
    kept = program.constants[number]
    return (f"/* {kept.array.name}: {kept.array} */\n"
            f"static const {_values(kept, f'constant_{number}')}")


def _values(kept: Kept, name: str) -> str:
    """An array with its first contents."""
    array, contents = kept.array, kept.contents
    if array.dtype.is_float and array.dtype.bits < 32:  # C has their bits
        contents = contents.view(f"uint{array.dtype.bits}")
    values = ", ".join(_element(x, array.dtype) for x in contents.tolist()) or "0"
    words = values.split(" ")
    lines = (" ".join(words[i:i + IN_A_LINE]) for i in range(0, len(words), IN_A_LINE))
    body = "\n  ".join(lines)
    return f"{c_type(array.dtype)} {name}[{max(array.size, 1)}] = {{\n  {body}}};"


def _element(value: float, dtype: DType) -> str:
    """One value of a constant expression. (A NaN's pattern does not matter.)"""
    if dtype.is_float and dtype.bits >= 32:
        if np.isfinite(value):
            return literal(value, dtype).strip("()")
        return "NAN" if value != value else "INFINITY" if value > 0 else "-INFINITY"
    if value == -2**63:
        return "INT64_MIN"
    return str(int(value)) + ("ull" if value > 2**31 else "ll" if value < -2**31 else "")


def _initialize(program: Program) -> str:
    """The function that fills the block of states."""
    lines = [f"void {program.name}_initialize(struct {program.name}_state *state) {{"]
    for number, (kept, offset) in enumerate(zip(program.states, program.offsets, strict=True)):
        kind, size = c_type(kept.array.dtype), kept.array.size
        if not kept.contents.any():
            value = "0"
        else:
            lines.append(f"  static const {_values(kept, f'state_{number}')}")
            value = f"state_{number}[i]"
        lines.append(f"  for (ulong i = 0; i < {size}u; ++i) "
                     f"(({kind} *)((uchar *)state + {offset}))[i] = {value};")
    return "\n".join([*lines, "}"])


def _function(program: Program, form: Form) -> str:
    """The function that calls the kernels."""
    places = _Places(program, form)
    lines = [f"{prototype(program, form, numbered=True)} {{"]
    calls = [[f"  {text}" for text in places.call(call)] for call in program.calls]
    lines += chain.from_iterable(calls[:program.checked])
    lines += [f"  if (*(ulong *){places.at(check.place)} >= {check.size}u) return {number};"
              for number, check in enumerate(program.checks, 1)]
    lines += chain.from_iterable(calls[program.checked:])
    lines += [f"  {places.copy(copy)}" for copy in program.copies]
    return "\n".join([*lines, "  return 0;", "}"])


class _Places:
    """How places in memory are spelled."""

    def __init__(self, program: Program, form: Form) -> None:
        self.program, self.form = program, form
        self.starts = program.starts()

    def at(self, place: Place) -> str:
        """A pointer without a type."""
        region, number, offset = place.region, place.number, place.offset
        start, kind = region, "void *"
        if region == "constant":
            kind, start = "const void *", f"constant_{number}"
            if self.form.beside:
                start, offset = "weights", offset + self.starts["constant"][number]
        elif region in ("input", "output"):
            start = f"{region}{number}"
            if region == "input" and number not in self.program.written:
                kind = "const void *"
        elif region == "workspace":
            offset += self.starts["workspace"][number]
        if not offset:
            return f"({kind}){start}"
        constness = "const " if kind.startswith("const") else ""
        return f"({kind})(({constness}uchar *){start} + {offset})"

    def call(self, call: Call) -> Iterator[str]:
        """The statement that runs a kernel."""
        arguments = ", ".join(map(self.at, call.arguments))
        name = function_name(call.function)
        if call.work_items == 1:
            yield f"{name}({arguments}, 0);"
        else:
            yield f"for (ulong item = 0; item < {call.work_items}; ++item)"
            yield f"  {name}({arguments}, item);"

    def copy(self, copy: Copy) -> str:
        """The statement that copies bytes."""
        return (f"for (ulong i = 0; i < {copy.nbytes}u; ++i) ((uchar *){self.at(copy.target)})[i] "
                f"= ((const uchar *){self.at(copy.source)})[i];")


