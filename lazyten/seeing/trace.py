"""A profile as a file of trace events, for Perfetto and Chrome.

The format is Chrome's trace events in JSON: complete events ("ph": "X") in microseconds, each in a
row of a process; here the program's threads are the rows of one process, devices those of another.
"""
from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lazyten.execution.debug import flops, traffic
from lazyten.seeing.record import Event
from lazyten.support.paths import write_files

PROGRAM, DEVICES = 1, 2
"""The processes of a trace."""


def save(events: Sequence[Event], start: float, path: Path | str | os.PathLike[str]) -> None:
    """Write a trace; times are from `start` on. ArgumentError where that cannot be written."""
    content = json.dumps({"traceEvents": trace_events(events, start), "displayTimeUnit": "ms"})
    write_files({Path(path): content.encode()}, "save_trace")


def trace_events(events: Sequence[Event], start: float) -> list[dict[str, Any]]:
    """The events of a trace: names of processes and rows, and what happened."""
    threads = {t: n for n, t in enumerate(dict.fromkeys(e.thread for e in events))}
    devices = {d: n for n, d in enumerate(dict.fromkeys(
        e.device for e in events if e.kernel is not None))}
    found = [_named("process_name", PROGRAM, 0, "program"),
             _named("process_name", DEVICES, 0, "devices")]
    found += [_named("thread_name", PROGRAM, n, f"thread {n}") for n in threads.values()]
    found += [_named("thread_name", DEVICES, n, f"kernels on {d}") for d, n in devices.items()]
    for e in events:
        is_kernel = e.kernel is not None
        process, row = (DEVICES, devices[e.device]) if is_kernel else (PROGRAM, threads[e.thread])
        found.append({"ph": "X", "name": e.what, "cat": e.kind, "pid": process, "tid": row,
                      "ts": (e.span.start - start) * 1e6, "dur": e.span.seconds * 1e6,
                      "args": _about(e)})
        if e.memory is not None:
            found.append({"ph": "C", "name": f"bytes in use on {e.device}", "pid": DEVICES,
                          "tid": row, "args": {"bytes": e.memory},
                          "ts": (e.span.start + e.span.seconds - start) * 1e6})
    return found


def _named(kind: str, process: int, row: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": process, "tid": row, "args": {"name": name}}


def _about(e: Event) -> dict[str, Any]:
    """What is shown of an event besides its time."""
    about: dict[str, Any] = {}
    if e.device:
        about["kernel" if e.kind == "pass" else "device"] = e.device
    if e.where is not None:
        about["line"] = f"{e.where.file}:{e.where.line}"
    if e.kernel is not None:
        about |= {"flops": flops(e.kernel), "bytes": traffic(e.kernel)}
    return about
