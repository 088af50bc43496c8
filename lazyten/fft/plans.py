"""How a transform of a length is done: its factors, and the matrices of numbers that it takes.

In: a length, a direction, a factor and a type. Out: a `Plan`, with tensors of numbers that were
computed in float64. Plans are kept: a length comes again.

A transform of n = a * m numbers is m transforms of length a, of numbers that are m apart, a factor
of modulus 1 for each number (twiddles), and a transforms of length m. Each short one is a product
with a matrix, in which the compiler is good; the real 2a x 2a matrix [[c, -s], [s, c]] takes both
parts of a numbers. The first digit of a frequency is known after the first stage, and stays the
fastest of what is in memory (Stockham): all stages run along neighbours, and nothing is sorted.
A real signal of even length is one of half as many complex numbers, of which the even places are
the real parts; what becomes of its spectrum is a product for each frequency.
A length with a great prime factor is done as a convolution of a greater length (Bluestein):
jk = (j^2 + k^2 - (k - j)^2) / 2.
"""
from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from lazyten.frontend.functions import tensor
from lazyten.frontend.tensor import Tensor
from lazyten.ir.dtype import DType
from lazyten.storage import levels, tracing

Array = np.ndarray[Any, Any]
PASS = 17
"""What a stage costs besides its products, in products a number; least time of lengths from 64 to
65,536 was measured with it."""
LONGEST = 512
"""A prime factor above this is done as a convolution."""
LEAST_HALVED = 32
"""An even length of a real signal from which on it is taken as pairs; below it one product does."""
KEPT = 64
"""So many plans are kept."""


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """A transform along axis 2 of planes (.., 2, n, ..): first all real parts, then the others.

    factors: of n, one a stage; all but the last have twiddles. matrices (2, a, 2, a) and twiddles
    (2, 2, m, a): of these. given: so many numbers, the others are 0; wanted: so many of the result,
    which goes on as it begins. (Rows and columns of the first and last matrix are left out for
    that.) real: only the first plane is given. whole: both planes are wanted; if not, the numbers
    given are half of a spectrum whose other half is their mirror image, so they count twice, with
    these weights. half: instead of stages, the transform of half as many pairs of real numbers;
    turns: what it is combined with, before or after. chirp: instead of stages, what numbers are
    multiplied with before and after a convolution, and inside it; with the plans of that.
    """

    n: int
    factors: tuple[int, ...]
    given: int
    wanted: int
    real: bool = False
    whole: bool = True
    matrices: tuple[Tensor, ...] = ()
    twiddles: tuple[Tensor, ...] = ()
    weights: tuple[Tensor, ...] = ()
    turns: tuple[Tensor, ...] = ()
    half: tuple[Plan, ...] = ()
    chirp: tuple[Tensor, ...] = ()
    convolution: tuple[Plan, ...] = ()

    @property
    def tables(self) -> list[Tensor]:
        """All numbers that it takes."""
        return [*self.weights, *self.turns, *self.matrices, *self.twiddles, *self.chirp,
                *(t for plan in (*self.half, *self.convolution) for t in plan.tables)]


_plans: OrderedDict[Hashable, Plan] = OrderedDict()


def plan_for(n: int, inverse: bool, scale: float, given: int, wanted: int, real: bool, whole: bool,
             dtype: DType, device: str) -> Plan:
    """The plan of a transform, times `scale`; see Plan. Inside a trace or a function under a
    transform it is made anew, as tensors that are made there do not outlive it."""
    key = n, inverse, scale, given, wanted, real, whole, dtype, device
    found = _plans.get(key)
    if found is None:
        found = _made(n, inverse, scale, given, wanted, real, whole, dtype, device)
        if not whole and not found.half:
            at = np.arange(given)
            counts = np.where((at == 0) | (2 * at == n), 1.0, 2.0)
            found = replace(found, weights=(tensor(counts, dtype, device),))
        if tracing.active is not None or levels.under_way():
            return found
        _plans[key] = found
        if len(_plans) > KEPT:
            _plans.popitem(last=False)
    return found


