"""Renders a Function as a kernel in a dialect of C: `kernel void kernel_NAME(T *p0, T *p1, ...)`.

The parameters are the kernel's arguments, outputs first. A work item runs a chunk of `grain`
iterations of the parallel loop, the one that its number says; without such a loop there is one work
item, and with one there may be more than it takes: those do nothing. Results do not depend on how
work items are grouped. A function with a `group` is run by groups of exactly so many items, one for
each iteration.

Every value is a variable that is written once, but for what loops carry.
"""
from __future__ import annotations

import re
from collections.abc import Sequence

from lazyten.codegen.instructions.instructions import (
    Across,
    Address,
    Barrier,
    Block,
    Commit,
    Compute,
    Constant,
    Copy,
    Function,
    Horizontal,
    Instruction,
    Lanes,
    Load,
    Loop,
    Matrix,
    MatrixDescriptor,
    MatrixFence,
    MatrixLoad,
    MatrixWait,
    Shuffle,
    Splat,
    Store,
    Value,
    VectorLoad,
    VectorStore,
    Wait,
    WorkItem,
    instructions_of,
)
from lazyten.codegen.render.async_copy import asynchronous
from lazyten.codegen.render.c_ops import ROWS, convert, element_type, lane, literal, type_name
from lazyten.codegen.render.group_text import (
    across,
    asked_bytes,
    barrier,
    declared,
    item_digit,
    load_matrices,
    matrix,
    matrix_descriptor,
    with_matrices,
)
from lazyten.codegen.render.rarely import Branch, seldom, unbranched, users_of
from lazyten.codegen.render.vector_text import load_vector, store_vector
from lazyten.codegen.targets.dialect import Dialect
from lazyten.codegen.targets.native_half import computation, conversion
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType, Scalar
from lazyten.ir.ops import Op

MOST_SPAN = 4
"""Lanes within so many vectors of memory are loaded by whole vectors, not one by one."""


_BITS = {2: "ushort", 4: "uint", 8: "ulong"}
"""The type as wide as so many chars."""


def function_name(name: str) -> str:
    """What a kernel is called in C, where a name like `exp` is taken."""
    return "kernel_" + re.sub(r"\W", "_", name)


def render(function: Function, dialect: Dialect) -> tuple[str, tuple[str, ...]]:
    """The text of the function, and the lines that must stand before it in its program."""
    renderer = _Renderer(function, dialect)
    renderer.block(function.body)
    written = {i.address.slot for i in instructions_of(function.body)
               if isinstance(i, Store | VectorStore) and not i.address.is_local}
    params = [_parameter(slot, dtype, slot in written, dialect)
              for slot, (dtype, _) in enumerate(function.params)]
    params += [dialect.last] if dialect.last else []
    kernel = dialect.grouped.format(group=function.group) if function.group else ""
    start = f"{kernel or dialect.kernel} {function_name(function.name)}("
    head = start + (",\n" + " " * len(start.splitlines()[-1])).join(params) + ") {"
    swizzled = any(isinstance(i, MatrixDescriptor) for i in instructions_of(function.body))
    arrays = declared(function.arrays, dialect, swizzled)
    if asked_bytes(function.arrays, dialect):
        renderer.helpers.add(dialect.ask)
    declares = [*dialect.head, *(dialect.float64 if renderer.uses_float64 else ()),
                *sorted(renderer.types), *sorted(renderer.helpers)]
    return "\n".join([head, *arrays, *renderer.lines, "}"]), tuple(declares)


def _parameter(slot: int, dtype: DType, is_written: bool, dialect: Dialect) -> str:
    constness = "" if is_written else "const "
    return f"{dialect.memory}{constness}{element_type(dtype)} *{dialect.restrict}p{slot}"


