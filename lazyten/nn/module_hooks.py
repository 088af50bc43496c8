"""Hooks of a module: functions that are told of its calls, and of gradients on their way back.

A table of hooks is made when the first hook of a kind is registered, so modules without any cost
nothing more to call, and nothing more for jit to watch.
"""
from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from types import MappingProxyType
from typing import Any, NamedTuple

from lazyten.autodiff.hooks import RemovableHandle, walk
from lazyten.autodiff.joint_gradients import apart, jointly
from lazyten.frontend.complexes.tensors import ComplexTensor, of_parts, pairs_of
from lazyten.frontend.tensor import Tensor
from lazyten.ir.node import Node, make
from lazyten.ir.ops import Op
from lazyten.nn.attributes import Attributes
from lazyten.storage import tracing
from lazyten.support.errors import ArgumentError, NotWrittenError
from lazyten.support.grad_mode import is_grad_enabled, of_backward
from lazyten.support.trees import of_kind

Hooks = Mapping[int, tuple[Any, ...]]
NONE: Hooks = MappingProxyType({})
_numbers = count()
EVERYWHERE: OrderedDict[int, tuple[str, tuple[Any, ...]]] = OrderedDict()
"""The hooks of all modules, each with its kind and options. What a jitted function does depends on
which there are."""


def registered(hooks: Hooks) -> list[tuple[Any, ...]]:
    """The hooks of a table, each with its options: those of now, as a hook may remove itself."""
    return list(hooks.values())


def _everywhere(kind: str, hook: Callable[..., Any], *options: bool) -> RemovableHandle:
    if not callable(hook):
        raise ArgumentError(f"a hook of all modules is {type(hook).__name__} {hook!r:.40}; give a "
                            f"function")
    tracing.refuse("registering a hook of all modules", "do it outside, before the call")
    number = next(_numbers)
    EVERYWHERE[number] = kind, (hook, *options)
    return RemovableHandle(EVERYWHERE, number)


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Module.register_forward_pre_hook, of all modules; before those of one."""
    return _everywhere("_forward_pre_hooks", hook, False)


def register_module_forward_hook(hook: Callable[..., Any], *, with_kwargs: bool = False,
                                 always_call: bool = False) -> RemovableHandle:
    """Module.register_forward_hook, of all modules; before those of one."""
    return _everywhere("_forward_hooks", hook, with_kwargs, always_call)


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Module.register_full_backward_pre_hook, of all modules; before those of one."""
    return _everywhere("_backward_pre_hooks", hook)


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Module.register_backward_hook, of all modules; before those of one."""
    warnings.warn("register_module_backward_hook is register_module_full_backward_hook: grad_input "
                  "are the gradients of a module's arguments", FutureWarning, stacklevel=2)
    return register_module_full_backward_hook(hook)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Module.register_full_backward_hook, of all modules; before those of one."""
    return _everywhere("_backward_hooks", hook)


