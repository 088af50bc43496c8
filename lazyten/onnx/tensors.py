"""Tensors of a file as arrays: initializers, attributes, and data that lies in files beside it.

Whatever a file says of sizes is compared with the data there before memory is taken for it.
"""
from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from onnx import SparseTensorProto, TensorProto, helper, numpy_helper

from lazyten.onnx.values import SIZE_LIMIT, Array
from lazyten.support.errors import ArgumentError

NAMES = {
    "float32": "FLOAT", "float64": "DOUBLE", "object": "STRING",
    "float8_e4m3fn": "FLOAT8E4M3FN", "float8_e5m2": "FLOAT8E5M2",
    "float8_e4m3fnuz": "FLOAT8E4M3FNUZ", "float8_e5m2fnuz": "FLOAT8E5M2FNUZ",
    "float4_e2m1fn": "FLOAT4E2M1", "float8_e8m0fnu": "FLOAT8E8M0"}
"""Names of NumPy's types to those of the standard, where they are not the same in capitals."""
def check_texts(what: str, *names: object) -> None:
    """That names are texts: the format's reader gives bytes for what is no UTF-8."""
    for name in names:
        if not isinstance(name, str):
            raise ArgumentError(f"a name in {what} is no text: {name!r:.60}")


REFUSED = {"COMPLEX64": "lazyten has no complex numbers", "UNDEFINED": "it has no type",
           "COMPLEX128": "lazyten has no complex numbers"}


def type_name(number: int) -> str:
    """The name of an element type: "FLOAT", "INT64", .. Raises ArgumentError if there is none."""
    try:
        return str(TensorProto.DataType.Name(number))
    except ValueError:
        raise ArgumentError(f"element type {number}: the standard has none of this number"
                            ) from None


def numpy_type(number: int) -> np.dtype[np.generic]:
    """NumPy's type of an element type. Raises ArgumentError for those that are refused."""
    name = type_name(number)
    if name in REFUSED:
        raise ArgumentError(f"element type {name}: {REFUSED[name]}")
    return np.dtype(object) if name == "STRING" else np.dtype(
        helper.tensor_dtype_to_np_dtype(number))


def read_tensor(proto: TensorProto, folder: Path | None) -> Array:
    """The elements of a TensorProto; folder is where external data lies. Raises ArgumentError."""
    title = f"tensor {proto.name!r}"
    try:
        numpy_type(proto.data_type)
    except ArgumentError as error:
        raise ArgumentError(f"{title}: {error}") from None
    shape = tuple(proto.dims)
    if any(n < 0 for n in shape) or math.prod(shape) > SIZE_LIMIT:
        raise ArgumentError(f"{title} of shape {shape}: sizes must be at least 0, and "
                            f"{SIZE_LIMIT} elements at most")
    if proto.HasField("segment"):
        raise ArgumentError(f"{title} comes in segments: the standard does not say how")
    if proto.data_location == TensorProto.EXTERNAL:
        whole = TensorProto()
        whole.CopyFrom(proto)
        whole.ClearField("external_data")
        whole.data_location = TensorProto.DEFAULT
        whole.raw_data = _external(proto, folder, title)
        proto = whole
    try:
        array = numpy_helper.to_array(proto)
        if array.dtype == object:
            array = np.array([x.decode() if isinstance(x, bytes) else x for x in array.ravel()],
                             object).reshape(shape)
    except (ValueError, TypeError, IndexError, KeyError, OverflowError) as error:
        raise ArgumentError(f"{title} of {type_name(proto.data_type)} {list(shape)}: its data do "
                            f"not fit: {error}") from error
    if array.shape != shape:
        raise ArgumentError(f"{title} of shape {shape}: its data are {array.shape}")
    return array


def _external(proto: TensorProto, folder: Path | None, title: str) -> bytes:
    """The bytes of a tensor whose data lie in a file beside the model."""
    check_texts(title, *(x for entry in proto.external_data for x in (entry.key, entry.value)))
    entries = {entry.key: entry.value for entry in proto.external_data}
    location = entries.get("location", "")
    if folder is None:
        raise ArgumentError(f"{title} lies in the file {location!r}: load the model by its path, "
                            f"so that its folder is known")
    path = (folder / location).resolve()
    if not location or not path.is_relative_to(folder.resolve()):
        raise ArgumentError(f"{title} lies in {location!r}, outside the model's folder; that is "
                            f"not read")
    if not path.is_file():
        raise ArgumentError(f"{title} lies in {location!r}, and there is no such file beside the "
                            f"model")
    try:
        offset, length = int(entries.get("offset", 0)), int(entries.get("length", -1))
    except ValueError as error:
        raise ArgumentError(f"{title} in {location!r}: {error}") from None
    size = path.stat().st_size
    length = size - offset if length < 0 else length
    if offset < 0 or length < 0 or offset + length > size:
        raise ArgumentError(f"{title} takes {length} bytes from byte {offset} of {location!r}, "
                            f"which has {size}")
    with path.open("rb") as file:
        file.seek(offset)
        data: bytes = file.read(length)
        return data


def read_sparse(proto: SparseTensorProto, folder: Path | None) -> Array:
    """A sparse tensor with its zeros. Raises ArgumentError."""
    values, indices = read_tensor(proto.values, folder), read_tensor(proto.indices, folder)
    shape = tuple(proto.dims)
    title = f"sparse tensor {proto.values.name!r} of shape {shape}"
    if any(n < 0 for n in shape) or math.prod(shape) > SIZE_LIMIT >> 4:
        raise ArgumentError(f"{title}: sizes must be at least 0, and {SIZE_LIMIT >> 4} elements "
                            f"at most")
    if indices.dtype != np.int64 or values.ndim != 1 or len(indices) != len(values) \
            or indices.ndim not in (1, 2) or (indices.ndim == 2 and indices.shape[1] != len(shape)):
        raise ArgumentError(f"{title}: values {values.shape}, indices {indices.shape}")
    try:
        flat = indices if indices.ndim == 1 else np.ravel_multi_index(tuple(indices.T), shape)
        dense = np.zeros(math.prod(shape), values.dtype)
        dense[flat] = values
    except (ValueError, IndexError) as error:
        raise ArgumentError(f"{title}: {error}") from error
    return dense.reshape(shape)
