"""Calling a function to differentiate it: its outputs as graphs of what stands for its inputs.

In: a function, its arguments, and which of them to differentiate for. Out: a `Call`, in which LEAF
nodes with the arguments' values stand for the arguments; `__init__.py` walks from its outputs to
these.
"""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from lazyten.frontend.tensor import Tensor
from lazyten.func.transforms import Function, outputs_of, refuse_sparse, results
from lazyten.ir.movement import Moves
from lazyten.ir.node import Node, make, substitute
from lazyten.ir.ops import Op
from lazyten.operators.arrays import strided
from lazyten.operators.math.shapes import as_int
from lazyten.storage.levels import level
from lazyten.storage.stand_ins import Layout, layout_of, lies
from lazyten.storage.storage import new_leaf_id
from lazyten.support.errors import ArgumentError, DeviceError, DTypeError, GradientError, KindError
from lazyten.support.grad_mode import enable_grad
from lazyten.support.trees import Branch, flatten, paths, unflatten

ArgNums = int | tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a function: its outputs as graphs of the LEAF nodes that stand for its inputs.

    values: each leaf, and the value of the input it stands for; the inputs are nested as `nesting`.
    nodes: the outputs, nested as `shape`. aux: what the function gave besides, as graphs of the
    leaves too. There are no tensors here, so later writes to them change nothing.
    """

    values: dict[Node, Node]
    input_devices: list[str]
    nesting: Branch | None
    nodes: list[Node]
    output_devices: list[str]
    shape: Branch | None
    aux: Any

    @property
    def leaves(self) -> list[Node]:
        """What stands for each input."""
        return list(self.values)

    def finished(self, nodes: Sequence[Node], devices: Sequence[str]) -> Iterator[Tensor]:
        """Tensors of graphs of the leaves."""
        return iter(results(substitute(nodes, self.values), devices))

    def finished_with_aux(self, nodes: Sequence[Node],
                          devices: Sequence[str]) -> tuple[Iterator[Tensor], Any]:
        """The same, and what the function gave besides with its tensors as such."""
        leaves, structure = flatten(self.aux)
        tensors = [x for x in leaves if isinstance(x, Tensor)]
        made = list(self.finished([*nodes, *(t.node for t in tensors)],
                                  [*devices, *(t.device for t in tensors)]))
        besides = iter(made[len(nodes):])
        aux = unflatten((next(besides) if isinstance(x, Tensor) else x for x in leaves), structure)
        return iter(made[:len(nodes)]), aux


def called(operation: str, func: Function, args: Sequence[Any], kwargs: dict[str, Any],
           argnums: ArgNums, has_aux: bool) -> Call:
    """Call `func` to differentiate it for the arguments that argnums chooses.

    Raises ArgumentError, DTypeError and GradientError for inputs and outputs that have no
    derivatives, all in the name of `operation`.
    """
    places = _places(operation, argnums, len(args))
    chosen = [args[i] for i in places]
    leaves, nesting = flatten(chosen[0] if isinstance(argnums, int) else tuple(chosen))
    refuse_sparse(operation, nesting, "takes")
    names = [path for i in places for path in paths(flatten(args[i])[1], f"argument {i}")]
    _check_inputs(operation, leaves, names)
    values = {make(Op.LEAF, x.dtype, (x.node,), new_leaf_id()): x.node for x in leaves}
    devices = [x.device for x in leaves]
    stands = iter([standing_for(x, leaf) for x, leaf in zip(leaves, values, strict=True)])
    given = list(args)
    for place in places:
        given[place] = unflatten(stands, flatten(args[place])[1])
    with level(operation), enable_grad():
        value, aux = _parts(operation, func(*given, **kwargs), has_aux)
    outputs, shape = outputs_of(operation, value)
    _check_outputs(operation, outputs, paths(shape, "the result"))
    return Call(values, devices, nesting, [t.node for t in outputs], [t.device for t in outputs],
                shape, aux)


def standing_for(x: Tensor, leaf: Node) -> Tensor:
    """What is given in place of x: the same values, and as x lies in memory."""
    made: Tensor = Tensor._of(leaf, x.device, True)
    layout = layout_of(x._storage)
    if x._moves or layout is not None:
        shape, moves = (x._storage.shape, ()) if layout is None else (layout.shape, layout.moves)
        moves += x._moves
        lies(made._storage, Layout(shape, moves, partial(_memory_of, x, moves, leaf)))
    return made


def _memory_of(x: Tensor, moves: Moves, leaf: Node) -> Node:
    """The memory that x is a view of, with a leaf in place of what x shows."""
    layout = layout_of(x._storage)
    memory = x._storage if layout is None else layout.storage(x._storage)
    return strided.written_through(moves, memory.value, leaf)


def _parts(operation: str, value: Any, has_aux: bool) -> tuple[Any, Any]:
    """The output, and what a function with aux gives besides."""
    if not has_aux:
        return value, None
    if not isinstance(value, tuple) or len(value) != 2:
        shown = f"of shape {value.shape}" if isinstance(value, Tensor) else f"{value!r:.40}"
        raise ArgumentError(f"{operation}: with has_aux the function gives (output, aux), not "
                            f"{type(value).__name__} {shown}")
    return value


def _places(operation: str, argnums: Any, count: int) -> list[int]:
    """The chosen arguments, counted from 0."""
    if not isinstance(argnums, int | tuple | list) or argnums in ((), []):
        raise ArgumentError(f"{operation}: argnums={argnums!r:.40} is not a position or a tuple "
                            f"of positions")
    found = []
    for number in [argnums] if isinstance(argnums, int) else argnums:
        place = as_int(number, operation, "an entry of argnums")
        if not -count <= place < count:
            raise ArgumentError(f"{operation}: argnums={argnums} of a call with {count} arguments "
                                f"(those given by keyword not counted): {place} is outside; give "
                                f"what you differentiate for by position")
        found.append(place % count)
    if len(set(found)) != len(found):
        raise ArgumentError(f"{operation}: argnums={argnums} names an argument twice; name it once")
    return found


def all_of(operation: str, primals: tuple[Any, ...]) -> ArgNums:
    """The positions of all primals, of which there must be one."""
    if not primals:
        raise ArgumentError(f"{operation}: there are no primals; give the arguments at which the "
                            f"function is to be differentiated, one or more")
    return tuple(range(len(primals)))


def _check_inputs(operation: str, leaves: Sequence[Any], names: Sequence[str]) -> None:
    for leaf, name in zip(leaves, names, strict=True):
        if not isinstance(leaf, Tensor):
            raise KindError(f"{operation}: {name} is {type(leaf).__name__} {leaf!r:.40}, not a "
                            f"tensor; wrap it in lazyten.tensor(), or leave it out of argnums")
        if not leaf.dtype.is_float:
            raise GradientError(f"{operation}: {name} is {leaf.dtype.name}, and only floats have "
                                f"derivatives; convert it with .float(), or keep it out of what is "
                                f"differentiated (by argnums, or a closure)")


def _check_outputs(operation: str, outputs: Sequence[Tensor], names: Sequence[str]) -> None:
    for output, name in zip(outputs, names, strict=True):
        if not output.dtype.is_float:
            raise GradientError(f"{operation}: {name} of the function is {output.dtype.name}, and "
                                f"only floats have derivatives; return it as aux, with "
                                f"has_aux=True")


def matching(operation: str, value: Any, shape: Branch | None, like_these: Sequence[Node],
             devices: Sequence[str], what: str) -> list[Node]:
    """The nodes of tensors, nested as `shape`, each like one of `like_these` in shape and dtype."""
    leaves, structure = flatten(value)
    if structure != shape:
        raise ArgumentError(f"{operation}: {what} are nested in another way than what they belong "
                            f"to: {len(leaves)} tensors for {len(like_these)}; nest them alike")
    for leaf, name, other, device in zip(leaves, paths(structure, what), like_these, devices,
                                         strict=True):
        if not isinstance(leaf, Tensor):
            raise DTypeError(f"{operation}: {name} is {type(leaf).__name__} {leaf!r:.40}, not a "
                             f"tensor; wrap it in lazyten.tensor()")
        if leaf.device != device:
            raise DeviceError(f"{operation}: {name} is on '{leaf.device}', for a tensor on "
                              f"'{device}'; move it with .to('{device}')")
        if (leaf.shape, leaf.dtype) != (other.shape, other.dtype):
            raise GradientError(f"{operation}: {name} is {leaf.dtype.name} {leaf.shape}, for a "
                                f"tensor that is {other.dtype.name} {other.shape}; they must be "
                                f"alike")
    return [leaf.node for leaf in leaves]
