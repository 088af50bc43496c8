"""PyTorch's files of weights: read, and nothing in them run.

In: the bytes of a file that PyTorch's `save` wrote, now (a zip archive) or before its version 1.6.
Out: what is in it, with lazyten's tensors. A file has a pickle, which names tensors by their
storages, and the memory of these storages. A pickle calls what it names, so only names of data are
known here, those that PyTorch itself allows with weights_only=True; a file that has another is a
CodeInFileError. Where the user trusts a file it may name anything, and PyTorch's own classes are
lazyten's: layers have PyTorch's attributes by PyTorch's names, so a whole module is read, too.
"""
from __future__ import annotations

import io
import pickle
import zipfile
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np

from lazyten.frontend.core.pickling import KINDS
from lazyten.frontend.core.size import Size
from lazyten.frontend.functions import tensor
from lazyten.frontend.tensor import Tensor
from lazyten.ir import dtype as dt
from lazyten.ir import ops
from lazyten.ir.dtype import DType
from lazyten.storage.placement import Device
from lazyten.support.errors import ArgumentError, CodeInFileError, LazytenError

MAGIC = 0x1950A86A20F9469CFC6C
"""With which a file of before 1.6 begins, as a pickle of its own."""
_STORAGES = {"FloatStorage": dt.float32, "DoubleStorage": dt.float64, "HalfStorage": dt.float16,
             "BFloat16Storage": dt.bfloat16, "LongStorage": dt.int64, "IntStorage": dt.int32,
             "ShortStorage": dt.int16, "CharStorage": dt.int8, "ByteStorage": dt.uint8,
             "BoolStorage": dt.bool_, "ComplexFloatStorage": dt.complex64,
             "ComplexDoubleStorage": dt.complex128, "UntypedStorage": dt.uint8}
_TYPES = {dtype.name: dtype for dtype in (*dt.ALL, *dt.COMPLEX.values())}


class _Stored:
    """The memory of a storage, and the flat tensor of it, made once for all that share it."""

    def __init__(self, content: bytes, dtype: DType, device: str | None) -> None:
        self.content, self.dtype, self.device = content, dtype, device
        self._flat: dict[DType, Tensor] = {}

    def of_type(self, dtype: DType) -> _Stored:
        """The same memory, as a storage of a type: an empty one may be of several."""
        if dtype is self.dtype:
            return self
        other = _Stored(self.content, dtype, self.device)
        other._flat = self._flat
        return other

    def flat(self, dtype: DType) -> Tensor:
        """All of it as elements of a type."""
        if dtype not in self._flat:
            values = np.frombuffer(self.content, dtype.numpy)
            self._flat[dtype] = tensor(ops.decode(values, dtype), dtype, self.device)
        return self._flat[dtype]


def _tensor(storage: Any, offset: int, size: tuple[int, ...], stride: tuple[int, ...],
            requires_grad: bool = False, hooks: object = None, *rest: Any) -> Any:
    """A tensor by the elements of its storage that it shows."""
    if not isinstance(storage, _Stored):
        return None  # of the first look at an older file, which is for storages alone
    dtype = next((x for x in rest if isinstance(x, DType)), storage.dtype)
    whole = storage.flat(dtype)
    last = offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    if 0 not in size and not (0 <= offset <= last < whole.numel() and min((0, *stride)) == 0):
        raise ArgumentError(f"a tensor of shape {size}, strides {stride} and offset {offset} does "
                            f"not lie in its {whole.numel()} elements: the file is damaged")
    shown = _meant(_shown(whole, offset, size, stride), rest)
    return shown.clone().requires_grad_() if requires_grad else shown


def _shown(whole: Tensor, offset: int, size: tuple[int, ...], stride: tuple[int, ...]) -> Tensor:
    """A view of a flat tensor: its elements in order, or at strides."""
    count, in_order = 1, True
    for n, s in zip(reversed(size), reversed(stride), strict=True):
        in_order &= n == 1 or s == count
        count *= n
    if count == 0 or in_order:
        part = whole if count == whole.numel() else whole[offset:offset + count]
        return part.view(*size) if size else part.view(())
    return whole.as_strided(size, stride, offset)


