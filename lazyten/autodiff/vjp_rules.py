"""VJP: how each op passes a cotangent back to its sources, a row an op, a rule a source.

In: a cotangent (the gradient of some scalar with respect to a node's value) and the node. Out: the
source's cotangent, of the source's shape and dtype. `gradient.vjp` walks the graph and calls only
the rules whose result is asked for, so a rule never builds what nobody needs.

The rules reuse the forward node where they can (`exp2` is its own derivative up to a factor), and
`arithmetic.py` folds constants: factors such as ln2 * log2(e) must not reach the kernels.
Ties and edges follow PyTorch: `maximum` halves the cotangent between equal operands, a maximum over
axes shares it evenly, `0 ** 0` has derivative 0 in the base, and sqrt's at 0 is inf.
"""
from __future__ import annotations

import math
from collections.abc import Callable

from lazyten.autodiff import collective_rules
from lazyten.autodiff.arithmetic import div, equal, like, mul, neg, scale, sum_over
from lazyten.ir import dtype as dt
from lazyten.ir.movement import Shape, inverse, inverse_order
from lazyten.ir.node import (
    Node,
    cast,
    const,
    elementwise,
    expand,
    gather,
    make,
    move,
    reduce,
    reshape,
    scatter,
)
from lazyten.ir.ops import Op

Rule = Callable[[Node, Node], Node]
"""rule(cotangent, node) -> the cotangent of one source of node."""

Shear = tuple[int, int, int, int, int]
"""SHEAR's argument: axis, by, factor, offset, size; see movement.py."""

LN2 = math.log(2.0)
LOG2E = math.log2(math.e)


# ---- elementwise rules ---------------------------------------------------------------------------

def _reciprocal(g: Node, node: Node) -> Node:
    return neg(mul(g, elementwise(Op.MUL, node, node)))


def _divisor(g: Node, node: Node) -> Node:
    return neg(mul(div(g, node.src[1]), node))


def _modulus(g: Node, node: Node) -> Node:
    return neg(mul(g, elementwise(Op.IDIV, *node.src)))


def _pow_base(g: Node, node: Node) -> Node:
    """b * a**(b-1), and 0 for b = 0 even at a = 0."""
    a, b = node.src
    if b.op is Op.CONST:
        return _constant_pow_base(g, a, b.value)
    power = elementwise(Op.POW, a, elementwise(Op.SUB, b, like(b, 1.0)))
    zero = like(b, 0.0)
    return elementwise(Op.WHERE, equal(b, zero), zero, mul(g, elementwise(Op.MUL, b, power)))


def _constant_pow_base(g: Node, a: Node, exponent: float) -> Node:
    if exponent == 0:
        return like(a, 0.0)
    if exponent == 1:
        return g
    power = a if exponent == 2 else elementwise(Op.POW, a, like(a, exponent - 1))
    return scale(mul(g, power), exponent)


def _pow_exponent(g: Node, node: Node) -> Node:
    """a**b * ln a, and 0 at a = 0 for b >= 0, where ln a alone would be -inf."""
    a, b = node.src
    zero = like(a, 0.0)
    above = elementwise(Op.OR, equal(b, zero), elementwise(Op.CMPLT, zero, b))
    flat = elementwise(Op.AND, equal(a, zero), above)
    slope = scale(elementwise(Op.MUL, node, elementwise(Op.LOG2, a)), LN2)
    return elementwise(Op.WHERE, flat, zero, mul(g, slope))


def _maximum(g: Node, mine: Node, other: Node) -> Node:
    """All of g where mine > other (or either is NaN), half where they are equal."""
    shared = elementwise(Op.WHERE, elementwise(Op.CMPNE, mine, other), g, scale(g, 0.5))
    return elementwise(Op.WHERE, elementwise(Op.CMPLT, mine, other), like(g, 0.0), shared)


# ---- reductions ----------------------------------------------------------------------------------

