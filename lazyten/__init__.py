"""lazyten: eager-looking tensors that compile themselves.

`import lazyten as lt` and use it as PyTorch: `lt.tensor`, `lt.nn`, `lt.optim`. Operations are
recorded; printing, `.numpy()`, `.item()` and `realize()` compute, in few fused kernels.

What is public is named here once: imported `as` itself, which is how type checkers know it, or the
function of a method of tensors.
"""
import math as _math
import typing as _typing
from importlib import import_module as _import_module
from types import FunctionType as _FunctionType
from types import ModuleType as _ModuleType

from lazyten import nn as nn
from lazyten.autograd.checkpointing import checkpoint as checkpoint
from lazyten.execution.launch_dump import dump_kernels as dump_kernels
from lazyten.frontend.arguments import name_functions as _name_functions
from lazyten.frontend.arguments import takes_tensors as _takes_tensors
from lazyten.frontend.arguments import unattached as _unattached
from lazyten.frontend.array_functions import _assert as _assert
from lazyten.frontend.array_functions import _assert_async as _assert_async
from lazyten.frontend.array_functions import atleast_1d as atleast_1d
from lazyten.frontend.array_functions import atleast_2d as atleast_2d
from lazyten.frontend.array_functions import atleast_3d as atleast_3d
from lazyten.frontend.array_functions import block_diag as block_diag
from lazyten.frontend.array_functions import broadcast_shapes as broadcast_shapes
from lazyten.frontend.array_functions import cartesian_prod as cartesian_prod
from lazyten.frontend.array_functions import cdist as cdist
from lazyten.frontend.array_functions import column_stack as column_stack
from lazyten.frontend.array_functions import combinations as combinations
from lazyten.frontend.array_functions import concatenate as concatenate
from lazyten.frontend.array_functions import constant_pad_nd as constant_pad_nd
from lazyten.frontend.array_functions import empty_permuted as empty_permuted
from lazyten.frontend.array_functions import empty_strided as empty_strided
from lazyten.frontend.array_functions import fill as fill
from lazyten.frontend.array_functions import is_tensor as is_tensor
from lazyten.frontend.array_functions import logspace as logspace
from lazyten.frontend.array_functions import numel as numel
from lazyten.frontend.array_functions import real as real
from lazyten.frontend.array_functions import row_stack as row_stack
from lazyten.frontend.array_functions import tril_indices as tril_indices
from lazyten.frontend.array_functions import triu_indices as triu_indices
from lazyten.frontend.array_functions import unravel_index as unravel_index
from lazyten.frontend.array_functions import vander as vander
from lazyten.frontend.calculus import cumulative_trapezoid as cumulative_trapezoid
from lazyten.frontend.calculus import gradient as gradient
from lazyten.frontend.calculus import trapezoid as trapezoid
from lazyten.frontend.calculus import trapz as trapz
from lazyten.frontend.complexes.making import complex as complex
from lazyten.frontend.complexes.making import imag as imag
from lazyten.frontend.complexes.making import polar as polar
from lazyten.frontend.complexes.making import view_as_complex as view_as_complex
from lazyten.frontend.complexes.making import view_as_real as view_as_real
from lazyten.frontend.complexes.methods import WHERE_FORMS_ARE as _WHERE_FORMS_ARE
from lazyten.frontend.core.in_place import TWINS as _TWINS
from lazyten.frontend.core.keywords import Layout as _Layout
from lazyten.frontend.core.keywords import MemoryFormat as _MemoryFormat
from lazyten.frontend.core.keywords import channels_last as channels_last
from lazyten.frontend.core.keywords import channels_last_3d as channels_last_3d
from lazyten.frontend.core.keywords import contiguous_format as contiguous_format
from lazyten.frontend.core.keywords import jagged as jagged
from lazyten.frontend.core.keywords import preserve_format as preserve_format
from lazyten.frontend.core.keywords import sparse_bsc as sparse_bsc
from lazyten.frontend.core.keywords import sparse_bsr as sparse_bsr
from lazyten.frontend.core.keywords import sparse_coo as sparse_coo
from lazyten.frontend.core.keywords import sparse_csc as sparse_csc
from lazyten.frontend.core.keywords import sparse_csr as sparse_csr
from lazyten.frontend.core.keywords import strided as strided
from lazyten.frontend.core.mixed_precision import autocast as autocast
from lazyten.frontend.core.mixed_precision import (
    autocast_decrement_nesting as autocast_decrement_nesting,
)
from lazyten.frontend.core.mixed_precision import (
    autocast_increment_nesting as autocast_increment_nesting,
)
from lazyten.frontend.core.mixed_precision import clear_autocast_cache as clear_autocast_cache
from lazyten.frontend.core.mixed_precision import (
    is_autocast_cache_enabled as is_autocast_cache_enabled,
)
from lazyten.frontend.core.mixed_precision import is_autocast_enabled as is_autocast_enabled
from lazyten.frontend.core.mixed_precision import (
    set_autocast_cache_enabled as set_autocast_cache_enabled,
)
from lazyten.frontend.core.mixed_precision import set_autocast_dtype as set_autocast_dtype
from lazyten.frontend.core.mixed_precision import set_autocast_enabled as set_autocast_enabled
from lazyten.frontend.core.printing import set_printoptions as set_printoptions
from lazyten.frontend.core.size import Size as Size
from lazyten.frontend.foreach import each as _each
from lazyten.frontend.functions import arange as arange
from lazyten.frontend.functions import broadcast_tensors as broadcast_tensors
from lazyten.frontend.functions import bucketize as bucketize
from lazyten.frontend.functions import cat as cat
from lazyten.frontend.functions import concat as concat
from lazyten.frontend.functions import dstack as dstack
from lazyten.frontend.functions import einsum as einsum
from lazyten.frontend.functions import empty as empty
from lazyten.frontend.functions import empty_like as empty_like
from lazyten.frontend.functions import explain as explain
from lazyten.frontend.functions import eye as eye
from lazyten.frontend.functions import full as full
from lazyten.frontend.functions import full_like as full_like
from lazyten.frontend.functions import hstack as hstack
from lazyten.frontend.functions import inclusive_range as _inclusive_range
from lazyten.frontend.functions import isin as isin
from lazyten.frontend.functions import linspace as linspace
from lazyten.frontend.functions import meshgrid as meshgrid
from lazyten.frontend.functions import ones as ones
from lazyten.frontend.functions import ones_like as ones_like
from lazyten.frontend.functions import realize as realize
from lazyten.frontend.functions import scalar_tensor as scalar_tensor
from lazyten.frontend.functions import searchsorted as searchsorted
from lazyten.frontend.functions import stack as stack
from lazyten.frontend.functions import tensor as tensor
from lazyten.frontend.functions import vstack as vstack
from lazyten.frontend.functions import where as where
from lazyten.frontend.functions import zeros as zeros
from lazyten.frontend.functions import zeros_like as zeros_like
from lazyten.frontend.interop import as_tensor as as_tensor
from lazyten.frontend.interop import asarray as asarray
from lazyten.frontend.interop import from_dlpack as from_dlpack
from lazyten.frontend.interop import from_numpy as from_numpy
from lazyten.frontend.interop import frombuffer as frombuffer
from lazyten.frontend.interop import to_dlpack as to_dlpack
from lazyten.frontend.limits import can_cast as can_cast
from lazyten.frontend.limits import finfo as finfo
from lazyten.frontend.limits import get_default_dtype as get_default_dtype
from lazyten.frontend.limits import iinfo as iinfo
from lazyten.frontend.limits import result_type as result_type
from lazyten.frontend.limits import set_default_dtype as set_default_dtype
from lazyten.frontend.random_functions import normal as normal
from lazyten.frontend.random_functions import rand as rand
from lazyten.frontend.random_functions import rand_like as rand_like
from lazyten.frontend.random_functions import randint as randint
from lazyten.frontend.random_functions import randint_like as randint_like
from lazyten.frontend.random_functions import randn as randn
from lazyten.frontend.random_functions import randn_like as randn_like
from lazyten.frontend.random_functions import randperm as randperm
from lazyten.frontend.settings import (
    are_deterministic_algorithms_enabled as are_deterministic_algorithms_enabled,
)
from lazyten.frontend.settings import compile as compile
from lazyten.frontend.settings import get_autocast_cpu_dtype as get_autocast_cpu_dtype
from lazyten.frontend.settings import get_autocast_dtype as get_autocast_dtype
from lazyten.frontend.settings import get_autocast_gpu_dtype as get_autocast_gpu_dtype
from lazyten.frontend.settings import get_deterministic_debug_mode as get_deterministic_debug_mode
from lazyten.frontend.settings import get_num_interop_threads as get_num_interop_threads
from lazyten.frontend.settings import is_autocast_cpu_enabled as is_autocast_cpu_enabled
from lazyten.frontend.settings import (
    is_deterministic_algorithms_warn_only_enabled as is_deterministic_algorithms_warn_only_enabled,
)
from lazyten.frontend.settings import is_inference_mode_enabled as is_inference_mode_enabled
from lazyten.frontend.settings import is_warn_always_enabled as is_warn_always_enabled
from lazyten.frontend.settings import set_autocast_cpu_dtype as set_autocast_cpu_dtype
from lazyten.frontend.settings import set_autocast_cpu_enabled as set_autocast_cpu_enabled
from lazyten.frontend.settings import set_autocast_gpu_dtype as set_autocast_gpu_dtype
from lazyten.frontend.settings import set_default_tensor_type as set_default_tensor_type
from lazyten.frontend.settings import set_deterministic_debug_mode as set_deterministic_debug_mode
from lazyten.frontend.settings import set_flush_denormal as set_flush_denormal
from lazyten.frontend.settings import set_num_interop_threads as set_num_interop_threads
from lazyten.frontend.settings import set_warn_always as set_warn_always
from lazyten.frontend.settings import typename as typename
from lazyten.frontend.settings import use_deterministic_algorithms as use_deterministic_algorithms
from lazyten.frontend.tensor import Tensor as Tensor
from lazyten.frontend.tensor_types import BFloat16Tensor as BFloat16Tensor
from lazyten.frontend.tensor_types import BoolTensor as BoolTensor
from lazyten.frontend.tensor_types import ByteTensor as ByteTensor
from lazyten.frontend.tensor_types import CharTensor as CharTensor
from lazyten.frontend.tensor_types import DoubleTensor as DoubleTensor
from lazyten.frontend.tensor_types import FloatTensor as FloatTensor
from lazyten.frontend.tensor_types import HalfTensor as HalfTensor
from lazyten.frontend.tensor_types import IntTensor as IntTensor
from lazyten.frontend.tensor_types import LongTensor as LongTensor
from lazyten.frontend.tensor_types import ShortTensor as ShortTensor
from lazyten.frontend.view_copies import alias_copy as alias_copy
from lazyten.frontend.view_copies import as_strided_copy as as_strided_copy
from lazyten.frontend.view_copies import as_strided_scatter as as_strided_scatter
from lazyten.frontend.view_copies import detach_copy as detach_copy
from lazyten.frontend.view_copies import diagonal_copy as diagonal_copy
from lazyten.frontend.view_copies import expand_copy as expand_copy
from lazyten.frontend.view_copies import narrow_copy as narrow_copy
from lazyten.frontend.view_copies import permute_copy as permute_copy
from lazyten.frontend.view_copies import select_copy as select_copy
from lazyten.frontend.view_copies import split_copy as split_copy
from lazyten.frontend.view_copies import split_with_sizes_copy as split_with_sizes_copy
from lazyten.frontend.view_copies import squeeze_copy as squeeze_copy
from lazyten.frontend.view_copies import t_copy as t_copy
from lazyten.frontend.view_copies import transpose_copy as transpose_copy
from lazyten.frontend.view_copies import unbind_copy as unbind_copy
from lazyten.frontend.view_copies import unfold_copy as unfold_copy
from lazyten.frontend.view_copies import unsqueeze_copy as unsqueeze_copy
from lazyten.frontend.view_copies import view_copy as view_copy
from lazyten.ir.dtype import DType as DType
from lazyten.ir.dtype import bfloat16 as bfloat16
from lazyten.ir.dtype import bool_ as bool_
from lazyten.ir.dtype import complex64 as complex64
from lazyten.ir.dtype import complex128 as complex128
from lazyten.ir.dtype import float8_e4m3fn as float8_e4m3fn
from lazyten.ir.dtype import float8_e5m2 as float8_e5m2
from lazyten.ir.dtype import float16 as float16
from lazyten.ir.dtype import float32 as float32
from lazyten.ir.dtype import float64 as float64
from lazyten.ir.dtype import int8 as int8
from lazyten.ir.dtype import int16 as int16
from lazyten.ir.dtype import int32 as int32
from lazyten.ir.dtype import int64 as int64
from lazyten.ir.dtype import promote_types as promote_types
from lazyten.ir.dtype import uint8 as uint8
from lazyten.ir.dtype import uint16 as uint16
from lazyten.ir.dtype import uint32 as uint32
from lazyten.ir.dtype import uint64 as uint64
from lazyten.pytorch import modules as _modules
from lazyten.random import Generator as Generator
from lazyten.random import default_generator as default_generator
from lazyten.random import get_rng_state as get_rng_state
from lazyten.random import initial_seed as initial_seed
from lazyten.random import manual_seed as manual_seed
from lazyten.random import seed as seed
from lazyten.random import set_rng_state as set_rng_state
from lazyten.storage.memory_use import empty_cache as empty_cache
from lazyten.storage.memory_use import memory_stats as memory_stats
from lazyten.storage.memory_use import reset_peak as reset_peak
from lazyten.storage.placement import Device as Device
from lazyten.storage.placement import default_device as _default_device
from lazyten.storage.placement import set_default_device as set_default_device
from lazyten.storage.untyped import TypedStorage as TypedStorage
from lazyten.storage.untyped import UntypedStorage as UntypedStorage
from lazyten.support.check_mode import check as check
from lazyten.support.errors import ArgumentError as ArgumentError
from lazyten.support.errors import AttributeNameError as AttributeNameError
from lazyten.support.errors import CheckError as CheckError
from lazyten.support.errors import CompileError as CompileError
from lazyten.support.errors import DeviceError as DeviceError
from lazyten.support.errors import DistributedError as DistributedError
from lazyten.support.errors import DTypeError as DTypeError
from lazyten.support.errors import EmptyAxisError as EmptyAxisError
from lazyten.support.errors import GradientError as GradientError
from lazyten.support.errors import HookError as HookError
from lazyten.support.errors import IndexDTypeError as IndexDTypeError
from lazyten.support.errors import IndexingError as IndexingError
from lazyten.support.errors import IndexShapeError as IndexShapeError
from lazyten.support.errors import InternalError as InternalError
from lazyten.support.errors import JitError as JitError
from lazyten.support.errors import KindError as KindError
from lazyten.support.errors import LazytenError as LazytenError
from lazyten.support.errors import LeafError as LeafError
from lazyten.support.errors import LinAlgError as LinAlgError
from lazyten.support.errors import ModuleAttributeError as ModuleAttributeError
from lazyten.support.errors import NoAxisError as NoAxisError
from lazyten.support.errors import NoGradientError as NoGradientError
from lazyten.support.errors import NotDefinedError as NotDefinedError
from lazyten.support.errors import NotWrittenError as NotWrittenError
from lazyten.support.errors import NoValuesError as NoValuesError
from lazyten.support.errors import OutOfMemoryError as OutOfMemoryError
from lazyten.support.errors import ShapeError as ShapeError
from lazyten.support.errors import SliceError as SliceError
from lazyten.support.errors import SlicePartError as SlicePartError
from lazyten.support.errors import StateError as StateError
from lazyten.support.errors import StateSizeError as StateSizeError
from lazyten.support.errors import StateTypeError as StateTypeError
from lazyten.support.errors import TransformError as TransformError
from lazyten.support.errors import WorkerError as WorkerError
from lazyten.support.forking import undivided as _undivided
from lazyten.support.grad_mode import enable_grad as enable_grad
from lazyten.support.grad_mode import inference_mode as inference_mode
from lazyten.support.grad_mode import is_grad_enabled as is_grad_enabled
from lazyten.support.grad_mode import no_grad as no_grad
from lazyten.support.grad_mode import set_grad_enabled as set_grad_enabled
from lazyten.support.matmul_precision import (
    get_float32_matmul_precision as get_float32_matmul_precision,
)
from lazyten.support.matmul_precision import (
    set_float32_matmul_precision as set_float32_matmul_precision,
)
from lazyten.support.threads import get_num_threads as get_num_threads
from lazyten.support.threads import set_num_threads as set_num_threads
from lazyten.version import __version__ as __version__