def _meant(shown: Tensor, rest: tuple[Any, ...]) -> Tensor:
    """The values that a file means by those that it has: PyTorch notes of some tensors that they
    are the conjugates, or the negatives, of what is in memory."""
    notes = next((x for x in rest if isinstance(x, dict)), {})
    shown = shown.conj() if notes.get("conj") else shown
    return -shown if notes.get("neg") else shown


def _parameter(data: Any, requires_grad: bool, hooks: object, state: Any = None) -> Any:
    """A parameter; nothing is known of hooks."""
    return None if data is None else KINDS["parameter"](data, requires_grad)


def _of_type(function: Callable[..., Any], kind: object, args: tuple[Any, ...],
             state: object) -> Any:
    """A tensor with attributes, or of a subclass of PyTorch's: as one without."""
    return function(*args)


KNOWN: Mapping[str, Any] = {
    **{f"torch.{name}": dtype for name, dtype in _TYPES.items()},
    **{f"{place}.{name}": dtype for name, dtype in _STORAGES.items()
       for place in ("torch", "torch.storage", "torch.cuda")},
    "torch.bool": dt.bool_, "torch.storage.TypedStorage": dt.uint8,
    "torch.Size": Size, "torch.device": Device, "torch.Tensor": Tensor,
    **{f"torch._utils._rebuild_tensor{version}": _tensor for version in ("", "_v2", "_v3")},
    **{f"torch._utils._rebuild_parameter{more}": _parameter for more in ("", "_with_state")},
    "torch._tensor._rebuild_from_type_v2": _of_type,
    "torch.nn.parameter.Parameter": lambda data, grad=True: _parameter(data, grad, None),
    "collections.OrderedDict": OrderedDict,
    "collections.defaultdict": defaultdict,
    "collections.Counter": Counter, "_codecs.encode":
        lambda text, coding: text.encode("latin1"),
    **{f"{place}.{kind.__name__}": kind for kind in (
        set, frozenset, dict, list, tuple, int, float, bool, str, bytes, bytearray, complex, slice)
       for place in ("builtins", "__builtin__")}}
"""What a pickle of data may name."""
SAFE: dict[str, Any] = {}
"""What it may name besides, as the user has said."""


LAYERS = {"torch.nn.modules.": "lazyten.nn", "torch.nn.functional.": "lazyten.nn.functional",
          "torch._C._nn.": "lazyten.nn.functional"}
"""What else a trusted file may name of PyTorch's, and where lazyten has it."""


_set_state: Callable[[Any], None] = pickle._Unpickler.dispatch[pickle.BUILD[0]]


class _Unpickler(pickle._Unpickler):
    """Reads a pickle of PyTorch's. stored: the memory of a storage by its key, type and number of
    elements; what it gives stands for the storage. It is Python's own, whose instructions can be
    replaced: one of them changes objects, classes and functions, too."""

    stack: list[Any]

    def __init__(self, file: io.BytesIO, source: str, stored: Callable[[str, DType, int], Any],
                 allowed: bool, encoding: str) -> None:
        super().__init__(file, encoding=encoding)
        self.source, self.stored, self.allowed = source, stored, allowed

    def find_class(self, module: str, name: str) -> Any:
        """What a name means."""
        whole = f"{module}.{name}"
        if whole in KNOWN or whole in SAFE:
            return KNOWN[whole] if whole in KNOWN else SAFE[whole]
        if not self.allowed:
            raise CodeInFileError(f"load: {self.source} names {whole}, which is no data, and "
                                  f"reading it would run what the file says: give "
                                  f"weights_only=False if you trust who wrote it, or save the "
                                  f"state_dict() there")
        if module.partition(".")[0] != "torch":
            return super().find_class(module, name)
        home = next((home for place, home in LAYERS.items() if whole.startswith(place)), None)
        if home is None:
            raise ArgumentError(f"load: {self.source} names {whole}, which is PyTorch's own; save "
                                f"the state_dict() there in its place")
        return super().find_class(home, name.removeprefix("NonDynamicallyQuantizable"))

    def _build(self) -> None:
        """Give an object the state that a pickle has of it: in data, attributes of a dict of
        PyTorch's alone, and of what the user calls safe."""
        kind = type(self.stack[-2])
        if not self.allowed and not any(kind is safe for safe in (OrderedDict, *SAFE.values())):
            raise CodeInFileError(f"load: {self.source} sets attributes of a {kind.__name__}, and "
                                  f"data has none: give weights_only=False if you trust who wrote "
                                  f"it, or save the state_dict() there")
        _set_state(self)

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = {
        **pickle._Unpickler.dispatch, pickle.BUILD[0]: _build}

    def persistent_load(self, saved: Any) -> Any:
        """The storage that a pickle names, or the class of a module, with which older files have
        its text. The oldest name parts of storages, too, which are refused."""
        if saved[0] == "module":
            return saved[1]
        kind, dtype, key, _, count, *view = saved if len(saved) > 4 else ("", None, "", "", 0)
        if kind not in ("storage", b"storage") or not isinstance(dtype, DType) or any(view):
            raise ArgumentError(f"load: {self.source} names {saved!r:.60} as a storage; save it "
                                f"again as a state_dict()")
        return self.stored(str(key), dtype, int(count))


