"""What code generation hands to a runtime: `Generated`, one a kernel."""
from __future__ import annotations

import re
from dataclasses import dataclass, replace

from lazyten.support.location import Location


@dataclass(frozen=True, slots=True)
class Generated:
    """A kernel as text, ready for the device's compiler.

    name: of the function, as the text spells it. source: the function. declares: lines that must
    stand before it in its module, once however many kernels need them. loops: the decisions and
    the loop nest, for people. where: the user's line, for messages. entries: the functions of the
    text in the order to call them, each with the same arguments. scratch: bytes of memory that they
    share, as arguments after the kernel's own, for the time of one launch. work_items: of each
    entry, for devices that launch many of one function. groups: of each entry, how many work items
    make a group that shares local memory, a divisor of work_items; 0 where it does not matter.
    local: of each entry, bytes of local memory that its launch must ask for; empty for none.
    records: of the report that a checked kernel has for its last argument before those (report.py);
    0 without one. in_place: outputs and inputs, by the numbers of their arguments, that may be one
    memory. decided: the decisions alone, where they are for one nest and can be given to the
    kernel.
    """

    name: str
    source: str
    declares: tuple[str, ...]
    loops: str
    where: Location | None = None
    entries: tuple[str, ...] = ()
    scratch: tuple[int, ...] = ()
    work_items: tuple[int, ...] = ()
    groups: tuple[int, ...] = ()
    records: int = 0
    in_place: tuple[tuple[int, int], ...] = ()
    decided: str = ""
    local: tuple[int, ...] = ()

    def called(self, name: str, where: Location | None) -> Generated:
        """The same kernel under another name, from another line."""
        if name == self.name:
            return replace(self, where=where)
        own = rf"{re.escape(self.name)}(?=(?:_(?:stage|part)\w*)?"
        in_llvm, in_c = rf"(?<=@){own}\b)", rf"(?<=\bkernel_){own}\()"
        source = re.sub(f"{in_llvm}|{in_c}", name, self.source)
        entries = [name + entry.removeprefix(self.name) for entry in self.entries]
        return replace(self, name=name, where=where, source=source, entries=tuple(entries))
