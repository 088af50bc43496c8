"""vjp: reverse-mode differentiation as a graph transform. `Tensor.backward` calls it.

In: a GRAPH node and its cotangent. Out: cotangents of other nodes, as ordinary GRAPH nodes; so a
gradient can be differentiated again, and is scheduled and fused like anything else. The rules are
in `vjp_rules.py`; this module only walks, and only between the output and the wanted nodes.
"""
from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterable, Sequence
from functools import reduce
from itertools import chain
from weakref import WeakKeyDictionary

from lazyten.autodiff import hooks
from lazyten.autodiff.arithmetic import add, held
from lazyten.autodiff.vjp_rules import VJP
from lazyten.autodiff.watching import runs_none, watched
from lazyten.ir.node import Node, make, reshape, substitute, toposort, unmoved, within
from lazyten.ir.ops import MOVEMENT, Op
from lazyten.ir.scan import unrolled
from lazyten.ir.unknown import unknown
from lazyten.support.errors import GradientError, InternalError
from lazyten.support.location import attribute_to


def vjp(output: Node, cotangent: Node, wanted: Sequence[Node]) -> list[Node | None]:
    """The cotangent of each wanted node: sum over output of cotangent * d output / d wanted.

    A node's cotangent has the node's shape and dtype. None for a node that `output` does not depend
    on in a differentiable way. Cotangents from several uses of a node are added from the last use
    to the first. Gradient nodes belong to the user's line of the forward node.
    """
    return vjp_of_all([output], [cotangent], wanted)


@runs_none
def vjp_of_all(outputs: Sequence[Node], cotangents: Sequence[Node],
               wanted: Sequence[Node]) -> list[Node | None]:
    """The sum of what `vjp` gives for each output, in one walk."""
    found = _pulled_back(*_walk(outputs), outputs, cotangents, frozenset(wanted))
    return [found.get(w) for w in wanted]


@runs_none
def gradients_for(outputs: Sequence[Node], cotangents: Sequence[Node],
                  wanted: Sequence[Node]) -> list[Node | None]:
    """What `vjp_of_all` gives, where a LEAF stands for all values that the leaf had when it was
    read: it may have been written since."""
    order, sources = _walk(outputs)
    leaves: dict[Hashable, list[Node]] = {}
    for node in order:
        if node.op is Op.LEAF:
            leaves.setdefault(_leaf(node), []).append(node)
    meant = [leaves.get(_leaf(w), []) if w.op is Op.LEAF else [w] for w in wanted]
    found = _pulled_back(order, sources, outputs, cotangents, frozenset(chain.from_iterable(meant)))
    return [reduce(add, parts) if parts else None
            for parts in ([found[n] for n in nodes if n in found] for nodes in meant)]


@runs_none
def leaf_gradients(output: Node, cotangent: Node) -> list[tuple[Node, Node]]:
    """Every LEAF node that `output` depends on, and its cotangent, in visit order."""
    order, sources = _walk([output])
    leaves = [n for n in order if n.op is Op.LEAF]
    found = _pulled_back(order, sources, [output], [cotangent], frozenset(leaves))
    return [(leaf, found[leaf]) for leaf in leaves if leaf in found]


def reach_leaves(outputs: Sequence[Node]) -> list[bool]:
    """For each output whether it depends on a LEAF in a differentiable way."""
    reaching = reaching_leaves(outputs)
    return [output in reaching for output in outputs]


def saves_values(output: Node) -> bool:
    """Whether the gradient of a node takes values that it is computed from: sums and products with
    constants alone have theirs without any."""
    found = _saving.get(output)
    if found is None:
        found = _saving[output] = not all(map(_saves_nothing, reaching_leaves([output])))
    return found


_saving: WeakKeyDictionary[Node, bool] = WeakKeyDictionary()
"""What is known of nodes that were asked for: a step that comes again asks for the same."""


