"""How C spells copies from memory to local memory: Copy, Commit and Wait.

Where the dialect has functions for them, they go on while the work item does something else, and
without going through its registers. Otherwise each Copy is done where it stands.
"""
from __future__ import annotations

from typing import Protocol

from lazyten.codegen.instructions.instructions import Address, Commit, Copy, Value, Wait
from lazyten.codegen.render.c_ops import Emitter


class CopyEmitter(Emitter, Protocol):
    """What this module needs of the renderer."""

    names: dict[Value, str]
    helpers: set[str]

    def line(self, text: str) -> None:
        """Append a line."""

    def place(self, address: Address, more: int = 0) -> str:
        """The position of an address in its array, and `more`."""

    def pointer(self, address: Address) -> str:
        """To the first element at an address."""


def asynchronous(out: CopyEmitter, item: Copy | Commit | Wait) -> None:
    """The lines of one of these instructions."""
    if isinstance(item, Commit):
        _call(out, "lazyten_commit", "")
    elif isinstance(item, Wait):
        _call(out, f"lazyten_wait_{item.pending}", "")
    else:
        _copy(out, item)


def _copy(out: CopyEmitter, item: Copy) -> None:
    condition = "" if item.when is None else f"if ({out.names[item.when]}) "
    mask = "" if item.mask is None else f"{out.names[item.mask]} ? "
    nbytes = item.count * item.dtype.itemsize
    target, source = f"l{item.target.slot}", f"p{item.source.slot}"
    if f"lazyten_copy_{nbytes}" in dict(out.dialect.functions):
        given = f"{mask}{nbytes} : 0" if mask else str(nbytes)
        arguments = f"{out.pointer(item.target)}, {out.pointer(item.source)}, {given}"
        _call(out, f"lazyten_copy_{nbytes}", arguments, condition)
        return
    for i in range(item.count):
        value = f"{source}[{out.place(item.source, i)}]"
        value = f"{mask}{value} : 0" if mask else value
        out.line(f"{condition}{target}[{out.place(item.target, i)}] = {value};")


def _call(out: CopyEmitter, name: str, arguments: str, condition: str = "") -> None:
    definition = dict(out.dialect.functions).get(name)
    if definition is not None:
        out.helpers.add(definition)
        out.line(f"{condition}{name}({arguments});")
