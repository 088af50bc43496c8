"""How ranks compute a node apart: a rule an op, of the axes that its sources are cut along."""
from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from lazyten.ir import dtype as dt
from lazyten.ir.collective import Group, divided
from lazyten.ir.movement import Shape
from lazyten.ir.node import (
    Node,
    cast,
    const,
    elementwise,
    expand,
    gather,
    iota,
    move,
    moved_or_made,
    reduce,
    reshape,
    scatter,
    unexpanded,
)
from lazyten.ir.ops import ELEMENTWISE, IDENTITY_OPS, SHARING_OPS, SPECS, Op
from lazyten.ir.scan import Body


class Cut(NamedTuple):
    """Where ranks share an array out: along an axis, in each of the `before` equal intervals of it,
    as is left of an outer axis that it was joined with. Where an axis of one interval is no
    multiple of the ranks, a rank's part has the next length that would be, and anything behind the
    end of the whole."""

    axis: int
    before: int = 1

    def divides(self, shape: Shape, ranks: int) -> bool:
        """Whether ranks can share it out evenly."""
        return shape[self.axis] % (self.before * ranks) == 0


Cuts = Sequence[Cut | None]
PACKED = Cut(-1)
"""That of a SCAN whose rows are of a rank's part of each value."""
Local = Callable[[Sequence[Node]], Node]


@dataclass(frozen=True, slots=True)
class Split:
    """How ranks compute a node apart.

    cut: of the result, of which each rank has a part; None if each has a summand of all of it.
    takes: for each source the cut of which a rank takes its part; None where it takes all. local:
    what this rank computes of these. combiner: joins summands. base: of the node's sources one
    that is combined with their sum.
    """

    cut: Cut | None
    takes: tuple[Cut | None, ...]
    local: Local
    combiner: Op | None = None
    base: int | None = None


def split_of(node: Node, cuts: Cuts, group: Group) -> Split | None:
    """How the ranks of a group compute a node apart whose sources they have parts of; None where
    they do not. cuts: of each source; None for a whole one."""
    if not node.numel:
        return None
    if node.op in SHARING_OPS and node.arg.group == group:
        return _OF_THE_GROUP[node.op](node, group)
    if node.op is Op.SHRINK and cuts[0] == PACKED:
        return _rows_of_one(node)
    rule, cuts = _RULES.get(node.op), [None if c == PACKED else c for c in cuts]
    return None if rule is None or all(c is None for c in cuts) else rule(node, cuts, group)


def _rows_of_one(node: Node) -> Split | None:
    """Rows of one value of a scan whose values are cut."""
    body: Body = node.src[0].arg
    steps, (start, stop) = node.arg
    wanted = [i for i, n in enumerate(body.outputs)
              if (start, stop) == (body.starts[i], body.starts[i] + n.numel)]

    def own(src: Sequence[Node]) -> Node:
        own_body: Body = src[0].arg
        first = own_body.starts[wanted[0]]
        return move(Op.SHRINK, src[0], (
            steps, (first, first + own_body.outputs[wanted[0]].numel)), node.place)
    return Split(Cut(1), (PACKED,), own) if wanted else None


def _begun(node: Node, group: Group) -> Split:
    """A value that a rank takes its part of."""
    cut = Cut(node.arg.axis)
    return Split(cut, (cut,), lambda src: src[0])


def _of_parts(node: Node, group: Group) -> Split | None:
    """A value that a rank has its part of already, or all of it."""
    return None if node.arg.axis is None else Split(Cut(node.arg.axis), (None,), lambda src: src[0])


def _joined(node: Node, cuts: Cuts, group: Group) -> Split | None:
    """A part of what ranks of another line have: of an axis that both share out evenly, in each of
    their intervals."""
    cut, = cuts
    assert cut is not None
    own, whole = node.src[0].shape, node.shape
    if cut.axis == node.arg.axis and (not cut.divides(own, group.size) or whole[cut.axis] !=
                                      own[cut.axis] * node.arg.group.size):
        return None
    before = cut.before * (node.arg.group.size if cut.axis == node.arg.axis else 1)
    return Split(Cut(cut.axis, before), (cut,), _made(node))


