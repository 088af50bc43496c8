"""What is compiled for processors that this machine is not: LLVM takes the kernels, makes vector
instructions of them, and needs no library."""
from __future__ import annotations

import re

import pytest
from cross_kernels import PROGRAMS, assembly, machine, texts

from lazyten.codegen.targets.generated import Generated
from lazyten.codegen.targets.target import Target
from lazyten.runtimes.cpu.cpu import parse
from lazyten.runtimes.cpu.thread_pool import SYMBOL
from lazyten.runtimes.host.processors import PROCESSORS, Processor, machine_of
from lazyten.support.errors import DeviceError

VECTOR = {"x86-64-v2": r"\t[a-z]+ps\t.*%xmm|\tp[a-z]+\t.*%xmm|\t[a-z]+pd\t.*%xmm|\tmov.*%xmm",
          "x86-64-v3": r"%ymm\d", "x86-64-v4": r"%zmm\d",
          "neon": r"\bv\d+\.(?:4s|2d|8h|16b)", "riscv-v": r"\tv[a-z0-9]+\.v",
          "wasm-simd": r"\t(?:v128|[if](?:8x16|16x8|32x4|64x2))\."}
"""Instructions on whole vectors, as assembly spells them."""
CALL = re.compile(r"^\s+(?:callq|jmp|bl|b|call|tail|jal)\s+([A-Za-z_][\w.]*)", re.MULTILINE)
NARROW = {"reduction", "conv2d", "int64 division", "gather"}
"""Programs that are not written in vectors of the full width for every processor."""
BITS = {"float": 32, "double": 64}


def is_wide(kernel: Generated, target: Target) -> bool:
    """Whether a text computes with vectors as wide as the processor's."""
    found = re.findall(r"= (?:f?add|f?mul|f?sub|load|select|call) .*?<(\d+) x (float|double|i\d+)>",
                       kernel.source)
    return any(int(lanes) * (BITS.get(kind) or int(kind[1:])) >= 8 * target.vector_bytes
               for lanes, kind in found)


@pytest.mark.few(18)
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("name", PROCESSORS)
def test_kernels_become_vector_instructions_of_each_processor(name: str, program: str) -> None:
    try:
        machine(name)
    except DeviceError as error:
        pytest.skip(str(error))
    kernels = texts(program, name)
    wide = [kernel for kernel in kernels if is_wide(kernel, PROCESSORS[name].target)]
    assert wide or program in NARROW
    for kernel in wide:
        assert re.search(VECTOR[name], assembly(kernel, name)), kernel.source
    for kernel in kernels:
        assert machine(name).emit_object(parse(kernel))
        called = set(CALL.findall(assembly(kernel, name)))
        assert called <= {SYMBOL}, "a kernel has no library to call"
        assert (SYMBOL in called) == any(SYMBOL in line for line in kernel.declares)


@pytest.mark.parametrize("name", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("program", ["narrow integers", "convolution of narrow integers"])
def test_products_of_narrow_integers_are_added_in_pairs_by_one_instruction(
        program: str, name: str) -> None:
    kernel, = texts(program, name)
    made = assembly(kernel, name)
    assert "pmaddwd\t" in made and "pmulld\t" not in made


def test_a_processor_that_llvm_does_not_know_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PROCESSORS, "other", Processor(Target(), "pdp11-dec-none", "generic"))
    with pytest.raises(DeviceError, match=r"does not compile for other \(pdp11-dec-none\)"):
        machine_of("other", 1)
