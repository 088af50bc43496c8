"""Products of several arrays: einsum and what can be said with it.

In: GRAPH nodes of one dtype, and which axes belong together, as labels. Out: one GRAPH node. A sum
of products is REDUCE over MUL of expanded arrays, as in windows.matmul; arrays are combined from
left to right, and a label is summed as soon as no later array has it.
"""
from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, SupportsIndex, TypeVar

from lazyten.ir import dtype as dt
from lazyten.ir.movement import Moves
from lazyten.ir.node import Node, Shape, cast, const, expand, iota, move, reduce, reshape
from lazyten.ir.ops import Op
from lazyten.operators.arrays import strided, windows
from lazyten.operators.arrays.indexing import Chain, apply
from lazyten.operators.math import elementwise as ew
from lazyten.operators.math import reductions, shapes, special
from lazyten.operators.math.gradients import flat_in
from lazyten.support.errors import ArgumentError, DTypeError, ShapeError

M = TypeVar("M")
Labels = tuple[str, ...]


def einsum(equation: str, operands: Sequence[Node]) -> Node:
    """The sum of products that an equation such as 'bij,bjk->bik' says; '...' stands for axes that
    broadcast. Operands are of one type, but where nothing is summed, as in a product. Raises
    ArgumentError for an equation that does not fit."""
    inputs, output = _parsed(equation, operands)
    if all(label in output for own in inputs for label in own):
        kind = ew.result_type(list(operands), "einsum")
        operands = [cast(x, kind) for x in operands]
    _one_type(operands, "einsum")
    parts = []
    for operand, own in zip(operands, inputs, strict=True):
        moves, single = _without_repeats(operand.shape, own)
        parts.append((apply(moves, operand), single))
    sizes: dict[str, int] = {}
    for number, (x, labels) in enumerate(parts):
        for label, n in zip(labels, x.shape, strict=True):
            if sizes.setdefault(label, n) != n and 1 not in (n, sizes[label]):
                raise ShapeError(f"einsum {equation!r}: axis {label!r} of operand {number} has "
                                 f"size {n}, and {sizes[label]} before; they must be equal")
            sizes[label] = n if n != 1 else sizes[label]
    if len(parts) > 1:
        parts = _alone_summed(parts, output, sizes)
    x, labels = parts[0]
    for place in range(1, len(parts) + 1):
        later = [own for _, own in parts[place + 1:]]
        kept = {label for own in (*later, output) for label in own}
        if place < len(parts):
            x, labels = contract(x, labels, *parts[place], kept, sizes)
        else:
            x, labels = contract(x, labels, None, (), kept, sizes)
    return move(Op.PERMUTE, x, tuple(labels.index(label) for label in output))


def _alone_summed(parts: list[tuple[Node, Labels]], output: Labels,
                  sizes: dict[str, int]) -> list[tuple[Node, Labels]]:
    """Arrays summed over the labels that they alone have, which spares products; integers in int64,
    as sums are, which all are then."""
    found = []
    for number, (x, own) in enumerate(parts):
        kept = {*output, *(label for i, (_, others) in enumerate(parts) if i != number
                           for label in others)}
        if not kept.issuperset(own):
            x, own = contract(cast(x, reductions.sum_type(x.dtype)), own, None, (), kept, sizes)
        found.append((x, own))
    kind = functools.reduce(dt.promote, [x.dtype for x, _ in found])
    return [(cast(x, kind), own) for x, own in found]


def contract(a: Node, left: Labels, b: Node | None, right: Labels, kept: set[str],
             sizes: dict[str, int]) -> tuple[Node, Labels]:
    """The product of two arrays, summed over the labels that are not kept; of 16-bit floats in
    float32, and rounded once."""
    labels = (*left, *(label for label in right if label not in left))
    shape = tuple(sizes[label] for label in labels)
    value = _aligned(ew.wide(a), left, labels, shape)
    if b is not None:
        value = ew.mul(value, _aligned(ew.wide(b), right, labels, shape))
    gone = tuple(i for i, label in enumerate(labels) if label not in kept)
    if gone:
        value = reduce(value, Op.ADD if value.dtype is not dt.bool_ else Op.MAX, gone)
    rest = tuple(label for label in labels if label in kept)
    return cast(reshape(value, tuple(sizes[label] for label in rest)), a.dtype), rest


