"""Compiled kernels on disk, so that the next process compiles nothing that this one did.

A runtime whose `compile` gives bytes, one for each kernel, lets `CodeCache.translate` stand before
it; one whose compiler makes one program of several, `translate_together`. An entry is keyed by the
structure of its kernels and by `context`: all else that its code depends on. A hit skips the code
generator as well as the device's compiler.
"""
from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from lazyten.codegen.targets.generated import Generated
from lazyten.devices.executor import Kept
from lazyten.ir.kernel import Kernel
from lazyten.runtimes.claims import Claims
from lazyten.runtimes.overlap import overlapped
from lazyten.support import observers
from lazyten.support.disk_cache import DiskCache, default_folder

IMPORTED = time.time()
SETTLED_SECONDS = 2.0
"""A source file that changed less than this before IMPORTED may not be what was imported."""

BATCHES = 4
"""With fewer batches of kernels little would be compiled while others are generated."""

PACKAGES = ("lazyten", "lazyten.codegen", "lazyten.runtimes")
FOLDERS = tuple(Path(folder) for name in PACKAGES for folder in sys.modules[name].__path__)
"""Where lazyten's source is, with all folders below; in a checkout that is not one folder."""

Generate = Callable[[Sequence[Kernel]], list[Generated]]
Compile = Callable[[Sequence[Generated]], list[bytes]]
CompileProgram = Callable[[Sequence[Generated]], bytes]
Made = tuple[Generated, bytes]
"""A kernel's text and code."""


class CodeCache(Kept):
    """Code of kernels for one device, and schedules. `context` names it, and the versions of its
    compiler."""

    def __init__(self, context: str, disk: DiskCache | None) -> None:
        self.context, self.disk = context, disk

    @property
    def kept(self) -> Kept | None:
        """Itself, if it keeps anything."""
        return None if self.disk is None else self

    def find(self, key: str) -> bytes | None:
        if self.disk is None or observers.any_needs_passes():
            return None
        parts = self.disk.get(self._entry(key))
        return parts[0] if parts is not None and len(parts) == 1 else None

    def keep(self, key: str, data: bytes) -> None:
        if self.disk is not None:
            self.disk.put(self._entry(key), [data])

    def translate(self, kernels: Mapping[str, Kernel], generate: Generate, compile: Compile,
                  most: int = 1) -> tuple[list[Generated], list[bytes]]:
        """Text and code of kernels, given by what these depend on; what is missing is made and
        kept. Texts have the names that they were made with.

        Texts are compiled, up to `most` at a time, while the next are generated, in another thread.
        What another process is making at the moment is waited for at the end.
        """
        found = self._found(kernels)
        missing = _without(kernels, found)
        if missing:
            made, claims = partial(self._made, generate, compile, most), self._claims()
            found |= made(missing, claims)
            others = _without(missing, found)
            for key in others:
                if not claims.wait(self._entry(key)):
                    break  # the process that has it has stopped, and may have others
            found |= self._found(others)
            found |= made(_without(others, found), Claims(None))
        return [found[key][0] for key in kernels], [found[key][1] for key in kernels]

    def _made(self, generate: Generate, compile: Compile, most: int,
              kernels: Mapping[str, Kernel], claims: Claims) -> dict[str, Made]:
        """Those of the kernels that no other process has claimed, made and kept."""
        done: dict[str, Made] = {}

        def begin(batch: Sequence[str]) -> tuple[Sequence[str], list[Generated]]:
            mine = {key: kernels[key] for key in batch if claims.take(self._entry(key))}
            if claims.are_shared:
                done.update(self._found(mine))  # which another has made since
            mine = _without(mine, done)
            return list(mine), generate(list(mine.values())) if mine else []

        def finish(begun: tuple[Sequence[str], list[Generated]]) -> None:
            keys, texts = begun
            for key, text, code in zip(keys, texts, compiled(texts) if texts else (), strict=True):
                done[key] = text, code
                self._write(key, [text], code)
                claims.give_back(self._entry(key))

        compiled = observers.compiling(compile)
        try:
            overlapped(begin, finish, _batches(list(kernels), most))
        finally:
            for key in kernels:
                claims.give_back(self._entry(key))
        return done

    def translate_together(self, kernels: Mapping[str, Kernel], generate: Generate,
                           compile: CompileProgram) -> tuple[list[Generated], bytes]:
        """The same where several kernels are compiled to one program, which is an entry."""
        key = "\n\n".join(kernels)
        claims, entry = self._claims(), self._entry(key)
        parts = self._read(key, len(kernels))
        if parts is None and not claims.take(entry):
            claims.wait(entry)
            parts = self._read(key, len(kernels))
        if parts is not None:
            return list(map(_from_text, parts[:-1], kernels.values())), parts[-1]
        try:
            generated = generate(list(kernels.values()))
            code = observers.compiling(compile)(generated)
            self._write(key, generated, code)
        finally:
            claims.give_back(entry)
        return generated, code

    def translate_own(self, text: str, compile: Callable[[str], bytes]) -> bytes:
        """The code of a text that is no kernel's."""
        parts = self._read(text, 0)
        if parts is not None:
            return parts[0]
        code = compile(text)
        self._write(text, [], code)
        return code

    def _claims(self) -> Claims:
        """Of what is to be made; not where each process has to make what it runs."""
        if self.disk is None or observers.any_needs_passes():
            return Claims(None)
        return Claims(self.disk.folder)

    def _found(self, kernels: Mapping[str, Kernel]) -> dict[str, Made]:
        """Those of the kernels that are on disk."""
        read = ((key, kernel, self._read(key, 1)) for key, kernel in kernels.items())
        return {key: (_from_text(parts[0], kernel), parts[1]) for key, kernel, parts in read
                if parts is not None}

    def _entry(self, key: str) -> str:
        return f"{self.context}\n{key}"

    def _read(self, key: str, kernels: int) -> list[bytes] | None:
        if self.disk is None or kernels and observers.any_needs_passes():
            return None
        parts = self.disk.get(self._entry(key))
        return parts if parts is not None and len(parts) == kernels + 1 else None

    def _write(self, key: str, kernels: Sequence[Generated], code: bytes) -> None:
        if self.disk is not None:
            texts = [_text_of(kernel) for kernel in kernels]
            self.disk.put(self._entry(key), [*texts, code])


