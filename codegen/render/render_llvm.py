"""Renders a Function as LLVM IR text: `define void @name(ptr %args)`.

%args points to a table of pointers, one a kernel argument, outputs first. The text needs no
optimization pass: loop-invariant code is outside already, accumulators are phis, vectors are
vectors.

A kernel that threads share is two functions: `@name.chunk(ptr %args, i64 %first, i64 %last)` runs
iterations first to last of the parallel loop, and `@name` has the runtime's
`lazyten_run_chunks(chunk, args, iterations, grain)` call it for all of them, `grain` at a time.
"""
from __future__ import annotations

from lazyten.codegen.instructions.aliasing import copied, updated
from lazyten.codegen.instructions.instructions import (
    Address,
    Block,
    Compute,
    Constant,
    Function,
    Horizontal,
    Instruction,
    Lanes,
    Load,
    Loop,
    Shuffle,
    Splat,
    Store,
    Value,
)
from lazyten.codegen.render.llvm_blocks import RUN_CHUNKS, counted_entry, entry
from lazyten.codegen.render.llvm_loads import MANY_SUMS, Loads
from lazyten.codegen.render.llvm_ops import ROWS, convert
from lazyten.codegen.render.llvm_types import literal, memory_type, scalar_type, suffix, type_name
from lazyten.codegen.render.rarely import Branch, seldom, unbranched, users_of
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType, Scalar
from lazyten.ir.ops import Op

LONG = 512
"""Iterations beside which it does not count how lanes that are far apart are stored: then by one
instruction, which LLVM compiles ten times as fast as one a lane, but some processors run slower."""

PLACING = frozenset({Op.ADD, Op.MUL, Op.WHERE})
"""What positions of scalars are made with."""


def render(function: Function, fuses: bool,
           gathers: bool = False) -> tuple[str, tuple[str, ...]]:
    """The text of the function, and the declarations of the intrinsics it calls. fuses, gathers:
    see Target."""
    renderer = _Renderer(function, fuses, gathers)
    renderer.block(function.body)
    head = [f"define void @{function.name}(ptr noalias %args) nounwind {{", "entry:"]
    tail = ["  ret void", "}"]
    if renderer.iterations:
        head[0] = (f"define internal void @{function.name}.chunk(ptr noalias %args, i64 %first, "
                   "i64 %last) nounwind {")
        if function.grain:
            tail += entry(function.name, renderer.iterations, function.grain) \
                if function.counts is None else counted_entry(function.name, *function.counts)
            renderer.declared.add(RUN_CHUNKS)
    for slot in sorted(renderer.used):
        dtype, size = function.params[slot]
        head.append(f"  %t{slot} = getelementptr ptr, ptr %args, i64 {slot}")
        head.append(f"  %p{slot} = load ptr, ptr %t{slot}  ; {dtype.name}[{size}]")
    text = "\n".join([*head, *renderer.lines, *tail])
    return text, tuple(sorted(renderer.declared))


def _iterations(block: Block) -> int:
    """Of the longest nest of loops in a block; 1 where there is none."""
    return max((item.extent * _iterations(item.body) for item in block.items
                if isinstance(item, Loop)), default=1)


