"""Activations, products and convolutions in one with what stands beside them."""
from __future__ import annotations

import lazyten as lt
from lazyten.onnx.operators.elementwise import gelu
from lazyten.onnx.operators.linear import gemm
from lazyten.onnx.operators.recurrent import ACTIVATIONS
from lazyten.onnx.operators.shapes import triangle
from lazyten.onnx.operators.windows import conv, conv_transpose
from lazyten.onnx.schemas import MICROSOFT
from lazyten.onnx.table import operator
from lazyten.onnx.values import Array
from lazyten.support.errors import ArgumentError

T = lt.Tensor

operator("Gelu", domain=MICROSOFT, gives=1, fixed={"approximate": "none"})(gelu)
operator("Trilu", domain=MICROSOFT, gives=1, host="k", moves=True)(triangle)


@operator("BiasGelu", domain=MICROSOFT, gives=1)
def bias_gelu(x: T, bias: T) -> T:
    """gelu(x + bias)."""
    return gelu(x + bias)  # type: ignore[no-any-return]


@operator("FastGelu", domain=MICROSOFT, gives=1)
def fast_gelu(x: T, bias: T | None = None) -> T:
    """The approximation of gelu by tanh, of x + bias."""
    return gelu(x if bias is None else x + bias, approximate="tanh")  # type: ignore[no-any-return]


@operator("QuickGelu", domain=MICROSOFT, gives=1)
def quick_gelu(x: T, *, alpha: float = 1.702) -> T:
    """x sigmoid(alpha x)."""
    return x * (x * alpha).sigmoid()


@operator("BiasSplitGelu", domain=MICROSOFT, gives=1)
def bias_split_gelu(x: T, bias: T) -> T:
    """One half of x + bias times the gelu of the other."""
    value, gate = (x + bias).chunk(2, -1)
    return value * gelu(gate)  # type: ignore[no-any-return]


@operator("BiasAdd", domain=MICROSOFT, gives=1)
def bias_add(x: T, bias: T, skip: T) -> T:
    """x + bias + skip."""
    return x + bias + skip


def _turned(x: T, transposed: int, batch: int) -> T:
    """A factor with its last two axes transposed, and with its first axis put before the last."""
    if batch and x.ndim > 2:
        x = x.movedim(0, -2)
    return x.mT if transposed and x.ndim > 1 else x


@operator("FusedMatMul", "TransposeMatMul", domain=MICROSOFT, gives=1)
def fused_matmul(a: T, b: T, *, alpha: float = 1.0, transA: int = 0, transB: int = 0,
                 transBatchA: int = 0, transBatchB: int = 0) -> T:
    """alpha a b, with axes of a and b moved if asked."""
    found = lt.matmul(_turned(a, transA, transBatchA), _turned(b, transB, transBatchB))
    return found if alpha == 1 else found * alpha


def _activated(x: T, name: str, alpha: float | None, beta: float | None) -> T:
    """An activation of what was computed."""
    if not name:
        return x
    if name == "Clip":
        return x.clamp(alpha, beta)
    if name.lower() not in ACTIVATIONS:
        raise ArgumentError(f"activation {name!r}: {sorted(ACTIVATIONS)} are there")
    function, first, second = ACTIVATIONS[name.lower()]
    return function(x, first if alpha is None else alpha, second if beta is None else beta)


@operator("FusedMatMulActivation", domain=MICROSOFT, gives=1, fixed={"activation_gamma": 0.0})
def fused_matmul_activation(
        a: T, b: T, *, activation: str, activation_alpha: float | None = None,
        activation_beta: float | None = None, alpha: float = 1.0, transA: int = 0, transB: int = 0,
        transBatchA: int = 0, transBatchB: int = 0) -> T:
    """The same, and an activation of that."""
    found: T = fused_matmul(a, b, alpha=alpha, transA=transA, transB=transB,
                            transBatchA=transBatchA, transBatchB=transBatchB)
    return _activated(found, activation, activation_alpha, activation_beta)


@operator("GemmFastGelu", domain=MICROSOFT, gives=1)
def gemm_fast_gelu(x: T, w: T, bias: T | None = None) -> T:
    """The approximation of gelu by tanh, of x w + bias."""
    return fast_gelu(x @ w, bias)  # type: ignore[no-any-return]


