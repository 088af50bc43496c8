"""Parametrizations: a module's tensor as a function of parameters, under PyTorch's names.

`module.weight` becomes f(module.parametrizations.weight.original), computed whenever it is asked
for; what trains is the original.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from lazyten.frontend.tensor import Tensor
from lazyten.nn.containers import ModuleDict, ModuleList
from lazyten.nn.module import Module
from lazyten.nn.parameter import Parameter
from lazyten.nn.utils import computed
from lazyten.support.errors import (
    ArgumentError,
    AttributeNameError,
    DTypeError,
    NotWrittenError,
    ShapeError,
)
from lazyten.support.grad_mode import no_grad

_cache: dict[tuple[int, str], Any] = {}
_cached = 0


@contextmanager
def cached() -> Iterator[None]:
    """Inside, a parametrized tensor is computed once and then remembered."""
    global _cached
    _cached += 1
    try:
        yield
    finally:
        _cached -= 1
        if not _cached:
            _cache.clear()


class ParametrizationList(ModuleList):
    """The parametrizations of a tensor, in order, with what the first is applied to: `original`, or
    `original0`, `original1`, .. where its right_inverse() gives several tensors."""

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        super().__init__(modules)
        self.unsafe = unsafe
        with no_grad():
            new = self._inverted(original.detach(), True)
        self.is_tensor = isinstance(new, Tensor)
        if self.is_tensor:
            self.ntensors = 1
            self._register_original("original", original, new)
        else:
            self.ntensors = len(new)
            for number, value in enumerate(new):
                self._register_original(f"original{number}", original, value, fresh=True)
        if not unsafe:
            with no_grad():
                _check_result(original, self())

    def _register_original(self, name: str, original: Tensor, value: Tensor,
                           fresh: bool = False) -> None:
        """A parameter if the tensor was one, else a buffer. One tensor keeps its identity, so that
        an optimizer that has it trains it."""
        if not isinstance(original, Parameter):
            self.register_buffer(name, value)
        elif fresh:
            self.register_parameter(name, Parameter(value, original.requires_grad))
        else:
            if value is not original and not self.unsafe and value.shape != original.shape:
                raise ShapeError(f"register_parametrization: right_inverse() gives shape "
                                 f"{value.shape} for {original.shape}; with unsafe=True it may")
            with no_grad():
                original.data = value
            self.register_parameter(name, original)

    def _inverted(self, value: Any, or_kept: bool = False) -> Any:
        """What right_inverse() of each gives, from the last to the first; or_kept: one that has
        none, or whose NotImplementedError says so, leaves the value as it is."""
        for module in reversed(list(self)):
            inverse = getattr(module, "right_inverse", None)
            if inverse is None and not or_kept:
                name = type(module).__name__
                raise NotWrittenError(f"assigning to a parametrized tensor: {name} has no "
                                      f"right_inverse(); add a method right_inverse(self, value), "
                                      f"or write to .parametrizations[name].original")
            try:
                value = value if inverse is None else inverse(value)
            except NotImplementedError:
                if not or_kept:
                    raise
        return value

    def _originals(self) -> list[Tensor]:
        names = ["original"] if self.is_tensor else [f"original{i}" for i in range(self.ntensors)]
        return [getattr(self, name) for name in names]

    def right_inverse(self, value: Tensor) -> None:
        """Set the originals so that the tensor becomes `value`, if right_inverse() of each
        parametrization is what its name says."""
        with no_grad():
            new = self._inverted(value)
            for original, part in zip(self._originals(), [new] if self.is_tensor else new,
                                      strict=True):
                original.copy_(part)

    def forward(self) -> Any:
        modules = iter(self)
        value = next(modules)(*self._originals())
        for module in modules:
            value = module(value)
        return value


def _check_result(before: Tensor, after: Any) -> None:
    """ShapeError unless the result of a parametrization may stand for the tensor."""
    if not isinstance(after, Tensor) or (after.shape, after.dtype) != (before.shape, before.dtype):
        given = f"shape {tuple(after.shape)} and type {after.dtype.name}" if isinstance(
            after, Tensor) else type(after).__name__
        raise ShapeError(f"register_parametrization: the parametrization gives {given} for a "
                         f"tensor of shape {tuple(before.shape)} and type {before.dtype.name}; "
                         f"with unsafe=True it may")


def register_parametrization(module: Module, tensor_name: str, parametrization: Module, *,
                             unsafe: bool = False) -> Module:
    """Have module.tensor_name be parametrization(original), on top of the parametrizations that it
    has; gives the module. right_inverse(value) of the first one, if it has it, gives the original.

    unsafe: the result may be of another shape or type; nothing is tried out.
    """
    if not isinstance(parametrization, Module):
        raise DTypeError(f"register_parametrization of {tensor_name!r}: "
                         f"{type(parametrization).__name__} {parametrization!r:.60} is not a "
                         f"module; give one whose forward() makes the value of the original")
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        held: Any = module.parametrizations[tensor_name]
        if not unsafe:
            with no_grad():
                before = getattr(module, tensor_name)
                _check_result(before, parametrization(before))
        held.unsafe = held.unsafe or unsafe
        held.append(parametrization)
        return module
    tensor = module._parameters.get(tensor_name, module._buffers.get(tensor_name))
    if tensor is None:
        raise ArgumentError(f"register_parametrization: {type(module).__name__} has no parameter "
                            f"or buffer {tensor_name!r}")
    name = tensor_name
    held = ParametrizationList([parametrization], tensor, unsafe)
    computed.compute(module, name, lambda self: _value(self, name),
                     lambda self, value: self.parametrizations[name].right_inverse(value),
                     "Parametrized")
    if "parametrizations" not in module._modules:
        module.parametrizations = ModuleDict()
    module.parametrizations[name] = held
    return module


def _value(module: Any, name: str) -> Any:
    if not _cached:
        return module.parametrizations[name]()
    key = id(module), name
    if key not in _cache:
        _cache[key] = module.parametrizations[name]()
    return _cache[key]


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a tensor of the module, or any, has a parametrization."""
    held = module._modules.get("parametrizations")
    if not isinstance(held, ModuleDict):
        return False
    return len(held) > 0 if tensor_name is None else tensor_name in held


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True
                            ) -> Module:
    """Take all parametrizations of a tensor away; gives the module. The tensor keeps its value of
    now, or, unless leave_parametrized, becomes the original again."""
    if not is_parametrized(module, tensor_name):
        raise AttributeNameError(f"remove_parametrizations: {type(module).__name__} has no "
                                 f"parametrization of {tensor_name!r}")
    held: Any = module.parametrizations[tensor_name]
    originals = held._originals()
    if not leave_parametrized and not held.is_tensor:
        raise ArgumentError(f"remove_parametrizations: {tensor_name!r} is made of "
                            f"{held.ntensors} tensors, so there is no original to go back to; "
                            f"leave_parametrized must be True")
    first = originals[0]
    result = first
    if leave_parametrized:
        with no_grad():
            value = getattr(module, tensor_name).detach().clone()
        if not held.is_tensor:
            result = Parameter(value, first.requires_grad) if isinstance(first, Parameter) \
                else value
        else:
            with no_grad():
                result.data = value
    computed.keep(module, tensor_name)
    del module.parametrizations[tensor_name]
    if not len(module.parametrizations):
        del module.parametrizations
    if isinstance(result, Parameter):
        module.register_parameter(tensor_name, result)
    else:
        module.register_buffer(tensor_name, result)
    return module


def type_before_parametrizations(module: Module) -> type[Module]:
    """The module's class without its parametrizations."""
    return computed.class_before(module)


def transfer_parametrizations_and_params(from_module: Module, to_module: Module,
                                         tensor_name: str | None = None) -> Module:
    """Have to_module's tensors, or the one of this name, be parametrized as from_module's, by the
    same modules and with the same originals; what it lacks of them becomes a parameter. Gives
    to_module."""
    if not is_parametrized(from_module):
        return to_module
    given: Any = from_module.parametrizations
    if tensor_name is not None and tensor_name not in given:
        raise ArgumentError(f"transfer_parametrizations_and_params: {tensor_name!r} of "
                            f"{type(from_module).__name__} has no parametrization; there are "
                            f"those of {', '.join(given)}")
    for name in list(given) if tensor_name is None else [tensor_name]:
        held = given[name]
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name)))
        for parametrization in held:
            register_parametrization(to_module, name, parametrization, unsafe=held.unsafe)
        there: Any = to_module.parametrizations
        for kind in ("_parameters", "_buffers"):
            for original, tensor in getattr(held, kind).items():
                setattr(there[name], original, tensor)
    return to_module
