"""Refusing what a replay cannot repeat: printing, input, clocks and Python's random numbers.

`capture.py` puts a traced call inside `pure()`. Python reports every call of a built-in function to
the profiler hook, which is put back afterwards.
"""
from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, ModuleType
from typing import Any

from lazyten.storage import tracing

_OUTSIDE = "do it outside, with what the function returns"
_CLOCK = "reading a clock", "read it outside, and give the number as an argument"
_REFUSED: dict[object, tuple[str, str]] = {
    print: ("print()", _OUTSIDE), input: ("input()", _OUTSIDE), open: ("open()", _OUTSIDE),
    **dict.fromkeys((time.time, time.perf_counter, time.monotonic, time.process_time, time.time_ns,
                     time.perf_counter_ns), _CLOCK)}
"""Functions of modules, with what they do and what to do in place of it."""
_GENERATORS = (("random", "Random"), ("numpy.random", "Generator"), ("numpy.random", "RandomState"))


@contextmanager
def pure() -> Iterator[None]:
    """Within this block JitError names the line that does what happens only while tracing."""
    before: Any = sys.getprofile()
    sys.setprofile(_Hook().check)
    try:
        yield
    finally:
        if before is None or callable(before):
            sys.setprofile(before)
        else:  # cProfile's: it sits where the hook does, and is no function
            sys.setprofile(None)
            before.enable()


class _Hook:
    """Told of each call and return, tens of thousands in a trace: most go by on the first lines."""

    def __init__(self) -> None:
        self.harmless: set[type] = {ModuleType}  # what methods were called of

    def check(self, frame: FrameType, event: str, called: Any) -> None:
        if event != "c_call":
            return
        owner = getattr(called, "__self__", None)
        kind = type(owner)
        if kind not in self.harmless:
            if _is_generator(owner):
                if _is_users(frame, installed=True):
                    tracing.refuse("taking a random number of Python's or NumPy's",
                                   "use lazyten's random functions, which go on at each call")
            else:
                self.harmless.add(kind)
        elif kind is ModuleType and called in _REFUSED and tracing.current() is not None \
                and _is_users(frame):
            tracing.refuse(*_REFUSED[called])


def _is_generator(thing: object) -> bool:
    """Whether this gives random numbers. The modules take long to load, and often nobody has."""
    return any(isinstance(thing, getattr(sys.modules[module], name))
               for module, name in _GENERATORS if module in sys.modules)


def _is_users(frame: FrameType | None, installed: bool = False) -> bool:
    """Whether it is the user's code that a frame works for, or also an installed package's (which
    may be a hook that Python calls at any time); not lazyten's, such as starting a device, nor the
    loading of a module, with all that is called by it."""
    found = False
    while frame is not None and frame.f_globals.get("__name__") != "lazyten.capture.jitted":
        root = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if root == "importlib" or root == "lazyten" and not found:
            return False
        if "site-packages" in frame.f_code.co_filename:
            if not found and not installed:
                return False
            found = True
        found = found or root == "__main__" or root not in sys.stdlib_module_names
        frame = frame.f_back
    return found
