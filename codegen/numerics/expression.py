"""Short names for making LOOP expressions: what decompose and its parts write formulas with.

In: nodes and Python numbers. Out: nodes. A number takes the dtype of the node beside it.
"""
from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType, Scalar
from lazyten.ir.node import Node, const, elementwise, make
from lazyten.ir.ops import Op

Operand = Node | Scalar

UNSIGNED: dict[int, DType] = {8: dt.uint8, 16: dt.uint16, 32: dt.uint32, 64: dt.uint64}
FLOATS: dict[int, DType] = {32: dt.float32, 64: dt.float64}
SIGNED: dict[int, DType] = {8: dt.int8, 16: dt.int16, 32: dt.int32, 64: dt.int64}


def _pair(op: Op, a: Operand, b: Operand) -> Node:
    if not isinstance(a, Node):
        assert isinstance(b, Node)
        return elementwise(op, const(a, b.dtype), b)
    return elementwise(op, a, b if isinstance(b, Node) else const(b, a.dtype))


add = partial(_pair, Op.ADD)
"""a + b."""
sub = partial(_pair, Op.SUB)
"""a - b."""
mul = partial(_pair, Op.MUL)
"""a * b."""
divide = partial(_pair, Op.DIV)
"""a / b of floats."""
less = partial(_pair, Op.CMPLT)
"""a < b."""
differ = partial(_pair, Op.CMPNE)
"""a != b."""
both = partial(_pair, Op.AND)
"""a & b, bitwise; logical for bools."""
either = partial(_pair, Op.OR)
"""a | b, bitwise; logical for bools."""
xor = partial(_pair, Op.XOR)
"""a ^ b, bitwise."""
shl = partial(_pair, Op.SHL)
"""a << b, with a count known to be in range."""
shr = partial(_pair, Op.SHR)
"""a >> b, with a count known to be in range."""


def invert(a: Node) -> Node:
    """~a, bitwise; logical for bools."""
    return elementwise(Op.NOT, a)


def muladd(a: Node, b: Operand, c: Operand) -> Node:
    """a * b + c, rounded once or twice."""
    b, c = (v if isinstance(v, Node) else const(v, a.dtype) for v in (b, c))
    return elementwise(Op.MULACC, a, b, c)


def where(condition: Node, a: Operand, b: Operand) -> Node:
    """condition ? a : b, with at least one of them a node."""
    if not isinstance(a, Node):
        assert isinstance(b, Node)
        a = const(a, b.dtype)
    return elementwise(Op.WHERE, condition, a, b if isinstance(b, Node) else const(b, a.dtype))


def rarely(condition: Node, a: Node, b: Node) -> Node:
    """condition ? a : b, where a takes long and the condition is seldom true: machines with
    branches compute a only then."""
    return make(Op.RARELY, a.dtype, (condition, a, b))


def bitcast(x: Node, dtype: DType) -> Node:
    """The same bits as another type of the same width."""
    return x if x.dtype is dtype else make(Op.BITCAST, dtype, (x,))


def bits_of(x: Node) -> Node:
    """The bits of a float, as an unsigned integer."""
    return bitcast(x, UNSIGNED[x.dtype.bits])


def absolute(x: Node) -> Node:
    """|x| of a float, by its sign bit."""
    return bitcast(both(bits_of(x), (1 << x.dtype.bits - 1) - 1), x.dtype)


def with_sign_of(magnitude: Node, sign: Node) -> Node:
    """`magnitude`, which is not negative, with the top bit of the unsigned integer `sign`."""
    top = both(sign, 1 << sign.dtype.bits - 1)
    return bitcast(either(bits_of(magnitude), top), magnitude.dtype)


def horner(x: Node, coefficients: Sequence[float]) -> Node:
    """The polynomial in x whose coefficients are given, highest power first."""
    result = const(coefficients[0], x.dtype)
    for c in coefficients[1:]:
        result = muladd(result, x, c)
    return result
