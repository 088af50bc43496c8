"""lt.func's transforms: what they give, how they nest, and with jit; on both devices."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from example_counts import examples
from hypothesis import given
from hypothesis import strategies as st
from lenet_steps import lenet
from tensor_values import counted_plans

import lazyten as lt
from lazyten import func
from lazyten.ir.node import toposort
from lazyten.ir.ops import Op
from lazyten.ir.unknown import Unknown
from lazyten.nn import functional as F
from lazyten.random import default_generator

Array = np.ndarray[Any, Any]
NUMBERS = np.random.default_rng(0).uniform(-1, 1, (4, 3))


@pytest.fixture(autouse=True)
def _on_each_device(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEVICE", device)


def close(found: lt.Tensor, expected: Any, tolerance: float = 1e-12) -> None:
    wanted = expected.numpy() if isinstance(expected, lt.Tensor) else np.asarray(expected)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found.detach().numpy(), wanted, rtol=tolerance, atol=tolerance)


def double(values: Any) -> lt.Tensor:
    return lt.tensor(values, dtype=lt.float64)


def energy(x: lt.Tensor) -> lt.Tensor:
    return ((x.sin() * x).sum() ** 2) + (x ** 3).sum()


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
    close(func.jvp(partly, (x,), (double([1.0]),))[1], 2)
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


# ---- vmap ----------------------------------------------------------------------------------------

def test_axes_of_examples_and_results() -> None:
    x, y = double(np.arange(24.0).reshape(2, 3, 4)), double(np.arange(6.0).reshape(3, 2))

    def both(parts: dict[str, lt.Tensor], scale: float) -> tuple[lt.Tensor, list[lt.Tensor]]:
        return parts["x"] * scale, [parts["x"].sum(1) * parts["y"], lt.ones(2)]

    parts = {"x": x, "y": y}
    first, (second, third) = func.vmap(both, in_dims=({"x": 1, "y": 0}, None),
                                       out_dims=(2, [-1, 0]))(parts, 2.0)
    expected = [both({"x": x[:, i], "y": y[i]}, 2.0) for i in range(3)]
    close(first, np.stack([e[0].numpy() for e in expected], 2))
    close(second, np.stack([e[1][0].numpy() for e in expected], -1))
    close(third, np.ones((3, 2)))
    shared = func.vmap(lambda x, y: lt.ones(2), in_dims=(None, 0), out_dims=None)(x, y)
    close(shared, [1, 1])
    keyword = func.vmap(lambda x, y: (x * y).sum())(y, y=double([1.0, 10.0]))
    close(keyword, y.numpy() @ [1, 10])


@st.composite
def mappings(draw: st.DrawFn) -> tuple[list[int | None], int, list[tuple[int, ...]]]:
    """An axis for each of two arguments, not both None, one of the result, and their shapes."""
    size = draw(st.integers(1, 3))
    dims: list[int | None] = []
    shapes = []
    inner = tuple(draw(st.lists(st.integers(1, 3), min_size=1, max_size=2)))
    for _ in range(2):
        dim = draw(st.none() | st.integers(-len(inner) - 1, len(inner)))
        if len(dims) == 1 and dims[0] is None and dim is None:
            dim = 0
        place = None if dim is None else dim % (len(inner) + 1)
        shapes.append(inner if place is None else (*inner[:place], size, *inner[place:]))
        dims.append(dim)
    return dims, draw(st.integers(-len(inner) - 1, len(inner))), shapes


def steps(x: lt.Tensor, y: lt.Tensor) -> lt.Tensor:
    """Movements, reductions, a maximum, indices, a custom gradient; of x's shape."""
    total = (x * y).cumsum(-1).tanh()
    best = total.argmax(-1, keepdim=True)
    return (x.flip(0) * total.take_along_dim(best, -1) + y.max()).sigmoid()


@pytest.mark.few(1)
@examples(30)
@given(mappings())
def test_vmap_is_a_loop_over_examples_on_any_axes(case) -> None:
    dims, out, shapes = case
    rng = np.random.default_rng(3)
    values = [rng.uniform(-1, 1, s) for s in shapes]
    size = next(s[d] for d, s in zip(dims, shapes, strict=True) if d is not None)

    def example(i: int) -> list[lt.Tensor]:
        return [double(v if d is None else np.take(v, i, d))
                for v, d in zip(values, dims, strict=True)]

    tensors = [double(v) for v in values]
    found = func.vmap(steps, tuple(dims), out)(*tensors)
    close(found, np.stack([steps(*example(i)).numpy() for i in range(size)], out))
    slope = func.vmap(func.grad(lambda x, y: (steps(x, y) ** 2).sum(), 1), tuple(dims))(*tensors)
    gradient = func.grad(lambda x, y: (steps(x, y) ** 2).sum(), 1)
    close(slope, np.stack([gradient(*example(i)).numpy() for i in range(size)]))


