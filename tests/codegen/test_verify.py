"""What LAZYTEN_VERIFY=1 refuses: nests that miss elements, or take them twice, and accesses that
may be outside. Each is a kernel that is right, broken by hand in one place."""
from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from window_loops import loop

import lazyten as lt
from lazyten.codegen.instructions.instructions import (
    Block,
    Function,
    Instruction,
    Load,
    Loop,
    Store,
)
from lazyten.codegen.instructions.linearize import linearize
from lazyten.codegen.loops import ranges as rewrites
from lazyten.codegen.loops.coverage import coverage, grid, values
from lazyten.codegen.loops.verify_rewrites import verify_rewrite
from lazyten.codegen.verify.accesses import is_within, verify_accesses
from lazyten.codegen.verify.loops import verify_loops
from lazyten.ir import dtype as dt
from lazyten.ir.arguments import Param, Range
from lazyten.ir.node import Node, cast, const, elementwise, index, make, substitute
from lazyten.ir.ops import Op
from lazyten.support.errors import InternalError
from lazyten.symbolic.simplify import simplify


def row_major(*parts: tuple[Node, int]) -> Node:
    """The sum of ranges times strides."""
    total = index(0)
    for r, stride in parts:
        total = elementwise(Op.ADD, total, elementwise(Op.MUL, r, index(stride)))
    return simplify(total)


def load(size: int, position: Node, *valid: Node) -> Node:
    return make(Op.LOAD, dt.float32, (make(Op.PARAM, dt.float32, (), Param(1, size)), position,
                                      *valid))


def store(size: int, position: Node, value: Node, combiner: Op | None = None) -> Node:
    param = make(Op.PARAM, value.dtype, (), Param(0, size))
    return make(Op.STORE, dt.bool_, (param, position, value), combiner)


def summed(value: Node, *ranges: Node) -> Node:
    return make(Op.ACCUMULATE, value.dtype, (value, *ranges), Op.ADD)


def sink(*stores: Node) -> Node:
    return make(Op.SINK, dt.bool_, stores)


A, B = loop(0, 4), loop(1, 6)
K, L = loop(1000, 5, "reduce"), loop(1001, 8, "vector")
ROWS = load(20, row_major((A, 5), (K, 1)))
EIGHTS = load(160, row_major((A, 40), (K, 8), (L, 1)))
LEAST = rewrites.minimum(elementwise(Op.MUL, loop(2, 3), index(4)), index(6))

def read_below(extent: int, position: Node) -> Node:
    """A whole number in memory, made one that is at least 0 and below `extent`."""
    return elementwise(Op.MOD, cast(load(9, position), dt.INDEX), index(extent))


FLAT = loop(0, 24)
READ, READ_APART = read_below(6, loop(501, 9, "serial")), read_below(4, loop(501, 9, "apart"))

RIGHT = {
    "a map": sink(store(24, row_major((A, 6), (B, 1)), load(24, row_major((A, 6), (B, 1))))),
    "a transpose": sink(store(24, row_major((B, 4), (A, 1)), load(24, row_major((A, 6), (B, 1))))),
    "sums of rows": sink(store(4, A, summed(ROWS, K))),
    "a sum of lanes": sink(store(4, A, summed(EIGHTS, K, L))),
    "blocks that overlap": sink(store(10, elementwise(Op.ADD, LEAST, A), load(10, elementwise(
        Op.ADD, LEAST, A)))),
    "what comes again": sink(store(4, A, const(0, dt.float32)), store(
        4, loop(500, 4, "serial"), const(1, dt.float32), Op.ADD)),
    "updates of places of their own": sink(store(24, FLAT, const(0, dt.float32)), store(
        24, row_major((loop(500, 4, "apart"), 6), (READ, 1)), const(1, dt.float32), Op.ADD)),
}

