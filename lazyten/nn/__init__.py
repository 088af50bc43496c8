"""Neural networks: modules with parameters, their layers, initial values and functions.

In: tensors. Out: tensors, and trees of parameters by name. `functional.py` names what functions/
and criteria/ define. This file offers what is here and in sequence/, so it is above both.

Files, in reading order:

- functional.py: Functions of tensors for neural networks, with PyTorch's names, arguments and
  results.
- parameter.py: `Parameter`: the tensor that a module trains, known by its class.
- attributes.py: The attributes of a module: which are parameters, buffers and modules, by name.
- module.py: `Module`: a tree of layers that knows its parameters by name.
- module_state.py: Saving and loading the state of modules: `state_dict` and `load_state_dict`.
- module_hooks.py: Hooks of a module: functions that are told of its calls, and of gradients on
  their way back.
- containers.py: Modules that hold others: in a row, in a list, by name.
- parameter_containers.py: Modules that hold parameters: in a list, by name.
- layers.py: Layers: modules with PyTorch's names, arguments and initial values.
- convolution_layers.py: Convolution layers, with PyTorch's names, arguments and initial values.
- loss_modules.py: Losses as modules.
- init.py: Initial values of parameters, written in place; each function gives the tensor back.
"""
from lazyten.nn import functional, init
from lazyten.nn.containers import ModuleDict, ModuleList, Sequential
from lazyten.nn.convolution_layers import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from lazyten.nn.layers import (
    GELU,
    AvgPool2d,
    Dropout,
    Embedding,
    Flatten,
    Identity,
    LayerNorm,
    Linear,
    LogSoftmax,
    MaxPool2d,
    ReLU,
    Sigmoid,
    SiLU,
    Softmax,
    Tanh,
)
from lazyten.nn.loss_modules import CrossEntropyLoss, MSELoss
from lazyten.nn.module import Module
from lazyten.nn.parameter import Parameter
from lazyten.nn.parameter_containers import ParameterDict, ParameterList
from lazyten.nn.sequence.attention import MultiheadAttention
from lazyten.nn.sequence.transformer import (
    Transformer,
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)

__all__ = [
    "GELU", "AvgPool2d", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d",
    "ConvTranspose3d", "CrossEntropyLoss", "Dropout", "Embedding", "Flatten", "Identity",
    "LayerNorm", "Linear", "LogSoftmax", "MSELoss", "MaxPool2d", "Module", "ModuleDict",
    "ModuleList", "MultiheadAttention", "Parameter", "ParameterDict", "ParameterList", "ReLU",
    "Sequential", "SiLU", "Sigmoid", "Softmax", "Tanh", "Transformer", "TransformerDecoder",
    "TransformerDecoderLayer", "TransformerEncoder", "TransformerEncoderLayer", "functional",
    "init",
]
