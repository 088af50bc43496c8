"""Operations on complex numbers as operations on their parts, each looked up as one.

In: the name of a rule (RULES), and what users give: complex and real tensors, arrays and numbers.
Out: what the rule makes of their parts. A rule is written with real tensors, so its gradients
follow: with d/d real + i d/d imaginary as the gradient of a complex number, as PyTorch has it.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from lazyten.frontend.complexes.tensors import ComplexTensor, joined, of_parts
from lazyten.frontend.core.forms import form as _form
from lazyten.frontend.core.forms import in_floats
from lazyten.frontend.core.keywords import taking_aliases
from lazyten.frontend.core.operands import has_operators, on_one_device
from lazyten.frontend.recorded.lookup import recorded
from lazyten.frontend.tensor import Tensor
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.support.errors import DTypeError, ForeignOperandError, two_devices

F = TypeVar("F", bound=Callable[..., Any])
Part = Any
"""A real tensor or a number."""


class Pair(NamedTuple):
    """A complex value by its parts: real tensors or numbers; no imaginary part is 0."""

    real: Part
    imag: Part = None

    @property
    def second(self) -> Part:
        """The imaginary part, also where it is 0."""
        return 0.0 if self.imag is None else self.imag


Rule = Callable[..., Any]
RULES: dict[str, Rule] = {}


def rule(function: F) -> F:
    """A decorator: a rule, by its function's name. It takes Pairs, and gives Pairs, or tensors."""
    RULES[function.__name__] = function
    return function


def form(*names: str) -> Callable[[F], F]:
    """A decorator: what the operations of these names do with complex numbers, with other names of
    arguments as for any operation."""
    def noted(function: F) -> F:
        _form(*names)(taking_aliases(function))
        return function
    return noted


# ---- types ---------------------------------------------------------------------------------------

def complex_like(operands: Sequence[Any]) -> DType:
    """The type of a result: as PyTorch promotes, tensors with axes before those without, and these
    before numbers of Python."""
    found: list[DType | None] = [None, None, None]
    for x in operands:
        kind = x.dtype if isinstance(x, Tensor) else dt.of_scalar(x)
        rank = 2 if not isinstance(x, Tensor) else 0 if x.ndim else 1
        before = found[rank]
        found[rank] = kind if before is None else dt.promote(before, kind)
    return _over(found[0], _over(found[1], found[2])) or dt.default_float


def _over(first: DType | None, second: DType | None) -> DType | None:
    """The type of operands of which the first count more."""
    if first is None or second is None:
        return first or second
    if first.is_complex or first.is_float and not second.is_complex:
        return first
    if first.is_float:
        return dt.complex_of(first)
    return dt.promote(first, second) if dt.category(second) > dt.category(first) else first


def taken(value: Any, like: Any, operation: str) -> Any:
    """An operand: a tensor on the device of another, or a number. DTypeError for anything else."""
    if isinstance(value, Tensor):
        if like is not None and value.device != like.device:
            value = on_one_device(like, value)[1]
        if like is not None and value.device != like.device:
            raise two_devices(operation, like.device, value.device)
        return value
    if isinstance(value, bool | int | float | complex):
        return value
    if isinstance(value, np.number | np.bool_):
        return value.item()
    if isinstance(value, np.ndarray | list | tuple) and not has_operators(value):
        array = np.asarray(value)
        device = None if like is None else like.device
        return from_array(array, device) if array.dtype.kind == "c" else \
            Tensor._copy_of(array, device=device)
    error = ForeignOperandError if has_operators(value) else DTypeError
    raise error(f"{operation} of a complex tensor and {type(value).__name__} {value!r:.40}: the "
                f"other operand must be a tensor, an array or a number")


def from_array(array: np.ndarray[Any, Any], device: str | None,
               kind: DType | None = None) -> ComplexTensor:
    """A complex tensor with a copy of an array's numbers."""
    kind = kind or dt.from_numpy(array.dtype)
    both = np.stack([array.real, array.imag], -1)
    return of_parts(Tensor._copy_of(np.ascontiguousarray(both), kind.component, device))


# ---- carrying out rules --------------------------------------------------------------------------

@recorded
def _carried_out(name: str, kind: DType | None, marks: str, operands: list[Any],
                 others: Any) -> Any:
    """What a rule makes of operands: marks says of each whether it is complex ('c'), a real tensor
    ('r'), or a number, whose two parts ('n'), or the only one ('x'), are given."""
    given = iter(operands)
    values = []
    for mark in marks:
        one = next(given)
        if mark == "c":
            one = one if kind is None else one.to(dtype=kind)
            values.append(Pair(one[..., 0], one[..., 1]))
        elif mark == "n":
            values.append(Pair(one, next(given)))
        else:
            values.append(Pair(one if kind is None or mark == "x" else one.to(dtype=kind)))
    result = RULES[name](*values, *others)
    if isinstance(result, list):
        return tuple([_one(x) for x in result])
    return _one(result)


def _one(result: Any) -> Any:
    return joined(*_shaped(result)) if isinstance(result, Pair) else result


def _shaped(pair: Pair) -> tuple[Tensor, Tensor]:
    """Both parts as tensors of one shape and type."""
    real, imag = pair.real, pair.second
    some = real if isinstance(real, Tensor) else imag
    if not isinstance(real, Tensor):
        real = some.new_full(some.shape, real)
    if not isinstance(imag, Tensor):
        imag = some.new_full(some.shape, imag)
    if real.shape != imag.shape:
        shape = (real.detach() + imag.detach()).shape
        real, imag = real.expand(shape), imag.expand(shape)
    return real, imag


def carry_out(name: str, *operands: Any, others: Sequence[Any] = (), gives: str = "c",
              called: str = "") -> Any:
    """What rule `name` makes of operands, all taken in the parts of one type. gives: whether that
    is complex ('c'), real ('r'), or several complex tensors ('s'). others: what else the rule
    takes."""
    first = next((x for x in operands if isinstance(x, Tensor)), None)
    found = [taken(x, first, called or name) for x in operands]
    kind = complex_like(found).component
    marks = ""
    given: list[Any] = []
    for x in found:
        if isinstance(x, Tensor):
            marks += "c" if isinstance(x, ComplexTensor) else "r"
            given.append(in_floats(x))
        elif isinstance(x, complex):
            marks += "n"
            given += x.real, x.imag
        else:
            marks += "x"
            given.append(x)
    result = _carried_out(name, kind, marks, given, tuple(others))
    if gives == "s":
        return tuple(map(of_parts, result))
    return of_parts(result) if gives == "c" else result


def elementwise(name: str, *others: str) -> None:
    """Give the operation `name`, and those of other names, the form that carries its rule out."""
    def carried_out(self: Any) -> Any:
        return carry_out(name, self)
    form(name, *others)(carried_out)
