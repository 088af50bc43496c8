"""Neural networks: modules with parameters, their layers, initial values and functions."""
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
from lazyten.nn.losses import CrossEntropyLoss, MSELoss
from lazyten.nn.module import Module
from lazyten.nn.parameter import Parameter
from lazyten.nn.parameter_containers import ParameterDict, ParameterList

__all__ = [
    "GELU", "AvgPool2d", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d",
    "ConvTranspose3d", "CrossEntropyLoss", "Dropout", "Embedding", "Flatten", "Identity",
    "LayerNorm", "Linear", "LogSoftmax", "MSELoss", "MaxPool2d", "Module", "ModuleDict",
    "ModuleList", "Parameter", "ParameterDict", "ParameterList", "ReLU", "Sequential", "SiLU",
    "Sigmoid", "Softmax", "Tanh", "functional", "init",
]
