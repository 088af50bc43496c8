"""Saving and loading tensors in the safetensors format (package `safetensors`, an extra)."""
from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from lazyten.frontend.functions import tensor
from lazyten.frontend.tensor import Tensor
from lazyten.ir import dtype as dt
from lazyten.ir import ops
from lazyten.ir.dtype import DType
from lazyten.support.errors import ArgumentError, DTypeError, LazytenError, MissingFileError
from lazyten.support.paths import path_of, write_files

safetensors: ModuleType | None
try:
    import safetensors  # an extra: only saving and loading need it
except ImportError:
    safetensors = None

Array = np.ndarray[Any, Any]
_NAMES = {"BOOL": dt.bool_, "I8": dt.int8, "I16": dt.int16, "I32": dt.int32, "I64": dt.int64,
          "U8": dt.uint8, "U16": dt.uint16, "U32": dt.uint32, "U64": dt.uint64,
          "F8_E4M3": dt.float8_e4m3fn, "F8_E5M2": dt.float8_e5m2,
          "F16": dt.float16, "BF16": dt.bfloat16, "F32": dt.float32, "F64": dt.float64,
          "C64": dt.complex64}


def _library() -> ModuleType:
    if safetensors is None:
        raise LazytenError("saving and loading needs the package safetensors: "
                           "pip install 'lazyten[examples]'")
    return safetensors


def save_safetensors(tensors: Mapping[str, Tensor], path: str | os.PathLike[str]) -> None:
    """Write named tensors to a file, which appears whole or not at all."""
    _library()
    target = path_of(path, "save_safetensors")
    _check_named(tensors)
    write_files({target: packed(tensors)}, "save_safetensors")


def packed(tensors: Mapping[str, Tensor], metadata: dict[str, str] | None = None) -> bytes:
    """The content of a safetensors file with these tensors, and texts by name."""
    library = _library()
    kept = {name: (stored(name, t), t.dtype) for name, t in tensors.items()}
    content: bytes = library.serialize(_entries(kept), metadata)
    return content


def stored(name: str, t: Tensor) -> Array:
    """The values of a tensor as a file has them. DTypeError for a type that no file has."""
    if t.dtype is dt.complex128:
        raise DTypeError(f"saving {name} of complex128: a file has no such type; save "
                         f"view_as_real(x), or x.to(lt.complex64)")
    values = np.ascontiguousarray(ops.encode(t.detach()._as_array(), t.dtype))
    return values.reshape(t.shape)  # which of a zero-dim one has an axis


def write_arrays(arrays: Mapping[str, tuple[Array, DType]], target: Path) -> None:
    """Write stored values, each with its type, to a new file."""
    _library().serialize_file(_entries(arrays), str(target), None)


def _entries(arrays: Mapping[str, tuple[Array, DType]]) -> dict[str, Any]:
    """What the library takes. It reads the arrays' memory, so they must live until then."""
    library = _library()
    return {name: library.TensorSpec(dtype=dtype.name, shape=list(values.shape),
                                     data_ptr=values.ctypes.data, data_len=values.nbytes)
            for name, (values, dtype) in arrays.items()}


def _check_named(tensors: Mapping[str, Tensor]) -> None:
    if not isinstance(tensors, Mapping):
        raise DTypeError(f"save_safetensors: {type(tensors).__name__} {tensors!r:.40} is not a "
                         f"mapping of names to tensors; give model.state_dict()")
    for name, t in tensors.items():
        if not isinstance(name, str):
            raise DTypeError(f"save_safetensors: the name {name!r} is not a string; use str()")
        if not isinstance(t, Tensor):
            raise DTypeError(f"save_safetensors: {name} is {type(t).__name__} {t!r:.40}, not a "
                             f"tensor; wrap it in lazyten.tensor()")


