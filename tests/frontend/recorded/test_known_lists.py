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
