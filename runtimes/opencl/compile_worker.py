"""Compiles OpenCL programs for another process: `python -m lazyten.runtimes.opencl.compile_worker`.

In: the number of a device, and requests on standard input, each a program's text and options.
Out: what the device is, then an answer to each request: the program's binary and the driver's log,
or why the driver refuses it. It ends when its input does, which is when the process that started
it ends, whatever the driver is doing then; and after a while without requests. compiler.py
starts it, and knows what to do if the driver ends it.
"""
from __future__ import annotations

import os
import signal
import struct
import sys
import warnings
from collections.abc import Sequence
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, BinaryIO

from lazyten.runtimes.opencl.devices import device_of, identity, package
from lazyten.support.disk_cache import pack, unpack

IDLE_SECONDS = 60.0
"""After which it ends, as a compiler takes a few hundred megabytes."""
BUILT, REFUSED = b"built", b"refused"


def main() -> None:
    """Answer requests until there will be none."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is for the one that waits for us
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a driver prints is no answer
    requests: SimpleQueue[list[bytes]] = SimpleQueue()
    Thread(target=_read_all, args=(sys.stdin.buffer, requests), daemon=True).start()
    device = device_of(int(sys.argv[1]))
    context = package().Context([device])
    write(answers, [identity(device).encode()])
    while True:
        try:
            text, *options = [part.decode() for part in requests.get(timeout=IDLE_SECONDS)]
        except Empty:
            os._exit(0)
        write(answers, answer(context, device, text, options))


def answer(context: Any, device: Any, text: str, options: list[str]) -> list[bytes]:
    """BUILT, the binary and the log; or REFUSED and why."""
    cl = package()
    try:
        built = build(cl.Program(context, text), options)
        return [BUILT, binary(built), log(built, device).encode()]
    except cl.Error as error:
        return [REFUSED, str(error).encode()]


def build(program: Any, options: Sequence[str]) -> Any:
    """A program, compiled, without pyopencl's own warnings and cache; raises its errors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", package().CompilerWarning)
        return program.build(options, cache_dir=False)


def binary(program: Any) -> bytes:
    """What the driver made of a program for its one device."""
    return bytes(program.get_info(package().program_info.BINARIES)[0])


def log(program: Any, device: Any) -> str:
    """What the driver's compiler said of a program."""
    said: str = program.get_build_info(device, package().program_build_info.LOG)
    return said


def _read_all(source: BinaryIO, requests: SimpleQueue[list[bytes]]) -> None:
    """Requests from a pipe; the end of the process at its end."""
    while (parts := read(source)) is not None:
        requests.put(parts)
    os._exit(0)


def write(pipe: BinaryIO, parts: list[bytes]) -> None:
    """A request or an answer: the number of its bytes, then they."""
    data = pack(parts)
    pipe.write(struct.pack("<Q", len(data)) + data)
    pipe.flush()


def read(pipe: BinaryIO) -> list[bytes] | None:
    """What was written; None at the end of the pipe."""
    head = pipe.read(8)
    if len(head) < 8:
        return None
    return unpack(pipe.read(*struct.unpack("<Q", head)))


if __name__ == "__main__":
    main()