def load_safetensors(path: str | os.PathLike[str], device: str | None = None) -> dict[str, Tensor]:
    """The named tensors of a file. ArgumentError if it is missing or not of the format."""
    _library()
    content = read(path_of(path, "load_safetensors"), "load_safetensors")
    return unpacked(content, "load_safetensors", str(path), device)


def read(path: Path, operation: str) -> bytes:
    """The content of a file. ArgumentError if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        kind = MissingFileError if isinstance(error, FileNotFoundError) else ArgumentError
        raise kind(f"{operation}: cannot read {path}: {error.strerror}; check the path and that "
                   f"the file was saved") from error


def unpacked(content: bytes, operation: str, source: str, device: str | None) -> dict[str, Tensor]:
    """The tensors in the content of a safetensors file. ArgumentError for any other content."""
    library = _library()
    try:
        entries = library.deserialize(content)
    except library.SafetensorError as error:
        raise ArgumentError(f"{operation}: {source} is not a whole safetensors file: {error}; "
                            f"save or copy it again") from error
    header(content, operation, source)
    tensors = {}
    for name, entry in entries:
        dtype = dtype_of(entry["dtype"], name, operation, source)
        values = np.frombuffer(bytes(entry["data"]), dtype.numpy).reshape(entry["shape"])
        tensors[name] = tensor(ops.decode(values, dtype), dtype, device)
    return tensors


def dtype_of(code: str, name: str, operation: str, source: str) -> DType:
    """The type that a file calls so. DTypeError for one that lazyten has not."""
    dtype = _NAMES.get(code)
    if dtype is None:
        raise DTypeError(f"{operation}: {name} in {source} is of type {code}, which lazyten has "
                         f"not; it has {', '.join(_NAMES)}")
    return dtype


class Opened:
    """A safetensors file of which parts are read. ArgumentError if it is missing or not whole."""

    def __init__(self, path: Path, operation: str) -> None:
        library = _library()
        self.path, self.operation = path, operation
        try:
            with library.safe_open(str(path), framework="np"):  # which looks whether it is whole
                self._bytes: Array = np.memmap(path, np.uint8, "r")
        except OSError as error:
            kind = MissingFileError if isinstance(error, FileNotFoundError) else ArgumentError
            raise kind(f"{operation}: cannot read {path}: {error.strerror or error}; check the "
                       f"path and that the file was saved") from error
        except library.SafetensorError as error:
            raise ArgumentError(f"{operation}: {path} is not a whole safetensors file: {error}; "
                                f"save or copy it again") from error
        length = int.from_bytes(self._bytes[:8].tobytes(), "little")
        self._start = 8 + length
        self._header = header(self._bytes[:self._start].tobytes(), operation, str(path))

    def about(self, name: str) -> tuple[DType, tuple[int, ...]] | None:
        """The type and shape of a tensor in it; None where there is none."""
        entry = self._header.get(name)
        if entry is None:
            return None
        return (dtype_of(entry["dtype"], name, self.operation, str(self.path)),
                tuple(entry["shape"]))

    def stored(self, name: str) -> Array:
        """The stored values of a tensor that is in it; only what is looked at is read."""
        entry = self._header[name]
        dtype = dtype_of(entry["dtype"], name, self.operation, str(self.path))
        first, last = (self._start + n for n in entry["data_offsets"])
        return self._bytes[first:last].view(dtype.numpy).reshape(entry["shape"])


def header(content: bytes, operation: str, source: str) -> dict[str, Any]:
    """What the header of a file says, which is whole. ArgumentError if it has a name twice: only
    one of the two would be loaded, and which one is chance."""
    def each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = Counter(name for name, _ in pairs)
        twice = [name for name, count in names.items() if count > 1]
        if twice:
            raise ArgumentError(f"{operation}: {source} has the name {twice[0]!r:.80} twice; "
                                f"save it again, with one tensor a name")
        return dict(pairs)

    length = int.from_bytes(content[:8], "little")
    found: dict[str, Any] = json.loads(content[8:8 + length], object_pairs_hook=each)
    return found
