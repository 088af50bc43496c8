"""A proof that a kernel's instructions stay within their arguments and arrays, and fill outputs.

In: a Function of linearize. Raises InternalError for an argument that has Stores, but not to all
its elements, and for a Load, Store or Copy whose position may be outside: unmasked ones must be
inside wherever the loops are, masked ones where their mask is true (but Stores that read what is
there, as all that combine and scalar ones with a mask do, always). Positions and masks are read
back from the instructions as index expressions over loops, items and lanes (readback.py); then an
inequality follows from intervals,
from the mask's own inequalities times constants (a certificate as of Farkas' lemma), or from all
the points there are.
"""
from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from lazyten.codegen.instructions.instructions import (
    Address,
    Copy,
    Function,
    Instruction,
    Load,
    MatrixDescriptor,
    MatrixLoad,
    Store,
    Value,
    format_block,
    instructions_of,
)
from lazyten.codegen.loops.coverage import grid, values
from lazyten.codegen.verify.readback import Reader, lanes
from lazyten.ir import dtype as dt
from lazyten.ir.node import Node, const, elementwise, index, ranges_of, substitute, toposort
from lazyten.ir.ops import Op
from lazyten.support.errors import InternalError
from lazyten.symbolic.affine import Affine, added, affine, interval, scaled
from lazyten.symbolic.simplify import simplify

MOST_POINTS = 1 << 20
MOST_STORED = 1 << 16
"""Elements of an argument of which it is shown that all are stored; the rewrites and the nest have
proofs without a limit, so this one is about instances and lanes."""


def verify_accesses(function: Function, is_whole: bool = True) -> None:
    """Raise InternalError unless every access is inside; see above. is_whole: no other function
    stores to the rest of its arguments."""
    work = _Verifier(function)
    for item in instructions_of(function.body):
        for address, masks, count in accesses(item):
            if not work.is_inside(address, masks, count):
                one = format_block(function.body)
                raise InternalError(f"{item} of {function.name} may be outside of the "
                                    f"{work.size(address)} elements it is of:\n{one}")
    for slot, stores in _stores(function).items() if is_whole else ():
        size = function.params[slot][1]
        if size <= MOST_STORED and not work.is_filled(size, stores):
            raise InternalError(f"not all of the {size} elements of argument {slot} are stored by "
                                f"{function.name}:\n{format_block(function.body)}")


def _stores(function: Function) -> dict[int, list[Store]]:
    """What stores elements of each argument, without combining them with what is there."""
    found: dict[int, list[Store]] = {}
    for item in instructions_of(function.body):
        if isinstance(item, Store) and item.combiner is None and not item.address.is_local:
            found.setdefault(item.address.slot, []).append(item)
    return found


def accesses(item: Instruction) -> Iterable[tuple[Address, tuple[Value, ...], int]]:
    """What an instruction touches, when (where all masks are true), and how many lanes that are."""
    if isinstance(item, Load):
        yield item.address, _given(item.mask), item.out.lanes
    elif isinstance(item, Store):
        lanes = item.value.lanes
        yield item.address, _given(item.mask) if lanes > 1 and item.combiner is None else (), lanes
    elif isinstance(item, MatrixLoad | MatrixDescriptor):
        yield item.address, (), len(item.address.offsets)
    elif isinstance(item, Copy):
        yield item.target, _given(item.when), 1
        yield item.source, _given(item.mask, item.when), 1


def _given(*masks: Value | None) -> tuple[Value, ...]:
    return tuple(m for m in masks if m is not None)


class _Verifier:
    def __init__(self, function: Function) -> None:
        self.function = function
        self.read = Reader(function)
        self.known: dict[tuple[Node, tuple[Node, ...], int], bool] = {}
        self.limits: dict[Value | None, tuple[int, int]] = {}

    def size(self, address: Address) -> int:
        """The elements of what is addressed."""
        arrays = self.function.arrays if address.is_local else self.function.params
        return arrays[address.slot][1]

    def is_inside(self, address: Address, masks: Sequence[Value], count: int) -> bool:
        """Whether `count` lanes are, where all masks are true."""
        size = self.size(address)
        if address.vector is None:
            low, high = self._interval(address.base)
            first = address.offset
            if 0 <= low + first and high + first + address.span <= size:
                return True
        position = self._position(address, count)
        conditions = tuple(self.read.node(m) for m in masks)
        known = {n: n.src[1] for n in toposort([position])
                 if n.op is Op.WHERE and n.src[0] in conditions}
        position, = substitute([position], known | dict.fromkeys(conditions, const(True, dt.bool_)))
        key = position, conditions, size
        if key not in self.known:
            self.known[key] = is_within(position, size, conditions)
        return self.known[key]

    def is_filled(self, size: int, stores: Iterable[Store]) -> bool:
        """Whether Stores that are inside have been to every element."""
        filled = np.zeros(size, np.bool_)
        for item in stores:
            position = self._position(item.address, item.value.lanes)
            mask = index(0) if item.mask is None else self.read.node(item.mask)
            ranges = list(ranges_of([position, mask]))
            if _is_loaded(position) or _is_loaded(mask):
                continue
            if math.prod(r.arg.extent for r in ranges) > MOST_POINTS:
                return True
            known = grid(ranges)
            at = values(position, known)
            filled[at if item.mask is None else at[values(mask, known)]] = True
        return bool(filled.all())

    def _interval(self, base: Value | None) -> tuple[int, int]:
        if base not in self.limits:
            self.limits[base] = (0, 0) if base is None else \
                interval(*affine(self.read.node(base)))
        return self.limits[base]

    def _position(self, address: Address, count: int) -> Node:
        if address.vector is not None:
            return self.read.node(address.vector)
        steps = lanes(tuple(address.offset + i for i in address.offsets)) \
            if count > 1 and len(address.offsets) > 1 else index(address.offset)
        if address.base is None:
            return steps
        return elementwise(Op.ADD, self.read.node(address.base), steps)


