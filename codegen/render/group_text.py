"""How C spells what the work items of a group do together: local arrays, barriers, combining.

In: the instructions WorkItem, Barrier and Across. Out: lines through a `GroupEmitter`, the
renderer.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from lazyten.codegen.instructions.instructions import (
    Across,
    Address,
    Barrier,
    Matrix,
    MatrixDescriptor,
    MatrixFence,
    MatrixLoad,
    MatrixWait,
    Value,
    WorkItem,
)
from lazyten.codegen.instructions.vector_access import MOST_BYTES, whole_accesses
from lazyten.codegen.render.c_ops import ROWS, Emitter, element_type, type_name
from lazyten.codegen.targets.dialect import Dialect
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType

PATTERN = 1024
"""Bytes after which the swizzling of rows begins anew."""


class GroupEmitter(Emitter, Protocol):
    """What this module needs of the renderer."""

    names: dict[Value, str]
    depth: int
    helpers: set[str]
    variables: set[str]

    def line(self, text: str) -> None:
        """Append a line."""

    def pointer(self, address: Address) -> str:
        """To the first element at an address."""


def declared(arrays: Sequence[tuple[DType, int]], dialect: Dialect, swizzled: bool) -> list[str]:
    """The lines that declare the arrays of a group. Those of swizzled rows are whole patterns, and
    begin where one does."""
    if not asked_bytes(arrays, dialect):
        local = dialect.local.format(alignment=PATTERN if swizzled else MOST_BYTES)
        return [f"  {local}{element_type(dtype)} l{number}[{size}];"
                for number, (dtype, size) in enumerate(arrays)]
    lines, start = [], 0
    for number, (dtype, size) in enumerate(arrays):
        kind = f"{dialect.local_space}{element_type(dtype)} *"
        lines.append(f"  {kind}l{number} = ({kind})({dialect.asked} + {start});")
        start += whole_accesses(size * dtype.itemsize)
    return lines


def asked_bytes(arrays: Sequence[tuple[DType, int]], dialect: Dialect) -> int:
    """What a launch must ask for; 0 where a kernel declares its arrays."""
    total = sum(whole_accesses(size * dtype.itemsize) for dtype, size in arrays)
    return total if 0 < dialect.most_declared < total else 0


def item_digit(item: WorkItem, group: int, dialect: Dialect) -> str:
    """A digit of the work item's number in its group."""
    text = f"(uint){dialect.local_item}"
    if item.stride > 1:
        text += f" / {item.stride}"
    return text if item.stride * item.extent >= group else f"{text} % {item.extent}"


