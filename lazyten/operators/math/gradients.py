"""Values whose gradient is a rule of their own, in place of that of how they are computed.

In: a node, the nodes that it was computed from, and a rule. Out: the same value, through which
gradients flow as the rule says. Numbers of Python in a rule that are inputs of a program, and not
constants, are inputs of the node, too.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from lazyten.ir.dtype import DType
from lazyten.ir.node import GradientRule, Node, const, make
from lazyten.ir.number_tape import numbers, settled, varying
from lazyten.ir.ops import Op
from lazyten.support.errors import GradientError


def with_gradient(value: Node, inputs: tuple[Node, ...], rule: GradientRule) -> Node:
    """`value`, whose gradient for `inputs` is given by `rule(cotangent, node)`, one an input.

    node.src is (value, *inputs). `rule` takes part in the equality of nodes: a module's function,
    or a frozen dataclass with a __call__.
    """
    if numbers.node is not None:
        if isinstance(rule, OfOperands):
            return _with_operands(value, inputs, rule)
        rule = settled(rule)
    return make(Op.CUSTOM_GRADIENT, value.dtype, (value, *inputs), rule)


class OfOperands:
    """A rule for gradients, a dataclass, that takes its fields for operands of the result's type:
    where they are numbers that vary, they are nodes."""

    __slots__ = ()

    def __call__(self, g: Node, node: Node) -> Sequence[Node | None]:
        """The gradients of the inputs."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class _OfInputs:
    """A rule whose fields with these names are the last inputs."""

    rule: Any
    names: tuple[str, ...]

    def __call__(self, g: Node, node: Node) -> tuple[Node | None, ...]:
        given = dict(zip(self.names, node.src[-len(self.names):], strict=True))
        return *replace(self.rule, **given)(g, node), *[None] * len(given)


def _with_operands(value: Node, inputs: tuple[Node, ...], rule: Any) -> Node:
    """`with_gradient` of a rule's numbers that vary as inputs, if they may be."""
    assert numbers.node is not None
    node_of: Callable[[Any, DType], Node | None] = numbers.node
    found = {name: node_of(x, value.dtype) for name, x in varying(rule).items()}
    given = {name: x for name, x in found.items() if x is not None}
    if given:
        rule = _OfInputs(settled(replace(rule, **dict.fromkeys(given, 0.0))), tuple(given))
    return make(Op.CUSTOM_GRADIENT, value.dtype, (value, *inputs, *given.values()), settled(rule))


def written_over(old: Node, value: Node) -> Node:
    """`value`, written in place of `old` without gradients: those that passed it by still do."""
    return with_gradient(make(Op.DETACH, value.dtype, (value,)), (old,), _passed_by)


def _passed_by(g: Node, node: Node) -> tuple[Node]:
    return (g,)


def forward_only(value: Node) -> Node:
    """`value`, through which tangents pass and no gradient flows."""
    return with_gradient(make(Op.DETACH, value.dtype, (value,)), (value,), _FORWARD_ONLY)


@dataclass(frozen=True, slots=True)
class _ForwardOnly:
    """The rule of that: no cotangent, and of a tangent itself, through which none flows either."""

    def __call__(self, g: Node, node: Node) -> tuple[None]:
        return (None,)

    def pushed_forward(self, tangents: Sequence[Node | None], node: Node) -> Node | None:
        """The tangent of the only input."""
        return None if tangents[0] is None else forward_only(tangents[0])


_FORWARD_ONLY = _ForwardOnly()


def forward_over(old: Node, value: Node) -> Node:
    """`value`, written in place of `old` where tangents are recorded and no gradients: the tangent
    is that of what was written, and gradients pass it by, to `old`."""
    return with_gradient(make(Op.DETACH, value.dtype, (value,)), (old, value), _FORWARD_OVER)


@dataclass(frozen=True, slots=True)
class _ForwardOver:
    """The rule of that; a tangent is written in place of the one before in the same way."""

    def __call__(self, g: Node, node: Node) -> tuple[Node, None]:
        return g, None

    def pushed_forward(self, tangents: Sequence[Node | None], node: Node) -> Node | None:
        """The tangent of the value, over that of what was there."""
        old, value = tangents
        if old is None or value is None:
            return None if value is None else forward_only(value)
        return forward_over(old, value)


_FORWARD_OVER = _ForwardOver()


def before_writes(value: Node) -> Node:
    """The value that gradients of `value` are passed on to: the one that was there before it was
    written over, as often as that was done. What asks for the gradients of a tensor's value asks
    for those of this one, which are also those of what read it before."""
    while value.op is Op.CUSTOM_GRADIENT and value.arg in (_passed_by, _FORWARD_OVER):
        value = value.src[1]
    return value


def freed(value: Node) -> Node:
    """`value`, of which backward() has used up the graph: GradientError where a gradient is to flow
    back through it."""
    leaf = make(Op.LEAF, value.dtype, (const(0.0, value.dtype, value.shape),), "freed")
    return with_gradient(value, (leaf,), _freed)


def _freed(g: Node, node: Node) -> NoReturn:
    raise GradientError(f"backward reached a tensor of shape {node.shape} that backward() was "
                        f"called on before, which freed what it was computed from; call that with "
                        f"retain_graph=True, or go on with the tensor's detach()")


def flat_in(x: Node, value: Node) -> Node:
    """`value`, whose gradient for x is 0, and not missing: x has no say in it, or only by choosing
    what it is."""
    return with_gradient(value, (value, x), _flat)


def _flat(g: Node, node: Node) -> tuple[Node, Node]:
    x = node.src[2]
    return g, const(0.0, x.dtype, x.shape)


def flat_later(x: Node) -> Node:
    """x, for a function that is linear in it: its gradient, which x has no say in, has a gradient
    for x itself, 0."""
    return with_gradient(x, (x,), _passed_flat) if x.dtype.is_float else x


def _passed_flat(g: Node, node: Node) -> tuple[Node]:
    return (flat_in(node.src[1], g),)
