"""What an elementwise op costs in the cycle model: the instructions that are made of it.

An op that machines lack costs what decompose writes for it. The unit is that of accesses.py: half a
cycle, a multiply-add of vectors.
"""
from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from lazyten.codegen.numerics.decompose import DECOMPOSED, decompose
from lazyten.codegen.targets.target import Target
from lazyten.ir import dtype as dt
from lazyten.ir.arguments import Param
from lazyten.ir.node import Node, cast, index, make, rebuild, toposort
from lazyten.ir.ops import ELEMENTWISE, Op

MACHINE_UNITS: dict[Op, float] = {
    Op.SQRT: 2.0, Op.DIV: 2.0, Op.RECIPROCAL: 2.0, Op.IDIV: 18.0, Op.MOD: 18.0, Op.BITCAST: 0.0}
"""Of what machines have, what costs more or less than 1."""
MULTIPLY_UNITS = 2.0
"""A product of integers of 32 bits."""
WIDEST = max(d.itemsize for d in dt.ALL)
"""Bytes of an element, at most."""


def units(node: Node, target: Target, lane_bytes: int = WIDEST) -> float:
    """Of an elementwise op, or of a LOAD beside its access, where its operands are there: of a
    vector whose lanes have so many bytes. An op on wider elements takes several vectors."""
    return usual_and_rare(node, target, lane_bytes)[0]


def usual_and_rare(node: Node, target: Target, lane_bytes: int) -> tuple[float, float]:
    """`units`, and those of what else there is of it, which is computed where a RARELY asks for it.
    """
    if any(s.dtype is dt.INDEX for s in node.src) and node.op is not Op.LOAD:
        return _own(node), 0.0
    if node.op not in DECOMPOSED and not any(n.dtype.is_narrow for n in (node, *node.src)):
        return (_own(node) * _vectors(node, lane_bytes) if node.op in ELEMENTWISE else 0.0), 0.0
    if node.op is Op.LOAD:
        return _made(_operand(0, node), (), target, lane_bytes)
    operands = tuple(s if s.op is Op.CONST else _operand(i, s) for i, s in enumerate(node.src))
    return _made(rebuild(node, operands), operands, target, lane_bytes)


@lru_cache(maxsize=1024)
def _made(node: Node, operands: tuple[Node, ...], target: Target,
          lane_bytes: int) -> tuple[float, float]:
    """Of the instructions that a value takes where `operands` are there, and of the rare ones."""
    there, made = set(toposort(_decomposed(operands, target))), _decomposed((node,), target)
    usual = {n: (_own(n) - _is_fused(n, target)) * _vectors(n, lane_bytes)
             for n in toposort(made, lambda n: n.src[::2] if n.op is Op.RARELY else n.src)
             if n.op in ELEMENTWISE and n not in there}
    rare = sum(_vectors(n, lane_bytes) for n in toposort(made)
               if n.op in ELEMENTWISE and n not in there and n not in usual)
    return sum(usual.values()), rare


def _vectors(node: Node, lane_bytes: int) -> float:
    """How many the widest of an op's operands and its result take."""
    widest = max(n.dtype.itemsize for n in (node, *node.src))
    return max(widest / lane_bytes, 1.0)


def _decomposed(values: Iterable[Node], target: Target) -> list[Node]:
    """What values become, those of narrow floats as the float32 that they are."""
    wide = [cast(v, dt.float32) if v.dtype.is_narrow else v for v in values]
    return decompose([_store(v) for v in wide], target)


def _store(value: Node) -> Node:
    param = make(Op.PARAM, value.dtype, (), Param(0, 1))
    return make(Op.STORE, value.dtype, (param, index(0), value))


def _operand(number: int, node: Node) -> Node:
    param = make(Op.PARAM, node.dtype, (), Param(number + 1, 1))
    return make(Op.LOAD, node.dtype, (param, index(0)))


def _own(node: Node) -> float:
    if node.op is Op.MUL and node.dtype is dt.int32:
        return MULTIPLY_UNITS
    return MACHINE_UNITS.get(node.op, 1.0)


def _is_fused(node: Node, target: Target) -> bool:
    """Whether a multiplication is part of the same instruction."""
    return (target.fuses and node.dtype.is_float and node.op in (Op.ADD, Op.SUB)
            and any(s.op is Op.MUL for s in node.src))
