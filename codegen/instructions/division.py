"""Floor division and its remainder become what machines have: QUOTIENT, REMAINDER and FLOOR.

In: a Function with nothing but its text left to make; the passes before look for IDIV and MOD in
index arithmetic. Out: the same without IDIV and MOD. Machines truncate towards zero, and fail where
a divisor is 0 or the least integer is divided by -1.

Processors divide vectors of floats, but of integers one lane after the other. Integers a and b
that floats hold may be divided as these, and the quotient truncated: one that is no integer is
1 / |b| or more away from the nearest, and rounding moves it by less, |a / b| / 2**p, as |a| is
below 2**p. Of longer ones a quotient of floats is the first part, and that of what it leaves over
the rest.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import replace
from functools import cache
from itertools import count

from lazyten.codegen.instructions.instructions import (
    Block,
    Compute,
    Constant,
    Function,
    Instruction,
    Load,
    Loop,
    Splat,
    Store,
    Value,
    addresses_of,
    instructions_of,
)
from lazyten.codegen.numerics.expression import (
    add,
    bitcast,
    bits_of,
    both,
    differ,
    divide,
    less,
    mul,
    sub,
    where,
    xor,
)
from lazyten.codegen.targets.target import Target
from lazyten.ir import dtype as dt
from lazyten.ir.arguments import Param
from lazyten.ir.dtype import DType, Scalar
from lazyten.ir.node import Node, make, toposort
from lazyten.ir.ops import Op

DIVISIONS = (Op.IDIV, Op.MOD)
WIDE = {dt.int8: dt.float32, dt.uint8: dt.float32, dt.int16: dt.float32, dt.uint16: dt.float32,
        dt.int32: dt.float64, dt.uint32: dt.float64}
"""Integers, and floats that hold them."""
LONG = {dt.int64: dt.float64, dt.uint64: dt.float64}
"""Integers that floats do not hold, and floats that a quotient begins with."""
BELOW_ONE = 1 - 2.0**-50
"""What a quotient of LONG integers is multiplied with: four roundings make it greater by less."""


def floats_of(target: Target) -> Mapping[DType, DType]:
    """Integers of which vectors are divided as floats, and these floats."""
    if target.language != "llvm":
        return {}
    return WIDE | LONG if target.long_integers else WIDE


def divides(function: Function) -> bool:
    """Whether there is a floor division or a remainder of one."""
    return any(isinstance(item, Compute) and item.op in DIVISIONS
               for item in instructions_of(function.body))


def expand_divisions(function: Function, floats: Mapping[DType, DType]) -> Function:
    """The function in what machines have. floats: see floats_of."""
    positions = _positions(function) if floats else set()
    return replace(function, body=_block(function.body, {}, count(-1, -1), floats, positions))


def _positions(function: Function) -> set[Value]:
    """The long integers that positions and masks of accesses are made of: where these are is proven
    for other sizes from the finished instructions, which quotients of floats hide."""
    makers: dict[Value, tuple[Value, ...]] = {}
    found: set[Value] = set()
    stack: list[Value | None] = []
    for item in instructions_of(function.body):
        if isinstance(item, Compute):
            makers[item.out] = item.args
        elif isinstance(item, Splat):
            makers[item.out] = (item.source,)
        stack += [value for a in addresses_of(item) for value in (a.base, a.vector)]
        if isinstance(item, Load | Store):
            stack.append(item.mask)
    while stack:
        value = stack.pop()
        if value is not None and value not in found:
            found.add(value)
            stack += makers.get(value, ())
    return {value for value in found if value.dtype in LONG}


def _block(block: Block, known: dict[Value, Scalar], ids: Iterator[int],
           floats: Mapping[DType, DType], positions: Set[Value]) -> Block:
    """known: values that are constants. ids: numbers that no value has. positions: what stays an
    integer."""
    out = Block(block.depth)
    for item in block.items:
        if isinstance(item, Compute) and item.op in DIVISIONS:
            out.items += _instructions(item, known.get(item.args[1], 0), ids,
                                       {} if item.out in positions else floats)
            continue
        if isinstance(item, Constant):
            known[item.out] = item.value
        elif isinstance(item, Splat | Compute) and (source := _copied(item)) in known:
            known[item.out] = known[source]
        elif isinstance(item, Loop):
            item = replace(item, body=_block(item.body, known, ids, floats, positions))
        out.items.append(item)
    return out


def _copied(item: Splat | Compute) -> Value | None:
    """What a splat, or a cast from one integer type to another as wide, has the bits of."""
    if isinstance(item, Splat):
        return item.source
    x, out = item.args[0], item.out
    is_same = item.op is Op.CAST and x.dtype.is_int and out.dtype.is_int
    return x if is_same and x.dtype.bits == out.dtype.bits else None


def _instructions(item: Compute, divisor: Scalar, ids: Iterator[int],
                  floats: Mapping[DType, DType]) -> Iterator[Instruction]:
    """What a division by a constant, or else 0, is made of. By a constant LLVM shifts, or takes the
    high half of a product, which vectors of long integers do not have."""
    dtype = item.out.dtype
    wide = floats.get(dtype) if item.out.lanes > 1 and (
        not divisor or dtype in LONG and not _is_power_of_2(divisor)) else None
    formula = _formula(item.op, dtype, divisor == 1 if dtype.is_float else divisor > 0, wide)
    values = dict(zip(_operands(dtype), item.args, strict=True))
    for node in formula:
        if node in values:
            continue
        last = node is formula[-1]
        values[node] = item.out if last else Value(next(ids), node.dtype, item.out.lanes)
        yield Constant(values[node], node.value) if node.op is Op.CONST else \
            Compute(values[node], node.op, tuple(values[s] for s in node.src))


def _is_power_of_2(divisor: Scalar) -> bool:
    return abs(int(divisor)).bit_count() == 1


def _operands(dtype: DType) -> tuple[Node, Node]:
    """What stands for dividend and divisor in a formula."""
    return make(Op.PARAM, dtype, (), Param(0, 1)), make(Op.PARAM, dtype, (), Param(1, 1))


@cache
def _formula(op: Op, dtype: DType, is_simple: bool, wide: DType | None = None) -> tuple[Node, ...]:
    """The nodes of a division, operands first. is_simple: by a float of 1, by a positive integer;
    wide: the float in which integers are divided, if in one."""
    a, b = _operands(dtype)
    rule = _FLOATS[op] if dtype.is_float else _signed if dtype.kind == "i" else _unsigned
    root = rule(op, a, b, is_simple)
    return tuple(toposort([root if wide is None else _in_floats(root, wide)]))


def _in_floats(root: Node, wide: DType) -> Node:
    """The same without divisions of integers."""
    new: dict[Node, Node] = {}
    for node in toposort([root]):
        src = tuple(new[s] for s in node.src)
        if node.op not in (Op.QUOTIENT, Op.REMAINDER):
            new[node] = make(node.op, node.dtype, src, node.arg)
            continue
        divided = _divided_long if node.dtype in LONG else _divided
        a, b = src
        new[node] = divided(a, b, wide)[node.op is Op.REMAINDER]
    return new[root]


def _divided(a: Node, b: Node, wide: DType) -> tuple[Node, Node]:
    """Quotient and remainder of integers that `wide` holds."""
    quotient = _cast(divide(_cast(a, wide), _cast(b, wide)), a.dtype)
    return quotient, sub(a, mul(quotient, b))


def _divided_long(a: Node, b: Node, wide: DType) -> tuple[Node, Node]:
    """The same of integers of 64 bits, by what both are without their signs.

    A quotient of floats, made less by BELOW_ONE, is at most a / b and less than 1 + a / b / 2**49
    below it, so what it leaves over is at least 0, and less than 2**15 + 1 times b. The quotient of
    that is at most 1 too small.
    """
    if a.dtype.kind == "i":
        minus, other = less(a, 0), less(b, 0)
        size, by = (_cast(where(m, sub(0, x), x), dt.uint64) for m, x in ((minus, a), (other, b)))
        quotient, rest = (_cast(x, a.dtype) for x in _divided_long(size, by, wide))
        return (where(xor(minus, other), sub(0, quotient), quotient),
                where(minus, sub(0, rest), rest))
    part = divide(BELOW_ONE, _cast(b, wide))
    first = _cast(mul(_cast(a, wide), part), a.dtype)
    rest = sub(a, mul(first, b))
    second = _cast(mul(_cast(rest, wide), part), a.dtype)
    quotient, rest = add(first, second), sub(rest, mul(second, b))
    is_less = less(rest, b)
    return where(is_less, quotient, add(quotient, 1)), where(is_less, rest, sub(rest, b))


def _cast(x: Node, dtype: DType) -> Node:
    return make(Op.CAST, dtype, (x,))


# ---- integers: divided by 0 they give 0, and the least one by -1 wraps ---------------------------

def _unsigned(op: Op, a: Node, b: Node, is_positive: bool) -> Node:
    if is_positive:
        return _machine(op, a, b)
    nonzero = differ(b, 0)
    result = _machine(op, a, where(nonzero, b, 1))  # by 1 nothing remains
    return result if op is Op.MOD else where(nonzero, result, 0)


def _signed(op: Op, a: Node, b: Node, is_positive: bool) -> Node:
    usual = both(differ(b, 0), differ(b, -1))
    safe = b if is_positive else where(usual, b, 1)
    rest = _machine(Op.MOD, a, safe)
    crossed = both(differ(rest, 0), less(xor(rest, safe), 0))
    if op is Op.MOD:
        return where(crossed, add(rest, safe), rest)
    quotient = _machine(Op.IDIV, a, safe)
    result = where(crossed, sub(quotient, 1), quotient)
    return result if is_positive else where(usual, result, mul(a, b))


def _machine(op: Op, a: Node, b: Node) -> Node:
    return make(Op.REMAINDER if op is Op.MOD else Op.QUOTIENT, a.dtype, (a, b))


# ---- floats --------------------------------------------------------------------------------------

def _remainder(a: Node, b: Node) -> tuple[Node, Node]:
    """C's remainder, and whether it must move by one divisor to get the divisor's sign."""
    rest = _machine(Op.MOD, a, b)
    return rest, both(differ(rest, 0.0), xor(less(b, 0.0), less(rest, 0.0)))


def _modulo(op: Op, a: Node, b: Node, is_one: bool) -> Node:
    rest, crossed = _remainder(a, b)
    return where(differ(rest, 0.0), where(crossed, add(rest, b), rest), _zero(b))


def _floor_division(op: Op, a: Node, b: Node, is_one: bool) -> Node:
    """NumPy's: from the remainder, so that it agrees with `%`, rounded to the nearest integer. By 1
    it is a floor, which is NaN for infinities."""
    if is_one:
        none = sub(a, a)
        return where(differ(none, none), none, _floor(a))
    rest, crossed = _remainder(a, b)
    quotient = divide(sub(a, rest), b)
    quotient = where(crossed, sub(quotient, 1.0), quotient)
    floor, exact = _floor(quotient), divide(a, b)
    floor = where(less(0.5, sub(quotient, floor)), add(floor, 1.0), floor)
    floor = where(differ(quotient, 0.0), floor, _zero(exact))
    return where(differ(b, 0.0), floor, exact)


def _floor(x: Node) -> Node:
    return make(Op.FLOOR, x.dtype, (x,))


def _zero(sign: Node) -> Node:
    """0 with the sign of a float."""
    return bitcast(both(bits_of(sign), 1 << sign.dtype.bits - 1), sign.dtype)


_FLOATS = {Op.MOD: _modulo, Op.IDIV: _floor_division}