class _Renderer(Loads):
    """less: what comparisons of integers compare. constants: values that are, in all lanes.
    positions: how those are made that are sums of choices. seldom: what each RARELY alone needs."""

    def __init__(self, function: Function, fuses: bool, gathers: bool) -> None:
        super().__init__(fuses, gathers)
        self.updated = updated(function.body)
        self.users = users_of(function)
        self.seldom: dict[Value, Branch] = {}
        self.sizes = {slot: dtype.itemsize * size
                      for slot, (dtype, size) in enumerate(function.params)}
        self.less: dict[Value, tuple[Value, ...]] = {}
        self.positions: dict[Value, Compute] = {}
        self.constants: dict[Value, Scalar] = {}
        self.iterations = 0
        self.label = "entry"
        self.long = False

    # ---- blocks and loops ----

    def block(self, block: Block) -> None:
        outside, self.long = self.long, _iterations(block) >= LONG
        mine = seldom(block, self.users)
        self.seldom |= mine
        for item in unbranched(block, mine):
            if isinstance(item, Loop):
                self._close_bases()
                self._loop(item)
            else:
                self._instruction(item)
        self._close_bases()
        self.long = outside

    def _loop(self, loop: Loop) -> None:
        """Runs at least once: the test is at the end; a carried value's last `next` is final."""
        self.count += 1
        if loop.parallel:
            self.iterations = loop.extent
        head, done, before = f"loop{self.count}", f"done{self.count}", self.label
        counter = self.names[loop.counter] = f"%i{self.count}"
        for c in loop.carried:
            self.names[c.phi] = self._new()
        outer, self.lines, self.label = self.lines, [], head
        steps, self.steps = self.steps, {loop.counter: 1} if len(loop.carried) >= MANY_SUMS else {}
        self.block(loop.body)
        self.steps = steps
        following = self.line(f"add nuw nsw i64 {counter}, 1")
        start, stop = ("%first", "%last") if loop.parallel else ("0", self._stop(loop))
        again = self.line(f"icmp ult i64 {following}, {stop}")
        body, self.lines, latch = self.lines, outer, self.label
        self.lines += [self._entered(loop, head, done), f"{head}:",
                       f"  {counter} = phi i64 [{start}, %{before}], [{following}, %{latch}]"]
        for c in loop.carried:
            kind = type_name(c.phi.dtype, c.phi.lanes)
            initial, update = self.names[c.initial], self.names[c.next]
            self.lines.append(f"  {self.names[c.phi]} = phi {kind} [{initial}, %{before}], "
                              f"[{update}, %{latch}]")
            self.names[c.final] = self.names[c.next]
        self.lines += [*body, f"  br i1 {again}, label %{head}, label %{done}", f"{done}:"]
        self.label = done

    def _entered(self, loop: Loop, head: str, done: str) -> str:
        """The branch to a loop; past it, if it only copies what updates begin with to where it is
        already."""
        pair = copied(loop) if self.updated else None
        if pair is None or pair[0] not in self.updated:
            return f"  br label %{head}"
        there = self.line(f"icmp eq ptr %p{pair[0]}, %p{pair[1]}")
        return f"  br i1 {there}, label %{done}, label %{head}"

    def _stop(self, loop: Loop) -> str:
        return str(loop.extent) if loop.stop is None else self.names[loop.stop]

    # ---- instructions ----

    def _instruction(self, item: Instruction) -> None:
        if isinstance(item, Store):
            self._store(item)
        elif isinstance(item, Constant):
            self.names[item.out] = literal(item.value, item.out.dtype, item.out.lanes)
            self.constants[item.out] = item.value
        elif isinstance(item, Lanes):
            kind = scalar_type(item.out.dtype)
            self.names[item.out] = "<" + ", ".join(f"{kind} {v}" for v in item.values) + ">"
        elif isinstance(item, Splat):
            self.uniform.add(item.out)
            if item.source in self.constants:
                self.constants[item.out] = self.constants[item.source]
            self.names[item.out] = self._splat(item)
        elif isinstance(item, Compute):
            if item.op is Op.CMPLT and item.args[0].dtype.kind == "i":
                self.less[item.out] = item.args
            if item.op in PLACING and item.out.dtype is dt.INDEX:
                self.positions[item.out] = item
            if self.steps and item.op in (Op.ADD, Op.MUL) and item.out.dtype is dt.INDEX:
                self.steps[item.out] = self._step(item)
            if item.op is Op.AND and item.out.dtype is dt.bool_:
                self.masks[item.out] = item.args
            self.names[item.out] = self._within(item) or self._compute(item)
        elif isinstance(item, Load):
            self.names[item.out] = self._load(item)
        elif isinstance(item, Horizontal):
            self.names[item.out] = self._horizontal(item)
        elif isinstance(item, Shuffle):
            first, second = self.names[item.first], self.names[item.second]
            made = self._shuffle(item.first.dtype, item.first.lanes, first, item.order, second)
            self.names[item.out] = self._apart(item.out, made)

    def _splat(self, item: Splat) -> str:
        dtype, lanes, source = item.out.dtype, item.out.lanes, self.names[item.source]
        if not source.startswith("%"):
            return f"splat ({scalar_type(dtype)} {source})"
        kind = type_name(dtype, lanes)
        first = self.line(f"insertelement {kind} poison, {scalar_type(dtype)} {source}, i64 0")
        return self.line(f"shufflevector {kind} {first}, {kind} poison, "
                         f"<{lanes} x i32> zeroinitializer")

    def _rarely(self, item: Compute) -> str:
        """A choice whose first operand is computed where a lane asks for it, behind a branch."""
        self.count += 1
        some, done, before = f"rare{self.count}", f"usual{self.count}", self.label
        lanes, any_ = item.out.lanes, self.names[item.args[0]]
        if lanes > 1:
            bits = self.line(f"bitcast <{lanes} x i1> {any_} to i{lanes}")
            any_ = self.line(f"icmp ne i{lanes} {bits}, 0")
        self.lines += [f"  br i1 {any_}, label %{some}, label %{done}", f"{some}:"]
        self.label = some
        for inner in self.seldom[item.out].items:
            self._instruction(inner)
        args = tuple(self.names[a] for a in item.args)
        chosen = ROWS[Op.WHERE](self, item.out.dtype, lanes, args)
        self.lines += [f"  br label %{done}", f"{done}:"]
        after, self.label = self.label, done
        for value in self.seldom[item.out].shared:
            self.names[value] = self.line(f"phi {type_name(value.dtype, value.lanes)} "
                                          f"[poison, %{before}], [{self.names[value]}, %{after}]")
        return self.line(f"phi {type_name(item.out.dtype, lanes)} [{args[2]}, %{before}], "
                         f"[{chosen}, %{after}]")

    def _compute(self, item: Compute) -> str:
        if item.op is Op.RARELY:
            return self._rarely(item)
        args = tuple(self.names[a] for a in item.args)
        source, lanes = item.args[-1].dtype, item.out.lanes
        if item.op is Op.CAST:
            return convert(self, source, item.out.dtype, lanes, args[0])
        if item.op is Op.BITCAST:
            old, new = type_name(source, lanes), type_name(item.out.dtype, lanes)
            return args[0] if old == new else self.line(f"bitcast {old} {args[0]} to {new}")
        return ROWS[item.op](self, source, lanes, args)

    def _within(self, item: Compute) -> str | None:
        """-1 < x and x < a constant as one comparison, which no optimization pass of LLVM finds."""
        parts = [self.less.get(a) for a in item.args]
        if item.op is not Op.AND or parts[0] is None or parts[1] is None:
            return None
        (low, x), (same, high) = parts[0], parts[1]
        if x != same or self.constants.get(low) != -1 or self.constants.get(high, -1) < 0:
            return None
        kind = type_name(x.dtype, x.lanes)
        return self.line(f"icmp ult {kind} {self.names[x]}, {self.names[high]}")

    def _step(self, item: Compute) -> int:
        """By how much a sum, or a product with a constant, grows an iteration."""
        a, b = (self.steps.get(arg, 0) for arg in item.args)
        if item.op is Op.ADD:
            return a + b
        by, of = (int(self.constants.get(arg, 0)) for arg in item.args)
        return a * of + b * by

    def _horizontal(self, item: Horizontal) -> str:
        name, dtype, lanes = self.names[item.source], item.source.dtype, item.source.lanes
        while lanes > 1:
            kind, half = type_name(dtype, lanes), lanes // 2
            if half == 1:
                low, high = (self.line(f"extractelement {kind} {name}, i64 {i}") for i in (0, 1))
            else:
                low, high = (self._shuffle(dtype, lanes, name, range(i, i + half))
                             for i in (0, half))
            name, lanes = ROWS[item.combiner](self, dtype, half, (low, high)), half
        return name

    def _apart(self, out: Value, name: str) -> str:
        """A shuffle as it is. LLVM would spend half of a transpose's time on looking for fewer
        instructions that do what several after each other do, and there are none."""
        if out.dtype not in (dt.float32, dt.float64):
            return name
        kind = type_name(out.dtype, out.lanes)
        fence = f"llvm.arithmetic.fence.{suffix(out.dtype, out.lanes)}"
        return self.intrinsic(fence, kind, (kind, name))

    # ---- stores ----

    def _store(self, item: Store) -> None:
        base = None if item.address.base is None else self.names[item.address.base]
        if item.value.lanes > 1:
            self._store_vector(item, base)
        elif item.mask is not None:
            self._branch(item, item.mask)
        else:
            self._store_element(item, base)

    def _branch(self, item: Store, mask: Value) -> None:
        """A scalar store with a mask: what is masked off is mostly past some end, so processors
        foretell which it is, where a choice of what to store would wait for what is there."""
        self.count += 1
        there, done, outside = f"there{self.count}", f"done{self.count}", self.bases
        self.lines += [f"  br i1 {self.names[mask]}, label %{there}, label %{done}", f"{there}:"]
        self.bases, base = {}, item.address.base
        self._store_element(item, None if base is None else self._where_true(base, mask))
        self._close_bases()
        self.lines += [f"  br label %{done}", f"{done}:"]
        self.label, self.bases = done, outside

    def _where_true(self, value: Value, mask: Value) -> str:
        """A position where a mask is true, which chooses what it is made of."""
        made = self.positions.get(value)
        if made is not None and made.op is Op.WHERE:
            return self.names[made.args[1] if made.args[0] == mask else value]
        parts = () if made is None else tuple(self._where_true(a, mask) for a in made.args)
        if made is None or parts == tuple(self.names[a] for a in made.args):
            return self.names[value]
        return ROWS[made.op](self, value.dtype, 1, parts)

    def _store_element(self, item: Store, base: str | None) -> None:
        """A scalar store, whatever its mask says, at an address whose base is this."""
        address, dtype, name = item.address, item.value.dtype, self.names[item.value]
        if item.combiner is not None:
            there = self._element(dtype, self._pointer(dtype, address, base, address.offset))
            name = ROWS[item.combiner](self, dtype, 1, (there, name))
        if dtype.kind == "b":
            name = convert(self, dt.bool_, dt.uint8, 1, name)
        pointer = self._pointer(dtype, address, base, address.offset)
        self.lines.append(f"  store {memory_type(dtype)} {name}, ptr {pointer}, "
                          f"align {dtype.itemsize}")

    def _store_vector(self, item: Store, base: str | None) -> None:
        value, address = item.value, item.address
        dtype, lanes, name = value.dtype, value.lanes, self.names[value]
        mask = None if item.mask is None else self.names[item.mask]
        if item.combiner is not None:  # all places are inside, masked off or not
            name = ROWS[item.combiner](self, dtype, lanes, (self._load(Load(value, address)), name))
        if dtype.kind == "b":
            name = convert(self, dt.bool_, dt.uint8, lanes, name)
        kind, stored = f"<{lanes} x {memory_type(dtype)}>", dt.uint8 if dtype.kind == "b" else dtype
        if address.is_contiguous or mask is None and address.vector is None and \
                sorted(address.offsets) == list(range(lanes)):
            if not address.is_contiguous:
                order = [address.offsets.index(i) for i in range(lanes)]
                name = self._shuffle(stored, lanes, name, order)
            pointer = self._pointer(dtype, address, base, address.offset)
            if mask is not None:
                self._masked_store(stored, lanes, name, pointer, mask)
                return
            self.lines.append(f"  store {kind} {name}, ptr {pointer}, align {dtype.itemsize}")
            return
        if mask is not None or address.vector is None and self.long:
            self._scatter(stored, lanes, name, address, mask)
            return
        for i, pointer in enumerate(self._lane_pointers(dtype, address, lanes, None)):
            element = self.line(f"extractelement {kind} {name}, i64 {i}")
            # volatile: LLVM need not look for stores that it could make one
            self.lines.append(f"  store volatile {memory_type(dtype)} {element}, ptr {pointer}")

    def _scatter(self, stored: DType, lanes: int, name: str, address: Address,
                 mask: str | None) -> None:
        """A vector to places that are far apart; what is masked off is not touched, as another
        thread may be storing it."""
        kind, bits = f"<{lanes} x {memory_type(stored)}>", f"<{lanes} x i1>"
        if address.vector is None:
            base = None if address.base is None else self.names[address.base]
            pointer = self._pointer(stored, address, base, address.offset)
            places = f"<{', '.join(f'i64 {offset}' for offset in address.offsets)}>"
        else:
            self.used.add(address.slot)
            pointer, places = f"%p{address.slot}", self._positions(address, lanes, mask)
        places = self.line(f"getelementptr {memory_type(stored)}, ptr {pointer}, "
                           f"<{lanes} x i64> {places}")
        function = f"@llvm.masked.scatter.{suffix(stored, lanes)}.v{lanes}p0"
        self.declared.add(f"declare void {function}({kind}, <{lanes} x ptr>, i32, {bits})")
        self.lines.append(f"  call void {function}({kind} {name}, <{lanes} x ptr> {places}, "
                          f"i32 {stored.itemsize}, {bits} {mask or 'splat (i1 true)'})")

    def _masked_store(self, stored: DType, lanes: int, name: str, pointer: str, mask: str) -> None:
        """A vector to neighbours in memory, where the mask is true."""
        kind, bits = f"<{lanes} x {memory_type(stored)}>", f"<{lanes} x i1>"
        function = f"@llvm.masked.store.{suffix(stored, lanes)}.p0"
        self.declared.add(f"declare void {function}({kind}, ptr, i32, {bits})")
        self.lines.append(f"  call void {function}({kind} {name}, ptr {pointer}, "
                          f"i32 {stored.itemsize}, {bits} {mask})")