BROKEN = {
    "a step of a reduction that is stored": sink(store(4, A, ROWS)),
    "the lanes of a reduction that is over": sink(store(4, A, elementwise(
        Op.ADD, summed(ROWS, K), elementwise(Op.MUL, load(5, K), const(2, dt.float32))))),
    "lanes beside a sum over their loop alone": sink(store(4, A, summed(EIGHTS, K))),
    "too few elements": sink(store(25, row_major((A, 6), (B, 1)), const(1, dt.float32))),
    "too many elements": sink(store(23, row_major((A, 6), (B, 1)), const(1, dt.float32))),
    "gaps": sink(store(30, row_major((A, 8), (B, 1)), const(1, dt.float32))),
    "elements stored twice": sink(store(4, A, load(24, row_major((A, 6), (B, 1))))),
    "neighbours that overlap": sink(store(9, elementwise(Op.ADD, A, B), load(
        24, row_major((A, 6), (B, 1))))),
    "a sum twice over one range": sink(store(4, A, summed(ROWS, K, K))),
    "a sum of sums over one range": sink(store(4, A, summed(elementwise(
        Op.ADD, summed(ROWS, K), load(5, K)), K))),
    "lanes of two loops": sink(store(8, L, summed(load(
        64, row_major((L, 8), (loop(1002, 8, "vector"), 1))), loop(1002, 8, "vector")))),
    "two loops in one place": sink(store(24, row_major((A, 6), (B, 1)), load(
        7, loop(0, 7)))),
    "an update that loops may race for": sink(store(4, A, const(0, dt.float32)), store(
        4, READ_APART, const(1, dt.float32), Op.ADD)),
    "updates that meet in another row": sink(store(24, FLAT, const(0, dt.float32)), store(
        24, row_major((loop(500, 4, "apart"), 5), (READ, 1)), const(1, dt.float32), Op.ADD)),
}


@pytest.mark.parametrize("name", RIGHT)
def test_nests_that_take_each_element_once_are_accepted(name: str) -> None:
    verify_loops(RIGHT[name])
    verify_accesses(linearize("kernel", RIGHT[name]))


@pytest.mark.parametrize("name", BROKEN)
def test_nests_that_do_not_are_refused(name: str) -> None:
    with pytest.raises(InternalError):
        verify_loops(BROKEN[name])


def part(r: Node, number: int, extent: int, kind: str = "loop") -> Node:
    return make(Op.RANGE, dt.INDEX, (), Range((*r.arg.order, number), extent, kind))


SUMS = RIGHT["sums of rows"]
K2, K3, K5, K6 = (part(K, n, n, "reduce") for n in (2, 3, 5, 6))
A2, A3, LANES2, LANES3 = part(A, 2, 2), part(A, 3, 3), part(A, 1, 2, "vector"), part(A, 1, 3)
PAST = row_major((K3, 2), (K2, 1))
Rewrite = tuple[dict[Node, Node], dict[Node, tuple[Node, ...]], Node | None]


def clamped(block: Node, size: int, last: int, inner: Node) -> Node:
    start = rewrites.minimum(elementwise(Op.MUL, block, index(size)), index(last))
    return simplify(elementwise(Op.ADD, start, inner))


KEEPING: dict[str, Rewrite] = {
    "blocks": ({A: row_major((A2, 2), (LANES2, 1))}, {}, None),
    "blocks that overlap": ({A: clamped(A2, 3, 1, LANES3)}, {}, None),
    "another loop": ({K: K5}, {K: (K5,)}, None),
    "masked past the end": ({K: PAST}, {K: (K3, K2)}, elementwise(Op.CMPLT, PAST, index(5))),
}
LOSING: dict[str, Rewrite] = {
    "blocks too far apart": ({A: row_major((A2, 3), (LANES2, 1))}, {}, None),
    "blocks that end late": ({A: row_major((A2, 3), (LANES3, 1))}, {}, None),
    "blocks that end early": ({A: clamped(A2, 3, 0, LANES3)}, {}, None),
    "fewer steps": ({A: A3}, {}, None),
    "fewer steps of a sum": ({K: K3}, {K: (K3,)}, None),
    "more steps of a sum": ({K: K6}, {K: (K6,)}, None),
    "one step of a sum twice": ({K: elementwise(Op.MOD, K6, index(5))}, {K: (K6,)}, None),
    "blocks of a sum that overlap": ({K: clamped(K3, 2, 3, K2)}, {K: (K3, K2)}, None),
    "a loop that nothing sums": ({K: K5}, {}, None),
    "lanes that nothing sums": ({K: PAST}, {K: (K3,)}, elementwise(Op.CMPLT, PAST, index(5))),
    "no mask": ({K: PAST}, {K: (K3, K2)}, None),
    "a mask too late": ({K: PAST}, {K: (K3, K2)}, elementwise(Op.CMPLT, PAST, index(6))),
    "a mask of something else": ({K: PAST}, {K: (K3, K2)}, elementwise(Op.CMPLT, K2, index(5))),
}


@pytest.mark.parametrize("name", KEEPING)
def test_rewrites_that_keep_the_iteration_space_are_accepted(name: str) -> None:
    verify_loops(rewrites.replace_ranges(SUMS, *KEEPING[name]))


@pytest.mark.parametrize("name", LOSING)
def test_rewrites_that_do_not_are_refused(name: str) -> None:
    with pytest.raises(InternalError):
        rewrites.replace_ranges(SUMS, *LOSING[name])


