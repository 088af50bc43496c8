"""Every rule of the algebra, on every dtype it may meet: the same bits, and less to do."""
from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from loop_values import Values, evaluate_at

from lazyten.ir import dtype as dt
from lazyten.ir import ops
from lazyten.ir.arguments import Param
from lazyten.ir.dtype import DType
from lazyten.ir.node import Node, const, elementwise, index, make, toposort
from lazyten.ir.ops import SPECS, Op
from lazyten.symbolic.algebra import ALGEBRA, is_lossless
from lazyten.symbolic.rules import (
    Constant,
    Integer,
    Literal,
    Operation,
    Pattern,
    Rule,
    RuleSet,
    Variable,
)

Dtypes = dict[str, DType]
"""The dtype of each variable and cast target of a rule."""

FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -4.0, 3.0, 0.1, 1e30, 6e-5, float("inf"), float("-inf"),
          float("nan")]
INTEGERS = [0, 1, 2, 3, -1, -2, 7, 8, 31, 63, 100]


def numbers(dtype: DType, count: int, seed: int) -> np.ndarray[Any, Any]:
    """Special and random values of a dtype, `count` of them, in a random order."""
    rng = np.random.default_rng(seed)
    if dtype is dt.bool_:
        return rng.random(count) < 0.5
    if dtype.is_float:
        values = np.array([*FLOATS, *rng.normal(size=10)]).astype(dtype.compute)
        return rng.choice(ops.round_to(values, dtype), count)
    low, high = int(dtype.min), int(dtype.max)
    known = [v for v in [*INTEGERS, low, low + 1, high, high - 1] if low <= v <= high]
    anything = rng.integers(low, high, 5, dtype=dtype.compute, endpoint=True)
    return rng.choice(np.array([*known, *anything.tolist()], dtype.compute), count)


def typings(pattern: Pattern, dtype: DType, known: Dtypes) -> Iterator[Dtypes]:
    """Every choice of dtypes for which the pattern is a valid expression of `dtype`."""
    if isinstance(pattern, Literal):
        yield known
    elif isinstance(pattern, Variable):
        if dtype.kind in pattern.kinds and known.get(pattern.name, dtype) is dtype:
            yield {**known, pattern.name: dtype}
    elif isinstance(pattern, Operation):
        spec = SPECS[pattern.op]
        if spec.gives == "bool" and dtype is not dt.bool_:
            return
        if pattern.target:
            if known.get(pattern.target, dtype) is not dtype:
                return
            known = {**known, pattern.target: dtype}
        for operand in (dtype,) if spec.gives == "same" else dt.ALL:
            if pattern.op is Op.BITCAST and (operand.bits != dtype.bits or dtype is dt.bool_):
                continue
            if operand.kind in spec.takes:
                yield from operand_typings(pattern, operand, known)


def operand_typings(pattern: Operation, dtype: DType, known: Dtypes) -> Iterator[Dtypes]:
    choices = [known]
    for n, operand in enumerate(pattern.src):
        wanted = dt.bool_ if pattern.op is Op.WHERE and n == 0 else dtype
        choices = [more for c in choices for more in typings(operand, wanted, c)]
    yield from choices


def write(pattern: Pattern, dtypes: Dtypes, leaves: dict[str, Node], like: DType) -> Node:
    """The node of a pattern with these leaves."""
    if isinstance(pattern, Variable):
        return leaves[pattern.name]
    if isinstance(pattern, Literal):
        return const(pattern.value, like)
    assert isinstance(pattern, Operation)
    inner = next((dtype_of(p, dtypes) for p in pattern.src[pattern.op is Op.WHERE:]
                  if not isinstance(p, Literal)), like)
    src = tuple(write(p, dtypes, leaves, inner) for p in pattern.src)
    if pattern.op is Op.WHERE and isinstance(pattern.src[0], Literal):
        src = (const(pattern.src[0].value, dt.bool_), *src[1:])
    return make(pattern.op, dtype_of(pattern, dtypes) if pattern.target else
                elementwise(pattern.op, *src).dtype, src)


def dtype_of(pattern: Pattern, dtypes: Dtypes) -> DType:
    if isinstance(pattern, Variable):
        return dtypes[pattern.name]
    assert isinstance(pattern, Operation)
    if pattern.target:
        return dtypes[pattern.target]
    if SPECS[pattern.op].gives == "bool":
        return dt.bool_
    values = pattern.src[pattern.op is Op.WHERE:]
    return next((dtype_of(p, dtypes) for p in values if not isinstance(p, Literal)), dt.bool_)


def variables(pattern: Pattern) -> dict[str, Variable]:
    if isinstance(pattern, Variable):
        return {pattern.name: pattern}
    found: dict[str, Variable] = {}
    for p in pattern.src if isinstance(pattern, Operation) else ():
        found |= variables(p)
    return found


