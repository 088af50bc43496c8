"""NVRTC, NVIDIA's run-time compiler, through cuda-bindings: CUDA C++ to machine code of a GPU.

It needs neither a GPU nor a driver. The package nvidia-cuda-nvrtc has its library.
"""
from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from lazyten.support.errors import DeviceError

api: Any = None
"""The module cuda.bindings.nvrtc, if it is there."""
try:
    from cuda.bindings import nvrtc as _nvrtc
    api = _nvrtc
except ImportError:
    pass

OPTIONS = ("-fmad=false", "-default-device", "-std=c++17")
"""Floats are not contracted: what may be is written as fma."""
KEEPS_INVERSIONS = 13050
"""The first version whose assembler is not wrong about `x & ~i`, where a branch says that i is a
constant: others take `x & i`, and the same for | and ^ (seen in 12.0 to 13.3)."""
COMPARED = re.compile(r"\bsetp\.(?:eq|ne)\.[bsu]\d+\s+%p\d+, (%\w+),")
INVERTED = re.compile(r"\bnot\.b\d+\s+%\w+, (%\w+);")
WITH_OWN = (90,)
"""Architectures whose own instructions kernels use (wgmma.py): such code runs on no others."""


class RefusedError(Exception):
    """A program that the compiler refuses, with its log."""


def call(name: str, *arguments: Any) -> Any:
    """What a function of NVRTC gives, without its status."""
    status, *values = getattr(api, name)(*arguments)
    if int(status):
        raise RefusedError(api.nvrtcGetErrorString(status)[1].decode())
    return values[0] if len(values) == 1 else tuple(values)


@cache
def version() -> int:
    """As drivers number themselves: 13020 for 13.2. DeviceError if there is no NVRTC."""
    try:
        if api is None:
            raise RuntimeError("cuda-bindings is not installed")
        major, minor = call("nvrtcVersion")
    except RuntimeError as error:
        raise DeviceError("device 'cuda' needs NVIDIA's run-time compiler: install it with pip "
                          f"install 'lazyten[cuda]' ({str(error).splitlines()[0]})") from error
    return 1000 * int(major) + 10 * int(minor)


def architecture_for(device: int, name: str) -> int:
    """What to compile for so that it runs on a GPU of architecture `device`, called `name`.

    Code for 9.0 runs on 9.0 and on what is 9.x, but not on 10.0. DeviceError if NVRTC has nothing.
    """
    version()
    known: list[int] = call("nvrtcGetSupportedArchs")
    fitting = [a for a in known if a // 10 == device // 10 and a <= device]
    if not fitting:
        raise DeviceError(f"device 'cuda': this NVRTC makes no code for {name} (sm_{device}), only "
                          f"for {', '.join(f'sm_{a}' for a in known)}: install another version of "
                          "nvidia-cuda-nvrtc")
    return max(fitting)


def machine_code(source: str, architecture: int) -> bytes:
    """A program as a cubin. RefusedError has the compiler's log."""
    target = f"-arch=sm_{own_name(architecture)}"
    code, text = _compiled(source, [target], "CUBIN", "PTX")
    if version() < KEEPS_INVERSIONS and may_lose_inversions(text.decode()):
        code, = _compiled(source, [target, "--ptxas-options=-O0"], "CUBIN")
    return code


def may_lose_inversions(text: str) -> bool:
    """Whether one of the functions of a PTX text inverts a register that it compares, too."""
    return any(set(COMPARED.findall(body)) & set(INVERTED.findall(body))
               for body in text.split(".entry ")[1:])


def assembly(source: str, architecture: int) -> str:
    """A program as PTX."""
    text, = _compiled(source, [f"-arch=compute_{own_name(architecture)}"], "PTX")
    return text.rstrip(b"\0").decode()


def own_name(architecture: int) -> str:
    """What the compiler calls an architecture with the instructions that only it has: 90a."""
    return f"{architecture}a" if architecture in WITH_OWN else str(architecture)


def _compiled(source: str, more: Sequence[str], *kinds: str) -> list[bytes]:
    """What a program becomes, in each of these forms; `more` options than all have."""
    program = call("nvrtcCreateProgram", source.encode(), b"lazyten.cu", 0, [], [])
    try:
        options = [option.encode() for option in (*OPTIONS, *more)]
        try:
            call("nvrtcCompileProgram", program, len(options), options)
        except RefusedError as error:
            raise RefusedError(_filled("ProgramLog", program).rstrip(b"\0").decode()) from error
        return [_filled(kind, program) for kind in kinds]
    finally:
        call("nvrtcDestroyProgram", program)


def _filled(what: str, program: Any) -> bytes:
    """One of a program's results."""
    result = b" " * int(call(f"nvrtcGet{what}Size", program))
    call(f"nvrtcGet{what}", program, result)
    return result

