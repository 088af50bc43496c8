"""Distributions that packages subclass: what PyTorch lets them count on; and Sobol sequences."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from torch_if_there import torch

import lazyten as lt
from lazyten import distributions as D
from lazyten.distributions.distribution import Distribution

LIBRARIES = [lt, pytest.param(torch, marks=pytest.mark.torch)]


@pytest.mark.parametrize("T", LIBRARIES)
def test_expand_fills_the_instance_of_a_subclass(T: Any) -> None:
    class Shifted(T.distributions.Normal):  # type: ignore[misc,name-defined]
        """A subclass as pyro and zuko write them."""

        def __init__(self, loc: Any, scale: Any, shift: float) -> None:
            super().__init__(loc, scale)
            self.shift = shift

        def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
            """The same with a larger batch_shape."""
            new = self._get_checked_instance(Shifted, _instance)
            new.shift = self.shift + 1
            return super().expand(batch_shape, new)
    given = Shifted(T.zeros(3), T.ones(3), 1.0)
    wide = given.expand((2, 3))
    assert type(wide) is Shifted and wide.shift == 2.0 and given.shift == 1.0
    assert tuple(wide.batch_shape) == tuple(wide.loc.shape) == (2, 3) == tuple(wide.sample().shape)
    with pytest.raises(NotImplementedError, match="Shifted"):
        given._get_checked_instance(T.distributions.Normal)
    assert type(given._get_checked_instance(Shifted)) is Shifted


def test_independent_expands_into_an_instance() -> None:
    base = lt.distributions.Independent(lt.distributions.Normal(lt.zeros(3), 1.0), 1)
    into: Any = object.__new__(type(base))
    into.kept = True
    wide = base.expand((4,), into)
    assert wide is into and wide.kept and wide.batch_shape == (4,) and wide.event_shape == (3,)
    assert wide.log_prob(lt.zeros(4, 3)).shape == (4,) and not hasattr(base, "kept")


@pytest.mark.parametrize("T", LIBRARIES)
def test_a_normal_vector_whose_factor_is_a_packages(T: Any) -> None:
    class Lazy(T.distributions.MultivariateNormal):  # type: ignore[misc,name-defined]
        """A subclass as gpytorch writes one: it has the factor from elsewhere."""

        def __init__(self, loc: Any, factor: Any) -> None:
            self.loc, self._factor = loc, factor
            self._validate_args = False
            T.distributions.Distribution.__init__(
                self, loc.shape[:-1], loc.shape[-1:], validate_args=False)

        @property
        def _unbroadcasted_scale_tril(self) -> Any:
            return self._factor
    factor = T.tensor([[2.0, 0.0], [1.0, 3.0]])
    lazy = Lazy(T.zeros(4, 2), factor)
    plain = T.distributions.MultivariateNormal(T.zeros(4, 2), scale_tril=factor)
    x = T.tensor([[0.5, 1.0]] * 4)
    for f in (lambda d: d.log_prob(x), lambda d: d.entropy(), lambda d: d.variance,
              lambda d: T.distributions.kl_divergence(d, plain)):
        np.testing.assert_allclose(f(lazy).numpy(), f(plain).numpy(), 1e-6)
        assert f(lazy).shape == f(plain).shape
    assert tuple(plain.scale_tril.shape) == (4, 2, 2) and tuple(lazy.rsample().shape) == (4, 2)


@pytest.mark.parametrize("T", LIBRARIES)
def test_a_normal_vector_that_shows_its_events_as_a_matrix(T: Any) -> None:
    class Shaped(T.distributions.MultivariateNormal):  # type: ignore[misc,name-defined]
        """A vector of 4 numbers that counts as a matrix, as gpytorch's of several tasks."""

        @property
        def event_shape(self) -> Any:
            return T.Size((2, 2))
    made = (T.zeros(4), T.eye(4))
    shaped, plain = Shaped(*made), T.distributions.MultivariateNormal(*made)
    assert shaped.entropy().item() == plain.entropy().item()


@pytest.mark.parametrize("T", LIBRARIES)
def test_a_normal_vector_hands_its_factor_to_a_subclass(T: Any) -> None:
    class Keeping(T.distributions.MultivariateNormal):  # type: ignore[misc,name-defined]
        """A subclass that keeps the factor by another name."""

        @property
        def _unbroadcasted_scale_tril(self) -> Any:
            return self.kept

        @_unbroadcasted_scale_tril.setter
        def _unbroadcasted_scale_tril(self, value: Any) -> None:
            self.kept = value
    covariance = T.tensor([[4.0, 2.0], [2.0, 10.0]])
    made = Keeping(T.zeros(4, 2), covariance)
    np.testing.assert_allclose(made.kept[..., :, :].reshape(-1, 2, 2)[0].numpy(),
                               [[2.0, 0.0], [1.0, 3.0]], 1e-6)
    plain = T.distributions.MultivariateNormal(T.zeros(2), covariance)
    wide = plain.expand((3,))
    assert tuple(wide.log_prob(T.zeros(3, 2)).shape) == (3,)
    assert tuple(wide.scale_tril.shape) == (3, 2, 2)


