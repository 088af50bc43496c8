"""Support vector machines of ai.onnx.ml, in NumPy: as C.-C. Chang and C.-J. Lin, LIBSVM: A Library
for Support Vector Machines (2011) has them."""
from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np

from lazyten.onnx.operators.special.learning import ML
from lazyten.onnx.table import operator
from lazyten.onnx.values import Array
from lazyten.support.errors import ArgumentError

LEAST = 1e-7
"""Probabilities are as far from 0 and 1."""


def _kernels(x: Array, vectors: Array, kind: str, params: list[float] | None) -> Array:
    """What a kernel gives for each row of x and each vector."""
    gamma, offset, degree = params or [0.0, 0.0, 0.0]
    if kind == "RBF":
        apart = ((x[:, None] - vectors) ** 2).sum(-1)
        return np.asarray(np.exp(-gamma * apart), np.float32)
    product: Array = x @ vectors.T
    if kind == "LINEAR":
        return product
    if kind == "POLY":
        return np.asarray((gamma * product + offset) ** degree, np.float32)
    if kind == "SIGMOID":
        return np.asarray(np.tanh(gamma * product + offset), np.float32)
    raise ArgumentError(f"kernel_type {kind!r}: LINEAR, POLY, RBF and SIGMOID are the ones there "
                        f"are")


def _rows(x: Array) -> Array:
    return (x[None] if x.ndim == 1 else x).astype(np.float32)


def _matrix(numbers: list[float], rows: int, what: str) -> Array:
    """Numbers as so many rows."""
    if rows <= 0 or not numbers or len(numbers) % rows:
        raise ArgumentError(f"{what}: {len(numbers)} numbers are no {rows} rows of one length")
    return np.array(numbers, np.float32).reshape(rows, -1)


@operator("SVMRegressor", domain=ML, eager=True, host="*")
def svm_regressor(x: Array, *, coefficients: list[float], kernel_params: list[float] | None = None,
                  kernel_type: str = "LINEAR", n_supports: int = 0, one_class: int = 0,
                  post_transform: str = "NONE", rho: list[float],
                  support_vectors: list[float] | None = None) -> Array:
    """Kernels of rows with support vectors, times coefficients, plus rho; of one class whether that
    is above 0: 1 or -1."""
    if post_transform != "NONE":
        raise ArgumentError(f"post_transform {post_transform!r}: only NONE is supported")
    rows = _rows(x)
    factors = np.array(coefficients, np.float32)
    if n_supports > 0:
        vectors = _matrix(support_vectors or [], n_supports, "support_vectors")
        rows = _kernels(rows, vectors, kernel_type, kernel_params)
    found = (rows @ factors + np.float32(rho[0])).astype(np.float32)
    if one_class:
        found = np.where(found > 0, 1, -1).astype(np.float32)
    return found[:, None]


def _of_pairs(kernels: Array, coefficients: Array, counts: list[int], rho: Array) -> Array:
    """For each pair of classes how far a row is on the side of the first: [rows, pairs]."""
    starts = np.cumsum([0, *counts])
    columns = []
    for number, (i, j) in enumerate(combinations(range(len(counts)), 2)):
        first, second = (slice(starts[c], starts[c + 1]) for c in (i, j))
        columns.append(kernels[:, first] @ coefficients[j - 1, first]
                       + kernels[:, second] @ coefficients[i, second] + rho[number])
    return np.stack(columns, 1).astype(np.float32)


def _votes(scores: Array, classes: int) -> Array:
    """How many pairs each class wins."""
    votes = np.zeros((len(scores), classes), np.int64)
    for number, (i, j) in enumerate(combinations(range(classes), 2)):
        votes[:, i] += scores[:, number] > 0
        votes[:, j] += scores[:, number] <= 0
    return votes


