"""Random numbers that depend on a seed and a counter alone, so the same on every device.

Threefry-2x32 with 20 rounds (J. Salmon and others, "Parallel random numbers: as easy as 1, 2, 3",
2011). A `Generator` hands out counters when a tensor is created, never when it is computed. Key and
counter are kernel inputs, not constants: fresh numbers do not compile anything anew.

Files, in reading order:

- distributions.py: Random numbers of each distribution, from the words that are made here.

A generator hands out positions of a counter-based generator when a tensor is made, and turns them
into random words; distributions.py makes numbers of the words with what has the same bits on
every device: integers, and the `+`, `*`, `/` of portable.py, which has its own log, exp and sine,
as those of the op table differ between a compiled kernel and NumPy.
"""
from __future__ import annotations

import math
import operator
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import numpy as np

from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.ir.node import Node, Shape, cast, const, expand, iota, move, reshape
from lazyten.ir.ops import Op
from lazyten.ir.unknown import unknown
from lazyten.operators.math import elementwise as ew
from lazyten.storage import frames, levels, tracing
from lazyten.storage.levels import Level
from lazyten.storage.placement import Device, has_values
from lazyten.storage.storage import Buffer
from lazyten.support import forking
from lazyten.support.errors import ArgumentError, DTypeError, TransformError
from lazyten.support.location import user_location

Array = np.ndarray[Any, Any]

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA

Words = TypeVar("Words", Node, Array)


def _unforeseen() -> int:
    return int.from_bytes(os.urandom(8), "little")


def states_as(made: Callable[[Array], Any]) -> None:
    """Have the states of generators be what this function makes of their bytes: tensors, which are
    not known here."""
    global _as_tensor
    _as_tensor = made


_as_tensor: Callable[[Array], Any]


class Generator:
    """Where random numbers come from: a 64-bit seed and how many numbers were taken so far, which
    begins again after 2**64."""

    def __init__(self, seed: int | str | None = None, *, device: str | None = None) -> None:
        """The device, which PyTorch takes in the seed's place, changes nothing: numbers are the
        same on all."""
        named = seed if isinstance(seed, str) else device
        self._device = Device("cpu" if named is None else named)
        self._lock = forking.lock()
        self.manual_seed(_unforeseen() if seed is None or isinstance(seed, str) else seed)

    def manual_seed(self, seed: int) -> Generator:
        """Start again from `seed`, any whole number of 64 bits."""
        try:
            number = operator.index(seed)
        except TypeError:
            raise DTypeError(f"manual_seed: a seed is a whole number, not {seed!r:.60}") from None
        if not -(1 << 63) <= number < 1 << 64:
            raise ArgumentError(f"manual_seed({number}): a seed has at most 64 bits; use one below "
                            f"2**64")
        tracing.refuse("making or seeding a generator", "do it outside, before the call")
        with self._lock:
            self._seed, self._taken = number % (1 << 64), 0
        return self

    @property
    def device(self) -> Device:
        """The device that it was made for."""
        return self._device

    def seed(self) -> int:
        """Start again from a number that cannot be foreseen; gives it."""
        return self.manual_seed(_unforeseen()).initial_seed()

    def clone_state(self) -> Generator:
        """Another generator, which goes on as this one does."""
        return _generator(self.counted(), self._device)

    def take(self, count: int) -> tuple[int, int]:
        """The seed, and the first of `count` counters that nobody else gets."""
        tracing.refuse("taking random numbers on the host", "do it outside")
        frames.refuse_values()
        with self._lock:
            first = self._taken
            self._taken = (first + count) % (1 << 64)
            return self._seed, first

    def counted(self) -> tuple[int, int]:
        """The seed, and how many numbers were taken: what `go_on` takes."""
        tracing.refuse("reading a generator's state", "do it outside")
        return self._seed, self._taken

    def go_on(self, seed: int, taken: int) -> None:
        """Go on from where a generator was that had `counted` so."""
        tracing.refuse("setting a generator's state", "do it outside")
        with self._lock:
            self._seed, self._taken = seed, taken

    def get_state(self) -> Any:
        """What `set_state` takes: a tensor (16,) uint8 on the host, of the seed and of how many
        numbers were taken."""
        return _as_tensor(np.array(self.counted(), "<u8").view(np.uint8))

    def set_state(self, new_state: Any) -> None:
        """Go on from a state that `get_state` gave. DTypeError for what is no tensor of uint8;
        ArgumentError for another, such as one of PyTorch's, which has other random numbers."""
        if getattr(new_state, "dtype", None) is not dt.uint8:
            raise DTypeError(f"set_state: {new_state!r:.60} is not a state, which is a tensor of "
                             f"uint8; use what get_state() gave")
        if tuple(new_state.shape) != (16,):
            raise ArgumentError(f"set_state: a state has shape (16,), not {new_state.shape}; use "
                                f"what get_state() gave, of a generator of lazyten's")
        self.go_on(*np.array(new_state.tolist(), np.uint8).view("<u8").tolist())

    def __reduce__(self) -> Any:
        return _generator, (self.counted(), str(self._device))

    def initial_seed(self) -> int:
        """The seed that it started from, below 2**64."""
        return self.counted()[0]


