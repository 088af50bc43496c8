"""Parametrizations of weights under PyTorch's names: a length and a direction, a greatest singular
value of 1, columns of length 1 at right angles."""
from __future__ import annotations

from typing import Any

from lazyten.frontend import functions
from lazyten.frontend.limits import finfo
from lazyten.frontend.random_functions import randn
from lazyten.frontend.tensor import Tensor
from lazyten.linalg.powers import matrix_exp
from lazyten.linalg.reflections import geqrf, householder_product
from lazyten.linalg.solving import solve
from lazyten.nn import functional as F
from lazyten.nn.module import Module
from lazyten.nn.modules.conv import _ConvTransposeNd
from lazyten.nn.utils.parametrize import register_parametrization
from lazyten.operators.math import shapes
from lazyten.support.errors import ArgumentError, ModuleAttributeError, ShapeError
from lazyten.support.grad_mode import no_grad


def tensor_named(module: Module, name: str, operation: str) -> Tensor:
    """The module's parameter or buffer. ModuleAttributeError if there is none."""
    found = getattr(module, name, None)
    if not isinstance(found, Tensor):
        raise ModuleAttributeError(f"{operation}: {type(module).__name__} has no parameter or "
                                   f"buffer {name!r}")
    return found


def lengths(v: Tensor, dim: int) -> Tensor:
    """The lengths of what lies along all axes but `dim`, which keep size 1; dim -1: one of all,
    zero-dim."""
    if dim == -1:
        return v.square().sum().sqrt()
    axes = [a for a in range(v.ndim) if a != dim % v.ndim]
    return v.square().sum(axes, keepdim=True).sqrt() if axes else v.abs()


# ---- a length and a direction --------------------------------------------------------------------