if _typing.TYPE_CHECKING:  # what not every program uses is loaded when it is first asked for
    from lazyten import amp as amp
    from lazyten import autograd as autograd
    from lazyten import backends as backends
    from lazyten import cuda as cuda
    from lazyten import distributions as distributions
    from lazyten import fft as fft
    from lazyten import func as func
    from lazyten import fx as fx
    from lazyten import hub as hub
    from lazyten import masked as masked
    from lazyten import multiprocessing as multiprocessing
    from lazyten import profiler as profiler
    from lazyten import quantization as quantization
    from lazyten import signal as signal
    from lazyten import sparse as sparse
    from lazyten import testing as testing
    from lazyten import utils as utils
    from lazyten import version as version
    from lazyten.amp import GradScaler as GradScaler
    from lazyten.autograd import grad as grad
    from lazyten.autograd.custom_operators import ops as ops
    from lazyten.capture.dims import Dim as Dim
    from lazyten.capture.jit import jit as jit
    from lazyten.distributed.annotating import shard as shard
    from lazyten.func import vmap as vmap
    from lazyten.quantization.affine import (
        fake_quantize_per_channel_affine as fake_quantize_per_channel_affine,
    )
    from lazyten.quantization.affine import (
        fake_quantize_per_tensor_affine as fake_quantize_per_tensor_affine,
    )
    from lazyten.quantization.converting import quantize as quantize
    from lazyten.saving.saving import load as load
    from lazyten.saving.saving import save as save
    from lazyten.saving.serialization import load_safetensors as load_safetensors
    from lazyten.saving.serialization import save_safetensors as save_safetensors
    from lazyten.seeing.profile import profile as profile
    from lazyten.seeing.view import view as view
    from lazyten.sparse.making import sparse_compressed_tensor as sparse_compressed_tensor
    from lazyten.sparse.making import sparse_coo_tensor as sparse_coo_tensor
    from lazyten.sparse.making import sparse_csc_tensor as sparse_csc_tensor
    from lazyten.sparse.making import sparse_csr_tensor as sparse_csr_tensor
    from lazyten.tuning.tuning import load_decisions as load_decisions
    from lazyten.tuning.tuning import tune as tune

