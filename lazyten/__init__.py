"""lazyten: eager-looking tensors that compile themselves.

`import lazyten as lt` and use it as PyTorch: `lt.tensor`, `lt.nn`, `lt.optim`. Operations are
recorded; printing, `.numpy()`, `.item()` and `realize()` compute, in few fused kernels.
"""
from __future__ import annotations

from typing import TYPE_CHECKING
from typing import Any as _Any

from lazyten import nn, optim, testing
from lazyten.arguments import takes_tensors as _takes_tensors
from lazyten.device import Device
from lazyten.dtype import (
    DType,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    promote_types,
    uint8,
    uint16,
    uint32,
    uint64,
)
from lazyten.errors import (
    ArgumentError,
    CompileError,
    DeviceError,
    DTypeError,
    GradientError,
    IndexingError,
    InternalError,
    JitError,
    LazytenError,
    ShapeError,
    StateError,
)
from lazyten.functions import (
    arange,
    broadcast_tensors,
    cat,
    concat,
    empty,
    empty_like,
    explain,
    eye,
    from_numpy,
    full,
    full_like,
    grad,
    linspace,
    ones,
    ones_like,
    rand,
    rand_like,
    randint,
    randn,
    randn_like,
    randperm,
    realize,
    roll,
    stack,
    tensor,
    tril,
    triu,
    where,
    zeros,
    zeros_like,
)
from lazyten.grad_mode import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from lazyten.memory_use import empty_cache, memory_stats, reset_peak
from lazyten.random import Generator, manual_seed
from lazyten.tensor import Tensor
from lazyten.threads import get_num_threads, set_num_threads

if TYPE_CHECKING:
    from lazyten.jitted import jit
    from lazyten.serialization import load_safetensors, save_safetensors
    from lazyten.tuning import load_decisions, tune

__version__ = "0.1.0"

abs, add, argmax, argmin = Tensor.abs, Tensor.add, Tensor.argmax, Tensor.argmin
all, amax, amin, any = Tensor.all, Tensor.amax, Tensor.amin, Tensor.any
ceil, clamp, cos, cumsum, div = Tensor.ceil, Tensor.clamp, Tensor.cos, Tensor.cumsum, Tensor.div
dot, eq, erf, exp, exp2 = Tensor.dot, Tensor.eq, Tensor.erf, Tensor.exp, Tensor.exp2
expm1, flatten, flip, floor = Tensor.expm1, Tensor.flatten, Tensor.flip, Tensor.floor
gather, ge, gt, isfinite = Tensor.gather, Tensor.ge, Tensor.gt, Tensor.isfinite
index_add, index_copy = Tensor.index_add, Tensor.index_copy
index_select, masked_select = Tensor.index_select, Tensor.masked_select
isinf, isnan, le, log, log10 = Tensor.isinf, Tensor.isnan, Tensor.le, Tensor.log, Tensor.log10
log1p, log2, log_softmax = Tensor.log1p, Tensor.log2, Tensor.log_softmax
logsumexp, lt, matmul, max = Tensor.logsumexp, Tensor.lt, Tensor.matmul, Tensor.max
maximum, mean, min, minimum = Tensor.maximum, Tensor.mean, Tensor.min, Tensor.minimum
nonzero, scatter, scatter_add = Tensor.nonzero, Tensor.scatter, Tensor.scatter_add
scatter_reduce, take_along_dim = Tensor.scatter_reduce, Tensor.take_along_dim
mul, ne, neg, permute, pow = Tensor.mul, Tensor.ne, Tensor.neg, Tensor.permute, Tensor.pow
prod, reciprocal, relu = Tensor.prod, Tensor.reciprocal, Tensor.relu
remainder, reshape, round = Tensor.remainder, Tensor.reshape, Tensor.round
rsqrt, sigmoid, sign, sin = Tensor.rsqrt, Tensor.sigmoid, Tensor.sign, Tensor.sin
softmax, split, sqrt, square = Tensor.softmax, Tensor.split, Tensor.sqrt, Tensor.square
squeeze, std, sub, sum = Tensor.squeeze, Tensor.std, Tensor.sub, Tensor.sum
tan, tanh, transpose, trunc = Tensor.tan, Tensor.tanh, Tensor.transpose, Tensor.trunc
unbind, unsqueeze, var = Tensor.unbind, Tensor.unsqueeze, Tensor.var

