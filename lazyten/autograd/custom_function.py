"""Operations whose gradient the user writes: `autograd.Function`.

forward() and backward() see complex tensors where the call has them; between them are their pairs.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, wraps
from inspect import signature
from typing import Any, NamedTuple, NoReturn, TypeVar
from weakref import ref

from lazyten.autodiff import hooks
from lazyten.autodiff.joint_gradients import apart, jointly, together
from lazyten.autograd.for_examples import by_batches, by_its_rule, examples_of
from lazyten.autograd.function_context import FunctionContext, Outputs, WholeContext, shown
from lazyten.frontend.complexes.tensors import ComplexTensor, joined
from lazyten.frontend.core.forms import in_floats, is_sparse
from lazyten.frontend.recorded.slots import recorded_in, templates_of
from lazyten.frontend.tensor import Tensor
from lazyten.ir.dtype import DType
from lazyten.ir.node import Node, const, make
from lazyten.ir.ops import Op
from lazyten.operators.math.gradients import with_gradient
from lazyten.storage import tracing
from lazyten.storage.deferred import kept
from lazyten.storage.frames import Frame, Slot
from lazyten.storage.levels import level
from lazyten.support.errors import ArgumentError, GradientError, NotWrittenError, TransformError
from lazyten.support.grad_mode import is_grad_enabled, no_grad, set_grad_enabled

F = TypeVar("F", bound=Callable[..., Any])


class Function:
    """An operation with a gradient of its own; subclass it, and call `apply`.

    forward(ctx, *args) computes the outputs, unrecorded; backward(ctx, *gradients of the outputs)
    gives a gradient for each argument, None for those that have none; what it gives for an argument
    that needs none is left out. Or forward(*args), and
    setup_context(ctx, args, output).

    Under vmap forward() is called for one example, with tensors that have no values. One that needs
    these has vmap(info, in_dims, *args), which is called with tensors of all examples, along the
    axes in_dims (None: the same for all), and gives outputs and their axes; or takes_batches, if it
    takes any number of axes before those that it is about.
    """

    @staticmethod
    def forward(*args: Any) -> Any:
        """To be written."""
        raise NotWrittenError("a Function without forward(): add a static method forward(ctx, "
                              "...)")

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """To be written."""
        raise NotWrittenError("a Function without backward(): add a static method "
                              "backward(ctx, *gradients)")

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        """A tangent of each output, for one of each argument: zeros for a tensor that has none,
        None for what is no tensor. Without it forward mode goes by backward()."""
        raise NotWrittenError("a Function without jvp(): forward mode goes by backward() here, so "
                              "nothing has to call it")

    setup_context: Callable[..., None] | None = None
    vmap: Callable[..., Any] | None = None
    takes_batches = False

    @classmethod
    def apply(cls, *args: Any, **named: Any) -> Any:
        """Run forward(), and record backward() as its gradient. With setup_context() arguments may
        be named, and those left out are there with their defaults."""
        if cls.setup_context is not None:
            given = signature(cls.forward).bind(*args, **named)
            given.apply_defaults()
            args, named = given.args, given.kwargs
        if named:
            raise ArgumentError(f"{cls.__name__}.apply: {', '.join(named)} by name; give arguments "
                                f"in order")
        _refuse_sparse(cls, "argument", [
            a for a in args if isinstance(a, Tensor) and is_sparse(a) and a.requires_grad])
        ctx = FunctionContext(args)
        flows = is_grad_enabled() and any(ctx.needs_input_grad)
        before = [(a, kept(in_floats(a)._storage))
                  for a in args if flows and _is_dense(a)]
        with no_grad():
            result = _called(cls, ctx, args)
        if flows:
            ctx._go_on()
        ctx._inputs.clear()
        outputs = list(result) if isinstance(result, tuple) else [result]
        apart = {n for n, x in enumerate(outputs) if not flows or id(x) in ctx._without_gradient}
        if flows and ctx._dirty:
            _attach_written(cls, ctx, args, outputs, apart, before)
        elif flows:
            _attach(cls, ctx, args, outputs, apart)
        required = {id(a) for a in args if isinstance(a, Tensor) and a.requires_grad}
        for n in apart:  # an argument is given back without its gradients
            if id(outputs[n]) in required:
                outputs[n] = outputs[n].detach()
        return tuple(outputs) if isinstance(result, tuple) else outputs[0]


class InplaceFunction(Function):
    """A Function with a flag, which programs subclass by PyTorch's name."""

    def __init__(self, inplace: bool = False) -> None:
        self.inplace = inplace


