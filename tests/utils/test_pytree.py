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


@pytest.mark.torch
@pytest.mark.parametrize("tree", TREES, ids=str)
def test_paths_to_leaves_are_pytorchs(tree: Any) -> None:
    theirs = torch.utils._pytree
    expected = theirs.tree_leaves_with_path(tree)
    found = ours.tree_leaves_with_path(tree)
    assert [(ours.keystr(path), leaf) for path, leaf in found] == \
        [(theirs.keystr(path), leaf) for path, leaf in expected]
    assert all(ours.key_get(tree, path) == leaf for path, leaf in found)
    assert ours.tree_flatten_with_path(tree) == (found, ours.tree_structure(tree))
    assert ours.tree_map_with_path(lambda path, x, y: (ours.keystr(path), y), tree, tree) == \
        theirs.tree_map_with_path(lambda path, x, y: (theirs.keystr(path), y), tree, tree)


def test_paths_go_through_classes_that_are_registered_with_their_keys() -> None:
    class Keyed(Box):
        """One whose keys are known."""

    class Unkeyed(Box):
        """One whose keys are not."""

    ours.register_pytree_node(
        Keyed, lambda box: ([box.inside], None), lambda values, _: Keyed(*values),
        flatten_with_keys_fn=lambda box: ([(ours.GetAttrKey("inside"), box.inside)], None))
    ours.register_pytree_node(Unkeyed, lambda box: ([box.inside], None),
                              lambda values, _: Unkeyed(*values))
    try:
        (path, leaf), = ours.tree_leaves_with_path([Keyed({"a": 5})])[:1]
        assert ours.keystr(path) == "[0].inside['a']" and leaf == 5
        with pytest.raises(lt.ArgumentError, match="Unkeyed was registered without"):
            ours.tree_leaves_with_path(Unkeyed(1))
    finally:
        del ours.SUPPORTED_NODES[Keyed], ours.SUPPORTED_NODES[Unkeyed]
    assert ours.is_namedtuple(Pair) and ours.is_namedtuple(Pair(1, 2))
    assert not ours.is_namedtuple((1,)) and not ours.is_namedtuple(3)
    assert ours.arg_tree_leaves([1, 2], x={"a": 3}) == [1, 2, 3]
    met: list[int] = []
    ours.tree_map_only_(int, met.append, [1, "a"])
    assert met == [1]


def test_steps_to_a_list_and_to_a_dict_are_different_though_their_numbers_are_equal() -> None:
    from lazyten.utils._pytree import MappingKey, SequenceKey
    assert MappingKey(0) == MappingKey(0) != SequenceKey(0)
    assert len({(MappingKey(0),), (SequenceKey(0),), (MappingKey(0),)}) == 2
    assert str(MappingKey("a")) + str(SequenceKey(1)) == "['a'][1]"
