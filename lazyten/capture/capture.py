"""Recording one call of a function: which tensors it reads, and what it computes and changes.

In: a function and its arguments. Out: a `Captured`, from which `replay.py` makes a program. While
the function runs, every tensor from outside reads as a placeholder, so nothing that was recorded
depends on a value; at the end, all that the call changed is put back as it was.
"""
from __future__ import annotations

import gc
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import numpy as np

from lazyten.autodiff.watching import unwatched
from lazyten.capture.breaks import InPython, NotBegun, argument_of, go_on
from lazyten.capture.captured import (
    Action,
    Captured,
    HostInput,
    StorageSource,
    TensorSource,
    flags_of,
    layout_of,
)
from lazyten.capture.conclusion import can_be_assigned, check_unchanged, conclude
from lazyten.capture.hooked import HooksOf, has_hooked_views, is_hooked
from lazyten.capture.recording import Before, Recording, Used
from lazyten.capture.state.environment import Environment
from lazyten.capture.state.purity import pure
from lazyten.execution.lineage import Lineage
from lazyten.frontend.tensor import Tensor
from lazyten.ir.dtype import DType
from lazyten.ir.node import Node
from lazyten.storage import tracing
from lazyten.storage.placeholder import Placeholder
from lazyten.storage.storage import Buffer, Storage
from lazyten.storage.tracing import Keep, listening
from lazyten.support.errors import JitError
from lazyten.support.grad_mode import is_grad_enabled
from lazyten.support.location import user_location
from lazyten.support.trees import flatten

Array = np.ndarray[Any, Any]


