"""`functorch`: transforms of functions under the names that they had before `torch.func`, and
modules as functions of tuples of parameters, for programs that import it."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any

from lazyten.frontend.tensor import Tensor
from lazyten.func import functional_call, stack_module_state
from lazyten.func import grad as grad
from lazyten.func import grad_and_value as grad_and_value
from lazyten.func import hessian as hessian
from lazyten.func import jacfwd as jacfwd
from lazyten.func import jacrev as jacrev
from lazyten.func import jvp as jvp
from lazyten.func import vjp as vjp
from lazyten.func import vmap as vmap
from lazyten.nn.module import Module
from lazyten.support.errors import ArgumentError

Tensors = tuple[Tensor, ...]
Function = Callable[..., Any]


def make_functional(model: Module, disable_autograd_tracking: bool = False
                    ) -> tuple[Function, Tensors]:
    """(f, parameters): f(parameters, *args, **kwargs) is what a copy of the module gives with
    these. disable_autograd_tracking: the parameters require no gradients. ArgumentError for a
    module with buffers."""
    if next(iter(model.buffers()), None) is not None:
        raise ArgumentError("make_functional: the module has buffers; use "
                            "make_functional_with_buffers")
    function, parameters, _ = make_functional_with_buffers(model, disable_autograd_tracking)
    return lambda params, *args, **kwargs: function(params, (), *args, **kwargs), parameters


def make_functional_with_buffers(model: Module, disable_autograd_tracking: bool = False
                                 ) -> tuple[Function, Tensors, Tensors]:
    """(f, parameters, buffers): f(parameters, buffers, *args, **kwargs) is what a copy of the
    module gives with these."""
    copied = deepcopy(model)
    if disable_autograd_tracking:
        copied.requires_grad_(False)
    return (_of_values(copied), tuple(copied.parameters()), tuple(copied.buffers()))


def combine_state_for_ensemble(models: Sequence[Module]) -> tuple[Function, Tensors, Tensors]:
    """The same of modules alike, with their parameters and buffers along a first axis, for
    `vmap`."""
    params, buffers = stack_module_state(models)
    stacked, kept = (tuple([x.detach() for x in each.values()]) for each in (params, buffers))
    return _of_values(deepcopy(models[0])), stacked, kept


def _of_values(model: Module) -> Function:
    """The module as a function of the values of its parameters and buffers."""
    names = [[name for name, _ in each] for each in (model.named_parameters(),
                                                      model.named_buffers())]

    def function(params: Tensors, buffers: Tensors, *args: Any, **kwargs: Any) -> Any:
        given = [dict(zip(known, values, strict=True)) for known, values in zip(
            names, (params, buffers), strict=True)]
        return functional_call(model, given, args, kwargs)
    return function