def is_within(position: Node, size: int, conditions: Iterable[Node]) -> bool:
    """Whether 0 <= position < size wherever all conditions are true."""
    parts = [part for c in conditions for part in conjuncts(c)]
    known = [d for part in parts if (d := _difference(part)) is not None]
    known += [d for k in known if (d := _undivided(k)) is not None]
    for at in (position, simplify(position)):
        form = affine(at)
        below = added(({}, size - 1), form, -1)
        if _is_natural(form, known) and _is_natural(below, known):
            return True
    return _everywhere(position, size, parts)


def conjuncts(condition: Node) -> list[Node]:
    """What must all be true for a condition to be."""
    if condition.op is Op.AND:
        return [part for s in condition.src for part in conjuncts(s)]
    return [condition]


def _difference(condition: Node) -> Affine | None:
    """What is 0 or more where a comparison is true; None for other conditions."""
    inverted = condition.op is Op.NOT
    compared = condition.src[0] if inverted else condition
    if compared.op is not Op.CMPLT or compared.src[0].dtype is not dt.INDEX:
        return None
    left, right = map(affine, compared.src)
    if inverted:
        return added(left, right, -1)
    return added(added(right, left, -1), ({}, -1))


def _divided(form: Affine) -> tuple[Node, Affine, int] | None:
    """A quotient or remainder in a sum, what of, and the divisor: of what is 0 or more."""
    for term in form[0]:
        if term.op in (Op.IDIV, Op.MOD) and term.src[1].op is Op.CONST:
            whole = affine(term.src[0])
            if int(term.src[1].value) > 0 and interval(*whole)[0] >= 0:
                return term, whole, int(term.src[1].value)
    return None


def _undivided(known: Affine) -> Affine | None:
    """What is 0 or more as `known` is, about a number instead of a part of it, which is no more."""
    found = _divided(known)
    if found is None or known[0][found[0]] < 0:
        return None
    term, whole, divisor = found
    factor = known[0][term]
    rest = added(known, ({term: 1}, 0), -factor)
    return added(scaled(rest, divisor if term.op is Op.IDIV else 1), whole, factor)


def _is_natural(form: Affine, known: Sequence[Affine]) -> bool:
    """Whether a sum is 0 or more where those that are `known` are, also if that takes to multiply
    by what a quotient in it is divided by."""
    if _follows(form, known):
        return True
    found = _divided(form)
    if found is None or found[0].op is not Op.IDIV:
        return False
    term, whole, divisor = found
    factor = form[0][term]
    least = -factor * (divisor - 1) if factor > 0 else 0  # factor * divisor * term - factor * whole
    rest = scaled(added(form, ({term: 1}, 0), -factor), divisor)
    return _follows(added(added(rest, whole, factor), ({}, least + divisor - 1)), known)


def _follows(form: Affine, known: Sequence[Affine]) -> bool:
    """Whether a sum is 0 or more where those that are `known` are: subtracting multiples of them,
    it stays so."""
    for _ in range(len(known) + 1):
        low = interval(*form)[0]
        if low >= 0:
            return True
        others = (added(form, scaled(k, -factor)) for k in known for factor in _factors(form, k))
        form = max((*others, form), key=lambda f: interval(*f)[0])
        if interval(*form)[0] <= low:
            return False
    return False


def _factors(form: Affine, known: Affine) -> set[int]:
    """By what `known` may be multiplied so that a term goes."""
    return {f // known[0][t] for t, f in form[0].items()
            if t in known[0] and f % known[0][t] == 0 and f // known[0][t] > 0}


def _everywhere(position: Node, size: int, parts: Iterable[Node]) -> bool:
    """Whether it is so at every combination of the ranges that several of its terms, or conditions,
    are about; other terms are at their bounds."""
    terms, constant = affine(position)
    parts = [p for p in parts if not _is_loaded(p)]
    users = Counter(r for n in (*terms, *parts) for r in ranges_of([n]))
    single = {r for r, count in users.items() if count == 1}.difference(ranges_of(parts))
    apart = {t: f for t, f in terms.items() if single.issuperset(ranges_of([t]))}
    rest = {t: f for t, f in terms.items() if t not in apart}
    about = list(ranges_of([*rest, *parts]))
    points = math.prod(r.arg.extent for r in about)
    if points > MOST_POINTS or any(map(_is_loaded, rest)):
        return False
    known, (low, high) = grid(about), interval(apart, constant)
    at, true = np.zeros(points, np.int64), np.ones(points, np.bool_)
    for t, f in rest.items():
        at += f * values(t, known)
    for part in parts:
        true &= values(part, known)
    found = at[true]
    return not found.size or bool(0 <= low + found.min() and high + found.max() < size)


def _is_loaded(node: Node) -> bool:
    return any(n.op is Op.LOAD for n in toposort([node]))
