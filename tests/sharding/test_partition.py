"""What ranks compute of a graph that they share out is what one computes of it alone."""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lazyten.ir import dtype as dt
from lazyten.ir.collective import Sharding, collectives
from lazyten.ir.evaluation import evaluate, value_of
from lazyten.ir.kernel import Slot
from lazyten.ir.node import (
    Node,
    cast,
    const,
    elementwise,
    expand,
    gather,
    iota,
    make,
    move,
    reduce,
    reshape,
    scatter,
    toposort,
)
from lazyten.ir.ops import SHARING_OPS, Op
from lazyten.ir.scan import Body, part, scan
from lazyten.ir.scan import leaf as scan_leaf
from lazyten.sharding.partition import partitioned
from lazyten.support.errors import ArgumentError

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Line:
    """Ranks of a group, as one of them sees it."""

    ranks: tuple[int, ...]
    rank: int

    @property
    def size(self) -> int:
        return len(self.ranks)

    def start(self, *_: Any) -> Any:
        raise AssertionError("nothing is sent here")


def line(rank: int, ranks: tuple[int, ...]) -> Line:
    return Line(ranks, ranks.index(rank))


def lines(rank: int) -> tuple[Line, Line]:
    """Of a grid of 2 x 3 ranks, those of one."""
    row, column = divmod(rank, 3)
    return line(rank, (column, 3 + column)), line(rank, tuple(3 * row + i for i in range(3)))


Annotate = Callable[[Node, int, int], Node]
"""(a value, its axis, the axis of the grid) -> the value, which ranks share out."""


def annotating(rank: int, in_parts: bool = False) -> Annotate:
    """in_parts: some values are given as this rank's part, of what it computes whole."""
    def annotated(x: Node, axis: int, grid_axis: int) -> Node:
        sharding = Sharding(lines(rank)[grid_axis], axis, "cpu", "grid")
        if in_parts and (x.numel + axis) % 4 < 2:
            sharding = replace(sharding, axis=axis if (x.numel + axis) % 4 else None)
            sharding = replace(sharding, length=None if sharding.axis is None else x.shape[axis])
            own = make(Op.CONTIGUOUS, x.dtype, (make(Op.OWN, x.dtype, (x,), sharding),))
            return make(Op.JOINED, x.dtype, (own,), sharding)
        return make(Op.SHARD, x.dtype, (x,), sharding)
    return annotated


Step = tuple[int, int, int, int]
"""A kind of step, and numbers that say which value it takes, and how."""


def _elementwise(x: Node, others: list[Node], b: int, c: int) -> Node:
    alike = [y for y in others if y.shape == x.shape]
    y = alike[b % len(alike)]
    return elementwise((Op.ADD, Op.MUL, Op.MAX, Op.SUB)[c % 4], x, y)


def _reduced(x: Node, others: list[Node], b: int, c: int) -> Node:
    return reduce(x, (Op.ADD, Op.MAX, Op.MUL, Op.ADD)[c % 4],
                  [i for i in range(len(x.shape)) if b >> i & 1])


