"""Equal nodes are one node, also where threads make and drop them."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lazyten.ir import dtype as dt
from lazyten.ir import node
from lazyten.ir.node import const


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
