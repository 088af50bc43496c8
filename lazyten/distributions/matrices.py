"""Distributions of matrices and by them: LKJCholesky, Wishart, LowRankMultivariateNormal."""
from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

from lazyten.distributions import constraints
from lazyten.distributions.constraints import Constraint
from lazyten.distributions.distribution import (
    Distribution,
    ExponentialFamily,
    Shape,
    broadcast_all,
    choose,
    lazy_property,
)
from lazyten.distributions.gamma import Beta
from lazyten.distributions.multivariate import (
    NormalVectors,
    OfCovariance,
    cholesky,
    one_matrix,
    scale_of,
    solve_lower,
    squared_length,
)
from lazyten.distributions.sampling import standard_gamma
from lazyten.frontend.array_functions import broadcast_shapes
from lazyten.frontend.core.size import Size
from lazyten.frontend.functions import arange, cat, eye
from lazyten.frontend.limits import finfo
from lazyten.frontend.random_functions import randn
from lazyten.frontend.tensor import Tensor
from lazyten.support.errors import ArgumentError, ShapeError


def log_multigamma(a: Tensor, p: int) -> Tensor:
    """log of pi ** (p * (p - 1) / 4) * Gamma(a) * Gamma(a - 1/2) * ... of p factors."""
    halves = arange(p, dtype=a.dtype, device=a.device) / 2
    return p * (p - 1) / 4 * math.log(math.pi) + (a.unsqueeze(-1) - halves).lgamma().sum(-1)


def log_diagonal(lower: Tensor) -> Tensor:
    """The sum of the logs of a triangular matrix's diagonal: the log of its determinant."""
    return lower.diagonal(dim1=-2, dim2=-1).log().sum(-1)


