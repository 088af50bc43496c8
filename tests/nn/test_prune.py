"""Pruned weights: beside PyTorch's, jitted, copied, drawn by chance, and mistakes explained."""
from __future__ import annotations

import copy
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from mistakes import check_explained
from torch_if_there import torch
from utils_checks import filled, numbers

import lazyten as lt
from lazyten import nn
from lazyten.nn.utils import prune


def net(T: Any) -> Any:
    return filled(T, T.nn.Sequential(T.nn.Conv2d(2, 4, 3), T.nn.ReLU(), T.nn.Flatten(),
                                     T.nn.Linear(4, 6)))


def trained(T: Any, model: Any, optimizer: Any, steps: int) -> None:
    for i in range(steps):
        optimizer.zero_grad()
        model(numbers(T, 2, 2, 3, 3, seed=i)).square().sum().backward()
        optimizer.step()
    model(numbers(T, 2, 2, 3, 3))  # PyTorch computes what is pruned when the module is called


def pruned_trained_and_made_ordinary(T: Any) -> list[Any]:
    """The optimizer is there before, during and after."""
    p, model = import_module(f"{T.__name__}.nn.utils.prune"), net(T)
    optimizer = T.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    p.l1_unstructured(model[0], "weight", 0.3)
    p.ln_structured(model[0], name="weight", amount=0.5, n=2, dim=0)
    p.l1_unstructured(model[0], "bias", 1)
    p.l1_unstructured(model[3], "weight", amount=5)
    p.l1_unstructured(model[3], "weight", amount=0.4)
    trained(T, model, optimizer, 3)
    found = [model.state_dict(), model[0].weight, model[3].weight, model[0].weight_orig.grad,
             [n for n, _ in model.named_parameters()], p.is_pruned(model)]
    for part, name in ((model[0], "weight"), (model[0], "bias"), (model[3], "weight")):
        p.remove(part, name)
    trained(T, model, optimizer, 2)
    return [*found, p.is_pruned(model), model.state_dict(), model[0].weight.is_leaf]


def pruned_together_and_by_a_method_of_ones_own(T: Any) -> list[Any]:
    p, model = import_module(f"{T.__name__}.nn.utils.prune"), net(T)
    pairs = ((model[0], "weight"), (model[3], "weight"), (model[3], "bias"))
    p.global_unstructured(pairs, pruning_method=p.L1Unstructured, amount=0.3)
    p.global_unstructured(pairs, p.L1Unstructured, amount=10)
    p.global_unstructured(pairs, p.L1Unstructured, amount=0.2, importance_scores={
        pairs[1]: T.arange(24.0, dtype=T.float64).reshape(6, 4)})

    class EverySecond(p.BasePruningMethod):  # type: ignore[misc, name-defined]
        PRUNING_TYPE = "unstructured"

        def compute_mask(self, t: Any, default_mask: Any) -> Any:
            mask = default_mask.clone()
            mask.view(-1)[::2] = 0
            return mask

    p.l1_unstructured(model[0], "weight", 20, importance_scores=numbers(T, 4, 2, 3, 3, seed=9))
    EverySecond.apply(model[0], "weight")
    EverySecond.apply(model[0], "bias")
    p.custom_from_mask(model[3], "weight", T.tensor([[1, 0, 1, 1]] * 6))
    p.identity(model[0], "bias")
    model(numbers(T, 2, 2, 3, 3))
    return [model.state_dict(), model[0].weight, model[3].weight,
            p.L1Unstructured(amount=2).prune(numbers(T, 3, 3)),
            p.LnStructured(1, float("inf"), 1).prune(numbers(T, 3, 4))]


def same(mine: Any, theirs: Any) -> None:
    if isinstance(theirs, dict):
        assert list(mine) == list(theirs)
        mine, theirs = list(mine.values()), list(theirs.values())
    if isinstance(theirs, list):
        for a, b in zip(mine, theirs, strict=True):
            same(a, b)
    elif isinstance(theirs, torch.Tensor):
        np.testing.assert_allclose(mine.detach().numpy(), theirs.detach().numpy(), 1e-11, 1e-12)
    else:
        assert mine == theirs


@pytest.mark.torch
@pytest.mark.parametrize("program", [pruned_trained_and_made_ordinary,
                                     pruned_together_and_by_a_method_of_ones_own])
def test_a_program_that_prunes_does_what_it_does_with_torch(program: Callable[[Any], Any]) -> None:
    same(program(lt), program(torch))


