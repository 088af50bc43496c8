"""The op table: every op declared once, with its arity, dtype rule, NumPy meaning and error bound.

The NumPy meaning is THE semantics: the interpreter runtime, constant folding and the tests all call
it. What a target language spells differently is a row of that language's renderer; gradients are
rows of `gradient.py`. Adding an elementwise op is a row here, a row there and a row in a renderer.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np

from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType, Scalar


class _Ops(type):
    """Makes `Op` iterable, in the order of declaration."""

    def __iter__(cls) -> Iterator[Op]:
        return (op for op in vars(cls).values() if isinstance(op, Op))


class Op(metaclass=_Ops):
    """Everything a Node can be; see the sections of ARCHITECTURE.md. Compared with `is`.

    No Enum: passes do little else than look at ops, and Python 3.11 takes five times as long to
    reach a member of an Enum.
    """

    __slots__ = ("name", "value")
    name: str
    value: int

    def __repr__(self) -> str:
        return f"Op.{self.name}"

    def __reduce__(self) -> str:
        return f"Op.{self.name}"

    def __copy__(self) -> Op:
        return self

    def __deepcopy__(self, memo: object) -> Op:
        return self

    # GRAPH: whole arrays
    BUFFER: ClassVar[Op]           # arg: Buffer; a flat array in device memory, shape (size,)
    CONST: ClassVar[Op]            # arg: (value, shape); at LOOP level the shape is ()
    IOTA: ClassVar[Op]             # arg: n; 0, 1, .. n-1, shape (n,)
    COPY: ClassVar[Op]             # arg: (from device, to device); the same values there
    CONTIGUOUS: ClassVar[Op]       # the same values, stored to memory
    LEAF: ClassVar[Op]             # arg: leaf id; the same values, where a gradient is wanted
    DETACH: ClassVar[Op]           # the same values, where gradients stop
    CUSTOM_GRADIENT: ClassVar[Op]  # src: value, inputs...; arg: vjp rule; the value, its own
                                   # gradient
    CHECKED: ClassVar[Op]          # arg: IndexBound or ValueBound; checked when it is realized
    SHARD: ClassVar[Op]            # arg: Sharding; the same values, which ranks share out along an
                                   # axis; see lazyten/sharding
    JOINED: ClassVar[Op]           # arg: Sharding; what ranks have parts of along an axis: src is
                                   # this rank's, and whatever it is made of its own business
    OWN: ClassVar[Op]              # arg: Sharding; this rank's part of what all compute, and from
                                   # there on its own business
    REDUCE: ClassVar[Op]           # arg: (combiner, axes); reduced axes keep size 1
    RESHAPE: ClassVar[Op]          # arg: new shape
    PERMUTE: ClassVar[Op]          # arg: order; out.shape[i] == in.shape[order[i]]
    EXPAND: ClassVar[Op]           # arg: new shape; axes of size 1 repeat
    PAD: ClassVar[Op]              # arg: ((before, after), ...); zeros around
    SHRINK: ClassVar[Op]           # arg: ((start, stop), ...)
    FLIP: ClassVar[Op]             # arg: axes
    SHEAR: ClassVar[Op]            # arg: (axis, by, factor, offset, size); see movement.py
    GATHER: ClassVar[Op]           # src: x, index; arg: axis; x[.., index[.., j, ..], ..], 0
                                   # outside
    SCATTER: ClassVar[Op]          # src: base, index, values; arg: (axis, combiner or None): base,
                                   # with values[.., j, ..] put in or combined at
                                   # [.., index[.., j, ..], ..]
    SCAN: ClassVar[Op]             # src: rows..., first states..., same for all...; arg: Body; the
                                   # states after each of a row of steps; see scan.py
    COLLECTIVE: ClassVar[Op]       # src: x, or several; arg: Collective; what the ranks of a group
                                   # make together of what each has; see collective.py

    # ELEMENTWISE: GRAPH, LOOP and index arithmetic alike
    NEG: ClassVar[Op]
    EXP: ClassVar[Op]              # its own op: EXP2(x / ln 2) would lose |x| / 2 ulp
    EXP2: ClassVar[Op]
    LOG2: ClassVar[Op]
    SIN: ClassVar[Op]
    COS: ClassVar[Op]
    SQRT: ClassVar[Op]
    RECIPROCAL: ClassVar[Op]
    CAST: ClassVar[Op]             # dtype of the node is the target
    BITCAST: ClassVar[Op]
    NOT: ClassVar[Op]              # bitwise; logical for bool
    ADD: ClassVar[Op]
    SUB: ClassVar[Op]
    MUL: ClassVar[Op]
    DIV: ClassVar[Op]              # floats only
    IDIV: ClassVar[Op]             # floor division; x // 0 is 0 for integers
    MOD: ClassVar[Op]              # sign of the divisor; x % 0 is 0 for integers
    POW: ClassVar[Op]
    MAX: ClassVar[Op]              # NaN if either is
    CMPLT: ClassVar[Op]
    CMPNE: ClassVar[Op]
    AND: ClassVar[Op]
    OR: ClassVar[Op]
    XOR: ClassVar[Op]
    SHL: ClassVar[Op]              # 0 where the count is out of range
    SHR: ClassVar[Op]              # arithmetic for signed types
    WHERE: ClassVar[Op]            # condition, then, otherwise
    MULACC: ClassVar[Op]           # a * b + c, rounded once or twice

    # LOOP: one element of a kernel
    PARAM: ClassVar[Op]            # arg: Param(slot, size); a kernel argument
    RANGE: ClassVar[Op]            # arg: Range(id, extent, kind); a loop variable
    LOAD: ClassVar[Op]             # src: param, index[, valid]; 0 where not valid
    STORE: ClassVar[Op]            # src: param, index, value[, valid]; arg: combiner with what is
                                   # there
    ACCUMULATE: ClassVar[Op]       # src: value, range...; arg: combiner
    STAGE: ClassVar[Op]            # src: value, index, range...; arg: LocalArray, in local memory,
                                   # filled as the ranges run. With n buffers there
                                   # are n values, each with its index: of the first n - 1 times
                                   # that it is filled, and of n - 1 iterations later
    MATRIX: ClassVar[Op]           # src: a, b, ranges of the result as in arg.c, range...; arg:
                                   # TensorCore; the sum of products of small matrices by a warp
    RUNNING: ClassVar[Op]          # src: ACCUMULATE; arg: before; what it has combined so far, with
                                   # this iteration of its loop, or `before` it
    RESCALED: ClassVar[Op]         # src: sum, factor; a sum whose terms are in a unit that changes:
                                   # each iteration multiplies what is there by the factor first
    SINK: ClassVar[Op]             # src: stores

    # INSTRUCTIONS: what machines have in place of IDIV and MOD; see division.py
    QUOTIENT: ClassVar[Op]         # of integers, truncated; not by 0, nor the least one by -1
    REMAINDER: ClassVar[Op]        # what that leaves, with the dividend's sign; C's fmod of floats
    FLOOR: ClassVar[Op]            # of floats
    GREATER: ClassVar[Op]          # of floats: the other one where one is NaN, either of two zeros
    NEAR_EXP2: ClassVar[Op]        # of float32: EXP2 but for 2**-21 of it; subnormal ones may be 0
    RARELY: ClassVar[Op]           # WHERE of a condition that is seldom true: what only its second
                                   # source needs is computed where it is; see render/rarely.py


for _value, _name in enumerate((n for n in Op.__annotations__ if n.isupper()), 1):
    _op = Op()
    _op.name, _op.value = _name, _value
    setattr(Op, _name, _op)

MOVEMENT = frozenset({Op.RESHAPE, Op.PERMUTE, Op.EXPAND, Op.PAD, Op.SHRINK, Op.FLIP, Op.SHEAR})
STEERING_OPS = frozenset({Op.LEAF, Op.DETACH, Op.CUSTOM_GRADIENT, Op.CHECKED})
"""Graph ops that steer gradients and checks only: their value is src[0]."""
IDENTITY_OPS = STEERING_OPS | {Op.SHARD}
"""Graph ops whose value is src[0]."""
SHARING_OPS = frozenset({Op.SHARD, Op.JOINED, Op.OWN})
"""Graph ops that say how ranks share values out."""
COMBINERS = frozenset({Op.ADD, Op.MUL, Op.MAX})
LOOP_ONLY = frozenset({Op.PARAM, Op.RANGE, Op.LOAD, Op.STORE, Op.ACCUMULATE, Op.STAGE,
                       Op.MATRIX, Op.RUNNING, Op.RESCALED, Op.SINK,
                       Op.QUOTIENT, Op.REMAINDER, Op.FLOOR, Op.GREATER,
                       Op.NEAR_EXP2, Op.RARELY})

Array = Any  # np.ndarray or np.generic: the table's functions take and give both


@dataclass(frozen=True, slots=True)
class OpSpec:
    """One row: what an elementwise op takes, gives and means.

    takes: kinds (of 'biufs', see DType) that the operands may have; all operands have one dtype,
    but for WHERE's condition (bool). gives: 'same' as the operands, 'bool', or 'any' (CAST,
    BITCAST). numpy: the meaning, called with arrays of the operands' compute type. ulp: largest
    error of a float32 or float64 result in units in the last place, against the exact result (0.5
    is correctly rounded). combines: its identity element by dtype, if REDUCE may use it.
    """

    arity: int
    takes: str
    numpy: Callable[..., Array]
    gives: str = "same"
    ulp: float = 0.5
    commutes: bool = False
    identity: Callable[[DType], Scalar] | None = None


def _quiet(function: Callable[..., Array]) -> Callable[..., Array]:
    def call(*args: Array) -> Array:
        with np.errstate(all="ignore"):
            return function(*args)
    call.__name__ = getattr(function, "__name__", "op")
    call.__dict__["__wrapped__"] = function
    return call


def _maximum(a: Array, b: Array) -> Array:
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype == np.bool_:
        return np.logical_or(a, b)
    if a.dtype.kind != "f":
        return np.maximum(a, b)
    return np.where((a > b) | (a != a), a, b)  # of two zeros b: NumPy's depends on the processor


def _floor_divide(a: Array, b: Array) -> Array:
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype.kind == "f":
        return np.floor_divide(a, b)
    safe = np.where(b == 0, 1, b).astype(b.dtype)
    return np.where(b == 0, np.zeros((), a.dtype), np.floor_divide(a, safe))


def _modulo(a: Array, b: Array) -> Array:
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype.kind == "f":
        return np.mod(a, b)
    safe = np.where(b == 0, 1, b).astype(b.dtype)
    return np.where(b == 0, np.zeros((), a.dtype), np.mod(a, safe))


def _integer_power(a: Array, b: Array) -> Array:
    """a ** b modulo 2**bits, by squaring; a negative exponent gives 0 but for a = 1 and a = -1."""
    base, exponent = np.asarray(a), np.asarray(b)
    base, exponent = np.broadcast_arrays(base, exponent)
    one = np.ones((), base.dtype)
    result, square = np.ones_like(base), base.copy()
    rest = np.where(exponent < 0, 0, exponent).astype(np.uint64)
    while rest.any():
        result = np.where(rest & np.uint64(1), result * square, result)
        square = square * square
        rest = rest >> np.uint64(1)
    if base.dtype.kind == "i":
        odd = (exponent & one) != 0
        unit = np.where(base == 1, one, np.where(base == -1, np.where(odd, -one, one), 0))
        result = np.where(exponent < 0, unit, result)
    return result.astype(base.dtype)


def _exp(x: Array) -> Array:
    """Through float64: NumPy's own for float32 is off by more than 2 units in the last place."""
    values = np.asarray(x)
    wide = np.float64 if values.dtype == np.float32 else values.dtype
    return np.exp(values.astype(wide)).astype(values.dtype)


