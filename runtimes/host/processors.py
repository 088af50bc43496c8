"""Kinds of processors: what kernels are written for, and what LLVM calls them.

LAZYTEN_TARGET names a row (host.py), for which texts are then written. `machine_of` compiles for
one, on any machine: LLVM needs no processor of the kind that it compiles for.
"""
from __future__ import annotations

from dataclasses import dataclass

import llvmlite.binding as llvm

from lazyten.codegen.targets.target import Target
from lazyten.support.errors import DeviceError


@dataclass(frozen=True, slots=True)
class Processor:
    """A vector unit, and how LLVM is asked for it: triple, name of the processor, features."""

    target: Target
    triple: str
    cpu: str
    features: str = ""


PROCESSORS = {
    "x86-64-v2": Processor(Target("sse", 16, 16, adds_pairs=True), "x86_64-unknown-linux-gnu",
                           "x86-64-v2"),
    "x86-64-v3": Processor(Target("avx2", 32, 16, adds_pairs=True, masked_loads=True,
                                  fuses=True),
                           "x86_64-unknown-linux-gnu", "x86-64-v3"),
    "x86-64-v4": Processor(Target("avx512", 64, 32, adds_pairs=True, masked_loads=True,
                                  long_integers=True, fuses=True),
                           "x86_64-unknown-linux-gnu", "x86-64-v4"),
    "neon": Processor(Target("neon", 16, 32, fuses=True), "aarch64-unknown-linux-gnu", "generic"),
    "riscv-v": Processor(Target("riscv-v", 16, 32, fuses=True), "riscv64-unknown-linux-gnu",
                         "generic-rv64", "+m,+a,+f,+d,+c,+v"),
    "wasm-simd": Processor(Target("wasm-simd", 16, 16), "wasm32-unknown-unknown", "generic",
                           "+simd128"),
}
"""By the names that LAZYTEN_TARGET takes, those of compilers where these have one. RISC-V vectors
are those of 128 bits that each such processor has; WebAssembly leaves registers to who runs it."""


def machine_of(name: str, level: int) -> llvm.TargetMachine:
    """LLVM's machine for a row of PROCESSORS, which optimizes at `level`, 0 to 3.

    DeviceError if this build of LLVM does not compile for it.
    """
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    processor = PROCESSORS[name]
    try:
        found = llvm.Target.from_triple(processor.triple)
    except RuntimeError as error:
        raise DeviceError(f"this build of LLVM does not compile for {name} "
                          f"({processor.triple}): {error}") from error
    return found.create_target_machine(cpu=processor.cpu, features=processor.features, opt=level,
                                       codemodel="default")
