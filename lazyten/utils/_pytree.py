"""Nested containers as lists of leaves, under the names that programs use of PyTorch's.

In: lists, tuples, named tuples, dicts, OrderedDicts, defaultdicts, deques, and classes that are
registered here, nested in one another. Out: their leaves in order, and a `TreeSpec` that builds the
same containers of other leaves. None is a leaf.
"""
from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lazyten.support.errors import ArgumentError

PyTree = Any
IsLeaf = Callable[[Any], bool] | None


class Container(NamedTuple):
    """How a class is taken apart, into values and what else there is to it, and put together;
    keys_of: the steps of paths to the values of one, None where a class has none."""

    flatten_fn: Callable[[Any], tuple[list[Any], Any]]
    unflatten_fn: Callable[[Iterable[Any], Any], Any]
    keys_of: Callable[[Any], list[Any]] | None = None


class _ItemKey:
    """A step of a path in a tree to what square brackets give: of one field, that in them."""

    @property
    def _inside(self) -> Any:
        (inside,) = vars(self).values()
        return inside

    def __str__(self) -> str:
        return f"[{self._inside!r}]"

    def get(self, container: Any) -> Any:
        """The value."""
        return container[self._inside]


@dataclass(frozen=True)
class MappingKey(_ItemKey):
    """A step to the value of a dict's key."""

    key: Any


@dataclass(frozen=True)
class SequenceKey(_ItemKey):
    """A step to a value of a list, tuple or deque, by its place."""

    idx: int


@dataclass(frozen=True)
class GetAttrKey:
    """A step to an attribute, such as a named tuple's."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, owner: Any) -> Any:
        """The value."""
        return getattr(owner, self.name)


KeyEntry = MappingKey | SequenceKey | GetAttrKey | Any
KeyPath = tuple[KeyEntry, ...]


def _places(sequence: Any) -> list[Any]:
    return list(map(SequenceKey, range(len(sequence))))


def _keys(mapping: Any) -> list[Any]:
    return list(map(MappingKey, mapping))


def _of_names(kind: Any) -> Container:
    """Of a class of dicts that is built of pairs."""
    return Container(lambda d: (list(d.values()), list(d)),
                     lambda values, keys: kind(zip(keys, values, strict=True)), _keys)


SUPPORTED_NODES: dict[type, Container] = {
    list: Container(lambda x: (x, None), lambda values, _: list(values), _places),
    tuple: Container(lambda x: (list(x), None), lambda values, _: tuple(values), _places),
    deque: Container(lambda x: (list(x), x.maxlen), deque, _places),
    dict: _of_names(dict), OrderedDict: _of_names(OrderedDict),
    defaultdict: Container(
        lambda d: (list(d.values()), (d.default_factory, list(d))),
        lambda values, c: defaultdict(c[0], zip(c[1], values, strict=True)), _keys),
}
"""Containers by their class; programs register others."""
_NAMED = SUPPORTED_NODES[namedtuple] = Container(  # type: ignore[index]  # as PyTorch has it
    lambda x: (list(x), type(x)), lambda values, kind: kind(*values),
    lambda x: list(map(GetAttrKey, x._fields)))


@dataclass(frozen=True)
class TreeSpec:
    """The containers of a tree without its leaves. type: the class, None of a leaf; context: what
    else there is to it, such as the keys of a dict."""

    type: Any = None
    context: Any = None
    children_specs: list[TreeSpec] = field(default_factory=list)

    @property
    def num_children(self) -> int:
        """How many values the outermost container has."""
        return len(self.children_specs)

    @property
    def num_leaves(self) -> int:
        """How many leaves there are in all."""
        return 1 if self.type is None else sum(c.num_leaves for c in self.children_specs)

    @property
    def num_nodes(self) -> int:
        """How many leaves and containers there are in all."""
        return 1 + sum(c.num_nodes for c in self.children_specs)

    def is_leaf(self) -> bool:
        """Whether there is no container at all."""
        return self.type is None

    def children(self) -> list[TreeSpec]:
        """Of each value of the outermost container."""
        return list(self.children_specs)

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The tree with these leaves. ArgumentError if they are not as many."""
        given = list(leaves)
        if len(given) != self.num_leaves:
            raise ArgumentError(f"tree_unflatten: {len(given)} leaves for a tree of "
                                f"{self.num_leaves}; give one for each")
        return _built(self, iter(given))


def LeafSpec() -> TreeSpec:
    """The structure of a leaf."""
    return TreeSpec()


def _built(spec: TreeSpec, leaves: Iterator[Any]) -> Any:
    if spec.type is None:
        return next(leaves)
    values = [_built(child, leaves) for child in spec.children_specs]
    return SUPPORTED_NODES.get(spec.type, _NAMED).unflatten_fn(values, spec.context)


