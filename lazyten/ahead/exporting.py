"""`lt.export`: a function of tensors as a program without Python.

In: a function or module, arguments like those of its calls, a path. Out: files, which appear all or
not at all.
"""
from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lazyten.ahead import c_source, llvm_object, wasm
from lazyten.ahead.capturing import traced
from lazyten.ahead.header import Form, blocks_given, header
from lazyten.ahead.naming import check_function
from lazyten.ahead.planning import planned
from lazyten.ahead.program import Array, Program, Traced, contents
from lazyten.ahead.targets import Making, making
from lazyten.support.errors import ArgumentError
from lazyten.support.paths import path_of, write_files


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written. files: the program first, then its header, then what is beside it. The
    arrays of its interface come with their names in C; bytes are those of its memory."""

    name: str
    files: tuple[Path, ...]
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    states: tuple[Array, ...]
    weights: tuple[Array, ...]
    state_bytes: int
    weights_bytes: int
    workspace_bytes: int

    def __str__(self) -> str:
        given = ", ".join(f"{a.name}: {a}" for a in self.inputs)
        found = ", ".join(f"{a.name}: {a}" for a in self.outputs)
        return (f"{self.name}({given}) -> {found}; {self.weights_bytes:,} bytes of weights, "
                f"{self.state_bytes:,} of state, {self.workspace_bytes:,} of workspace")


def export(function: Callable[..., Any], example: Any, path: str | os.PathLike[str],
           target: str | None = None, *, name: str | None = None,
           input_names: Sequence[str] | None = None, output_names: Sequence[str] | None = None,
           weights: str = "inside", workspace: str = "static") -> Exported:
    """Write a function of tensors, or a module, as a program without Python, with a C header.

    It is called once with stand-ins that have no values, as by `lt.jit`: one call of the program is
    one call of the function, for arrays of the same shapes and types. What it changes in place
    (parameters, an optimizer's state, a layer's statistics) is kept in a block of memory, `state`,
    and changed by each call; the learning rate stands there, too.

    example: the arguments of one call, a tensor, a tuple or a dict by name; their values do not
    matter, and what is no tensor is a constant. path: its ending says what is made: .c C source, .o
    an object file, .so a shared library (which needs a C compiler, to link), .wasm a module. The
    header stands beside it. target: 'c', 'host' (this processor), 'x86-64-v2', 'x86-64-v3',
    'x86-64-v4', 'aarch64', 'riscv64' (with vectors) or 'wasm32' (with SIMD); what the path says if
    None. name: of the function in C, the file's if None. input_names, output_names: of its arrays,
    the names of the function's parameters, and output or output_0, .., if None. weights: 'inside'
    the program, or 'beside' it in files `.weights.bin` and `.state.bin`, which the caller reads or
    maps into memory. workspace: 'static' memory inside, or given by the 'caller'.

    The program allocates nothing, starts no thread, and calls nothing but functions of <math.h>.
    Raises ArgumentError for a function that looks at values, draws random numbers or keeps
    something in Python from call to call, for names that C cannot have, for targets and paths that
    do not fit; nothing is written then.
    """
    file = path_of(path, "export")
    made = making(file, target)
    for option, given, possible in (("weights", weights, ("inside", "beside")),
                                    ("workspace", workspace, ("static", "caller"))):
        if given not in possible:
            raise ArgumentError(f"export: {option}={given!r} must be "
                                f"{' or '.join(map(repr, possible))}")
    form = Form(made.words, weights == "beside", workspace == "caller")
    called = check_function(file.stem, "the file's name, which is the function's unless name= "
                              "is given,") if name is None else check_function(name, "name=")
    graph = traced(function, example, called, input_names, output_names)
    program, content = _compiled(graph, form, made, file.with_suffix(".h").name)
    files = {file: content, file.with_suffix(".h"): header(program, form).encode()}
    if form.beside:
        blocks = {"weights": program.constants, "state": program.states}
        files |= {file.with_name(f"{called}.{kind}.bin"): contents(kept)
                  for kind, kept in blocks.items() if kept}
    write_files(files, "export")
    return described(program, tuple(files))


def _compiled(graph: Traced, form: Form, made: Making, beside: str) -> tuple[Program, bytes]:
    """The program, and the file that has it. beside: the name of the header."""
    if made.target == "c":
        program = planned(graph, c_source.TARGET, c_source.memory_kind)
        return program, c_source.source(program, form, beside).encode()
    program = planned(graph, llvm_object.target_of(made.target), lambda dtype: None)
    content = llvm_object.object_file(program, form, made.target)
    if made.ending == ".wasm":
        content = wasm.module(content, *_exports(program, form))
    if made.ending == ".so":
        content = llvm_object.shared_library(content, program.name)
    return program, content


def _exports(program: Program, form: Form) -> tuple[list[str], dict[str, int]]:
    """What a module offers by name: functions, and bytes for each array."""
    functions = [program.name]
    arrays = {a.name: a.nbytes for a in (*program.inputs, *program.outputs)}
    if program.states and not form.beside:
        functions.append(f"{program.name}_initialize")
    return functions, arrays | blocks_given(program, form)


def described(program: Program, files: tuple[Path, ...]) -> Exported:
    """What was made of a program."""
    return Exported(program.name, files, program.inputs, program.outputs,
                    tuple(k.array for k in program.states),
                    tuple(k.array for k in program.constants), program.state_bytes,
                    program.weights_bytes, program.workspace_bytes)
