"""Saving: each rank tells what it has, all work out who writes what, and each writes its file."""
from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lazyten.distributed.checkpoint import folders
from lazyten.distributed.checkpoint.entries import Way, entries, is_stateful, name_of, state_of
from lazyten.distributed.checkpoint.index import Chunk, Index, Saved, checksum, way_of, way_text
from lazyten.distributed.group import Group
from lazyten.distributed.messages import gathered, together
from lazyten.frontend.parts import Box, placement_of
from lazyten.frontend.tensor import Tensor
from lazyten.ir import dtype as dt
from lazyten.saving.saving import described
from lazyten.saving.serialization import Array, stored, write_arrays
from lazyten.support.errors import ArgumentError, StateError

OPERATION = "checkpoint.save"


def save(state: Any, folder: Path, group: Group | None) -> None:
    """Write a checkpoint of all ranks of a group; None: of this process alone."""
    own = together(group, OPERATION, lambda: dict(_named(state)))
    told = [json.loads(text) for text in gathered(json.dumps(_told(own)), group, OPERATION)]
    rank = 0 if group is None else group.rank
    number = together(group, OPERATION,
                      lambda: folders.prepare(folder, OPERATION) if rank == 0 else 0)
    number = int(gathered(str(number), group, OPERATION)[0])
    index = together(group, OPERATION, lambda: _planned(told, number, group))
    file = folders.file_of(number, rank)
    own_sum = together(group, OPERATION, lambda: _write(own, index, folder, file))
    sums = map(json.loads, gathered(json.dumps(own_sum), group, OPERATION))
    index.checksums = {name: found for told_sum in sums for name, found in told_sum.items()}
    together(group, OPERATION, lambda: folders.commit(folder, index.text(), OPERATION)
             if rank == 0 else None)


def _named(state: Any) -> Iterator[tuple[str, tuple[Way, Any]]]:
    """What is to be saved by name: tensors, and other data as JSON."""
    seen: set[str] = set()
    for way, value in _all(state, ()):
        name = name_of(way)
        if name in seen:
            raise ArgumentError(f"{OPERATION}: two values are called {name!r}; give one of the "
                                f"keys another name")
        seen.add(name)
        yield name, (way, value if isinstance(value, Tensor) else _data(name, value))


def _all(state: Any, before: Way) -> Iterator[tuple[Way, Any]]:
    for entry in entries(state, OPERATION):
        way = (*before, *entry.way)
        if is_stateful(entry.value):
            yield from _all(state_of(entry.value), way)
        else:
            yield way, entry.value


def _data(name: str, value: Any) -> Any:
    inner: dict[str, Tensor] = {}
    text = described(value, inner, name)
    if inner:
        raise ArgumentError(f"{OPERATION}: {name} is {type(value).__name__} {value!r:.40}; make "
                            f"arrays tensors, and tuples and sets that hold tensors lists")
    return text


def _told(own: dict[str, tuple[Way, Any]]) -> dict[str, Any]:
    """What a rank tells of what it has."""
    tensors, values = {}, {}
    for name, (way, value) in own.items():
        if isinstance(value, Tensor):
            placement = placement_of(value)
            tensors[name] = [way_text(way), value.dtype.name, placement.whole_shape,
                             [[p.box.offsets, p.box.sizes] for p in placement.pieces]]
        else:
            values[name] = [way_text(way), value]
    return {"tensors": tensors, "values": values}


def _planned(told: list[dict[str, Any]], number: int, group: Group | None) -> Index:
    """Which rank writes what: what several have the one with the least to write then. StateError if
    they differ, or lack something together."""
    index, loads = Index(), [0] * len(told)
    keys: set[tuple[str, str]] = set()
    for name in dict.fromkeys(name for rank in told for name in rank["tensors"]):
        holders = [r for r, rank in enumerate(told) if name in rank["tensors"]]
        path, type_name, shape, _ = told[holders[0]]["tensors"][name]
        _check_same(name, told, holders, group)
        dtype = dt.as_dtype(type_name)
        boxes: dict[Box, list[int]] = {}
        for r in holders:
            for offsets, sizes in told[r]["tensors"][name][3]:
                boxes.setdefault(Box(tuple(offsets), tuple(sizes)), []).append(r)
        count = sum(box.count for box in boxes)
        if count != math.prod(shape):
            raise StateError(f"{OPERATION}: of {name}, of shape {tuple(shape)}, ranks have "
                             f"{count} elements, and not {math.prod(shape)}; save on all ranks "
                             f"that share it out")
        chunks = []
        for box, having in boxes.items():
            writer = min(having, key=lambda r: (loads[r], r))
            loads[writer] += box.count * dtype.itemsize
            file, key = folders.file_of(number, writer), name
            if box.count < count:
                key = f"{name}@{','.join(map(str, box.offsets))}"
            while (file, key) in keys:
                key += "'"
            keys.add((file, key))
            chunks.append(Chunk(box, file, key))
        index.tensors[name] = Saved(way_of(path), dtype, tuple(shape), tuple(chunks))
    for rank in told:
        for name, (path, value) in rank["values"].items():
            if name in index.tensors:
                raise StateError(f"{OPERATION}: {name} is a tensor on some ranks, and other data "
                                 f"on others; give all the same state")
            index.values.setdefault(name, (way_of(path), value))
    return index


def _check_same(name: str, told: list[dict[str, Any]], holders: list[int], group: Group | None
                ) -> None:
    """StateError if a tensor is not the same kind on all ranks that have it."""
    for r in holders[1:]:
        first, other = (told[n]["tensors"][name][1:3] for n in (holders[0], r))
        if first != other and group is not None:
            raise StateError(f"{OPERATION}: {name} is {first[0]}{first[1]} on rank "
                             f"{group.ranks[holders[0]]}, but {other[0]}{other[1]} on rank "
                             f"{group.ranks[r]}; give all ranks the same state")


def _write(own: dict[str, tuple[Way, Any]], index: Index, folder: Path, file: str
           ) -> dict[str, int]:
    """Write this rank's file, if it has anything to write; gives its checksum by its name."""
    arrays: dict[str, tuple[Array, Any]] = {}
    for name, saved in index.tensors.items():
        chunks = [chunk for chunk in saved.chunks if chunk.file == file]
        if not chunks:
            continue
        value = own[name][1]
        flat = stored(name, value).reshape(-1)
        starts = {piece.box: piece.start for piece in placement_of(value).pieces}
        for chunk in chunks:
            start = starts[chunk.box]
            arrays[chunk.key] = (flat[start:start + chunk.box.count].reshape(chunk.box.sizes),
                                 saved.dtype)
    if not arrays:
        return {}
    path = folders.partial_of(folder) / file
    with folders.writing(folder, OPERATION):
        write_arrays(arrays, path)
        folders.flush(path)
        return {file: checksum(path)}
