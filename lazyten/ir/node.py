"""The one node class of both levels: interned, frozen, compared with `is`.

In: an op, a dtype, sources and an argument. Out: THE node with those fields, its shape worked out
and its fields checked. At GRAPH level a node is a whole array; at LOOP level one element, shape ().
Every walk here is iterative: a chain of 100,000 ops must not meet the recursion limit.
"""
from __future__ import annotations

import math
import struct
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple
from weakref import ref

from lazyten.ir import dtype as dt
from lazyten.ir import movement
from lazyten.ir.dtype import DType, Scalar
from lazyten.ir.ops import MOVEMENT, SPECS, Op
from lazyten.ir.shapes import shape_of
from lazyten.support.errors import ComplexError
from lazyten.support.location import Location, Place, located, user_place

Shape = tuple[int, ...]


class History(NamedTuple):
    """What has to be computed before a node's value is there; history.py works it out.

    depth: how many operations in a row, at the most. since: the number of the oldest of them; nodes
    are numbered as they become known to history.py. parametric: whether a LEAF is among them.
    joint: whether ranks share any of it out.
    """

    depth: int
    since: int
    parametric: bool
    joint: bool = False


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True, init=False)
class Node:
    """One value: `op` of `src`. Interned, so equal nodes are the same object; made by `make`.

    shape is worked out from the other fields, and so is `differentiable`: whether gradients flow
    through it to a LEAF. `place` is where the user first made it, for messages only; it takes no
    part in equality. Nor do `history`, and what symbolic/ works out: `simple`, which is True where
    a node stays as it is, `form` and `limits`; all are None until they are asked for.
    """

    op: Op
    dtype: DType
    src: tuple[Node, ...]
    arg: Any
    shape: Shape
    place: Place | None
    history: History | None
    differentiable: bool
    simple: Any
    form: Any
    limits: Any

    @property
    def where(self) -> Location | None:
        """The user's line that first made it."""
        return located(self.place)

    @property
    def numel(self) -> int:
        return math.prod(self.shape)

    @property
    def value(self) -> Scalar:
        """The value of a CONST."""
        result: Scalar = self.arg[0]
        return result

    def __repr__(self) -> str:
        return f"<{self.op.name} {self.dtype.name}{list(self.shape)}>"


_SETTERS = [getattr(Node, f.name).__set__ for f in fields(Node)]
(_set_op, _set_dtype, _set_src, _set_arg, _set_shape, _set_place, set_history,
 _set_differentiable, set_simple, set_form, set_limits) = _SETTERS
"""A frozen dataclass's own __init__ takes four times as long."""


class _Interned(ref[Node]):
    """A weak reference to a node that knows its key: a WeakValueDictionary, but quicker."""

    __slots__ = ("key",)
    key: Hashable


_interned: dict[Hashable, _Interned] = {}

GradientRule = Callable[[Node, Node], Sequence[Node | None]]
"""(the value, its gradient) -> the gradients of what it was computed from; None: 0."""


def _forget(reference: ref[Node]) -> None:
    assert isinstance(reference, _Interned)
    if _interned.get(reference.key) is reference:
        gone = _interned.pop(reference.key, reference)
        if gone is not reference:  # another thread has made the node again meanwhile
            _interned.setdefault(reference.key, gone)


def make(op: Op, dtype: DType, src: tuple[Node, ...] = (), arg: Any = None,
         place: Place | None = None) -> Node:
    """The node with these fields, new or already there. Checks them: InternalError if they are off.

    place: where it belongs to if it is new, instead of to the line that is asking.
    Argument mistakes of a user are caught before, by tensors' methods, with a message for users.
    """
    key: Hashable = (op, dtype, src, arg) if op is not Op.CONST else \
        (op, dtype, _bits(arg[0]), arg[1])
    found = _interned.get(key)
    if found is not None:
        node = found()
        if node is not None:
            return node
    if op in MOVEMENT:
        arg = movement.plain(op, arg)
    shape = shape_of(op, dtype, src, arg)
    if op is Op.CONST:
        arg = (arg[0], shape)
    elif op is Op.IOTA:
        arg, = shape
    return _made(key, (op, dtype, src, arg), shape, place or user_place(2))


