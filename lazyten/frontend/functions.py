"""The functions of `lazyten` itself: making tensors, joining them, and choosing between them."""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

from lazyten.diagnostics.explanation import explain_storages
from lazyten.execution import realization as _realization
from lazyten.frontend.arguments import fills_out, takes_out, takes_tensors
from lazyten.frontend.core.forms import handles_of, in_floats, or_by_form
from lazyten.frontend.core.keywords import also_named, making
from lazyten.frontend.core.mixed_precision import LOW, casting
from lazyten.frontend.core.operands import on_one_device
from lazyten.frontend.core.overriding import offered, overridable
from lazyten.frontend.recorded.lookup import recorded
from lazyten.frontend.tensor import DTypeLike, Tensor
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType, Scalar
from lazyten.ir.node import Node, cast, const, iota, reshape
from lazyten.operators.arrays import joining, products, searching
from lazyten.operators.math import elementwise as ew
from lazyten.operators.math import reductions, shapes
from lazyten.storage import tracing
from lazyten.storage.placement import placed
from lazyten.support.errors import ArgumentError, DTypeError, ShapeError


@making
def tensor(data: Any, dtype: DTypeLike | None = None, device: str | None = None,
           requires_grad: bool = False) -> Tensor:
    """A tensor with a copy of `data`: a number, nested sequences, or a NumPy array.

    Python floats become float32 and integers int64; arrays keep their type unless `dtype` is given.
    """
    return Tensor._copy_of(data, dtype, device, requires_grad)


# ---- constant tensors ----------------------------------------------------------------------------

def _new(node: Node, device: str | None, requires_grad: bool) -> Tensor:
    result = Tensor._of(node, placed(device))
    return result.requires_grad_() if requires_grad else result


def _type(dtype: DTypeLike | None, default: DType) -> DType:
    return default if dtype is None else dt.as_dtype(dtype)


@fills_out
@making
@recorded
def full(size: Sequence[int] | int, fill_value: Scalar, dtype: DTypeLike | None = None,
         device: str | None = None, requires_grad: bool = False) -> Tensor:
    """Every element `fill_value`; nothing is stored until something is written."""
    shape = shapes.new_shape([size], "full")
    value = shapes.as_number(fill_value, "full", "the value")
    kind = _type(dtype, dt.of_scalar(value))
    return _new(ew.as_node(shapes.as_element(value, kind, "full"), kind, shape), device,
                requires_grad)


@fills_out
@making
def zeros(*size: Any, dtype: DTypeLike | None = None, device: str | None = None,
          requires_grad: bool = False) -> Tensor:
    """Every element 0. size: sizes one by one or in a tuple; of the default float type unless
    `dtype` says otherwise. Nothing is stored until something is written."""
    node = const(0, _type(dtype, dt.default_float), shapes.new_shape(size, "zeros"))
    return _new(node, device, requires_grad)


@fills_out
@making
def ones(*size: Any, dtype: DTypeLike | None = None, device: str | None = None,
         requires_grad: bool = False) -> Tensor:
    """Every element 1."""
    node = const(1, _type(dtype, dt.default_float), shapes.new_shape(size, "ones"))
    return _new(node, device, requires_grad)


@fills_out
@making
def empty(*size: Any, dtype: DTypeLike | None = None, device: str | None = None,
          requires_grad: bool = False) -> Tensor:
    """A tensor whose values do not matter; here they are 0."""
    return zeros(*size, dtype=dtype, device=device, requires_grad=requires_grad)


@making
@takes_tensors
def full_like(input: Tensor, fill_value: Scalar, dtype: DTypeLike | None = None,
              device: str | None = None, requires_grad: bool = False) -> Tensor:
    """`full` in another tensor's shape; its dtype and device unless others are given."""
    return full(input.shape, fill_value, dtype or input.dtype, device or input.device,
                requires_grad)


