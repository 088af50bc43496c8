"""Nodes looked at: checked, and written as text, a line each."""
from __future__ import annotations

from collections.abc import Sequence

from lazyten.ir import dtype as dt
from lazyten.ir.arguments import LocalArray, Param, Range
from lazyten.ir.node import Node, toposort
from lazyten.ir.ops import LOOP_ONLY, SPECS, Op
from lazyten.ir.shapes import shape_of
from lazyten.support.errors import InternalError


def verify(roots: Sequence[Node], level: str) -> None:
    """Raise InternalError unless all nodes are well-formed and of `level`, 'graph' or 'loop'."""
    for node in toposort(roots):
        loop = node.op in LOOP_ONLY
        graph = not loop and node.op not in SPECS and node.op is not Op.CONST
        if level == "graph" and loop or level == "loop" and graph:
            raise InternalError(f"{node.op.name} does not belong to the {level} level:\n"
                                f"{dump([node])}")
        if shape_of(node.op, node.dtype, node.src, node.arg) != node.shape:
            raise InternalError(f"shape of {node} is off")
        if level == "loop" and node.shape != ():
            raise InternalError(f"{node} has a shape, but the loop level is about single elements")
        if node.op in (Op.LOAD, Op.STORE):
            memory = (Op.PARAM,) if node.op is Op.STORE else (Op.PARAM, Op.STAGE)
            if node.src[0].op not in memory or node.src[1].dtype is not dt.INDEX:
                raise InternalError(f"{node} needs a param and an index: {node.src}")
            valid = node.src[2:] if node.op is Op.LOAD else node.src[3:]
            if any(v.dtype is not dt.bool_ for v in valid):
                raise InternalError(f"{node}'s validity is not a bool: {valid}")
        if node.op is Op.ACCUMULATE and any(r.op is not Op.RANGE for r in node.src[1:]):
            raise InternalError(f"{node} accumulates over {node.src[1:]}, which are not all ranges")


def _format_arg(node: Node) -> str:
    if node.op is Op.CONST:
        return f" {node.value}"
    if node.op in (Op.CAST, Op.BITCAST) or node.arg is None:
        return ""
    if node.op is Op.REDUCE:
        return f" {node.arg[0].name} axes={list(node.arg[1])}"
    if isinstance(node.arg, Op):
        return f" {node.arg.name}"
    if isinstance(node.arg, Range):
        return f" {node.arg.kind}{'.'.join(map(str, node.arg.order))} < {node.arg.extent}"
    if isinstance(node.arg, Param | LocalArray):
        return f" {node.arg[0]} size={node.arg.size}"
    return f" {getattr(node.arg, '__name__', node.arg)}"


def dump(roots: Sequence[Node]) -> str:
    """One line a node, sources first, named %0, %1, ... in visit order: equal on every machine."""
    names: dict[Node, str] = {}
    lines = []
    for node in toposort(roots):
        names[node] = f"%{len(names)}"
        sources = " ".join(names[s] for s in node.src)
        lines.append(f"{names[node]:>5} = {node.op.name}{_format_arg(node)}"
                     f"{' ' + sources if sources else ''} : {node.dtype.name}{list(node.shape)}")
    return "\n".join(lines)
