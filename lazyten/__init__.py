"""lazyten: eager-looking tensors that compile themselves.

`import lazyten as lt` and use it as PyTorch: `lt.tensor`, `lt.nn`, `lt.optim`. Operations are
recorded; printing, `.numpy()`, `.item()` and `realize()` compute, in few fused kernels.
"""
from __future__ import annotations

import math as _math
from importlib import import_module as _import_module
from typing import TYPE_CHECKING
from typing import Any as _Any

from lazyten import nn, optim
from lazyten.autograd.checkpointing import checkpoint
from lazyten.frontend.arguments import takes_tensors as _takes_tensors
from lazyten.frontend.array_functions import (
    atleast_1d,
    atleast_2d,
    atleast_3d,
    block_diag,
    broadcast_shapes,
    cartesian_prod,
    column_stack,
    combinations,
    concatenate,
    cumulative_trapezoid,
    is_tensor,
    logspace,
    numel,
    row_stack,
    trapezoid,
    trapz,
    tril_indices,
    triu_indices,
    unravel_index,
    vander,
)
from lazyten.frontend.functions import (
    arange,
    broadcast_tensors,
    bucketize,
    cat,
    concat,
    dstack,
    einsum,
    empty,
    empty_like,
    explain,
    eye,
    full,
    full_like,
    hstack,
    isin,
    linspace,
    meshgrid,
    ones,
    ones_like,
    realize,
    searchsorted,
    stack,
    tensor,
    vstack,
    where,
    zeros,
    zeros_like,
)
from lazyten.frontend.interop import as_tensor, asarray, from_dlpack, from_numpy, frombuffer
from lazyten.frontend.limits import (
    can_cast,
    finfo,
    get_default_dtype,
    iinfo,
    result_type,
    set_default_dtype,
)
from lazyten.frontend.memory_format import (
    channels_last,
    channels_last_3d,
    contiguous_format,
    preserve_format,
)
from lazyten.frontend.mixed_precision import autocast, is_autocast_enabled
from lazyten.frontend.printing import set_printoptions
from lazyten.frontend.random_functions import (
    normal,
    rand,
    rand_like,
    randint,
    randint_like,
    randn,
    randn_like,
    randperm,
)
from lazyten.frontend.settings import (
    are_deterministic_algorithms_enabled,
    get_num_interop_threads,
    set_flush_denormal,
    set_num_interop_threads,
    use_deterministic_algorithms,
)
from lazyten.frontend.size import Size
from lazyten.frontend.tensor import Tensor
from lazyten.frontend.tensor_types import (
    BFloat16Tensor,
    BoolTensor,
    ByteTensor,
    CharTensor,
    DoubleTensor,
    FloatTensor,
    HalfTensor,
    IntTensor,
    LongTensor,
    ShortTensor,
)
from lazyten.ir.dtype import (
    DType,
    bfloat16,
    bool_,
    float8_e4m3fn,
    float8_e5m2,
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
from lazyten.random import (
    Generator,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)
from lazyten.storage.memory_use import empty_cache, memory_stats, reset_peak
from lazyten.storage.placement import Device, set_default_device
from lazyten.storage.placement import default_device as get_default_device
from lazyten.support.check_mode import check
from lazyten.support.errors import (
    ArgumentError,
    AttributeNameError,
    CheckError,
    CompileError,
    DeviceError,
    DTypeError,
    GradientError,
    IndexingError,
    InternalError,
    JitError,
    LazytenError,
    ModuleAttributeError,
    ShapeError,
    StateError,
    TransformError,
)
from lazyten.support.forking import undivided as _undivided
from lazyten.support.grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    no_grad,
    set_grad_enabled,
)
from lazyten.support.launch_dump import dump_kernels
from lazyten.support.matmul_precision import (
    get_float32_matmul_precision,
    set_float32_matmul_precision,
)
from lazyten.support.threads import get_num_threads, set_num_threads