if _typing.TYPE_CHECKING:
    from lazyten import optim as optim

_LATER = {
    "GradScaler": "amp",
    "grad": "autograd", "ops": "autograd.custom_operators",
    "Future": "pytorch.futures",
    "vmap": "func", "jit": "capture.jit", "Dim": "capture.dims",
    "load": "saving.saving", "save": "saving.saving",
    "load_safetensors": "saving.serialization",
    "save_safetensors": "saving.serialization", "load_decisions": "tuning.tuning",
    "tune": "tuning.tuning", "profile": "seeing.profile",
    "shard": "distributed.annotating", "view": "seeing.view", **dict.fromkeys((
        "adaptive_avg_pool1d", "avg_pool1d", "bilinear", "celu",
        "channel_shuffle", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
        "conv_transpose3d", "cosine_similarity", "group_norm", "layer_norm",
        "max_pool1d", "max_pool2d", "max_pool3d", "pairwise_distance", "pdist", "pixel_shuffle",
        "pixel_unshuffle", "prelu", "rms_norm", "rrelu", "selu", "threshold",
        "celu_", "rrelu_", "selu_", "threshold_"), "nn.functional"),
    **dict.fromkeys(("alpha_dropout", "alpha_dropout_", "dropout", "dropout_",
                     "feature_alpha_dropout", "feature_alpha_dropout_", "feature_dropout",
                     "feature_dropout_"), "nn.functions.chance"),
    "norm_except_dim": "nn.utils.weight_norm", "segment_reduce": "nn.functions.segments",
    **dict.fromkeys(("grid_sampler", "grid_sampler_2d", "grid_sampler_3d"),
                    "nn.functions.spatial.sampling"),
    **dict.fromkeys(("bartlett_window", "blackman_window", "hamming_window", "hann_window",
                     "kaiser_window"), "signal.windows"), "polygamma": "special",
    **dict.fromkeys(("_sample_dirichlet", "_standard_gamma"), "distributions.sampling"),
    **dict.fromkeys(("binomial", "poisson"), "distributions.discrete"),
    **dict.fromkeys(("_check", "_check_with", "_check_index", "_check_value", "_check_type",
                     "_check_not_implemented", "_check_tensor_all", "_check_tensor_all_with"),
                    "platform.checks"),
    "get_device_module": "platform.accelerator",
    "chain_matmul": "linalg.products", "quantize": "quantization.converting",
    **dict.fromkeys(("fake_quantize_per_channel_affine", "fake_quantize_per_tensor_affine"),
                    "quantization.affine"),
    "lu_unpack": "linalg.triangles", "nuclear_norm": "linalg.older",
    **dict.fromkeys(("lobpcg", "pca_lowrank", "svd_lowrank"), "linalg.partial"),
    **_modules.METHODS, **dict.fromkeys((
        "sparse_compressed_tensor", "sparse_coo_tensor", "sparse_csc_tensor", "sparse_csr_tensor"),
        "sparse.making"),
    **dict.fromkeys(("is_anomaly_check_nan_enabled", "is_anomaly_enabled", "set_anomaly_enabled"),
                    "autograd.anomaly")}
