"""L-BFGS with a long history, of which one program goes through many entries."""
from __future__ import annotations

import numpy as np
import pytest

import lazyten as lt
from lazyten import optim
from lazyten.optim import lbfgs


@pytest.mark.parametrize("size", [5, 8, 100])
def test_a_history_that_is_gone_through_by_parts_gives_what_it_gives_entry_by_entry(
        size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def descended() -> tuple[list[float], list[float]]:
        scales = lt.tensor(np.linspace(1, 40, 24))
        w = lt.tensor(np.linspace(-1, 1, 24), requires_grad=True)
        optimizer = optim.LBFGS([w], lr=0.5, max_iter=6, history_size=size)

        def closure() -> lt.Tensor:
            optimizer.zero_grad()
            loss = (scales * (w - 2).square()).sum() + w.sin().sum()
            loss.backward()
            return loss
        losses = [optimizer.step(closure).item() for _ in range(4)]
        assert len(optimizer.state[w]["old_dirs"]) == min(size, 23)
        return losses, w.tolist()
    found = descended()
    monkeypatch.setattr(lbfgs, "AT_ONCE", 1)
    expected = descended()
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-9)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-9)
