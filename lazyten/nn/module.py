"""`Module`: a tree of layers that knows its parameters by name."""
from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any, Self

from lazyten import tracing
from lazyten.device import canonical
from lazyten.dtype import as_dtype
from lazyten.errors import ArgumentError, DTypeError, StateError
from lazyten.grad_mode import no_grad
from lazyten.tensor import DTypeLike, Tensor


def Parameter(data: Tensor, requires_grad: bool = True) -> Tensor:
    """A leaf with a copy of `data`'s value that collects gradients: what a Module registers."""
    if not isinstance(data, Tensor):
        raise DTypeError(f"Parameter of {type(data).__name__} {data!r:.40}: give a tensor, for "
                         f"example lazyten.zeros(3)")
    with no_grad():
        value = data.detach().clone()
    return value.requires_grad_() if requires_grad else value


def _check_name(name: str, operation: str) -> None:
    if not isinstance(name, str) or not name or "." in name:
        raise ArgumentError(f"{operation}: {name!r} is not a name; use a string without dots")


class Module:
    """Base of all layers and models: assign parameters and modules in __init__, define forward.

    A tensor assigned as an attribute is a parameter if it requires gradients, and otherwise part of
    the state only through `register_buffer`.
    """

    def __init__(self) -> None:
        trace = tracing.current()
        if trace is not None:
            trace.made(self)
        object.__setattr__(self, "_parameters", OrderedDict())
        object.__setattr__(self, "_buffers", OrderedDict())
        object.__setattr__(self, "_modules", OrderedDict())
        object.__setattr__(self, "training", True)

    _parameters: OrderedDict[str, Tensor]
    _buffers: OrderedDict[str, Tensor]
    _modules: OrderedDict[str, Module]
    training: bool

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What calling the module does; subclasses define it."""
        raise ArgumentError(f"{type(self).__name__} was called, but does not define forward(); add "
                            f"a method forward(self, input)")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    def __setattr__(self, name: str, value: Any) -> None:
        if "_parameters" not in self.__dict__:
            raise ArgumentError(f"{type(self).__name__}.{name}: call super().__init__() before "
                                f"assigning attributes of a module")
        unchanged = self.__dict__.get(name) is value
        if unchanged and name in self._buffers:  # `self.count += 1` assigns what is there
            return
        if not unchanged:
            self._about_to_change(f"assigning {type(self).__name__}.{name}")
        for kind in (self._parameters, self._buffers, self._modules):
            kind.pop(name, None)
        if isinstance(value, Module):
            self._modules[name] = value
        elif isinstance(value, Tensor) and value.requires_grad and value.is_leaf:
            self._parameters[name] = value
        object.__setattr__(self, name, value)

    def _about_to_change(self, what: str) -> None:
        """JitError inside a jitted function, unless the module was made there."""
        trace = tracing.current()
        if trace is not None and not trace.is_new(self):
            tracing.refuse(what, "do it outside; a tensor can be changed in place, with copy_()")

    def __delattr__(self, name: str) -> None:
        self._about_to_change(f"deleting {type(self).__name__}.{name}")
        for kind in (self._parameters, self._buffers, self._modules):
            kind.pop(name, None)
        object.__delattr__(self, name)

    def register_buffer(self, name: str, value: Tensor) -> None:
        """A tensor that is saved and loaded with the module, but not trained."""
        if not isinstance(value, Tensor):
            raise DTypeError(f"register_buffer {name!r}: {type(value).__name__} {value!r:.40} is "
                             f"not a tensor; wrap it in lazyten.tensor()")
        _check_name(name, "register_buffer")
        setattr(self, name, value)
        self._buffers[name] = value

    def add_module(self, name: str, module: Module) -> None:
        """The same as assigning the attribute, for names made at run time."""
        if not isinstance(module, Module):
            raise DTypeError(f"add_module {name!r}: {type(module).__name__} {module!r:.40} is not "
                             f"a Module; give a layer or a model")
        _check_name(name, "add_module")
        setattr(self, name, module)

    # ---- walking ----

    def children(self) -> Iterator[Module]:
        """The modules assigned to this one."""
        return iter(self._modules.values())

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """This module and all below it, each once, with dotted names."""
        seen: set[int] = set()
        stack = [(prefix, self)]
        while stack:
            name, module = stack.pop()
            if id(module) in seen:
                continue
            seen.add(id(module))
            yield name, module
            below = [(f"{name}.{n}" if name else n, m) for n, m in module._modules.items()]
            stack.extend(reversed(below))

    def modules(self) -> Iterator[Module]:
        """This module and all below it, each once."""
        return (module for _, module in self.named_modules())

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """Every parameter once, with its dotted name."""
        return self._named("_parameters")

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """Every registered buffer once, with its dotted name."""
        return self._named("_buffers")

    def _named(self, kind: str) -> Iterator[tuple[str, Tensor]]:
        seen: set[int] = set()
        for prefix, module in self.named_modules():
            for name, value in getattr(module, kind).items():
                if id(value) not in seen:
                    seen.add(id(value))
                    yield (f"{prefix}.{name}" if prefix else name), value

    def parameters(self) -> Iterator[Tensor]:
        """Every parameter once."""
        return (value for _, value in self.named_parameters())

    # ---- state ----

    def state_dict(self) -> dict[str, Tensor]:
        """Parameters and buffers by dotted name, sharing this module's memory."""
        state: dict[str, Tensor] = {}
        for prefix, module in self.named_modules():
            for kind in (module._parameters, module._buffers):
                for name, value in kind.items():
                    state[f"{prefix}.{name}" if prefix else name] = value.detach()
        return state

    def load_state_dict(self, state: Mapping[str, Tensor], strict: bool = True) -> None:
        """Take over values by name. Nothing changes unless all of them fit.

        StateError names what is missing, unexpected (both allowed if not `strict`), or of another
        shape.
        """
        operation = f"load_state_dict of {type(self).__name__}"
        if not isinstance(state, Mapping):
            raise StateError(f"{operation}: {type(state).__name__} {state!r:.40} is not a mapping "
                             f"of names to tensors; give what state_dict() or load_safetensors() "
                             f"gave")
        for name, value in state.items():
            if not isinstance(value, Tensor):
                raise StateError(f"{operation}: {name} is {type(value).__name__} {value!r:.40}, "
                                 f"not a tensor; wrap it in lazyten.tensor(). Nothing was loaded")
        own = self.state_dict()
        missing = [n for n in own if n not in state]
        unexpected = [n for n in state if n not in own]
        wrong = [f"{n}: saved {tuple(state[n].shape)}, here {own[n].shape}" for n in own
                 if n in state and tuple(state[n].shape) != own[n].shape]
        problems = [f"{what}: {', '.join(names)}" for what, names in (
            ("missing", missing if strict else []), ("unexpected", unexpected if strict else []),
            ("of another shape", wrong)) if names]
        if problems:
            raise StateError(f"{operation}: {'; '.join(problems)}. "
                             f"Nothing was loaded; the model must be built as the saved one was")
        with no_grad():
            for name, target in own.items():
                if name in state:
                    target.copy_(state[name].detach().to(device=target.device))

    # ---- modes ----

    def train(self, mode: bool = True) -> Self:
        """Training behaviour (dropout drops); gives this module."""
        for module in self.modules():
            module._about_to_change("train() or eval()")
            object.__setattr__(module, "training", mode)
        return self

    def eval(self) -> Self:
        """Behaviour for use: dropout passes everything."""
        return self.train(False)

    def requires_grad_(self, wanted: bool = True) -> Self:
        """Collect gradients for all parameters, or stop; gives this module."""
        for parameter in self.parameters():
            parameter.requires_grad_(wanted)
        return self

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for parameter in self.parameters():
            parameter.grad = None

    def to(self, device: str | None = None, dtype: DTypeLike | None = None) -> Self:
        """Move all parameters and buffers to a device or dtype, in place; gives this module."""
        if dtype is not None and not as_dtype(dtype).is_float:
            raise DTypeError(f"to of {type(self).__name__}: parameters cannot be "
                             f"{as_dtype(dtype).name}; use a float type")
        device = None if device is None else canonical(device)
        for module in self.modules():
            for kind in (module._parameters, module._buffers):
                for value in list(kind.values()):
                    moved = value.detach().to(device=device, dtype=dtype)
                    value._become(moved)
        return self

    # ---- printing ----

    def extra_repr(self) -> str:
        """What stands between the brackets of a layer."""
        return ""

    def __repr__(self) -> str:
        if not self._modules:
            return f"{type(self).__name__}({self.extra_repr()})"
        rows = [f"  ({name}): " + repr(module).replace("\n", "\n  ")
                for name, module in self._modules.items()]
        return "\n".join([f"{type(self).__name__}(", *rows, ")"])
