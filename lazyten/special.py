"""`lt.special`: special functions, under PyTorch's names."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lazyten.frontend.arguments import name_functions, takes_tensors
from lazyten.frontend.core.functions import combined, unary
from lazyten.frontend.functions import ones_like, where
from lazyten.frontend.limits import result_type
from lazyten.frontend.tensor import Tensor
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.ir.node import Node
from lazyten.operators.math import bessel, inverse_functions, shapes, zeta_functions
from lazyten.operators.math import statistical_functions as statistics
from lazyten.support.errors import ArgumentError, DTypeError

digamma = psi = takes_tensors(Tensor.digamma)
erf, erfc, erfinv = takes_tensors(Tensor.erf), takes_tensors(Tensor.erfc), takes_tensors(
    Tensor.erfinv)
exp2, expm1, log1p = takes_tensors(Tensor.exp2), takes_tensors(Tensor.expm1), takes_tensors(
    Tensor.log1p)
expit, gammaln, logit = takes_tensors(Tensor.sigmoid), takes_tensors(Tensor.lgamma), takes_tensors(
    Tensor.logit)
log_softmax, softmax = takes_tensors(Tensor.log_softmax), takes_tensors(Tensor.softmax)
logsumexp, round, sinc = takes_tensors(Tensor.logsumexp), takes_tensors(
    Tensor.round), takes_tensors(Tensor.sinc)
gammainc, gammaincc = takes_tensors(Tensor.igamma), takes_tensors(Tensor.igammac)
xlogy = takes_tensors(Tensor.xlogy)


@takes_tensors
def entr(input: Tensor) -> Tensor:
    """-x log x; 0 at 0, and -inf below."""
    return input._special(inverse_functions.entr)


@takes_tensors
def xlog1py(input: Any, other: Any) -> Tensor:
    """x log(1 + y), of which one may be a number; 0 where x is 0, unless y is NaN."""
    return _of_two("xlog1py", inverse_functions.xlog1py, input, other)


multigammaln = takes_tensors(Tensor.mvlgamma)


@takes_tensors
def polygamma(n: int, input: Tensor) -> Tensor:
    """The n-th derivative of digamma."""
    return input.polygamma(n)


@takes_tensors
def zeta(input: Any, other: Any) -> Tensor:
    """Hurwitz's zeta function: the sum of (other + k) ** -input over k = 0, 1, .. Infinite for an
    input of 1 and for others 0, -1, ..; NaN for inputs below 1, and for others below 0 unless the
    input is whole."""
    return _of_two("zeta", zeta_functions.zeta, input, other)


def _of_two(name: str, function: Callable[[Any, Any], Node], first: Any, second: Any) -> Tensor:
    """`function` of two operands, of which one may be a number."""
    if isinstance(first, Tensor):
        return combined(first, name, function, second)
    if not isinstance(second, Tensor):
        raise DTypeError(f"{name} of {first!r:.40} and {second!r:.40}: neither is a tensor; wrap "
                         f"one in lazyten.tensor()")
    return combined(second, name, lambda b, a: function(a, b), first)


def _elementwise(name: str, function: Callable[[Node], Node],
                 meaning: str) -> Callable[..., Tensor]:
    return takes_tensors(unary(name, function, meaning))


i0 = takes_tensors(Tensor.i0)
i0e = _elementwise("i0e", bessel.i0e, "e ** -|x| I0(x).")
i1 = _elementwise("i1", bessel.i1, "Bessel's modified function of the first kind, of order 1.")
i1e = _elementwise("i1e", bessel.i1e, "e ** -|x| I1(x).")
modified_bessel_i0 = _elementwise("modified_bessel_i0", bessel.i0, "i0.")
modified_bessel_i1 = _elementwise("modified_bessel_i1", bessel.i1, "i1.")
modified_bessel_k0 = _elementwise("modified_bessel_k0", bessel.k0, "That of the second kind, of "
                                  "order 0: infinite at 0, NaN below.")
modified_bessel_k1 = _elementwise("modified_bessel_k1", bessel.k1, "The same of order 1.")
scaled_modified_bessel_k0 = _elementwise("scaled_modified_bessel_k0", bessel.k0e, "e ** x K0(x).")
scaled_modified_bessel_k1 = _elementwise("scaled_modified_bessel_k1", bessel.k1e, "e ** x K1(x).")
bessel_j0 = _elementwise("bessel_j0", bessel.j0, "Bessel's function of the first kind, of order 0.")
bessel_j1 = _elementwise("bessel_j1", bessel.j1, "The same of order 1.")
bessel_y0 = _elementwise("bessel_y0", bessel.y0, "That of the second kind, of order 0: -infinite "
                         "at 0, NaN below.")
bessel_y1 = _elementwise("bessel_y1", bessel.y1, "The same of order 1.")
spherical_bessel_j0 = _elementwise("spherical_bessel_j0", bessel.spherical_j0, "sin(x) / x.")
airy_ai = _elementwise("airy_ai", bessel.airy_ai, "Airy's function Ai.")
erfcx = _elementwise("erfcx", statistics.erfcx, "e ** x**2 erfc(x).")
ndtr = _elementwise("ndtr", statistics.ndtr, "The normal distribution function: erfc(-x / sqrt 2) "
                    "/ 2.")
ndtri = _elementwise("ndtri", statistics.ndtri, "The number below which a normal one is with this "
                     "probability.")
log_ndtr = _elementwise("log_ndtr", statistics.log_ndtr, "The logarithm of ndtr, exact far below "
                        "0, too.")


# ---- orthogonal polynomials ----------------------------------------------------------------------

HIGHEST = 500
"""Of polynomials: each degree is a step of a kernel."""
Step = Callable[[int, Tensor, Tensor, Tensor], Tensor]


def _polynomials(name: str, first: Callable[[Tensor], Tensor], step: Step,
                 meaning: str) -> Callable[[Any, Any], Tensor]:
    """The function of x and a degree n, 0 if n is below 0, of polynomials that begin with 1 and
    `first`, of which `step` makes the next one: of k, x, the k-th and the one before."""
    @takes_tensors
    def polynomial(input: Any, n: Any) -> Tensor:
        x, degree, kind = _in_float64(input, n, name)
        result = where(degree < 0, 0.0, where(degree == 0, 1.0, first(x)))
        before, last = ones_like(x), first(x)
        for k in range(1, _highest(degree, name)):
            before, last = last, step(k, x, last, before)
            result = where(degree > k, last, result)
        found: Tensor = result.to(dtype=kind)
        return found
    polynomial.__name__, polynomial.__qualname__, polynomial.__doc__ = name, name, meaning
    return polynomial


def _in_float64(input: Any, n: Any, name: str) -> tuple[Tensor, Tensor, DType]:
    """x in float64, n in int64, and the type of the result."""
    given = [v for v in (input, n) if isinstance(v, Tensor)]
    if not given:
        raise DTypeError(f"{name} of {input!r:.40} and {n!r:.40}: one must be a tensor")
    kind = result_type(input, n)
    x, degree = (v if isinstance(v, Tensor) else given[0].new_full((), shapes.as_number(
        v, name, "an operand"), dtype="float64") for v in (input, n))
    return x.double(), degree.long(), kind if kind.is_float else dt.default_float


def _highest(degree: Tensor, name: str) -> int:
    """The greatest of the degrees, which is computed at once."""
    most = int(degree.max().item()) if degree.numel() else 0
    if most > HIGHEST:
        raise ArgumentError(f"{name}: n={most}; degrees are {HIGHEST} at most")
    return most


def _doubled(x: Tensor) -> Tensor:
    return x * 2


def _chebyshev(k: int, x: Tensor, last: Tensor, before: Tensor) -> Tensor:
    return x * 2 * last - before


def _shifted(k: int, x: Tensor, last: Tensor, before: Tensor) -> Tensor:
    return _chebyshev(k, x * 2 - 1, last, before)


_KINDS: dict[str, tuple[str, Callable[[Tensor], Tensor]]] = {
    "t": ("first", lambda x: x * 1), "u": ("second", _doubled),
    "v": ("third", lambda x: x * 2 - 1), "w": ("fourth", lambda x: x * 2 + 1)}

chebyshev_polynomial_t, chebyshev_polynomial_u, chebyshev_polynomial_v, chebyshev_polynomial_w = (
    _polynomials(f"chebyshev_polynomial_{kind}", first, _chebyshev,
                 f"Chebyshev's polynomial of the {which} kind and degree n.")
    for kind, (which, first) in _KINDS.items())
(shifted_chebyshev_polynomial_t, shifted_chebyshev_polynomial_u, shifted_chebyshev_polynomial_v,
 shifted_chebyshev_polynomial_w) = (
    _polynomials(f"shifted_chebyshev_polynomial_{kind}",
                 lambda x, first=first: first(x * 2 - 1),  # type: ignore[misc]
                 _shifted, f"The same of the {which} kind, of 2 x - 1.")
    for kind, (which, first) in _KINDS.items())
hermite_polynomial_h = _polynomials(
    "hermite_polynomial_h", _doubled, lambda k, x, last, before: x * 2 * last - before * (2 * k),
    "Hermite's polynomial of degree n, of physicists.")
hermite_polynomial_he = _polynomials(
    "hermite_polynomial_he", lambda x: x * 1, lambda k, x, last, before: x * last - before * k,
    "Hermite's polynomial of degree n, of probability.")
laguerre_polynomial_l = _polynomials(
    "laguerre_polynomial_l", lambda x: 1 - x,
    lambda k, x, last, before: ((2 * k + 1 - x) * last - before * k) / (k + 1),
    "Laguerre's polynomial of degree n.")
legendre_polynomial_p = _polynomials(
    "legendre_polynomial_p", lambda x: x * 1,
    lambda k, x, last, before: (x * (2 * k + 1) * last - before * k) / (k + 1),
    "Legendre's polynomial of degree n.")
name_functions(__name__, globals())
