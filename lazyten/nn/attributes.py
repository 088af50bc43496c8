"""The attributes of a module: which are parameters, buffers and modules, by name.

`Attributes` is the part of `Module` that keeps its three tables. (Modules are Any here, and known
as Attributes: their class is made of this one.)
"""
from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from lazyten.frontend.core.forms import handles_of
from lazyten.frontend.tensor import Tensor
from lazyten.nn.parameter import Buffer, Parameter
from lazyten.storage import tracing
from lazyten.support.errors import (
    AttributeNameError,
    DTypeError,
    GradientError,
    ModuleAttributeError,
)

_MISSING = object()
TABLES = "_parameters", "_buffers", "_modules"
"""Attributes of a module that hold what it has by name, in place of its `__dict__`."""
_WANTED = {"_parameters": "parameter", "_buffers": "buffer", "_modules": "module"}
_TAKES = {"_parameters": "nn.Parameter", "_buffers": "tensor", "_modules": "nn.Module"}


def _check_name(name: str, operation: str) -> None:
    if not isinstance(name, str):
        raise DTypeError(f"{operation}: {name!r:.40} is not a name; use a string without dots")
    if not name or "." in name:
        raise AttributeNameError(f"{operation}: {name!r} is not a name; use a string without dots")


@contextmanager
def replaced(places: Sequence[tuple[dict[str, Any], str, Any]]) -> Iterator[None]:
    """Within this block tables of modules have these tensors under these names. (Past __setattr__,
    which jit watches: in the end nothing has changed.)"""
    before = [table[name] for table, name, _ in places]
    try:
        for table, name, tensor in places:
            table[name] = tensor
        yield
    finally:
        for (table, name, _), tensor in zip(places, before, strict=True):
            table[name] = tensor


