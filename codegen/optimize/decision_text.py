"""Decisions as text: what DEBUG=3 prints, read back.

In: a line such as `tile(i0:3, i1:4) vector(i1:8) parallel(i0:2)` and the SINK that it is about,
ranges merged. Out: the Decisions, checked against that kernel: whatever is let through computes the
right values. Called by pipeline for decisions that a user gave, and by candidates.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NoReturn

from lazyten.codegen.gpu.gpu_stream import stream_candidates
from lazyten.codegen.loops.packing import Staged, local_loads, packable_loads
from lazyten.codegen.loops.ranges import free_ranges, is_update, overlaps
from lazyten.codegen.loops.reduction_blocking import is_carried
from lazyten.codegen.loops.streaming import streams
from lazyten.codegen.model.accesses import maskable
from lazyten.codegen.model.decisions import Decisions, Sharing, Tensors, range_name
from lazyten.codegen.model.loop_bodies import MOST_INSTANCES, Chosen
from lazyten.codegen.optimize.group_checks import group_problems, memory_problems
from lazyten.codegen.targets.target import Target
from lazyten.codegen.targets.tensor_cores import TABLE
from lazyten.ir.decision_grammar import Part, parts
from lazyten.ir.node import Node, ranges_of, toposort
from lazyten.support.errors import ArgumentError


def parse(text: str, sink: Node, target: Target, where: str = "decisions") -> Decisions:
    """The decisions that `text` means for a kernel; parse(str(d)) == d.

    Raises ArgumentError, which starts with `where`, for what cannot be read or does not fit.
    """
    decisions = _Reader(sink, where).read(text)
    check(decisions, sink, target, where)
    return decisions


class _Reader:
    """Finds the ranges and loads of one kernel by their names."""

    def __init__(self, sink: Node, where: str) -> None:
        self.where = where
        self.known = {range_name(r): r for r in ranges_of([sink])}
        self.loads = packable_loads(sink)
        self.local_loads = local_loads(sink)

    def read(self, text: str) -> Decisions:
        """The decisions, not checked yet."""
        decisions = Decisions()
        for part in parts(text, self.where):
            decisions = _PARTS[part.name](self, decisions, part)
        return decisions if decisions.staged == () else self._with_vectors(decisions)

    def fail(self, part: Part, problem: str) -> NoReturn:
        """ArgumentError about a part."""
        raise ArgumentError(f"{self.where}: {part.text}: {problem}")

    def ranges(self, part: Part) -> tuple[Node, ...]:
        """The ranges that a part names."""
        for name in part.ranges:
            if name not in self.known:
                known = ", ".join(f"{n} (extent {r.arg.extent})" for n, r in self.known.items())
                self.fail(part, f"the kernel has no range {name!r}; it has {known or 'none'}")
        return tuple(self.known[name] for name in part.ranges)

    def counts(self, part: Part) -> Chosen:
        """Ranges and a number each."""
        return tuple(zip(self.ranges(part), part.numbers, strict=True))

    def staged(self, decisions: Decisions, part: Part) -> Decisions:
        """stage(argument 2), stage(argument 2, load 1) for another of its loads, or
        stage(argument 2, local, 2 buffers)."""
        slot, number, buffers = part.numbers
        local = part.word == "local"
        known = self.local_loads if local else self.loads
        loads = known.get(slot, [])
        if number >= len(loads):
            names = ", ".join(f"argument {s}" for s in sorted(known)) or "none"
            why = "its position depends on memory" if local else "it reads an element twice"
            self.fail(part, f"this operand cannot be {'in local memory' if local else 'packed'}, "
                            f"because there is no such load or {why}; what can be is: {names}")
        chosen = Staged(loads[number], None, number, local, buffers)
        return replace(decisions, staged=(*decisions.staged, chosen))

    def tensors(self, part: Part) -> Tensors:
        """tensor(i0, i1, r0.2: m16n8k16_f16), and of what is streamed a fourth range."""
        if part.word not in TABLE:
            self.fail(part, f"there is no tensor core {part.word:.40}; "
                            f"there are {', '.join(TABLE)}")
        return Tensors(TABLE[part.word], *self.ranges(part))

    @staticmethod
    def _with_vectors(decisions: Decisions) -> Decisions:
        lanes = dict(decisions.lanes)
        return replace(decisions, staged=tuple(
            s if s.local else
            replace(s, vector=next((r for r in ranges_of([s.load]) if r in lanes), None))
            for s in decisions.staged))


_PARTS: dict[str, Callable[[_Reader, Decisions, Part], Decisions]] = {
    "tile": lambda reader, d, part: replace(d, tile=reader.counts(part)),
    "unroll": lambda reader, d, part: replace(d, unroll=reader.counts(part)),
    "vector": lambda reader, d, part: replace(d, lanes=reader.counts(part)),
    "block": lambda reader, d, part: replace(d, block=reader.counts(part)),
    "local": lambda reader, d, part: replace(d, local=reader.counts(part)),
    "group": lambda reader, d, part: replace(d, group=reader.counts(part)),
    "tensor": lambda reader, d, part: replace(d, tensor=reader.tensors(part)),
    "outermost": lambda reader, d, part: replace(d, outer=reader.ranges(part)[0]),
    "stage": _Reader.staged,
    "parallel": lambda reader, d, part: replace(d, parallel=Sharing(
        reader.ranges(part), part.numbers[0])),
}
"""What each part that the grammar has means."""


# ---- checking ------------------------------------------------------------------------------------

def check(decisions: Decisions, sink: Node, target: Target, where: str = "decisions") -> None:
    """ArgumentError, naming the part, unless a kernel can be written with these decisions."""
    if streams(sink):
        known = list(map(str, stream_candidates(sink, target)))
        if str(decisions) not in known:
            raise ArgumentError(f"{where}: {decisions}: this kernel runs in one pass, with one of "
                                f"{len(known)} decisions, such as {known[0]}")
        return
    free = free_ranges(sink)
    for part, message in _problems(decisions, sink, free, target):
        raise ArgumentError(f"{where}: {part}: {message}")
    for part, message in memory_problems(decisions, sink, target):
        raise ArgumentError(f"{where}: {part}: {message}")


def _problems(decisions: Decisions, sink: Node, free: dict[Node, frozenset[Node]],
              target: Target) -> Iterable[tuple[str, str]]:
    lanes = dict(decisions.lanes)
    copies = dict(decisions.tile) | dict(decisions.unroll)
    outputs = free[sink]
    most = target.widest
    for r, n in decisions.lanes:
        if n < 2 or n & (n - 1) or n > most:
            yield (f"vector({range_name(r)}:{n})",
                   f"lanes are a power of two, from 2 to {most} on this target")
    wrong = [("tile", r, n) for r, n in decisions.tile if r not in outputs]
    wrong += [("unroll", r, n) for r, n in decisions.unroll if r in outputs]
    for name, r, n in wrong:
        yield (f"{name}({range_name(r)}:{n})",
               "tile is for ranges of the output (i...), unroll for reductions (r...)")
    items = dict(decisions.local)
    widths, masked = decisions.widths(), maskable(sink, free, target)
    for r in {**widths, **copies, **items}:
        block = widths.get(r, 1) * copies.get(r, 1) * items.get(r, 1)
        is_masked = block == lanes.get(r) < 2 * r.arg.extent and r in masked
        if block > r.arg.extent and not is_masked:
            others = f"{items[r]} work items" if r in items else f"{widths.get(r, 1)} lanes"
            yield (range_name(r), f"{copies.get(r, 1)} times {others} are more than "
                                  f"its extent, {r.arg.extent}")
        if overlaps(r, block) and not is_masked:
            yield (range_name(r), f"{block} does not divide its extent, {r.arg.extent}, and what "
                                  "is combined with what is there must not be so twice")
    yield from _too_much(sink, free, lanes, copies, target)
    if decisions.outer is not None and decisions.outer not in outputs:
        yield (f"outermost({range_name(decisions.outer)})", "only ranges of the output (i...) can "
                                                            "be moved")
    elif decisions.outer is not None and any(is_update(store, sink) for store in sink.src):
        yield (f"outermost({range_name(decisions.outer)})", "the loops that updates share with "
                                                            "what comes before are the outermost")
    yield from _block_problems(decisions, sink, outputs)
    yield from _sharing_problems(decisions, sink, free, target)
    yield from group_problems(decisions, sink, free, target)
    if len({s.load for s in decisions.staged}) < len(decisions.staged):
        yield "stage", "an operand comes twice"


def _too_much(sink: Node, free: dict[Node, frozenset[Node]], lanes: dict[Node, int],
              copies: dict[Node, int], target: Target) -> Iterable[tuple[str, str]]:
    """What depends on two vectors, or would be written out too often."""
    for ranges in dict.fromkeys(free[node] for node in toposort([sink])):
        vectors = sorted(range_name(r) for r in ranges if r in lanes)
        if len(vectors) > 1 and target.work_group == 1:
            yield (f"vector({', '.join(vectors)})", "some value depends on all of these, and only "
                                                    "one of them can be its lanes")
        width = math.prod(-(-lanes.get(r, 1) * 4 // target.vector_bytes) for r in ranges)
        instances = width * math.prod(copies.get(r, 1) for r in ranges)
        if instances > MOST_INSTANCES:
            yield ("tile and unroll", f"some instructions would be written out {instances} times; "
                                      f"the limit is {MOST_INSTANCES}")


def _block_problems(decisions: Decisions, sink: Node,
                    outputs: frozenset[Node]) -> Iterable[tuple[str, str]]:
    split = dict(decisions.lanes) | dict(decisions.unroll)
    for r, n in decisions.block:
        part = f"block({range_name(r)}:{n})"
        if r in outputs or not is_carried(sink, r):
            yield part, ("only a sum (r...) that is the kernel's only reduction, and depends on "
                         "all ranges of the output, can be computed block by block")
        if len(decisions.block) > 1:
            yield part, "only one range has blocks"
        if r in split:
            yield part, "a range with lanes or accumulators of its own has no blocks"
        if not 1 < n < r.arg.extent:
            yield part, (f"a block has at least 2 elements and less than the {r.arg.extent} there "
                         "are")


def _sharing_problems(decisions: Decisions, sink: Node, free: dict[Node, frozenset[Node]],
                      target: Target) -> Iterable[tuple[str, str]]:
    shared = decisions.parallel.ranges
    part = f"parallel({'*'.join(map(range_name, shared))}:{decisions.parallel.grain})"
    if shared and not target.threads:
        yield part, "this target has no threads"
    blocks = decisions.widths()
    for r, n in (*decisions.tile, *decisions.local):
        blocks[r] = n * blocks.get(r, 1)
    for r in shared:
        if any(r not in free[store] for store in sink.src):
            yield part, f"{range_name(r)} is not a range of every output: threads cannot share it"
        if blocks.get(r, 1) >= r.arg.extent:
            yield part, f"{range_name(r)} has no loop left: its tile and lanes take all of it"
