"""Passes by name: what each does, in order, and the driver that runs them.

A pass is a function from an old state to a new one, under a name. schedule.py has a table of those
from a graph to kernels, codegen/pipeline.py of those from a kernel to target text; NAMES is the
contents of both. The driver runs those of a table that a state needs, has each result proven where
LAZYTEN_VERIFY is set, times it, and tells who looks on (observers.py). Who prints is one of them:

    DEBUG=5                            after every pass
    LAZYTEN_PRINT_AFTER=fuse,split     after these

Printing changes no result. What comes from a cache was made by no pass, so while it is asked for
nothing is read from disk (`Observer.needs_passes`).
"""
from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Generic, TypeVar

from lazyten.support import observers
from lazyten.support.errors import ArgumentError
from lazyten.support.observers import Observer, Span
from lazyten.support.variables import EnvVar

S = TypeVar("S")

NAMES = {
    # from a graph to kernels: schedule.py
    "integers": "integers move in the fewest bytes that hold them",
    "split_reductions": "a large reduction to a few values becomes two, of which one is stored",
    "store": "the cost model says which values are stored",
    "fuse": "stored values of equal loops become one kernel",
    "settle": "what decides something and would be computed in two places is stored, too",
    "one_pass": "kernels that a device runs in one pass over what they share become one",
    "number": "what is stored gets the number of an array",
    "hold": "kernels that share their first axes become one, which holds rows between them",
    "build": "each kernel's expression, over its own arguments",
    "order": "what frees memory comes first, where memory is large",
    "launch": "small kernels that need nothing of each other are launched together",
    "share_memory": "arrays that are never there together share memory",
    # from a kernel to text: codegen/pipeline.py
    "lower": "array expressions become stores of single elements, in loops",
    "index_sets": "where an output is put together from pieces, each has loops of its own",
    "merge": "loops that always run one inside the other become one",
    "stream": "reductions over one axis that need each other become one pass over it",
    "decide": "the model of the processor says what becomes of each loop",
    "split": "loops are cut into tiles, vectors, accumulators, blocks, and work items",
    "pack": "operands are copied beforehand, in the order in which the loops read them",
    "share": "a loop is marked for threads, or groups of work items, to share",
    "carry": "the sums of blocks are added up in memory",
    "peel": "the last iteration of a loop stands behind it where that one alone is masked",
    "stage": "operands that a group of work items shares are read from local memory",
    "tensor": "products become instructions of tensor cores",
    "scalars": "work items have no vectors: their lanes are written out",
    "name": "functions get their names, in the order of their calls",
    "check_values": "compares for NaN, infinity and overflow are added",
    "decompose": "ops and types that machines lack become ones that they have",
    "linearize": "loops and elements become instructions",
    "check_accesses": "compares of each position with its array are added",
    "narrow": "index arithmetic is done in 32 bits where it fits",
    "vectorize": "neighbours in memory are loaded and stored at once",
    "divide": "floor division becomes the truncating one of machines",
    "render": "instructions become text",
}
"""All passes in the order in which they run, and what each does."""

_VERIFY, _PRINT_AFTER, _DEBUG = map(EnvVar, ("LAZYTEN_VERIFY", "LAZYTEN_PRINT_AFTER", "DEBUG"))
_ALL_FROM = 5
"""The level of DEBUG from which on every pass is printed."""


@dataclass(frozen=True, slots=True)
class Pass(Generic[S]):
    """name: a key of NAMES. when: whether a state needs it. run: gives the new state."""

    name: str
    when: Callable[[S], bool]
    run: Callable[[S], S]


@dataclass(frozen=True, slots=True)
class Driver(Generic[S]):
    """Runs passes over states of one kind.

    verify: raises InternalError unless a new state is right, given the old one. text: a state for
    people. title: what it is about, in a few words.
    """

    verify: Callable[[S, S], None]
    text: Callable[[S], str]
    title: Callable[[S], str]

    def run(self, passes: Sequence[Pass[S]], state: S) -> S:
        """What the passes that it needs make of a state, one after the other."""
        looking = observers.present()
        for step in passes:
            if not step.when(state):
                continue
            old = state
            state, span, own = _timed(step, old)
            if is_verifying():
                self.verify(old, state)
            for observer in looking:
                observer.passed(step.name, partial(self.title, state), partial(self.text, state),
                                span, own)
        return state


def is_verifying() -> bool:
    """Whether what every pass gives is proven; tests turn it on."""
    return bool(_VERIFY.text)


def always(state: object) -> bool:
    """When a pass is needed that every state needs."""
    return True


# ---- what is printed -----------------------------------------------------------------------------

class Printer(Observer):
    """Prints what passes of these names make."""

    needs_passes = True

    def __init__(self, names: frozenset[str]) -> None:
        self.names = names

    def passed(self, name: str, title: Callable[[], str], text: Callable[[], str], span: Span,
               own: float) -> None:
        if name in self.names:
            print(f"; after {name}, {own * 1e3:.2f} ms: {title()}\n{text()}\n")


def asked() -> Printer | None:
    """Who prints what is asked for, if anything is. ArgumentError for a name that no pass has."""
    if not _PRINT_AFTER.is_set() and not _DEBUG.is_set():
        return None
    names = _names(_PRINT_AFTER.text)
    level = _DEBUG.text
    if level.isdecimal() and int(level) >= _ALL_FROM:
        names = frozenset(NAMES)
    return Printer(names) if names else None


observers.on_request(asked, _PRINT_AFTER, _DEBUG)


@lru_cache(maxsize=8)
def _names(text: str) -> frozenset[str]:
    names = frozenset(filter(None, map(str.strip, text.split(","))))
    if unknown := sorted(names - NAMES.keys()):
        raise ArgumentError(f"LAZYTEN_PRINT_AFTER={text!r}: there is no pass {unknown[0]!r}; the "
                            f"passes are {', '.join(NAMES)}")
    return names


# ---- what passes take ----------------------------------------------------------------------------

class _Clock(threading.local):
    """Of each thread: the seconds of each pass, and those of passes that ended inside the one that
    is under way."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.inside = 0.0


_clock = _Clock()


def _timed(step: Pass[S], state: S) -> tuple[S, Span, float]:
    """The new state, when it was made, and the seconds without those of passes that the pass has
    run."""
    outside, _clock.inside = _clock.inside, 0.0
    start = time.perf_counter()
    state = step.run(state)
    whole = time.perf_counter() - start
    own = whole - _clock.inside
    _clock.inside = outside + whole
    _clock.seconds[step.name] = _clock.seconds.get(step.name, 0.0) + own
    return state, Span(start, whole), own


@contextmanager
def timed() -> Iterator[Mapping[str, float]]:
    """The seconds that each pass takes within this block, in this thread."""
    outside, _clock.seconds = _clock.seconds, {}
    try:
        yield _clock.seconds
    finally:
        _clock.seconds = outside
