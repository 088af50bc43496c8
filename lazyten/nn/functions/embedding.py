"""Embeddings: rows of a weight by number, alone and in bags; numbers as rows of zeros and a one."""
from __future__ import annotations

import math

from lazyten.frontend import functions
from lazyten.frontend.arguments import takes_tensors
from lazyten.frontend.core.handle import held_as_rows
from lazyten.frontend.tensor import Tensor
from lazyten.ir import dtype as dt
from lazyten.ir.node import Node
from lazyten.nn.functions.distances import vector_norm
from lazyten.operators.math import elementwise as ew
from lazyten.operators.math import losses, shapes
from lazyten.operators.math.gradients import with_gradient
from lazyten.storage import tracing
from lazyten.storage.frames import here
from lazyten.storage.placeholder import NeedsValue
from lazyten.support.errors import ArgumentError, DTypeError, ShapeError
from lazyten.support.grad_mode import is_grad_enabled, no_grad


@takes_tensors
def embedding(input: Tensor, weight: Tensor, padding_idx: int | None = None,
              max_norm: float | None = None, norm_type: float = 2.0,
              scale_grad_by_freq: bool = False, sparse: bool = False) -> Tensor:
    """weight[input]: a row of `weight` (rows, features) for each integer.

    padding_idx: a row that gets no gradient. max_norm: rows that are looked up are first scaled
    down to this `norm_type`-norm, in the weight itself. scale_grad_by_freq: a row's gradient is
    divided by how often `input` has it. sparse: the gradient of a weight that is a leaf is a sparse
    tensor of the rows that were looked up, as long as it has no other. A jitted function that does
    so is run in Python.
    """
    if weight.ndim != 2:
        raise ShapeError(f"embedding: the weight has shape {weight.shape}; it needs (rows, "
                         f"features)")
    if sparse:
        _hold_as_rows(weight, scale_grad_by_freq)
    input = _numbers_of_rows(input, "embedding")
    if max_norm is not None:
        _renormalize(input, weight, max_norm, norm_type)
    rows: Tensor = weight[input] if input.shape else weight.index_select(0, input).squeeze(0)
    if scale_grad_by_freq:
        ones = functions.ones(input.numel(), dtype=weight.dtype, device=weight.device)
        counts = functions.zeros(weight.shape[0], dtype=weight.dtype, device=weight.device)
        counts = counts.index_add(0, input.reshape(-1), ones)[input].unsqueeze(-1)
        rows = Tensor._result(with_gradient(rows.node, (rows.node, counts.node), _over_counts),
                              rows)
    if padding_idx is None:
        return rows
    padding = _row(padding_idx, weight, "embedding")
    is_padding = (input % weight.shape[0] == padding).unsqueeze(-1)
    held: Tensor = functions.where(is_padding, rows.detach(), rows)
    return held


def _row(padding_idx: int, weight: Tensor, name: str) -> int:
    """padding_idx from 0 on."""
    padding = shapes.as_int(padding_idx, name, "padding_idx")
    if not -weight.shape[0] <= padding < weight.shape[0]:
        raise ArgumentError(f"{name}: padding_idx={padding} is outside the {weight.shape[0]} rows "
                            f"of the weight")
    return padding % weight.shape[0]


def _hold_as_rows(weight: Tensor, scale_grad_by_freq: bool) -> None:
    """Have the gradient of a leaf be sparse: not in what is recorded, where it would be dense."""
    if scale_grad_by_freq:
        raise ArgumentError("embedding: scale_grad_by_freq=True with sparse=True, whose gradient "
                            "is of rows as they come; leave one of them out")
    if here.first_serial is not None:
        raise NeedsValue  # it is noted of this leaf, not of every one that is like it
    if weight.requires_grad and weight.is_leaf and is_grad_enabled():
        tracing.refuse("a lookup with sparse=True, whose gradient is sparse,",
                       "leave sparse=True out, or do it outside")
        held_as_rows[weight._leaf_id] = weight


def _numbers_of_rows(input: Tensor, name: str) -> Tensor:
    """Integers that number rows, also of uint8, which between brackets are a mask."""
    if input.dtype is dt.bool_:
        raise DTypeError(f"{name} of bool: the input numbers rows of the weight; convert it with "
                         f".long(), or select rows with weight[mask]")
    return input.long() if input.dtype is dt.uint8 else input


@takes_tensors
def embedding_bag(input: Tensor, weight: Tensor, offsets: Tensor | None = None,
                  max_norm: float | None = None, norm_type: float = 2.0,
                  scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False,
                  per_sample_weights: Tensor | None = None, include_last_offset: bool = False,
                  padding_idx: int | None = None) -> Tensor:
    """(bags, features): the sum, the mean or the greatest (`mode`) of a bag's rows of `weight`.

    input: integers (bags, rows a bag), or all of them in one axis; then `offsets` has where each
    bag begins, and with include_last_offset also where the last one ends. per_sample_weights:
    factors, shaped as the input, of rows that are summed. Rows of padding_idx do not count; a bag
    of none is 0. The other options are those of embedding().
    """
    name = "embedding_bag"
    if weight.ndim != 2 and input.ndim == 2 and weight.dtype.is_int:  # PyTorch's older order
        input, weight = weight, input
    if mode not in ("sum", "mean", "max"):
        raise ArgumentError(f"{name}: mode {mode!r} is not one of sum, mean, max")
    if sparse and mode == "max":
        raise ArgumentError(f"{name}: mode 'max' with sparse=True: the gradient is not one of "
                            f"whole rows; leave sparse out")
    if per_sample_weights is not None and (mode != "sum"
                                           or per_sample_weights.shape != input.shape):
        raise ArgumentError(f"{name}: per_sample_weights {per_sample_weights.shape} for an input "
                            f"{input.shape} in mode {mode!r}; they are for mode 'sum', and have "
                            f"the input's shape")
    bag, bags = _bags(input, offsets, include_last_offset)
    labels = input.reshape(-1)
    rows = embedding(labels, weight, None, max_norm, norm_type, scale_grad_by_freq, sparse)
    counts = functions.ones_like(labels, dtype=dt.bool_)
    if padding_idx is not None:
        counts = labels != _row(padding_idx, weight, name)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.reshape(-1, 1)
    if offsets is None and input.numel():
        return _of_equal_bags(rows.reshape(*input.shape, -1), counts.reshape(input.shape), mode)
    return _of_bags(rows, bag, bags, counts, mode)


