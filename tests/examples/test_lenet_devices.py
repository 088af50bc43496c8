"""Steps of LeNet on the interpreter and compiled: the same but for the rounding of float32."""
from __future__ import annotations

import numpy as np
from lenet_steps import batches, lenet, load, train, weights

import lazyten as lt


def test_a_step_of_lenet_is_the_same_on_both_devices() -> None:
    values = weights(seed=4)
    images, labels = batches(2, 2)
    models = {d: load(lenet(lt.nn), d, values) for d in ("cpu", "interpreter")}
    losses = {d: train(lt, m, d, images, labels) for d, m in models.items()}
    np.testing.assert_allclose(losses["cpu"], losses["interpreter"], rtol=1e-5)
    here, there = (m.state_dict() for m in models.values())
    for name, value in here.items():
        change = np.abs(value.numpy() - values[name]).max()
        assert change > 0
        np.testing.assert_allclose(value.numpy(), there[name].numpy(), rtol=1e-4,
                                   atol=float(change) * 1e-3, err_msg=name)
