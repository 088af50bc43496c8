"""What is kept for gradients, replaced while it is recorded: hooks that pack and unpack it.

In: operations within a block, and two functions of a user's. Out: the same results, whose gradients
read what the second function makes of what the first has made of each tensor that they read: an
operation's operands, or its result.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from threading import local
from typing import Any, NamedTuple

from lazyten.autodiff import hooks
from lazyten.autodiff.gradient import vjp
from lazyten.frontend.complexes.tensors import ComplexTensor
from lazyten.frontend.core.forms import is_sparse
from lazyten.frontend.core.overriding import Mode
from lazyten.frontend.tensor import Tensor
from lazyten.ir.node import Node, make, substitute, toposort
from lazyten.ir.ops import Op
from lazyten.ir.unknown import unknown
from lazyten.operators.math.gradients import with_gradient
from lazyten.storage import tracing
from lazyten.storage.placement import Device
from lazyten.storage.storage import new_leaf_id
from lazyten.support.errors import GradientError, StateError
from lazyten.support.grad_mode import no_grad
from lazyten.support.trees import flatten, unflatten


class Hooks(NamedTuple):
    """pack: makes anything of a tensor that is kept; unpack: makes a tensor of that again."""

    pack: Callable[[Tensor], Any]
    unpack: Callable[[Any], Tensor]


class _Here(local):
    """What holds in this thread: the hooks of the blocks that it is in, and why there may be none.
    """

    hooks: tuple[Hooks, ...] = ()
    refused: str | None = None
    is_inside = False


_here = _Here()


def current() -> Hooks | None:
    """The hooks of the innermost block, but within the hooks themselves."""
    return _here.hooks[-1] if _here.hooks and not _here.is_inside else None


class Packed:
    """A tensor that is kept packed."""

    def __init__(self, given: Hooks, tensor: Tensor) -> None:
        self._unpack, self._kind = given.unpack, (tensor.shape, tensor.dtype, tensor.device)
        parts, self._structure = flatten(self._called(given.pack, tensor.detach()))
        self._parts = parts if tracing.current() is None else [_unheld(x) for x in parts]

    def tensor(self) -> Tensor:
        """It, unpacked. GradientError if it is not of its kind any more."""
        content = unflatten(iter([x.tensor() if isinstance(x, _Unheld) else x
                                  for x in self._parts]), self._structure)
        found = self._called(self._unpack, content)
        if not isinstance(found, Tensor) or (found.shape, found.dtype, found.device) != self._kind:
            shape, dtype, device = self._kind
            raise GradientError(f"saved_tensors_hooks: unpack_hook gave {_shown(found)} for a "
                                f"tensor of {dtype.name} {tuple(shape)} on '{device}'; give one "
                                f"of the same shape, type and device")
        return found

    @staticmethod
    def _called(hook: Callable[[Any], Any], given: Any) -> Any:
        before, _here.is_inside = _here.is_inside, True
        try:
            with no_grad():
                return hook(given)
        finally:
            _here.is_inside = before


class _Unheld(NamedTuple):
    """A tensor that a trace makes: its value, as a trace leaves no tensor behind."""

    node: Node
    device: Device

    def tensor(self) -> Tensor:
        """It."""
        return Tensor._of(self.node, self.device)


def _unheld(x: Any) -> Any:
    is_dense = isinstance(x, Tensor) and not isinstance(x, ComplexTensor) and not is_sparse(x)
    return _Unheld(x.node, x.device) if is_dense else x


def _shown(x: Any) -> str:
    return f"{x.dtype.name} {tuple(x.shape)} on '{x.device}'" if isinstance(x, Tensor) \
        else f"{type(x).__name__} {x!r:.40}"


def attached(value: Tensor, original: Node, requires_grad: bool) -> Tensor:
    """A value that was unpacked, whose gradient flows to what was packed, if one does."""
    if not requires_grad:
        return value
    node = with_gradient(make(Op.DETACH, value.dtype, (value.node,)), (original,), _passed_on)
    return Tensor._of(node, value.device, True)


def _passed_on(g: Node, node: Node) -> list[Node | None]:
    return [g]


class Saving(Mode):
    """Within this block gradients read what these hooks make of what is kept for them."""

    def __init__(self, given: Hooks) -> None:
        self.given = given

    def __enter__(self) -> Saving:
        if _here.refused is not None:
            raise StateError(_here.refused)
        _here.hooks = (*_here.hooks, self.given)
        super().__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        super().__exit__(*exc)
        _here.hooks = _here.hooks[:-1]

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """What an operation gives, with gradients that read what is unpacked."""
        result = func(*args, **(kwargs or {}))
        if current() is not self.given:  # an inner block's, or those of the hooks themselves
            return result
        given = [x for x in flatten((args, kwargs or {}))[0] if isinstance(x, Tensor)]
        if any(isinstance(x, ComplexTensor) or is_sparse(x) for x in given):
            return result
        leaves, structure = flatten(result)
        if not any(isinstance(x, Tensor) and x.requires_grad for x in leaves):
            return result
        packed: dict[Node, Packed] = {}
        return unflatten(iter([self._kept(x, given, packed) for x in leaves]), structure)

    def _kept(self, output: Any, given: Sequence[Tensor], packed: dict[Node, Packed]) -> Any:
        """One result. What is an operand, or shows its memory, is left as it is."""
        if not isinstance(output, Tensor) or isinstance(output, ComplexTensor) \
                or not output.requires_grad or output.is_leaf \
                or any(output is x for x in given) or output._is_view():
            return output
        node = output.node
        operands = {x.node: x for x in given if x.node is not node}
        stands = {n: make(Op.LEAF, n.dtype, (n,), new_leaf_id()) for n in operands}
        again, = substitute([node], stands)
        inputs = tuple(n for n, x in operands.items() if x.requires_grad)
        rule = _Unpacking(again, tuple(stands[n] for n in inputs), ())
        tensors = {again: output} | {stands[n]: x for n, x in operands.items()}
        parts = [p for p in rule.partial(unknown(node.shape, node.dtype)[0]) if p is not None]
        read = toposort(parts, lambda n: () if n in tensors else n.src)
        saved = [n for n in read if n in tensors]
        if not saved:
            return output
        for x in (tensors[n] for n in saved):
            if x.node not in packed:
                packed[x.node] = Packed(self.given, x)
        rule = replace(rule, saved=tuple((n, packed[tensors[n].node], tensors[n].node,
                                          tensors[n].requires_grad) for n in saved))
        value = make(Op.DETACH, node.dtype, (node,))
        return Tensor._of(with_gradient(value, inputs, rule), output.device, True)


@dataclass(frozen=True, slots=True, eq=False)
class _Unpacking:
    """The gradient of `output` for `inputs`, leaves that stand for operands, which reads what is
    unpacked. saved: nodes that it reads, each packed, with what was packed."""

    output: Node
    inputs: tuple[Node, ...]
    saved: tuple[tuple[Node, Packed, Node, bool], ...]

    def partial(self, g: Node) -> list[Node | None]:
        """The same, which reads what there was."""
        with hooks.inner_walk({}):
            return vjp(self.output, g, self.inputs)

    def __call__(self, g: Node, node: Node) -> tuple[Node | None, ...]:
        found, flows = self.partial(g), hooks.walk.is_differentiable
        known = {read: attached(packed.tensor(), original, flows and requires_grad).node
                 for read, packed, original, requires_grad in self.saved}
        parts = iter(substitute([part for part in found if part is not None], known))
        return tuple(None if part is None else next(parts) for part in found)


def refused(message: str) -> Callable[[], None]:
    """Have blocks of hooks be an error from now on; gives what ends that."""
    before, _here.refused = _here.refused, message

    def end() -> None:
        _here.refused = before
    return end
