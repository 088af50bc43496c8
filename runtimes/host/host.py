"""What this machine is: its processor as LLVM names it, its vector unit and caches, its memory.

Called by the cpu runtime and its memory pool.
"""
from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

import llvmlite
import llvmlite.binding as llvm

from lazyten.codegen.targets.native_half import NativeHalves
from lazyten.codegen.targets.target import Target
from lazyten.runtimes.host.cache_sizes import host_caches
from lazyten.runtimes.host.processors import PROCESSORS
from lazyten.support.errors import DeviceError
from lazyten.support.forking import held_by_forks

BY_FEATURE = {"avx512f": PROCESSORS["x86-64-v4"].target, "avx2": PROCESSORS["x86-64-v3"].target,
              "avx": Target("avx", 32, 16, adds_pairs=True, masked_loads=True),
              "sse2": PROCESSORS["x86-64-v2"].target,
              "neon": PROCESSORS["neon"].target}
"""Vector units by the feature that has them, best first."""

GATHERING = "amx-tile"
"""A feature of all processors, and of few others, whose gathers take less time than loads of each
lane. Those of AMD take twice as long, and Intel's of before are slowed down against attacks."""


def host_features() -> dict[str, bool]:
    """LLVM's features of this processor; none where LLVM cannot find out."""
    try:
        return dict(llvm.get_host_cpu_features())
    except RuntimeError:
        return {}


def target_of(features: dict[str, bool], machine: str) -> Target:
    """The vector unit of a processor with these features; `machine` as platform.machine() says."""
    if machine.lower() in ("aarch64", "arm64"):
        return BY_FEATURE["neon"]  # every one has it, listed or not
    found = next((t for feature, t in BY_FEATURE.items() if features.get(feature)), Target())
    found = replace(found, gathers=bool(features.get(GATHERING)),
                    long_integers=bool(features.get("avx512dq")))
    return replace(found, halves=NativeHalves(("float16",))) if features.get("f16c") else found


def named_target() -> Target | None:
    """The vector unit that LAZYTEN_TARGET names, with usual caches; None if it is the machine's own
    that counts. DeviceError for an unknown name.

    That decides only what generated text looks like, so that texts, and the bits of results, are
    the same on different machines: the device's compiler makes its own instructions of any text, of
    a vector that is too wide several.
    """
    name = os.environ.get("LAZYTEN_TARGET") or "host"
    if name == "host":
        return None
    named = {n: p.target for n, p in PROCESSORS.items()}
    named |= {t.name: t for t in (*BY_FEATURE.values(), Target())}
    if name not in named:
        raise DeviceError(f"LAZYTEN_TARGET={name!r} is not a target; use one of "
                          f"{', '.join(named)}, or host for this machine's own")
    return named[name]


def host_target() -> Target:
    """The vector unit and caches that the cpu's text is made for: this machine's, or named ones."""
    return named_target() or replace(target_of(host_features(), platform.machine()),
                                     **host_caches()._asdict())


@cache
def processor() -> tuple[str, str]:
    """LLVM's name of this processor, and its features as LLVM reads them."""
    flags = (f"{'+' if on else '-'}{name}" for name, on in sorted(host_features().items()))
    return llvm.get_host_cpu_name(), ",".join(flags)


def compiler_version(level: int) -> str:
    """What object code depends on besides the text: LLVM, and what it compiles for."""
    llvm_version = ".".join(map(str, llvm.llvm_version_info))
    return "\n".join([f"LLVM {llvm_version}, llvmlite {llvmlite.__version__}, -O{level}",
                      llvm.get_process_triple(), *processor()])


_llvm_lock = getattr(getattr(llvm.ffi.lib, "_lock", None), "_lock", None)
if _llvm_lock is not None:  # llvmlite frees things under it whenever garbage is collected
    held_by_forks(_llvm_lock)


def host_machine(level: int) -> llvm.TargetMachine:
    """A new LLVM target machine for this processor, which optimizes at `level`, 0 to 3.

    Never give one to two engines: an engine frees the one it has.
    """
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    name, features = processor()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=name, features=features, opt=level, jit=True)


def total_memory() -> int | None:
    """Bytes of memory in this machine; None where the system does not say."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def usable_memory() -> int | None:
    """Bytes of memory that this process has or can have: its own, and what is free in the machine
    and within the limit of its control group. Where the system does not say, `total_memory`."""
    try:
        own = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        lines = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
        free = next(int(line[1]) << 10 for line in lines if line[0] == "MemAvailable:")
    except (OSError, ValueError, IndexError, StopIteration):
        return total_memory()
    return own + max(min([free, *_left_in_groups()]), 0)


def _left_in_groups() -> Iterator[int]:
    """Bytes that are left of the limits of control groups, by Linux's documents on both versions of
    them; files that are cached can be given up."""
    for most, used, cached in (("memory.max", "memory.current", "inactive_file"),
                               ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes",
                                "total_inactive_file")):
        folder = Path("/sys/fs/cgroup")
        with suppress(OSError, ValueError):
            limit, now = (int((folder / name).read_text()) for name in (most, used))
            stat = (folder / most).with_name("memory.stat").read_text().split()
            yield limit - now + int(dict(zip(stat[::2], stat[1::2], strict=False)).get(cached, 0))
