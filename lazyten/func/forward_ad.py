"""`lt.autograd.forward_ad`: tensors that carry tangents, under PyTorch's names.

In: tensors, and tangents of theirs. Out: of what is computed from them, its tangent: the slope of
its values as all these tensors move along their tangents. As in `called` a LEAF node stands for
each of them, and `unpack_dual` walks from a result to these; nothing is computed before, and what
is read or written in between stays a graph of them. `jvp` is the same for functions.
"""
from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from threading import local
from typing import Any, NamedTuple

from lazyten.autodiff.forward_mode import jvp
from lazyten.frontend.complexes.tensors import ComplexTensor
from lazyten.frontend.core.forms import is_sparse
from lazyten.frontend.tensor import Tensor
from lazyten.func.differentiation import standing_for
from lazyten.func.transforms import results
from lazyten.ir.node import Node, make, substitute
from lazyten.ir.ops import Op
from lazyten.storage import levels
from lazyten.storage.storage import new_leaf_id
from lazyten.support.errors import (
    ArgumentError,
    DeviceError,
    DTypeError,
    GradientError,
    KindError,
    ShapeError,
    StateError,
)
from lazyten.support.grad_mode import enable_grad


@dataclass(slots=True)
class _Duals:
    """What stands for the tensors with tangents of a level: their values and their tangents, both
    as graphs without these leaves."""

    values: dict[Node, Node] = field(default_factory=dict)
    tangents: dict[Node, Node] = field(default_factory=dict)
    entered: ExitStack = field(default_factory=ExitStack)


class _Here(local):
    duals: _Duals | None = None


_here = _Here()


class UnpackedDualTensor(NamedTuple):
    """The value of a tensor, and its tangent, or None."""

    primal: Tensor
    tangent: Tensor | None


def enter_dual_level() -> int:
    """Begin to follow tangents in this thread; gives the level's number, 0. `dual_level` is the
    block of it. StateError within another one."""
    if _here.duals is not None:
        raise StateError("dual_level within dual_level: tangents of tangents are not followed "
                         "here; lazyten.func.jvp of a function that calls jvp has them")
    _here.duals = duals = _Duals()
    entered = duals.entered.enter_context(levels.level("dual_level"))
    entered.first = 0  # what is from outside may be written to
    duals.entered.enter_context(enable_grad())
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """End that: what was computed has no tangents any more. StateError where it has not begun."""
    duals = _known(level, "exit_dual_level")
    _here.duals = None
    duals.entered.close()


class dual_level:
    """A block in which tangents are followed. Only there have tensors any; no_grad() changes
    nothing about that, inference_mode() does. A jitted function runs as Python in it."""

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *exc: object) -> None:
        exit_dual_level()


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """A tensor of the values of `tensor`, in memory of its own, that carries this tangent, alike in
    shape, type and device.

    It requires gradients, as all that is computed from it does, which lead nowhere else:
    unpack_dual gives values that do so only if `tensor` did. Raises StateError outside of
    dual_level, and errors for tensors that have no tangents and tangents that do not fit.
    """
    duals = _known(level, "make_dual")
    _check(tensor, tangent)
    value, moved = substitute([tensor.node, tangent.node], duals.values)
    leaf = make(Op.LEAF, tensor.dtype, (tensor.node,), new_leaf_id())
    duals.values[leaf], duals.tangents[leaf] = value, moved
    return standing_for(tensor, leaf)


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """The value of a tensor and its tangent: None if it depends on no tensor of make_dual's, or
    outside of dual_level; the tensor itself is the value then."""
    duals = _here.duals
    if level is not None:
        _known(level, "unpack_dual")
    if duals is None or not duals.tangents or isinstance(tensor, ComplexTensor) \
            or is_sparse(tensor):
        return UnpackedDualTensor(tensor, None)
    node = tensor.node
    slope, = jvp([node], duals.tangents)
    if slope is None:
        return UnpackedDualTensor(tensor, None)
    primal, tangent = results(substitute([node, slope], duals.values), [tensor.device] * 2)
    return UnpackedDualTensor(primal, tangent)


def _known(level: int | None, operation: str) -> _Duals:
    """The level under way."""
    if _here.duals is None:
        raise StateError(f"{operation}: no dual level was entered; do it within `with "
                         f"forward_ad.dual_level():`")
    if level not in (None, 0):
        raise ArgumentError(f"{operation}: level={level!r:.40}; there is one level, 0, at a time")
    return _here.duals


def _check(tensor: Any, tangent: Any) -> None:
    for name, x in (("tensor", tensor), ("tangent", tangent)):
        if not isinstance(x, Tensor) or isinstance(x, ComplexTensor) or is_sparse(x):
            raise KindError(f"make_dual: the {name} is {type(x).__name__} {x!r:.40}; tangents are "
                            f"followed of dense real tensors")
    if not tensor.dtype.is_float:
        raise GradientError(f"make_dual: the tensor is {tensor.dtype.name}, and only floats have "
                            f"tangents; convert it with .float()")
    if tensor.shape != tangent.shape:
        raise ShapeError(f"make_dual: the tensor has shape {tensor.shape}, its tangent "
                         f"{tangent.shape}; they must be equal")
    if tensor.dtype is not tangent.dtype:
        raise DTypeError(f"make_dual: the tensor is {tensor.dtype.name}, its tangent "
                         f"{tangent.dtype.name}; convert it with .to({tensor.dtype.name})")
    if tensor.device != tangent.device:
        raise DeviceError(f"make_dual: the tensor is on '{tensor.device}', its tangent on "
                          f"'{tangent.device}'; move it with .to()")
