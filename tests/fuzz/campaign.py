"""Many programs: written, run on a device, the interpreter and PyTorch, compared, made short."""
from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

from fuzz.comparison import Difference, differences
from fuzz.generator import Generator, is_refusal, with_exactness
from fuzz.libraries import Lazyten, Library, Observation, PyTorch, has_torch
from fuzz.program import Program
from fuzz.shrinker import shrink


@dataclass(frozen=True)
class Finding:
    """A program that two libraries do not see alike, made short."""

    number: int
    libraries: tuple[str, str]
    program: Program
    difference: Difference

    @property
    def sort(self) -> tuple[str, ...]:
        """Findings of one sort may well have one cause."""
        last = self.program.statements[-1].row if self.program.statements else ""
        return (*self.libraries, self.difference.kind, last)

    def __str__(self) -> str:
        kind, libraries = self.difference.kind, self.libraries
        text = "\n".join("    " + line for line in self.program.lines())
        return (f"program {self.number}: {kind} of {self.difference.name}, {libraries[1]} "
                f"beside {libraries[0]}\n{text}\n"
                f"  {libraries[0]:>12}: {self.difference.expected}\n"
                f"  {libraries[1]:>12}: {self.difference.found}\n")


@dataclass
class Report:
    """What a campaign has done so far."""

    programs: int = 0
    statements: int = 0
    beside_torch: int = 0
    seconds: float = 0.0
    rows: Counter[str] = field(default_factory=Counter)
    refused_by_torch: Counter[str] = field(default_factory=Counter)
    refused_by_lazyten: Counter[str] = field(default_factory=Counter)
    refusals: dict[str, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    again: Counter[tuple[str, ...]] = field(default_factory=Counter)

    def __str__(self) -> str:
        rate = self.programs / max(self.seconds, 1e-9)
        reached = ", ".join(f"{name} {n}" for name, n in self.rows.most_common())
        return (f"{self.programs} programs of {self.statements} statements in "
                f"{self.seconds:.0f} s ({rate:.1f} a second), {self.beside_torch} beside PyTorch; "
                f"{len(self.rows)} operations reached: {reached}\n"
                f"refused by PyTorch alone: {dict(self.refused_by_torch.most_common())}\n"
                f"refused by lazyten alone: {dict(self.refused_by_lazyten.most_common())}\n"
                + "".join(f"    {row}: {text}\n" for row, text in self.refusals.items()) +
                f"{len(self.findings)} findings, {sum(self.again.values())} more like them")

    def add(self, other: Report) -> None:
        """Count in what another has counted; a finding of a sort that is known is one more."""
        self.programs += other.programs
        self.statements += other.statements
        self.beside_torch += other.beside_torch
        self.seconds += other.seconds
        for name in ("rows", "refused_by_torch", "refused_by_lazyten", "again"):
            getattr(self, name).update(getattr(other, name))
        self.refusals = other.refusals | self.refusals
        for finding in other.findings:
            self.keep(finding)

    def refused(self, row: str, what: str, error: Exception | None) -> None:
        """Count what lazyten refused and PyTorch does, and say the first of a row."""
        self.refused_by_lazyten[row] += 1
        self.refusals.setdefault(row, f"{what}: {type(error).__name__}: {error!s:.150}")

    def keep(self, finding: Finding) -> bool:
        """Count a finding: whether it is the first of its sort."""
        if any(f.sort == finding.sort for f in self.findings):
            self.again[finding.sort] += 1
            return False
        self.findings.append(finding)
        return True


class Programs(Protocol):
    """Programs by number, and what lazyten refused or failed at while they were written."""

    broken: list[tuple[Program, Exception]]
    refused: list[tuple[Program, Exception]]

    def program(self, number: int) -> Program: ...


class Campaign:
    """Runs programs of a seed on a device."""

    with_exactness: Callable[[Program], Program] = staticmethod(with_exactness)
    """Tells which names of a program that was made short are exact."""

    def __init__(self, device: str, seed: int, longest: int = 10, together: int = 6,
                 small: float = 0.0) -> None:
        os.environ["LAZYTEN_CACHE"] = "0"
        self.generator: Programs = Generator(seed, longest, small)
        self.interpreter, self.device = Lazyten("interpreter"), Lazyten(device)
        self.torch = PyTorch() if has_torch() else None
        self.together = together
        self.report = Report()
        self.begins: Callable[[list[tuple[int, Program]]], object] = lambda programs: None
        """Is told what is about to be run, with empty programs before they are written."""

    def run(self, numbers: Sequence[int]) -> Iterator[Finding]:
        """Run the programs of these numbers, giving what is found."""
        for start in range(0, len(numbers), self.together):
            yield from self._batch(list(numbers[start:start + self.together]))

    def _batch(self, numbers: list[int]) -> Iterator[Finding]:
        started = time.perf_counter()
        self.begins([(n, Program((), ())) for n in numbers])
        programs = [self.generator.program(n) for n in numbers]
        self.begins(list(zip(numbers, programs, strict=True)))
        yield from self._broken(numbers[0])
        self._refusals()
        seen = self.interpreter.observe(programs)
        compiled = self.device.observe(programs)
        for number, program, mine, theirs in zip(numbers, programs, seen, compiled, strict=True):
            self._count(program)
            yield from self._compare(number, program, self.interpreter, mine, self.device, theirs)
            yield from self._beside_torch(number, program, mine)
        self.report.seconds += time.perf_counter() - started

    def _count(self, program: Program) -> None:
        self.report.programs += 1
        self.report.statements += len(program.statements)
        self.report.rows.update(program.rows)

    def _broken(self, number: int) -> Iterator[Finding]:
        """What lazyten failed at while the programs were written."""
        for program, error in self.generator.broken:
            difference = Difference(program.statements[-1].row, "failure", "no such error",
                                    f"{type(error).__name__}: {error}")
            smaller = shrink(program, partial(self._fails_with, type(error)))
            yield from self._keep(Finding(number, ("expected", "interpreter"), smaller,
                                          difference))
        self.generator.broken.clear()

    def _refusals(self) -> None:
        """Count what lazyten refused and PyTorch does."""
        for program, error in self.generator.refused:
            if self.torch is None or not program.foreign:
                continue
            if self.torch.observe([program])[0].error is None:
                last = program.statements[-1]
                self.report.refused(last.row, last.expression, error)
        self.generator.refused.clear()

    def _fails_with(self, kind: type[Exception], program: Program) -> bool:
        return isinstance(self.interpreter.observe([program])[0].error, kind)

    def _beside_torch(self, number: int, program: Program, seen: Observation) -> Iterator[Finding]:
        if self.torch is None or not program.foreign:
            return
        theirs = self.torch.observe([program])[0]
        if theirs.error is not None:
            self.report.refused_by_torch[theirs.row] += 1
            return
        if is_refusal(seen.error):
            self.report.refused(seen.row, seen.row, seen.error)
            return
        self.report.beside_torch += 1
        yield from self._compare(number, program, self.torch, theirs, self.interpreter, seen)

    def _compare(self, number: int, program: Program, a: Library, of_a: Observation, b: Library,
                 of_b: Observation) -> Iterator[Finding]:
        for difference in differences(program, of_a, of_b, a is self.torch):
            yield from self._keep(self._shortened(number, program, a, b, difference))
            return  # others are likely to follow from it

    def _shortened(self, number: int, program: Program, a: Library, b: Library,
                   difference: Difference) -> Finding:
        last = [difference]

        def fails(candidate: Program) -> bool:
            try:
                candidate = self.with_exactness(candidate)
            except Exception:
                return False
            expected = a.observe([candidate])[0]
            if expected.error is not None:
                return False
            for found in differences(candidate, expected, b.observe([candidate])[0],
                                     a is self.torch):
                if found.kind == difference.kind:
                    last[0] = found
                    return True
            return False

        if not fails(program):
            return Finding(number, (a.name, b.name), program, replace(
                difference, kind=f"{difference.kind} (only together with others)"))
        smaller = shrink(program, fails)
        fails(smaller)
        return Finding(number, (a.name, b.name), smaller, last[0])

    def _keep(self, finding: Finding) -> Iterator[Finding]:
        """Give a finding, unless there is one of its sort."""
        if self.report.keep(finding):
            yield finding