def test_shapes_that_broadcast_are_sizes() -> None:
    shape = lt.broadcast_shapes((2, 1), (3,))
    assert shape == (2, 3) and shape[-1:].numel() == 3
    assert isinstance(Distribution().batch_shape, lt.Size)


@pytest.mark.torch
def test_sobol_points_are_pytorchs() -> None:
    pytest.importorskip("scipy")
    for dimension in (1, 5, 40):
        ours, theirs = (T.quasirandom.SobolEngine(dimension) for T in (lt, torch))  # type: ignore[attr-defined]
        for draw in (lambda e: e.draw(5), lambda e: e.fast_forward(3).draw(4),
                     lambda e: e.draw(1, dtype=None), lambda e: e.reset().draw_base2(2),
                     lambda e: e.reset().draw(3)):
            np.testing.assert_array_equal(draw(ours).numpy(), draw(theirs).numpy())
        assert ours.num_generated == theirs.num_generated == 3


def test_scrambled_points_fill_the_cube_and_follow_their_seed() -> None:
    pytest.importorskip("scipy")
    from lazyten.quasirandom import SobolEngine  # type: ignore[import-not-found]
    points = SobolEngine(2, scramble=True, seed=3).draw(64)
    assert points.shape == (64, 2) and points.dtype is lt.float32
    assert (points[:, 0] * 8).long().bincount().tolist() == [8] * 8
    assert lt.equal(points, SobolEngine(2, True, 3).draw(64))
    with pytest.raises(lt.ArgumentError, match="12 points"):
        SobolEngine(2).fast_forward(8).draw_base2(2)
    with pytest.raises(lt.ArgumentError, match="dimension=0; give 1 to 21201"):
        SobolEngine(0)


def test_what_is_a_module_besides_is_made_as_one() -> None:
    class Scaled(D.Transform, lt.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.scale = lt.nn.Parameter(lt.tensor(2.0))

        def _call(self, x: lt.Tensor) -> lt.Tensor:
            return x * self.scale

    class Centred(D.Normal, lt.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(0.0, 1.0)
            self.width = lt.nn.Linear(1, 1)

    assert [name for name, _ in Scaled().named_parameters()] == ["scale"]
    assert Scaled()(lt.tensor(3.0)).item() == 6
    assert len(list(Centred().parameters())) == 2


@pytest.mark.parametrize("compiled", [False, True])
def test_a_sample_that_a_transform_keeps_has_its_exact_density(compiled: bool) -> None:
    """tanh is 1 from 9 on in float32: the inverse of what it gives has lost x."""
    base = D.Normal(lt.tensor([12.0, 0.5]), 1e-3)

    def density() -> tuple[Any, Any]:
        d = D.TransformedDistribution(base, [D.TanhTransform(cache_size=1)])
        return (y := d.rsample()), d.log_prob(y)

    y, found = lt.jit(density)() if compiled else density()
    assert y[0].item() == 1
    plain = D.TransformedDistribution(base, D.TanhTransform())
    without = plain.log_prob(y)
    assert found[0].item() > 20 and not without[0].isfinite()
    np.testing.assert_allclose(found[1].item(), without[1].item(), rtol=1e-3)


def test_a_transform_without_an_inverse_knows_the_last_value() -> None:
    class Cubed(D.Transform):
        domain = codomain = D.constraints.real

        def _call(self, x: lt.Tensor) -> lt.Tensor:
            return x ** 3 + x

    t, x = Cubed(cache_size=1), lt.tensor([1.0, 2.0])
    y = t(x)
    assert t.inv(y) is x and t(x) is y and t == Cubed(cache_size=1) != Cubed()
    both = D.ComposeTransform([Cubed(), D.ExpTransform()]).with_cache()
    assert both.inv(both(x)) is x and both.parts[0].inv(both.parts[0](x)) is x
    with pytest.raises(NotImplementedError, match="Cubed has no inverse"):
        Cubed().inv(y)
    with pytest.raises(lt.ArgumentError, match="cache_size=2"):
        D.ExpTransform(cache_size=2)
