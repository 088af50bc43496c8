"""Recurrences: cells of recurrent nets, a step after another along the first axis."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from functools import reduce as reduce_by
from typing import NamedTuple

from lazyten.autodiff.gradient import vjp_of_all
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.ir.node import Node, Shape, cast, const, expand, gather, move, reduce, reshape
from lazyten.ir.ops import Op
from lazyten.ir.scan import Body, leaf, part, scan
from lazyten.operators.arrays import joining
from lazyten.operators.arrays.windows import matmul, transposed
from lazyten.operators.math import elementwise as ew
from lazyten.operators.math import special
from lazyten.operators.math.gradients import with_gradient
from lazyten.support.location import of_no_line

States = tuple[Node, ...]
Cell = Callable[[Node, Node, States], States]
"""Of what a step reads (B, gates * H), what it gets of the hidden state (the same), and the states
before (B, H): the states after, the hidden one first."""


def _gates(x: Node, count: int) -> list[Node]:
    """(B, count * H) as `count` of (B, H)."""
    rows, size = x.shape[0], x.shape[1] // count
    return [move(Op.SHRINK, x, ((0, rows), (i * size, (i + 1) * size))) for i in range(count)]


def tanh_cell(x: Node, h: Node, states: States) -> States:
    """tanh(x + h)."""
    return special.tanh(ew.add(x, h)),


def relu_cell(x: Node, h: Node, states: States) -> States:
    """max(x + h, 0)."""
    return special.relu(ew.add(x, h)),


def lstm_cell(x: Node, h: Node, states: States) -> States:
    """Gates in, forget, new and out (S. Hochreiter and J. Schmidhuber, 1997; F. Gers and others,
    2000): c = sigmoid(f) * c + sigmoid(i) * tanh(g), h = sigmoid(o) * tanh(c)."""
    i, f, g, o = _gates(ew.add(x, h), 4)
    kept = ew.mul(special.sigmoid(f), states[1])
    c = ew.add(kept, ew.mul(special.sigmoid(i), special.tanh(g)))
    return ew.mul(special.sigmoid(o), special.tanh(c)), c


def gru_cell(x: Node, h: Node, states: States) -> States:
    """Gates reset, update and new (K. Cho and others, 2014): n = tanh(x_n + sigmoid(r) * h_n),
    h = n + sigmoid(z) * (h - n)."""
    (xr, xz, xn), (hr, hz, hn) = _gates(x, 3), _gates(h, 3)
    n = special.tanh(ew.add(xn, ew.mul(special.sigmoid(ew.add(xr, hr)), hn)))
    return ew.add(n, ew.mul(special.sigmoid(ew.add(xz, hz)), ew.sub(states[0], n))),


def step(cell: Cell, x: Node, states: States, weight: Node, bias: Node | None,
         projection: Node | None = None) -> States:
    """The states (B, .) after one step that reads x (B, gates * H).

    weight (P, gates * H) and bias (gates * H,) make what the cell gets of the hidden state (B, P),
    which projection (H, P), if there is one, makes of the cell's.
    """
    h = matmul(states[0], weight)
    h = h if bias is None else ew.add(h, bias)
    hidden, *others = cell(x, h, states)
    if projection is not None:
        hidden = matmul(hidden, projection)
    return hidden, *others


# ---- all steps -----------------------------------------------------------------------------------

@dataclass(frozen=True, slots=True)
class _Recurrence:
    """The steps of a cell, and as a function their gradient. Sources of a call: what steps read
    (T, B, gates * H), whether there is such a step (T, B, 1), if `masked`, the first states (B, .),
    the weight, and the bias and the projection, if there are `biased` and `projected`."""

    cell: Cell
    count: int
    masked: bool
    biased: bool
    projected: bool
    reverse: bool

    def split(self, given: Sequence[Node]) -> tuple[Node, Node | None, States, _Weights]:
        """The sources, one by one."""
        rest = list(given)
        xs, there = rest.pop(0), rest.pop(0) if self.masked else None
        states, rest = tuple(rest[:self.count]), rest[self.count:]
        return xs, there, states, _Weights(rest.pop(0), rest.pop(0) if self.biased else None,
                                           rest.pop(0) if self.projected else None)

    def sources(self, given: Sequence[Node]) -> list[Node]:
        """The same with weights as steps multiply by them: moved once, not in each step."""
        xs, there, states, weights = self.split(given)
        projection = None if weights.projection is None else transposed(weights.projection)
        every = (xs, there, *states, transposed(weights.hidden), weights.bias, projection)
        return [n for n in every if n is not None]

    def body(self, given: Sequence[Node]) -> Body:
        """One step, for sources of these shapes."""
        return _step(self, tuple((n.shape, n.dtype) for n in self.sources(given)))

    def rows(self, given: Sequence[Node]) -> Node:
        """The states after each step; see ir/scan.py."""
        sources, cut = self.sources(given), 1 + self.masked
        return scan(self.body(given), sources[:cut], sources[cut:cut + self.count],
                    sources[cut + self.count:])

    def parts(self, rows: Node, given: Sequence[Node]) -> list[Node]:
        """Each state after each step, (T, B, .)."""
        body = self.body(given)
        return [part(rows, body, i, n.shape) for i, n in enumerate(body.outputs)]

    def __call__(self, g: Node, node: Node) -> list[Node | None]:
        """Gradients of the sources: steps the other way round, and then one product a weight."""
        given = node.src[1:]
        xs, there, first, weights = self.split(given)
        after = self.parts(node, given)
        before = [shifted(s, f, self.reverse) for s, f in zip(after, first, strict=True)]
        hidden = matmul(before[0], transposed(weights.hidden))
        hidden = hidden if weights.bias is None else ew.add(hidden, weights.bias)
        seen = [xs, hidden, *before, *self.parts(g, given), *([] if there is None else [there])]
        same = [w for w in (weights.hidden, weights.projection) if w is not None]
        body = _step_back(self, tuple((n.shape, n.dtype) for n in seen),
                          tuple((w.shape, w.dtype) for w in same))
        zeros = [const(0.0, f.dtype, f.shape) for f in first]
        rows = scan(body, seen, zeros, same)
        dfirst, dx, dh, dp = self._shared_out(
            [part(rows, body, i, n.shape) for i, n in enumerate(body.outputs)])
        last = xs.shape[0] - 1 if self.reverse else 0
        found: list[Node | None] = [dx, *[None] * self.masked, *(row_at(d, last) for d in dfirst),
                                    _product_over_steps(dh, before[0])]
        if weights.bias is not None:
            found.append(reshape(reduce(dh, Op.ADD, (0, 1)), weights.bias.shape))
        if weights.projection is not None:
            made = self.cell(_flat_steps(xs), _flat_steps(hidden),
                             tuple(map(_flat_steps, before)))[0]
            found.append(matmul(transposed(_flat_steps(dp)), made))
        return found

    def _shared_out(self, parts: Sequence[Node]) -> tuple[Sequence[Node], Node, Node, Node]:
        """Of what all steps back give: gradients of states, of what was read, of what was got of
        the hidden state (the same if it is added to what is read), and of what was projected."""
        states, dx = parts[:self.count], parts[self.count]
        apart = len(parts) - self.count - self.projected > 1
        return states, dx, parts[self.count + 1] if apart else dx, parts[-1]


class _Weights(NamedTuple):
    hidden: Node
    bias: Node | None
    projection: Node | None


Sizes = tuple[tuple[Shape, DType], ...]


@lru_cache(maxsize=256)
def _step(rule: _Recurrence, sizes: Sizes) -> Body:
    """One step of a recurrence, whose sources have these shapes, with a row a step first."""
    xs = 1 + rule.masked
    x, there, states, weights = rule.split([
        leaf(i, shape[1:] if i < xs else shape, dtype) for i, (shape, dtype) in enumerate(sizes)])
    with of_no_line():  # it is of many lines
        new = step(rule.cell, x, states, *weights)
        if there is not None:
            new = tuple(_chosen(there, n, s) for n, s in zip(new, states, strict=True))
    return Body(new, xs, rule.count, sizes[0][0][0], rule.reverse)


@lru_cache(maxsize=256)
def _step_back(rule: _Recurrence, seen: Sizes, same: Sizes) -> Body:
    """One step back: from the gradients of the states after it to those before, and of what the
    step read. seen: (T, B, .) each of what it read, got of the hidden state, the states before, the
    gradients of those after, and where there is such a step; same: the weight and the projection.
    """
    n, states = len(seen), rule.count
    x, h, *rest = (leaf(i, shape[1:], dtype) for i, (shape, dtype) in enumerate(seen))
    before, given = tuple(rest[:states]), rest[states:2 * states]
    carried = [leaf(n + i, s.shape, s.dtype) for i, s in enumerate(before)]
    weights = [leaf(n + states + i, shape, dtype) for i, (shape, dtype) in enumerate(same)]
    with of_no_line():
        total = [ew.add(a, b) for a, b in zip(given, carried, strict=True)]
        outputs = _passed_back(rule, (x, h, before), total, weights,
                               rest[-1] if rule.masked else None)
    return Body(outputs, n, states, seen[0][0][0], not rule.reverse)


def _passed_back(rule: _Recurrence, read: tuple[Node, Node, States], total: Sequence[Node],
                 weights: Sequence[Node], there: Node | None) -> tuple[Node, ...]:
    """What a step gives back of the gradients of the states after it."""
    x, h, before = read
    kept: list[Node | None] = [None] * len(total)
    if there is not None:
        nothing = [const(0.0, t.dtype, t.shape) for t in total]
        kept = [_chosen(there, z, t) for z, t in zip(nothing, total, strict=True)]
        total = [_chosen(there, t, z) for z, t in zip(nothing, total, strict=True)]
    weight, *projection = weights
    own = [matmul(total[0], projection[0]), *total[1:]] if projection else total
    dx, dh, *direct = vjp_of_all(rule.cell(x, h, before), own, [x, h, *before])
    assert dx is not None and dh is not None
    return (_sum([matmul(dh, weight), direct[0], kept[0]]),
            *(_sum([d, k]) for d, k in zip(direct[1:], kept[1:], strict=True)),
            dx, *([] if dh is dx else [dh]), *(total[:1] if projection else []))


def _sum(parts: Sequence[Node | None]) -> Node:
    return reduce_by(ew.add, [p for p in parts if p is not None])


def _chosen(there: Node, a: Node, b: Node) -> Node:
    """a (B, .) where `there` (B, 1), else b."""
    return ew.where(ew.broadcast_to(there, a.shape), a, b)


def row_at(xs: Node, t: int) -> Node:
    """xs[t]."""
    part = move(Op.SHRINK, xs, ((t, t + 1), *((0, n) for n in xs.shape[1:])))
    return reshape(part, xs.shape[1:])


def shifted(after: Node, first: Node, reverse: bool) -> Node:
    """The states before each step, of those after each and those before all."""
    count, rest = after.shape[0], [(0, n) for n in after.shape[1:]]
    kept = move(Op.SHRINK, after, ((1, count) if reverse else (0, count - 1), *rest))
    begin = reshape(first, (1, *first.shape))
    return joining.cat([kept, begin] if reverse else [begin, kept], 0)


def _flat_steps(x: Node) -> Node:
    """(T, B, n) as (T * B, n)."""
    return reshape(x, (x.shape[0] * x.shape[1], x.shape[2]))


def _product_over_steps(a: Node, b: Node) -> Node:
    """The sum over steps and examples of a (T, B, m) times b (T, B, n): (m, n)."""
    return matmul(transposed(_flat_steps(a)), _flat_steps(b))


def recurrent(cell: Cell, xs: Node, states: States, weights: Sequence[Node | None], reverse: bool,
              there: Node | None = None) -> tuple[Node, States]:
    """Every step's hidden state (T, B, P), and the last states.

    xs (T, B, gates * H): what steps read. weights: those of `step`. reverse: from the last step to
    the first. there (T, B, 1): bools, False where an example has no such step and keeps its states.
    """
    if xs.dtype.is_half:
        wide = [None if w is None else cast(w, dt.float32) for w in weights]
        found, last = recurrent(cell, cast(xs, dt.float32), tuple(
            cast(s, dt.float32) for s in states), wide, reverse, there)
        return cast(found, xs.dtype), tuple(cast(s, xs.dtype) for s in last)
    given = tuple(n for n in (xs, there, *states, *weights) if n is not None)
    rule = _Recurrence(cell, len(states), there is not None, weights[1] is not None,
                       weights[2] is not None, reverse)
    rows = with_gradient(rule.rows(given), given, rule)
    after = rule.parts(rows, given)
    return after[0], tuple(row_at(s, 0 if reverse else xs.shape[0] - 1) for s in after)


# ---- sequences of different lengths --------------------------------------------------------------

def taken_rows(x: Node, rows: Node, back: Node) -> Node:
    """x[rows] along the first axis, zeros where a row is -1. No row is taken twice: back tells for
    each of x's where it went, or -1, so that the gradient takes rows, too."""
    wide = expand(reshape(rows, (*rows.shape, *(1,) * (len(x.shape) - 1))),
                  (*rows.shape, *x.shape[1:]))
    return with_gradient(gather(x, 0, wide), (x, rows, back), _taken_back)


def _taken_back(g: Node, node: Node) -> tuple[Node, None, None]:
    _, _, rows, back = node.src
    return taken_rows(g, back, rows), None, None