def _made(key: Hashable, fields: tuple[Op, DType, tuple[Node, ...], Any], shape: Shape,
          place: Place | None) -> Node:
    """A new node, which is interned."""
    op, dtype, src, arg = fields
    node = object.__new__(Node)
    _set_op(node, op)
    _set_dtype(node, dtype)
    _set_src(node, src)
    _set_arg(node, arg)
    _set_shape(node, shape)
    _set_place(node, place)
    set_history(node, None)
    set_simple(node, None)
    set_form(node, None)
    set_limits(node, None)
    _set_differentiable(node, op is Op.LEAF or op is not Op.DETACH
                        and True in [s.differentiable for s in src])
    entry = _interned[key] = _Interned(node, _forget)
    entry.key = key
    return node


def reading(memory: Any, dtype: DType, shape: Shape) -> Node:
    """The node that reads memory, of a `size`, as an array of this shape: what make() and reshape()
    give, in half the time where it is new."""
    flat = _reading(Op.BUFFER, dtype, (), memory, (memory.size,), None)
    if shape == flat.shape:
        return flat
    return _reading(Op.RESHAPE, dtype, (flat,), (*shape,), (*shape,), flat.place)


def _reading(op: Op, dtype: DType, src: tuple[Node, ...], arg: Any, shape: Shape,
             place: Place | None) -> Node:
    key = op, dtype, src, arg
    found = _interned.get(key)
    node = None if found is None else found()
    return _made(key, key, shape, place or user_place(3)) if node is None else node


def _bits(value: Scalar) -> Hashable:
    """A key that keeps 0.0 from -0.0 and 1 from 1.0 and True; every NaN is one."""
    if type(value) is float:
        return struct.pack("<d", value) if value == value else "nan"
    return (type(value), value)


# ---- making nodes --------------------------------------------------------------------------------

def const(value: Scalar, dtype: DType, shape: Shape = ()) -> Node:
    """A constant array. The value is kept as the Python type of `dtype`; integers wrap into it."""
    if dtype.is_float:
        value = float(value)
    elif dtype.is_complex:
        raise ComplexError
    elif dtype is dt.bool_:
        value = bool(value)
    else:
        value = int(value)
        if not dtype.min <= value <= dtype.max:
            value = (value - int(dtype.min)) % (1 << dtype.bits) + int(dtype.min)
    return make(Op.CONST, dtype, (), (value, shape))


def index(value: int) -> Node:
    """A constant of index arithmetic."""
    return const(value, dt.INDEX)


def elementwise(op: Op, *src: Node) -> Node:
    """An elementwise node; the dtype follows from the op (not for CAST and BITCAST)."""
    gives = SPECS[op].gives
    return make(op, dt.bool_ if gives == "bool" else src[-1].dtype, src)


def cast(x: Node, dtype: DType) -> Node:
    """x converted to `dtype`; x itself if it has that dtype already."""
    if x.dtype is dtype:
        return x
    if x.op is Op.CONST and not x.dtype.is_float:
        return const(x.value, dtype, x.shape)
    return make(Op.CAST, dtype, (x,))


def reduce(x: Node, combiner: Op, axes: Iterable[int]) -> Node:
    """Combine over `axes`, which keep size 1. Over nothing, x; over an empty axis, the identity."""
    axes = tuple(sorted([a for a in set(axes) if x.shape[a] != 1]))
    if not axes:
        return x
    if 0 in x.shape:
        shape = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
        identity = SPECS[combiner].identity
        assert identity is not None
        value = const(identity(x.dtype), x.dtype, shape)
        if not x.dtype.is_float:
            return value
        return make(Op.CUSTOM_GRADIENT, x.dtype, (value, x), _no_elements)
    return make(Op.REDUCE, x.dtype, (x,), (combiner, axes))


def _no_elements(g: Node, node: Node) -> tuple[Node]:
    """The gradient of what is combined of no elements: there is one, of no elements."""
    x = node.src[1]
    return (const(0, x.dtype, x.shape),)


def with_gradients_of_none(x: Node, others: Iterable[Node]) -> Node:
    """x, which others without elements are a part of: they have a gradient, of no elements, and so
    has what they come from."""
    floats = [other for other in others if other.dtype.is_float]
    if not (floats and x.dtype.is_float):
        return x
    return make(Op.CUSTOM_GRADIENT, x.dtype, (x, x, *floats), _of_the_first)


