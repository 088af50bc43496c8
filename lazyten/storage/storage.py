"""What a tensor's values live in: `Buffer` is device memory, `Storage` a value that may change.

A Storage holds the GRAPH node of its current value. Every tensor that views the same Storage sees
the change when it gets a new node; nodes never change, so a saved value stays what it was.
"""
from __future__ import annotations

import atexit
import itertools
import struct
from collections import defaultdict
from collections.abc import Callable, Iterable
from operator import methodcaller
from typing import Any, Final, NamedTuple
from weakref import ReferenceType, WeakKeyDictionary, ref

import numpy as np

from lazyten.ir import dtype as dt
from lazyten.ir import ops
from lazyten.ir.dtype import DType, Scalar
from lazyten.ir.movement import Moves
from lazyten.ir.node import History, Node, Shape, make, reading, set_history, unshaped
from lazyten.ir.ops import Op
from lazyten.operators.math.gradients import freed, written_over
from lazyten.storage import levels, tracing
from lazyten.storage.device import executor
from lazyten.storage.shared_memory import SharedMemory
from lazyten.support.errors import DeviceError, DTypeError
from lazyten.support.forking import lock
from lazyten.support.location import user_location
from lazyten.symbolic.view import moved_array

Array = np.ndarray[Any, Any]


class Buffer:
    """A flat array of `size` elements in a device's memory, freed with this object."""

    __slots__ = ("__weakref__", "device", "dtype", "handle", "serial", "size")

    def __init__(self, device: str, dtype: DType, size: int) -> None:
        self.device, self.dtype, self.size = device, dtype, size
        self.serial = next(levels.serials)
        runtime = executor(device)
        self.handle = runtime.alloc(size * dtype.itemsize)
        held = _Held(self, _give_back)
        held.free, held.handle = runtime.free, self.handle
        _all_held.add(held)

    @staticmethod
    def from_numpy(values: np.ndarray[Any, Any], dtype: DType, device: str) -> Buffer:
        """A new buffer with a copy of `values` (of dtype.numpy, in any byte order)."""
        try:
            buffer = Buffer(device, dtype, values.size)
        except DeviceError as error:
            raise DeviceError(f"cannot store the values given at {user_location()}, {dtype.name}"
                              f"{list(values.shape)}: {error}") from error
        buffer.fill(values)
        return buffer

    def fill(self, values: np.ndarray[Any, Any]) -> None:
        """Copy as many values as it has (of dtype.numpy, in any byte order) into it."""
        native = np.ascontiguousarray(values, self.dtype.numpy)
        executor(self.device).copy_in(self.handle, native.reshape(-1))

    def numpy(self) -> np.ndarray[Any, Any]:
        """A copy of the contents, flat, as stored (uint16 for bfloat16)."""
        out = np.empty(self.size, self.dtype.numpy)
        executor(self.device).copy_out(out, self.handle)
        return out

    def element(self, number: int) -> Scalar | None:
        """An element as a Python number, where that is read without NumPy; else None."""
        layout, runtime = _LAYOUTS.get(self.dtype), executor(self.device)
        if layout is None or number >= self.size or number and not runtime.has_offsets:
            return None
        nbytes = layout.size
        place = runtime.with_offset(self.handle, number * nbytes) if number else self.handle
        found = runtime.peek(place, nbytes)
        return None if found is None else layout.unpack(found)[0]

    def view(self) -> np.ndarray[Any, Any] | None:
        """The contents themselves, flat, as stored, to be read while this object lives; None where
        they are not in the host's memory."""
        found = executor(self.device).view(self.handle, self.size * self.dtype.itemsize)
        return None if found is None else found.view(self.dtype.numpy)

    def node(self, shape: Shape) -> Node:
        """The GRAPH node that reads this buffer as an array of `shape`."""
        return reading(self, self.dtype, shape)


_LAYOUTS = {kind: struct.Struct(kind.numpy.char) for kind in dt.ARITHMETIC
            if kind.numpy == kind.compute}


class Piece(Buffer):
    """A part of another buffer, which it keeps: elements in a row. It is only read."""

    __slots__ = ("whole",)

    def __init__(self, whole: Buffer, first: int, size: int) -> None:
        self.device, self.dtype, self.size, self.whole = whole.device, whole.dtype, size, whole
        self.serial = next(levels.serials)
        self.handle = executor(whole.device).with_offset(whole.handle,
                                                         first * whole.dtype.itemsize)


