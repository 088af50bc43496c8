"""Intel's OpenCL runtime for processors, as pip installs it: OpenCL's loader is told where it is.

The loader reads files that name drivers' libraries. That of Intel's wheel names a path of the
machine which built it, so a user would have to write another. `shown` does, for the moment in which
the loader looks for drivers; afterwards the environment is as it was. What a user has set, and what
the system has installed, is left alone. Called by devices.py.
"""
from __future__ import annotations

import ctypes
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import metadata
from pathlib import Path

PACKAGE, LIBRARY = "intel-opencl-rt", "libintelocl.so"
NEEDED = {"intel-cmplr-lib-rt": ("libintlc.so.5", "libimf.so", "libirng.so", "libsvml.so"),
          "tbb": ("libtbb.so.12",)}
"""Libraries that the driver's library is linked with, by package, each behind those it needs."""
VARIABLES = ("OCL_ICD_VENDORS", "OCL_ICD_FILENAMES")
"""By which a user tells a loader what to look at."""
VENDORS = (Path("/etc/OpenCL/vendors"), Path(sys.prefix, "etc", "OpenCL", "vendors"))
"""Where loaders look by themselves: all of them, and those of conda's environments."""
INSTALL = "pip install 'lazyten[opencl-intel]'"


class _LoadError(Exception):
    """Why the library cannot be used."""


@contextmanager
def shown() -> Iterator[None]:
    """Let a loader that looks for drivers meanwhile find Intel's, too, if pip installed it."""
    library = _to_show()
    if library is None or _problem(library):
        yield
        return
    with tempfile.TemporaryDirectory(prefix="lazyten-") as folder:
        others = [text for vendors in VENDORS for text in _named(vendors)]
        for i, text in enumerate([*others, f"{library}\n"]):
            Path(folder, f"{i}.icd").write_text(text)
        os.environ[VARIABLES[0]] = folder
        try:
            yield
        finally:
            del os.environ[VARIABLES[0]]


def note() -> str | None:
    """What `python -m lazyten` says about it; None where pip has not installed it."""
    library = installed()
    if library is None:
        return None
    name = f"{PACKAGE} {metadata.version(PACKAGE)}"
    given = _given()
    if given is not None:
        return f"{name} is left to your setting of {given}"
    if _is_known():
        return f"{name} is not used, as the system's drivers have one of Intel for processors"
    return _problem(library) or f"{name} was found at {library}"


@cache
def installed() -> Path | None:
    """The library of the installed package; None if there is none."""
    return _library(PACKAGE, LIBRARY)


def _to_show() -> Path | None:
    """The library, if the loader would not find it, or another, by itself."""
    return None if _given() is not None or _is_known() else installed()


def _given() -> str | None:
    """The variable by which the user has told the loader where to look."""
    return next((name for name in VARIABLES if os.environ.get(name)), None)


def _is_known() -> bool:
    """Whether every loader finds a driver of Intel's for processors by itself."""
    return any(LIBRARY in text for text in _named(VENDORS[0]))


def _named(folder: Path) -> list[str]:
    """What the loader's files in a folder say, but for those of libraries that are not there."""
    found = []
    for path in sorted(folder.glob("*.icd")):
        with suppress(OSError):
            text = path.read_text(errors="replace")
            if not os.path.isabs(text) or os.path.exists(text.strip()):
                found.append(text)
    return found


@cache
def _problem(library: Path) -> str | None:
    """Why the library cannot be used; None if it can. It is loaded, as are those it needs: the
    system's linker looks for these beside it alone, and packages may lie in several folders."""
    try:
        for package, names in NEEDED.items():
            for name in names:
                _load(_library(package, name), f"{name} of the package {package}")
        _load(library, LIBRARY)
    except _LoadError as error:
        return f"{PACKAGE} cannot be used: {error}; {INSTALL} brings all it needs"
    return None


def _load(path: Path | None, name: str) -> None:
    if path is None:
        raise _LoadError(f"there is no {name}")
    try:
        ctypes.CDLL(str(path))
    except OSError as error:
        raise _LoadError(str(error)) from error


def _library(package: str, name: str) -> Path | None:
    """The file of this name that a package has installed."""
    try:
        files = metadata.files(package) or ()
    except metadata.PackageNotFoundError:
        return None
    found = (Path(str(f.locate())).resolve() for f in files if f.name == name)
    return next((path for path in found if path.exists()), None)

