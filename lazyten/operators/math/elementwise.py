"""Elementwise operations as users know them: operands of any dtype and shape, broadcast, promoted.

In: GRAPH nodes and Python scalars. Out: one GRAPH node. Promotion is dtype.py's, PyTorch's table.
`Tensor`'s operators call these; errors name the operation and the operands' shapes or dtypes.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence

from lazyten.ir import dtype as dt
from lazyten.ir.arguments import ValueBound
from lazyten.ir.dtype import DType, Scalar
from lazyten.ir.node import Node, Shape, cast, const, elementwise, expand, make, move, reshape
from lazyten.ir.number_tape import numbers
from lazyten.ir.ops import SPECS, Op
from lazyten.operators.math import shapes
from lazyten.operators.math.gradients import with_gradient
from lazyten.support.errors import ArgumentError, DTypeError, NotOfTypeError

Operand = Node | Scalar


# ---- operands ------------------------------------------------------------------------------------

def result_type(operands: Sequence[Operand], operation: str = "result_type") -> DType:
    """The dtype that operands promote to.

    Tensors with axes decide; a zero-dim tensor and then a Python scalar change the result only
    where they are of a higher category (bool < int < float). DTypeError for an 8-bit float and
    another type.
    """
    nodes = [x.dtype for x in operands if isinstance(x, Node)]
    if nodes and nodes.count(nodes[0]) == len(nodes) and (
            len(nodes) == len(operands) or nodes[0].is_float):  # no number outranks a float
        return nodes[0]
    for kind in nodes:
        if kind.is_stored and nodes.count(kind) != len(nodes):
            raise DTypeError(f"{operation} of {' and '.join(d.name for d in nodes)}: 8-bit floats "
                             f"only store numbers; convert first, for example with .float()")
    levels: list[list[DType]] = [[], [], []]
    for x in operands:
        if isinstance(x, Node):
            levels[0 if x.shape else 1].append(x.dtype)
        else:
            levels[2].append(dt.of_scalar(x))
    result: DType | None = None
    for level in levels:
        if level:
            here = level[0]
            for other in level[1:]:
                here = dt.promote(here, other)
            if result is None or dt.category(here) > dt.category(result):
                result = here if result is None else dt.promote(result, here)
    assert result is not None
    return result


def broadcast_to(x: Node, shape: Shape) -> Node:
    """x repeated to `shape`, which it is known to broadcast to."""
    if x.shape == shape:
        return x
    return expand(reshape(x, (1,) * (len(shape) - len(x.shape)) + x.shape), shape)


def as_node(x: Operand, dtype: DType, shape: Shape) -> Node:
    """An operand in a dtype and shape that it promotes and broadcasts to."""
    if not isinstance(x, Node):
        made = None if numbers.node is None else numbers.node(x, dtype)
        return const(x, dtype, shape) if made is None else broadcast_to(made, shape)
    if x.dtype is not dtype:
        x = cast(x, dtype)
    return x if x.shape == shape else broadcast_to(x, shape)


def common_shape(operands: Sequence[Operand], operation: str) -> Shape:
    """What the operands' shapes broadcast to."""
    return shapes.broadcast([x.shape for x in operands if isinstance(x, Node)], operation)


def _apply(op: Op, operation: str, operands: Sequence[Operand], dtype: DType | None = None) -> Node:
    """`op` of the operands, promoted (to `dtype` if given) and broadcast. DTypeError for what is
    no number."""
    for x in operands:
        if not isinstance(x, Node | bool | int | float):
            shapes.as_number(x, operation, "an operand")  # type: ignore[unreachable]  # of users
    if dtype is None:
        dtype = result_type(operands, operation)
    if dtype.kind not in SPECS[op].takes:
        raise NotOfTypeError(_refusal(operation, operands, dtype, SPECS[op].takes))
    shape = common_shape(operands, operation)
    return elementwise(op, *[as_node(x, dtype, shape) for x in operands])


_KINDS = {"b": "bool", "i": "integer", "u": "integer", "f": "float"}


