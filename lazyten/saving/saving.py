"""`lt.save` and `lt.load`: nested state, such as a checkpoint, in one safetensors file.

The tensors are the file's tensors, numbered; how they nest is a text in its header. Data are no
code, so loading them is safe. Where there is more, such as a module, all of it is one pickle, which
`load` reads only for `weights_only=False`.
"""
from __future__ import annotations

import json
import os
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePath
from types import SimpleNamespace
from typing import Any, BinaryIO, TypeAlias

import numpy as np

from lazyten.frontend.core.forms import is_sparse
from lazyten.frontend.core.size import Size
from lazyten.frontend.tensor import Tensor
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.saving import objects, pytorch_files, serialization
from lazyten.storage.placement import Device
from lazyten.support.errors import ArgumentError, LazytenError
from lazyten.support.paths import path_of, write_files

File: TypeAlias = str | os.PathLike[str] | BinaryIO
MAP_LOCATION: TypeAlias = str | Mapping[str, str] | Callable[..., Any] | None
DEFAULT_PROTOCOL = 2
"""What programs give PyTorch as pickle_protocol=; files here are no pickles."""
STRUCTURE = "lazyten.structure"
"""Where in the header the text is."""
ZIP, PICKLE = b"PK\x03\x04", b"\x80"
"""What files of PyTorch begin with."""
_SEQUENCES: dict[str, type[Any]] = {"size": Size, "list": list, "tuple": tuple, "set": set,
                                   "frozenset": frozenset, "deque": deque}
_MAPPINGS: dict[str, Callable[[list[tuple[Any, Any]]], Any]] = {
    "dict": dict, "ordered": OrderedDict, "counter": lambda items: Counter(dict(items)),
    "defaultdict": partial(defaultdict, dict),
    **{f"defaultdict of {kind.__name__}": partial(defaultdict, kind)
       for kind in (list, set, tuple, int, float, bool, str)},
    "defaultdict of nothing": partial(defaultdict, None)}
_LEAVES: dict[str, tuple[type, Callable[[Any], str | int], Callable[[Any], Any]]] = {
    "device": (Device, str, Device), "str": (str, str, str), "int": (int, int, int),
    "float": (float, float.hex, float.fromhex),
    "dtype": (DType, lambda dtype: str(dtype.name), dt.as_dtype),
    "bytes": (bytes, bytes.hex, bytes.fromhex), "complex": (complex, str, complex),
    "path": (PurePath, str, Path)}
"""What has no parts: its class, how it is written, and how it is read."""
OBJECT = "lazyten.object"
"""The name of the one tensor of a file of objects, which is a pickle, and how its text says so."""
_NAMESPACES = {"namespace": ("argparse", "Namespace"), "attributes": ("types", "SimpleNamespace")}
"""Classes of nothing but attributes: their modules and names."""


class _NoData(ArgumentError):
    """Something is an object of a class, of which a file's text says nothing."""


def save(obj: Any, f: File, pickle_module: Any = None, pickle_protocol: int = 2,
         _use_new_zipfile_serialization: bool = True) -> None:
    """Write nested dicts, lists, tuples, sets and namespaces of tensors, arrays, numbers, texts,
    bytes, paths, element types and devices to a file, which appears whole or not at all, or to an
    open binary file.

    A module, an optimizer or another object is written with all that is around it as a pickle,
    which finds its class by name when it is read, and is read with weights_only=False alone; its
    state_dict() is data, and goes without. ArgumentError for what cannot be pickled. The other
    arguments are PyTorch's, and change nothing.
    """
    tensors: dict[str, Tensor] = {}
    try:
        structure = json.dumps(described(obj, tensors, "the object"))
    except RecursionError:
        raise ArgumentError(f"save: the {type(obj).__name__} is nested too deeply, or contains "
                            f"itself: give one that ends") from None
    except _NoData as error:
        tensors = {OBJECT: objects.pickled(obj, str(error))}
        structure = json.dumps([OBJECT, OBJECT])
    content = serialization.packed(tensors, {STRUCTURE: structure})
    if hasattr(f, "write"):
        with _open_for("save", "writing", f):
            f.write(content)
    else:
        write_files({path_of(f, "save"): content}, "save")


