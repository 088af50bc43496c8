"""What PyTorch says and lazyten must say too, one named check a row: a function of the library and
of tensors that both libraries have. `test_torch_semantics.py` runs them side by side."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

ARRAYS = {
    "f": np.array([[1.5, -2.0, 3.0], [0.5, 4.0, -1.0]], np.float32),
    "g": np.array([[0.5, 2.0, -3.0], [1.0, 1.0, 2.5]], np.float32),
    "p": np.array([[1.5, 2.0, 3.0], [0.5, 4.0, 1.0]], np.float32),
    "u": np.array([[0.1, -0.2, 0.3], [0.5, 0.9, -0.7]], np.float32),
    "v": np.array([1.0, -2.0, 3.0], np.float32),
    "w": np.array([2.0, 0.5, -1.0], np.float32),
    "d": np.array([1.0, 2.0, 4.0], np.float64),
    "i": np.array([[1, -2, 3], [4, 5, -6]], np.int64),
    "j": np.array([[2, 3, -2], [3, -4, 4]], np.int64),
    "s": np.array([3, 1, 2, 3, 1, 1], np.int64),
    "b": np.array([[True, False, True], [False, False, True]]),
    "c": np.arange(24, dtype=np.float32).reshape(2, 3, 4),
    "e": np.linspace(-1, 1, 40, dtype=np.float32).reshape(2, 4, 5),
    "m": np.arange(9, dtype=np.float32).reshape(3, 3) - 4,
    "n": np.array([1.0, np.nan, -np.inf, np.inf, 0.0, -0.0], np.float32),
    "z": np.array(2.5, np.float32),
    "x": np.array([0, 2, 1], np.int64),
    "o": np.zeros((0, 3), np.float32),
}


class Both:
    """The arrays as tensors of one library, by name."""

    def __init__(self, make: Callable[[np.ndarray[Any, Any]], Any]) -> None:
        for name, array in ARRAYS.items():
            setattr(self, name, make(array.copy()))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


Check = Callable[[Any, Any], Any]


def written(x: Any, write: Callable[[Any], Any]) -> Any:
    """A copy of `x` after something is written to it, or to a view of it."""
    copy = x.clone()
    write(copy)
    return copy


def leaf(x: Any) -> Any:
    """A copy of `x` that collects gradients."""
    return x.clone().requires_grad_()


def last(m: Any, t: Any) -> Any:
    """A batch of images whose channels are next to each other in memory."""
    return t.c.reshape(2, 3, 2, 2).contiguous(memory_format=m.channels_last)


def gradient_of(x: Any, function: Callable[[Any], Any]) -> Any:
    """The gradient of the sum of what a function makes of `x`."""
    x = leaf(x)
    function(x).sum().backward()
    return x.grad


def error_of(call: Callable[[], Any]) -> str:
    """Whether a call is refused."""
    try:
        call()
    except (RuntimeError, IndexError, ValueError, TypeError):
        return "an error"
    return "no error"


METADATA: dict[str, Check] = {
    "nbytes counts the elements of a view": lambda m, t: t.c[0].nbytes,
    "itemsize and element_size": lambda m, t: (t.d.itemsize, t.d.element_size()),
    "kinds of types": lambda m, t: [(k.is_floating_point, k.is_complex, k.is_signed) for k in (
        m.float32, m.bfloat16, m.float8_e5m2, m.int8, m.int64, m.uint8, m.uint16, m.bool)],
    "nelement, ndimension, dim, numel": lambda m, t: (
        t.c.nelement(), t.c.ndimension(), t.c.dim(), t.c.numel()),
    "is_floating_point": lambda m, t: (t.f.is_floating_point(), t.i.is_floating_point()),
    "is_complex": lambda m, t: t.f.is_complex(),
    "is_signed": lambda m, t: (t.i.is_signed(), t.b.is_signed(), t.f.is_signed()),
    "is_nonzero of a number": lambda m, t: t.z.is_nonzero(),
    "is_same_size": lambda m, t: (t.f.is_same_size(t.g), t.f.is_same_size(t.v)),
    "is_set_to of the same view": lambda m, t: t.f[0].is_set_to(t.f[0]),
    "is_set_to of another view": lambda m, t: t.f[0].is_set_to(t.f[1]),
    "a transpose is not contiguous": lambda m, t: (t.f.T.is_contiguous(), t.f.is_contiguous()),
    "stride and offset of a slice": lambda m, t: (
        tuple(t.c[:, 1:, ::2].stride()), t.c[:, 1:, ::2].storage_offset()),
    "channels_last has its strides": lambda m, t: (
        tuple(last(m, t).stride()), last(m, t), last(m, t).is_contiguous(),
        last(m, t).is_contiguous(memory_format=m.channels_last)),
    "to and clone in channels_last": lambda m, t: [tuple(x.stride()) for x in (
        last(m, t), t.c.reshape(2, 3, 2, 2).to(memory_format=m.channels_last),
        t.c.reshape(2, 3, 2, 2).clone(memory_format=m.channels_last),
        last(m, t).clone(memory_format=m.contiguous_format),
        t.c.reshape(1, 2, 3, 2, 2).to(m.float64, memory_format=m.channels_last_3d))],
    "channels_last of what is so is itself": lambda m, t: [
        x.contiguous(memory_format=m.channels_last).is_set_to(x) for x in [last(m, t)]],
    "clone in channels_last is a tensor of its own": lambda m, t: [
        (x, x.clone(memory_format=m.channels_last).add_(1)) for x in [last(m, t)]],
    "a write through channels_last": lambda m, t: written(
        last(m, t), lambda x: x[:, 1].zero_()),
    "a gradient through channels_last": lambda m, t: gradient_of(
        t.c.reshape(2, 3, 2, 2), lambda x: x.contiguous(memory_format=m.channels_last) ** 2),
    "channels_last of three axes": lambda m, t: error_of(
        lambda: t.c.contiguous(memory_format=m.channels_last)),
    "a leaf has no grad_fn": lambda m, t: leaf(t.f).grad_fn is None,
    "a result has a grad_fn": lambda m, t: (leaf(t.f) * 2).grad_fn is not None,
    "grad_fn is named after the operation": lambda m, t: (
        (leaf(t.f) * 2).grad_fn.name().startswith("MulBackward"),
        leaf(t.f).sigmoid().grad_fn.name().startswith("SigmoidBackward")),
    "is_leaf": lambda m, t: (leaf(t.f).is_leaf, (leaf(t.f) * 2).is_leaf, (t.f * 2).is_leaf),
    "a detached result is a leaf": lambda m, t: (leaf(t.f) * 2).detach().is_leaf,
    "finfo of float32": lambda m, t: (m.finfo(m.float32).eps, m.finfo(m.float32).max,
                                      m.finfo(m.float32).tiny, m.finfo(m.float32).bits),
    "finfo of float16": lambda m, t: (m.finfo(m.float16).eps, m.finfo(m.float16).max,
                                      m.finfo(m.float16).min, m.finfo(m.float16).tiny),
    "finfo of bfloat16": lambda m, t: (m.finfo(m.bfloat16).eps, m.finfo(m.bfloat16).max,
                                       m.finfo(m.bfloat16).smallest_normal),
    "finfo of float64": lambda m, t: (m.finfo(m.float64).eps, m.finfo(m.float64).max,
                                      m.finfo(m.float64).resolution),
    "iinfo": lambda m, t: [(m.iinfo(k).min, m.iinfo(k).max, m.iinfo(k).bits) for k in (
        m.int8, m.uint8, m.int16, m.int32, m.int64)],
    "can_cast": lambda m, t: [m.can_cast(a, b) for a in (m.int32, m.float64, m.float16)
                              for b in (m.uint8, m.float32, m.int64)],
    "result_type with a number": lambda m, t: (m.result_type(t.i, 1.5) == m.float32,
                                               m.result_type(t.f, 2) == m.float32),
    "result_type with a zero-dim tensor": lambda m, t: m.result_type(
        t.i, t.z) == m.float32,
    "get_default_dtype": lambda m, t: m.get_default_dtype() == m.float32,
}

VIEWS: dict[str, Check] = {
    "diagonal": lambda m, t: t.m.diagonal(),
    "diagonal with an offset": lambda m, t: (t.m.diagonal(1), t.m.diagonal(-2), t.m.diagonal(5)),
    "diagonal of two of three axes": lambda m, t: t.c.diagonal(0, 2, 0),
    "diagonal strides": lambda m, t: (tuple(t.c.diagonal(1, 1, 2).stride()),
                                      t.c.diagonal(1, 1, 2).storage_offset()),
    "a write to a diagonal": lambda m, t: written(t.m, lambda x: x.diagonal(1).add_(10)),
    "fill_diagonal_": lambda m, t: written(t.m, lambda x: x.fill_diagonal_(7)),
    "unfold": lambda m, t: t.c.unfold(2, 2, 1),
    "unfold with a step": lambda m, t: t.c.unfold(2, 2, 2),
    "unfold strides": lambda m, t: tuple(t.c.unfold(1, 2, 1).stride()),
    "unfold of windows of nothing": lambda m, t: t.v.unfold(0, 0, 1),
    "a write to windows that do not overlap": lambda m, t: written(
        t.c, lambda x: x.unfold(2, 2, 2).mul_(3)),
    "as_strided": lambda m, t: t.c.as_strided((2, 3), (4, 1), 5),
    "as_strided with overlaps": lambda m, t: t.v.as_strided((2, 2), (1, 1)),
    "as_strided of a view starts where the view does": lambda m, t: t.c[1].as_strided((2,), (3,)),
    "as_strided strides": lambda m, t: tuple(t.c.as_strided((2, 2, 2), (1, 5, 2), 3).stride()),
    "as_strided outside the storage": lambda m, t: error_of(
        lambda: t.v.as_strided((2, 2), (2, 1))),
    "as_strided with a negative stride": lambda m, t: error_of(
        lambda: t.v.as_strided((2,), (-1,), 2)),
    "a write through as_strided": lambda m, t: written(
        t.c, lambda x: x.as_strided((2, 3), (7, 2), 1).fill_(9)),
    "the gradient of as_strided": lambda m, t: gradient_of(
        t.v, lambda x: x.as_strided((2, 2), (1, 1)) * 3),
    "the gradient of unfold": lambda m, t: gradient_of(t.c, lambda x: x.unfold(2, 3, 1) ** 2),
    "mT of a number and of a vector": lambda m, t: (t.z.mT, error_of(lambda: t.v.mT)),
    "movedim": lambda m, t: t.c.movedim(0, -1),
    "movedim of two": lambda m, t: t.c.movedim((0, 2), (1, 0)),
    "moveaxis, swapaxes, swapdims": lambda m, t: (t.c.moveaxis(2, 0), t.c.swapaxes(0, 1),
                                                  t.c.swapdims(-1, 0)),
    "ravel": lambda m, t: t.c.ravel(),
    "tensor_split into parts": lambda m, t: t.c.tensor_split(3, 2),
    "tensor_split at places": lambda m, t: t.c.tensor_split([1, 3], 2),
    "tensor_split at places out of order": lambda m, t: t.v.tensor_split((2, 1, 9)),
    "hsplit, vsplit, dsplit": lambda m, t: (t.c.hsplit(3), t.c.vsplit(2), t.c.dsplit([1])),
    "hsplit into unequal parts": lambda m, t: error_of(lambda: t.c.hsplit(2)),
    "expand_as, view_as, reshape_as": lambda m, t: (
        t.v.expand_as(t.f), t.c.view_as(t.c), t.f.reshape_as(t.f.T)),
    "a write to an expanded view": lambda m, t: error_of(lambda: t.v.expand(2, 3).add_(1)),
    "flip makes a new tensor": lambda m, t: written(t.f, lambda x: x.flip(0).add_(100)),
    "fliplr and flipud": lambda m, t: (t.f.fliplr(), t.f.flipud()),
    "rot90": lambda m, t: [t.f.rot90(k) for k in range(-1, 5)],
    "rot90 of other axes": lambda m, t: t.c.rot90(1, (2, 0)),
    "a write to a transposed slice": lambda m, t: written(
        t.c, lambda x: x[:, 1].T.mul_(2)),
    "select, narrow": lambda m, t: (t.c.select(1, -1), t.c.narrow(2, 1, 2)),
    "a view of a view of a view": lambda m, t: written(
        t.c, lambda x: x.transpose(0, 2)[1:].reshape(3, 3, 2)[:, 0].zero_()),
    "in-place on a chunk": lambda m, t: written(t.c, lambda x: x.chunk(2, 2)[1].neg_()),
}

IN_PLACE: dict[str, Check] = {
    **{f"{name}_": lambda m, t, name=name: written(t.u, lambda x: getattr(x, f"{name}_")())
       for name in ["abs", "neg", "sign", "square", "exp", "exp2", "expm1", "sin", "cos",
                    "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "atanh", "floor",
                    "ceil", "trunc", "round", "frac", "erf", "relu", "sigmoid", "tanh"]},
    **{f"{name}_": lambda m, t, name=name: written(t.p, lambda x: getattr(x, f"{name}_")())
       for name in ["sqrt", "rsqrt", "reciprocal", "log", "log2", "log10", "log1p"]},
    "masked_fill_": lambda m, t: written(t.f, lambda x: x.masked_fill_(t.b, 9)),
    "lerp_": lambda m, t: written(t.f, lambda x: x.lerp_(t.g, 0.25)),
    "addcmul_ and addcdiv_": lambda m, t: written(
        t.f, lambda x: x.addcmul_(t.g, t.p, value=2).addcdiv_(t.g, t.p)),
    "floor_divide_, remainder_, fmod_": lambda m, t: (
        written(t.f, lambda x: x.floor_divide_(2)), written(t.f, lambda x: x.remainder_(1.625)),
        written(t.f, lambda x: x.fmod_(2))),
    "cumsum_": lambda m, t: written(t.f, lambda x: x.cumsum_(1)),
    "tril_, triu_": lambda m, t: (written(t.m, lambda x: x.tril_()),
                                  written(t.m, lambda x: x.triu_(1))),
    "clip_": lambda m, t: written(t.f, lambda x: x.clip_(-1, 1)),
    "//= keeps the tensor": lambda m, t: written(t.i, lambda x: x.T.__ifloordiv__(2)),
    "%= keeps the tensor": lambda m, t: written(t.i, lambda x: x.T.__imod__(3)),
    "**= keeps the tensor": lambda m, t: written(t.p, lambda x: x.T.__ipow__(2)),
    "&=, |=, ^= keep the tensor": lambda m, t: (
        written(t.i, lambda x: x[0].__iand__(3)), written(t.i, lambda x: x[0].__ior__(8)),
        written(t.i, lambda x: x[0].__ixor__(5))),
    "<<=, >>= keep the tensor": lambda m, t: (
        written(t.i, lambda x: x[0].__ilshift__(2)), written(t.i, lambda x: x[0].__irshift__(1))),
    "in place, ints do not become floats": lambda m, t: error_of(lambda: t.i.clone().div_(2)),
    "in place on a leaf": lambda m, t: error_of(lambda: leaf(t.f).exp_()),
    "in place, a comparison is of the tensor's dtype": lambda m, t: written(
        t.f, lambda x: x.lt_(1)),
    "the gradient through an in-place method": lambda m, t: gradient_of(
        t.f, lambda x: (x * 2).tanh_() * x),
    "index_fill_": lambda m, t: written(t.f, lambda x: x.index_fill_(1, t.x[:2], 5)),
    "masked_scatter_": lambda m, t: written(t.f, lambda x: x.masked_scatter_(t.b, t.g)),
    "addmm_": lambda m, t: written(t.m, lambda x: x.addmm_(t.m, t.m, beta=0.5)),
}

CREATION: dict[str, Check] = {
    "new_zeros": lambda m, t: (t.i.new_zeros(2), t.f.new_zeros((2, 1)), t.i.new_zeros(2, 3)),
    "new_ones with a dtype": lambda m, t: t.i.new_ones((2,), dtype=m.float64),
    "new_full": lambda m, t: t.d.new_full((2, 2), 3),
    "new_tensor of a list": lambda m, t: t.i.new_tensor([1, 2]),
    "new_tensor of floats": lambda m, t: t.d.new_tensor([1.5]),
    "new_tensor of what has a type of its own": lambda m, t: [
        t.f.new_tensor(x) for x in (np.ones(2), np.float64(1), [np.int64(1)], [m.tensor(1)])],
    "tensors of sequences of numbers of several types": lambda m, t: [
        m.tensor(x) for x in (
            [np.float32(1), 2], [1.0, np.float64(2)], [2, np.float16(1)], [np.float16(1), 1.0],
            [np.bool_(True), 2.0], [np.int64(2), 1.5], [np.int8(1), np.uint8(1)],
            [m.tensor(1.0), 2], [2.0, m.tensor(1.0, dtype=m.float64)], [[m.tensor(1)], [2.5]],
            [m.tensor(1.0).half(), m.tensor(2)], [True, 2.5],
            [[np.float32(1)], [np.float64(2)]], np.float32(3), [[1, 2.5], [3, 4]], [], [[], []])],
    "a tensor of a bfloat16": lambda m, t: m.tensor([m.ones(1).bfloat16()]).dtype is m.bfloat16,
    "tensors of sequences of tensors of one element": lambda m, t: [
        m.tensor(x) for x in (
            [m.tensor([1.0]), m.tensor([[2.0]])], [m.tensor([1]), 2.5],
            [[1.0], m.tensor([1.0])], [[m.tensor([[1.0]])]])],
    "new_empty has the shape": lambda m, t: tuple(t.f.new_empty(3, 2).shape),
    "as_tensor of a tensor is itself": lambda m, t: m.as_tensor(t.f) is t.f,
    "as_tensor converts": lambda m, t: m.as_tensor(t.f, dtype=m.float64),
    "as_tensor of numbers": lambda m, t: m.as_tensor([1, 2]) + 0,
    "as_tensor of a byte-swapped column of an array": lambda m, t: m.as_tensor(
        np.arange(6, dtype=np.int32).reshape(2, 3)[:, 1].copy()),
    "from_numpy shares": lambda m, t: sharing(m.from_numpy),
    "as_tensor shares": lambda m, t: sharing(m.as_tensor),
    "from_dlpack shares": lambda m, t: sharing(m.from_dlpack),
    "frombuffer shares": lambda m, t: sharing(
        lambda a: m.frombuffer(a, dtype=m.float64).view(2, 3)),
    "tensor copies": lambda m, t: sharing(m.tensor),
    "as_tensor of another dtype copies": lambda m, t: sharing(
        lambda a: m.as_tensor(a, dtype=m.float32)),
    "the strides of a transposed array": lambda m, t: tuple(
        m.from_numpy(ARRAYS["c"].copy().transpose(2, 0, 1)).stride()),
    "from_numpy of objects, structures, text": lambda m, t: [
        error_of(lambda a=a: m.from_numpy(a)) for a in (
            np.array([None]), np.zeros(2, "f4,i4"), np.array(["x"]))],
    "clone is a tensor of its own": lambda m, t: written(t.f, lambda x: x.clone().zero_()),
    "detach shares": lambda m, t: written(t.f, lambda x: x.detach().zero_()),
    "the gradient flows through clone": lambda m, t: gradient_of(t.f, lambda x: x.clone() * 3),
    "type_as": lambda m, t: t.f.type_as(t.d),
    "short, char, byte": lambda m, t: (t.i.short(), t.i.char(), t.s.byte()),
    "meshgrid": lambda m, t: m.meshgrid(t.v, t.w, indexing="ij"),
    "meshgrid of rows first": lambda m, t: m.meshgrid(t.v, t.w[:2], indexing="xy"),
    "hstack, vstack, dstack": lambda m, t: (m.hstack((t.v, t.w)), m.vstack((t.v, t.w)),
                                            m.dstack((t.v, t.w)), m.hstack((t.f, t.g))),
    "tile": lambda m, t: (t.f.tile(2), t.f.tile((2, 1, 2)), t.v.tile(2, 2)),
    "repeat_interleave": lambda m, t: (t.f.repeat_interleave(2), t.f.repeat_interleave(2, 1)),
    "repeat_interleave by a tensor": lambda m, t: t.f.repeat_interleave(t.x, 1),
    "diag of a vector and of a matrix": lambda m, t: (t.v.diag(), t.v.diag(1), t.m.diag(-1)),
    "diag_embed": lambda m, t: (t.f.diag_embed(), t.f.diag_embed(-1)),
    "tril and triu as methods": lambda m, t: (t.f.tril(), t.c.triu(1)),
    "roll of all elements": lambda m, t: t.f.roll(2),
    "roll of two axes": lambda m, t: t.f.roll((1, -1), (0, 1)),
    "set_default_dtype": lambda m, t: with_default(m),
}


def sharing(make: Callable[[np.ndarray[Any, Any]], Any]) -> Any:
    """What shows of writes to an array and to what is made of it."""
    array = np.arange(6.0).reshape(2, 3)
    x = make(array)
    before, view = x + 1, x[1]
    array[1] = 7
    after = x.clone()
    view.mul_(2)
    x[:, 0].fill_(-1)
    return before, after, x, view, array.tolist()


def with_default(m: Any) -> Any:
    """The dtypes of new tensors while float64 is the default."""
    m.set_default_dtype(m.float64)
    try:
        return [x.dtype == m.float64 for x in (
            m.tensor([1.0]), m.zeros(1), m.tensor([1]) / 2, m.logspace(0, 1, 3),
            m.linspace(0, 1, 3), m.hann_window(4), m.tensor([1]).sqrt(), m.tensor([1]) * 1.5)]
    finally:
        m.set_default_dtype(m.float32)


PRODUCTS: dict[str, Check] = {
    **{f"einsum {equation}": lambda m, t, e=equation, o=operands: m.einsum(
        e, *[getattr(t, name) for name in o]) for equation, operands in {
            "ij,kj->ik": "fg", "ij->ji": "f", "ij->": "f", "ii->i": "m", "ii": "m", "i,j->ij": "vw",
            "ij,ij->i": "fg", "bij,bjk->bik": "ce"[:1] + "e", "...j,j->...": "fv",
            "ij,jk,k->i": "fmv", "ijk->kji": "c", "ij,j": "fv", "a...,a...->...": "fg"}.items()
       if operands != "ce"},
    "einsum of one tensor of narrow integers sums as sum does": lambda m, t: [
        m.einsum(e, x) for e in ("ij->j", "ij->", "ij->ji") for x in (
            (t.i * 30).to(m.int8), t.b, (t.f * 100).to(m.float16))],
    "einsum sums what one tensor alone has, integers as sum does": lambda m, t: [
        m.einsum(e, *x) for x in (
            ((t.f.abs() * 9).to(m.uint8), (t.g.abs() * 9).to(m.uint8)), (t.f, t.g))
        for e in ("ij,kl->", "ij,kl->il", "ij,kj->", "ij,kl->jk")],
    "einsum of batches": lambda m, t: m.einsum("bij,bjk->bik", t.c, t.e),
    "einsum of a list": lambda m, t: m.einsum("i,i->", [t.v, t.w]),
    "einsum by numbers of axes": lambda m, t: (
        m.einsum(t.f, [0, 1], t.m, [1, 2], [2, 0]), m.einsum(t.f, [1, 0]),
        m.einsum(t.f, (27, 1), t.g, (27, 1)), m.einsum(t.c, [..., 3], t.e[0], [3, 51], [51, ...]),
        m.einsum(t.m, [0, 0], [])),
    "the gradient of einsum": lambda m, t: gradient_of(
        t.f, lambda x: m.einsum("ij,kj,ik->k", x, t.m, x[:, :3])),
    "outer, ger": lambda m, t: (t.v.outer(t.w), t.v.ger(t.w)),
    "inner": lambda m, t: (t.f.inner(t.g), t.v.inner(t.w), t.f.inner(t.z)),
    "mv, mm, bmm": lambda m, t: (t.f.mv(t.v), t.f.mm(t.m), t.c.bmm(t.e)),
    "mm of a vector": lambda m, t: error_of(lambda: t.f.mm(t.v)),
    "bmm of matrices": lambda m, t: error_of(lambda: t.f.bmm(t.m)),
    "vdot, dot": lambda m, t: (t.v.vdot(t.w), t.v.dot(t.w)),
    "addmm": lambda m, t: t.v.addmm(t.f, t.m, beta=0.5, alpha=2),
    "addmm with beta=0 ignores NaN": lambda m, t: (t.v * float("nan")).addmm(t.f, t.m, beta=0),
    "addmv": lambda m, t: t.v[:2].addmv(t.f, t.w, alpha=3),
    "baddbmm": lambda m, t: m.ones(2, 3, 5).to(t.f.device).baddbmm(t.c, t.e, alpha=0.5),
    "tensordot": lambda m, t: m.tensordot(t.c, t.e.transpose(0, 1), dims=([0, 2], [1, 0])),
    "tensordot of the last axes": lambda m, t: (m.tensordot(t.f, t.m, 1), m.tensordot(t.v, t.w, 0)),
    "kron": lambda m, t: (t.f.kron(t.g), t.v.kron(t.f)),
    "cross": lambda m, t: (t.f.cross(t.g, dim=1), t.v.cross(t.w, dim=0)),
    "cross along the first axis of size 3": lambda m, t: (
        t.m.cross(t.m.T), t.c.transpose(0, 1).cross(t.c.transpose(0, 1) + 1), t.f.cross(t.g),
        m.linalg.cross(t.m, t.m.T)),
    "trace": lambda m, t: t.m.trace(),
    "the gradient of kron and cross": lambda m, t: (
        gradient_of(t.f, lambda x: x.kron(t.g) ** 2),
        gradient_of(t.f, lambda x: x.cross(t.g, dim=1) ** 2)),
}

ORDER: dict[str, Check] = {
    "sort": lambda m, t: (*t.f.sort(), *t.f.sort(0)),
    "sort from the greatest": lambda m, t: tuple(t.f.sort(1, descending=True)),
    "sort is stable": lambda m, t: (*t.s.sort(stable=True),
                                    *m.sort(t.s, descending=True, stable=True)),
    "sort puts NaN last": lambda m, t: t.n.sort(stable=True).indices,
    "sort puts NaN first from the greatest": lambda m, t: m.sort(
        t.n, descending=True, stable=True).indices,
    "sort of a zero-dim tensor": lambda m, t: tuple(t.z.sort()),
    "sort of bools": lambda m, t: t.b.sort(1).values,
    "argsort": lambda m, t: t.f.argsort(1),
    "msort": lambda m, t: t.f.msort(),
    "topk": lambda m, t: (*t.f.topk(2), *t.f.topk(1, 0, largest=False)),
    "topk of too many": lambda m, t: error_of(lambda: t.f.topk(4)),
    "kthvalue": lambda m, t: (*t.f.kthvalue(2), *t.f.kthvalue(1, 0, True)),
    "median": lambda m, t: (t.f.median(), *t.f.median(1), *t.f.median(0, True)),
    "median with NaN": lambda m, t: t.n.median(),
    "quantile": lambda m, t: (t.f.quantile(0.3), t.f.quantile(0.5, 1), t.d.quantile(
        t.d / 4, 0, keepdim=True)),
    "quantile with keepdim": lambda m, t: t.f.quantile(0.25, keepdim=True),
    "the gradient of sort": lambda m, t: gradient_of(t.f, lambda x: x.sort(1)[0] * t.g),
    "the gradient of topk": lambda m, t: gradient_of(t.f, lambda x: x.topk(2)[0] ** 2),
    "unique": lambda m, t: (t.s.unique(), *t.s.unique(return_inverse=True, return_counts=True)),
    "unique_consecutive": lambda m, t: t.s.unique_consecutive(
        return_inverse=True, return_counts=True),
    "bincount": lambda m, t: (t.s.bincount(), t.s.bincount(minlength=6)),
    "bincount with weights": lambda m, t: t.x.bincount(t.v),
    "bincount of negative numbers": lambda m, t: error_of(lambda: t.i[0].bincount()),
    "searchsorted": lambda m, t: (m.searchsorted(t.d, t.d), m.searchsorted(t.d, t.d, right=True),
                                  m.searchsorted(t.d, t.d * 1.5 - 2)),
    "bucketize": lambda m, t: m.bucketize(t.f.double(), t.d),
    "isin": lambda m, t: m.isin(t.s, t.x),
    "cumprod": lambda m, t: (t.f.cumprod(1), t.i.cumprod(0)),
    "the gradient of cumprod past a zero": lambda m, t: gradient_of(
        t.m, lambda x: (x.cumprod(1) * t.m)),
    "cummax, cummin": lambda m, t: (*t.f.cummax(1), *t.f.cummin(1), *t.s.cummax(0)),
    "cummax with NaN": lambda m, t: tuple(t.n.cummax(0)),
    "the gradient of cummax": lambda m, t: gradient_of(t.f, lambda x: x.cummax(1)[0] * t.g),
    "diff": lambda m, t: (t.f.diff(), t.f.diff(2), t.f.diff(dim=0), t.b.diff()),
    "count_nonzero": lambda m, t: (t.m.count_nonzero(), t.m.count_nonzero(0)),
    "var_mean, std_mean": lambda m, t: (*m.var_mean(t.f, 1), *m.std_mean(t.f, correction=0)),
    "aminmax": lambda m, t: (*t.f.aminmax(), *t.f.aminmax(dim=1)),
    "nansum, nanmean": lambda m, t: (t.n[:2].nansum(), t.n[:2].nanmean()),
    "equal": lambda m, t: (t.f.equal(t.f + 0), t.f.equal(t.g), t.f.equal(t.v)),
    "any and all along no axes": lambda m, t: (
        t.i.any(dim=()), t.m.all(dim=[]), t.m.any(dim=(), keepdim=True), t.z.all(dim=()),
        t.b.any(()), t.m.any(0), t.m.all((0, 1)), t.m.all()),
    "allclose": lambda m, t: (t.f.allclose(t.f + 1e-7), t.f.allclose(t.g),
                              t.n.allclose(t.n), t.n.allclose(t.n, equal_nan=True)),
    "isclose": lambda m, t: (t.f.isclose(t.f * 1.000001), t.i.isclose(t.i), t.n.isclose(t.n)),
}

ELEMENTWISE: dict[str, Check] = {
    **{name: lambda m, t, name=name: (getattr(t.u, name)(), getattr(t.n, name)())
       for name in ["asin", "acos", "atan", "sinh", "cosh", "asinh", "atanh", "arcsin",
                    "arctan", "sinc", "frac", "signbit", "isposinf", "isneginf", "absolute",
                    "negative", "fix", "rad2deg", "deg2rad"]},
    "sgn": lambda m, t: (t.f.sgn(), t.i.sgn()),
    "acosh, logit": lambda m, t: (t.p.acosh(), (t.p / 5).logit()),
    **{name: lambda m, t, name=name: (getattr(t.f, name)(t.g), getattr(t.n, name)(t.n.flip(0)))
       for name in ["atan2", "hypot", "logaddexp", "fmod", "copysign", "fmax", "fmin",
                    "multiply", "true_divide", "greater", "less", "not_equal", "greater_equal",
                    "less_equal"]},
    **{f"the gradient of {name}": lambda m, t, name=name: gradient_of(
        t.u, lambda x: getattr(x, name)() * t.g)
       for name in ["asin", "acos", "atan", "sinh", "cosh", "asinh", "atanh", "sinc"]},
    **{f"the gradients of {name}": lambda m, t, name=name: (
        gradient_of(t.f, lambda x: getattr(x, name)(t.g) * t.u),
        gradient_of(t.f, lambda x: getattr(t.g, name)(x) * t.u))
       for name in ["atan2", "hypot", "logaddexp", "fmod"]},
    "the gradient of copysign": lambda m, t: gradient_of(t.f, lambda x: x.copysign(t.g)),
    "fmod of integers": lambda m, t: (t.i.fmod(t.j), t.i.fmod(2), t.i.fmod(-3)),
    "xlogy": lambda m, t: (t.f.xlogy(t.p), (t.f * 0).xlogy(t.f)),
    "heaviside": lambda m, t: m.heaviside(t.n, t.z.expand(6)),
    "lerp": lambda m, t: (t.f.lerp(t.g, 0.25), t.f.lerp(t.g, 0.75), t.f.lerp(t.g, t.p / 5)),
    "addcmul, addcdiv": lambda m, t: (t.f.addcmul(t.g, t.p, value=0.5),
                                      t.f.addcdiv(t.g, t.p, value=-2)),
    "addcmul of integers": lambda m, t: (t.i.addcmul(t.j, t.j, value=2),
                                         t.i.addcmul(t.j, t.j, value=2.0)),
    "gradient beside a NaN": lambda m, t: [m.gradient(m.stack([t.n, t.n]).mT, spacing=gap, dim=0)
                                           for gap in (None, 0.5)],
    "nan_to_num": lambda m, t: (t.n.nan_to_num(), t.n.nan_to_num(7.0, 8.0, -9.0)),
    "divide with rounding": lambda m, t: [m.divide(a, b, rounding_mode=mode) for mode in (
        None, "floor", "trunc") for a, b in ((t.f, t.g), (t.i, t.j))],
    "clamp_min, clamp_max": lambda m, t: (t.f.clamp_min(0), t.f.clamp_max(t.g)),
    "bitwise methods": lambda m, t: (t.i.bitwise_and(t.j), t.i.bitwise_or(1), t.i.bitwise_xor(t.j),
                                     t.i.bitwise_not(), t.s.bitwise_left_shift(2),
                                     t.i.bitwise_right_shift(1)),
    "hypot of large numbers": lambda m, t: (t.f * 1e30).hypot(t.g * 1e30),
    "atan2 of zeros": lambda m, t: t.n[4:].atan2(t.n[4:].flip(0)),
    "promotion of atan2": lambda m, t: (t.i.atan2(t.j), t.f.atan2(t.d)),
    "take": lambda m, t: t.f.take(t.x),
    "index_fill": lambda m, t: t.f.index_fill(0, t.x[:1], -1),
    "masked_scatter": lambda m, t: t.f.masked_scatter(t.b, t.g),
    "numbers below 0 in unsigned types": lambda m, t: [y for x in (t.s.to(m.uint8),) for y in (
        m.where(x > 1, x, -2), m.where(x > 1, -255, x), x.scatter(0, t.x, -2),
        m.full((2,), -2, dtype=m.uint16), x.clone().fill_(-1), m.full_like(x, -3),
        x.new_full((2,), -4), x.masked_fill(x > 1, -2), x.index_fill(0, t.x, -7),
        m.tensor([-2, 3, -255], dtype=m.uint8), m.tensor(-1, dtype=m.uint32),
        m.nn.functional.threshold(x, 1, -2), m.linspace(-2, 2, 3, dtype=m.uint8),
        m.nn.functional.pad(x, (0, 0), value=-2))],
}

ALL: dict[str, Check] = {**METADATA, **VIEWS, **IN_PLACE, **CREATION, **PRODUCTS, **ORDER,
                         **ELEMENTWISE}
