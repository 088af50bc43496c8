"""Index algebra: the least division and remainder of sums of loop variables, and sums of those.

In: affine forms of int64 operands, terms simplified. Out: affine forms, with the same values for
every value of the loop variables. Called by `simplify.py`; `comparisons.py` is about x < y.

Sums and products by constants are the same in wrapped arithmetic, but x // c and x % c are not:
what is done here to an operand first proves, by its interval, that it stays inside int64.
"""
from __future__ import annotations

from math import gcd

from lazyten.ir.node import Node, elementwise, index
from lazyten.ir.ops import Op
from lazyten.symbolic.affine import Affine, Terms, added, affine, build, interval

LEAST, GREATEST = -(1 << 63), (1 << 63) - 1


def is_exact(form: Affine) -> bool:
    """Whether the sum is known to stay inside int64, and so equals the same sum of integers."""
    low, high = interval(*form)
    return LEAST <= low and high <= GREATEST


def _term(node: Node) -> Affine:
    return {node: 1}, 0


def _apply(op: Op, form: Affine, divisor: int) -> Affine:
    return _term(elementwise(op, build(*form), index(divisor)))


def divisor_of(node: Node) -> int:
    """c of x // c and x % c, if it is a positive constant; else 0."""
    if node.op is not Op.IDIV and node.op is not Op.MOD or node.src[1].op is not Op.CONST:
        return 0
    return max(int(node.src[1].value), 0)


def divisors(terms: Terms, divisor: int) -> list[int]:
    """The common divisors worth trying, greatest first: of `divisor` and some of the factors."""
    found, common = {divisor}, divisor
    for step in sorted({gcd(f, divisor) for f in terms.values()}, reverse=True):
        common = gcd(common, step)
        found |= {step, common}
    return sorted(found - {0, 1}, reverse=True)