"""The modules of what is loaded later; others that are loaded later are modules themselves."""
_LATER_MODULES = (
    "amp", "autograd", "backends", "cuda", "distributed", "distributions", "export", "fft", "func",
    "fx", "hub", "linalg", "masked", "multiprocessing", "onnx", "optim", "profiler", "quantization",
    "signal", "sparse", "special", "testing", "utils", "version")

_IN_PLACE = ("arccos_", "arccosh_", "arcsin_", "arcsinh_", "arctan_", "arctanh_", "as_strided_",
             "clip_", "detach_", "index_put_", "negative_")
"""Methods that write, under PyTorch's second names, which are functions, too."""

abs, absolute, acos, acosh, add = Tensor.abs, Tensor.absolute, Tensor.acos, Tensor.acosh, Tensor.add
addbmm, addcdiv, addcmul, addmm = Tensor.addbmm, Tensor.addcdiv, Tensor.addcmul, Tensor.addmm
addmv, addr, adjoint, all = Tensor.addmv, Tensor.addr, Tensor.adjoint, Tensor.all
allclose, amax, amin, aminmax = Tensor.allclose, Tensor.amax, Tensor.amin, Tensor.aminmax
any, arccos, arccosh, arcsin = Tensor.any, Tensor.arccos, Tensor.arccosh, Tensor.arcsin
arcsinh, arctan, arctan2, arctanh = Tensor.arcsinh, Tensor.arctan, Tensor.arctan2, Tensor.arctanh
argmax, argmin, argsort, argwhere = Tensor.argmax, Tensor.argmin, Tensor.argsort, Tensor.argwhere
as_strided, asin, asinh, atan = Tensor.as_strided, Tensor.asin, Tensor.asinh, Tensor.atan
atan2, atanh, baddbmm, bernoulli = Tensor.atan2, Tensor.atanh, Tensor.baddbmm, Tensor.bernoulli
bincount, bitwise_and = Tensor.bincount, Tensor.bitwise_and
bitwise_left_shift, bitwise_not = Tensor.bitwise_left_shift, Tensor.bitwise_not
bitwise_or, bitwise_right_shift = Tensor.bitwise_or, Tensor.bitwise_right_shift
bitwise_xor, bmm = Tensor.bitwise_xor, Tensor.bmm
ceil, chunk, clamp, clamp_max = Tensor.ceil, Tensor.chunk, Tensor.clamp, Tensor.clamp_max
clamp_min, clone, copysign = Tensor.clamp_min, Tensor.clone, Tensor.copysign
corrcoef, cos, cosh, count_nonzero = Tensor.corrcoef, Tensor.cos, Tensor.cosh, Tensor.count_nonzero
cov, cross, cummax, cummin = Tensor.cov, Tensor.cross, Tensor.cummax, Tensor.cummin
cumprod, cumsum, deg2rad, diag = Tensor.cumprod, Tensor.cumsum, Tensor.deg2rad, Tensor.diag
detach, index_put = Tensor.detach, Tensor.index_put
diag_embed, diagflat, diagonal = Tensor.diag_embed, Tensor.diagflat, Tensor.diagonal
diagonal_scatter, diff, digamma = Tensor.diagonal_scatter, Tensor.diff, Tensor.digamma
dist, div, divide, dot, dsplit = Tensor.dist, Tensor.div, Tensor.divide, Tensor.dot, Tensor.dsplit
eq, equal, erf, erfc, erfinv = Tensor.eq, Tensor.equal, Tensor.erf, Tensor.erfc, Tensor.erfinv
exp, exp2, expm1, fix, flatten = Tensor.exp, Tensor.exp2, Tensor.expm1, Tensor.fix, Tensor.flatten
flip, fliplr, flipud, float_power = Tensor.flip, Tensor.fliplr, Tensor.flipud, Tensor.float_power
floor, floor_divide, fmax, fmin = Tensor.floor, Tensor.floor_divide, Tensor.fmax, Tensor.fmin
fmod, frac, gather, ge = Tensor.fmod, Tensor.frac, Tensor.gather, Tensor.ge
greater, greater_equal, gt = Tensor.greater, Tensor.greater_equal, Tensor.gt
hardshrink, heaviside, histc = Tensor.hardshrink, Tensor.heaviside, Tensor.histc
histogram, hsplit, hypot = Tensor.histogram, Tensor.hsplit, Tensor.hypot
index_add, index_copy, index_fill = Tensor.index_add, Tensor.index_copy, Tensor.index_fill
index_select, inner, is_complex = Tensor.index_select, Tensor.inner, Tensor.is_complex
is_floating_point, is_inference = Tensor.is_floating_point, Tensor.is_inference
is_nonzero, isclose = Tensor.is_nonzero, Tensor.isclose
isfinite, isinf, isnan, isneginf = Tensor.isfinite, Tensor.isinf, Tensor.isnan, Tensor.isneginf
isposinf, isreal, kron, kthvalue = Tensor.isposinf, Tensor.isreal, Tensor.kron, Tensor.kthvalue
ldexp, le, lerp, less = Tensor.ldexp, Tensor.le, Tensor.lerp, Tensor.less
less_equal, lgamma, log, log10 = Tensor.less_equal, Tensor.lgamma, Tensor.log, Tensor.log10
log1p, log2, log_softmax = Tensor.log1p, Tensor.log2, Tensor.log_softmax
logaddexp, logaddexp2, logcumsumexp = Tensor.logaddexp, Tensor.logaddexp2, Tensor.logcumsumexp
logical_and, logical_not, logical_or = Tensor.logical_and, Tensor.logical_not, Tensor.logical_or
logical_xor, logit, logsumexp, lt = Tensor.logical_xor, Tensor.logit, Tensor.logsumexp, Tensor.lt
masked_fill, masked_scatter = Tensor.masked_fill, Tensor.masked_scatter
masked_select, matmul, matrix_power = Tensor.masked_select, Tensor.matmul, Tensor.matrix_power
max, maximum, mean, median, min = Tensor.max, Tensor.maximum, Tensor.mean, Tensor.median, Tensor.min
minimum, mm, mode = Tensor.minimum, Tensor.mm, Tensor.mode
movedim, msort, mul, multinomial = Tensor.movedim, Tensor.msort, Tensor.mul, Tensor.multinomial
multiply, mv, nan_to_num, nanmean = Tensor.multiply, Tensor.mv, Tensor.nan_to_num, Tensor.nanmean
nanmedian, nanquantile, nansum = Tensor.nanmedian, Tensor.nanquantile, Tensor.nansum
narrow, ne, neg, negative = Tensor.narrow, Tensor.ne, Tensor.neg, Tensor.negative
nonzero, norm, not_equal, outer = Tensor.nonzero, Tensor.norm, Tensor.not_equal, Tensor.outer
permute, positive, pow, prod = Tensor.permute, Tensor.positive, Tensor.pow, Tensor.prod
quantile, rad2deg, ravel = Tensor.quantile, Tensor.rad2deg, Tensor.ravel
reciprocal, relu, remainder = Tensor.reciprocal, Tensor.relu, Tensor.remainder
repeat_interleave, reshape, roll = Tensor.repeat_interleave, Tensor.reshape, Tensor.roll
rot90, round, rsqrt, rsub = Tensor.rot90, Tensor.round, Tensor.rsqrt, Tensor.rsub
scatter, scatter_add, scatter_reduce = Tensor.scatter, Tensor.scatter_add, Tensor.scatter_reduce
select, select_scatter, sgn = Tensor.select, Tensor.select_scatter, Tensor.sgn
sigmoid, sign, signbit, sin = Tensor.sigmoid, Tensor.sign, Tensor.signbit, Tensor.sin
sinc, sinh, slice_scatter, softmax = Tensor.sinc, Tensor.sinh, Tensor.slice_scatter, Tensor.softmax
sort, split, split_with_sizes = Tensor.sort, Tensor.split, Tensor.split_with_sizes
sqrt, square, squeeze, std = Tensor.sqrt, Tensor.square, Tensor.squeeze, Tensor.std
std_mean, sub, subtract, sum = Tensor.std_mean, Tensor.sub, Tensor.subtract, Tensor.sum
swapaxes, t, take = Tensor.swapaxes, Tensor.t, Tensor.take
take_along_dim, tan, tanh = Tensor.take_along_dim, Tensor.tan, Tensor.tanh
tensor_split, tensordot, tile = Tensor.tensor_split, Tensor.tensordot, Tensor.tile
topk, trace, transpose, tril = Tensor.topk, Tensor.trace, Tensor.transpose, Tensor.tril
triu, true_divide, trunc, unbind = Tensor.triu, Tensor.true_divide, Tensor.trunc, Tensor.unbind
unflatten, unique, unique_consecutive = Tensor.unflatten, Tensor.unique, Tensor.unique_consecutive
unsqueeze, var, var_mean, vdot = Tensor.unsqueeze, Tensor.var, Tensor.var_mean, Tensor.vdot
vsplit, xlogy = Tensor.vsplit, Tensor.xlogy
angle, conj = Tensor.angle, Tensor.conj
fill_, frexp, gcd = Tensor.fill_, Tensor.frexp, Tensor.gcd
histogramdd, index_reduce, lcm = Tensor.histogramdd, Tensor.index_reduce, Tensor.lcm
i0, mvlgamma = Tensor.i0, Tensor.mvlgamma
igamma, igammac = Tensor.igamma, Tensor.igammac
nextafter, nonzero_static, renorm = Tensor.nextafter, Tensor.nonzero_static, Tensor.renorm
resize_as_, zero_ = Tensor.resize_as_, Tensor.zero_
get_device, is_same_size, is_signed = Tensor.get_device, Tensor.is_same_size, Tensor.is_signed
is_conj, is_neg, put = Tensor.is_conj, Tensor.is_neg, Tensor.put
clip, ger, moveaxis, swapdims = clamp, outer, movedim, swapaxes
broadcast_to, conj_physical = Tensor.expand, conj
resolve_conj, resolve_neg, unsafe_chunk = Tensor.resolve_conj, Tensor.resolve_neg, chunk
unsafe_split, unsafe_split_with_sizes = split, split_with_sizes

