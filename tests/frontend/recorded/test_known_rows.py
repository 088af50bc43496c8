"""Gradients that are held as rows of a weight, from a backward pass that was done before."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tensor_values import counted_plans

import lazyten as lt
from lazyten import nn, optim
from lazyten.frontend.recorded import gradients, lookup

STEPS = 12


class Pairs(nn.Module):
    """Two tables, of which one is looked up twice, and a layer beside them."""

    def __init__(self, is_sparse: bool) -> None:
        super().__init__()
        lt.manual_seed(0)
        self.one = nn.Embedding(9, 4, sparse=is_sparse)
        self.other = nn.Embedding(7, 4, sparse=is_sparse)
        self.layer = nn.Linear(4, 1)

    def forward(self, a: Any, b: Any, c: Any) -> Any:
        mixed = self.one(a) * self.other(b) - self.one(c).sigmoid()
        return self.layer(mixed).square().mean()


def _batches() -> Any:
    rng = np.random.default_rng(1)
    for _ in range(STEPS):
        yield [lt.tensor(rng.integers(0, n, 6)) for n in (9, 7, 9)]


def _trained(is_sparse: bool, is_known: bool) -> list[Any]:
    lookup.forget()
    model = Pairs(is_sparse)
    optimizer = optim.SGD(model.parameters(), lr=0.5)
    seen = []
    for step, batch in enumerate(_batches()):
        if not is_known:
            lookup.forget()
            gradients.forget()
        if step % 3:
            optimizer.zero_grad()
        loss = model(*batch)
        loss.backward()
        assert getattr(model.one.weight.grad, "is_sparse", False) is is_sparse
        seen.append(loss.item())
        optimizer.step()
    return [*seen, *[p.tolist() for p in model.parameters()]]


@pytest.mark.parametrize("is_known", [True, False])
def test_rows_are_the_gradients_that_a_dense_table_has(is_known: bool) -> None:
    for found, expected in zip(_trained(True, is_known), _trained(False, True), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_a_backward_pass_that_gives_rows_is_known_the_next_time(
        monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    original = gradients._course
    monkeypatch.setattr(gradients, "_course",
                        lambda *args: made.append(args) or original(*args))
    model = Pairs(True)
    for batch in _batches():
        model.zero_grad()
        model(*batch).backward()
        places = model.one.weight.grad._indices().tolist()[0]
        assert sorted(places) == sorted([*batch[0].tolist(), *batch[2].tolist()])
    assert len(made) == STEPS


def test_sparse_adam_compiles_nothing_for_how_many_rows_differ() -> None:
    lookup.forget()
    lt.manual_seed(0)
    table, rng = nn.Embedding(9, 4, sparse=True), np.random.default_rng(2)
    optimizer = optim.SparseAdam(table.parameters(), lr=0.1)
    values = table.weight.detach().numpy().copy()
    first, second = np.zeros_like(values), np.zeros_like(values)
    with counted_plans() as plans:
        for step in range(1, 3 * STEPS):
            if step == 2 * STEPS:
                before = len(plans)
            places = rng.integers(0, 1 + step % 9, 8)
            optimizer.zero_grad()
            table(lt.tensor(places)).square().sum().backward()
            optimizer.step()
            rows, counts = np.unique(places, return_counts=True)
            grad = 2 * values[rows] * counts[:, None]
            first[rows] = 0.9 * first[rows] + 0.1 * grad
            second[rows] = 0.999 * second[rows] + 0.001 * grad ** 2
            rate = 0.1 * (1 - 0.999 ** step) ** 0.5 / (1 - 0.9 ** step)
            values[rows] -= rate * first[rows] / (np.sqrt(second[rows]) + 1e-8)
            np.testing.assert_allclose(table.weight.detach().numpy(), values, rtol=1e-4, atol=1e-5)
        assert len(plans) == before
