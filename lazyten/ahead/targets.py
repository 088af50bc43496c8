"""What programs can be made for: C, this processor, and those that LLVM compiles for anywhere.

A file's ending says what is made: `.c` source, `.o` an object file, `.so` a shared library, `.wasm`
a module of WebAssembly.
"""
from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lazyten.runtimes.host.processors import PROCESSORS
from lazyten.support.errors import ArgumentError

NAMES = {"x86-64-v2": "x86-64-v2", "x86-64-v3": "x86-64-v3", "x86-64-v4": "x86-64-v4",
         "aarch64": "neon", "riscv64": "riscv-v", "wasm32": "wasm-simd"}
"""Processors, and their rows in PROCESSORS."""
ENDINGS = {".c": "C source", ".o": "an object file", ".so": "a shared library",
           ".wasm": "a module of WebAssembly"}


@dataclass(frozen=True, slots=True)
class Making:
    """What to make: `ending` of the file, and the `target`: 'c', 'host' or a row of PROCESSORS."""

    ending: str
    target: str
    words: str


def making(path: Path, target: object) -> Making:
    """What a path and a target ask for. ArgumentError where they do not fit."""
    ending = path.suffix
    if ending not in ENDINGS:
        kinds = ", ".join(f"{e} for {words}" for e, words in ENDINGS.items())
        raise ArgumentError(f"export: the path {str(path)!r} says by its ending what to make: "
                            f"{kinds}")
    if target is None:
        target = {".c": "c", ".wasm": "wasm32"}.get(ending, "host")
    names = {"c": "c", "host": "host", **NAMES, **dict.fromkeys(PROCESSORS)}
    if not isinstance(target, str) or target not in names:
        raise ArgumentError(f"export: target={target!r} is none; use one of c, host, "
                            f"{', '.join(NAMES)}")
    row = names[target] or target
    wants = {".c": row == "c", ".wasm": row == "wasm-simd",
             ".so": row not in ("c", "wasm-simd"), ".o": row != "c"}
    if not wants[ending]:
        fitting = ".c" if row == "c" else ".wasm or .o" if row == "wasm-simd" else ".o or .so"
        raise ArgumentError(f"export: target={target!r} makes no {ending} file: let the path end "
                            f"in {fitting}")
    words = {"c": "compilers of C", "host": "the processor it was made on"}.get(target, target)
    return Making(ending, row, words)