def _power(a: Array, b: Array) -> Array:
    if np.asarray(a).dtype.kind != "f":
        return _integer_power(a, b)
    # NumPy takes a square root where one exponent of 0.5 serves for all, which is NaN at -inf
    root = (b == 0.5) & (np.isinf(a) | (a == 0))
    return np.where(root, np.abs(a), np.power(a, b))


def _shift_left(a: Array, b: Array) -> Array:
    bits = np.asarray(a).dtype.itemsize * 8
    good = (b >= 0) & (b < bits)
    return np.where(good, np.left_shift(a, np.where(good, b, 0).astype(np.asarray(b).dtype)),
                    np.zeros((), np.asarray(a).dtype))


def _shift_right(a: Array, b: Array) -> Array:
    bits = np.asarray(a).dtype.itemsize * 8
    count = np.where((b >= 0) & (b < bits), b, bits - 1).astype(np.asarray(b).dtype)
    shifted = np.right_shift(a, count)
    if np.asarray(a).dtype.kind == "u":
        shifted = np.where((b >= 0) & (b < bits), shifted, np.zeros((), np.asarray(a).dtype))
    return shifted


def _float_identity(floating: Scalar) -> Callable[[DType], Scalar]:
    return lambda dtype: float(floating) if dtype.is_float else int(floating)


