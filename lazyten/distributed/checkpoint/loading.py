"""Loading: each rank reads the parts of files that it needs, and changes nothing before all have
found theirs.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lazyten.distributed.checkpoint.entries import (
    ABOUT,
    Way,
    bare,
    copied,
    entries,
    is_stateful,
    name_of,
    nested,
    state_of,
)
from lazyten.distributed.checkpoint.index import Saved, checksum, index_of
from lazyten.distributed.group import Group
from lazyten.distributed.messages import together
from lazyten.distributed.optim import ZeroRedundancyOptimizer
from lazyten.frontend.functions import tensor
from lazyten.frontend.parts import Box, Placement, placement_of, whole
from lazyten.frontend.tensor import Tensor
from lazyten.ir import ops
from lazyten.ir.dtype import DType
from lazyten.ir.node import Shape
from lazyten.optim.optimizer import Optimizer
from lazyten.saving.saving import built
from lazyten.saving.serialization import Array, Opened
from lazyten.support.errors import ArgumentError, StateError
from lazyten.support.grad_mode import no_grad

OPERATION = "checkpoint.load"


def load(state: Any, folder: Path, group: Group | None) -> None:
    """Take over the values of a checkpoint, on all ranks of a group; None: in this process alone.
    """
    for write in together(group, OPERATION, lambda: _Loading(folder).plan(state)):
        write()


class _Loading:
    """What is read of a checkpoint, and what is to be done once all of it fits."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.index = index_of(self.folder, OPERATION)
        self.files: dict[str, Opened] = {}
        self.writes: list[Callable[[], None]] = []
        self.missing: list[str] = []

    def plan(self, state: Any) -> list[Callable[[], None]]:
        """All that is to be written, in order. StateError, which names what is missing."""
        self._walk(state, ())
        if self.missing:
            raise StateError(f"{OPERATION}: missing in {self.folder}: {', '.join(self.missing)}. "
                             f"Nothing was loaded; it has what was saved, under the same names")
        return self.writes

    def _walk(self, state: Any, before: Way, in_place: bool = True) -> None:
        """Plan to write to a dict. in_place: into the memory of its tensors, rather than others in
        their place."""
        for entry in entries(state, OPERATION):
            way = (*before, *entry.way)
            name = name_of(way)
            if isinstance(entry.value, Tensor):
                if (value := self._like(name, entry.value)) is not None:
                    put = partial(_copy, entry.value) if in_place else entry.put
                    self.writes.append(partial(put, value))
            elif isinstance(entry.value, Optimizer):
                self._optimizer(entry.value, way)
            elif is_stateful(entry.value):
                inner = copied(state_of(entry.value))
                self._walk(inner, way, in_place=False)
                self.writes.append(partial(bare(entry.value).load_state_dict, inner))
            elif name in self.index.values:
                self.writes.append(partial(entry.put, built(self.index.values[name][1], {})))
            elif entry.way[-1] != ABOUT:
                self.missing.append(name)

    def _like(self, name: str, there: Tensor) -> Tensor | None:
        """The saved values of a tensor, or of the part of it that this rank has."""
        saved = self.index.tensors.get(name)
        if saved is None:
            self.missing.append(name)
            return None
        placement = placement_of(there)
        for what, mine, other in (("shape", placement.whole_shape, saved.shape),
                                  ("dtype", there.dtype.name, saved.dtype.name)):
            if mine != other:
                raise StateError(f"{OPERATION}: {name} has another {what}: saved {other}, here "
                                 f"{mine}. Nothing was loaded; it must be built as the saved one "
                                 f"was")
        return self._read(name, saved, placement, tuple(there.shape))

    def _read(self, name: str, saved: Saved, placement: Placement, shape: Shape) -> Tensor:
        """A part of a saved tensor, in the shape that it has here; what is nobody's is 0."""
        flat = np.zeros(math.prod(shape), saved.dtype.numpy)
        for piece in placement.pieces:
            here = flat[piece.start:piece.start + piece.box.count].reshape(piece.box.sizes)
            for chunk in saved.chunks:
                if (shared := piece.box.shared(chunk.box)) is not None:
                    values = self._chunk(chunk.file, chunk.key, name, saved.dtype, chunk.box)
                    here[shared.slices(piece.box)] = values[shared.slices(chunk.box)]
        return tensor(ops.decode(flat.reshape(shape), saved.dtype), saved.dtype, "cpu")

    def _chunk(self, file: str, key: str, name: str, dtype: DType, box: Box) -> Array:
        opened = self.files.get(file)
        if opened is None:
            opened = self.files[file] = Opened(self.folder / file, OPERATION)
            self._check(opened.path)
        if opened.about(key) != (dtype, box.sizes):
            raise ArgumentError(f"{OPERATION}: {opened.path} has {key} as {opened.about(key)}, but "
                                f"the index says {dtype.name}{list(box.sizes)} of {name}: one of "
                                f"the two is of another checkpoint; use another one")
        return opened.stored(key)

    def _check(self, path: Path) -> None:
        """ArgumentError for a file that is not, bit for bit, the one that was saved."""
        saved = self.index.checksums.get(path.name)
        if saved is not None and (found := checksum(path)) != saved:
            raise ArgumentError(f"{OPERATION}: {path} was changed after it was saved, or is "
                                f"damaged: its checksum is {found:08x}, and the index says "
                                f"{saved:08x}. Nothing was loaded; use another checkpoint")

    # ---- optimizers ------------------------------------------------------------------------------

    def _optimizer(self, optimizer: Optimizer, before: Way) -> None:
        """Plan to give an optimizer the saved state of the parameters that it has here: a new one
        has none yet that says what there is."""
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        values: dict[Way, Any] = {}
        for name, saved in _under(self.index.tensors, before, lambda saved: saved.way):
            way = saved.way[len(before):]
            number = way[1] if way[0] == "state" and len(way) > 1 else None
            p = parameters[number] if isinstance(number, int) and number < len(parameters) else None
            if p is None or not isinstance(optimizer, ZeroRedundancyOptimizer) \
                    or optimizer.is_own(p):
                values[way] = self._read(name, saved, *_state_place(name, saved, p))
        for _, (way, text) in _under(self.index.values, before, lambda value: value[0]):
            values[way[len(before):]] = built(text, {})
        if values:
            self.writes.append(partial(optimizer.load_state_dict, nested(values)))
        else:
            self.missing.append(name_of(before))


def _under(table: Mapping[str, Any], before: Way, way_of: Callable[[Any], Way]
           ) -> list[tuple[str, Any]]:
    return [(name, value) for name, value in table.items()
            if way_of(value)[:len(before)] == before and len(way_of(value)) > len(before)]


def _state_place(name: str, saved: Saved, p: Tensor | None) -> tuple[Placement, Shape]:
    """Which part of a parameter's state a rank has, and in which shape: as of the parameter, or, of
    numbers for the parameter as a whole, all."""
    placement = None if p is None else getattr(p, "placement", None)
    if p is None or not isinstance(placement, Placement):
        return whole(saved.shape), saved.shape
    if not saved.shape:  # of an element alone all ranks have the value, in the row's shape
        return whole(()), () if placement.whole_shape else tuple(p.shape)
    if placement.whole_shape != saved.shape:
        raise StateError(f"{OPERATION}: {name} has another shape: saved {saved.shape}, here the "
                         f"parameter is {placement.whole_shape}. Nothing was loaded; it must be "
                         f"built as the saved one was")
    return placement, tuple(p.shape)


def _copy(there: Tensor, value: Tensor) -> None:
    with no_grad():
        there.detach().copy_(value.to(device=there.device))
