"""What of a block is computed only where a RARELY asks for it.

In: a Block, and all of its Function. Out: for each RARELY of the block, the instructions that its
second operand needs and nothing else does, in their order. Renderers write them behind a branch.
"""
from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

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


def seldom(block: Block, users: Users) -> dict[Value, list[Instruction]]:
    """Of the result of each RARELY in a block, the instructions of the block that only it needs."""
    found: dict[Value, list[Instruction]] = {}
    of: dict[Value, Value] = {}
    for item in reversed(block.items if users else ()):
        if isinstance(item, Compute | Splat):
            owners = {None if u is None else of.get(u) for u in users.get(item.out, {None})}
            owner = owners.pop() if len(owners) == 1 else None
            if owner is not None:
                found[owner].append(item)
                of[item.out] = owner
            if _is_rare(item):
                found[item.out] = []
                of[item.out] = item.out
    return {owner: items[::-1] for owner, items in found.items()}


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