def test_a_jitted_step_trains_what_is_left(device: str) -> None:
    model = net(lt).to(device)
    prune.l1_unstructured(model[3], "weight", 0.5)
    twin = copy.deepcopy(model)

    def stepper(model: Any) -> Callable[[lt.Tensor], None]:
        optimizer = lt.optim.Adam(model.parameters(), lr=0.1)

        def step(x: lt.Tensor) -> None:
            optimizer.zero_grad()
            model(x).square().sum().backward()
            optimizer.step()
        return step
    eager, jitted = stepper(model), lt.jit(stepper(twin))
    before = model[3].weight.detach().numpy()
    for i in range(3):
        x = numbers(lt, 2, 2, 3, 3, seed=i).to(device)
        eager(x)
        jitted(x)
    after = model[3].weight.detach().numpy()
    assert ((before == 0) == (after == 0)).all() and (before == 0).sum() == 12
    assert not np.array_equal(before, after)
    np.testing.assert_allclose(twin[3].weight.detach().numpy(), after, 1e-12)


def test_a_copy_stays_pruned_when_the_other_does_not() -> None:
    layer = nn.Linear(4, 3)
    prune.l1_unstructured(layer, "weight", 6)
    other = copy.deepcopy(layer)
    prune.remove(layer, "weight")
    assert not prune.is_pruned(layer) and prune.is_pruned(other)
    assert list(other.state_dict()) == ["bias", "weight_orig", "weight_mask"]
    assert other.weight.tolist() == layer.weight.tolist()


def test_chance_prunes_that_many_of_what_is_left() -> None:
    lt.manual_seed(0)
    layer = nn.Linear(10, 8)
    prune.random_unstructured(layer, "weight", 0.25)
    first = layer.weight_mask.bool().numpy()
    assert first.sum() == 60
    prune.random_unstructured(layer, "weight", 30)
    second = layer.weight_mask.bool().numpy()
    assert second.sum() == 30 and not (second & ~first).any()
    rows = nn.Linear(10, 8)
    for left in (6, 3):
        prune.random_structured(rows, "weight", 2 if left == 6 else 0.5, dim=0)
        sums = rows.weight_mask.sum(1)
        assert sorted(sums.tolist()) == [0] * (8 - left) + [10] * left


class Shrunk(prune.BasePruningMethod):
    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: lt.Tensor, default_mask: lt.Tensor) -> lt.Tensor:
        return default_mask[0]


BAD: dict[str, tuple[Callable[[], Any], type[Exception], list[str]]] = {
    "a share above 1": (lambda: prune.l1_unstructured(nn.Linear(2, 2), "weight", 1.5),
                        lt.ArgumentError, ["amount=1.5", "from 0 to 1"]),
    "more than there is": (lambda: prune.l1_unstructured(nn.Linear(2, 2), "weight", 5),
                           lt.ArgumentError, ["amount=5", "the 4"]),
    "what is not there": (lambda: prune.identity(nn.Linear(2, 2), "scale"),
                          lt.ModuleAttributeError, ["Linear", "'scale'"]),
    "what is not pruned": (lambda: prune.remove(nn.Linear(2, 2), "weight"), lt.ArgumentError,
                           ["'weight'", "not pruned"]),
    "places of a vector": (lambda: prune.ln_structured(nn.Linear(2, 2), "bias", 1, 2, 0),
                           lt.ShapeError, ["(2,)", "L1Unstructured"]),
    "a mask of another shape": (
        lambda: prune.custom_from_mask(nn.Linear(2, 2), "weight", lt.ones(2)), lt.ShapeError,
        ["(2,)", "(2, 2)"]),
    "a method that gives another shape": (lambda: Shrunk.apply(nn.Linear(2, 2), "weight"),
                                          lt.ShapeError, ["Shrunk", "(2,)"]),
    "places of several tensors": (
        lambda: prune.global_unstructured([(nn.Linear(2, 2), "weight")], prune.LnStructured,
                                          amount=1, n=2), lt.DTypeError, ["'structured'"]),
    "nothing at all": (lambda: prune.global_unstructured([], prune.L1Unstructured, amount=1),
                       lt.ArgumentError, ["no tensors"]),
    "what is computed": (
        lambda: prune.identity(nn.utils.weight_norm(nn.Linear(2, 2)), "weight"), lt.ArgumentError,
        ["'weight'", "computed"]),
    "no method": (lambda: prune.PruningContainer().add_pruning_method(None), lt.DTypeError,
                  ["None", "L1Unstructured"]),
}


@pytest.mark.parametrize("name", BAD)
def test_mistakes_are_explained(name: str) -> None:
    check_explained(*BAD[name])


def test_a_mistake_leaves_the_layer_as_it_was() -> None:
    layer = nn.Linear(2, 2)
    with pytest.raises(lt.ShapeError):
        Shrunk.apply(layer, "weight")
    assert [n for n, _ in layer.named_parameters()] == ["weight", "bias"]
    assert not prune.is_pruned(layer)
