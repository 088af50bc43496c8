"""Trees and linear models of ai.onnx.ml, as converters of scikit-learn, XGBoost and LightGBM write
them: all rows go down all trees together, as tensors.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

import lazyten as lt
from lazyten.onnx.operators.special.learning import ML
from lazyten.onnx.table import operator
from lazyten.onnx.values import Array
from lazyten.support.errors import ArgumentError

T = lt.Tensor
COMPARISONS: dict[str, Callable[[T, T], T]] = {
    "BRANCH_LEQ": lt.le, "BRANCH_LT": lt.lt, "BRANCH_GTE": lt.ge, "BRANCH_GT": lt.gt,
    "BRANCH_EQ": lt.eq, "BRANCH_NEQ": lt.ne}
AGGREGATES: dict[str, Callable[[T, int], T]] = {
    "SUM": lambda x, n: x.sum(1), "AVERAGE": lambda x, n: x.sum(1) / n}


@dataclass(frozen=True)
class Forest:
    """Nodes of all trees in one list: each with what it compares, and where it leads. A leaf leads
    to itself."""

    roots: Array
    features: Array
    splits: Array
    modes: Sequence[str]
    yes: Array
    no: Array
    missing: Array
    places: dict[tuple[int, int], int]

    def leaves(self, x: T) -> T:
        """The leaf of each tree that each row of x reaches: [rows, trees]."""
        tables = [lt.tensor(t, device=x.device) for t in (
            self.features, self.splits, self.yes, self.no, self.missing)]
        features, splits, yes, no, missing = tables
        modes = lt.tensor(np.array([_MODES.index(m) for m in self.modes]), device=x.device)
        node = lt.tensor(self.roots, device=x.device).expand(x.shape[0], len(self.roots))
        for _ in range(self._depth()):
            value, split = x.gather(1, features[node]), splits[node]
            holds = lt.zeros_like(value, dtype=lt.bool_)
            for number, mode in enumerate(_MODES):
                if mode in COMPARISONS and mode in self.modes:
                    holds = lt.where(modes[node] == number, COMPARISONS[mode](value, split), holds)
            if self.missing.any():
                holds = holds | (value.isnan() & missing[node])
            node = lt.where(holds, yes[node], no[node])
        return node

    def _depth(self) -> int:
        """Steps from the roots to the last leaf. ArgumentError for nodes in a circle."""
        level, depth = np.unique(self.roots), 0
        while (left := level[self.yes[level] != level]).size:
            level = np.unique(np.concatenate([self.yes[left], self.no[left]]))
            depth += 1
            if depth > len(self.yes):
                raise ArgumentError("a tree whose nodes go in a circle")
        return depth


_MODES = (*COMPARISONS, "LEAF")


def _forest(trees: list[int], nodes: list[int], features: list[int], splits: Array,
            modes: list[str], yes: list[int], no: list[int], missing: list[int] | None) -> Forest:
    """The nodes of an ensemble's attributes. ArgumentError for what is no tree."""
    sizes = {len(x) for x in (trees, nodes, features, splits, modes, yes, no)}
    places = {key: i for i, key in enumerate(zip(trees, nodes, strict=False))}
    if len(sizes) != 1 or len(places) != len(trees) or missing and len(missing) != len(trees):
        raise ArgumentError(f"nodes of trees: attributes of lengths {sorted(sizes)}, for "
                            f"{len(places)} nodes that differ")
    if unknown := {*modes} - {*_MODES}:
        raise ArgumentError(f"modes {sorted(unknown)}: {', '.join(_MODES)} are the ones there are")

    def leading(targets: list[int]) -> Array:
        try:
            return np.array([i if modes[i] == "LEAF" else places[trees[i], targets[i]]
                             for i in range(len(trees))], np.int64)
        except KeyError as error:
            raise ArgumentError(f"a node leads to the tree and node {error}, which is not there"
                                ) from None
    first = {tree: i for i, tree in reversed(list(enumerate(trees)))}
    return Forest(np.array(sorted(first.values()), np.int64), np.array(features, np.int64),
                  np.asarray(splits), modes, leading(yes), leading(no),
                  np.array(missing or [0] * len(trees), np.bool_), places)


