"""Collectives as functions of tensors: lazy, differentiable, and part of what `lt.jit` records.

Each gives a new tensor. All ranks of a group call the same ones in the same order. A gradient is
that of the sum of what the ranks differentiate. `lazyten.distributed` has PyTorch's functions,
which write to tensors; they are made of these.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce as reduce_by
from itertools import accumulate

from lazyten.distributed.group import NOT_IN, Group
from lazyten.distributed.state import group_of
from lazyten.frontend.arguments import checks_tensors
from lazyten.frontend.functions import cat
from lazyten.frontend.tensor import Tensor
from lazyten.ir import dtype as dt
from lazyten.ir.collective import REDUCTIONS, Collective, collective
from lazyten.ir.dtype import DType
from lazyten.ir.node import Node, cast, const, make, move, reshape
from lazyten.ir.ops import Op
from lazyten.operators.math.shapes import sized_axis
from lazyten.storage import levels, tracing
from lazyten.support.errors import ArgumentError, DTypeError, ShapeError

_BITS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "band": lambda a, b: a & b, "bor": lambda a, b: a | b, "bxor": lambda a, b: a ^ b}


@checks_tensors
def all_reduce(input: Tensor, op: str = "sum", group: Group | None = None) -> Tensor:
    """The sum, 'mean', 'max', 'min' or 'product' of the ranks' tensors, element by element, for all
    of them; of integers 'band', 'bor' or 'bxor', too."""
    return _reduced("all_reduce", input, op, group_of(group, "all_reduce"))


@checks_tensors
def reduce_scatter(input: Tensor, op: str = "sum", group: Group | None = None) -> Tensor:
    """Of the sum, 'mean', 'max' or 'min' of the ranks' tensors (size, ..), this rank's row (..)."""
    found = group_of(group, "reduce_scatter")
    _check_rows(input, found, "reduce_scatter")
    return _reduced("reduce_scatter", input, op, found)


@checks_tensors
def all_gather(input: Tensor, group: Group | None = None) -> Tensor:
    """The tensors of all ranks in a row: (size, ..)."""
    return _made("all_gather", input, group_of(group, "all_gather"))


@checks_tensors
def all_to_all(input: Tensor, group: Group | None = None) -> Tensor:
    """(size, ..) of which row r goes to rank r; gives (size, ..), the rows that came from each."""
    found = group_of(group, "all_to_all")
    _check_rows(input, found, "all_to_all")
    return _made("all_to_all", input, found)


@checks_tensors
def all_to_all_parts(input: Tensor, sent: Sequence[int], received: Sequence[int],
                     group: Group | None = None) -> Tensor:
    """(sum(sent), ..) of which the first sent[0] rows go to rank 0, the next ones to rank 1, and so
    on; gives (sum(received), ..), the rows that came from each. ShapeError unless there is a number
    for each rank, and as many rows; what rank r sends must be received[r] rows."""
    found = group_of(group, "all_to_all_parts")
    for name, counts in (("sent", sent), ("received", received)):
        if len(counts) != found.size or any(n < 0 for n in counts):
            raise ShapeError(f"all_to_all_parts: {name}={list(counts)!r:.60}; give the rows "
                             f"of each of the {found.size} ranks")
    if not input.ndim or input.shape[0] != sum(sent):
        raise ShapeError(f"all_to_all_parts of shape {input.shape}: axis 0 must have the "
                         f"{sum(sent)} rows that {list(sent)!r:.60} says")
    if sent[found.rank] != received[found.rank]:
        raise ShapeError(f"all_to_all_parts: this rank sends itself {sent[found.rank]} rows "
                         f"and awaits {received[found.rank]}")
    return _made("all_to_all_parts", input, found, (*sent, *reversed(received)))


@checks_tensors
def broadcast(input: Tensor, root: int = 0, group: Group | None = None) -> Tensor:
    """The tensor of rank `root` of the group, for all; those of others are only of its shape."""
    found = group_of(group, "broadcast")
    return _made("broadcast", input, found, (_checked(root, found, "broadcast"),))


@checks_tensors
def reduce(input: Tensor, root: int = 0, op: str = "sum", group: Group | None = None) -> Tensor:
    """The sum, 'mean', 'max' or 'min' of the ranks' tensors for rank `root` of the group, and 0 for
    the others."""
    found = group_of(group, "reduce")
    return _reduced("reduce", input, op, found, (_checked(root, found, "reduce"),))


@checks_tensors
def exchange(input: Tensor, to: int | None, source: int | None,
             group: Group | None = None) -> Tensor:
    """What rank `source` of the group sends to this one, while this one's goes to rank `to`: for
    edges of neighbours. None for nobody; what comes from nobody is 0."""
    return labelled_exchange(input, to, source, group_of(group, "exchange"), "")


@checks_tensors
def halo(input: Tensor, dim: int, before: int, after: int, group: Group | None = None) -> Tensor:
    """This rank's part of an axis that ranks share out in their order, with the neighbours' edges:
    the last `before` of rank - 1's, the part, the first `after` of rank + 1's; zeros beyond the
    first and the last. So a convolution with padding p along the axis is one without of
    halo(x, dim, p, p), of a kernel of 2 p + 1. Gradients of edges go back to whose they are.

    Parts may have different lengths; ShapeError for one shorter than an edge. All ranks call it.
    """
    found = group_of(group, "halo")
    axis, length = sized_axis(dim, input.shape, "halo")
    if before < 0 or after < 0 or length < max(before, after):
        raise ShapeError(f"halo of shape {input.shape}, {before} before and {after} after along "
                         f"axis {axis}: give 0 or more, and at most the {length} that this rank "
                         f"has, as edges come from its neighbours alone")
    lower, upper = (rank if 0 <= rank < found.size else None
                    for rank in (found.rank - 1, found.rank + 1))
    edges = [labelled_exchange(input.narrow(axis, start, count), to, source, found, "halo")
             for start, count, to, source in ((length - before, before, upper, lower),
                                              (0, after, lower, upper)) if count]
    return cat([*edges[:before > 0], input, *edges[before > 0:]], axis)


def labelled_exchange(input: Tensor, to: int | None, source: int | None, group: Group, label: str
                      ) -> Tensor:
    """exchange() of something that has a name, which both ranks say the same."""
    ranks = tuple(NOT_IN if r is None else _checked(r, group, "exchange") for r in (to, source))
    return _noted(Tensor._result(_node("exchange", [input.node], input, group, ranks, "", label),
                                 input))


def labelled_gather(input: Tensor, group: Group, label: str) -> Tensor:
    """all_gather() of something that has a name, which all ranks say the same."""
    return _made("all_gather", input, group, label=label)


def labelled_scatter(input: Tensor, op: str, group: Group, label: str) -> Tensor:
    """reduce_scatter() of something that has a name, which all ranks say the same."""
    return _reduced("reduce_scatter", input, op, group, label=label)


def to_each(input: Tensor, received: Sequence[int] | None, sent: Sequence[int] | None,
            length: int, group: Group | None) -> Tensor:
    """Rows of axis 0 for each rank, by their numbers: as many for each where both are left out.
    length: of the result, where its parts are."""
    found = group_of(group, "all_to_all_single")
    size, rows = found.size, input.shape[0] if input.ndim else 0
    for name, counts, n in (("input", sent, rows), ("output", received, length)):
        if counts is None and (not input.ndim or n % size):
            raise ShapeError(f"all_to_all_single of shape {input.shape}: axis 0 of the {name}, {n} "
                             f"rows, is cut into {size} parts of one size; give "
                             f"{name}_split_sizes")
    if sent is None and received is None:
        apart = input.reshape((size, rows // size, *input.shape[1:]))
        return all_to_all(apart, found).reshape(input.shape)
    return all_to_all_parts(input, [rows // size] * size if sent is None else sent,
                            [length // size] * size if received is None else received, found)


def together(kind: str, tensors: Sequence[Tensor], group: Group, root: int = 0, divisor: int = 1
             ) -> list[Tensor]:
    """The sums ('all_reduce') of tensors of one type, or those of rank `root` ('broadcast'), by a
    single collective of more than one rank; each divided by a number. No gradient flows through
    it."""
    reduction, ranks = ("sum", ()) if kind == "all_reduce" else ("", (root,))
    first = tensors[0].detach()
    sources = [t.detach().node for t in tensors]
    node = _node(kind, sources, first, group, ranks, reduction)
    flat = _noted(Tensor._result(make(Op.DETACH, node.dtype, (node,)), first)).node
    flat = reshape(flat, (sum(t.numel() for t in tensors),))
    if divisor != 1:
        flat = make(Op.DIV, flat.dtype, (flat, const(divisor, flat.dtype, flat.shape)))
    # Nodes, and no operations of tensors: to look one up goes through all that it is made of, and
    # a collective, which is new each time, is not found.
    stops = accumulate(t.numel() for t in tensors)
    return [Tensor._result(reshape(move(Op.SHRINK, flat, ((stop - t.numel(), stop),)), t.shape),
                           first)
            for t, stop in zip(tensors, stops, strict=True)]


# ---- how -----------------------------------------------------------------------------------------

def _reduced(kind: str, x: Tensor, op: str, group: Group, ranks: tuple[int, ...] = (),
             label: str = "") -> Tensor:
    if op in _BITS and x.dtype.is_float:
        raise DTypeError(f"{kind}: the {op} of {x.dtype.name}; integers and bool have bits")
    if op == "product" or op in _BITS:
        if kind == "reduce_scatter":
            return _folded(_made("all_to_all", x, group, label=label), op)
        combined = _folded(_made("all_gather", x, group), op)
        return combined if kind == "all_reduce" or group.rank == ranks[0] else combined * 0
    if op not in (*REDUCTIONS, "mean"):
        raise ArgumentError(f"{kind}: op={op!r}; it is 'sum', 'mean', 'max', 'min', 'product', "
                            f"'band', 'bor' or 'bxor'")
    if x.dtype is dt.bool_ and op in ("sum", "mean") or op == "mean" and not x.dtype.is_float:
        raise DTypeError(f"{kind}: the {op} of {x.dtype.name}; convert it first, for example with "
                         f".{'float' if op == 'mean' else 'int'}()")
    is_wide = not x.dtype.is_float or x.dtype in (dt.float32, dt.float64)
    wide: DType = x.dtype if is_wide else dt.float32
    total = _node(kind, [cast(x.node, wide)], x, group, ranks, "sum" if op == "mean" else op,
                  label)
    if op == "mean":
        total = make(Op.DIV, wide, (total, const(group.size, wide, total.shape)))
    return _noted(Tensor._result(cast(total, x.dtype), x))


def _folded(rows: Tensor, op: str) -> Tensor:
    """Rows of each rank, combined in their order by what MPI is not asked for."""
    if op == "product":
        return rows.prod(0, dtype=rows.dtype)
    return reduce_by(_BITS[op], rows.unbind(0))


def _made(kind: str, x: Tensor, group: Group, ranks: tuple[int, ...] = (), label: str = ""
          ) -> Tensor:
    return _noted(Tensor._result(_node(kind, [x.node], x, group, ranks, "", label), x))


def _node(kind: str, sources: list[Node], x: Tensor, group: Group, ranks: tuple[int, ...],
          reduction: str, label: str = "") -> Node:
    """The collective; of one rank alone, what that is."""
    what = Collective(kind, group, x._storage.device, reduction, ranks, label=label)
    if group.size > 1 or group.job.devices == "1":
        return collective(what, *sources)
    shape = what.shape([sources[0].shape])
    return const(0, x.dtype, shape) if ranks and ranks[-1] == NOT_IN else reshape(sources[0], shape)


def _noted(result: Tensor) -> Tensor:
    """A trace carries out each collective, whatever becomes of what it gives."""
    observer = tracing.current()
    if observer is not None and not levels.under_way():
        observer.collective(result._storage)
    return result


def _check_rows(x: Tensor, group: Group, operation: str) -> None:
    if not x.ndim or x.shape[0] != group.size:
        raise ShapeError(f"{operation} of shape {x.shape}: axis 0 needs an element for each of the "
                         f"group's {group.size} ranks")


def _checked(rank: int, group: Group, operation: str) -> int:
    if not 0 <= rank < group.size:
        raise ArgumentError(f"{operation}: rank {rank} of a group of {group.size}; give 0 to "
                            f"{group.size - 1}")
    return rank

