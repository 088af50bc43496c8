"""Layers of which each rank has a part: what nn.Linear and nn.Embedding become.

A layer by columns has whole inputs, and some of the outputs; one by rows some of the inputs, and
sums what the ranks make of theirs. One after the other, with anything elementwise or a head's
attention between them, they need one sum forward and one backward.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lazyten.distributed.group import Group
from lazyten.distributed.tensor.parallel import layouts
from lazyten.frontend.functions import arange, where
from lazyten.frontend.tensor import Tensor
from lazyten.nn import functional as F
from lazyten.nn.attributes import replaced
from lazyten.nn.module import Module
from lazyten.nn.modules.linear import Linear
from lazyten.nn.modules.sparse import Embedding
from lazyten.nn.sharded_parameter import interval
from lazyten.support.errors import ShapeError

LAST = -1


@dataclass(frozen=True, slots=True)
class Sharing:
    """How a layer is shared out. takes: the axis of which each rank has a part of what comes in,
    LAST or that of sequences, or None if it is whole on each; gives: the same of what goes out."""

    group: Group
    takes: int | None
    gives: int | None


class ColwiseLinear(Linear):
    """nn.Linear with some of the rows of the weight, and of the bias."""

    _sharing: Sharing

    def forward(self, input: Tensor) -> Tensor:
        how = self._sharing
        _check_last(self, input, self.in_features, how)
        x = layouts.entered(input, how.group) if how.takes is None else \
            layouts.joined(input, how.group, how.takes)
        result = F.linear(x, self.weight, self.bias)
        return layouts.gathered(result, how.group, LAST) if how.gives is None else result


class RowwiseLinear(Linear):
    """nn.Linear with some of the columns of the weight, and the whole bias."""

    _sharing: Sharing

    def forward(self, input: Tensor) -> Tensor:
        how = self._sharing
        _check_last(self, input, self.in_features, how)
        x = layouts.own_part(input, how.group, LAST) if how.takes is None else input
        result = F.linear(x, self.weight)
        bias: Tensor | None = self.bias
        if how.gives is None:
            result = layouts.summed(result, how.group)
        else:
            result = layouts.sum_parts(result, how.group, how.gives)
            bias = None if bias is None else layouts.own_part(bias, how.group, LAST) \
                if how.gives == LAST else layouts.entered(bias, how.group)
        return result if bias is None else result + bias


class ColwiseEmbedding(Embedding):
    """nn.Embedding with some of the features of each row."""

    _sharing: Sharing

    def forward(self, input: Tensor) -> Tensor:
        result = F.embedding(input, self.weight, self.padding_idx)
        how = self._sharing
        return layouts.gathered(result, how.group, LAST) if how.gives is None else result


class RowwiseEmbedding(Embedding):
    """nn.Embedding with some of the rows, of which a rank gives 0 for those that others have."""

    _sharing: Sharing

    def forward(self, input: Tensor) -> Tensor:
        how = self._sharing
        start, stop = interval(self.num_embeddings, how.group.rank, how.group.size)
        numbers = arange(self.num_embeddings, device=input.device)[input]  # which checks them
        is_own = (numbers >= start) & (numbers < stop)
        padding = self.padding_idx
        if padding is not None:
            padding = padding - start if start <= padding < stop else None
        own = F.embedding(where(is_own, numbers - start, 0), self.weight, padding)
        rows = where(is_own.unsqueeze(-1), own, 0.0)
        return layouts.summed(rows, how.group) if how.gives is None else \
            layouts.sum_parts(rows, how.group, how.gives)


class OfSequences(Module):
    """What a layer is, besides what it was, of which each rank computes some positions of a
    sequence: its parameters are whole, and their gradients sums over all positions."""

    _group: Group

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        places = [(owner._parameters, name, layouts.entered(p, self._group))
                  for owner in self.modules() for name, p in owner._parameters.items()
                  if p is not None]
        with replaced(places):
            return super().forward(*inputs, **kwargs)


def _check_last(layer: Linear, input: Tensor, features: int, how: Sharing) -> None:
    is_whole = how.takes != LAST
    wanted = features if is_whole else features // how.group.size
    if not input.ndim or input.shape[-1] != wanted:
        what = "whole" if is_whole else f"one of {how.group.size} parts"
        raise ShapeError(f"{type(layer).__name__} of {features} features: the input has shape "
                         f"{input.shape}; its last axis must be {what}, of size {wanted}. Say by "
                         f"input_layouts of the plan how it comes")
