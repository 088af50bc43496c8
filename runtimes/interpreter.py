"""The NumPy interpreter: a runtime that evaluates kernels with the op table's own meanings.

Slow and simple on purpose. It shares no code with the compiled runtimes below the GRAPH level, so
it is the oracle that all of them are tested against.
"""
from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from threading import RLock
from typing import Any

import numpy as np

from lazyten import ops
from lazyten.device import Executor, MemoryStats, Program
from lazyten.dtype import DType
from lazyten.errors import DeviceError
from lazyten.kernel import Kernel
from lazyten.node import Node, dump, toposort
from lazyten.ops import ELEMENTWISE, IDENTITY_OPS, Op

Array = np.ndarray[Any, Any]

_REDUCE = {Op.ADD: np.add, Op.MUL: np.multiply, Op.MAX: np.maximum}


def shear(x: Array, arg: tuple[int, int, int, int, int]) -> Array:
    """SHEAR by an explicit index array (see movement.py)."""
    axis, by, factor, offset, size = arg
    i = np.arange(size).reshape([-1 if a == axis else 1 for a in range(x.ndim)])
    k = np.arange(x.shape[by]).reshape([-1 if a == by else 1 for a in range(x.ndim)])
    shape = [size if a == axis else n for a, n in enumerate(x.shape)]
    grid = [np.arange(n).reshape([-1 if b == a else 1 for b in range(x.ndim)])
            for a, n in enumerate(shape)]
    grid[axis] = i + factor * k + offset
    return x[tuple(grid)] if 0 not in shape else np.zeros(shape, x.dtype)


def move(op: Op, x: Array, arg: Any) -> Array:
    """One movement op on an array."""
    if op is Op.RESHAPE:
        return x.reshape(arg)
    if op is Op.PERMUTE:
        return x.transpose(arg)
    if op is Op.EXPAND:
        return np.broadcast_to(x, arg)
    if op is Op.PAD:
        return np.pad(x, arg) if arg else x
    if op is Op.SHRINK:
        return x[tuple(slice(s, e) for s, e in arg)]
    if op is Op.FLIP:
        return np.flip(x, arg)
    return shear(x, arg)


def reduce(node: Node, x: Array) -> Array:
    """REDUCE; 16-bit floats are combined in float32 and rounded once at the end."""
    combiner, axes = node.arg
    function = np.logical_or if x.dtype == np.bool_ else _REDUCE[combiner]
    with np.errstate(all="ignore"):
        combined = function.reduce(x, axis=axes, keepdims=True, dtype=x.dtype)
    rounded: Array = ops.round_to(combined, node.dtype)
    return rounded


def gather(x: Array, axis: int, positions: Array) -> Array:
    """GATHER: 0 for a position outside."""
    n = x.shape[axis]
    if not n:
        return np.zeros(positions.shape, x.dtype)
    inside = (positions >= 0) & (positions < n)
    safe = np.where(inside, positions, 0).astype(np.int64)
    return np.where(inside, np.take_along_axis(x, safe, axis), np.zeros((), x.dtype))


_UPDATE: dict[Op, np.ufunc] = {Op.ADD: np.add, Op.MUL: np.multiply, Op.MAX: np.maximum}


def scatter(base: Array, axis: int, combiner: Op | None, positions: Array, values: Array) -> Array:
    """SCATTER, one value after the other."""
    result = np.array(base)
    inside = (positions >= 0) & (positions < base.shape[axis])
    where = list(np.nonzero(inside))
    where[axis] = positions[inside].astype(np.int64)
    with np.errstate(all="ignore"):
        if combiner is None:
            result[tuple(where)] = values[inside]
        else:
            _UPDATE[combiner].at(result, tuple(where), values[inside])
    return result