def _refusal(operation: str, operands: Sequence[Operand], dtype: DType, takes: str) -> str:
    names = " and ".join(x.dtype.name if isinstance(x, Node) else repr(x) for x in operands)
    if dtype.is_stored:
        return (f"{operation} of {names}: 8-bit floats only store numbers; convert first, for "
                f"example with .float()")
    wanted = " or ".join(dict.fromkeys(_KINDS[k] for k in takes))
    better = "float32" if "f" in takes else "int64"
    return (f"{operation} of {names}: {dtype.name} has no {operation}, it is for {wanted} types; "
            f"convert first, for example with .to(lazyten.{better})")


def as_float(x: Node) -> Node:
    """x itself if it is of a float type, else converted to the default float type."""
    return x if x.dtype.is_float else cast(x, dt.default_float)


def wide(x: Node) -> Node:
    """x itself; in float32 if it is a 16-bit float: what sums are computed in."""
    return cast(x, dt.float32) if x.dtype.is_half else x


def together(operation: str, compute: Callable[..., Node], *operands: Operand) -> Node:
    """`compute` of nodes that all have the type which the operands promote to together, rounded
    once: 16-bit floats are computed in float32."""
    kind = result_type(operands, operation)
    work = dt.float32 if kind.is_half else kind
    return cast(compute(*[as_node(x, work, x.shape if isinstance(x, Node) else ())
                          for x in operands]), kind)


def of_one_type(operation: str, *operands: Operand) -> None:
    """DTypeError for nodes of several types, where the operation promotes none."""
    kinds = dict.fromkeys(x.dtype.name for x in operands if isinstance(x, Node))
    if len(kinds) > 1:
        raise DTypeError(f"{operation} of {' and '.join(kinds)}: all must be of one type; convert "
                         f"with .to(...)")


# ---- arithmetic ----------------------------------------------------------------------------------

def add(a: Operand, b: Operand) -> Node:
    """a + b; of bools, or."""
    dtype = result_type([a, b], "add")
    return _apply(Op.OR if dtype is dt.bool_ else Op.ADD, "add", [a, b], dtype)


def sub(a: Operand, b: Operand) -> Node:
    """a - b; bools have none."""
    return _apply(Op.SUB, "sub", [a, b])


def mul(a: Operand, b: Operand) -> Node:
    """a * b; of bools, and."""
    dtype = result_type([a, b], "mul")
    if _would_be_rounded(dtype, a, b):
        return together("mul", mul, a, b)
    return _apply(Op.AND if dtype is dt.bool_ else Op.MUL, "mul", [a, b], dtype)


def true_divide(a: Operand, b: Operand) -> Node:
    """a / b in a float type."""
    dtype = result_type([a, b], "div")
    if _would_be_rounded(dtype, a, b):
        return together("div", true_divide, a, b)
    return _apply(Op.DIV, "div", [a, b], dtype if dtype.is_float else dt.default_float)


def floor_divide(a: Operand, b: Operand) -> Node:
    """The greatest whole number <= a / b; of integers by 0, 0."""
    dtype = result_type([a, b], "floor_divide")
    if _would_be_rounded(dtype, a, b):
        return together("floor_divide", floor_divide, a, b)
    return _apply(Op.IDIV, "floor_divide", [a, b], dtype)


def _would_be_rounded(dtype: DType, *operands: Operand) -> bool:
    """Whether one is a number, or a zero-dim tensor of another type, that would be rounded to 16
    bits: as a factor it counts as it is, as in PyTorch."""
    return dtype.is_half and any(
        isinstance(x, int | float) if not isinstance(x, Node) else
        not x.shape and x.dtype is not dtype for x in operands)


def remainder(a: Operand, b: Operand) -> Node:
    """a - floor_divide(a, b) * b: the sign of b; of integers by 0, 0."""
    return _apply(Op.MOD, "remainder", [a, b])


