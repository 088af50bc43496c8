"""The loss of a sequence of labels whose places in time are not known: connectionist temporal
classification (A. Graves and others, 2006)."""
from __future__ import annotations

import math
from collections.abc import Sequence

from lazyten.frontend import functions
from lazyten.frontend.arguments import takes_tensors
from lazyten.frontend.recorded.lookup import recorded
from lazyten.frontend.tensor import Tensor
from lazyten.ir import dtype as dt
from lazyten.nn.functions.options import reduced
from lazyten.operators.arrays.alignments import IMPOSSIBLE, alignments
from lazyten.operators.math import losses, shapes
from lazyten.support.errors import ArgumentError, DTypeError, ShapeError

Lengths = Tensor | Sequence[int]


@takes_tensors
def ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths: Lengths, target_lengths: Lengths,
             blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> Tensor:
    """-log of the probability that the labels are what is read off when repeated classes are taken
    once and blanks left out, over all ways in time.

    log_probs: (time, batch, classes), or without a batch, logarithms of probabilities that come to
    1: the gradient is that of what log_softmax made them of, as in PyTorch. targets: integers
    (batch, labels), or all labels of all examples in one axis, of which target_lengths, that are
    read then, tell the ends. 'mean' is of the losses over their numbers of labels. zero_infinity: a
    loss for which there is no way (too little time) is 0 and not infinite.
    """
    name = "ctc_loss"
    if log_probs.ndim == 2:
        inputs, counts = (x.reshape(1) if isinstance(x, Tensor) else [x] if isinstance(x, int)
                          else x for x in (input_lengths, target_lengths))
        loss = ctc_loss(log_probs.unsqueeze(1), targets.reshape(1, -1), inputs, counts, blank,
                        "mean" if reduction == "mean" else "none", zero_infinity)
        return reduced(loss.reshape(()), reduction, name)
    labels, times, ends = _checked(log_probs, targets, input_lengths, target_lengths, blank)
    wide = log_probs.float() if log_probs.dtype.is_half else log_probs
    loss = _losses(wide, labels, times, ends, blank)
    impossible = loss >= -IMPOSSIBLE / 2
    loss = functions.where(impossible, 0.0 if zero_infinity else math.inf, loss)
    used = functions.arange(log_probs.shape[0], device=log_probs.device).unsqueeze(1) < times
    if zero_infinity:
        used = used & ~impossible
    loss = (loss + _to_logits(wide, used)).to(dtype=log_probs.dtype)
    if reduction == "mean":
        loss = loss / ends.clamp(min=1).to(dtype=loss.dtype)
    return reduced(loss, reduction, name)


def _to_logits(log_probs: Tensor, used: Tensor) -> Tensor:
    """0 for each example, whose gradient is the probabilities: with it the gradient of the loss is
    that of the logits, which log_softmax passes on unchanged, and so are later gradients."""
    chances: Tensor = functions.where(used.unsqueeze(2), log_probs, -math.inf).exp()
    return (chances - chances.detach()).sum((0, 2))


def _checked(log_probs: Tensor, targets: Tensor, input_lengths: Lengths, target_lengths: Lengths,
             blank: int) -> tuple[Tensor, Tensor, Tensor]:
    """The labels (batch, labels), padded, and the lengths of inputs and of labels (batch,)."""
    if log_probs.ndim != 3 or not log_probs.dtype.is_float or not log_probs.shape[0]:
        raise ShapeError(f"ctc_loss: log_probs are {log_probs.dtype.name} of shape "
                         f"{log_probs.shape}; they need to be floats (time, batch, classes)")
    time, batch, classes = log_probs.shape
    if not 0 <= shapes.as_int(blank, "ctc_loss", "blank") < classes:
        raise ArgumentError(f"ctc_loss: blank={blank} is not one of the {classes} classes")
    if not targets.dtype.is_int:
        raise DTypeError(f"ctc_loss: targets are {targets.dtype.name}; convert with .long()")
    for what, given in (("input_lengths", input_lengths), ("target_lengths", target_lengths)):
        if not isinstance(given, Tensor | Sequence):
            raise DTypeError(f"ctc_loss: {what} are {type(given).__name__} {given!r:.40}; give a "
                             f"tensor or a list of integers, one for each example")
    if targets.ndim == 1:
        targets = _padded(targets, target_lengths)
    if targets.ndim != 2 or targets.shape[0] != batch:
        raise ShapeError(f"ctc_loss: targets have shape {targets.shape}; they need to be ({batch}, "
                         f"labels), or all labels in one axis")
    most = targets.shape[1]
    inputs = _lengths(input_lengths, "input_lengths", log_probs, time)
    counts = _lengths(target_lengths, "target_lengths", log_probs, most)
    there = functions.arange(most, device=log_probs.device) < counts.unsqueeze(1)
    labels = functions.where(there, targets.to(device=log_probs.device).long(), 0)
    return _inside(labels, "ctc_loss", classes), inputs, counts


