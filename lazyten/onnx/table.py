"""The table of operators: a function each, with the opset it holds from and how it takes inputs.

In: functions of tensors, marked with `@operator`. Out: `find(domain, name, opset)`. A function's
parameters are the inputs in ONNX's order, those with a default optional; its keyword parameters
are the attributes, with ONNX's defaults. Two names are no attributes: `opset` is the version of the
operator's domain that the model asks for, `outputs` how many outputs the node names.
"""
from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lazyten.support.errors import ArgumentError

Function = Callable[..., Any]
GIVEN = ("opset", "outputs")
"""Keyword parameters of an operator's function that are no attributes; of one that the standard
does not have, the second alone."""


@dataclass(frozen=True)
class Operator:
    """One meaning of an operator, from opset `since` to that of the next row.

    inputs: names of its inputs; those from `required` on may be left out; `variadic` if the last
    stands for any number. attributes: names. host: inputs that are needed as NumPy arrays, such as
    a shape. numbers: inputs that are NumPy arrays where they are constants of one element. eager:
    its output's shape depends on values, or it handles sequences or subgraphs, so it runs by itself
    between compiled programs. raw: it passes values on whatever they are.
    moves: its outputs are elements of its inputs, so it takes element types that lazyten lacks.
    pure: the same inputs give the same outputs and it may be computed when the model is loaded.
    shapes: its outputs follow from its inputs' shapes alone, and are arrays.
    foreign: it takes, and its function handles, arrays of types that lazyten lacks.
    arrays: the same of arrays alone, in NumPy, which takes less; it gives None for what is left to
    the function.
    Of an operator that the standard does not have: gives, how many outputs it has at most; fixed,
    attributes that may have this value alone; absent, inputs that may not be given; kinds, the
    type of each attribute as its function says it.
    """

    domain: str
    name: str
    since: int
    function: Function
    inputs: tuple[str, ...]
    required: int
    variadic: bool
    attributes: frozenset[str]
    needed: frozenset[str]
    given: frozenset[str]
    host: frozenset[str]
    numbers: frozenset[str]
    eager: bool
    raw: bool
    moves: bool
    pure: bool
    shapes: bool
    foreign: bool
    arrays: Function | None
    gives: int
    fixed: Mapping[str, Any]
    absent: frozenset[str]
    kinds: Mapping[str, str]

    def is_host(self, position: int) -> bool:
        """Whether the input at a position is needed as an array."""
        return self._name(position) in self.host

    def takes_number(self, position: int) -> bool:
        """Whether the input at a position may be the array of one number."""
        return self._name(position) in self.numbers

    def __reduce__(self) -> tuple[Callable[..., Operator], tuple[str, str, int, bool]]:
        return _row, (self.domain, self.name, self.since, self.gives > 0)

    def _name(self, position: int) -> str:
        return self.inputs[min(position, len(self.inputs) - 1)]


TABLE: dict[tuple[str, str], list[Operator]] = {}
"""All rows of an operator, by domain and name, the newest first."""


def operator(*names: str, since: int = 1, domain: str = "", host: str = "", eager: bool = False,
             raw: bool = False, moves: bool = False, pure: bool = True, shapes: bool = False,
             foreign: bool = False, arrays: Function | None = None, gives: int = 0,
             fixed: Mapping[str, Any] | None = None, absent: str = "", numbers: str = "",
             ) -> Callable[[Function], Function]:
    """Put a function into the table. host, numbers, absent: names of inputs, apart by spaces; "*"
    for all. gives: 0 for an operator of the standard."""
    def enter(function: Function) -> Function:
        parameters = list(inspect.signature(function).parameters.values())
        places = [p for p in parameters if p.kind is not p.KEYWORD_ONLY]
        options = {p.name: p for p in parameters if p.kind is p.KEYWORD_ONLY}
        inputs = tuple(p.name for p in places)
        on_host = frozenset(inputs if host == "*" else host.split())
        given = {"outputs"} if gives else {*GIVEN}
        for name in names:
            row = Operator(
                domain, name, since, function, inputs,
                sum(p.default is p.empty and p.kind is not p.VAR_POSITIONAL for p in places),
                any(p.kind is p.VAR_POSITIONAL for p in places),
                frozenset(options) - given,
                frozenset(n for n, p in options.items() if p.default is p.empty) - given,
                frozenset(options) & given, on_host, frozenset(numbers.split()), eager, raw, moves,
                pure, shapes, foreign, arrays, gives, fixed or {}, frozenset(absent.split()),
                {n: str(p.annotation) for n, p in options.items()})
            rows = TABLE.setdefault((domain, name), [])
            rows.append(row)
            rows.sort(key=lambda row: -row.since)
        return function
    return enter


def _row(domain: str, name: str, since: int, addition: bool) -> Operator:
    """The row that a pickled operator stands for. Raises ArgumentError if there is none by now."""
    for row in TABLE.get((domain, name), []):
        if (row.since, row.gives > 0) == (since, addition):
            return row
    raise ArgumentError(f"a pickled model with the operator {name} of {domain or 'ai.onnx'}, "
                        f"opset {since}, which this lazyten has not: load the file again")


def find(domain: str, name: str, opset: int) -> Operator | None:
    """The row of an operator of the standard that holds for an opset; None if there is none."""
    rows = TABLE.get((domain, name), [])
    return next((row for row in rows if row.since <= opset and not row.gives), None)


def find_addition(domain: str, name: str) -> Operator | None:
    """The row of an operator that the standard does not have; None if there is none."""
    return next((row for row in TABLE.get((domain, name), []) if row.gives), None)
