"""What the scheduler hands to a runtime: kernels over numbered arguments, in order."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from lazyten.ir.dtype import DType
from lazyten.ir.inspection import dump
from lazyten.ir.node import Node, make, toposort
from lazyten.ir.ops import Op
from lazyten.support.location import Location


class Slot(NamedTuple):
    """BUFFER's argument inside a kernel: kernel argument number `slot`, a flat array of `size`."""

    slot: int
    size: int


@dataclass(frozen=True, slots=True)
class Given:
    """Decisions of the optimizer that a user gave: `text` as DEBUG=3 prints them, and where they
    stand, for messages."""

    text: str
    where: str = "decisions"


@dataclass(frozen=True, slots=True)
class Kernel:
    """One launch: arrays computed from arrays.

    outputs: GRAPH expressions whose BUFFER leaves have Slot arguments. Argument i of the launch is
    where outputs[i] is written, flat and contiguous; the inputs' arguments follow, in slot order.
    inputs: dtype and size of each input, slots len(outputs) onwards. decisions: how to optimize it,
    where that is not left to the code generator. checks: what to look for while it runs, some of
    check_mode.KINDS. tf32: whether products of float32 may round their factors to tf32. unaligned:
    slots of inputs that may start at any element of memory, on devices to which that matters.
    """

    name: str
    outputs: tuple[Node, ...]
    inputs: tuple[tuple[DType, int], ...]
    where: Location | None = None
    decisions: Given | None = None
    checks: tuple[str, ...] = ()
    tf32: bool = False
    unaligned: tuple[int, ...] = ()


def held_values(outputs: Sequence[Node]) -> list[Node]:
    """The values that a kernel holds, in an order to compute them: CONTIGUOUS nodes with an
    argument (axes, rows). It computes `rows` steps of the last of so many first axes at a time, not
    counting axes of size 1, and nothing of them is in memory afterwards."""
    return [n for n in toposort(outputs) if n.op is Op.CONTIGUOUS and n.arg is not None]


Plain = tuple[Any, ...]
"""A kernel as tuples of strings, numbers, ops and dtypes, which another process can read."""


def to_plain(kernel: Kernel) -> Plain:
    """The kernel without its nodes, for `from_plain`. Its line is left out."""
    order = toposort(kernel.outputs)
    numbers = {node: number for number, node in enumerate(order)}
    nodes = [(n.op, n.dtype, tuple(numbers[s] for s in n.src), n.arg) for n in order]
    return (kernel.name, nodes, tuple(numbers[o] for o in kernel.outputs), kernel.inputs,
            kernel.decisions, kernel.checks, kernel.tf32, kernel.unaligned)


def from_plain(plain: Plain) -> Kernel:
    """The kernel that `to_plain` took apart."""
    name, nodes, outputs, inputs, decisions, checks, tf32, unaligned = plain
    made: list[Node] = []
    for op, dtype, src, arg in nodes:
        made.append(make(op, dtype, tuple(made[s] for s in src), arg))
    return Kernel(name, tuple(made[o] for o in outputs), inputs, None, decisions, checks, tf32,
                  unaligned)


def structure(kernel: Kernel) -> str:
    """All that a kernel's text depends on, as text: equal on every machine and in every process."""
    given = "" if kernel.decisions is None else f"\ngiven: {kernel.decisions.text}"
    checks = f"\nchecks: {' '.join(kernel.checks)}" if kernel.checks else ""
    tf32 = "\ntf32" if kernel.tf32 else ""
    unaligned = f"\nunaligned: {kernel.unaligned}" if kernel.unaligned else ""
    return f"{kernel.name}: {computation(kernel)}{given}{checks}{tf32}{unaligned}"


def nameless(structure: str) -> str:
    """All that a kernel's code depends on, as text: its structure but for its name."""
    return structure.partition(": ")[2]


def computation(kernel: Kernel) -> str:
    """What a kernel computes, as text, whatever its name."""
    numbers = {node: number for number, node in enumerate(toposort(kernel.outputs))}
    outputs = " ".join(f"%{numbers[output]}" for output in kernel.outputs)
    inputs = " ".join(f"{dtype.name}[{size}]" for dtype, size in kernel.inputs)
    return f"{outputs} from {inputs}\n{dump(kernel.outputs)}"