class Attributes:
    """A parameter, a module, and a tensor under the name of a buffer, are kept in tables when they
    are assigned; any other value is a plain attribute."""

    _parameters: OrderedDict[str, Parameter | None]
    _buffers: OrderedDict[str, Tensor | None]
    _modules: OrderedDict[str, Any]
    _non_persistent_buffers_set: frozenset[str] = frozenset()
    training: bool

    def __init__(self) -> None:
        trace = tracing.current()
        if trace is not None:
            trace.made(self)
        for table in TABLES:
            object.__setattr__(self, table, OrderedDict())
        object.__setattr__(self, "training", True)

    # ---- one by one ------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        """What is in a table: Python asks here for what it found nowhere else."""
        own = self.__dict__
        for table in TABLES:
            found = own.get(table)
            if found and name in found:
                return found[name]
        hint = "" if "_parameters" in own or not name.startswith("_") else \
            "; its __init__ must call super().__init__() first"
        raise ModuleAttributeError(f"{type(self).__name__} has no attribute {name!r}{hint}")

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        if "_parameters" not in own:
            self._assign_early(name, value)
            return
        table = self._table_for(name, value)
        holder = own if table is None else own[table]
        if holder.get(name, _MISSING) is value:  # `self.count += 1` assigns what is there
            return
        self._about_to_assign(holder, name, value)
        if table is None:
            object.__setattr__(self, name, value)
            return
        if name not in holder:
            self._drop(name)
            if table != "_modules":  # a property may not be there yet, and asks for this name then
                self._check_free(name, f"{type(self).__name__}.{name} = {type(value).__name__}")
        holder[name] = value
        if isinstance(value, Buffer):
            self._keep(name, value.persistent)

    def _assign_early(self, name: str, value: Any) -> None:
        """Before super().__init__() there are only plain attributes."""
        if isinstance(value, Parameter | Attributes):
            raise ModuleAttributeError(f"{type(self).__name__}.{name}: call super().__init__() "
                                       f"before assigning parameters or modules")
        object.__setattr__(self, name, value)

    def _table_for(self, name: str, value: Any) -> str | None:
        """The table that a value of this name belongs in. DTypeError if it cannot have the name,
        which a parameter, a module or a buffer has."""
        if isinstance(value, Parameter):
            return "_parameters"
        if isinstance(value, Buffer):
            return "_buffers"
        known = next((t for t in TABLES if name in self.__dict__[t]), None)
        if isinstance(value, Attributes) and known != "_parameters":
            return "_modules"
        if known is None or value is None or known == "_buffers" and isinstance(value, Tensor):
            return known
        remedy = "write to it with copy_() inside no_grad()" if known == "_parameters" and \
            isinstance(value, Tensor) else "delete it first to have another attribute"
        raise DTypeError(f"cannot assign {type(value).__name__} as {_WANTED[known]} {name!r} of "
                         f"{type(self).__name__}: it takes a {_TAKES[known]} or None; {remedy}")

    def __delattr__(self, name: str) -> None:
        self._about_to_change(f"deleting {type(self).__name__}.{name}")
        if "_parameters" not in self.__dict__ or not self._drop(name):
            object.__delattr__(self, name)

    def __dir__(self) -> Iterable[str]:
        found = {*super().__dir__()}
        for table in TABLES:
            found |= self.__dict__.get(table, {}).keys()
        return sorted(found)

    def _drop(self, name: str) -> bool:
        """Take a name out of wherever it is; gives whether it was anywhere."""
        found = self.__dict__.pop(name, _MISSING) is not _MISSING
        self._keep(name, True)
        for table in TABLES:
            found = self.__dict__[table].pop(name, _MISSING) is not _MISSING or found
        return found

    def _about_to_change(self, what: str) -> None:
        """JitError inside a jitted function, unless the module was made there."""
        trace = tracing.current()
        if trace is not None and not trace.is_new(self):
            tracing.refuse(what, "do it outside; a tensor can be changed in place, with copy_()")

    def _about_to_assign(self, holder: dict[str, Any], name: str, value: Any) -> None:
        """The same for what not every call of a jitted function can assign."""
        trace = tracing.current()
        if trace is not None and not trace.is_new(self) and not trace.assigning(holder, value):
            tracing.refuse(f"assigning {type(self).__name__}.{name}",
                           "do it outside; it can assign tensors, numbers and strings, in lists, "
                           "tuples and dicts, to modules that it finds by name")

    # ---- registering -----------------------------------------------------------------------------

    def _check_free(self, name: str, operation: str) -> None:
        """AttributeNameError if the name would be hidden by what the module has by it."""
        if hasattr(self, name):
            raise AttributeNameError(f"{operation}: attribute {name!r} already exists; use another "
                                     f"name")

    def _register(self, table: str, name: str, value: Any, operation: str) -> None:
        if "_parameters" not in self.__dict__:
            raise ModuleAttributeError(f"{operation} {name!r} of {type(self).__name__}: call "
                                       f"super().__init__() first")
        _check_name(name, operation)
        holder = self.__dict__[table]
        if name not in holder:
            self._check_free(name, operation)
        if holder.get(name, _MISSING) is not value:
            self._about_to_change(f"{operation} {name!r}")
            holder[name] = value

    def register_parameter(self, name: str, param: Tensor | None) -> None:
        """The same as assigning a Parameter, for names made at run time. None: a parameter that is
        left out."""
        if param is not None and not isinstance(param, Parameter):
            if isinstance(param, Tensor) and not param.is_leaf:
                raise GradientError(f"register_parameter {name!r}: an operation made the tensor; "
                                    f"give nn.Parameter(tensor.detach())")
            raise DTypeError(f"register_parameter {name!r}: {type(param).__name__} {param!r:.40} "
                             f"is not a Parameter; give nn.Parameter(tensor), or None")
        self._register("_parameters", name, param, "register_parameter")

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """A tensor that moves with the module, but is not trained; None: one that is left out.
        persistent: it is saved and loaded, too."""
        if tensor is not None and not isinstance(tensor, Tensor):
            raise DTypeError(f"register_buffer {name!r}: {type(tensor).__name__} {tensor!r:.40} is "
                             f"not a tensor; wrap it in lazyten.tensor()")
        self._register("_buffers", name, tensor, "register_buffer")
        self._keep(name, persistent)
        if tensor is not None:
            for part in handles_of(tensor):
                part._storage.occupy()

    def _keep(self, name: str, persistent: bool) -> None:
        """Whether a buffer of this name is part of what is saved."""
        left_out = self._non_persistent_buffers_set
        if persistent == (name in left_out):
            left_out = left_out - {name} if persistent else left_out | {name}
            object.__setattr__(self, "_non_persistent_buffers_set", left_out)

    def add_module(self, name: str, module: Any) -> None:
        """The same as assigning the module, for names made at run time."""
        if module is not None and not isinstance(module, Attributes):
            raise DTypeError(f"add_module {name!r}: {type(module).__name__} {module!r:.40} is not "
                             f"a Module; give a layer or a model")
        self._register("_modules", name, module, "add_module")

    def register_module(self, name: str, module: Any) -> None:
        """add_module() by another name."""
        self.add_module(name, module)

    # ---- by path ---------------------------------------------------------------------------------

    def get_submodule(self, target: str) -> Any:
        """The module of a dotted name; "" is this one. ModuleAttributeError if there is none."""
        found: Any = self
        for part in filter(None, target.split(".")):
            below = found._modules.get(part)
            if below is None:
                raise ModuleAttributeError(f"get_submodule({target!r}) of {type(self).__name__}: "
                                           f"{type(found).__name__} has no module {part!r}; it has "
                                           f"{', '.join(found._modules) or 'none'}")
            found = below
        return found

    def set_submodule(self, target: str, module: Any, strict: bool = False) -> None:
        """Put a module in the place of a dotted name. strict: there must be one already."""
        path, _, name = target.rpartition(".")
        _check_name(name, f"set_submodule({target!r})")
        if strict:
            self.get_submodule(target)
        if not isinstance(module, Attributes):
            raise DTypeError(f"set_submodule({target!r}): {type(module).__name__} {module!r:.40} "
                             f"is not a Module; give a layer or a model")
        setattr(self.get_submodule(path), name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter of a dotted name. ModuleAttributeError if there is none."""
        found: Parameter = self._get("_parameters", target, "get_parameter")
        return found

    def get_buffer(self, target: str) -> Tensor:
        """The buffer of a dotted name. ModuleAttributeError if there is none."""
        found: Tensor = self._get("_buffers", target, "get_buffer")
        return found

    def _get(self, table: str, target: str, operation: str) -> Any:
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        found = getattr(owner, table).get(name)
        if found is None:
            raise ModuleAttributeError(f"{operation}({target!r}) of {type(self).__name__}: "
                                       f"{type(owner).__name__} has no {_WANTED[table]} {name!r}; "
                                       f"it has {', '.join(getattr(owner, table)) or 'none'}")
        return found
