"""Bounds: the interval that an integer or bool expression lies in.

In: an expression over RANGEs, or a graph. Out: its least and greatest possible value, inclusive;
never too narrow, sometimes too wide. Integers wrap: where an operation could leave its dtype, the
answer is all of the dtype, so a narrower answer is also a proof that nothing wrapped. `simplify`
decides comparisons and divisions with it, codegen which division and which width to use.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from math import prod

from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.ir.node import Node, set_limits, toposort
from lazyten.ir.ops import IDENTITY_OPS, MOVEMENT, Op

Interval = tuple[int, int]


def bounds(node: Node) -> Interval | None:
    """(least, greatest) value of an integer or bool node; None for a float. Bools are 0 and 1."""
    found: Interval | None = node.limits
    if found is not None or node.dtype.is_float:
        return found
    simple = all(s.limits is not None for s in _operands(node))  # as in a pass from the sources up
    for n in (node,) if simple else toposort([node], _operands):
        if n.limits is None:
            set_limits(n, _work_out(n))
    found = node.limits
    return found


@cache
def limits(dtype: DType) -> Interval:
    """The least and greatest value of an integer or bool dtype."""
    return int(dtype.min), int(dtype.max)


def _operands(node: Node) -> Sequence[Node]:
    """The sources whose bounds decide a node's; none where they are known or say nothing."""
    if node.limits is not None or node.op not in _RULES:
        return ()
    used = node.src[1:] if node.op is Op.WHERE else node.src
    if node.op is Op.ACCUMULATE or node.op in IDENTITY_OPS:
        used = node.src[:1]
    return () if used and used[0].dtype.is_float else used


def _work_out(node: Node) -> Interval:
    everything = limits(node.dtype)
    if node.op is Op.CONST:
        return int(node.value), int(node.value)
    if node.op is Op.RANGE:
        return 0, max(node.arg.extent - 1, 0)
    operands = _operands(node)
    if not operands:
        return everything
    low, high = _RULES[node.op](node, *[s.limits for s in operands])
    return (low, high) if everything[0] <= low and high <= everything[1] else everything


# ---- a row an op: from the intervals of the operands to the interval of the exact result ---------

def _multiply(node: Node, a: Interval, b: Interval) -> Interval:
    corners = (a[0] * b[0], a[0] * b[1], a[1] * b[0], a[1] * b[1])
    return min(corners), max(corners)


