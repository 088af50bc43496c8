"""`lt.nn.grad`: gradients of convolutions as functions."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from torch_if_there import torch

import lazyten as lt

OPTIONS = {"stride": 2, "padding": 1, "dilation": 1, "groups": 2}


@pytest.mark.torch
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_gradients_of_convolutions_are_pytorchs_and_have_gradients(axes: int) -> None:
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(2, 4) + (5,) * axes), rng.normal(size=(6, 2) + (3,) * axes)
    g = rng.normal(size=(2, 6) + (3,) * axes)

    def found(T: Any) -> list[Any]:
        weight, given = T.tensor(w, requires_grad=True), T.tensor(g)
        of_input = getattr(T.nn.grad, f"conv{axes}d_input")(x.shape, weight, given, **OPTIONS)
        of_weight = getattr(T.nn.grad, f"conv{axes}d_weight")(T.tensor(x), w.shape, given,
                                                              **OPTIONS)
        (of_input ** 2).sum().backward()
        assert not of_weight.requires_grad
        return [v.detach().numpy() for v in (of_input, of_weight, weight.grad)]
    for ours, theirs in zip(found(lt), found(torch), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10)