_OF_TENSORS = ("lazyten.frontend.", "lazyten.ir.", "lazyten.random", "lazyten.support.grad_mode")
for _name, _value in list(globals().items()):  # so that lt.exp(1.0) says what it needs
    if getattr(Tensor, _name, None) is _value and callable(_value):
        globals()[_name] = _takes_tensors(_value)
    elif isinstance(_value, _FunctionType) and not _name.startswith("_") \
            and _value.__module__.startswith(_OF_TENSORS):
        globals()[_name] = _unattached(_value)  # one for all names of a function
range = _unattached(_inclusive_range)
_name_functions(__name__, globals())

dsmm = spmm = mm
assert _WHERE_FORMS_ARE  # what complex tensors do is there once their methods are
layout, memory_format = _Layout, _MemoryFormat
e, inf, nan, pi = _math.e, _math.inf, _math.nan, _math.pi
newaxis = None
half, float, double = float16, float32, float64
cfloat, cdouble = complex64, complex128
short, int, long = int16, int32, int64
bool = bool_
device, dtype = Device, DType
get_default_device = _default_device
legacy_contiguous_format = contiguous_format


_modules.install()
_elsewhere = _modules.later("lazyten")


@_undivided
def __getattr__(name: str) -> _typing.Any:
    """Loads what not every program uses."""
    if name in _LATER_MODULES:
        return _import_module(f"lazyten.{name}")
    if name in _LATER:
        return getattr(_import_module(f"lazyten.{_LATER[name]}"), name)
    if name in _TWINS:
        return _takes_tensors(_TWINS[name])
    if name in _IN_PLACE:
        return _takes_tensors(getattr(Tensor, name))
    if (of_each := _each(name)) is not None:
        return of_each
    return _elsewhere(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER, *_LATER_MODULES})


__all__ = sorted({"__version__", "nn", *_LATER, *_LATER_MODULES, *(
    name for name, value in globals().items()
    if not name.startswith("_") and not isinstance(value, _ModuleType))})
