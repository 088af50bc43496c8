"""A Function under vmap that computes all examples at once: by its vmap(), or as it takes batches.

Without either a Function is called as any other code is, for one example, which stands for all. One
that looks at values cannot be: of an example there are none. So it is given those of all, outside
of the vmap; what it returns is again one example's, of which all are known. backward() is called
for one example, too, and what it calls finds its way here.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from lazyten.autodiff.batching import batch, repeated
from lazyten.frontend.complexes.tensors import ComplexTensor, of_parts
from lazyten.frontend.core.forms import in_floats
from lazyten.frontend.tensor import Tensor
from lazyten.ir.node import Node, reshape
from lazyten.ir.unknown import unknown
from lazyten.storage import levels
from lazyten.storage.levels import Level
from lazyten.support.errors import ArgumentError
from lazyten.support.trees import flatten, unflatten


class VmapInfo(NamedTuple):
    """What a Function's vmap() is told: how many examples there are, and what random numbers they
    get."""

    batch_size: int
    randomness: str


class Examples(NamedTuple):
    """The arguments of a call for all examples of one vmap: a tensor that differs between them has
    their axis in front, and one that does not is as it was; `in_dims` says which."""

    level: Level
    args: tuple[Any, ...]
    in_dims: tuple[int | None, ...]


def examples_of(args: Sequence[Any]) -> Examples | None:
    """The arguments for all examples of the innermost vmap in which they differ; None if they
    differ in none."""
    tensors = [a for a in args if isinstance(a, Tensor)]
    for entered in reversed(levels.under_way()):
        if entered.examples:
            found = iter(batch([in_floats(t).node for t in tensors], entered.examples,
                               entered.size))
            whole = [next(found) if isinstance(a, Tensor) else None for a in args]
            if any(node is not None for node in whole):
                return Examples(entered, tuple([
                    a if node is None else _tensor(node, a)
                    for a, node in zip(args, whole, strict=True)]), tuple([
                        None if node is None else 0 for node in whole]))
    return None


def _tensor(node: Node, like: Tensor) -> Tensor:
    made = Tensor._of(node, like.device)
    return of_parts(made) if isinstance(like, ComplexTensor) else made


def one_example(whole: Tensor, entered: Level, axis: int = 0) -> Tensor:
    """One example of a tensor of all, whose axis of examples is this one."""
    front = in_floats(whole.movedim(axis, 0)).node
    node, flat = unknown(front.shape[1:], front.dtype)
    entered.examples[flat] = reshape(front, (entered.size, flat.numel))
    return _tensor(node, whole)


def by_its_rule(function: Any, given: Examples) -> Any:
    """What a Function's vmap() gives for all examples, as that of one."""
    name = function.__name__
    info = VmapInfo(given.level.size, given.level.randomness)
    with levels.outside(given.level):
        result = function.vmap(info, given.in_dims, *given.args)
    if not isinstance(result, tuple) or len(result) != 2:
        raise ArgumentError(f"{name}.vmap gave {type(result).__name__}; it gives the outputs, and "
                            f"the axis of examples of each, or None")
    leaves, shape = flatten(result[0])
    dims = [result[1]] * len(leaves) if result[1] is None or isinstance(result[1], int) else list(
        flatten(result[1])[0])
    if len(dims) != len(leaves):
        raise ArgumentError(f"{name}.vmap gave {len(leaves)} outputs and {len(dims)} axes of "
                            f"examples; give one for each, or None")
    return unflatten(iter([x if d is None or not isinstance(x, Tensor) else one_example(
        x, given.level, d) for x, d in zip(leaves, dims, strict=True)]), shape)


def by_batches(given: Examples, args: Sequence[Any], call: Callable[[Any, Any], Any],
               whole_ctx: Any, ctx: Any) -> Any:
    """What a Function that takes batches gives for all examples, as that of one; and what it leaves
    in its context, in that of one. call: forward() with a context and arguments."""
    size = given.level.size
    wide = [a if not isinstance(a, Tensor) or d is not None else _tensor(
        repeated(in_floats(a).node, size), a)
            for a, d in zip(given.args, given.in_dims, strict=True)]
    with levels.outside(given.level):
        result = call(whole_ctx, wide)
    known: dict[int, Tensor] = {id(w): a for w, a in zip(wide, args, strict=True)
                                if isinstance(w, Tensor)}

    def one(x: Tensor | None) -> Tensor | None:
        if x is None:
            return None
        if id(x) not in known:
            known[id(x)] = one_example(x, given.level)
        return known[id(x)]
    parts = list(result) if isinstance(result, tuple) else [result]
    found = [one(x) for x in parts]
    whole_ctx.hand_over(ctx, one)
    return tuple(found) if isinstance(result, tuple) else found[0]