def _generator(state: tuple[int, int], device: str) -> Generator:
    """What a pickle, or a copy, has: a generator in this state."""
    made = Generator(0, device=device)
    made.go_on(*state)
    return made


default_generator = Generator()


def manual_seed(seed: int) -> Generator:
    """Seed the generator that random functions use by default; gives it."""
    return default_generator.manual_seed(seed)


def initial_seed() -> int:
    """The seed of the generator that random functions use by default."""
    return default_generator.initial_seed()


def seed() -> int:
    """Seed the default generator with a number that cannot be foreseen; gives it."""
    return default_generator.seed()


def get_rng_state() -> Any:
    """The state of the default generator, a tensor (16,) uint8: what `set_rng_state` takes."""
    return default_generator.get_state()


def set_rng_state(new_state: Any) -> None:
    """Go on from a state that `get_rng_state` gave."""
    default_generator.set_state(new_state)


@contextmanager
def fork_rng(devices: object = None, enabled: bool = True, device_type: object = None, *,
             generator: Generator | None = None) -> Iterator[None]:
    """What is drawn within this block changes nothing for what is drawn after it: the default
    generator, or another, then goes on from where it was before. devices and device_type change
    nothing, as all devices have one generator."""
    forked = chosen(generator)
    state = forked.counted() if enabled else None
    try:
        yield
    finally:
        if state is not None:
            forked.go_on(*state)


def chosen(generator: Generator | None) -> Generator:
    """The generator that was given, or the default one. DTypeError for anything else."""
    if generator is None:
        return default_generator
    if not isinstance(generator, Generator):
        raise DTypeError(f"generator={generator!r:.60} is not a generator; use "
                         f"lazyten.Generator(seed)")
    return generator


def _words(generator: Generator, count: int, examples: int) -> Array:
    """Key and first counter of `count` numbers, which nobody else gets, for each example."""
    seed, first = generator.take(count * examples)
    starts = [first + count * i for i in range(examples)]
    return np.array([[seed & 0xFFFFFFFF, seed >> 32, n & 0xFFFFFFFF, n >> 32 & 0xFFFFFFFF]
                     for n in starts], np.uint32)


def host_array(make_array: Callable[[int], Array], dtype: DType, size: int, device: str) -> Node:
    """`make_array(examples)`, of shape (examples, size), is made here, at each call of a jitted
    function; under vmap this is the array of one example. None is made where it has no values."""
    if not has_values(device):
        return const(0, dtype, (size,))
    return _drawn(make_array, dtype, size, device, levels.under_way(), 1)


def _drawn(make_array: Callable[[int], Array], dtype: DType, size: int, device: str,
           outer: tuple[Level, ...], examples: int) -> Node:
    """The flat array for `examples` examples, as a function under the levels `outer` sees it."""
    if outer:
        *rest, level = outer
        if level.randomness == "error":
            raise TransformError(f"random numbers are drawn at {user_location()} in a function "
                                 f"under vmap: say randomness='different' if each example shall "
                                 f"have its own, or randomness='same' if all share one draw")
        if level.randomness == "same":
            if level.used == len(level.shared):
                level.shared.append(_drawn(make_array, dtype, size, device, tuple(rest), examples))
            level.used += 1
            return level.shared[level.used - 1]
        count = level.size * examples
        whole = _drawn(make_array, dtype, size, device, tuple(rest), count)
        one, _ = unknown((examples * size,), dtype)
        level.examples[one] = reshape(whole, (level.size, examples * size))
        return one
    make_now = partial(make_array, examples)
    trace = tracing.current()
    if trace is not None:
        return trace.host_input(make_now, dtype, examples * size, device)
    if frames.here.first_serial is not None:
        return frames.drawn(make_now, dtype, examples * size)
    return Buffer.from_numpy(make_now(), dtype, device).node((examples * size,))


