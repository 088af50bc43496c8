"""Functions of `lazyten` that take what PyTorch's inner ones take, in that order, beside these."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lazyten as lt
from lazyten.pytorch.modules import ABOVE

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

RANDOM = np.random.default_rng(0)
NUMBERS = {"x": (4, 6), "y": (4, 6), "z": (4, 6), "w": (5, 6), "image": (2, 4, 7), "w_ih": (12, 6),
           "w_hh": (12, 3), "b": (12,), "h": (4, 3), "c": (4, 3), "kernel": (6, 2, 3), "one": (4,),
           "back": (4, 3, 3), "logs": (5, 2, 4), "line": (7, 2, 4), "taps": (3, 4, 6), "six": (6,)}
DRAWN = {name: RANDOM.normal(size=shape) for name, shape in NUMBERS.items()}
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "embedding": lambda T, v: T.embedding(v.w, T.tensor([[0, 4], [2, 2]])),
    "embedding, padding": lambda T, v: T.embedding(v.w, T.tensor([0, 2, 2]), 2),
    "batch_norm": lambda T, v: T.batch_norm(v.x, v.six, v.six * 2, None, None, True, 0.1, 1e-5,
                                            False),
    "instance_norm": lambda T, v: T.instance_norm(v.image, v.one, v.one * 2, None, None, True, 0.1,
                                                  1e-5, True),
    "convolution": lambda T, v: T.convolution(v.image, v.kernel, v.six, [2], [1], [1], False, [0],
                                              2),
    "convolution back": lambda T, v: T.convolution(v.image, v.back, None, [2], [1], [1], True, [1],
                                                   1),
    "conv_tbc": lambda T, v: T.conv_tbc(v.line, v.taps, v.six, 1),
    "adaptive_max_pool1d": lambda T, v: T.adaptive_max_pool1d(v.image, 3)[0],
    "max_pool1d_with_indices": lambda T, v: T.max_pool1d_with_indices(v.image, 3, 2)[0],
    "binary_cross_entropy_with_logits": lambda T, v: T.binary_cross_entropy_with_logits(
        v.x, v.y.sigmoid(), None, None, 2),
    "kl_div": lambda T, v: T.kl_div(v.x, v.y.softmax(1)) + T.kl_div(v.x, v.y, 0, log_target=True),
    "poisson_nll_loss": lambda T, v: T.poisson_nll_loss(v.x, v.y.exp(), True, True, 1e-8, 1),
    "cosine_embedding_loss": lambda T, v: T.cosine_embedding_loss(v.x, v.y, v.one.sign(), 0.2, 0),
    "hinge_embedding_loss": lambda T, v: T.hinge_embedding_loss(v.x, v.y.sign(), 0.7),
    "margin_ranking_loss": lambda T, v: T.margin_ranking_loss(v.x, v.y, v.z.sign(), 0.3, 2),
    "triplet_margin_loss": lambda T, v: T.triplet_margin_loss(v.x, v.y, v.z, 2.0, 2, 1e-6, True, 0),
    "ctc_loss": lambda T, v: T.ctc_loss(v.logs.log_softmax(2), T.tensor([[1, 2], [3, 1]]), (5, 4),
                                        (2, 1), 0, 0, True),
    "lstm_cell": lambda T, v: T.cat(T.lstm_cell(v.x, (v.h, v.c), v.w_ih, v.w_hh, v.b, v.b * 2)),
    "gru_cell": lambda T, v: T.gru_cell(v.x, v.h, v.w_ih[:9], v.w_hh[:9], v.b[:9], v.b[3:]),
    "rnn_tanh_cell": lambda T, v: T.rnn_tanh_cell(v.x, v.h, v.w_ih[:3], v.w_hh[:3]),
    "rnn_relu_cell": lambda T, v: T.rnn_relu_cell(v.x, v.h, v.w_ih[:3], v.w_hh[:3], v.b[:3],
                                                  v.b[3:6]),
}


class Values:
    """Fresh leaves of a library, by name."""

    def __init__(self, T: Any) -> None:
        self.made = {name: T.tensor(value, requires_grad=True) for name, value in DRAWN.items()}

    def __getattr__(self, name: str) -> Any:
        return self.made[name]


def test_each_of_these_functions_has_a_row() -> None:
    homes = ("nn.native", "nn.sequence.cells", "nn.functional")
    assert {name.partition(",")[0].partition(" ")[0] for name in CALLS} \
        == {name for name, home in ABOVE.items() if home in homes and "." not in name}


@pytest.mark.parametrize("name", CALLS)
def test_results_and_gradients_are_pytorchs(name: str) -> None:
    found = []
    for T in (lt, torch):
        values = Values(T)
        result = CALLS[name](T, values)
        (result * result.detach().cos()).sum().backward()
        found.append((result.detach().numpy(), {
            key: leaf.grad.numpy() for key, leaf in values.made.items() if leaf.grad is not None}))
    (mine, grads), (other, others) = found
    np.testing.assert_allclose(mine, other, rtol=1e-10, atol=1e-12)
    assert grads.keys() == others.keys()
    for key, value in grads.items():
        np.testing.assert_allclose(value, others[key], rtol=1e-9, atol=1e-11, err_msg=key)


def test_a_reduction_by_name_is_an_error_that_names_the_other_function() -> None:
    with pytest.raises(lt.ArgumentError, match=r"nn\.functional"):
        lt.kl_div(lt.ones(2), lt.ones(2), "mean")