def read(content: bytes, source: str, device: str | None, allowed: bool = False,
         encoding: str | None = None) -> Any:
    """What PyTorch's save() wrote. CodeInFileError where it is more than data, unless allowed;
    ArgumentError for other pickles and archives, and for what is damaged."""
    inside = _archive if zipfile.is_zipfile(io.BytesIO(content)) else _older
    try:
        return inside(content, source, device, allowed, encoding or "utf-8")
    except LazytenError:
        raise
    except Exception as error:  # damaged bytes may ask anything of Python and NumPy
        raise ArgumentError(f"load: {source} cannot be read as a file of PyTorch's: "
                            f"{type(error).__name__}: {error}; save the state_dict() there "
                            f"again") from error


def _archive(content: bytes, source: str, device: str | None, allowed: bool, encoding: str) -> Any:
    """Of a zip archive: `data.pkl`, and a file for each storage."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        names = archive.namelist()
        root = next((name.removesuffix("data.pkl") for name in names
                     if name.endswith("/data.pkl") and name.count("/") == 1), None)
        if root is None or f"{root}constants.pkl" in names:
            raise ArgumentError(f"load: {source} is {'no' if root is None else 'a'} program or "
                                f"archive of {'PyTorch' if root is None else 'TorchScript'}; "
                                f"write the state_dict() there, by torch.save")
        if f"{root}byteorder" in names and archive.read(f"{root}byteorder") != b"little":
            raise ArgumentError(f"load: {source} was written by a machine whose numbers begin with "
                                f"their highest byte; write it again, by "
                                f"safetensors.torch.save_file(state_dict, path)")
        held: dict[str, _Stored] = {}

        def stored(key: str, dtype: DType, count: int) -> _Stored:
            if key not in held:
                held[key] = _Stored(archive.read(f"{root}data/{key}"), dtype, device)
            return held[key].of_type(dtype)

        return _Unpickler(io.BytesIO(archive.read(f"{root}data.pkl")), source, stored, allowed,
                          encoding).load()


def _older(content: bytes, source: str, device: str | None, allowed: bool, encoding: str) -> Any:
    """Of a file of before 1.6: pickles one after the other, and then all storages. The pickle of
    the object is read twice: first for which storages there are."""
    types: dict[str, DType] = {}
    held: dict[str, _Stored] = {}
    file = io.BytesIO(content)

    def noted(key: str, dtype: DType, count: int) -> None:
        types[key] = dtype

    def loaded(stored: Callable[[str, DType, int], Any], allowed: bool = False) -> Any:
        return _Unpickler(file, source, stored, allowed, encoding).load()

    if loaded(noted) != MAGIC:
        raise ArgumentError(f"load: {source} is a pickle that PyTorch did not write; lazyten reads "
                            f"safetensors, and PyTorch's files")
    loaded(noted)  # the protocol
    if not loaded(noted).get("little_endian", True):
        raise ArgumentError(f"load: {source} was written by a machine whose numbers begin with "
                            f"their highest byte; write it again there")
    start = file.tell()
    loaded(noted, allowed)
    for key in map(str, loaded(noted)):
        count = int.from_bytes(file.read(8), "little")
        held[key] = _Stored(file.read(count * types[key].itemsize), types[key], device)
    file.seek(start)
    return loaded(lambda key, dtype, count: held[key].of_type(dtype), allowed)
