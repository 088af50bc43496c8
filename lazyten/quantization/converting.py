"""`quantize`, and `prepare` and `convert` for models that train for it."""
from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from lazyten.frontend.functions import realize
from lazyten.ir.dtype import DType
from lazyten.nn.module import Module
from lazyten.quantization import layers, static, training
from lazyten.quantization.observers import Observer, observer_named
from lazyten.quantization.weights import Scheme
from lazyten.support.errors import ArgumentError, DTypeError
from lazyten.support.grad_mode import no_grad

BITS = {"int8": 8, "int4": 4}
Examples = Iterable[Any]


def quantize(model: Module, weights: str | DType = "int8", *, group_size: int | None = None,
             symmetric: bool = True, examples: Examples | None = None,
             observer: str | type[Observer] = "minmax", skip: Sequence[str] = ()) -> Module:
    """A copy of a model whose weights are integers, in eval() if there are examples.

    The weights of linear layers, convolutions (transposed ones, too) and embeddings become integers
    of 8 bits, or of 4, two to a byte ("int4"), with a scale for each output; the rest is as it was.
    group_size: so many elements along the inputs share a scale instead, and must divide their
    number. symmetric: False gives each scale a zero point, for weights that are not around 0.

    examples: batches of what the model is called with (a tuple: several arguments). The model is
    run on them, and from then on linear layers and convolutions round their inputs to 8 bits, too,
    and multiply integers; that is for symmetric int8 weights in one group. observer: what of the
    examples decides the range of an input: "minmax", "moving_average", "percentile", or a subclass
    of lazyten.quantization.Observer. skip: names of modules, as named_modules() has them, to leave
    as they are, with all below them.

    The model itself does not change. Raises ArgumentError where nothing is to be quantized, for
    names that are not in the model, groups that do not divide, and examples that miss a layer.
    """
    scheme = _scheme("quantize", weights, group_size, symmetric)
    make = observer_named(observer, "quantize")
    chosen = _chosen("quantize", model, skip)
    ranges: dict[str, Observer] = {}
    if examples is not None:
        _check_products("quantize", scheme)
        ranges = _observed(model, [n for n in chosen if static.has_integer_products(
            model.get_submodule(n))], make, examples)
    made = copy.deepcopy(model)
    with no_grad():
        for name in chosen:
            layer, where = made.get_submodule(name), _where("quantize", made, name)
            if name in ranges:
                static.multiply_integers(layer, scheme, ranges[name].limits(), where)
            else:
                layers.keep_as_integers(layer, scheme, where)
    return made if examples is None else made.eval()


def prepare(model: Module, weights: str | DType = "int8", *, group_size: int | None = None,
            symmetric: bool = True, inputs: bool = True,
            observer: str | type[Observer] = "moving_average", skip: Sequence[str] = ()) -> Module:
    """A copy of a model, in train(), that trains for quantization: it computes with what integers
    will leave of weights and, if `inputs`, of the inputs of linear layers and convolutions, in
    floats; gradients flow straight through. Train its parameters, and then `convert` it.

    Other arguments as of `quantize`. In training mode the observers follow the inputs; in eval()
    they stay as they are.
    """
    scheme = _scheme("prepare", weights, group_size, symmetric)
    make = observer_named(observer, "prepare")
    if inputs:
        _check_products("prepare", scheme)
    made = copy.deepcopy(model)
    for name in _chosen("prepare", made, skip):
        layer = made.get_submodule(name)
        follows = inputs and static.has_integer_products(layer)
        training.train_for(layer, scheme, make(next(layer.parameters()).device) if follows
                           else None, _where("prepare", made, name))
    return made.train()