class _Held(ReferenceType[Buffer]):
    """To a buffer, and what frees its memory once it is gone (as weakref.finalize, in a third of
    the time)."""

    __slots__ = ("free", "handle")

    free: Callable[[Any], None]
    handle: Any


def _give_back(held: ReferenceType[Buffer]) -> None:
    assert isinstance(held, _Held)
    _all_held.discard(held)
    held.free(held.handle)


_all_held: set[_Held] = set()
atexit.register(_all_held.clear)  # the process's memory goes with it, and drivers first


REALIZED: defaultdict[str, WeakKeyDictionary[Node, Node]] = defaultdict(WeakKeyDictionary)
"""For each device: nodes whose values are in its memory, and the node that reads them there. (A
node that reads no buffer is the same node on every device.)"""

def remember(device: str, node: Node, buffer: Buffer) -> None:
    """Let all graphs that hold `node` read its value from `buffer`. Of a node that reads memory
    there is nothing to remember: the entry would keep its own key alive."""
    inner = unshaped(node)  # what reshapes of it are made of
    if inner.op is Op.BUFFER:
        return
    for here in (node, inner):
        REALIZED[device][here] = buffer.node(here.shape)
        set_history(here, COMPUTED)


def _nothing() -> None:
    return None


UNMARKED: Final[Callable[[], Any]] = _nothing
"""The mark of a storage that no frame (frames.py) knows."""

READING = ("reading a tensor's value (print, item(), numpy(), bool() or a branch)",
           "return the tensor and read it outside, or use where() for a choice")
"""What a trace cannot do, and what to do in its place; to be refused before the value is computed.
"""

changing: Final = lock()
"""Held while a storage gets another node, or another frame that knows it: what one thread computes
of a value is not to undo what another has written meanwhile."""

_leaf_ids = itertools.count()


NEVER = 1 << 62
"""History.since of what is made of constants alone: equal ones are one node, of any age."""
COMPUTED = History(0, NEVER - 1, False)
"""The history of memory, and of what is there."""


_frozen: WeakKeyDictionary[Storage, int] = WeakKeyDictionary()
"""The id that a storage had which is no leaf any more."""


def new_leaf_id() -> int:
    """The argument of a LEAF that is none other's."""
    return next(_leaf_ids)


def _itself(node: Node) -> Node:
    return node


class Past(NamedTuple):
    """A value that a storage had, which it does not hold: there as long as `source` is."""

    source: Callable[[], Any]
    read: Callable[[Any], Node]

    def node(self) -> Node | None:
        """What gives the value, if it is still there."""
        source = self.source()
        return None if source is None else self.read(source)