def _reshaped(x: Node, others: list[Node], b: int, c: int) -> Node:
    i, shape = b % len(x.shape), x.shape
    if c % 2 and i + 1 < len(shape):
        return reshape(x, (*shape[:i], shape[i] * shape[i + 1], *shape[i + 2:]))
    inner = (2, 3, 6)[c % 3]
    if shape[i] % inner or len(shape) > 4:
        return x
    return reshape(x, (*shape[:i], shape[i] // inner, inner, *shape[i + 1:]))


def _permuted(x: Node, others: list[Node], b: int, c: int) -> Node:
    order = list(range(len(x.shape)))
    return move(Op.PERMUTE, x, tuple(order[b % len(order):] + order[:b % len(order)]))


def _expanded(x: Node, others: list[Node], b: int, c: int) -> Node:
    shape = list(x.shape)
    if 1 not in shape:
        if len(shape) > 4:
            return x
        shape.insert(b % (len(shape) + 1), 1)
        x = reshape(x, tuple(shape))
    shape[shape.index(1)] = (2, 3, 6)[c % 3]
    return expand(x, tuple(shape))


def _cut_and_padded(x: Node, others: list[Node], b: int, c: int) -> Node:
    i = b % len(x.shape)
    first = c % x.shape[i]
    if b % 3 == 0:
        return move(Op.PAD, x, tuple((c % 3, c % 2) if a == i else (0, 0)
                                     for a in range(len(x.shape))))
    bounds = [(first, n) if a == i else (0, n) for a, n in enumerate(x.shape)]
    y = move(Op.SHRINK, x, tuple(bounds))
    pads = [(0, first) if a == i else (0, 0) for a in range(len(x.shape))]
    return move(Op.PAD, y, tuple(pads))


def _flipped(x: Node, others: list[Node], b: int, c: int) -> Node:
    return move(Op.FLIP, x, (b % len(x.shape),))


def _windows(x: Node, others: list[Node], b: int, c: int) -> Node:
    i = b % len(x.shape)
    if x.shape[i] < 2 or len(x.shape) > 4:
        return x
    taps = expand(reshape(x, (*x.shape, 1)), (*x.shape, 2))
    return move(Op.SHEAR, taps, (i, len(x.shape), 1, 0, x.shape[i] - 1))


def _positions(x: Node, axis: int) -> Node:
    """Some of them outside."""
    size = x.shape[axis] + 1
    return elementwise(Op.MOD, x, const(size, x.dtype, x.shape))


def _gathered(x: Node, others: list[Node], b: int, c: int) -> Node:
    axis = b % len(x.shape)
    return gather(others[c % len(others)] if others[c % len(others)].shape == x.shape else x, axis,
                  _positions(x, axis))


def _scattered(x: Node, others: list[Node], b: int, c: int) -> Node:
    axis = b % len(x.shape)
    alike = [y for y in others if y.shape == x.shape]
    return scatter(alike[c % len(alike)], axis, _positions(x, axis), alike[b % len(alike)],
                   (Op.ADD, Op.MAX, None, Op.MUL)[c % 4])


def _converted(x: Node, others: list[Node], b: int, c: int) -> Node:
    narrow = (dt.int8, dt.bool_, dt.uint16)[b % 3]
    return cast(make(Op.CONTIGUOUS, narrow, (cast(x, narrow),)), dt.int64)


def _scanned(x: Node, others: list[Node], b: int, c: int) -> Node:
    """Rows that a state is carried along; now and then the state of all is looked at."""
    length, *shape = x.shape
    if length < 2 or not shape or x.numel > 600:
        return x
    row, state, same = (scan_leaf(i, tuple(shape), x.dtype) for i in range(3))
    seen = expand(reduce(state, Op.ADD, [b % len(shape)]), state.shape) if c % 3 else state
    after = elementwise(Op.ADD, elementwise(Op.MUL, seen, same), row)
    body = Body((after, elementwise(Op.MAX, after, row)), 1, 1, length, bool(c % 2))
    first = move(Op.SHRINK, x, ((c % length, c % length + 1), *((0, n) for n in shape)))
    whole = [y for y in others if y.numel == first.numel]
    rows = scan(body, [x], [whole[0] if whole else first], [first])
    return part(rows, body, b % 2, tuple(shape)) if c % 4 else rows


_STEPS: tuple[Callable[[Node, list[Node], int, int], Node], ...] = (
    _elementwise, _reduced, _reshaped, _permuted, _expanded, _cut_and_padded, _flipped, _windows,
    _gathered, _scattered, _converted, _elementwise, _reduced, _reshaped, _reshaped, _scanned)


def graph(steps: list[Step], annotated: Annotate) -> list[Node]:
    """Values, each made of some before it: some are annotated as shared out, where they can be;
    of the last ones, sums."""
    start = make(Op.BUFFER, dt.int64, (), Slot(0, 72))
    values = [annotated(reshape(start, (6, 12)), 0, 0), annotated(reshape(start, (12, 6)), 1, 1),
              annotated(reshape(elementwise(Op.MUL, iota(36), iota(36)), (6, 6)), 0, 1),
              reshape(iota(72), (6, 12)), reshape(iota(72), (12, 6))]
    for kind, a, b, c in steps:
        x = values[-1 - a % 3 if a % 4 else a % len(values)]
        if kind >= len(_STEPS):
            y = annotated(x, b % len(x.shape), c % 2)
        else:
            y = _STEPS[kind](x, values, b, c)
        if y.numel <= 5000:
            values.append(y)
    last = values[-2:]
    return [*last, *(reduce(elementwise(Op.MAX, v, v), Op.ADD, [b % len(v.shape)])
                     for v, (*_, b, _) in zip(last, steps, strict=False))]


def together(per_rank: list[list[Node]], leaf: Array) -> list[list[Array]]:
    """What the ranks compute, with each other's values where they meet."""
    met = [{n.arg.serial: n for n in collectives(toposort(roots))} for roots in per_rank]
    known: list[dict[Node, Array]] = [{} for _ in per_rank]

    def value(rank: int, root: Node) -> Array:
        for node in toposort([root], known=known[rank]):
            if node not in known[rank]:
                args = [known[rank][s] for s in node.src]
                known[rank][node] = joined(node) if node.op is Op.COLLECTIVE else \
                    value_of(node, args, {0: leaf})
        return known[rank][root]

    def joined(node: Node) -> Array:
        own = [np.concatenate(sources) if len(sources := [
            value(r, s).ravel() for s in met[r][node.arg.serial].src]) > 1 else
            value(r, met[r][node.arg.serial].src[0]) for r in node.arg.group.ranks]
        if node.arg.kind == "all_gather":
            return np.stack(own)
        combined: Array = {"sum": np.add, "max": np.maximum}[node.arg.reduction].reduce(own)
        return combined.astype(own[0].dtype)
    return [[value(rank, root) for root in roots] for rank, roots in enumerate(per_rank)]


def check(build: Callable[[Annotate], list[Node]]) -> None:
    """Each rank's values are those of one."""
    leaf = np.arange(72, dtype=np.int64) * 7 % 31 - 9
    expected = evaluate(build(lambda x, axis, grid_axis: x), {0: leaf})
    for in_parts in (False, True):
        _check([build(annotating(rank, in_parts)) for rank in range(6)], expected, leaf)


def _check(graphs: Sequence[list[Node]], expected: Sequence[Array], leaf: Array) -> None:
    roots = [list(partitioned(roots)) for roots in graphs]
    orders = [[(n.arg.serial, n.arg.kind, n.shape) for n in collectives(toposort(r))]
              for r in roots]
    assert all(order == orders[0] for order in orders)
    assert not any(n.op in SHARING_OPS for n in toposort(roots[0]))
    for values in together(roots, leaf):
        for found, wanted in zip(values, expected, strict=True):
            np.testing.assert_array_equal(found, wanted)


STEPS = st.lists(st.tuples(st.integers(0, len(_STEPS) + 5), *[st.integers(0, 40)] * 3),
                 min_size=2, max_size=14)


@settings(max_examples=100)
@given(steps=STEPS)
def test_six_ranks_compute_what_one_does(steps: list[Step]) -> None:
    check(partial(graph, steps))


@pytest.mark.parametrize("seed", range(8))
def test_long_programs_of_six_ranks(seed: int) -> None:
    random = Random(seed)
    for _ in range(120):
        check(partial(graph, [
            (random.randrange(len(_STEPS) + 6), *(random.randrange(41) for _ in range(3)))
            for _ in range(random.randrange(4, 16))]))


def test_a_part_is_no_interval_of_what_begins_within_it() -> None:
    x = leaf((8, 9), dtype=dt.int64)

    def sums(annotated: Annotate) -> list[Node]:
        return [reduce(reshape(annotated(x, 0, 0), (6, 12)), Op.ADD, [1]),
                reduce(reshape(annotated(x, 1, 1), (6, 12)), Op.ADD, [0])]
    check(sums)


def test_what_is_behind_the_end_of_the_last_part_is_written_nowhere() -> None:
    zeros, x = const(0, dt.int64, (5,)), move(Op.SHRINK, leaf((72,), dtype=dt.int64), ((0, 5),))

    def counts(annotated: Annotate) -> list[Node]:
        found = elementwise(Op.MOD, annotated(x, 0, 1), const(2, dt.int64, (5,)))
        return [scatter(zeros, 0, found, elementwise(Op.NOT, found), Op.ADD)]
    check(counts)


def test_what_is_behind_the_end_of_the_last_part_is_not_looked_up() -> None:
    x = move(Op.SHRINK, leaf((72,), dtype=dt.int64), ((0, 5),))

    def found(annotated: Annotate) -> list[Node]:
        more = elementwise(Op.ADD, annotated(x, 0, 1), const(3, dt.int64, (5,)))
        return [gather(more, 0, iota(7))]
    check(found)


def test_rows_that_are_cut_in_intervals_are_looked_up() -> None:
    x, words = leaf((4, 6, 3), dtype=dt.int64), elementwise(Op.MUL, *[expand(
        reshape(iota(25), (25, 1)), (25, 3))] * 2)
    check(lambda annotated: [gather(reshape(annotated(x, 1, 1), (24, 3)), 0, words)])


def counted(build: Callable[[Annotate], list[Node]]) -> list[tuple[str, tuple[int, ...]]]:
    """The collectives of a rank's graph, in order, by kind and shape."""
    roots = partitioned(build(annotating(0)))
    return [(n.arg.kind, n.shape) for n in collectives(toposort(roots))]


def leaf(shape: tuple[int, ...], slot: int = 0, dtype: dt.DType = dt.float32) -> Node:
    return reshape(make(Op.BUFFER, dtype, (), Slot(slot, math.prod(shape))), shape)


def product(a: Node, b: Node) -> Node:
    """a @ b.T, of shapes (n, k) and (m, k)."""
    (n, k), (m, _) = a.shape, b.shape
    x, y = reshape(a, (n, 1, k)), reshape(b, (1, m, k))
    terms = elementwise(Op.MUL, expand(x, (n, m, k)), expand(y, (n, m, k)))
    return reshape(reduce(terms, Op.ADD, [2]), (n, m))


def test_a_pair_of_layers_needs_one_sum() -> None:
    x, up, down = leaf((5, 4)), leaf((6, 4), 1), leaf((3, 6), 2)

    def layers(annotated: Annotate) -> list[Node]:
        h = elementwise(Op.EXP, product(x, annotated(up, 0, 1)))
        return [product(h, annotated(down, 1, 1))]
    assert counted(layers) == [("all_reduce", (5, 3, 1))]


def test_gradients_of_a_batch_are_one_sum_if_they_are_small() -> None:
    x = leaf((6, 4))

    def gradients(annotated: Annotate, size: int = 4) -> list[Node]:
        own = annotated(leaf((6, size), 1), 0, 0)
        return [reduce(annotated(x, 0, 0), Op.ADD, [0]), reduce(own, Op.ADD, [0]),
                reduce(elementwise(Op.MUL, own, own), Op.MAX, [0])]
    assert counted(gradients) == [("all_reduce", (8,)), ("all_reduce", (1, 4))]
    assert counted(lambda annotated: gradients(annotated, 100_000)) == [
        ("all_reduce", (1, 4)), ("all_reduce", (1, 100_000)), ("all_reduce", (1, 100_000))]


def test_what_leads_to_no_sum_is_not_shared_out() -> None:
    x = leaf((6, 4))
    assert counted(lambda annotated: [elementwise(Op.EXP, annotated(x, 0, 0))]) == []


def test_the_less_is_sent_of_what_comes_in_and_what_goes_out() -> None:
    a, b = leaf((6, 4)), leaf((8, 4), 1)

    def normalized(annotated: Annotate) -> list[Node]:
        scores = product(annotated(a, 0, 0), b)
        total = reduce(scores, Op.ADD, [1])
        return [elementwise(Op.DIV, scores, expand(total, scores.shape))]
    assert counted(normalized) == [("all_gather", (2, 3, 8))]

    def several(annotated: Annotate) -> list[Node]:
        scores = product(annotated(a, 0, 0), b)
        return [elementwise(Op.EXP, scores), elementwise(Op.SIN, scores)]
    assert counted(several) == [("all_gather", (2, 3, 8, 1))]


def test_rows_of_a_table_are_found_by_the_rank_that_has_them() -> None:
    table, words = leaf((6, 4)), leaf((5, 4), 1, dt.int64)
    assert counted(lambda annotated: [gather(annotated(table, 0, 1), 0, words)]) == [
        ("all_reduce", (5, 4))]


def test_sums_of_16_bits_are_rounded_once() -> None:
    x = leaf((6, 4), 0, dt.float16)
    root, = partitioned([reduce(annotating(0)(x, 0, 0), Op.ADD, [0])])
    total, = collectives(toposort([root]))
    assert total.dtype is dt.float32 and root.dtype is dt.float16


def test_groups_that_are_no_lines_of_one_mesh_are_refused() -> None:
    x = leaf((6, 6))
    first, second = lines(0)
    y = make(Op.SHARD, x.dtype, (x,), Sharding(first, 0, "cpu", "a"))
    z = make(Op.SHARD, x.dtype, (y,), Sharding(second, 1, "cpu", "b"))
    with pytest.raises(ArgumentError, match="no lines of one grid"):
        partitioned([reduce(z, Op.ADD, [0, 1])])