def test_nested_vmaps_are_nested_loops() -> None:
    x, y = double(NUMBERS), double(NUMBERS[:2])
    pairs = func.vmap(func.vmap(steps, (None, 0)), (0, None))(x, y)
    close(pairs, [[steps(x[i], y[j]).numpy() for j in range(2)] for i in range(4)])
    swapped = func.vmap(func.vmap(steps, (0, None), 1), (None, 0), 2)(x, y)
    close(swapped, np.transpose([[steps(x[i], y[j]).numpy() for i in range(4)] for j in range(2)],
                                (2, 1, 0)))
    cube = func.vmap(func.vmap(func.vmap(lambda a, b, c: a * b - c, (None, None, 0)),
                               (None, 0, None)), (0, None, None))
    a, b, c = (np.arange(float(n)) for n in (2, 3, 4))
    close(cube(double(a), double(b), double(c)),
          a[:, None, None] * b[:, None] - c)


def test_vmap_over_integers_and_indices_and_no_examples() -> None:
    table = double(NUMBERS)
    rows = lt.tensor([[0, 1], [-1, 2], [3, 3]])
    close(func.vmap(lambda i: table[i].sum(0))(rows), NUMBERS[rows.numpy()].sum(1))
    close(func.vmap(lambda line, i: line[i.reshape(1)][0], (None, 0))(table[0], lt.tensor([2, -3])),
          NUMBERS[0, [2, -3]])
    assert func.vmap(lambda x: x * 2 + 1)(lt.zeros(0, 3)).shape == (0, 3)
    found = func.vmap(lambda i: table[i.reshape(1)])(lt.tensor([1, 9]))
    with pytest.raises(lt.IndexingError, match="index 9 is outside axis 0"):
        found.numpy()


def test_layers_run_under_vmap() -> None:
    lt.manual_seed(0)
    layer = lt.nn.Sequential(lt.nn.Conv2d(2, 3, 3), lt.nn.ReLU(), lt.nn.MaxPool2d(2),
                             lt.nn.Flatten(0), lt.nn.LayerNorm(3), lt.nn.Linear(3, 2))
    x = lt.randn(5, 2, 4, 4)
    with lt.no_grad():
        found = func.vmap(layer)(x)
        expected = lt.stack([layer(one) for one in x])
    close(found, expected, 1e-5)


@pytest.mark.parametrize("chunk_size", [1, 5, 20])
def test_rows_of_a_jacobian_come_in_chunks(chunk_size: int) -> None:
    x = double(NUMBERS)

    def function(a: lt.Tensor) -> tuple[lt.Tensor, lt.Tensor]:
        return a ** 2, lt.ones(3)

    for found, expected in zip(func.jacrev(function, chunk_size=chunk_size)(x),
                               func.jacrev(function)(x), strict=True):
        close(found, expected)


@pytest.mark.parametrize("mistake", [
    lambda x: func.vmap(lambda a: 3)(x), lambda x: func.vmap(lambda a: a)(3),
    lambda x: func.grad(lambda a: a)(3)])
def test_what_is_no_tensor_is_a_value_error_too(mistake: Callable[[lt.Tensor], Any]) -> None:
    with pytest.raises(ValueError, match=r"not a tensor|no axis of examples"):
        mistake(double(NUMBERS))


@pytest.mark.few(20)
@pytest.mark.parametrize("chunk_size", [1, 2, 3, 4, 9])
@pytest.mark.parametrize("out_dims", [0, -1, (1, 0, None)])
def test_chunks_give_what_all_examples_at_once_give(chunk_size: int, out_dims: Any) -> None:
    x = double(NUMBERS)

    def function(a: lt.Tensor, b: lt.Tensor) -> tuple[lt.Tensor, ...]:
        return a * b.sum(), (a + b).cumsum(0), lt.ones(2, dtype=lt.float64)

    expected = func.vmap(function, (0, None), out_dims)(x, x[1])
    found = func.vmap(function, (0, None), out_dims, chunk_size=chunk_size)(x, x[1])
    for mine, other in zip(found, expected, strict=True):
        close(mine, other.numpy())
    again = lt.jit(func.vmap(function, (0, None), out_dims, chunk_size=chunk_size))(x, x[1])
    for mine, other in zip(again, expected, strict=True):
        close(mine, other.numpy())


