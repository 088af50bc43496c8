"""Why an attribute is not there, by patterns of names.

In: the name of a module or a class, and an attribute that it does not have. Out: the AttributeError
to raise: what lazyten does not have for a reason names it and what to use instead.
"""
from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NoReturn

_COMPLEX = ("complex numbers of two 16-bit floats are not there; complex64 and complex128 are")
_REAL = "its elements are real, and only complex ones have an imaginary part"
_FACTORS = ("PyTorch has taken this name away; use lt.linalg.eig, or lt.linalg.eigh for symmetric "
            "matrices")
_REMOVED = ("PyTorch has taken this name away; use lt.linalg.lstsq, lt.linalg.solve or "
            "lt.linalg.matrix_rank")
_SPARSE = ("of sparse tensors there are those in coordinates and in compressed rows or columns, "
           "and what lazyten.sparse has for them (docs/sparse.md); in between use to_dense(), or "
           "compute with their values()")
_INTEGERS = ("no tensors of quantized numbers are there; lazyten.quantize(model) keeps weights as "
             "integers, and lazyten.fake_quantize_per_tensor_affine rounds floats to what integers "
             "leave of them (docs/quantization.md)")
_STORAGES = ("what a tensor's values live in is not shown, as they may not be computed yet; "
             "x.numpy() has the values, x.data_ptr() their address, x.untyped_storage() their size")
_LIBRARY = ("it is the call of a library that lazyten does not use; the function of the same "
            "purpose without the library's name is in lazyten or in lazyten.nn.functional")
_ORDER = ("it is a part of what PyTorch does in several steps, which is one here; use the function "
          "of nn.functional")
_WEIGHTS = ("use nn.LSTM, nn.GRU or nn.RNN, which hold the weights that it is given one by one, or "
            "lstm_cell, gru_cell and the like for a step")
_SYMBOLS = "sizes are numbers of Python: what is compiled for one size is not used for another"
_SCRIPT = ("it is a part of TorchScript, which is a language of its own; functions are compiled as "
           "they are, by lt.jit")
_PYTHON = "Python's own if, while and for do it: what they choose by is looked at as they run"

REASONS: tuple[tuple[str, str], ...] = (
    (r"complex32|chalf", _COMPLEX), (r"imag", _REAL),
    (r"eig|symeig", _FACTORS), (r"lstsq|solve|matrix_rank", _REMOVED),
    (r"\w*sparse\w*|\w*(ccol|crow|col|row)_indices(_copy)?|h?spmm|s?smm|hsmm|saddmm|sspaddmm"
     r"|(indices|values)(_copy)?", _SPARSE),
    (r"(fake_)?quantize\w*|q(u?int)?\d+(x\d)?|quint\w+|q_\w+|dequantize|\w*_q?params\w*|int_repr"
     r"|quantized_\w+|per_(tensor|channel)_\w+|qscheme|empty_quantized|fbgemm_\w+|fused_moving_\w+"
     r"|u?int[1-7]|bits?(\d\w*)?|float[48]_e\w+", _INTEGERS),
    (r"PyTorchFile\w+", "files are safetensors; lazyten.load and lazyten.save read and write them"),
    (r"\w*Storage(Base)?|storage_type", _STORAGES),
    (r"(cudnn|miopen|mkldnn|native|slow|legacy)_\w+", _LIBRARY),
    (r"batch_norm_\w*|embedding(_bag|_renorm_)", _ORDER),
    (r"lstm|gru|rnn_(tanh|relu)", _WEIGHTS),
    (r"Sym(Int|Float|Bool)|sym_\w+", _SYMBOLS),
    (r"cond|while_loop", _PYTHON),
    (r"\w*Type|Script\w+|Graph\w*|Argument(Spec)?|CompilationUnit|FunctionSchema|(import|parse|merge)_\w+",
     _SCRIPT),
    (r"Stream|Event", "launches on other streams are not to be had; lazyten orders its own"),
    (r"to_mkldnn", "lazyten lays tensors out for each kernel itself"),
)
"""Patterns of whole names, and why none of them is there; the first that fits counts."""


def reason(name: str) -> str | None:
    """Why lazyten has no such name; None if nothing is known of it."""
    return next((why for pattern, why in REASONS if re.fullmatch(pattern, name)), None)


def no_attribute(owner: str, name: str) -> AttributeError:
    """The error of a module or a class that has no such attribute."""
    why = None if name.startswith("__") else reason(name)
    text = f"module {owner!r} has no attribute {name!r}" if why is None else \
        f"{owner} has no {name!r}: {why}"
    return AttributeError(text, name=name)


TENSOR_METHODS = (
    "chalf", "dequantize", "eig", "imag", "int_repr",
    "lstsq", "q_per_channel_axis", "q_per_channel_scales",
    "q_per_channel_zero_points", "q_scale", "q_zero_point", "qscheme", "resize_as_sparse_",
    "smm", "solve", "sparse_resize_", "sparse_resize_and_clear_",
    "sspaddmm", "storage_type", "symeig", "to_mkldnn", "to_sparse_bsc",
    "to_sparse_bsr")
"""Methods of PyTorch's tensors that lazyten's lack for a reason."""


TYPES = ("Event", "PyTorchFileReader", "PyTorchFileWriter", "ScriptFunction", "ScriptModule",
         "ScriptObject", "Stream", "SymBool", "SymFloat", "SymInt", "TensorType")
"""Classes that packages import, name in annotations and compare with, of which there is nothing."""


ELEMENTS = ("complex32", "float4_e2m1fn_x2", "float8_e4m3fnuz", "float8_e5m2fnuz",
            "float8_e8m0fnu", "qint32", "qint8", "quint8")
"""Element types that packages compare with, and that no tensor has."""


class Absent:
    """An attribute of a class that is not there: AttributeError, with the reason.

    (A `__getattr__` of the class would slow each attribute that is there.)"""

    def __set_name__(self, owner: type, name: str) -> None:
        self.owner, self.name = owner.__name__, name

    def __get__(self, instance: object, owner: type | None = None) -> NoReturn:
        raise no_attribute(self.owner, self.name)


def mark_absent(owner: type, names: Iterable[str]) -> None:
    """Let a class say why it has no attributes of these names."""
    for name in names:
        absent = Absent()
        absent.__set_name__(owner, name)
        setattr(owner, name, absent)