def _weights(forest: Forest, trees: list[int], nodes: list[int], targets: list[int],
             weights: Array, count: int) -> Array:
    """What each node adds to each target: [nodes, targets]."""
    found = np.zeros((len(forest.yes), count), np.float32)
    for tree, node, target, weight in zip(trees, nodes, targets, weights, strict=True):
        if (tree, node) not in forest.places or not 0 <= target < count:
            raise ArgumentError(f"a weight of node {node} of tree {tree} for {target} of {count}: "
                                f"there is no such place")
        found[forest.places[tree, node], target] += weight
    return found


def _numbers(floats: list[float] | None, wide: Array | None) -> Array:
    """Numbers that are given as floats, or in a tensor."""
    return np.array(floats or [], np.float32) if wide is None else np.asarray(wide)


def _above(scores: T, base: Array) -> T:
    """Scores above those that all rows begin with, if there are any."""
    return scores + lt.tensor(base.astype(np.float32), device=scores.device) if base.size \
        else scores


def transformed(scores: T, name: str) -> T:
    """Scores as probabilities."""
    if name == "NONE":
        return scores
    if name == "LOGISTIC":
        return scores.sigmoid()
    if name == "SOFTMAX":
        return scores.softmax(-1)
    if name == "SOFTMAX_ZERO":
        kept = scores.abs() > 1e-7
        high = scores.amax(-1, keepdim=True)
        powers = lt.where(kept, (scores - high).exp(), 0.0)
        found: T = powers / powers.sum(-1, keepdim=True)
        return found
    raise ArgumentError(f"post_transform {name!r}: NONE, LOGISTIC, SOFTMAX and SOFTMAX_ZERO are "
                        f"supported")


@operator("TreeEnsembleRegressor", domain=ML)
def tree_regressor(x: T, *, nodes_treeids: list[int], nodes_nodeids: list[int],
                   nodes_featureids: list[int], nodes_modes: list[str],
                   nodes_truenodeids: list[int], nodes_falsenodeids: list[int],
                   target_treeids: list[int], target_nodeids: list[int], target_ids: list[int],
                   nodes_values: list[float] | None = None,
                   nodes_values_as_tensor: Array | None = None,
                   nodes_hitrates: list[float] | None = None,
                   nodes_hitrates_as_tensor: Array | None = None,
                   nodes_missing_value_tracks_true: list[int] | None = None,
                   target_weights: list[float] | None = None,
                   target_weights_as_tensor: Array | None = None,
                   base_values: list[float] | None = None,
                   base_values_as_tensor: Array | None = None, aggregate_function: str = "SUM",
                   n_targets: int = 1, post_transform: str = "NONE") -> T:
    """What the leaves that each row reaches add up to, or their mean over the trees."""
    forest = _forest(nodes_treeids, nodes_nodeids, nodes_featureids,
                     _numbers(nodes_values, nodes_values_as_tensor), nodes_modes,
                     nodes_truenodeids, nodes_falsenodeids, nodes_missing_value_tracks_true)
    if aggregate_function not in AGGREGATES:
        raise ArgumentError(f"aggregate_function {aggregate_function!r}: SUM and AVERAGE are "
                            f"supported")
    weights = _weights(forest, target_treeids, target_nodeids, target_ids,
                       _numbers(target_weights, target_weights_as_tensor), n_targets)
    reached = lt.tensor(weights, device=x.device)[forest.leaves(x)]  # [rows, trees, targets]
    found = _above(AGGREGATES[aggregate_function](reached, len(forest.roots)),
                   _numbers(base_values, base_values_as_tensor))
    if n_targets == 1 and post_transform != "NONE":
        raise ArgumentError(f"post_transform {post_transform!r} of one target is not supported: "
                            f"programs do not agree on what it gives")
    return transformed(found, post_transform)


def _labels(chosen: T, ints: list[int] | None, texts: list[str] | None) -> T:
    """Labels that are chosen by number. ArgumentError for a text, which others behind it look up
    where there are several."""
    if texts:
        raise ArgumentError(f"labels {texts}: give two or more")
    return lt.tensor(np.array(ints or [0], np.int64), device=chosen.device)[chosen]