def evaluate(outputs: Sequence[Node], leaves: dict[int, Array]) -> list[Array]:
    """Values of GRAPH nodes, as compute-type arrays, given those of the BUFFER slots."""
    values: dict[Node, Array] = {}
    for node in toposort(outputs):
        args = [values[s] for s in node.src]
        if node.op is Op.BUFFER:
            value = ops.decode(leaves[node.arg.slot], node.dtype)
        elif node.op is Op.CONST:
            scalar = ops.round_to(np.asarray(node.value, node.dtype.compute), node.dtype)
            value = np.broadcast_to(scalar, node.shape)
        elif node.op is Op.IOTA:
            value = np.arange(node.arg).astype(node.dtype.compute)
        elif node.op in ELEMENTWISE:
            value = np.asarray(ops.evaluate(node.op, node.dtype, args, [s.dtype for s in node.src]))
        elif node.op is Op.REDUCE:
            value = reduce(node, args[0])
        elif node.op is Op.GATHER:
            value = gather(args[0], node.arg, args[1])
        elif node.op is Op.SCATTER:
            value = scatter(args[0], *node.arg, *args[1:])
        elif node.op in IDENTITY_OPS or node.op in (Op.CONTIGUOUS, Op.COPY):
            value = args[0]
        else:
            value = move(node.op, args[0], node.arg)
        values[node] = value
    return [values[o] for o in outputs]


def _elements(memory: Array, dtype: DType, size: int) -> Array:
    """The elements of an argument; those past the end of its memory, which starts later than it
    might, are not used."""
    here = memory[:size * dtype.itemsize]
    missing = size * dtype.itemsize - here.nbytes
    whole = np.concatenate([here, np.zeros(missing, np.uint8)]) if missing else here
    return whole.view(dtype.numpy)


class InterpretedProgram(Program):
    """A kernel that is evaluated anew at each launch."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel, self.name = kernel, kernel.name
        self.source = dump(kernel.outputs)

    def launch(self, buffers: Sequence[Array]) -> None:
        outputs = self.kernel.outputs
        slots = len(outputs)
        leaves = {slots + i: _elements(buffers[slots + i], dtype, size)
                  for i, (dtype, size) in enumerate(self.kernel.inputs)}
        for buffer, node, value in zip(buffers, outputs, evaluate(outputs, leaves), strict=False):
            stored = ops.encode(value, node.dtype).reshape(-1)
            buffer[:stored.nbytes] = stored.view(np.uint8)


class InterpreterRuntime(Executor):
    """Device 'interpreter': memory is NumPy byte arrays, counted and never kept for reuse."""

    has_offsets = True

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self._lock = RLock()
        self._freed: deque[int] = deque()  # sizes that `free`, which must not wait, noted
        self._in_use = self._peak = 0

    def alloc(self, nbytes: int) -> Array:
        try:
            memory = np.empty(nbytes, np.uint8)
        except (MemoryError, ValueError) as error:  # ValueError: more than an address can say
            raise DeviceError(f"interpreter: cannot allocate {nbytes:,} bytes, more than this "
                              f"machine has; free some tensors, or work on smaller "
                              f"pieces") from error

        with self._lock:
            self._count_freed()
            self._in_use += nbytes
            self._peak = max(self._peak, self._in_use)
        return memory

    def free(self, handle: Array) -> None:
        self._freed.append(handle.nbytes)

    def _count_freed(self) -> None:
        while self._freed:
            self._in_use -= self._freed.popleft()

    def memory_stats(self) -> MemoryStats:
        with self._lock:
            self._count_freed()
            return MemoryStats(self._in_use, 0, self._peak)

    def reset_peak(self, at_least: int = 0) -> None:
        with self._lock:
            self._count_freed()
            self._peak = max(self._in_use, at_least)

    def copy_in(self, handle: Array, source: Array) -> None:
        handle[:source.nbytes] = source.reshape(-1).view(np.uint8)

    def copy_out(self, target: Array, handle: Array) -> None:
        target.reshape(-1).view(np.uint8)[:] = handle[:target.nbytes]

    def view(self, handle: Array, nbytes: int) -> Array:
        return handle[:nbytes]

    def later(self, handle: Array, nbytes: int) -> Array:
        return handle[nbytes:]

    def build(self, kernels: Sequence[Kernel]) -> list[Program]:
        return [InterpretedProgram(kernel) for kernel in kernels]

    def synchronize(self) -> None:
        pass
