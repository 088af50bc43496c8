"""Neural networks: modules with parameters, their layers, initial values and functions.

In: tensors. Out: tensors, and trees of parameters by name. `functional.py` names what functions/
and criteria/ define, and this file what modules/, sequence/, utils/ and parallel/ do, so it is
above them.

Files, in reading order:

- functional.py: Functions of tensors for neural networks, with PyTorch's names, arguments and
  results.
- parameter.py: `Parameter`: the tensor that a module trains, known by its class.
- sharded_parameter.py: What one rank of several has of a parameter: `ShardedParameter`, a row of
  its elements, and `SplitParameter`, an interval of one axis.
- attributes.py: The attributes of a module: which are parameters, buffers and modules, by name.
- module.py: `Module`: a tree of layers that knows its parameters by name.
- module_state.py: Saving and loading the state of modules: `state_dict` and `load_state_dict`.
- module_hooks.py: Hooks of a module: functions that are told of its calls, and of gradients on
  their way back.
- containers.py: Modules that hold others: in a row, in a list, by name.
- parameter_containers.py: Modules that hold parameters: in a list, by name.
- tuples.py: Sizes as tuples, for layers of one's own.
- init.py: Initial values of parameters, written in place; each function gives the tensor back.
- native.py: Functions of `lazyten` that PyTorch has beside those of nn.functional, with arguments
  in an order of their own.
- grad.py: `lazyten.nn.grad`: the gradients of convolutions as functions, under PyTorch's names.
"""
import typing as _typing
from importlib import import_module as _import_module

from lazyten.nn import functional, init, modules
from lazyten.nn.containers import ModuleDict, ModuleList, Sequential
from lazyten.nn.module import Module
from lazyten.nn.modules import *  # noqa: F403
from lazyten.nn.parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter
from lazyten.nn.parameter_containers import ParameterDict, ParameterList
from lazyten.pytorch.modules import later as _later
from lazyten.support.forking import undivided as _undivided

if _typing.TYPE_CHECKING:
    from lazyten.nn import attention, parallel, utils
    from lazyten.nn.parallel import DataParallel
    from lazyten.nn.parallel.sync_batch_norm import SyncBatchNorm
    from lazyten.nn.sequence.attention import MultiheadAttention
    from lazyten.nn.sequence.cells import GRUCell, LSTMCell, RNNCell, RNNCellBase
    from lazyten.nn.sequence.recurrent import GRU, LSTM, RNN, RNNBase
    from lazyten.nn.sequence.transformer import (
        Transformer,
        TransformerDecoder,
        TransformerDecoderLayer,
        TransformerEncoder,
        TransformerEncoderLayer,
    )

_LATER = {"DataParallel": "parallel", "SyncBatchNorm": "parallel.sync_batch_norm",
    "MultiheadAttention": "sequence.attention", **dict.fromkeys(
    ("GRUCell", "LSTMCell", "RNNCell", "RNNCellBase"), "sequence.cells"), **dict.fromkeys(
    ("GRU", "LSTM", "RNN", "RNNBase"), "sequence.recurrent"), **dict.fromkeys(
    ("Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder",
     "TransformerEncoderLayer"), "sequence.transformer")}
"""Where to find what not every program uses."""
_LATER_MODULES = ("attention", "parallel", "utils")
_elsewhere = _later("lazyten.nn", "grad")


@_undivided
def __getattr__(name: str) -> _typing.Any:
    """Loads what not every program uses."""
    if name in _LATER_MODULES:
        return _import_module(f"lazyten.nn.{name}")
    if name in _LATER:
        return getattr(_import_module(f"lazyten.nn.{_LATER[name]}"), name)
    return _elsewhere(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER, *_LATER_MODULES})


__all__ = [
    "GRU", "LSTM", "RNN", "Buffer", "DataParallel", "GRUCell", "LSTMCell", "Module", "ModuleDict",
    "ModuleList", "MultiheadAttention", "Parameter", "ParameterDict", "ParameterList", "RNNBase",
    "RNNCell", "RNNCellBase", "Sequential", "SyncBatchNorm", "Transformer", "TransformerDecoder",
    "TransformerDecoderLayer", "TransformerEncoder", "TransformerEncoderLayer",
    "UninitializedBuffer", "UninitializedParameter", "attention",
    "functional", "init", "modules", "parallel", "utils",
]
__all__ += modules.__all__