def _reduce(g: Node, node: Node) -> Node:
    combiner, axes = node.arg
    if combiner is Op.ADD:
        return expand(g, node.src[0].shape)
    return _reduce_max(g, node, axes) if combiner is Op.MAX else _reduce_mul(g, node, axes)


def _reduce_max(g: Node, node: Node, axes: tuple[int, ...]) -> Node:
    """g, shared evenly among the elements that are the maximum."""
    x, = node.src
    below = elementwise(Op.CMPNE, x, expand(node, x.shape))
    ties = reduce(elementwise(Op.WHERE, below, like(x, 0.0), like(x, 1.0)), Op.ADD, axes)
    return elementwise(Op.WHERE, below, like(x, 0.0), expand(div(g, ties), x.shape))


def _reduce_mul(g: Node, node: Node, axes: tuple[int, ...]) -> Node:
    """g times the product of the others, which divides nothing: some may be 0 or infinite."""
    x, = node.src
    return mul(expand(g, x.shape), _products_of_others(x, axes))


def _products_of_others(x: Node, axes: tuple[int, ...]) -> Node:
    """For each element the product of all others along `axes`: of those before times those after,
    each found by doubling how many are multiplied."""
    kept = tuple(a for a in range(len(x.shape)) if a not in axes)
    last = move(Op.PERMUTE, x, (*kept, *axes))
    n = math.prod(x.shape[a] for a in axes)
    line = reshape(last, (*(x.shape[a] for a in kept), n))
    axis = len(kept)
    after = move(Op.FLIP, _products_before(move(Op.FLIP, line, (axis,)), axis), (axis,))
    others = mul(_products_before(line, axis), after)
    return move(Op.PERMUTE, reshape(others, last.shape), inverse_order((*kept, *axes)))


def _products_before(x: Node, axis: int) -> Node:
    """The product of all elements before each one along `axis`; 1 for the first."""
    n, step = x.shape[axis], 1
    total = _later(x, axis, 1)
    while step < n - 1:
        total = elementwise(Op.MUL, total, _later(total, axis, step))
        step *= 2
        total = make(Op.CONTIGUOUS, total.dtype, (total,)) if step > 4 else total
    return total


def _later(x: Node, axis: int, step: int) -> Node:
    """x moved by `step` along an axis, with ones in front."""
    n = x.shape[axis]
    sizes = list(enumerate(x.shape))
    inner = move(Op.SHRINK, x, tuple((0, max(m - step, 0) if a == axis else m) for a, m in sizes))
    around = tuple((min(step, n) if a == axis else 0, 0) for a, _ in sizes)
    inside = move(Op.PAD, const(True, dt.bool_, inner.shape), around)
    return elementwise(Op.WHERE, inside, move(Op.PAD, inner, around), like(x, 1.0))


# ---- movement: each is linear, so its rule is its transpose --------------------------------------

def _moved_back(g: Node, node: Node) -> Node:
    back = inverse(node.op, node.src[0].shape, node.arg)
    assert back is not None
    return move(back[0], g, back[1])


def _expand(g: Node, node: Node) -> Node:
    sizes = zip(node.src[0].shape, g.shape, strict=True)
    return sum_over(g, tuple(axis for axis, (n, m) in enumerate(sizes) if n != m))


def shear_transpose(shape: Shape, arg: Shear) -> tuple[tuple[int, int], Shear]:
    """How SHEAR `arg` of `shape` is transposed: (before, after) to pad its axis by, and a SHEAR.

    SHEAR puts in[j, k] at out[j - factor*k - offset, k] where that is inside out, and drops it
    otherwise. So in's cotangent at (j, k) is out's there, or 0 from the padding. Over all
    j < shape[axis] and k < shape[by] that index runs from -offset - most to
    shape[axis] - 1 - offset - least.
    """
    axis, by, factor, offset, size = arg
    reach = factor * max(shape[by] - 1, 0)
    least, most = min(reach, 0), max(reach, 0)
    before = max(0, offset + most)
    after = max(0, shape[axis] - offset - least - size)
    return (before, after), (axis, by, -factor, before - offset, shape[axis])