SPECS: dict[Op, OpSpec] = {
    Op.NEG: OpSpec(1, "iuf", _quiet(np.negative), ulp=0),
    Op.EXP: OpSpec(1, "f", _quiet(_exp), ulp=1.5),
    Op.EXP2: OpSpec(1, "f", _quiet(np.exp2), ulp=1.0),
    Op.LOG2: OpSpec(1, "f", _quiet(np.log2), ulp=2.0),
    Op.SIN: OpSpec(1, "f", _quiet(np.sin), ulp=2.0),
    Op.COS: OpSpec(1, "f", _quiet(np.cos), ulp=2.0),
    Op.SQRT: OpSpec(1, "f", _quiet(np.sqrt)),
    Op.RECIPROCAL: OpSpec(1, "f", _quiet(lambda x: np.asarray(1, np.asarray(x).dtype) / x)),
    Op.CAST: OpSpec(1, "biufs", _quiet(lambda x: x), gives="any"),
    Op.BITCAST: OpSpec(1, "iufs", _quiet(lambda x: x), gives="any", ulp=0),
    Op.NOT: OpSpec(1, "biu", _quiet(np.invert), ulp=0),
    Op.ADD: OpSpec(2, "iuf", _quiet(np.add), commutes=True, identity=_float_identity(0)),
    Op.SUB: OpSpec(2, "iuf", _quiet(np.subtract)),
    Op.MUL: OpSpec(2, "iuf", _quiet(np.multiply), commutes=True, identity=_float_identity(1)),
    Op.DIV: OpSpec(2, "f", _quiet(np.divide)),
    Op.IDIV: OpSpec(2, "iuf", _quiet(_floor_divide), ulp=1.0),
    Op.MOD: OpSpec(2, "iuf", _quiet(_modulo), ulp=1.0),
    Op.POW: OpSpec(2, "iuf", _quiet(_power), ulp=2.0),
    Op.MAX: OpSpec(2, "biuf", _quiet(_maximum), commutes=True, ulp=0,
                   identity=lambda dtype: dtype.min),
    Op.CMPLT: OpSpec(2, "biuf", _quiet(np.less), gives="bool", ulp=0),
    Op.CMPNE: OpSpec(2, "biuf", _quiet(np.not_equal), gives="bool", ulp=0, commutes=True),
    Op.AND: OpSpec(2, "biu", _quiet(np.bitwise_and), ulp=0, commutes=True),
    Op.OR: OpSpec(2, "biu", _quiet(np.bitwise_or), ulp=0, commutes=True),
    Op.XOR: OpSpec(2, "biu", _quiet(np.bitwise_xor), ulp=0, commutes=True),
    Op.SHL: OpSpec(2, "iu", _quiet(_shift_left), ulp=0),
    Op.SHR: OpSpec(2, "iu", _quiet(_shift_right), ulp=0),
    Op.WHERE: OpSpec(3, "biufs", _quiet(np.where), ulp=0),
    Op.MULACC: OpSpec(3, "iuf", _quiet(lambda a, b, c: a * b + c), ulp=1.0),
}
ELEMENTWISE = frozenset(SPECS)


