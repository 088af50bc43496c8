"""Operators on strings, which live on the host."""
from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from lazyten.onnx.table import operator
from lazyten.onnx.values import Array, check_size
from lazyten.support.errors import ArgumentError, ShapeError


def _map(function: Callable[[str], Any], x: Array, dtype: type) -> Array:
    return np.array([function(str(text)) for text in x.ravel()], dtype).reshape(x.shape)


@operator("StringConcat", eager=True, host="*")
def string_concat(x: Array, y: Array) -> Array:
    """Texts of x, each followed by one of y."""
    return np.asarray(np.add(x.astype(object), y.astype(object)), object)


def pattern_of(pattern: str) -> re.Pattern[str]:
    """A regular expression, whose classes have the letters and digits of ASCII, as in RE2."""
    try:
        return re.compile(pattern, re.ASCII)
    except (re.error, OverflowError) as error:
        raise ArgumentError(f"pattern {pattern!r:.200}: {error}") from error


@operator("RegexFullMatch", eager=True, host="*")
def regex_full_match(x: Array, *, pattern: str) -> Array:
    """Which texts match a pattern as a whole."""
    compiled = pattern_of(pattern)
    return _map(lambda text: compiled.fullmatch(text) is not None, x, bool)


@operator("StringSplit", eager=True, host="*")
def string_split(x: Array, *, delimiter: str | None = None,
                 maxsplit: int | None = None) -> tuple[Array, Array]:
    """The parts of texts, filled up with empty ones, and how many there are."""
    most = -1 if maxsplit is None else maxsplit
    parts = [str(text).split(delimiter or None, most) for text in x.ravel()]
    counts = np.array([len(p) for p in parts], np.int64).reshape(x.shape)
    width = max((len(p) for p in parts), default=0)
    rows = [p + [""] * (width - len(p)) for p in parts]
    return np.array(rows, object).reshape(*x.shape, width), counts


@operator("StringNormalizer", eager=True, host="*")
def string_normalizer(x: Array, *, case_change_action: str = "NONE", is_case_sensitive: int = 0,
                      locale: str = "", stopwords: list[str] | None = None) -> Array:
    """Texts in another case, without stop words; one empty text if none is left."""
    if x.ndim not in (1, 2) or (x.ndim == 2 and x.shape[0] != 1):
        raise ShapeError(f"texts of shape {x.shape}: [n] and [1, n] are supported")
    changes: dict[str, Callable[[str], str]] = {"LOWER": str.lower, "UPPER": str.upper, "NONE": str}
    change = changes.get(case_change_action)
    if change is None:
        raise ArgumentError(f"case_change_action {case_change_action!r}: LOWER, UPPER and NONE are "
                            f"the ones there are")
    fold: Callable[[str], str] = str if is_case_sensitive else str.lower
    stopped = {fold(word) for word in stopwords or []}
    kept = [change(str(text)) for text in x.ravel() if fold(str(text)) not in stopped]
    found = np.array(kept or [""], object)
    return found if x.ndim == 1 else found[None]


@operator("TfIdfVectorizer", eager=True, host="*")
def tf_idf(x: Array, *, max_gram_length: int, max_skip_count: int, min_gram_length: int, mode: str,
           ngram_counts: list[int], ngram_indexes: list[int],
           pool_int64s: list[int] | None = None, pool_strings: list[str] | None = None,
           weights: list[float] | None = None) -> Array:
    """How often each n-gram of a pool is in each row, with up to so many left out between its
    parts."""
    pool = list(pool_strings if pool_strings is not None else pool_int64s or [])
    known: dict[tuple[object, ...], int] = {}
    number = 0
    for n, start in enumerate(ngram_counts, 1):
        end = ngram_counts[n] if n < len(ngram_counts) else len(pool)
        for at in range(start, end, n):
            if min_gram_length <= n <= max_gram_length:
                known[tuple(pool[at:at + n])] = number
            number += 1
    width = max(ngram_indexes) + 1
    rows = x.reshape(-1, x.shape[-1]) if x.ndim > 1 else x[None]
    check_size([len(rows), width], "counts")
    found = np.zeros((len(rows), width), np.float32)
    for row, values in zip(found, rows.tolist(), strict=True):
        for n in range(max(1, min_gram_length), min(max_gram_length, len(values)) + 1):
            for skip in range(min(max_skip_count, len(values)) + 1 if n > 1 else 1):
                for at in range(len(values) - (n - 1) * (skip + 1)):
                    gram = tuple(values[at:at + (n - 1) * (skip + 1) + 1:skip + 1])
                    if gram in known:
                        row[ngram_indexes[known[gram]]] += 1
    factor = np.ones(width, np.float32)
    if weights:
        factor[ngram_indexes] = weights
    if mode not in ("TF", "IDF", "TFIDF"):
        raise ArgumentError(f"mode {mode!r}: TF, IDF and TFIDF are the ones there are")
    found = found * factor if mode == "TFIDF" else (found > 0) * factor if mode == "IDF" else found
    return found.astype(np.float32) if x.ndim > 1 else found[0].astype(np.float32)
