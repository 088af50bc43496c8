"""The index of a checkpoint: what is in it, and which file has which part of a tensor.

It is JSON: {"format": .., "tensors": {name: {"path", "dtype", "shape", "chunks"}}, "values": {name:
{"path", "value"}}, "checksums": {file: CRC-32 of its bytes}}. A chunk is {"offsets", "sizes",
"file", "key"}: which box of the tensor it is, and under which name it is in a safetensors file. A
path is the way to a value through dicts and lists: keys, and places in lists as lists of one
number.
"""
from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zlib import crc32

from lazyten.distributed.checkpoint.entries import Way
from lazyten.frontend.parts import Box
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.ir.node import Shape
from lazyten.saving.serialization import read
from lazyten.support.errors import ArgumentError, LazytenError

FORMAT = "lazyten.checkpoint.1"
INDEX = "index.json"


@dataclass(frozen=True, slots=True)
class Chunk:
    """A box of a tensor: in which file, and under which name there."""

    box: Box
    file: str
    key: str


@dataclass(frozen=True, slots=True)
class Saved:
    """A tensor that was saved."""

    way: Way
    dtype: DType
    shape: Shape
    chunks: tuple[Chunk, ...]


@dataclass(slots=True)
class Index:
    """tensors: by name. values: what else was saved, by name, with the way to it, as data of
    saving/saving.py. checksums: of files, by name; those saved without any have none."""

    tensors: dict[str, Saved] = field(default_factory=dict)
    values: dict[str, tuple[Way, Any]] = field(default_factory=dict)
    checksums: dict[str, int] = field(default_factory=dict)

    def text(self) -> str:
        """As JSON, a line an entry."""
        tensors = {name: {"path": way_text(saved.way), "dtype": saved.dtype.name,
                          "shape": list(saved.shape),
                          "chunks": [{"offsets": list(c.box.offsets), "sizes": list(c.box.sizes),
                                      "file": c.file, "key": c.key} for c in saved.chunks]}
                   for name, saved in self.tensors.items()}
        values = {name: {"path": way_text(way), "value": value}
                  for name, (way, value) in self.values.items()}
        return (f'{{"format": {json.dumps(FORMAT)},\n"tensors": {_lines(tensors)},\n'
                f'"values": {_lines(values)},\n"checksums": {json.dumps(self.checksums)}}}\n')


def _lines(entries: dict[str, Any]) -> str:
    inner = ",\n".join(f"{json.dumps(name)}: {json.dumps(about)}"
                       for name, about in entries.items())
    return f"{{\n{inner}}}"


def checksum(path: Path) -> int:
    """The CRC-32 of a file's bytes."""
    found = 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            found = crc32(block, found)
    return found


def way_text(way: Way) -> list[Any]:
    """A way as JSON."""
    return [list(step) if isinstance(step, tuple) else step for step in way]


def way_of(text: list[Any]) -> Way:
    """The way of which this is the JSON."""
    return tuple((int(step[0]),) if isinstance(step, list) else step for step in text)


def index_of(folder: Path, operation: str) -> Index:
    """The index of a checkpoint. MissingFileError where there is none; ArgumentError for one that
    is damaged."""
    path = folder / INDEX
    content = read(path, operation)
    try:
        found = json.loads(content)
        if found["format"] != FORMAT:
            raise ValueError(f"its format is {found['format']!r:.40}, not {FORMAT!r}")
        return Index({name: _saved(name, about) for name, about in found["tensors"].items()},
                     {name: (way_of(about["path"]), about["value"])
                      for name, about in found["values"].items()},
                     {str(file): int(crc) for file, crc in found.get("checksums", {}).items()})
    except (AttributeError, IndexError, KeyError, LazytenError, TypeError, ValueError) as error:
        what = f"it lacks {error}" if isinstance(error, KeyError) else str(error)
        raise ArgumentError(f"{operation}: the index {path} is damaged: {what}; use another "
                            f"checkpoint") from error


def _saved(name: str, about: dict[str, Any]) -> Saved:
    shape = tuple(map(int, about["shape"]))
    chunks = tuple(Chunk(Box(tuple(map(int, c["offsets"])), tuple(map(int, c["sizes"]))),
                         str(c["file"]), str(c["key"])) for c in about["chunks"])
    inside = Box((0,) * len(shape), shape)
    for chunk in chunks:
        if inside.shared(chunk.box) != chunk.box or Path(chunk.file).name != chunk.file:
            raise ValueError(f"{name} of shape {shape} has a part {chunk}")
    count = sum(chunk.box.count for chunk in chunks)
    if count != math.prod(shape):
        raise ValueError(f"{name} of shape {shape} has parts of {count} elements")
    return Saved(way_of(about["path"]), dt.as_dtype(about["dtype"]), shape, chunks)