def _called(function: type[Function], ctx: FunctionContext, args: Sequence[Any]) -> Any:
    """forward() of one example, or of all of a vmap where the function is made for that."""
    given = examples_of(args) if function.vmap or function.takes_batches else None
    if given is not None and function.vmap is None:
        return by_batches(given, args, partial(_called, function), WholeContext(ctx), ctx)
    if function.setup_context is None:
        if given is not None:
            raise NotWrittenError(f"{function.__name__} has vmap(), and so needs setup_context() "
                                  f"beside a forward() without ctx")
        return function.forward(ctx, *args)
    result = function.forward(*args) if given is None else by_its_rule(function, given)
    function.setup_context(ctx, tuple(args), result)
    if given is not None and ctx._dirty:
        raise TransformError(f"{function.__name__}: mark_dirty() under vmap(): have forward() give "
                             f"new tensors, and copy_() outside")
    return result


def _is_dense(x: Any) -> bool:
    """Whether something is a tensor that gradients may flow to. (What is sparse is as a number: its
    values may be given beside it.)"""
    return isinstance(x, Tensor) and not is_sparse(x)


def _refuse_sparse(function: type[Function], what: str, found: Sequence[Tensor]) -> None:
    """GradientError if there are sparse tensors where gradients would flow."""
    if found:
        raise GradientError(f"{function.__name__}: gradients flow through no sparse {what}, as "
                            f"that of shape {found[0].shape}; have the places and the values be "
                            f"one each, and make the sparse tensor inside or outside")


def _attach_written(function: type[Function], ctx: FunctionContext, args: tuple[Any, ...],
                    outputs: list[Any], apart: set[int],
                    before: list[tuple[Tensor, Callable[[], None]]]) -> None:
    """The same where forward() has written to arguments: to these it is done again, recorded."""
    tracing.refuse("mark_dirty", "have forward() give new tensors, and copy_() outside")
    written = [(t, give_back) for t, give_back in before if id(t) in ctx._dirty]
    places: dict[int, list[int]] = {}
    for number, t in enumerate(outputs):
        places.setdefault(id(t), []).append(number)
    if len(written) < len(ctx._dirty) or any(id(t) not in places for t, _ in written):
        raise GradientError(f"{function.__name__}: mark_dirty() is for arguments of apply() that "
                            f"forward() gives back")
    for t, _ in written:
        for number in places[id(t)]:
            outputs[number] = t.detach().clone()
    for _, give_back in written:
        give_back()
    _attach(function, ctx, args, outputs, apart)
    for t, _ in written:
        made = in_floats(outputs[places[id(t)][-1]])
        in_floats(t)._update(function.__name__, made.node, made, replaces=True)
        for number in places[id(t)]:
            outputs[number] = t


def _attach(function: type[Function], ctx: FunctionContext, args: tuple[Any, ...],
            outputs: list[Any], apart: set[int]) -> None:
    """Give backward() as their gradient to the outputs of a call, but for those of these numbers.
    """
    _refuse_sparse(function, "result", [
        t for t in outputs if isinstance(t, Tensor) and is_sparse(t)])
    inputs = [in_floats(a) for a in args if _is_dense(a)]
    kinds = tuple(map(_kind_of, outputs))
    wanted = {number: in_floats(t) for number, t in enumerate(outputs) if isinstance(t, Tensor)
              and in_floats(t).dtype.is_float and number not in apart}
    if not wanted:
        return
    rule = _Rule(function, tuple(wanted), tuple(map(_kind_of, args)), kinds, ctx)
    tensors = [*wanted.values(), *inputs]
    found = templates_of(tensors)
    frame, nodes = found or (None, [t.node for t in tensors])
    ctx._stay_in(frame)
    values, sources = tuple(nodes[:len(wanted)]), tuple(nodes[len(wanted):])
    ctx._outputs = Outputs(values, sources, ref(rule))
    rule.slot = None if frame is None else frame.add_rule(rule)
    for number, node in zip(wanted, rule.attached(values, sources), strict=True):
        made = Tensor._of(node, wanted[number].device, True) if frame is None \
            else recorded_in(frame, node)
        outputs[number] = shown(made, isinstance(outputs[number], ComplexTensor))