class Capture(Recording):
    """Listens while a function runs, then says what it did. `record` is the way in."""

    def __init__(self, arguments: Sequence[Tensor], environment: Environment,
                 whole: bool, pieces: Collection[int] = ()) -> None:
        super().__init__(arguments, environment)
        self.whole = whole
        self.shadows = self._shadowed(arguments)
        self.apart = {self.shadows[n]._storage for n in pieces}
        self.numbers = {id(s): i for i, s in enumerate(self.shadows)}

    def _shadowed(self, arguments: Sequence[Tensor]) -> list[Tensor]:
        """Stand-ins for the arguments: the function must not tell them from the next call's."""
        storages: dict[Storage, Storage] = {}
        tensors: dict[int, Tensor] = {}
        for number, tensor in enumerate(arguments):
            real = tensor._storage
            if real not in storages:
                storages[real] = self._stand_in(real, TensorSource(None, number), False)
            if id(tensor) not in tensors:
                shadow = Tensor._view(storages[real], tensor._moves, _lineage_like(tensor))
                if tensor.requires_grad and tensor.is_leaf:
                    shadow._own_leaf()
                tensors[id(tensor)] = shadow
        return [tensors[id(t)] for t in arguments]

    def _stand_in(self, real: Storage, where: TensorSource, gradient: bool) -> Storage:
        """A storage that reads as a new source."""
        shadow = Storage(real._node, real.device, real.keeps_graph)
        self.real[shadow] = real
        shadow.was_freed = real.was_freed
        if real.leaf_id is not None:
            shadow.become_leaf()
        self._replace(shadow, StorageSource(None, where, gradient, flags_of(real)))
        return shadow

    def _replace(self, storage: Storage, source: StorageSource) -> None:
        number = len(self.captured.sources)
        self.captured.sources.append(source)
        node = storage._node
        stand_in = Placeholder("source", number, node.dtype, node.numel).node(node.shape)
        self.before[storage] = Before(number, stand_in, node, storage.keeps_graph,
                                      storage.leaf_id, storage.companions, storage.was_freed,
                                      storage.version, storage.shared)
        storage._node, storage.shared = stand_in, None

    # ---- what a replay cannot do -------------------------------------------------------------

    def refused(self, error: JitError) -> None:
        if self.ended is not None:
            return
        if self.whole:
            raise error
        self.ended = error.with_traceback(None)  # which would keep all that the call has made
        tracing.stop_listening(self)
        go_on(self)

    # ---- reports -----------------------------------------------------------------------------

    def created(self, storage: Storage) -> None:
        self.fresh.add(storage)

    def touched(self, storage: Storage) -> None:
        self._refuse_if_changed_later(storage)
        if self.ended is not None:
            return
        before = self.before.get(storage)
        if before is None and storage not in self.fresh:
            before = self._closed_over(storage)
        if before is not None and before.keeps_graph and is_grad_enabled():
            self.refused(JitError(
                           f"a tensor of shape {before.node.shape} used at {user_location()} was "
                           f"computed outside the jitted function from something that requires "
                           f"gradients; these cannot flow out of it: give it detach()ed, compute "
                           f"it inside, or call the function inside no_grad()"))

    def _closed_over(self, storage: Storage) -> Before | None:
        if any(real is storage and shadow._node is not self.before[shadow].stand_in
               for shadow, real in self.real.items() if shadow in self.before):
            self.refused(JitError(
                _WRITTEN_IN_TWO_WAYS.format(user_location(), storage._node.shape)))
            return None
        if is_grad_enabled() and has_hooked_views(storage):
            self.refused(JitError(_HOOKED.format(user_location(), "a view")))
            return None
        self._replace(storage, StorageSource(storage, None, False, flags_of(storage)))
        return self.before[storage]

    def _is_given(self, used: Tensor) -> bool:
        """Whether it is an argument itself, where the trace has something else in its place, whose
        gradient is another: then the trace ends."""
        if not any(used is given for given in self.arguments):
            return False
        self.refused(JitError(_TWO_WAYS.format(user_location(), used.shape)))
        return True

    def placed(self, storage: Storage) -> None:
        if storage in self.apart:
            self.refused(JitError(f"{user_location()} asks where a tensor is in memory"))

    def to_be_written(self, storage: Storage) -> None:
        if self.real.get(storage) in self.before or storage in self.real.values():
            self.refused(JitError(
                _WRITTEN_IN_TWO_WAYS.format(user_location(), storage._node.shape)))
        elif storage in self.sharing:
            node = storage._node
            self.refused(JitError(
                f"a jitted function writes at {user_location()} to a tensor of shape {node.shape} "
                f"that shares its memory with a NumPy array, made at {node.where}, which a replay "
                f"would not do: make it outside, or with lazyten.tensor(), which copies"))

    def gradient_used(self, tensor: Tensor, how: tracing.GradientUse) -> None:
        self._refuse_if_changed_later(tensor)
        if self.ended is not None or id(tensor) in self.gradients or tensor._storage in self.fresh:
            return
        number = self.numbers.get(id(tensor))
        if number is None:
            if self._is_given(tensor):
                return
            source, real = TensorSource(tensor), tensor
        else:
            source, real = TensorSource(None, number), self.arguments[number]
        before, stand_in, replaced = real._grad, None, how != "read"
        if before is not None and not replaced and _flows_in(before):
            self.refused(JitError(_FLOWS_IN.format(before.shape)))
            return
        if not replaced:
            self.captured.layouts.append((source, layout_of(before)))
        if before is not None and not replaced:
            with listening(None):
                storage = self._stand_in(before._storage, source, True)
                stand_in = Tensor._view(storage, before._moves, _lineage_like(before))
        self.gradients[id(tensor)] = Used(
            tensor, source, before, stand_in, replaced, how == "cleared")
        tensor._grad = stand_in

    def differentiated(self, wanted: Sequence[Tensor]) -> None:
        if self.ended is not None:
            return
        if any(map(is_hooked, self.real.values())):
            self.refused(JitError(_HOOKED.format(user_location(), "an argument")))
            return
        closed_over = [s for s in self.before if s not in self.real]
        self.observe(HooksOf([s for s in closed_over if s.leaf_id is not None]))
        for tensor in wanted:
            before = self.before.get(tensor._storage)
            if before is None:
                continue
            self.captured.wanted.append(before.source)
            real = self.real.get(tensor._storage, tensor._storage)
            if sum(self.real.get(s, s) is real for s in self.before) > 1:
                self.refused(JitError(_TWO_WAYS.format(user_location(), tensor.shape)))
                return

    def host_input(self, refresh: Callable[[], Array], dtype: DType, size: int,
                   device: str, name: str = "") -> Node:
        if self.ended is not None:
            return Buffer.from_numpy(refresh(), dtype, device).node((size,))
        number = len(self.captured.hosts)
        host = HostInput(number, refresh, dtype, size, device)
        self.captured.hosts.append(host)
        self.captured.script.append(host)
        self.hosts.append(Placeholder("host", number, dtype, size))
        return self.hosts[-1].node((size,))

    def action(self, run: Callable[[], None], keep: Keep | None = None) -> None:
        if self.ended is not None:
            run()
        self.captured.script.append(Action(run, keep))

    def afterwards(self, run: Callable[[], None], owner: object, changes: Iterable[Any]) -> None:
        if self.ended is not None:
            run()
            return
        self.captured.afterwards.append(run)
        self.owners.append(owner)
        for tensor in changes:
            self.changed_later[id(tensor)] = tensor
            self.changed_later[id(tensor._storage)] = tensor._storage

    def acts_afterwards(self, owner: object) -> bool:
        return any(one is owner for one in self.owners)

    def _refuse_if_changed_later(self, used: Tensor | Storage) -> None:
        """JitError for a tensor, or its gradient, after what changes it at the end of a call."""
        if self.changed_later and id(used) in self.changed_later:
            self.refused(JitError(
                           f"{user_location()} uses a parameter or its gradient after "
                           f"{type(self.owners[0]).__name__}.step(), which a jitted function does "
                           f"at the end of each call, in Python: use them before it (and clear "
                           f"gradients by the optimizer's zero_grad()), or call step() outside "
                           f"the jitted function"))

    def observe(self, look: Callable[[], object]) -> None:
        if self.ended is None:
            self.captured.guards.append((look, look()))

    def undo(self, run: Callable[[], None]) -> None:
        self.undos.append(run)

    def assigning(self, holder: dict[str, Any], value: object) -> bool:
        return all(map(can_be_assigned, flatten(value)[0])) and self.environment.knows(holder)

    def array_shared(self, storage: Storage, array: Array) -> None:
        self.sharing[storage] = array

    def collective(self, storage: Storage) -> None:
        if self.without_python:
            super().collective(storage)
        self.collectives.append(storage)

    def is_new(self, thing: object) -> bool:
        return id(thing) in self.modules

    def made(self, thing: object) -> None:
        self.modules.add(id(thing))
        self.kept.append(thing)

    # ---- the end -----------------------------------------------------------------------------

    def restore(self, failed: bool) -> None:
        """Put everything back as it was before the trace."""
        for storage, before in self.before.items():
            before.give_back(storage)
        for used in self.gradients.values():
            used.tensor._grad = used.before
        for change in self.environment.assigned() if failed else self.assigned:
            if change.place.is_assignable:
                change.place.assign(change.before)
        self.assigned = []
        self.sharing.clear()
        if not failed and self.means:
            self.environment.generalize(self.means)
        if failed:
            for undo in reversed(self.undos):
                undo()
        self.before.clear()
        self.gradients.clear()
        self.shadows.clear()
        self.kept.clear()
        self.collectives.clear()

    def check_nothing_leaked(self) -> None:
        """JitError if a tensor that the function made is still in use somewhere."""
        if len(self.fresh):
            gc.collect()
        for storage in self.fresh:
            raise JitError(f"a tensor of shape {storage._node.shape} made at {storage._node.where} "
                           f"is still in use after the jitted function: it was put in a list, an "
                           f"attribute or a variable outside, which a replay would not do; return "
                           f"it instead")


