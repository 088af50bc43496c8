"""What computes with quantized integers."""
from __future__ import annotations

import math
from collections.abc import Callable

import lazyten as lt
from lazyten.onnx.operators.elementwise import leaky_relu
from lazyten.onnx.operators.microsoft.attention import UNUSED, attend_projected
from lazyten.onnx.operators.microsoft.normalization import embedded
from lazyten.onnx.operators.recurrent import Options, lstm_of
from lazyten.onnx.operators.special.integers import centred, factors, matmul_integer, qlinear_conv
from lazyten.onnx.operators.types import dequantize, dynamic_quantize, quantize
from lazyten.onnx.operators.windows import max_pool, pooled_sums
from lazyten.onnx.schemas import MICROSOFT
from lazyten.onnx.table import operator

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


@operator("QLinearConv", domain=MICROSOFT, gives=1)
def qlinear_conv_of(x: T, x_scale: T, x_zero: T, w: T, w_scale: T, w_zero: T, y_scale: T, y_zero: T,
                    b: T | None = None, *, auto_pad: str = "NOTSET", channels_last: int = 0,
                    dilations: list[int] | None = None, group: int = 1,
                    kernel_shape: list[int] | None = None, pads: list[int] | None = None,
                    strides: list[int] | None = None) -> T:
    """A convolution of quantized arrays, quantized, whose channels may be the last axis."""
    found: T = qlinear_conv(
        x.movedim(-1, 1) if channels_last else x, x_scale, x_zero, w, w_scale, w_zero, y_scale,
        y_zero, b, auto_pad=auto_pad, dilations=dilations, group=group, kernel_shape=kernel_shape,
        pads=pads, strides=strides)
    return found.movedim(1, -1) if channels_last else found


@operator("NhwcMaxPool", domain=MICROSOFT, gives=1)
def max_pool_last(x: T, *, auto_pad: str = "NOTSET", ceil_mode: int = 0,
                  dilations: list[int] | None = None, kernel_shape: list[int],
                  pads: list[int] | None = None, strides: list[int] | None = None) -> T:
    """The greatest element of each window, of channels in the last axis."""
    found: tuple[T, ...] = max_pool(
        x.movedim(-1, 1), auto_pad=auto_pad, ceil_mode=ceil_mode, dilations=dilations,
        kernel_shape=kernel_shape, pads=pads, strides=strides)
    return found[0].movedim(1, -1)


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
    whole = factors(a, a_zero, b, b_zero, bool(transB))
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


@operator("QLinearReduceMean", domain=MICROSOFT, gives=1)
def qlinear_mean(x: T, x_scale: T, x_zero: T | None, y_scale: T, y_zero: T | None = None, *,
                 axes: list[int], keepdims: int = 1) -> T:
    """Means of quantized numbers over axes, of all if there are none, quantized."""
    over = tuple(axes or range(x.ndim))
    found = _wide(x, x_scale, x_zero).mean(over, keepdim=bool(keepdims))
    return _narrow(found, y_scale, y_zero, x)


@operator("MatMulInteger16", domain=MICROSOFT, gives=1)
def matmul_16(a: T, b: T) -> T:
    """Products of integers of 16 bits, in 32."""
    return lt.matmul(a.to(lt.int32), b.to(lt.int32))


@operator("QEmbedLayerNormalization", domain=MICROSOFT, gives=2)
def quantized_embedding(ids: T, segments: T | None, words: T, positions: T, kinds: T | None,
                        gamma: T, beta: T, mask: T | None, words_scale: T, positions_scale: T,
                        kinds_scale: T | None, gamma_scale: T, beta_scale: T, words_zero: T,
                        positions_zero: T, kinds_zero: T | None, gamma_zero: T, beta_zero: T, *,
                        epsilon: float = 1e-12) -> tuple[T, T]:
    """EmbedLayerNormalization of quantized weights."""
    wide = None if kinds is None or kinds_scale is None else _wide(kinds, kinds_scale, kinds_zero)
    found: tuple[T, ...] = embedded(
        ids, segments, _wide(words, words_scale, words_zero),
        _wide(positions, positions_scale, positions_zero), wide,
        _wide(gamma, gamma_scale, gamma_zero), _wide(beta, beta_scale, beta_zero), mask,
        epsilon=epsilon)
    return found[0], found[1]


def _rounded(x: T) -> T:
    """Floats as they are once quantized by their range."""
    whole, scale, zero = dynamic_quantize(x)
    return _wide(whole, scale, zero)


@operator("DynamicQuantizeLSTM", domain=MICROSOFT, gives=3)
def quantized_lstm(x: T, w: T, r: T, b: T | None, lengths: T | None, initial_h: T | None,
                   initial_c: T | None, peepholes: T | None, w_scale: T | None, w_zero: T | None,
                   r_scale: T | None, r_zero: T | None, *,
                   activation_alpha: list[float] | None = None,
                   activation_beta: list[float] | None = None,
                   activations: list[str] | None = None, clip: float = 0.0,
                   direction: str = "forward", hidden_size: int = 0,
                   input_forget: int = 0) -> tuple[T, T, T]:
    """An LSTM with quantized weights, [directions, from, gates]; inputs and states are quantized by
    their range before they meet these. Weights without a scale are floats (rewrites.py)."""
    options = Options(activations, activation_alpha, activation_beta, clip, direction, 0)
    return lstm_of(_rounded(x), _gates(w, w_scale, w_zero), _gates(r, r_scale, r_zero), b, lengths,
                   initial_h, initial_c, peepholes, options, input_forget, _rounded)


def _gates(w: T, scale: T | None, zero: T | None) -> T:
    """Weights [directions, gates, from] of quantized ones, with a scale for each direction, or for
    each gate's places, too."""
    if scale is None or zero is None:
        return w.mT
    scale, zero = (x.reshape(w.shape[0], 1, -1) for x in (scale, zero))
    return _wide(w, scale, zero).mT