def _of_equal_bags(rows: Tensor, counts: Tensor, mode: str) -> Tensor:
    """The rows that count, of (bags, rows a bag, features), combined with the others of their bag.
    """
    each = counts.unsqueeze(2)
    if mode == "max":
        greatest = functions.where(each, rows, -math.inf).max(1).values
        filled: Tensor = functions.where(counts.any(1, keepdim=True), greatest, 0.0)
        return filled
    total: Tensor = functions.where(each, rows, 0.0).sum(1)
    if mode == "sum":
        return total
    return total / counts.sum(1, keepdim=True).clamp(min=1).to(dtype=rows.dtype)


def _bags(input: Tensor, offsets: Tensor | None, has_end: bool) -> tuple[Tensor, int]:
    """The number of each element's bag, and how many there are."""
    name = "embedding_bag"
    if input.ndim == 2 and offsets is None:
        bags, size = input.shape
        return functions.arange(bags, device=input.device).repeat_interleave(size), bags
    if input.ndim != 1 or offsets is None or offsets.ndim != 1 \
            or not offsets.shape[0] and (has_end or input.shape[0]):
        raise ShapeError(f"{name}: the input has shape {input.shape} and offsets "
                         f"{None if offsets is None else offsets.shape}; give (bags, rows a bag) "
                         f"without offsets, or (rows,) with offsets (bags,)")
    starts = offsets[:-1] if has_end else offsets
    places = functions.arange(input.shape[0], device=input.device)
    bag = functions.searchsorted(starts.long().contiguous(), places, right=True) - 1
    bags = starts.shape[0]
    return bag._unary(lambda x: losses.checked_labels(x, name, 0, bags)), bags


def _of_bags(rows: Tensor, bag: Tensor, bags: int, counts: Tensor, mode: str) -> Tensor:
    """The rows that count, combined with the others of their bag."""
    start = functions.zeros((bags, rows.shape[1]), dtype=rows.dtype, device=rows.device)
    each = counts.unsqueeze(1)
    if mode == "max":
        if not rows.shape[0]:
            return start
        greatest = _first_greatest(functions.where(each, rows, -math.inf), bag, start)
        filled: Tensor = functions.where(_sizes(bag, bags, counts, rows) == 0, 0.0, greatest)
        return filled
    total = start.index_add(0, bag, functions.where(each, rows, 0.0))
    if mode == "sum":
        return total
    return total / _sizes(bag, bags, counts, rows).clamp(min=1)


def _first_greatest(rows: Tensor, bag: Tensor, start: Tensor) -> Tensor:
    """The greatest row of each bag, a feature at a time, shaped as `start`: of equal ones the
    first, which has the gradient. Of a bag of none any row."""
    last, wide = rows.shape[0] - 1, bag.unsqueeze(1).expand(rows.shape)
    values = rows.detach()
    most = start.fill_(-math.inf).scatter_reduce(0, wide, values, "amax")[bag]
    is_greatest = (values == most) | (values.isnan() & most.isnan())
    places = functions.arange(last + 1, device=rows.device).unsqueeze(1)
    first = functions.full_like(start, last, dtype=dt.int64).scatter_reduce(
        0, wide, functions.where(is_greatest, places, last), "amin")
    return rows.gather(0, first)


def _sizes(bag: Tensor, bags: int, counts: Tensor, rows: Tensor) -> Tensor:
    """(bags, 1): how many rows of each bag count, in the rows' type."""
    none = functions.zeros(bags, dtype=rows.dtype, device=rows.device)
    return none.index_add(0, bag, counts.to(dtype=rows.dtype)).unsqueeze(1)


def _over_counts(g: Node, node: Node) -> tuple[Node, None]:
    return ew.true_divide(g, node.src[2]), None


def _renormalize(input: Tensor, weight: Tensor, max_norm: float, norm_type: float) -> None:
    """Rows of the weight that `input` names, scaled in place to a norm of `max_norm` at most."""
    most = shapes.as_number(max_norm, "embedding", "max_norm")
    with no_grad():
        places = input.reshape(-1)
        rows = weight.detach()[places]
        size = vector_norm(rows, norm_type, 1, "embedding")
        weight[places] = functions.where(size > most, rows * (most / (size + 1e-7)), rows)


@takes_tensors
def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """int64 (.., num_classes): 1 at each label, 0 elsewhere. A label outside is an IndexError once
    it is computed. -1 counts the classes: one more than the greatest label, read for it."""
    classes = shapes.as_int(num_classes, "one_hot", "num_classes")
    if classes == -1:
        if not tensor.numel():
            raise ArgumentError(f"one_hot of shape {tensor.shape}: there are no labels to count "
                                f"classes of; give num_classes")
        classes = int(tensor.max().item()) + 1
    shapes.countable((*tensor.shape, max(classes, 1)), "one_hot")
    return tensor._unary(lambda x: losses.one_hot(x, classes))
