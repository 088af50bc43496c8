"""Threads for the cpu runtime without a C extension: a pool whose code is LLVM IR.

In: nothing but this machine. Out: `start()`, which makes the symbol `lazyten_run_chunks` known to
every module that is loaded later. Kernels call it with a chunk function, and it returns when all
iterations are done:

    void lazyten_run_chunks(void chunk(ptr args, i64 first, i64 last), ptr args,
                            i64 iterations, i64 grain)

How a launch goes. The launching thread takes the pool (`@owner`); if another has it, or one thread
is asked for, it runs all chunks itself, in order. It writes down the job, opens the gate, and
takes chunks from the counter `@next` as any worker does. It waits for nobody who has not come in:
when the counter has run out it closes the gate, and waits for the workers inside to leave.

`@gate` is one word, so that a late worker can never mix up two launches: bits 33 and up number the
launch, bit 32 says open, bits 16-31 how many workers may come in, bits 0-15 how many are inside. A
worker comes in by compare-and-swap of the word it has seen.

Workers are started by the first launch that can use them. They watch the gate for `SPIN_NS`, then
sleep on a condition variable, until a launch wakes them that takes long enough for it. They block
all signals, are detached, and their code is never freed, so the process may end at any time. A
child of fork() has none and starts anew.
"""
from __future__ import annotations

import ctypes
import os
import platform
import signal
import struct
import time
from collections.abc import Iterable
from functools import cache, partial

import llvmlite.binding as llvm

from lazyten.codegen.targets.generated import Generated
from lazyten.runtimes.cpu import own_code
from lazyten.runtimes.cpu.thread_pool_code import ALONE, DECLARES, POOL
from lazyten.support.threads import COUNT, get_num_threads, usable_cores

SYMBOL = "lazyten_run_chunks"
SPIN_NS = 1_000_000
"""How long an idle worker watches before it sleeps: longer than Python takes between most kernels.
Waking it takes 30-70 us, and the system may wake it on the core of the thread that launches, which
then has to give way to it: so a worker that has nothing left to do of a launch gives way until it
is over, as it would watch on that core otherwise."""
WAKE_NS = 60_000
"""A kernel that took less, and does not follow others for so long, does not wake workers: it would
be over, or wait for them."""
BURST_NS = 200_000
"""Launches that are less apart follow each other."""
MOST_WORKERS = 255
SYSTEM = ("pthread_create", "pthread_detach", "pthread_mutex_init", "pthread_mutex_lock",
          "pthread_mutex_unlock", "pthread_cond_init", "pthread_cond_wait", "pthread_cond_signal",
          "pthread_sigmask", "sigfillset", "sigdelset", "sched_yield", "clock_gettime")
PAUSES = {"x86_64": ("llvm.x86.sse2.pause", "", ""), "amd64": ("llvm.x86.sse2.pause", "", ""),
          "aarch64": ("llvm.aarch64.hint", "i32", "i32 1"),
          "arm64": ("llvm.aarch64.hint", "i32", "i32 1")}
"""The instruction that tells a core it is waiting: its name, what it takes, what it is given."""
FAULTS = ("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT")
"""Signals that workers do not block: they are about what the thread itself did."""


@cache
def start() -> int:
    """Load the pool, once a process, and make `lazyten_run_chunks` known; gives its address.

    No thread starts yet. Raises ArgumentError if LAZYTEN_NUM_THREADS is not a number of threads.
    """
    get_num_threads()
    engine = own_code.load(pool_text())
    address: int = engine.get_function_address(SYMBOL)
    reset = partial(ctypes.CFUNCTYPE(None, ctypes.c_void_p)(engine.get_function_address("reset")),
                    ctypes.addressof(COUNT))
    engine.detach()  # never freed: a worker may be in it until the very end of the process
    reset()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=reset)
    llvm.add_symbol(SYMBOL, address)
    return address


def start_for(kernels: Iterable[Generated]) -> None:
    """Start the pool if one of these kernels is shared: before its machine code is loaded."""
    if any(f"@{SYMBOL}(" in line for kernel in kernels for line in kernel.declares):
        start()


def pool_text() -> str:
    """The pool's module for this system."""
    if not _find_system_functions():
        return ALONE
    name, takes, given = PAUSES.get(platform.machine().lower(), ("", "", ""))
    declares = DECLARES + (f"declare void @{name}({takes})" if name else "")
    numbers = (getattr(signal, fault).value for fault in FAULTS)
    unblock = (f"  %kept{n} = call i32 @sigdelset(ptr %blocked, i32 {n})" for n in numbers)
    return POOL.substitute(
        declares=declares, pause=f"call void @{name}({given})" if name else "",
        unblock="\n".join(unblock), setmask=int(signal.SIG_SETMASK),
        clock_id=time.CLOCK_MONOTONIC, spin_ns=SPIN_NS, wake_ns=WAKE_NS,
        burst_ns=BURST_NS, cores=usable_cores(), most_workers=MOST_WORKERS)


def _find_system_functions() -> bool:
    """Tell LLVM where this process has POSIX threads; False if it has none, or is not 64-bit."""
    if os.name != "posix" or struct.calcsize("P") != 8:
        return False
    process = ctypes.CDLL(None)
    if not all(hasattr(process, name) for name in SYSTEM):
        return False
    for name in SYSTEM:
        llvm.add_symbol(name, ctypes.cast(getattr(process, name), ctypes.c_void_p).value)
    return True
