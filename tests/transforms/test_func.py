"""lt.func beside what is worked out by hand: gradients, and what Python does in a function."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tensor_values import counted_plans
from transformed import NUMBERS, close, double, energy

import lazyten as lt
from lazyten import func

pytestmark = pytest.mark.usefixtures("on_each_device")


# ---- gradients -----------------------------------------------------------------------------------

def test_grad_is_what_backward_gives() -> None:
    x = double(NUMBERS)
    leaf = double(NUMBERS).requires_grad_()
    energy(leaf).backward()
    found = func.grad(energy)(x)
    assert leaf.grad is not None
    close(found, leaf.grad)
    assert not found.requires_grad
    assert x.grad is None


def test_gradients_are_nested_as_arguments_are() -> None:
    def loss(parameters: dict[str, Any], x: lt.Tensor, power: int = 1) -> lt.Tensor:
        return ((parameters["w"] * x + parameters["rest"][0]) ** power).sum()

    x = double([1.0, 2.0])
    parameters = {"w": double([3.0, 4.0]), "rest": (double(1.0),)}
    first = func.grad(loss)(parameters, x)
    assert list(first) == ["w", "rest"]
    close(first["w"], [1, 2])
    close(first["rest"][0], 2)
    both = func.grad(loss, argnums=(1, 0))(parameters, x, power=2)
    close(both[0], [2 * 4 * 3, 2 * 9 * 4])
    close(both[1]["rest"][0], 2 * (4 + 9))
    close(func.grad(loss, argnums=-1)(parameters, x), [3, 4])


def test_what_a_function_gives_besides_comes_along() -> None:
    def loss(x: lt.Tensor) -> tuple[lt.Tensor, dict[str, Any]]:
        return (x * x).sum(), {"double": x * 2, "name": "a", "where": x.argmax()}

    x = double([1.0, 3.0])
    gradient, aux = func.grad(loss, has_aux=True)(x)
    close(gradient, [2, 6])
    close(aux["double"], [2, 6])
    assert aux["name"] == "a"
    assert aux["where"].item() == 1
    (value, aux), gradient = func.value_and_grad(loss, has_aux=True)(x)
    close(value, 10)
    close(gradient, [2, 6])
    gradient, (value, aux) = func.grad_and_value(loss, has_aux=True)(x)
    close(value, 10)
    value, gradient = func.value_and_grad(lambda x: loss(x)[0])(x)
    close(value, 10)
    gradient, value = func.grad_and_value(lambda x: loss(x)[0])(x)
    close(gradient, [2, 6])


def test_value_and_gradient_are_computed_together() -> None:
    value, gradient = func.value_and_grad(energy)(double(NUMBERS))
    with counted_plans() as made:
        value.realize()
        gradient.realize()
    assert len(made) <= 1


def test_an_argument_that_has_no_say_has_gradient_zero() -> None:
    found = func.grad(lambda x, y: x.sum(), argnums=(0, 1))(double([1.0, 2.0]), double([5.0]))
    close(found[1], [0])
    close(func.jacrev(lambda x, y: (x, x.detach()), argnums=1)(double([1.0]), double([5.0]))[0],
          [[0]])


def test_vjp_and_jvp_of_several_tensors() -> None:
    def both(x: lt.Tensor, y: lt.Tensor) -> dict[str, lt.Tensor]:
        return {"product": x * y, "sum": (x.exp()).sum()}

    x, y = double([1.0, 2.0]), double([3.0, 5.0])
    output, pull = func.vjp(both, x, y)
    close(output["product"], [3, 10])
    to_x, to_y = pull({"product": double([1.0, 10.0]), "sum": double(2.0)})
    close(to_x, np.array([3, 50]) + 2 * np.exp([1.0, 2.0]))
    close(to_y, [1, 20])
    output, slope = func.jvp(both, (x, y), (double([1.0, 0.0]), double([0.0, 7.0])))
    close(slope["product"], [3, 14])
    close(slope["sum"], np.e)
    one, = func.vjp(lambda x: x * 2, x)[1](y)
    close(one, [6, 10])
    output, slope, aux = func.jvp(lambda x: (x * x, x + 1), (x,), (y,), has_aux=True)
    close(slope, [6, 20])
    close(aux, [2, 3])
    output, pull, aux = func.vjp(lambda x: (x * x, x + 1), x, has_aux=True)
    close(aux, [2, 3])


def test_linearize_gives_a_linear_function_and_calls_the_function_once() -> None:
    calls = []

    def noted(x: lt.Tensor, y: lt.Tensor) -> lt.Tensor:
        calls.append(1)
        return (x * y).sin()

    x, y = double([1.0, 2.0]), double([3.0, 5.0])
    output, push = func.linearize(noted, x, y)
    close(output, np.sin([3.0, 10.0]))
    for seed in range(3):
        a, b = (double(np.random.default_rng(seed + i).normal(size=2)) for i in (0, 9))
        close(push(a, b), func.jvp(lambda x, y: (x * y).sin(), (x, y), (a, b))[1])
    assert len(calls) == 1
    outer = func.grad(lambda s: func.linearize(lambda x: x ** 3, s * x)[1](x).sum())(double(2.0))
    close(outer, np.sum(2 * 3 * 2 * np.array([1.0, 8.0])))


def test_later_writes_do_not_change_what_was_recorded() -> None:
    x, shared = double([1.0, 2.0]), double([3.0, 4.0])
    output, pull = func.vjp(lambda x: (x * x * shared, shared), x)
    _, push = func.linearize(lambda x: x * x * shared, x)
    x.fill_(9.0)
    shared.zero_()
    close(output[0], [3, 16])
    close(output[1], [3, 4])
    ones = double([1.0, 1.0])
    close(pull((ones, ones))[0], [6, 16])
    close(push(ones), [6, 16])
    output[0].zero_()
    close(pull((ones, ones))[0], [6, 16])


def test_what_is_given_besides_is_computed_with_the_gradient() -> None:
    gradient, aux = func.grad(lambda x: (energy(x), x.exp()), has_aux=True)(double(NUMBERS))
    with counted_plans() as made:
        gradient.realize()
        aux.realize()
    assert len(made) <= 1


def test_jacobians_and_hessians() -> None:
    def system(x: lt.Tensor, scale: lt.Tensor) -> tuple[lt.Tensor, lt.Tensor]:
        return (x.reshape(2, 2) @ x.reshape(2, 2)) * scale, x[:3].sum()

    x, scale = double([1.0, 2.0, -3.0, 0.5]), double(2.0)
    rev = func.jacrev(system, argnums=(0, 1))(x, scale)
    fwd = func.jacfwd(system, argnums=(0, 1))(x, scale)
    for a, b in zip(rev, fwd, strict=True):
        for left, right in zip(a, b, strict=True):
            close(left, right)
    assert [j.shape for row in rev for j in row] == [(2, 2, 4), (2, 2), (4,), ()]
    close(rev[1][0], [1, 1, 1, 0])
    matrix = func.hessian(lambda x: (x[0] * x[1] * x[1]).sin() + x[2] ** 4)(x)
    h = 1e-5
    steps = [double(h * row) for row in np.eye(4)]
    gradient = func.grad(lambda x: (x[0] * x[1] * x[1]).sin() + x[2] ** 4)
    expected = np.stack([((gradient(x + s) - gradient(x - s)) / (2 * h)).numpy() for s in steps])
    close(matrix, expected, 1e-8)


def test_a_hessian_vector_product_is_jvp_of_grad() -> None:
    x, v = double(NUMBERS), double(NUMBERS[::-1].copy())
    _, product = func.jvp(func.grad(energy), (x,), (v,))
    matrix = func.hessian(energy)(x)
    close(product, np.tensordot(matrix.numpy(), v.numpy(), 2))
    back, = func.vjp(func.grad(energy), x)[1](v)
    close(back, product)
    close(func.grad(lambda x: (func.grad(energy)(x) * v).sum())(x), product)


def test_nested_derivatives_do_not_confuse_their_levels() -> None:
    """d/dx x * (d/dy (x + y)) == 1 (Siskind and Pearlmutter's perturbation confusion)."""
    one = double(1.0)
    inner = lambda x: func.grad(lambda y: x + y)(one)  # noqa: E731
    close(func.grad(lambda x: x * inner(x))(one), 1)
    forward = lambda x: func.jvp(lambda y: x + y, (one,), (one,))[1]  # noqa: E731
    close(func.jvp(lambda x: x * forward(x), (one,), (one,))[1], 1)
    same = lambda x: func.grad(lambda y: x * y)(x)  # noqa: E731
    close(func.grad(same)(double(3.0)), 1)
    other = func.grad(lambda x: func.grad(lambda y: x * y)(one))
    close(other(double(3.0)), 1)
    third = func.grad(func.grad(func.grad(lambda x: x ** 5)))
    close(third(double(2.0)), 60 * 4)


# ---- with backward(), no_grad and Python ---------------------------------------------------------

def test_gradients_flow_through_a_transform_to_what_it_closes_over() -> None:
    w = double([2.0, 3.0]).requires_grad_()
    x = double([1.0, 4.0])
    penalty = func.grad(lambda x: (w * x * x).sum())(x).sum()
    assert penalty.requires_grad
    penalty.backward()
    assert w.grad is not None
    close(w.grad, [2, 8])
    mapped = func.vmap(lambda x: (w * x).sum())(double(NUMBERS[:, :2]))
    assert mapped.requires_grad
    gradient, = lt.grad(mapped.sum(), w)
    close(gradient, NUMBERS[:, :2].sum(0))
    leaf = double(NUMBERS).requires_grad_()
    first, = lt.grad(func.vmap(energy)(leaf).sum(), leaf)
    close(first, func.vmap(func.grad(energy))(double(NUMBERS)))


def test_no_grad_outside_does_not_matter_and_inside_it_does() -> None:
    x = double([2.0]).requires_grad_()
    with lt.no_grad():
        found = func.grad(lambda x: (x * x).sum())(x)
        mapped = func.vmap(lambda x: x * 2)(x)
    close(found, [4])
    assert not found.requires_grad
    assert not mapped.requires_grad

    def partly(x: lt.Tensor) -> lt.Tensor:
        with lt.no_grad():
            factor = x * 1
        return (x * factor).sum()

    close(func.grad(partly)(x), [2])
    close(func.jvp(partly, (x,), (double([1.0]),))[1], 4)  # forward mode goes on in no_grad()
    assert func.grad(partly)(x).requires_grad is False
    leaf, = lt.grad(func.vmap(partly)(x.reshape(1, 1)).sum(), x)
    close(leaf, [2])

    def through_a_gradient(x: lt.Tensor) -> lt.Tensor:
        slope = func.grad(lambda x: x * x)(x)
        with lt.no_grad():
            factor = slope * 1
        return x * factor

    leaf, = lt.grad(func.vmap(through_a_gradient)(x).sum(), x)
    close(leaf, [4])


def test_a_function_may_branch_on_values_that_it_can_read() -> None:
    def chosen(x: lt.Tensor) -> lt.Tensor:
        return (x * 3).sum() if x.sum() > 0 else x.sum()

    close(func.grad(chosen)(double([1.0])), [3])
    close(func.grad(chosen)(double([-1.0])), [1])
    close(func.jvp(chosen, (double([-1.0]),), (double([2.0]),))[1], 2)
    limit = double(2.0)
    found = func.vmap(lambda x: x * 2 if limit > 1 else x)(double([1.0, 5.0]))
    close(found, [2, 10])


@pytest.mark.parametrize("ask", [
    bool, float, lambda x: x.item(), lambda x: x.numpy(), print, lambda x: x.nonzero(),
    lambda x: x.exp().tolist()])
def test_a_value_that_differs_between_examples_cannot_be_read(ask: Callable[..., Any]) -> None:
    def reads(x: lt.Tensor) -> lt.Tensor:
        ask(x)
        return x

    for mapped in (func.vmap(reads), func.vmap(lambda x: func.grad(reads)(x)),
                   func.vmap(lambda x: reads(x * 2))):
        with pytest.raises(lt.TransformError, match=r"test_func\.py:\d+.*where\(\)"):
            mapped(double([1.0, 2.0]))


def test_a_branch_under_vmap_is_an_error_that_names_the_line() -> None:
    def branches(x: lt.Tensor) -> lt.Tensor:
        y = x.sin()
        if y > 0:
            return y
        return -y

    line = branches.__code__.co_firstlineno + 2
    with pytest.raises(lt.TransformError, match=rf"test_func\.py:{line} .*branch"):
        func.vmap(branches)(double([1.0, 2.0]))


def test_a_tensor_kept_from_a_function_under_vmap_has_no_value() -> None:
    kept = []

    def leaks(x: lt.Tensor) -> lt.Tensor:
        kept.append(x * 2)
        return x

    func.vmap(leaks)(double([1.0, 2.0]))
    with pytest.raises(lt.TransformError, match="each example"):
        kept[0].numpy()
    func.grad(lambda x: leaks(x).sum())(double([1.0, 2.0]))
    close(kept[1], [2, 4])


def in_place(x: lt.Tensor) -> lt.Tensor:
    """Writes to its own tensors, through views too."""
    total = lt.zeros(3, dtype=lt.float64)
    total += x
    total[1:].mul_(x[0])
    total[0] = total[1] * 2
    copy = x.clone()
    copy.clamp_(0.0)
    copy[lt.tensor([2, 0])] = x[:2]
    total.index_add_(0, lt.tensor([0, 0]), copy[:2])
    return total * copy


def same_without_writes(x: lt.Tensor) -> lt.Tensor:
    a, b, c = x[0], x[1], x[2]
    copy = lt.stack([b, b.clamp(0.0), a])
    second, third = b * a, c * a
    return lt.stack([second * 2 + copy[0] + copy[1], second, third]) * copy


def test_a_function_may_write_to_tensors_of_its_own() -> None:
    x = double(NUMBERS)
    for transform in (lambda f: func.vmap(f), lambda f: func.vmap(func.jacrev(f)),
                      lambda f: func.vmap(func.jacfwd(f)),
                      lambda f: func.jacrev(func.vmap(f))):
        close(transform(in_place)(x), transform(same_without_writes)(x))


@pytest.mark.parametrize("transform", [
    lambda f, x: func.vmap(f)(x), lambda f, x: func.grad(lambda x: f(x).sum())(x),
    lambda f, x: func.jvp(f, (x,), (x,)), lambda f, x: func.vjp(f, x),
    lambda f, x: func.jacrev(f)(x), lambda f, x: func.hessian(f)(x),
    lambda f, x: func.grad(lambda x: func.vmap(f)(x).sum())(x)])
@pytest.mark.parametrize("write", [
    lambda x, outer: outer.add_(1.0), lambda x, outer: outer[:1].copy_(x.sum()),
    lambda x, outer: x.mul_(2.0), lambda x, outer: outer.__setitem__(0, x.sum())])
def test_a_write_to_a_tensor_from_outside_is_an_error_and_not_done(
        transform: Callable[..., Any], write: Callable[..., Any]) -> None:
    outer, x = double([1.0, 2.0]), double([3.0, 4.0])

    def writes(x: lt.Tensor) -> lt.Tensor:
        write(x, outer)
        return x

    with pytest.raises(lt.TransformError, match=r"test_func\.py:\d+.*clone\(\)"):
        transform(writes, x)
    close(outer, [1, 2])
    close(x, [3, 4])
    outer.add_(1.0)
    close(outer, [2, 3])


def test_backward_inside_a_transform_reaches_its_own_leaves_only() -> None:
    w = double(3.0).requires_grad_()

    def outside(x: lt.Tensor) -> lt.Tensor:
        (w * x).backward()
        return x

    for transform in (func.vmap(outside), func.vmap(lambda x: func.grad(outside)(x))):
        with pytest.raises(lt.TransformError, match="backward"):
            transform(double([1.0, 2.0]))
    assert w.grad is None

    def inside(x: lt.Tensor) -> lt.Tensor:
        leaf = x.detach().clone().requires_grad_()
        (leaf ** 3).backward()
        assert leaf.grad is not None
        return leaf.grad

    close(func.vmap(inside)(double([1.0, 2.0])), [3, 12])