_TWO_WAYS = ("{} uses the gradient of a tensor of shape {} which the jitted function reaches in "
             "two ways: as an argument, and for example as a parameter of an optimizer; give it "
             "one way alone")
_WRITTEN_IN_TWO_WAYS = (
    "{} uses a tensor of shape {} which the jitted function writes, and reaches in two ways: as an "
    "argument, and for example as a closed-over variable; use one of them")
_HOOKED = ("{} uses gradients that hooks are called with which were registered for {} outside of "
           "the jitted function: register them for a leaf that it knows by name")
_FLOWS_IN = ("a jitted function is given a tensor of shape {} that is detached, but had something "
             "with gradients written into it; these cannot flow out of the function: give it "
             "detach()ed, or call the function inside no_grad()")


def _flows_in(real: Tensor) -> bool:
    """Whether a detached tensor has gradients that a trace cannot know."""
    return real._detached and real.requires_grad and is_grad_enabled()


def _lineage_like(real: Tensor) -> Lineage | None:
    """What the stand-in of a tensor is detached by, if the tensor is."""
    if _flows_in(real):
        raise NotBegun(_FLOWS_IN.format(real.shape))
    return Lineage() if real._detached else None


def record(arguments: Sequence[Tensor], call: Callable[[Sequence[Tensor]], Any],
           environment: Environment, name: str, whole: bool,
           pieces: Collection[int] = (), function: object = None) -> Captured | InPython:
    """What `call(stand-ins for the arguments)` does: to be replayed, and nothing has changed when
    this returns; or what it gave, when it has gone on for real. name: the function's.

    Raises what the call raises. whole: JitError for what cannot be replayed. pieces: arguments that
    have only pieces of the memory that the user knows them to be in. function: what is called.
    """
    capture = Capture(arguments, environment, whole, pieces)
    failed = True
    try:
        with listening(capture), pure(capture, function):
            result = call(capture.shadows)
            if capture.ended is None:
                try:
                    unwatched(conclude, capture, result)
                    unwatched(check_unchanged, capture, name)
                except JitError as error:
                    capture.refused(error)
        if capture.ended is not None:
            return InPython(environment, capture.ended, argument_of(result))
        del result
        failed = False
    finally:
        if capture.ended is None:
            capture.restore(failed)
    capture.check_nothing_leaked()
    return capture.captured
