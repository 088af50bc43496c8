"""lt.func of modules, and with lt.jit; what transforms leave behind."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from lenet_steps import lenet
from tensor_values import counted_plans
from transformed import NUMBERS, close, double, draws, energy

import lazyten as lt
from lazyten import func
from lazyten.ir.node import toposort
from lazyten.ir.ops import Op
from lazyten.ir.unknown import Unknown
from lazyten.nn import functional as F

Array = np.ndarray[Any, Any]
pytestmark = pytest.mark.usefixtures("on_each_device")


# ---- models --------------------------------------------------------------------------------------

def test_functional_call_uses_other_parameters_and_leaves_the_module_alone() -> None:
    lt.manual_seed(0)
    model = lt.nn.Sequential(lt.nn.Linear(3, 2), lt.nn.Tanh())
    before = dict(model.named_parameters())
    x = lt.randn(4, 3)
    found = func.functional_call(model, {"0.weight": lt.zeros(2, 3)}, (x,))
    close(found, np.tile(np.tanh(before["0.bias"].detach().numpy()), (4, 1)), 1e-6)
    assert all(p is before[n] for n, p in model.named_parameters())
    assert model[0].weight is before["0.weight"]
    with pytest.raises(lt.ShapeError):
        func.functional_call(model, {"0.weight": lt.zeros(2, 9)}, x)
    assert model[0].weight is before["0.weight"]


def test_a_module_has_other_parameters_within_a_block() -> None:
    model = lt.nn.Linear(3, 2)
    before = model.weight
    with pytest.raises(KeyError), func._reparametrize_module(model, {"weight": lt.zeros(2, 3)}):
        close(model(lt.ones(1, 3))[0], model.bias.detach().numpy())  # type: ignore[union-attr]
        raise KeyError
    assert model.weight is before


def test_functional_call_passes_over_names_that_a_layer_does_not_have_unless_it_is_strict() -> None:
    model = lt.nn.Sequential(lt.nn.Linear(2, 1, bias=False))
    tensors = {"0.weight": lt.ones(1, 2), "0.other": lt.zeros(3)}
    assert func.functional_call(model, tensors, lt.ones(2)).tolist() == [2]
    with pytest.raises(lt.StateError, match=r"Sequential has no parameter or buffer '0\.other'"):
        func.functional_call(model, tensors, lt.ones(2), strict=True)
    with pytest.raises(lt.StateError, match=r"Sequential has no layer '1' of '1\.weight'"):
        func.functional_call(model, {"1.weight": lt.ones(1, 2)}, lt.ones(2))


def test_functional_call_takes_several_dicts_and_ties_weights() -> None:
    model = lt.nn.ModuleDict({"a": lt.nn.Linear(2, 2), "b": lt.nn.Linear(2, 2)})
    model["b"].weight = model["a"].weight
    model.forward = lambda x: model["b"](model["a"](x))  # type: ignore[method-assign]
    twos = {"a.weight": 2 * lt.eye(2)}
    zeros = {"a.bias": lt.zeros(2), "b.bias": lt.zeros(2)}
    x = lt.ones(1, 2)
    assert func.functional_call(model, (twos, zeros), x).tolist() == [[4, 4]]
    one = func.functional_call(model, [twos, zeros, {"b.weight": lt.eye(2)}], (x,))
    assert one.tolist() == [[2, 2]]
    with pytest.raises(lt.StateError, match="in two of the dicts"):
        func.functional_call(model, (twos, twos), x)
    with pytest.raises(lt.StateError, match=r"strict, and a\.bias, b\.bias of ModuleDict"):
        func.functional_call(model, twos, x, strict=True)


def test_states_that_do_not_fit_are_not_stacked() -> None:
    params, buffers = func.stack_module_state([lt.nn.BatchNorm1d(2) for _ in range(3)])
    assert params["weight"].shape == (3, 2) and params["weight"].requires_grad
    assert buffers["num_batches_tracked"].shape == (3,)
    for wrong, models in (("no modules", []), ("one class", [lt.nn.ReLU(), lt.nn.Tanh()]),
                          ("one class", [lt.nn.ReLU(), lt.nn.ReLU().eval()]),
                          ("requires gradients in some",
                           [lt.nn.Linear(1, 1), lt.nn.Linear(1, 1).requires_grad_(False)])):
        with pytest.raises(lt.ArgumentError, match=wrong):
            func.stack_module_state(models)


def per_example(model: lt.nn.Module) -> Callable[..., Any]:
    def loss(parameters: dict[str, lt.Tensor], image: lt.Tensor, label: lt.Tensor) -> lt.Tensor:
        logits = func.functional_call(model, parameters, image.unsqueeze(0))
        return F.cross_entropy(logits, label.unsqueeze(0))

    return func.vmap(func.grad(loss), in_dims=(None, 0, 0))


@pytest.mark.few(1)
def test_gradients_of_each_example_are_those_of_a_loop() -> None:
    lt.manual_seed(0)
    model = lenet(lt.nn)
    images, labels = lt.randn(3, 1, 28, 28), lt.tensor([1, 7, 3])
    parameters = {n: p.detach() for n, p in model.named_parameters()}
    found = per_example(model)(parameters, images, labels)
    for i in range(3):
        model.zero_grad()
        F.cross_entropy(model(images[i:i + 1]), labels[i:i + 1]).backward()
        for name, p in model.named_parameters():
            assert p.grad is not None
            np.testing.assert_allclose(found[name][i].numpy(), p.grad.numpy(), rtol=1e-4,
                                       atol=1e-6)


# ---- with jit ------------------------------------------------------------------------------------

TRANSFORMED: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "grad": lambda f: func.grad(lambda x: f(x).sum()),
    "value_and_grad": lambda f: func.value_and_grad(lambda x: f(x).sum()),
    "vjp": lambda f: lambda x: func.vjp(f, x)[1](x * 2),
    "jvp": lambda f: lambda x: func.jvp(f, (x,), (x * 2,)),
    "linearize": lambda f: lambda x: func.linearize(f, x)[1](x * 2),
    "jacrev": func.jacrev,
    "jacfwd": func.jacfwd,
    "hessian": lambda f: func.hessian(lambda x: f(x).sum()),
    "vmap": func.vmap,
    "vmap grad": lambda f: func.vmap(func.grad(lambda x: f(x).sum())),
    "jvp grad": lambda f: lambda x: func.jvp(func.grad(lambda x: f(x).sum()), (x,), (x,)),
    "grad vmap": lambda f: func.grad(lambda x: func.vmap(f)(x).sum()),
    "vmap jacfwd vmap": lambda f: func.vmap(func.jacfwd(func.vmap(f))),
}


def flat(value: Any) -> list[Array]:
    return [value.numpy()] if isinstance(value, lt.Tensor) else [a for v in value for a in flat(v)]


@pytest.mark.few(14)
@pytest.mark.parametrize("name", TRANSFORMED)
def test_jit_of_each_is_the_same_as_no_jit_and_so_is_each_of_jit(name: str) -> None:
    def smooth(x: lt.Tensor) -> lt.Tensor:
        own = x.clone()
        own *= x.tanh()
        return (own.cumsum(0) * scale).sigmoid()

    scale = double(1.5)
    transform = TRANSFORMED[name]
    jitted = lt.jit(transform(smooth), check=True)
    inner = transform(lt.jit(smooth))
    for seed in range(3):
        shape = (2, 2, 2) if name == "vmap jacfwd vmap" else (3, 2)
        x = double(np.random.default_rng(seed).uniform(-1, 1, shape))
        expected = flat(transform(smooth)(x))
        for found in (flat(jitted(x)), flat(inner(x))):
            for a, b in zip(found, expected, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-14, atol=1e-15)
    assert jitted.cache_size == 1


def test_a_jitted_transform_is_traced_again_for_another_mode_of_a_layer() -> None:
    lt.manual_seed(0)
    layer = lt.nn.Sequential(lt.nn.Dropout(0.5))
    mapped = lt.jit(func.vmap(layer, randomness="different"))
    ones = lt.ones(4, 8)
    first, second = mapped(ones).numpy(), mapped(ones).numpy()
    assert not np.array_equal(first, second)
    assert len(np.unique(first, axis=0)) == 4
    layer.eval()
    close(mapped(ones), np.ones((4, 8)))


def test_jitted_random_numbers_go_on_as_without_jit() -> None:
    x = double(NUMBERS)
    plain = func.vmap(draws, randomness="different")
    jitted = lt.jit(plain)
    lt.manual_seed(4)
    expected = [plain(x).numpy() for _ in range(4)]
    lt.manual_seed(4)
    for e in expected:
        np.testing.assert_array_equal(jitted(x).numpy(), e)


def test_a_jitted_function_may_use_what_vjp_and_linearize_gave_outside() -> None:
    x, t = double(NUMBERS), double(NUMBERS[::-1].copy())
    pull = func.vjp(lambda x: x.sin() * x, x)[1]
    push = func.linearize(lambda x: x.sin() * x, x)[1]
    both = lt.jit(lambda t: pull(t)[0] + push(t))
    for scale in (1.0, 2.0):
        close(both(t * scale), pull(t * scale)[0] + push(t * scale))


def test_a_branch_under_vmap_in_a_jitted_function_is_an_error_too() -> None:
    def branches(x: lt.Tensor) -> lt.Tensor:
        return x if x > 0 else -x

    with pytest.raises(lt.LazytenError, match=r"test_func_models\.py:\d+"):
        lt.jit(func.vmap(branches))(double([1.0, 2.0]))


def test_a_training_step_with_clipped_gradients_of_each_example_under_jit() -> None:
    def loss(w: lt.Tensor, x: lt.Tensor, y: lt.Tensor) -> lt.Tensor:
        return ((w * x).sum() - y) ** 2

    def step(w: lt.Tensor, x: lt.Tensor, y: lt.Tensor) -> lt.Tensor:
        each = func.vmap(func.grad(loss), in_dims=(None, 0, 0))(w, x, y)
        norms = each.square().sum(1, keepdim=True).sqrt()
        return w - 0.05 * (each * (1.0 / norms).clamp(0.0, 1.0)).mean(0)

    x, truth = double(NUMBERS), double([1.0, -2.0, 0.5])
    y = x @ truth
    fast = lt.jit(step)
    a = b = double([0.0, 0.0, 0.0])
    for _ in range(5):
        a, b = step(a, x, y), fast(b, x, y)
        close(a, b)


# ---- what is left behind -------------------------------------------------------------------------

def test_no_stand_in_is_left_in_a_result() -> None:
    x = double(NUMBERS)
    found = [*func.vmap(func.value_and_grad(energy))(x), func.hessian(energy)(x[0]),
             *func.jvp(func.vmap(energy), (x,), (x,)), func.linearize(energy, x)[1](x),
             func.vmap(draws, randomness="different")(x)]
    for tensor in found:
        nodes = toposort([tensor.node])
        assert not [n for n in nodes if n.op is Op.LEAF]
        assert not [n for n in nodes if n.op is Op.BUFFER and isinstance(n.arg, Unknown)]
        assert not tensor.requires_grad


def test_the_second_call_of_a_transform_compiles_nothing() -> None:
    transformed = func.vmap(func.grad(energy))
    transformed(double(NUMBERS)).numpy()
    with counted_plans() as made:
        transformed(double(NUMBERS * 2)).numpy()
    assert not made


def test_a_method_can_be_transformed() -> None:
    class Model:
        scale = 3.0

        def loss(self, x: lt.Tensor) -> lt.Tensor:
            return (x * x).sum() * self.scale

        slope = func.grad(loss, argnums=1)

    close(Model().slope(double([1.0, 2.0])), [6, 12])
    close(func.grad(Model().loss)(double([1.0, 2.0])), [6, 12])
    assert func.grad(energy).__name__ == "energy"


def test_batch_norms_of_batches_alone_are_mapped_over() -> None:
    net = lt.nn.Sequential(lt.nn.Linear(3, 4), lt.nn.BatchNorm1d(4), lt.nn.BatchNorm1d(4))
    assert lt.func.replace_all_batch_norm_modules_(net) is net
    assert list(net.state_dict()) == ["0.weight", "0.bias", "1.weight", "1.bias", "2.weight",
                                      "2.bias"]
    x = lt.randn(2, 5, 3)
    found = lt.vmap(lambda x: lt.func.functional_call(net, dict(net.named_parameters()), (x,)))(x)
    assert found.allclose(lt.stack([net(x[0]), net(x[1])]), atol=1e-5)