def register_pytree_node(cls: type, flatten_fn: Callable[[Any], tuple[Any, Any]],
                         unflatten_fn: Callable[[Iterable[Any], Any], Any], *,
                         flatten_with_keys_fn: Callable[[Any], tuple[Any, Any]] | None = None,
                         **options: Any) -> None:
    """Have objects of a class taken apart by flatten_fn(object), which gives a list of values and a
    context, and put together by unflatten_fn(values, context). flatten_with_keys_fn: gives pairs of
    a path's step and a value, and the context; without it there are no paths through the class."""
    keyed = flatten_with_keys_fn
    SUPPORTED_NODES[cls] = Container(flatten_fn, unflatten_fn, None if keyed is None else
                                     lambda tree: [key for key, _ in keyed(tree)[0]])


_register_pytree_node = register_pytree_node


def _container(tree: Any) -> Container | None:
    return SUPPORTED_NODES.get(_get_node_type(tree))


def _dict_flatten(d: dict[Any, Any]) -> tuple[list[Any], list[Any]]:
    """The values of a dict, and its keys."""
    return list(d.values()), list(d)


def _dict_unflatten(values: Iterable[Any], context: Iterable[Any]) -> dict[Any, Any]:
    """The dict of these values and keys."""
    return dict(zip(context, values, strict=True))


def _get_node_type(tree: Any) -> Any:
    """What SUPPORTED_NODES has a container by: its class, `namedtuple` for all those."""
    kind = type(tree)
    is_named = kind not in SUPPORTED_NODES and is_namedtuple_class(kind)
    return namedtuple if is_named else kind


def tree_is_leaf(tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether it is no container."""
    return is_leaf is not None and is_leaf(tree) or _container(tree) is None


def tree_flatten(tree: PyTree, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """The leaves in order, and the structure. is_leaf: tells of containers that are leaves."""
    leaves: list[Any] = []
    return leaves, _taken_apart(tree, leaves, is_leaf)


def _taken_apart(tree: Any, leaves: list[Any], is_leaf: IsLeaf) -> TreeSpec:
    container = None if is_leaf is not None and is_leaf(tree) else _container(tree)
    if container is None:
        leaves.append(tree)
        return TreeSpec()
    values, context = container.flatten_fn(tree)
    return TreeSpec(type(tree), context, [_taken_apart(v, leaves, is_leaf) for v in values])


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> PyTree:
    """The tree of a structure with these leaves."""
    return treespec.unflatten(leaves)


def tree_leaves(tree: PyTree, is_leaf: IsLeaf = None) -> list[Any]:
    """The leaves in order."""
    return tree_flatten(tree, is_leaf)[0]


def tree_iter(tree: PyTree, is_leaf: IsLeaf = None) -> Iterator[Any]:
    """The leaves in order, one by one."""
    return iter(tree_leaves(tree, is_leaf))


def tree_structure(tree: PyTree, is_leaf: IsLeaf = None) -> TreeSpec:
    """The structure alone."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func: Callable[..., Any], tree: PyTree, *rests: PyTree,
             is_leaf: IsLeaf = None) -> PyTree:
    """The tree of func(leaf, ..), with the leaves of other trees of the same structure beside."""
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [_leaves_as(spec, rest) for rest in rests]
    return spec.unflatten(map(func, leaves, *others))


def _leaves_as(spec: TreeSpec, tree: Any) -> list[Any]:
    """What a tree has at the leaves of a structure. ArgumentError if its containers differ."""
    if spec.type is None:
        return [tree]
    container = _container(tree)
    values, context = ([], None) if container is None else container.flatten_fn(tree)
    alike = set(context or ()) == set(spec.context) if type(tree) is spec.type is dict \
        else context == spec.context
    if type(tree) is not spec.type or len(values) != spec.num_children or not alike:
        raise ArgumentError(f"tree_map: {type(tree).__name__} of {len(values)} values "
                            f"where the first tree has {spec.type.__name__} of {spec.num_children} "
                            f"({spec.context}); give trees of the same structure")
    if type(tree) is dict:  # in the first one's order
        values = [tree[key] for key in spec.context]
    return [leaf for child, value in zip(spec.children_specs, values, strict=True)
            for leaf in _leaves_as(child, value)]


