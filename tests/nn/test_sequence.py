"""Layers for sequences: what they refuse, and say about it."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import lazyten as lt
from lazyten import nn


def zeros(*shape: int) -> lt.Tensor:
    return lt.zeros(*shape)


def attend(*shapes: tuple[int, ...], **options: Any) -> Callable[[], object]:
    """A call of attention with 4 features and 2 heads."""
    return lambda: nn.MultiheadAttention(4, 2)(*(zeros(*s) for s in shapes), **options)


Q, K = (5, 3, 4), (7, 3, 4)

MISTAKES: list[tuple[Callable[[], object], type[lt.LazytenError], list[str]]] = [
    (lambda: nn.MultiheadAttention(5, 2), lt.ArgumentError, ["2 heads", "5 features"]),
    (lambda: nn.MultiheadAttention(4, 0), lt.ArgumentError, ["(4, 0)", "1 or more"]),
    (lambda: nn.MultiheadAttention(4, 2, dropout=2.0), lt.ArgumentError, ["p=2.0"]),
    (attend((5, 4), K, K), lt.ShapeError, ["(5, 4)", "(7, 3, 4)", "length, batch"]),
    (attend((4,), (4,), (4,)), lt.ShapeError, ["(4,)"]),
    (attend((5, 3, 6), K, K), lt.ShapeError, ["6 features", "embed_dim is 4"]),
    (attend(Q, K, (6, 3, 4)), lt.ShapeError, ["(7, 3, 4)", "(6, 3, 4)", "axis 0"]),
    (attend(Q, (7, 2, 4), (7, 2, 4)), lt.ShapeError, ["(7, 2, 4)", "axis 1"]),
    (attend(Q, K, K, attn_mask=zeros(5, 6)), lt.ShapeError, ["(5, 6)", "(5, 7)", "(6, 5, 7)"]),
    (attend(Q, K, K, attn_mask=zeros(7)), lt.ShapeError, ["attn_mask", "(7,)"]),
    (attend(Q, K, K, attn_mask=zeros(5, 7).long()), lt.DTypeError, ["attn_mask", "int64", "bool"]),
    (attend(Q, K, K, key_padding_mask=zeros(7)), lt.ShapeError, ["(7,)", "2 axes"]),
    (attend(Q, K, K, key_padding_mask=zeros(3, 6)), lt.ShapeError, ["(3, 6)", "(3, 7)"]),
    (attend(Q, K, K, is_causal=True), lt.ArgumentError, ["is_causal", "attn_mask", "subsequent"]),
    (lambda: nn.MultiheadAttention(4, 2)(zeros(*Q), [0.0], zeros(*K)), lt.DTypeError, ["list"]),
    (lambda: nn.TransformerEncoderLayer(4, 2, activation="tan"), lt.ArgumentError,
     ["'tan'", "relu, gelu"]),
    (lambda: nn.Transformer(4, 2, 1, 1, 4)(zeros(5, 3, 4), zeros(5, 2, 4)), lt.ShapeError,
     ["(5, 3, 4)", "(5, 2, 4)", "axis 1"]),
    (lambda: nn.Transformer(4, 2, 1, 1, 4)(zeros(5, 3, 4), zeros(5, 3, 6)), lt.ShapeError,
     ["(5, 3, 6)", "d_model"]),
]


@pytest.mark.parametrize("number", range(len(MISTAKES)))
def test_refusals_name_what_is_wrong(number: int) -> None:
    mistake, error, words = MISTAKES[number]
    with pytest.raises(error) as raised:
        mistake()
    for word in words:
        assert word in str(raised.value)
