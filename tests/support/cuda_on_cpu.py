"""The device `cuda-on-cpu`: the cuda runtime, whole, where there is no GPU.

NVIDIA's bindings get a driver made for tests (fake_cuda_driver.cpp), and g++ stands in for NVRTC,
with what CUDA C++ adds to C++: a header, cuda_on_cpu.h, and cuda_on_cpu.cpp, which runs the threads
of a block in the order that `run_in_order` sets. That is compiled once, and linked to each program.
This is a pytest plugin, too: `-p cuda_on_cpu` makes the device known to any test run here.
"""
from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nvrtc

from lazyten.storage import device

NAME = "cuda-on-cpu"
ON_GPU = os.environ.get("LAZYTEN_TEST_GPU") == "1"
"""Whether tests are to run on a GPU. A process has one driver, so those that need the other are
skipped."""
HERE = Path(__file__).parent
HEADER = HERE / "cuda_on_cpu.h"
COMPILER = ("g++", "-std=c++20", "-O1", "-fPIC", "-w")
FLAGS = ("-ffp-contract=off", "-fno-math-errno", "-fno-strict-aliasing", "-U_FORTIFY_SOURCE",
         "-fsanitize=alignment")
ARCHITECTURES, HOPPER = ("sm_80", "sm_90"), ("sm_90a",)
"""GPUs that NVRTC compiles for whatever runs on this device; the second has instructions that no
other has, and what has those is for it alone."""
ORDERS = (0, 1, 7)
"""The first thread first, the last first, and a random order: see `run_in_order`."""


def missing() -> str | None:
    """What is not here that this needs."""
    if ON_GPU:
        return "this run is on a GPU, with its own driver"
    if shutil.which("g++") is None:
        return "g++ is not installed"
    try:
        found = find_spec("cuda.bindings")
    except ModuleNotFoundError:
        found = None
    return None if found else "the extra lazyten[cuda] is not installed"


def _built(source: Path, *options: str) -> Path:
    """What g++ makes of a file here, made again when the file or the header changes."""
    text = source.read_bytes() + HEADER.read_bytes() + " ".join(COMPILER + options).encode()
    folder = HERE.parents[1] / "build" / "cuda-on-cpu"
    made = folder / f"{source.stem}-{hashlib.sha256(text).hexdigest()[:16]}{source.suffix}.bin"
    if not made.exists():
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = folder / f"{os.getpid()}-{made.name}"
        subprocess.run([*COMPILER, *options, "-o", unfinished, source], check=True)
        unfinished.replace(made)
    return made


@cache
def header() -> Path:
    """What programs include: a copy of the header beside its compiled form."""
    compiled = _built(HEADER, *FLAGS, "-x", "c++-header")
    folder = compiled.with_suffix(".include")
    folder.mkdir(exist_ok=True)
    for name, source in (("cuda_on_cpu.h", HEADER), ("cuda_on_cpu.h.gch", compiled)):
        if not (folder / name).exists():
            unfinished = folder / f"{os.getpid()}-{name}"
            shutil.copy(source, unfinished)
            unfinished.replace(folder / name)
    return folder / "cuda_on_cpu.h"


@cache
def threads() -> Path:
    """The object code that runs the threads of any program."""
    return _built(HERE / "cuda_on_cpu.cpp", *FLAGS, "-c")


@cache
def driver() -> ctypes.CDLL:
    """The driver for tests; cuda-bindings gets it in place of NVIDIA's."""
    from cuda.bindings._internal import driver as bindings

    nvrtc.library()  # where virtual environments are stacked, the bindings would not find it
    library = ctypes.CDLL(str(_built(HERE / "fake_cuda_driver.cpp", "-shared", "-ldl")))
    library.fake_message.restype = ctypes.c_char_p
    library.fake_used.restype = ctypes.c_uint64
    library.fake_set_memory.argtypes = [ctypes.c_uint64]
    bindings.load_nvidia_dynamic_lib = lambda name: SimpleNamespace(_handle_uint=library._handle)
    return library


def run_in_order(seed: int) -> None:
    """The order of blocks, of threads, and of what may run at once: 0 as numbered, 1 backwards,
    others at random. A GPU has its own."""
    if not ON_GPU:
        driver().fake_set_order(seed)


def shared_library(source: str) -> bytes:
    """A CUDA program as the driver for tests loads it. AssertionError with g++'s log if it is
    refused."""
    names = re.findall(r'extern "C" __global__ void(?: __launch_bounds__\(\d+\))? (\w+)\(', source)
    text = "\n".join([source, *(f"CUDA_ON_CPU_KERNEL({name})" for name in names), ""])
    with tempfile.TemporaryDirectory() as folder:
        path, made = Path(folder, "program.cpp"), Path(folder, "program.so")
        path.write_text(text)
        done = subprocess.run([*COMPILER, *FLAGS, "-shared", "-include", header(), "-o", made,
                               path, "-x", "none", threads()], text=True, capture_output=True)
        assert done.returncode == 0, done.stderr
        return made.read_bytes()


def runtime(index: int = 0) -> Any:
    """The cuda runtime on the driver for tests."""
    driver()
    from lazyten.runtimes.cuda.compiler import OPTIONS, RefusedError
    from lazyten.runtimes.cuda.cuda import CudaRuntime

    class CudaOnCpu(CudaRuntime):
        """Its programs are compiled by g++. NVRTC, if it is here, must take them, too."""

        kind = NAME

        def compile_text(self, source: str) -> bytes:
            try:
                wanted = HOPPER if "wgmma" in source else ARCHITECTURES
                for architecture in wanted if nvrtc.library() is not None else ():
                    nvrtc.compile_cuda(source, [f"-arch={architecture}", *OPTIONS])
                return shared_library(source)
            except AssertionError as error:
                raise RefusedError(str(error)) from error
    return CudaOnCpu(index)


def register() -> None:
    """Let `device=NAME` be this runtime."""
    device.BUILT_IN[NAME] = f"{__name__}:runtime"
    device.NEEDS[NAME] = "cuda"


def pytest_configure() -> None:
    """As a plugin."""
    register()
