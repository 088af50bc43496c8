"""`lt.special`: special functions, under PyTorch's names."""
from __future__ import annotations

import math
from typing import Any

from lazyten.frontend.arguments import takes_tensors
from lazyten.frontend.functions import where
from lazyten.frontend.tensor import Tensor

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
xlogy = takes_tensors(Tensor.xlogy)


@takes_tensors
def entr(input: Tensor) -> Tensor:
    """-x log x; 0 at 0, and -inf below."""
    result: Tensor = where(input < 0, -math.inf, -input.xlogy(input))
    return result


@takes_tensors
def ndtr(input: Tensor) -> Tensor:
    """The normal distribution function: erfc(-x / sqrt 2) / 2."""
    return (input * -math.sqrt(0.5)).erfc() * 0.5


@takes_tensors
def xlog1py(input: Any, other: Tensor) -> Tensor:
    """x log(1 + y); 0 where x is 0, unless y is NaN."""
    result: Tensor = other.log1p() * input
    if isinstance(input, Tensor):
        result = where((input == 0) & ~other.isnan(), 0.0, result)
    elif input == 0:
        result = where(other.isnan(), math.nan, 0.0)
    return result


@takes_tensors
def multigammaln(input: Tensor, p: int) -> Tensor:
    """The logarithm of the multivariate gamma function of dimension p: sum over j < p of lgamma(x -
    j / 2), and p (p - 1) / 4 log pi."""
    result: Tensor = input * 0 + p * (p - 1) / 4 * math.log(math.pi)
    for j in range(p):
        result = result + (input - j / 2).lgamma()
    return result
