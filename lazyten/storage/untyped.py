"""Storages as programs see them: which tensors share memory, and the bytes of a file."""
from __future__ import annotations

import math
import os
from typing import Any

import numpy as np

from lazyten.ir.dtype import DType
from lazyten.storage.placement import Device, canonical
from lazyten.storage.storage import Storage
from lazyten.support.errors import ArgumentError, MissingFileError
from lazyten.support.paths import path_of

Bytes = np.ndarray[Any, Any]


class UntypedStorage:
    """A storage's identity: equal for tensors that share memory, so that writes to one show in the
    other."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    @staticmethod
    def from_file(filename: str | os.PathLike[str], shared: bool = False,
                  nbytes: int = 0) -> FileStorage:
        """The first bytes of a file: `asarray(storage[first:stop], dtype=uint8)` is a tensor of
        some, which cannot be written, and `.view(dtype)` of it one in another type.
        MissingFileError where there is no such file, ArgumentError if it has fewer bytes, or is to
        be written (shared)."""
        path = path_of(filename, "UntypedStorage.from_file")
        if shared:
            raise ArgumentError("UntypedStorage.from_file: shared=True, but the file is only read; "
                                "write files by lazyten.save or numpy.memmap")
        if not path.is_file():
            raise MissingFileError(f"UntypedStorage.from_file: there is no file {str(path)!r}")
        if not 0 <= nbytes <= path.stat().st_size:
            raise ArgumentError(f"UntypedStorage.from_file: nbytes={nbytes}, and {str(path)!r} has "
                                f"{path.stat().st_size} bytes")
        return FileStorage(np.memmap(path, np.uint8, "r", shape=(nbytes,)) if nbytes else
                           np.frombuffer(b"", np.uint8))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UntypedStorage) and other._storage is self._storage

    def __hash__(self) -> int:
        return id(self._storage)

    def data_ptr(self) -> int:
        """A number that is the same for equal storages alone, while they live: for comparisons,
        not for reading memory, which may not be there yet."""
        return id(self._storage)

    def untyped(self) -> UntypedStorage:
        """Itself, as it has no type."""
        return self

    def nbytes(self) -> int:
        """Bytes of the whole storage."""
        return math.prod(self._storage.shape) * self._storage.dtype.itemsize

    def size(self) -> int:
        """The same, as an element is a byte."""
        return self.nbytes()

    def __len__(self) -> int:
        return self.nbytes()

    def element_size(self) -> int:
        """1: a byte."""
        return 1

    @property
    def device(self) -> Device:
        """The device that the memory is on: its name, a string."""
        return canonical(self._storage.device)

    def __repr__(self) -> str:
        return f"UntypedStorage({self.nbytes()} bytes on {self._storage.device})"


class TypedStorage(UntypedStorage):
    """A storage as a row of elements of its type, which is what its size counts. elements: the
    tensor of them, which shares the storage."""

    def __init__(self, storage: Storage, elements: Any) -> None:
        super().__init__(storage)
        self._elements = elements

    @property
    def dtype(self) -> DType:
        """The elements' type."""
        return self._storage.dtype

    def untyped(self) -> UntypedStorage:
        """The same storage without a type."""
        return UntypedStorage(self._storage)

    def size(self) -> int:
        """How many elements there are."""
        return self.nbytes() // self.element_size()

    def __len__(self) -> int:
        return self.size()

    def element_size(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    def tolist(self) -> list[Any]:
        """The elements."""
        return list(self._elements.tolist())

    def __getitem__(self, place: int | slice) -> Any:
        """An element, or a list of some."""
        return self._elements[place].tolist()

    def __setitem__(self, place: int | slice, value: Any) -> None:
        """Write to all tensors that share it."""
        self._elements[place] = value

    def __repr__(self) -> str:
        return f"TypedStorage({self.size()} of {self.dtype.name} on {self._storage.device})"


class FileStorage(UntypedStorage):
    """Bytes of a file, or some of them in a row, of which tensors can be made that are only read.
    """

    def __init__(self, content: Bytes) -> None:
        self.content = content

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def data_ptr(self) -> int:
        """A number that no other storage has."""
        return id(self)

    def nbytes(self) -> int:
        """How many bytes there are."""
        return self.content.size

    @property
    def device(self) -> Device:
        """The cpu."""
        return canonical("cpu")

    def __getitem__(self, place: int | slice) -> Any:
        """A byte, or a part in a row."""
        if isinstance(place, slice) and place.step in (None, 1):
            return FileStorage(self.content[place])
        return self.content[place].item()

    def __repr__(self) -> str:
        return f"UntypedStorage({self.nbytes()} bytes of a file)"
