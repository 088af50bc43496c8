"""`Module`: a tree of layers that knows its parameters by name.

Its parts: attributes.py keeps what is assigned, module_hooks.py calls it, and module_state.py saves
and loads it.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self

from lazyten.frontend.core.keywords import MemoryFormat, preserve_format
from lazyten.frontend.methods.conversion import where_to
from lazyten.frontend.tensor import DTypeLike, Tensor
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import as_dtype
from lazyten.nn.module_hooks import (
    register_module_backward_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_full_backward_hook,
    register_module_full_backward_pre_hook,
)
from lazyten.nn.module_state import _EXTRA_STATE_KEY_SUFFIX as _EXTRA_STATE_KEY_SUFFIX
from lazyten.nn.module_state import StateMethods
from lazyten.nn.parameter import Parameter, is_lazy
from lazyten.storage.placement import canonical, gpu, has_values
from lazyten.support.errors import ArgumentError, DTypeError
from lazyten.support.grad_mode import no_grad

Convert = Callable[[Tensor], Tensor]


class Module(StateMethods):
    """Base of all layers and models: assign parameters and modules in __init__, define forward.

    What is assigned is registered if it is a Parameter or a Module. Any other tensor is part of the
    module only through `register_buffer`; assigned again, a buffer stays one.
    """

    # ---- walking ---------------------------------------------------------------------------------

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules assigned to this one, each once, with their names."""
        seen: set[int] = set()
        for name, module in self._modules.items():
            if module is not None and id(module) not in seen:
                seen.add(id(module))
                yield name, module

    def children(self) -> Iterator[Module]:
        """The modules assigned to this one, each once."""
        return (module for _, module in self.named_children())

    def named_modules(self, memo: set[Any] | None = None, prefix: str = "",
                      remove_duplicate: bool = True) -> Iterator[tuple[str, Module]]:
        """This module and all below it with dotted names, each once unless remove_duplicate is
        False. memo: modules to leave out, to which what is given is added."""
        seen = set() if memo is None else memo
        stack: list[tuple[str, Module]] = [(prefix, self)]
        while stack:
            name, module = stack.pop()
            if module in seen:
                continue
            if remove_duplicate:
                seen.add(module)
            yield name, module
            below = [(f"{name}.{n}" if name else n, m) for n, m in module._modules.items()
                     if m is not None]
            stack.extend(reversed(below))

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """This module and all below it, each once unless remove_duplicate is False."""
        named = self.named_modules(remove_duplicate=remove_duplicate)
        return (module for _, module in named)

    def named_parameters(self, prefix: str = "", recurse: bool = True,
                         remove_duplicate: bool = True) -> Iterator[tuple[str, Parameter]]:
        """Every parameter with its dotted name, once unless remove_duplicate is False.

        prefix: what stands before all names, with a dot; recurse: those of modules below, too.
        """
        return self._named_members(lambda module: module._parameters.items(), prefix, recurse,
                                   remove_duplicate)

    def named_buffers(self, prefix: str = "", recurse: bool = True,
                      remove_duplicate: bool = True) -> Iterator[tuple[str, Tensor]]:
        """Every buffer with its dotted name; options as of named_parameters()."""
        return self._named_members(lambda module: module._buffers.items(), prefix, recurse,
                                   remove_duplicate)

    def _named_members(self, get_members_fn: Callable[[Module], Iterable[tuple[str, Any]]],
                       prefix: str = "", recurse: bool = True,
                       remove_duplicate: bool = True) -> Iterator[tuple[str, Any]]:
        """What each module has, with dotted names. (By PyTorch's name, which programs know.)"""
        seen: set[int] = set()
        owners = self.named_modules(None, prefix, remove_duplicate) if recurse else \
            iter([(prefix, self)])
        for path, module in owners:
            for name, value in get_members_fn(module):
                if value is None or id(value) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(value))
                yield (f"{path}.{name}" if path else name), value

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Every parameter once; those of modules below, too, if `recurse`."""
        if recurse and self._walks_as_usual("named_parameters"):
            return self._all_in("_parameters")
        return (value for _, value in self.named_parameters(recurse=recurse))

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Every buffer once; those of modules below, too, if `recurse`."""
        if recurse and self._walks_as_usual("named_buffers"):
            return self._all_in("_buffers")
        return (value for _, value in self.named_buffers(recurse=recurse))

    def _walks_as_usual(self, name: str) -> bool:
        """Whether nobody has defined anew what walks through modules, or finds what they have."""
        kind = type(self)
        return all(getattr(kind, each) is getattr(Module, each) and each not in self.__dict__
                   for each in (name, "named_modules", "_named_members"))

    def _all_in(self, table: str) -> Iterator[Any]:
        """What is in a table of this module and all below it, each once, in the order of
        named_modules(), without the names that it makes."""
        modules: set[Module] = set()
        values: set[int] = set()
        stack: list[Module] = [self]
        while stack:
            module = stack.pop()
            if module in modules:
                continue
            modules.add(module)
            for value in getattr(module, table).values():
                if value is not None and id(value) not in values:
                    values.add(id(value))
                    yield value
            if module._modules:
                stack += [m for m in reversed(module._modules.values()) if m is not None]

    def apply(self, fn: Callable[[Module], None]) -> Self:
        """Call `fn` with every module below this one, children first, and then with this one; gives
        this module."""
        if not callable(fn):
            raise DTypeError(f"apply: {type(fn).__name__} {fn!r:.60} cannot be called; give a "
                             f"function of a module")
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    # ---- modes -----------------------------------------------------------------------------------

    def train(self, mode: bool = True) -> Self:
        """Training behaviour (dropout drops), of the modules below by their own train(), too; gives
        this module."""
        if not isinstance(mode, bool):
            raise ArgumentError(f"train of {type(self).__name__}: the mode is "
                                f"{type(mode).__name__} {mode!r:.40}; give True or False")
        if self.__dict__.get("training") is not mode:
            self.training = mode
        below = self._modules
        for module in {id(m): m for m in below.values() if m is not None}.values() if below else ():
            module.train(mode)
        return self

    def eval(self) -> Self:
        """Behaviour for use: dropout passes everything."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Collect gradients for all parameters, or stop; gives this module."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget all gradients, or, unless set_to_none, make them 0."""
        for parameter in self.parameters():
            if set_to_none or parameter.grad is None:
                parameter.grad = None
            else:
                parameter.grad.zero_()

    # ---- other dtypes and devices ----------------------------------------------------------------

    def _apply(self, convert: Convert) -> Self:
        """Make every parameter, in place, and every buffer what `convert` gives for it."""
        for module in self.children():
            module._apply(convert)
        for parameter in self._parameters.values():
            if parameter is not None:
                _become(parameter, convert)
        with no_grad():
            for name, buffer in self._buffers.items():
                if buffer is not None and is_lazy(buffer):
                    _become(buffer, convert)
                elif buffer is not None and (moved := convert(buffer)) is not buffer:
                    self._about_to_change("giving a buffer another dtype or device")
                    self._buffers[name] = moved
        return self

    def to(self, *args: Any, device: str | None = None, dtype: DTypeLike | None = None,
           non_blocking: bool = False, memory_format: MemoryFormat = preserve_format) -> Self:
        """Move all parameters and buffers to a device, and those of floats to a dtype: to('cpu'),
        to(lt.float64), to('cpu', lt.float64), to(other_tensor), each with non_blocking after it.
        memory_format changes nothing: a kernel reads weights in the order that suits it. In place;
        gives this module."""
        dtype, device, _ = where_to(args, dtype, device)
        if dtype is not None and not as_dtype(dtype).is_float:
            raise DTypeError(f"to of {type(self).__name__}: parameters cannot be "
                             f"{as_dtype(dtype).name}; use a float type")
        device = None if device is None else canonical(device)
        if not isinstance(memory_format, MemoryFormat):
            raise ArgumentError(f"to of {type(self).__name__}: memory_format="
                                f"{memory_format!r:.60} is none, such as lazyten.channels_last")
        return self._apply(lambda t: t.to(device=device, dtype=dtype if t.dtype.is_float else None))

    def type(self, dst_type: DTypeLike) -> Self:
        """All parameters and buffers in a dtype, also those of integers; gives this module."""
        return self._apply(lambda t: t.to(dtype=dst_type))

    def float(self) -> Self:
        """Floats in float32; gives this module."""
        return self.to(dt.float32)

    def double(self) -> Self:
        """Floats in float64; gives this module."""
        return self.to(dt.float64)

    def half(self) -> Self:
        """Floats in float16; gives this module."""
        return self.to(dt.float16)

    def bfloat16(self) -> Self:
        """Floats in bfloat16; gives this module."""
        return self.to(dt.bfloat16)

    def cpu(self) -> Self:
        """All parameters and buffers on the cpu; gives this module."""
        return self.to("cpu")

    def cuda(self, device: str | int | None = None) -> Self:
        """All parameters and buffers on an NVIDIA GPU; gives this module."""
        return self.to(gpu(device))

    def to_empty(self, *, device: str | None, recurse: bool = True) -> Self:
        """All parameters and buffers on a device, with values that do not matter: the same, or 0
        for those on 'meta', which have none."""
        def empty(given: Tensor) -> Tensor:
            return given.to(device=device) if has_values(given.device) else \
                given.new_zeros(given.shape, device=device)
        return self._apply(empty) if recurse else self

    def share_memory(self) -> Self:
        """All parameters and buffers in memory that processes which are forked later share with
        this one; gives this module."""
        for held in (*self.parameters(), *self.buffers()):
            held.share_memory_()
        return self

    def __setstate__(self, state: dict[str, Any]) -> None:
        """What copies are made by: its attributes. A subclass may change them first."""
        self.__dict__.update(state)

    def compile(self, *args: Any, **options: Any) -> None:
        """Nothing: what a module computes is compiled as it is. (`lt.jit` makes a whole step one
        call.)"""

    # ---- printing --------------------------------------------------------------------------------

    def extra_repr(self) -> str:
        """What stands between the brackets of a layer."""
        return ""

    def _get_name(self) -> str:
        """What stands before the brackets."""
        return type(self).__name__

    def __repr__(self) -> str:
        extra = self.extra_repr()
        if not self._modules:
            return f"{self._get_name()}({_indented(extra)})" if "\n" not in extra else \
                f"{self._get_name()}(\n  {_indented(extra)}\n)"
        rows = [f"  {_indented(row)}" for row in extra.split("\n") if extra]
        rows += [f"  ({name}): {_indented(repr(module))}"
                 for name, module in self._modules.items()]
        return "\n".join([f"{self._get_name()}(", *rows, ")"])


def _indented(text: str) -> str:
    return text.replace("\n", "\n  ")


def _become(parameter: Tensor, convert: Convert) -> None:
    """Convert a parameter, or a buffer without a shape, and its gradient, in place."""
    value = parameter.detach()
    with no_grad():
        moved = convert(value)
        if moved is value:
            return
        gradient = parameter.grad
        parameter._become(moved)
        if gradient is not None:
            parameter.grad = convert(gradient)


__all__ = ["Module", "register_module_backward_hook", "register_module_forward_hook",
           "register_module_forward_pre_hook",
           "register_module_full_backward_hook", "register_module_full_backward_pre_hook"]