def _shear(g: Node, node: Node) -> Node:
    pads, arg = shear_transpose(node.src[0].shape, node.arg)
    around = tuple(pads if a == arg[0] else (0, 0) for a in range(len(g.shape)))
    return move(Op.SHEAR, move(Op.PAD, g, around), arg)


# ---- reading and writing at computed positions: each is the other's transpose --------------------

def _gather(g: Node, node: Node) -> Node:
    x, positions = node.src
    return scatter(like(x, 0.0), node.arg, positions, g, Op.ADD)


def _scatter_base(g: Node, node: Node) -> Node:
    """What was written over has no say; what was added to has; a maximum is shared by its ties."""
    base, positions, values = node.src
    axis, combiner = node.arg
    if combiner is None:
        return scatter(g, axis, positions, like(values, 0.0), None)
    if combiner is Op.ADD:
        return g
    if combiner is Op.MUL:
        return mul(g, scatter(like(base, 1.0), axis, positions, values, Op.MUL))
    return elementwise(Op.WHERE, equal(base, node), div(g, scatter_ties(node)), like(g, 0.0))


def _scatter_values(g: Node, node: Node) -> Node:
    _, positions, values = node.src
    axis, combiner = node.arg
    if combiner is None or combiner is Op.ADD:
        return gather(g, axis, positions)
    if combiner is Op.MUL:
        return _scatter_factors(g, node)
    mine = equal(values, gather(node, axis, positions))
    shared = gather(div(g, scatter_ties(node)), axis, positions)
    return elementwise(Op.WHERE, mine, shared, like(values, 0.0))


def _scatter_factors(g: Node, node: Node) -> Node:
    """g times the product of all else at a value's place: that of what is not 0, divided by the
    value, times that of the zeros, which is 0 but has gradients."""
    base, positions, values = node.src
    axis, _ = node.arg
    (base_left, base_zero), (left, zero) = _without_zeros(base), _without_zeros(values)
    product = scatter(base_left, axis, positions, left, Op.MUL)
    others = div(gather(mul(g, product), axis, positions), left)
    return mul(others, _product_of_other_zeros(base, base_zero, axis, positions, values, zero))


def _without_zeros(x: Node) -> tuple[Node, Node]:
    """x with 1 for 0, and where it is 0."""
    zero = equal(x, like(x, 0.0))
    return elementwise(Op.WHERE, zero, like(x, 1.0), x), zero


def _product_of_other_zeros(base: Node, base_zero: Node, axis: int, positions: Node, values: Node,
                            zero: Node) -> Node:
    """For each value the product of the others at its place that are 0, as sums of them and of
    their squares, whose first two gradients are those of a product: 1 of none, s of one, and
    (s * s - squares) / 2 of two; of more, all of these are 0."""
    def of_others(power: int) -> Node:
        at_base, own = (_masked_power(x, where, power)
                        for x, where in ((base, base_zero), (values, zero)))
        total = gather(scatter(at_base, axis, positions, own, Op.ADD), axis, positions)
        return elementwise(Op.SUB, total, own)
    count, total = of_others(0), of_others(1)
    pair = scale(elementwise(Op.SUB, mul(total, total), of_others(2)), 0.5)
    result = like(values, 0.0)
    for number, product in ((2, pair), (1, total), (0, like(values, 1.0))):
        result = elementwise(Op.WHERE, equal(count, like(count, number)), product, result)
    return result


def _masked_power(x: Node, where: Node, power: int) -> Node:
    """x ** power where `where`, 0 elsewhere."""
    full = like(x, 1.0) if power == 0 else x if power == 1 else mul(x, x)
    return elementwise(Op.WHERE, where, full, like(x, 0.0))


def scatter_ties(node: Node) -> Node:
    """How many of the base's element and the values put there equal their maximum."""
    base, positions, values = node.src
    axis, _ = node.arg
    mine = equal(values, gather(node, axis, positions))
    ones, zeros = like(values, 1.0), like(values, 0.0)
    counted = elementwise(Op.WHERE, mine, ones, zeros)
    own = elementwise(Op.WHERE, equal(base, node), like(base, 1.0), like(base, 0.0))
    return scatter(own, axis, positions, counted, Op.ADD)