@making
@takes_tensors
def zeros_like(input: Tensor, dtype: DTypeLike | None = None, device: str | None = None,
               requires_grad: bool = False) -> Tensor:
    """`zeros` in another tensor's shape; its dtype and device unless others are given."""
    return full_like(input, 0, dtype, device, requires_grad)


@making
@takes_tensors
def ones_like(input: Tensor, dtype: DTypeLike | None = None, device: str | None = None,
              requires_grad: bool = False) -> Tensor:
    """`ones` in another tensor's shape; its dtype and device unless others are given."""
    return full_like(input, 1, dtype, device, requires_grad)


empty_like = zeros_like


@fills_out
@making
@recorded
def arange(start: Scalar = 0, end: Scalar | None = None, step: Scalar = 1,
           dtype: DTypeLike | None = None, device: str | None = None,
           requires_grad: bool = False) -> Tensor:
    """start, start + step, ... below end (above it if step is negative); arange(end) is from 0. Of
    an integer dtype, start and step are made whole numbers, towards 0; of int64, end is, too."""
    if end is None:
        start, end = 0, start
    start, end, step = [shapes.as_number(v, "arange", what) for v, what in
                        ((start, "start"), (end, "end"), (step, "the step"))]
    if step == 0 or not all(-math.inf < v < math.inf for v in (start, end, step)):
        raise ArgumentError(f"arange({start}, {end}, {step}): the step must not be 0, and all must "
                            f"be finite")
    _check_direction("arange", start, end, step)
    whole = all(isinstance(v, int) for v in (start, end, step))
    kind = _type(dtype, dt.default_int if whole else dt.default_float)
    if kind is dt.int64:
        start, end, step, whole = *map(_whole, (start, end, step)), True
    if step == 0:
        raise ArgumentError("arange: the step is 0 as a whole number; give a float dtype")
    number = -((start - end) // step) if whole else math.ceil((end - start) / step)
    count, = shapes.countable((max(int(number), 0),), "arange")
    if kind.is_int:
        start, step, whole = _whole(start), _whole(step), True
    work = dt.INDEX if whole else dt.float64
    values = ew.add(ew.mul(cast(iota(count), work), ew.as_node(step, work, ())),
                    ew.as_node(start, work, ()))
    return _new(cast(values, kind), device, requires_grad)


def _check_direction(operation: str, start: Scalar, end: Scalar, step: Scalar) -> None:
    if (end < start if step > 0 else end > start):
        raise ArgumentError(f"{operation}({start}, {end}, {step}): the steps lead away from {end}; "
                            f"give the other sign, or an end on that side")


def _whole(x: Scalar) -> int:
    return x if isinstance(x, int) else int(x)


@fills_out
@making
def inclusive_range(start: Scalar = 0, end: Scalar | None = None, step: Scalar = 1,
          dtype: DTypeLike | None = None, device: str | None = None,
          requires_grad: bool = False) -> Tensor:
    """`arange` with the end among the numbers, if a step meets it: floats, unless dtype says
    otherwise."""
    given = [(0, "the start"), (start, "the end")] if end is None else [
        (start, "the start"), (end, "the end")]
    first, last, by = [shapes.as_number(v, "range", what) for v, what in (
        *given, (step, "the step"))]
    if by and all(map(math.isfinite, (first, last, by))):
        _check_direction("range", first, last, by)
        last = first + math.floor((last - first) / by) * by + by / 2
    return arange(first, last, by, dtype or dt.default_float, device, requires_grad)


@making
def scalar_tensor(s: Scalar, dtype: DTypeLike | None = None, device: str | None = None,
                  requires_grad: bool = False) -> Tensor:
    """A tensor of one number without axes, of the default float type unless dtype says otherwise.
    """
    return full((), s, dtype or dt.default_float, device, requires_grad)


@fills_out
@making
@recorded
def linspace(start: float, end: float, steps: int, dtype: DTypeLike | None = None,
             device: str | None = None, requires_grad: bool = False) -> Tensor:
    """`steps` numbers evenly spread from start to end, both included. Of an integer dtype, start
    and end are made whole numbers first, and the others then, towards 0."""
    steps = shapes.as_int(steps, "linspace", "the number of steps")
    shapes.countable((steps,), "linspace")
    if steps < 0:
        raise ArgumentError(f"linspace: {steps} steps; give 0 or more")
    kind = _type(dtype, dt.default_float)
    start, end = [shapes.as_number(v, "linspace", "start and end") for v in (start, end)]
    if kind.is_int:
        start, end = [int(shapes.as_element(v, kind, "linspace")) for v in (start, end)]
    gap = (end - start) / (steps - 1) if steps > 1 else 0.0
    place = cast(iota(steps), dt.float64)
    up = ew.add(ew.mul(place, gap), start * 1.0)
    down = ew.sub(end * 1.0, ew.mul(ew.sub(float(steps - 1), place), gap))
    values = ew.where(ew.less(place, steps / 2), up, down)
    return _new(cast(values, kind), device, requires_grad)


@fills_out
@making
def eye(n: int, m: int | None = None, dtype: DTypeLike | None = None,
        device: str | None = None, requires_grad: bool = False) -> Tensor:
    """n rows of m columns (n, if left out) with 1 on the diagonal and 0 beside it: (n, m)."""
    rows, columns = shapes.new_shape([n, n if m is None else m], "eye")
    diagonal = ew.equal(reshape(iota(rows), (rows, 1)), reshape(iota(columns), (1, columns)))
    return _new(cast(diagonal, _type(dtype, dt.default_float)), device, requires_grad)


# ---- several tensors -----------------------------------------------------------------------------

def _tensors(given: object, operation: str) -> list[Tensor]:
    """What was given as a sequence of tensors. DTypeError for anything else."""
    if not isinstance(given, list | tuple):
        raise DTypeError(f"{operation}: {given!r:.40} is not a tensor or a list of them; wrap "
                         f"numbers in lazyten.tensor()")
    for number, t in enumerate(given):
        if not isinstance(t, Tensor):
            raise DTypeError(f"{operation}: item {number} is {type(t).__name__} {t!r:.40}, not a "
                             f"tensor; wrap it in lazyten.tensor()")
    return list(given)


def _nodes(tensors: Sequence[Tensor], operation: str) -> list[Node]:
    """Nodes of one dtype, all on one device."""
    if not isinstance(tensors, list | tuple):
        raise DTypeError(f"{operation} of a {type(tensors).__name__}: give the tensors as a list, "
                         f"{operation}([a, b])")
    if not tensors:
        raise ArgumentError(f"{operation} of no tensors; give at least one")
    for t in _tensors(tensors, operation):
        tensors[0]._operand(t, operation)
    kind = tensors[0].dtype
    for t in tensors:
        kind = dt.promote(kind, t.dtype)
    return [cast(t.node, kind) for t in tensors]


@takes_out
def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """The tensors one after another along an axis: (a, n) and (b, n) become (a + b, n). ShapeError
    unless the other axes are equal, but an empty vector goes with any; types are promoted."""
    nodes = _nodes(tensors, "cat")
    nodes = [x for x in nodes if x.shape != (0,)] or nodes[:1]  # which goes with any shape
    if nodes[0].shape == (0,):
        return Tensor._result(nodes[0], *tensors)
    if not nodes[0].shape:
        raise ShapeError("cat of zero-dim tensors: they have no axis to join along; use stack()")
    axis = shapes.axis(dim, len(nodes[0].shape), "cat")
    return Tensor._result(joining.cat(nodes, axis), *tensors)


concat = cat


@takes_out
def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """The tensors along a new axis: of k of shape (a, b), (k, a, b) with dim 0 and (a, b, k) with
    dim -1. ShapeError unless all shapes are equal; types are promoted."""
    nodes = _nodes(tensors, "stack")
    axis = shapes.axis(dim, len(nodes[0].shape) + 1, "stack")
    return Tensor._result(joining.stack(nodes, axis), *tensors)


@takes_tensors
def where(condition: Tensor, input: Any = None, other: Any = None) -> Any:
    """input where the bool tensor `condition` holds, else other; numbers or tensors, broadcast.
    With the condition alone, nonzero(as_tuple=True)."""
    if input is None and other is None:
        return condition.nonzero(as_tuple=True)
    condition, *given = on_one_device(condition, input, other)
    values = [condition._operand(v, "where") for v in given]
    nodes = [v.node if isinstance(v, Tensor) else v for v in values]
    tensors = [v for v in values if isinstance(v, Tensor)]
    return Tensor._result(ew.chosen(condition.node, nodes[0], nodes[1]), condition, *tensors)


@overridable
def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """All tensors expanded to their common shape."""
    shape = shapes.broadcast([t.shape for t in _tensors(tensors, "broadcast_tensors")],
                             "broadcast_tensors")
    return tuple(t if t.shape == shape else t.expand(shape) for t in tensors)


def _one_by_one(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A function of an equation and of operands, however these are given: those who take it over
    get them one by one, as PyTorch's are."""
    @wraps(function)
    def called(equation: Any, *operands: Any) -> Tensor:
        if not isinstance(equation, str):
            equation, operands = products.equation_of((equation, *operands))
        elif len(operands) == 1 and isinstance(operands[0], list | tuple):
            operands = tuple(operands[0])
        return function(equation, *operands)
    return offered(called, function)


@_one_by_one
@recorded
@casting(LOW)
def einsum(equation: Any, *operands: Any) -> Tensor:
    """The sum of products that an equation says, such as 'bij,bjk->bik'; of one tensor its sum, in
    the type of a sum, or, if it only moves axes or takes a diagonal, a view. Without an equation,
    numbers of axes follow each tensor, and those of the result: x, [0, 1], y, [1, 2], [0, 2]."""
    tensors = _tensors(operands, "einsum")
    for t in tensors[1:]:
        tensors[0]._operand(t, "einsum")
    moves = products.rearrangement(equation, tensors[0].node) if len(tensors) == 1 else None
    if moves is not None:
        return tensors[0]._moved(*moves)
    nodes = [t.node for t in tensors]
    if len(nodes) == 1:
        nodes = [cast(nodes[0], reductions.sum_type(nodes[0].dtype))]
    return Tensor._result(products.einsum(equation, nodes), *tensors)


@overridable
@or_by_form
def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    """Vectors expanded to a grid, one axis each; indexing 'xy' exchanges the first two axes."""
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], list | tuple) else tensors
    lines = _tensors(list(given), "meshgrid")
    if indexing not in ("ij", "xy"):
        raise ArgumentError(f"meshgrid: indexing={indexing!r} is neither 'ij' nor 'xy'")
    if not lines:
        raise ArgumentError("meshgrid of no tensors; give one or more")
    if any(t.ndim > 1 for t in lines):
        raise ShapeError(f"meshgrid of shapes {[t.shape for t in lines]}: give vectors")
    ew.of_one_type("meshgrid", *[t.node for t in lines])
    order = list(range(len(lines)))
    if indexing == "xy" and len(order) > 1:
        order[:2] = 1, 0
    shape = [lines[i].numel() for i in order]
    grids = []
    for number, t in enumerate(lines):
        place = order.index(number)
        grids.append(t.reshape([-1 if a == place else 1 for a in range(len(order))]).expand(shape))
    return tuple(grids)


