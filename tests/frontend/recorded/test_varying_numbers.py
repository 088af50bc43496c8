"""Numbers of Python, and places of views, that differ from step to step: one program for all."""
from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from slow_rows import slow_but
from tensor_values import counted_plans

import lazyten as lt
import lazyten.nn.functional as F
from lazyten import nn
from lazyten.frontend.recorded import lookup
from lazyten.ir import number_tape
from lazyten.ir.node import Node
from lazyten.ir.number_tape import Tape
from lazyten.nn.functions import activations
from lazyten.operators.math.gradients import with_gradient

STEPS = 12
DATA = np.arange(60, dtype=np.float32).reshape(20, 3) / 7
Case = Callable[[Any, float, int], Any]

CASES: dict[str, Case] = {
    "factor": lambda x, c, n: x * c + 1,
    "on the left": lambda x, c, n: c - x / (1 + c),
    "two of which one varies": lambda x, c, n: x.clip(c, 5.0),
    "two that vary": lambda x, c, n: x.clip(-c, c + n),
    "integers": lambda x, c, n: x * n - n,
    "where": lambda x, c, n: lt.where(x > c, x, c) if isinstance(x, lt.Tensor)
    else np.where(x > c, x, np.float32(c)),
    "by a choice of the user's": lambda x, c, n: x * c if c > 0.5 else x + c,
    "rows": lambda x, c, n: x[n:n + 4] * 2,
    "a row": lambda x, c, n: x[n] + x[n + 1],
    "a row of views": lambda x, c, n: x[n:n + 4][1:3].reshape(-1) * 3,
    "a column": lambda x, c, n: x[:, n % 3] * 2,
    "a part": lambda x, c, n: x[n:n + 2, 1:] + c,
    "rows and a number": lambda x, c, n: (x[n:n + 3] * c).sum(0),
}


@pytest.mark.parametrize("name", CASES)
def test_results_are_numpys_whatever_the_numbers(device: str, name: str) -> None:
    lookup.forget()
    x, run, rng = lt.tensor(DATA, device=device).realize(), CASES[name], random.Random(1)
    for _ in range(STEPS):
        c, n = rng.random(), rng.randrange(16)
        expected = run(DATA, c, n)
        found = run(x, c, n)
        assert found.shape == expected.shape
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)


def test_a_number_that_did_not_vary_until_now_is_its_own() -> None:
    x = lt.tensor([0.0, 4.0, 9.0]).realize()
    for step in range(12):
        low, high = step / 4, 5.0 if step < 8 else 7.0 - step / 8
        expected = np.clip(np.array([0.0, 4.0, 9.0]), low, high)
        np.testing.assert_allclose(x.clip(low, high).numpy(), expected, rtol=1e-6)


def test_a_number_that_varies_is_read_where_its_step_has_it() -> None:
    x, other = lt.tensor([1.0, 2.0, 3.0]).realize(), lt.tensor([100.0]).realize()
    for n in range(STEPS):
        before = [x + 1, *([other * 2] if n % 3 == 0 else [])]  # which reads more
        assert (x * (n + 0.5)).tolist() == [n + 0.5, 2 * n + 1, 3 * n + 1.5]
        lt.realize(*before)


def test_a_number_that_varies_changes_nothing_of_what_else_an_operation_depends_on() -> None:
    w, x = lt.ones(3, requires_grad=True), lt.ones(2, 2)
    for n in range(STEPS):
        with lt.set_grad_enabled(n % 2 == 0), lt.autocast("cpu", lt.bfloat16, enabled=n % 3 == 0):
            y, z = w * (n + 0.5), x.addmm(x, x, beta=n + 0.5)
        assert y.requires_grad is (n % 2 == 0) and y.tolist() == [n + 0.5] * 3
        assert z.dtype is (lt.bfloat16 if n % 3 == 0 else lt.float32)
        assert z.tolist() == [[n + 2.5] * 2] * 2


