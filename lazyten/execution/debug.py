"""What DEBUG=1..5 prints while computing: schedules, kernels, loops, machine code, passes.

The environment variable is read anew each time, so a program may change it. Who prints is one of
those who look on (observers.py), as is who prints what level 5 adds (passes.py); docs/debug.md
explains a dump line by line. Everything goes to standard output.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from weakref import WeakSet

from lazyten.devices.program import Program
from lazyten.ir.inspection import dump
from lazyten.ir.kernel import Kernel
from lazyten.ir.node import Node, toposort
from lazyten.ir.ops import ELEMENTWISE, Op
from lazyten.schedule.schedule import Schedule
from lazyten.support.errors import ArgumentError
from lazyten.support.observers import Launch, Observer, Plan, Span
from lazyten.support.passes import NAMES
from lazyten.support.variables import EnvVar

_FREE = frozenset({
    Op.CAST, Op.BITCAST, Op.WHERE, Op.NOT, Op.AND, Op.OR, Op.XOR, Op.CMPLT, Op.CMPNE,
})
"""Elementwise ops that do not count as floating-point operations."""

MOST_TYPES = 8
"""A launch that stores more kinds of arrays says only how many they are."""
A_ROW = 5
"""So many passes are shown in a line."""

_HEADER = f"{'kernel':<28} {'output':<24} {'us':>9} {'GFLOP/s':>8} {'GB/s':>7}  line"


DEBUG = EnvVar("DEBUG")


def level() -> int:
    """The value of DEBUG: 0 nothing, 1 schedules, 2 kernels, 3 loops, 4 machine code, 5 passes."""
    text = DEBUG.text if DEBUG.is_set() else ""
    if not text:
        return 0
    if not text.isdecimal():
        raise ArgumentError(f"DEBUG={text!r}: it is a number, 0 to 5 (see docs/debug.md)")
    return int(text)


class Printer(Observer):
    """Prints what a level of DEBUG asks for."""

    def __init__(self, level: int) -> None:
        self.level, self.needs_launches = level, level >= 2

    def runs(self, device: str, plan: Plan, spent: float | None) -> None:
        show_schedule(plan.schedule, device, spent)
        if self.level >= 3 and spent is not None:
            show_passes(plan.seconds)
        if self.level >= 2:
            self._show_programs(plan)

    def _show_programs(self, plan: Plan) -> None:
        """The kernels of a plan that were not printed before, and the header of the rows."""
        for step, program in zip(plan.schedule.steps, plan.programs, strict=True):
            if program not in _shown:
                _shown.add(program)
                show_program(step.kernel, program, self.level)
        if plan.programs:
            print(_HEADER)

    def launched(self, launch: Launch, spans: Sequence[Span]) -> None:
        if self.level >= 2:
            show_launch([kernel for kernel, _, _ in launch.kernels], sum(s.seconds for s in spans))


_shown: WeakSet[Program] = WeakSet()


def asked() -> Printer | None:
    """Who prints what DEBUG asks for, if it asks for anything."""
    detail = level()
    return Printer(detail) if detail else None


def flops(kernel: Kernel) -> int:
    """Arithmetic operations of a kernel as its expression says."""
    return sum(map(node_flops, toposort(kernel.outputs)))


def node_flops(node: Node) -> int:
    """Arithmetic operations of a node: one an element, and one for each element combined.
    Comparisons, selections and conversions count as none."""
    if node.op is Op.REDUCE:
        return node.src[0].numel
    if node.op is Op.MULACC:
        return 2 * node.numel
    is_counted = node.op in ELEMENTWISE and node.op not in _FREE and node.dtype.is_float
    return node.numel if is_counted else 0


def traffic(kernel: Kernel) -> int:
    """Bytes of a kernel's outputs and inputs, each counted once."""
    outputs = sum(o.numel * o.dtype.itemsize for o in kernel.outputs)
    return outputs + sum(dtype.itemsize * size for dtype, size in kernel.inputs)


