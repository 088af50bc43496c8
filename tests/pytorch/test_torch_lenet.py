"""Training LeNet beside PyTorch: equal weights and images give equal losses."""
from __future__ import annotations

import numpy as np
import pytest
from lenet_steps import batches, lenet, load, train, weights
from tensor_values import counted_plans

import lazyten as lt

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.torch


def test_twenty_steps_of_lenet_have_torchs_losses_and_compile_one_plan() -> None:
    values = weights()
    theirs = lenet(torch.nn)
    theirs.load_state_dict({n: torch.tensor(v) for n, v in values.items()})
    ours = load(lenet(lt.nn), "cpu", values)
    images, labels = (np.tile(a, (5,) + (1,) * (a.ndim - 1)) for a in batches(4, 16))
    lt.realize(*ours.state_dict().values())
    with counted_plans() as made:
        found = train(lt, ours, "cpu", images, labels)
    assert len(made) <= 1
    expected = train(torch, theirs, "cpu", images, labels)
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    assert np.mean(found[-4:]) < np.mean(found[:4])
