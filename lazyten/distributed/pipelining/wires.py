"""What two stages pass to each other: activations of one way, and their gradients of the other.

The first stage of the two tells the next, when it first has something for it, what it gives:
shapes, element types, and whether a gradient is wanted. Both then know what travels either way.
Each exchange says of which micro-batch and stage it is; one that is of another where it is received
is an error of both.
"""
from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lazyten.autograd.checkpointing import copied_after
from lazyten.distributed.functional import labelled_exchange
from lazyten.distributed.group import NOT_IN, Group
from lazyten.distributed.pipelining.programs import BACKWARD, FORWARD, Compute, Pass
from lazyten.execution.realization import carry_out
from lazyten.frontend.functions import ones
from lazyten.frontend.tensor import Tensor
from lazyten.ir import dtype as dt
from lazyten.ir.collective import Collective
from lazyten.support.errors import DistributedError
from lazyten.support.location import user_location

LONGEST = 8192
"""Bytes of a text that describes a wire."""


@dataclass(frozen=True, slots=True)
class Parcel:
    """One tensor of a wire: its shape, its element type, and whether its gradient comes back."""

    shape: tuple[int, ...]
    dtype: str
    has_gradient: bool

    @classmethod
    def of(cls, x: Tensor) -> Parcel:
        """What a tensor is."""
        return cls(tuple(x.shape), x.dtype.name, x.requires_grad)

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


Wire = tuple[Parcel, ...]


def described(parcels: Sequence[Parcel]) -> str:
    """A wire in words: shapes and types."""
    return ", ".join(map(str, parcels)) or "nothing"


def tell(wire: Wire, stage: int, group: Group) -> None:
    """Tell the next stage, which another rank has, what it will get."""
    text = json.dumps([[p.shape, p.dtype, p.has_gradient] for p in wire]).encode()
    if len(text) > LONGEST:
        raise DistributedError(f"a pipeline stage gives {len(wire)} tensors, too many to describe "
                               f"in {LONGEST} bytes; join some of them")
    sent = np.frombuffer(text.ljust(LONGEST), np.uint8).copy()
    _described(group, ((stage + 1) % group.size, NOT_IN), sent, stage)


def hear(stage: int, group: Group) -> Wire:
    """What a stage, which another rank has, says that it will give to the next."""
    text = _described(group, (NOT_IN, stage % group.size), np.zeros(LONGEST, np.uint8), stage)
    return tuple(Parcel(tuple(shape), dtype, has_gradient)
                 for shape, dtype, has_gradient in json.loads(text))


def _described(group: Group, ranks: tuple[int, int], sent: np.ndarray[tuple[int], np.dtype[
        np.uint8]], stage: int) -> bytes:
    carry_out()  # what was recorded before comes first, on all ranks
    received = np.zeros_like(sent)
    group.carry_out(Collective("exchange", group, "cpu", ranks=ranks), sent, received,
                    f"what pipeline stage {stage} gives", user_location())
    return received.tobytes()


def exchanged(wire: Wire, step: Pass, values: Sequence[Tensor | None], group: Group, device: str,
              after: Tensor | None) -> tuple[list[Tensor | None], list[Tensor]]:
    """Pass on what one stage has of a wire, and get what the other has: for each parcel the tensor
    that comes, if one does; and all results, of which each makes its exchange happen. after: what
    is to be computed before."""
    came: list[Tensor | None] = []
    every = []
    for parcel, value in zip(wire, values, strict=True):
        sends, receives = (_travels(parcel, what) for what in (step.sent, step.received))
        if not sends and not receives:
            came.append(None)
            continue
        if step.peer == group.rank:
            came.append(value)
            continue
        x = value if value is not None and sends else ones(
            parcel.shape, dtype=dt.BY_NAME[parcel.dtype], device=device)
        x = x.detach() if after is None else _later(x.detach(), after)
        result = labelled_exchange(x, step.peer if sends else None,
                                   step.peer if receives else None, group, label(step))
        every.append(result)
        came.append(result if receives else None)
    return came, every


def _travels(parcel: Parcel, what: Compute | None) -> bool:
    return what is not None and (what.kind == FORWARD or parcel.has_gradient)


def _later(x: Tensor, after: Tensor) -> Tensor:
    """A copy of x, made once `after` is computed."""
    return Tensor._of(copied_after(after.node, x.node), x.device, False)


def label(step: Pass) -> str:
    """What travels, in the same words for both stages."""
    words = [f"{kind} of micro-batch {what.batch} by stage {what.stage}"
             for kind in (FORWARD, BACKWARD) for what in (step.sent, step.received)
             if what is not None and what.kind == kind]
    return ", ".join(words)