def round_to(values: Array, dtype: DType) -> Array:
    """Round compute-type values to what `dtype` can hold (nearest even); other types pass."""
    if dtype is dt.float16:
        with np.errstate(all="ignore"):
            return np.asarray(values).astype(np.float16).astype(np.float32)
    if dtype is dt.bfloat16 or dtype.is_stored:
        return decode(encode(values, dtype), dtype)
    return values


def encode(values: Array, dtype: DType) -> Array:
    """Compute-type values to the bytes that a buffer holds."""
    with np.errstate(all="ignore"):
        if dtype.is_stored:
            return _encode_byte(values, dtype)
        if dtype is not dt.bfloat16:
            return np.asarray(values).astype(dtype.numpy)
        wide = np.ascontiguousarray(values, dtype=np.float32)
        bits = wide.view(np.uint32).astype(np.uint64)
        rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
        quiet = ((bits >> 16) | 0x40).astype(np.uint16)
        return np.where(np.isnan(wide), quiet, rounded).reshape(np.shape(values))


def _encode_byte(values: Array, dtype: DType) -> Array:
    """float32 to an 8-bit float: to the nearest, ties to an even code, by the table of all codes.

    Past the greatest number float8_e5m2 rounds to infinity; float8_e4m3fn, which has none, gives
    the greatest number, for infinity too, as PyTorch does.
    """
    wide = np.ascontiguousarray(values, np.float32).reshape(np.shape(values))
    table = _byte_values(dtype)[:0x80].astype(np.float64)
    finite = table[np.isfinite(table)]
    step = finite[-1] - finite[-2]
    has_infinity = bool(np.isinf(table).any())
    ends = np.append(finite, finite[-1] + step) if has_infinity else finite
    halfway = (ends[:-1] + ends[1:]) / 2
    size = np.abs(wide).astype(np.float64)
    code = np.searchsorted(halfway, size, "left")
    tie = (code < len(halfway)) & (halfway[np.minimum(code, len(halfway) - 1)] == size)
    code = np.where(tie & (code % 2 == 1), code + 1, code)
    payload = wide.view(np.uint32) >> 21 & 3  # of a NaN
    nan = np.where(payload, 0x7C | payload, 0x7E) if has_infinity else 0x7F
    code = np.where(np.isnan(wide), nan, code)
    return (code + np.signbit(wide) * 0x80).astype(np.uint8)


