"""Values that a function reads in its backward pass, too, and that are made again for it.

In: a function's results, and values that are cheap to make and large to keep, such as parameters
that several ranks have a part of each. Out: the results, whose gradients read copies of these
values, made once the cotangent is known; everything else is kept as usual.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lazyten.autodiff import hooks
from lazyten.autodiff.gradient import vjp
from lazyten.autograd.checkpointing import copied_after
from lazyten.frontend.tensor import Tensor
from lazyten.ir.collective import collective
from lazyten.ir.node import Node, make, rewrite, substitute, toposort
from lazyten.ir.ops import Op
from lazyten.operators.math.gradients import with_gradient
from lazyten.support.trees import flatten, unflatten


def made_again(result: Any, arguments: Any, values: Sequence[Tensor],
               sources: Sequence[Tensor]) -> Any:
    """What a function gave, with gradients that make `values` again.

    arguments: tensors, nested in anything, that it was given. values: what is made of `sources`
    and is large. Both are no views (which the function may have read another way).
    """
    given = tuple(dict.fromkeys(x.node for x in flatten(arguments)[0] if isinstance(x, Tensor)))
    whole, parts = (tuple(x.node for x in tensors) for tensors in (values, sources))
    leaves, structure = flatten(result)
    return unflatten(iter([_made_again(x, given, whole, parts) for x in leaves]), structure)


def made_after(first: Any, value: Tensor) -> Tensor:
    """A copy of `value` that is made once the first tensor of floats in `first` is computed, if
    there is one."""
    for x in flatten(first)[0]:
        if isinstance(x, Tensor) and x.dtype.is_float:
            node = make(Op.DETACH, x.dtype, (x.node,))
            return Tensor._of(copied_after(node, value.node), value.device, True)
    return value


def _made_again(output: Any, given: tuple[Node, ...], values: tuple[Node, ...],
                sources: tuple[Node, ...]) -> Any:
    if not isinstance(output, Tensor) or not output.requires_grad:
        return output
    node = output.node
    known = set(given)
    order = toposort([node], lambda n: () if n in known or n.op is Op.LEAF else n.src)
    kept = tuple(n for n in order if (n in known or n.op is Op.LEAF) and n.dtype.is_float)
    if not kept or node in kept:
        return output
    value = make(Op.DETACH, node.dtype, (node,))
    rule = _Again(node, kept, values, sources)
    return Tensor._of(with_gradient(value, kept, rule), output.device, True)


@dataclass(frozen=True, slots=True, eq=False)
class _Again:
    """The gradient of `output` for `inputs`, which reads copies of `values` that are made anew
    of `sources`."""

    output: Node
    inputs: tuple[Node, ...]
    values: tuple[Node, ...]
    sources: tuple[Node, ...]

    def __call__(self, g: Node, node: Node) -> tuple[Node | None, ...]:
        with hooks.inner_walk({}):
            found = vjp(self.output, g, self.inputs)
        forward = toposort([self.output])
        copies = {n: n for n in forward} | _copies(forward, self.values, self.sources, g)
        parts = iter(substitute([part for part in found if part is not None], copies))
        return tuple(None if part is None else next(parts) for part in found)


def _copies(forward: Sequence[Node], values: Sequence[Node], sources: Sequence[Node], g: Node
            ) -> dict[Node, Node]:
    """A copy of each of `values`, of what it is made of from `sources` on, and of what is made of
    it and constants alone."""
    starts = {n: copied_after(g, n) for n in sources}
    own, constant = set(starts), set[Node]()
    for n in toposort(values):
        if not own.isdisjoint(n.src):
            own.add(n)
    made = set(values)
    for n in forward:
        if n not in own and n.op not in (Op.LEAF, Op.BUFFER) and all(
                s in made or s in constant for s in n.src):
            (constant if constant.issuperset(n.src) else made).add(n)
    own |= made
    wanted = [n for n in forward if n in own]
    kept = {n: n for n in forward if n not in own}
    return dict(zip(wanted, rewrite(wanted, _recorded_now, kept | starts), strict=True))


def _recorded_now(n: Node) -> Node | None:
    """A collective that is done again has its own place in the order."""
    return collective(n.arg.again(), *n.src) if n.op is Op.COLLECTIVE else None
