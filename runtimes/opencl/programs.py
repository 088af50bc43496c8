"""Programs of OpenCL: from the texts of kernels, or from what is kept on disk.

The kernels of a build are a few programs, which processes compile at once (compiler.py).
In: generated kernels, or the binaries of earlier ones. Out: for each function the program that has
it. Called by opencl.py.
"""
from __future__ import annotations

import json
from bisect import bisect
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any

from lazyten.codegen.targets.generated import Generated
from lazyten.execution import debug
from lazyten.runtimes.contract import program_text, refusal
from lazyten.runtimes.opencl.compile_worker import binary, build, log
from lazyten.runtimes.opencl.compiler import Compiler, EndedError, RefusedError, UnavailableError
from lazyten.runtimes.opencl.devices import describe, package
from lazyten.support.disk_cache import pack, unpack
from lazyten.support.errors import CompileError

Programs = dict[str, Any]
"""A pyopencl.Program by the name of each function in it."""
Parts = Sequence[Sequence[Generated]]
"""Kernels, those of a program together."""
FEWEST = 4
"""Kernels that are worth a program of their own: one takes some time whatever is in it."""
QUIET = "-w"
"""No warnings: drivers print their number, or more, to the terminal."""


class ProgramBuilder:
    """Makes programs for a device, in `context`.

    compiler: its processes; None where this process is to compile. failed: called before the error
    for a program that the driver refused in this process.
    """

    def __init__(self, context: Any, options: Sequence[str], compiler: Compiler | None,
                 failed: Callable[[], None]) -> None:
        self.context, self.options, self.compiler = context, list(options), compiler
        self.device, = context.devices
        self.failed = failed

    def start(self, kernels: int) -> None:
        """Start what compiles so many, beside whatever this process does until it asks for it."""
        if self.compiler is not None:
            try:
                self.compiler.start(max(kernels // FEWEST, 1))
            except UnavailableError:
                self.compiler = None

    def compiled(self, kernels: Sequence[Generated]) -> tuple[Programs, Callable[[], bytes]]:
        """The programs of kernels, and what gives that which `restored` makes them of."""
        parts = split(kernels, self.compiler.count if self.compiler is not None else 1)
        made = self._binaries(parts)
        if made is None:
            program = self._built(kernels)
            return _by_function([kernels], [program]), lambda: _kept([kernels], [binary(program)])
        parts, codes = made
        programs = [self._loaded(code, part) for code, part in zip(codes, parts, strict=True)]
        return _by_function(parts, programs), lambda: _kept(parts, codes)

    def restored(self, code: bytes, kernels: Sequence[Generated]) -> Programs:
        """The programs of what `compiled` gave; compiled anew if the driver does not take it."""
        counts, *codes = unpack(code) or [b"[]"]
        ends = list(accumulate(json.loads(counts), initial=0))
        parts = [kernels[i:j] for i, j in pairwise(ends)]
        if ends[-1] != len(kernels):
            return self.compiled(kernels)[0]
        return _by_function(parts, [self._loaded(*pair)
                                    for pair in zip(codes, parts, strict=True)])

    def _binaries(self, parts: Parts) -> tuple[Parts, list[bytes]] | None:
        """What processes make of kernels, each alone if parts of them do not compile; None where
        this process has to compile them."""
        if self.compiler is None:
            return None
        texts = [program_text(part) for part in parts]
        try:
            made = self.compiler.compile(texts, self._build_options())
        except UnavailableError:
            self.compiler = None
            return None
        except (RefusedError, EndedError) as error:
            kernels = [kernel for part in parts for kernel in part]
            if len(kernels) == 1:
                raise self._refusal(kernels[0], texts[0], error) from error
            alone = [self._binaries([[kernel]]) for kernel in kernels]
            return None if None in alone else (
                [[kernel] for kernel in kernels], [code for one in alone if one for code in one[1]])
        for program in made if is_shown() else ():
            show(program.log)
        return parts, [program.code for program in made]

    def _refusal(self, kernel: Generated, source: str, error: Exception) -> CompileError:
        name = f"the compiler of {describe(self.device)}"
        if isinstance(error, EndedError):
            error = EndedError(f"it {error}")
        return refusal(name, kernel, source, ".cl", error)

    def _loaded(self, code: bytes, kernels: Sequence[Generated]) -> Any:
        """A program from its binary; compiled anew if the driver does not take it."""
        cl = package()
        try:
            return build(cl.Program(self.context, [self.device], [code]), self.options)
        except cl.Error:
            return self._built(kernels)

    def _built(self, kernels: Sequence[Generated]) -> Any:
        """A program that this process compiles."""
        cl = package()
        source = program_text(kernels)
        try:
            built = build(cl.Program(self.context, source), self._build_options())
        except cl.Error as error:
            for kernel in kernels if len(kernels) > 1 else ():
                self._built([kernel])  # that which is at fault has the error
            self.failed()
            raise self._refusal(kernels[0], source, error) from error
        if is_shown():
            show(log(built, self.device))
        return built

    def _build_options(self) -> list[str]:
        """The options, by which a compiler warns where its log is shown."""
        return self.options if is_shown() else [*self.options, QUIET]


def split(kernels: Sequence[Generated], most: int) -> Parts:
    """The kernels in order, in at most so many parts of about the same length of text."""
    count = max(min(most, len(kernels) // FEWEST), 1)
    sizes = list(accumulate(len(kernel.source) for kernel in kernels))
    cuts = [0, *(bisect(sizes, sizes[-1] * i // count) for i in range(1, count)), len(kernels)]
    return [kernels[i:j] for i, j in pairwise(cuts) if i < j]


def is_shown() -> bool:
    """Whether what compilers say is printed."""
    return debug.level() >= 3


def show(said: str) -> None:
    """Print what a compiler said."""
    print("".join(f"; {line}\n" for line in said.splitlines() if line.strip()), end="")


def _kept(parts: Parts, codes: Sequence[bytes]) -> bytes:
    return pack([json.dumps([len(part) for part in parts]).encode(), *codes])


def _by_function(parts: Parts, programs: Sequence[Any]) -> Programs:
    return {entry: program for part, program in zip(parts, programs, strict=True)
            for kernel in part for entry in kernel.entries}
