"""Arguments that begin elsewhere in memory at each call, such as a batch's rows of the data.

In: a call. Out: the same call with memory of its own for each such view: the view's piece of the
memory, or a copy of that where a piece may not begin. So one captured call does for all places.
That is right where the call only reads them: what was recorded is looked at before it is kept.
"""
from __future__ import annotations

from lazyten.capture.call import Call
from lazyten.capture.captured import Captured, TensorSource, TensorSpec
from lazyten.frontend.recorded.regions import elements, in_memory
from lazyten.frontend.tensor import Tensor
from lazyten.storage.storage import Buffer, Piece, Storage
from lazyten.support.trees import unflatten


class Together(Exception):
    """The call depends on where its arguments are in memory: it is to be recorded as it is."""


class CallOfPieces(Call):
    """A call with memory of its own for some views. wholes: what these are views of. has_copies:
    whether some memory is a copy."""

    wholes: tuple[Storage, ...] = ()
    has_copies = False


def of_pieces(call: Call) -> CallOfPieces | None:
    """The call with memory of its own for views of contiguous elements in memory; None if it has
    none."""
    found = {id(x): made for x in call.tensors if (made := _piece(x)) is not None}
    if not found:
        return None
    leaves = [found.get(id(x), x) for x in call.leaves]
    args, kwargs = (tuple(leaves), {}) if call.structure is None \
        else unflatten(iter(leaves), call.structure)
    result = CallOfPieces(args, kwargs)
    result.wholes = tuple([x._storage for x in call.tensors if id(x) in found])
    result.pieces = frozenset([n for n, x in enumerate(call.tensors) if id(x) in found])
    result.has_copies = any(not isinstance(x._storage.buffer, Piece) for x in found.values())
    result.key = *result.key, result.pieces
    return result


def _piece(x: Tensor) -> Tensor | None:
    """The elements of a view as a tensor of its own; None where they are not in a row in memory
    that others do not share."""
    if type(x) is not Tensor or not x._moves or x._grad is not None or not x._tracker.is_contiguous:
        return None
    whole, size = in_memory(x), x.numel()
    if whole is None or not size or size == whole.size:
        return None
    piece: Buffer | None = elements(x, whole)
    if piece is None:
        values, first = whole.view(), x.storage_offset()
        if values is None:
            return None
        piece = Buffer.from_numpy(values[first:first + size], whole.dtype, whole.device)
    return Tensor._view(Storage(piece.node(x.shape), whole.device), (), None)


def check_only_read(made: Captured, call: CallOfPieces) -> None:
    """Together if a recorded call changes or gives away a piece. (Whether it changes what a piece
    is of differs from call to call: `Replay.changes`.)"""
    numbers = {n for n, s in enumerate(made.sources) if s.tensor is not None and _is_piece(
        s.tensor, call)}
    given = [*made.leaves, *[e.spec for e in made.gradients]]
    given += [x for assignment in made.assigned for x in assignment.leaves]
    for spec in given:
        if isinstance(spec, TensorSpec) and (
                spec.kind == "source" and spec.number in numbers
                or spec.same is not None and _is_piece(spec.same, call)):
            raise Together
    if any(n in numbers for n, _ in made.written) \
            or any(_is_piece(e.tensor, call) for e in made.gradients):
        raise Together


def _is_piece(source: TensorSource, call: CallOfPieces) -> bool:
    return source.argument in call.pieces
