"""Lists of tensors that are others each time (frontend/recorded/joining.py) give what they give
where nothing is looked up, and are recorded once."""
from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from changing_programs import anew
from hypothesis import given, settings
from hypothesis import strategies as st
from tensor_values import assert_alike

import lazyten as lt
from lazyten.frontend.recorded import lookup

MAKERS: list[Callable[[np.ndarray[Any, Any]], lt.Tensor]] = [
    lambda row: lt.tensor(row),
    lambda row: lt.tensor(row[0]).unsqueeze(0),
    lambda row: lt.from_numpy(row),
    lambda row: lt.tensor(row.T).t(),
    lambda row: lt.tensor(np.concatenate([row, row + 1]))[1:],
    lambda row: (lt.tensor(row) * 2).realize(),
]


def _memory(count: int, makers: list[int]) -> list[lt.Tensor]:
    rows = np.random.default_rng(3).normal(size=(count, 1, 3)).astype(np.float32)
    return [MAKERS[makers[n % len(makers)]](row) for n, row in enumerate(rows)]


@pytest.mark.parametrize("join", [lt.cat, lt.stack, lambda xs: lt.vstack(tensors=xs),
                                  lambda xs: lt.cat(tuple(xs), dim=1)])
def test_lists_that_are_drawn_are_recorded_once(join: Any,
                                                monkeypatch: pytest.MonkeyPatch) -> None:
    chosen, memory, recorded = random.Random(1), _memory(9, [0, 1, 2]), lookup._recorded
    made: list[object] = []

    def record(*args: Any) -> Any:
        made.append(args)
        return recorded(*args)
    monkeypatch.setattr(lookup, "_recorded", record)
    for step in range(12):
        if step == 6:
            made.clear()
        drawn = [chosen.choice(memory) for _ in range(8)]
        again = [chosen.choice(memory) for _ in range(8)]
        assert (join(drawn) * join(again)).sum().item() == pytest.approx(float(sum(
            [(x * y).sum().item() for x, y in zip(drawn, again, strict=True)])), rel=1e-4)
    assert not [args for args in made if args[1].__name__ in ("cat", "stack", "vstack")]


ACTS = ("draw", "write", "write array", "graph", "replace")


def _seen(makers: list[int], acts: list[str], seed: int) -> list[Any]:
    """What a program sees that draws lists from a memory which it changes."""
    chosen, memory, seen = random.Random(seed), _memory(6, makers), []
    arrays = [np.ones((1, 3), np.float32) * n for n in range(3)]
    memory += [lt.from_numpy(a) for a in arrays]
    weight = lt.full((1, 3), 2.0).requires_grad_()
    for act in acts:
        drawn = [chosen.choice(memory) for _ in range(5)]
        if act == "write":
            drawn[0].add_(1)
        elif act == "write array":
            arrays[chosen.randrange(3)][0, chosen.randrange(3)] += 1
        elif act == "graph":
            drawn[1] = drawn[2] * weight
        elif act == "replace":
            memory[chosen.randrange(6)] = drawn[0] + drawn[1]
        joined = lt.cat(drawn)
        other = lt.stack([joined[0], drawn[3][0], drawn[3][0]])
        if act == "write":
            drawn[3].mul_(0.5)  # what was joined stays
        if act == "graph":
            (joined.square().sum() + other.sum()).backward()
            seen.append(weight.grad.tolist())
        seen.append((joined.tolist(), other.sum().item()))
    return seen


@settings(max_examples=10, deadline=None)
@given(makers=st.lists(st.integers(0, len(MAKERS) - 1), min_size=1, max_size=4),
       acts=st.lists(st.sampled_from(ACTS), min_size=8, max_size=20), seed=st.integers(0, 99))
def test_lists_that_are_drawn_give_what_they_give_anew(makers: list[int], acts: list[str],
                                                       seed: int) -> None:
    with anew():
        expected = _seen(makers, acts, seed)
    lookup.forget()
    assert_alike(_seen(makers, acts, seed), expected, rel=1e-6, abs=1e-6)


def test_a_tensor_that_is_joined_and_written_is_read_before() -> None:
    chosen, memory = random.Random(2), _memory(4, [0])
    for _ in range(10):
        drawn = [chosen.choice(memory) for _ in range(4)]
        expected = [x.tolist()[0] for x in drawn]
        joined = lt.cat(drawn)
        for x in memory:
            x.add_(1)
        assert joined.tolist() == expected