def _shard(g: Node, node: Node) -> Node:
    return g if g.op is Op.CONST else make(Op.SHARD, g.dtype, (g,), node.arg)


def _joined(g: Node, node: Node) -> Node:
    return make(Op.OWN, g.dtype, (g,), node.arg)


def _own(g: Node, node: Node) -> Node:
    return make(Op.JOINED, g.dtype, (g,), node.arg.plain())


def _copy(g: Node, node: Node) -> Node:
    source, target = node.arg
    return g if g.op is Op.CONST else make(Op.COPY, g.dtype, (g,), (target, source))


# ---- the table -----------------------------------------------------------------------------------

def _same(g: Node, node: Node) -> Node:
    return g


VJP: dict[Op, tuple[Rule | None, ...]] = {
    Op.NEG: (lambda g, n: neg(g),),
    Op.EXP: (lambda g, n: mul(g, n),),
    Op.EXP2: (lambda g, n: scale(mul(g, n), LN2),),
    Op.LOG2: (lambda g, n: div(scale(g, LOG2E), n.src[0]),),
    Op.SIN: (lambda g, n: mul(g, elementwise(Op.COS, n.src[0])),),
    Op.COS: (lambda g, n: neg(mul(g, elementwise(Op.SIN, n.src[0]))),),
    Op.SQRT: (lambda g, n: div(scale(g, 0.5), n),),
    Op.RECIPROCAL: (_reciprocal,),
    Op.CAST: (lambda g, n: cast(g, n.src[0].dtype),),
    Op.ADD: (_same, _same),
    Op.SUB: (_same, lambda g, n: neg(g)),
    Op.MUL: (lambda g, n: mul(g, n.src[1]), lambda g, n: mul(g, n.src[0])),
    Op.DIV: (lambda g, n: div(g, n.src[1]), _divisor),
    Op.MOD: (_same, _modulus),
    Op.POW: (_pow_base, _pow_exponent),
    Op.MAX: (lambda g, n: _maximum(g, *n.src), lambda g, n: _maximum(g, *n.src[::-1])),
    Op.WHERE: (None,
               lambda g, n: elementwise(Op.WHERE, n.src[0], g, like(g, 0.0)),
               lambda g, n: elementwise(Op.WHERE, n.src[0], like(g, 0.0), g)),
    Op.MULACC: (lambda g, n: mul(g, n.src[1]), lambda g, n: mul(g, n.src[0]), _same),
    Op.REDUCE: (_reduce,),
    Op.RESHAPE: (_moved_back,),
    Op.PERMUTE: (_moved_back,),
    Op.EXPAND: (_expand,),
    Op.PAD: (_moved_back,),
    Op.SHRINK: (_moved_back,),
    Op.FLIP: (_moved_back,),
    Op.SHEAR: (_shear,),
    Op.GATHER: (_gather, None),
    Op.SCATTER: (_scatter_base, None, _scatter_values),
    Op.CONTIGUOUS: (_same,),
    Op.COPY: (_copy,),
    Op.COLLECTIVE: (collective_rules.vjp,),
    Op.SHARD: (_shard,),
    Op.JOINED: (_joined,),
    Op.OWN: (_own,),
    Op.LEAF: (_same,),
}
"""A rule a source; None where a source has no gradient. CUSTOM_GRADIENT brings its own rule."""

NO_GRADIENT = frozenset({
    Op.BUFFER, Op.CONST, Op.IOTA, Op.DETACH, Op.CHECKED, Op.BITCAST, Op.NOT, Op.IDIV, Op.CMPLT,
    Op.CMPNE, Op.AND, Op.OR, Op.XOR, Op.SHL, Op.SHR,
})
"""Where the walk stops: no sources, values that do not vary smoothly, a stop that was asked for."""
