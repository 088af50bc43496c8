"""How ops that make arrays or move elements are written."""
from __future__ import annotations

import ml_dtypes
import numpy as np

from lazyten.ir.kernel import Slot
from lazyten.ir.ops import Op, decode
from lazyten.onnx.writing import wider
from lazyten.onnx.writing.alike import Term
from lazyten.onnx.writing.scans import part_of
from lazyten.onnx.writing.varying import Size, Varying
from lazyten.onnx.writing.writer import TYPES, Writer
from lazyten.support.errors import ArgumentError

SLICES = 16
"""So many places that a window slides by are written as a slice each."""


def buffer(w: Writer, term: Term) -> str:
    """An input in one axis, or memory that is there."""
    if isinstance(term.arg, Slot):
        return w.slots[term.arg.slot]
    given = w.input_of(term)
    if given is not None:
        name, shape = given
        return name if term.shape == shape else w.add("Reshape", name, w.ints([-1]))
    memory = term.arg
    if not hasattr(memory, "serial"):
        raise ArgumentError("onnx.export: a value that is made in the call is read in it")
    values = decode(memory.numpy(), term.dtype)
    if term.dtype.name == "bfloat16":
        values = values.astype(ml_dtypes.bfloat16)
    elif term.dtype.name == "float16":
        values = values.astype(np.float16)
    return w.constant(values, w.parameters.get(memory, f"weight{len(w.initializers)}"))


def const(w: Writer, term: Term) -> str:
    """One value everywhere."""
    name = w.scalar(term.value, term, len(term.shape))
    return name if term.numel == 1 else w.add("Expand", name, w.ints(term.shape))


def iota(w: Writer, term: Term) -> str:
    """0, 1, 2, .."""
    if isinstance(term.arg, int):
        return w.constant(np.arange(term.arg, dtype=term.dtype.numpy))
    return w.add("Cast", w.span(term.arg), to=TYPES[term.dtype.name])


def reshape(w: Writer, term: Term) -> str:
    """The same elements in another shape. (An input's in its own are the input.)"""
    source = term.src[0]
    given = w.input_of(source) if source.op is Op.BUFFER else None
    if given is not None and given[1] == term.shape:
        return given[0]
    name = w.of(source)
    return w.add("Reshape", name, shape_for(w, term.shape), allowzero=1)


def shape_for(w: Writer, shape: tuple[Size, ...]) -> str:
    """The shape of a Reshape: one axis that varies is what is left."""
    varying = [i for i, n in enumerate(shape) if isinstance(n, Varying)]
    if len(varying) == 1 and 0 not in shape:
        return w.ints([-1 if i == varying[0] else n for i, n in enumerate(shape)])
    return w.ints(shape)


def permute(w: Writer, term: Term) -> str:
    """The axes in another order."""
    return w.add("Transpose", w.of(term.src[0]), perm=list(term.arg))


def expand(w: Writer, term: Term) -> str:
    """Axes of size 1 repeated."""
    return w.add("Expand", w.of(term.src[0]), w.ints(term.shape))


def pad(w: Writer, term: Term) -> str:
    """Zeros around."""
    pads = w.ints([b for b, _ in term.arg] + [a for _, a in term.arg])
    return wider.add(w, "Pad", term.dtype, w.of(term.src[0]), pads)


def shrink(w: Writer, term: Term) -> str:
    """A part of some axes."""
    part = part_of(w, term)
    if part is not None:
        return part
    axes = [i for i, (s, e) in enumerate(term.arg) if (s, e) != (0, term.src[0].shape[i])]
    starts, ends = ([term.arg[i][k] for i in axes] for k in (0, 1))
    return w.add("Slice", w.of(term.src[0]), w.ints(starts), w.ints(ends), w.ints(axes))


def flip(w: Writer, term: Term) -> str:
    """Some axes backwards."""
    count = len(term.arg)
    return w.add("Slice", w.of(term.src[0]), w.ints([-1] * count), w.ints([-(1 << 62)] * count),
                 w.ints(term.arg), w.ints([-1] * count))


def shear(w: Writer, term: Term) -> str:
    """A slice for each place on the axis that it slides by; where that is long or varies, the two
    axes in one, of which the places that are read are taken."""
    axis, by, factor, offset, size = term.arg
    shape = term.src[0].shape
    length = shape[by]
    if isinstance(length, int) and length <= SLICES:
        starts = [(factor * k + offset, k) for k in range(length)]
        parts = [w.add("Slice", w.of(term.src[0]), w.ints(start), w.ints(
            [start[0] + size, start[1] + 1]), w.ints([axis, by])) for start in starts]
        return w.add("Concat", *parts, axis=by)
    rest = [i for i in range(len(shape)) if i not in (axis, by)]
    order = [*rest, axis, by]
    moved = w.add("Transpose", w.of(term.src[0]), perm=order)
    outer = [shape[i] for i in rest]
    flat = w.add("Reshape", moved, w.ints([*outer, shape[axis] * length]), allowzero=1)
    taken = w.add("Gather", flat, _places(w, term), axis=len(rest))
    wide = w.add("Reshape", taken, w.ints([*outer, size, length]), allowzero=1)
    return w.add("Transpose", wide, perm=[order.index(i) for i in range(len(order))])


def _places(w: Writer, term: Term) -> str:
    """Where a SHEAR reads, with its two axes in one: (i + factor * k + offset) * length + k."""
    _, by, factor, offset, size = term.arg
    length = term.src[0].shape[by]
    if all(isinstance(n, int) for n in (length, factor, offset, size)):
        k = np.arange(length)
        return w.constant(((np.arange(size)[:, None] + factor * k + offset) * length + k).ravel())
    i, places = w.add("Reshape", w.span(size), w.ints([-1, 1])), w.span(length)
    line = w.add("Add", i, w.add("Mul", places, w.ints([factor])))
    start = w.add("Mul", w.add("Add", line, w.ints([offset])), w.ints([length]))
    return w.add("Reshape", w.add("Add", start, places), w.ints([-1]))