def test_a_range_that_is_left_or_not_masked_is_refused() -> None:
    given, bound, inside = KEEPING["masked past the end"]
    new = rewrites.replace_ranges(SUMS, given, bound, inside)
    verify_rewrite(SUMS, new, given, bound, inside)
    assert inside is not None
    bare, = substitute([new], {inside: const(True, dt.bool_)})
    left = sink(*new.src, store(5, K, const(1, dt.float32)))
    for broken in (bare, left):
        with pytest.raises(InternalError):
            verify_rewrite(SUMS, broken, given, bound, inside)


@pytest.mark.parametrize("digits", [(4, 6, 24), (4, 6, 25), (6, 4, 24), (4, 6, 12)], ids=str)
def test_shared_loops_count_through_all_combinations(digits: tuple[int, int, int]) -> None:
    _, columns, extent = digits
    shared = loop(0, extent, "parallel")
    given = {A: elementwise(Op.IDIV, shared, index(columns)),
             B: elementwise(Op.MOD, shared, index(columns))}
    if digits == (4, 6, 24):
        verify_loops(rewrites.replace_ranges(RIGHT["a map"], given, {}))
    else:
        with pytest.raises(InternalError):
            rewrites.replace_ranges(RIGHT["a map"], given, {})


@pytest.mark.parametrize("rewrite", [True, False])
def test_a_sum_of_remainders_whose_loops_are_merged_is_refused(
        monkeypatch: pytest.MonkeyPatch, rewrite: bool) -> None:
    found = rewrites._index_roots

    def positions_alone(order: Collection[Node]) -> list[Node]:
        values = {n.src[0] for n in order if n.op is Op.ACCUMULATE}
        return [r for r in found(order) if r not in values]
    monkeypatch.setattr(rewrites, "_index_roots", positions_alone)
    monkeypatch.setattr(rewrites, "is_verifying", lambda: rewrite)
    with pytest.raises(InternalError, match="still" if rewrite else "uncombined"):
        (lt.arange(66, device="cpu") % 33).sum().item()


# ---- coverage ------------------------------------------------------------------------------------

@given(extents=st.lists(st.integers(1, 5), min_size=1, max_size=3), data=st.data())
def test_what_a_position_covers_is_what_its_values_are(extents: list[int],
                                                       data: st.DataObject) -> None:
    ranges = [loop(a, n) for a, n in enumerate(extents)]
    factors = data.draw(st.lists(st.integers(1, 12), min_size=len(ranges), max_size=len(ranges)))
    position = row_major(*zip(ranges, factors, strict=True))
    if data.draw(st.booleans()):
        position = rewrites.minimum(position, index(data.draw(st.integers(0, 30))))
    position = elementwise(Op.ADD, position, index(data.draw(st.integers(0, 2))))
    found = coverage(position, ranges)
    at = np.sort(values(position, grid(ranges)))
    assert found is not None
    assert (found.first, found.last) == (at[0], at[-1] + 1)
    assert found.whole == (set(range(at[0], at[-1] + 1)) == set(at.tolist()))
    assert found.once == (len(set(at.tolist())) == len(at))


# ---- accesses ------------------------------------------------------------------------------------

def rewritten(function: Function, change: Callable[[Instruction], Instruction]) -> Function:
    def block(old: Block) -> Block:
        inner = (replace(i, body=block(i.body)) if isinstance(i, Loop) else i for i in old.items)
        return Block(old.depth, [change(i) for i in inner])
    return replace(function, body=block(function.body))


def padded() -> Function:
    """Rows of 6 read from an array of 24, from one before on, where there is one."""
    before = elementwise(Op.SUB, row_major((A, 6), (B, 1)), index(1))
    valid = elementwise(Op.NOT, elementwise(Op.CMPLT, before, index(0)))
    return linearize("kernel", sink(store(24, row_major((A, 6), (B, 1)), load(24, before, valid))))


FUNCTIONS = {"lanes": linearize("kernel", RIGHT["a sum of lanes"]),
             "blocks": linearize("kernel", RIGHT["blocks that overlap"]), "masks": padded()}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("change", ["load", "store", "extent", "size"])
def test_accesses_that_may_be_outside_are_refused(name: str, change: str) -> None:
    function = FUNCTIONS[name]
    verify_accesses(function)

    def broken(item: Instruction) -> Instruction:
        if isinstance(item, Load if change == "load" else Store) and change in ("load", "store"):
            address = item.address
            return replace(item, address=address._replace(offset=address.offset + 2))
        if isinstance(item, Loop) and change == "extent":
            return replace(item, extent=item.extent + 1)
        return item
    other = rewritten(function, broken)
    if change == "size":
        (first, n), second = function.params
        other = replace(function, params=((first, n - 1), second))
    with pytest.raises(InternalError, match="may be outside"):
        verify_accesses(other)


