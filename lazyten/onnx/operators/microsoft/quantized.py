"""What computes with quantized integers, or with weights of few bits."""
from __future__ import annotations

import math
from collections.abc import Callable

import lazyten as lt
from lazyten.onnx.operators.elementwise import leaky_relu
from lazyten.onnx.operators.microsoft.attention import UNUSED, attend_projected
from lazyten.onnx.operators.recurrent import Options, lstm_of
from lazyten.onnx.operators.special.integers import centred, matmul_integer
from lazyten.onnx.operators.types import dequantize, dynamic_quantize, quantize
from lazyten.onnx.operators.windows import pooled_sums
from lazyten.onnx.schemas import MICROSOFT
from lazyten.onnx.table import operator
from lazyten.support.errors import ArgumentError

T = lt.Tensor

operator("QuantizeLinear", domain=MICROSOFT, gives=1, foreign=True,
         fixed={"block_size": 0})(quantize)
operator("DequantizeLinear", domain=MICROSOFT, gives=1, foreign=True,
         fixed={"block_size": 0})(dequantize)


def _wide(x: T, scale: T, zero: T | None) -> T:
    """Quantized numbers as floats."""
    return centred(x, zero).to(lt.float32) * scale


def _binary(name: str, function: Callable[[T, T], T]) -> None:
    @operator(name, domain=MICROSOFT, gives=1)
    def apply(a: T, a_scale: T, a_zero: T | None, b: T, b_scale: T, b_zero: T | None, c_scale: T,
              c_zero: T | None = None) -> T:
        found = function(_wide(a, a_scale, a_zero), _wide(b, b_scale, b_zero))
        return _narrow(found, c_scale, c_zero, a)


def _narrow(x: T, scale: T, zero: T | None, like: T) -> T:
    """Floats quantized, in the type of another."""
    zero = lt.zeros((), dtype=like.dtype, device=like.device) if zero is None else zero
    return quantize(x, scale, zero)  # type: ignore[no-any-return]


_binary("QLinearAdd", lt.add)
_binary("QLinearMul", lt.mul)


@operator("QLinearSigmoid", domain=MICROSOFT, gives=1)
def qlinear_sigmoid(x: T, x_scale: T, x_zero: T | None, y_scale: T, y_zero: T | None = None) -> T:
    """Sigmoids of quantized numbers, quantized."""
    return _narrow(_wide(x, x_scale, x_zero).sigmoid(), y_scale, y_zero, x)


@operator("QLinearLeakyRelu", domain=MICROSOFT, gives=1)
def qlinear_leaky_relu(x: T, x_scale: T, x_zero: T | None, y_scale: T, y_zero: T | None = None, *,
                       alpha: float = 0.01) -> T:
    """LeakyRelu of quantized numbers, quantized."""
    return _narrow(leaky_relu(_wide(x, x_scale, x_zero), alpha=alpha), y_scale, y_zero, x)


@operator("QLinearSoftmax", domain=MICROSOFT, gives=1)
def qlinear_softmax(x: T, x_scale: T, x_zero: T | None, y_scale: T, y_zero: T, *, opset: int,
                    axis: int = -1) -> T:
    """Softmax of quantized numbers, quantized; before opset 13 all axes from one on were one."""
    wide = _wide(x, x_scale, x_zero)
    found = wide.softmax(axis) if opset >= 13 else wide.flatten(axis).softmax(-1).reshape(x.shape)
    return _narrow(found, y_scale, y_zero, x)


@operator("QLinearGlobalAveragePool", domain=MICROSOFT, gives=1)
def qlinear_global_average(x: T, x_scale: T, x_zero: T, y_scale: T, y_zero: T, *,
                           channels_last: int = 0) -> T:
    """The mean over all spatial axes of quantized numbers, quantized."""
    axes = tuple(range(1, x.ndim - 1) if channels_last else range(2, x.ndim))
    return _narrow(_wide(x, x_scale, x_zero).mean(axes, keepdim=True), y_scale, y_zero, x)


