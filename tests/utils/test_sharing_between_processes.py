"""Tensors in memory that forked processes share: `share_memory_()`, as Hogwild training has it."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lazyten as lt
from lazyten import nn

mp: Any = lt.multiprocessing


def forked(function: Callable[[], object]) -> None:
    """Run a function in a process of its own, to its end."""
    process = mp.get_context("fork").Process(target=function)
    process.start()
    process.join(60)
    assert process.exitcode == 0


def test_what_a_forked_process_writes_is_read_here_and_what_is_written_here_there() -> None:
    x = lt.arange(6.0).reshape(2, 3)
    view = x.t()[1]
    assert not x.is_shared()
    assert x.share_memory_() is x and x.is_shared() and view.is_shared()
    total = (x * 2).sum()
    forked(lambda: x.add_(10.0))
    assert total.item() == 30.0
    assert x.tolist() == [[10.0, 11.0, 12.0], [13.0, 14.0, 15.0]] and view.tolist() == [11.0, 14.0]
    x[0, 0] = -1.0

    def looks() -> None:
        assert x[0].tolist() == [-1.0, 11.0, 12.0]
        view.zero_()

    forked(looks)
    assert (x + 1).tolist() == [[0.0, 1.0, 13.0], [14.0, 1.0, 16.0]]


def test_a_tensor_that_is_not_shared_is_each_processs_own() -> None:
    x = lt.zeros(3)
    forked(lambda: x.add_(1.0).realize())
    assert x.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("kind", ["SGD", "Adam"])
def test_processes_train_one_module(kind: str) -> None:
    lt.manual_seed(0)
    module = nn.Sequential(nn.Linear(3, 4, bias=False), nn.BatchNorm1d(4), nn.Linear(4, 1))
    alone = nn.Sequential(nn.Linear(3, 4, bias=False), nn.BatchNorm1d(4), nn.Linear(4, 1))
    alone.load_state_dict(module.state_dict())
    assert module.share_memory() is module
    assert all(t.is_shared() for t in module.state_dict().values())
    x = lt.randn(8, 3)

    def train(given: nn.Module) -> None:
        optimizer = getattr(lt.optim, kind)(given.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            given(x).square().mean().backward()
            optimizer.step()

    for _ in range(2):
        forked(lambda: train(module))
        train(alone)
    for name, value in alone.state_dict().items():
        np.testing.assert_allclose(module.state_dict()[name].numpy(), value.numpy(), rtol=1e-5,
                                   err_msg=name)


def test_sharing_leaves_numbers_types_and_gradients_as_they_were() -> None:
    for dtype in (lt.float64, lt.bfloat16, lt.int32, lt.bool_):
        x = lt.tensor([[1, 0, 3]]).to(dtype=dtype)
        before = x.tolist()
        assert x.share_memory_().tolist() == before and x.dtype is dtype
    leaf = lt.ones(2, requires_grad=True).share_memory_()
    (leaf * 3).sum().backward()
    assert leaf.is_leaf and leaf.grad is not None and leaf.grad.tolist() == [3.0, 3.0]
    assert lt.zeros(0, 2).share_memory_().shape == (0, 2)


def test_a_spawned_process_would_get_a_copy_which_is_an_error() -> None:
    x = lt.ones(2).share_memory_()
    with pytest.raises(NotImplementedError, match="fork"):
        mp.get_context("spawn").Process(target=print, args=(x,)).start()