def tree_map_(func: Callable[..., Any], tree: PyTree, *rests: PyTree,
              is_leaf: IsLeaf = None) -> PyTree:
    """Call func(leaf, ..) for each leaf; gives the tree itself."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def _picks(kind: Any) -> Callable[[Any], bool]:
    """Whether a leaf is of a class, of one of several, or one that a function of it says yes to."""
    if isinstance(kind, (type, tuple)) or not callable(kind):
        return lambda leaf: isinstance(leaf, kind)
    return lambda leaf: bool(kind(leaf))


def tree_map_only(type_or_types_or_pred: Any, func: Callable[[Any], Any], tree: PyTree,
                  is_leaf: IsLeaf = None) -> PyTree:
    """The tree of func(leaf) for leaves of some classes, or that a function picks; others stay."""
    picks = _picks(type_or_types_or_pred)
    return tree_map(lambda leaf: func(leaf) if picks(leaf) else leaf, tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether a function says yes to all leaves."""
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Whether a function says yes to any leaf."""
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(type_or_types_or_pred: Any, pred: Callable[[Any], bool], tree: PyTree,
                  is_leaf: IsLeaf = None) -> bool:
    """Whether a function says yes to all leaves of some classes."""
    picks = _picks(type_or_types_or_pred)
    return all(pred(leaf) for leaf in tree_iter(tree, is_leaf) if picks(leaf))


def tree_any_only(type_or_types_or_pred: Any, pred: Callable[[Any], bool], tree: PyTree,
                  is_leaf: IsLeaf = None) -> bool:
    """Whether a function says yes to any leaf of some classes."""
    picks = _picks(type_or_types_or_pred)
    return any(pred(leaf) for leaf in tree_iter(tree, is_leaf) if picks(leaf))


def _broadcast_to_and_flatten(tree: PyTree, treespec: TreeSpec,
                              is_leaf: IsLeaf = None) -> Sequence[Any] | None:
    """What a tree has for each leaf of a structure, a leaf of it standing for all below its place;
    None if the two do not fit."""
    container = None if is_leaf is not None and is_leaf(tree) else _container(tree)
    if container is None:
        return [tree] * treespec.num_leaves
    values, context = container.flatten_fn(tree)
    if type(tree) is not treespec.type or context != treespec.context or \
            len(values) != treespec.num_children:
        return None
    parts = [_broadcast_to_and_flatten(value, child, is_leaf)
             for value, child in zip(values, treespec.children_specs, strict=True)]
    return None if any(part is None for part in parts) else \
        [leaf for part in parts for leaf in part or ()]


def _dict_flatten_with_keys(d: dict[Any, Any]) -> tuple[list[tuple[MappingKey, Any]], list[Any]]:
    """The pairs of a dict, its keys as paths have them, and its keys."""
    return [(MappingKey(key), value) for key, value in d.items()], list(d)


def tree_flatten_with_path(tree: PyTree, is_leaf: IsLeaf = None
                           ) -> tuple[list[tuple[KeyPath, Any]], TreeSpec]:
    """Pairs of the path to a leaf and the leaf, in order, and the structure. ArgumentError for a
    container that was registered without its keys."""
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def _with_paths(tree: Any, path: KeyPath, is_leaf: IsLeaf) -> Iterator[tuple[KeyPath, Any]]:
    container = None if is_leaf is not None and is_leaf(tree) else _container(tree)
    if container is None:
        yield path, tree
        return
    if container.keys_of is None:
        raise ArgumentError(f"tree_flatten_with_path: {type(tree).__name__} was registered without "
                            f"keys; give register_pytree_node a flatten_with_keys_fn")
    for key, value in zip(container.keys_of(tree), container.flatten_fn(tree)[0], strict=True):
        yield from _with_paths(value, (*path, key), is_leaf)


def tree_leaves_with_path(tree: PyTree, is_leaf: IsLeaf = None) -> list[tuple[KeyPath, Any]]:
    """Pairs of the path to a leaf and the leaf, in order."""
    return list(_with_paths(tree, (), is_leaf))


def tree_map_with_path(func: Callable[..., Any], tree: PyTree, *rests: PyTree,
                       is_leaf: IsLeaf = None) -> PyTree:
    """The tree of func(path, leaf, ..), with the leaves of other trees of the same structure
    beside."""
    pairs, spec = tree_flatten_with_path(tree, is_leaf)
    others = [_leaves_as(spec, rest) for rest in rests]
    return spec.unflatten(func(path, leaf, *beside) for (path, leaf), *beside in
                          zip(pairs, *others, strict=True))


def keystr(kp: KeyPath) -> str:
    """A path as text, as Python would write what is at its end: `['a'][0].x`."""
    return "".join(map(str, kp))


def key_get(obj: Any, kp: KeyPath) -> Any:
    """What is at the end of a path."""
    for key in kp:
        obj = key.get(obj)
    return obj


def arg_tree_leaves(*args: PyTree, **kwargs: PyTree) -> list[Any]:
    """The leaves of arguments, in order."""
    return [leaf for tree in (*args, *kwargs.values()) for leaf in tree_leaves(tree)]


def tree_map_only_(type_or_types_or_pred: Any, func: Callable[[Any], Any], tree: PyTree,
                   is_leaf: IsLeaf = None) -> PyTree:
    """Call func(leaf) for leaves of some classes, or that a function picks; gives the tree."""
    tree_map_only(type_or_types_or_pred, func, tree, is_leaf)
    return tree


def is_namedtuple_class(cls: Any) -> bool:
    """Whether it is a class of named tuples."""
    return isinstance(cls, type) and issubclass(cls, tuple) and hasattr(cls, "_fields")


def is_namedtuple_instance(obj: Any) -> bool:
    """Whether it is a named tuple."""
    return is_namedtuple_class(type(obj))


def is_namedtuple(obj: Any) -> bool:
    """Whether it is a named tuple, or a class of them."""
    return is_namedtuple_class(obj) or is_namedtuple_instance(obj)