def _of_the_first(g: Node, node: Node) -> tuple[Node, ...]:
    """The gradient of a value is that of the first input, and of the others there is none of."""
    return (g, *(const(0, other.dtype, other.shape) for other in node.src[2:]))


def move(op: Op, x: Node, arg: Any, place: Place | None = None) -> Node:
    """A movement node, or something simpler with the same values. place: as in `make`.

    Constants change shape only (unless padded), moves that change nothing vanish, and two reshapes,
    permutes, expands or pads in a row become one, but for those that gradients flow through: users
    may ask for that of the view between them.
    """
    if movement.is_noop(op, x.shape, arg):
        return x
    if x.op is Op.CONST and (op is not Op.PAD or x.value == 0 and math.copysign(1, x.value) > 0):
        return make(Op.CONST, x.dtype, (), (x.value, movement.out_shape(op, x.shape, arg)))
    if op is not x.op or x.differentiable:
        return make(op, x.dtype, (x,), arg, place)
    if op is Op.RESHAPE:
        return move(op, x.src[0], arg, place)
    if op is Op.PERMUTE:
        return move(op, x.src[0], tuple(x.arg[i] for i in arg), place)
    if op is Op.EXPAND:
        x = x.src[0]
    if op is Op.PAD:
        both = zip(arg, x.arg, strict=True)
        x, arg = x.src[0], tuple((b + d, a + c) for (b, a), (d, c) in both)
    return make(op, x.dtype, (x,), arg, place)


_GUISES = frozenset({Op.RESHAPE, Op.PERMUTE, Op.EXPAND, Op.FLIP})
"""Moves that may change nothing, so that a node is another of the same values, which no program
computes: those at the end of views, those of `copied`, of `alias` and of `within`."""


def alias(x: Node) -> Node:
    """Another node of the same values, for a tensor that an operation makes whose gradient is not
    that of `x`."""
    return make(Op.EXPAND, x.dtype, (x,), x.shape)


def within(x: Node) -> Node:
    """An operand as an operation of several nodes has it: these are then none that users have
    tensors of, whose gradients are not those within the operation."""
    return make(Op.FLIP, x.dtype, (x,), ())


def copied(node: Node, number: int, guise: Iterable[Op]) -> Node:
    """The same operation on a source in another guise (source `number`, after PERMUTEs and FLIPs
    that change nothing): another node of the same value, whose gradient goes to the same sources.
    """
    x = node.src[number]
    axes = tuple(range(len(x.shape)))
    for op in guise:
        x = make(op, x.dtype, (x,), axes if op is Op.PERMUTE else ())
    return make(node.op, node.dtype, (*node.src[:number], x, *node.src[number + 1:]), node.arg,
                node.place)


def is_alias(node: Node) -> bool:
    """Whether a node is a move that changes nothing: one source of gradients apart from another."""
    return _is_unmoved(node.op, node.src, node.arg)


def bases(node: Node) -> Iterator[Node]:
    """What a view is made of, one after the other; last the whole."""
    while node.op in MOVEMENT and not (node.op is Op.EXPAND and is_alias(node)):
        node = node.src[0]
        yield node


def _is_unmoved(op: Op, src: tuple[Node, ...], arg: Any) -> bool:
    return op in _GUISES and movement.is_noop(op, src[0].shape, arg)


def reshape(x: Node, shape: Shape) -> Node:
    """RESHAPE to `shape`, in row-major order."""
    return move(Op.RESHAPE, x, tuple(shape))


def unshaped(node: Node) -> Node:
    """What a node is under its RESHAPEs: the same elements in the same order."""
    while node.op is Op.RESHAPE:
        node = node.src[0]
    return node


def unmoved(node: Node) -> Node:
    """What a node is a view of, through all movement ops."""
    while node.op in MOVEMENT:
        node = node.src[0]
    return node


def unexpanded(node: Node) -> Node:
    """What a node is before its elements are repeated."""
    while node.op is Op.EXPAND:
        node = node.src[0]
    return node


def iota(count: int) -> Node:
    """The index numbers 0, 1, .. count - 1."""
    return make(Op.IOTA, dt.INDEX, (), count)


def expand(x: Node, shape: Shape) -> Node:
    """EXPAND axes of size 1 to `shape`."""
    return move(Op.EXPAND, x, tuple(shape))


