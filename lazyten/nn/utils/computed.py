"""Modules one of whose tensors is computed from others whenever it is asked for.

The module gets a class of its own, with a property for the tensor: nothing is assigned at a call,
so a jitted function may call it.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lazyten.nn.module import Module

Getter = Callable[[Any], Any]
Setter = Callable[[Any, Any], None]


def class_before(module: Module) -> type[Module]:
    """The class that the module had before any of its tensors was computed."""
    found = type(module)
    while "_computed" in vars(found):
        found = found.__base__  # type: ignore[assignment]
    return found


def computed(module: Module) -> dict[str, tuple[Getter, Setter | None]]:
    """How each computed tensor of the module is got and set, by name."""
    return dict(vars(type(module)).get("_computed", {}))


def compute(module: Module, name: str, getter: Getter, setter: Setter | None = None,
            prefix: str = "") -> None:
    """Have module.name be what getter(module) gives. What had the name is not kept. prefix: what
    stands before the name of the class."""
    delattr(module, name)
    _become(module, {**computed(module), name: (getter, setter)}, prefix)


def keep(module: Module, name: str) -> None:
    """Have module.name be an ordinary attribute again, which is still to be assigned."""
    rest = computed(module)
    del rest[name]
    _become(module, rest, type(module).__name__.removesuffix(class_before(module).__name__))


def _become(module: Module, properties: dict[str, tuple[Getter, Setter | None]], prefix: str
            ) -> None:
    base = class_before(module)
    if not properties:
        module.__class__ = base
        return

    def assign(self: Module, name: str, value: Any) -> None:
        setter = properties[name][1] if name in properties else None
        if setter is not None:
            setter(self, value)
        else:
            base.__setattr__(self, name, value)
    body: dict[str, Any] = {name: property(getter) for name, (getter, _) in properties.items()}
    body |= {"_computed": properties, "__setattr__": assign, "__module__": base.__module__}
    module.__class__ = type(f"{prefix}{base.__name__}", (base,), body)
