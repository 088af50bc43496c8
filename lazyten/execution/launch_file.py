"""Files of launches: what a kernel was given, to be run again.

A file is a zip archive: `launch.json` (device, decisions, line, versions), `kernel.txt` (what it
computes, kernel_text.py reads it), `source.txt`, and `input0.npy` and so on: the inputs as stored.
Nothing in it is code or pickled. kernel_replay.py runs such a file; realization.py writes one where
launch_dump.py says so. Few programs do either, so it imports this module then.
"""
from __future__ import annotations

import io
import itertools
import json
import os
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from lazyten.devices.program import Program
from lazyten.ir.kernel import Given, Kernel, computation
from lazyten.ir.kernel_text import read_computation
from lazyten.storage.device import executor
from lazyten.support.errors import ArgumentError
from lazyten.support.location import Location
from lazyten.support.paths import write_files

FORMAT = 1
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Launch:
    """A kernel, its inputs as stored, and where it ran: the device, and the target's label."""

    kernel: Kernel
    inputs: tuple[Array, ...]
    device: str
    target: str = ""
    source: str = ""
    versions: dict[str, str] = field(default_factory=dict)


def dump(path: str, device: str, kernel: Kernel, program: Program,
         inputs: Sequence[Array]) -> None:
    """Write a launch to the next free file of a folder."""
    if program.decided():
        kernel = replace(kernel, decisions=Given(program.decided()))
    launch = Launch(kernel, tuple(inputs), device, executor(device).target_label, program.source)
    content = _content(launch)
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
        for number in itertools.count(sum(1 for _ in Path(path).iterdir())):
            file = Path(path) / f"{number:05}_{kernel.name}.zip"
            try:
                file.touch(exist_ok=False)
            except FileExistsError:
                continue
            try:
                file.write_bytes(content)
            except OSError:
                file.unlink()
                raise
            return
    except OSError as error:
        raise ArgumentError(f"dump_kernels: cannot write to {path}: {error.strerror}; give a "
                            f"folder that can be written, in LAZYTEN_DUMP too") from error


def save(launch: Launch, path: str | os.PathLike[str]) -> None:
    """Write a launch to a file."""
    write_files({Path(path): _content(launch)}, "save_launch")


def _content(launch: Launch) -> bytes:
    kernel = launch.kernel
    about = {"format": FORMAT, "name": kernel.name, "device": launch.device,
             "target": launch.target,
             "decisions": None if kernel.decisions is None else kernel.decisions.text,
             "checks": list(kernel.checks),
             "where": None if kernel.where is None else list(kernel.where),
             "versions": launch.versions or versions()}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("launch.json", json.dumps(about, indent=1) + "\n")
        archive.writestr("kernel.txt", computation(kernel) + "\n")
        archive.writestr("source.txt", launch.source)
        for number, values in enumerate(launch.inputs):
            entry = io.BytesIO()
            np.lib.format.write_array(entry, values, allow_pickle=False)
            archive.writestr(f"input{number}.npy", entry.getvalue())
    return out.getvalue()


def versions() -> dict[str, str]:
    """Of what computes: Python, and the packages of this project that are loaded."""
    found = {"python": sys.version.split()[0]}
    for name in ("lazyten", "numpy", "llvmlite", "pyopencl"):
        version = getattr(sys.modules.get(name), "__version__", None)
        if version is not None:
            found[name] = str(version)
    return found


def load(path: str | os.PathLike[str]) -> Launch:
    """The launch that a file holds. ArgumentError if it is not one."""
    try:
        with zipfile.ZipFile(path) as archive:
            about = json.loads(archive.read("launch.json"))
            if about["format"] != FORMAT:
                raise ValueError(f"format {about['format']}, not {FORMAT}")
            outputs, types = read_computation(archive.read("kernel.txt").decode())
            inputs = tuple(_array(archive, number, dtype.numpy, size)
                           for number, (dtype, size) in enumerate(types))
            source = archive.read("source.txt").decode()
        given, where = about["decisions"], about["where"]
        kernel = Kernel(str(about["name"]), outputs, types,
                        None if where is None else Location(str(where[0]), int(where[1])),
                        None if given is None else Given(str(given), f"{path}"),
                        tuple(map(str, about["checks"])))
        return Launch(kernel, inputs, str(about["device"]), str(about["target"]), source,
                      dict(about["versions"]))
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
        raise ArgumentError(f"{os.fspath(path)} is not a launch that lazyten kept: {error}; give a "
                            f"file that dump_kernels wrote") from error


def _array(archive: zipfile.ZipFile, number: int, dtype: np.dtype[Any], size: int) -> Array:
    values: Array = np.lib.format.read_array(io.BytesIO(archive.read(f"input{number}.npy")),
                                             allow_pickle=False)
    if values.dtype != dtype or values.shape != (size,):
        raise ValueError(f"input {number} is {values.dtype}{list(values.shape)}, not "
                         f"{dtype}[{size}]")
    return values