def _aligned(x: Node, own: Labels, labels: Labels, shape: tuple[int, ...]) -> Node:
    """x with an axis for each of `labels`, in their order, expanded."""
    order = tuple(own.index(label) for label in labels if label in own)
    x = move(Op.PERMUTE, x, order)
    sizes = iter(x.shape)
    wide = reshape(x, tuple(next(sizes) if label in own else 1 for label in labels))
    return expand(wide, shape)


def rearrangement(equation: str, operand: Node) -> Moves | None:
    """The moves that an equation of one operand says, or None if it also sums."""
    (labels,), output = _parsed(equation, [operand])
    moves, labels = _without_repeats(operand.shape, labels)
    if set(labels) != set(output):
        return None
    return (*moves, (Op.PERMUTE, tuple(labels.index(label) for label in output)))


def _without_repeats(shape: Shape, labels: Labels) -> tuple[Moves, Labels]:
    """Of an axis label given twice only the diagonal counts: the moves to it, and its labels."""
    chain = Chain(shape)
    for label in labels:
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            if chain.shape[first] != chain.shape[second]:
                raise ShapeError(f"einsum: axes {first} and {second} of shape {chain.shape} are "
                                 f"both {label!r}; their sizes must be equal")
            for op, arg in strided.diagonal(chain.shape, 0, first, second):
                chain.move(op, arg)
            labels = (*(own for i, own in enumerate(labels) if i not in (first, second)), label)
    return tuple(chain.moves), labels


def equation_of(given: Sequence[Any]) -> tuple[Any, tuple[Any, ...]]:
    """The equation and the operands that operands with the numbers of their axes mean: x, [0, 1],
    y, [1, 2], and perhaps [0, 2]. ArgumentError for what is no number of an axis; what is no such
    list is left to be refused."""
    lines = list(given[1::2]) + [given[-1]] * (len(given) % 2)
    if not all(isinstance(line, list | tuple) for line in lines) or len(given) < 2:
        return given[0], tuple(given[1:])
    terms = ["".join(_letter(label, line) for label in line) for line in lines]
    operands = tuple(given[:len(given) - len(given) % 2:2])
    inputs = ",".join(terms[:len(operands)])
    return "->".join([inputs, *terms[len(operands):]]), operands


def _letter(label: object, line: Sequence[Any]) -> str:
    """What stands for the number of an axis: letters in alphabetical order, first large ones."""
    if label is ...:
        return "..."
    if isinstance(label, bool) or not isinstance(label, int) or not 0 <= label < 52:
        raise ArgumentError(f"einsum: {line!r:.40} has {label!r:.20}; the axes of an operand are "
                            f"numbers from 0 to 51, and ... for those that broadcast")
    return chr((65 if label < 26 else 71) + label)


def _parsed(equation: str, operands: Sequence[Node]) -> tuple[list[Labels], Labels]:
    """The labels of each operand's axes, and of the result's."""
    if not isinstance(equation, str):
        raise DTypeError(f"einsum: the equation is a string such as 'ij,jk->ik', not {equation!r}")
    text = equation.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        raise ArgumentError(f"einsum {equation!r} names {len(terms)} operands, but {len(operands)} "
                            f"are given; write one term for each")
    rests = [len(x.shape) - len(t.replace("...", "")) for t, x in zip(terms, operands, strict=True)]
    dots = max([r for t, r in zip(terms, rests, strict=True) if "..." in t], default=0)
    inputs = []
    for number, (term, rest) in enumerate(zip(terms, rests, strict=True)):
        if rest < 0 or rest and "..." not in term:
            raise ArgumentError(f"einsum {equation!r}: operand {number} has shape "
                                f"{operands[number].shape}, which does not fit {term!r}; write a "
                                f"letter for each axis, or '...' for the others")
        inputs.append(_labels(term, rest, dots, equation))
    if arrow:
        output = _labels(right, dots, dots, equation)
    else:
        letters = [label for own in inputs for label in own if len(label) == 1]
        output = (*(f"..{i}" for i in range(dots)),
                  *(label for label in sorted(set(letters)) if letters.count(label) == 1))
    unknown = [label for label in output if not any(label in own for own in inputs)]
    if unknown or len(set(output)) != len(output):
        raise ArgumentError(f"einsum {equation!r}: each axis of the result is named once, and is "
                            f"one of an operand")
    return inputs, output


