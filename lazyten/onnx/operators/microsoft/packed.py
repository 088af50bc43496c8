"""Weights of few bits, several to a byte."""
from __future__ import annotations

import lazyten as lt
from lazyten.onnx.operators.indexing import gather
from lazyten.onnx.schemas import MICROSOFT
from lazyten.onnx.table import operator
from lazyten.onnx.values import Value
from lazyten.support.errors import ArgumentError

T = lt.Tensor
FP4 = (0.0, 0.0052083333, 2 / 3, 1.0, 1 / 3, 0.5, 1 / 6, 0.25)
NF4 = (-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
       -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
       0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
       0.7229568362236023, 1.0)
"""Numbers that 4 bits stand for: T. Dettmers et al., QLoRA (2023), and its program bitsandbytes."""


def unpacked(packed: T, bits: int) -> T:
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
    whole = unpacked(b.reshape(N, blocks, -1), bits).to(scales.dtype)
    scales = scales.reshape(N, blocks, 1)
    zero: T | float = 2.0 ** (bits - 1)
    if zero_points is not None and zero_points.dtype is lt.uint8:
        zero = unpacked(zero_points.reshape(N, -1), bits)[:, :blocks, None].to(scales.dtype)
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


@operator("MatMulBnb4", domain=MICROSOFT, gives=1, fixed={"training_mode": 0})
def matmul_bnb(a: T, b: T, absmax: T, *, K: int, N: int, block_size: int, quant_type: int,
               transB: int = 1) -> T:
    """a times a matrix whose numbers are of a table of 16, times the greatest of their block; the
    first of two in a byte is in its upper half."""
    if quant_type not in (0, 1):
        raise ArgumentError(f"quant_type {quant_type}: 0 for FP4, 1 for NF4")
    table = NF4 if quant_type else (*FP4, *(-v for v in FP4))
    places = lt.stack([b.reshape(-1) >> 4, b.reshape(-1) & 15], 1).flatten()[:N * K]
    values = lt.tensor(table, device=a.device)[places.to(lt.int64)]
    factor = absmax.reshape(-1).to(lt.float32).repeat_interleave(block_size)[:N * K]
    weights = (values * factor).to(a.dtype).reshape(N, K) if transB else \
        (values * factor).to(a.dtype).reshape(K, N).mT
    return lt.matmul(a, weights.mT)


@operator("GatherBlockQuantized", domain=MICROSOFT, gives=1, foreign=True)
def gather_quantized(data: Value, indices: T, scales: T, zero_points: Value = None, *,
                     bits: int = 4, block_size: int = 128, gather_axis: int = 0,
                     quantize_axis: int = 1) -> T:
    """Slices of quantized numbers, whose blocks along an axis share a scale and a zero point."""
    packed = isinstance(data, lt.Tensor) and data.dtype is lt.uint8
    if bits not in (2, 4, 8) or block_size < 1:
        raise ArgumentError(f"numbers of {bits} bits in blocks of {block_size}: 2, 4 and 8 bits "
                            f"are supported")
    axis, along = gather_axis % len(data.shape), quantize_axis % len(data.shape)
    whole = _numbers(data, bits, packed, scales.dtype)
    spread = along + indices.ndim - 1 if along > axis else along

    def taken(x: T) -> T:
        return gather(x, indices, axis=axis).movedim(spread, -1)  # type: ignore[no-any-return]
    values, factor = taken(whole), taken(scales)
    size = values.shape[-1]
    if zero_points is not None:
        low = taken(_numbers(zero_points, bits, packed, scales.dtype))
        values = values - low.repeat_interleave(block_size, dim=-1)[..., :size]
    elif packed:
        values = values - 2.0 ** (bits - 1)
    factor = factor.repeat_interleave(block_size, dim=-1)[..., :size]
    return (values * factor).movedim(-1, spread)


def _numbers(x: Value, bits: int, packed: bool, dtype: lt.DType) -> T:
    if not isinstance(x, lt.Tensor):
        return lt.tensor(x.astype("int8")).to(dtype)
    return (unpacked(x, bits) if packed else x).to(dtype)
