"""A GPT of characters, and its sampling with the keys and values of earlier characters kept.

In: numbers of characters. Out: logits of the next one. Called by gpt.py. The network is that of
Radford et al., "Language models are unsupervised multitask learners", 2019, made small.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import lazyten as lt
from lazyten import nn
from lazyten.nn import functional as F


class Shape(NamedTuple):
    """Sizes of a GPT; `block` is the most characters that it looks back on."""

    vocabulary: int
    block: int = 64
    layers: int = 3
    heads: int = 4
    width: int = 96


Cache = Sequence[tuple[lt.Tensor, lt.Tensor]]
"""For each layer keys and values (n, heads, block, width / heads), zero where none is known yet."""


class Attention(nn.Module):
    """Causal self-attention of all characters, or of one with those before it in a cache."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.project = nn.Linear(shape.width, 3 * shape.width)
        self.out = nn.Linear(shape.width, shape.width)

    def forward(self, x: lt.Tensor) -> lt.Tensor:
        """(n, length, width) -> (n, length, width)."""
        q, k, v = self._split(x)
        return self._join(F.scaled_dot_product_attention(q, k, v, is_causal=True))

    def next(self, x: lt.Tensor, position: lt.Tensor, keys: lt.Tensor,
             values: lt.Tensor) -> tuple[lt.Tensor, lt.Tensor, lt.Tensor]:
        """(n, 1, width) at a position, a tensor (); gives what attention does, and the new cache.

        The cache has one size from the first character to the last, so one program serves all.
        """
        q, k, v = self._split(x)
        places = lt.arange(keys.shape[2], device=x.device)
        here = (places == position)[:, None]
        keys, values = lt.where(here, k, keys), lt.where(here, v, values)
        seen = F.scaled_dot_product_attention(q, keys, values, attn_mask=(places <= position)[None])
        return self._join(seen), keys, values

    def _split(self, x: lt.Tensor) -> list[lt.Tensor]:
        """Queries, keys and values, each (n, heads, length, width / heads)."""
        return [part.unflatten(2, (self.heads, -1)).transpose(1, 2)
                for part in self.project(x).chunk(3, 2)]

    def _join(self, x: lt.Tensor) -> lt.Tensor:
        return self.out(x.transpose(1, 2).flatten(2))


class Block(nn.Module):
    """Attention, then two layers on each character alone; both are added to what comes in."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(shape.width), nn.LayerNorm(shape.width)
        self.attention = Attention(shape)
        self.mlp = nn.Sequential(nn.Linear(shape.width, 4 * shape.width), nn.GELU(),
                                 nn.Linear(4 * shape.width, shape.width))

    def forward(self, x: lt.Tensor) -> lt.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))

    def next(self, x: lt.Tensor, position: lt.Tensor, keys: lt.Tensor,
             values: lt.Tensor) -> tuple[lt.Tensor, lt.Tensor, lt.Tensor]:
        seen, keys, values = self.attention.next(self.norm1(x), position, keys, values)
        x = x + seen
        return x + self.mlp(self.norm2(x)), keys, values


class GPT(nn.Module):
    """(n, length) numbers of characters -> (n, length, vocabulary) logits of the next ones."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.embed = nn.Embedding(shape.vocabulary, shape.width)
        self.position = nn.Embedding(shape.block, shape.width)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)
        for layer in self.modules():
            if isinstance(layer, (nn.Linear, nn.Embedding)):
                nn.init.normal_(layer.weight, 0.0, 0.02)

    def forward(self, x: lt.Tensor) -> lt.Tensor:
        x = self.embed(x) + self.position(lt.arange(x.shape[1], device=x.device))
        for block in self.blocks:
            x = block(x)
        return self.logits(x)

    def next(self, x: lt.Tensor, position: lt.Tensor, cache: Cache) -> tuple[lt.Tensor, Cache]:
        """The logits (n, vocabulary) after the characters (n,), which stand at `position`, ()."""
        x = (self.embed(x) + self.position(position))[:, None]
        after = []
        for block, (keys, values) in zip(self.blocks, cache, strict=True):
            x, *kept = block.next(x, position, keys, values)
            after.append(tuple(kept))
        return self.logits(x)[:, 0], after

    def logits(self, x: lt.Tensor) -> lt.Tensor:
        """Embedding and output share their weight."""
        return F.linear(self.norm(x), self.embed.weight)

    def empty_cache(self, count: int, device: str) -> Cache:
        shape = (count, self.shape.heads, self.shape.block, self.shape.width // self.shape.heads)
        return [(lt.zeros(shape, device=device), lt.zeros(shape, device=device))
                for _ in self.blocks]


def sample(model: GPT, start: Sequence[int], count: int, *, temperature: float = 0.8,
           device: str = "cpu") -> Iterator[int]:
    """Go on from `start`, which has one character or more, by `count` characters.

    Each costs one character's work, as the cache has what attention needs of the others. When it
    is full, the model starts anew from the later half of what it wrote.
    """
    @lt.jit
    def step(x: lt.Tensor, position: lt.Tensor, cache: Cache) -> tuple[lt.Tensor, Cache]:
        with lt.no_grad():
            logits, cache = model.next(x, position, cache)
            return lt.multinomial((logits / temperature).softmax(1), 1)[:, 0], cache

    block = model.shape.block
    text, read = list(start), 0  # `read` characters of `text[-block:]` are in the cache
    cache, window = model.empty_cache(1, device), text[-block // 2:]
    for _ in range(count):
        if len(window) > block:
            window, read, cache = window[-block // 2:], 0, model.empty_cache(1, device)
        for position in range(read, len(window)):
            chosen, cache = step(lt.tensor(window[position:position + 1], device=device),
                                 lt.tensor(position, device=device), cache)
        read = len(window)
        window = [*window, chosen.item()]
        yield window[-1]
