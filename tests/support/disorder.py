"""A pytest plugin: tests in another order, beside what other tests of the process leave behind.

`make test-disorder` runs the suite with it: files, and the tests of each, in an order drawn by
`--order SEED`, while all nodes that two tests may have in common stay alive (`--keep-nodes`). A
node is found again by its fields, so what a test gets may have been made by any test before it: on
another line, of numbers of another class. Nothing may depend on that, but for where it was made.
A test that is given a node whose argument is equal to its own, but of other classes, has failed.
"""
from __future__ import annotations

import gc
from collections.abc import Generator, Hashable, Iterable
from dataclasses import fields, is_dataclass
from random import Random
from typing import Any

import pytest

from lazyten.ir import node as nodes
from lazyten.ir.kernel import Slot
from lazyten.ir.node import Node
from lazyten.ir.ops import MOVEMENT, Op


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--order", type=int, metavar="SEED", help="run files, and the tests of each, "
                     "in an order drawn by this number")
    parser.addoption("--keep-nodes", action="store_true",
                     help="keep nodes alive that another test may make again")
    parser.addoption("--no-gc", action="store_true",
                     help="leave cycles to the few explicit collections")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--keep-nodes"):
        config.pluginmanager.register(Keeping())
    if config.getoption("--no-gc"):
        gc.disable()


@pytest.hookimpl(trylast=True)  # after pytest has put those of one device side by side
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    seed: int | None = config.getoption("--order")
    if seed is not None:
        items[:] = shuffled(items, seed)


def shuffled(items: Iterable[pytest.Item], seed: int) -> list[pytest.Item]:
    """The same in each process: files in any order, and in each file its tests."""
    files: dict[Any, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.path, []).append(item)
    random, order = Random(seed), list(files.values())
    random.shuffle(order)
    for found in order:
        random.shuffle(found)
    return [item for found in order for item in found]


def are_of_one_kind(a: Any, b: Any) -> bool:
    """Whether equal arguments of nodes consist of the same classes, and of zeros of one sign."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, tuple):
        return all(map(are_of_one_kind, a, b))
    if is_dataclass(a):
        return all(are_of_one_kind(getattr(a, f.name), getattr(b, f.name))
                   for f in fields(a) if f.compare)
    return not isinstance(a, float) or repr(a) == repr(b)


class Nodes(dict[Hashable, Any]):
    """The table of nodes, which notes those that were made of other classes than who asks has."""

    def __init__(self, found: dict[Hashable, Any]) -> None:
        super().__init__(found)
        self.odd: list[str] = []

    def get(self, key: Any, default: Any = None) -> Any:
        reference = super().get(key, default)
        node = None if reference is None else reference()
        op, arg = key[0], key[3]
        if node is not None and op not in MOVEMENT and op not in (Op.CONST, Op.IOTA) \
                and not are_of_one_kind(arg, node.arg):
            self.odd.append(f"{op} of {arg!r} is one of {node.arg!r}, made at {node.where}")
        return reference


class Keeping:
    """Keeps what is made, unless it reads memory, which no other test has, and which some count;
    and unless its test is one that counts nodes."""

    def __init__(self) -> None:
        self.kept: dict[Node, None] = {}
        self.is_on = True
        self.table = nodes._interned = Nodes(nodes._interned)
        made = nodes._made

        def keep(key: Any, fields: Any, shape: Any, place: Any) -> Node:
            node = made(key, fields, shape, place)
            if self.is_on and self._is_common(*fields):
                self.kept[node] = None
            return node
        nodes._made = keep

    def _is_common(self, op: Op, _: Any, src: tuple[Node, ...], arg: Any) -> bool:
        return type(arg) is Slot if op is Op.BUFFER else all(s in self.kept for s in src)

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self.is_on = item.get_closest_marker("frees_nodes") is None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Generator[None, None, None]:
        self.table.odd.clear()
        yield
        self.is_on = True
        if self.table.odd:
            pytest.fail("\n".join(self.table.odd), pytrace=False)