def _without(kernels: Mapping[str, Kernel], found: Mapping[str, Made]) -> dict[str, Kernel]:
    return {key: kernel for key, kernel in kernels.items() if key not in found}


def _batches(keys: Sequence[str], most: int) -> list[Sequence[str]]:
    """Keys in their order, up to `most` at a time, and so few that there are some BATCHES."""
    size = max(min(most, len(keys) // BATCHES), 1)
    return [keys[first:first + size] for first in range(0, len(keys), size)]


def _text_of(kernel: Generated) -> bytes:
    """What an entry keeps of a kernel besides its code."""
    return json.dumps([getattr(kernel, name) for name in KEPT]).encode()


def _from_text(part: bytes, kernel: Kernel) -> Generated:
    kept = dict(zip(KEPT, map(_as_tuples, json.loads(part)), strict=True))
    return Generated(where=kernel.where, **kept)


def _as_tuples(value: Any) -> Any:
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value


KEPT = tuple(f.name for f in fields(Generated) if f.name != "where")


def open_cache(context: str) -> CodeCache:
    """The user's cache for this context; one that keeps nothing if there is none."""
    folder = default_folder()
    version = None if folder is None else code_version()
    if folder is None or version is None:
        return CodeCache(context, None)
    return CodeCache(f"{version}\n{context}", DiskCache(folder))


@cache
def code_version() -> str | None:
    """What generated text depends on besides kernels and targets: lazyten's source, and NumPy,
    which folds constants.

    None if the source is not there, or so new that this process may run what was there before.
    """
    digest = hashlib.sha256()
    newest = 0.0
    for folder in FOLDERS:
        for path in _sources(folder):
            with open(path, "rb", buffering=0) as file:
                newest = max(newest, os.fstat(file.fileno()).st_mtime)
                text = file.read()
            digest.update(f"{path[len(str(folder)):]} {len(text)}\n".encode() + text)
    if newest == 0.0 or newest > IMPORTED - SETTLED_SECONDS:
        return None
    return f"lazyten {digest.hexdigest()}, numpy {np.__version__}"


def _sources(folder: Path) -> list[str]:
    """The paths of Python files below a folder, in order. (pathlib takes ten times as long.)"""
    return sorted(os.path.join(place, name) for place, _, names in os.walk(folder)
                  for name in names if name.endswith(".py"))