@runs_none
def reaching_leaves(outputs: Sequence[Node]) -> set[Node]:
    """What depends on a LEAF in a differentiable way, of all that the outputs are computed from."""
    order, sources = _walk(outputs)
    reaching: set[Node] = set()
    for node in order:
        if node.op is Op.LEAF or not reaching.isdisjoint(sources[node]):
            reaching.add(node)
    return reaching


_SAVING_NOTHING = MOVEMENT | {Op.NEG, Op.ADD, Op.SUB, Op.CAST, Op.CONTIGUOUS, Op.COPY, Op.LEAF}
"""Ops whose gradient is found without any value."""


def _saves_nothing(node: Node) -> bool:
    if node.op is Op.MUL:
        return _is_constant(node.src[0]) or _is_constant(node.src[1])
    return (node.op in _SAVING_NOTHING or node.op is Op.REDUCE and node.arg[0] is Op.ADD
            or node.op is Op.DIV and _is_constant(node.src[1]))


def _is_constant(node: Node) -> bool:
    return unmoved(node).op is Op.CONST


Sources = dict[Node, Sequence[Node]]
Step = tuple[Node, Node, Node]
"""A node, one of its sources, and what the source's cotangent gets from the node."""
observer: Callable[[Sequence[Step]], None] | None = None
"""Is shown the steps of each walk, in their order: anomaly.py looks for NaN in them."""


def _walk(outputs: Sequence[Node]) -> tuple[list[Node], Sources]:
    """The nodes that cotangents of outputs may reach, sources first, and the sources of each."""
    sources: Sources = {}

    def into(node: Node) -> Sequence[Node]:
        found = sources[node] = differentiable_sources(node)
        return found

    return toposort(outputs, into), sources


def _pulled_back(order: list[Node], sources: Sources, outputs: Sequence[Node],
                 cotangents: Sequence[Node], wanted: frozenset[Node]) -> dict[Node, Node]:
    """The cotangents of all nodes between the outputs and the wanted nodes."""
    active = {n for n in order if n in wanted and n.dtype.is_float}
    for node in order:
        if not active.isdisjoint(sources[node]):
            active.add(node)
    found: dict[Node, Node] = {}
    for output, cotangent in zip(outputs, cotangents, strict=True):
        if (cotangent.shape, cotangent.dtype) != (output.shape, output.dtype):
            raise InternalError(f"cotangent {cotangent} does not fit {output}")
        if output in active:  # a walk makes nothing that is a user's value but by name
            _accumulate(output, within(cotangent) if _is_differentiated() else cotangent, found)
    with held(_users_values(order, cotangents)):
        steps = _walked_back(order, active, found)
    if observer is not None:
        observer(steps)
    return found


def _users_values(order: Sequence[Node], cotangents: Sequence[Node]) -> Container[Node]:
    """What users may have tensors of, and ask for gradients for of what a walk gives."""
    return {*order, *toposort(cotangents)} if _is_differentiated() else frozenset()


def _is_differentiated() -> bool:
    """Whether users may ask for gradients of what the walk under way gives."""
    return hooks.walk.is_users and hooks.walk.is_differentiable


def _walked_back(order: Sequence[Node], active: set[Node], found: dict[Node, Node]) -> list[Step]:
    """Find the cotangents of all that is active, last first; the steps."""
    steps: list[Step] = []
    first = _first_readings(n for n in order if n.op is Op.LEAF and n in active)
    for node in reversed(order):
        total = found.get(node)
        if total is not None and node in first:
            _accumulate(first[node], found.pop(node), found)
        elif total is not None:
            total = found[node] = hooks.passed(node, total)
            with attribute_to(node.place):
                for source, part in pass_back(node, total, active):
                    steps.append((node, source, part))
                    _accumulate(source, part, found)
    return steps


def _leaf(node: Node) -> Hashable:
    """The same for all readings of a leaf."""
    return hooks.one_leaf(node.arg), node.shape, node.dtype


def _first_readings(leaves: Iterable[Node]) -> dict[Node, Node]:
    """Of leaves that are read from several places in memory: the first reading, for the others. A
    hook is called with the sum."""
    seen: dict[object, Node] = {}
    return {n: first for n in leaves
            if (first := seen.setdefault(_leaf(n), n)) is not n}


