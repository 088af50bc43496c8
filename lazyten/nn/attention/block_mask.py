"""`BlockMask`: what each query sees, as a function, and which blocks of it are empty.

In: a function `mask_mod(batch, head, query, key)` of positions, each a tensor of one number, that
gives a bool, or lists of blocks. Out: a BlockMask, for `flex_attention`. PyTorch's kernels skip
empty blocks; here a mask is computed where it is used, and the lists say what is in it.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from lazyten.frontend.functions import arange, zeros
from lazyten.frontend.tensor import Tensor
from lazyten.func.mapping import vmap
from lazyten.ir import dtype as dt
from lazyten.nn.functions.padding import pad
from lazyten.support.errors import ArgumentError, LazytenError, ShapeError

MaskMod = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
BLOCK = 128
"""Queries and keys of a block, unless it is said."""


def noop_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    """True: everything is seen."""
    return batch.new_ones((), dtype=dt.bool_)


def _not_of_a_part(*positions: Tensor) -> Tensor:
    raise LazytenError("a part of a BlockMask has no mask_mod, as positions begin at 0 in it: "
                       "assign one to it, of positions in the part")


def over_positions(function: Callable[..., Tensor], shape: tuple[int, int, int, int], device: Any,
                   *scores: Tensor) -> Tensor:
    """A function of numbers (and of scores of this shape) at all positions (batch, head, query,
    key), each a tensor of one int."""
    mapped, shared = function, (0,) * len(scores)
    for place in (3, 2, 1, 0):
        axes = tuple(0 if i == place else None for i in range(4))
        mapped = vmap(mapped, (*shared, *axes), randomness="different")
    result: Tensor = mapped(*scores, *(arange(n, device=device) for n in shape))
    return result


def create_mask(mod_fn: Callable[..., Tensor], B: int | None, H: int | None, Q_LEN: int,
                KV_LEN: int, device: Any = None) -> Tensor:
    """What `mod_fn` gives at all positions, (B, H, Q_LEN, KV_LEN): bools of a mask_mod, or scores,
    from 0, of a score_mod, which has five arguments. B or H None: it is the same for all, 1."""
    shape = (B or 1, H or 1, Q_LEN, KV_LEN)
    if _is_of_scores(mod_fn):
        return over_positions(mod_fn, shape, device, zeros(shape, device=device))
    return over_positions(mod_fn, shape, device)


def _is_of_scores(function: Callable[..., Any]) -> bool:
    from inspect import Parameter, signature
    return sum(p.default is Parameter.empty and p.kind in (
        Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
               for p in signature(function).parameters.values()) == 5


def create_block_mask(mask_mod: MaskMod, B: int | None, H: int | None, Q_LEN: int, KV_LEN: int,
                      device: Any = None, BLOCK_SIZE: int | tuple[int, int] = BLOCK,
                      _compile: bool = False, separate_full_blocks: bool = True,
                      **options: Any) -> BlockMask:
    """The BlockMask of a function of positions. B, H: None where it is the same for all batches
    or heads. BLOCK_SIZE: queries and keys of a block. separate_full_blocks: those in which all is
    seen are listed apart. Options of PyTorch's kernels change nothing."""
    sizes = _sizes(BLOCK_SIZE)
    mask = create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device)
    seen = _in_blocks(mask, sizes).sum((-3, -1))
    is_full = seen == sizes[0] * sizes[1]
    partial = (seen > 0) & ~is_full if separate_full_blocks else seen > 0
    count, columns = _ordered(partial)
    full = _ordered(is_full) if separate_full_blocks else (None, None)
    made = BlockMask.from_kv_blocks(count, columns, full[0], full[1], sizes, mask_mod,
                                    (Q_LEN, KV_LEN))
    made._made_of = mask_mod
    return made


def _sizes(block: int | tuple[int, int]) -> tuple[int, int]:
    """Queries and keys of a block, of which there may be one number for both."""
    return (block, block) if isinstance(block, int) else block


def _check_axes(indices: Tensor) -> None:
    if indices.ndim < 2:
        raise ShapeError(f"BlockMask: kv_indices has shape {indices.shape}; it needs axes of "
                         f"blocks of queries and of keys")


