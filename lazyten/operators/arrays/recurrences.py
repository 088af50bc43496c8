"""Recurrences: cells of recurrent nets, a step after another along the first axis."""
from __future__ import annotations

from collections.abc import Callable, Sequence

from lazyten.ir import dtype as dt
from lazyten.ir.node import Node, cast, expand, gather, move, reshape
from lazyten.ir.ops import Op
from lazyten.operators.arrays import joining
from lazyten.operators.arrays.windows import matmul, transposed
from lazyten.operators.math import elementwise as ew
from lazyten.operators.math import special

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

    weight (gates * H, P) and bias (gates * H,) make what the cell gets of the hidden state (B, P),
    which projection (P, H), if there is one, makes of the cell's. 16-bit floats are computed in
    float32.
    """
    h = matmul(states[0], transposed(weight))
    h = h if bias is None else ew.add(h, bias)
    if x.dtype.is_half:
        wide = cell(cast(x, dt.float32), cast(h, dt.float32),
                    tuple(cast(s, dt.float32) for s in states))
        hidden, *others = (cast(s, x.dtype) for s in wide)
    else:
        hidden, *others = cell(x, h, states)
    if projection is not None:
        hidden = matmul(hidden, transposed(projection))
    return hidden, *others


def unrolled(cell: Cell, xs: Node, states: States, weights: Sequence[Node | None], reverse: bool,
             there: Node | None = None) -> tuple[Node, States]:
    """Every step's hidden state (T, B, P), and the last states.

    xs (T, B, gates * H): what steps read. weights: those of `step`. reverse: from the last step to
    the first. there (T, B, 1): bools, False where an example has no such step and keeps its states.
    """
    weight, bias, projection = weights
    assert weight is not None
    count = xs.shape[0]
    hidden = []
    for t in reversed(range(count)) if reverse else range(count):
        new = step(cell, _at(xs, t), states, weight, bias, projection)
        if there is not None:
            is_there = _at(there, t)
            new = tuple(ew.where(ew.broadcast_to(is_there, n.shape), n, s)
                        for n, s in zip(new, states, strict=True))
        states = new
        hidden.append(states[0])
    return joining.stack(hidden[::-1] if reverse else hidden, 0), states


def _at(xs: Node, t: int) -> Node:
    """xs[t]."""
    part = move(Op.SHRINK, xs, ((t, t + 1), *((0, n) for n in xs.shape[1:])))
    return reshape(part, xs.shape[1:])


# ---- sequences of different lengths --------------------------------------------------------------

def taken_rows(x: Node, rows: Node, back: Node) -> Node:
    """x[rows] along the first axis, zeros where a row is -1. No row is taken twice: back tells for
    each of x's where it went, or -1, so that the gradient takes rows, too."""
    wide = expand(reshape(rows, (*rows.shape, *(1,) * (len(x.shape) - 1))),
                  (*rows.shape, *x.shape[1:]))
    return ew.with_gradient(gather(x, 0, wide), (x, rows, back), _taken_back)


def _taken_back(g: Node, node: Node) -> tuple[Node, None, None]:
    _, _, rows, back = node.src
    return taken_rows(g, back, rows), None, None