if TYPE_CHECKING:
    from lazyten import amp, autograd, backends, cuda, func, testing
    from lazyten.autograd import grad
    from lazyten.capture.jitted import jit
    from lazyten.frontend.saving import load, save
    from lazyten.frontend.serialization import load_safetensors, save_safetensors
    from lazyten.func import vmap
    from lazyten.tuning.tuning import load_decisions, tune

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
absolute, acos, acosh, addcdiv = Tensor.absolute, Tensor.acos, Tensor.acosh, Tensor.addcdiv
addcmul, addmm, addmv, allclose = Tensor.addcmul, Tensor.addmm, Tensor.addmv, Tensor.allclose
aminmax, arccos, arccosh, arcsin = Tensor.aminmax, Tensor.arccos, Tensor.arccosh, Tensor.arcsin
arcsinh, arctan, arctan2, arctanh = Tensor.arcsinh, Tensor.arctan, Tensor.arctan2, Tensor.arctanh
argsort, asin, asinh, as_strided = Tensor.argsort, Tensor.asin, Tensor.asinh, Tensor.as_strided
atan, atan2, atanh, baddbmm = Tensor.atan, Tensor.atan2, Tensor.atanh, Tensor.baddbmm
bincount, bitwise_and = Tensor.bincount, Tensor.bitwise_and
bitwise_left_shift, bitwise_not = Tensor.bitwise_left_shift, Tensor.bitwise_not
bitwise_or, bitwise_right_shift = Tensor.bitwise_or, Tensor.bitwise_right_shift
bitwise_xor, bmm, broadcast_to = Tensor.bitwise_xor, Tensor.bmm, Tensor.broadcast_to
chunk, clamp_max, clamp_min, clip = Tensor.chunk, Tensor.clamp_max, Tensor.clamp_min, Tensor.clip
clone, copysign, cosh = Tensor.clone, Tensor.copysign, Tensor.cosh
count_nonzero, cross, cummax = Tensor.count_nonzero, Tensor.cross, Tensor.cummax
cummin, cumprod, deg2rad, diag = Tensor.cummin, Tensor.cumprod, Tensor.deg2rad, Tensor.diag
diag_embed, diagonal, diff, divide = Tensor.diag_embed, Tensor.diagonal, Tensor.diff, Tensor.divide
dsplit, equal, fix, fliplr = Tensor.dsplit, Tensor.equal, Tensor.fix, Tensor.fliplr
flipud, floor_divide, fmax, fmin = Tensor.flipud, Tensor.floor_divide, Tensor.fmax, Tensor.fmin
fmod, frac, ger, greater = Tensor.fmod, Tensor.frac, Tensor.ger, Tensor.greater
greater_equal, heaviside, hsplit = Tensor.greater_equal, Tensor.heaviside, Tensor.hsplit
hypot, index_fill, inner = Tensor.hypot, Tensor.index_fill, Tensor.inner
is_complex, is_floating_point = Tensor.is_complex, Tensor.is_floating_point
is_nonzero, isclose, isneginf = Tensor.is_nonzero, Tensor.isclose, Tensor.isneginf
isposinf, kron, kthvalue, lerp = Tensor.isposinf, Tensor.kron, Tensor.kthvalue, Tensor.lerp
less, less_equal, logaddexp = Tensor.less, Tensor.less_equal, Tensor.logaddexp
logical_and, logical_not, logical_or = Tensor.logical_and, Tensor.logical_not, Tensor.logical_or
logical_xor, logit, masked_fill = Tensor.logical_xor, Tensor.logit, Tensor.masked_fill
masked_scatter, median, mm = Tensor.masked_scatter, Tensor.median, Tensor.mm
moveaxis, movedim, msort, multiply = Tensor.moveaxis, Tensor.movedim, Tensor.msort, Tensor.multiply
mv, nan_to_num, nanmean, nansum = Tensor.mv, Tensor.nan_to_num, Tensor.nanmean, Tensor.nansum
narrow, negative, norm, not_equal = Tensor.narrow, Tensor.negative, Tensor.norm, Tensor.not_equal
outer, quantile, rad2deg, ravel = Tensor.outer, Tensor.quantile, Tensor.rad2deg, Tensor.ravel
repeat_interleave, roll, rot90 = Tensor.repeat_interleave, Tensor.roll, Tensor.rot90
select, sgn, signbit, sinc = Tensor.select, Tensor.sgn, Tensor.signbit, Tensor.sinc
sinh, sort, std_mean, swapaxes = Tensor.sinh, Tensor.sort, Tensor.std_mean, Tensor.swapaxes
swapdims, t, take, tensor_split = Tensor.swapdims, Tensor.t, Tensor.take, Tensor.tensor_split
tensordot, tile, topk, trace = Tensor.tensordot, Tensor.tile, Tensor.topk, Tensor.trace
tril, triu, true_divide, unflatten = Tensor.tril, Tensor.triu, Tensor.true_divide, Tensor.unflatten
unique, unique_consecutive, var_mean = Tensor.unique, Tensor.unique_consecutive, Tensor.var_mean
vdot, vsplit, xlogy = Tensor.vdot, Tensor.vsplit, Tensor.xlogy
addbmm, addr, adjoint, argwhere = Tensor.addbmm, Tensor.addr, Tensor.adjoint, Tensor.argwhere
bernoulli, multinomial = Tensor.bernoulli, Tensor.multinomial
corrcoef, cov, diagflat = Tensor.corrcoef, Tensor.cov, Tensor.diagflat
digamma, dist, erfc, erfinv = Tensor.digamma, Tensor.dist, Tensor.erfc, Tensor.erfinv
float_power, hardshrink, histc = Tensor.float_power, Tensor.hardshrink, Tensor.histc
histogram, isreal, ldexp, lgamma = Tensor.histogram, Tensor.isreal, Tensor.ldexp, Tensor.lgamma
logaddexp2, logcumsumexp = Tensor.logaddexp2, Tensor.logcumsumexp
matrix_power, mode, nanmedian = Tensor.matrix_power, Tensor.mode, Tensor.nanmedian
nanquantile, positive = Tensor.nanquantile, Tensor.positive
select_scatter, slice_scatter = Tensor.select_scatter, Tensor.slice_scatter
diagonal_scatter, rsub, subtract = Tensor.diagonal_scatter, Tensor.rsub, Tensor.subtract
split_with_sizes = Tensor.split_with_sizes

