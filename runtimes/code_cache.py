"""Compiled kernels on disk, so that the next process compiles nothing that this one did.

A runtime whose `compile` gives bytes, one for each kernel, lets `CodeCache.translate` stand before
it. An entry is keyed by the kernel's structure and by `context`: all else that its code depends on.
A hit skips the code generator as well as the device's compiler.
"""
from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np

from lazyten import node
from lazyten.codegen import pipeline
from lazyten.codegen.generated import Generated
from lazyten.disk_cache import DiskCache, default_folder
from lazyten.kernel import Kernel
from lazyten.runtimes import contract

IMPORTED = time.time()
SETTLED_SECONDS = 2.0
"""A source file that changed less than this before IMPORTED may not be what was imported."""

FOLDERS = tuple(Path(str(module.__file__)).parent for module in (node, pipeline, contract))
"""Where lazyten's source is; in a checkout that is not one folder."""

APART = "\0"
"""Between declarations, which may have several lines."""

Generate = Callable[[Sequence[Kernel]], list[Generated]]
Compile = Callable[[Sequence[Generated]], list[bytes]]


class CodeCache:
    """Code of kernels for one device. `context` names it, and the versions of its compiler."""

    def __init__(self, context: str, disk: DiskCache | None) -> None:
        self.context, self.disk = context, disk

    def translate(self, kernels: Mapping[str, Kernel], generate: Generate,
                  compile: Compile) -> tuple[list[Generated], list[bytes]]:
        """Text and code of kernels, given by their structure; what is missing is made and kept."""
        found = {key: entry for key, kernel in kernels.items()
                 if (entry := self._find(key, kernel)) is not None}
        missing = [key for key in kernels if key not in found]
        generated = generate([kernels[key] for key in missing])
        for key, text, code in zip(missing, generated, compile(generated), strict=True):
            found[key] = text, code
            self._keep(key, text, code)
        return [found[key][0] for key in kernels], [found[key][1] for key in kernels]

    def _find(self, key: str, kernel: Kernel) -> tuple[Generated, bytes] | None:
        parts = self.disk.get(f"{self.context}\n{key}") if self.disk is not None else None
        if parts is None or len(parts) != 8:
            return None
        source, declares, loops, entries, *numbers = (part.decode() for part in parts[:7])
        scratch, items, groups = (tuple(map(int, n.split())) for n in numbers)
        lines = tuple(declares.split(APART)) if declares else ()
        return Generated(kernel.name, source, lines, loops, kernel.where,
                         tuple(entries.split()), scratch, items, groups), parts[7]

    def _keep(self, key: str, text: Generated, code: bytes) -> None:
        if self.disk is not None:
            texts = (text.source, APART.join(text.declares), text.loops, " ".join(text.entries),
                     *(" ".join(map(str, n))
                       for n in (text.scratch, text.work_items, text.groups)))
            self.disk.put(f"{self.context}\n{key}", [*(t.encode() for t in texts), code])


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
        for path in sorted(folder.rglob("*.py")):
            newest = max(newest, path.stat().st_mtime)
            text = path.read_bytes()
            digest.update(f"{path.relative_to(folder)} {len(text)}\n".encode() + text)
    if newest == 0.0 or newest > IMPORTED - SETTLED_SECONDS:
        return None
    return f"lazyten {digest.hexdigest()}, numpy {np.__version__}"