def _labels(term: str, rest: int, dots: int, equation: str) -> Labels:
    before, dotted, after = term.partition("...")
    if not (before + after).isalpha() and before + after:
        raise ArgumentError(f"einsum {equation!r}: {term!r} is not made of letters and one '...'")
    middle = tuple(f"..{i}" for i in range(dots - rest, dots)) if dotted else ()
    return (*before, *middle, *after)


def _one_type(operands: Sequence[Node], operation: str) -> None:
    if not operands:
        raise ArgumentError(f"{operation} of no tensors; give at least one")
    for x in operands:
        if x.dtype is not operands[0].dtype:
            raise DTypeError(f"{operation} of {operands[0].dtype.name} and {x.dtype.name}: all "
                             f"must be of one type; convert with .to(...)")


def tensordot(a: Node, b: Node, first: Sequence[int], second: Sequence[int]) -> Node:
    """The product summed over axes `first` of a and `second` of b, pair by pair; of a pair one may
    have size 1, and counts for each element of the other."""
    _one_type([a, b], "tensordot")
    left = tuple(f"a{i}" for i in range(len(a.shape)))
    pairs = dict(zip(second, first, strict=True))
    right = tuple(left[pairs[i]] if i in pairs else f"b{i}" for i in range(len(b.shape)))
    for j, i in pairs.items():
        if a.shape[i] != b.shape[j] and 1 not in (a.shape[i], b.shape[j]):
            raise ShapeError(f"tensordot of shapes {a.shape} and {b.shape}: axis {i} of the first "
                             f"has size {a.shape[i]}, and axis {j} of the second {b.shape[j]}; "
                             f"they must be equal, or one of them 1")
    sizes = dict(zip(left, a.shape, strict=True))
    for label, n in zip(right, b.shape, strict=True):
        sizes[label] = n if sizes.get(label, 1) == 1 else sizes[label]
    kept = {label for label in (*left, *right) if (label in left) != (label in right)}
    return contract(a, left, b, right, kept, sizes)[0]


def kron(a: Node, b: Node) -> Node:
    """Each element of a times all of b, side by side."""
    rank = max(len(a.shape), len(b.shape))
    rows, columns = [(1,) * (rank - len(x.shape)) + x.shape for x in (a, b)]
    left = reshape(a, tuple(m for n in rows for m in (n, 1)))
    right = reshape(b, tuple(m for n in columns for m in (1, n)))
    return reshape(ew.mul(left, right), tuple(n * m for n, m in zip(rows, columns, strict=True)))


def cross(a: Node, b: Node, dim: SupportsIndex | None) -> Node:
    """The vector product along an axis of size 3; by default (None) the first such axis of a."""
    if len(a.shape) != len(b.shape):
        raise ShapeError(f"cross of shapes {a.shape} and {b.shape}: they have {len(a.shape)} and "
                         f"{len(b.shape)} axes; give both as many, of size 1 where they broadcast")
    if dim is None:
        dim = next((i for i, n in enumerate(a.shape) if n == 3), -1)
    axis, _ = shapes.sized_axis(dim, a.shape, "cross")
    for n in (a.shape[axis], b.shape[axis]):
        if n != 3:
            raise ShapeError(f"cross of shapes {a.shape} and {b.shape}: axis {axis} has size {n}, "
                             f"but it is for vectors of 3")
    shape = shapes.broadcast([a.shape, b.shape], "cross")
    left, right = (_turned(ew.broadcast_to(x, shape), axis) for x in (a, b))
    return ew.sub(ew.mul(left[0], right[1]), ew.mul(left[1], right[0]))


def _turned(x: Node, axis: int) -> tuple[Node, Node]:
    """Elements (1, 2, 0) and (2, 0, 1) of an axis of size 3."""
    twice = expand(reshape(x, (*x.shape[:axis], 1, *x.shape[axis:])),
                   (*x.shape[:axis], 2, *x.shape[axis:]))
    twice = reshape(twice, (*x.shape[:axis], 6, *x.shape[axis + 1:]))
    first, second = (move(Op.SHRINK, twice, tuple(
        (start, start + 3) if a == axis else (0, n) for a, n in enumerate(twice.shape)))
        for start in (1, 2))
    return first, second