def test_an_access_that_lost_its_mask_is_refused() -> None:
    bare = rewritten(padded(), lambda i: replace(i, mask=None) if isinstance(i, Load) else i)
    with pytest.raises(InternalError, match="may be outside"):
        verify_accesses(bare)


def test_an_output_that_is_not_stored_everywhere_is_refused() -> None:
    tile = make(Op.RANGE, dt.INDEX, (), Range((0,), 4, "unroll"))
    function = linearize("kernel", sink(store(24, row_major((tile, 6), (B, 1)), load(
        24, row_major((tile, 6), (B, 1))))))
    verify_accesses(function)
    nest = next(i for i in function.body.items if isinstance(i, Loop))
    stores = [i for i in nest.body.items if isinstance(i, Store)]
    assert len(stores) == 4
    for dropped in stores:
        body = Block(1, [i for i in nest.body.items if i is not dropped])
        items = [replace(nest, body=body) if i is nest else i for i in function.body.items]
        with pytest.raises(InternalError, match="not all of the 24 elements"):
            verify_accesses(replace(function, body=Block(0, items)))


@given(extents=st.tuples(st.integers(1, 5), st.integers(1, 5)),
       factors=st.tuples(st.integers(-4, 4), st.integers(-4, 4)), start=st.integers(-6, 6),
       size=st.integers(1, 24), low=st.integers(-3, 3), high=st.integers(0, 8))
def test_a_masked_position_is_inside_where_all_its_points_are(
        extents: tuple[int, int], factors: tuple[int, int], start: int, size: int, low: int,
        high: int) -> None:
    ranges = [loop(a, n) for a, n in enumerate(extents)]
    position = elementwise(Op.ADD, row_major(*zip(ranges, factors, strict=True)), index(start))
    moved = elementwise(Op.ADD, ranges[0], ranges[1])
    conditions = (elementwise(Op.NOT, elementwise(Op.CMPLT, position, index(low))),
                  elementwise(Op.CMPLT, moved, index(high)))
    known = grid(ranges)
    at = values(position, known)[values(conditions[0], known) & values(conditions[1], known)]
    assert is_within(position, size, conditions) == bool(((at >= 0) & (at < size)).all())


@pytest.mark.parametrize("n", [4, 30, 1000])
def test_positions_that_a_reduction_gives_are_known_to_be_inside(n: int) -> None:
    """Their clamps are left out where bounds of the reduction make them unnecessary."""
    values = np.random.default_rng(n).permutation(3 * n).reshape(3, n)
    x = lt.tensor(values.astype(np.float32), device="cpu")
    greatest = x.gather(-1, x.argmax(-1, keepdim=True)).numpy()
    np.testing.assert_array_equal(greatest[:, 0], values.max(1))
    ranks = (x.reshape(3, 1, n) < x.reshape(3, n, 1)).sum(-1)
    counted = lt.arange(n, device="cpu").expand(3, n)
    np.testing.assert_array_equal(counted.gather(1, ranks).numpy(),
                                  values.argsort(1).argsort(1))


@pytest.mark.parametrize("loops", [(6, 1), (3, 2), (1, 6), (2, 4)])
@pytest.mark.parametrize("among", ["all", "those below 5"])
def test_a_position_that_is_a_count_is_inside_if_it_counts_as_many_at_most(
        loops: tuple[int, int], among: str) -> None:
    """Of loops and lanes that go past the end of what is counted, only what their mask leaves."""
    outer, lanes = loop(1000, loops[0], "reduce"), loop(1001, loops[1], "vector")
    ranges = [r for r in (outer, lanes) if r.arg.extent > 1]
    element = row_major(*((r, {outer: loops[1], lanes: 1}[r]) for r in ranges))
    valid = elementwise(Op.CMPLT, element, index(5))
    below = elementwise(Op.CMPLT, cast(element, dt.float32), const(2.5, dt.float32))
    counted = cast(below, dt.INDEX)
    if among != "all":
        counted = elementwise(Op.WHERE, valid, counted, index(0))
    count = make(Op.ACCUMULATE, dt.INDEX, (counted, *ranges), Op.ADD)
    most = 5 if among != "all" else loops[0] * loops[1]

    def checked(size: int) -> None:
        verify_accesses(linearize("kernel", sink(store(1, index(0), load(size, count)))))
    checked(most + 1)
    with pytest.raises(InternalError, match="may be outside"):
        checked(most)