def _lengths(given: Lengths, what: str, log_probs: Tensor, most: int) -> Tensor:
    """int64 (batch,), each 0 to `most`: IndexError for others once they are computed."""
    found = given if isinstance(given, Tensor) else functions.tensor([
        shapes.as_int(n, "ctc_loss", what) for n in given])
    if found.shape != log_probs.shape[1:2] or not found.dtype.is_int:
        raise ShapeError(f"ctc_loss: {what} are {found.dtype.name} of shape {found.shape}; they "
                         f"need to be {log_probs.shape[1]} integers, one for each example")
    return _inside(found.to(device=log_probs.device).long(), f"ctc_loss, {what}", most + 1)


def _inside(numbers: Tensor, name: str, count: int) -> Tensor:
    return numbers._unary(lambda x: losses.checked_labels(x, name, 0, count))


def _padded(targets: Tensor, lengths: Lengths) -> Tensor:
    """Labels of all examples in one axis as rows."""
    counts = lengths.tolist() if isinstance(lengths, Tensor) else list(lengths)
    if sum(counts) != targets.shape[0] or min(counts, default=0) < 0:
        raise ShapeError(f"ctc_loss: target_lengths come to {sum(counts)}, and there are "
                         f"{targets.shape[0]} labels")
    most, start, rows = max(counts, default=0), 0, []
    for n in counts:
        rows.append(targets[start:start + n].pad((0, most - n)))
        start += n
    return functions.stack(rows)


def _losses(log_probs: Tensor, labels: Tensor, inputs: Tensor, counts: Tensor, blank: int
            ) -> Tensor:
    """-log of the probability of each example: the forward recurrence over time, of the labels with
    blanks between, before and after them. State s of 2 * labels + 1 is reached from itself, from
    s - 1, and from s - 2 if that is another class: past a blank between labels that differ."""
    (time, batch, _), most = log_probs.shape, labels.shape[1]
    states = 2 * most + 1
    blanks = functions.full((batch, most, 1), blank, dtype=dt.int64, device=labels.device)
    path = functions.cat([functions.cat([blanks, labels.unsqueeze(2)], 2).reshape(batch, 2 * most),
                          functions.full((batch, 1), blank, dtype=dt.int64,
                                         device=labels.device)], 1)
    scores = log_probs.clamp(min=IMPOSSIBLE).gather(
        2, path.unsqueeze(0).expand(time, batch, states))
    skips = path != path.pad((2, 0), blank)[:, :states]
    steps = functions.arange(time, device=labels.device)
    number = functions.arange(states, device=labels.device)
    first = functions.where(number == 0, 0.0, functions.full(
        (batch, states), IMPOSSIBLE, dtype=log_probs.dtype, device=labels.device))
    alpha = _scanned(scores, (steps.unsqueeze(1) < inputs).unsqueeze(2), first, skips)
    last = alpha.gather(1, 2 * counts.unsqueeze(1))
    before = alpha.gather(1, (2 * counts - 1).clamp(min=0).unsqueeze(1))
    before = functions.where(counts.unsqueeze(1) > 0, before, IMPOSSIBLE)
    return -last.logaddexp(before).squeeze(1)


@recorded
def _scanned(scores: Tensor, there: Tensor, first: Tensor, skips: Tensor) -> Tensor:
    """What is after all steps. See alignments.alignments."""
    return Tensor._result(alignments(scores.node, there.node, first.node, skips.node), scores)
