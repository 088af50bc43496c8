"""Schedules on disk, so that a later process which has the same graph schedules nothing.

In: a normalized graph with its structural key, and how to schedule it. Out: its schedule. A
schedule depends on the structure, on what the device says of itself here, and on lazyten's source,
which the device's own key has (`Executor.kept`). Kernels' code is kept by itself, and shared with
other graphs.
"""
from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from lazyten.devices.executor import Executor
from lazyten.ir.dtype import DType
from lazyten.ir.node import Node
from lazyten.ir.ops import Op
from lazyten.schedule.schedule import Schedule
from lazyten.schedule.schedule_file import read_schedule, write_schedule

LEAST = 64
"""So many nodes are worth a file: fewer are scheduled in the time that it takes to find one."""


def kept_schedule(device: Executor, key: Hashable, roots: Sequence[Node],
                  inputs: Sequence[tuple[DType, int]], make: Callable[[], Schedule]) -> Schedule:
    """The schedule of a graph: what an earlier process has kept, or what `make` gives, which is
    kept then. key: all that the graph has besides the buffers that it reads."""
    text = None if device.kept is None else _text(device, key)
    if device.kept is None or text is None:
        return make()
    data = device.kept.find(text)
    found = None if data is None else read_schedule(data, roots, inputs, make)
    if found is not None:
        return found
    made = make()
    data = write_schedule(made, roots)
    if data is not None:
        device.kept.keep(text, data)
    return made


def _text(device: Executor, key: Any) -> str | None:
    """The key of an entry; None for what is not worth one, or has parts that are no text."""
    entries, _ = key
    if len(entries) < LEAST:
        return None
    limits = device.has_offsets, device.block_bytes, device.items, device.alignment
    try:
        graph = json.dumps(key, default=_named, separators=(",", ":"))
    except TypeError:
        return None
    return f"schedule\n{limits}\n{hashlib.sha256(graph.encode()).hexdigest()}"


def _named(part: object) -> object:
    """A part of a key that has a name. TypeError for one that has none."""
    if isinstance(part, Op):
        return {"op": part.name}
    if isinstance(part, DType):
        return {"type": part.name}
    raise TypeError(part)