@operator("QLinearAveragePool", domain=MICROSOFT, gives=1, fixed={"channels_last": 0})
def qlinear_average(x: T, x_scale: T, x_zero: T | None, y_scale: T, y_zero: T | None = None, *,
                    kernel_shape: list[int], auto_pad: str = "NOTSET", ceil_mode: int = 0,
                    count_include_pad: int = 0, pads: list[int] | None = None,
                    strides: list[int] | None = None) -> T:
    """The mean of each window of quantized numbers, quantized. With count_include_pad a window that
    ends behind what is padded has as many elements as any."""
    total, count = pooled_sums(_wide(x, x_scale, x_zero), kernel_shape, auto_pad, ceil_mode,
                               count_include_pad, None, pads, strides)
    return _narrow(total / (math.prod(kernel_shape) if count_include_pad else count), y_scale,
                   y_zero, x)


@operator("QLinearConcat", domain=MICROSOFT, gives=1)
def qlinear_concat(y_scale: T, y_zero: T, *inputs: T, axis: int) -> T:
    """Quantized arrays behind each other, each with its scale and zero point, quantized anew."""
    parts = [_wide(x, scale, zero) for x, scale, zero in zip(
        inputs[0::3], inputs[1::3], inputs[2::3], strict=True)]
    return _narrow(lt.cat(parts, axis), y_scale, y_zero, y_zero)


@operator("QLinearWhere", domain=MICROSOFT, gives=1)
def qlinear_where(condition: T, x: T, x_scale: T, x_zero: T, y: T, y_scale: T, y_zero: T,
                  z_scale: T, z_zero: T) -> T:
    """Quantized numbers of one array where a condition holds, and of another elsewhere."""
    found: T = lt.where(condition, _wide(x, x_scale, x_zero), _wide(y, y_scale, y_zero))
    return _narrow(found, z_scale, z_zero, x)


@operator("MatMulIntegerToFloat", domain=MICROSOFT, gives=1)
def integer_to_float(a: T, b: T, a_scale: T, b_scale: T, a_zero: T | None = None,
                     b_zero: T | None = None, bias: T | None = None) -> T:
    """A product of quantized matrices as floats, with a bias."""
    found = matmul_integer(a, b, a_zero, b_zero).to(lt.float32)
    found = found * (a_scale.to(lt.float32) * b_scale.to(lt.float32))
    wide: T = found if bias is None else found + bias
    return wide.to(a_scale.dtype)


@operator("DynamicQuantizeMatMul", domain=MICROSOFT, gives=1)
def dynamic_matmul(a: T, b: T, b_scale: T, b_zero: T | None = None, bias: T | None = None) -> T:
    """A product with a quantized matrix, of floats that are quantized by their range."""
    whole, scale, zero = dynamic_quantize(a)
    return integer_to_float(whole, b, scale, b_scale, zero, b_zero, bias)  # type: ignore[no-any-return]


@operator("QGemm", domain=MICROSOFT, gives=1)
def quantized_gemm(a: T, a_scale: T, a_zero: T, b: T, b_scale: T, b_zero: T, c: T | None = None,
                   y_scale: T | None = None, y_zero: T | None = None, *, alpha: float = 1.0,
                   transA: int = 0, transB: int = 0) -> T:
    """alpha a b + c of quantized matrices: floats, or quantized if a scale is given."""
    whole = centred(a, a_zero), centred(b, b_zero, 0 if transB else 1)
    found = lt.matmul(whole[0].mT if transA else whole[0], whole[1].mT if transB else whole[1])
    if c is not None:
        found = found + c
    wide = found.to(lt.float32) * (a_scale * b_scale * alpha)
    return wide if y_scale is None else _narrow(wide, y_scale, y_zero, a)


