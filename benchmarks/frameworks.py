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

from benchmarks import numpy_operations as by_numpy
from benchmarks.numpy_operations import Array

Tensor: TypeAlias = Any  # a tensor of any of five frameworks, which share no type

NAMES = ("lazyten", "numpy", "torch", "jax", "tinygrad")


class NotWritten(Exception):
    """A framework has no version of a row: its cell stays empty."""


@dataclass(frozen=True)
class Framework:
    """One framework's spelling of what the cases need.

    `finish` waits until a tensor, or a tuple of them, is computed. `compile` is what its users wrap
    a function in to make it fast: the identity where calls are eager. `softmax` and `layer_norm(x,
    weight, bias)` are over the last axis. Convolutions take images in NCHW, a stride and a padding;
    their gradients `(cotangent, x, weight, stride, padding)`. `attention` is of [B, H, T, D].
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
    cross_entropy: Callable[[Tensor, Tensor], Tensor]
    transposed: Callable[[Tensor], Tensor]
    conv2d: Callable[[Tensor, Tensor, int, int], Tensor]
    conv2d_input_gradient: Callable[..., Tensor]
    conv2d_weight_gradient: Callable[..., Tensor]
    attention: Callable[[Tensor, Tensor, Tensor], Tensor]
    attention_gradients: Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, ...]]


def identity(value: Tensor) -> Tensor:
    """The value itself: what an eager framework does to finish or compile."""
    return value


def not_written(*arguments: Tensor) -> Tensor:
    """Stands where nobody has written a framework's version of an operation."""
    raise NotWritten


NUMPY = Framework(
    name="numpy", module=np, array=np.copy, finish=identity, to_numpy=np.asarray,
    compile=identity, relu=lambda x: np.maximum(x, 0), sigmoid=lambda x: 1 / (1 + np.exp(-x)),
    softmax=by_numpy.softmax, layer_norm=by_numpy.layer_norm,
    cross_entropy=by_numpy.cross_entropy, transposed=lambda x: np.ascontiguousarray(x.T),
    conv2d=by_numpy.conv2d, conv2d_input_gradient=by_numpy.conv2d_input_gradient,
    conv2d_weight_gradient=by_numpy.conv2d_weight_gradient,
    attention=by_numpy.attention, attention_gradients=by_numpy.attention_gradients,
)


def to_float64(array: Array) -> Array:
    """Floats widened to float64, integers as they are."""
    return array.astype(np.float64) if array.dtype.kind == "f" else array


# What every framework's results are compared with.
REFERENCE = replace(NUMPY, array=to_float64)


def _numpy(module: ModuleType, threads: int) -> Framework:
    return NUMPY  # its threads are set by environment variables


def _lazyten(lt: ModuleType, threads: int) -> Framework:
    lt.set_num_threads(threads)
    functional = lt.nn.functional

    def finish(result: Tensor) -> None:
        lt.realize(*(result if isinstance(result, tuple) else (result,)))

    def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return (q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5).softmax(-1) @ v

    def attention_gradients(q: Tensor, k: Tensor, v: Tensor, cotangent: Tensor) -> Tensor:
        inputs = [(x * 1).requires_grad_() for x in (q, k, v)]  # not the arguments: jit forbids it
        attention(*inputs).backward(cotangent)
        return tuple(x.grad for x in inputs)

    def conv2d(x: Tensor, weight: Tensor, stride: int, padding: int) -> Tensor:
        return functional.conv2d(x, weight, None, stride, padding)

    def input_gradient(cotangent: Tensor, x: Tensor, weight: Tensor, *options: int) -> Tensor:
        x = lt.zeros(*x.shape).requires_grad_()  # convolution is linear: its value is not read
        conv2d(x, weight, *options).backward(cotangent)
        return x.grad

    def weight_gradient(cotangent: Tensor, x: Tensor, weight: Tensor, *options: int) -> Tensor:
        weight = lt.zeros(*weight.shape).requires_grad_()
        conv2d(x, weight, *options).backward(cotangent)
        return weight.grad

    return Framework(
        name="lazyten", module=lt, array=lambda x: lt.tensor(x).realize(), finish=finish,
        to_numpy=lambda x: x.numpy(), compile=lt.jit,
        relu=lambda x: x.relu(), sigmoid=lambda x: x.sigmoid(), softmax=lambda x: x.softmax(-1),
        layer_norm=lambda x, w, b: functional.layer_norm(x, x.shape[-1:], w, b),
        cross_entropy=functional.cross_entropy, transposed=lambda x: x.T.contiguous(),
        conv2d=conv2d, conv2d_input_gradient=input_gradient,
        conv2d_weight_gradient=weight_gradient,
        attention=attention, attention_gradients=attention_gradients,
    )


