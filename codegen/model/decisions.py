"""Decisions: what becomes of a kernel's ranges, as optimize applies it and DEBUG=3 prints it."""
from __future__ import annotations

from dataclasses import dataclass

from lazyten.codegen.loops.lower import FIRST_REDUCE
from lazyten.codegen.loops.packing import Staged
from lazyten.codegen.loops.ranges import OUTERMOST
from lazyten.codegen.model.loop_bodies import Chosen
from lazyten.codegen.targets.tensor_cores import TensorCore
from lazyten.ir.decision_grammar import PLAIN
from lazyten.ir.node import Node


@dataclass(frozen=True, slots=True)
class Sharing:
    """The output ranges whose loops are shared as one, and how many iterations make a chunk.

    No ranges and 0: the kernel runs on one thread.
    """

    ranges: tuple[Node, ...] = ()
    grain: int = 0


ONE_THREAD = Sharing()


@dataclass(frozen=True, slots=True)
class Tensors:
    """A decision: `core` for the output ranges `row` and `column` and the reduction's `inner`. Of a
    sum that is streamed, `under` is what the product is summed over that its rows are made of."""

    core: TensorCore
    row: Node
    column: Node
    inner: Node
    under: Node | None = None

    def widths(self) -> dict[Node, int]:
        """How many steps of each range one instruction takes."""
        own = dict(zip((self.row, self.column, self.inner), self.core.shape, strict=True))
        return own if self.under is None else {**own, self.under: self.core.shape[2]}

    def strides(self) -> dict[Node, int]:
        """Of the digits of an item's number in its warp."""
        return {of(digit): stride for digit, stride in self.core.strides
                for of in (self.core.range, self.core.passed)}


@dataclass(frozen=True, slots=True)
class Decisions:
    """What becomes of a kernel's ranges.

    lanes: vector ranges and their lanes, or how many neighbours a work item of a group takes.
    tile: output ranges in registers, in elements or vectors. unroll: reduction ranges and how many
    accumulators each has. block: a reduction range and how many of its elements are summed before
    the loops of the output start anew, for caches' sake. parallel: the output ranges whose loops
    threads share as if they were one, or groups of work items. local: ranges that the items of a
    group share, and among how many; the last is that of neighbours. group: reduction ranges and
    how many elements a group has in local memory at a time. tensor: what tensor cores multiply, if
    they do.
    """

    lanes: Chosen = ()
    tile: Chosen = ()
    unroll: Chosen = ()
    staged: tuple[Staged, ...] = ()
    outer: Node | None = None
    block: Chosen = ()
    parallel: Sharing = ONE_THREAD
    local: Chosen = ()
    group: Chosen = ()
    tensor: Tensors | None = None

    def widths(self) -> dict[Node, int]:
        """Steps of each range that one vector, or one instruction of a tensor core, takes."""
        return dict(self.lanes) | (self.tensor.widths() if self.tensor is not None else {})

    @property
    def swizzled(self) -> bool:
        """Whether local memory is as tensor cores want it that read it by themselves."""
        return self.tensor is not None and self.tensor.core.is_local

    def __str__(self) -> str:
        parts = [f"{name}({', '.join(f'{range_name(r)}:{n}' for r, n in chosen)})"
                 for name, chosen in (("tile", self.tile), ("unroll", self.unroll),
                                      ("vector", self.lanes), ("block", self.block),
                                      ("local", self.local), ("group", self.group)) if chosen]
        if self.tensor is not None:
            names = ", ".join(range_name(r) for r in self.tensor.widths())
            parts.append(f"tensor({names}: {self.tensor.core.name})")
        if self.outer is not None:
            parts.append(f"outermost({range_name(self.outer)})")
        parts += [f"stage(argument {s.load.src[0].arg.slot}"
                  f"{f', load {s.number}' if s.number else ''}{', local' if s.local else ''}"
                  f"{f', {s.buffers} buffers' if s.buffers > 1 else ''})" for s in self.staged]
        if self.parallel.ranges:
            shared = "*".join(map(range_name, self.parallel.ranges))
            parts.append(f"parallel({shared}:{self.parallel.grain})")
        return " ".join(parts) or PLAIN


def range_name(r: Node) -> str:
    """i0, i1, ... for output axes; r0.2 for axis 2 of the first reduction."""
    first, *rest = r.arg.order[1:] if r.arg.order[0] == OUTERMOST else r.arg.order
    name = f"i{first}" if first < FIRST_REDUCE else f"r{first - FIRST_REDUCE}"
    return ".".join([name, *map(str, rest)])