def bits(count: int, device: str, generator: Generator | None) -> tuple[Node, Node]:
    """Two independent uint32 arrays of `count` random words."""
    state = host_array(partial(_words, chosen(generator), count), dt.uint32, 4, device)
    low, high = [expand(move(Op.SHRINK, state, ((i, i + 1),)), (count,)) for i in (2, 3)]
    index = cast(iota(count), dt.uint32)
    counter = ew.add(low, index)
    carry = cast(ew.less(counter, low), dt.uint32)
    key = [expand(move(Op.SHRINK, state, ((i, i + 1),)), (count,)) for i in (0, 1)]
    return threefry(key[0], key[1], counter, ew.add(high, carry))


def threefry(key0: Node, key1: Node, x0: Node, x1: Node) -> tuple[Node, Node]:
    """Threefry-2x32-20 of uint32 arrays: two random words for each key and counter."""
    return _rounds(key0, key1, x0, x1, ew.add, ew.bitwise_xor, _rotated)


def _rounds(key0: Words, key1: Words, x0: Words, x1: Words, add: Callable[[Words, Any], Words],
            xor: Callable[[Words, Any], Words],
            rotated: Callable[[Words, int], Words]) -> tuple[Words, Words]:
    keys = (key0, key1, xor(xor(key0, key1), _PARITY))
    x0, x1 = add(x0, keys[0]), add(x1, keys[1])
    for block in range(5):
        for rotation in _ROTATIONS[block % 2]:
            x0 = add(x0, x1)
            x1 = xor(rotated(x1, rotation), x0)
        x0 = add(x0, keys[(block + 1) % 3])
        x1 = add(add(x1, keys[(block + 2) % 3]), block + 1)
    return x0, x1


def _rotated(x: Node, by: int) -> Node:
    return ew.bitwise_or(ew.shift_left(x, by), ew.shift_right(x, 32 - by))


def host_words(count: int, generator: Generator | None = None) -> tuple[Array, Array]:
    """What `bits` gives, worked out by NumPy: for few numbers that is quicker than to compile a
    kernel for their shape."""
    seed, first = chosen(generator).take(count)
    counters = np.arange(count, dtype=np.uint64) + np.uint64(first)
    low, high = counters.astype(np.uint32), (counters >> 32).astype(np.uint32)
    key0, key1 = np.array([[seed & 0xFFFFFFFF], [seed >> 32]], np.uint32)
    return _rounds(key0, key1, low, high, np.add, np.bitwise_xor,
                   lambda x, by: x << by | x >> 32 - by)


def host_uniform(count: int, generator: Generator | None = None) -> Array:
    """What `uniform` gives as float32, flat, worked out by NumPy."""
    words, _ = host_words(count, generator)
    return (words >> 8).astype(np.float32) * np.float32(2.0**-24)


def uniform(shape: Shape, dtype: DType, device: str, generator: Generator | None = None) -> Node:
    """Evenly spread over [0, 1), in steps of 2**-24 (float64: 2**-53; halves: 2**-11, 2**-8)."""
    first, second = bits(math.prod(shape), device, generator)
    return reshape(unit(first, second, dtype), shape)


def unit(first: Node, second: Node, dtype: DType) -> Node:
    """The number in [0, 1) that two uint32 words stand for; float64 alone needs the second."""
    if dtype is dt.float64:
        low = ew.mul(cast(ew.shift_right(second, 6), dtype), 2.0**-53)
        return ew.add(ew.mul(cast(ew.shift_right(first, 5), dtype), 2.0**-27), low)
    kept = {dt.float16: 11, dt.bfloat16: 8}.get(dtype, 24)
    wide = cast(ew.shift_right(first, 32 - kept), dt.float32)
    return cast(ew.mul(wide, 2.0**-kept), dtype)