def split(terms: Terms, step: int) -> tuple[dict[Node, int], dict[Node, int]]:
    """The multiples of `step`, divided by it; and the other terms."""
    big = {t: f // step for t, f in terms.items() if f % step == 0}
    return big, {t: f for t, f in terms.items() if f % step}


# ---- division and remainder ----------------------------------------------------------------------

def divide(form: Affine, c: int) -> Affine:
    """form // c for c > 0.

    A y that is always less than the step of x has no say: (28*i + r) // 56 is i // 2 for r < 28.
    What no step divides is shifted by a multiple of c, so that it is not negative where it can be.
    """
    if not is_exact(form):
        return _apply(Op.IDIV, form, c)
    terms, constant = form
    for step in divisors(terms, c):
        big, small = split(terms, step)
        low, high = interval(small, constant)
        if low // step == high // step:
            return (big, low // step) if step == c else divide((big, low // step), c // step)
    big, small = split(terms, c)
    shift = _shift(small, constant, c)
    rest = small, constant - shift * c
    return added((big, shift), _divide_rest(rest, c)) if is_exact(rest) else _divide_rest(form, c)


def _shift(terms: Terms, constant: int, c: int) -> int:
    """How many c to take from a sum for its least value to be in the first block.

    Dividing what is never negative is cheaper. Data of any sign is not worth an addition.
    """
    low = interval(terms, constant)[0]
    return low // c if low > -1 << 31 else constant // c


def _divide_rest(form: Affine, c: int) -> Affine:
    """form // c where no term can be pulled out: (x // a) // c and (x % a) // c, or as it is."""
    terms, constant = form
    if len(terms) == 1:
        (term, factor), = terms.items()
        a = divisor_of(term)
        if a and factor == 1 and term.op is Op.IDIV and a * c <= GREATEST:
            inner = affine(term.src[0])
            moved = added(inner, ({}, constant * a))
            if constant == 0 or is_exact(inner) and is_exact((inner[0], inner[1] + constant * a)):
                return divide(moved, a * c)
        if a and factor == 1 and term.op is Op.MOD and constant == 0 and a % c == 0:
            return modulo(divide(affine(term.src[0]), c), a // c)
    return _apply(Op.IDIV, form, c)


def modulo(form: Affine, c: int) -> Affine:
    """form % c for c > 0: step * x + y gives step * (x % (c // step)) + y, y in one block."""
    if c == 1:
        return {}, 0
    if not is_exact(form):
        return _apply(Op.MOD, form, c)
    plain = _reduced(form, c, near=False)
    for terms, constant in (plain, _reduced(form, c, near=True)):
        for step in divisors(terms, c):
            big, small = split(terms, step)
            low, high = interval(small, constant)
            block = low // step
            if block == high // step:
                rest = small, constant - block * step
                return added(rest, modulo((big, block), c // step), step)
    inner = _without_inner(plain, c)
    if inner is not None:
        return modulo(inner, c)
    terms, constant = plain
    shifted = terms, constant - _shift(terms, constant, c) * c
    return _apply(Op.MOD, shifted if is_exact(shifted) else plain, c)


def _reduced(form: Affine, c: int, near: bool) -> Affine:
    """A form with the same remainder and factors less than c; `near` allows negative ones.

    -1 stays: subtracting is cheaper than multiplying by c - 1.
    """
    terms = {}
    for term, factor in form[0].items():
        negative = near or factor == -1
        factor %= c
        if negative and factor > c // 2:
            factor -= c
        if factor:
            terms[term] = factor
    reduced = terms, form[1] % c
    return reduced if is_exact(reduced) else form


def _without_inner(form: Affine, c: int) -> Affine | None:
    """The form with x for x % a wherever that is the same modulo c; None if there is no such."""
    for term, factor in form[0].items():
        a = divisor_of(term)
        if a and term.op is Op.MOD and factor * a % c == 0:
            inner = affine(term.src[0])
            if len(form[0]) == 1 and factor == 1 and form[1] == 0:
                return inner
            new = added(added(form, _term(term), -factor), inner, factor)
            if is_exact(inner) and is_exact(_exactly(form, term, inner)) and is_exact(new):
                return new
    return None


def _exactly(form: Affine, term: Node, inner: Affine) -> Affine:
    """`form` with `inner` in place of `term`, in integers that do not wrap."""
    factor = form[0][term]
    terms = {t: f for t, f in form[0].items() if t is not term}
    for t, f in inner[0].items():
        terms[t] = terms.get(t, 0) + factor * f
    return terms, form[1] + factor * inner[1]


# ---- sums of quotients and remainders ------------------------------------------------------------

def join(form: Affine) -> Affine:
    """Put numbers together again that // and % took apart: c*(x//c) + x%c is x, scaled or not.

    Also c*((x//c) % d) + x%c, which is x % (c*d), and x - c*(x//c), which is x % c.
    """
    better: Affine | None = form
    while better is not None:
        form = better
        better = _joined(form)
    return form


def _joined(form: Affine) -> Affine | None:
    divided = [t for t in form[0] if divisor_of(t)]
    for low in divided:
        if low.op is Op.MOD:
            for high in divided:
                whole = _whole(form[0], low, high)
                if whole is not None:
                    rest = added(form, _term(low), -form[0][low])
                    rest = added(rest, _term(high), -form[0][high])
                    return added(rest, whole, form[0][low])
    for quotient in divided:
        if quotient.op is Op.IDIV:
            found = _remainder(form, quotient)
            if found is not None:
                return found
    return None


def _whole(terms: Terms, low: Node, high: Node) -> Affine | None:
    """The number of which `low` is the remainder by c, and `high`, counted in c, the rest."""
    c = divisor_of(low)
    if terms[high] != terms[low] * c:
        return None
    lower = affine(low.src[0])
    if high.op is Op.IDIV:
        x = affine(high.src[0])
        return x if divisor_of(high) == c and _is_congruent(x, lower, c) else None
    d = divisor_of(high)
    above = affine(high.src[0])
    for quotient, factor in above[0].items():
        if factor == 1 and quotient.op is Op.IDIV and divisor_of(quotient) == c:
            x = affine(quotient.src[0])
            more = {t: f * c for t, f in above[0].items() if t is not quotient}, above[1] * c
            if c * d <= GREATEST and _is_congruent(x, lower, c) and (
                    more == ({}, 0) or is_exact(above) and _sum_is_exact(x, more)):
                return modulo(added(x, more), c * d)
    return None


def _sum_is_exact(a: Affine, b: Affine) -> bool:
    """Whether a, b and a + b stay inside int64."""
    lows, highs = zip(interval(*a), interval(*b), strict=True)
    return is_exact(a) and is_exact(b) and LEAST <= sum(lows) and sum(highs) <= GREATEST


def _is_congruent(a: Affine, b: Affine, c: int) -> bool:
    """Whether a and b have the same remainder by c."""
    if a == b:
        return True
    if not (is_exact(a) and is_exact(b)):
        return False
    terms = (a[0].get(t, 0) - b[0].get(t, 0) for t in {**a[0], **b[0]})
    return (a[1] - b[1]) % c == 0 and all(f % c == 0 for f in terms)


def _remainder(form: Affine, quotient: Node) -> Affine | None:
    """The form with x % c for x - c * (x // c)."""
    c, factor = divisor_of(quotient), form[0][quotient]
    x = affine(quotient.src[0])
    if factor % c or not x[0] or any(form[0].get(t) != -factor // c * f for t, f in x[0].items()):
        return None
    rest = added(added(form, _term(quotient), -factor), x, factor // c)
    return added(rest, modulo(x, c), -factor // c)
