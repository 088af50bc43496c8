"""What PyTorch has beside `checkpoint`, to choose what is kept: it changes no numbers."""
from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest
from numpy.testing import assert_allclose

import lazyten as lt
from lazyten.utils import checkpoint as module


def _kept(context: object, op: object, *args: object) -> module.CheckpointPolicy:
    return module.CheckpointPolicy.MUST_SAVE


@pytest.mark.parametrize("context_fn", [
    module.noop_context_fn, partial(module.create_selective_checkpoint_contexts, _kept),
    partial(module.create_selective_checkpoint_contexts, ["mm"])])
def test_contexts_that_say_what_is_kept_change_nothing(context_fn: object) -> None:
    x = lt.linspace(-1, 1, 5).requires_grad_()
    with module.set_checkpoint_early_stop(False), module.set_checkpoint_debug_enabled(True):
        y = module.checkpoint(lambda x: x.sin() * x, x, use_reentrant=False, context_fn=context_fn)
    y.sum().backward()
    assert_allclose(x.grad.numpy(), (x.cos() * x + x.sin()).detach().numpy(), rtol=1e-6)


def test_a_context_of_ones_own_is_entered_for_the_call() -> None:
    inside = []

    @contextmanager
    def first() -> Iterator[None]:
        inside.append(True)
        yield
        inside.append(False)

    def call(x: lt.Tensor) -> lt.Tensor:
        assert inside == [True]
        return x.exp()
    x = lt.ones(2, requires_grad=True)
    module.checkpoint(call, x, context_fn=lambda: (first(), first()))
    assert inside == [True, False]


def test_contexts_of_anything_else_are_an_error() -> None:
    with pytest.raises(lt.ArgumentError, match="neither a function of operations nor a list"):
        module.create_selective_checkpoint_contexts(3)  # type: ignore[arg-type]


def test_there_are_no_random_states_beside_the_one() -> None:
    states = module.get_device_states(lt.ones(2))
    assert states == ([], [])
    module.set_device_states(*states)
    assert not lt.cuda._initialized  # what programs ask before


def test_an_argument_that_is_given_back_is_the_argument() -> None:
    """As in PyTorch: what is computed from it later belongs to its gradient."""
    x = lt.tensor([1.0, 2.0], requires_grad=True) * 3
    same, doubled = lt.utils.checkpoint.checkpoint(lambda t: (t, t * 2), x)
    assert same is x
    found, = lt.autograd.grad((x * 5 + same * 6 + doubled).sum(), [x])
    assert found.tolist() == [13, 13]