@pytest.mark.few(2)
@pytest.mark.parametrize("kind", ["weight of a loss", "rate", "rows", "rows of views"])
def test_training_steps_that_differ_in_numbers_compile_nothing(kind: str) -> None:
    def trained(known: bool) -> list[float]:
        lookup.forget()
        lt.manual_seed(0)
        net, rng = nn.Linear(3, 2), random.Random(2)
        x, losses = lt.tensor(DATA).realize(), []
        for step in range(STEPS):
            if not known:
                lookup.forget()
            n = rng.randrange(16)
            rows = x[n:n + 4] if kind.startswith("rows") else x
            out = net(rows.view(2, 2, 3) if kind == "rows of views" else rows)
            loss = out.square().mean()
            if kind == "weight of a loss":
                loss = loss + rng.random() * out.abs().mean()
            rate = 0.1 / (1 + step) if kind == "rate" else 0.1
            net.zero_grad()
            with counted_plans() as made:
                loss.backward()
                with lt.no_grad():
                    for p in net.parameters():
                        assert p.grad is not None
                        p -= rate * p.grad
                losses.append(loss.item())
            assert not (known and step > 6 and made)
        return losses
    assert trained(True) == pytest.approx(trained(False), rel=1e-5)


def test_writing_to_a_view_that_begins_anywhere_writes_to_the_whole() -> None:
    x, expected = lt.tensor(DATA).realize(), DATA.copy()
    rng = random.Random(3)
    for step in range(STEPS):
        n = rng.randrange(16)
        row = x[n:n + 3]
        total = row.sum().item()
        assert total == pytest.approx(float(expected[n:n + 3].sum()), rel=1e-5)
        row += 1.5 * step
        expected[n:n + 3] += 1.5 * step
        np.testing.assert_allclose(row.numpy(), expected[n:n + 3], rtol=1e-6)
        np.testing.assert_allclose(x.numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("computed", [False, True])
def test_a_view_sees_what_is_written_to_the_whole_between_two_reads(computed: bool) -> None:
    x, expected = lt.tensor(DATA).realize(), DATA.copy()
    for n in range(STEPS):
        row = x[n:n + 2]
        assert (row * 2).sum().item() == pytest.approx(2 * float(expected[n:n + 2].sum()), rel=1e-5)
        x.mul_(1.25)
        if computed:
            x.realize()
        expected *= np.float32(1.25)
        np.testing.assert_allclose((row * 2).numpy(), expected[n:n + 2] * 2, rtol=1e-5)


def test_an_updated_whole_leaves_what_was_made_of_a_view() -> None:
    x = lt.zeros(1 << 19).contiguous().realize()  # updates of so much are in place
    for n in range(STEPS):
        row = x[n:n + 5]
        before = row + 0.5
        x += 1
        assert x.sum().item() == (n + 1) * (1 << 19)
        assert before.tolist() == [n + 0.5] * 5


def test_gradients_of_views_of_parameters_that_begin_anywhere() -> None:
    w = lt.tensor(DATA, requires_grad=True)
    for n in range(STEPS):
        w.grad = None
        (w[n:n + 2] * (n + 1)).sum().backward()
        expected = np.zeros_like(DATA)
        expected[n:n + 2] = n + 1
        assert w.grad is not None
        np.testing.assert_array_equal(w.grad.numpy(), expected)


def test_a_gradient_rule_of_a_number_that_varies_has_the_number_of_its_step() -> None:
    x = lt.tensor([-3.0, -0.5, 0.5, 3.0], requires_grad=True)
    scales = lt.tensor([1.0, 2.0, 3.0, 4.0])
    for step in range(STEPS):
        limit = 4.0 - step / 4
        x.grad = None
        (F.hardtanh(x, -limit, limit) * scales).sum().backward()
        assert x.grad is not None
        inside = [1.0 if abs(v) < limit else 0.0 for v in (-3.0, -0.5, 0.5, 3.0)]
        assert x.grad.tolist() == [a * b for a, b in zip(inside, (1, 2, 3, 4), strict=True)]


def test_a_rule_holds_no_stand_in_for_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(number_tape.numbers, "node", lambda value, dtype: None)
    tape = Tape()
    limit = tape.given(1.5, 0)
    rule = activations._held(lt.tensor([-3.0, 3.0]).node, -limit, limit).arg
    assert [type(rule.low), type(rule.high)] == [float, float]
    assert tape.holds([1.5])
    assert not tape.holds([1.75])


@dataclass(frozen=True)
class Times:
    """A rule that takes nothing for an operand."""

    by: float

    def __call__(self, g: Node, node: Node) -> tuple[Node]:
        return (g,)


def test_a_rule_of_numbers_that_are_no_operands_holds_them_as_they_were(
        monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(number_tape.numbers, "node", lambda value, dtype: None)
    tape, x = Tape(), lt.tensor([1.0]).node
    rule = with_gradient(x, (x,), Times(tape.given(1.5, 0) * 2)).arg
    assert type(rule.by) is float and rule.by == 3.0
    assert tape.holds([1.5])
    assert not tape.holds([1.75])


Write = Callable[[Any, float, int], None]


def _set(where: Callable[[float, int], Any], value: Callable[[float, int], Any]) -> Write:
    def run(x: Any, c: float, n: int) -> None:
        given = value(c, n)
        if isinstance(x, lt.Tensor) and isinstance(given, np.ndarray):
            given = lt.tensor(given, device=x.device)
        x[where(c, n)] = given
    return run


ROW = np.array([0.5, -1.5, 2.5], np.float32)
WRITES: dict[str, Write] = {
    "a row": _set(lambda c, n: n, lambda c, n: ROW * np.float32(n)),
    "a row from the end": _set(lambda c, n: -n - 1, lambda c, n: ROW),
    "a number": _set(lambda c, n: n, lambda c, n: c),
    "an element": _set(lambda c, n: (n, n % 3), lambda c, n: c),
    "an element of a row that stays": _set(lambda c, n: (4, n % 3), lambda c, n: c * n),
    "rows": _set(lambda c, n: slice(n, n + 2), lambda c, n: np.stack([ROW, ROW * 2])),
    "rows of one": _set(lambda c, n: slice(n, n + 2), lambda c, n: ROW[None]),
    "rows from the end": _set(lambda c, n: slice(n - 18, n - 16), lambda c, n: ROW),
    "rows to the end": _set(lambda c, n: slice(n + 2, None), lambda c, n: c),
    "rows beyond the end": _set(lambda c, n: slice(n + 2, n + 7), lambda c, n: c),
    "no rows": _set(lambda c, n: slice(n, n), lambda c, n: c),
    "every other row": _set(lambda c, n: slice(n, n + 4, 2), lambda c, n: ROW),
    "a column": _set(lambda c, n: (slice(None), n % 3), lambda c, n: c),
    "the last axis": _set(lambda c, n: (..., n % 3), lambda c, n: c),
    "columns": _set(lambda c, n: (slice(2, 5), slice(n % 2, n % 2 + 2)), lambda c, n: ROW[:2]),
    "rows and a column": _set(lambda c, n: (slice(n, n + 2), n % 3), lambda c, n: ROW[:2]),
    "rows and columns": _set(lambda c, n: (slice(n, n + 2), slice(n % 2, n % 2 + 2)),
                             lambda c, n: ROW[:2]),
    "a new axis": _set(lambda c, n: (None, n), lambda c, n: ROW),
    "an array and a number": _set(lambda c, n: ([0, 5], n % 3), lambda c, n: c),
}


@pytest.mark.few(12)
@pytest.mark.parametrize("dtype", slow_but([np.float32, np.int64, np.bool_], np.float32))
@pytest.mark.parametrize("name", WRITES)
def test_what_is_written_anywhere_is_numpys(device: str, name: str, dtype: type) -> None:
    lookup.forget()
    expected = DATA.astype(dtype)
    x, run, rng = lt.tensor(expected, device=device).realize(), WRITES[name], random.Random(1)
    for n in (3, 8, 1, 4, 15, 0, 14, 5, 15, 2):
        c = rng.random() * 3
        run(x, c, n)
        run(expected, c, n)
        np.testing.assert_allclose(x.numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("name", ["a row", "a number", "an element", "rows", "columns"])
def test_writing_anywhere_compiles_nothing(name: str) -> None:
    x, rng = lt.tensor(DATA).realize(), random.Random(1)
    for step in range(STEPS):
        c, n = rng.random() * 3, rng.randrange(16)
        with counted_plans() as made:
            WRITES[name](x, c, n)
            x.sum().item()
        assert not (step > 6 and made)


def test_a_place_outside_is_an_error_where_it_is_written() -> None:
    x = lt.tensor(DATA).realize()
    for n in (*range(STEPS), 20, -21, 3):
        if -20 <= n < 20:
            x[n] = 1.0
            continue
        with pytest.raises(lt.IndexingError, match=f"index {n} is outside axis 0"):
            x[n] = 1.0
    assert x[3].tolist() == [1.0] * 3


def test_gradients_of_what_is_written_anywhere() -> None:
    w = lt.tensor(ROW, requires_grad=True)
    for n in range(STEPS):
        w.grad = None
        x = lt.tensor(DATA).clone()
        x[n] = w * (n + 1)
        (x * x).sum().backward()
        assert w.grad is not None
        np.testing.assert_allclose(w.grad.numpy(), 2 * ROW * (n + 1) ** 2, rtol=1e-5)


def test_places_that_are_tensors_are_read_and_compile_nothing() -> None:
    x, expected = lt.tensor(DATA).realize(), DATA.copy()
    place = lt.tensor(0)
    for step in range(STEPS):
        with counted_plans() as made:
            x[place] = 2.5
            x.sum().item()
        expected[step * 7 % 20] = 2.5
        assert x[place, 1:].sum().item() == pytest.approx(5.0)
        place = (place + 7) % 20
        np.testing.assert_allclose(x.numpy(), expected)
        assert not (step > 8 and made)


def test_a_jitted_function_writes_anywhere_by_one_captured_call() -> None:
    x, expected = lt.zeros(8, 3).realize(), np.zeros((8, 3), np.float32)

    @lt.jit
    def put(n: int, row: lt.Tensor) -> None:
        x[n] = row * 2
    for n in (0, 3, 5, 7, 1, 2):
        put(n, lt.tensor(ROW))
        expected[n] = ROW * 2
    np.testing.assert_allclose(x.numpy(), expected)
    assert put.cache_size <= 3


@pytest.mark.parametrize("kind", ["iteration", "columns", "factors", "many", "state"])
def test_numbers_that_a_loop_goes_through_in_each_step_do_not_vary(
        kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lookup.forget()
    w, state = lt.ones(3, requires_grad=True), lt.zeros(2, 3)
    unknown: list[str] = []
    met = lookup._new
    monkeypatch.setattr(lookup, "_new",
                        lambda *args: unknown.append(args[1].__name__) or met(*args))
    for step in range(8):
        x = lt.tensor(DATA[step:step + 4])
        if kind == "iteration":
            parts = [row * w for row in x]
        elif kind == "columns":
            parts = [x[:, n] * w[n] for n in range(3)]
        elif kind in ("factors", "many"):
            parts = [x * w * (n + 1.5) for n in range(4 if kind == "factors" else 20)]
        else:
            parts = [state[n] * w for n in range(2)]
        loss = lt.stack(parts).square().sum()
        loss.backward()
        state = lt.stack([state[n] + step * x[n] for n in range(2)]).detach()
        with lt.no_grad():
            w -= 1e-4 * w.grad
        w.grad = None
        loss.item()
        if step == 5:
            unknown.clear()
    assert all(name == "__rmul__" for name in unknown)  # step * x, which varies
