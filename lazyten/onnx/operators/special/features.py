"""Operators of ai.onnx.ml that make features of categories, and maps of scores."""
from __future__ import annotations

from typing import Any

import numpy as np

import lazyten as lt
from lazyten.onnx.operators.special.learning import ML
from lazyten.onnx.table import operator
from lazyten.onnx.values import Array, check_size, describe
from lazyten.support.errors import ArgumentError, ShapeError

T = lt.Tensor


@operator("FeatureVectorizer", domain=ML)
def feature_vectorizer(*inputs: T, inputdimensions: list[int] | None = None) -> T:
    """Columns of all inputs beside each other, of each as many as it says: cut, or 0 behind its
    own."""
    widths = inputdimensions or [x.shape[-1] for x in inputs]
    if len(widths) != len(inputs) or min(widths) < 0:
        raise ArgumentError(f"inputdimensions {widths} for {len(inputs)} inputs: give a size of at "
                            f"least 0 for each")
    parts = []
    for x, width in zip(inputs, widths, strict=True):
        rows = x[None] if x.ndim == 1 else x.flatten(1)
        part = rows[:, :width].to(lt.float32)
        parts.append(lt.nn.functional.pad(part, (0, width - part.shape[1])))
    return lt.cat(parts, 1)


@operator("OneHotEncoder", domain=ML, eager=True, host="*")
def one_hot_encoder(x: Array, *, cats_int64s: list[int] | None = None,
                    cats_strings: list[str] | None = None, zeros: int = 1) -> Array:
    """1 at the place of an element's category, along a new axis, else 0. What is no category has
    zeros, or is an error."""
    categories: list[Any] = [*(cats_strings or cats_int64s or [])]
    if bool(cats_strings) == bool(cats_int64s):
        raise ArgumentError("categories: give cats_int64s, or cats_strings")
    if (x.dtype == object) != bool(cats_strings):
        raise ArgumentError(f"{describe(x)} for categories such as {categories[0]!r:.40}")
    values = x.ravel() if cats_strings else x.ravel().astype(np.int64)
    places = {category: i for i, category in enumerate(categories)}
    found = np.zeros((len(values), len(categories)), np.float32)
    for row, value in zip(found, values.tolist(), strict=True):
        if value in places:
            row[places[value]] = 1
        elif not zeros:
            raise ArgumentError(f"{value!r:.60} is none of the categories {categories!r:.200}, and "
                                f"zeros is 0")
    return found.reshape(*x.shape, len(categories))


@operator("CategoryMapper", domain=ML, eager=True, host="*")
def category_mapper(x: Array, *, cats_int64s: list[int], cats_strings: list[str],
                    default_int64: int = -1, default_string: str = "_Unused") -> Array:
    """Numbers of texts, or texts of numbers."""
    pairs = list(zip(cats_strings, cats_int64s, strict=True))
    if x.dtype == object:
        numbers = dict(pairs)
        return np.array([numbers.get(v, default_int64) for v in x.ravel()],
                        np.int64).reshape(x.shape)
    texts = {number: text for text, number in pairs}
    return np.array([texts.get(v, default_string) for v in x.ravel().tolist()],
                    object).reshape(x.shape)


@operator("LabelEncoder", domain=ML, since=1, eager=True, host="*")
def label_encoder_1(x: Array, *, classes_strings: list[str] | None = None,
                    default_int64: int = -1, default_string: str = "_Unused") -> Array:
    """Places of texts in a list, or texts at places."""
    texts = classes_strings or []
    found: Array = category_mapper(x, cats_int64s=[*range(len(texts))], cats_strings=texts,
                                   default_int64=default_int64, default_string=default_string)
    return found


def _dict_of(x: Any) -> dict[Any, Any]:
    if not isinstance(x, dict):
        raise ArgumentError(f"a map is needed, this is {describe(x)}")
    return x


@operator("DictVectorizer", domain=ML, eager=True, host="*")
def dict_vectorizer(x: Any, *, int64_vocabulary: list[int] | None = None,
                    string_vocabulary: list[str] | None = None) -> Array:
    """One row: what a map has for each key of a vocabulary, and 0, or an empty text, for those that
    it lacks."""
    keys: list[Any] = [*(string_vocabulary or int64_vocabulary or [])]
    if bool(string_vocabulary) == bool(int64_vocabulary):
        raise ArgumentError("keys: give int64_vocabulary, or string_vocabulary")
    found = _dict_of(x)
    values = np.array([*found.values()])
    texts = values.dtype.kind in "UO"
    return np.array([[found.get(key, "" if texts else 0) for key in keys]],
                    object if texts else values.dtype if found else np.float32)


@operator("CastMap", domain=ML, eager=True, host="*")
def cast_map(x: Any, *, cast_to: str = "TO_FLOAT", map_form: str = "DENSE",
             max_map: int = 1) -> Array:
    """One row of a map's values in another type: those of its keys in their order, or, if it is
    SPARSE, each at the place that its key says, of so many, and 0 elsewhere."""
    types: dict[str, type] = {"TO_FLOAT": np.float32, "TO_INT64": np.int64, "TO_STRING": object}
    if cast_to not in types or map_form not in ("DENSE", "SPARSE"):
        raise ArgumentError(f"cast_to {cast_to!r}, map_form {map_form!r}: {', '.join(types)}, and "
                            f"DENSE and SPARSE are there")
    found = _dict_of(x)
    if any(not isinstance(key, int) or key < 0 for key in found):
        raise ArgumentError(f"keys {list(found)!r:.200}: they must be integers of at least 0")
    check_size([max_map], "a row")
    texts, sparse = cast_to == "TO_STRING", map_form == "SPARSE"
    made = {key: (f"{float(v):f}" if texts and not isinstance(v, str) else
                  v if texts else float(v)) for key, v in sorted(found.items())}
    lacking = "0.f" if texts else 0.0  # as onnxruntime has it
    row = [made.get(key, lacking) for key in range(max_map)] if sparse else [*made.values()]
    return np.array([row], object if texts else np.float64).astype(types[cast_to])


@operator("ZipMap", domain=ML, eager=True, host="*")
def zip_map(x: Array, *, classlabels_int64s: list[int] | None = None,
            classlabels_strings: list[str] | None = None) -> list[dict[Any, float]]:
    """For each row a dict of its elements by their labels."""
    labels: list[Any] = [*(classlabels_strings or classlabels_int64s or [])]
    rows = x[None] if x.ndim == 1 else x
    if rows.ndim != 2 or rows.shape[1] != len(labels):
        raise ShapeError(f"{describe(x)} for {len(labels)} labels: give a row of as many for each "
                         f"map")
    return [dict(zip(labels, row, strict=True)) for row in rows.tolist()]
