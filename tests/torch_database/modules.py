"""PyTorch's database of modules beside lazyten: texts, states, outputs and gradients of each."""
from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import torch

import lazyten as lt
from torch_database.comparison import Different, same
from torch_database.translation import tensors, translated

REFUSED = {
    "CrossMapLRN2d": "PyTorch's gradients are of other sums",
    "FractionalMaxPool3d": "PyTorch takes random samples of another shape without a batch",
}
"""What is not compared, and why."""

BY_CHANCE = {"AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d",
             "FeatureAlphaDropout", "RReLU"}
"""What draws numbers while it trains: of results then shapes and types are compared."""

@cache
def modules() -> dict[str, Any]:
    """The entries of classes that lazyten has, by name."""
    from torch.testing._internal.common_modules import module_db
    return {info.module_cls.__name__: info for info in module_db if info.name.startswith("nn.")
            and info.module_cls.__name__ not in REFUSED}


@contextmanager
def float64() -> Iterator[None]:
    """Modules are made with parameters of float64."""
    torch.set_default_dtype(torch.float64)
    lt.set_default_dtype(lt.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)
        lt.set_default_dtype(lt.float32)


def differences(name: str, most: int = 3) -> list[str]:
    """What differs in `most` of an entry's samples, chosen evenly, training and not."""
    info, found = modules()[name], []
    for training in (True, False) if info.train_and_eval_differ else (True,):
        torch.manual_seed(0)
        samples = [s for s in info.module_inputs_func(
            info, device="cpu", dtype=torch.float64, requires_grad=True, training=training)
            if s.forward_input is not None]
        step = max(1, -(-len(samples) // most))
        for number, sample in enumerate(samples[::step]):
            try:
                with float64():
                    _compare(info.module_cls, sample, training)
            except (Different, lt.LazytenError) as error:
                found.append(f"{name}, sample {number * step}, training {training}: {error}")
    return found


def accepted(name: str) -> list[str]:
    """What lazyten takes of an entry's samples that are mistakes, and PyTorch does not."""
    info, found = modules()[name], []
    for training in (True, False):
        for number, sample in enumerate(info.module_error_inputs_func(
                info, device="cpu", dtype=torch.float32, requires_grad=False, training=training)
                if info.module_error_inputs_func else ()):
            made, given = sample.module_error_input.constructor_input, \
                sample.module_error_input.forward_input
            if _fails(info.module_cls, training, made, given, lambda x: x) and not _fails(
                    getattr(lt.nn, name), training, made, given, _ours):
                found.append(f"{name}, mistake {number}: {sample.error_regex}")
    return found


def _fails(module: Any, training: bool, made: Any, given: Any,
           turned: Callable[[Any], Any]) -> bool:
    try:
        layer = module(*turned(made.args), **turned(made.kwargs)).train(training)
        result = layer(*turned(given.args), **turned(given.kwargs)) if given else None
        for x in tensors(result):
            x.tolist()
    except lt.LazytenError:
        return True
    except Exception:
        if module.__module__.startswith("torch"):
            return True
        raise
    return False


def _ours(given: Any, leaves: list[Any] | None = None) -> Any:
    """Arguments for lazyten: functions, sequences that are packed, and what `translated` knows."""
    leaves = [] if leaves is None else leaves
    if isinstance(given, types.FunctionType | types.BuiltinFunctionType):
        return getattr(lt.nn.functional, given.__name__, None) or getattr(lt, given.__name__)
    if isinstance(given, torch.nn.TransformerEncoderLayer):
        return _encoder_layer(given)
    if isinstance(given, torch.nn.utils.rnn.PackedSequence):
        return lt.nn.utils.rnn.PackedSequence(*[_ours(x, leaves) for x in given])
    if isinstance(given, dict):
        return {name: _ours(x, leaves) for name, x in given.items()}
    if type(given) in (list, tuple):
        return type(given)(_ours(x, leaves) for x in given)
    return translated(given, leaves)


def _encoder_layer(given: Any) -> Any:
    """lazyten's layer with the options and the weights of PyTorch's."""
    attention = given.self_attn
    made = lt.nn.TransformerEncoderLayer(
        attention.embed_dim, attention.num_heads, given.linear1.out_features, given.dropout.p,
        _ours(given.activation), given.norm1.eps, attention.batch_first, given.norm_first,
        given.linear1.bias is not None)
    made.load_state_dict(_ours(dict(given.state_dict())))
    return made.train(given.training)


def _compare(module: Any, sample: Any, training: bool) -> None:
    """Raises Different unless lazyten's module is, and does, what PyTorch's is and does."""
    made, (inputs, options) = sample.constructor_input, _as_leaves(
        [sample.forward_input.args, sample.forward_input.kwargs])
    theirs = module(*made.args, **made.kwargs).train(training)
    mine = getattr(lt.nn, module.__name__)(*_ours(made.args), **_ours(made.kwargs)).train(training)
    leaves: list[Any] = []
    args, named = _ours(inputs, leaves), _ours(options, leaves)
    if hasattr(theirs, "initialize_parameters"):
        theirs(*inputs, **options)
        mine(*args, **named)
    _same_state(mine, theirs)
    mine.load_state_dict(_ours(dict(theirs.state_dict())))
    result, expected = mine(*args, **named), theirs(*inputs, **options)
    if training and module.__name__ in BY_CHANCE:
        same([lt.zeros_like(x) for x in tensors(result)],
             [torch.zeros_like(x) for x in tensors(expected)])
        return
    same(list(_parts(result)), list(_parts(expected)))
    same(list(mine.state_dict().values()), list(theirs.state_dict().values()))
    wanted = [x for x in tensors([inputs, options]) if x.requires_grad]
    same(_gradients(lt, result, [*leaves, *mine.parameters()]),
         _gradients(torch, expected, [*wanted, *theirs.parameters()]))


def _as_leaves(given: Any) -> Any:
    """The same arguments, in which each tensor collects a gradient of its own."""
    if isinstance(given, torch.Tensor):
        return given.detach().clone().requires_grad_(given.requires_grad)
    if isinstance(given, dict):
        return {name: _as_leaves(x) for name, x in given.items()}
    return type(given)(map(_as_leaves, given)) if type(given) in (list, tuple) else given


def _same_state(mine: Any, theirs: Any) -> None:
    for what, a, b in (("prints", repr(mine), repr(theirs)),
                       ("has", list(mine.state_dict()), list(theirs.state_dict())),
                       ("trains", *([n for n, _ in m.named_parameters()] for m in (mine, theirs)))):
        if a != b:
            raise Different(f"{what} {a}, not {b}")


def _parts(result: Any) -> Iterator[Any]:
    """The tensors of a result, of which a packed sequence is one."""
    if hasattr(result, "batch_sizes"):
        yield result.data
    elif isinstance(result, list | tuple):
        for part in result:
            yield from _parts(part)
    elif result is not None:
        yield result


def _gradients(library: Any, result: Any, leaves: list[Any]) -> list[Any]:
    """Those of a sum in which each element counts differently."""
    total: Any = 0
    for x in _parts(result):
        if x.requires_grad:
            weight = np.random.default_rng(9).uniform(0.5, 1.5, tuple(x.shape))
            total = total + (x * library.tensor(weight).to(x.dtype)).sum()
    if not isinstance(total, int):
        total.backward()
    return [library.zeros_like(x) if x.grad is None else x.grad for x in leaves]
