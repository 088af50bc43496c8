"""Texts in parts."""
from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from lazyten.onnx.operators.special.texts import pattern_of
from lazyten.onnx.schemas import MICROSOFT
from lazyten.onnx.table import operator
from lazyten.onnx.values import Array
from lazyten.support.errors import ArgumentError, ShapeError

START, END = "\x02", "\x03"


@operator("Tokenizer", domain=MICROSOFT, gives=1, eager=True, host="*")
def tokenizer(x: Array, *, mark: int = 0, mincharnum: int, pad_value: str,
              separators: list[str] | None = None, tokenexp: str = "") -> Array:
    """The parts of each text along a new axis, filled up: what is between separators, or what an
    expression finds, if it is long enough; or all characters."""
    if x.ndim not in (1, 2):
        raise ShapeError(f"texts of shape {x.shape}: [n] and [m, n] are supported")
    if bool(separators) == bool(tokenexp):
        raise ArgumentError("give separators, or tokenexp")
    split: Callable[[str], list[str]] = \
        list if separators == [""] or tokenexp == "." else \
        _between([pattern_of(s) for s in separators]) if separators else \
        _found(pattern_of(tokenexp))
    rows = [[part for part in split(str(text)) if len(part) >= mincharnum] for text in x.ravel()]
    if mark and any(rows):
        rows = [[START, *row, END] for row in rows]
    width = max(map(len, rows), default=0)
    filled = [row + [pad_value] * (width - len(row)) for row in rows]
    return np.array(filled, object).reshape(*x.shape, width)


def _found(expression: re.Pattern[str]) -> Callable[[str], list[str]]:
    return lambda text: [match.group() for match in expression.finditer(text)]


def _between(separators: list[re.Pattern[str]]) -> Callable[[str], list[str]]:
    def split(text: str) -> list[str]:
        parts = [text]
        for separator in separators:
            parts = [piece for part in parts for piece in _pieces(separator, part)]
        return parts
    return split


def _pieces(separator: re.Pattern[str], text: str) -> list[str]:
    """What is between matches that are not empty."""
    pieces, start = [], 0
    for match in separator.finditer(text):
        if match.group():
            pieces.append(text[start:match.start()])
            start = match.end()
    return [*pieces, text[start:]]
