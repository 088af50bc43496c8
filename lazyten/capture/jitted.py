"""`lt.jit`: functions that are traced once a signature, and then run as one native call.

A call is keyed by its structure: the nesting of its arguments, and for each tensor its shape,
dtype, device, view and whether it requires gradients; other values by equality. For each key there
are captured calls (capture.py), each with what it depends on besides (`Replay.holds`).
"""
from __future__ import annotations

import functools
import operator
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from types import MethodType
from typing import Any, Generic, ParamSpec, TypeVar

from lazyten.capture.arrays import ArrayCall, is_plain_argument, only_computes
from lazyten.capture.breaks import InPython, NotBegun
from lazyten.capture.call import HOOKED_VIEW, MARKED, Call
from lazyten.capture.capture import record
from lazyten.capture.changing import Family, Tape, Varying
from lazyten.capture.dims import Dynamic, Given, Hints, VaryingSizes, like, look, region
from lazyten.capture.donation import Donate, Donation
from lazyten.capture.last_call import LastCall, last_call
from lazyten.capture.pieces import CallOfPieces, Together, check_only_read, of_pieces
from lazyten.capture.replay import Replay, TwoWays
from lazyten.capture.state.environment import Environment
from lazyten.capture.state.places import Place
from lazyten.execution import debug
from lazyten.execution.sizes.ahead import Region, samples
from lazyten.execution.sizes.planned import Sizes
from lazyten.frontend.tensor import Tensor
from lazyten.storage import levels, tracing
from lazyten.storage.placement import default_device
from lazyten.support import forking
from lazyten.support.errors import ArgumentError, JitError
from lazyten.support.location import is_found_by_name

P = ParamSpec("P")
R = TypeVar("R")

CACHE_LIMIT = 256
"""Signatures that a function keeps captured calls of; the oldest goes."""
STATES = 8
"""Captured calls of one signature that differ in the Python state they depend on."""
IN_MEMORY = 8
"""Of a function whose sizes vary: captured calls that keep memory to compute in."""
IN_A_ROW = 16
"""Calls that differ in numbers alone and were traced, none replayed in between, before no more are.
"""
BREAKS = 3
"""Calls of one signature that could not be recorded, each in a new state, before none is any more.
"""