def _torch(torch: ModuleType, threads: int) -> Framework:
    torch.set_num_threads(threads)
    functional, gradients = torch.nn.functional, import_module("torch.nn.grad")

    def attention_gradients(q: Tensor, k: Tensor, v: Tensor, cotangent: Tensor) -> Tensor:
        inputs = [x.detach().requires_grad_() for x in (q, k, v)]
        return torch.autograd.grad(functional.scaled_dot_product_attention(*inputs), inputs,
                                   cotangent)

    return Framework(
        name="torch", module=torch, array=torch.tensor, finish=identity,
        to_numpy=lambda x: x.numpy(), compile=identity,
        relu=torch.relu, sigmoid=torch.sigmoid, softmax=lambda x: x.softmax(-1),
        layer_norm=lambda x, w, b: functional.layer_norm(x, x.shape[-1:], w, b),
        cross_entropy=functional.cross_entropy, transposed=lambda x: x.T.contiguous(),
        conv2d=lambda x, w, stride, padding: functional.conv2d(x, w, None, stride, padding),
        conv2d_input_gradient=lambda g, x, w, stride, padding: gradients.conv2d_input(
            x.shape, w, g, stride, padding),
        conv2d_weight_gradient=lambda g, x, w, stride, padding: gradients.conv2d_weight(
            x, w.shape, g, stride, padding),
        attention=functional.scaled_dot_product_attention,
        attention_gradients=attention_gradients,
    )


def _jax(jax: ModuleType, threads: int) -> Framework:
    jnp, nn = jax.numpy, jax.nn

    def layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return nn.standardize(x, axis=-1, epsilon=1e-5) * weight + bias

    def cross_entropy(scores: Tensor, labels: Tensor) -> Tensor:
        return -nn.log_softmax(scores)[jnp.arange(len(labels)), labels].mean()

    def conv2d(x: Tensor, weight: Tensor, stride: int, padding: int) -> Tensor:
        return jax.lax.conv(x, weight, (stride, stride), [(padding, padding)] * 2)

    def input_gradient(cotangent: Tensor, x: Tensor, weight: Tensor, *options: int) -> Tensor:
        return jax.vjp(lambda x: conv2d(x, weight, *options), x)[1](cotangent)[0]

    def weight_gradient(cotangent: Tensor, x: Tensor, weight: Tensor, *options: int) -> Tensor:
        return jax.vjp(lambda w: conv2d(x, w, *options), weight)[1](cotangent)[0]

    def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return nn.softmax(q @ k.swapaxes(-2, -1) * q.shape[-1] ** -0.5) @ v

    return Framework(
        name="jax", module=jax, array=jnp.array, finish=jax.block_until_ready,
        to_numpy=np.asarray, compile=jax.jit, relu=nn.relu, sigmoid=nn.sigmoid,
        softmax=nn.softmax, layer_norm=layer_norm, cross_entropy=cross_entropy,
        transposed=lambda x: x.T, conv2d=conv2d, conv2d_input_gradient=input_gradient,
        conv2d_weight_gradient=weight_gradient, attention=attention,
        attention_gradients=lambda q, k, v, g: jax.vjp(attention, q, k, v)[1](g),
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
        relu=lambda x: x.relu(), sigmoid=lambda x: x.sigmoid(), softmax=lambda x: x.softmax(-1),
        layer_norm=lambda x, w, b: x.layernorm(eps=1e-5) * w + b,
        cross_entropy=lambda x, y: x.sparse_categorical_crossentropy(y),
        transposed=lambda x: x.T.contiguous(),
        conv2d=lambda x, w, stride, padding: x.conv2d(w, stride=stride, padding=padding),
        conv2d_input_gradient=not_written, conv2d_weight_gradient=not_written,
        attention=lambda q, k, v: q.scaled_dot_product_attention(k, v),
        attention_gradients=not_written,
    )


LOADERS: dict[str, Callable[[ModuleType, int], Framework]] = {
    "lazyten": _lazyten, "numpy": _numpy, "torch": _torch, "jax": _jax, "tinygrad": _tinygrad,
}


def package_of(name: str) -> str:
    """The package of a framework: lazyten's for 'lazyten:opencl', which is lazyten on a device."""
    return name.partition(":")[0]


def load(name: str, threads: int) -> Framework:
    """Import a framework and hold it to `threads` threads; ImportError where not installed. The
    device of a name is the default one of this process from then on."""
    package, _, device = name.partition(":")
    if device:
        os.environ["DEVICE"] = device
    return LOADERS[package](import_module(package), threads)


def installed(name: str) -> bool:
    """Whether the framework of this name can be imported, without importing it."""
    package = package_of(name)
    with_device = name != package
    return package in NAMES[:1 if with_device else None] and find_spec(package) is not None


def thread_environment(threads: int) -> dict[str, str]:
    """Environment variables that hold the frameworks to `threads` threads; set before imports."""
    counts = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "CPU_COUNT", "NPROC",
              "LAZYTEN_NUM_THREADS", "POCL_MAX_PTHREAD_COUNT")
    eigen = "true" if threads > 1 else "false"
    return {**dict.fromkeys(counts, str(threads)),
            "XLA_FLAGS": f"--xla_cpu_multi_thread_eigen={eigen}",
            "JAX_PLATFORMS": "cpu", "DEV": "CPU"}


def usable_cores() -> int:
    """Cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def hold_to_cores(threads: int) -> None:
    """Let this process run on `threads` cores only, where the system can say so.

    JAX has no setting for the size of its thread pool: it asks how many cores it may use.
    """
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
