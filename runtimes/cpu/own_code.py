"""Machine code of texts that are the runtime's own, and no kernel's: the thread pool, and what goes
through a list of launches.

In: LLVM IR that is the same text in every process on this machine. Out: an engine that has its
functions. The machine code is kept on disk beside that of kernels.
"""
from __future__ import annotations

import llvmlite.binding as llvm

from lazyten.runtimes.code_cache import open_cache
from lazyten.runtimes.host.host import compiler_version, host_machine
from lazyten.support.forking import undivided

OPTIMIZATION = 0
"""The quickest to compile: none of this code runs for long."""


@undivided
def load(text: str) -> llvm.ExecutionEngine:
    """An engine with the functions of a text; the code goes with it."""
    code = open_cache(compiler_version(OPTIMIZATION)).translate_own(text, _compile)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), host_machine(OPTIMIZATION))
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return engine


def _compile(text: str) -> bytes:
    module = llvm.parse_assembly(text)
    module.verify()
    code: bytes = host_machine(OPTIMIZATION).emit_object(module)
    return code