e, inf, nan, pi = _math.e, _math.inf, _math.nan, _math.pi
newaxis = None

for _name, _value in list(globals().items()):  # so that lt.exp(1.0) says what it needs
    if getattr(Tensor, _name, None) is _value and callable(_value):
        globals()[_name] = _takes_tensors(_value)


half, float, double = float16, float32, float64
short, int, long = int16, int32, int64
bool = bool_
device, dtype = Device, DType


@_undivided
def __getattr__(name: str) -> _Any:
    """Loads what not every program uses when it is first asked for."""
    if name in ("amp", "autograd", "backends", "cuda", "func", "testing"):
        return _import_module(f"lazyten.{name}")
    if name == "vmap":
        from lazyten.func import vmap
        return vmap
    if name == "grad":
        from lazyten.autograd import grad
        return grad
    if name == "jit":
        from lazyten.capture import jitted
        return jitted.jit
    if name in ("load_safetensors", "save_safetensors"):
        from lazyten.frontend import serialization
        return getattr(serialization, name)
    if name in ("load", "save"):
        from lazyten.frontend import saving
        return getattr(saving, name)
    if name in ("load_decisions", "tune"):
        from lazyten.tuning import tuning
        return getattr(tuning, name)
    raise AttributeError(f"module 'lazyten' has no attribute {name!r}")


