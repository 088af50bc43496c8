"""Messages of TensorBoard's files as bytes: fields of protocol buffers, and records with checksums.

A message is the fields that it has, one after the other, each made by a function here; what they
mean is said where they are put together (event_summaries.py).
"""
from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from functools import cache

import numpy as np

VARINT, EIGHT_BYTES, LENGTH, FOUR_BYTES = 0, 1, 2, 5
"""How a field lies in a message (https://protobuf.dev/programming-guides/encoding)."""
_POLYNOMIAL = 0x82F63B78
"""Of CRC-32C, its bits the other way round (RFC 3720, appendix B.4)."""


def varint(value: int) -> bytes:
    """A whole number of at most 64 bits, 7 in each byte; negative ones as 2**64 more."""
    value &= 2 ** 64 - 1
    parts = bytearray()
    while value > 127:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])


def _field(number: int, kind: int, content: bytes) -> bytes:
    return varint(number << 3 | kind) + content


def whole(number: int, value: int) -> bytes:
    """A field of a whole number, or of a choice."""
    return _field(number, VARINT, varint(value))


def double(number: int, value: float) -> bytes:
    """A field of 64-bit floating point."""
    return _field(number, EIGHT_BYTES, struct.pack("<d", value))


def single(number: int, value: float) -> bytes:
    """A field of 32-bit floating point; what is too large for it is an infinity."""
    with np.errstate(over="ignore"):
        return _field(number, FOUR_BYTES, np.asarray(value, "<f4").tobytes())


def part(number: int, content: bytes | str) -> bytes:
    """A field of text, of bytes or of a message."""
    content = content.encode() if isinstance(content, str) else content
    return _field(number, LENGTH, varint(len(content)) + content)


def numbers(number: int, values: Iterable[float], form: str) -> bytes:
    """A field of many floating-point numbers. form: '<f4' or '<f8'."""
    return part(number, np.asarray(values, form).tobytes())


@cache
def _steps() -> tuple[int, ...]:
    """What each byte makes of the checksum."""
    found = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (_POLYNOMIAL if byte & 1 else 0)
        found.append(byte)
    return tuple(found)


def checksum(content: bytes) -> int:
    """CRC-32C of bytes."""
    steps, found = _steps(), 0xFFFFFFFF
    for byte in content:
        found = found >> 8 ^ steps[(found ^ byte) & 255]
    return found ^ 0xFFFFFFFF


def _masked(content: bytes) -> bytes:
    """The checksum as records have it: turned by 15 bits and moved, so that one of a checksum is
    another."""
    found = checksum(content)
    return struct.pack("<I", ((found >> 15 | found << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def record(message: bytes) -> bytes:
    """A message as a file of records has it: its length and itself, each with a checksum."""
    length = struct.pack("<Q", len(message))
    return length + _masked(length) + message + _masked(message)


def png(pixels: np.ndarray) -> bytes:
    """An image as a PNG file (RFC 2083). pixels: uint8 of shape (height, width, 3)."""
    height, width, _ = pixels.shape

    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content \
            + struct.pack(">I", zlib.crc32(name + content))

    rows = np.zeros((height, 1 + 3 * width), np.uint8)  # each begins with a 0: no filter
    rows[:, 1:] = pixels.reshape(height, 3 * width)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)  # 8 bits, colours
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) \
        + chunk(b"IDAT", zlib.compress(rows.tobytes())) + chunk(b"IEND", b"")