def show_schedule(schedule: Schedule, device: str, seconds: float | None) -> None:
    """DEBUG=1: one line. seconds: what scheduling and compiling took, None where it was spared."""
    memory = sum(schedule.block_sizes)
    spent = "seen before" if seconds is None else f"made in {seconds * 1e3:.1f} ms"
    print(f"schedule on {device}: {count_text(schedule)}, {schedule.inputs} "
          f"inputs, {len(set(schedule.outputs))} outputs, {memory:,} bytes between; {spent}")


def show_break(name: str, reason: str) -> None:
    """DEBUG=1: why a jitted function runs its Python."""
    print(f"jit: calls of {name} run its Python: {reason}")


def show_way(words: str) -> None:
    """DEBUG=1: who carries out collectives."""
    print(f"distributed: {words}")


def show_hint(hint: str) -> None:
    """DEBUG=1: what would make a jitted function quicker."""
    print(f"jit: {hint}")


def show_passes(seconds: Mapping[str, float]) -> None:
    """DEBUG=3: how long each pass took for a schedule and its kernels, in the order of passes."""
    parts = [f"{name} {seconds[name] * 1e3:.2f} ms" for name in NAMES if name in seconds]
    rows = [", ".join(parts[i:i + A_ROW]) for i in range(0, len(parts), A_ROW)]
    print("passes: " + ",\n  ".join(rows))


def show_program(kernel: Kernel, program: Program, detail: int) -> None:
    """DEBUG=2: a kernel's source; 3: also its expression, loops and decisions; 4: machine code."""
    inputs = ", ".join(f"{dtype.name}[{size}]" for dtype, size in kernel.inputs) or "nothing"
    print(f"; {kernel.name}: {_types(kernel.outputs)} from {inputs}")
    parts = [program.source]
    if detail >= 3:
        parts = [dump(kernel.outputs), program.describe(), program.source]
    if detail >= 4:
        parts.append(program.assembly())
    for part in dict.fromkeys(parts):
        if part:
            print(part.strip("\n") + "\n")


def _types(outputs: Sequence[Node]) -> str:
    """The types of outputs, equal neighbours as one, few in all: 2 float32[3, 4], int32[3, 4]."""
    types = groupby(f"{o.dtype.name}{list(o.shape)}" for o in outputs)
    counts = [(len(list(equal)), name) for name, equal in types]
    if len(counts) > MOST_TYPES:
        return f"{len(outputs)} arrays"
    return ", ".join(name if count == 1 else f"{count} {name}" for count, name in counts)


def show_launch(kernels: Sequence[Kernel], seconds: float) -> None:
    """DEBUG=2: the row of a launch."""
    seconds = max(seconds, 1e-9)
    made = [output for kernel in kernels for output in kernel.outputs]
    print(f"{launch_name(kernels):<28} {_types(made):<24} {seconds * 1e6:>9.1f} "
          f"{sum(map(flops, kernels)) / seconds / 1e9:>8.2f} "
          f"{sum(map(traffic, kernels)) / seconds / 1e9:>7.2f}  {kernels[0].where or '-'}")


def launch_name(kernels: Sequence[Kernel]) -> str:
    """What one launch runs: the kernel's name; "12 x reduce_32_128_24", or that kernel of several
    which computes most elements, and how many others."""
    largest = max(kernels, key=lambda k: sum(o.numel for o in k.outputs))
    if len(kernels) == 1:
        return largest.name
    if len(set(kernels)) == 1:
        return f"{len(kernels)} x {largest.name}"
    return f"{largest.name} and {len(kernels) - 1} more"


def count_text(schedule: Schedule) -> str:
    """How many kernels, and launches where those are fewer."""
    kernels, launches = len(schedule.steps), len(schedule.launches)
    text = f"{kernels} kernel{'s' if kernels != 1 else ''}"
    if launches < kernels:
        text += f" in {launches} launch{'es' if launches != 1 else ''}"
    return text