def _joined(name: str, tensors: Sequence[Tensor], least: int, axis: int) -> Tensor:
    """cat along an axis, of tensors that get at least `least` axes."""
    wide = []
    for t in _tensors(tensors, name):
        if least == 3:
            shape = (1, *t.shape, 1) if t.ndim == 1 else t.shape + (1,) * (3 - t.ndim)
        else:
            shape = (1,) * (least - t.ndim) + t.shape
        wide.append(t.reshape(shape))
    return cat(wide, axis if wide and wide[0].ndim > axis else 0)


@takes_out
def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """The tensors side by side: along axis 1, of vectors along axis 0."""
    return _joined("hstack", tensors, 1, 1)


@takes_out
def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """The tensors on top of each other, vectors as rows."""
    return _joined("vstack", tensors, 2, 0)


@takes_out
def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """The tensors behind each other, along axis 2."""
    return _joined("dstack", tensors, 3, 2)


@takes_tensors
def searchsorted(sorted_sequence: Tensor, input: Any, right: bool = False, *,
                 side: str | None = None, out_int32: bool = False,
                 sorter: Tensor | None = None) -> Tensor:
    """Where each value goes in a sorted vector to keep it sorted: before equal ones, or after.

    In a sorted sequence of more axes, the values of each row go into that row: all axes but the
    last are those of `input`. `sorter` is the argsort of a sequence that is not sorted.
    """
    if side not in (None, "left", "right"):
        raise ArgumentError(f"searchsorted: side={side!r} is neither 'left' nor 'right'")
    if right and side == "left":
        raise ArgumentError("searchsorted: side='left' with right=True; give one of them")
    given = sorted_sequence._operand(input, "searchsorted")
    values = given if isinstance(given, Tensor) else full((), given, None, sorted_sequence.device)
    if not sorted_sequence.ndim or sorted_sequence.ndim > 1 and (
            sorted_sequence.shape[:-1] != values.shape[:-1] or not values.ndim):
        raise ShapeError(f"searchsorted of values {values.shape} in shape {sorted_sequence.shape}: "
                         f"give a sorted vector, or values whose axes but the last are those of "
                         f"the sorted sequence")
    if sorter is not None:
        if sorter.shape != sorted_sequence.shape:
            raise ShapeError(f"searchsorted: sorter of shape {sorter.shape} for a sequence of "
                             f"{sorted_sequence.shape}; give its argsort")
        sorted_sequence = sorted_sequence.take_along_dim(sorter, -1)
    found = searching.found_places(sorted_sequence.node, values.node, right or side == "right",
                                  tracing.of_any_size())
    return Tensor._result(cast(found, dt.int32) if out_int32 else found, sorted_sequence, values)


