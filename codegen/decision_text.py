"""Decisions as text: what DEBUG=3 prints, read back.

In: a line such as `tile(i0:3, i1:4) vector(i1:8) parallel(i0:2)` and the SINK that it is about,
ranges merged. Out: the Decisions, checked against that kernel: whatever is let through computes the
right values. Called by pipeline for decisions that a user gave, and by candidates.
"""
from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NoReturn

from lazyten.codegen.body import MOST_INSTANCES
from lazyten.codegen.carry import is_carried
from lazyten.codegen.decisions import Decisions, range_name
from lazyten.codegen.group_checks import group_problems, memory_problems
from lazyten.codegen.parallel import Sharing
from lazyten.codegen.ranges import free_ranges
from lazyten.codegen.stage import Staged, local_loads, packable_loads
from lazyten.codegen.target import Target
from lazyten.codegen.tensor_cores import TABLE, Tensors
from lazyten.errors import ArgumentError
from lazyten.node import Node, ranges_of, toposort

PLAIN = str(Decisions())
_PART = re.compile(r"\s*(\w+)\(([^()]*)\)\s*")
_STAGE = re.compile(r"argument (\d+)(?:, load (\d+))?(?:(, local)(?:, (\d+) buffers)?)?")
Counts = tuple[tuple[Node, int], ...]


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
        self.ranges = {range_name(r): r for r in ranges_of([sink])}
        self.loads = packable_loads(sink)
        self.local_loads = local_loads(sink)
        self.part = ""

    def read(self, text: str) -> Decisions:
        """The decisions, not checked yet."""
        found: dict[str, list[str]] = {}
        position = 0
        plain = text.strip() == PLAIN
        while position < len(text) and not plain:
            match = _PART.match(text, position)
            self.part = text[position:].strip()
            if match is None:
                self.fail("cannot be read; parts look like tile(i0:3, i1:4) or vector(i1:8), and a "
                          f"kernel without any is {PLAIN!r}")
            self.part = match[0].strip()
            if match[1] not in _PARTS:
                self.fail(f"there is no such decision; there are {', '.join(_PARTS)}")
            if match[1] in found and match[1] != "stage":
                self.fail(f"{match[1]} comes twice; name all its ranges in one")
            found.setdefault(match[1], []).append(match[2])
            position = match.end()
        decisions = Decisions()
        for name, insides in found.items():
            for inside in insides:
                self.part = f"{name}({inside})"
                decisions = _PARTS[name](self, decisions, inside)
        return decisions if decisions.staged == () else self._with_vectors(decisions)

    def fail(self, problem: str) -> NoReturn:
        """ArgumentError about the part being read."""
        raise ArgumentError(f"{self.where}: {self.part}: {problem}")

    def range(self, name: str) -> Node:
        """The range of this name."""
        r = self.ranges.get(name.strip())
        if r is None:
            known = ", ".join(f"{n} (extent {r.arg.extent})" for n, r in self.ranges.items())
            self.fail(f"the kernel has no range {name.strip()!r}; it has {known or 'none'}")
        return r

    def count(self, text: str) -> int:
        """A number of at least 1."""
        if not text.strip().isdecimal() or int(text) < 1:
            self.fail(f"{text.strip()!r} is not a number of at least 1")
        return int(text)

    def counts(self, inside: str) -> Counts:
        """Ranges and a number each, as in i0:3, i1:4."""
        found = {}
        for item in inside.split(","):
            name, colon, number = item.partition(":")
            if not colon:
                self.fail(f"{item.strip()!r} needs a number, as in i0:4")
            r = self.range(name)
            if r in found:
                self.fail(f"{name.strip()} comes twice")
            found[r] = self.count(number)
        return tuple(found.items())

    def staged(self, decisions: Decisions, inside: str) -> Decisions:
        """stage(argument 2), stage(argument 2, load 1) for another of its loads, or
        stage(argument 2, local, 2 buffers)."""
        match = _STAGE.fullmatch(inside.strip())
        if match is None:
            self.fail("write stage(argument N)")
        slot, number, local = int(match[1]), int(match[2] or 0), match[3] is not None
        known = self.local_loads if local else self.loads
        loads = known.get(slot, [])
        if number >= len(loads):
            names = ", ".join(f"argument {s}" for s in sorted(known)) or "none"
            why = "its position depends on memory" if local else "it reads an element twice"
            self.fail(f"this operand cannot be {'in local memory' if local else 'packed'}, because "
                      f"there is no such load or {why}; what can be is: {names}")
        chosen = Staged(loads[number], None, number, local, int(match[4] or 1))
        return replace(decisions, staged=(*decisions.staged, chosen))

    def shared(self, decisions: Decisions, inside: str) -> Decisions:
        """parallel(i0*i1:4)."""
        names, _, grain = inside.partition(":")
        ranges = tuple(self.range(n) for n in names.split("*"))
        if len(set(ranges)) < len(ranges):
            self.fail("a range comes twice")
        return replace(decisions, parallel=Sharing(ranges, self.count(grain)))

    def tensors(self, inside: str) -> Tensors:
        """tensor(i0, i1, r0.2: m16n8k16_f16)."""
        names, _, core = inside.partition(":")
        ranges = [self.range(n) for n in names.split(",")]
        if core.strip() not in TABLE or len(set(ranges)) != 3:
            self.fail("write rows, columns, reduction and one of " + ", ".join(TABLE))
        return Tensors(TABLE[core.strip()], *ranges)

    @staticmethod
    def _with_vectors(decisions: Decisions) -> Decisions:
        lanes = dict(decisions.lanes)
        return replace(decisions, staged=tuple(
            s if s.local else
            replace(s, vector=next((r for r in ranges_of([s.load]) if r in lanes), None))
            for s in decisions.staged))


_PARTS: dict[str, Callable[[_Reader, Decisions, str], Decisions]] = {
    "tile": lambda reader, d, inside: replace(d, tile=reader.counts(inside)),
    "unroll": lambda reader, d, inside: replace(d, unroll=reader.counts(inside)),
    "vector": lambda reader, d, inside: replace(d, lanes=reader.counts(inside)),
    "block": lambda reader, d, inside: replace(d, block=reader.counts(inside)),
    "local": lambda reader, d, inside: replace(d, local=reader.counts(inside)),
    "group": lambda reader, d, inside: replace(d, group=reader.counts(inside)),
    "tensor": lambda reader, d, inside: replace(d, tensor=reader.tensors(inside)),
    "outermost": lambda reader, d, inside: replace(d, outer=reader.range(inside)),
    "stage": _Reader.staged,
    "parallel": _Reader.shared,
}


# ---- checking ------------------------------------------------------------------------------------

def check(decisions: Decisions, sink: Node, target: Target, where: str = "decisions") -> None:
    """ArgumentError, naming the part, unless a kernel can be written with these decisions."""
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
    widths = decisions.widths()
    for r in {**widths, **copies, **items}:
        block = widths.get(r, 1) * copies.get(r, 1) * items.get(r, 1)
        if block > r.arg.extent:
            others = f"{items[r]} work items" if r in items else f"{widths.get(r, 1)} lanes"
            yield (range_name(r), f"{copies.get(r, 1)} times {others} are more than "
                                  f"its extent, {r.arg.extent}")
    yield from _too_much(sink, free, lanes, copies, target)
    if decisions.outer is not None and decisions.outer not in outputs:
        yield (f"outermost({range_name(decisions.outer)})", "only ranges of the output (i...) can "
                                                            "be moved")
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
