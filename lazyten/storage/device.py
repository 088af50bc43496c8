"""Devices by name: finds the runtime of a device, built in or from another package.

The only module that loads what lies above it (`lazyten.runtimes`), and by name only.
"""
from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from functools import cache
from typing import Any

from lazyten.devices.executor import Executor, Kept, MemoryStats
from lazyten.devices.program import (
    Argument,
    AtSize,
    AtSizes,
    Handle,
    Launch,
    Limit,
    Program,
    in_slot,
)
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.support.errors import DeviceError
from lazyten.support.forking import undivided

__all__ = ["Argument", "AtSize", "AtSizes", "Executor", "Handle", "Kept", "Launch", "Limit",
           "MemoryStats", "Program", "in_slot"]
"""What runtimes of contract 2 that were written before lazyten/devices ask for here."""
BUILT_IN = {"cpu": "lazyten.runtimes.cpu.cpu:CpuRuntime",
            "interpreter": "lazyten.runtimes.interpreter.interpreter:InterpreterRuntime",
            "opencl": "lazyten.runtimes.opencl.opencl:OpenCLRuntime",
            "cuda": "lazyten.runtimes.cuda.cuda:CudaRuntime"}
WITHOUT_VALUES = {"meta": "lazyten.runtimes.meta.meta:MetaRuntime"}
"""Devices where nothing is computed, which nobody would choose to run a program on."""
NEEDS = {"opencl": "pyopencl", "cuda": "cuda"}
"""The package that a built-in runtime needs besides lazyten's own requirements."""
ENTRY_POINT_GROUP = "lazyten.runtimes"
CONTRACT = 2
"""The version of what runtimes implement: another one where a runtime written before would break.
A runtime of another package says by its attribute `contract` which version it was written for."""


@undivided
def _entry_points() -> Sequence[Any]:
    """The runtimes of other packages. importlib.metadata is slow to load, and few programs ask."""
    metadata = importlib.import_module("importlib.metadata")
    return tuple(metadata.entry_points(group=ENTRY_POINT_GROUP))


@cache
def available() -> tuple[str, ...]:
    """Names of all runtimes that are installed, built-in ones first."""
    outside = sorted(e.name.lower() for e in _entry_points())
    inside = [n for n in BUILT_IN if missing(n) is None]
    return (*inside, *(n for n in outside if n not in BUILT_IN))


def executor(name: str) -> Executor:
    """The runtime of a canonical device name, started on first use."""
    found = _running.get(name)
    return _started(str(name)) if found is None else found


def widest_float(name: str) -> DType:
    """float64, or float32 for a device that has no float64."""
    return dt.float64 if dt.float64 in executor(name).dtypes else dt.float32


_running: dict[str, Executor] = {}
"""The runtimes that were started, by the names of their devices."""


@undivided
def _started(name: str) -> Executor:
    if name in _running:  # another thread has started it meanwhile
        return _running[name]
    kind, _, index = name.partition(":")
    try:
        started = runtime_class(kind)(int(index or 0))
    except DeviceError:
        raise
    except Exception as error:
        others = ", ".join(n for n in available() if n != kind)
        raise DeviceError(f"device {name!r} cannot be used here: {error}. "
                          f"Others that are installed: {others}") from error
    _running[name] = started
    return started


def runtime_class(kind: str) -> type[Executor]:
    """The class that runs this kind of device. DeviceError for one that cannot be loaded."""
    where = BUILT_IN.get(kind) or WITHOUT_VALUES.get(kind)
    if where is None:
        return _runtime_outside(kind)
    module, _, attribute = where.partition(":")
    found: type[Executor] = getattr(importlib.import_module(module), attribute)
    return found


def _runtime_outside(kind: str) -> type[Executor]:
    """The runtime of another package, if it was written for this version of the contract."""
    entry = next(e for e in _entry_points() if e.name.lower() == kind)
    whose = f"device {kind!r} is of the package {_package(entry)}"
    try:
        found: type[Executor] = entry.load()
    except Exception as error:
        raise DeviceError(f"{whose}, whose runtime {entry.value} cannot be loaded: "
                          f"{type(error).__name__}: {error}. Repair or remove the "
                          f"package") from error
    version = getattr(found, "contract", None)
    if version is None:
        raise DeviceError(f"{whose}, whose runtime {entry.value} does not say for which version of "
                          f"the contract it was written: its class needs `contract = {CONTRACT}`")
    if version != CONTRACT:
        raise DeviceError(f"{whose}, which was written for version {version} of the contract, and "
                          f"this lazyten has version {CONTRACT}: install a version "
                          f"of it for {CONTRACT}, or the lazyten that this one was written for")
    return found


def missing(kind: str) -> str | None:
    """The command that installs what a built-in runtime needs; None if that is there."""
    if kind not in NEEDS or importlib.util.find_spec(NEEDS[kind]):
        return None
    return f"pip install 'lazyten[{kind}]'"


def outside(kind: str) -> str:
    """The package that a runtime comes from, with its version; empty for those built in."""
    if kind in BUILT_IN:
        return ""
    return next((_package(e) for e in _entry_points() if e.name.lower() == kind), "")


def _package(entry: Any) -> str:
    """The name and version of an entry point's package."""
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else "unknown"
