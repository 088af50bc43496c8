"""A function's graph at sizes that vary: recorded at many of them, and what these have in common.

In: a function, and the axes that vary. Out: one graph of terms, and the sizes that it holds at by
itself; others, at which the function does something else, are to be compared.
"""
from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from lazyten.frontend.tensor import Tensor
from lazyten.ir.node import Node, Shape, toposort
from lazyten.ir.numbers import numbers_of
from lazyten.ir.ops import Op
from lazyten.onnx.writing.alike import Term, Unlike, alike
from lazyten.onnx.writing.comparing import DEVICE
from lazyten.onnx.writing.dynamic import Axes, Sizes, looks
from lazyten.onnx.writing.literals import numbers_known_to
from lazyten.onnx.writing.recording import record
from lazyten.storage.placeholder import Placeholder
from lazyten.storage.storage import Buffer, Storage
from lazyten.support.errors import ArgumentError, LazytenError
from lazyten.symbolic.fitting import Fit

LEAST = 8
"""So many sizes in a row of which each graph has more nodes: these will never end."""
HELP = ("compute what it needs of tensors, such as of lazyten.arange(size), give the Dim a range "
        "in which it does the same, or leave the axis out of dynamic, so that its size is fixed")


class Varied(NamedTuple):
    """roots: of the graph. shapes: of inputs, at each sample of `fit`. others: sizes at which to
    compare the graph with the function, with what differs there; those that `fit` misses are such,
    too. graphs: what was recorded at each size."""

    roots: list[Term]
    shapes: list[list[Shape]]
    fit: Fit
    others: list[tuple[Sizes, str]]
    graphs: dict[Sizes, list[Node]]


def varied(function: Callable[..., Any], inputs: Sequence[Tensor], axes: Axes) -> Varied:
    """Record a function at many sizes. ArgumentError where it fails at one, or where they have too
    little in common."""
    numbers = numbers_known_to(function)
    look = looks(axes.dims, axes.example, numbers)
    record(function, inputs, axes.shapes(axes.example), of_any_size=True)
    graphs: dict[Sizes, list[Node]] = {}
    for sizes in (*look.ordinary, *look.special):
        graphs[sizes] = _recorded(function, inputs, axes, sizes)
        if len(graphs) == LEAST:
            _stay_small(axes, graphs)
    _look_up_nothing_outside(axes, graphs)
    kept, others = _in_common(axes, graphs, {*look.special})
    samples = [sizes for sizes in graphs if sizes in kept]
    ordinary = [sizes for sizes in samples if sizes not in look.special]
    try:
        roots = alike([graphs[sizes] for sizes in samples])
    except Unlike as error:
        raise ArgumentError(f"onnx.export(dynamic=...): the function does something else from size "
                            f"to size ({error}); {HELP}") from error
    fit = Fit(samples, look.points, whole=look.whole, ordinary=len(ordinary), guards=numbers)
    return Varied(roots, [axes.shapes(sizes) for sizes in samples], fit, others, graphs)


def _recorded(function: Callable[..., Any], inputs: Sequence[Tensor], axes: Axes,
              sizes: Sizes) -> list[Node]:
    try:
        return record(function, inputs, axes.shapes(sizes), of_any_size=True)
    except Exception as error:
        raise ArgumentError(
            f"onnx.export(dynamic=...): the function takes {axes.words(axes.example)}, but where "
            f"{axes.words(sizes)} it raises {type(error).__name__}: {error}. Give Dims ranges "
            f"that it takes: lazyten.Dim(name, min, max)") from error


def _stay_small(axes: Axes, graphs: dict[Sizes, list[Node]]) -> None:
    """ArgumentError for graphs of which each has more nodes."""
    sizes = sorted(graphs)
    counts = [len(toposort(graphs[s])) for s in sizes]
    if all(n < more for n, more in pairwise(counts)):
        told = ", ".join(f"{n} where {axes.words(s)}" for n, s in list(
            zip(counts, sizes, strict=True))[:3])
        raise ArgumentError(f"onnx.export(dynamic=...): the function does more operations at some "
                            f"sizes than at others ({told}), as by a loop of Python over a size; "
                            f"write it as operations on whole tensors, or leave the axis out of "
                            f"dynamic")


def _look_up_nothing_outside(axes: Axes, graphs: dict[Sizes, list[Node]]) -> None:
    """ArgumentError where the greatest sizes make positions that are outside of what is looked up
    there, as those of a text that is longer than a table of positions."""
    for number in range(len(axes.dims)):
        sizes = max(graphs, key=lambda sizes: sizes[number])
        for node in toposort(graphs[sizes]):
            if node.op is Op.CHECKED and not any(n.op is Op.BUFFER for n in toposort([node])):
                try:
                    Tensor._view(Storage(node, DEVICE), (), None).numpy()
                except LazytenError as error:
                    raise ArgumentError(f"onnx.export(dynamic=...): where {axes.words(sizes)}: "
                                        f"{error}; give the Dim a max") from error


def _in_common(axes: Axes, graphs: dict[Sizes, list[Node]], special: set[Sizes],
               ) -> tuple[set[Sizes], list[tuple[Sizes, str]]]:
    """Sizes whose graphs are alike, and the others."""
    kinds: dict[Hashable, list[Sizes]] = {}
    for sizes, roots in graphs.items():
        kinds.setdefault(_kind(roots), []).append(sizes)
    groups = sorted(kinds.values(), key=lambda group: len({*group} - special), reverse=True)
    kept, others = [groups[0]], []
    for group in groups[1:]:
        try:
            alike([graphs[g[0]] for g in (*kept, group)])
            kept.append(group)
        except Unlike as error:
            words = (f"where {axes.words(group[0])} the function does something else than where "
                     f"{axes.words(kept[0][0])} ({error}); {HELP}")
            others += [(sizes, words) for sizes in group]
    return {sizes for group in kept for sizes in group}, others


def _kind(roots: Sequence[Node]) -> Hashable:
    """What graphs of one kind have in common: all but numbers, and which memory it is."""
    skeleton, _ = numbers_of(roots)
    return tuple((e.op, e.dtype, e.src, _plain(e.arg)) for e in skeleton.entries), skeleton.roots


def _plain(arg: Any) -> Any:
    if isinstance(arg, tuple):
        return tuple(map(_plain, arg))
    if isinstance(arg, Placeholder):
        return arg.number
    return "memory" if isinstance(arg, Buffer) else arg