def _own(node: Node, cuts: Cuts, group: Group) -> Split | None:
    """A part of another line's part: of an axis that both share out, in fewer intervals."""
    cut, = cuts
    assert cut is not None
    before, rest = divmod(cut.before, node.arg.group.size) if cut.axis == node.arg.axis else (
        cut.before, 0)
    return None if rest else Split(Cut(cut.axis, before), (cut,), _made(node))


def _made(node: Node, arg: Any = None) -> Local:
    """The same op on parts."""
    return lambda src: moved_or_made(node.op, node.dtype, tuple(src),
                                     node.arg if arg is None else arg, node.place)


def _elementwise(node: Node, cuts: Cuts, group: Group) -> Split:
    """Of sources that are cut in different ways, as the largest is."""
    sizes = {i: unexpanded(s).numel for i, s in enumerate(node.src) if cuts[i] is not None}
    cut = cuts[max(sizes, key=sizes.__getitem__)]
    return Split(cut, (cut,) * len(node.src), _made(node))


def _reduce(node: Node, cuts: Cuts, group: Group) -> Split | None:
    combiner, reduced = node.arg
    cut, = cuts
    assert cut is not None
    if cut.axis not in reduced:
        return Split(cut, (cut,), _made(node))
    if combiner is Op.MUL:
        return None
    wide = dt.float32 if node.dtype.is_half else node.dtype  # rounded once, when it is whole

    identity = SPECS[combiner].identity
    assert identity is not None

    def summand(src: Sequence[Node]) -> Node:
        own = ended(cast(src[0], wide), cut, node.src[0].shape, group, identity(wide))
        return reduce(own, combiner, reduced)
    return Split(None, (cut,), summand, combiner)


def _move(node: Node, cuts: Cuts, group: Group) -> Split | None:
    cut, = cuts
    assert cut is not None
    found = _MOVES[node.op](node.src[0].shape, node.arg, cut, group.size)
    return None if found is None else Split(found[0], (cut,), _made(node, found[1]))


def _gather(node: Node, cuts: Cuts, group: Group) -> Split | None:
    """Rows that ranks have parts of: each finds 0 for those of others. So a sum finds them."""
    at: int = node.arg
    x, where = cuts
    if where is not None and where.axis == at:
        return Split(where, (None, where), _made(node))
    if x is not None and x.axis == at:
        combiner = Op.MAX if node.dtype is dt.bool_ else Op.ADD
        return None if x.before > 1 or node.dtype.is_stored else Split(
            None, (x, None), lambda src: gather(
                ended(src[0], x, node.src[0].shape, group, 0), at,
                _within(src[1], src[0].shape[at], group)), combiner)
    cut = x if where is None else where
    return Split(cut, (cut, cut), _made(node))


def _within(positions: Node, length: int, group: Group) -> Node:
    """Positions in this rank's part of an axis: those of others are outside of it."""
    wide = cast(positions, dt.INDEX)
    first = const(group.rank * length, dt.INDEX, wide.shape)
    return elementwise(Op.SUB, wide, first)


def _scatter(node: Node, cuts: Cuts, group: Group) -> Split | None:
    at, combiner = node.arg
    beside = [c for c in cuts if c is not None and c.axis != at]
    if beside:
        return Split(beside[0], (beside[0],) * 3, _made(node))
    base = cuts[0]
    if base is not None:
        return None if base.before > 1 else Split(base, (base, None, None), lambda src: scatter(
            src[0], at, _within(src[1], src[0].shape[at], group), src[2], combiner))
    if combiner not in (Op.ADD, Op.MAX):
        return None  # the last of several values stays: they must be in order
    identity = SPECS[combiner].identity
    assert identity is not None
    nothing = const(identity(node.dtype), node.dtype, node.shape)
    cut = cuts[1] or cuts[2]
    assert cut is not None

    def summand(src: Sequence[Node]) -> Node:
        nowhere = ended(cast(src[1], dt.INDEX), cut, node.src[1].shape, group, -1)
        return scatter(nothing, at, nowhere, src[2], combiner)
    return Split(None, (None, cut, cut), summand, combiner, base=0)