class _WeightNorm(Module):
    """weight_g * weight_v / |weight_v|."""

    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return weight_v * (weight_g / lengths(weight_v, self.dim))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return lengths(weight, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """module.name as a length (original0, one for each place of axis `dim`; one of all if it is
    None) times a direction (original1) (T. Salimans and D. Kingma, 2016); gives the module. A state
    saved with name_g and name_v is loaded, too."""
    tensor_named(module, name, "weight_norm")
    register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def older_names(module: Module, state: dict[str, Any], prefix: str, *rest: Any) -> None:
        for old, new in (("g", "original0"), ("v", "original1")):
            if f"{prefix}{name}_{old}" in state:
                state[f"{prefix}parametrizations.{name}.{new}"] = state.pop(f"{prefix}{name}_{old}")
    module.register_load_state_dict_pre_hook(older_names)
    return module


# ---- a greatest singular value of 1 --------------------------------------------------------------

def axis_of_outputs(module: Module, dim: int | None) -> int:
    """`dim`, or where a layer's weight has its outputs if it is None."""
    return dim if dim is not None else int(isinstance(module, _ConvTransposeNd))


def as_rows(weight: Tensor, dim: int) -> Tensor:
    """A weight as a matrix: axis `dim` first, all others in one."""
    return weight.movedim(dim, 0).flatten(1) if weight.ndim > 1 else weight


def first_vectors(rows: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Vectors for power_method(), drawn."""
    u, v = (F.normalize(functions.empty((n,), dtype=rows.dtype, device=rows.device).normal_(),
                        dim=0, eps=eps) for n in rows.shape)
    return u, v


@no_grad()
def power_method(rows: Tensor, u: Tensor, v: Tensor, iterations: int, eps: float) -> None:
    """Bring u, and then v, in place, nearer to the singular vectors of the greatest singular value.
    """
    rows = rows.detach()
    for _ in range(iterations):
        u.copy_(F.normalize(rows.mv(v), dim=0, eps=eps))
        v.copy_(F.normalize(rows.T.mv(u), dim=0, eps=eps))


def over_sigma(weight: Tensor, rows: Tensor, u: Tensor, v: Tensor) -> Tensor:
    """weight / (u^T rows v): for singular vectors, over the singular value. What u and v are now,
    not what they become: gradients are of this call."""
    return weight / u.clone().dot(rows.mv(v.clone()))


def check_iterations(n_power_iterations: int) -> None:
    """ArgumentError unless it is a number of 1 or more."""
    if shapes.as_int(n_power_iterations, "spectral_norm", "n_power_iterations") < 1:
        raise ArgumentError(f"spectral_norm: n_power_iterations={n_power_iterations} is below 1; "
                            f"give 1 or more")


class _SpectralNorm(Module):
    """weight over its greatest singular value, which each use while training comes nearer to."""

    _u: Tensor
    _v: Tensor

    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0,
                 eps: float = 1e-12) -> None:
        super().__init__()
        check_iterations(n_power_iterations)
        self.dim = dim if dim >= 0 else dim + weight.ndim
        self.n_power_iterations, self.eps = n_power_iterations, eps
        if weight.ndim > 1:
            rows = as_rows(weight.detach(), self.dim)
            u, v = first_vectors(rows, eps)
            self.register_buffer("_u", u)
            self.register_buffer("_v", v)
            power_method(rows, u, v, 15, eps)

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        rows = as_rows(weight, self.dim)
        if self.training:
            power_method(rows, self._u, self._v, self.n_power_iterations, self.eps)
        return over_sigma(weight, rows, self._u, self._v)

    def right_inverse(self, value: Tensor) -> Tensor:
        return value


def spectral_norm(module: Module, name: str = "weight", n_power_iterations: int = 1,
                  eps: float = 1e-12, dim: int | None = None) -> Module:
    """module.name over its greatest singular value as a matrix whose rows are axis `dim` (None:
    that of the outputs), found by n_power_iterations of the power method at each use while training
    (T. Miyato and others, 2018); gives the module."""
    weight = tensor_named(module, name, "spectral_norm")
    register_parametrization(module, name, _SpectralNorm(
        weight, n_power_iterations, axis_of_outputs(module, dim), eps))
    return module


# ---- columns at right angles ---------------------------------------------------------------------

MAPS = ("matrix_exp", "cayley", "householder")


class NoInverseError(ArgumentError, NotImplementedError):
    """A tensor is set that a map cannot be inverted for."""


def _is_orthogonal(q: Tensor) -> bool:
    """Whether the columns of each matrix (..., n, k) have length 1 and are at right angles."""
    one = functions.eye(q.shape[-1], dtype=q.dtype, device=q.device)
    return bool((q.mT @ q).allclose(one.expand(*q.shape[:-2], *one.shape),
                                    atol=10.0 * q.shape[-2] * finfo(q.dtype).eps))


def _made_orthogonal(a: Tensor) -> Tensor:
    """Q of a QR factorization of which R has no negative number on its diagonal."""
    factors, tau = geqrf(a)
    return householder_product(factors, tau) * factors.diagonal(0, -2, -1).sign().unsqueeze(-2)


class _Orthogonal(Module):
    """An orthogonal matrix of numbers that may be any: M. Lezcano Casado, Trivializations for
    gradient-based optimization on manifolds, 2019. `base`, if it is used, is what the map's result
    is multiplied with, so that training begins where the map is the identity."""

    base: Tensor

    def __init__(self, weight: Tensor, orthogonal_map: str, *,
                 use_trivialization: bool = True) -> None:
        super().__init__()
        self.shape, self.orthogonal_map = weight.shape, orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X: Tensor) -> Tensor:
        wide = X.shape[-2] < X.shape[-1]
        tall = X.mT if wide else X
        q = self._reflected(tall) if self.orthogonal_map == "householder" else self._turned(tall)
        if hasattr(self, "base"):
            q = self.base @ q
        return q.mT if wide else q

    def _turned(self, x: Tensor) -> Tensor:
        """The map of a skew-symmetric matrix, whose lower triangle is that of x (..., n, k)."""
        n, k = x.shape[-2:]
        lower = x.tril()
        if n > k:
            lower = functions.cat([lower, x.new_zeros((*x.shape[:-1], n - k))], -1)
        a = lower - lower.mT
        if self.orthogonal_map == "matrix_exp":
            return matrix_exp(a)[..., :k]
        one = functions.eye(n, dtype=x.dtype, device=x.device)
        return solve(one - a / 2, one + a / 2)[..., :k]

    def _reflected(self, x: Tensor) -> Tensor:
        """Reflections whose vectors are below the diagonal, which has the signs of columns."""
        vectors = x.tril(-1)
        tau = 2.0 / (1.0 + vectors.square().sum(-2))
        signs = x.detach().diagonal(0, -2, -1).int().to(dtype=x.dtype)
        return householder_product(vectors, tau) * signs.unsqueeze(-2)

    @no_grad()
    def right_inverse(self, Q: Tensor) -> Tensor:
        """What the map gives Q of, or the nearest that a QR factorization has."""
        if Q.shape != self.shape:
            raise ShapeError(f"orthogonal: a weight of shape {tuple(self.shape)} cannot become one "
                             f"of shape {tuple(Q.shape)}")
        wide = Q.shape[-2] < Q.shape[-1]
        tall = Q.mT if wide else Q
        if not hasattr(self, "base"):
            found = self._vectors(tall)
            return found.mT if wide else found
        n, k = tall.shape[-2:]
        if n > k:
            more = randn((*tall.shape[:-2], n, n - k), dtype=Q.dtype, device=Q.device)
            self.base = _made_orthogonal(functions.cat([tall, more], -1))
        else:
            self.base = tall.clone() if _is_orthogonal(tall) else _made_orthogonal(tall)
        rows, columns = Q.shape[-2:]
        start = -functions.eye(rows, columns, dtype=Q.dtype, device=Q.device)
        return start.expand(Q.shape).clone()  # the diagonal is the signs that _reflected() reads

    def _vectors(self, tall: Tensor) -> Tensor:
        """Vectors of reflections, and on the diagonal the signs of R's."""
        if self.orthogonal_map != "householder":
            raise NoInverseError(f"orthogonal: a weight that is a {self.orthogonal_map} without "
                                 f"use_trivialization cannot be set; use_trivialization=True, or "
                                 f"orthogonal_map='householder', lets it be")
        factors, tau = geqrf(tall)
        diagonal = factors.diagonal(0, -2, -1).sign()
        signs = functions.where(tau == 0, -diagonal, diagonal)
        return factors.diagonal_scatter(signs, 0, -2, -1)


def orthogonal(module: Module, name: str = "weight", orthogonal_map: str | None = None, *,
               use_trivialization: bool = True) -> Module:
    """module.name, matrices (..., m, n), with columns of length 1 at right angles, or rows where
    m < n; gives the module. It begins as the tensor is now if that is orthogonal, else as Q of its
    QR factorization.

    orthogonal_map: 'matrix_exp' or 'cayley' of a skew-symmetric matrix, the default for square
    ones, or 'householder', a product of reflections, for others. use_trivialization: multiply by a
    base, with which training converges better; without it the first two maps take the numbers that
    are there, and the tensor cannot be set.
    """
    weight = tensor_named(module, name, "orthogonal")
    if weight.ndim < 2:
        raise ShapeError(f"orthogonal: {name!r} has shape {tuple(weight.shape)}, and matrices "
                         f"(..., m, n) have 2 axes or more")
    if orthogonal_map is None:
        orthogonal_map = "matrix_exp" if weight.shape[-2] == weight.shape[-1] else "householder"
    if orthogonal_map not in MAPS:
        raise ArgumentError(f"orthogonal: orthogonal_map={orthogonal_map!r} is not one of "
                            f"{', '.join(map(repr, MAPS))}")
    register_parametrization(module, name, _Orthogonal(
        weight, orthogonal_map, use_trivialization=use_trivialization), unsafe=True)
    return module