@operator("BiasSoftmax", domain=MICROSOFT, gives=1)
def bias_softmax(x: T, bias: T, *, axis: int = 1, is_inner_broadcast: int) -> T:
    """Softmax of x + bias over all axes from one on."""
    total = x + bias
    return total.flatten(axis).softmax(-1).reshape(total.shape)


@operator("ScaledSiLU", domain=MICROSOFT, gives=1)
def scaled_silu(x: T, scale: T | None = None, *, alpha: float = 1.0) -> T:
    """z sigmoid(z) of z = scale x, or alpha x."""
    z = x * (alpha if scale is None else scale.to(x.dtype))
    return z * z.sigmoid()


@operator("GatedAdd", domain=MICROSOFT, gives=1)
def gated_add(x: T, y: T, gate: T, weight: T | None = None) -> T:
    """x + y gate; with weights the gate is the sigmoid of its product with them."""
    return x + y * (gate if weight is None else (gate @ weight).sigmoid())


@operator("ConvTransposeWithDynamicPads", domain=MICROSOFT, gives=1, host="pads")
def conv_transpose_of(x: T, w: T, pads: Array | None = None, b: T | None = None, *,
                      auto_pad: str = "NOTSET", dilations: list[int] | None = None, group: int = 1,
                      kernel_shape: list[int] | None = None,
                      output_padding: list[int] | None = None,
                      strides: list[int] | None = None) -> T:
    """A transposed convolution whose pads are an input."""
    return conv_transpose(  # type: ignore[no-any-return]
        x, w, b, auto_pad=auto_pad, dilations=dilations, group=group, kernel_shape=kernel_shape,
        output_padding=output_padding, pads=None if pads is None else pads.tolist(),
        strides=strides)


@operator("FusedConv", domain=MICROSOFT, gives=1)
def fused_conv(x: T, w: T, b: T | None = None, z: T | None = None, *, activation: str = "",
               activation_params: list[float] | None = None, auto_pad: str = "NOTSET",
               dilations: list[int] | None = None, group: int = 1,
               kernel_shape: list[int] | None = None, pads: list[int] | None = None,
               strides: list[int] | None = None) -> T:
    """A convolution, z added, and an activation of that."""
    found: T = conv(x, w, b, auto_pad=auto_pad, dilations=dilations, group=group,
                    kernel_shape=kernel_shape, pads=pads, strides=strides)
    alpha, beta, *_ = [*(activation_params or []), None, None]
    return _activated(found if z is None else found + z, activation, alpha, beta)


@operator("NhwcFusedConv", domain=MICROSOFT, gives=1)
def fused_conv_last(x: T, w: T, b: T | None = None, z: T | None = None, *, activation: str = "",
                    activation_params: list[float] | None = None, auto_pad: str = "NOTSET",
                    dilations: list[int] | None = None, group: int = 1,
                    kernel_shape: list[int] | None = None, pads: list[int] | None = None,
                    strides: list[int] | None = None) -> T:
    """The same of channels in the last axis, but for those of the weights."""
    found: T = fused_conv(
        x.movedim(-1, 1), w, b, None if z is None else z.movedim(-1, 1), activation=activation,
        activation_params=activation_params, auto_pad=auto_pad, dilations=dilations, group=group,
        kernel_shape=kernel_shape, pads=pads, strides=strides)
    return found.movedim(1, -1)


@operator("NhwcConv", domain=MICROSOFT, gives=1)
def conv_last(x: T, w: T, b: T | None = None, *, auto_pad: str = "NOTSET",
              dilations: list[int] | None = None, group: int = 1,
              kernel_shape: list[int] | None = None, pads: list[int] | None = None,
              strides: list[int] | None = None) -> T:
    """A convolution of channels in the last axis, as are those of the weights."""
    found: T = conv(x.movedim(-1, 1), w.movedim(-1, 1), b, auto_pad=auto_pad, dilations=dilations,
                    group=group, kernel_shape=kernel_shape, pads=pads, strides=strides)
    return found.movedim(1, -1)


@operator("FusedGemm", domain=MICROSOFT, gives=1, fixed={"activation_gamma": 0.0})
def fused_gemm(a: T, b: T, c: T | None = None, *, activation: str = "",
               activation_alpha: float | None = None, activation_beta: float | None = None,
               alpha: float = 1.0, beta: float = 1.0, transA: int = 0, transB: int = 0) -> T:
    """alpha a b + beta c, and an activation of that."""
    found = gemm(a, b, c, alpha=alpha, beta=beta, transA=transA, transB=transB)
    return _activated(found, activation, activation_alpha, activation_beta)
