"""`python -m lazyten`: what is installed; `doctor` tests devices, `cache` shows what is on disk,
`run` runs a program written for PyTorch."""
from __future__ import annotations

import argparse
import platform
import sys
import textwrap
import time
from collections.abc import Sequence
from importlib.metadata import version

from lazyten import __version__
from lazyten.devices.executor import Executor
from lazyten.doctor import problems
from lazyten.ir import dtype as dt
from lazyten.run import run
from lazyten.storage.device import (
    BUILT_IN,
    CONTRACT,
    NEEDS,
    available,
    executor,
    missing,
    outside,
    runtime_class,
)
from lazyten.storage.placement import canonical, default_device
from lazyten.support.disk_cache import DiskCache, default_folder
from lazyten.support.errors import LazytenError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 0 if all is well, 1 if a device is not."""
    parser = argparse.ArgumentParser(prog="python -m lazyten", description=(
        "Without a command: the runtimes, their devices, and what is missing."))
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    doctor = commands.add_parser("doctor", help="test each device, or those named")
    doctor.add_argument("devices", nargs="*", metavar="DEVICE")
    cache = commands.add_parser("cache", help="show the compiled kernels that are kept on disk")
    cache.add_argument("--clear", action="store_true", help="remove them")
    runner = commands.add_parser("run", help="run a script written for PyTorch with lazyten in its "
                                 "place, and list what lazyten lacks")
    runner.add_argument("--profile", action="store_true", help="say where the time went")
    runner.add_argument("-m", dest="is_module", action="store_true",
                        help="SCRIPT is a module's name, as for Python: run -m pytest tests")
    runner.add_argument("script", metavar="SCRIPT")
    runner.add_argument("arguments", nargs=argparse.REMAINDER, metavar="...",
                        help="the script's own arguments")
    given = parser.parse_args(arguments)
    try:
        if given.command == "run":
            run(given.script, given.arguments, given.profile, given.is_module)
            return 0
        if given.command == "cache":
            print(cache_line(given.clear))
            return 0
        if given.command == "doctor":
            return test([canonical(name) for name in given.devices] or every_device())
        print(summary())
    except LazytenError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


# ---- what there is -------------------------------------------------------------------------------

def summary() -> str:
    """What is installed, and what is not."""
    lines = [f"lazyten {__version__}, Python {platform.python_version()}, numpy "
             f"{version('numpy')}, llvmlite {version('llvmlite')}, runtime contract {CONTRACT}",
             f"default device: {default_device()} (DEVICE=NAME chooses another)", ""]
    for kind in dict.fromkeys((*BUILT_IN, *available())):
        lines += runtime_lines(kind)
    return "\n".join([*lines, "", cache_line()])


def runtime_lines(kind: str) -> list[str]:
    """A runtime, its devices, and what each can do; or what it lacks."""
    package = outside(kind)
    title = f"{kind} ({package})" if package else kind
    command = missing(kind)
    if command is not None:
        return [f"{title}: not installed, it needs {NEEDS[kind]}: {command}"]
    try:
        runtime = runtime_class(kind)
        devices, notes = runtime.devices(), runtime.notes()
    except LazytenError as error:
        return [f"{title}: cannot be used", *indented(str(error))]
    can_be_used, described = False, [line for note in notes for line in indented(note)]
    for name, what in zip(names(kind, len(devices)), devices, strict=True):
        try:
            lines = [f"  {name}: {what}", *indented(features(executor(name)), "      ")]
            can_be_used = True
        except LazytenError as error:
            lines = [f"  {name}: {what}: cannot be used", *indented(str(error), "      ")]
        described += lines
    return [f"{title}: {'ready' if can_be_used else 'cannot be used'}", *described]


def features(runtime: Executor) -> str:
    """What a device can do."""
    lacking = [d.name for d in dt.ALL if d not in runtime.dtypes]
    found = {"dtypes": f"all but {', '.join(lacking)}" if lacking else "all", **runtime.features()}
    return "; ".join(f"{name}: {value}" for name, value in found.items())


def names(kind: str, count: int) -> list[str]:
    """The names of a runtime's devices."""
    return [canonical(f"{kind}:{index}") for index in range(count)]


def indented(text: str, by: str = "  ") -> list[str]:
    """A text in lines of 100 columns."""
    return textwrap.wrap(text, 100, initial_indent=by, subsequent_indent=by,
                         break_on_hyphens=False)


# ---- doctor --------------------------------------------------------------------------------------

def every_device() -> list[str]:
    """The devices of all runtimes that are installed; of one that cannot be used, the first."""
    found = []
    for kind in available():
        try:
            found += names(kind, len(runtime_class(kind).devices()))
        except LazytenError:
            found.append(kind)
    return found


def test(devices: Sequence[str]) -> int:
    """Test devices, with a line each; 1 if one is not well."""
    failed = 0
    for name in devices:
        start = time.perf_counter()
        wrong = next(problems(name), None)
        spent = time.perf_counter() - start
        print(f"{name}: well ({spent:.1f} s)" if wrong is None else f"{name}: FAILED\n"
              + "\n".join(indented(wrong)), flush=True)
        failed += wrong is not None
    return 1 if failed else 0


# ---- cache ---------------------------------------------------------------------------------------

def cache_line(clear: bool = False) -> str:
    """The folder of compiled kernels, its entries and bytes, after emptying it if asked."""
    folder = default_folder()
    if folder is None:
        return ("cache: nothing is kept on disk: LAZYTEN_CACHE switches it off, or there is no "
                "home folder")
    cache = DiskCache(folder)
    removed = f"{cache.clear():,} entries removed; " if clear else ""
    entries = cache.entries()
    return (f"cache: {folder}: {removed}{len(entries):,} entries, "
            f"{sum(e.size for e in entries):,} bytes of at most {cache.limit:,}")


if __name__ == "__main__":
    sys.exit(main())
