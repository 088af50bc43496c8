"""Checkpoints: what a function computes is not kept for the gradient, but computed again for it.

The second computation must not be recognized as the first: it reads copies of the inputs, which
seem to depend on the cotangent. So they are made when that is known, after the forward pass.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from types import CellType
from typing import Any

from lazyten.autodiff import hooks
from lazyten.autodiff.gradient import vjp
from lazyten.frontend.complexes.tensors import ComplexTensor, of_parts, pairs_of
from lazyten.frontend.core.forms import in_floats
from lazyten.frontend.recorded.slots import recorded_in, templates_of
from lazyten.frontend.tensor import Tensor
from lazyten.ir import dtype as dt
from lazyten.ir.node import (
    GradientRule,
    Node,
    cast,
    const,
    is_alias,
    make,
    move,
    reshape,
    substitute,
    toposort,
)
from lazyten.ir.ops import Op
from lazyten.operators.math import elementwise as ew
from lazyten.operators.math.gradients import with_gradient
from lazyten.random import default_generator
from lazyten.storage import tracing
from lazyten.storage.frames import Frame
from lazyten.storage.storage import new_leaf_id
from lazyten.support.errors import ArgumentError
from lazyten.support.grad_mode import no_grad
from lazyten.support.remembered import Remembered
from lazyten.support.trees import Parted, flatten, of_kind

OPTIONS = ("use_reentrant", "preserve_rng_state", "determinism_check", "debug", "early_stop")
"""What PyTorch's `checkpoint` takes beside the function's arguments, and is no question here: the
same values are computed again, random ones too, whatever they say."""


def checkpoint(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """`function(*args, **kwargs)`, whose inner values are computed again in the backward pass.

    That takes less memory and more time. Gradients flow to the arguments that are tensors, and to
    all other leaves that the function uses. Random numbers are the same both times, and buffers of
    modules are written to both times, as in PyTorch; sums may differ by rounding, so that a
    comparison of all but equal sums may turn out otherwise. The function gives a tensor, or a
    tuple, list or dict of them. PyTorch's options (OPTIONS) are taken and change nothing; of the
    two contexts that `context_fn()` gives the first is entered for the call.
    """
    contexts = kwargs.pop("context_fn", None)
    kwargs = {name: value for name, value in kwargs.items() if name not in OPTIONS}
    if not callable(function):
        raise ArgumentError(f"checkpoint of {function!r:.40}: give the function, and then its "
                            f"arguments")
    inputs = _Inputs([x for x in flatten((args, kwargs))[0] if isinstance(x, Tensor)])
    buffers = _buffers(function)
    known = bool(buffers) and tracing.current() is None  # a trace cannot go back to numbers
    versions = [in_floats(b)._storage.version for b in buffers]
    before = default_generator.counted() if known else None
    with nullcontext() if contexts is None else contexts()[0]:
        result = _mapped(function(*args, **kwargs), inputs)
    if [in_floats(b)._storage.version for b in buffers] != versions:
        _called_again(result, partial(function, *args, **kwargs), before)
    return result


def _buffers(function: Any) -> list[Tensor]:
    """The buffers of the modules that a function is, belongs to, or names."""
    cells = getattr(function, "__closure__", None) or ()
    near = [function, getattr(function, "__self__", None), *getattr(function, "args", ()),
            *(cell.cell_contents for cell in cells if cell != CellType())]
    modules = [m for home in near for m in (home if isinstance(home, list | tuple) else [home])]
    found = {id(b): b for m in modules if callable(getattr(m, "buffers", None))
             for b in m.buffers()}
    return [*found.values()]


def _called_again(result: Any, call: Callable[[], Any], state: Any) -> None:
    """Have a gradient of the result write to buffers a second time, as a batch normalization does
    in PyTorch, where the call itself is repeated; with the random numbers of the first time."""
    def repeated(g: Tensor) -> None:
        if state is None or tracing.current() is not None:
            with no_grad():
                call()
            return
        after = default_generator.counted()
        default_generator.go_on(*state)
        try:
            with no_grad():
                call()
        finally:
            default_generator.go_on(*after)
    for x in flatten(result)[0]:
        if isinstance(x, Tensor) and x.requires_grad:
            x.register_hook(repeated)
            return


class _Inputs:
    """The values of a function's arguments, `given`, before it is called: in the frame under way,
    if that knows them all."""

    def __init__(self, given: list[Tensor]) -> None:
        self.given = given
        tensors = [pairs_of(x) for x in given]
        found = templates_of(tensors) if tensors else None
        self.frame: Frame | None = found and found[0]
        self.nodes = found[1] if found else [x.node for x in tensors]

    def checkpointed(self, output: Tensor) -> Tensor:
        """What the function gave, whose gradient is that of a copy that is computed again."""
        found = None if self.frame is None else templates_of([output])
        if found is None or found[0] is not self.frame:
            if self.frame is not None:
                self.nodes, self.frame = [*map(self.frame.real, self.nodes)], None
            return Tensor._of(_checkpointed(output.node, self.nodes), output.device, True)
        frame, (value,) = found
        key = value, tuple(self.nodes)
        template = _known.get(key) or _known.add(key, _checkpointed(value, self.nodes, _again))
        result: Tensor = recorded_in(frame, template)
        return result


_known: Remembered[Node] = Remembered(512, 64)
"""Templates of checkpoints, by those of what functions give and of their arguments."""


def _mapped(result: Any, inputs: _Inputs) -> Any:
    if any(result is x for x in inputs.given):
        return result  # nothing was computed
    if isinstance(result, Parted):
        parts, rest = result.taken_apart()
        return result.put_together([_mapped(part, inputs) for part in parts], rest)
    if isinstance(result, ComplexTensor):
        return of_parts(_mapped(result._parts, inputs), result)
    if isinstance(result, Tensor):
        return inputs.checkpointed(result) if result.requires_grad else result
    if isinstance(result, list | tuple):
        return of_kind(type(result), [_mapped(x, inputs) for x in result])
    if isinstance(result, dict):
        return {name: _mapped(x, inputs) for name, x in result.items()}
    return result


def _checkpointed(output: Node, inputs: Sequence[Node], rule: GradientRule | None = None) -> Node:
    """`output`, whose gradient is that of a copy that is computed again."""
    known = set(inputs)
    order = toposort([output], lambda n: () if n in known or n.op is Op.LEAF else n.src)
    wanted = tuple(n for n in order if (n in known or n.op is Op.LEAF) and n.dtype.is_float)
    kept = tuple(n for n in wanted if n is not output)
    if not kept:
        return output
    value = make(Op.DETACH, output.dtype, (output,))
    return with_gradient(value, kept, rule or _Again(output, kept))


def _again(g: Node, node: Node) -> tuple[Node | None, ...]:
    """The gradient of a checkpoint in a template, which holds nothing that is not there. Over real
    memory two inputs may be one, which has it once."""
    value, *given = node.src
    inputs = _as_read(value, given)
    kept = tuple(dict.fromkeys(inputs))
    found = dict(zip(kept, _Again(value.src[0], kept)(g, node), strict=True))
    return tuple([found.pop(x, None) for x in inputs])


def _as_read(value: Node, inputs: Sequence[Node]) -> list[Node]:
    """The inputs as `value` is computed of them: a checkpoint that is one of several alike may have
    them in another guise (twins.py)."""
    read, found = set(toposort([value])), []
    for x in inputs:
        while x not in read and is_alias(x):
            x = x.src[0]
        found.append(x)
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _Again:
    """The gradient: computes `output` again from copies of the inputs."""

    output: Node
    inputs: tuple[Node, ...]

    def __call__(self, g: Node, node: Node) -> tuple[Node | None, ...]:
        copies = {x: copied_after(g, x) for x in self.inputs if x.op is not Op.LEAF}
        # The walk ends at them: an input may depend on a leaf that the function uses again.
        ends = {x: make(Op.LEAF, x.dtype, (make(Op.DETACH, x.dtype, (copy,)),), new_leaf_id())
                for x, copy in copies.items()}
        # Leaves stay what they are, though an input may have been read for their value, too.
        ends |= {x: x for x in self.inputs if x.op is Op.LEAF}
        inner = [n for n in toposort([self.output], known=ends) if n not in ends]
        again, *repeated = substitute([self.output, *inner], ends)
        originals = {copy: n for copy, n in zip(repeated, inner, strict=True) if copy is not n}
        with hooks.inner_walk(originals):
            found = vjp(again, g, [ends[x] for x in self.inputs])
        parts = iter(substitute([part for part in found if part is not None],
                                {ends[x]: copy for x, copy in copies.items()}))
        return tuple(None if part is None else next(parts) for part in found)


def copied_after(g: Node, x: Node) -> Node:
    """A copy of x, which is made once the floats `g` are known: it seems to depend on whether the
    first of them both is NaN and is not."""
    first = move(Op.SHRINK, reshape(g, (g.numel,)), ((0, 1),)) if g.numel else const(0, dt.float32,
                                                                                     (1,))
    first = make(Op.CONTIGUOUS, first.dtype, (reshape(first, ()),))
    never = ew.bitwise_and(cast(ew.not_equal(first, first), dt.bool_), ew.equal(first, first))
    return make(Op.CONTIGUOUS, x.dtype, (ew.where(never, const(0, x.dtype), x),))