class HookMethods(Attributes):
    """Calling a module, with what its hooks make of it."""

    _has_hooks = False  # one look at each call
    _forward_pre_hooks: Hooks = NONE
    _forward_hooks: Hooks = NONE
    _backward_pre_hooks: Hooks = NONE
    _backward_hooks: Hooks = NONE

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What calling the module does; subclasses define it."""
        raise NotWrittenError(f"{type(self).__name__} was called, but does not define forward(); "
                              f"add a method forward(self, input)")

    def _add_hook(self, kind: str, hook: Callable[..., Any], *options: bool,
                  prepend: bool = False) -> RemovableHandle:
        if not callable(hook):
            raise ArgumentError(f"a hook of {type(self).__name__} is {type(hook).__name__} "
                                f"{hook!r:.40}; give a function")
        self._about_to_change(f"registering a hook of {type(self).__name__}")
        table: OrderedDict[int, Any] = self.__dict__.setdefault(kind, OrderedDict())
        number = next(_numbers)
        table[number] = (hook, *options)
        object.__setattr__(self, "_has_hooks", True)
        if prepend:
            table.move_to_end(number, last=False)
        return RemovableHandle(table, number)

    def register_forward_pre_hook(self, hook: Callable[..., Any], *, prepend: bool = False,
                                  with_kwargs: bool = False) -> RemovableHandle:
        """Have `hook(module, args)` called before forward(); what it gives, if not None, are other
        arguments. with_kwargs: it is hook(module, args, kwargs), and gives both. prepend: before
        the hooks that are there."""
        return self._add_hook("_forward_pre_hooks", hook, with_kwargs, prepend=prepend)

    def register_forward_hook(self, hook: Callable[..., Any], *, prepend: bool = False,
                              with_kwargs: bool = False, always_call: bool = False
                              ) -> RemovableHandle:
        """Have `hook(module, args, output)` called after forward(); what it gives, if not None, is
        the output instead. with_kwargs: it is hook(module, args, kwargs, output). always_call: also
        if the call raises, then with an output of None."""
        return self._add_hook("_forward_hooks", hook, with_kwargs, always_call, prepend=prepend)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False
                                        ) -> RemovableHandle:
        """Have `hook(module, grad_output)` called with the gradients of the outputs, None for
        those that nothing was made of; what it gives, if not None, are these instead."""
        return self._add_hook("_backward_pre_hooks", hook, prepend=prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False
                                    ) -> RemovableHandle:
        """Have `hook(module, grad_input, grad_output)` called with the gradients of the positional
        arguments and of the outputs, None for those that have none. What it gives, if not None,
        are the gradients of the arguments instead."""
        return self._add_hook("_backward_hooks", hook, prepend=prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """register_full_backward_hook, which PyTorch warns to use in place of this older one: there
        grad_input is that of the last operation in the module, here that of its arguments."""
        warnings.warn(f"{type(self).__name__}.register_backward_hook is register_full_backward_hook"
                      f": grad_input are the gradients of the module's arguments", FutureWarning,
                      stacklevel=2)
        return self.register_full_backward_hook(hook)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._has_hooks or EVERYWHERE:
            return self._called(args, kwargs)
        return self.forward(*args, **kwargs)

    def _hooks(self, kind: str) -> Hooks:
        """Those of all modules, and this one's."""
        own: Hooks = getattr(self, kind)
        return {n: hook for n, (found, hook) in EVERYWHERE.items() if found == kind} | {**own}

    def _called(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        done: set[int] = set()
        try:
            args, kwargs = self._before(args, kwargs)
            gradients = _Gradients(self, self._hooks("_backward_hooks"),
                                   self._hooks("_backward_pre_hooks"))
            args = gradients.of_inputs(args)
            output = self.forward(*args, **kwargs)
            for number, (hook, with_kwargs, _) in self._hooks("_forward_hooks").items():
                done.add(number)
                given = (args, kwargs) if with_kwargs else (args,)
                changed = hook(self, *given, output)
                output = output if changed is None else changed
            return gradients.of_outputs(output)
        except Exception:
            for number, (hook, with_kwargs, always) in self._hooks("_forward_hooks").items():
                if always and number not in done:
                    with suppress(Exception):  # the first error is the one to see
                        hook(self, *((args, kwargs) if with_kwargs else (args,)), None)
            raise

    def _before(self, args: tuple[Any, ...], kwargs: dict[str, Any]
                ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments that the hooks before forward() make of these."""
        for hook, with_kwargs in registered(self._hooks("_forward_pre_hooks")):
            changed = hook(self, args, kwargs) if with_kwargs else hook(self, args)
            if changed is None:
                continue
            if not with_kwargs:
                args = changed if isinstance(changed, tuple) else (changed,)
            elif isinstance(changed, tuple) and len(changed) == 2:
                args, kwargs = changed
            else:
                raise ArgumentError(f"a hook before {type(self).__name__}, with_kwargs=True, gave "
                                    f"{type(changed).__name__} {changed!r:.40}; it must give None, "
                                    f"or a tuple of the arguments and the dict of named ones")
        return args, kwargs


class _Kept(NamedTuple):
    """A tensor by its node, of pairs if it is complex."""

    node: Node
    device: str
    is_complex: bool

    @classmethod
    def of(cls, t: Tensor) -> _Kept:
        return cls(pairs_of(t).node, t.device, isinstance(t, ComplexTensor))

    def tensor(self, requires_grad: bool = False) -> Tensor:
        """The tensor again."""
        made = Tensor._of(self.node, self.device, requires_grad)
        return of_parts(made) if self.is_complex else made


class _Gradients:
    """The gradients of one call. All inputs, and all outputs, get theirs at once: each is tied to
    one node, whose gradient has those of all of them side by side, and whose value nobody reads."""

    def __init__(self, module: object, hooks: Hooks, before: Hooks) -> None:
        self.module = module
        self.hooks = [hook for hook, *_ in registered(hooks)]
        self.before = [hook for hook, *_ in registered(before)]
        self.grad_output: list[_Kept | None] | None = None  # no tensors: jit looks for those that
        # outlive a call, and this lives as long as the graph
        self.inputs = 0
        self.has_inputs = False

    def of_inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments, with the hooks on their gradients' way."""
        self.inputs = len(args)
        if not self.hooks:
            return args
        tied = _tied(args, self._input_gradients)
        self.has_inputs = tied is not args
        return tuple(tied)

    def of_outputs(self, output: Any) -> Any:
        """The output, with the hooks on its gradient's way."""
        if not self.hooks and not self.before:
            return output
        if isinstance(output, tuple):
            return of_kind(type(output), _tied(output, self._output_gradients))
        return _tied((output,), self._output_gradients)[0]

    def _output_gradients(self, gradients: tuple[Any, ...]) -> tuple[Any, ...]:
        for hook in self.before:
            gradients = _replaced(gradients, hook(self.module, gradients))
        self.grad_output = [None if t is None else _Kept.of(t) for t in gradients]
        if not self.has_inputs:
            for hook in self.hooks:
                hook(self.module, (None,) * self.inputs, gradients)
        return gradients

    def _input_gradients(self, gradients: tuple[Any, ...]) -> tuple[Any, ...]:
        if self.grad_output is None:  # the gradient of something inside
            return gradients
        of_outputs = tuple(None if x is None else x.tensor() for x in self.grad_output)
        for hook in self.hooks:
            gradients = _replaced(gradients, hook(self.module, gradients, of_outputs))
        return gradients


def _replaced(gradients: tuple[Any, ...], changed: Any) -> tuple[Any, ...]:
    """What a hook makes of gradients."""
    if changed is None:
        return gradients
    found = changed if isinstance(changed, tuple) else (changed,)
    if len(found) != len(gradients):
        raise ArgumentError(f"a hook of gradients gave {len(found)} for {len(gradients)}; give one "
                            f"for each, or None to leave all as they are")
    return found


Told = Callable[[tuple[Any, ...]], tuple[Any, ...]]


def _tied(values: Sequence[Any], told: Told) -> Sequence[Any]:
    """These values, whose gradients become what `told` gives for them, all at once: a tuple with
    None where there is none. The values themselves where none of them has a gradient."""
    places = [i for i, x in enumerate(values) if isinstance(x, Tensor) and x.requires_grad]
    if not places or not is_grad_enabled():
        return values
    tensors = [values[i] for i in places]
    kept = [_Kept.of(t) for t in tensors]
    nodes = [k.node for k in kept]
    tied = jointly([make(Op.DETACH, x.dtype, (x,)) for x in nodes], nodes,
                   _Joint(kept, places, len(values), told), "hook")
    result = list(values)
    for i, k, node in zip(places, kept, tied, strict=True):
        result[i] = k._replace(node=node).tensor(requires_grad=True)
    return result


class _Joint:
    """The gradients of several tensors, taken apart, shown, and given on. Compared by identity."""

    def __init__(self, tensors: Sequence[_Kept], places: Sequence[int], count: int,
                 told: Told) -> None:
        self.__name__ = "hook"
        self.kinds = [(k.node.shape, k.node.dtype, k.device, k.is_complex) for k in tensors]
        self.places, self.count, self.told = places, count, told

    def __call__(self, g: Node, node: Node) -> list[Node | None]:
        gradients: list[Any] = [None] * self.count
        parts = apart(g, [(shape, dtype) for shape, dtype, *_ in self.kinds])
        with of_backward(walk.is_differentiable):
            for place, part, kind in zip(self.places, parts, self.kinds, strict=True):
                *_, device, is_complex = kind
                if part is not None:
                    gradients[place] = _Kept(part, device, is_complex).tensor()
            given = self.told(tuple(gradients))
            return [self._checked(given[place], kind)
                    for place, kind in zip(self.places, self.kinds, strict=True)]

    def _checked(self, given: Any, kind: tuple[Any, ...]) -> Node | None:
        shape, dtype, _, is_complex = kind
        if given is None:
            return None
        if not isinstance(given, Tensor) or is_complex != isinstance(given, ComplexTensor) \
                or pairs_of(given).shape != shape:
            what = f"complex tensor of shape {shape[:-1]}" if is_complex else \
                f"tensor of shape {shape}"
            raise ArgumentError(f"a hook of gradients gave {type(given).__name__} {given!r:.40} "
                                f"for the gradient of a {what}; give a tensor of this shape")
        return pairs_of(given).to(dtype=dtype).node