class _Kind(NamedTuple):
    """What a tensor is in memory, if it is complex that of its pairs."""

    shape: tuple[int, ...]
    dtype: DType
    device: str
    is_complex: bool


def _kind_of(x: Any) -> _Kind | None:
    if not _is_dense(x):
        return None
    parts = in_floats(x)
    return _Kind(parts.shape, parts.dtype, parts.device, isinstance(x, ComplexTensor))


class _Rule:
    """The gradient of one call, as gradient.py wants it. Compared by identity. wanted: the numbers
    of the outputs that have gradients. slot: what it is in templates, if a frame knows it."""

    slot: Slot | None

    def __init__(self, function: type[Function], wanted: tuple[int, ...],
                 takes: tuple[_Kind | None, ...], kinds: tuple[_Kind | None, ...],
                 ctx: FunctionContext) -> None:
        self.__name__ = function.__name__
        self.function, self.ctx, self.wanted = function, ctx, wanted
        self.takes, self.kinds = takes, kinds

    def attached(self, values: Sequence[Node], inputs: Sequence[Node]) -> list[Node]:
        """The outputs that have gradients, with this one; in templates where there is a slot."""
        return jointly(values, inputs, self if self.slot is None else self.slot, self.__name__)

    def __call__(self, g: Node, node: Node) -> list[Node | None]:
        inputs = node.src[1:]
        parts = self.pulled_back(g, inputs, Tensor._gradient)
        nodes = [None if part is None else part.node for part in parts]
        if getattr(self.function.backward, "_once", False):
            never = _Never(self.__name__)
            nodes = [n and with_gradient(make(Op.DETACH, n.dtype, (n,)), (g, *inputs), never)
                     for n in nodes]
        return nodes

    @property
    def for_examples(self) -> Any:
        """What enters a vmap around the rule, if backward() may ask for all examples."""
        if not (self.function.vmap or self.function.takes_batches):
            return None
        return lambda examples, size: level("vmap", size, examples=examples)

    @property
    def pushed_forward(self) -> Any:
        """What forward mode asks for the tangent of all outputs side by side, if there is a jvp().
        """
        return None if self.function.jvp is Function.jvp else self._tangents

    def _tangents(self, tangents: Sequence[Node | None], node: Node) -> Node:
        """What jvp() gives for these tangents of the inputs."""
        known = iter(tangents)
        given: list[Tensor | None] = []
        for kind in self.takes:
            part = None if kind is None else next(known)
            if kind is None or part is None and not self.ctx._materialize:
                given.append(None)
                continue
            x = Tensor._of(const(0, kind.dtype, kind.shape), kind.device) if part is None \
                else Tensor._gradient(part, kind.device)
            given.append(shown(x, kind.is_complex))
        flows = any(t.requires_grad for t in given if t is not None)
        with set_grad_enabled(flows), self.ctx._going_forward():
            result = self.function.jvp(self.ctx, *given)
        parts = list(result) if isinstance(result, tuple) else [result]
        if len(parts) != len(self.kinds):
            raise GradientError(f"{self.__name__}.jvp gave {len(parts)} tangents for "
                                f"{len(self.kinds)} outputs; give one for each, None where there "
                                f"is none")
        wanted = [(part, kind) for number in self.wanted
                  if (kind := self.kinds[number]) for part in [parts[number]]]
        nodes = [None if part is None else self._fitting(part, kind).node for part, kind in wanted]
        return together(nodes, [(kind.shape, kind.dtype) for _, kind in wanted], node)

    def _fitting(self, part: Any, kind: _Kind) -> Tensor:
        """A tangent as its output is, grown to its shape. GradientError for others."""
        if isinstance(part, Tensor) and kind.is_complex:
            part = _pairs_of(part)
        if not isinstance(part, Tensor) or not part.dtype.is_float \
                or not _grown(part.shape, kind.shape) or part.device != kind.device:
            what = f"{part.dtype.name} {part.shape} on '{part.device}'" \
                if isinstance(part, Tensor) else repr(part)
            raise GradientError(f"{self.__name__}.jvp gave {what} for an output of "
                                f"{kind.dtype.name} {kind.shape} on '{kind.device}'; a tangent has "
                                f"its output's shape, type and device")
        return part.to(dtype=kind.dtype).expand(kind.shape)

    def leave(self, frame: Frame) -> None:
        """It is asked for over real memory from now on."""
        self.slot = None
        self.ctx._leave(frame)

    def _gradients(self, g: Node, as_tensor: Callable[[Node, str], Tensor]
                   ) -> list[Tensor | None]:
        """The gradients of all outputs, those that have none too."""
        wanted = [kind for number in self.wanted if (kind := self.kinds[number])]
        parts = dict(zip(self.wanted, apart(g, [(k.shape, k.dtype) for k in wanted]), strict=True))
        given: list[Tensor | None] = []
        for number, kind in enumerate(self.kinds):
            part = parts.get(number)
            if kind is None or part is None and not self.ctx._materialize:
                given.append(None)
                continue
            x = Tensor._of(const(0, kind.dtype, kind.shape), kind.device) if part is None \
                else as_tensor(part, kind.device)
            given.append(shown(x, kind.is_complex))
        return given

    def pulled_back(self, g: Node, inputs: Sequence[Node], as_tensor: Callable[[Node, str], Tensor]
                    ) -> list[Tensor | None]:
        """What backward() gives for these inputs, for the cotangent of the call. as_tensor: makes
        tensors of its nodes, through which gradients may flow."""
        given = self._gradients(g, as_tensor)
        if all(t is None for t in given):  # zeros of outputs, or none of empty ones
            return [Tensor._of(const(0, source.dtype, source.shape), taken.device)
                    for source, taken in zip(inputs, filter(None, self.takes), strict=True)]
        with set_grad_enabled(any(t.requires_grad for t in given if t is not None)), \
                hooks.users_walk():
            result = self.function.backward(self.ctx, *given)
            parts = list(result) if isinstance(result, tuple) else [result]
            while len(parts) > len(self.takes) and parts[-1] is None:  # PyTorch lets them be
                parts.pop()
            if len(parts) != len(self.takes):
                raise GradientError(f"{self.__name__}.backward gave {len(parts)} gradients for "
                                    f"{len(self.takes)} arguments of apply(); give one for each, "
                                    f"None where there is none")
            sources = iter(inputs)
            wanted = zip(self.takes, parts, self.ctx.needs_input_grad, strict=True)
            return [self._checked(next(sources), taken, part if is_needed else None)
                    for taken, part, is_needed in wanted if taken]

    def _checked(self, source: Node, taken: _Kind, part: Any) -> Tensor | None:
        """A gradient as its argument needs it: floats are cast, also to complex numbers, and what
        the argument would be repeated to is summed up, as in PyTorch. GradientError for others."""
        if part is None:
            return None
        if isinstance(part, Tensor) and taken.is_complex:
            part = _pairs_of(part)
        if isinstance(part, Tensor) and part.dtype.is_float:
            part = part.to(dtype=source.dtype)
            if part.shape != source.shape and _grown(source.shape, part.shape):
                part = part.sum_to_size(source.shape)
        if not isinstance(part, Tensor) or part.shape != source.shape \
                or part.dtype is not source.dtype or part.device != taken.device:
            what = f"{part.dtype.name} {part.shape} on '{part.device}'" \
                if isinstance(part, Tensor) else repr(part)
            pairs = "pairs of " if taken.is_complex else ""
            raise GradientError(f"{self.__name__}.backward gave {what} for an argument of {pairs}"
                                f"{source.dtype.name} {source.shape} on '{taken.device}'; they "
                                f"must be alike")
        return part


def _pairs_of(x: Tensor) -> Tensor:
    """The pairs of a complex tensor, or of real numbers, if they are floats."""
    if isinstance(x, ComplexTensor) or not x.dtype.is_float:
        found: Tensor = in_floats(x)
        return found
    return joined(x, x.new_zeros(x.shape))


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
