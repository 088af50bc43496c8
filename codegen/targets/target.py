"""What a device can do: a `Target`.

A runtime has one; the code generator and the optimizer's cost model read it. Tests that compare
generated text name a fixed one, so that they do not depend on the machine.
"""
from __future__ import annotations

from dataclasses import dataclass, field

from lazyten.codegen.targets.dialect import Dialect
from lazyten.codegen.targets.native_half import SOFTWARE, NativeHalves
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType


@dataclass(frozen=True, slots=True)
class Target:
    """What a device can do; the defaults fit a processor without vector unit, of usual caches.

    name: for messages. vector_bytes: width of a vector register. vector_registers: how many there
    are; a register tile that needs more is spilled to memory. l1_bytes, l2_bytes: data caches of a
    core, the first of 64-byte lines in l1_ways ways. threads: whether it has `lazyten_run_chunks`,
    with which a large kernel runs on several threads (see render_llvm), or work items, which take
    the place of threads (see render_c). language: of the text, 'llvm', a key of dialect.DIALECTS or
    a record of its own. most_lanes: of a vector, whatever its elements. work_group: most work items
    of a group, 1 where each is a flow of control of its own. local_memory: bytes that the items of
    a group share, 0 where there is no such memory. warp: items that run in step. busy_warps: so
    many keep the device busy; with fewer it is idle in part. tensor_cores: names of instructions
    that it has, see tensor_cores.py. halves: what it does with 16-bit floats; the others are
    computed in integers and float32. async_copies: whether local memory is filled while work items
    compute. adds_pairs: whether an instruction multiplies integers of 16 bits and adds neighbouring
    products. masked_loads: whether instructions read and write those of neighbouring elements, of 4
    or 8 bytes, that a mask says, and no others. gathers: whether an instruction reads the lanes of
    a vector, of 4 or 8 bytes each, from places of their own in less time than loads of each.
    long_integers: whether instructions multiply vectors of integers of 64 bits, and make floats of
    them and back. fuses: whether an instruction multiplies and adds with one rounding. dtypes:
    element types that kernels may use.
    """

    name: str = "generic"
    vector_bytes: int = 16
    vector_registers: int = 16
    l1_bytes: int = 32 << 10
    l1_ways: int = 8
    l2_bytes: int = 512 << 10
    threads: bool = False
    language: str | Dialect = "llvm"
    most_lanes: int = 64
    work_group: int = 1
    local_memory: int = 0
    warp: int = 32
    busy_warps: int = 2048
    tensor_cores: tuple[str, ...] = ()
    halves: NativeHalves = SOFTWARE
    async_copies: bool = False
    adds_pairs: bool = False
    masked_loads: bool = False
    gathers: bool = False
    long_integers: bool = False
    fuses: bool = False
    dtypes: frozenset[DType] = field(default=frozenset(dt.ALL), repr=False)  # in no fixed order

    @property
    def widest(self) -> int:
        """Most lanes of a vector; for work items in groups, neighbours that one takes."""
        return 4 if self.work_group > 1 else min(self.vector_bytes, self.most_lanes)

    @property
    def label(self) -> str:
        """What files of decisions call it: 'cpu-32x16' for 16 vector registers of 32 bytes."""
        return f"{self.name}-{self.vector_bytes}x{self.vector_registers}"


AVX2 = Target("avx2", 32, 16, threads=True, adds_pairs=True, masked_loads=True,
              fuses=True)
"""x86-64 with AVX2, and threads: what golden tests render for."""
