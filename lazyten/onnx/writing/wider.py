"""Operators on types that the standard, or onnxruntime, does not have them for: in a wider one.

A cast back to integers drops upper bits, so sums and products wrap as they do in their own type.
"""
from __future__ import annotations

from typing import Any

from lazyten.ir.dtype import DType
from lazyten.onnx.writing.writer import TYPES, Writer

SMALL = dict.fromkeys(("bool", "int16", "uint16"), "int32")
SUMS = {**SMALL, "int8": "int32", "uint8": "int32", "uint32": "int64", "uint64": "int64"}
WIDER: dict[str, dict[str, str]] = {
    "Where": {**SMALL, "uint64": "int64"}, "Max": SMALL, "Pad": SMALL, "ReduceSum": SUMS,
    "ReduceProd": SUMS, "ReduceMax": {**SMALL, "uint32": "int64"}, "ScatterElements": SMALL}
"""Which type an operator is written in, for those that it lacks. (ReduceMax of uint64 is there,
though not in onnxruntime: int64 has not all of its numbers.)"""
DATA = {"Where": (1, 2), "Max": (0, 1), "ScatterElements": (0, 2)}
"""Inputs that have the type, of operators where these are others than the first."""


def add(w: Writer, kind: str, dtype: DType, *names: str, **attributes: Any) -> str:
    """A new node on values of a type; the name of its output, which has that type."""
    wide = WIDER[kind].get(dtype.name)
    if wide is None:
        return w.add(kind, *names, **attributes)
    places = DATA.get(kind, (0,))
    given = [w.add("Cast", name, to=TYPES[wide]) if i in places else name
             for i, name in enumerate(names)]
    return w.add("Cast", w.add(kind, *given, **attributes), to=TYPES[dtype.name])