def _accumulate(source: Node, part: Node, found: dict[Node, Node]) -> None:
    sofar = found.get(source)
    found[source] = part if sofar is None else add(sofar, part)


def differentiable_sources(node: Node) -> Sequence[Node]:
    """The sources that a cotangent may flow to, and a tangent come from: floats alone."""
    if node.op is Op.CUSTOM_GRADIENT:
        return [s for s in node.src[1:] if s.dtype.is_float]
    if node.op is Op.SCAN:
        return [s for s in node.src if s.dtype.is_float]
    rules = VJP.get(node.op)
    if rules is None or not node.dtype.is_float:
        return ()
    return [s for s, rule in zip(node.src, rules, strict=True) if rule and s.dtype.is_float]


def pass_back(node: Node, total: Node, active: set[Node]) -> list[tuple[Node, Node]]:
    """What `node`, whose cotangent is `total`, contributes to each of its active sources."""
    if node.op is Op.CUSTOM_GRADIENT:
        return [(source, part)
                for source, part in zip(node.src[1:], custom_cotangents(node, total), strict=True)
                if part is not None and source in active]
    if node.op is Op.SCAN:
        return [(source, part) for source, part in zip(node.src, _scan(node, total), strict=True)
                if part is not None and source in active]
    parts = []
    for source, rule in zip(node.src, VJP.get(node.op, ()), strict=False):
        if rule is not None and source in active:
            part = rule(total, node)
            if part.shape != source.shape or part.dtype is not source.dtype:
                raise InternalError(f"{node.op.name}'s gradient for {source} is {part}")
            parts.append((source, part))
    return parts


def _scan(node: Node, total: Node) -> list[Node | None]:
    """The cotangents of a SCAN's sources, through the nodes of its steps."""
    steps, holes = of_unknowns(node)
    parts = vjp_of_all([steps], [total], [flat for _, flat in holes])
    known = {flat: reshape(s, flat.shape) for (_, flat), s in zip(holes, node.src, strict=True)}
    found = iter(substitute([p for p in parts if p is not None], known))
    return [None if p is None else reshape(next(found), s.shape)
            for p, s in zip(parts, node.src, strict=True)]


def of_unknowns(node: Node) -> tuple[Node, list[tuple[Node, Node]]]:
    """The steps of a SCAN as other nodes, of unknown sources, and these; see unknown()."""
    holes = [unknown(s.shape, s.dtype) for s in node.src]
    return unrolled(make(Op.SCAN, node.dtype, tuple(x for x, _ in holes), node.arg)), holes


def custom_cotangents(node: Node, total: Node) -> Sequence[Node | None]:
    """What a user's gradient rule gives for its inputs. Raises GradientError if it does not fit."""
    inputs = node.src[1:]
    name = getattr(node.arg, "__name__", repr(node.arg))
    parts = watched(node.arg, total, node)
    if len(parts) != len(inputs):
        raise GradientError(f"gradient rule {name} gave {len(parts)} cotangents for {len(inputs)} "
                            f"inputs; give one an input, None where there is none")
    for i, (source, part) in enumerate(zip(inputs, parts, strict=True)):
        if part is not None and (part.shape, part.dtype) != (source.shape, source.dtype):
            raise GradientError(f"gradient rule {name} gave {part} for input {i}, which is "
                                f"{source}; a cotangent has its input's shape and dtype")
    result: Sequence[Node | None] = parts
    return result


def operation_name(node: Node) -> str:
    """What a node's gradient rule is called, for people: 'MulBackward', 'SigmoidBackward'."""
    name = node.op.name
    if node.op is Op.CUSTOM_GRADIENT:
        name = getattr(node.arg, "__name__", type(node.arg).__name__).removesuffix("_gradient")
        if name.strip("_").lower() != name.strip("_"):
            return f"{name.strip('_')}Backward"
    return "".join(part.capitalize() for part in name.strip("_").split("_")) + "Backward"
