"""Proofs that a rewrite of loop variables keeps the iteration space, by ranges.replace_ranges.

A rewrite puts expressions over new ranges in the place of old ones, everywhere: then what is
computed for an element stays what it was, and it is enough that no old range is left, that the
new ranges take the old ones through all their values (a reduction's through each just once, or
masked where past the end), and that ACCUMULATEs bind the new ranges in the place of the old.
Raises InternalError otherwise. On with LAZYTEN_VERIFY=1, as verify/loops.py, which looks at nests.
"""
from __future__ import annotations

from collections.abc import Mapping

from lazyten.codegen.loops.coverage import coverage
from lazyten.ir import dtype as dt
from lazyten.ir.inspection import dump
from lazyten.ir.node import (
    Node,
    const,
    elementwise,
    index,
    ranges_of,
    rewrite,
    substitute,
    toposort,
)
from lazyten.ir.ops import SPECS, Op
from lazyten.support.errors import InternalError
from lazyten.symbolic.simplify import simplify

Bound = Mapping[Node, tuple[Node, ...]]


def verify_rewrite(old: Node, new: Node, values: Mapping[Node, Node], bound: Bound,
                   inside: Node | None) -> None:
    """Raise InternalError unless the SINK `new` is `old` with other loops over the same elements.

    values, bound, inside: as replace_ranges takes them.
    """
    replaced = {n for n in values if n.op is Op.RANGE} | bound.keys()
    made = {*ranges_of(values.values())}.union(*bound.values())
    left = (replaced - made).intersection(ranges_of([new]))
    if left:
        raise InternalError(f"{names(left)} is replaced, but there still:\n{dump([new])}")
    _verify_binding(old, values, bound)
    if () in bound.values():
        _verify_merge(values, bound)
    else:
        _verify_values(values, {r for r in replaced if r in _reduced(old)}, inside)
    if inside is not None:
        _verify_mask(new, frozenset(made), inside)


def names(ranges: set[Node]) -> str:
    """The ranges, for messages."""
    return ", ".join(sorted(f"{r.arg.kind}{'.'.join(map(str, r.arg.order))} < {r.arg.extent}"
                            for r in ranges))


def _reduced(sink: Node) -> set[Node]:
    """The ranges that ACCUMULATEs bind."""
    return {r for n in toposort([sink]) if n.op is Op.ACCUMULATE for r in n.src[1:]}


def _verify_binding(old: Node, values: Mapping[Node, Node], bound: Bound) -> None:
    """ACCUMULATEs bind what is in the place of their ranges, no more and no less."""
    for r in _reduced(old).intersection(values):
        if {*bound.get(r, ())} != {*ranges_of([values[r]])} or \
                len({*bound[r]}) != len(bound[r]):
            raise InternalError(f"{names({r})} is reduced and becomes\n{dump([values[r]])}\n"
                                f"but {names({*bound.get(r, ())})} is bound in its place")


def _verify_merge(values: Mapping[Node, Node], bound: Bound) -> None:
    """One range goes through what two did: every expression of both is one of their row-major
    position."""
    outer, inner = sorted(bound, key=lambda r: r.arg.order)
    whole = elementwise(Op.ADD, elementwise(Op.MUL, outer, index(inner.arg.extent)), inner)
    merged, = bound[outer] + bound[inner]
    if merged.arg.extent != outer.arg.extent * inner.arg.extent:
        raise InternalError(f"{names({outer, inner})} do not become {names({merged})}")
    for before, after in values.items():
        again = substitute([after], {merged: whole})[0]
        if simplify(again) is not simplify(before):
            raise InternalError(f"{names({outer, inner})} are merged, and of\n{dump([before])}\n"
                                f"becomes\n{dump([after])}")


def _verify_values(values: Mapping[Node, Node], reduced: set[Node], inside: Node | None) -> None:
    """The new ranges take the old ones through all their values; those that are reduced through
    each once, but where not `inside`."""
    owners: dict[Node, list[Node]] = {}
    for r, value in values.items():
        for n in ranges_of([value]):
            owners.setdefault(n, []).append(r)
    shared = [n for n, olds in owners.items() if len(olds) > 1]
    for n in shared:
        if not reduced.issuperset(owners[n]):
            _verify_digits(n, {r: values[r] for r in owners[n]})
    for r in values:
        if not any(r in owners[n] for n in shared) or r in reduced:
            _verify_value(r, values[r], r in reduced, inside)


def _verify_value(r: Node, value: Node, reduced: bool, inside: Node | None) -> None:
    n = r.arg.extent
    found = coverage(value, list(ranges_of([value])))
    if found is None:
        return
    past = inside is not None and inside.op is Op.CMPLT and inside.src == (value, index(n))
    if found.first != 0 or not found.whole or reduced and not found.once or \
            (found.last < n if past else found.last != n):
        raise InternalError(f"{names({r})} becomes\n{dump([value])}\nwhich goes through "
                            f"{found.first} .. {found.last - 1}{'' if found.whole else ', not all'}"
                            f"{'' if found.once else ', some twice'}")


def _verify_digits(whole: Node, digits: Mapping[Node, Node]) -> None:
    """Several ranges are the digits of one that goes through all their combinations."""
    stride = 1
    for step, size, r in sorted(((*_digit(value, whole), r) for r, value in digits.items()),
                                key=lambda d: d[0]):
        rest = whole.arg.extent // stride
        if step != stride or (size or rest) != r.arg.extent:
            raise InternalError(f"{names({whole})} does not count through {names({*digits})}:\n"
                                f"{dump(list(digits.values()))}")
        stride *= r.arg.extent
    if stride != whole.arg.extent:
        raise InternalError(f"{names({whole})} counts {stride} combinations of "
                            f"{names({*digits})}")


def _digit(value: Node, whole: Node) -> tuple[int, int]:
    """(stride, modulus) of whole // stride % modulus; modulus 0 for none."""
    step, size = 1, 0
    if value.op is Op.MOD:
        value, size = value.src[0], int(value.src[1].value)
    while value.op is Op.IDIV:
        value, step = value.src[0], step * int(value.src[1].value)
    if value is not whole:
        raise InternalError(f"{dump([value])}\nis no digit of {names({whole})}")
    return step, size


def _verify_mask(sink: Node, made: frozenset[Node], inside: Node) -> None:
    """Where not `inside`, every ACCUMULATE over the new ranges combines its identity, and no STORE
    that depends on them does anything."""
    def outside(node: Node) -> Node | None:
        if node.op is Op.LOAD and len(node.src) == 3 and simplify(node.src[2]) is never:
            return const(0, node.dtype)
        return None
    never = const(False, dt.bool_)
    for node in toposort([sink]):
        if node.op is Op.ACCUMULATE and made.intersection(node.src[1:]):
            spec = SPECS[node.arg].identity
            assert spec is not None
            value = simplify(rewrite([node.src[0]], outside, {inside: never})[0])
            if value is not const(spec(node.dtype), node.dtype):
                raise InternalError(f"elements past the end of a reduction are combined: of "
                                    f"{node.arg.name}, outside\n{dump([inside])}\n"
                                    f"there is\n{dump([value])}")
    bound = _reduced(sink)
    for store in sink.src:
        if not made.isdisjoint({*ranges_of([store])} - bound) and not any(
                simplify(rewrite([valid], outside, {inside: never})[0]) is never
                for valid in store.src[3:]):
            raise InternalError(f"elements past the end of a range are stored, outside\n"
                                f"{dump([inside])}:\n{dump([store])}")
