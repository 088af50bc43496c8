"""`lt.func`: transforms of functions of tensors, with torch.func's names, arguments and results.

Each takes a function and gives one, or what it computes; they nest in any way, with each other and
with `lt.jit`. `differentiation.called` gets the graph of the function; what is here walks over it.

Files, in reading order:

- transforms.py: What all transforms of `lazyten.func` share: how a function is wrapped, called
  and answered.
- mapping.py: Vmap: a function of one example as a function of many (`lt.func.vmap`).
- differentiation.py: Calling a function to differentiate it: its outputs as graphs of what stands
  for its inputs.
- forward_ad.py: Tensors that carry tangents: `lt.autograd.forward_ad`.
- functional_call.py: Calling a module with other tensors in place of its parameters: a function
  of these.

All is made of the three walkers of lazyten/autodiff. A transform calls the user's function once:
to differentiate, with LEAF nodes over its arguments' values (differentiation.py), so that these
can be read; for vmap, with an `Unknown` of one example's shape (unknown.py), which has no value.
What is walked over is the graph that comes out, so no operation on tensors has a rule of its own,
and a nested transform is a walk over a graph in which the outer one's stand-ins are nodes like
any other; each replaces its own in what it gives. `levels.py` knows which transforms are under
way in a thread: a write to a storage made before the innermost of them is refused, random.py
draws for all examples of a vmap, and a jitted function runs as Python.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from lazyten.autodiff.arithmetic import equal, like
from lazyten.autodiff.batching import batch
from lazyten.autodiff.forward_mode import jvp as jvp_of_nodes
from lazyten.autodiff.gradient import vjp_of_all
from lazyten.frontend.tensor import Tensor
from lazyten.func.differentiation import ArgNums, Call, all_of, called, matching
from lazyten.func.functional_call import _reparametrize_module as _reparametrize_module
from lazyten.func.functional_call import functional_call as functional_call
from lazyten.func.functional_call import (
    replace_all_batch_norm_modules_ as replace_all_batch_norm_modules_,
)
from lazyten.func.functional_call import stack_module_state as stack_module_state
from lazyten.func.mapping import vmap as vmap
from lazyten.func.transforms import (
    Function,
    Transformed,
    check_function,
    checked_chunk_size,
    results,
)
from lazyten.ir.node import Node, cast, const, expand, iota, move, reshape, substitute
from lazyten.ir.ops import Op
from lazyten.ir.unknown import unknown
from lazyten.operators.arrays import joining
from lazyten.storage.levels import level
from lazyten.support.errors import ArgumentError, GradientError
from lazyten.support.trees import unflatten

__all__ = ["functional_call", "functionalize", "grad", "grad_and_value", "hessian", "jacfwd",
           "jacrev", "jvp", "linearize", "replace_all_batch_norm_modules_", "stack_module_state",
           "value_and_grad", "vjp", "vmap"]


def functionalize(func: Function, *, remove: str = "mutations") -> Function:
    """The function itself: what it writes in place is part of its graph, as everything is.
    ArgumentError unless remove is one of PyTorch's: mutations, mutations_and_views."""
    if remove not in ("mutations", "mutations_and_views"):
        raise ArgumentError(f"functionalize: remove={remove!r:.40} is not one of mutations, "
                            f"mutations_and_views")
    return func


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
    call = called(operation, func, args, kwargs, argnums, has_aux)
    if call.shape is not None:
        raise GradientError(f"{operation}: the function gives {len(call.nodes)} tensors in a "
                            f"{call.shape.kind.__name__}; give one number, and the rest as aux, "
                            f"with has_aux=True")
    node, = call.nodes
    if node.shape:
        raise GradientError(f"{operation}: the function gives a tensor of shape {node.shape}; a "
                            f"gradient is of one number, so reduce it with sum() or mean(), or "
                            f"use jacrev")
    parts = _pulled_back(call, [node], [like(node, 1.0)])
    devices = call.output_devices + call.input_devices
    made, aux = call.finished_with_aux([node, *parts], devices)
    return next(made), unflatten(made, call.nesting), aux