class Jitted(Generic[P, R]):
    """A function that `lt.jit` has wrapped: call it like the function itself."""

    def __init__(self, function: Callable[P, R], check: bool, donate: Donate,
                 fullgraph: bool, dynamic: Dynamic | None) -> None:
        if not callable(function):
            raise ArgumentError(f"jit of {type(function).__name__} {function!r:.40}: it is for "
                                f"functions, methods and modules")
        functools.update_wrapper(self, function, updated=())
        self.function, self.check, self.fullgraph = function, check, fullgraph
        self.donation, self._dynamic = Donation(function, donate), dynamic
        self.dims = None if dynamic is None else VaryingSizes(function, dynamic, self._name)
        self._sizes = None if dynamic is None else Sizes()
        self._regions: set[tuple[Region, ...]] = set()
        self._hints = Hints()
        self._in_memory: OrderedDict[Replay, None] = OrderedDict()
        self._cache: OrderedDict[Hashable, _Kept] = OrderedDict()
        self._families: OrderedDict[Hashable, Family] = OrderedDict()
        self._shown: set[str] = set()
        self._last: LastCall | None = None
        self._latest: Replay | InPython | None = None
        self._lock = forking.lock()

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __reduce__(self) -> Any:
        """In a pickle, or a copy: the function's name, if that means this object, or the function
        and its options, which is traced anew."""
        return vars(self)["__qualname__"] if is_found_by_name(self) else (Jitted, (
            self.function, self.check, tuple(self.donation.places), self.fullgraph, self._dynamic))

    @property
    def cache_size(self) -> int:
        """How many captured calls are kept: one a signature, or more where Python state differs."""
        return sum(isinstance(x, Replay) for kept in self._cache.values() for x in kept.calls) \
            + sum(len(family.calls) for family in self._families.values())

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        positional: Any = args
        given = {} if self.dims is None else self.dims.sizes(args, kwargs)
        traced = tracing.active is not None and tracing.current() is not None
        if traced or levels.under_way():  # part of something larger
            return self.function(*args, **kwargs)
        with self._lock:
            last = self._last
            if last is not None and not kwargs and last.is_like(positional) \
                    and last.replay.holds(positional):
                last.family.in_a_row = 0
                found: Replay | InPython | None = last.replay
                tensors = positional
            else:
                found, tensors = self._looked_up(Call(args, kwargs), given)
            if isinstance(found, Replay):
                try:
                    result: R = found.run(tensors)
                    if given:
                        self._keep_in_memory(found)
                    return result
                except TwoWays as error:
                    if self.fullgraph:
                        raise
                    self._show(error)
            elif found is not None:
                return found.result  # type: ignore[no-any-return]
        return self.function(*args, **kwargs)

    def _looked_up(self, call: Call, given: Mapping[str, Given],
                   ) -> tuple[Replay | InPython | None, Sequence[Tensor]]:
        """What is to be done for a call, found by its key, and the tensors for it."""
        self._last = None
        kept = self._cache.get(call.key)
        if kept is None:
            call, found = self._in_pieces(call, given)
        else:
            found = self._done_by(kept, kept.family, call)
            if found is not None and self._latest is found and not given and not self.check:
                self._last = last_call(call, kept.family, found)
            self._latest = found
        return found, call.tensors

    def on_arrays(self, tensors: Sequence[Tensor]) -> ArrayCall | None:
        """Does what calls with such tensors do, of arrays; None where they do more than compute, or
        are not known well enough yet."""
        call = Call(tuple(tensors), {})
        if self.dims is not None or not all(map(is_plain_argument, tensors)):
            return None
        with self._lock:
            kept = self._cache.get(call.key)
            for found in [] if kept is None else kept.calls:
                if isinstance(found, Replay) and found.checked and found.holds(call.tensors):
                    known = only_computes(found)
                    return ArrayCall(found, tensors, self._lock) if known else None
        return None

    def _in_pieces(self, call: Call, given: Mapping[str, Given],
                   ) -> tuple[Call, Replay | InPython | None]:
        """A call of no known signature, with its views taken for pieces of memory where that is the
        same, and what is to be done for it."""
        found = None if self.donation.places else of_pieces(call)
        if found is not None and self._may_be_apart(found):
            try:
                made = self._to_do(found, given)
                if not (isinstance(made, Replay) and made.changes(found.tensors, found.wholes)):
                    return found, made
            except Together:
                self._cache.pop(found.key, None)
                self._family(found).is_placed = True
        return call, self._to_do(call, given)

    def _may_be_apart(self, call: CallOfPieces) -> bool:
        """Whether nothing is known that speaks against pieces, and copies are worth it: the first
        view that is to be copied may come always."""
        family = self._family(call)
        copies_anew = call.has_copies and not family.has_copied
        family.has_copied = family.has_copied or call.has_copies
        return not family.is_placed and not copies_anew

    def _to_do(self, call: Call, given: Mapping[str, Given]) -> Replay | InPython | None:
        """A captured call that does what this one has to, or one that has been made; None if the
        function's Python is to run."""
        kept = self._cache.get(call.key)
        if kept is None and given:
            self._look_ahead(call, given)
        return self._done_by(kept, self._family(call) if kept is None else kept.family, call)

    def _done_by(self, kept: _Kept | None, family: Family,
                 call: Call) -> Replay | InPython | None:
        """The same, of what is known of the call's signature, and of those that differ in numbers.
        """
        return (self._general(family, call) if family.calls else None) \
            or self._found(kept or self._new_kept(call, family), call)

    def _look_ahead(self, call: Call, given: Mapping[str, Given]) -> None:
        """Have kernels be made for sizes around those of a call, too, before any is compiled."""
        assert self.dims is not None
        regions = tuple(region(d, given[n].size) for n, d in self.dims.dims.items() if n in given)
        if regions in self._regions or len(regions) < len(self.dims.dims):
            return
        self._regions.add(regions)
        for alternatives in samples(regions):
            if not any(self._looked_at(call, sizes, regions) for sizes in alternatives):
                return

    def _looked_at(self, call: Call, sizes: tuple[int, ...], regions: tuple[Region, ...]) -> bool:
        """Whether a call could be recorded at other sizes: nothing of it runs."""
        assert self.dims is not None and self._sizes is not None
        named = dict(zip(self.dims.dims, sizes, strict=True))
        try:
            other = Call(*self.dims.resized(call.args, call.kwargs, named, like))
            with tracing.turn:
                environment = Environment(self.function, other.leaves)
                self._refuse_hidden(environment, other)
                made = record(other.tensors, functools.partial(other.apply, self.function),
                              environment, self._name, True)
                assert not isinstance(made, InPython)
            with self._sizes.planning(sizes, regions):
                look(made, other.tensors)
        except Exception:  # it cannot be recorded, or has no such size: the call itself tells
            return False
        return True

    def _planning(self, call: Call) -> AbstractContextManager[None]:
        """Within it plans are made of kernels that other sizes have, too, if sizes vary."""
        if self.dims is None or self._sizes is None:
            return nullcontext()
        given = self.dims.sizes(call.args, call.kwargs)
        sizes = [given[n].size if n in given else d.min for n, d in self.dims.dims.items()]
        regions = map(region, self.dims.dims.values(), sizes)
        return self._sizes.planning(tuple(sizes), tuple(regions))

    def _keep_in_memory(self, found: Replay) -> None:
        """Sizes of late keep memory to compute in; others get it again when they come."""
        self._in_memory[found] = None
        self._in_memory.move_to_end(found)
        if len(self._in_memory) > IN_MEMORY:
            self._in_memory.popitem(last=False)[0].release()

    def _family(self, call: Call) -> Family:
        """What is known of calls that differ from this one in numbers."""
        family = self._families.get(call.family)
        if family is None:
            family = self._families[call.family] = Family()
            if len(self._families) > CACHE_LIMIT:
                self._families.popitem(last=False)
        return family

    def _new_kept(self, call: Call, family: Family) -> _Kept:
        kept = self._cache[call.key] = _Kept(family)
        if len(self._cache) > CACHE_LIMIT:
            self._cache.popitem(last=False)
        return kept

    def _general(self, family: Family, call: Call) -> Replay | None:
        """A captured call that holds whatever numbers this one has."""
        found: Replay
        for found in family.calls:
            if found.takes(call.leaves) and found.holds(call.tensors):
                if self.check or not found.checked:
                    again = self._traced_for_numbers(call, family.varying)
                    if again is None or again.fingerprint != found.fingerprint:
                        family.give_up()
                        return None
                    found.checked = True
                    found.takes(call.leaves)
                family.in_a_row = 0
                return found
        return None

    def _found(self, kept: _Kept, call: Call) -> Replay | InPython | None:
        """What does what this call has to: a captured one that holds, a new one, or one that has
        been made; None if the function's Python is to run."""
        if kept.in_python:
            return None
        for found in kept.calls:
            if found.holds(call.tensors):
                break
        else:
            return self._new(kept, call)
        kept.family.in_a_row = 0
        if isinstance(found, InPython):
            return None
        if not self.check and found.checked:
            return found
        again = self._traced(call)
        if isinstance(again, Replay) and again.fingerprint == found.fingerprint:
            found.checked = True
            return found
        kept.calls.remove(found)
        if isinstance(again, Replay) and not found.captured.assigned:  # or names changed places
            error = JitError(
                f"jitted function {self._name} does something else when traced again with "
                f"arguments of the same signature: it depends on Python state that a replay does "
                f"not see, such as a random number or an attribute; give that as an argument")
            if self.check or self.fullgraph:
                raise error
            self._run_in_python(kept, error)
        self._keep(kept, call, again)
        return again

    def _new(self, kept: _Kept, call: Call) -> Replay | InPython | None:
        """A call that is like no other of its signature."""
        if kept.family.in_a_row >= IN_A_ROW and not self.fullgraph:
            self._show(JitError(f"{IN_A_ROW} calls of jitted function {self._name} after one "
                                f"another were each traced anew, as numbers or other state "
                                f"differed that shapes or branches depend on: keep what changes "
                                f"in tensors"))
            return None
        try:
            made = self._traced(call)
        except NotBegun as error:
            if self.fullgraph:
                raise
            self._run_in_python(kept, error)
            return None
        self._keep(kept, call, made)
        if isinstance(made, Replay):
            if self.dims is None and debug.level():
                self._hints.note(self._name, call.tensors, debug.show_hint)
            self._generalize(kept.family, call, made)
        return made

    def _generalize(self, family: Family, call: Call, made: Replay) -> None:
        """Where a call was traced anew as numbers differ from the last that was, have them be
        inputs from the next on."""
        numbers = call.numbers | made.environment.numbers()
        varying = family.differing(numbers)
        if varying and not made.environment.looks_at_types:
            found = self._traced_for_numbers(call, varying)
            if found is not None:
                family.keep(found, varying)

    def _traced_for_numbers(self, call: Call, varying: Varying) -> Replay | None:
        """A captured call with inputs for these numbers, by position or name; None where it cannot
        be recorded, or does not compute with them."""
        device = call.tensors[0].device if call.tensors else default_device()
        tape = Tape(device=str(device))
        try:
            with tracing.turn:
                environment = Environment(self.function, call.leaves)
                names = {x: environment.numbers()[x] for x in varying if isinstance(x, Place)}

                def run(tensors: Sequence[Tensor]) -> Any:
                    numbers = {i: tape.given(x, i) for i, x in call.numbers.items()}
                    for i in numbers.keys() - varying:
                        numbers[i] = tape.look(operator.pos, numbers[i])
                    with tape.standing_for(names):
                        return call.apply_to_numbers(self.function, numbers, tensors)
                made = record(call.tensors, run, environment, self._name, True, call.pieces)
            assert not isinstance(made, InPython)
            if isinstance(call, CallOfPieces):
                check_only_read(made, call)
            sources = [s.find(call.tensors).device for s in made.sources]
            if {*sources, *(n.device for n in made.new)} - {tape.device}:
                return None
            environment.generalize(dict.fromkeys(names, type))
            donated = self.donation.storages(call.args, call.kwargs)
            with self._planning(call):
                return Replay(made, environment, call.tensors, donated, self._name, tape)
        except Exception:  # what takes no other object for a number
            return None

    def _keep(self, kept: _Kept, call: Call, made: Replay | InPython) -> None:
        """The newest first; what was traced for state that is long gone is dropped."""
        if isinstance(made, InPython):
            self._show(made.reason)
            kept.breaks += 1
            kept.in_python = kept.in_python or kept.breaks >= BREAKS
            made = InPython(made.environment, made.reason)
        kept.calls.insert(0, made)
        del kept.calls[STATES:]
        if call.key in self._cache:
            self._cache.move_to_end(call.key)

    def _run_in_python(self, kept: _Kept, reason: JitError) -> None:
        """Run the function's Python at all calls of a signature."""
        self._show(reason)
        kept.in_python = True
        kept.family.give_up()

    def _show(self, reason: JitError) -> None:
        """DEBUG=1: why calls are not replayed, each reason once."""
        words = str(reason)
        if debug.level() and words not in self._shown:
            self._shown.add(words)
            debug.show_break(self._name, words)

    def _refuse_hidden(self, environment: Environment, call: Call) -> None:
        """NotBegun where a replay could not tell that it does not hold any more."""
        if environment.opaque and not self.check:
            raise NotBegun(f"jitted function {self._name} uses {environment.opaque[0]}, whose "
                           f"state cannot be compared between calls: give what it needs as "
                           f"arguments")
        if MARKED in call.key:
            raise NotBegun(f"jitted function {self._name} is given a parameter with attributes of "
                           f"the program's, which stand-ins lack: let it know the parameter by "
                           f"name, or give its data")
        if HOOKED_VIEW in call.key:
            raise NotBegun(f"jitted function {self._name} is given a parameter of which a view has "
                           f"hooks, which stand-ins lack: register them for the parameter")
        if environment.has_any(call.tensors):
            raise NotBegun(f"jitted function {self._name} is given a tensor that it also knows by "
                           f"name, and compares objects or has tensors as keys, so that it may "
                           f"tell the tensor from others: give another view of it")

    def _traced(self, call: Call) -> Replay | InPython:
        """A captured call that does what this one has to, or this call itself. Together if it
        depends on where its views are."""
        if isinstance(call, CallOfPieces):
            try:
                return self._recorded(call, True)
            except Exception as error:  # of whatever kind: the call as it is tells
                raise Together from error
        return self._recorded(call, self.fullgraph)

    def _recorded(self, call: Call, whole: bool) -> Replay | InPython:
        with tracing.turn:
            environment = Environment(self.function, call.leaves)
            self._refuse_hidden(environment, call)
            made = record(call.tensors, functools.partial(call.apply, self.function),
                          environment, self._name, whole, call.pieces, self.function)
        if isinstance(made, InPython):
            return made
        if isinstance(call, CallOfPieces):
            if environment.tells_apart:
                raise Together
            check_only_read(made, call)
        donated = self.donation.storages(call.args, call.kwargs)
        with self._planning(call):
            return Replay(made, environment, call.tensors, donated, self._name)

    @property
    def _name(self) -> str:
        return getattr(self.function, "__qualname__", type(self.function).__name__)


@dataclass(slots=True, eq=False)
class _Kept:
    """What is known of calls of one signature. breaks: how many were not recorded to the end.
    in_python: nothing is recorded any more."""

    family: Family
    calls: list[Replay | InPython] = field(default_factory=list)
    breaks: int = 0
    in_python: bool = False
