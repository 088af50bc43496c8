"""The header of a program: its functions, and sizes as constants.

In: a `Program`, and where its constants and its workspace are. Out: text in C, which C++ takes,
too.
"""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lazyten.ahead.program import Array, Program
from lazyten.ir.dtype import DType
from lazyten.version import __version__

_TYPES = {"float32": "float", "float64": "double"}


@dataclass(frozen=True, slots=True)
class Form:
    """How a program is given. target: what it is for, in words. beside: constants and first states
    are files beside it. by_caller: the workspace is memory that the caller gives."""

    target: str
    beside: bool = False
    by_caller: bool = False


def c_type(dtype: DType) -> str:
    """The type of one element in C: narrow floats are their patterns, bools are bytes."""
    if dtype.is_float:
        return _TYPES.get(dtype.name, f"uint{dtype.bits}_t")
    sign = "u" if dtype.kind in "ub" else ""
    return f"{sign}int{max(dtype.bits, 8)}_t"


def blocks_given(program: Program, form: Form) -> dict[str, int]:
    """The blocks of memory that come after the arrays of a call, and the bytes of each."""
    found = {"state": program.state_bytes} if program.states else {}
    if form.beside and program.constants:
        found["weights"] = program.weights_bytes
    if form.by_caller and program.blocks:
        found["workspace"] = program.workspace_bytes
    return found


def parameters(program: Program, form: Form, numbered: bool = False) -> list[str]:
    """The parameters of the program's function. numbered: as input0, .., output0, .. inside, where
    no name of the user's can be in the way."""
    found = [f"{'' if i in program.written else 'const '}{c_type(a.dtype)} *"
             f"{f'input{i}' if numbered else a.name}" for i, a in enumerate(program.inputs)]
    found += [f"{c_type(a.dtype)} *{f'output{i}' if numbered else a.name}"
              for i, a in enumerate(program.outputs)]
    types = {"state": f"struct {program.name}_state *", "weights": "const void *",
             "workspace": "void *"}
    found += [types[block] + block for block in blocks_given(program, form)]
    return found or ["void"]


def prototype(program: Program, form: Form, numbered: bool = False) -> str:
    """The program's function, as it is declared. numbered: see `parameters`."""
    start = f"int {program.name}("
    given = parameters(program, form, numbered)
    joined = ", ".join(given)
    if len(start) + len(joined) > 96:
        joined = (",\n" + " " * len(start)).join(given)
    return f"{start}{joined})"


def header(program: Program, form: Form) -> str:
    """The text of the header."""
    big = program.name.upper()
    lines = [f"/* {program.name}: made by lazyten {__version__} for {form.target}. */",
             f"#ifndef {big}_H", f"#define {big}_H", "", "#include <stdint.h>", "",
             "#ifdef __cplusplus", 'extern "C" {', "#endif", "",
             "/* Elements of each array, row-major, aligned as its type is. */"]
    lines += [_size(big, a) for a in (*program.inputs, *program.outputs)]
    lines += _blocks(program, form, big)
    lines += ["", *_about(program, form), f"{prototype(program, form)};", "",
              "#ifdef __cplusplus", "}", "#endif", "", "#endif", ""]
    return "\n".join(lines)


def _size(big: str, array: Array) -> str:
    return f"#define {big}_{array.name.upper()}_SIZE {array.size}  /* {array} */"


def _blocks(program: Program, form: Form, big: str) -> Iterator[str]:
    """Blocks of memory that the caller gives, and what is in them."""
    given = blocks_given(program, form)
    if "state" in given:
        first = f"the file {program.name}.state.bin has it" if form.beside else \
            f"{program.name}_initialize gives it"
        yield from ("", f"/* What is kept from call to call; it begins as {first}. */",
                    f"struct {program.name}_state {{", *_members(program), "};",
                    f"#define {big}_STATE_BYTES {given['state']}")
        if not form.beside:
            yield f"void {program.name}_initialize(struct {program.name}_state *state);"
    if "weights" in given:
        yield from ("", f"/* The file {program.name}.weights.bin in memory, aligned to 8 bytes. */",
                    f"#define {big}_WEIGHTS_BYTES {given['weights']}")
    if "workspace" in given:
        yield from ("", "/* Memory for values in between, aligned to 8 bytes; its contents do not "
                    "matter. */", f"#define {big}_WORKSPACE_BYTES {given['workspace']}")


def _members(program: Program) -> Iterator[str]:
    """The arrays of a state, each where it is in the block."""
    ends = [*program.offsets[1:], program.state_bytes]
    for number, (kept, offset, end) in enumerate(zip(program.states, program.offsets, ends,
                                                     strict=True)):
        a = kept.array
        if a.size:
            yield f"  {c_type(a.dtype)} {a.name}[{a.size}];  /* {a} */"
        if end - offset > a.nbytes:
            yield f"  uint8_t fill_{number}[{end - offset - a.nbytes}];"


def _about(program: Program, form: Form) -> list[str]:
    """The comment of the function."""
    lines = ["Returns 0. Arrays must not overlap."]
    if program.checks:
        lines = ["Returns 0, or, with the state as it was and outputs that mean nothing:",
                 *(f"  {number}: {check.about}" for number, check in enumerate(program.checks, 1)),
                 "Arrays must not overlap."]
    if program.blocks and not form.by_caller:
        lines.append("One call at a time: values in between are in static memory.")
    lines = ["/* " + lines[0], *(f"   {line}" for line in lines[1:])]
    return [*lines[:-1], lines[-1] + " */"]
