"""A profile as text: by kernel, by the user's line, and what is no kernel."""
from __future__ import annotations

import linecache
from collections.abc import Sequence

from lazyten.seeing.record import KernelTime, LineTime, Record
from lazyten.support.location import Location

KERNELS = (f"{'kernel':<28} {'runs':>6} {'ms':>9} {'%':>5} {'us':>9} {'GFLOP/s':>8} "
           f"{'GB/s':>7} {'roof %':>7}  line")
LINES = f"{'line':<24} {'ms':>9} {'%':>5} {'kernels':>8}  source"
MOST_TEXT = 44
"""Characters of a source line."""


def table(profile: Record, limit: int) -> str:
    """See Profile.table."""
    total, rows, lines = profile.kernel_seconds, profile.kernels, profile.lines
    parts = [_summary(profile)]
    if rows:
        parts.append(_listed(KERNELS, [_kernel(row, total) for row in rows], limit, "kernels"))
        parts.append(_listed(LINES, [_line(row, total) for row in lines], limit, "lines"))
    parts += [_limits(device, profile) for device in profile.limits]
    return "\n\n".join(parts)


def _summary(profile: Record) -> str:
    """What the time of the block went to."""
    whole = max(profile.seconds, 1e-9)
    kernels = profile.kernels
    runs = sum(row.launches for row in kernels)
    parts = profile.compile_parts().items() if profile.compile_seconds else ()
    spent = [("kernels", profile.kernel_seconds, f"{runs:,} runs of {len(kernels):,} kernels"),
             ("launching them one by one", profile.launch_seconds, ""),
             ("compiling", profile.compile_seconds, ""),
             *((f"  {name}", seconds, "beside code generation" * (name == "machine code"))
               for name, seconds in parts),
             ("Python and copies", profile.python_seconds, "")]
    return "\n".join([f"{'':<26} {'ms':>9} {'%':>5}",
                      *(f"{name:<26} {_ms(seconds):>9} {_share(seconds, whole):>5}  {note}"
                        .rstrip() for name, seconds, note in spent),
                      f"{'all':<26} {_ms(profile.seconds):>9} {_share(1, 1):>5}"])


def _listed(header: str, rows: Sequence[str], limit: int, things: str) -> str:
    rest = len(rows) - limit
    more = [f"and {rest:,} more {things}"] if rest > 0 else []
    return "\n".join([header, *rows[:max(limit, 0)], *more])


def _kernel(row: KernelTime, total: float) -> str:
    seconds = max(row.seconds, 1e-9)
    each = seconds / row.launches
    share = "-" if row.share is None else _share(row.share, 1)
    return (f"{row.name:<28} {row.launches:>6} {_ms(row.seconds):>9} {_share(seconds, total):>5} "
            f"{each * 1e6:>9.1f} {row.flops / each / 1e9:>8.2f} {row.bytes / each / 1e9:>7.2f} "
            f"{share:>7}  {row.where or '-'}")


def _line(row: LineTime, total: float) -> str:
    return (f"{row.where or '-'!s:<24} {_ms(row.seconds):>9} {_share(row.seconds, total):>5} "
            f"{len(row.kernels):>8}  {source_line(row.where)}").rstrip()


def source_line(where: Location | None) -> str:
    """The text of a line, where its file can be read."""
    text = "" if where is None else linecache.getline(where.file, where.line).strip()
    return text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT - 3]}..."


def _limits(device: str, profile: Record) -> str:
    found = profile.limits[device]
    most = max(found.bandwidth)
    return (f"roof: of what {device} reaches, measured: {found.flops[4] / 1e9:,.0f} GFLOP/s of "
            f"float32, {found.bandwidth[most] / 1e9:,.1f} GB/s from memory, "
            f"{max(found.bandwidth.values()) / 1e9:,.1f} GB/s from caches")


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:,.2f}"


def _share(seconds: float, whole: float) -> str:
    return f"{100 * seconds / max(whole, 1e-9):.0f}"
