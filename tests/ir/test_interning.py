"""Equal nodes are one node, also where threads make and drop them."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lazyten as lt
from lazyten.ir import dtype as dt
from lazyten.ir import node
from lazyten.ir.kernel import Slot
from lazyten.ir.node import const, make
from lazyten.ir.ops import Op


class Raced(dict[Any, Any]):
    """The table of nodes, in which another thread does something after each look."""

    then: Callable[[], object]

    def get(self, key: Any, default: Any = None) -> Any:
        found = super().get(key, default)
        self.then()
        return found


@pytest.mark.parametrize("meanwhile", ["made again", "made again and dropped"])
def test_a_node_that_another_thread_makes_again_stays(meanwhile: str,
                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    kept = [const(value, dt.float32, (3, 7)) for value in (12.5, 13.5)]
    reference, again = [r for r in node._interned.values() if r() in kept]
    table = Raced(node._interned)

    def then() -> None:
        if meanwhile == "made again":
            table[reference.key] = again
        else:
            table.pop(reference.key, None)

    table.then = then
    monkeypatch.setattr(node, "_interned", table)
    node._forget(reference)
    assert dict.get(table, reference.key) is (again if meanwhile == "made again" else None)


class Seven(int):
    """An integer of another class, as one that is recorded is."""


@pytest.mark.parametrize(("op", "arg"), [
    (Op.RESHAPE, lt.Size((3, 7))), (Op.RESHAPE, (Seven(7), 3)), (Op.RESHAPE, (np.int64(7), 3)),
    (Op.EXPAND, lt.Size((21,))), (Op.PAD, ((Seven(7), 0),)), (Op.SHRINK, ((0, Seven(7)),)),
    (Op.CONST, (13.25, lt.Size((3, 7)))), (Op.CONST, (13.25, (Seven(7),))), (Op.IOTA, Seven(7)),
], ids=str)
def test_a_node_is_made_of_plain_tuples_and_integers(op: Op, arg: Any) -> None:
    """Who makes an equal node later is given this one, whose argument must be of the same kind."""
    memory = make(Op.BUFFER, dt.float32, (), Slot(1, 21))
    dtype = dt.int64 if op is Op.IOTA else dt.float32
    made = make(op, dtype, () if op in (Op.CONST, Op.IOTA) else (memory,), arg)
    numbers = [*_numbers(made.arg), *_numbers(made.shape)]
    assert made.arg == arg and {*map(type, numbers)} <= {int, float, tuple}


def _numbers(argument: Any) -> list[Any]:
    """The parts of an argument, tuples among them."""
    parts = argument if isinstance(argument, tuple) else ()
    return [argument, *(number for part in parts for number in _numbers(part))]
