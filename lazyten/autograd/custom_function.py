"""Operations whose gradient the user writes: `autograd.Function`."""
from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, NoReturn, TypeVar

from lazyten.frontend.tensor import Tensor
from lazyten.ir import dtype as dt
from lazyten.ir.node import Node, const, make
from lazyten.ir.ops import Op
from lazyten.operators.math.elementwise import with_gradient
from lazyten.support.errors import ArgumentError, GradientError
from lazyten.support.grad_mode import enable_grad, is_grad_enabled, no_grad

F = TypeVar("F", bound=Callable[..., Any])


class FunctionContext:
    """What forward() leaves for backward(): saved tensors, and any attributes.

    needs_input_grad: for each argument of apply(), whether its gradient is wanted.
    """

    def __init__(self, args: tuple[Any, ...]) -> None:
        self.needs_input_grad = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
        self._saved: list[tuple[Node, str] | None] = []
        self._without_gradient: set[int] = set()
        self._materialize = True
        self._rules: list[_Rule | None] = []
        self._values: list[Node] = []

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors for backward(), with the values they have now."""
        for t in tensors:
            if t is not None and not isinstance(t, Tensor):
                raise ArgumentError(f"save_for_backward: {t!r:.40} is not a tensor; make it an "
                                    f"attribute of ctx")
        self._saved = [None if t is None else (t.node, t.device) for t in tensors]

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """What save_for_backward() was given."""
        return tuple(None if s is None else Tensor._of(self._followed(s[0]), s[1])
                     for s in self._saved)

    def _followed(self, node: Node) -> Node:
        """An output with its gradient, for second derivatives; another node as it is."""
        for value, rule in zip(self._values, self._rules, strict=True):
            if value is node and rule is not None:
                return with_gradient(value, rule.inputs, rule)
        return node

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """No gradient flows through these outputs."""
        self._without_gradient |= {id(t) for t in tensors}

    def set_materialize_grads(self, value: bool) -> None:
        """Whether gradients of outputs that are not used are zeros for backward(), or None."""
        self._materialize = value

    def mark_dirty(self, *tensors: Tensor) -> NoReturn:
        """Not supported: forward() must not write to its arguments."""
        raise GradientError("mark_dirty: forward() of a Function gives new tensors here; write to "
                            "the argument with copy_() outside")


class Function:
    """An operation with a gradient of its own; subclass it, and call `apply`.

    forward(ctx, *args) computes the outputs, unrecorded; backward(ctx, *gradients of the outputs)
    gives a gradient for each argument, None for those that have none. Or forward(*args), and
    setup_context(ctx, args, output). With several outputs backward() is called for each one that
    has a gradient, so it must be linear, as gradients are.
    """

    @staticmethod
    def forward(*args: Any) -> Any:
        """To be written."""
        raise GradientError("a Function without forward(): add a static method forward(ctx, ...)")

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """To be written."""
        raise GradientError("a Function without backward(): add a static method "
                            "backward(ctx, *gradients)")

    setup_context: Callable[..., None] | None = None

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Run forward(), and record backward() as its gradient."""
        ctx = FunctionContext(args)
        with no_grad():
            if cls.setup_context is None:
                result = cls.forward(ctx, *args)
            else:
                result = cls.forward(*args)
                cls.setup_context(ctx, args, result)
        outputs = list(result) if isinstance(result, tuple) else [result]
        tensors = [a for a in args if isinstance(a, Tensor)]
        recorded = is_grad_enabled() and any(ctx.needs_input_grad)
        inputs = tuple(t.node for t in tensors)
        ctx._values = [t.node if isinstance(t, Tensor) else const(0, dt.bool_) for t in outputs]
        ctx._rules = [_Rule(cls, ctx, number, inputs, args, outputs)
                      if recorded and isinstance(t, Tensor) and t.dtype.is_float
                      and id(t) not in ctx._without_gradient else None
                      for number, t in enumerate(outputs)]
        for number, (t, rule) in enumerate(zip(outputs, ctx._rules, strict=True)):
            if rule is not None:
                node = with_gradient(ctx._values[number], inputs, rule)
                outputs[number] = Tensor._of(node, t.device, True)
        return tuple(outputs) if isinstance(result, tuple) else outputs[0]


class _Rule:
    """The gradient of one output of one call, as gradient.py wants it. Compared by identity."""

    def __init__(self, function: type[Function], ctx: FunctionContext, number: int,
                 inputs: tuple[Node, ...], args: tuple[Any, ...], outputs: list[Any]) -> None:
        self.__name__ = function.__name__
        self.function, self.ctx, self.number, self.inputs = function, ctx, number, inputs
        self.tensors = [isinstance(a, Tensor) for a in args]
        self.kinds = [(t.shape, t.dtype, t.device) if isinstance(t, Tensor) else None
                      for t in outputs]

    def __call__(self, g: Node, node: Node) -> list[Node | None]:
        kind = self.kinds[self.number]
        assert kind is not None
        given: list[Tensor | None] = [
            Tensor._of(const(0, k[1], k[0]), k[2]) if k and self.ctx._materialize else None
            for k in self.kinds]
        given[self.number] = Tensor._of(g, kind[2])
        with enable_grad():
            result = self.function.backward(self.ctx, *given)
        parts = list(result) if isinstance(result, tuple) else [result]
        if len(parts) != len(self.tensors):
            raise GradientError(f"{self.__name__}.backward gave {len(parts)} gradients for "
                                f"{len(self.tensors)} arguments of apply(); give one for each, "
                                f"None where there is none")
        once = getattr(self.function.backward, "_once", False)
        nodes = []
        for source, part in zip(self.inputs, [p for p, is_tensor in zip(
                parts, self.tensors, strict=True) if is_tensor], strict=True):
            nodes.append(self._checked(source, part))
            if once and nodes[-1] is not None:
                value = make(Op.DETACH, source.dtype, (nodes[-1],))
                nodes[-1] = with_gradient(value, (g, *self.inputs), _Never(self.__name__))
        return nodes

    def _checked(self, source: Node, part: Any) -> Node | None:
        """A gradient as its argument needs it: floats are cast, and what the argument would be
        repeated to is summed up, as in PyTorch. GradientError for others."""
        if part is None:
            return None
        if isinstance(part, Tensor) and part.dtype.is_float:
            part = part.to(dtype=source.dtype)
            if part.shape != source.shape and _grown(source.shape, part.shape):
                part = part.sum_to_size(source.shape)
        if not isinstance(part, Tensor) or part.shape != source.shape or (
                part.dtype is not source.dtype):
            what = f"{part.dtype.name} {part.shape}" if isinstance(part, Tensor) else repr(part)
            raise GradientError(f"{self.__name__}.backward gave {what} for an argument of "
                                f"{source.dtype.name} {source.shape}; they must be alike")
        return part.node


class _Never:
    """The gradient of what `once_differentiable` gives."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __call__(self, g: Node, node: Node) -> NoReturn:
        raise GradientError(f"{self.__name__}.backward is once_differentiable, but its gradient is "
                            f"differentiated again; leave the decorator out, or detach()")


def once_differentiable(backward: F) -> F:
    """Decorates a backward(): differentiating its results again is an error."""
    @wraps(backward)
    def once(*args: Any) -> Any:
        return backward(*args)
    once._once = True  # type: ignore[attr-defined]
    return once  # type: ignore[return-value]


def _grown(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    """Whether a tensor of this shape would be repeated to have the other."""
    extra = len(to) - len(shape)
    return extra >= 0 and all(n in (1, m) for n, m in zip(shape, to[extra:], strict=True))
