"""Refusing what a replay cannot repeat: printing, input, clocks and Python's random numbers.

`capture.py` puts a traced call inside `pure()`. Python reports every call of a built-in function to
the profiler hook, which is put back afterwards.
"""
from __future__ import annotations

import datetime
import io
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, FunctionType, ModuleType
from typing import Any, TypeVar
from weakref import WeakSet

from lazyten.autodiff.watching import watch
from lazyten.storage import tracing

Function = TypeVar("Function", bound=Callable[..., Any])

_OUTSIDE = "do it outside, with what the function returns"
_CLOCK = "reading a clock", "read it outside, and give the number as an argument"
_FILES = "looking at files", _OUTSIDE
_REFUSED: dict[object, tuple[str, str]] = {
    print: ("print()", _OUTSIDE), input: ("input()", _OUTSIDE), open: ("open()", _OUTSIDE),
    warnings.warn: ("a warning", _OUTSIDE),
    os.urandom: ("taking a random number of the system's", _OUTSIDE),
    **dict.fromkeys((os.stat, os.listdir, os.scandir), _FILES),
    **dict.fromkeys((time.time, time.perf_counter, time.monotonic, time.process_time, time.time_ns,
                     time.perf_counter_ns), _CLOCK)}
"""Functions of modules, with what they do and what to do in place of it."""
_NOW = {"now", "utcnow", "today"}
_TRUSTED: WeakSet[Any] = WeakSet()
"""Functions of lazyten's own that call operations of tensors alone."""
_LOOKED_UP = type(os.environ).__getitem__.__code__
"""What reads an environment variable, however that is asked for."""
_GENERATORS = (("random", "Random"), ("numpy.random", "Generator"), ("numpy.random", "RandomState"))


def trusted(function: Function) -> Function:
    """Mark a function that calls nothing but operations of tensors: nobody watches it, which takes
    a fourth of the time of its trace."""
    _TRUSTED.add(function)
    return function


@contextmanager
def pure(observer: tracing.Observer, function: object = None) -> Iterator[None]:
    """Within this block, as long as the observer listens, what would happen only while tracing is
    refused with the line that does it; unless the function that is traced is trusted."""
    if isinstance(function, FunctionType) and function in _TRUSTED:
        yield
        return
    hook = _Hook(observer)
    told = watch.hook = hook.watch()  # held until the end: Python 3.11 drops it with the hook, and
    watch.aside = None  # calls it once more if the hook went while a call was about to be told of
    sys.setprofile(told)
    try:
        yield
    finally:
        hook.remove()


class _Hook:
    """Told of each call and return, a million in the trace of a large network: nearly all go by on
    the first lines of `watch`."""

    def __init__(self, observer: tracing.Observer) -> None:
        self.observer = observer
        self.before: Any = sys.getprofile()
        self.outer = watch.hook, watch.aside
        self.is_there = True
        self.harmless: set[type] = {ModuleType}  # what methods were called of
        self.classes: set[type] = set()  # whose own were called, such as object.__new__

    def remove(self) -> None:
        """Put back what was there before."""
        if not self.is_there:
            return
        self.is_there = False
        watch.hook, watch.aside = self.outer
        if self.before is None or callable(self.before):
            sys.setprofile(self.before)
        else:  # cProfile's: it sits where the hook does, and is no function
            sys.setprofile(None)
            self.before.enable()

    def watch(self) -> Callable[[FrameType, str, Any], None]:
        """What Python calls."""
        observer, harmless, classes = self.observer, self.harmless, self.classes

        def check(frame: FrameType, event: str, called: Any) -> None:
            if event == "c_call":
                if observer.ended is not None:
                    self.remove()
                    return
                owner = getattr(called, "__self__", None)
                kind = type(owner)
                if kind in harmless:
                    if kind is ModuleType and called in _REFUSED:
                        self.check(frame, called)
                elif kind is not type or owner not in classes:
                    self.check(frame, called)
            elif event == "call" and frame.f_code is _LOOKED_UP and observer.ended is None \
                    and _is_users(frame):
                tracing.refuse("reading an environment variable", "read it outside")
        return check

    def check(self, frame: FrameType, called: Any) -> None:
        """Refuse a call of a built-in function if it is one of those."""
        owner = getattr(called, "__self__", None)
        kind = type(owner)
        if kind not in self.harmless:
            if isinstance(owner, type):
                if not issubclass(owner, datetime.date):
                    self.classes.add(owner)
                elif called.__name__ in _NOW:
                    tracing.refuse(*_CLOCK)
            elif _is_generator(owner):
                if _is_users(frame, installed=True):
                    tracing.refuse("taking a random number of Python's or NumPy's",
                                   "use lazyten's random functions, which go on at each call")
            elif isinstance(owner, io.IOBase):
                if _is_users(frame):
                    tracing.refuse("reading or writing a file", _OUTSIDE)
            else:
                self.harmless.add(kind)
        elif tracing.current() is not None and _is_users(frame):
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
