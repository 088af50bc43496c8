"""Functions of many tensors that are looked up as one operation (`lookup.as_one`)."""
from __future__ import annotations

from collections.abc import Callable

import pytest

import lazyten as lt
from lazyten.frontend.recorded import lookup


@pytest.mark.parametrize(("name", "most"), [("clip_grad_norm_", 2), ("clip_grad_value_", 1),
                                            ("load_state_dict", 1), ("average", 1)])
def test_what_goes_over_all_parameters_is_one_operation(name: str, most: int,
                                                        monkeypatch: pytest.MonkeyPatch) -> None:
    model, given = (lt.nn.Sequential(*[lt.nn.Linear(3, 3) for _ in range(4)]) for _ in range(2))
    average = lt.optim.swa_utils.get_ema_multi_avg_fn(0.5)
    acts: dict[str, Callable[[], object]] = {
        "clip_grad_norm_": lambda: lt.nn.utils.clip_grad_norm_(model.parameters(), 1.0),
        "clip_grad_value_": lambda: lt.nn.utils.clip_grad_value_(model.parameters(), 1.0),
        "load_state_dict": lambda: model.load_state_dict(given.state_dict()),
        "average": lambda: average([*model.parameters()], [*given.parameters()], None)}
    found, calls = lookup._found, []

    def look(function: object, args: object, kwargs: object) -> object:
        calls.append(function)
        return found(function, args, kwargs)
    monkeypatch.setattr(lookup, "_found", look)
    monkeypatch.setattr(lookup, "takers", set[type]())  # classes of other tests
    for _ in range(3):
        for p in model.parameters():
            p.grad = lt.ones(p.shape)
        calls.clear()
        acts[name]()
    assert len(calls) == most


def test_complex_tensors_are_among_them() -> None:
    p = lt.nn.Parameter(lt.tensor([3.0 + 4.0j, 0.0j]))
    p.grad = lt.tensor([3.0 + 4.0j, 0.0j])
    assert lt.nn.utils.clip_grad_norm_([p], 0.5).item() == pytest.approx(5)
    assert p.grad.tolist() == pytest.approx([0.3 + 0.4j, 0])
    lt.optim.swa_utils.get_ema_multi_avg_fn(0.5)([p.detach()], [p.grad], None)
    assert p.tolist() == pytest.approx([1.65 + 2.2j, 0])


def test_each_leaf_has_its_own_gradient_where_one_was_read_from_several_places() -> None:
    x, w, v = (lt.tensor([1.0, 2.0], requires_grad=True) for _ in range(3))
    for looks in (False, True, True, False, True):
        first, h = (x * 2).sum(), x * 3
        if looks:  # what is recorded after it reads the memory of x anew
            assert (h.tolist(), x.tolist()) == ([3, 6], [1, 2])
        (first + (h * w * x).sum() + (v * 5).sum()).backward()
        assert [t.grad.tolist() for t in (x, w, v)] == [[8, 26], [3, 12], [5, 5]]
        x.grad = w.grad = v.grad = None


def test_a_leaf_that_has_had_two_ids_has_the_gradients_of_both() -> None:
    w, v = (lt.tensor([3.0, 4.0], requires_grad=True) for _ in range(2))
    for _ in range(4):
        x = lt.tensor([1.0, 2.0]).requires_grad_()
        first = (x * 2).sum()
        x.requires_grad_(False).requires_grad_()
        (first + (x * w).sum() + (v * 5).sum()).backward()
        assert [t.grad.tolist() for t in (x, w, v)] == [[5, 6], [1, 2], [5, 5]]
        w.grad = v.grad = None


def test_a_hook_sees_the_sum_of_what_was_read_from_several_places() -> None:
    x = lt.tensor([1.0, 2.0], requires_grad=True)
    seen: list[list[float]] = []
    x.register_hook(lambda g: seen.append(g.tolist()))
    for _ in range(4):
        first, h = (x * 2).sum(), x * 3
        assert (h.tolist(), x.tolist()) == ([3, 6], [1, 2])
        (first + (h * x).sum()).backward()
    assert seen == [[8, 14]] * 4
