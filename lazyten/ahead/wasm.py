"""A module of WebAssembly from one object file: what a linker does, where there is one file alone.

In: the object file that LLVM makes of a program. Out: a module that exports its functions, its
memory, and for each array of the interface a global with an address that is kept for it.

An object file is a module already, whose numbers of functions and addresses of data are its own
("WebAssembly Object File Linking", tool-conventions): it lacks a memory, a stack and exports. So
these take the place of what it imports, and data that is all zeros is left out, as memory is that.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lazyten.support.errors import CompileError

PAGE, STACK, ALIGNMENT = 1 << 16, 1 << 16, 64
TYPE, IMPORT, FUNCTION, MEMORY, GLOBAL, EXPORT, CODE, DATA = 1, 2, 3, 5, 6, 7, 10, 11
"""Numbers of sections, in the order in which they stand but for DATA."""
KIND_FUNCTION, KIND_TABLE, KIND_MEMORY, KIND_GLOBAL = range(4)
I32, I32_CONST, END = 0x7F, 0x41, 0x0B
SYMBOLS, UNDEFINED, EXPLICIT_NAME = 8, 0x10, 0x40


@dataclass
class _Reader:
    """Reads numbers, names and pieces of bytes, one after another."""

    content: bytes
    at: int = 0

    @property
    def more(self) -> bool:
        """Whether something is left."""
        return self.at < len(self.content)

    def unsigned(self) -> int:
        """A number in LEB128."""
        value = shift = 0
        while True:
            byte = self.content[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def signed(self) -> int:
        """The same with a sign."""
        start = self.at
        value = self.unsigned()
        bits = 7 * (self.at - start)
        return value - (1 << bits) if value >> bits - 1 else value

    def take(self, count: int) -> bytes:
        """So many bytes."""
        self.at += count
        return self.content[self.at - count:self.at]

    def sized(self) -> bytes:
        """Bytes behind their count."""
        return self.take(self.unsigned())


@dataclass
class _Object:
    """What counts of an object file: sections by number, imports of functions, how many imports
    there are in all, data by address, functions by name, where data end."""

    sections: dict[int, bytes] = field(default_factory=dict)
    imports: list[bytes] = field(default_factory=list)
    data: list[tuple[int, bytes]] = field(default_factory=list)
    functions: dict[str, int] = field(default_factory=dict)
    has_stack: bool = False


def unsigned(value: int) -> bytes:
    """A number in LEB128."""
    made = bytearray()
    while True:
        byte, value = value & 0x7F, value >> 7
        made.append(byte | 0x80 if value else byte)
        if not value:
            return bytes(made)


def signed(value: int) -> bytes:
    """The same with a sign."""
    made = bytearray()
    while True:
        byte, value = value & 0x7F, value >> 7
        if value == (-1 if byte & 0x40 else 0):
            made.append(byte)
            return bytes(made)
        made.append(byte | 0x80)


def sized(content: bytes) -> bytes:
    """Bytes behind their count."""
    return unsigned(len(content)) + content


def module(content: bytes, functions: Sequence[str], arrays: Mapping[str, int]) -> bytes:
    """The module. functions: to export. arrays: so many bytes for each name."""
    given = _read(content)
    end = max((at + len(data) for at, data in given.data), default=0)
    top = _up(_up(end) + STACK)
    places, free = {}, top
    for name, nbytes in arrays.items():
        places[name] = free
        free = _up(free + nbytes)
    globals_ = [_global(top, changes=True)] if given.has_stack else []
    exported = [_export("memory", KIND_MEMORY, 0)]
    exported += [_export(name, KIND_FUNCTION, given.functions[name]) for name in functions]
    for name, place in places.items():
        exported.append(_export(name, KIND_GLOBAL, len(globals_)))
        globals_.append(_global(place, changes=False))
    pages = -(-free // PAGE)
    used = [(at, data) for at, data in given.data if any(data)]
    sections = {
        TYPE: given.sections.get(TYPE, b""), IMPORT: _vector(given.imports),
        FUNCTION: given.sections.get(FUNCTION, b""), MEMORY: _vector([b"\0" + unsigned(pages)]),
        GLOBAL: _vector(globals_), EXPORT: _vector(exported),
        CODE: given.sections.get(CODE, b""), DATA: _vector([
            b"\0" + bytes([I32_CONST]) + signed(at) + bytes([END]) + sized(data)
            for at, data in used])}
    return content[:8] + b"".join(bytes([number]) + sized(body)
                                  for number, body in sections.items() if len(body) > 1)


def _up(value: int) -> int:
    return -(-value // ALIGNMENT) * ALIGNMENT


def _vector(items: Sequence[bytes]) -> bytes:
    return unsigned(len(items)) + b"".join(items)


def _global(value: int, changes: bool) -> bytes:
    return bytes([I32, changes, I32_CONST]) + signed(value) + bytes([END])


def _export(name: str, kind: int, number: int) -> bytes:
    return sized(name.encode()) + bytes([kind]) + unsigned(number)


def _read(content: bytes) -> _Object:
    found = _Object()
    reader = _Reader(content, 8)
    while reader.more:
        number = reader.take(1)[0]
        body = reader.sized()
        if number == 0:
            custom = _Reader(body)
            if custom.sized() == b"linking":
                found.functions = dict(_functions(custom))
        else:
            found.sections[number] = body
    for imported in _imports(found.sections.get(IMPORT, b"\0")):
        if imported.kind == KIND_FUNCTION:
            found.imports.append(imported.content)
        elif imported.name == b"__stack_pointer":
            found.has_stack = True
        elif imported.kind != KIND_MEMORY:
            raise CompileError(f"export: the object file asks for {imported.name.decode()!r}, "
                               f"which a module alone does not have. This is a bug in lazyten: "
                               f"please report it")
    found.data = list(_segments(found.sections.get(DATA, b"\0")))
    return found


@dataclass(frozen=True, slots=True)
class _Import:
    kind: int
    name: bytes
    content: bytes


def _imports(section: bytes) -> Iterator[_Import]:
    reader = _Reader(section)
    for _ in range(reader.unsigned()):
        start = reader.at
        reader.sized()
        name = reader.sized()
        kind = reader.take(1)[0]
        if kind == KIND_FUNCTION:
            reader.unsigned()
        elif kind == KIND_GLOBAL:
            reader.take(2)
        else:
            reader.take(1 if kind == KIND_TABLE else 0)
            flags = reader.unsigned()
            reader.unsigned()
            if flags & 1:
                reader.unsigned()
        yield _Import(kind, name, section[start:reader.at])


def _segments(section: bytes) -> Iterator[tuple[int, bytes]]:
    """The address and the bytes of each piece of data."""
    reader = _Reader(section)
    for _ in range(reader.unsigned()):
        flags, op = reader.unsigned(), reader.take(1)[0]
        assert flags == 0 and op == I32_CONST
        at = reader.signed()
        reader.take(1)
        yield at, reader.sized()


def _functions(linking: _Reader) -> Iterator[tuple[str, int]]:
    """The names of functions, of the table of symbols."""
    linking.unsigned()  # the version
    while linking.more:
        kind, body = linking.take(1)[0], _Reader(linking.sized())
        if kind != SYMBOLS:
            continue
        for _ in range(body.unsigned()):
            what, flags = body.take(1)[0], body.unsigned()
            is_named = not flags & UNDEFINED or bool(flags & EXPLICIT_NAME)
            if what == 1:  # data
                body.sized()
                if not flags & UNDEFINED:
                    for _ in range(3):
                        body.unsigned()
            elif what == 3:  # a section
                body.unsigned()
            else:
                number = body.unsigned()
                name = body.sized().decode() if is_named else ""
                if what == 0 and not flags & UNDEFINED:
                    yield name, number
