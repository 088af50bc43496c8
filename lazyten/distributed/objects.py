"""Objects of Python that ranks send each other, under PyTorch's names.

They are pickled, and are there when a function returns: they are no part of any graph. All ranks of
a group call the same function, and have it write to lists that they give.
"""
from __future__ import annotations

import pickle
from typing import Any

import numpy as np

from lazyten.distributed import functional
from lazyten.distributed.group import Group
from lazyten.distributed.in_place import rooted
from lazyten.distributed.messages import gathered_bytes
from lazyten.distributed.state import group_of
from lazyten.frontend.functions import tensor
from lazyten.storage import tracing
from lazyten.support.errors import ArgumentError, DistributedError

_NOTHING = b""
"""What is sent by who is not asked. (No object is pickled so.)"""


def all_gather_object(object_list: list[Any], obj: Any, group: Group | None = None) -> None:
    """Write the object of each rank to the list, which has a place for each."""
    found = _group(group, "all_gather_object")
    _check_places(object_list, found, "all_gather_object")
    object_list[:] = [pickle.loads(row) for row in _sent(obj, found, "all_gather_object")]


def gather_object(obj: Any, object_gather_list: list[Any] | None = None, dst: int = 0,
                  group: Group | None = None) -> None:
    """Write the object of each rank to the list of rank dst, which has a place for each; others
    give none."""
    _group(group, "gather_object")
    found, root = rooted(group, dst, "gather_object")
    if found.rank == root:
        _check_places(object_gather_list, found, "gather_object")
    rows = _sent(obj, found, f"gather_object to rank {dst}")
    if found.rank == root and object_gather_list is not None:
        object_gather_list[:] = [pickle.loads(row) for row in rows]


def broadcast_object_list(object_list: list[Any], src: int = 0, group: Group | None = None,
                          device: object = None) -> None:
    """Write the objects of rank src's list to those of all, which are as long."""
    _group(group, "broadcast_object_list")
    found, root = rooted(group, src, "broadcast_object_list")
    wanted = _of_root(object_list, found, root, f"broadcast_object_list of rank {src}")
    if len(wanted) != len(object_list):
        raise ArgumentError(f"broadcast_object_list: a list of {len(object_list)} for the "
                            f"{len(wanted)} objects of rank {src}; give one as long")
    object_list[:] = wanted


def scatter_object_list(scatter_object_output_list: list[Any],
                        scatter_object_input_list: list[Any] | None = None, src: int = 0,
                        group: Group | None = None) -> None:
    """Write to place 0 of each rank's list its own object of the list of rank src; others give
    none."""
    _group(group, "scatter_object_list")
    found, root = rooted(group, src, "scatter_object_list")
    if not scatter_object_output_list:
        raise ArgumentError("scatter_object_list: the list to write to is empty; give one with a "
                            "place for the object, such as [None]")
    if found.rank == root:
        _check_places(scatter_object_input_list, found, "scatter_object_list")
    given = _of_root(scatter_object_input_list, found, root, f"scatter_object_list of rank {src}")
    scatter_object_output_list[0] = given[found.rank]


def send_object_list(object_list: list[Any], dst: int, group: Group | None = None,
                     device: object = None) -> None:
    """Send objects to rank dst, which calls recv_object_list()."""
    found = _group(group, "send_object_list")
    to = rooted(group, dst, "send_object_list")[1]
    data = np.frombuffer(_pickled(object_list, "send_object_list"), np.uint8)
    functional.exchange(tensor(np.array([len(data)])), to, None, found).realize()
    functional.exchange(tensor(data.copy()), to, None, found).realize()


def recv_object_list(object_list: list[Any], src: int | None = None, group: Group | None = None,
                     device: object = None) -> int:
    """Write the objects that rank src sends to the list, which is as long; gives src."""
    found = _group(group, "recv_object_list")
    if src is None:
        raise ArgumentError("recv_object_list: src is left out; say which rank sends")
    source = rooted(group, src, "recv_object_list")[1]
    length = int(functional.exchange(tensor(np.array([0])), None, source, found).item())
    data = functional.exchange(tensor(np.zeros(length, np.uint8)), None, source, found).numpy()
    given = pickle.loads(data.tobytes())
    if len(given) != len(object_list):
        raise ArgumentError(f"recv_object_list: a list of {len(object_list)} for the {len(given)} "
                            f"objects of rank {src}; give one as long")
    object_list[:] = given
    return src


# ---- how -----------------------------------------------------------------------------------------

def _group(group: Group | None, operation: str) -> Group:
    tracing.refuse(f"distributed.{operation}()", "call it outside: what other ranks send would be "
                   "that of the first call")
    return group_of(group, operation)


def _pickled(obj: Any, operation: str) -> bytes:
    try:
        return pickle.dumps(obj)
    except Exception as error:
        raise ArgumentError(f"{operation} of {obj!r:.60}: Python cannot pickle it ({error}); send "
                            f"numbers, texts, and lists and dicts of them, and tensors by "
                            f"collectives of tensors") from error


def _sent(obj: Any, group: Group, words: str) -> list[bytes]:
    """What the ranks send, pickled. An error of one rank, which can send nothing, is one of all."""
    try:
        data = _pickled(obj, words)
    except ArgumentError:
        gathered_bytes(_NOTHING, group, words)
        raise
    rows = gathered_bytes(data, group, words)
    missing = [group.ranks[number] for number, row in enumerate(rows) if not row]
    if missing:
        raise DistributedError(f"{words}: rank {missing[0]} gives what cannot be sent, so nobody "
                               f"gets anything; its own error says why")
    return rows


def _of_root(objects: Any, group: Group, root: int, words: str) -> list[Any]:
    """The list of one rank."""
    rows = _sent(list(objects or ()) if group.rank == root else None, group, words)
    found: list[Any] = pickle.loads(rows[root])
    return found


def _check_places(objects: Any, group: Group, operation: str) -> None:
    if objects is None or len(objects) != group.size:
        raise ArgumentError(f"{operation}: a list of {len(objects or ())} for {group.size} ranks; "
                            f"give one with a place for each")
