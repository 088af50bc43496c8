"""What a traced call gave and what it left behind, noted at its end.

In: a `Recording` that listened to it. Out: its `Captured`, or a JitError for what a replay cannot
give or leave.
"""
from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import replace
from typing import Any

from lazyten.capture.captured import (
    Assignment,
    GradientEffect,
    NewStorage,
    TensorSource,
    TensorSpec,
    state_signature,
    unread_signature,
)
from lazyten.capture.recording import Before, Recording
from lazyten.capture.state.places import MISSING, Change, Place
from lazyten.frontend.complexes.tensors import ComplexTensor
from lazyten.frontend.core.forms import in_floats
from lazyten.frontend.tensor import Tensor
from lazyten.ir.node import Node, toposort
from lazyten.ir.number_tape import expressed
from lazyten.ir.ops import Op
from lazyten.storage.storage import Storage
from lazyten.support.errors import JitError
from lazyten.support.trees import Leaf, flatten


def conclude(capture: Recording, result: Any) -> None:
    """Note what the function gave and what it left behind."""
    captured = capture.captured
    capture.changed_later.clear()  # what is given is looked at when all is done
    new: dict[Storage, int] = {}
    leaves, captured.structure = flatten(result)
    captured.leaves = [_spec(capture, x, new) if isinstance(x, Tensor) else _static(x)
                       for x in leaves]
    for used in capture.gradients.values():
        final = used.tensor._grad
        if used.replaced or final is not used.stand_in:
            spec = None if final is None else _spec(capture, final, new)
            captured.gradients.append(GradientEffect(used.source, spec, used.cleared))
    _conclude_assignments(capture, new)
    for storage, before in capture.before.items():
        _conclude_source(capture, storage, before)
    for storage in _unread_collectives(capture, new):
        new.setdefault(storage, len(new))
    for storage in new:
        captured.new.append(NewStorage(storage._node, storage.device, storage.was_freed))


def _conclude_assignments(capture: Recording, new: dict[Storage, int]) -> None:
    """Note what names mean now. A tensor that a name meant before, and nothing else did, is
    found by that name in each call."""
    capture.assigned = capture.environment.assigned()
    found = [_assignment(capture, change, new) for change in capture.assigned]
    for change, assignment in zip(capture.assigned, found, strict=True):
        means = _means(capture, change.place, change.before)
        if means is not None:
            capture.means[change.place] = means
            assignment = replace(assignment, is_state=True)
        capture.captured.assigned.append(assignment)


def _assignment(capture: Recording, change: Change, new: dict[Storage, int]) -> Assignment:
    leaves, structure = flatten(change.after)
    for x in leaves:
        if not (change.place.is_assignable and can_be_assigned(x)):
            raise JitError(f"a jitted function changes {change.place.name!r} (in "
                           f"{change.user}) to {type(x).__name__} {x!r:.40}, which a replay "
                           f"would not do: it can assign tensors, numbers and strings, in "
                           f"lists, tuples and dicts, to attributes of objects and variables")
    specs = tuple([_spec(capture, x, new) if isinstance(x, Tensor)
                   else Leaf(expressed(x)) for x in leaves])
    return Assignment(change.place, specs, structure, False)


def _means(capture: Recording, place: Place, before: object) -> Callable[[Any], Hashable] | None:
    """What matters of a name that had tensors: not which ones, if nobody looked at them, and
    for a tensor that was read, if no other name, argument or gradient leads to its memory. None
    if they are to be the same."""
    tensors = [in_floats(x) for x in flatten(before)[0] if isinstance(x, Tensor)]
    if tensors and not any(x._storage in capture.before for x in tensors):
        return unread_signature
    if not isinstance(before, Tensor) or isinstance(before, ComplexTensor):
        return None
    storage = before._storage
    others = [x for x in (*capture.environment.values(), *capture.arguments)
              if isinstance(x, Tensor) and in_floats(x)._storage is storage]
    used = any(g.before is not None and g.before._storage is storage or g.tensor is before
               for g in capture.gradients.values())
    if len(others) > 1 or used or storage.leaf_id is not None:
        return None
    number = capture.before[storage].source
    sources = capture.captured.sources
    sources[number] = replace(sources[number], fixed=None,
                              tensor=TensorSource(None, place=place))
    return state_signature


def _unread_collectives(capture: Recording, new: Iterable[Storage]) -> list[Storage]:
    """What collectives give that nothing that is computed reads: other ranks do them, too."""
    if not capture.collectives:
        return []
    results = [*(s._node for s in new), *(node for _, node in capture.captured.written)]
    reached = {n for n in toposort(results) if n.op is Op.COLLECTIVE}
    return [s for s in capture.collectives if not s.version and not reached.issuperset(
        n for n in toposort([s._node], _down_to_collectives) if n.op is Op.COLLECTIVE)]


def _down_to_collectives(n: Node) -> tuple[Node, ...]:
    return () if n.op is Op.COLLECTIVE else n.src


def _conclude_source(capture: Recording, storage: Storage, before: Before) -> None:
    if storage.leaf_id != before.leaf_id:
        raise JitError(f"requires_grad of a tensor of shape {before.node.shape} from outside "
                       f"is changed inside a jitted function: do it outside")
    if storage._node is not before.stand_in:
        _check_no_graph(Tensor._view(storage, (), None), "writes")
        capture.captured.written.append((before.source, storage._node))


def _spec(capture: Recording, tensor: Tensor, new: dict[Storage, int]) -> TensorSpec:
    if isinstance(tensor, ComplexTensor):
        return replace(_spec(capture, tensor._parts, new), is_complex=True)
    if id(tensor) in capture.numbers:
        return TensorSpec("same", 0, same=TensorSource(None, capture.numbers[id(tensor)]))
    storage, view = tensor._storage, (tensor._moves, tensor._detached)
    if storage in capture.fresh:
        if tensor.requires_grad or not tensor._detached:
            _check_no_graph(tensor, "gives or leaves behind")
        number = new.setdefault(storage, len(new))
        return TensorSpec("new", number, *view, leaf=storage.leaf_id is not None)
    if id(tensor) in capture.gradients:
        return TensorSpec("same", 0, same=TensorSource(tensor))
    capture.touched(storage)
    return TensorSpec("source", capture.before[storage].source, *view)


def check_unchanged(capture: Recording, name: str) -> None:
    """JitError if the call, which is over, changed what it found by name otherwise than by
    assigning it."""
    for change in capture.assigned:
        change.place.assign(change.before)
    try:
        changed = capture.environment.changed()
    finally:
        for change in capture.assigned:
            change.place.assign(change.after)
    if changed is not None:
        raise JitError(f"jitted function {name} changes {changed.place.name!r} (in "
                       f"{changed.user}), which a replay would not do: return the new value, "
                       f"or keep it in a tensor that is changed in place")


def _is_plain(leaf: object) -> bool:
    return leaf is None or isinstance(leaf, bool | int | float | complex | str | bytes)


def can_be_assigned(leaf: object) -> bool:
    """Whether a replay can let a name mean this, or nothing."""
    return leaf is MISSING or _is_plain(leaf) or type(leaf) is Tensor


def _static(leaf: object) -> Leaf:
    """A result that is no tensor: given again by every call."""
    if _is_plain(leaf):
        return Leaf(expressed(leaf))
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
