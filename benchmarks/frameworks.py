"""The frameworks that are compared, behind one small record each.

A `Framework` says how to make a tensor, wait for a result and copy it back, and spells the few
operations whose names differ. `load` imports one by name; a worker process (worker.py) holds
exactly one, so that no framework's threads or allocator touch another's timings. cases.py is
written against the record.
"""
from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[Any]
Tensor: TypeAlias = Any  # a tensor of any of five frameworks, which share no type

NAMES = ("lazyten", "numpy", "torch", "jax", "tinygrad")


@dataclass(frozen=True)
class Framework:
    """One framework's spelling of what the cases need.

    `finish` waits until a tensor is computed. `compile` is what its users wrap a function in to
    make it fast: the identity where calls are eager. `softmax` is over axis 1; `layer_norm(x,
    weight, bias)` over the last axis; `conv2d(x, weight, bias)` has stride 1 and no padding, in
    NCHW.
    """

    name: str
    module: ModuleType
    array: Callable[[Array], Tensor]
    finish: Callable[[Tensor], object]
    to_numpy: Callable[[Tensor], Array]
    compile: Callable[[Callable[..., Tensor]], Callable[..., Tensor]]
    relu: Callable[[Tensor], Tensor]
    sigmoid: Callable[[Tensor], Tensor]
    softmax: Callable[[Tensor], Tensor]
    layer_norm: Callable[[Tensor, Tensor, Tensor], Tensor]
    conv2d: Callable[[Tensor, Tensor, Tensor], Tensor]


def identity(value: Tensor) -> Tensor:
    """The value itself: what an eager framework does to finish or compile."""
    return value


def numpy_softmax(x: Array) -> Array:
    """Softmax over axis 1, each row shifted by its maximum."""
    exponentials = np.exp(x - x.max(axis=1, keepdims=True))
    softmax: Array = exponentials / exponentials.sum(axis=1, keepdims=True)
    return softmax


def numpy_layer_norm(x: Array, weight: Array, bias: Array) -> Array:
    """Layer norm over the last axis with torch's epsilon, 1e-5."""
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = np.square(centred).mean(axis=-1, keepdims=True)
    normalized: Array = centred / np.sqrt(variance + 1e-5)
    return normalized * weight + bias


def columns(x: Array, height: int, width: int) -> Array:
    """The windows of x [N, C, H, W] as rows: [N, OH, OW, C * height * width]."""
    windows = np.lib.stride_tricks.sliding_window_view(x, (height, width), axis=(2, 3))
    n, _, out_height, out_width = windows.shape[:4]
    return windows.transpose(0, 2, 3, 1, 4, 5).reshape(n, out_height, out_width, -1)


def numpy_conv2d(x: Array, weight: Array, bias: Array) -> Array:
    """Convolution as one matrix product over gathered windows."""
    rows = columns(x, *weight.shape[2:])
    return np.moveaxis(rows @ weight.reshape(len(weight), -1).T + bias, 3, 1)


NUMPY = Framework(
    name="numpy", module=np, array=np.copy, finish=identity, to_numpy=np.asarray,
    compile=identity, relu=lambda x: np.maximum(x, 0), sigmoid=lambda x: 1 / (1 + np.exp(-x)),
    softmax=numpy_softmax, layer_norm=numpy_layer_norm, conv2d=numpy_conv2d,
)


def to_float64(array: Array) -> Array:
    """Floats widened to float64, integers as they are."""
    return array.astype(np.float64) if array.dtype.kind == "f" else array


# What every framework's results are compared with.
REFERENCE = replace(NUMPY, array=to_float64)


def _numpy(module: ModuleType, threads: int) -> Framework:
    return NUMPY  # its threads are set by environment variables


def _lazyten(lt: ModuleType, threads: int) -> Framework:
    functional = lt.nn.functional
    return Framework(
        name="lazyten", module=lt, array=lambda x: lt.tensor(x).realize(),
        finish=lambda x: x.realize(), to_numpy=lambda x: x.numpy(), compile=identity,
        relu=lambda x: x.relu(), sigmoid=lambda x: x.sigmoid(), softmax=lambda x: x.softmax(1),
        layer_norm=lambda x, w, b: functional.layer_norm(x, x.shape[-1:], w, b),
        conv2d=functional.conv2d,
    )


def _torch(torch: ModuleType, threads: int) -> Framework:
    torch.set_num_threads(threads)
    functional = torch.nn.functional
    return Framework(
        name="torch", module=torch, array=torch.tensor, finish=identity,
        to_numpy=lambda x: x.numpy(), compile=identity,
        relu=torch.relu, sigmoid=torch.sigmoid, softmax=lambda x: x.softmax(1),
        layer_norm=lambda x, w, b: functional.layer_norm(x, x.shape[-1:], w, b),
        conv2d=functional.conv2d,
    )


def _jax(jax: ModuleType, threads: int) -> Framework:
    jnp, nn = jax.numpy, jax.nn

    def layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return nn.standardize(x, axis=-1, epsilon=1e-5) * weight + bias

    def conv2d(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return jax.lax.conv(x, weight, (1, 1), "VALID") + bias[:, None, None]

    return Framework(
        name="jax", module=jax, array=jnp.array, finish=jax.block_until_ready,
        to_numpy=np.asarray, compile=jax.jit, relu=nn.relu, sigmoid=nn.sigmoid,
        softmax=lambda x: nn.softmax(x, axis=1), layer_norm=layer_norm, conv2d=conv2d,
    )


def _tinygrad(tinygrad: ModuleType, threads: int) -> Framework:
    def compile(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        captured: Callable[..., Tensor] = tinygrad.TinyJit(lambda *x: function(*x).realize())
        return captured

    def finish(x: Tensor) -> None:
        x.realize()
        tinygrad.Device[x.device].synchronize()

    return Framework(
        name="tinygrad", module=tinygrad, array=lambda x: tinygrad.Tensor(x).realize(),
        finish=finish, to_numpy=lambda x: x.numpy(), compile=compile,
        relu=lambda x: x.relu(), sigmoid=lambda x: x.sigmoid(), softmax=lambda x: x.softmax(1),
        layer_norm=lambda x, w, b: x.layernorm(eps=1e-5) * w + b,
        conv2d=lambda x, w, b: x.conv2d(w, b),
    )


LOADERS: dict[str, Callable[[ModuleType, int], Framework]] = {
    "lazyten": _lazyten, "numpy": _numpy, "torch": _torch, "jax": _jax, "tinygrad": _tinygrad,
}


def load(name: str, threads: int) -> Framework:
    """Import a framework and hold it to `threads` threads; ImportError where not installed."""
    return LOADERS[name](import_module(name), threads)


def installed(name: str) -> bool:
    """Whether `name` can be imported, without importing it."""
    return find_spec(name) is not None


def thread_environment(threads: int) -> dict[str, str]:
    """Environment variables that hold the frameworks to `threads` threads; set before imports."""
    counts = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "CPU_COUNT", "NPROC",
              "LAZYTEN_NUM_THREADS")
    eigen = "true" if threads > 1 else "false"
    return {**dict.fromkeys(counts, str(threads)),
            "XLA_FLAGS": f"--xla_cpu_multi_thread_eigen={eigen}",
            "JAX_PLATFORMS": "cpu", "DEV": "CPU"}


def hold_to_cores(threads: int) -> None:
    """Let this process run on `threads` cores only, where the system can say so.

    JAX has no setting for the size of its thread pool: it asks how many cores it may use.
    """
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
