"""A kernel from its text: reads what `lazyten.ir.kernel.computation` writes.

In: a line `%OUTPUT ... from DTYPE[SIZE] ...`, then a line a node, as `dump` prints them. Out: nodes
of the GRAPH level. `computation` of what is read is the text again.
"""
from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from typing import Any

from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType, Scalar
from lazyten.ir.kernel import Slot
from lazyten.ir.node import Node, Shape, make
from lazyten.ir.ops import ELEMENTWISE, MOVEMENT, Op
from lazyten.support.errors import ArgumentError, InternalError

_NODE = re.compile(r"\s*(%\d+) = (\w+)(?: ([^%]*?))?((?: %\d+)*) : (\w+)\[([\d, ]*)\]")
_INPUT = re.compile(r"(\w+)\[(\d+)\]")
_SLOT = re.compile(r"Slot\(slot=(\d+), size=(\d+)\)")
_REDUCE = re.compile(r"(\w+) axes=(\[[\d, ]*\])")
_SCATTER = re.compile(r"\((\d+), (?:Op\.)?(\w+)\)")

Inputs = tuple[tuple[DType, int], ...]


def read_computation(text: str) -> tuple[tuple[Node, ...], Inputs]:
    """The outputs and the types of the inputs. ArgumentError with the line that cannot be read."""
    head, _, body = text.strip().partition("\n")
    named: dict[str, Node] = {}
    for line in body.splitlines():
        try:
            name, node = _read_node(line, named)
        except (ValueError, KeyError, TypeError, IndexError, SyntaxError, InternalError) as error:
            raise _unreadable(line, error) from error
        named[name] = node
    outputs, _, inputs = head.partition(" from")
    try:
        types = tuple((dt.BY_NAME[name], int(size)) for name, size in _INPUT.findall(inputs))
        return tuple(named[name] for name in outputs.split()), types
    except KeyError as error:
        raise _unreadable(head, error) from error


def _unreadable(line: str, error: Exception) -> ArgumentError:
    return ArgumentError(f"the text of a kernel: {line.strip()!r:.100} cannot be read ({error!r}); "
                         f"it should be as lazyten writes it")


def _read_node(line: str, named: Mapping[str, Node]) -> tuple[str, Node]:
    match = _NODE.fullmatch(line)
    if match is None:
        raise ValueError("it is not NAME = OP ARGUMENT SOURCES : DTYPE[SHAPE]")
    name, op_name, argument, sources, dtype_name, sizes = match.groups()
    op, dtype = _op(op_name), dt.BY_NAME[dtype_name]
    shape = tuple(int(n) for n in sizes.split(",") if n.strip())
    arg = _read_argument(op, argument or "", dtype, shape)
    node = make(op, dtype, tuple(named[s] for s in sources.split()), arg)
    if node.shape != shape:
        raise ValueError(f"the shape is {node.shape}")
    return name, node


def _op(name: str) -> Op:
    op = vars(Op)[name]
    if not isinstance(op, Op):
        raise KeyError(name)
    return op


def _read_argument(op: Op, text: str, dtype: DType, shape: Shape) -> Any:
    if op in ELEMENTWISE or op is Op.CONTIGUOUS and not text:
        return None
    if op in MOVEMENT or op in (Op.GATHER, Op.IOTA, Op.CONTIGUOUS):
        return ast.literal_eval(text)
    return _ARGUMENTS[op](text, dtype, shape)


def _const(text: str, dtype: DType, shape: Shape) -> tuple[Scalar, Shape]:
    value: Scalar = text == "True" if dtype is dt.bool_ else \
        float(text) if dtype.is_float else int(text)
    return value, shape


def _matched(pattern: re.Pattern[str], text: str) -> tuple[str, str]:
    match = pattern.fullmatch(text)
    if match is None:
        raise ValueError(text)
    return match[1], match[2]


def _slot(text: str, dtype: DType, shape: Shape) -> Slot:
    slot, size = _matched(_SLOT, text)
    return Slot(int(slot), int(size))


def _reduce(text: str, dtype: DType, shape: Shape) -> tuple[Op, tuple[int, ...]]:
    combiner, axes = _matched(_REDUCE, text)
    return _op(combiner), tuple(ast.literal_eval(axes))


def _scatter(text: str, dtype: DType, shape: Shape) -> tuple[int, Op | None]:
    axis, combiner = _matched(_SCATTER, text)
    return int(axis), None if combiner == "None" else _op(combiner)


_ARGUMENTS: dict[Op, Callable[[str, DType, Shape], Any]] = {
    Op.CONST: _const, Op.BUFFER: _slot, Op.REDUCE: _reduce, Op.SCATTER: _scatter}
