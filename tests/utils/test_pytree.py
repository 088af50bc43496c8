"""Nested containers as lists of leaves: `utils._pytree`."""
from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from typing import Any, NamedTuple

import pytest
from torch_if_there import torch

import lazyten as lt
from lazyten.utils import _pytree as ours


class Pair(NamedTuple):
    first: Any
    second: Any


class Box:
    def __init__(self, inside: Any) -> None:
        self.inside = inside


TREES = [3, None, [], [1, (2, {"a": 3})], {"b": [1], "a": (None, "x")},
         OrderedDict([("y", 1), ("x", [2])]), Pair([1], 2), deque([1, [2]], 5), {}]


@pytest.mark.torch
@pytest.mark.parametrize("tree", TREES, ids=str)
def test_leaves_and_what_is_built_of_others_are_pytorchs(tree: Any) -> None:
    theirs = torch.utils._pytree
    leaves, spec = ours.tree_flatten(tree)
    expected, other = theirs.tree_flatten(tree)
    assert leaves == expected == ours.tree_leaves(tree)
    assert spec.num_nodes == other.num_nodes
    assert spec.num_leaves == other.num_leaves and spec.is_leaf() == other.is_leaf()
    assert ours.tree_unflatten(leaves, spec) == tree
    again = ours.tree_map(lambda x: (x, x), tree)
    assert again == theirs.tree_map(lambda x: (x, x), tree) and type(again) is type(tree if
                                                                    leaves != [tree] else ())


def test_trees_are_mapped_side_by_side() -> None:
    one, other = {"a": [1, 2], "b": 3}, {"b": 30, "a": [10, 20]}
    assert ours.tree_map(lambda x, y: x + y, one, other) == {"a": [11, 22], "b": 33}
    assert ours.tree_map(lambda x, y: y, [1], [(2, 3)]) == [(2, 3)]  # at a leaf of the first
    with pytest.raises(lt.ArgumentError, match=r"tree_map: list of 3 values where the first tree "
                                               r"has list of 2"):
        ours.tree_map(lambda x, y: x, one, {"a": [1, 2, 3], "b": 3})
    with pytest.raises(lt.ArgumentError, match="tree_unflatten: 1 leaves for a tree of 3"):
        ours.tree_unflatten([1], ours.tree_structure(one))


def test_leaves_are_picked() -> None:
    tree = [1, "a", (2.0, None)]
    assert ours.tree_map_only(int, lambda x: -x, tree) == [-1, "a", (2.0, None)]
    assert ours.tree_map_only(lambda x: x is None, str, tree) == [1, "a", (2.0, "None")]
    assert ours.tree_any(lambda x: x is None, tree) and not ours.tree_all(bool, tree)
    assert ours.tree_all_only((int, float), lambda x: x > 0, tree)
    assert not ours.tree_any_only(str, str.isupper, tree)
    assert ours.tree_leaves(tree, lambda x: isinstance(x, tuple)) == [1, "a", (2.0, None)]
    made = ours.tree_map(str, defaultdict(list, a=1))
    assert made == {"a": "1"} and made["b"] == []


def test_programs_register_classes_of_their_own() -> None:
    assert ours.tree_leaves(box := Box(1)) == [box]
    ours.register_pytree_node(Box, lambda box: ([box.inside], None), lambda v, _: Box(*v))
    try:
        assert ours.tree_map(lambda x: x + 1, [Box(1)])[0].inside == 2
    finally:
        del ours.SUPPORTED_NODES[Box]


def test_a_tree_is_spread_over_a_structure() -> None:
    spec = ours.tree_structure([1, (2, 3)])
    assert ours._broadcast_to_and_flatten(0, spec) == [0, 0, 0]
    assert ours._broadcast_to_and_flatten([0, 1], spec) == [0, 1, 1]
    assert ours._broadcast_to_and_flatten((0, 1), spec) is None