def _pulled_back(call: Call, outputs: Sequence[Node], cotangents: Sequence[Node]) -> list[Node]:
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
    call = called("vjp", func, primals, {}, all_of("vjp", primals), has_aux)
    made, aux = call.finished_with_aux(call.nodes, call.output_devices)
    output, pull = unflatten(made, call.shape), partial(_vjp_at, call)
    return (output, pull, aux) if has_aux else (output, pull)


def _vjp_at(call: Call, cotangents: Any) -> Any:
    given = matching("vjp_fn", cotangents, call.shape, call.nodes, call.output_devices,
                     "the cotangents")
    parts = _pulled_back(call, call.nodes, given)
    return unflatten(call.finished(parts, call.input_devices), call.nesting)


# ---- forward mode --------------------------------------------------------------------------------

def jvp(func: Function, primals: Any, tangents: Any, *, strict: bool = False,
        has_aux: bool = False) -> tuple[Any, ...]:
    """(output, tangent of the output), with has_aux (output, tangent, aux), of `func` at `primals`.

    primals and tangents: tuples, one entry an argument, alike in shape and dtype. The tangent is
    the slope of the output as all primals move along their tangents. strict: an output that depends
    on none of them is a GradientError; else its tangent is 0.
    """
    check_function("jvp", func)
    if not isinstance(primals, tuple) or not isinstance(tangents, tuple):
        raise ArgumentError("jvp: primals and tangents are tuples with an entry for each argument, "
                            "such as (x,) and (t,)")
    call = called("jvp", func, primals, {}, all_of("jvp", primals), has_aux)
    given = matching("jvp", tangents, call.nesting, call.leaves, call.input_devices,
                     "the tangents")
    slopes = _pushed_forward(call, dict(zip(call.leaves, given, strict=True)), strict)
    made, aux = call.finished_with_aux([*call.nodes, *slopes], call.output_devices * 2)
    output, tangent = unflatten(made, call.shape), unflatten(made, call.shape)
    return (output, tangent, aux) if has_aux else (output, tangent)


def linearize(func: Function, *primals: Any) -> tuple[Any, Function]:
    """(output, jvp_fn) of `func` at `primals`.

    jvp_fn(*tangents), one an argument, gives the tangent of the output, as `jvp` does, without
    calling `func` again.
    """
    check_function("linearize", func)
    call = called("linearize", func, primals, {}, all_of("linearize", primals), False)
    unknowns = [unknown(t.shape, t.dtype) for t in call.leaves]
    shaped = {leaf: x for leaf, (x, _) in zip(call.leaves, unknowns, strict=True)}
    slopes = substitute(_pushed_forward(call, shaped), call.values)
    output = unflatten(call.finished(call.nodes, call.output_devices), call.shape)
    return output, partial(_jvp_at, call, slopes, [flat for _, flat in unknowns])


def _jvp_at(call: Call, slopes: Sequence[Node], unknowns: Sequence[Node], *tangents: Any) -> Any:
    given = matching("jvp_fn", tangents, call.nesting, call.leaves, call.input_devices,
                     "the tangents")
    replaced = {flat: reshape(t, flat.shape) for flat, t in zip(unknowns, given, strict=True)}
    made = results(substitute(slopes, replaced), call.output_devices)
    return unflatten(iter(made), call.shape)


def _pushed_forward(call: Call, tangents: dict[Node, Node], strict: bool = False) -> list[Node]:
    """The tangents of the outputs, zeros for those that depend on no input. GradientError if there
    are any in `strict` mode."""
    nodes, found = call.nodes, jvp_of_nodes(call.nodes, tangents)
    if strict and None in found:
        raise GradientError(f"jvp with strict=True: output {found.index(None)} of the function "
                            f"depends on none of the primals; leave strict= out for a tangent of 0")
    return [like(node, 0.0) if t is None else t for node, t in zip(nodes, found, strict=True)]


