"""Training programs as they are written for PyTorch (tests/programs), run unchanged under lazyten:
from the same weights, the losses of each step and all parameters and buffers at the end are
PyTorch's, eagerly and with `lt.jit` around the step."""
from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from torch_programs import PROGRAMS, Trained, initial_state, loaded, train

import lazyten as lt

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.torch

TOLERANCES = {"float32": {"rtol": 1e-4, "atol": 1e-5}, "float64": {"rtol": 1e-9, "atol": 1e-10}}
IN_FLOAT64 = frozenset({"generative/gan", "images/unet", "images/vit", "text/char_rnn",
                        "text/mingpt", "text/routed_experts", "text/seq2seq", "text/translation"})
"""What changes nothing, such as a bias before a normalization or a softmax, has a gradient of
rounding errors, and Adam or RMSprop takes a whole step from it: eps hides what float64 leaves."""
ROUNDED = {"training/mixed_precision": {"rtol": 2 ** -8, "atol": 2 ** -8},
           "text/translation": {"rtol": 1e-9, "atol": 1e-9}}
"""What is computed in bfloat16, which has 8 bits; and a program where the bias of keys has no
gradient but what rounding leaves, some 1e-17, which Adam divides by its eps of 1e-9, and which its
rate of some .01 makes 1e-10 a step."""
RUN_IN_PYTHON = frozenset({
    "generative/vector_quantized", "images/detection", "others/message_passing",
    "others/node_embeddings", "others/ode_adjoint", "text/gru_sentiment", "text/routed_experts",
    "text/tagger_crf", "training/annealed_rows", "training/ensemble", "training/gradient_surgery",
    "training/hooks", "training/lbfgs", "training/loss_scaling", "training/moco",
    "training/own_optimizer"})
"""Programs whose steps lt.jit does not replay: they look at values, change what is outside, or have
sparse gradients. The numbers of the others would be right, and late, if it ran them in Python."""


def dtype(name: str) -> str:
    return "float64" if name in IN_FLOAT64 else "float32"


@cache
def by_pytorch(name: str) -> tuple[dict[str, Any], Trained]:
    """The state that a program starts with, and what PyTorch makes of it."""
    torch.set_default_dtype(getattr(torch, dtype(name)))
    try:
        with loaded(name, ours=False) as program:
            state = initial_state(torch, program)
            return state, train(torch, program, state, dtype(name))
    finally:
        torch.set_default_dtype(torch.float32)


def by_lazyten(name: str, wrap: Callable[[Any], Any]) -> Trained:
    state, _ = by_pytorch(name)
    lt.set_default_dtype(getattr(lt, dtype(name)))
    try:
        with loaded(name, ours=True) as program:
            return train(lt, program, state, dtype(name), wrap)
    finally:
        lt.set_default_dtype(lt.float32)


def check(name: str, ours: Trained) -> None:
    _, theirs = by_pytorch(name)
    within = ROUNDED.get(name) or TOLERANCES[dtype(name)]
    for i, (found, expected) in enumerate(zip(ours.losses, theirs.losses, strict=True)):
        for mine, other in zip(found, expected, strict=True):
            assert mine.dtype == other.dtype
            np.testing.assert_allclose(mine, other, **within, err_msg=f"step {i}")
    assert list(ours.state) == list(theirs.state)
    for key, value in theirs.state.items():
        assert ours.state[key].dtype == value.dtype, key
        np.testing.assert_allclose(ours.state[key], value, **within, err_msg=key)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")  # PyTorch's, of its own speed
@pytest.mark.parametrize("jitted", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_trains_as_under_pytorch(name: str, jitted: bool) -> None:
    made: list[lt.jit[..., Any]] = []

    def wrap(step: Any) -> Any:
        made.extend([lt.jit(step)] if jitted else [])
        return made[0] if jitted else step

    check(name, by_lazyten(name, wrap))
    assert not made or bool(made[0].cache_size) is (name not in RUN_IN_PYTHON)
