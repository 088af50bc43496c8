"""Whose line a node belongs to."""
from __future__ import annotations

import sys
from threading import Thread

from hypothesis import given
from hypothesis import strategies as st

import lazyten as lt
from lazyten.ir.node import toposort
from lazyten.ir.ops import Op
from lazyten.support.location import Location, attribute_to, user_location

THERE = Location("there.py", 7)


def test_the_line_is_the_callers_unless_it_is_set() -> None:
    here = user_location()
    assert here is not None and here.file == __file__
    with attribute_to(THERE):
        assert user_location() == THERE
        with attribute_to(None):
            assert user_location() == THERE
    assert user_location() != THERE


def test_one_thread_does_not_set_the_line_of_another() -> None:
    seen: list[Location | None] = []
    with attribute_to(THERE):
        thread = Thread(target=lambda: seen.append(user_location()))
        thread.start()
        thread.join()
    assert seen != [THERE] and len(seen) == 1


def test_a_node_belongs_to_the_line_of_its_call_also_in_a_long_statement() -> None:
    x = lt.ones(3)
    first = sys._getframe().f_lineno
    y = (
        x
        .exp()
        + 2 * x
    )
    nodes = {n.op: n for n in toposort([y.node])}
    assert nodes[Op.EXP].where == Location(__file__, first + 3)
    assert nodes[Op.MUL].where == Location(__file__, first + 4)
    assert str(nodes[Op.MUL].where) == f"test_location.py:{first + 4}"


@given(before=st.integers(0, 700), inside=st.booleans())
def test_the_line_is_found_in_code_of_any_length(before: int, inside: bool) -> None:
    lines = [*["x = x"] * before, "y = x + 1", *["x = x"] * 3]
    if inside:
        lines = ["def f(x):", *(f"    {line}" for line in lines), "    return y", "y = f(x)"]
    text = "\n".join(lines)
    names = {"x": lt.tensor([1.0, 2.0]), "__name__": "user"}
    exec(compile(text, "user.py", "exec"), names)
    assert names["y"].node.where == Location("user.py", before + 1 + inside)