def load(f: File, map_location: MAP_LOCATION = None, pickle_module: Any = None, *,
         weights_only: bool | None = True, mmap: bool | None = False,
         encoding: str | None = None) -> Any:
    """What `save` wrote, or PyTorch's, or the named tensors of any safetensors file.

    map_location: the device of the tensors; the default device if None. A file does not say where
    its tensors were, so a function, or a dict of devices, is asked about 'cpu'. weights_only: a
    file that has objects of classes in it is a CodeInFileError; False allows them, and so whatever
    code the file names. encoding: of texts in PyTorch's older files. The others change nothing.
    ArgumentError for files of another format.
    """
    device, allowed = _device(map_location), weights_only is not None and not weights_only
    source, content = _content(f)
    if content.startswith((ZIP, PICKLE)) and content[8:9] != b"{":  # after the header's length
        return pytorch_files.read(content, source, device, allowed, encoding)
    tensors = serialization.unpacked(content, "load", source, device)
    about = serialization.header(content, "load", source).get("__metadata__", {})
    if STRUCTURE not in about:
        return tensors
    if about[STRUCTURE] == json.dumps([OBJECT, OBJECT]) and OBJECT in tensors:
        return objects.unpickled(tensors[OBJECT], source, allowed, device)
    try:
        return built(json.loads(about[STRUCTURE]), tensors)
    except RecursionError:
        raise ArgumentError(f"load: {source} is nested too deeply to be read") from None
    except LazytenError:
        raise
    except Exception as error:  # damaged text may ask anything of Python
        raise ArgumentError(f"load: {source} says in no way that save() does how its tensors nest: "
                            f"{type(error).__name__}: {error}; save it again") from error


def _device(map_location: MAP_LOCATION) -> str | None:
    """The device that is meant; None for the default device. ArgumentError for what is none."""
    asked: object = map_location
    if isinstance(asked, Mapping):
        asked = asked.get("cpu", "cpu")
    elif callable(asked):
        somewhere = object()  # PyTorch's function is given what the values live in, and may give it
        asked = asked(somewhere, "cpu")
        asked = "cpu" if asked is somewhere else asked
    if asked is not None and not isinstance(asked, str):
        raise ArgumentError(f"load: map_location={map_location!r:.60}: give the name of a device, "
                            f"or a function or a dict that says one for 'cpu'; tensors that belong "
                            f"elsewhere are moved with .to()")
    return asked


@contextmanager
def _open_for(operation: str, what: str, f: object) -> Iterator[None]:
    """An open file that cannot be used so is an ArgumentError."""
    try:
        yield
    except (OSError, TypeError, ValueError) as error:
        raise ArgumentError(f"{operation}: {f!r:.60} is no binary file that is open for {what}: "
                            f"{error}; give a path, or open(path, 'rb') or 'wb'") from error


def _content(f: File) -> tuple[str, bytes]:
    """What a file is called, and its bytes."""
    if isinstance(f, str | os.PathLike) or not hasattr(f, "read"):
        return str(f), serialization.read(path_of(f, "load"), "load")
    with _open_for("load", "reading", f):
        return "the file", bytes(f.read())


def described(value: Any, tensors: dict[str, Tensor], where: str) -> Any:
    """The value as JSON: plain numbers and texts as they are, others a list that begins with its
    kind. Tensors are put among `tensors`."""
    if value is None or type(value) in (bool, int, str):
        return value
    if not isinstance(value, list | tuple) and is_sparse(value):
        parts, (size, *rest) = value.taken_apart()
        held = [described(x, tensors, where) for x in parts]
        return ["sparse", held, [value.layout.name, [*size], rest[0] is True],  # coalesced
                value.requires_grad and value.is_leaf]
    if isinstance(value, Tensor):
        number = str(len(tensors))
        tensors[number] = value
        return ["tensor", number, value.requires_grad and value.is_leaf]
    if isinstance(value, Mapping):
        name = _mapping(value)
        about = getattr(value, "_metadata", None) if name == "ordered" else None  # of parts
        return [name, [[described(key, tensors, f"a key of {where}"),
                        described(item, tensors, f"{where}[{key!r:.40}]")]
                       for key, item in value.items()],
                *([] if about is None else [described(about, tensors, f"{where}._metadata")])]
    for name, origin in _NAMESPACES.items():
        if (type(value).__module__, type(value).__name__) == origin:
            return [name, described(vars(value), tensors, where)]
    for name, kind in _SEQUENCES.items():
        if isinstance(value, kind):
            return [name, [described(item, tensors, f"{where}[{at}]")
                           for at, item in enumerate(value)]]
    return _described_leaf(value, where, tensors)


