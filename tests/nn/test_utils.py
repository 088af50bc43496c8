"""nn.utils and nn.init without PyTorch: jitted, and mistakes explained."""
from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from mistakes import check_explained

import lazyten as lt
from lazyten import nn
from lazyten.nn import utils


def plain(made: nn.Module) -> nn.Module:
    return made


@pytest.mark.few(8)
@pytest.mark.parametrize("change", [
    plain, utils.parametrizations.weight_norm, utils.weight_norm, utils.parametrizations.
    spectral_norm, utils.spectral_norm, utils.parametrizations.orthogonal],
    ids=lambda f: f"{f.__module__}.{f.__name__}")
def test_a_jitted_step_clips_and_trains_what_is_computed(
        change: Callable[[Any], nn.Module], device: str) -> None:
    """Norms are of one call each; vectors of the power method move on."""
    lt.manual_seed(0)
    net = nn.Sequential(change(nn.Linear(3, 4)), nn.Tanh()).to(device)
    twin = copy.deepcopy(net)

    def stepper(model: nn.Sequential) -> Callable[[lt.Tensor], lt.Tensor]:
        optimizer = lt.optim.SGD(model.parameters(), lr=0.1)

        def step(x: lt.Tensor) -> lt.Tensor:
            optimizer.zero_grad()
            model(x).square().sum().backward()
            norm = utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            return norm
        return step
    at_once, jitted = stepper(net), lt.jit(stepper(twin))
    for n in range(4):
        x = lt.randn(5, 3, device=device) * (n + 1)
        assert jitted(x).item() == pytest.approx(at_once(x).item(), rel=1e-4)
    for (name, a), b in zip(net.state_dict().items(), twin.state_dict().values(), strict=True):
        np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-4, atol=1e-5, err_msg=name)


def test_the_greatest_singular_value_becomes_one() -> None:
    layer = utils.parametrizations.spectral_norm(nn.Linear(6, 4))
    assert np.linalg.norm(layer.eval().weight.detach().numpy(), 2) == pytest.approx(1, rel=0.05)


