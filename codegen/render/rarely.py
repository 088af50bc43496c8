"""What of a block is computed only where a RARELY asks for it.

In: a Block, and all of its Function. Out: for each RARELY of the block, the instructions that its
second operand needs and nothing else does, but for later ones of the same condition. Renderers
write them behind a branch.
"""
from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from lazyten.codegen.instructions.instructions import (
    Block,
    Compute,
    Function,
    Instruction,
    Splat,
    Value,
    instructions_of,
)
from lazyten.ir.ops import Op


class Branch(NamedTuple):
    """Instructions behind a branch, in their order, and which of their results later branches of
    the same condition read as well."""

    items: list[Instruction]
    shared: list[Value]


Users = dict[Value, set[Value | None]]
"""Of each value what is computed of it: the results of elementwise ops, None for all else."""


def users_of(function: Function) -> Users:
    """Of all values of a function with a RARELY; of others nothing is asked."""
    found: Users = defaultdict(set)
    items = list(instructions_of(function.body))
    if not any(map(_is_rare, items)):
        return found
    for item in items:
        if isinstance(item, Compute | Splat):
            args = item.args if isinstance(item, Compute) else (item.source,)
            for i, arg in enumerate(args):
                found[arg].add(None if _is_rare(item) and i != 1 else item.out)
        else:
            for arg in _values(item):
                found[arg].add(None)
    return found


def seldom(block: Block, users: Users) -> dict[Value, Branch]:
    """What stands behind the branch of each RARELY of a block, by its result."""
    found: dict[Value, Branch] = {}
    results: dict[int, Value] = {}
    of: dict[Value, tuple[Value, int] | None] = {}  # condition, and place of the branch
    for place, item in reversed(list(enumerate(block.items if users else ()))):
        if not isinstance(item, Compute | Splat):
            continue
        owners = {None if u is None else of.get(u) for u in users.get(item.out, {None})}
        own = _first(owners)
        if own is not None:
            branch = found[results[own[1]]]
            branch.items.insert(0, item)
            if len(owners) > 1:
                branch.shared.append(item.out)
        if isinstance(item, Compute) and _is_rare(item):
            found[item.out], results[place] = Branch([], []), item.out
            # what is behind a branch itself has values that nothing beside it may read
            own = (item.args[0] if own is None else item.out), place
        of[item.out] = own
    return found


def unbranched(block: Block, branches: dict[Value, Branch]) -> list[Instruction]:
    """The instructions of a block that are behind none of its branches, in their order."""
    behind = {id(item) for branch in branches.values() for item in branch.items}
    return [item for item in block.items if id(item) not in behind]


def _first(owners: set[tuple[Value, int] | None]) -> tuple[Value, int] | None:
    """The first branch of those of one condition; None where there are others, or other users."""
    known = {owner for owner in owners if owner is not None}
    if len(known) < len(owners) or len({condition for condition, _ in known}) != 1:
        return None
    return min(known, key=lambda owner: owner[1])


def _is_rare(item: Instruction) -> bool:
    return isinstance(item, Compute) and item.op is Op.RARELY


def _values(part: Any) -> Iterator[Value]:
    """All values in the fields of an instruction; the body of a loop has its own."""
    if isinstance(part, Value):
        yield part
    elif isinstance(part, tuple):
        for p in part:
            yield from _values(p)
    elif hasattr(part, "__slots__") and not isinstance(part, Block):
        for name in part.__slots__:
            yield from _values(getattr(part, name))
