"""The shape of a node from what it is made of, and what fields it may have.

node.py asks for each node that it makes. What is off is an InternalError: a user's mistakes are
found before.
"""
from __future__ import annotations

from typing import Any, Protocol

from lazyten.ir import dtype as dt
from lazyten.ir import movement
from lazyten.ir.dtype import DType
from lazyten.ir.movement import Shape
from lazyten.ir.ops import COMBINERS, IDENTITY_OPS, LOOP_ONLY, MOVEMENT, SPECS, Op, OpSpec
from lazyten.support.errors import ComplexError, DTypeError, InternalError


class Source(Protocol):
    """What shapes depend on of a node."""

    @property
    def shape(self) -> Shape:
        """Sizes of its axes."""

    @property
    def dtype(self) -> DType:
        """Of its elements."""


def shape_of(op: Op, dtype: DType, src: tuple[Source, ...], arg: Any) -> Shape:
    """The shape of a node with these fields; InternalError if they are off."""
    if dtype.kind == "c":
        raise ComplexError
    if op in MOVEMENT:
        return movement.out_shape(op, src[0].shape, arg)
    spec = SPECS.get(op)
    if spec is not None:
        return _elementwise_shape(op, spec, dtype, src)
    if op is Op.CONST:
        return tuple([int(n) for n in arg[1]])
    if op is Op.IOTA:
        return (int(arg),)
    if op is Op.BUFFER:
        return (arg.size,)
    if op is Op.REDUCE:
        combiner, axes = arg
        if combiner not in COMBINERS or src[0].dtype.kind not in SPECS[combiner].takes:
            _refuse_stored({Op.ADD: "sum", Op.MUL: "prod"}.get(combiner, "max"), src[0].dtype)
            raise InternalError(f"cannot reduce {src[0]} by {combiner}")
        return tuple([1 if i in axes else n for i, n in enumerate(src[0].shape)])
    if op is Op.GATHER:
        return _gather_shape(src, arg)
    if op is Op.SCATTER:
        return _scatter_shape(src, *arg)
    if op is Op.SCAN:
        return (*arg.shape,)
    if op is Op.COLLECTIVE:
        return (*arg.shape([s.shape for s in src]),)
    if op is Op.JOINED:
        return (*arg.joined(src[0].shape),)
    if op is Op.OWN:
        return (*arg.own(src[0].shape),)
    if op in IDENTITY_OPS or op in (Op.COPY, Op.CONTIGUOUS):
        return src[0].shape
    if op in LOOP_ONLY:
        return ()
    raise InternalError(f"no shape rule for {op.name}")


def _elementwise_shape(op: Op, spec: OpSpec, dtype: DType, src: tuple[Source, ...]) -> Shape:
    if len(src) != spec.arity:
        raise InternalError(f"{op.name} takes {spec.arity} operands, not {len(src)}: {src}")
    shape, first = src[-1].shape, src[-1].dtype
    for s in src:
        if s.shape != shape:
            raise InternalError(f"{op.name} of different shapes: {src}")
        if s.dtype is not first and (op is not Op.WHERE or s is not src[0]):
            raise InternalError(f"{op.name} of different dtypes: {src}")
    if first.kind not in spec.takes or (op is Op.WHERE and src[0].dtype is not dt.bool_):
        _refuse_stored(op.name.lower(), first)
        raise InternalError(f"{op.name} does not take {[s.dtype.name for s in src]}")
    wanted = first if spec.gives == "same" else dt.bool_ if spec.gives == "bool" else dtype
    if dtype is not wanted:
        raise InternalError(f"{op.name} of {first.name} does not give {dtype.name}")
    return shape


def _refuse_stored(operation: str, dtype: DType) -> None:
    """DTypeError for arithmetic on an 8-bit float: only here all of it is seen."""
    if dtype.is_stored:
        raise DTypeError(f"{operation} of {dtype.name}: 8-bit floats only store numbers; convert "
                         f"first, for example with .float()")


def _gather_shape(src: tuple[Source, ...], axis: int) -> Shape:
    x, positions = src
    if not positions.dtype.is_int or not fits_beside(positions.shape, x.shape, axis):
        raise InternalError(f"cannot gather {x} on axis {axis} at {positions}")
    return positions.shape


def _scatter_shape(src: tuple[Source, ...], axis: int, combiner: Op | None) -> Shape:
    base, positions, values = src
    if combiner is not None:
        _refuse_stored("scatter", base.dtype)
    combines = combiner is None or (combiner in COMBINERS and not base.dtype.is_half
                                    and base.dtype.kind in SPECS[combiner].takes)
    if not (positions.dtype.is_int and combines and values.dtype is base.dtype
            and values.shape == positions.shape and fits_beside(base.shape, values.shape, axis)):
        raise InternalError(f"cannot scatter {values} into {base} on axis {axis} at {positions}")
    return base.shape


def fits_beside(a: Shape, b: Shape, axis: int) -> bool:
    """Whether two shapes have the same sizes but for that of `axis`, which both have."""
    return axis < len(a) and a[:axis] == b[:axis] and a[axis + 1:] == b[axis + 1:]