def power(a: Operand, b: Operand) -> Node:
    """a ** b; of integers modulo 2**bits, where a negative b gives 0 but for a = 1 and a = -1.
    ArgumentError for a number b that is negative, or that the integers' type does not hold."""
    if not isinstance(b, Node):
        _check_exponent(result_type([a, b], "pow"), b)
    if isinstance(a, Node) and not isinstance(b, Node) and b == 2 and (
            dt.category(a.dtype) >= dt.category(dt.of_scalar(b))):
        return _apply(Op.MUL, "pow", [a, a])
    return _apply(Op.POW, "pow", [a if isinstance(a, Node) else _noted(a, a == 2),
                                  b if isinstance(b, Node) else exponent(b)])


def _check_exponent(dtype: DType, b: Scalar) -> None:
    if dtype.is_int and b < 0:
        raise ArgumentError(f"pow of {dtype.name} by {b}: integers have no negative powers that "
                            f"are integers; convert with .float(), or give {float(b)}")
    if dtype.is_int and b > dtype.max:
        raise ArgumentError(f"pow of {dtype.name} by {b}: the exponent does not fit in that type; "
                            f"convert to a wider one first")


def exponent(x: Scalar) -> Scalar:
    """A number as an exponent: kernels look at a whole one, or a half of one."""
    return _noted(x, x * 2 % 1 == 0)


def _noted(x: Scalar, is_looked_at: bool) -> Scalar:
    """A number, which stays the constant that it is where kernels look at it."""
    return x.__class__(x) if is_looked_at else x


def maximum(a: Operand, b: Operand) -> Node:
    """The greater; NaN if either is."""
    return _apply(Op.MAX, "maximum", [a, b])


def minimum(a: Operand, b: Operand) -> Node:
    """The lesser; NaN if either is."""
    dtype = result_type([a, b], "minimum")
    shape = common_shape([a, b], "minimum")
    return inverted(elementwise(Op.MAX, *[inverted(as_node(x, dtype, shape)) for x in (a, b)]))


def inverted(x: Node) -> Node:
    """x in the opposite order, exactly: -x for floats, ~x for integers (safe at the limits)."""
    return elementwise(Op.NEG if x.dtype.is_float else Op.NOT, x)


def negative(x: Node) -> Node:
    """-x; the least integer stays itself."""
    return _apply(Op.NEG, "neg", [x])


def absolute(x: Node) -> Node:
    """|x|; the least integer stays itself. The gradient at 0 is 0."""
    if x.dtype.kind in "bu":
        return x
    below = elementwise(Op.CMPLT, x, const(0, x.dtype, x.shape))
    flipped = elementwise(Op.WHERE, below, elementwise(Op.NEG, x), x)
    if not x.dtype.is_float:
        return flipped
    # -0.0 is not below 0: adding 0.0 makes it 0.0, and changes nothing else
    value = elementwise(Op.ADD, flipped, const(0.0, x.dtype, x.shape))
    return with_gradient(value, (x,), _absolute_gradient)


def _absolute_gradient(g: Node, node: Node) -> tuple[Node]:
    return (elementwise(Op.MUL, g, sign(node.src[1])),)


def sign(x: Node) -> Node:
    """-1, 0 or 1; NaN for NaN."""
    if x.dtype is dt.bool_:
        return x
    zero, one = const(0, x.dtype, x.shape), const(1, x.dtype, x.shape)
    positive = elementwise(Op.WHERE, elementwise(Op.CMPLT, zero, x), one, zero)
    if x.dtype.kind == "u":
        return positive
    signed = elementwise(Op.WHERE, elementwise(Op.CMPLT, x, zero), const(-1, x.dtype, x.shape),
                         positive)
    return where(not_equal(x, x), x, signed) if x.dtype.is_float else signed


# ---- comparisons ---------------------------------------------------------------------------------

def less(a: Operand, b: Operand) -> Node:
    """a < b; False with a NaN."""
    return _compared(Op.CMPLT, "lt", a, b)


def greater(a: Operand, b: Operand) -> Node:
    """a > b; False with a NaN."""
    return _compared(Op.CMPLT, "gt", b, a)


