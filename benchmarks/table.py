"""Prints timings (measure.py) as a table: medians, minima and lazyten's ratio to each peer."""
from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchmarks.measure import Row, Timing

SUBJECT = "lazyten"
REASON_WIDTH = 300
CAPTION = (
    "Time of one call: the median of all rounds and, in brackets, the least; then the work done a",
    "second. Ratios are lazyten's median over the peer's: below 1, lazyten is faster. 'One small",
    "operation' on 4x4 numbers is only recorded by lazyten and tinygrad; the others compute it.",
)


def seconds(value: float) -> str:
    """Three digits and a unit: 0.00123 is '1.23 ms'."""
    for unit, size in (("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3)):
        if value < 999.5 * size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g} s"


def ratio(ours: float, theirs: float) -> str:
    """Our time over theirs, and which is faster by how much: '0.50, 2.0x faster'."""
    speed = f"{theirs / ours:.1f}x faster" if ours <= theirs else f"{ours / theirs:.1f}x slower"
    return f"{ours / theirs:.2f}, {speed}"


def rate(row: Row, timing: Timing) -> str:
    """The work done in a second, such as '113 GFLOP/s'; '' for a row without."""
    return f"{row.work / timing.median / 1e9:.3g} G{row.unit}/s" if row.work else ""


def result_cell(row: Row, name: str) -> str:
    """Median, minimum in brackets, and rate; '-' where the framework has no timing."""
    timing = row.results.get(name)
    if not isinstance(timing, Timing):
        return "-"
    text = f"{seconds(timing.median)} ({seconds(timing.minimum)})"
    return f"{text} {rate(row, timing)}".rstrip()


def ratio_cell(row: Row, peer: str) -> str:
    """lazyten's median over the peer's; '-' unless both have one."""
    ours, theirs = row.results.get(SUBJECT), row.results.get(peer)
    if not isinstance(ours, Timing) or not isinstance(theirs, Timing):
        return "-"
    return ratio(ours.median, theirs.median)


def table_lines(rows: Sequence[Row], names: Sequence[str]) -> list[str]:
    """A heading and a line for each row, then what they mean and why cells are empty."""
    peers = [name for name in names if name != SUBJECT] if SUBJECT in names else []
    lines = [["median (minimum)", *names, *(f"{SUBJECT} / {peer}" for peer in peers)]]
    for row in rows:
        lines.append([row.name, *(result_cell(row, name) for name in names),
                      *(ratio_cell(row, peer) for peer in peers)])
    return [*aligned(lines), "", *CAPTION, *notes(rows)]


def aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    """Columns padded to equal width, with a rule under the heading."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in lines]
    return [text[0], "-" * len(text[0]), *text[1:]]


def notes(rows: Iterable[Row]) -> list[str]:
    """Why cells are empty: one line for each framework and reason, with the rows it concerns."""
    concerned: dict[str, list[str]] = {}
    for row in rows:
        for name, result in row.results.items():
            if isinstance(result, str):
                reason = " ".join(result.split())[:REASON_WIDTH]
                concerned.setdefault(f"{name}: {reason}", []).append(row.name)
    return [f"note: {reason} [{'; '.join(names)}]" for reason, names in concerned.items()]
