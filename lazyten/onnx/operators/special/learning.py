"""Operators of ai.onnx.ml: simple ones, and trees."""
from __future__ import annotations

from typing import Any

import numpy as np

import lazyten as lt
from lazyten.onnx.table import operator
from lazyten.onnx.values import Array
from lazyten.support.errors import ArgumentError

T = lt.Tensor
ML = "ai.onnx.ml"


@operator("Binarizer", domain=ML)
def binarizer(x: T, *, threshold: float = 0.0) -> T:
    """1 where x is above a threshold, else 0."""
    return (x > threshold).to(x.dtype)


@operator("Scaler", domain=ML)
def scaler(x: T, *, offset: list[float], scale: list[float]) -> T:
    """(x - offset) * scale, each one number or one a feature."""
    low, factor = (lt.tensor(np.array(v, np.float32), device=x.device) for v in (offset, scale))
    return (x.to(lt.float32) - low) * factor


@operator("Normalizer", domain=ML)
def normalizer(x: T, *, norm: str = "MAX") -> T:
    """Rows divided by their greatest element, their sum of magnitudes or their length, if that is
    not 0."""
    x = x.to(lt.float32)
    found = {"MAX": lambda: x.amax(-1, keepdim=True), "L1": lambda: x.abs().sum(-1, keepdim=True),
             "L2": lambda: (x * x).sum(-1, keepdim=True).sqrt()}.get(norm)
    if found is None:
        raise ArgumentError(f"norm {norm!r}: MAX, L1 and L2 are the ones there are")
    by = found()
    divided: T = x / lt.where(by == 0, 1.0, by)
    return divided


@operator("Imputer", domain=ML)
def imputer(x: T, *, imputed_value_floats: list[float] | None = None,
            imputed_value_int64s: list[int] | None = None, replaced_value_float: float = 0.0,
            replaced_value_int64: int = 0) -> T:
    """x with one value, which stands for a missing one, replaced."""
    new = np.array(imputed_value_floats or imputed_value_int64s or [0])
    values = lt.tensor(new, device=x.device).to(x.dtype)
    if not x.is_floating_point():
        found: T = lt.where(x == replaced_value_int64, values, x)
        return found
    missing = x.isnan() if np.isnan(replaced_value_float) else x == replaced_value_float
    filled: T = lt.where(missing, values, x)
    return filled


@operator("LinearRegressor", domain=ML)
def linear_regressor(x: T, *, coefficients: list[float], intercepts: list[float] | None = None,
                     post_transform: str = "NONE", targets: int = 1) -> T:
    """x times coefficients, plus intercepts."""
    if post_transform != "NONE":
        raise ArgumentError(f"post_transform {post_transform!r}: only NONE is supported")
    weights = np.array(coefficients, np.float32).reshape(targets, -1)
    rows = x[None] if x.ndim == 1 else x
    found = rows.to(lt.float32) @ lt.tensor(weights, device=x.device).mT
    if intercepts:
        found = found + lt.tensor(np.array(intercepts, np.float32), device=x.device)
    return found