def less_equal(a: Operand, b: Operand) -> Node:
    """a <= b; False with a NaN."""
    if result_type([a, b], "le").is_float:
        return elementwise(Op.OR, less(a, b), equal(a, b))
    return elementwise(Op.NOT, greater(a, b))


def greater_equal(a: Operand, b: Operand) -> Node:
    """a >= b; False with a NaN."""
    return less_equal(b, a)


def equal(a: Operand, b: Operand) -> Node:
    """a == b; False with a NaN."""
    return elementwise(Op.NOT, not_equal(a, b))


def not_equal(a: Operand, b: Operand) -> Node:
    """a != b; True with a NaN."""
    return _compared(Op.CMPNE, "ne", a, b)


def _compared(op: Op, operation: str, a: Operand, b: Operand) -> Node:
    """`op` of the operands; whole numbers are compared as they are, also where the type that they
    promote to does not hold them."""
    dtype = result_type([a, b], operation)
    if dtype.is_int:
        if isinstance(a, Node) and isinstance(b, Node):
            return _whole_compared(op, operation, a, b)
        for number, other in ((a, b), (b, a)):
            if isinstance(other, Node) and not isinstance(number, Node) and not (
                    dtype.min <= number <= dtype.max):
                holds = op is Op.CMPNE or (number < dtype.min) is (number is a)
                return const(holds, dt.bool_, other.shape)
    return _apply(op, operation, [a, b], dtype)


def _whole_compared(op: Op, operation: str, a: Node, b: Node) -> Node:
    """`op` of integers in a type that holds both, whatever axes would decide. There is none for
    uint64 and a signed type: a number below 0 is below all of uint64."""
    if dt.uint64 not in (a.dtype, b.dtype) or "i" not in (a.dtype.kind, b.dtype.kind):
        return _apply(op, operation, [a, b], dt.promote(a.dtype, b.dtype))
    signed = a if a.dtype.kind == "i" else b
    holds = _apply(op, operation, [a, b], dt.uint64)
    negative = elementwise(Op.CMPLT, signed, const(0, signed.dtype, signed.shape))
    if op is Op.CMPNE or signed is a:
        return bitwise_or(negative, holds)
    return bitwise_and(invert(negative), holds)


# ---- bits and logic ------------------------------------------------------------------------------

def bitwise_and(a: Operand, b: Operand) -> Node:
    """Bit by bit and; logical of bools."""
    return _apply(Op.AND, "bitwise_and", [a, b])


def bitwise_or(a: Operand, b: Operand) -> Node:
    """Bit by bit or; logical of bools."""
    return _apply(Op.OR, "bitwise_or", [a, b])


def bitwise_xor(a: Operand, b: Operand) -> Node:
    """Bit by bit exclusive or; logical of bools."""
    return _apply(Op.XOR, "bitwise_xor", [a, b])


def invert(x: Node) -> Node:
    """Every bit turned; logical not of bools."""
    return _apply(Op.NOT, "bitwise_not", [x])


def shift_left(a: Operand, b: Operand) -> Node:
    """a * 2**b with overflow dropped; 0 where b is negative or all bits leave."""
    return _apply(Op.SHL, "bitwise_left_shift", [a, b])


def shift_right(a: Operand, b: Operand) -> Node:
    """a // 2**b; the sign alone where b is negative or all bits leave."""
    return _apply(Op.SHR, "bitwise_right_shift", [a, b])


def as_bool(x: Node) -> Node:
    """x != 0."""
    return cast(x, dt.bool_)


def logical_and(a: Operand, b: Operand) -> Node:
    """Whether both are not 0."""
    return bitwise_and(_truth(a), _truth(b))


def logical_or(a: Operand, b: Operand) -> Node:
    """Whether one is not 0."""
    return bitwise_or(_truth(a), _truth(b))


def logical_xor(a: Operand, b: Operand) -> Node:
    """Whether exactly one is not 0."""
    return bitwise_xor(_truth(a), _truth(b))


def _truth(x: Operand) -> Operand:
    return as_bool(x) if isinstance(x, Node) else bool(x)


