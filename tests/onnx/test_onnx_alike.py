"""Graphs that were recorded at several sizes put beside each other: one graph, or an error."""
from __future__ import annotations

from collections.abc import Callable

import onnx_if_there
import pytest

from lazyten.ir import dtype as dt
from lazyten.ir.node import Node, const, elementwise, iota, move, reduce, reshape
from lazyten.ir.ops import Op

onnx_if_there.needed()

from lazyten.onnx.writing.alike import Unlike, alike  # noqa: E402
from lazyten.onnx.writing.varying import Varying, VaryingFloat  # noqa: E402


def rows(n: int) -> Node:
    return reshape(iota(n * 2), (n, 2))


def floats(n: int) -> Node:
    return elementwise(Op.EXP, const(0.5, dt.float32, (n, 2)))


def test_numbers_that_differ_are_what_they_were_at_each_size() -> None:
    term, = alike([[move(Op.PAD, rows(n), ((0, n), (0, 0)))] for n in (3, 5)])
    assert term.op is Op.PAD and term.arg == ((0, Varying((3, 5))), (0, 0))
    assert term.shape == (Varying((6, 10)), 2) and term.numel == Varying((12, 20))


def test_a_movement_that_changes_nothing_at_a_size_is_put_in() -> None:
    term, = alike([[move(Op.PAD, rows(3), ((0, 1), (0, 0)))], [rows(4)]])
    assert term.op is Op.PAD and term.arg == ((0, Varying((1, 0))), (0, 0))
    assert term.src[0].op is Op.RESHAPE
    term, = alike([[reduce(rows(3), Op.ADD, (0,))], [rows(1)]])
    assert term.op is Op.REDUCE and term.arg == (Op.ADD, (0,))


def test_padding_with_a_constant_is_put_in() -> None:
    wide = move(Op.PAD, floats(3), ((0, 1), (0, 0)))
    there = move(Op.PAD, const(True, dt.bool_, (3, 2)), ((0, 1), (0, 0)))
    padded = elementwise(Op.WHERE, there, wide, const(7.0, dt.float32, (4, 2)))
    term, = alike([[padded], [floats(4)]])
    assert term.op is Op.WHERE and term.src[2].value == 7.0
    assert term.src[1].arg == ((0, Varying((1, 0))), (0, 0))


def test_a_product_with_a_power_of_two_is_a_quotient() -> None:
    def share(op: Op, factor: float, n: int) -> list[Node]:
        return [elementwise(op, floats(n), const(factor, dt.float32, (n, 2)))]
    term, = alike([share(Op.MUL, 0.25, 4), share(Op.DIV, 5.0, 5)])
    assert term.op is Op.DIV and term.src[1].value == VaryingFloat((4.0, 5.0))
    with pytest.raises(Unlike):
        alike([share(Op.MUL, 0.75, 4), share(Op.DIV, 5.0, 5)])


@pytest.mark.parametrize(("one", "other"), [
    (lambda: move(Op.PERMUTE, rows(3), (1, 0)), lambda: rows(3)),
    (lambda: move(Op.FLIP, rows(3), (0,)), lambda: move(Op.FLIP, rows(3), (1,))),
    (lambda: move(Op.FLIP, rows(3), (0,)), lambda: rows(3)),
    (lambda: reduce(rows(3), Op.ADD, (0,)), lambda: rows(3)),
    (lambda: reduce(rows(3), Op.ADD, (0,)), lambda: reduce(rows(3), Op.ADD, (1,))),
    (lambda: reduce(rows(3), Op.ADD, (0,)), lambda: reduce(rows(3), Op.MAX, (0,))),
    (lambda: const(True, dt.bool_, (3,)), lambda: const(False, dt.bool_, (3,))),
    (lambda: const(1, dt.int64, (3,)), lambda: const(1, dt.int32, (3,))),
    (lambda: elementwise(Op.EXP, floats(3)), lambda: elementwise(Op.SIN, floats(3))),
], ids=range(9))
def test_what_does_something_else_is_unlike(one: Callable[[], Node],
                                            other: Callable[[], Node]) -> None:
    with pytest.raises(Unlike):
        alike([[one()], [other()]])
    with pytest.raises(Unlike):
        alike([[other()], [one()]])
    with pytest.raises(Unlike, match="more tensors"):
        alike([[one()], [one(), one()]])