def _divide(node: Node, a: Interval, b: Interval) -> Interval:
    if b[0] > 0 or b[1] < 0:
        corners = (a[0] // b[0], a[0] // b[1], a[1] // b[0], a[1] // b[1])
        return min(corners), max(corners)
    if b[0] == 0:
        return min(a[0], 0), max(a[1], 0)
    reach = max(abs(a[0]), abs(a[1]))
    return -reach, reach


def _modulo(node: Node, a: Interval, b: Interval) -> Interval:
    if 0 <= a[0] and a[1] < b[0]:
        return a
    if b[0] == b[1] > 0 and a[0] // b[0] == a[1] // b[0]:
        return a[0] % b[0], a[1] % b[0]
    high = max(b[1] - 1, 0)
    return min(b[0] + 1, 0), min(high, a[1]) if a[0] >= 0 and b[0] >= 0 else high


def _invert(node: Node, a: Interval) -> Interval:
    top = 1 if node.dtype is dt.bool_ else -1 if node.dtype.kind == "i" else int(node.dtype.max)
    return top - a[1], top - a[0]


def _and(node: Node, a: Interval, b: Interval) -> Interval:
    if node.dtype is dt.bool_:
        return min(a[0], b[0]), min(a[1], b[1])
    highs = [high for low, high in (a, b) if low >= 0]
    return (0, min(highs)) if highs else limits(node.dtype)


def _or(node: Node, a: Interval, b: Interval) -> Interval:
    if node.dtype is dt.bool_:
        return max(a[0], b[0]), max(a[1], b[1])
    if a[0] < 0 or b[0] < 0:
        return limits(node.dtype)
    return max(a[0], b[0]), (1 << (a[1] | b[1]).bit_length()) - 1


def _xor(node: Node, a: Interval, b: Interval) -> Interval:
    if a[0] < 0 or b[0] < 0:
        return limits(node.dtype)
    return 0, (1 << (a[1] | b[1]).bit_length()) - 1


def _shift(node: Node, a: Interval, b: Interval) -> Interval:
    if b[0] < 0 or b[1] >= node.dtype.bits:
        return limits(node.dtype)
    if node.op is Op.SHL:
        return _multiply(node, a, (1 << b[0], 1 << b[1]))
    return _divide(node, a, (1 << b[0], 1 << b[1]))


def _less(node: Node, a: Interval, b: Interval) -> Interval:
    return int(a[1] < b[0]), int(a[0] < b[1])


def _differ(node: Node, a: Interval, b: Interval) -> Interval:
    return int(a[1] < b[0] or b[1] < a[0]), int(not a[0] == a[1] == b[0] == b[1])


def _convert(node: Node, a: Interval) -> Interval:
    if node.dtype is dt.bool_:
        return int(a[0] > 0 or a[1] < 0), int(a != (0, 0))
    return a


def _pad(node: Node, a: Interval) -> Interval:
    low, high = a
    return min(low, 0), max(high, 0)


def _where(node: Node, a: Interval, b: Interval) -> Interval:
    """What is chosen where it compares with constants, as the condition says, is as these allow."""
    low, high = a
    given = _given(node.src[0])
    for condition in given:
        if condition.op is not Op.CMPLT:
            continue
        left, right = condition.src
        limit = right if right.op is Op.CONST else left
        compared = _chosen(left if limit is right else right, given)
        is_chosen, inverted = compared is node.src[1], _are_complements(compared, node.src[1])
        if limit.op is not Op.CONST or not (is_chosen or inverted):
            continue
        most = limit is right
        end = int(limit.value) + (-1 if most else 1)
        if most is is_chosen:
            high = min(high, end if is_chosen else ~end)
        else:
            low = max(low, end if is_chosen else ~end)
    return (min(low, b[0]), max(high, b[1])) if low <= high else b


def _given(condition: Node) -> set[Node]:
    """All that is true where a condition is."""
    given, waiting = set[Node](), [condition]
    while waiting:
        part = waiting.pop()
        given.add(part)
        if part.op is Op.AND:
            waiting += part.src
    return given


def _chosen(node: Node, given: set[Node]) -> Node:
    """What a value is where these are true."""
    while node.op is Op.WHERE and node.src[0] in given:
        node = node.src[1]
    return node


def _are_complements(one: Node, other: Node) -> bool:
    """Whether one number is -1 less the other."""
    return one.dtype.kind == "i" and (
        one.op is Op.NOT and one.src[0] is other or other.op is Op.NOT and other.src[0] is one)


def _same(node: Node, a: Interval) -> Interval:
    return a


def _accumulate(node: Node, a: Interval) -> Interval:
    if any(r.arg.extent == 0 for r in node.src[1:]):
        return limits(node.dtype)
    if node.arg is Op.MAX:
        return a
    count = prod(r.arg.extent for r in node.src[1:])
    return (a[0] * count, a[1] * count) if node.arg is Op.ADD else limits(node.dtype)


_RULES: dict[Op, Callable[..., Interval]] = {
    Op.CONST: lambda node: limits(node.dtype),
    Op.RANGE: lambda node: limits(node.dtype),
    Op.NEG: lambda node, a: (-a[1], -a[0]),
    Op.NOT: _invert,
    Op.ADD: lambda node, a, b: (a[0] + b[0], a[1] + b[1]),
    Op.SUB: lambda node, a, b: (a[0] - b[1], a[1] - b[0]),
    Op.MUL: _multiply,
    Op.IDIV: _divide,
    Op.MOD: _modulo,
    Op.MAX: lambda node, a, b: (max(a[0], b[0]), max(a[1], b[1])),
    Op.CMPLT: _less,
    Op.CMPNE: _differ,
    Op.AND: _and,
    Op.OR: _or,
    Op.XOR: _xor,
    Op.SHL: _shift,
    Op.SHR: _shift,
    Op.WHERE: _where,
    Op.CAST: _convert,
    Op.ACCUMULATE: _accumulate,
    **dict.fromkeys((*MOVEMENT, *IDENTITY_OPS, Op.CONTIGUOUS), _same),
    Op.PAD: _pad,
}