def where(condition: Node, a: Operand, b: Operand) -> Node:
    """a where condition (a bool node), else b."""
    if condition.dtype is not dt.bool_:
        raise DTypeError(f"where: the condition is {condition.dtype.name}; make it bool first, for "
                         f"example with `condition != 0`")
    dtype = result_type([a, b], "where")
    shape = common_shape([condition, a, b], "where")
    return elementwise(Op.WHERE, broadcast_to(condition, shape), as_node(a, dtype, shape),
                       as_node(b, dtype, shape))


def chosen(condition: Node, a: Operand, b: Operand) -> Node:
    """`where` of what users give, a condition of uint8 among it: ArgumentError for a number that
    does not fit in the result."""
    dtype = result_type([a, b], "where")
    a, b = (x if isinstance(x, Node) else shapes.as_element(x, dtype, "where") for x in (a, b))
    return where(as_bool(condition) if condition.dtype is dt.uint8 else condition, a, b)


def obeying(x: Node, broken: Node, operation: str, rule: str) -> Node:
    """x; a ValueRangeError once it is computed, if `broken`, bools that broadcast to it, is so
    anywhere. rule: what is wrong then, and the remedy, for the message."""
    flags = make(Op.CHECKED, dt.uint8, (cast(broken, dt.uint8),), ValueBound(operation, rule))
    return where(equal(flags, 0), x, 0)


def fitting(x: Operand, dtype: DType, operation: str) -> Operand:
    """What elements of type `dtype` are set to; a ValueRangeError once it is computed if that is an
    integer type and an integer tensor has a value that does not fit. As of numbers, -n stands for
    2**bits - n in an unsigned type that holds n."""
    if not isinstance(x, Node) or not (dtype.is_int and x.dtype.is_int):
        return x
    least = -dtype.max if dtype.kind == "u" else dtype.min
    outside = [less(x, least)] if x.dtype.min < least else []
    outside += [less(dtype.max, x)] if x.dtype.max > dtype.max else []
    for broken in outside:
        x = obeying(x, broken, operation, f"the value does not fit in {dtype.name}, which is "
                    f"{dtype.min} to {dtype.max}; use a wider type")
    return x


def padded(x: Node, around: tuple[tuple[int, int], ...], value: Scalar) -> Node:
    """x with (before, after) elements of `value` at each axis."""
    wide = move(Op.PAD, x, around)
    if value == 0 or wide is x:
        return wide
    return where(move(Op.PAD, const(True, dt.bool_, x.shape), around), wide,
                 as_node(value, x.dtype, ()))


def clip(x: Node, low: Operand | None, high: Operand | None) -> Node:
    """x held between low and high, in the type that all promote to; NaN stays. An x that equals a
    bound keeps all its gradient. A bound that an integer type does not reach holds nothing back;
    ArgumentError for one that nothing in the type can be held to."""
    kind = result_type([v for v in (x, low, high) if v is not None], "clamp")
    x = cast(x, kind)
    low, high = _reachable(low, kind, True), _reachable(high, kind, False)
    if low is not None:
        x = where(_beyond(less(x, low), low), low, x)
    return x if high is None else where(_beyond(greater(x, high), high), high, x)


def _reachable(bound: Operand | None, kind: DType, lower: bool) -> Operand | None:
    """A bound in the common type; None for one beyond an integer type, which holds nothing back."""
    if bound is None:
        return None
    if isinstance(bound, Node):
        return cast(bound, kind)
    if not kind.is_int or kind.min <= bound <= kind.max:
        return bound
    if lower != (bound < kind.min):
        raise ArgumentError(f"clamp of {kind.name}: the {'lower' if lower else 'upper'} bound "
                            f"{bound} is outside {kind.min} to {kind.max}; use a wider type")
    return None


def _beyond(outside: Node, bound: Operand) -> Node:
    """`outside`, and where the bound is NaN: it makes the result NaN."""
    if isinstance(bound, Node):
        return bitwise_or(outside, not_equal(bound, bound)) if bound.dtype.is_float else outside
    return outside if bound == bound else equal(outside, outside)