def diagonal_matrix(x: Node, offset: int) -> Node:
    """Matrices with the last axis of x on a diagonal, 0 elsewhere."""
    n = x.shape[-1]
    batch = x.shape[:-1]
    wide = move(Op.PAD, reshape(x, (*batch, n, 1)), ((0, 0),) * (len(batch) + 1) + ((0, n),))
    flat = reshape(wide, (*batch, n * (n + 1)))
    square = move(Op.SHRINK, flat, (*((0, m) for m in batch), (0, n * n)))
    around = ((max(-offset, 0), max(offset, 0)), (max(offset, 0), max(-offset, 0)))
    return move(Op.PAD, reshape(square, (*batch, n, n)), ((0, 0),) * len(batch) + around)


def power(x: Node, times: int) -> Node:
    """Square matrices to a power, by squaring. The gradient of power 0 is 0."""
    if times:
        return raised(x, times, windows.matmul)
    n = x.shape[-1]
    diagonal = ew.equal(reshape(iota(n), (n, 1)), reshape(iota(n), (1, n)))
    return flat_in(x, ew.broadcast_to(cast(diagonal, x.dtype), x.shape))


def raised(x: M, times: int, multiply: Callable[[M, M], M]) -> M:
    """A value to a power of 1 or more, by squaring."""
    result: M | None = None
    while True:
        if times & 1:
            result = x if result is None else multiply(result, x)
        times >>= 1
        if not times:
            assert result is not None, "the last bit is 1"
            return result
        x = multiply(x, x)


def matrix_exponent(shape: Shape, n: SupportsIndex) -> int:
    """The power that matrices of a shape are raised to. ShapeError unless they are square."""
    times = shapes.as_int(n, "matrix_power", "n")
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise ShapeError(f"matrix_power of shape {shape} to the power {times}: it is for square "
                         f"matrices")
    return times


def covariance(x: Node, correction: float, times: Node | None = None,
               weights: Node | None = None) -> Node:
    """The covariances of the rows of a matrix, or the variance of a vector. times: how often each
    column counts, in whole numbers; weights: how much, in relation to others."""
    if len(x.shape) > 2:
        raise ShapeError(f"cov of shape {x.shape}: give a matrix with a row for each variable")
    x = ew.as_float(x)
    if weights is not None:
        x = cast(x, ew.result_type([x, weights]))
    rows = reshape(x, (1,) * (2 - len(x.shape)) + x.shape)
    each = _column_weights(rows, times, weights)
    if each is None:
        _, centred = reductions.centred(rows, (1,))
        weighted = centred
        over: Node | float = max(rows.shape[1] - correction, 0.0)
    else:
        count = reductions.sum(each, (0,))
        count = ew.obeying(count, ew.equal(count, 0), "cov", "the weights sum to 0")
        mean = ew.true_divide(reductions.sum(ew.mul(rows, each), (1,), True), count)
        centred = ew.sub(rows, mean)
        weighted, lost = ew.mul(centred, each), const(correction, x.dtype)
        if weights is not None:
            lost = ew.mul(lost, ew.true_divide(reductions.sum(ew.mul(each, weights), (0,)), count))
        over = ew.maximum(ew.sub(count, lost), 0.0)
    total = windows.matmul(centred, move(Op.PERMUTE, weighted, (1, 0)))
    value = ew.true_divide(total, over)
    return value if rows.shape[0] > 1 or not rows.shape[0] else reshape(value, ())


def _column_weights(rows: Node, times: Node | None, weights: Node | None) -> Node | None:
    """What each column counts, of both kinds of weights; None if there are none."""
    for what, given in (("fweights", times), ("aweights", weights)):
        if given is not None and given.shape != (rows.shape[1],):
            raise ShapeError(f"cov: {what} of shape {given.shape}; give one number for each of the "
                             f"{rows.shape[1]} columns")
    times, weights = (None if given is None else ew.obeying(
        given, ew.less(given, 0), "cov", f"an element of {what} is below 0")
        for what, given in (("fweights", times), ("aweights", weights)))
    if times is None or weights is None:
        return times if weights is None else cast(weights, rows.dtype)
    return ew.mul(cast(times, rows.dtype), cast(weights, rows.dtype))


def correlation(x: Node) -> Node:
    """The correlations of the rows of a matrix, held between -1 and 1."""
    value = covariance(x, 1.0)
    if not value.shape:
        return ew.true_divide(value, value)
    n = value.shape[0]
    spread = special.sqrt(apply(strided.diagonal(value.shape, 0, 0, 1), value))
    value = ew.true_divide(value, reshape(spread, (n, 1)))
    return ew.clip(ew.true_divide(value, reshape(spread, (1, n))), -1.0, 1.0)
