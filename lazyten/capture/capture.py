"""Recording one call of a function: which tensors it reads, and what it computes and changes.

In: a function and its arguments. Out: a `Captured`, from which `replay.py` makes a program. While
the function runs, every tensor from outside reads as a placeholder, so nothing that was recorded
depends on a value; at the end, all that the call changed is put back as it was.
"""
from __future__ import annotations

import gc
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakSet

import numpy as np

from lazyten.capture.captured import (
    Assignment,
    Captured,
    GradientEffect,
    HostInput,
    NewStorage,
    StorageSource,
    TensorSource,
    TensorSpec,
    flags_of,
    layout_of,
    state_signature,
    unread_signature,
)
from lazyten.capture.environment import Environment
from lazyten.capture.places import MISSING, Change, Place
from lazyten.capture.purity import pure
from lazyten.execution.lineage import Lineage
from lazyten.execution.placeholder import Placeholder
from lazyten.frontend.tensor import Tensor
from lazyten.ir.dtype import DType
from lazyten.ir.node import Node
from lazyten.storage.shared_memory import SharedMemory
from lazyten.storage.storage import Storage
from lazyten.storage.tracing import Observer, listening
from lazyten.support.errors import JitError
from lazyten.support.grad_mode import is_grad_enabled
from lazyten.support.location import user_location
from lazyten.support.trees import Leaf, flatten

Array = np.ndarray[Any, Any]


@dataclass(slots=True)
class _Before:
    """A storage's state before the trace, to go back to."""

    source: int
    stand_in: Node
    node: Node
    keeps_graph: bool
    leaf_id: int | None
    companions: Any
    was_freed: bool
    version: int
    shared: SharedMemory | None


@dataclass(slots=True)
class _Gradient:
    """A tensor whose `.grad` was used: what it was, and what stands in for it (nothing, if the
    function replaced it before it read it)."""

    tensor: Tensor
    source: TensorSource
    before: Tensor | None
    stand_in: Tensor | None
    replaced: bool


