"""Parameters and buffers whose shapes come later, and parametrizations that are given on."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from torch_if_there import torch

import lazyten as lt
from lazyten.nn.parameter import is_lazy
from lazyten.nn.utils import parametrize


def model(library: Any) -> Any:
    """A layer that learns the shape of its input's mean from the first one."""
    class Centred(library.nn.modules.lazy.LazyModuleMixin, library.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.scale = library.nn.UninitializedParameter()
            self.register_buffer("mean", library.nn.UninitializedBuffer())

        def initialize_parameters(self, x: Any) -> None:
            if self.has_uninitialized_params():
                with library.no_grad():
                    self.scale.materialize(x.shape[1:])
                    self.scale.fill_(2.0)
                    self.mean.materialize(x.shape[1:])
                    self.mean.copy_(x.mean(0))

        def forward(self, x: Any) -> Any:
            return (x - self.mean) * self.scale
    return Centred()


@pytest.mark.torch
def test_a_layer_learns_the_shapes_of_its_buffers_too() -> None:
    x = np.random.default_rng(0).normal(size=(4, 3))
    found = []
    for library in (lt, torch):
        made = model(library).double()
        assert made.has_uninitialized_params() and repr(made.mean) == "<UninitializedBuffer>"
        assert library.nn.parameter.is_lazy(made.mean) and made.mean.dtype == library.float64
        y = made(library.tensor(x))
        assert not made.has_uninitialized_params() and not library.nn.parameter.is_lazy(made.mean)
        found.append((y.detach().numpy(), *(v.detach().numpy()
                                            for v in made.state_dict().values())))
        assert [name for name, _ in made.named_buffers()] == ["mean"]
    for mine, other in zip(*found, strict=True):
        np.testing.assert_allclose(mine, other, 1e-12)


def test_a_buffer_without_a_shape_takes_that_of_a_state() -> None:
    first, second = model(lt), model(lt)
    first(lt.ones(2, 3))
    second.load_state_dict(first.state_dict())
    assert not is_lazy(second.mean) and second.mean.tolist() == [1, 1, 1]


@pytest.mark.torch
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("name", [None, "weight"])
def test_parametrizations_are_given_on_with_what_they_are_of(name: str | None, several: bool
                                                             ) -> None:
    weight = np.random.default_rng(0).normal(size=(3, 3))
    found = []
    for library in (lt, torch):
        tools = library.nn.utils.parametrize

        class Twice(library.nn.Module):  # type: ignore[misc,name-defined]
            def forward(self, x: Any) -> Any:
                return x * 2

        source, target = (library.nn.Linear(3, 3).double() for _ in range(2))
        with library.no_grad():
            source.weight.copy_(library.tensor(weight))
        if several:
            library.nn.utils.parametrizations.weight_norm(source)
        else:
            tools.register_parametrization(source, "weight", Twice())
        assert tools.transfer_parametrizations_and_params(source, target, name) is target
        assert tools.is_parametrized(target, "weight")
        assert [n for n, _ in target.named_parameters()] == [n for n, _ in
                                                             source.named_parameters()]
        for mine, other in zip(target.parametrizations.weight.parameters(),
                               source.parametrizations.weight.parameters(), strict=True):
            assert mine is other
        bare = library.nn.Module()
        tools.transfer_parametrizations_and_params(source, bare)
        plain = library.nn.Linear(3, 3)
        assert tools.transfer_parametrizations_and_params(plain, bare) is bare
        found.append([x.weight.detach().numpy() for x in (source, target, bare)])
    for mine, other in zip(*found, strict=True):
        np.testing.assert_allclose(mine, other, 1e-12)


def test_a_parametrization_that_is_not_there_cannot_be_given_on() -> None:
    source = lt.nn.Linear(2, 2)
    lt.nn.utils.parametrizations.weight_norm(source)
    with pytest.raises(lt.ArgumentError, match=r"'bias' of .*no parametrization"):
        parametrize.transfer_parametrizations_and_params(source, lt.nn.Linear(2, 2), "bias")


@pytest.mark.torch
@pytest.mark.parametrize("make", [
    lambda T: T.ones(2, 3, 5, 7), lambda T: T.ones(2, 3, 5, 7).transpose(1, 2),
    lambda T: T.ones(2, 3, 5, 7).contiguous(memory_format=T.channels_last),
    lambda T: T.ones(1, 2, 3, 4), lambda T: T.ones(()), lambda T: T.ones(4),
    lambda T: T.ones(2, 3, 4).permute(2, 0, 1), lambda T: T.ones(2, 3, 4)[:, ::2],
    lambda T: T.ones(3, 1).expand(3, 4), lambda T: T.ones(2, 1, 3, 4).permute(3, 2, 1, 0)])
def test_axes_in_the_order_of_memory(make: Any) -> None:
    mine, other = make(lt), make(torch)
    assert mine.dim_order() == other.dim_order()
    for check in ("True", "[T.contiguous_format, T.channels_last]", "'other'", "False"):
        results = []
        for library, x in ((lt, mine), (torch, other)):
            try:
                results.append(x.dim_order(ambiguity_check=eval(check, {"T": library})))
            except (RuntimeError, TypeError):
                results.append(None)
        assert results[0] == results[1], check


def test_a_lazy_convolution_says_what_shape_it_is_for() -> None:
    with pytest.raises(lt.ShapeError, match=r"LazyConv2d of shape \(3,\)"):
        lt.nn.LazyConv2d(2, 2)(lt.ones(3))


@pytest.mark.parametrize("use", [
    lambda p: p + 1, lambda p: 1 - p, lambda p: p.sum(), lambda p: lt.add(p, 1), lambda p: p.shape,
    lambda p: p.numel(), len, bool, lambda p: p[0], lambda p: p == 1, lambda p: p.tolist(),
    lambda p: lt.equal(p, lt.ones(1)), lt.nn.init.zeros_, lambda p: lt.ones(2, 3) @ p,
    lambda p: lt.stack([p, p])])
@pytest.mark.parametrize("kind", [lt.nn.UninitializedParameter, lt.nn.UninitializedBuffer])
def test_what_has_no_shape_yet_is_not_computed_with(kind: Any, use: Any) -> None:
    p = kind()
    with pytest.raises(lt.ShapeError, match=rf"{kind.__name__} has no shape .* materialize\(shape"):
        use(p)
    p.materialize((2,))
    with lt.no_grad():
        p.fill_(3.0)
    assert (p + 1).tolist() == [4.0, 4.0] and p.shape == (2,)


def test_a_list_shows_a_parameter_without_a_shape() -> None:
    assert str(lt.nn.ParameterList([lt.nn.UninitializedParameter()])).endswith("of size 0])")
