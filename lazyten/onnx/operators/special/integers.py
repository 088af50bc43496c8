"""Products and convolutions of quantized integers."""
from __future__ import annotations

import lazyten as lt
from lazyten.onnx.operators.linear import matmul
from lazyten.onnx.operators.types import quantize
from lazyten.onnx.operators.windows import Ints, conv
from lazyten.onnx.table import operator

T = lt.Tensor


def centred(x: T, zero: T | None, axis: int | None = None, kind: lt.DType = lt.int32) -> T:
    """x - zero point, which is one or one for each place of an axis, in int32; computed in `kind`.
    """
    if zero is None:
        return x.to(lt.int32)
    whole, zero = x.to(kind), zero.to(kind)
    if zero.ndim == 1 and zero.shape[0] > 1 and axis is not None:
        zero = zero.reshape([-1 if i == axis % x.ndim else 1 for i in range(x.ndim)])
    return (whole - (zero.reshape(()) if zero.numel() == 1 else zero)).to(lt.int32)


def factors(a: T, a_zero: T | None, b: T, b_zero: T | None, turned: bool = False) -> tuple[T, T]:
    """The factors of a product, less their zero points; turned: b's columns are its rows. What 8
    bits differ by has 16: products of such are added in pairs."""
    narrow = all(x is None or x.dtype.itemsize == 1 for x in (a, a_zero, b_zero))
    kind = lt.int16 if narrow and b.dtype.itemsize <= 2 else lt.int32
    return centred(a, a_zero, -2, kind), centred(b, b_zero, -2 if turned else -1, kind)


@operator("MatMulInteger")
def matmul_integer(a: T, b: T, a_zero: T | None = None, b_zero: T | None = None) -> T:
    """Products of integers, less their zero points."""
    return lt.matmul(*factors(a, a_zero, b, b_zero))


@operator("ConvInteger")
def conv_integer(x: T, w: T, x_zero: T | None = None, w_zero: T | None = None,
                 *, auto_pad: str = "NOTSET", dilations: Ints = None, group: int = 1,
                 kernel_shape: Ints = None, pads: Ints = None, strides: Ints = None) -> T:
    """A convolution of integers, less their zero points."""
    return conv(centred(x, x_zero), centred(w, w_zero, 0), auto_pad=auto_pad,  # type: ignore[no-any-return]
                dilations=dilations, group=group, kernel_shape=kernel_shape, pads=pads,
                strides=strides)


@operator("QLinearMatMul")
def qlinear_matmul(a: T, a_scale: T, a_zero: T, b: T, b_scale: T, b_zero: T, y_scale: T,
                   y_zero: T) -> T:
    """A product of quantized matrices, quantized."""
    whole = matmul(*factors(a, a_zero, b, b_zero))
    factor = a_scale.to(lt.float32) * b_scale.to(lt.float32)
    return quantize(whole.to(lt.float32) * factor, y_scale.to(lt.float32), y_zero)  # type: ignore[no-any-return]


@operator("QLinearConv")
def qlinear_conv(x: T, x_scale: T, x_zero: T, w: T, w_scale: T, w_zero: T, y_scale: T, y_zero: T,
                 b: T | None = None, *, auto_pad: str = "NOTSET", dilations: Ints = None,
                 group: int = 1, kernel_shape: Ints = None, pads: Ints = None,
                 strides: Ints = None) -> T:
    """A convolution of quantized arrays, quantized."""
    whole = conv(centred(x, x_zero), centred(w, w_zero, 0), auto_pad=auto_pad,
                 dilations=dilations, group=group, kernel_shape=kernel_shape, pads=pads,
                 strides=strides)
    if b is not None:
        whole = whole + b.reshape(-1, *[1] * (w.ndim - 2))
    factor = (x_scale * w_scale).reshape(-1, *[1] * (w.ndim - 2))
    return quantize(whole.to(lt.float32) * factor, y_scale, y_zero)  # type: ignore[no-any-return]

