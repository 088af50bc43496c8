"""Parts that are written to, another in each step: one program for all, and NumPy's values."""
from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tensor_values import counted_plans

import lazyten as lt
from lazyten.frontend.recorded import lookup

STEPS = 40
Step = Callable[[Any, random.Random], Any]


def _rows(x: Any, rng: random.Random) -> None:
    part = x[(n := rng.randrange(len(x) - 2)):n + 2]
    part += rng.randrange(5)
    part *= 0.5


def _row_by_another(x: Any, rng: random.Random) -> None:
    x[rng.randrange(len(x))] -= x[rng.randrange(len(x))] * 0.25 - 1


def _element(x: Any, rng: random.Random) -> None:
    x[rng.randrange(len(x)), rng.randrange(3)] += x[rng.randrange(len(x))].max() * 0.5


def _column(x: Any, rng: random.Random) -> None:
    x[:, rng.randrange(3)] *= -1


def _twice(x: Any, rng: random.Random) -> None:
    one, other = x[(n := rng.randrange(len(x) - 1))], x[n:n + 2]
    one += 1
    other += one


def _of_a_view(x: Any, rng: random.Random) -> None:
    part = x[2:][rng.randrange(len(x) - 2)]
    part[1:] += 3


def _assigned(x: Any, rng: random.Random) -> None:
    n = rng.randrange(len(x) - 1)
    x[n] = x[n] * 0.5 + x[rng.randrange(len(x))]


def _own_row(x: Any, rng: random.Random) -> None:
    n = rng.randrange(len(x))
    x[n] = x[n]
    x[n] = x[n - 1]


PROGRAMS: dict[str, Step] = {
    "rows": _rows, "a row by another": _row_by_another, "an element": _element,
    "a column": _column, "twice": _twice, "a view": _of_a_view, "assigned": _assigned,
    "a row that is written to itself": _own_row,
    "any": lambda x, rng: rng.choice([*PROGRAMS.values()][:-1])(x, rng)}


CASES = [*[(name, 6, looks) for name in PROGRAMS for looks in (1, 3)], ("rows", 120_000, 1),
         ("any", 120_000, 2)]


@pytest.mark.parametrize(("name", "size", "looks"), CASES)
def test_parts_that_are_written_have_numpys_values(device: str, name: str, size: int,
                                                   looks: int) -> None:
    lookup.forget()
    values = np.arange(3 * size, dtype=np.float32).reshape(size, 3) % 7
    x, ours, theirs = lt.tensor(values, device=device).realize(), random.Random(2), random.Random(2)
    kept = []
    for step in range(STEPS):
        row = step % 6
        kept.append((x[row] + 0, values[row].copy()))  # is to stay what it was
        PROGRAMS[name](x, ours)
        PROGRAMS[name](values, theirs)
        if step % looks == 0:
            np.testing.assert_allclose(x[step % 6].numpy(), values[step % 6], rtol=1e-5)
    np.testing.assert_allclose(x.numpy(), values, rtol=1e-5)
    for found, expected in kept:
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5)


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "any"])
def test_parts_that_are_written_compile_nothing_anywhere(name: str) -> None:
    lookup.forget()
    x, rng = lt.zeros(50, 3) + 1, random.Random(3)
    with counted_plans() as plans:
        for step in range(3 * STEPS):
            if step == 2 * STEPS:
                before = len(plans)
            PROGRAMS[name](x, rng)
            assert np.isfinite(x[rng.randrange(50)].sum().item())
        assert len(plans) == before


def _element_alone(x: Any, rng: random.Random) -> None:
    n, column = rng.randrange(len(x)), rng.randrange(3)
    x[n, column] += 0.5 * (1.0 - x[n, column])


@pytest.mark.usefixtures("interpreting_as_users_do")
@pytest.mark.parametrize("step", [_element_alone, _row_by_another])
@pytest.mark.parametrize("is_constant", [True, False])
def test_a_loop_that_nobody_looks_into_is_no_program_of_its_iterations(
        step: Step, is_constant: bool) -> None:
    lookup.forget()
    values, ours, theirs = np.zeros((50, 3), np.float32), random.Random(5), random.Random(5)
    x = lt.zeros(50, 3) if is_constant else lt.tensor(values)
    with counted_plans() as plans:
        for _ in range(400):
            step(x, ours)
            step(values, theirs)
        np.testing.assert_allclose(x.numpy(), values, rtol=1e-5)
    assert max(map(_nodes, plans), default=0) < 40


def _nodes(key: Any) -> int:
    """How many nodes the graph has that this is the structure of."""
    return len(key[0])


def test_memory_that_others_share_is_written_where_it_is() -> None:
    array, expected = np.zeros((9, 3), np.float32), np.zeros((9, 3), np.float32)
    x, rng = lt.from_numpy(array), random.Random(4)
    for step in range(STEPS):
        n = rng.randrange(9)
        x[n] += step
        expected[n] += step
        if step % 5 == 0:
            array[step % 9] = expected[step % 9] = -1
        np.testing.assert_array_equal(array, expected)
        assert x[n].tolist() == expected[n].tolist()


def test_gradients_know_what_was_written_to_parts() -> None:
    w, x, values = lt.ones(3, requires_grad=True), lt.zeros(8, 3).realize(), np.zeros((8, 3))
    for step in range(STEPS):
        n = step * 3 % 8
        x[n] += 1
        values[n] += 1
        w.grad = None
        ((w * x[(step * 5) % 8]).sum() + (x[n] * w * w).sum()).backward()
        assert w.grad is not None
        np.testing.assert_allclose(w.grad.numpy(), values[(step * 5) % 8] + 2 * values[n])
        with lt.no_grad():
            x[n] *= w.detach()


@pytest.mark.parametrize("is_copied", [True, False])
def test_a_part_that_a_gradient_flows_into_is_written_as_ever(is_copied: bool) -> None:
    for step in range(STEPS):
        w, x = lt.full((3,), 2.0, requires_grad=True), lt.tensor(np.ones((8, 3), np.float32))
        assert x.sum().item() == 24
        part = x[step * 3 % 8]
        if is_copied:
            part.copy_(w * 2)
        else:
            part *= w
        x[step * 5 % 8] += 1
        x.sum().backward()
        assert w.grad is not None and w.grad.tolist() == [1 + is_copied] * 3


@lookup.as_one
def _one_after_the_other(parts: list[lt.Tensor]) -> None:
    for part in parts:
        part.mul_(2)
        part.add_(parts[0][:1])


def test_parts_that_overlap_are_written_one_after_the_other() -> None:
    x, values = lt.ones(9, 3).realize() + 0, np.ones((9, 3), np.float32)
    for step in range(STEPS):
        n = step * 4 % 6
        _one_after_the_other([x[n:n + 2], x[n + 1:n + 3], x])
        for part in (values[n:n + 2], values[n + 1:n + 3], values):
            part *= 2
            part += values[n:n + 1]
        x *= 0.125
        values *= 0.125
        np.testing.assert_allclose(x.numpy(), values, rtol=1e-5)


def test_a_view_that_shows_elements_twice_is_written_at_places_that_vary() -> None:
    x, values = lt.ones(6, 4).realize() + 0, np.ones((6, 4), np.float32)
    for step in range(STEPS):
        x.add_(1)
        values += 1
        x[0:1].expand(3, 4)[step * 2 % 3] = step
        values[0] = step
        np.testing.assert_array_equal(x.numpy(), values)
