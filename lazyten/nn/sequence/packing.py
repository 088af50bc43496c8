"""Sequences of different lengths in one tensor: padded, (longest, batch, ..), or packed, without
what pads them. `lazyten.nn.utils.rnn` offers it."""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from lazyten.frontend import functions
from lazyten.frontend.arguments import takes_tensors
from lazyten.frontend.recorded.lookup import recorded
from lazyten.frontend.tensor import Tensor
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import Scalar
from lazyten.operators.arrays import recurrences
from lazyten.operators.math import shapes
from lazyten.support.errors import ArgumentError, DTypeError, ShapeError

Lengths = Tensor | Sequence[int]


class _Packed(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(_Packed):
    """Sequences of different lengths, the longest first, step by step: the first element of each,
    then the second of each that has one, and so on.

    data (sum of lengths, ..); batch_sizes: how many sequences have a first element, a second, and
    so on; sorted_indices: which of the sequences given is which of these, or None if they are in
    the order given; unsorted_indices: the way back. Made by pack_padded_sequence and pack_sequence.
    """

    _known: tuple[list[int], list[int] | None] | None = None
    """Sizes and order, where the host has them: a jitted function may not read a tensor."""

    def __new__(cls, data: Any, batch_sizes: Tensor | None = None,
                sorted_indices: Tensor | None = None, unsorted_indices: Tensor | None = None
                ) -> Self:
        if batch_sizes is None:  # data is a pair of both
            data, batch_sizes = data
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def with_data(self, data: Tensor) -> Self:
        """The same sequences with other values (sum of lengths, ..), whose device indices go to."""
        indices = (None if i is None else i.to(device=data.device) for i in self[2:])
        made = type(self)(data, self.batch_sizes, *indices)
        made._known = self._known
        return made

    def sizes_and_order(self) -> tuple[list[int], list[int] | None]:
        """batch_sizes and sorted_indices as numbers, read where they are not known."""
        if self._known is None:
            order = self.sorted_indices
            self._known = self.batch_sizes.tolist(), None if order is None else order.tolist()
        return self._known

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """With values on another device, or of another dtype: what Tensor.to takes."""
        data = self.data.to(*args, **kwargs)
        return self if data is self.data else self.with_data(data)

    def cpu(self) -> Self:
        """With values on the cpu."""
        return self.to("cpu")

    def cuda(self) -> Self:
        """With values on an NVIDIA GPU."""
        return self.to("cuda")

    def double(self) -> Self:
        """With values of float64."""
        return self.to(dt.float64)

    def float(self) -> Self:
        """With values of float32."""
        return self.to(dt.float32)

    def half(self) -> Self:
        """With values of float16."""
        return self.to(dt.float16)

    def long(self) -> Self:
        """With values of int64."""
        return self.to(dt.int64)

    def int(self) -> Self:
        """With values of int32."""
        return self.to(dt.int32)

    def short(self) -> Self:
        """With values of int16."""
        return self.to(dt.int16)

    def char(self) -> Self:
        """With values of int8."""
        return self.to(dt.int8)

    def byte(self) -> Self:
        """With values of uint8."""
        return self.to(dt.uint8)

    def pin_memory(self) -> Self:
        """The sequences themselves; see Tensor.is_pinned."""
        return self

    def is_pinned(self) -> bool:
        """Whether the memory is locked for copies to a GPU: never."""
        return self.data.is_pinned()

    @property
    def is_cuda(self) -> bool:
        """Whether the values are on an NVIDIA GPU."""
        return self.data.is_cuda


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The permutation that undoes this one; None for None, which moves nothing."""
    return None if permutation is None else permutation.argsort()


# ---- between padded and packed -------------------------------------------------------------------

class Layout(NamedTuple):
    """Where the elements of packed sequences are among padded ones: rows (sum of lengths,), a
    place t * batch + b each, and back (longest * batch,), -1 for padding."""

    rows: Tensor
    back: Tensor
    lengths: list[int]


def layout(sizes: Sequence[int], device: str, order: Sequence[int] | None = None,
           longest: int | None = None, batch_first: bool = False) -> Layout:
    """The places of sequences whose steps have these batch sizes. order: the number of each one
    among the padded; longest: steps of these, if more; batch_first: a place is b * longest + t."""
    count, steps = sizes[0], len(sizes) if longest is None else longest
    rank = np.arange(count)[None] < np.array(sizes)[:, None]
    t, b = np.nonzero(rank)
    b = b if order is None else np.array(order)[b]
    rows = b * steps + t if batch_first else t * count + b
    back = np.full(steps * count, -1)
    back[rows] = np.arange(len(rows))
    there, again = (functions.tensor(a.tolist(), dtype=dt.int64, device=device)
                    for a in (rows, back))
    return Layout(there, again, rank.sum(0).tolist())


@recorded
def rows_of(x: Tensor, rows: Tensor, back: Tensor) -> Tensor:
    """x[rows]; see recurrences.taken_rows."""
    return Tensor._result(recurrences.taken_rows(x.node, rows.node, back.node), x, rows)


def _as_lengths(lengths: Lengths, batch: int, operation: str, least: int) -> list[int]:
    """Lengths as numbers. Errors if there is not one for each sequence, or one is too small."""
    given = lengths.reshape(-1).long().tolist() if isinstance(lengths, Tensor) else lengths
    found = [shapes.as_int(n, operation, "a length") for n in given]
    if len(found) != batch:
        raise ShapeError(f"{operation}: there are {len(found)} lengths for {batch} sequences; give "
                         f"one each")
    if found and min(found) < least:
        raise ArgumentError(f"{operation}: a length is {min(found)}; it must be {least} or more")
    return found


@takes_tensors
def pack_padded_sequence(input: Tensor, lengths: Lengths, batch_first: bool = False,
                         enforce_sorted: bool = True) -> PackedSequence:
    """Padded sequences (longest, batch, ..), or (batch, longest, ..) if batch_first, packed.

    lengths: of each sequence, read at once if in a tensor. enforce_sorted: they must be given the
    longest first; otherwise they are sorted here.
    """
    name = "pack_padded_sequence"
    if input.ndim < 2:
        raise ShapeError(f"{name}: the input has shape {input.shape}; it needs (longest, batch, "
                         f"..), or (batch, longest, ..) with batch_first=True")
    batch, steps = input.shape[:2] if batch_first else input.shape[1::-1]
    sizes = _as_lengths(lengths, batch, name, 1)
    if not sizes or max(sizes) > steps:
        raise ShapeError(f"{name}: the input has shape {input.shape}, {batch} sequences of {steps} "
                         f"steps; lengths {sizes!r:.60} do not fit")
    order = None
    if not enforce_sorted:
        order = sorted(range(batch), key=lambda b: -sizes[b])
    elif sizes != sorted(sizes, reverse=True):
        raise ArgumentError(f"{name}: the lengths {sizes!r:.60} do not fall; sort the "
                            f"sequences, or give enforce_sorted=False to have it done")
    counts = [sum(n > t for n in sizes) for t in range(max(sizes))]
    where = layout(counts, input.device, order, steps, batch_first)
    data = rows_of(input.flatten(0, 1), where.rows, where.back)
    packed = PackedSequence(
        data, functions.tensor(counts, dtype=dt.int64), None if order is None else
        functions.tensor(order, dtype=dt.int64, device=input.device))
    packed._known = counts, order
    return packed


def pad_packed_sequence(sequence: PackedSequence, batch_first: bool = False,
                        padding_value: Scalar = 0.0, total_length: int | None = None
                        ) -> tuple[Tensor, Tensor]:
    """Packed sequences padded, in the order that they were given in, and their lengths (int64).

    (longest, batch, ..), or (batch, longest, ..) if batch_first. total_length: of all, in place of
    that of the longest.
    """
    name = "pad_packed_sequence"
    _check_packed(sequence, name)
    sizes, order = sequence.sizes_and_order()
    longest = len(sizes) if total_length is None else \
        shapes.as_int(total_length, name, "total_length")
    if longest < len(sizes):
        raise ArgumentError(f"{name}: total_length={longest} is less than {len(sizes)}, the length "
                            f"of the longest sequence")
    data = sequence.data
    where = layout(sizes, data.device, order, longest, batch_first)
    padded = rows_of(data, where.back, where.rows)
    if padding_value != 0:
        is_padding = (where.back < 0).reshape(-1, *(1,) * (data.ndim - 1))
        padded = padded.masked_fill(is_padding, padding_value)
    lengths = where.lengths if order is None else \
        [n for _, n in sorted(zip(order, where.lengths, strict=True))]
    axes = (sizes[0], longest) if batch_first else (longest, sizes[0])
    return padded.unflatten(0, axes), functions.tensor(lengths, dtype=dt.int64)


def _check_packed(sequence: Any, operation: str) -> None:
    if not isinstance(sequence, PackedSequence):
        raise DTypeError(f"{operation}: {type(sequence).__name__} {sequence!r:.40} is not a "
                         f"PackedSequence; make one with pack_padded_sequence or pack_sequence")


# ---- lists of sequences --------------------------------------------------------------------------

def pad_sequence(sequences: Iterable[Tensor], batch_first: bool = False,
                 padding_value: Scalar = 0.0, padding_side: str = "right") -> Tensor:
    """Sequences (length, ..) side by side, (longest, count, ..), or (count, longest, ..) if
    batch_first, with padding_value behind the shorter ones, or before them if padding_side is
    'left'."""
    name = "pad_sequence"
    if padding_side not in ("left", "right"):
        raise ArgumentError(f"{name}: padding_side {padding_side!r} is neither 'left' nor 'right'")
    given = _tensors(sequences, name)
    longest = max(x.shape[0] for x in given)
    left = padding_side == "left"
    padded = []
    for x in given:
        around = (longest - x.shape[0], 0) if left else (0, longest - x.shape[0])
        padded.append(x.pad((*(0, 0) * (x.ndim - 1), *around), padding_value))
    return functions.stack(padded, 0 if batch_first else 1)


def _tensors(sequences: Iterable[Tensor], operation: str) -> list[Tensor]:
    """The sequences in a list. Errors if there is none, or they differ in more than their length.
    """
    if not isinstance(sequences, Iterable):
        raise DTypeError(f"{operation}: {type(sequences).__name__} {sequences!r:.40} is not a list "
                         f"of tensors")
    given = list(sequences)
    for number, x in enumerate(given):
        if not isinstance(x, Tensor):
            raise DTypeError(f"{operation}: sequence {number} is {type(x).__name__} {x!r:.40}, not "
                             f"a tensor; wrap it in lazyten.tensor()")
        if not x.ndim or x.shape[1:] != given[0].shape[1:]:
            raise ShapeError(f"{operation}: sequence {number} has shape {x.shape} and sequence 0 "
                             f"{given[0].shape}; all axes but the first must be equal")
    if not given:
        raise ArgumentError(f"{operation}: there are no sequences; give one tensor or more")
    return given


@takes_tensors
def unpad_sequence(padded_sequences: Tensor, lengths: Lengths, batch_first: bool = False
                   ) -> list[Tensor]:
    """The sequences that pad_sequence put side by side, without what pads them on the right."""
    name = "unpad_sequence"
    if padded_sequences.ndim < 2:
        raise ShapeError(f"{name}: the sequences have shape {padded_sequences.shape}; they need "
                         f"(longest, count, ..), or (count, longest, ..) with batch_first=True")
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    sizes = _as_lengths(lengths, rows.shape[0], name, 0)
    return [rows[b, :n] for b, n in enumerate(sizes)]


def pack_sequence(sequences: Iterable[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Sequences (length, ..) packed; enforce_sorted: as in pack_padded_sequence."""
    given = _tensors(sequences, "pack_sequence")
    return pack_padded_sequence(pad_sequence(given), [x.shape[0] for x in given],
                                enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences that were packed, in the order that they were given in."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
