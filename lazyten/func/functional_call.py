"""Calling a module with other tensors in place of its parameters: a function of these."""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from lazyten.frontend.core.keywords import also_named, taking_aliases
from lazyten.frontend.functions import stack
from lazyten.frontend.tensor import Tensor
from lazyten.nn.attributes import replaced
from lazyten.nn.module import Module
from lazyten.nn.modules.batchnorm import _BatchNorm
from lazyten.support.errors import ArgumentError, DTypeError, StateError

Tensors = Mapping[str, Tensor]


@taking_aliases
@also_named(parameters_and_buffers="parameter_and_buffer_dicts")
def functional_call(module: Module, parameter_and_buffer_dicts: Tensors | Sequence[Tensors],
                    args: Any = None, kwargs: Mapping[str, Any] | None = None, *,
                    tie_weights: bool = True, strict: bool = False) -> Any:
    """module(*args, **kwargs) with some of its parameters and buffers replaced, by dotted name, in
    one dict or several.

    args: a tuple of arguments, or the only one. tie_weights: a tensor that has several names in
    the module is replaced under all of them. Names that it does not have are passed over. strict:
    the names are to be those of the module, all of them. The module itself stays as it is. Raises
    StateError for a name of a layer that the module does not have, one that is given twice, and
    those that `strict` misses, or does not know.
    """
    if not isinstance(module, Module):
        raise ArgumentError(f"functional_call of {type(module).__name__} {module!r:.40}: it calls "
                            f"a Module; give a layer or a model")
    with _reparametrize_module(module, _one_dict(parameter_and_buffer_dicts), tie_weights, strict):
        given = () if args is None else args if isinstance(args, tuple) else (args,)
        return module(*given, **(kwargs or {}))


@contextmanager
def _reparametrize_module(module: Module, parameters_and_buffers: Tensors,
                          tie_weights: bool = False, strict: bool = False) -> Iterator[None]:
    """Within this block a module has other tensors in place of some of its parameters and buffers;
    see functional_call."""
    tensors = dict(parameters_and_buffers)
    known = {n: t for named in (module.named_parameters, module.named_buffers)
             for n, t in named(remove_duplicate=False)}
    if tie_weights:
        new = {id(known[n]): t for n, t in tensors.items() if n in known}
        tensors = {n: new[id(t)] for n, t in known.items() if id(t) in new} | tensors
    left_out = known.keys() - tensors.keys() if strict else None
    if left_out:
        raise StateError(f"functional_call: strict, and {', '.join(sorted(left_out))} of "
                         f"{type(module).__name__} are not given")
    found = [_place(module, name, tensor, strict) for name, tensor in tensors.items()]
    places = [place for place in found if place is not None]
    with replaced(places):
        yield


def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The parameters of some modules, and their buffers, by name: of each name one tensor, with the
    modules along its first axis, for `vmap` over `functional_call`. ArgumentError unless they are
    of one class, and all train or none does."""
    models = list(models)
    if not models:
        raise ArgumentError("stack_module_state of no modules: give one or more")
    if len({(type(model), model.training) for model in models}) > 1:
        raise ArgumentError("stack_module_state: the modules must be of one class, and all in "
                            "train() or all in eval()")
    parameters = [dict(model.named_parameters()) for model in models]
    buffers = [dict(model.named_buffers()) for model in models]
    return ({name: _stacked([p[name] for p in parameters]) for name in parameters[0]},
            {name: _stacked([b[name] for b in buffers]) for name in buffers[0]})


def _stacked(tensors: Sequence[Tensor]) -> Tensor:
    """A leaf that requires gradients if they do."""
    if len({t.requires_grad for t in tensors}) > 1:
        raise ArgumentError("stack_module_state: a parameter requires gradients in some modules "
                            "and not in others; call requires_grad_() on all")
    joined: Tensor = stack([t.detach() for t in tensors])
    return joined.requires_grad_(tensors[0].requires_grad)


def _one_dict(given: Tensors | Sequence[Tensors]) -> dict[str, Tensor]:
    """One dict of tensors by name. DTypeError for what is none, StateError for a name twice."""
    whole: dict[str, Tensor] = {}
    for each in given if isinstance(given, list | tuple) else [given]:
        if not isinstance(each, Mapping):
            raise DTypeError(f"functional_call: the parameters are {type(each).__name__}, not a "
                             f"dict of tensors by name; use dict(module.named_parameters())")
        twice = whole.keys() & each.keys()
        if twice:
            raise StateError(f"functional_call: {min(twice)!r} is in two of the dicts")
        whole |= each
    return whole


def _place(module: Module, path: str, tensor: Any, strict: bool
           ) -> tuple[dict[str, Any], str, Tensor] | None:
    """The table that a dotted name is in, its last part, and the tensor to put there; None if the
    layer does not have it and need not."""
    if not isinstance(tensor, Tensor):
        raise DTypeError(f"functional_call: {path!r} is {type(tensor).__name__} {tensor!r:.40}, "
                         f"not a tensor; wrap it in lazyten.tensor()")
    *above, name = str(path).split(".")
    owner: Module | None = module
    for part in above:
        owner = None if owner is None else owner._modules.get(part)
    if owner is None:
        raise StateError(f"functional_call: {type(module).__name__} has no layer "
                         f"{'.'.join(above)!r} of {path!r}; it has "
                         f"{', '.join(n for n, _ in module.named_modules() if n) or 'none'}")
    if not (name in owner._parameters or name in owner._buffers):
        if not strict:
            return None
        known = [n for n, _ in (*module.named_parameters(), *module.named_buffers())]
        raise StateError(f"functional_call: {type(module).__name__} has no parameter or buffer "
                         f"{path!r}; it has {', '.join(known) or 'none'}")
    return owner._parameters if name in owner._parameters else owner._buffers, name, tensor


def replace_all_batch_norm_modules_(root: Module) -> Module:
    """Let all batch normalizations in `root` use the statistics of each batch alone, as what vmap
    maps over cannot keep running ones; gives the module."""
    for module in root.modules():
        if isinstance(module, _BatchNorm) and module.track_running_stats:
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root