def _mapping(value: Mapping[Any, Any]) -> str:
    """Which of _MAPPINGS it is."""
    if type(value) is not defaultdict:
        return {OrderedDict: "ordered", Counter: "counter"}.get(type(value), "dict")
    factory = value.default_factory
    made = "nothing" if factory is None else getattr(factory, "__name__", "")
    name = "defaultdict" if factory is dict else f"defaultdict of {made}"
    return name if name in _MAPPINGS else "dict"


def _described_leaf(value: Any, where: str, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        kept = described(Tensor._copy_of(value), tensors, where)
        return ["array" if isinstance(value, np.ndarray) else "number", kept[1]]
    for name, (kind, text, _) in _LEAVES.items():
        if isinstance(value, kind):
            return [name, text(value)]
    raise _NoData(f"save: {where} is {type(value).__name__} {value!r:.40}, which is no data; "
                  f"save the state_dict() of modules, optimizers and schedulers, and what they are "
                  f"made of as numbers and texts")


def built(text: Any, tensors: Mapping[str, Tensor]) -> Any:
    """The value that `described` described."""
    if not isinstance(text, list):
        return text
    kind, content, *rest = text
    if kind == "tensor":
        return tensors[content].requires_grad_() if rest[0] else tensors[content]
    if kind == "sparse":
        made: Any = Tensor
        made = made._of_saved_parts([built([*item[:2], False], tensors) for item in content],
                                    *rest[0])
        return made.requires_grad_() if rest[1] else made
    if kind in ("array", "number"):
        array = tensors[content].numpy()
        return array if kind == "array" else array[()]
    if kind in _SEQUENCES:
        return _SEQUENCES[kind]([built(item, tensors) for item in content])
    if kind in _MAPPINGS:
        found = _MAPPINGS[kind](list(_pairs(content, tensors)))
        if rest:
            found._metadata = built(rest[0], tensors)
        return found
    if kind in _NAMESPACES:
        return _namespace(kind)(**built(content, tensors))
    return _LEAVES[kind][2](content)


def _namespace(kind: str) -> type[Any]:
    if kind == "attributes":
        return SimpleNamespace
    from argparse import Namespace  # few files have one
    return Namespace


def _pairs(content: list[list[Any]], tensors: Mapping[str, Tensor]) -> Iterator[tuple[Any, Any]]:
    for key, item in content:
        yield built(key, tensors), built(item, tensors)


def add_safe_globals(safe_globals: Sequence[Any]) -> None:
    """Let PyTorch's files name these classes and functions, or pairs of one and the name that files
    have for it, with weights_only=True as well."""
    pytorch_files.SAFE.update(map(_named, safe_globals))


def get_safe_globals() -> list[Any]:
    """What `add_safe_globals` was given."""
    return list(pytorch_files.SAFE.values())


def clear_safe_globals() -> None:
    """Forget what `add_safe_globals` was given."""
    pytorch_files.SAFE.clear()


@contextmanager
def safe_globals(safe_globals: Sequence[Any]) -> Iterator[None]:
    """Within this block these are as if given to `add_safe_globals`."""
    before = dict(pytorch_files.SAFE)
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        clear_safe_globals()
        pytorch_files.SAFE.update(before)


def _named(safe: Any) -> tuple[str, Any]:
    """What a file calls a class or function, and this."""
    if isinstance(safe, tuple):
        return safe[1], safe[0]
    return f"{safe.__module__}.{safe.__qualname__}", safe
