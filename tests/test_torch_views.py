"""Strides, contiguity and which reshapes are views, beside PyTorch's."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lazyten as lt

torch = pytest.importorskip("torch")

MOVES: dict[str, Callable[[Any], Any]] = {
    "transpose": lambda x: x.transpose(0, -1), "first": lambda x: x[..., :1],
    "second": lambda x: x[1:], "step": lambda x: x[..., ::2], "none": lambda x: x[None],
    "squeeze": lambda x: x.squeeze(), "flat": lambda x: x.flatten(),
    "expand": lambda x: x.unsqueeze(0).expand(3, *x.shape), "T": lambda x: x.mT,
    "narrow": lambda x: x.narrow(-1, 0, 2), "select": lambda x: x.select(0, 1),
    "split": lambda x: x.split(2, -1)[0], "permute": lambda x: x.permute(*range(1, x.ndim), 0)}


@given(names=st.lists(st.sampled_from(sorted(MOVES)), min_size=1, max_size=4))
def test_strides_and_contiguity_are_torchs(names: list[str]) -> None:
    ours, theirs = lt.arange(120).reshape(4, 5, 6), torch.arange(120).reshape(4, 5, 6)
    for name in names:
        try:
            theirs = MOVES[name](theirs)
        except (RuntimeError, IndexError):
            continue
        ours = MOVES[name](ours)
        assert ours.shape == tuple(theirs.shape)
        assert ours.tolist() == theirs.tolist()
        assert ours.is_contiguous() == theirs.is_contiguous()
        mine = [s for s, n in zip(ours.stride(), ours.shape, strict=True) if n > 1]
        other = [s for s, n in zip(theirs.stride(), theirs.shape, strict=True) if n > 1]
        if ours.numel() and name != "flat":  # of a copy, strides are those of the new memory
            assert mine == other, names
            assert ours.storage_offset() == theirs.storage_offset()
        if name == "flat":
            ours, theirs = ours.contiguous().clone(), theirs.contiguous().clone()


VIEWS = [((4, 6), lambda x: x, (24,)), ((4, 6), lambda x: x.T, (24,)),
         ((4, 6), lambda x: x.T, (6, 2, 2)), ((4, 6), lambda x: x[:, ::2], (4, 3, 1)),
         ((4, 6), lambda x: x[:, ::2], (12,)), ((4, 6), lambda x: x[::2], (12,)),
         ((4, 6), lambda x: x[1:3], (12,)), ((4, 6), lambda x: x[:, :3], (2, 2, 3)),
         ((4, 6), lambda x: x[:, :3], (2, 6)), ((1, 6), lambda x: x.expand(4, 6), (24,)),
         ((1, 6), lambda x: x.expand(4, 6), (2, 2, 6)), ((2, 3, 4), lambda x: x.transpose(0, 1),
                                                         (3, 8)),
         ((2, 3, 4), lambda x: x.transpose(1, 2), (2, 12)), ((2, 0), lambda x: x.T, (5, 0))]


@pytest.mark.parametrize(("shape", "move", "new"), VIEWS)
def test_view_is_refused_where_torch_refuses_it(shape: tuple[int, ...], move: Callable[[Any], Any],
                                                new: tuple[int, ...]) -> None:
    ours, theirs = move(lt.zeros(shape)), move(torch.zeros(shape))
    try:
        expected = theirs.view(new)
    except RuntimeError:
        with pytest.raises(lt.ShapeError, match=r"reshape\(\)"):
            ours.view(new)
        assert ours.reshape(new).shape == new
    else:
        found = ours.view(new)
        assert found.shape == tuple(expected.shape)
        if shape[0] != 1:  # expanded elements cannot be written
            found += 1
            assert ours.sum().item() == ours.numel()
