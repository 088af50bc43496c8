"""The sizes of this machine's data caches, as the system tells them.

In: nothing. Out: a `Caches`, from Linux's sysfs or macOS's sysctl, with the sizes of a `Target` for
what neither tells. host.py asks. Where cores differ, the smallest sizes count: a thread may run
anywhere, and kernels must not depend on where it does.
"""
from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from lazyten.codegen.targets.target import Target

SYSFS = Path("/sys/devices/system/cpu")
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class Caches(NamedTuple):
    """The first data cache of a core and its ways, and a core's part of the second cache."""

    l1_bytes: int = Target().l1_bytes
    l1_ways: int = Target().l1_ways
    l2_bytes: int = Target().l2_bytes


@cache
def host_caches() -> Caches:
    """This machine's."""
    return from_sysctl(_sysctl()) if sys.platform == "darwin" else from_sysfs(SYSFS)


def from_sysfs(folder: Path) -> Caches:
    """What Linux says of the first and the last processor: where cores differ, these do."""
    numbers = sorted(int(p.name[3:]) for p in folder.glob("cpu[0-9]*")
                     if p.name[3:].isdigit() and (p / "cache").is_dir())
    return _smallest([_of_processor(folder / f"cpu{n}") for n in {*numbers[:1], *numbers[-1:]}])


def _of_processor(folder: Path) -> Caches:
    caches = Caches()
    threads = _count(_text(folder / "topology/thread_siblings_list"))
    for entry in sorted(folder.glob("cache/index*")):
        size, level = _size(_text(entry / "size")), _text(entry / "level")
        if not size or _text(entry / "type") not in ("Data", "Unified"):
            continue
        ways = _text(entry / "ways_of_associativity")
        if level == "1":
            caches = caches._replace(l1_bytes=size)
            if ways.isdigit() and int(ways):
                caches = caches._replace(l1_ways=int(ways))
        elif level == "2":
            cores = max(_count(_text(entry / "shared_cpu_list")) // threads, 1)
            caches = caches._replace(l2_bytes=size // cores)
    return caches


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _size(text: str) -> int:
    """'512K' in bytes; 0 if it is not such a text."""
    number, unit = text[:-1], UNITS.get(text[-1:], 0)
    return int(number) * unit if number.isdigit() else 0


def _count(processors: str) -> int:
    """How many processors a list such as '0-3,8' has; 1 if it is not such a list."""
    total = 0
    for part in processors.split(","):
        first, _, last = part.partition("-")
        if not first.isdigit() or last and not last.isdigit():
            return 1
        total += int(last or first) - int(first) + 1
    return max(total, 1)


def from_sysctl(ask: Callable[[str], int]) -> Caches:
    """What macOS says of each kind of core; `ask` gives a number by name, 0 if there is none."""
    kinds = [f"hw.perflevel{n}." for n in range(ask("hw.nperflevels"))] or ["hw."]
    found = []
    for kind in kinds:
        caches = Caches()
        first, second = ask(f"{kind}l1dcachesize"), ask(f"{kind}l2cachesize")
        if first:
            caches = caches._replace(l1_bytes=first)
        if second:
            caches = caches._replace(l2_bytes=second // max(ask(f"{kind}cpusperl2"), 1))
        found.append(caches)
    return _smallest(found)


def _sysctl() -> Callable[[str], int]:
    import ctypes.util  # which loads the modules that start processes
    call = ctypes.CDLL(ctypes.util.find_library("c")).sysctlbyname

    def ask(name: str) -> int:
        value, size = ctypes.c_int64(0), ctypes.c_size_t(8)
        failed = call(name.encode(), ctypes.byref(value), ctypes.byref(size), None,
                      ctypes.c_size_t(0))
        return 0 if failed else value.value
    return ask


def _smallest(found: list[Caches]) -> Caches:
    """The smallest first cache, with its ways, and the smallest second one."""
    if not found:
        return Caches()
    first = min(found)
    return first._replace(l2_bytes=min(c.l2_bytes for c in found))