def test_chunks_have_gradients_and_take_no_examples() -> None:
    leaf = double(NUMBERS).requires_grad_()
    by_chunks = func.vmap(lambda row: (row ** 3).sum(), chunk_size=3)
    expected, = lt.grad((leaf ** 3).sum(), leaf)
    found, = lt.grad(by_chunks(leaf).sum(), leaf)
    close(found, expected.numpy())
    assert func.vmap(lambda row: row * 2, chunk_size=3)(leaf[:0]).shape == (0, *leaf.shape[1:])


@pytest.mark.few(3)
@pytest.mark.parametrize("chunk_size", [1, 2, 3])
def test_chunks_draw_random_numbers_as_all_examples_at_once_do(chunk_size: int) -> None:
    x = double(NUMBERS)

    def twice(example: lt.Tensor) -> lt.Tensor:
        return example + lt.rand(3, dtype=lt.float64) * lt.randn(3, dtype=lt.float64)

    for function, randomness in ((draws, "different"), (draws, "same"), (twice, "same")):
        lt.manual_seed(1)
        expected = func.vmap(function, randomness=randomness)(x)
        lt.manual_seed(1)
        close(func.vmap(function, randomness=randomness, chunk_size=chunk_size)(x),
              expected.numpy())
    own = func.vmap(twice, randomness="different", chunk_size=chunk_size)(x) - x
    assert len(np.unique(own.numpy())) == own.numel()


# ---- random numbers ------------------------------------------------------------------------------

def draws(x: lt.Tensor) -> lt.Tensor:
    return x + lt.rand(3, dtype=lt.float64)


def test_random_numbers_under_vmap_need_a_say() -> None:
    before = default_generator.counted()
    for function in (draws, lambda x: lt.randperm(4) * x, lambda x: F.dropout(x, 0.5)):
        with pytest.raises(lt.TransformError, match=r"test_func\.py:\d+.*randomness='different'"):
            func.vmap(function)(double(NUMBERS))
    assert default_generator.counted() == before


def test_different_random_numbers_are_those_that_a_loop_draws() -> None:
    x = double(NUMBERS)
    for function in (draws, lambda x: x + lt.randn(3, dtype=lt.float64),
                     lambda x: F.dropout(x, 0.5), lambda x: x[lt.randperm(3)],
                     lambda x: x * lt.randint(0, 9, (2, 3))):
        lt.manual_seed(1)
        found = func.vmap(function, randomness="different")(x)
        lt.manual_seed(1)
        close(found, np.stack([function(x[i]).numpy() for i in range(4)]))


def test_the_same_random_numbers_are_one_draw() -> None:
    x = double(NUMBERS)
    lt.manual_seed(1)
    found = func.vmap(draws, randomness="same")(x)
    lt.manual_seed(1)
    close(found, NUMBERS + lt.rand(3, dtype=lt.float64).numpy())


@pytest.mark.parametrize(("outer", "inner", "distinct"), [
    ("different", "different", 8), ("different", "same", 4), ("same", "different", 2),
    ("same", "same", 1)])
def test_each_level_of_vmap_has_its_own_say(outer: str, inner: str, distinct: int) -> None:
    lt.manual_seed(2)
    twice = func.vmap(func.vmap(lambda x: lt.rand(3), randomness=inner), randomness=outer)
    found = twice(lt.zeros(4, 2)).numpy()
    assert found.shape == (4, 2, 3)
    assert len(np.unique(found.reshape(8, 3), axis=0)) == distinct
    with pytest.raises(lt.TransformError):
        func.vmap(func.vmap(draws, randomness="different"))(lt.zeros(4, 2, 3))


def test_random_numbers_pass_through_derivatives() -> None:
    x = double(NUMBERS)
    lt.manual_seed(3)
    found = func.vmap(func.grad(lambda x: (draws(x) ** 2).sum()), randomness="different")(x)
    lt.manual_seed(3)
    close(found, np.stack([2 * draws(x[i]).numpy() for i in range(4)]))


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

    with pytest.raises(lt.LazytenError, match=r"test_func\.py:\d+"):
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