@operator("TreeEnsembleClassifier", domain=ML)
def tree_classifier(x: T, *, nodes_treeids: list[int], nodes_nodeids: list[int],
                    nodes_featureids: list[int], nodes_modes: list[str],
                    nodes_truenodeids: list[int], nodes_falsenodeids: list[int],
                    class_treeids: list[int], class_nodeids: list[int], class_ids: list[int],
                    nodes_values: list[float] | None = None,
                    nodes_values_as_tensor: Array | None = None,
                    nodes_hitrates: list[float] | None = None,
                    nodes_hitrates_as_tensor: Array | None = None,
                    nodes_missing_value_tracks_true: list[int] | None = None,
                    class_weights: list[float] | None = None,
                    class_weights_as_tensor: Array | None = None,
                    base_values: list[float] | None = None,
                    base_values_as_tensor: Array | None = None,
                    classlabels_int64s: list[int] | None = None,
                    classlabels_strings: list[str] | None = None,
                    post_transform: str = "NONE") -> tuple[T, T]:
    """The class with the greatest sum over the leaves that each row reaches; and these sums."""
    forest = _forest(nodes_treeids, nodes_nodeids, nodes_featureids,
                     _numbers(nodes_values, nodes_values_as_tensor), nodes_modes,
                     nodes_truenodeids, nodes_falsenodeids, nodes_missing_value_tracks_true)
    count = len(classlabels_int64s or classlabels_strings or ())
    given = _numbers(class_weights, class_weights_as_tensor)
    weights = _weights(forest, class_treeids, class_nodeids, class_ids, given, count)
    scores = lt.tensor(weights, device=x.device)[forest.leaves(x)].sum(1)
    base = _numbers(base_values, base_values_as_tensor)
    if count == 2 and {*class_ids} <= {0} and base.size <= 1:
        score = scores[:, 0] + (float(base[0]) if base.size else 0.0)
        chosen, found = _of_two(score, bool((given >= 0).all()), post_transform)
        return _labels(chosen, classlabels_int64s, classlabels_strings), found
    if count == 2:
        raise ArgumentError("two classes with weights of their own are not supported: programs do "
                            "not agree on what they give; have weights of one, of number 0")
    scores = _above(scores, base)
    return (_labels(scores.argmax(1), classlabels_int64s, classlabels_strings),
            transformed(scores, post_transform))


def _of_two(score: T, is_share: bool, post_transform: str) -> tuple[T, T]:
    """Which of two classes, and scores of both, by that of the second: a share of 1, or above or
    below 0."""
    if post_transform not in ("NONE", "LOGISTIC"):
        raise ArgumentError(f"post_transform {post_transform!r} of the score of one class: NONE "
                            f"and LOGISTIC are supported")
    chosen = (score > (0.5 if is_share else 0.0)).to(lt.int64)
    if post_transform == "LOGISTIC":
        return chosen, lt.stack([-score, score], 1).sigmoid()
    return chosen, lt.stack([1 - score if is_share else -score, score], 1)


@operator("LinearClassifier", domain=ML)
def linear_classifier(x: T, *, coefficients: list[float], intercepts: list[float] | None = None,
                      classlabels_ints: list[int] | None = None,
                      classlabels_strings: list[str] | None = None, multi_class: int = 0,
                      post_transform: str = "NONE") -> tuple[T, T]:
    """The class with the greatest score, x times coefficients plus intercepts; and the scores."""
    count = len(classlabels_ints or classlabels_strings or ())
    weights = np.array(coefficients, np.float32).reshape(-1, x.shape[-1])
    rows = x[None] if x.ndim == 1 else x
    scores = rows.to(lt.float32) @ lt.tensor(weights, device=x.device).mT
    scores = _above(scores, _numbers(intercepts, None))
    if scores.shape[1] == 1 and count == 2:
        score = scores[:, 0]
        chosen, found = _of_two(score, False, post_transform)
        if post_transform == "NONE":
            found = lt.stack([1 - score, score], 1)
        return _labels(chosen, classlabels_ints, classlabels_strings), found
    return (_labels(scores.argmax(1), classlabels_ints, classlabels_strings),
            transformed(scores, post_transform))