def _probabilities(scores: Array, classes: int, a: Array, b: Array) -> Array:
    """Of classes, by those of pairs: the second method of T.-F. Wu, C.-J. Lin and R. C. Weng,
    Probability Estimates for Multi-class Classification by Pairwise Coupling (2004)."""
    wins = 1 / (1 + np.exp(scores.astype(np.float64) * a + b))
    wins = wins.clip(LEAST, 1 - LEAST)
    pairs = np.zeros((len(scores), classes, classes))
    for number, (i, j) in enumerate(combinations(range(classes), 2)):
        pairs[:, i, j], pairs[:, j, i] = wins[:, number], 1 - wins[:, number]
    return np.array([_coupled(row) for row in pairs], np.float32).reshape(len(scores), classes)


def _coupled(pairs: Array) -> Array:
    """Probabilities of classes that agree best with those of pairs."""
    classes = len(pairs)
    q = -pairs * pairs.T
    np.fill_diagonal(q, (pairs.T ** 2).sum(1) - np.diag(pairs) ** 2)
    p = np.full(classes, 1 / classes)
    for _ in range(max(100, classes)):
        towards = q @ p
        mean = p @ towards
        if np.abs(towards - mean).max() < 0.005 / classes:
            break
        for t in range(classes):
            step = (mean - towards[t]) / q[t, t]
            p[t] += step
            mean = (mean + step * (step * q[t, t] + 2 * towards[t])) / (1 + step) ** 2
            towards = (towards + step * q[t]) / (1 + step)
            p /= 1 + step
    return p


def _softmax(scores: Array, kept: Array | bool) -> Array:
    powers = np.where(kept, np.exp(scores - scores.max(1, keepdims=True)), 0)
    return np.asarray(powers / powers.sum(1, keepdims=True), np.float32)


def _transformed(scores: Array, name: str) -> Array:
    """Scores as probabilities."""
    if name == "NONE":
        return scores
    if name == "LOGISTIC":
        return np.asarray(0.5 * np.tanh(0.5 * scores) + 0.5, np.float32)
    if name in ("SOFTMAX", "SOFTMAX_ZERO"):
        return _softmax(scores, name == "SOFTMAX" or np.abs(scores) > LEAST)
    raise ArgumentError(f"post_transform {name!r}: NONE, LOGISTIC, SOFTMAX and SOFTMAX_ZERO are "
                        f"supported")


@operator("SVMClassifier", domain=ML, eager=True, host="*")
def svm_classifier(x: Array, *, classlabels_ints: list[int] | None = None,
                   classlabels_strings: list[str] | None = None, coefficients: list[float],
                   kernel_params: list[float] | None = None, kernel_type: str = "LINEAR",
                   post_transform: str = "NONE", prob_a: list[float] | None = None,
                   prob_b: list[float] | None = None, rho: list[float],
                   support_vectors: list[float] | None = None,
                   vectors_per_class: list[int] | None = None) -> tuple[Array, Array]:
    """The class that wins most pairs, and scores of pairs, or probabilities of classes."""
    labels: list[Any] = [*(classlabels_strings or classlabels_ints or [])]
    counts, rows = vectors_per_class or [], _rows(x)
    if len(labels) < 2 or len(counts) != len(labels):
        raise ArgumentError(f"{len(labels)} labels and vectors of {len(counts)} classes: give two "
                            f"labels or more, and vectors for each")
    vectors = _matrix(support_vectors or [], sum(counts), "support_vectors")
    kernels = _kernels(rows, vectors, kernel_type, kernel_params)
    scores = _of_pairs(kernels, _matrix(coefficients, len(labels) - 1, "coefficients"), counts,
                       np.array(rho, np.float32))
    chosen = _votes(scores, len(labels)).argmax(1)
    if prob_a and prob_b:
        scores = _probabilities(scores, len(labels), np.array(prob_a), np.array(prob_b))
    elif len(labels) == 2:
        kept = post_transform in ("NONE", "LOGISTIC")  # as onnxruntime has one score
        scores = np.concatenate([-scores if kept else 1 - scores, scores], 1)
        post_transform = post_transform if kept else "NONE"
    names = np.array(labels, object if classlabels_strings else np.int64)[chosen]
    return names, _transformed(scores, post_transform)
