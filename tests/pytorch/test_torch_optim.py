"""Optimizers beside PyTorch's: 50 steps on a small problem, with every option."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tensor_values import counted_plans

import lazyten as lt

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.torch

RNG = np.random.default_rng(0)
INPUT, TARGET = RNG.normal(size=(16, 3)), RNG.normal(size=(16, 2))
WEIGHT, BIAS = RNG.normal(size=(3, 2)), RNG.normal(size=(2,))
STEPS = 50

Options = dict[str, Any]
OPTIONS: dict[str, list[Options]] = {
    "SGD": [{"lr": 0.1}, {"lr": 0.05, "momentum": 0.9},
            {"lr": 0.05, "momentum": 0.9, "nesterov": True, "maximize": True},
            {"lr": 0.05, "momentum": 0.8, "dampening": 0.3, "foreach": True},
            {"lr": 0.05, "momentum": 0.8, "dampening": 1.0}, {"lr": 0.1, "weight_decay": 0.2},
            {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.1, "nesterov": True}],
    "Adam": [{"lr": 0.02}, {"lr": 0.02, "betas": (0.5, 0.8), "eps": 1e-3},
             {"lr": 0.02, "weight_decay": 0.3}, {"lr": 0.02, "betas": (0.0, 0.9)},
             {"lr": 0.1, "amsgrad": True}, {"lr": 0.02, "maximize": True, "fused": False},
             {"lr": 0.02, "weight_decay": 0.3, "decoupled_weight_decay": True}],
    "AdamW": [{"lr": 0.02}, {"lr": 0.02, "weight_decay": 0.5, "amsgrad": True, "foreach": False}],
    "Adamax": [{"lr": 0.02}, {"betas": (0.5, 0.9), "weight_decay": 0.1, "maximize": True}],
    "NAdam": [{"lr": 0.02}, {"lr": 0.02, "momentum_decay": 0.1, "weight_decay": 0.1},
              {"lr": 0.02, "weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True}],
    "RAdam": [{"lr": 0.02}, {"lr": 0.02, "betas": (0.8, 0.9), "weight_decay": 0.1},
              {"lr": 0.02, "weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True}],
    "Adagrad": [{"lr": 0.1}, {"lr": 0.1, "lr_decay": 0.05, "weight_decay": 0.1,
                              "initial_accumulator_value": 0.2, "maximize": True}],
    "Adadelta": [{}, {"lr": 0.5, "rho": 0.5, "eps": 1e-3, "weight_decay": 0.1, "maximize": True}],
    "RMSprop": [{}, {"momentum": 0.9, "lr": 1e-3}, {"centered": True, "alpha": 0.8},
                {"centered": True, "momentum": 0.5, "weight_decay": 0.1, "maximize": True}],
    "Rprop": [{}, {"etas": (0.3, 1.5), "step_sizes": (1e-3, 0.02), "maximize": True}],
    "ASGD": [{"lr": 0.1}, {"lr": 0.05, "lambd": 0.1, "alpha": 0.5, "t0": 10, "weight_decay": 0.1,
                           "maximize": True}],
    "Adafactor": [{"lr": 0.05}, {"lr": 0.2, "weight_decay": 0.1, "eps": (1e-3, 0.1), "d": 2.0,
                                 "beta2_decay": -0.5, "maximize": True}],
}
CASES = [(name, options) for name, sets in OPTIONS.items() for options in sets]


def tensors(library: Any, dtype: str, device: str) -> tuple[Any, ...]:
    where = {} if library is torch else {"device": device}
    made = [library.tensor(a, dtype=getattr(library, dtype), **where)
            for a in (WEIGHT, BIAS, INPUT, TARGET)]
    return made[0].requires_grad_(), made[1].requires_grad_(), *made[2:]


def losses(library: Any, optimizer: str, options: Options, groups: Any = lambda w, b: [w, b],
           dtype: str = "float64", device: str = "interpreter",
           jit: bool = False) -> tuple[list[float], list[Any], list[object], Any]:
    """The losses of each step and the parameters at the end, where the rate halves midway; plans
    that were made after the second step; and the optimizer."""
    weight, bias, x, y = tensors(library, dtype, device)
    opt = getattr(library.optim, optimizer)(groups(weight, bias), **options)

    def step() -> Any:
        opt.zero_grad()
        loss = ((x @ weight + bias - y) ** 2).mean()
        loss.backward()
        opt.step()
        return loss.detach()

    run = lt.jit(step) if jit else step
    found = [run().item() for _ in range(2)]
    with counted_plans() as made:
        for number in range(2, STEPS):
            if number == STEPS // 2:
                for group in opt.param_groups:
                    group["lr"] /= 2
            found.append(run().item())
    return found, [t.detach().numpy() for t in (weight, bias)], made, opt


def state_of(opt: Any) -> dict[Any, Any]:
    """A state_dict() of arrays."""
    saved = opt.state_dict()
    arrays = {i: {k: v.numpy() for k, v in s.items() if v is not None}
              for i, s in saved["state"].items()}
    return {"state": {i: s for i, s in arrays.items() if s}, "groups": saved["param_groups"]}


def assert_alike(mine: Any, other: Any, rtol: float, atol: float) -> None:
    np.testing.assert_allclose(mine[0], other[0], rtol=rtol)
    for a, b in zip(mine[1], other[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol * 10, atol=atol)
    states, others = state_of(mine[3]), state_of(other[3])
    assert states["groups"] == others["groups"]
    assert states["state"].keys() == others["state"].keys()
    for number, found in others["state"].items():
        assert states["state"][number].keys() == found.keys()
        for name, value in found.items():
            a = states["state"][number][name]
            assert a.shape == value.shape and a.dtype == value.dtype, name
            np.testing.assert_allclose(a, value, rtol=rtol * 100, atol=atol, err_msg=name)


@pytest.mark.parametrize(("optimizer", "options"), CASES)
def test_fifty_steps_are_torchs(optimizer: str, options: Options) -> None:
    mine, other = (losses(library, optimizer, options) for library in (lt, torch))
    assert not mine[2], "a step is compiled once"
    rough = optimizer in ("ASGD", "NAdam")  # they keep numbers in 32 bits
    assert_alike(mine, other, 1e-9 if rough else 1e-10, 1e-9 if rough else 1e-12)


@pytest.mark.parametrize("jit", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("optimizer", OPTIONS)
def test_fifty_steps_in_32_bits_are_torchs(optimizer: str, jit: bool) -> None:
    options = OPTIONS[optimizer][-1]
    mine = losses(lt, optimizer, options, dtype="float32", device="cpu", jit=jit)
    assert not mine[2], "a step is compiled once"
    assert_alike(mine, losses(torch, optimizer, options, dtype="float32"), 2e-4, 2e-5)


def test_parameter_groups_have_their_own_options() -> None:
    def groups(w: Any, b: Any) -> list[dict[str, Any]]:
        return [{"params": [("w", w)], "lr": 0.01}, {"params": [("b", b)], "momentum": 0.5}]

    mine, other = (losses(library, "SGD", {"lr": 0.1}, groups) for library in (lt, torch))
    assert_alike(mine, other, 1e-10, 1e-12)
    assert repr(mine[3]).replace(": 0.0\n", ": 0\n") == repr(other[3])


@pytest.mark.parametrize("options", [{}, {"nesterov": False, "adjust_lr_fn": "match_rms_adamw"}])
def test_muons_directions_are_torchs(options: Options) -> None:
    """Both orthogonalize in bfloat16, which leaves two digits of a direction."""
    gradients = RNG.normal(size=(3, 4, 6))
    values = []
    for library in (lt, torch):
        p = library.tensor(gradients[0].astype("f"), requires_grad=True)
        opt = library.optim.Muon([p], lr=0.1, **options)
        for gradient in gradients:
            p.grad = library.tensor(gradient.astype("f"))
            opt.step()
        values.append(p.detach().numpy())
    np.testing.assert_allclose(*values, atol=0.01)


@pytest.mark.parametrize("options", [
    {"line_search_fn": "strong_wolfe"}, {"line_search_fn": "strong_wolfe", "history_size": 2},
    {"lr": 0.01, "max_iter": 12}, {"lr": 0.5, "max_iter": 4, "history_size": 3},
    {"tolerance_grad": 1.0},
    {"line_search_fn": "strong_wolfe", "max_eval": 3}, {"lr": 2e-3, "max_iter": 6}])
def test_lbfgs_is_torchs(options: Options) -> None:
    found = []
    for library in (lt, torch):
        where = {} if library is torch else {"device": "interpreter"}
        p, q = (library.tensor(v, dtype=library.float64, **where).requires_grad_()
                for v in ([-1.5, 1.0], [[0.3], [2.0]]))
        opt = library.optim.LBFGS([p, q], **options)
        evaluated: list[float] = []

        def closure(p: Any = p, q: Any = q, opt: Any = opt,
                    evaluated: list[float] = evaluated) -> Any:
            opt.zero_grad()
            loss = (1 - p[0]) ** 2 + 5 * (p[1] - p[0] ** 2) ** 2 + (q - p[1]).square().sum() ** 2
            loss.backward()
            evaluated.append(loss.item())
            return loss

        for _ in range(2):
            opt.step(closure)
        state = opt.state_dict()["state"][0]
        found.append((evaluated, p.tolist(), state["n_iter"], state["func_evals"]))
    assert len(found[0][0]) == len(found[1][0])
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-6)
    assert found[0][2:] == found[1][2:]


@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "RMSprop", "NAdam", "Adafactor"])
def test_a_state_of_pytorchs_is_gone_on_from(optimizer: str) -> None:
    options = {"momentum": 0.9, "lr": 0.01} if optimizer in ("SGD", "RMSprop") else {"lr": 0.01}
    _, (weight, bias), _, theirs = losses(torch, optimizer, options)
    p, q = (lt.tensor(np.array(v), requires_grad=True) for v in (weight, bias))
    mine = getattr(lt.optim, optimizer)([p, q])
    saved = theirs.state_dict()
    saved["state"] = {i: {k: lt.tensor(v.numpy()) for k, v in s.items()}
                      for i, s in saved["state"].items()}
    mine.load_state_dict(saved)
    for a, b in zip((p, q), theirs.param_groups[0]["params"], strict=True):
        a.grad, b.grad = lt.ones_like(a), torch.ones_like(b)
    for opt in (mine, theirs):
        opt.step()
    np.testing.assert_allclose(p.tolist(), weight, rtol=1e-12)
    np.testing.assert_allclose(q.tolist(), bias, rtol=1e-12)


@pytest.mark.parametrize("optimizer", ["NAdam", "ASGD", "Adam"])
def test_numbers_of_a_state_are_as_exact_as_the_default_type(optimizer: str) -> None:
    options = {"lr": 0.1, "lambd": 0.3, "t0": 2.0} if optimizer == "ASGD" else {"lr": 0.1}
    found = []
    for library in (torch, lt):
        library.set_default_dtype(library.float64)
        try:
            values, parameters, _, opt = losses(library, optimizer, options)
            kinds = {name: str(value.dtype).split(".")[-1]
                     for name, value in opt.state_dict()["state"][0].items()}
        finally:
            library.set_default_dtype(library.float32)
        found.append((values, parameters, kinds))
    (expected, theirs, kinds), (values, mine, own) = found
    assert own == kinds
    np.testing.assert_allclose(values, expected, rtol=1e-12)
    for a, b in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