def ended(own: Node, cut: Cut, whole: Shape, group: Group, value: Any) -> Node:
    """A rank's part of an array of shape `whole`, with a value in place of what is behind its end.
    """
    length, all_of_it = own.shape[cut.axis], whole[cut.axis]
    if cut.divides(whole, group.size):
        return own
    shape = tuple([length if i == cut.axis else 1 for i in range(len(whole))])
    end = const(all_of_it - group.rank * length, dt.INDEX, shape)
    inside = elementwise(Op.CMPLT, reshape(iota(length), shape), end)
    return elementwise(Op.WHERE, expand(inside, own.shape), own,
                       const(value, own.dtype, own.shape))


# ---- movements: (shape, argument, cut, ranks) -> the cut after it, and the argument for parts;
# None where a part is not made of one part

Moved = tuple[Cut, Any] | None


def _reshape(shape: Shape, arg: Shape, cut: Cut, ranks: int) -> Moved:
    """Ranks share out each of as many intervals of the elements as stand before the cut. So do they
    of any axis within which these begin, if that is even; otherwise of the same axis alone."""
    intervals = math.prod(shape[:cut.axis]) * cut.before
    if not cut.divides(shape, ranks):
        same = [i for i, n in enumerate(arg)
                if n == shape[cut.axis] and math.prod(arg[:i]) == intervals]
        return (Cut(same[0]), divided(arg, same[0], ranks)) if same else None
    for i in range(len(arg)):
        before, rest = divmod(intervals, math.prod(arg[:i]))
        if not rest and before and Cut(i, before).divides(arg, ranks):
            return Cut(i, before), divided(arg, i, ranks)
    return None


def _permute(shape: Shape, arg: Shape, cut: Cut, ranks: int) -> Moved:
    return Cut(arg.index(cut.axis), cut.before), arg


def _expand(shape: Shape, arg: Shape, cut: Cut, ranks: int) -> Moved:
    return (cut, divided(arg, cut.axis, ranks)) if arg[cut.axis] == shape[cut.axis] else None


def _pad(shape: Shape, arg: Any, cut: Cut, ranks: int) -> Moved:
    return (cut, arg) if arg[cut.axis] == (0, 0) else None


def _shrink(shape: Shape, arg: Any, cut: Cut, ranks: int) -> Moved:
    if arg[cut.axis] != (0, shape[cut.axis]):
        return None
    own = (0, divided(shape, cut.axis, ranks)[cut.axis])
    return cut, tuple(own if i == cut.axis else bounds for i, bounds in enumerate(arg))


def _flip(shape: Shape, arg: Any, cut: Cut, ranks: int) -> Moved:
    return None if cut.axis in arg else (cut, arg)


def _shear(shape: Shape, arg: Any, cut: Cut, ranks: int) -> Moved:
    return None if cut.axis in arg[:2] else (cut, arg)


_MOVES: Mapping[Op, Callable[[Shape, Any, Cut, int], Moved]] = {
    Op.RESHAPE: _reshape, Op.PERMUTE: _permute, Op.EXPAND: _expand, Op.PAD: _pad,
    Op.SHRINK: _shrink, Op.FLIP: _flip, Op.SHEAR: _shear}

_OF_THE_GROUP: Mapping[Op, Callable[[Node, Group], Split | None]] = {
    Op.SHARD: _begun, Op.JOINED: _of_parts, Op.OWN: lambda node, group: None}
"""What its own ranks have of a node that says how they share a value out."""
_RULES: Mapping[Op, Callable[[Node, Cuts, Group], Split | None]] = {
    **dict.fromkeys((*ELEMENTWISE, *IDENTITY_OPS, Op.CONTIGUOUS), _elementwise),
    **dict.fromkeys(_MOVES, _move),
    Op.JOINED: _joined,
    Op.OWN: _own,
    Op.REDUCE: _reduce,
    Op.GATHER: _gather,
    Op.SCATTER: _scatter,
}
