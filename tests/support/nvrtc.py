"""NVIDIA's run-time compiler through ctypes: CUDA C++ to machine code, without driver or GPU; and
what it took before."""
from __future__ import annotations

import ctypes
import hashlib
import re
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from lazyten.codegen.targets.generated import Generated

TAKEN = Path(__file__).parents[2] / "build" / "nvrtc"
"""A file for each text that the compiler has taken, whatever its numbers."""
COUNTS = ("__shared__", "__launch_bounds__", "asm")
"""Where one of these is, the compiler may take one number and refuse another."""


@cache
def library() -> ctypes.CDLL | None:
    """The library of the package nvidia-cuda-nvrtc; None if it is not installed."""
    spec = find_spec("nvidia")
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        found = sorted(p for p in Path(folder).rglob("libnvrtc.so.*") if "alt" not in p.name)
        if found:
            for part in found[0].parent.glob("libnvrtc-builtins.so.*"):
                ctypes.CDLL(str(part))  # which some versions do not find beside them
            return ctypes.CDLL(str(found[0]))
    return None


def version() -> str:
    """As in 13.1."""
    nvrtc, major, minor = library(), ctypes.c_int(), ctypes.c_int()
    assert nvrtc is not None
    assert nvrtc.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)) == 0
    return f"{major.value}.{minor.value}"


def compile_cuda(source: str, options: Sequence[str]) -> bytes:
    """The machine code of a program. AssertionError with the compiler's log if it is refused."""
    nvrtc = library()
    assert nvrtc is not None
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernels.cu", 0,
                                    None, None) == 0
    given = (ctypes.c_char_p * len(options))(*(o.encode() for o in options))
    failed = nvrtc.nvrtcCompileProgram(program, len(options), given)
    if failed:
        nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetProgramLog(program, log)
        raise AssertionError(log.value.decode())
    assert nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)) == 0
    code = ctypes.create_string_buffer(size.value)
    assert nvrtc.nvrtcGetCUBIN(program, code) == 0
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return code.raw


def taken(text: Generated, options: Sequence[str]) -> Path:
    """The file that is there if the compiler has taken this text, or one with other numbers."""
    source = " ".join("\n".join([*text.declares, text.source]).replace(text.name, "kernel").split())
    if not any(word in text.source for word in COUNTS):
        source = re.sub(r"(?<![\w.])\d+(?=[ul]*\b)(?!\.)", "0", source)
    key = "\n".join([version(), *options, source])
    return TAKEN / hashlib.sha256(key.encode()).hexdigest()[:32]