def _made(n: int, inverse: bool, scale: float, given: int, wanted: int, real: bool, whole: bool,
          dtype: DType, device: str) -> Plan:
    if real == whole and n % 2 == 0 and n >= LEAST_HALVED and wanted <= (n // 2 + 1 if real else n):
        return _halved(Plan(n, (), given, wanted, real, whole), inverse, scale, dtype, device)
    if max(_primes(n), default=1) > LONGEST:
        return _convolved(Plan(n, (), given, wanted, real, whole), inverse, scale, dtype, device)
    factors = factors_of(n)
    matrices, twiddles, rest = [], [], n
    for number, a in enumerate(factors):
        last = number == len(factors) - 1
        matrix = _matrix(a, inverse) * (scale if last else 1.0)
        if number == 0:
            matrix = matrix[..., :1 if real else 2, :-(-given // (n // a))]
        if last:
            rows = np.arange(-(-wanted // (n // a))) % a
            matrix = matrix[:2 if whole else 1, rows]
        matrices.append(tensor(matrix, dtype, device))
        if not last:
            rest //= a
            c, s = _turns(np.arange(rest)[:, None] * np.arange(a), a * rest, inverse)
            twiddles.append(tensor(np.stack([[c, s], [-s, c]]), dtype, device))
    return Plan(n, factors, given, wanted, real, whole, tuple(matrices), tuple(twiddles))


def _halved(plan: Plan, inverse: bool, scale: float, dtype: DType, device: str) -> Plan:
    """A real signal, given or wanted, as pairs: with e and o of its even and odd places, x + iy is
    e + i o, so that e is (z[k] + conj z[-k]) / 2, and e + turn * o the spectrum."""
    half = plan.n // 2
    turns = _turns(np.arange(half + 1), plan.n, inverse)
    if plan.real:
        inner = _made(half, inverse, scale / 2, half, half + 1, False, True, dtype, device)
    else:
        inner = _made(half, inverse, scale, half, half, False, True, dtype, device)
    return replace(plan, turns=(tensor(turns, dtype, device),), half=(inner,))


def _matrix(a: int, inverse: bool) -> Array:
    """The matrix of a transform of both parts of a numbers, as (2, a, 2, a)."""
    c, s = _turns(np.arange(a)[:, None] * np.arange(a), a, inverse)
    return np.stack([np.stack([c, -s], 1), np.stack([s, c], 1)])


def _turns(at: Array, n: int, inverse: bool) -> Array:
    """The parts of e to the (-)2 pi i at / n; `at` is made less than n first, so that no digit of
    the angle is lost."""
    angle = 2 * np.pi * (at % n) / n
    return np.stack([np.cos(angle), np.sin(angle) if inverse else -np.sin(angle)])


def _convolved(plan: Plan, inverse: bool, scale: float, dtype: DType, device: str) -> Plan:
    """Bluestein's way: numbers times a chirp, convolved with its conjugate, times the chirp."""
    n, count = plan.n, max(plan.n, plan.wanted)
    length = smooth(n + count - 1)
    at = np.arange(count, dtype=np.int64)
    chirp = _turns(at * at, 2 * n, inverse)
    around = np.zeros((2, length))
    around[:, :count] = chirp * [[1], [-1]]
    around[:, length - n + 1:] = around[:, 1:n][:, ::-1]
    spectrum = np.fft.fft(around[0] + 1j * around[1])
    parts = (chirp, np.stack([spectrum.real, spectrum.imag]) / length, chirp * scale)
    plans = (_made(length, False, 1.0, n, length, False, True, dtype, device),
             _made(length, True, 1.0, length, count, False, True, dtype, device))
    return replace(plan, chirp=tuple([tensor(p, dtype, device) for p in parts]), convolution=plans)


# ---- factors -------------------------------------------------------------------------------------

def _primes(n: int) -> list[int]:
    found, p = [], 2
    while p * p <= n:
        while n % p == 0:
            found.append(p)
            n //= p
        p += 1
    return found + [n] * (n > 1)


def smooth(least: int) -> int:
    """The smallest length from `least` on with no prime factor above 5."""
    best = 1
    while best < least:
        best *= 2
    for fives in range(12):
        for threes in range(20):
            rest = 5 ** fives * 3 ** threes
            while rest < least:
                rest *= 2
            best = min(best, rest)
    return best


@cache
def factors_of(n: int) -> tuple[int, ...]:
    """The factors that cost least: each as many products a number, and a pass over all of them."""
    best: tuple[int, ...] = (n,)
    cost = n + PASS
    if n > 2 * LONGEST:
        cost = 1 << 60
    for a in range(2, LONGEST + 1):
        if a * a > n and best != (n,) or a + PASS >= cost:
            break
        if n % a == 0 and n // a > 1:
            rest = factors_of(n // a)
            given = a + PASS + sum(rest) + PASS * len(rest)
            if given < cost:
                best, cost = tuple(sorted((a, *rest), reverse=True)), given
    return best
