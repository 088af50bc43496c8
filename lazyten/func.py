"""`lt.func`: transforms of functions of tensors, with torch.func's names, arguments and results.

Each takes a function and gives one, or what it computes; they nest in any way, with each other and
with `lt.jit`. A function is called with LEAF nodes in place of its arguments' values, which are
replaced by the values in what the transform gives.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from lazyten.arithmetic import equal, like
from lazyten.batching import batch
from lazyten.errors import ArgumentError, DTypeError, GradientError
from lazyten.forward_mode import jvp as jvp_of_nodes
from lazyten.functional_call import functional_call as functional_call
from lazyten.grad_mode import enable_grad
from lazyten.gradient import vjp_of_all
from lazyten.levels import level
from lazyten.mapping import vmap as vmap
from lazyten.node import Node, cast, const, expand, iota, make, move, reshape, substitute
from lazyten.ops import Op
from lazyten.shapes import as_int
from lazyten.storage import new_leaf_id
from lazyten.tensor import Tensor
from lazyten.transforms import Function, Transformed, check_function, outputs_of, results
from lazyten.trees import Branch, flatten, paths, unflatten
from lazyten.unknown import unknown

__all__ = ["functional_call", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp",
           "linearize", "value_and_grad", "vjp", "vmap"]

ArgNums = int | tuple[int, ...]


# ---- calling the function ------------------------------------------------------------------------

@dataclass(frozen=True, slots=True)
class _Call:
    """One call of a function: what it gave, as graphs of LEAF nodes that stand for its inputs.

    inputs are the tensors to differentiate for, nested as `nesting`; outputs those that the
    function gave. aux is what it gave besides, its leaves mixed.
    """

    operation: str
    inputs: list[Tensor]
    names: list[str]
    nesting: Branch | None
    leaves: list[Node]
    outputs: list[Tensor]
    shape: Branch | None
    aux: Any

    @property
    def nodes(self) -> list[Node]:
        """The outputs as graphs of the leaves."""
        return [t.node for t in self.outputs]

    @property
    def values(self) -> dict[Node, Node]:
        """What to replace each leaf by."""
        return {leaf: t.node for leaf, t in zip(self.leaves, self.inputs, strict=True)}

    def finished(self, nodes: Sequence[Node], devices: Sequence[str]) -> Iterator[Tensor]:
        """Tensors of graphs of the leaves."""
        return iter(results(substitute(nodes, self.values), devices))

    @property
    def output_devices(self) -> list[str]:
        return [t.device for t in self.outputs]

    @property
    def input_devices(self) -> list[str]:
        return [t.device for t in self.inputs]

    def finished_aux(self) -> Any:
        """What the function gave besides, with its tensors as tensors of the values."""
        leaves, structure = flatten(self.aux)
        tensors = [x for x in leaves if isinstance(x, Tensor)]
        made = self.finished([t.node for t in tensors], [t.device for t in tensors])
        return unflatten((next(made) if isinstance(x, Tensor) else x for x in leaves), structure)


def _call(operation: str, func: Function, args: Sequence[Any], kwargs: dict[str, Any],
          argnums: ArgNums, has_aux: bool) -> _Call:
    places = _places(operation, argnums, len(args))
    chosen = args[places[0]] if isinstance(argnums, int) else tuple(args[i] for i in places)
    leaves, nesting = flatten(chosen)
    names = [path for i in places for path in paths(flatten(args[i])[1], f"argument {i}")]
    _check_inputs(operation, leaves, names)
    stands = [make(Op.LEAF, x.dtype, (x.node,), new_leaf_id()) for x in leaves]
    given = [Tensor._of(node, x.device, True) for node, x in zip(stands, leaves, strict=True)]
    replaced = unflatten(iter(given), nesting)
    by_place = dict(zip(places, [replaced] if isinstance(argnums, int) else replaced, strict=True))
    with level(operation), enable_grad():
        value = func(*(by_place.get(i, a) for i, a in enumerate(args)), **kwargs)
        aux = None
        if has_aux:
            if not isinstance(value, tuple) or len(value) != 2:
                raise ArgumentError(f"{operation}: with has_aux the function gives (output, aux), "
                                    f"not {type(value).__name__} {_described(value)}")
            value, aux = value
        outputs, shape = outputs_of(operation, value)
        _check_outputs(operation, outputs, paths(shape, "the result"))
    return _Call(operation, leaves, names, nesting, stands, outputs, shape, aux)


def _places(operation: str, argnums: Any, count: int) -> list[int]:
    """The chosen arguments, counted from 0."""
    if not isinstance(argnums, int | tuple | list) or argnums in ((), []):
        raise ArgumentError(f"{operation}: argnums={argnums!r:.40} is not a position or a tuple "
                            f"of positions")
    found = []
    for number in [argnums] if isinstance(argnums, int) else argnums:
        place = as_int(number, operation, "an entry of argnums")
        if not -count <= place < count:
            raise ArgumentError(f"{operation}: argnums={argnums} of a call with {count} positional "
                                f"arguments: {place} is outside; keyword arguments cannot be "
                                f"chosen")
        found.append(place % count)
    if len(set(found)) != len(found):
        raise ArgumentError(f"{operation}: argnums={argnums} names an argument twice; name it once")
    return found


def _check_inputs(operation: str, leaves: Sequence[Any], names: Sequence[str]) -> None:
    for leaf, name in zip(leaves, names, strict=True):
        if not isinstance(leaf, Tensor):
            raise DTypeError(f"{operation}: {name} is {type(leaf).__name__} {leaf!r:.40}, not a "
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


def _described(value: Any) -> str:
    return f"of shape {value.shape}" if isinstance(value, Tensor) else f"{value!r:.40}"


# ---- reverse mode --------------------------------------------------------------------------------

def grad(func: Function, argnums: ArgNums = 0, has_aux: bool = False) -> Function:
    """The function that gives the gradient of `func`, whose output is one number.

    argnums: the argument to differentiate for, a tensor or tensors nested in lists, tuples and
    dicts; or several. The gradient is nested in the same way. has_aux: `func` gives (output, aux),
    and the result is (gradient, aux).
    """
    return Transformed("grad", func, _grad, argnums, has_aux)


def value_and_grad(func: Function, argnums: ArgNums = 0, has_aux: bool = False) -> Function:
    """The function that gives (output, gradient) of `func`; with has_aux ((output, aux),
    gradient)."""
    return Transformed("value_and_grad", func, _value_and_grad, argnums, has_aux)


def grad_and_value(func: Function, argnums: ArgNums = 0, has_aux: bool = False) -> Function:
    """The function that gives (gradient, output) of `func`; with has_aux (gradient, (output,
    aux))."""
    return Transformed("grad_and_value", func, _grad_and_value, argnums, has_aux)


def _grad(func: Function, argnums: ArgNums, has_aux: bool, /, *args: Any, **kwargs: Any) -> Any:
    _, gradient, aux = _gradient("grad", func, argnums, has_aux, args, kwargs)
    return (gradient, aux) if has_aux else gradient


def _value_and_grad(func: Function, argnums: ArgNums, has_aux: bool, /, *args: Any,
                    **kwargs: Any) -> Any:
    value, gradient, aux = _gradient("value_and_grad", func, argnums, has_aux, args, kwargs)
    return ((value, aux) if has_aux else value), gradient


def _grad_and_value(func: Function, argnums: ArgNums, has_aux: bool, /, *args: Any,
                    **kwargs: Any) -> Any:
    value, gradient, aux = _gradient("grad_and_value", func, argnums, has_aux, args, kwargs)
    return gradient, ((value, aux) if has_aux else value)


def _gradient(operation: str, func: Function, argnums: ArgNums, has_aux: bool, args: Sequence[Any],
              kwargs: dict[str, Any]) -> tuple[Tensor, Any, Any]:
    """The output, its gradient, and what the function gave besides."""
    call = _call(operation, func, args, kwargs, argnums, has_aux)
    if call.shape is not None:
        raise GradientError(f"{operation}: the function gives {len(call.outputs)} tensors in a "
                            f"{call.shape.kind.__name__}; give one number, and the rest as aux, "
                            f"with has_aux=True")
    output, = call.outputs
    if output.shape:
        raise GradientError(f"{operation}: the function gives a tensor of shape {output.shape}; a "
                            f"gradient is of one number, so reduce it with sum() or mean(), or "
                            f"use jacrev")
    node = output.node
    parts = _pulled_back(call, [node], [like(node, 1.0)])
    value, *gradients = call.finished([node, *parts], [output.device, *call.input_devices])
    return value, unflatten(iter(gradients), call.nesting), call.finished_aux()


def _pulled_back(call: _Call, outputs: Sequence[Node], cotangents: Sequence[Node]) -> list[Node]:
    """The cotangents of the call's leaves, zeros for what the outputs do not depend on."""
    parts = vjp_of_all(outputs, cotangents, call.leaves)
    return [like(leaf, 0.0) if p is None else p
            for leaf, p in zip(call.leaves, parts, strict=True)]