__all__ = [
    "ArgumentError",
    "AttributeNameError",
    "BFloat16Tensor",
    "BoolTensor",
    "ByteTensor",
    "CharTensor",
    "CheckError",
    "CompileError",
    "DType",
    "DTypeError",
    "Device",
    "DeviceError",
    "DoubleTensor",
    "FloatTensor",
    "Generator",
    "GradientError",
    "HalfTensor",
    "IndexingError",
    "IntTensor",
    "InternalError",
    "JitError",
    "LazytenError",
    "LongTensor",
    "ModuleAttributeError",
    "ShapeError",
    "ShortTensor",
    "Size",
    "StateError",
    "Tensor",
    "TransformError",
    "__version__",
    "_takes_tensors",
    "abs",
    "absolute",
    "acos",
    "acosh",
    "add",
    "addbmm",
    "addcdiv",
    "addcmul",
    "addmm",
    "addmv",
    "addr",
    "adjoint",
    "all",
    "allclose",
    "amax",
    "amin",
    "aminmax",
    "amp",
    "any",
    "arange",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "are_deterministic_algorithms_enabled",
    "argmax",
    "argmin",
    "argsort",
    "argwhere",
    "as_strided",
    "as_tensor",
    "asarray",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "autocast",
    "autograd",
    "backends",
    "baddbmm",
    "bernoulli",
    "bfloat16",
    "bincount",
    "bitwise_and",
    "bitwise_left_shift",
    "bitwise_not",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "block_diag",
    "bmm",
    "bool",
    "bool_",
    "broadcast_shapes",
    "broadcast_tensors",
    "broadcast_to",
    "bucketize",
    "can_cast",
    "cartesian_prod",
    "cat",
    "ceil",
    "channels_last",
    "channels_last_3d",
    "check",
    "checkpoint",
    "chunk",
    "clamp",
    "clamp_max",
    "clamp_min",
    "clip",
    "clone",
    "column_stack",
    "combinations",
    "concat",
    "concatenate",
    "contiguous_format",
    "copysign",
    "corrcoef",
    "cos",
    "cosh",
    "count_nonzero",
    "cov",
    "cross",
    "cuda",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "cumulative_trapezoid",
    "deg2rad",
    "device",
    "diag",
    "diag_embed",
    "diagflat",
    "diagonal",
    "diagonal_scatter",
    "diff",
    "digamma",
    "dist",
    "div",
    "divide",
    "dot",
    "double",
    "dsplit",
    "dstack",
    "dtype",
    "dump_kernels",
    "e",
    "einsum",
    "empty",
    "empty_cache",
    "empty_like",
    "enable_grad",
    "eq",
    "equal",
    "erf",
    "erfc",
    "erfinv",
    "exp",
    "exp2",
    "explain",
    "expm1",
    "eye",
    "finfo",
    "fix",
    "flatten",
    "flip",
    "fliplr",
    "flipud",
    "float",
    "float8_e4m3fn",
    "float8_e5m2",
    "float16",
    "float32",
    "float64",
    "float_power",
    "floor",
    "floor_divide",
    "fmax",
    "fmin",
    "fmod",
    "frac",
    "from_dlpack",
    "from_numpy",
    "frombuffer",
    "full",
    "full_like",
    "func",
    "gather",
    "ge",
    "ger",
    "get_default_device",
    "get_default_dtype",
    "get_float32_matmul_precision",
    "get_num_interop_threads",
    "get_num_threads",
    "get_rng_state",
    "grad",
    "greater",
    "greater_equal",
    "gt",
    "half",
    "hardshrink",
    "heaviside",
    "histc",
    "histogram",
    "hsplit",
    "hstack",
    "hypot",
    "iinfo",
    "index_add",
    "index_copy",
    "index_fill",
    "index_select",
    "inf",
    "inference_mode",
    "initial_seed",
    "inner",
    "int",
    "int8",
    "int16",
    "int32",
    "int64",
    "is_autocast_enabled",
    "is_complex",
    "is_floating_point",
    "is_grad_enabled",
    "is_nonzero",
    "is_tensor",
    "isclose",
    "isfinite",
    "isin",
    "isinf",
    "isnan",
    "isneginf",
    "isposinf",
    "isreal",
    "jit",
    "kron",
    "kthvalue",
    "ldexp",
    "le",
    "lerp",
    "less",
    "less_equal",
    "lgamma",
    "linspace",
    "load",
    "load_decisions",
    "load_safetensors",
    "log",
    "log1p",
    "log2",
    "log10",
    "log_softmax",
    "logaddexp",
    "logaddexp2",
    "logcumsumexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "logit",
    "logspace",
    "logsumexp",
    "long",
    "lt",
    "manual_seed",
    "masked_fill",
    "masked_scatter",
    "masked_select",
    "matmul",
    "matrix_power",
    "max",
    "maximum",
    "mean",
    "median",
    "memory_stats",
    "meshgrid",
    "min",
    "minimum",
    "mm",
    "mode",
    "moveaxis",
    "movedim",
    "msort",
    "mul",
    "multinomial",
    "multiply",
    "mv",
    "nan",
    "nan_to_num",
    "nanmean",
    "nanmedian",
    "nanquantile",
    "nansum",
    "narrow",
    "ne",
    "neg",
    "negative",
    "newaxis",
    "nn",
    "no_grad",
    "nonzero",
    "norm",
    "normal",
    "not_equal",
    "numel",
    "ones",
    "ones_like",
    "optim",
    "outer",
    "permute",
    "pi",
    "positive",
    "pow",
    "preserve_format",
    "prod",
    "promote_types",
    "quantile",
    "rad2deg",
    "rand",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "randperm",
    "ravel",
    "realize",
    "reciprocal",
    "relu",
    "remainder",
    "repeat_interleave",
    "reset_peak",
    "reshape",
    "result_type",
    "roll",
    "rot90",
    "round",
    "row_stack",
    "rsqrt",
    "rsub",
    "save",
    "save_safetensors",
    "scatter",
    "scatter_add",
    "scatter_reduce",
    "searchsorted",
    "seed",
    "select",
    "select_scatter",
    "set_default_device",
    "set_default_dtype",
    "set_float32_matmul_precision",
    "set_flush_denormal",
    "set_grad_enabled",
    "set_num_interop_threads",
    "set_num_threads",
    "set_printoptions",
    "set_rng_state",
    "sgn",
    "short",
    "sigmoid",
    "sign",
    "signbit",
    "sin",
    "sinc",
    "sinh",
    "slice_scatter",
    "softmax",
    "sort",
    "split",
    "split_with_sizes",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "std",
    "std_mean",
    "sub",
    "subtract",
    "sum",
    "swapaxes",
    "swapdims",
    "t",
    "take",
    "take_along_dim",
    "tan",
    "tanh",
    "tensor",
    "tensor_split",
    "tensordot",
    "testing",
    "tile",
    "topk",
    "trace",
    "transpose",
    "trapezoid",
    "trapz",
    "tril",
    "tril_indices",
    "triu",
    "triu_indices",
    "true_divide",
    "trunc",
    "tune",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "unbind",
    "unflatten",
    "unique",
    "unique_consecutive",
    "unravel_index",
    "unsqueeze",
    "use_deterministic_algorithms",
    "vander",
    "var",
    "var_mean",
    "vdot",
    "vmap",
    "vsplit",
    "vstack",
    "where",
    "xlogy",
    "zeros",
    "zeros_like",
]