def instances(rule: Rule, count: int = 48) -> Iterator[tuple[Node, Values]]:
    """Expressions that the rule's pattern describes, and values for their variables."""
    names = variables(rule.find)
    for dtype in dt.ALL:
        for dtypes in typings(rule.find, dtype, {}):
            constants = [n for n, v in names.items() if v.constant]
            pools = [numbers(dtypes[n], 6 if len(constants) > 1 else 24, 7) for n in constants]
            choices = itertools.product(*[dict.fromkeys(p.tolist()) for p in pools])
            for seed, chosen in enumerate(choices):
                values: Values = {}
                leaves = {n: const(v, dtypes[n]) for n, v in zip(constants, chosen, strict=True)}
                for slot, name in enumerate(n for n in names if n not in leaves):
                    param = make(Op.PARAM, dtypes[name], (), Param(slot, count))
                    leaves[name] = make(Op.LOAD, dtypes[name], (param, index(0)))
                    values[leaves[name]] = numbers(dtypes[name], count, seed * 10 + slot)
                yield write(rule.find, dtypes, leaves, dtype), values


COST = {Op.POW: 9, Op.DIV: 8, Op.IDIV: 8, Op.MOD: 8, Op.MUL: 4, Op.MAX: 4, Op.WHERE: 3, Op.NEG: 1,
        Op.NOT: 1, Op.AND: 1, Op.OR: 1}
"""What an operation costs; others 2. Constants cost nothing: they are folded."""


def cost(root: Node) -> int:
    total = 0
    constant: set[Node] = set()
    for node in toposort([root]):
        if node.op is Op.CONST or node.src and constant.issuperset(node.src):
            constant.add(node)
        elif node.op in SPECS:
            total += COST.get(node.op, 2)
    return total


def assert_same_bits(got: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any], message: str) -> None:
    assert got.dtype == wanted.dtype, message
    np.testing.assert_array_equal(got, wanted, err_msg=message)
    if wanted.dtype.kind == "f":
        got, wanted = (np.signbit(v[~np.isnan(v)]) for v in (got, wanted))
        np.testing.assert_array_equal(got, wanted, message)


def text(node: Node) -> str:
    if node.op is Op.CONST:
        return repr(node.value)
    if node.op is Op.LOAD:
        return f"{node.dtype.name}[{node.src[0].arg.slot}]"
    return f"{node.op.name}:{node.dtype.name}({', '.join(map(text, node.src))})"


NUMBERED = [pytest.param(rule, id=f"rule{n}") for n, rule in enumerate(ALGEBRA.rules)]


@pytest.mark.parametrize("rule", NUMBERED)
def test_a_rule_keeps_every_bit_and_costs_less(rule: Rule) -> None:
    """Less, not as much: so no sequence of rules goes round in circles."""
    applied = 0
    for before, values in instances(rule):
        after = rule.apply(before, make)
        if after is None:
            continue
        applied += 1
        message = f"{text(before)} -> {text(after)}"
        assert cost(after) < cost(before), message
        known = values or {index(0): np.zeros(1, np.int64)}
        assert_same_bits(evaluate_at(after, known), evaluate_at(before, known), message)
    assert applied, "no instance of the pattern meets the side condition"


@pytest.mark.parametrize("rule", NUMBERED)
def test_a_rule_is_found_with_its_operands_in_either_order(rule: Rule) -> None:
    only = RuleSet([rule])
    for before, _ in itertools.islice(instances(rule), 40):
        if SPECS[before.op].commutes and before.src[1].op is not Op.CONST:
            swapped = make(before.op, before.dtype, before.src[::-1])
            if rule.apply(before, make) is not None:
                assert only.apply(swapped, make) is not None, text(swapped)


def test_a_side_condition_gets_python_values_for_constants() -> None:
    n, c = Integer("n"), Constant("c")
    rule = Rule(n + c, n, where=lambda n, c: n.dtype is dt.int8 and c == 3)
    x = make(Op.LOAD, dt.int8, (make(Op.PARAM, dt.int8, (), Param(0, 1)), index(0)))
    assert rule.apply(elementwise(Op.ADD, x, const(3, dt.int8)), make) is x
    assert rule.apply(elementwise(Op.ADD, x, const(4, dt.int8)), make) is None


def test_the_same_variable_twice_means_the_same_node() -> None:
    n = Integer("n")
    param = make(Op.PARAM, dt.int8, (), Param(0, 2))
    x, y = (make(Op.LOAD, dt.int8, (param, index(i))) for i in range(2))
    rules = RuleSet([Rule(n - n, 0)])
    assert rules.apply(elementwise(Op.SUB, x, x), make) is const(0, dt.int8)
    assert rules.apply(elementwise(Op.SUB, x, y), make) is None


def test_a_zero_in_a_rule_is_not_a_negative_zero() -> None:
    x = make(Op.LOAD, dt.float32, (make(Op.PARAM, dt.float32, (), Param(0, 1)), index(0)))
    assert ALGEBRA.apply(elementwise(Op.ADD, x, const(-0.0, dt.float32)), make) is x
    assert ALGEBRA.apply(elementwise(Op.ADD, x, const(0.0, dt.float32)), make) is None


@pytest.mark.parametrize("source", dt.ALL, ids=lambda d: d.name)
@pytest.mark.parametrize("target", dt.ALL, ids=lambda d: d.name)
def test_a_lossless_cast_there_and_back_changes_nothing(source: DType, target: DType) -> None:
    values = numbers(source, 64, 1)
    if is_lossless(source, target):
        back = ops.cast(ops.cast(values, source, target), target, source)
        assert_same_bits(back, values, f"{source} -> {target}")