def gather(x: Node, axis: int, positions: Node) -> Node:
    """out[.., j, ..] = x[.., positions[.., j, ..], ..], with j on `axis`.

    positions: integers, shaped as x but for `axis`. One outside 0 .. x.shape[axis] - 1 reads 0.
    """
    return make(Op.GATHER, x.dtype, (x, positions), axis)


def scatter(base: Node, axis: int, positions: Node, values: Node, combiner: Op | None) -> Node:
    """`base` with every element of `values` at its position on `axis`, in the order of `axis`.

    combiner: None, and the last of several for one place stays; or an op that combines them with
    what is there. A value whose position is outside is dropped. 16-bit floats are combined in
    float32, and rounded once.
    """
    if not values.numel:
        return with_gradients_of_none(base, [values])
    if combiner is not None and base.dtype.is_half:
        wide = scatter(cast(base, dt.float32), axis, positions, cast(values, dt.float32), combiner)
        return cast(wide, base.dtype)
    return make(Op.SCATTER, base.dtype, (base, positions, values), (axis, combiner))


# ---- walking -------------------------------------------------------------------------------------

def toposort(roots: Iterable[Node], into: Callable[[Node], Sequence[Node]] | None = None,
             seen: set[Node] | None = None, known: Container[Node] = ()) -> list[Node]:
    """Every node under `roots`, sources first, each once, in a deterministic order.

    `into` gives the sources to walk of a node (default: all of src); of those that are `known`
    there are none. Nodes that are `seen` are left out; those found are added to it.
    """
    order: list[Node] = []
    seen = set() if seen is None else seen
    opened: list[tuple[Node, Iterator[Node]]] = []  # nodes in whose sources it is, and where from
    walk = iter(roots)
    while True:
        for node in walk:
            if node in seen:
                continue
            seen.add(node)
            sources = () if node in known else node.src if into is None else into(node)
            if sources:
                opened.append((node, walk))
                walk = iter(sources)
                break
            order.append(node)
        else:
            if not opened:
                return order
            node, walk = opened.pop()
            order.append(node)


def rebuild(node: Node, src: tuple[Node, ...]) -> Node:
    """The same op, of the same line, on other sources; the node itself if they are the same."""
    if src == node.src:  # the same objects: nodes are equal only to themselves
        return node
    return moved_or_made(node.op, node.dtype, src, node.arg, node.place)


def moved_or_made(op: Op, dtype: DType, src: tuple[Node, ...], arg: Any,
                  place: Place | None = None) -> Node:
    """The node with these fields; of a move of a move as few as it takes, and an alias of what
    gradients flow through."""
    if _is_unmoved(op, src, arg) and src[0].differentiable:
        return make(op, dtype, src, arg, place)
    if op in MOVEMENT:
        return move(op, src[0], arg, place)
    return make(op, dtype, src, arg, place)


def rewrite(roots: Sequence[Node], rule: Callable[[Node], Node | None],
            memo: dict[Node, Node] | None = None) -> list[Node]:
    """Rewrite bottom-up: `rule` sees each node with its sources already rewritten, once.

    `rule` gives the new node, or None to keep it. What it gives is not visited again. `memo` may
    hold replacements to start from; nodes in it are not walked into.
    """
    done: dict[Node, Node] = {} if memo is None else memo
    for node in toposort(roots, known=done):
        if node not in done:
            new = rebuild(node, tuple(done[s] for s in node.src)) if node.src else node
            done[node] = rule(new) or new
    return [done[r] for r in roots]


def substitute(roots: Sequence[Node], replacements: dict[Node, Node]) -> list[Node]:
    """`roots` with some nodes replaced by others."""
    return rewrite(roots, lambda n: None, dict(replacements))


def consumers(order: Sequence[Node]) -> dict[Node, list[Node]]:
    """For each node of a toposort, the nodes that use it, each once, in order."""
    uses: dict[Node, list[Node]] = {n: [] for n in order}
    for node in order:
        for s in dict.fromkeys(node.src):
            if s in uses:
                uses[s].append(node)
    return uses


def ranges_of(roots: Iterable[Node]) -> Iterator[Node]:
    """The RANGE nodes under `roots`, in visit order."""
    return (n for n in toposort(roots) if n.op is Op.RANGE)