@operator("LabelEncoder", domain=ML, since=2, eager=True, host="*")
def label_encoder(x: Array, *, keys_strings: list[str] | None = None,
                  keys_int64s: list[int] | None = None, keys_floats: list[float] | None = None,
                  keys_tensor: Array | None = None, values_strings: list[str] | None = None,
                  values_int64s: list[int] | None = None, values_floats: list[float] | None = None,
                  values_tensor: Array | None = None, default_string: str = "_Unused",
                  default_int64: int = -1, default_float: float = -0.0,
                  default_tensor: Array | None = None, opset: int) -> Array:
    """Keys replaced by values, and what is no key by a default. Before opset 4 NaN is no key."""
    keys = next((k for k in (keys_strings, keys_int64s, keys_floats, keys_tensor)
                 if k is not None), [])
    values: Any = next((v for v in (values_strings, values_int64s, values_floats, values_tensor)
                        if v is not None), [])
    if len(keys) != len(values):
        raise ArgumentError(f"{len(keys)} keys and {len(values)} values")
    if values_tensor is not None:
        dtype, other = values_tensor.dtype, default_tensor.item() if default_tensor is not None \
            else (default_string if values_tensor.dtype == object else -1)
    elif values_strings is not None:
        dtype, other = np.dtype(object), default_string
    else:
        dtype = np.dtype(np.int64 if values_int64s is not None else np.float32)
        other = default_int64 if values_int64s is not None else default_float
    names = [_key(k) for k in keys]
    table = dict(zip(names, values, strict=True))
    if opset < 4:
        table.pop("nan" if keys_strings is None else None, None)
    return np.array([table.get(_key(k), other) for k in x.ravel()], dtype).reshape(x.shape)


def _key(value: Any) -> Any:
    """A value to look up: all NaN are one, texts are texts."""
    if isinstance(value, str | bytes):
        return value
    number = float(np.float32(value)) if isinstance(value, float | np.floating) else int(value)
    return "nan" if number != number else number


MODES = (np.less_equal, np.less, np.greater_equal, np.greater, np.equal, np.not_equal)


@operator("TreeEnsemble", domain=ML, eager=True, host="*")
def tree_ensemble(x: Array, *, aggregate_function: int = 1, leaf_targetids: list[int],
                  leaf_weights: Array, membership_values: Array | None = None,
                  n_targets: int = 1, nodes_falseleafs: list[int], nodes_falsenodeids: list[int],
                  nodes_featureids: list[int], nodes_hitrates: Array | None = None,
                  nodes_missing_value_tracks_true: list[int] | None = None, nodes_modes: Array,
                  nodes_splits: Array, nodes_trueleafs: list[int], nodes_truenodeids: list[int],
                  post_transform: int = 0, tree_roots: list[int]) -> Array:
    """Leaves of decision trees, added up (or their mean, least or greatest) for each target."""
    if post_transform:
        raise ArgumentError("post_transform: only 0 (none) is supported")
    members = _members(nodes_modes, membership_values)
    parts: list[list[list[float]]] = [[[] for _ in range(n_targets)] for _ in x]
    for row, found in zip(x, parts, strict=True):
        for root in tree_roots:
            node, leaf, steps = root, False, 0
            while not leaf:
                steps += 1
                if steps > len(nodes_modes) + 1:
                    raise ArgumentError("a tree whose nodes go in a circle")
                value, mode = row[nodes_featureids[node]], int(nodes_modes[node])
                holds = value in members[node] if mode == 6 else \
                    bool(MODES[mode](value, nodes_splits[node]))
                if np.isnan(value) and nodes_missing_value_tracks_true:
                    holds = bool(nodes_missing_value_tracks_true[node])
                leaf = bool((nodes_trueleafs if holds else nodes_falseleafs)[node])
                node = (nodes_truenodeids if holds else nodes_falsenodeids)[node]
            found[leaf_targetids[node]].append(float(leaf_weights[node]))
    joins: dict[int, Any] = {0: lambda v: sum(v) / len(tree_roots), 1: sum, 2: min, 3: max}
    join = joins.get(aggregate_function)
    if join is None:
        raise ArgumentError(f"aggregate_function {aggregate_function}: 0 to 3 are the ones there "
                            f"are")
    return np.array([[join(v) if v else 0.0 for v in row] for row in parts], x.dtype)


def _members(modes: Array, values: Array | None) -> list[set[float]]:
    """The sets of nodes of mode 6 (member); NaN ends each."""
    left = iter([] if values is None else values.tolist())
    found: list[set[float]] = []
    for mode in modes:
        members: set[float] = set()
        if int(mode) == 6:
            for value in left:
                if np.isnan(value):
                    break
                members.add(value)
        found.append(members)
    return found
