"""What the conformance kit found out about a device: `Scorecard`, as text, Markdown and JSON."""
from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.ir.ops import SPECS, Op
from lazyten.support.paths import write_files

OK, FAILED, UNSUPPORTED = "ok", "failed", "unsupported"
MARKS = {OK: "+", FAILED: "x", UNSUPPORTED: "-"}
MOST_FAILURES = 6
"""So many are told at the end of a run."""
NO_OP = "."
"""The mark of an op that has no meaning for a dtype."""


@dataclass(slots=True)
class Stage:
    """One stage: how many of its checks passed, failed, or were left out, and why."""

    number: int
    name: str
    passed: int = 0
    failed: int = 0
    left_out: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def result(self) -> str:
        """In a few words."""
        counts = [f"{count} {word}" for count, word in (
            (self.passed, "passed"), (self.failed, "FAILED"), (self.left_out, "left out")) if count]
        return ", ".join(counts) or "not run"


@dataclass(slots=True)
class Failure:
    """A check that failed: its sentence, what was found, and the likely cause."""

    stage: int
    check: str
    found: str
    advice: str


@dataclass(slots=True)
class Scorecard:
    """The results of one run on `device`. package: where its runtime is from.

    ops: OK, FAILED or UNSUPPORTED for each op and dtype. ulp: the largest error measured, by
    function, then dtype. rates: what was measured, with units. unsupported: what the device does
    not have, and need not.
    """

    device: str
    package: str
    contract: int
    dtypes: frozenset[DType]
    features: dict[str, str] = field(default_factory=dict)
    stages: dict[int, Stage] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    ops: dict[tuple[Op, DType], str] = field(default_factory=dict)
    ulp: dict[str, dict[str, float]] = field(default_factory=dict)
    bounds: dict[str, float] = field(default_factory=dict)
    rates: dict[str, str] = field(default_factory=dict)
    unsupported: list[str] = field(default_factory=list)

    @property
    def passes(self) -> bool:
        """Whether every stage was run and nothing failed."""
        return not self.failures and all(s.passed or s.left_out for s in self.stages.values())

    def note_unsupported(self, what: str) -> None:
        """Something the device does not have, once."""
        if what not in self.unsupported:
            self.unsupported.append(what)

    def title(self) -> str:
        """What was checked."""
        return (f"conformance of device {self.device!r} ({self.package}), contract "
                f"{self.contract}: {'PASSED' if self.passes else 'FAILED'}")

    def advice(self) -> list[str]:
        """What to look at, in order: the first failure may be the cause of the others."""
        lines = []
        told: set[str] = set()
        for number, failure in enumerate(self.failures[:MOST_FAILURES], 1):
            lines += [f"{number}. stage {failure.stage}: {failure.check}", f"   {failure.found}"]
            if failure.advice and failure.advice not in told:
                lines.append(f"   Likely cause: {failure.advice}")
                told.add(failure.advice)
        if more := self.failures[MOST_FAILURES:]:
            lines.append(f"and {len(more)} more")
        return lines

    def text(self) -> str:
        """The whole card, for a terminal."""
        return "\n\n".join("\n".join(part) for part in (
            [self.title()], self.stage_lines(), self.op_lines(), self.ulp_lines(),
            self.rate_lines(), self.unsupported_lines(), self.advice()) if part)

    def stage_lines(self) -> list[str]:
        """A line a stage."""
        return [f"{s.number:>2} {s.name:<12} {s.result}" for _, s in sorted(self.stages.items())]

    def op_lines(self) -> list[str]:
        """Ops by dtypes, with the number of each."""
        if not self.ops:
            return []
        values = list(self.ops.values())
        counts = ", ".join(f"{values.count(v)} {v}" for v in MARKS if v in values)
        head = f"ops: {counts} (+ {OK}, x {FAILED}, - {UNSUPPORTED}, . no such op)"
        rows = [f"{op.name:<10} " + " ".join(f"{MARKS.get(self.ops.get((op, d), ''), NO_OP):>5}"
                                              for d in dt.ARITHMETIC) for op in SPECS]
        return [head, " " * 11 + " ".join(f"{short(d):>5}" for d in dt.ARITHMETIC), *rows]

    def ulp_lines(self) -> list[str]:
        """The largest errors."""
        if not self.ulp:
            return []
        kinds = [d.name for d in dt.FLOATS if any(d.name in row for row in self.ulp.values())]
        rows = [f"{name:<12} " + " ".join(
            f"{row[k]:>8.2f}" if k in row else " " * 8 for k in kinds) + f" {self.bounds[name]:>8}"
            for name, row in self.ulp.items()]
        return ["largest errors, in units in the last place",
                " " * 13 + " ".join(f"{k:>8}" for k in kinds) + "    bound", *rows]

    def rate_lines(self) -> list[str]:
        """What was measured. A busy machine is slower."""
        return [f"{name}: {value}" for name, value in self.rates.items()]

    def unsupported_lines(self) -> list[str]:
        """What the device does not have."""
        return [f"unsupported: {'; '.join(self.unsupported) or 'nothing'}"]

    def save(self, path: Path) -> None:
        """Write it as JSON where the file is called so, or else as Markdown."""
        is_json = path.suffix == ".json"
        text = json.dumps(self.data(), indent=2) if is_json else self.markdown()
        write_files({path: f"{text}\n".encode()}, "scorecard")

    def markdown(self) -> str:
        """The card as a page."""
        return f"# lazyten: {self.title()}\n\n```text\n{self.text()}\n```"

    def data(self) -> dict[str, object]:
        """The card as what JSON can say."""
        ops: dict[str, dict[str, str]] = {}
        for (op, dtype), result in self.ops.items():
            ops.setdefault(op.name, {})[dtype.name] = result
        return {
            "device": self.device, "package": self.package, "contract": self.contract,
            "passed": self.passes, "features": self.features,
            "dtypes": [d.name for d in dt.ALL if d in self.dtypes],
            "stages": [{"number": s.number, "name": s.name, "passed": s.passed,
                        "failed": s.failed, "left_out": s.left_out, "notes": s.notes}
                       for _, s in sorted(self.stages.items())],
            "failures": [{"stage": f.stage, "check": f.check, "found": f.found,
                          "advice": f.advice} for f in self.failures],
            "ops": ops, "ulp": self.ulp, "rates": self.rates, "unsupported": self.unsupported}


def short(dtype: DType) -> str:
    """'i32', 'bf16', 'e4m3' and so on."""
    if dtype.is_stored:
        return dtype.name.removeprefix("float8_")[:4]
    names = {"b": "bool", "i": f"i{dtype.bits}", "u": f"u{dtype.bits}", "f": f"f{dtype.bits}"}
    return "bf16" if dtype is dt.bfloat16 else names[dtype.kind]
