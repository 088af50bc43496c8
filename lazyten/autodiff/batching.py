"""batch: a graph of one example as a graph of many, which `lt.func.vmap` and Jacobians are made of.

In: GRAPH nodes of one example, and for the flat arrays that differ between examples those of all.
Out: the nodes' values for all examples, with the axis of examples in front. The rules are in
`vmap_rules.py`; this module only walks, and only above what differs.
"""
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from lazyten.autodiff.fixed_rules import holds_no_value
from lazyten.autodiff.gradient import of_unknowns
from lazyten.autodiff.vmap_rules import VMAP
from lazyten.ir.node import GradientRule, Node, expand, make, reshape, toposort
from lazyten.ir.ops import Op
from lazyten.ir.unknown import unknown
from lazyten.support.location import attribute_to


def batch(outputs: Sequence[Node], examples: Mapping[Node, Node], size: int) -> list[Node | None]:
    """Each output with an axis of `size` examples in front; None if it is the same for all.

    examples: for flat nodes of one example, shape (n,), those of all, shape (size, n).
    """
    done = dict(examples)
    for node in toposort(outputs, known=done):
        if node not in done and any(s in done for s in node.src):
            src = tuple(done[s] if s in done else repeated(s, size) for s in node.src)
            with attribute_to(node.place):
                done[node] = _of_all(node, src, size, examples)
    return [done.get(output) for output in outputs]


def repeated(x: Node, size: int) -> Node:
    """x, the same for all examples, with an axis of them in front."""
    return expand(reshape(x, (1, *x.shape)), (size, *x.shape))


def _of_all(node: Node, src: tuple[Node, ...], size: int, examples: Mapping[Node, Node]) -> Node:
    if node.op is Op.CUSTOM_GRADIENT:
        kept = None if holds_no_value(node.arg) else examples
        return make(node.op, node.dtype, src, _BatchedRule(node.arg, size, kept))
    if node.op is Op.SCAN:
        steps, holes = of_unknowns(node)
        given = {flat: reshape(x, (size, flat.numel))
                 for (_, flat), x in zip(holes, src, strict=True)}
        whole, = batch([steps], given, size)
        return repeated(steps, size) if whole is None else whole
    return VMAP[node.op](node, src, size)


@dataclass(frozen=True, slots=True)
class _BatchedRule:
    """The gradient rule of one example, for all: it is called with unknowns, and what it gives is
    batched. examples: those of the function, of which a rule may have saved something; None if it
    has not, and is the same for all."""

    rule: GradientRule
    size: int
    examples: Mapping[Node, Node] | None = field(compare=False)

    def __call__(self, g: Node, node: Node) -> list[Node | None]:
        (cotangent, *sources), examples = self._one_of([g, *node.src])
        with self.entered(examples):
            parts = self.rule(cotangent, make(node.op, node.dtype, tuple(sources), self.rule))
        wanted = [p for p in parts if p is not None]
        found = zip(wanted, batch(wanted, examples, self.size), strict=True)
        whole = iter([repeated(p, self.size) if b is None else b for p, b in found])
        return [None if p is None else next(whole) for p in parts]

    def _one_of(self, given: Sequence[Node]) -> tuple[list[Node], dict[Node, Node]]:
        """What stands for one example of each of these, and the examples by what stands for them.
        """
        one = [unknown(x.shape[1:], x.dtype) for x in given]
        return [x for x, _ in one], {
            **(self.examples or {}), **{flat: reshape(x, (self.size, flat.numel))
                                        for x, (_, flat) in zip(given, one, strict=True)}}

    @property
    def pushed_forward(self) -> Callable[[Sequence[Node | None], Node], Node] | None:
        """The rule's own tangent of one example, for all, if it has one."""
        push = getattr(self.rule, "pushed_forward", None)
        return None if push is None else partial(self._pushed, push)

    def _pushed(self, push: Callable[[Sequence[Node | None], Node], Node],
                tangents: Sequence[Node | None], node: Node) -> Node:
        one, examples = self._one_of([*node.src, *(t for t in tangents if t is not None)])
        sources, pushed = one[:len(node.src)], iter(one[len(node.src):])
        with self.entered(examples):
            found = push([None if t is None else next(pushed) for t in tangents],
                         make(node.op, node.dtype, tuple(sources), self.rule))
        whole, = batch([found], examples, self.size)
        return repeated(found, self.size) if whole is None else whole

    def entered(self, examples: dict[Node, Node]) -> AbstractContextManager[Any]:
        """What a rule is called in that asks for all examples, and so has to know them."""
        rule: Any = self.rule
        while isinstance(rule, _BatchedRule):
            rule = rule.rule
        enter = getattr(rule, "for_examples", None)
        return nullcontext() if enter is None else enter(examples, self.size)