@pytest.mark.few(3)
@pytest.mark.parametrize("way", ["matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("sizes", [(4, 4), (3, 5), (5, 3)])
def test_an_orthogonal_weight_stays_one_while_it_trains(way: str, sizes: tuple[int, int]) -> None:
    lt.manual_seed(0)
    layer = utils.parametrizations.orthogonal(nn.Linear(*sizes), orthogonal_map=way)
    optimizer = lt.optim.Adam(layer.parameters(), lr=0.1)
    before = layer.weight.detach().clone()
    for _ in range(3):
        optimizer.zero_grad()
        layer(lt.ones(2, sizes[0])).square().sum().backward()
        optimizer.step()
    weight = layer.weight.detach().numpy()
    product = weight @ weight.T if weight.shape[0] < weight.shape[1] else weight.T @ weight
    np.testing.assert_allclose(product, np.eye(min(sizes)), atol=1e-5)
    assert np.abs(weight - before.numpy()).max() > 0.05


def test_an_orthogonal_weight_is_kept_where_it_is_one() -> None:
    layer = nn.Linear(3, 3)
    nn.init.orthogonal_(layer.weight)
    before = layer.weight.detach().clone()
    assert utils.parametrizations.orthogonal(layer).weight.allclose(before, atol=1e-6)


def test_a_copy_keeps_its_parametrization_when_the_other_loses_it() -> None:
    layer = utils.parametrizations.weight_norm(nn.Linear(3, 2))
    twin = copy.deepcopy(layer)
    value = layer.weight.tolist()
    utils.parametrize.remove_parametrizations(layer, "weight")
    assert type(layer) is nn.Linear and layer.weight.tolist() == value
    assert twin.weight.tolist() == value and utils.parametrize.is_parametrized(twin)


def test_skip_init_makes_the_module() -> None:
    assert repr(utils.skip_init(nn.Linear, 3, 2)) == repr(nn.Linear(3, 2))


def fused(train: bool, **options: bool) -> Any:
    return utils.fuse_conv_bn_eval(nn.Conv1d(2, 3, 1).train(train),
                                   nn.BatchNorm1d(3, **options).train(train))


BAD: dict[str, tuple[Callable[[], Any], type[Exception], list[str]]] = {
    "clip_grad_norm_ of words": (
        lambda: utils.clip_grad_norm_(["a"], 1.0), lt.DTypeError, ["'a'", "parameters()"]),
    "parameters_to_vector of none": (
        lambda: utils.parameters_to_vector(iter([])), lt.ArgumentError, ["no parameters"]),
    "vector_to_parameters of a short vector": (
        lambda: utils.vector_to_parameters(lt.ones(3), [lt.ones(2, 2)]), lt.ShapeError,
        ["(3,)", "4 elements"]),
    "vector_to_parameters of a list": (
        lambda: utils.vector_to_parameters([1.0], [lt.ones(1)]), lt.DTypeError, ["list"]),
    "weight_norm of what is not there": (
        lambda: utils.parametrizations.weight_norm(nn.Linear(2, 2), "scale"),
        lt.ModuleAttributeError, ["Linear", "'scale'"]),
    "weight_norm twice": (
        lambda: utils.weight_norm(utils.weight_norm(nn.Linear(2, 2))), lt.ArgumentError,
        ["'weight'", "already"]),
    "orthogonal of what is not there": (
        lambda: utils.parametrizations.orthogonal(nn.Linear(2, 2), "scale"),
        lt.ModuleAttributeError, ["'scale'"]),
    "orthogonal of a vector": (
        lambda: utils.parametrizations.orthogonal(nn.Linear(2, 2), "bias"), lt.ShapeError,
        ["orthogonal", "(2,)"]),
    "orthogonal by another map": (
        lambda: utils.parametrizations.orthogonal(nn.Linear(2, 2), orthogonal_map="qr"),
        lt.ArgumentError, ["'qr'", "'cayley'"]),
    "an orthogonal weight that is set": (
        lambda: setattr(utils.parametrizations.orthogonal(
            nn.Linear(2, 2), use_trivialization=False), "weight", lt.eye(2)),
        NotImplementedError, ["matrix_exp", "use_trivialization"]),
    "an orthogonal weight of another shape": (
        lambda: setattr(utils.parametrizations.orthogonal(nn.Linear(2, 2)), "weight", lt.eye(3)),
        lt.ShapeError, ["(2, 2)", "(3, 3)"]),
    "spectral_norm of no iterations": (
        lambda: utils.spectral_norm(nn.Linear(2, 2), n_power_iterations=0), lt.ArgumentError,
        ["n_power_iterations=0"]),
    "no weight_norm to remove": (
        lambda: utils.remove_weight_norm(nn.Linear(2, 2)), lt.ArgumentError, ["'weight'"]),
    "no spectral_norm to remove": (
        lambda: utils.remove_spectral_norm(nn.Linear(2, 2)), lt.ArgumentError, ["'weight'"]),
    "no original to go back to": (
        lambda: utils.parametrize.remove_parametrizations(
            utils.parametrizations.weight_norm(nn.Linear(2, 2)), "weight", False),
        lt.ArgumentError, ["2 tensors", "leave_parametrized"]),
    "fused layers in training": (lambda: fused(True), lt.ArgumentError, ["eval()"]),
    "a fused normalization without statistics": (
        lambda: fused(False, track_running_stats=False), lt.ArgumentError, ["running statistics"]),
    "skip_init of a class without a device": (
        lambda: utils.skip_init(nn.ReLU), lt.ArgumentError, ["ReLU", "device"]),
    "eye_ of a vector": (lambda: nn.init.eye_(lt.ones(3)), lt.ShapeError, ["eye_", "(3,)"]),
    "dirac_ of a matrix": (lambda: nn.init.dirac_(lt.ones(3, 3)), lt.ShapeError, ["dirac_"]),
    "dirac_ of groups that do not divide": (
        lambda: nn.init.dirac_(lt.ones(3, 3, 3), 2), lt.ArgumentError, ["groups=2"]),
    "orthogonal_ of a vector": (
        lambda: nn.init.orthogonal_(lt.ones(3)), lt.ShapeError, ["orthogonal_", "2 axes"]),
    "sparse_ of a vector": (lambda: nn.init.sparse_(lt.ones(3), 0.1), lt.ShapeError, ["sparse_"]),
    "a gain of a word": (
        lambda: nn.init.calculate_gain("leaky_relu", "a"), lt.ArgumentError, ["'a'"]),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", BAD)
def test_mistakes_are_explained(name: str) -> None:
    check_explained(*BAD[name])


def test_a_parametrized_tensor_without_an_inverse_is_not_assigned() -> None:
    class Twice(nn.Module):
        def forward(self, value: lt.Tensor) -> lt.Tensor:
            return value * 2

    layer = nn.Linear(2, 2)
    before = layer.weight.tolist()
    utils.parametrize.register_parametrization(layer, "weight", Twice())
    with pytest.raises(RuntimeError, match="Twice has no right_inverse"):
        layer.weight = lt.ones(2, 2)
    assert layer.parametrizations.weight.original.tolist() == before
    with pytest.raises(ValueError, match="no parametrization of 'bias'"):
        utils.parametrize.remove_parametrizations(layer, "bias")