# ---- matrices of derivatives ---------------------------------------------------------------------

def jacrev(func: Function, argnums: ArgNums = 0, *, has_aux: bool = False,
           chunk_size: int | None = None) -> Function:
    """The function that gives the Jacobian of `func`, a row of it a vjp: for few outputs.

    For each output of shape s and each input of shape t a tensor of shape s + t, nested as the
    outputs, and in these as the inputs that argnums chooses. has_aux: (Jacobian, aux).
    chunk_size: at most so many rows at once, which takes less memory; None for all.
    """
    blocks = partial(_rows, checked_chunk_size("jacrev", chunk_size, "rows"))
    return Transformed("jacrev", func, _jacobian, "jacrev", blocks, argnums, has_aux)


def jacfwd(func: Function, argnums: ArgNums = 0, has_aux: bool = False, *,
           chunk_size: int | None = None, randomness: str = "error") -> Function:
    """The function that gives the Jacobian of `func`, a column of it a jvp: for few inputs; the
    same as `jacrev`.

    chunk_size: at most so many columns at once. randomness: `func` runs once for all columns, so
    random numbers in it are the 'same' for all, whatever is asked for but 'different'."""
    if randomness not in ("error", "same"):
        raise ArgumentError(f"jacfwd: randomness={randomness!r}: the function runs once for all "
                            f"columns; give 'same', or 'error' as by default")
    return Transformed("jacfwd", func, _jacobian, "jacfwd", _columns, argnums, has_aux)


def hessian(func: Function, argnums: ArgNums = 0) -> Function:
    """The function that gives the second derivatives of `func`: jacfwd of jacrev."""
    check_function("hessian", func)
    return jacfwd(jacrev(func, argnums), argnums)


def _jacobian(func: Function, operation: str, blocks: Callable[[Call], list[list[Node]]],
              argnums: ArgNums, has_aux: bool, /, *args: Any, **kwargs: Any) -> Any:
    call = called(operation, func, args, kwargs, argnums, has_aux)
    nodes = [block for row in blocks(call) for block in row]
    devices = [device for device in call.output_devices for _ in call.leaves]
    made, aux = call.finished_with_aux(nodes, devices)
    rows = [unflatten(made, call.nesting) for _ in call.nodes]
    result = unflatten(iter(rows), call.shape)
    return (result, aux) if has_aux else result


def _rows(chunk_size: int | None, call: Call) -> list[list[Node]]:
    """For each output its derivatives for each input: cotangents of its elements, batched, at most
    chunk_size of them at once."""
    found = []
    for node in call.nodes:
        whole = _batched(call, node, chunk_size or node.numel or 1)
        shapes = [node.shape + leaf.shape for leaf in call.leaves]
        found.append([const(0.0, leaf.dtype, shape) if w is None else reshape(w, shape)
                      for leaf, w, shape in zip(call.leaves, whole, shapes, strict=True)])
    return found


def _batched(call: Call, node: Node, step: int) -> list[Node | None]:
    """The derivatives of an output for each input, of each unit vector as its cotangent, `step` of
    them at once."""
    count = node.numel
    cotangent, flat = unknown(node.shape, node.dtype)
    units, chunks = _identity(flat), []
    for start in range(0, max(count, 1), step):
        end = min(start + step, count)
        some = {flat: units if end - start == count else move(Op.SHRINK, units, (
            (start, end), (0, flat.numel)))}
        with level("jacrev", end - start, examples=some):
            parts = _pulled_back(call, [node], [cotangent])
        chunks.append(batch(parts, some, end - start))
    if len(chunks) == 1:
        return chunks[0]
    return [None if column[0] is None else joining.cat(column, 0)
            for column in zip(*chunks, strict=True)]


def _columns(call: Call) -> list[list[Node]]:
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