@cache
def _byte_values(dtype: DType) -> Array:
    """The float32 value of each code of an 8-bit float."""
    codes = np.arange(256, dtype=np.uint8)
    if dtype is dt.float8_e5m2:  # the upper half of a float16
        values = (codes.astype(np.uint16) << 8).view(np.float16).astype(np.float32)
        bits = (codes.astype(np.uint32) & 0x80) << 24 | 0x7F80_0000 | (codes & np.uint32(3)) << 21
        return np.where((codes & 0x7F) > 0x7C, bits, values.view(np.uint32)).view(np.float32)
    exponent, fraction = (codes >> 3 & 15).astype(np.int32), (codes & 7).astype(np.float32)
    size = np.where(exponent == 0, np.ldexp(fraction, -9), np.ldexp(8 + fraction, exponent - 10))
    size = np.where((codes & 0x7F) == 0x7F, np.nan, size)
    return np.where(codes & 0x80, -size, size).astype(np.float32)


def decode(stored: Array, dtype: DType) -> Array:
    """What a buffer holds to compute-type values."""
    if dtype.is_stored:
        return _byte_values(dtype)[np.asarray(stored)]
    if dtype is dt.bfloat16:
        flat = np.ascontiguousarray(stored, dtype=np.uint16).astype(np.uint32) << np.uint32(16)
        return flat.view(np.float32).reshape(np.shape(stored))
    return np.asarray(stored).astype(dtype.compute, copy=False)


def cast(values: Array, source: DType, target: DType) -> Array:
    """CAST's meaning on compute-type values.

    Integers wrap; a float goes to an integer by truncation towards zero, saturating at the type's
    limits, NaN to 0; anything to bool is `!= 0`; float64 to a narrower float rounds once.
    """
    with np.errstate(all="ignore"):
        values = np.asarray(values)
        if target.kind == "b":
            return values != 0
        if source.is_float and target.is_int:
            return _saturate(values, target)
        if target is dt.float16:
            return values.astype(np.float16).astype(np.float32)
        if target is dt.bfloat16 or target.is_stored:
            narrow = _round_to_odd(values) if source is dt.float64 else values.astype(np.float32)
            return round_to(narrow, target)
        return values.astype(target.compute)


def _saturate(values: Array, target: DType) -> Array:
    low, high = int(target.min), int(target.max)
    wide = np.trunc(values.astype(np.float64))
    inside = (wide >= float(low)) & (wide < float(high + 1))
    result = np.where(inside, wide, 0).astype(target.compute)
    result = np.where(wide >= float(high + 1), np.asarray(high, target.compute), result)
    return np.where(wide < float(low), np.asarray(low, target.compute), result)


def _round_to_odd(values: Array) -> Array:
    """float64 to float32, inexact results to an odd last bit: a later rounding is then exact."""
    narrow = values.astype(np.float32)
    back = narrow.astype(np.float64)
    bits = np.ascontiguousarray(narrow).view(np.uint32).reshape(np.shape(values))
    inexact = (back != values) & np.isfinite(values) & np.isfinite(back)
    even = inexact & ((bits & 1) == 0)
    toward_zero = np.where(np.abs(back) > np.abs(values), bits - 1, bits + 1)
    odd = np.where(even, toward_zero, bits).astype(np.uint32)
    return odd.view(np.float32).reshape(np.shape(values))


def evaluate(op: Op, dtype: DType, args: Sequence[Array], dtypes: Sequence[DType]) -> Array:
    """One elementwise op on arrays of compute-type values: the reference semantics."""
    if op is Op.CAST:
        return cast(args[0], dtypes[0], dtype)
    if op is Op.BITCAST:
        return decode(encode(args[0], dtypes[0]).view(dtype.numpy), dtype)
    return round_to(SPECS[op].numpy(*args), dtype)
