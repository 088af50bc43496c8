"""vmap: a function of one example as a function of many (`lt.func.vmap`).

The function is called once, with unknowns of an example's shape; `batching.batch` then makes the
graph for all examples, one op after the other. So whatever a function can do with tensors it can
do under vmap, in-place writes to its own tensors and indexing included.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lazyten.autodiff.batching import batch, repeated
from lazyten.frontend.complexes.tensors import ComplexTensor, of_parts, pairs_of
from lazyten.frontend.tensor import Tensor
from lazyten.func.transforms import (
    Function,
    Transformed,
    checked_chunk_size,
    outputs_of,
    refuse_sparse,
    results,
)
from lazyten.ir.movement import inverse_order
from lazyten.ir.node import Node, make, move, reshape
from lazyten.ir.ops import Op
from lazyten.ir.unknown import unknown
from lazyten.operators.arrays import joining, strided
from lazyten.operators.math import shapes
from lazyten.storage.levels import level
from lazyten.storage.stand_ins import Layout, layout_of, lies
from lazyten.storage.storage import new_leaf_id
from lazyten.support.errors import ArgumentError, KindError, ShapeError
from lazyten.support.trees import Branch, flatten, paths, unflatten

RANDOMNESS = ("error", "different", "same")


def vmap(func: Function, in_dims: Any = 0, out_dims: Any = 0,
         randomness: str = "error", chunk_size: int | None = None) -> Function:
    """`func` of one example as a function of many at once.

    in_dims: the axis of examples of every argument, or nested as the arguments are, an axis each;
    None for what all examples share. Keyword arguments are shared. out_dims: where the results
    have that axis. randomness: what random numbers in the function are: 'different' ones for each
    example, the 'same' for all, or an 'error'. chunk_size: at most so many examples at once, one
    chunk after the other, which takes less memory; None for all.
    """
    if randomness not in RANDOMNESS:
        raise ArgumentError(f"vmap: randomness={randomness!r} is not one of "
                            f"{', '.join(RANDOMNESS)}")
    return Transformed("vmap", func, _mapped, in_dims, out_dims, randomness,
                       checked_chunk_size("vmap", chunk_size, "examples"))


def _mapped(func: Function, in_dims: Any, out_dims: Any, randomness: str, chunk_size: int | None,
            /, *args: Any, **kwargs: Any) -> Any:
    leaves, structure = flatten(args)
    assert structure is not None
    refuse_sparse("vmap", structure, "takes")
    names = [path for i, item in enumerate(structure.items)
             for path in paths(item, f"argument {i}")]
    axes = _axes(in_dims, leaves, structure, names)
    size = _size(leaves, axes, names)
    shared: list[Node] = []
    chunks: list[tuple[list[Node], list[str], list[int | None]]] = []
    step = size if chunk_size is None else chunk_size
    for start in range(0, max(size, 1), max(step, 1)):
        count = min(step, size - start)
        part = [x if a is None or count == size else x.narrow(a, start, count)
                for x, a in zip(leaves, axes, strict=True)]
        examples: dict[Node, Node] = {}
        given = [x if a is None else _example(x, a, count, examples)
                 for x, a in zip(part, axes, strict=True)]
        with level("vmap", count, randomness, shared, examples):
            value = func(*unflatten(iter(given), structure), **kwargs)
        outputs, shape = outputs_of("vmap", value)
        places = [_whole_axis(t, place) for t, place in zip(
            outputs, _spread(out_dims, shape, "out_dims", "the result"), strict=True)]
        are_pairs = [isinstance(t, ComplexTensor) for t in outputs]
        nodes = [pairs_of(t).node for t in outputs]
        whole = batch(nodes, examples, count)
        placed = [_placed(node, b, place, count)
                  for node, b, place in zip(nodes, whole, places, strict=True)]
        chunks.append((placed, [t.device for t in outputs], places))
    joined = [_joined([chunk[0][i] for chunk in chunks], place)
              for i, place in enumerate(chunks[0][2])]
    made = results(joined, chunks[0][1])
    return unflatten(iter(of_parts(x) if pairs else x for x, pairs in zip(
        made, are_pairs, strict=True)), shape)


def _joined(parts: list[Node], place: int | None) -> Node:
    """The result for all examples, of that for each chunk of them, with their axis at `place`."""
    if place is None or len(parts) == 1:
        return parts[0]
    return joining.cat(parts, shapes.axis(place, len(parts[0].shape), "vmap: out_dims"))


def _example(x: Tensor, axis: int, size: int, examples: dict[Node, Node]) -> Tensor:
    """One example of x, whose examples lie along `axis`; notes what it stands for."""
    if isinstance(x, ComplexTensor):
        return of_parts(_example(pairs_of(x), axis, size, examples))
    order = (axis, *(a for a in range(x.ndim) if a != axis))
    front = move(Op.PERMUTE, x.node, order)
    node, flat = unknown(front.shape[1:], x.dtype)
    examples[flat] = reshape(front, (size, flat.numel))
    if x.requires_grad:  # for the function; the gradient itself flows through `front`
        node = make(Op.LEAF, node.dtype, (node,), new_leaf_id())
    made: Tensor = Tensor._of(node, x.device, x.requires_grad)
    if axis or x._moves or layout_of(x._storage) is not None:
        _lie_as(made, x, axis, examples)
    return made


def _lie_as(example: Tensor, x: Tensor, axis: int, examples: dict[Node, Node]) -> None:
    """Note that an example lies in memory as one of x, if these are evenly spaced: each then begins
    a step further on in the memory of x, and what lies between its elements is in its reach."""
    view = x._layout.single
    if view is None or view.mask is not None or min(view.strides) < 0 or not x.numel():
        return
    step, steps = view.strides[axis], view.strides[:axis] + view.strides[axis + 1:]
    count, shape = x.shape[axis], example.shape
    reach = view.offset + sum((n - 1) * s for n, s in zip(shape, steps, strict=True)) + 1

    def memory() -> Node:
        lines: Any = x.as_strided((count, reach), (step, 1), 0)
        return _example(lines, 0, count, examples).node

    moves = strided.as_strided((reach,), shape, steps, view.offset)
    lies(example._storage, Layout((reach,), moves, memory))


def _whole_axis(output: Tensor, place: int | None) -> int | None:
    """The axis of a result that examples get; of complex numbers, which are pairs, from the front
    on."""
    if place is None or not isinstance(output, ComplexTensor):
        return place
    return shapes.axis(place, output.ndim + 1, "vmap: out_dims")


def _placed(node: Node, whole: Node | None, place: int | None, size: int) -> Node:
    """The result for all examples, with their axis at `place`; None if it is the same for all."""
    if place is None:
        if whole is not None:
            raise ArgumentError(f"vmap: out_dims=None for a result of shape {node.shape} that "
                                f"differs between examples; say which axis they shall be on")
        return node
    front = repeated(node, size) if whole is None else whole
    axis = shapes.axis(place, len(front.shape), "vmap: out_dims")
    order = (axis, *(a for a in range(len(front.shape)) if a != axis))
    return move(Op.PERMUTE, front, inverse_order(order))


# ---- axes ----------------------------------------------------------------------------------------

def _axes(in_dims: Any, leaves: Sequence[Any], structure: Branch,
          names: Sequence[str]) -> list[int | None]:
    """The axis of examples of each leaf, counted from 0, or None."""
    dims = list(in_dims) if isinstance(in_dims, list | tuple) else in_dims
    if isinstance(dims, list):
        if len(dims) != len(structure.items):
            raise ArgumentError(f"vmap: in_dims={in_dims!r:.60} has {len(dims)} entries for "
                                f"{len(structure.items)} arguments; give one an argument")
        given = [a for i, (d, item) in enumerate(zip(dims, structure.items, strict=True))
                 for a in _spread(d, item, "in_dims", f"argument {i}")]
    else:
        given = _spread(dims, structure, "in_dims", "the arguments")
    found: list[int | None] = []
    for leaf, dim, name in zip(leaves, given, names, strict=True):
        if dim is None:
            found.append(None)
            continue
        if not isinstance(leaf, Tensor):
            raise KindError(f"vmap: {name} is {type(leaf).__name__} {leaf!r:.40}, which has no "
                            f"axis of examples; wrap it in lazyten.tensor(), or give None for it "
                            f"in in_dims")
        if not leaf.shape:
            raise ShapeError(f"vmap: {name} has shape (), so no axis of examples; give None for "
                             f"it in in_dims, or map over another axis")
        found.append(shapes.axis(dim, leaf.ndim, f"vmap: in_dims of {name}"))
    return found


def _spread(dims: Any, structure: Branch | None, what: str, name: str) -> list[int | None]:
    """An axis for every leaf; one axis, or None, counts for all leaves below it."""
    if dims is None or isinstance(dims, int) and not isinstance(dims, bool):
        return [dims] * len(paths(structure, name))
    if not isinstance(dims, list | tuple | dict):
        raise ArgumentError(f"vmap: {what}={dims!r:.40} for {name}: an axis is a whole number, or "
                            f"None; nest them as {name} is nested")
    keys = tuple(dims) if isinstance(dims, dict) else None
    if structure is None or keys != structure.keys or len(dims) != len(structure.items):
        raise ArgumentError(f"vmap: {what}={dims!r:.60} is not nested as {name} is; give one axis "
                            f"for all of it, or one for each part")
    below = dims.values() if isinstance(dims, dict) else dims
    inner = range(len(dims)) if keys is None else keys
    return [axis for d, item, key in zip(below, structure.items, inner, strict=True)
            for axis in _spread(d, item, what, f"{name}[{key!r}]")]


def _size(leaves: Sequence[Any], axes: Sequence[int | None], names: Sequence[str]) -> int:
    """How many examples there are; all mapped axes must say the same."""
    mapped = [(name, axis, int(leaf.shape[axis]))
              for leaf, axis, name in zip(leaves, axes, names, strict=True) if axis is not None]
    if not mapped:
        raise ArgumentError("vmap: no argument has an axis of examples, so there is nothing to map "
                            "over; give at least one, whose entry of in_dims is not None")
    first, first_axis, size = mapped[0]
    for name, axis, other in mapped[1:]:
        if other != size:
            raise ShapeError(f"vmap: axis {first_axis} of {first} has size {size}, but axis {axis} "
                             f"of {name} has {other}; there must be as many examples in each "
                             f"(or give None in in_dims for what they share)")
    return size
