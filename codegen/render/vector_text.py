"""How C spells aligned accesses to neighbours in memory: VectorLoad and VectorStore.

Lines go through a `VectorEmitter`, the renderer. The dialect says what a vector in memory is.
"""
from __future__ import annotations

from typing import Protocol

from lazyten.codegen.instructions.instructions import Address, Value, VectorLoad, VectorStore
from lazyten.codegen.render.c_ops import Emitter, element_type


class VectorEmitter(Emitter, Protocol):
    """What this module needs of the renderer."""

    names: dict[Value, str]

    def line(self, text: str) -> None:
        """Append a line."""

    def pointer(self, address: Address) -> str:
        """To the first element at an address."""


def load_vector(out: VectorEmitter, item: VectorLoad) -> None:
    """The lines of one access, whose variable has the elements."""
    dtype = item.outs[0].dtype
    kind = f"{element_type(dtype)}{len(item.outs)}"
    name = out.let(kind, _whole(out, item.address, kind, "const "))
    for value, element in zip(item.outs, "xyzw", strict=False):
        text = f"{name}.{element}"
        out.names[value] = out.let("bool", f"{text} != 0") if dtype.kind == "b" else text


def store_vector(out: VectorEmitter, item: VectorStore) -> None:
    """The line of one access."""
    kind = f"{element_type(item.values[0].dtype)}{len(item.values)}"
    elements = ", ".join(out.names[v] for v in item.values)
    value = out.dialect.vector.format(kind=kind, elements=elements)
    condition = "" if item.mask is None else f"if ({out.names[item.mask]}) "
    out.line(f"{condition}{_whole(out, item.address, kind)} = {value};")


def _whole(out: VectorEmitter, address: Address, kind: str, constness: str = "") -> str:
    """The vector in memory at an address."""
    space = out.dialect.local_space if address.is_local else out.dialect.memory
    return out.dialect.whole.format(space=space + constness, kind=kind, to=out.pointer(address))