class Capture(Observer):
    """Listens while a function runs, then says what it did. `record` is the way in."""

    def __init__(self, arguments: Sequence[Tensor], environment: Environment) -> None:
        super().__init__()
        self.captured, self.environment = Captured(), environment
        self.before: dict[Storage, _Before] = {}
        self.fresh: WeakSet[Storage] = WeakSet()
        self.assigned: list[Change] = []
        self.takes_arrays = False
        self.sharing: list[tuple[Storage, Node]] = []
        self.means: dict[Place, Callable[[Any], Hashable]] = {}
        self.modules: set[int] = set()
        self.kept: list[object] = []  # so that no id in `modules` is used again
        self.undos: list[Callable[[], None]] = []
        self.gradients: dict[int, _Gradient] = {}
        self.owners: list[object] = []  # of what is done at the end of a call
        self.changed_later: dict[int, object] = {}  # tensors and storages, by id
        self.arguments = list(arguments)
        self.shadows = self._shadowed(arguments)
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
        self.before[storage] = _Before(number, stand_in, node, storage.keeps_graph,
                                       storage.leaf_id, storage.companions, storage.was_freed,
                                       storage.version, storage.shared)
        storage._node, storage.shared = stand_in, None

    # ---- reports -----------------------------------------------------------------------------

    def created(self, storage: Storage) -> None:
        self.fresh.add(storage)

    def touched(self, storage: Storage) -> None:
        self._refuse_if_changed_later(storage)
        before = self.before.get(storage)
        if before is None and storage not in self.fresh:
            before = self._closed_over(storage)
        if before is not None and before.keeps_graph and is_grad_enabled():
            raise JitError(f"a tensor of shape {before.node.shape} used at {user_location()} was "
                           f"computed outside the jitted function from something that requires "
                           f"gradients; these cannot flow out of it: give it detach()ed, compute "
                           f"it inside, or call the function inside no_grad()")

    def _closed_over(self, storage: Storage) -> _Before:
        self._replace(storage, StorageSource(storage, None, False, flags_of(storage)))
        return self.before[storage]

    def gradient_used(self, tensor: Tensor, replaced: bool) -> None:
        self._refuse_if_changed_later(tensor)
        if id(tensor) in self.gradients or tensor._storage in self.fresh:
            return
        number = self.numbers.get(id(tensor))
        if number is None:
            source, real = TensorSource(tensor), tensor
        else:
            source, real = TensorSource(None, number), self.arguments[number]
        before, stand_in = real._grad, None
        if not replaced:
            self.captured.layouts.append((source, layout_of(before)))
        if before is not None and not replaced:
            with listening(None):
                storage = self._stand_in(before._storage, source, True)
                stand_in = Tensor._view(storage, before._moves, _lineage_like(before))
        self.gradients[id(tensor)] = _Gradient(tensor, source, before, stand_in, replaced)
        tensor._grad = stand_in

    def host_input(self, refresh: Callable[[], Array], dtype: DType, size: int,
                   device: str) -> Node:
        number = len(self.captured.hosts)
        host = HostInput(number, refresh, dtype, size, device)
        self.captured.hosts.append(host)
        self.captured.script.append(host)
        return Placeholder("host", number, dtype, size).node((size,))

    def action(self, run: Callable[[], None]) -> None:
        self.captured.script.append(run)

    def afterwards(self, run: Callable[[], None], owner: object, changes: Iterable[Any]) -> None:
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
            raise JitError(f"{user_location()} uses a parameter or its gradient after "
                           f"{type(self.owners[0]).__name__}.step(), which a jitted function does "
                           f"at the end of each call, in Python: use them before it (and clear "
                           f"gradients by the optimizer's zero_grad()), or call step() outside "
                           f"the jitted function")

    def observe(self, look: Callable[[], object]) -> None:
        self.captured.guards.append((look, look()))

    def undo(self, run: Callable[[], None]) -> None:
        self.undos.append(run)

    def assigning(self, holder: dict[str, Any], value: object) -> bool:
        return all(map(_can_be_assigned, flatten(value)[0])) and self.environment.knows(holder)

    def array_taken(self) -> None:
        self.takes_arrays = True

    def array_shared(self, storage: Storage) -> None:
        self.sharing.append((storage, storage._node))

    def is_new(self, thing: object) -> bool:
        return id(thing) in self.modules

    def made(self, thing: object) -> None:
        self.modules.add(id(thing))
        self.kept.append(thing)

    # ---- the end -----------------------------------------------------------------------------

    def conclude(self, result: Any) -> None:
        """Note what the function gave and what it left behind."""
        captured = self.captured
        self.changed_later.clear()  # what is given is looked at when all is done
        new: dict[Storage, int] = {}
        leaves, captured.structure = flatten(result)
        captured.leaves = [self._spec(x, new) if isinstance(x, Tensor) else _static(x)
                           for x in leaves]
        for used in self.gradients.values():
            final = used.tensor._grad
            if used.replaced or final is not used.stand_in:
                spec = None if final is None else self._spec(final, new)
                captured.gradients.append(GradientEffect(used.source, spec))
        self._conclude_assignments(new)
        for storage, before in self.before.items():
            self._conclude_source(storage, before)
        for storage, given in self.sharing:
            if storage._node is not given:
                raise JitError(f"a jitted function writes to a tensor of shape {given.shape} that "
                               f"shares its memory with a NumPy array, made at {given.where}, "
                               f"which a replay would not do: make it outside, or with "
                               f"lazyten.tensor(), which copies")
        for storage in new:
            captured.new.append(NewStorage(storage._node, storage.device, storage.was_freed))

    def _conclude_assignments(self, new: dict[Storage, int]) -> None:
        """Note what names mean now. A tensor that a name meant before, and nothing else did, is
        found by that name in each call."""
        self.assigned = self.environment.assigned()
        found = [self._assignment(change, new) for change in self.assigned]
        for change, assignment in zip(self.assigned, found, strict=True):
            means = self._means(change.place, change.before)
            if means is not None:
                self.means[change.place] = means
                assignment = replace(assignment, is_state=True)
            self.captured.assigned.append(assignment)

    def _assignment(self, change: Change, new: dict[Storage, int]) -> Assignment:
        leaves, structure = flatten(change.after)
        for x in leaves:
            if not (change.place.is_assignable and _can_be_assigned(x)):
                raise JitError(f"a jitted function changes {change.place.name!r} (in "
                               f"{change.user}) to {type(x).__name__} {x!r:.40}, which a replay "
                               f"would not do: it can assign tensors, numbers and strings, in "
                               f"lists, tuples and dicts, to attributes of objects and variables")
        specs = tuple([self._spec(x, new) if isinstance(x, Tensor) else Leaf(x) for x in leaves])
        return Assignment(change.place, specs, structure, False)

    def _means(self, place: Place, before: object) -> Callable[[Any], Hashable] | None:
        """What matters of a name that had tensors: not which ones, if nobody looked at them, and
        for a tensor that was read, if no other name, argument or gradient leads to its memory. None
        if they are to be the same."""
        tensors = [x for x in flatten(before)[0] if isinstance(x, Tensor)]
        if tensors and not any(x._storage in self.before for x in tensors):
            return unread_signature
        if not isinstance(before, Tensor):
            return None
        storage = before._storage
        others = [x for x in (*self.environment.values(), *self.arguments)
                  if isinstance(x, Tensor) and x._storage is storage]
        used = any(g.before is not None and g.before._storage is storage or g.tensor is before
                   for g in self.gradients.values())
        if len(others) > 1 or used or storage.leaf_id is not None:
            return None
        number = self.before[storage].source
        sources = self.captured.sources
        sources[number] = replace(sources[number], fixed=None,
                                  tensor=TensorSource(None, place=place))
        return state_signature

    def _conclude_source(self, storage: Storage, before: _Before) -> None:
        if storage.leaf_id != before.leaf_id:
            raise JitError(f"requires_grad of a tensor of shape {before.node.shape} from outside "
                           f"is changed inside a jitted function: do it outside")
        if storage._node is not before.stand_in:
            _check_no_graph(Tensor._view(storage, (), None), "writes")
            self.captured.written.append((before.source, storage._node))

    def _spec(self, tensor: Tensor, new: dict[Storage, int]) -> TensorSpec:
        if id(tensor) in self.numbers:
            return TensorSpec("same", 0, same=TensorSource(None, self.numbers[id(tensor)]))
        storage, view = tensor._storage, (tensor._moves, tensor._detached)
        if storage in self.fresh:
            if tensor.requires_grad or not tensor._detached:
                _check_no_graph(tensor, "gives or leaves behind")
            number = new.setdefault(storage, len(new))
            return TensorSpec("new", number, *view, leaf=storage.leaf_id is not None)
        if id(tensor) in self.gradients:
            return TensorSpec("same", 0, same=TensorSource(tensor))
        self.touched(storage)
        return TensorSpec("source", self.before[storage].source, *view)

    def restore(self, failed: bool) -> None:
        """Put everything back as it was before the trace."""
        for storage, b in self.before.items():
            storage._node, storage.keeps_graph, storage.leaf_id = b.node, b.keeps_graph, b.leaf_id
            storage.companions, storage.was_freed = b.companions, b.was_freed
            storage.version, storage.shared = b.version, b.shared
        for used in self.gradients.values():
            used.tensor._grad = used.before
        for change in self.environment.assigned() if failed else self.assigned:
            if change.place.is_assignable:
                change.place.assign(change.before)
        self.assigned = []
        self.sharing.clear()
        if not failed and (self.means or self.takes_arrays):
            self.environment.generalize(self.means, self.takes_arrays)
        if failed:
            for undo in reversed(self.undos):
                undo()
        self.before.clear()
        self.gradients.clear()
        self.shadows.clear()
        self.kept.clear()

    def check_nothing_leaked(self) -> None:
        """JitError if a tensor that the function made is still in use somewhere."""
        if len(self.fresh):
            gc.collect()
        for storage in self.fresh:
            raise JitError(f"a tensor of shape {storage._node.shape} made at {storage._node.where} "
                           f"is still in use after the jitted function: it was put in a list, an "
                           f"attribute or a variable outside, which a replay would not do; return "
                           f"it instead")