@operator("QAttention", domain=MICROSOFT, gives=2, fixed=UNUSED)
def quantized_attention(x: T, weight: T, bias: T, x_scale: T, weight_scale: T,
                        mask_index: T | None = None, x_zero: T | None = None,
                        weight_zero: T | None = None, past: T | None = None, *, num_heads: int,
                        mask_filter_value: float = -10000.0, scale: float = 0.0,
                        unidirectional: int = 0) -> tuple[T, T]:
    """Attention whose queries, keys and values are a product of quantized matrices."""
    found = integer_to_float(x, weight, x_scale, weight_scale, x_zero, weight_zero, bias)
    return attend_projected(found, mask_index, past, None, num_heads, mask_filter_value, None,
                            scale, unidirectional)


def _rounded(x: T) -> T:
    """Floats as they are once quantized by their range."""
    whole, scale, zero = dynamic_quantize(x)
    return _wide(whole, scale, zero)


@operator("DynamicQuantizeLSTM", domain=MICROSOFT, gives=3)
def quantized_lstm(x: T, w: T, r: T, b: T | None, lengths: T | None, initial_h: T | None,
                   initial_c: T | None, peepholes: T | None, w_scale: T, w_zero: T, r_scale: T,
                   r_zero: T, *, activation_alpha: list[float] | None = None,
                   activation_beta: list[float] | None = None,
                   activations: list[str] | None = None, clip: float = 0.0,
                   direction: str = "forward", hidden_size: int = 0,
                   input_forget: int = 0) -> tuple[T, T, T]:
    """An LSTM with quantized weights, [directions, from, gates]; inputs and states are quantized by
    their range before they meet these."""
    options = Options(activations, activation_alpha, activation_beta, clip, direction, 0)
    return lstm_of(_rounded(x), _gates(w, w_scale, w_zero), _gates(r, r_scale, r_zero), b, lengths,
                   initial_h, initial_c, peepholes, options, input_forget, _rounded)


def _gates(w: T, scale: T, zero: T) -> T:
    """Weights [directions, gates, from] of quantized ones, with a scale for each direction, or for
    each gate's places, too."""
    scale, zero = (x.reshape(w.shape[0], 1, -1) for x in (scale, zero))
    return _wide(w, scale, zero).mT


def _unpacked(packed: T, bits: int) -> T:
    """The numbers of some bits that bytes hold, the lowest first, along the last axis."""
    if bits == 8:
        return packed
    places = lt.arange(0, 8, bits, dtype=lt.uint8, device=packed.device)
    found: T = (packed.unsqueeze(-1) >> places) & (2 ** bits - 1)
    return found.flatten(-2)


@operator("MatMulNBits", domain=MICROSOFT, gives=1, fixed={"weight_prepacked": 0})
def matmul_bits(a: T, b: T, scales: T, zero_points: T | None = None, g_idx: T | None = None,
                bias: T | None = None, *, K: int, N: int, block_size: int, bits: int = 4,
                accuracy_level: int = 0) -> T:
    """a times a matrix [N, K] whose blocks of a row share a scale and a zero point."""
    if bits not in (2, 4, 8):
        raise ArgumentError(f"weights of {bits} bits: 2, 4 and 8 are supported")
    blocks = -(-K // block_size)
    whole = _unpacked(b.reshape(N, blocks, -1), bits).to(scales.dtype)
    scales = scales.reshape(N, blocks, 1)
    zero: T | float = 2.0 ** (bits - 1)
    if zero_points is not None and zero_points.dtype is lt.uint8:
        zero = _unpacked(zero_points.reshape(N, -1), bits)[:, :blocks, None].to(scales.dtype)
    elif zero_points is not None:
        zero = zero_points.reshape(N, blocks, 1)
    if g_idx is not None:
        groups = g_idx.to(lt.int64)
        whole = whole.reshape(N, -1)[:, :K]
        scales = scales[:, :, 0][:, groups]
        zero = zero[:, :, 0][:, groups] if isinstance(zero, lt.Tensor) else zero
    weights = ((whole - zero) * scales).reshape(N, -1)[:, :K]
    found = lt.matmul(a, weights.mT)
    return found if bias is None else found + bias