for _name, _value in list(globals().items()):  # so that lt.exp(1.0) says what it needs
    if getattr(_value, "__qualname__", "").startswith("Tensor."):
        globals()[_name] = _takes_tensors(_value)



def __getattr__(name: str) -> _Any:
    """Loads what not every program uses when it is first asked for."""
    if name == "jit":
        from lazyten import jitted
        return jitted.jit
    if name in ("load_safetensors", "save_safetensors"):
        from lazyten import serialization
        return getattr(serialization, name)
    if name in ("load_decisions", "tune"):
        from lazyten import tuning
        return getattr(tuning, name)
    raise AttributeError(f"module 'lazyten' has no attribute {name!r}")


__all__ = [
    "ArgumentError",
    "CompileError",
    "DType",
    "DTypeError",
    "Device",
    "DeviceError",
    "Generator",
    "GradientError",
    "IndexingError",
    "InternalError",
    "JitError",
    "LazytenError",
    "ShapeError",
    "StateError",
    "Tensor",
    "__version__",
    "_takes_tensors",
    "abs",
    "add",
    "all",
    "amax",
    "amin",
    "any",
    "arange",
    "argmax",
    "argmin",
    "bfloat16",
    "bool_",
    "broadcast_tensors",
    "cat",
    "ceil",
    "clamp",
    "concat",
    "cos",
    "cumsum",
    "div",
    "dot",
    "empty",
    "empty_cache",
    "empty_like",
    "enable_grad",
    "eq",
    "erf",
    "exp",
    "exp2",
    "explain",
    "expm1",
    "eye",
    "flatten",
    "flip",
    "float16",
    "float32",
    "float64",
    "floor",
    "from_numpy",
    "full",
    "full_like",
    "gather",
    "ge",
    "get_num_threads",
    "grad",
    "gt",
    "index_add",
    "index_copy",
    "index_select",
    "int8",
    "int16",
    "int32",
    "int64",
    "is_grad_enabled",
    "isfinite",
    "isinf",
    "isnan",
    "jit",
    "le",
    "linspace",
    "load_decisions",
    "load_safetensors",
    "log",
    "log1p",
    "log2",
    "log10",
    "log_softmax",
    "logsumexp",
    "lt",
    "manual_seed",
    "masked_select",
    "matmul",
    "max",
    "maximum",
    "mean",
    "memory_stats",
    "min",
    "minimum",
    "mul",
    "ne",
    "neg",
    "nn",
    "no_grad",
    "nonzero",
    "ones",
    "ones_like",
    "optim",
    "permute",
    "pow",
    "prod",
    "promote_types",
    "rand",
    "rand_like",
    "randint",
    "randn",
    "randn_like",
    "randperm",
    "realize",
    "reciprocal",
    "relu",
    "remainder",
    "reset_peak",
    "reshape",
    "roll",
    "round",
    "rsqrt",
    "save_safetensors",
    "scatter",
    "scatter_add",
    "scatter_reduce",
    "set_grad_enabled",
    "set_num_threads",
    "sigmoid",
    "sign",
    "sin",
    "softmax",
    "split",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "std",
    "sub",
    "sum",
    "take_along_dim",
    "tan",
    "tanh",
    "tensor",
    "testing",
    "transpose",
    "tril",
    "triu",
    "trunc",
    "tune",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "unbind",
    "unsqueeze",
    "var",
    "where",
    "zeros",
    "zeros_like",
]
