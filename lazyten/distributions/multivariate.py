"""MultivariateNormal, by the Cholesky factor of its covariance, which is found column by column."""
from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from lazyten import linalg
from lazyten.distributions import constraints
from lazyten.distributions.constraints import Constraint
from lazyten.distributions.distribution import Distribution, lazy_property
from lazyten.frontend.array_functions import broadcast_shapes
from lazyten.frontend.core.size import Size
from lazyten.frontend.functions import cat, eye, stack
from lazyten.frontend.random_functions import randn
from lazyten.frontend.tensor import Tensor
from lazyten.support.errors import ArgumentError, ShapeError


def cholesky(a: Tensor) -> Tensor:
    """L, lower triangular, of which L L^T is a; with NaNs if a is not positive definite. Its
    gradient is symmetric, as a is."""
    a = (a + a.mT) / 2
    columns: list[Tensor] = []
    size = a.shape[-1]
    for j in range(size):
        column = a[..., j:, j]
        for done in columns:
            column = column - done[..., j:] * done[..., j:j + 1]
        column = column / column[..., :1].sqrt()
        above = a[..., :j, j] * 0
        columns.append(cat([above, column], -1))
    return stack(columns, -1)


def solve_lower(lower: Tensor, b: Tensor) -> Tensor:
    """x of which lower @ x is b, of shapes (..., n, n) and (..., n, k)."""
    rows: list[Tensor] = []
    for i in range(lower.shape[-1]):
        rest = b[..., i, :]
        for j, done in enumerate(rows):
            rest = rest - lower[..., i, j, None] * done
        rows.append(rest / lower[..., i, i, None])
    return stack(rows, -2)


def squared_length(lower: Tensor, x: Tensor) -> Tensor:
    """x^T (L L^T)^-1 x."""
    return solve_lower(lower, x.unsqueeze(-1)).squeeze(-1).square().sum(-1)


def one_matrix(name: str, covariance_matrix: Tensor | None, precision_matrix: Tensor | None,
               scale_tril: Tensor | None) -> tuple[str, Tensor]:
    """The one that is given, by its name. ArgumentError unless one is, a square matrix."""
    given = {"covariance_matrix": covariance_matrix, "precision_matrix": precision_matrix,
             "scale_tril": scale_tril}
    named = [(name, value) for name, value in given.items() if value is not None]
    if len(named) != 1:
        raise ArgumentError(f"{name}: give one of covariance_matrix, precision_matrix and "
                            f"scale_tril")
    ((which, matrix),) = named
    if matrix.ndim < 2 or matrix.shape[-1] != matrix.shape[-2]:
        raise ShapeError(f"{name}: {which} of shape {matrix.shape} must be (..., n, n)")
    return which, matrix


def scale_of(given: Mapping[str, Any]) -> Tensor:
    """The Cholesky factor of the covariance, of that or of its inverse by name."""
    if "covariance_matrix" in given:
        return cholesky(given["covariance_matrix"])
    return cholesky(inverse_of(cholesky(given["precision_matrix"])))


def covariance_of(lower: Tensor) -> Tensor:
    """L L^T."""
    return lower @ lower.mT


def inverse_of(lower: Tensor) -> Tensor:
    """Of L L^T."""
    size = lower.shape[-1]
    one = eye(size, dtype=lower.dtype, device=lower.device)
    inverse = solve_lower(lower, one.expand(*lower.shape[:-2], size, size))
    return inverse.mT @ inverse


def _precision_to_scale_tril(P: Tensor) -> Tensor:
    """L, lower triangular, of which L L^T is the inverse of P: P is U U^T of an upper triangular
    U, whose transposed inverse L is. LinAlgError if P is not positive definite."""
    upper = linalg.cholesky(P.flip(-2, -1)).flip(-2, -1)
    one = eye(P.shape[-1], dtype=P.dtype, device=P.device)
    return linalg.solve_triangular(upper.mT, one, upper=False)


def _batch_mv(bmat: Tensor, bvec: Tensor) -> Tensor:
    """Products of matrices (..., n, k) and vectors (..., k)."""
    return (bmat @ bvec.unsqueeze(-1)).squeeze(-1)


_batch_mahalanobis = squared_length


class OfCovariance(Distribution):
    """By a covariance, the inverse of that, or its Cholesky factor, which it has."""

    scale_tril: Any

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        return covariance_of(self.scale_tril)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        return inverse_of(self.scale_tril)


class NormalVectors(Distribution):
    """Normal vectors around loc, with a size: half of the log of the covariance's determinant."""

    has_rsample = True
    support: Constraint = constraints.real_vector
    loc: Tensor

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def _log_size(self) -> Tensor:
        raise NotImplementedError

    def _log_density(self, square: Tensor) -> Tensor:
        """square: x^T (covariance)^-1 x, of a value's distance x from loc."""
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + square) - self._log_size

    def entropy(self) -> Tensor:
        return 0.5 * self._event_shape[0] * (1 + math.log(2 * math.pi)) + self._log_size


class MultivariateNormal(OfCovariance, NormalVectors):
    """Normal vectors of a mean and a covariance: give its matrix, the inverse of that, or its
    Cholesky factor scale_tril, which spares the work of finding it."""

    arg_constraints = {  # noqa: RUF012
        "loc": constraints.real_vector, "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky}

    def __init__(self, loc: Tensor, covariance_matrix: Tensor | None = None,
                 precision_matrix: Tensor | None = None, scale_tril: Tensor | None = None,
                 validate_args: bool | None = None) -> None:
        name, matrix = one_matrix("MultivariateNormal", covariance_matrix, precision_matrix,
                                  scale_tril)
        if loc.ndim < 1 or matrix.shape[-2:] != (loc.shape[-1],) * 2:
            raise ShapeError(f"MultivariateNormal: loc of shape {loc.shape} and {name} of shape "
                             f"{matrix.shape}: they must be (..., n) and (..., n, n)")
        batch = broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        self.loc = loc.expand(*batch, loc.shape[-1])
        self.__dict__[name] = matrix.expand(*batch, *matrix.shape[-2:])
        super().__init__(batch, loc.shape[-1:], validate_args)
        # of this name, which all formulas read: subclasses of packages have their own
        given = self.__dict__
        self._unbroadcasted_scale_tril: Tensor = given["scale_tril"] if name == "scale_tril" \
            else scale_of(given)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance."""
        factor: Tensor = self._unbroadcasted_scale_tril
        return factor.expand(*self.batch_shape, *factor.shape[-2:])

    @property
    def variance(self) -> Tensor:
        """The variance of each number."""
        tril: Tensor = self._unbroadcasted_scale_tril
        return tril.square().sum(-1).expand(self.loc.shape)

    def _drawn(self, shape: Size) -> Tensor:
        eps = randn(*shape, dtype=self.loc.dtype, device=self.loc.device)
        moved: Tensor = (self._unbroadcasted_scale_tril @ eps.unsqueeze(-1)).squeeze(-1)
        return self.loc + moved

    @property
    def _log_size(self) -> Tensor:
        tril: Tensor = self._unbroadcasted_scale_tril
        return tril.diagonal(dim1=-2, dim2=-1).log().sum(-1).expand(self.batch_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        gap = self._validate_sample(value) - self.loc
        return self._log_density(squared_length(self._unbroadcasted_scale_tril, gap))