def _in_blocks(mask: Tensor, sizes: tuple[int, int]) -> Tensor:
    """A mask (B, H, Q, K) as (B, H, blocks, queries, blocks, keys); False beyond its end."""
    q, k = mask.shape[-2:]
    whole = pad(mask, (0, -k % sizes[1], 0, -q % sizes[0]))
    return whole.reshape(*mask.shape[:2], -(-q // sizes[0]), sizes[0], -(-k // sizes[1]), sizes[1])


def _ordered(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """How many blocks of each row are True, and the row's columns, these first, as int32."""
    order = blocks.int().argsort(-1, descending=True, stable=True)
    return blocks.sum(-1).int(), order.int()


def _listed(count: Tensor | None, columns: Tensor | None) -> Tensor | None:
    """Which blocks are among the first `count` of each row's columns."""
    if count is None or columns is None:
        return None
    width = columns.shape[-1]
    is_one = arange(width, device=columns.device) < count.unsqueeze(-1)
    found = zeros(columns.shape, dtype=dt.int32, device=columns.device)
    return found.scatter_add(-1, columns.long(), is_one.int()) > 0


class BlockMask:
    """What each query sees: `mask_mod` where a block is among `kv_indices`, all where it is among
    `full_kv_indices`, and nothing in other blocks.

    kv_num_blocks (B, H, blocks of queries): how many of kv_indices (B, H, blocks of queries,
    blocks of keys) count; so for full blocks, and for blocks of queries a block of keys.
    seq_lengths: the numbers of queries and keys. BLOCK_SIZE: queries and keys of a block.
    """

    def __init__(self, seq_lengths: tuple[int, int], kv_num_blocks: Tensor, kv_indices: Tensor,
                 full_kv_num_blocks: Tensor | None, full_kv_indices: Tensor | None,
                 q_num_blocks: Tensor | None, q_indices: Tensor | None,
                 full_q_num_blocks: Tensor | None, full_q_indices: Tensor | None,
                 BLOCK_SIZE: tuple[int, int] = (BLOCK, BLOCK), mask_mod: MaskMod = noop_mask,
                 **options: Any) -> None:
        _check_axes(kv_indices)
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise ArgumentError("BlockMask: give both full_kv_num_blocks and full_kv_indices, or "
                                "neither")
        self.seq_lengths, self.BLOCK_SIZE, self.mask_mod = seq_lengths, BLOCK_SIZE, mask_mod
        self.kv_num_blocks, self.kv_indices = kv_num_blocks, kv_indices
        self.full_kv_num_blocks, self.full_kv_indices = full_kv_num_blocks, full_kv_indices
        self.q_num_blocks, self.q_indices = q_num_blocks, q_indices
        self.full_q_num_blocks, self.full_q_indices = full_q_num_blocks, full_q_indices
        self._made_of: MaskMod | None = None  # a mask_mod that says all that the lists do

    @classmethod
    def from_kv_blocks(cls, kv_num_blocks: Tensor, kv_indices: Tensor,
                       full_kv_num_blocks: Tensor | None = None,
                       full_kv_indices: Tensor | None = None,
                       BLOCK_SIZE: int | tuple[int, int] = BLOCK,
                       mask_mod: MaskMod | None = None,
                       seq_lengths: tuple[int, int] | None = None, compute_q_blocks: bool = True,
                       **options: Any) -> BlockMask:
        """The mask of blocks of keys that each block of queries sees. seq_lengths: as many as the
        blocks have, unless given."""
        sizes = _sizes(BLOCK_SIZE)
        _check_axes(kv_indices)
        partial, full = (_listed(kv_num_blocks, kv_indices),
                         _listed(full_kv_num_blocks, full_kv_indices))
        part, whole = ((None, None) if dense is None or not compute_q_blocks else
                       _ordered(dense.mT) for dense in (partial, full))
        blocks = kv_indices.shape[-2:]
        lengths = (blocks[0] * sizes[0], blocks[1] * sizes[1]) if seq_lengths is None else \
            seq_lengths
        return cls(lengths, kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices,
                   part[0], part[1], whole[0], whole[1], sizes,
                   noop_mask if mask_mod is None else mask_mod)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the whole mask: batches, heads, queries, keys."""
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def numel(self) -> int:
        """How many pairs of a query and a key there are."""
        return math.prod(self.shape)

    def sparsity(self) -> float:
        """Percent of the mask that lies in blocks of which nothing is seen."""
        blocks = int(self.kv_num_blocks.sum().item())
        if self.full_kv_num_blocks is not None:
            blocks += int(self.full_kv_num_blocks.sum().item())
        return 100 * (1 - blocks * self.BLOCK_SIZE[0] * self.BLOCK_SIZE[1] / self.numel())

    def to_dense(self) -> Tensor:
        """Which blocks something is seen of, bool, by their positions."""
        partial, full = self._dense()
        return partial if full is None else partial | full

    def _dense(self) -> tuple[Tensor, Tensor | None]:
        """Which blocks mask_mod says something of, and which are seen whole, by their positions."""
        partial = _listed(self.kv_num_blocks, self.kv_indices)
        assert partial is not None
        return partial, _listed(self.full_kv_num_blocks, self.full_kv_indices)

    def as_tuple(self, flatten: bool = True) -> tuple[Any, ...]:
        """The lengths, the lists, the sizes of a block and the function, in this order."""
        lengths = self.seq_lengths if flatten else (self.seq_lengths,)
        sizes = self.BLOCK_SIZE if flatten else (self.BLOCK_SIZE,)
        return (*lengths, *self._lists(), *sizes, self.mask_mod)

    def _lists(self) -> tuple[Tensor | None, ...]:
        return (self.kv_num_blocks, self.kv_indices, self.full_kv_num_blocks, self.full_kv_indices,
                self.q_num_blocks, self.q_indices, self.full_q_num_blocks, self.full_q_indices)

    def to(self, device: Any) -> BlockMask:
        """The same with its lists on another device; what mask_mod reads stays where it is."""
        moved: list[Any] = [x if x is None else x.to(device) for x in self._lists()[:4]]
        result = BlockMask.from_kv_blocks(moved[0], moved[1], moved[2], moved[3], self.BLOCK_SIZE,
                                          self.mask_mod, self.seq_lengths)
        result._made_of = self._made_of
        return result

    def __getitem__(self, index: Any) -> BlockMask:
        """A part: some batches, heads and blocks of queries, whose mask_mod is to be assigned."""
        places = tuple(slice(i, i + 1 or None) if isinstance(i, int) else i
                       for i in (index if isinstance(index, tuple) else (index,)))
        parts: list[Any] = [None if x is None else x[places] for x in self._lists()[:4]]
        queries = min(self.seq_lengths[0], parts[1].shape[-2] * self.BLOCK_SIZE[0])
        return BlockMask.from_kv_blocks(
            parts[0], parts[1], parts[2], parts[3], self.BLOCK_SIZE, _not_of_a_part,
            (queries, self.seq_lengths[1]), self.q_indices is not None)

    def _adjust(self, new_q_len: int, new_kv_len: int) -> BlockMask:
        """The upper left part, of so many queries and keys, with the same mask_mod."""
        rows, columns = (-(-n // size) for n, size in zip(
            (new_q_len, new_kv_len), self.BLOCK_SIZE, strict=True))
        lists: list[Any] = []
        for count, order in (self._lists()[:2], self._lists()[2:4]):
            dense = _listed(count, order)
            lists += (None, None) if dense is None else _ordered(dense[..., :rows, :columns])
        result = BlockMask.from_kv_blocks(
            lists[0], lists[1], lists[2], lists[3], self.BLOCK_SIZE, self.mask_mod,
            (new_q_len, new_kv_len))
        result._made_of = self._made_of
        return result

    def visible(self, batches: int, heads: int) -> Tensor:
        """What each query sees, bool, of shape (batches or 1, heads or 1, queries, keys)."""
        own = self.kv_indices.shape[:-2]
        shape = (batches, heads) if self._made_of is not self.mask_mod else \
            (own[0] if own else 1, own[1] if own[1:] else 1)
        by_function = over_positions(self.mask_mod, (*shape, *self.seq_lengths),
                                     self.kv_indices.device)
        if self._made_of is self.mask_mod:
            return by_function
        partial, full = self._dense()
        seen = by_function & self._at_elements(partial)
        return seen if full is None else seen | self._at_elements(full)

    def _at_elements(self, blocks: Tensor) -> Tensor:
        """For each element of the mask what its block has."""
        q, k = self.seq_lengths
        whole = blocks.repeat_interleave(self.BLOCK_SIZE[0], -2).repeat_interleave(
            self.BLOCK_SIZE[1], -1)[..., :q, :k]
        return whole.reshape((1,) * (4 - whole.ndim) + whole.shape)

    def __repr__(self) -> str:
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%)"


def and_masks(*mask_mods: MaskMod) -> MaskMod:
    """The function of positions that is True where all of these are."""
    _check_functions("and_masks", mask_mods)

    def seen_by_all(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
        seen = noop_mask(b, h, q_idx, kv_idx)
        for mask_mod in mask_mods:
            seen = seen & mask_mod(b, h, q_idx, kv_idx)
        return seen
    return seen_by_all


def or_masks(*mask_mods: MaskMod) -> MaskMod:
    """The function of positions that is True where one of these is."""
    _check_functions("or_masks", mask_mods)

    def seen_by_one(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
        seen = ~noop_mask(b, h, q_idx, kv_idx)
        for mask_mod in mask_mods:
            seen = seen | mask_mod(b, h, q_idx, kv_idx)
        return seen
    return seen_by_one


def _check_functions(name: str, given: tuple[Any, ...]) -> None:
    for function in given:
        if not callable(function):
            raise ArgumentError(f"{name}: {function!r:.40} is no function of positions")