def convert(model: Module) -> Module:
    """The quantized copy, in eval(), of a model that `prepare` gave and that was trained: what
    `quantize` makes, with the ranges of inputs that were found while training."""
    made = copy.deepcopy(model)
    found = [(name, scheme) for name, scheme in (
        (name, training.scheme_of(m)) for name, m in made.named_modules()) if scheme is not None]
    if not found:
        raise ArgumentError(f"convert of {type(model).__name__}: no layer of it trains for "
                            f"quantization; give what prepare(model) gave, or use quantize(model)")
    with no_grad():
        for name, scheme in found:
            layer, where = made.get_submodule(name), _where("convert", made, name)
            observer = training.trained(layer)
            if observer is None:
                layers.keep_as_integers(layer, scheme, where)
            elif observer.batches.item() == 0:
                raise ArgumentError(f"{where}: no input was observed; call the prepared model in "
                                    f"training mode first")
            else:
                static.multiply_integers(layer, scheme, observer.limits(), where)
    return made.eval()


def _scheme(operation: str, weights: str | DType, group_size: int | None,
            symmetric: bool) -> Scheme:
    name = weights.name if isinstance(weights, DType) else weights
    if not isinstance(name, str) or name not in BITS:
        raise DTypeError(f"{operation}: weights={weights!r:.40} is not one of {', '.join(BITS)}")
    if group_size is not None and (type(group_size) is not int or group_size < 1):
        raise ArgumentError(f"{operation}: group_size={group_size!r:.40} is not a whole number of "
                            f"1 or more, or None for one scale an output")
    if not isinstance(symmetric, bool):
        raise ArgumentError(f"{operation}: symmetric={symmetric!r:.40} is not True or False")
    return Scheme(BITS[name], group_size, symmetric)


def _check_products(operation: str, scheme: Scheme) -> None:
    if scheme != Scheme():
        remedy = "leave out examples" if operation == "quantize" else "give inputs=False"
        raise ArgumentError(f"{operation}: products of integers take symmetric int8 weights with "
                            f"one scale an output, not {scheme}; {remedy}, or the other options")


def _chosen(operation: str, model: Module, skip: Sequence[str]) -> list[str]:
    """The names of the layers to quantize, each layer once."""
    if not isinstance(model, Module):
        raise ArgumentError(f"{operation}: {type(model).__name__} {model!r:.40} is not a module")
    names = [skip] if isinstance(skip, str) else list(skip)
    known = dict(model.named_modules(remove_duplicate=False))
    for name in names:
        if name not in known:
            raise ArgumentError(f"{operation}: skip has {name!r}, which is none of the model's "
                                f"modules: {', '.join(filter(None, known)) or 'it has none'}")
    left = {id(m) for name in names for m in known[name].modules()}
    found = [name for name, m in model.named_modules()
             if layers.quantizable(m) and id(m) not in left]
    if not found:
        raise ArgumentError(f"{operation}: {type(model).__name__} has nothing to quantize: no "
                            f"linear layer, convolution or embedding with a weight of floats"
                            f"{' but what skip leaves out' if left else ''}")
    return found


def _where(operation: str, model: Module, name: str) -> str:
    layer = type(model.get_submodule(name)).__name__
    return f"{operation}: {name} ({layer})" if name else f"{operation} of {layer}"


def _observed(model: Module, names: Sequence[str], make: type[Observer],
              examples: Examples) -> dict[str, Observer]:
    """Observers of the inputs of these layers, after the model has run on the examples."""
    ranges = {n: make(next(model.get_submodule(n).parameters()).device) for n in names}

    def hook(observer: Observer) -> Callable[..., None]:
        return lambda layer, args: observer.observe(args[0])
    handles = [model.get_submodule(n).register_forward_pre_hook(hook(o)) for n, o in ranges.items()]
    modes = {m: m.training for m in model.modules()}
    count = 0
    try:
        model.eval()
        with no_grad():
            for batch in examples:
                model(*batch) if isinstance(batch, tuple | list) else model(batch)
                count += 1
                realize(*(end for o in ranges.values() for end in (o.low, o.high, o.batches)))
    finally:
        for handle in handles:
            handle.remove()
        for module, mode in modes.items():
            module.training = mode
    if not count:
        raise ArgumentError("quantize: there are no examples; give batches to run the model on")
    for name, observer in ranges.items():
        if observer.batches.item() == 0:
            raise ArgumentError(f"{_where('quantize', model, name)}: no example reached the layer; "
                                f"give examples that do, or leave it out with skip=[{name!r}]")
    return ranges