class _Renderer:
    def __init__(self, function: Function, dialect: Dialect) -> None:
        self.function, self.dialect = function, dialect
        self.lines: list[str] = []
        self.names: dict[Value, str] = {}
        self.constants: dict[str, Scalar] = {}
        self.variables: set[str] = set()
        self.types: set[str] = set()
        self.helpers: set[str] = set()
        self.uses_float64 = any(dtype is dt.float64 for dtype, _ in function.params)
        self.users = users_of(function)
        self.seldom: dict[Value, Branch] = {}
        self.count = 0
        self.depth = 1

    # ---- what the rows of the op table use ----

    def let(self, kind: str, text: str) -> str:
        name = self._new("x")
        self.line(f"{kind} {name} = {text};")
        return name

    def mulacc(self, a: str, b: str, c: str) -> str:
        return self.dialect.mulacc.format(a=a, b=b, c=c)

    def helper(self, name: str, *args: str) -> str:
        self.helpers.add(dict(self.dialect.functions)[name])
        return f"{name}({', '.join(args)})"

    def call(self, name: str, dtype: DType, lanes: int, *args: str) -> str:
        """Where the dialect's built-in functions take fewer lanes, a vector of several calls."""
        part = min(lanes, self.dialect.call_lanes)
        if part == lanes:
            return f"{name}({', '.join(args)})"
        kind = type_name(dtype, lanes)
        vectors = [a if a.isidentifier() else self.let(kind, a) for a in args]
        parts = [lane(*range(start, start + part)) for start in range(0, lanes, part)]
        calls = [f"{name}({', '.join(v + which for v in vectors)})" for which in parts]
        return f"({kind})({', '.join(calls)})"

    def to_vector(self, kind: str, x: str) -> str:
        return self.dialect.convert.format(kind=kind, x=x)

    def line(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    def _new(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    # ---- blocks and loops ----

    def block(self, block: Block) -> None:
        mine = seldom(block, self.users)
        self.seldom |= mine
        for item in unbranched(block, mine):
            if isinstance(item, Loop):
                self._loop(item)
            elif isinstance(item, Store):
                self._store(item)
            elif isinstance(item, VectorLoad):
                load_vector(self, item)
            elif isinstance(item, VectorStore):
                store_vector(self, item)
            elif isinstance(item, Barrier):
                barrier(self, item)
            elif isinstance(item, Copy | Commit | Wait):
                asynchronous(self, item)
            elif isinstance(item, Matrix):
                matrix(self, item)
            elif isinstance(item, MatrixFence | MatrixWait):
                with_matrices(self, item)
            elif isinstance(item, MatrixLoad):
                load_matrices(self, item)
            else:
                self._define(item)

    def _loop(self, loop: Loop) -> None:
        """A carried value is a variable, which has its final value after the loop."""
        for c in loop.carried:
            name = self.names[c.phi] = self.names[c.final] = self._new("a")
            self.variables.add(name)
            self.line(f"{self._type(c.phi)} {name} = {self.names[c.initial]};")
        counter = self.names[loop.counter] = self._new("i")
        self.line(self._head(loop, counter))
        self.depth += 1
        self.block(loop.body)
        for c in loop.carried:
            if self.names[c.next] != self.names[c.phi]:
                self.line(f"{self.names[c.phi]} = {self.names[c.next]};")
        self.depth -= 1
        self.line("}")

    def _head(self, loop: Loop, counter: str) -> str:
        kind = self._type(loop.counter)
        if loop.parallel and self.function.group:
            self.line(f"{kind} {counter} = {self.dialect.group};")
            return "{"
        if not loop.parallel:
            stop = loop.extent if loop.stop is None else self.names[loop.stop]
            return f"for ({kind} {counter} = 0; {counter} < {stop}; ++{counter}) {{"
        item, grain = self.dialect.item, self.function.grain
        if grain == 1:
            self.line(f"{kind} {counter} = {item};")
            return f"if ({counter} < {loop.extent}) {{"
        first = self.let("ulong", f"{item} * {grain}")
        last = self.let("ulong", f"min({first} + {grain}, (ulong){loop.extent})")
        return f"for (ulong {counter} = {first}; {counter} < {last}; ++{counter}) {{"

    # ---- values ----

    def _type(self, value: Value) -> str:
        if value.dtype is dt.float64:
            self.uses_float64 = True
        return type_name(value.dtype, value.lanes)

    def _define(self, item: Instruction) -> None:
        assert not isinstance(item, Loop | Store | VectorLoad | VectorStore | Barrier | Matrix)
        assert not isinstance(item, MatrixLoad | MatrixFence | MatrixWait)
        assert not isinstance(item, Copy | Commit | Wait)
        kind = self._type(item.out)
        if isinstance(item, Compute) and item.op is Op.RARELY:
            self._rarely(item)
        elif isinstance(item, Constant):
            self._define_constant(item.out, item.value)
        elif isinstance(item, Splat) and self.names[item.source] in self.constants:
            self._define_constant(item.out, self.constants[self.names[item.source]])
        else:
            text = self._expression(item)
            known = text.isidentifier() or text in self.constants
            self.names[item.out] = text if known else self.let(kind, text)

    def _rarely(self, item: Compute) -> None:
        """A choice whose first operand is computed where the condition holds, of any lane."""
        condition, _, usual = item.args
        branch, asked = self.seldom[item.out], self.names[condition]
        name = self.names[item.out] = self.let(self._type(item.out), self.names[usual])
        later = {value: self._new("x") for value in branch.shared}
        for value, shared in later.items():
            self.line(f"{self._type(value)} {shared};")
        self.line(f"if ({asked if condition.lanes == 1 else f'any({asked})'}) {{")
        self.depth += 1
        for inner in branch.items:
            self._define(inner)
        for value, shared in later.items():
            self.line(f"{shared} = {self.names[value]};")
        args = tuple(self.names[a] for a in item.args)
        chosen = ROWS[Op.WHERE](self, item.out.dtype, item.out.lanes, args)
        self.line(f"{name} = {args[1] if item.out.lanes == 1 else chosen};")
        self.names |= later
        self.depth -= 1
        self.line("}")

    def _define_constant(self, out: Value, value: Scalar) -> None:
        text = self.names[out] = literal(value, out.dtype, out.lanes)
        self.constants[text] = value

    def _expression(self, item: Instruction) -> str:
        if isinstance(item, Lanes):
            return self._vector(item.out.dtype, [literal(v, item.out.dtype) for v in item.values])
        if isinstance(item, Splat):
            name, kind = self.names[item.source], self._type(item.out)
            return f"({kind})({f'-(char){name}' if item.out.dtype.kind == 'b' else name})"
        if isinstance(item, Compute):
            return self._compute(item)
        if isinstance(item, Load):
            return self._load(item)
        if isinstance(item, Horizontal):
            return self._horizontal(item)
        if isinstance(item, WorkItem):
            return item_digit(item, self.function.group, self.dialect)
        if isinstance(item, Across):
            return across(self, item, self.function.group)
        if isinstance(item, MatrixDescriptor):
            return matrix_descriptor(self, item)
        assert isinstance(item, Shuffle)
        lanes = [(item.first, i) if i < item.first.lanes else (item.second, i - item.first.lanes)
                 for i in item.order]
        return self._vector(item.out.dtype, [self.names[v] + lane(i) for v, i in lanes])

    def _vector(self, dtype: DType, elements: Sequence[str]) -> str:
        return f"({type_name(dtype, len(elements))})({', '.join(elements)})"

    def _compute(self, item: Compute) -> str:
        args = tuple(self.names[a] for a in item.args)
        source, target, lanes = item.args[-1].dtype, item.out.dtype, item.out.lanes
        if source.is_half or target.is_half:
            return self._half(item, args)
        if item.op is Op.CAST:
            return convert(self, source, target, lanes, args[0])
        if item.op is not Op.BITCAST:
            return ROWS[item.op](self, source, lanes, args)
        old, new = type_name(source, lanes), type_name(target, lanes)
        return args[0] if old == new else f"as_{new}({args[0]})"

    def _half(self, item: Compute, args: tuple[str, ...]) -> str:
        """What a device does with 16-bit floats, as a call of the dialect's function."""
        source, target = item.args[-1].dtype, item.out.dtype
        if item.op is Op.BITCAST:
            return args[0]
        name = conversion(source, target) if item.op is Op.CAST else computation(item.op, target)
        return self.helper(name, *args)

    def _horizontal(self, item: Horizontal) -> str:
        name, dtype, lanes = self.names[item.source], item.source.dtype, item.source.lanes
        while lanes > 1:
            lanes //= 2
            low, high = (f"{name}.{half}" for half in ("lo", "hi"))
            if lanes == 1 and dtype.kind == "b":
                low, high = f"({low} != 0)", f"({high} != 0)"
            combined = ROWS[item.combiner](self, dtype, lanes, (low, high))
            if lanes > 1:
                name = self.let(type_name(dtype, lanes), combined)
        return combined

    # ---- memory ----

    def place(self, address: Address, more: int = 0) -> str:
        """The position of the first lane, and `more`, as an expression."""
        offset = address.offset + more
        if address.base is None:
            return str(offset)
        base = self.names[address.base]
        return base if not offset else f"{base} {'-' if offset < 0 else '+'} {abs(offset)}"

    def pointer(self, address: Address, more: int = 0) -> str:
        """To the same element. Base and offset are added first, as counts of elements."""
        place = self.place(address, more)
        array = f"{'l' if address.is_local else 'p'}{address.slot}"
        return f"{array} + {place if place.isalnum() else f'({place})'}"

    def _places(self, address: Address, lanes: int) -> list[str]:
        """The position of each lane."""
        if address.vector is not None:
            name = self.names[address.vector]
            return [name if lanes == 1 else name + lane(i) for i in range(lanes)]
        return [self.place(address, i) for i in address.offsets]

    def _load(self, item: Load) -> str:
        dtype, lanes, address = item.out.dtype, item.out.lanes, item.address
        mask = None if item.mask is None else self.names[item.mask]
        if lanes == 1:
            element = self._element(dtype, address)
            return element if mask is None else f"{mask} ? {element} : {literal(0, dtype)}"
        if address.is_contiguous:
            pointer = self.pointer(address)
            if mask is not None:
                return self._from_memory(dtype, lanes, self._masked(dtype, lanes, pointer, mask))
            return self._from_memory(dtype, lanes, self._whole(dtype, lanes, pointer))
        if mask is None and address.vector is None and \
                lanes <= address.span <= MOST_SPAN * lanes:
            return self._picked(dtype, lanes, address)
        elements = [f"p{address.slot}[{p}]" for p in self._places(address, lanes)]
        if mask is not None:
            zero = literal(0, dt.uint8 if dtype.kind == "b" else dtype)
            elements = [f"{mask}{lane(i)} ? {e} : {zero}" for i, e in enumerate(elements)]
        kind = f"{element_type(dtype)}{lanes}"
        return self._from_memory(dtype, lanes, f"({kind})({', '.join(elements)})")

    def _picked(self, dtype: DType, lanes: int, address: Address) -> str:
        """Lanes near each other: whole vectors from the first to the last, and a choice of lanes.

        The last vector ends at the last lane, so that nothing outside is read.
        """
        starts = [*range(0, address.span - lanes, lanes), address.span - lanes]
        kind = f"{element_type(dtype)}{lanes}"
        wholes: dict[int, str] = {}
        picked = []
        for offset in address.offsets:
            start = next(s for s in starts if s <= offset < s + lanes)
            if start not in wholes:
                whole = self._whole(dtype, lanes, self.pointer(address, start))
                wholes[start] = self.let(kind, whole)
            picked.append(wholes[start] + lane(offset - start))
        return self._from_memory(dtype, lanes, f"({kind})({', '.join(picked)})")

    def _masked(self, dtype: DType, lanes: int, pointer: str, mask: str) -> str:
        """A vector load that reads only where the mask is true; elsewhere it is 0."""
        element = element_type(dtype)
        zero = literal(0, dt.uint8 if dtype.kind == "b" else dtype)
        kind, name = f"{element}{lanes}", f"masked_{element}{lanes}"
        each = ", ".join(f"m{lane(i)} ? p[{i}] : {zero}" for i in range(lanes))
        halves = ("m.lo", "m.hi") if lanes == 16 else ("m",)
        whole = _BITS[min(lanes, 8)]
        every = " & ".join(f"(as_{whole}({half}) == ({whole})-1)" for half in halves)
        self.helpers.add(
            f"{self.dialect.function}{kind} {name}({self.dialect.memory}const {element} *p, "
            f"char{lanes} m) {{ return {every} ? {self._whole(dtype, lanes, 'p')} : "
            f"({kind})({each}); }}")
        return f"{name}({pointer}, {mask})"

    def _whole(self, dtype: DType, lanes: int, pointer: str) -> str:
        """A vector that is read from neighbours in memory."""
        kind = self._vector_in_memory(dtype, lanes)
        return self.dialect.load.format(kind=kind, lanes=lanes, to=pointer)

    def _vector_in_memory(self, dtype: DType, lanes: int) -> str:
        kind = f"{element_type(dtype)}{lanes}"
        if self.dialect.unaligned:
            self.types.add(self.dialect.unaligned.format(kind=kind, alignment=dtype.itemsize))
        return kind

    def _element(self, dtype: DType, address: Address) -> str:
        element = self._place_in_memory(address)
        return f"({element} != 0)" if dtype.kind == "b" else element

    def _place_in_memory(self, address: Address) -> str:
        """The one element at an address."""
        array = f"{'l' if address.is_local else 'p'}{address.slot}"
        return f"{array}[{self._places(address, 1)[0]}]"

    def _from_memory(self, dtype: DType, lanes: int, loaded: str) -> str:
        """A vector as it is in memory to one in registers."""
        return f"{loaded} != (uchar{lanes})(0)" if dtype.kind == "b" else loaded

    def _store(self, item: Store) -> None:
        value, address = item.value, item.address
        dtype, lanes, name = value.dtype, value.lanes, self.names[value]
        if lanes == 1:
            if item.combiner is not None:
                there = self.let(type_name(dtype, 1), self._element(dtype, address))
                name = ROWS[item.combiner](self, dtype, 1, (there, name))
            condition = "" if item.mask is None else f"if ({self.names[item.mask]}) "
            self.line(f"{condition}{self._place_in_memory(address)} = {name};")
            return
        kind = type_name(dtype, lanes)
        if item.combiner is not None:  # all places are inside, masked off or not, and differ
            there = self.let(kind, self._load(Load(value, address)))
            name = self.let(kind, ROWS[item.combiner](self, dtype, lanes, (there, name)))
        if dtype.kind == "b":
            name = self.let(f"uchar{lanes}", f"as_uchar{lanes}({name} & (char{lanes})(1))")
        if item.mask is not None:
            for i, place in enumerate(self._places(address, lanes)):
                condition = f"if ({self.names[item.mask]}{lane(i)}) "
                self.line(f"{condition}p{address.slot}[{place}] = {name}{lane(i)};")
            return
        if address.vector is None and sorted(address.offsets) == list(range(lanes)):
            if not address.is_contiguous:
                order = [name + lane(address.offsets.index(i)) for i in range(lanes)]
                name = f"({element_type(dtype)}{lanes})({', '.join(order)})"
            kind = self._vector_in_memory(dtype, lanes)
            self.line(self.dialect.store.format(
                kind=kind, lanes=lanes, value=name, to=self.pointer(address)) + ";")
            return
        for i, place in enumerate(self._places(address, lanes)):
            self.line(f"p{address.slot}[{place}] = {name}{lane(i)};")
