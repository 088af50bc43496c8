"""Prints timings (measure.py) as a table: medians, minima and lazyten's ratio to each peer."""
from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from benchmarks.measure import NOT_WRITTEN, Row, Timing

SUBJECT = "lazyten"
REASON_WIDTH = 300  # of an error under the table
ERROR_WIDTH = 40  # of an error in its cell
CAPTION = (
    "Time of one call: the median of all rounds and, in brackets, the least; then the work done a",
    "second, and how much that is of the machine's limit. Ratios are lazyten's median over the",
    "peer's: below 1, lazyten is faster. lazyten's calls go through lt.jit except in rows that say",
    "'eager'. 'One small operation' on 4x4 numbers is only recorded by lazyten and tinygrad; the",
    "others compute it.",
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


def rate(row: Row, timing: Timing, limits: Mapping[str, float]) -> str:
    """The work done in a second, such as '113 GFLOP/s 98%' of the limit; '' for a row without."""
    if not row.work:
        return ""
    done = row.work / timing.median
    share = f" {done / limits[row.unit]:.0%}" if row.unit in limits else ""
    return f"{done / 1e9:.3g} G{row.unit}/s{share}"


def result_cell(row: Row, name: str, limits: Mapping[str, float]) -> str:
    """Median, minimum in brackets, and rate; the error, or '-' where there is nothing to time."""
    timing = row.results.get(name, NOT_WRITTEN)
    if timing == NOT_WRITTEN:
        return "-"
    if isinstance(timing, str):
        return " ".join(timing.split())[:ERROR_WIDTH]
    text = f"{seconds(timing.median)} ({seconds(timing.minimum)})"
    return f"{text} {rate(row, timing, limits)}".rstrip()


def ratio_cell(row: Row, peer: str) -> str:
    """lazyten's median over the peer's; '-' unless both have one."""
    ours, theirs = row.results.get(SUBJECT), row.results.get(peer)
    if not isinstance(ours, Timing) or not isinstance(theirs, Timing):
        return "-"
    return ratio(ours.median, theirs.median)


def table_lines(rows: Sequence[Row], names: Sequence[str],
                limits: Mapping[str, float] | None = None) -> list[str]:
    """A heading and a line for each row, then what they mean and what went wrong.

    `limits` are the machine's, a second, by the rows' units: FLOP and B.
    """
    limits = limits or {}
    peers = [name for name in names if name != SUBJECT] if SUBJECT in names else []
    lines = [["median (minimum)", *names, *(f"{SUBJECT} / {peer}" for peer in peers)]]
    for row in rows:
        lines.append([row.name, *(result_cell(row, name, limits) for name in names),
                      *(ratio_cell(row, peer) for peer in peers)])
    return [*aligned(lines), "", *CAPTION, *limit_lines(limits), *notes(rows)]


def aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    """Columns padded to equal width, with a rule under the heading."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    text = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in lines]
    return [text[0], "-" * len(text[0]), *text[1:]]


def limit_lines(limits: Mapping[str, float]) -> list[str]:
    """What 100% is."""
    if not limits:
        return []
    return [f"100% is {limits['FLOP'] / 1e9:.3g} GFLOP/s, multiply-adds in registers, or "
            f"{limits['B'] / 1e9:.3g} GB/s, a copy of 128 MiB;",
            "what fits in a cache can be above the second."]


def notes(rows: Iterable[Row]) -> list[str]:
    """What went wrong: one line for each framework and reason, with the rows it concerns."""
    concerned: dict[str, list[str]] = {}
    for row in rows:
        for name, result in row.results.items():
            if isinstance(result, str) and result != NOT_WRITTEN:
                reason = " ".join(result.split())[:REASON_WIDTH]
                concerned.setdefault(f"{name}: {reason}", []).append(row.name)
    return [f"note: {reason} [{'; '.join(names)}]" for reason, names in concerned.items()]
