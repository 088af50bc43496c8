"""How C spells what the work items of a group do together: local arrays, barriers, combining.

In: the instructions Item, Barrier and Across. Out: lines through a `GroupEmitter`, the renderer.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from lazyten.codegen.c_ops import ROWS, Emitter, element_type, type_name
from lazyten.codegen.dialect import Dialect
from lazyten.codegen.instructions import Across, Item, Value
from lazyten.dtype import DType


class GroupEmitter(Emitter, Protocol):
    """What this module needs of the renderer."""

    dialect: Dialect
    names: dict[Value, str]
    depth: int

    def line(self, text: str) -> None:
        """Append a line."""


def declared(arrays: Sequence[tuple[DType, int]], dialect: Dialect) -> list[str]:
    """The lines that declare the arrays of a group."""
    return [f"  {dialect.local}{element_type(dtype)} l{number}[{size}];"
            for number, (dtype, size) in enumerate(arrays)]


def item_digit(item: Item, group: int, dialect: Dialect) -> str:
    """A digit of the work item's number in its group."""
    text = f"(uint){dialect.local_item}"
    if item.stride > 1:
        text += f" / {item.stride}"
    return text if item.stride * item.extent >= group else f"{text} % {item.extent}"


def across(out: GroupEmitter, item: Across) -> str:
    """Lines that combine values of work items in an array; gives the result as an expression."""
    dtype, array = item.source.dtype, f"l{item.array}"
    kind, barrier = type_name(dtype, 1), out.dialect.barrier
    number = out.let("uint", f"(uint){out.dialect.local_item}")
    below = "" if item.stride == 1 else f" * {item.stride}"
    digit = out.let("uint", number + (f" / {item.stride}" if below else "") + f" % {item.extent}")
    out.line(f"{array}[{number}] = {out.names[item.source]};")
    out.line(barrier)
    step = out.let("uint", str(item.extent // 2))
    out.line(f"for (; {step} > 0; {step} /= 2) {{")
    out.depth += 1
    out.line(f"if ({digit} < {step}) {{")
    out.depth += 1
    here, there = (out.let(kind, _element(dtype, f"{array}[{place}]"))
                   for place in (number, f"{number} + {step}{below}"))
    out.line(f"{array}[{number}] = {ROWS[item.combiner](out, dtype, 1, (here, there))};")
    out.depth -= 1
    out.line("}")
    out.line(barrier)
    out.depth -= 1
    out.line("}")
    total = out.let(kind, _element(dtype, f"{array}[{number} - {digit}{below}]"))
    out.line(barrier)
    return total


def _element(dtype: DType, text: str) -> str:
    return f"{text} != 0" if dtype.kind == "b" else text
