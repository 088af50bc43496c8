"""`quantize_dynamic`: linear layers with integers as weights, chosen in PyTorch's way."""
from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from typing import Any

from lazyten.nn import Linear, Module
from lazyten.quantization import layers
from lazyten.quantization.weights import Scheme
from lazyten.support.errors import ArgumentError, DTypeError
from lazyten.support.grad_mode import no_grad

default_dynamic_qconfig = per_channel_dynamic_qconfig = "int8"
"""How `quantize_dynamic` keeps weights: what PyTorch's descriptions of that name come to here."""


def quantize_dynamic(model: Module, qconfig_spec: Collection[Any] | Mapping[Any, Any] | None = None,
                     dtype: Any = None, mapping: Any = None, inplace: bool = False) -> Module:
    """A copy of a model, in eval(), whose linear layers have weights of 8 bits, with a scale for
    each output.

    qconfig_spec: classes or names of modules, as a set or as the keys of a dict, which are chosen
    with all linear layers below them, or not if the dict says None of them; a name goes before a
    class, and either before what is said of modules above; all if None. Recurrent layers, which
    PyTorch knows here too, and all others stay as they are. Inputs stay floats: results are nearer
    to the model's than PyTorch's, which rounds each input to 8 bits. dtype: qint8 or None; inplace:
    change the model itself. ArgumentError for other types.
    """
    if not isinstance(model, Module):
        raise DTypeError(f"quantize_dynamic: {type(model).__name__} {model!r:.60} is not a module; "
                         f"give the model")
    if dtype is not None and getattr(dtype, "name", dtype) not in ("qint8", "int8"):
        raise ArgumentError(f"quantize_dynamic: dtype={dtype!r}; weights become integers of 8 "
                            f"bits, qint8; model.to(lazyten.float16) has those of 16 bits")
    made = model if inplace else copy.deepcopy(model)
    spec: dict[Any, Any] = {Linear: True} if qconfig_spec is None else dict(qconfig_spec) \
        if isinstance(qconfig_spec, Mapping) else dict.fromkeys(qconfig_spec, True)
    chosen: dict[str, Any] = {}
    with no_grad():
        for name, layer in list(made.named_modules()):
            above = chosen.get(name.rpartition(".")[0])
            chosen[name] = spec.get(name, spec.get(type(layer), above))
            if type(layer) is Linear and chosen[name] is not None:
                layers.keep_as_integers(layer, Scheme(), f"quantize_dynamic: {name}")
    return made.eval()