class Storage:
    """The current value of a tensor and its views: a node of some natural (contiguous) shape.

    keeps_graph: a gradient may still be asked through this value, so realizing keeps the expression
    (and REALIZED remembers the result); otherwise the node becomes a plain buffer and history is
    freed. was_freed: there was such a graph, and backward() has used it up. leaf_id: not None where
    a gradient is wanted; the value is then read through a LEAF node, which gives two parameters
    with equal values their identity. companions: values of the same backward pass, computed
    together with this one so that they share its work. version counts in-place changes. serial: a
    storage made later has a larger one. shared: memory outside that has the value too, and may be
    changed there; such a storage is always computed. retaining: tensors that want the gradient of
    this value though they are no leaves. views: those that gradients flow through, by their moves.
    _mark: gives the frame (frames.py) in which the value is
    known, as `_template`, while that is there; _frame: that frame, where it is known there alone.
    _before: the value that was computed last, or that it had at first, if it was written in place
    since.
    """

    __slots__ = ("__weakref__", "_before", "_frame", "_mark", "_node", "_template", "companions",
                 "device", "keeps_graph", "leaf_id", "retaining", "serial", "shared", "version",
                 "views", "was_freed")

    def __init__(self, node: Node, device: str, keeps_graph: bool = False) -> None:
        if node.dtype is dt.float64 and dt.float64 not in executor(device).dtypes:
            raise DTypeError(f"device '{device}' has no float64, which the tensor made at "
                             f"{user_location()} is of; make it of float32, or on another device")
        self._node, self.device, self.keeps_graph = node, device, keeps_graph
        self._frame: Any = None
        self._before: Past | None = None
        self._mark: Callable[[], Any] = UNMARKED
        self._template: Node | None = None
        self.leaf_id: int | None = None
        self.companions: tuple[ReferenceType[Storage], ...] = ()
        self.retaining: tuple[ReferenceType[Any], ...] = ()
        self.shared: SharedMemory | None = None
        self.views: dict[Moves, ReferenceType[Any]] | None = None
        self.was_freed = False
        self.version = 0
        self.serial = next(levels.serials)
        if tracing.active is not None:
            tracing.created(self)

    @property
    def node(self) -> Node:
        """The current value, through its LEAF if a gradient is wanted for it; if its graph is used
        up, no gradient flows through it."""
        if tracing.active is not None:
            tracing.touched(self)
        if self.leaf_id is None:
            return freed(self._node) if self.was_freed else self._node
        self.occupy()
        return make(Op.LEAF, self._node.dtype, (self._node,), self.leaf_id)

    @property
    def value(self) -> Node:
        """The current value without LEAF: what realizing computes."""
        if tracing.active is not None:
            tracing.touched(self)
        return self._node

    @property
    def outline(self) -> Node:
        """What has the value's shape and type, and is a number where it is one."""
        if tracing.active is not None:
            tracing.touched(self)
        return self._node

    @property
    def shape(self) -> Shape:
        """The natural shape."""
        return self.outline.shape

    @property
    def dtype(self) -> DType:
        """The type of the elements."""
        return self.outline.dtype

    @property
    def requires_grad(self) -> bool:
        """Whether results computed from this value require gradients."""
        return self.leaf_id is not None or self.keeps_graph or self.was_freed

    def free_graph(self) -> None:
        """Give up the expression: it is dropped once the value is computed."""
        tracing.touched(self)
        if self.keeps_graph:
            self.end_graph()

    def end_graph(self) -> None:
        """What was computed of values whose graphs are used up: so is its own."""
        self.keeps_graph, self.was_freed = False, True

    def assign(self, node: Node, keeps_graph: bool = False) -> None:
        """Change the value in place: every view sees it, and memory that is shared, for which the
        node must be computed. TransformError for a storage from outside of a function under a
        transform, ArgumentError for shared memory that cannot be written."""
        levels.check_write(self.serial, self.shape)
        if self.shared is not None:
            self.shared.check_writable()
        if tracing.active is not None:
            tracing.touched(self)
        self.replace(node, keeps_graph)
        if self.shared is not None:
            self.shared.write(self._contents())

    def replace(self, node: Node, keeps_graph: bool = False) -> None:
        """`assign` where it is known that there is no trace, no transform and no shared memory."""
        with changing:
            self.note_before()
            self._node, self.keeps_graph, self.was_freed = node, keeps_graph, False
            self._mark, self.companions = UNMARKED, ()
            self.version += 1

    @staticmethod
    def store(computed: Iterable[tuple[Storage, Node]],
              mark: Callable[[], Any] = UNMARKED) -> None:
        """`replace` for several, each by a node that reads memory: as that is computed, there will
        be nothing to undo. mark: what they have until somebody else reads or changes them."""
        with changing:
            for storage, node in computed:
                storage._node, storage.keeps_graph, storage.was_freed = node, False, False
                storage._before, storage._mark, storage.companions = None, mark, ()
                storage.version += 1

    def note_before(self) -> None:
        """Note what the value is before it is written in place, for the case that what is written
        cannot be computed. Of what is pending, that is noted already."""
        node = self._node
        flat = unshaped(node)
        if flat.op is Op.BUFFER and isinstance(flat.arg, Buffer):
            self._before = Past(ref(flat.arg), methodcaller("node", node.shape))
        elif not flat.src:
            self._before = Past(lambda: node, _itself)
        elif self._before is None or self._before.source() is None:
            self._before = Past(ref(node), _itself)

    def share(self, array: Array | None = None) -> bool:
        """Share memory from now on: that of `array`, which has the value, or new memory. False
        where the device is not the host, or there is nothing to share."""
        buffer = self.buffer
        if buffer is None or not buffer.size \
                or not executor(self.device).is_host and buffer.view() is None:
            return False
        self.shared = SharedMemory(buffer.numpy().reshape(self._node.shape) if array is None
                                   else array)
        self._mark = UNMARKED
        return True

    def refresh(self, part: Callable[[Array], Array] | None = None) -> None:
        """Take over what was written to shared memory from outside, if there is any. part: chooses,
        from the flat contents, what is about to be read."""
        tracing.touched(self)  # a trace has a stand-in read, which shares nothing
        shared = self.shared
        if shared is None:
            return
        is_private = shared.is_private
        if not shared.holds(self._contents(), None if is_private else part):
            buffer = Buffer.from_numpy(shared.array, self._node.dtype, self.device)
            node = self._node
            stored = buffer.node(node.shape)
            with changing:
                self._mark = UNMARKED
                if self.keeps_graph:
                    self._node = written_over(node, stored)
                    remember(self.device, self._node, buffer)
                else:
                    self._node = stored
        if is_private:
            self.shared = None

    def _contents(self) -> Array:
        """The computed value as it is stored, in the natural shape."""
        buffer = self.buffer
        values = None if buffer is None else buffer.view()
        assert values is not None, "what is shared is computed, and in the host's memory"
        return values.reshape(self.shape)

    def occupy(self) -> None:
        """Put a number that is everywhere into memory, as what is going to change is: kernels that
        were made for the number would be made again for the next value."""
        before = node = self._node
        while node.op in ops.IDENTITY_OPS and not self.keeps_graph:
            node = node.src[0]
        if node.op is Op.CONST and node.numel and tracing.active is None:
            values = ops.encode(np.full(node.shape, node.value, node.dtype.compute), node.dtype)
            stored = Buffer.from_numpy(values, node.dtype, self.device).node(node.shape)
            with changing:
                if self._node is before:
                    self._node = stored

    def become_leaf(self) -> None:
        """Want a gradient for this value from now on; again by the id that it had, which hooks know
        it by, and graphs that were recorded then."""
        if self.leaf_id is None:
            tracing.touched(self)
            former = _frozen.pop(self, None)
            self.leaf_id = new_leaf_id() if former is None else former

    def cease_to_be_leaf(self) -> None:
        """Want no gradient for this value any more."""
        tracing.touched(self)
        if self.leaf_id is not None:
            _frozen[self] = self.leaf_id
        self.leaf_id = None

    def settle(self, node: Node, buffer: Buffer, reads_memory: bool) -> None:
        """Record that `buffer` holds the value of `node`, which is this one's unless another thread
        has written to it meanwhile.

        reads_memory: whether it was computed from others, and not from constants alone. Plans are
        made of the very nodes of those: what REALIZED has for one would live as long as its plan.
        """
        stored = buffer.node(node.shape)
        if self.keeps_graph or reads_memory:
            remember(self.device, node, buffer)
        with changing:
            if self.__class__ is not Storage or self._node is not node:
                return
            frame = self._mark()
            if frame is not None:
                frame.realized.setdefault(self._template, buffer)
            self._mark = UNMARKED  # there is memory to read, instead of computing it again
            if not self.keeps_graph:
                self._node = stored

    @property
    def buffer(self) -> Buffer | None:
        """The memory that holds the value, or None if it is not computed yet."""
        node = unshaped(self._node)
        if node.op is not Op.BUFFER:
            node = unshaped(REALIZED[self.device].get(self._node, node))
        return node.arg if node.op is Op.BUFFER else None

    @property
    def number(self) -> Scalar | None:
        """The number that each element is known to be without computing; None if it is not."""
        node = self._node
        return node.value if node.op is Op.CONST and self.shared is None else None

    def read(self, moves: Moves = ()) -> Array:
        """The realized value as a fresh array of compute type, in the natural shape; or what moves
        show of it, without a copy of the rest. (Memory that is shared has what others wrote.)"""
        if tracing.active is not None:
            tracing.touched(self)
            tracing.refuse(*READING)
        if self.shared is not None:
            return np.array(ops.decode(moved_array(self.shared.array, moves), self.dtype))
        buffer = self.buffer
        assert buffer is not None, "realize first"
        if not moves:
            values: Array = ops.decode(buffer.numpy(), buffer.dtype)
            return values.reshape(self.shape)
        flat = buffer.view()
        whole = (buffer.numpy() if flat is None else flat).reshape(self.shape)
        return np.array(ops.decode(moved_array(whole, moves), buffer.dtype))
