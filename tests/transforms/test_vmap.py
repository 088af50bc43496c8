"""vmap beside loops over examples: any axes, in chunks, with random numbers."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from example_counts import examples
from hypothesis import given
from hypothesis import strategies as st
from transformed import NUMBERS, close, double, draws

import lazyten as lt
from lazyten import func
from lazyten.nn import functional as F
from lazyten.random import default_generator

pytestmark = pytest.mark.usefixtures("on_each_device")


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

def test_random_numbers_under_vmap_need_a_say() -> None:
    before = default_generator.counted()
    for function in (draws, lambda x: lt.randperm(4) * x, lambda x: F.dropout(x, 0.5)):
        with pytest.raises(lt.TransformError, match=r"(transformed|test_vmap)\.py:\d+.*"
                                                    r"randomness='different'"):
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