def _is_plain(leaf: object) -> bool:
    return leaf is None or isinstance(leaf, bool | int | float | complex | str | bytes)


def _can_be_assigned(leaf: object) -> bool:
    """Whether a replay can let a name mean this, or nothing."""
    return leaf is MISSING or _is_plain(leaf) or type(leaf) is Tensor


def _static(leaf: object) -> Leaf:
    """A result that is no tensor: given again by every call."""
    if _is_plain(leaf):
        return Leaf(leaf)
    raise JitError(f"a jitted function gives {type(leaf).__name__} {leaf!r:.40}, which would be "
                   f"the same object at every call: return tensors, numbers and strings, in lists, "
                   f"tuples and dicts")


def _check_no_graph(tensor: Tensor, verb: str) -> None:
    storage = tensor._storage
    if tensor.requires_grad if tensor._detached else storage.keeps_graph:
        raise JitError(f"a jitted function {verb} a tensor of shape {storage._node.shape}, "
                       f"computed at {storage._node.where}, that still requires gradients, but a "
                       f"replay records none: call backward() inside the function, return it "
                       f"detach()ed, or call the function inside no_grad()")


def _lineage_like(real: Tensor) -> Lineage | None:
    """What the stand-in of a tensor is detached by, if the tensor is."""
    if not real._detached:
        return None
    if real.requires_grad and is_grad_enabled():
        raise JitError(f"a jitted function is given a tensor of shape {real.shape} that is "
                       f"detached, but had something with gradients written into it; these cannot "
                       f"flow out of the function: give it detach()ed, or call the function inside "
                       f"no_grad()")
    return Lineage()


def record(arguments: Sequence[Tensor], call: Callable[[Sequence[Tensor]], Any],
           environment: Environment) -> Captured:
    """What `call(stand-ins for the arguments)` does. Nothing has changed when this returns.

    Raises what the call raises, and JitError for what cannot be replayed.
    """
    capture = Capture(arguments, environment)
    failed = True
    try:
        with listening(capture), pure():
            capture.conclude(call(capture.shadows))
        failed = False
    finally:
        capture.restore(failed)
    capture.check_nothing_leaked()
    return capture.captured
