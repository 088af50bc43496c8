"""What a program is, from the user's lines to machine code, as data for a page.

In: plans, as they ran or would run. Out: plain data (dicts, lists, texts) that page.js shows. The
passes are run again for it, under an observer that keeps what each makes; nothing is computed.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from lazyten.devices.program import Program
from lazyten.execution.debug import flops, traffic
from lazyten.execution.plans.plan import Plan, scheduled
from lazyten.ir.collective import collective_of
from lazyten.ir.inspection import dump
from lazyten.ir.kernel import Kernel, held_values
from lazyten.ir.node import Node, toposort
from lazyten.ir.ops import Op
from lazyten.schedule.cost import StoredValue
from lazyten.schedule.schedule import Schedule
from lazyten.schedule.steps import Step
from lazyten.seeing.program import lines_of, stored_by_step, values_of
from lazyten.storage.device import executor
from lazyten.support import observers
from lazyten.support.location import Location
from lazyten.support.observers import Observer, Span
from lazyten.support.passes import NAMES
from lazyten.tuning.records import given_for

MOST_CANDIDATES = 12
"""Decisions that are shown beside a kernel's own."""

Data = dict[str, Any]


class Passes(Observer):
    """Keeps what each pass makes, as text. within: the pass that has run it, as `pack` does."""

    needs_passes = True

    def __init__(self) -> None:
        self.kept: list[Data] = []
        self._starts: list[float] = []

    def passed(self, name: str, title: Callable[[], str], text: Callable[[], str], span: Span,
               own: float) -> None:
        for start, earlier in zip(self._starts, self.kept, strict=True):
            if start >= span.start:
                earlier["within"] = earlier["within"] or name
        self.kept.append({"name": name, "about": NAMES[name], "ms": own * 1e3, "text": text(),
                          "within": None})
        self._starts.append(span.start)


class Collector:
    """Makes the data of plans. files: each file with user lines, and its number on the page."""

    def __init__(self) -> None:
        self.files: dict[str, int] = {}
        self.lines: dict[str, set[int]] = {}
        self.plans: list[Data] = []
        self.kernels: list[Data] = []
        self.details: list[Data] = []
        self._known: dict[tuple[str, Kernel], Data] = {}

    def place(self, where: Location | None) -> list[int] | None:
        """A line as the page knows it: [file, line]."""
        if where is None:
            return None
        self.lines.setdefault(where.file, set()).add(where.line)
        return [self.files.setdefault(where.file, len(self.files)), where.line]

    def add(self, device: str, plan: Plan, runs: int = 0,
            seconds: Mapping[int, Sequence[float]] | None = None) -> None:
        """One more plan. runs: how often it ran; seconds: of each step, of each run."""
        made = plan.schedule
        with observers.told(passes := Passes()):
            if plan.roots:
                scheduled(plan.roots, made.arrays[:made.inputs], plan.options)
        nodes, numbers = self._graph(made)
        first = len(self.kernels)
        launch_of = [n for n, count in enumerate(made.launches) for _ in range(count)]
        for number, (step, program, own, values) in enumerate(zip(
                made.steps, plan.programs, stored_by_step(made), values_of(made), strict=True)):
            kernel = self._kernel(device, plan, step, program)
            times = (seconds or {}).get(number, ())
            self.kernels.append(kernel | {
                "plan": len(self.plans), "launch": launch_of[number], "step": number,
                "where": self.place(step.kernel.where),
                "stores": [self._stored(d, step.kernel.where) for d in own],
                "saved": made.saved[number], "values": [numbers[v] for v in values],
                "lines": [[self.place(line), share]
                          for line, share in lines_of(values, step.kernel.where).items() if line],
                "writes": list(step.writes), "reads": list(step.reads),
                "us": [s * 1e6 for s in times]})
        self.plans.append({
            "device": device, "runs": runs, "inputs": made.inputs, "nodes": nodes,
            "first": first, "launches": list(made.launches), "passes": passes.kept,
            "arrays": [[d.name, n, d.itemsize * n] for d, n in made.arrays],
            "outputs": sorted(set(made.outputs)), "blocks": list(made.block_sizes),
            "memory": list(memory_of(made))})

    def _graph(self, made: Schedule) -> tuple[list[Data], dict[Node, int]]:
        """The nodes of what was scheduled, and their numbers."""
        order = toposort([d.node for d in made.stored])
        numbers = {node: number for number, node in enumerate(order)}
        return [{"op": n.op.name, "type": n.dtype.name, "shape": list(n.shape),
                 "arg": _argument(n), "src": [numbers[s] for s in n.src],
                 "where": self.place(n.where) if n.op is not Op.BUFFER else None}
                for n in order], numbers

    def _kernel(self, device: str, plan: Plan, step: Step, program: Program) -> Data:
        """What is the same wherever an equal kernel runs; its details are made once."""
        key = device, step.kernel
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._new_kernel(device, plan, step.kernel, program)
        return found

    def _new_kernel(self, device: str, plan: Plan, kernel: Kernel, program: Program) -> Data:
        runs, is_collective = executor(device), collective_of(kernel) is not None
        asked = plan.options.applied(kernel)
        if is_collective:
            asked = kernel
        elif asked.decisions is None and runs.target_label:
            asked = replace(asked, decisions=given_for(asked, runs.target_label))
        with observers.told(passes := Passes()):
            runs.generate([] if is_collective else [asked])
        estimates = [] if is_collective else runs.estimates(asked)
        described = program.describe()
        self.details.append({
            "expression": dump(kernel.outputs), "passes": passes.kept, "source": program.source,
            "assembly": program.assembly(), "loops": described,
            "candidates": [list(e) for e in estimates[:MOST_CANDIDATES + 1]]})
        return {"name": kernel.name, "device": device, "detail": len(self.details) - 1,
                "flops": flops(kernel), "bytes": traffic(kernel),
                "inputs": [f"{dtype.name}[{size}]" for dtype, size in kernel.inputs],
                "decisions": described.split("\n\n")[-1].partition("\n")[0],
                "cycles": estimates[0][1] if estimates else None,
                "held": [f"{v.dtype.name}{list(v.shape)}, {v.arg[1]} rows at a time"
                         for v in held_values(kernel.outputs)]}

    def _stored(self, value: StoredValue, own: Location | None) -> Data:
        node = value.node
        return {"type": f"{node.dtype.name}{list(node.shape)}", "reason": value.reason,
                "bytes": node.numel * node.dtype.itemsize, "where": self.place(node.where or own),
                "costs": [value.stored_cost, value.inline_cost]
                if value.was_weighed else None}


def _argument(node: Node) -> str:
    """What an op has besides its sources, for people."""
    if node.op is Op.BUFFER:
        return f"input {node.arg.slot}"
    if node.op is Op.CONST:
        return repr(node.value)
    return "" if node.arg is None else str(node.arg)[:80]


def memory_of(made: Schedule) -> Iterator[list[int]]:
    """Bytes during each launch: of inputs, of outputs there by then, and of values in between that
    are still to be read."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    steps = iter(made.steps)
    for number, count in enumerate(made.launches):
        for step in islice(steps, count):
            for array in step.args:
                first.setdefault(array, number)
                last[array] = number
    sizes = [dtype.itemsize * count for dtype, count in made.arrays]
    outputs = set(made.outputs) - set(range(made.inputs))
    given = sum(sizes[:made.inputs])
    for number in range(len(made.launches)):
        there = [a for a in first if a >= made.inputs and first[a] <= number]
        yield [given, sum(sizes[a] for a in there if a in outputs),
               sum(sizes[a] for a in there if a not in outputs and last[a] >= number)]