class LKJCholesky(Distribution):
    """Cholesky factors of correlation matrices, whose density is as
    det(correlations) ** (concentration - 1): D. Lewandowski, D. Kurowicka and H. Joe, 2009."""

    arg_constraints = {"concentration": constraints.positive}  # noqa: RUF012
    support: Constraint = constraints.corr_cholesky

    def __init__(self, dim: int, concentration: Any = 1.0,
                 validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ArgumentError(f"LKJCholesky: dim={dim} must be 2 or more")
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        super().__init__(self.concentration.shape, (dim, dim), validate_args)

    def _drawn(self, shape: Size) -> Tensor:
        """Row i + 1 has a random direction, and a squared length that is a Beta variable: the
        paper's onion method, on factors."""
        c, rest = self.concentration, self.dim - 1
        number = arange(rest, dtype=c.dtype, device=c.device)
        beta = Beta(number / 2 + 0.5, (c + rest / 2 - 0.5).unsqueeze(-1) - number / 2, False)
        squared = beta._drawn(Size((*shape[:-2], rest))).unsqueeze(-1)
        x = randn(*shape[:-2], rest, rest, dtype=c.dtype, device=c.device).tril()
        rows = squared.sqrt() * x / x.square().sum(-1, keepdim=True).sqrt()
        below = cat([rows[..., :1, :] * 0, rows], -2)
        diagonal = (1 - below.square().sum(-1)).clamp(min=finfo(c.dtype).tiny).sqrt()
        return cat([below, below[..., :1] * 0], -1) + diagonal.diag_embed()

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._validate_sample(value)
        c, rest = self.concentration, self.dim - 1
        number = arange(rest, dtype=c.dtype, device=c.device)
        power = 2 * (c.unsqueeze(-1) - 1) + rest - 1 - number
        density = (power * value.diagonal(dim1=-2, dim2=-1)[..., 1:].log()).sum(-1)
        top = c + rest / 2
        size = rest / 2 * math.log(math.pi) + log_multigamma(top - 0.5, rest) - rest * top.lgamma()
        return density - size


class Wishart(OfCovariance, ExponentialFamily):
    """Sums of df matrices x x^T of normal vectors x of mean 0; give the covariance of x, its
    inverse, or its Cholesky factor scale_tril."""

    has_rsample = True
    arg_constraints = {  # noqa: RUF012
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky, "df": constraints.greater_than(0.0)}
    support: Constraint = constraints.positive_definite

    def __init__(self, df: Any, covariance_matrix: Tensor | None = None,
                 precision_matrix: Tensor | None = None, scale_tril: Tensor | None = None,
                 validate_args: bool | None = None) -> None:
        name, matrix = one_matrix("Wishart", covariance_matrix, precision_matrix, scale_tril)
        (self.df,) = broadcast_all(df)
        self.df = self.df.to(device=matrix.device, dtype=matrix.dtype)
        batch = broadcast_shapes(matrix.shape[:-2], self.df.shape)
        self.df = self.df.expand(*batch)
        self.__dict__[name] = matrix.expand(*batch, *matrix.shape[-2:])
        super().__init__(batch, matrix.shape[-2:], validate_args)
        if self._looks:
            self._check_df(matrix.shape[-1])

    def rsample(self, sample_shape: Sequence[int] = (),
                max_try_correction: int | None = None) -> Tensor:
        """See Distribution. (max_try_correction, how often PyTorch draws anew what is singular,
        changes nothing: these samples are products of triangles that are not.)"""
        return super().rsample(sample_shape)

    def _check_df(self, size: int) -> None:
        least = self.df.min().item()
        if least <= size - 1:
            raise ArgumentError(f"Wishart: df must be above {size - 1}, one less than the "
                                f"matrix has rows; the least is {least}")
        if least < size:
            warnings.warn(f"Wishart: with a df of {least}, below {size}, samples are next to "
                          f"singular", stacklevel=3)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance."""
        return scale_of(self.__dict__)

    @property
    def mean(self) -> Tensor:
        return self.df[..., None, None] * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        """The most likely matrix; NaN up to a df of one more than there are rows."""
        factor = self.df - self._event_shape[0] - 1
        return choose(factor > 0, factor, math.nan)[..., None, None] * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        """The variance of each element."""
        matrix: Tensor = self.covariance_matrix
        diagonal = matrix.diagonal(dim1=-2, dim2=-1)
        products = diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2)
        return self.df[..., None, None] * (matrix.square() + products)

    def _drawn(self, shape: Size) -> Tensor:
        """M. S. Bartlett's factor: roots of Chi2 variables above normal ones."""
        size = self._event_shape[0]
        number = arange(size, dtype=self.df.dtype, device=self.df.device)
        half = (self.df.unsqueeze(-1) - number) / 2
        chi2 = 2 * standard_gamma(half, Size((*shape[:-2], size)))
        below = randn(*shape, dtype=self.df.dtype, device=self.df.device).tril(-1)
        lower = self.scale_tril @ (below + chi2.sqrt().diag_embed())
        return lower @ lower.mT

    def log_prob(self, value: Tensor) -> Tensor:
        factor = cholesky(self._validate_sample(value))
        size = self._event_shape[0]
        tril: Tensor = self.scale_tril
        trace = solve_lower(tril, factor).square().sum((-2, -1))
        return (self.df - size - 1) * log_diagonal(factor) - trace / 2 - self._log_constant()

    def _log_constant(self) -> Tensor:
        """The logarithm of what the density is divided by."""
        size = self._event_shape[0]
        return self.df * (size * math.log(2) / 2 + log_diagonal(self.scale_tril)) \
            + log_multigamma(self.df / 2, size)

    def _mean_log_determinant(self) -> Tensor:
        """The mean of the logarithm of a sample's determinant."""
        size = self._event_shape[0]
        halves = arange(size, dtype=self.df.dtype, device=self.df.device) / 2
        slopes = ((self.df / 2).unsqueeze(-1) - halves).digamma().sum(-1)
        return slopes + size * math.log(2) + 2 * log_diagonal(self.scale_tril)

    def entropy(self) -> Tensor:
        size = self._event_shape[0]
        return self._log_constant() + self.df * size / 2 \
            - (self.df - size - 1) / 2 * self._mean_log_determinant()


class LowRankMultivariateNormal(NormalVectors):
    """Normal vectors whose covariance is cov_factor @ cov_factor^T and a diagonal cov_diag: the
    work grows with the rank, by M. A. Woodbury's formula for the inverse."""

    arg_constraints = {  # noqa: RUF012
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1)}

    def __init__(self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor,
                 validate_args: bool | None = None) -> None:
        if loc.ndim < 1 or cov_factor.ndim < 2 or cov_factor.shape[-2:-1] != loc.shape[-1:] \
                or cov_diag.shape[-1:] != loc.shape[-1:]:
            raise ShapeError(f"LowRankMultivariateNormal: loc of shape {loc.shape}, cov_factor of "
                             f"shape {cov_factor.shape} and cov_diag of shape {cov_diag.shape}: "
                             f"they must be (..., n), (..., n, rank) and (..., n)")
        batch = broadcast_shapes(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        self.loc, self.cov_diag = (t.expand(*batch, t.shape[-1]) for t in (loc, cov_diag))
        self.cov_factor = cov_factor.expand(*batch, *cov_factor.shape[-2:])
        super().__init__(batch, loc.shape[-1:], validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Any:
        event = self._event_shape[0]
        return LowRankMultivariateNormal(
            self.loc.expand(*batch_shape, event),
            self.cov_factor.expand(*batch_shape, *self.cov_factor.shape[-2:]),
            self.cov_diag.expand(*batch_shape, event), False)

    @property
    def variance(self) -> Tensor:
        """The variance of each number."""
        return self.cov_factor.square().sum(-1) + self.cov_diag

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        return self.cov_factor @ self.cov_factor.mT + self.cov_diag.diag_embed()

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance."""
        return cholesky(self.covariance_matrix)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        lower, scaled = self._capacitance
        half = solve_lower(lower, scaled)
        return self.cov_diag.reciprocal().diag_embed() - half.mT @ half

    @property
    def _capacitance(self) -> tuple[Tensor, Tensor]:
        """The Cholesky factor of 1 + W^T D^-1 W, of the rank's size, and W^T D^-1."""
        scaled = self.cov_factor.mT / self.cov_diag.unsqueeze(-2)
        rank = self.cov_factor.shape[-1]
        one = eye(rank, dtype=self.loc.dtype, device=self.loc.device)
        return cholesky(scaled @ self.cov_factor + one), scaled

    def _drawn(self, shape: Size) -> Tensor:
        dtype, device = self.loc.dtype, self.loc.device
        along = randn(*shape[:-1], self.cov_factor.shape[-1], 1, dtype=dtype, device=device)
        moved: Tensor = (self.cov_factor @ along).squeeze(-1)
        apart = randn(*shape, dtype=dtype, device=device)
        return self.loc + moved + self.cov_diag.sqrt() * apart

    def log_prob(self, value: Tensor) -> Tensor:
        gap = self._validate_sample(value) - self.loc
        lower, scaled = self._capacitance
        along: Tensor = (scaled @ gap.unsqueeze(-1)).squeeze(-1)
        square = (gap.square() / self.cov_diag).sum(-1) - squared_length(lower, along)
        return self._log_density(square)

    @property
    def _log_size(self) -> Tensor:
        return log_diagonal(self._capacitance[0]) + 0.5 * self.cov_diag.log().sum(-1)
