"""Decisions that a user gives for kernels: files of them, and which one a kernel has.

A file is text, a line a kernel: `KEY TARGET: DECISIONS`, with `#` before what is a comment. KEY
stands for what the kernel computes, TARGET for the vector unit that the decisions are made for;
`lt.tune` writes such files. They come from the environment variable LAZYTEN_DECISIONS (several with
the system's path separator between them) and from `load`. Runtimes ask `given_for`; what decisions
mean for a kernel is the code generator's business.
"""
from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from lazyten.ir.decision_grammar import parts
from lazyten.ir.kernel import Given, Kernel, computation
from lazyten.support.errors import ArgumentError
from lazyten.support.paths import path_of, writing

VARIABLE = "LAZYTEN_DECISIONS"
_LINE = re.compile(r"([0-9a-f]{16})\s+([\w.-]+)\s*:\s*(.+)")
_HEADER = "# Decisions for kernels: key, target, decisions. The last line of a key counts.\n"

Key = tuple[str, str]
_loaded: dict[Key, Given] = {}
"""What `load` found; it goes before the environment's."""


def key_of(kernel: Kernel) -> str:
    """16 hexadecimal digits for what a kernel computes: equal on every machine, whatever the
    kernel is called."""
    return hashlib.sha256(computation(kernel).encode()).hexdigest()[:16]


def given_for(kernel: Kernel, target: str) -> Given | None:
    """The decisions that a user gave for this kernel on this target."""
    given = _from_environment(os.environ.get(VARIABLE, ""))
    if not given and not _loaded:
        return None
    key = key_of(kernel), target
    return _loaded.get(key) or given.get(key)


def load(path: str | os.PathLike[str]) -> int:
    """Use a file's decisions for kernels compiled from now on; gives how many there are."""
    found = read(path)
    _loaded.update(found)
    return len(found)


def use(kernel: Kernel, target: str, given: Given) -> None:
    """Use these decisions for a kernel from now on."""
    _loaded[key_of(kernel), target] = given


def loaded() -> dict[Key, Given]:
    """What was loaded, as `restore` takes it."""
    return dict(_loaded)


def restore(before: Mapping[Key, Given]) -> None:
    """Use what was loaded when `loaded` gave this, besides the environment's."""
    _loaded.clear()
    _loaded.update(before)


@lru_cache(1)
def _from_environment(paths: str) -> Mapping[Key, Given]:
    found: dict[Key, Given] = {}
    for path in filter(None, paths.split(os.pathsep)):
        found |= read(path)
    return found


def read(path: str | os.PathLike[str]) -> dict[Key, Given]:
    """A file's decisions by kernel and target. ArgumentError with the line that cannot be read."""
    file = path_of(path, "decisions", f"a text file, to lt.load_decisions or in {VARIABLE}")
    try:
        lines = file.read_text("utf8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ArgumentError(f"decisions of {str(file)!r} cannot be read: {error}; give a "
                            f"text file that exists, to lt.load_decisions or in {VARIABLE}"
                            ) from error
    found = {}
    for number, line in enumerate(lines, 1):
        text = line.partition("#")[0].strip()
        match = _LINE.fullmatch(text)
        if match is not None:
            given = Given(match[3].strip(), f"{file}:{number}")
            parts(given.text, given.where)
            found[match[1], match[2]] = given
        elif text:
            raise ArgumentError(f"{file}:{number}: {text!r:.80} is not KEY TARGET: "
                                "DECISIONS, such as '0123456789abcdef cpu-32x16: vector(i0:8)'")
    return found


def check_appendable(path: str | os.PathLike[str]) -> None:
    """ArgumentError unless a file can be added to: one that can be read, or that can be made."""
    file = path_of(path, "tune")
    if file.exists():
        read(file)
    if not os.access(file if file.exists() else file.parent, os.W_OK):
        raise ArgumentError(f"tune: {file} cannot be written; give a file in a folder that exists "
                            f"and can be written")


def append(path: str | os.PathLike[str], kernel: Kernel, target: str, text: str,
           comment: str) -> None:
    """Add a line to a file, with a comment before it; makes the file if there is none."""
    with writing(Path(path), "tune"), Path(path).open("a", encoding="utf8") as file:
        if file.tell() == 0:
            file.write(_HEADER)
        file.write(f"# {kernel.name}: {comment}\n{key_of(kernel)} {target}: {text}\n")