def across(out: GroupEmitter, item: Across, group: int) -> str:
    """Lines that combine values of the work items of a group; gives the result as an expression.

    Halves first, in an array; once both are in one warp, and the dialect lets its items exchange
    values, by that. Either way the same values are combined in the same order.
    """
    dtype, array = item.source.dtype, f"l{item.array}"
    kind, barrier = type_name(dtype, 1), out.dialect.barrier
    number = out.let("uint", f"(uint){out.dialect.local_item}")
    below = "" if item.stride == 1 else f" * {item.stride}"
    digit = out.let("uint", number + (f" / {item.stride}" if below else "") + f" % {item.extent}")
    in_warp = out.dialect.warp // item.stride
    exchanged = in_warp if out.dialect.lane_below else 1
    if item.extent <= exchanged:
        total = _exchanged(out, item, out.names[item.source], item.extent, group)
        first = f"{number} - {digit}{below}"
        return out.dialect.lane.format(lanes=_lanes(group, out.dialect), x=total, lane=first)
    out.line(f"{array}[{number}] = {out.names[item.source]};")
    out.line(barrier)
    step = out.let("uint", str(item.extent // 2))
    out.line(f"for (; {step} > {exchanged // 2}; {step} /= 2) {{")
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
    if exchanged > 1:
        mine = out.let(kind, _element(dtype, f"{array}[{number}]"))
        total = _exchanged(out, item, mine, exchanged, group)
        out.line(f"if ({digit} == 0) {array}[{number}] = {total};")
        out.line(barrier)
    total = out.let(kind, _element(dtype, f"{array}[{number} - {digit}{below}]"))
    out.line(barrier)
    return total


def _exchanged(out: GroupEmitter, item: Across, value: str, count: int, group: int) -> str:
    """The values of the first `count` items of a digit combined, in the first of them; these are
    in one warp."""
    dtype, step = item.source.dtype, count // 2
    kind = type_name(dtype, 1)
    while step > 0:
        there = out.let(kind, out.dialect.lane_below.format(
            lanes=_lanes(group, out.dialect), x=value, by=step * item.stride))
        value = out.let(kind, ROWS[item.combiner](out, dtype, 1, (value, there)))
        step //= 2
    return value


def _lanes(group: int, dialect: Dialect) -> str:
    """The mask of the items of a warp that there are."""
    return f"{(1 << min(group, dialect.warp)) - 1:#x}u"


def barrier(out: GroupEmitter, item: Barrier) -> None:
    """The lines at which the items of a group wait for each other."""
    if item.to_cores:
        out.line(f"{_helper(out, 'lazyten_proxy_fence')}();")
    out.line(out.dialect.barrier)


def with_matrices(out: GroupEmitter, item: MatrixFence | MatrixWait) -> None:
    """The line of one of these instructions."""
    kind = "fence" if isinstance(item, MatrixFence) else "wait"
    out.line(f"{_helper(out, f'lazyten_matrix_{kind}')}();")


def matrix_descriptor(out: GroupEmitter, item: MatrixDescriptor) -> str:
    """Where a matrix is, as the instruction takes it."""
    sizes = ", ".join(str(n) for n in (item.width, item.apart))
    return f"{_helper(out, 'lazyten_descriptor')}({out.pointer(item.address)}, {sizes})"


def _helper(out: GroupEmitter, name: str) -> str:
    """The name of a function of the dialect, which the program is going to have."""
    out.helpers.add(dict(out.dialect.functions)[name])
    return name


def matrix(out: GroupEmitter, item: Matrix) -> None:
    """Lines that call the function of a tensor core's instruction. One that reads local memory by
    itself adds to the variables where c is, which nobody else needs: a copy would be made before it
    is done."""
    out.helpers.add(item.core.function)
    if item.core.is_local:
        for result, initial in zip(item.outs, item.c, strict=True):
            name = out.names[initial]
            out.names[result] = name if name in out.variables else out.let("float", name)
            out.variables.add(out.names[result])
        transposed = ", ".join(str(int(transposed)) for transposed in item.transposed)
        given = ", ".join(out.names[v] for v in (*item.outs, *item.a, *item.b))
        out.line(f"lazyten_mma_{item.core.name}<{transposed}>({given});")
        return
    for result, initial in zip(item.outs, item.c, strict=True):
        out.names[result] = out.let("float", out.names[initial])
    words = [_words(out, values, item.core.in_word) for values in (item.a, item.b)]
    given = ", ".join([*(out.names[v] for v in item.outs), *words[0], *words[1]])
    out.line(f"lazyten_mma_{item.core.name}({given});")


def load_matrices(out: GroupEmitter, item: MatrixLoad) -> None:
    """Lines that declare the words, and call the function that reads them."""
    name = f"lazyten_matrices_{len(item.outs)}{'_transposed' if item.transposed else ''}"
    out.helpers.add(dict(out.dialect.functions)[name])
    for value in item.outs:
        out.names[value] = out.let("uint", "0")
    given = [*(out.names[v] for v in item.outs), out.pointer(item.address)]
    out.line(f"{name}({', '.join(given)});")


def _words(out: GroupEmitter, values: Sequence[Value], in_word: int) -> list[str]:
    """Operands as 32-bit words: words as they are, two 16-bit patterns, the first in the low half,
    or a float."""
    names = [out.names[v] for v in values]
    if values[0].dtype is dt.uint32:
        return names
    if in_word == 1:
        return [out.let("uint", f"as_uint({name})") for name in names]
    return [out.let("uint", f"(uint){low} | (uint){high} << 16")
            for low, high in zip(names[::2], names[1::2], strict=True)]


def _element(dtype: DType, text: str) -> str:
    return f"{text} != 0" if dtype.kind == "b" else text