def vjp(func: Function, *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """(output, vjp_fn), with has_aux (output, vjp_fn, aux), of `func` at `primals`.

    vjp_fn(cotangents), nested as the output, gives a tuple with the cotangents of each primal:
    sums over the output of cotangent * d output / d primal.
    """
    check_function("vjp", func)
    call = _call("vjp", func, primals, {}, tuple(range(len(primals))), has_aux)
    output = unflatten(call.finished(call.nodes, call.output_devices), call.shape)
    pull = partial(_vjp_at, call)
    return (output, pull, call.finished_aux()) if has_aux else (output, pull)


def _vjp_at(call: _Call, cotangents: Any) -> Any:
    given = _matching("vjp_fn", cotangents, call.shape, call.outputs, "the cotangents")
    parts = _pulled_back(call, call.nodes, given)
    return unflatten(call.finished(parts, call.input_devices), call.nesting)


def _matching(operation: str, value: Any, shape: Branch | None, like_these: Sequence[Tensor],
              what: str) -> list[Node]:
    """The nodes of tensors that are to be nested, shaped and typed as others are."""
    leaves, structure = flatten(value)
    if structure != shape:
        raise ArgumentError(f"{operation}: {what} are nested in another way than what they belong "
                            f"to: {len(leaves)} tensors for {len(like_these)}; nest them alike")
    for leaf, other, name in zip(leaves, like_these, paths(structure, what), strict=True):
        if not isinstance(leaf, Tensor):
            raise DTypeError(f"{operation}: {name} is {type(leaf).__name__} {leaf!r:.40}, not a "
                             f"tensor; wrap it in lazyten.tensor()")
        other._operand(leaf, operation)
        if (leaf.shape, leaf.dtype) != (other.shape, other.dtype):
            raise GradientError(f"{operation}: {name} is {leaf.dtype.name} {leaf.shape}, for a "
                                f"tensor that is {other.dtype.name} {other.shape}; they must be "
                                f"alike")
    return [leaf.node for leaf in leaves]


# ---- forward mode --------------------------------------------------------------------------------

def jvp(func: Function, primals: Any, tangents: Any, *, has_aux: bool = False) -> tuple[Any, ...]:
    """(output, tangent of the output), with has_aux (output, tangent, aux), of `func` at `primals`.

    primals and tangents: tuples, one entry an argument, alike in shape and dtype. The tangent is
    the slope of the output as all primals move along their tangents.
    """
    check_function("jvp", func)
    if not isinstance(primals, tuple) or not isinstance(tangents, tuple) or not primals:
        raise ArgumentError("jvp: primals and tangents are tuples with an entry for each argument, "
                            "such as (x,) and (t,)")
    call = _call("jvp", func, primals, {}, tuple(range(len(primals))), has_aux)
    given = _matching("jvp", tangents, call.nesting, call.inputs, "the tangents")
    slopes = _pushed_forward(call, dict(zip(call.leaves, given, strict=True)))
    made = call.finished([*call.nodes, *slopes], call.output_devices * 2)
    output, tangent = unflatten(made, call.shape), unflatten(made, call.shape)
    return (output, tangent, call.finished_aux()) if has_aux else (output, tangent)


def linearize(func: Function, *primals: Any) -> tuple[Any, Function]:
    """(output, jvp_fn) of `func` at `primals`.

    jvp_fn(*tangents), one an argument, gives the tangent of the output, as `jvp` does, without
    calling `func` again.
    """
    check_function("linearize", func)
    call = _call("linearize", func, primals, {}, tuple(range(len(primals))), False)
    unknowns = [unknown(t.shape, t.dtype) for t in call.inputs]
    shaped = {leaf: x for leaf, (x, _) in zip(call.leaves, unknowns, strict=True)}
    slopes = substitute(_pushed_forward(call, shaped), call.values)
    output = unflatten(call.finished(call.nodes, call.output_devices), call.shape)
    return output, partial(_jvp_at, call, slopes, [flat for _, flat in unknowns])


def _jvp_at(call: _Call, slopes: Sequence[Node], unknowns: Sequence[Node], *tangents: Any) -> Any:
    given = _matching("jvp_fn", tangents, call.nesting, call.inputs, "the tangents")
    replaced = {flat: reshape(t, flat.shape) for flat, t in zip(unknowns, given, strict=True)}
    made = results(substitute(slopes, replaced), call.output_devices)
    return unflatten(iter(made), call.shape)


def _pushed_forward(call: _Call, tangents: dict[Node, Node]) -> list[Node]:
    """The tangents of the outputs, zeros for those that depend on no input."""
    nodes = call.nodes
    return [like(node, 0.0) if t is None else t
            for node, t in zip(nodes, jvp_of_nodes(nodes, tangents), strict=True)]


# ---- matrices of derivatives ---------------------------------------------------------------------

def jacrev(func: Function, argnums: ArgNums = 0, *, has_aux: bool = False) -> Function:
    """The function that gives the Jacobian of `func`, a row of it a vjp: for few outputs.

    For each output of shape s and each input of shape t a tensor of shape s + t, nested as the
    outputs, and in these as the inputs that argnums chooses. has_aux: (Jacobian, aux).
    """
    return Transformed("jacrev", func, _jacobian, "jacrev", _rows, argnums, has_aux)


def jacfwd(func: Function, argnums: ArgNums = 0, has_aux: bool = False) -> Function:
    """The function that gives the Jacobian of `func`, a column of it a jvp: for few inputs; the
    same as `jacrev`."""
    return Transformed("jacfwd", func, _jacobian, "jacfwd", _columns, argnums, has_aux)


def hessian(func: Function, argnums: ArgNums = 0) -> Function:
    """The function that gives the second derivatives of `func`: jacfwd of jacrev."""
    check_function("hessian", func)
    return jacfwd(jacrev(func, argnums), argnums)


def _jacobian(func: Function, operation: str, blocks: Callable[[_Call], list[list[Node]]],
              argnums: ArgNums, has_aux: bool, /, *args: Any, **kwargs: Any) -> Any:
    call = _call(operation, func, args, kwargs, argnums, has_aux)
    nodes = [block for row in blocks(call) for block in row]
    devices = [device for device in call.output_devices for _ in call.inputs]
    made = call.finished(nodes, devices)
    rows = [unflatten(made, call.nesting) for _ in call.outputs]
    result = unflatten(iter(rows), call.shape)
    return (result, call.finished_aux()) if has_aux else result


def _rows(call: _Call) -> list[list[Node]]:
    """For each output its derivatives for each input: cotangents of its elements, batched."""
    found = []
    for node in call.nodes:
        cotangent, flat = unknown(node.shape, node.dtype)
        parts = _pulled_back(call, [node], [cotangent])
        whole = batch(parts, {flat: _identity(flat)}, node.numel)
        shapes = [node.shape + leaf.shape for leaf in call.leaves]
        found.append([const(0.0, part.dtype, shape) if w is None else reshape(w, shape)
                      for part, w, shape in zip(parts, whole, shapes, strict=True)])
    return found


def _columns(call: _Call) -> list[list[Node]]:
    """The same of tangents of the elements of each input, batched."""
    nodes, columns = call.nodes, []
    for leaf in call.leaves:
        tangent, flat = unknown(leaf.shape, leaf.dtype)
        slopes = _pushed_forward(call, {leaf: tangent})
        whole = batch(slopes, {flat: _identity(flat)}, leaf.numel)
        shapes = [node.shape + leaf.shape for node in nodes]
        columns.append([const(0.0, slope.dtype, shape) if w is None else reshape(_last(w), shape)
                        for slope, w, shape in zip(slopes, whole, shapes, strict=True)])
    return [list(row) for row in zip(*columns, strict=True)]


def _last(x: Node) -> Node:
    """x with its first axis last."""
    return move(Op.PERMUTE, x, (*range(1, len(x.shape)), 0))


def _identity(flat: Node) -> Node:
    """The identity matrix for the elements of a flat node."""
    n = flat.numel
    line = iota(n)
    rows, columns = expand(reshape(line, (n, 1)), (n, n)), expand(reshape(line, (1, n)), (n, n))
    return cast(equal(rows, columns), flat.dtype)