@takes_tensors
def bucketize(input: Any, boundaries: Tensor, *, right: bool = False,
              out_int32: bool = False) -> Tensor:
    """searchsorted, the other way round."""
    if boundaries.ndim != 1:
        raise ShapeError(f"bucketize: boundaries of shape {boundaries.shape}; give a sorted vector")
    return searchsorted(boundaries, input, right, out_int32=out_int32)


@takes_out
@also_named(element="elements", test_element="test_elements")
def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False,
         invert: bool = False) -> Tensor:
    """Whether each element is one of `test_elements`, or with `invert` none of them; one of the two
    may be a number. assume_unique makes no difference."""
    known = [x for x in (elements, test_elements) if isinstance(x, Tensor)]
    if not known:
        raise DTypeError("isin: neither the elements nor the test elements are a tensor; wrap one "
                         "in lazyten.tensor()")
    values = [known[0]._operand(x, "isin") for x in (elements, test_elements)]
    each, tested = [x if isinstance(x, Tensor) else tensor(x, device=known[0].device)
                    for x in values]
    found = (each.unsqueeze(-1) == tested.reshape(-1)).any(-1)
    return found.logical_not() if invert else found


# ---- computing -----------------------------------------------------------------------------------

def realize(*tensors: Tensor) -> None:
    """Compute several tensors at once: what they share is computed once."""
    _realization.realize([part._storage for t in _tensors(tensors, "realize")
                          for part in handles_of(t)])


def explain(*tensors: Tensor) -> str:
    """Why each value of the computation of these tensors would be stored, kernel by kernel."""
    return explain_storages([in_floats(t)._storage for t in _tensors(tensors, "explain")])
