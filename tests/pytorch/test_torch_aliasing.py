"""Which functions give a view and which a copy, beside PyTorch: found out by writing.

Every row is a call that either library may answer with the memory of its argument. It is made of
tensors of several layouts; then the argument is written, and the result, and it must be the same
elements of the other that change as in PyTorch.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import lazyten as lt

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

pytestmark = pytest.mark.torch

LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "whole": lambda m: m.arange(24.0).reshape(4, 6),
    "square": lambda m: m.arange(9.0).reshape(3, 3),
    "transposed": lambda m: m.arange(24.0).reshape(6, 4).T,
    "part": lambda m: m.arange(60.0).reshape(6, 10)[1:5, 2:8],
    "every second": lambda m: m.arange(48.0).reshape(4, 12)[:, ::2],
    "row": lambda m: m.arange(6.0).reshape(1, 6),
    "column": lambda m: m.arange(4.0).reshape(4, 1),
    "vector": lambda m: m.arange(6.0),
    "one": lambda m: m.arange(1.0),
    "number": lambda m: m.arange(5.0)[3],
    "cube": lambda m: m.arange(24.0).reshape(2, 3, 4),
    "image": lambda m: m.arange(64.0).reshape(1, 4, 4, 4),
    "small image": lambda m: m.arange(4.0).reshape(1, 4, 1, 1),
    "channels last": lambda m: m.arange(64.0).reshape(1, 4, 4, 4).permute(0, 3, 1, 2),
    "ones": lambda m: m.arange(1.0).reshape(1, 1, 1),
}

Call = Callable[[Any, Any], Any]
FORMS: dict[str, Call] = {
    # arranging
    "repeat": lambda m, x: x.repeat(*[1] * x.ndim),
    "repeat twice": lambda m, x: x.repeat(*[2] * max(x.ndim, 1)),
    "repeat in front": lambda m, x: x.repeat(1, *[1] * x.ndim),
    "tile": lambda m, x: x.tile(*[1] * max(x.ndim, 1)), "tile of 1": lambda m, x: m.tile(x, (1,)),
    "tile of nothing": lambda m, x: m.tile(x, ()), "tile of 2": lambda m, x: m.tile(x, (2,)),
    "repeat_interleave": lambda m, x: x.repeat_interleave(1),
    "repeat_interleave along 0": lambda m, x: x.repeat_interleave(1, 0),
    "repeat_interleave by a tensor": lambda m, x: x.repeat_interleave(m.tensor([1]), 0),
    "flip": lambda m, x: x.flip(0), "flip of none": lambda m, x: x.flip(()),
    "fliplr": lambda m, x: x.fliplr(), "flipud": lambda m, x: x.flipud(),
    "roll": lambda m, x: x.roll(0, 0), "roll of all": lambda m, x: x.roll(0),
    "roll by n": lambda m, x: x.roll(x.shape[0], 0), "roll by 1": lambda m, x: x.roll(1),
    "rot90 0": lambda m, x: x.rot90(0), "rot90 1": lambda m, x: x.rot90(1),
    "rot90 2": lambda m, x: x.rot90(2), "rot90 4": lambda m, x: m.rot90(x, 4, (0, 1)),
    "tril": lambda m, x: x.tril(9), "triu": lambda m, x: x.triu(-9),
    "diff of nothing": lambda m, x: x.diff(0), "diff": lambda m, x: x.diff(),
    "diag": lambda m, x: x.diag(), "diagonal": lambda m, x: x.diagonal(),
    "diagonal 1": lambda m, x: m.diagonal(x, 1), "diagflat": lambda m, x: x.diagflat(),
    "diag_embed": lambda m, x: x.diag_embed(),
    "diagonal of a cube": lambda m, x: x.diagonal(0, -1, 1),
    # shapes
    "reshape": lambda m, x: x.reshape(-1), "reshape to its own": lambda m, x: x.reshape(x.shape),
    "reshape to columns": lambda m, x: x.reshape(2, -1),
    "reshape_as": lambda m, x: x.reshape_as(x), "view": lambda m, x: x.view(x.shape),
    "view flat": lambda m, x: x.view(-1), "view_as": lambda m, x: x.view_as(x),
    "flatten": lambda m, x: x.flatten(), "flatten of the last": lambda m, x: x.flatten(-1, -1),
    "flatten of two": lambda m, x: m.flatten(x, 0, 1), "ravel": lambda m, x: x.ravel(),
    "unflatten": lambda m, x: x.unflatten(0, (-1, 1)),
    "squeeze": lambda m, x: x.squeeze(), "squeeze 0": lambda m, x: x.squeeze(0),
    "squeeze of two": lambda m, x: m.squeeze(x, (0, 1)),
    "unsqueeze": lambda m, x: x.unsqueeze(0), "expand": lambda m, x: x.expand(x.shape),
    "expand wide": lambda m, x: x.expand(2, *x.shape),
    "expand_as": lambda m, x: x.expand_as(x), "broadcast_to": lambda m, x: m.broadcast_to(
        x, (2, *x.shape)), "broadcast_tensors": lambda m, x: m.broadcast_tensors(x, x),
    "meshgrid": lambda m, x: m.meshgrid(x, x, indexing="ij"),
    "meshgrid xy": lambda m, x: m.meshgrid(x, x, indexing="xy"),
    "meshgrid of one": lambda m, x: m.meshgrid(x, indexing="ij"),
    "cartesian_prod of one": lambda m, x: m.cartesian_prod(x),
    "cartesian_prod": lambda m, x: m.cartesian_prod(x, x),
    "atleast_1d": lambda m, x: m.atleast_1d(x), "atleast_2d": lambda m, x: m.atleast_2d(x),
    "atleast_3d": lambda m, x: m.atleast_3d(x),
    "atleast_2d of a list": lambda m, x: m.atleast_2d([x]),
    # axes
    "T": lambda m, x: x.T, "mT": lambda m, x: x.mT, "H": lambda m, x: x.H, "t": lambda m, x: x.t(),
    "mH": lambda m, x: x.mH, "adjoint": lambda m, x: x.adjoint(),
    "transpose": lambda m, x: x.transpose(0, -1), "permute": lambda m, x: x.permute(
        *reversed(range(x.ndim))), "swapaxes": lambda m, x: m.swapaxes(x, 0, -1),
    "swapdims": lambda m, x: x.swapdims(0, 0), "movedim": lambda m, x: x.movedim(0, -1),
    "moveaxis": lambda m, x: m.moveaxis(x, -1, 0), "unfold": lambda m, x: x.unfold(0, 1, 1),
    "unfold with gaps": lambda m, x: x.unfold(-1, 2, 2),
    "as_strided": lambda m, x: m.as_strided(x, (1,), (1,)),
    "real": lambda m, x: x.real, "conj": lambda m, x: x.conj(),
    # parts
    "chunk": lambda m, x: x.chunk(2), "chunk of 1": lambda m, x: x.chunk(1),
    "split": lambda m, x: x.split(2), "split of all": lambda m, x: x.split(99),
    "split of sizes": lambda m, x: x.split([1, x.shape[0] - 1]),
    "split_with_sizes": lambda m, x: m.split_with_sizes(x, [x.shape[0]]),
    "tensor_split": lambda m, x: x.tensor_split(2), "tensor_split at": lambda m, x: m.tensor_split(
        x, [1]), "hsplit": lambda m, x: x.hsplit(2), "vsplit": lambda m, x: x.vsplit(2),
    "dsplit": lambda m, x: x.dsplit(1), "unbind": lambda m, x: x.unbind(),
    "iteration": lambda m, x: list(x), "narrow": lambda m, x: x.narrow(0, 0, x.shape[0]),
    "narrow to 1": lambda m, x: m.narrow(x, 0, 0, 1), "select": lambda m, x: x.select(0, 0),
    "index of an int": lambda m, x: x[0], "index of a slice": lambda m, x: x[:],
    "index of a step": lambda m, x: x[::2], "index of nothing": lambda m, x: x[()],
    "index of dots": lambda m, x: x[...], "index of None": lambda m, x: x[None],
    "index of a list": lambda m, x: x[[0]], "index of an index": lambda m, x: x[m.tensor([0])],
    "index of a mask": lambda m, x: x[x > -1], "index of True": lambda m, x: x[True],
    "index of a zero-dim tensor": lambda m, x: x[m.tensor(0)],
    "index of a zero-dim mask": lambda m, x: x[m.tensor(True)],
    "index of a slice and a list": lambda m, x: x[:, [0]],
    "index of an int and a list": lambda m, x: x[0, [0]],
    "index of an int and a zero-dim tensor": lambda m, x: x[0, m.tensor(0)],
    "index_select": lambda m, x: x.index_select(0, m.arange(x.shape[0] if x.ndim else 1)),
    "gather": lambda m, x: x.gather(0, m.zeros(x.shape, dtype=m.int64)),
    "take": lambda m, x: x.take(m.tensor([0])), "take_along_dim": lambda m, x: x.take_along_dim(
        m.zeros(x.shape, dtype=m.int64), 0), "masked_select": lambda m, x: x.masked_select(x > -1),
    # copies, types and devices
    "contiguous": lambda m, x: x.contiguous(), "clone": lambda m, x: x.clone(),
    "channels_last": lambda m, x: x.contiguous(memory_format=m.channels_last),
    "to channels_last": lambda m, x: x.to(memory_format=m.channels_last),
    "to nothing": lambda m, x: x.to(m.float32), "to a device": lambda m, x: x.to(x.device),
    "to its own": lambda m, x: x.to(x), "to a copy": lambda m, x: x.to(m.float32, copy=True),
    "to and back": lambda m, x: x.to(m.float64).to(m.float32), "float": lambda m, x: x.float(),
    "double": lambda m, x: x.double(), "type": lambda m, x: x.type(m.float32),
    "type_as": lambda m, x: x.type_as(x), "cpu": lambda m, x: x.cpu(),
    "detach": lambda m, x: x.detach(), "data": lambda m, x: x.data,
    "requires_grad_": lambda m, x: x.requires_grad_(False),
    "as_tensor": lambda m, x: m.as_tensor(x), "asarray": lambda m, x: m.asarray(x),
    "as_tensor of a type": lambda m, x: m.as_tensor(x, dtype=m.float32),
    "from_dlpack": lambda m, x: m.from_dlpack(x),
    "new_tensor": lambda m, x: x.new_tensor(x),
    # several
    "cat of one": lambda m, x: m.cat([x]), "cat with nothing": lambda m, x: m.cat([x, x[:0]]),
    "stack of one": lambda m, x: m.stack([x]), "hstack": lambda m, x: m.hstack([x]),
    "vstack": lambda m, x: m.vstack([x]), "dstack": lambda m, x: m.dstack([x]),
    "column_stack": lambda m, x: m.column_stack([x]), "row_stack": lambda m, x: m.row_stack([x]),
    "concat": lambda m, x: m.concat([x], 0), "block_diag": lambda m, x: m.block_diag(x),
    "select_scatter": lambda m, x: x.select_scatter(x[0], 0, 0),
    "slice_scatter": lambda m, x: x.slice_scatter(x, 0),
    "slice_scatter of x": lambda m, x: m.ones(x.shape).slice_scatter(x, 0),
    "diagonal_scatter": lambda m, x: x.diagonal_scatter(x.diagonal()),
    "where": lambda m, x: m.where(m.tensor(True), x, x),
    "masked_fill": lambda m, x: x.masked_fill(x > 99, 1), "put": lambda m, x: m.ones(2).put_(
        m.tensor([0]), x[:1]), "index_add": lambda m, x: x.index_add(
        0, m.tensor([0]), x[:1], alpha=0),
    # sums of one, and powers of one
    "sum of nothing": lambda m, x: x.sum(()) if x.ndim == 0 else x.clone(),
    "sum of 1": lambda m, x: x[:1].sum(0), "mean of 1": lambda m, x: x[:1].mean(0),
    "max of 1": lambda m, x: x[:1].max(0), "amax of 1": lambda m, x: x[:1].amax(0),
    "sum of a number": lambda m, x: x.sum(), "prod of 1": lambda m, x: x[:1].prod(0),
    "max of a number": lambda m, x: x.max(), "cumsum": lambda m, x: x.cumsum(0),
    "cumsum of 1": lambda m, x: x[:1].cumsum(0), "sort": lambda m, x: x.sort(),
    "sort of 1": lambda m, x: x[:1].sort(0), "topk": lambda m, x: x.topk(1),
    "median": lambda m, x: x.median(), "mode": lambda m, x: x.mode(), "msort": lambda m, x:
    x.msort(), "unique": lambda m, x: x.unique(), "kthvalue": lambda m, x: x[:1].kthvalue(1, 0),
    "aminmax": lambda m, x: x.aminmax(), "norm": lambda m, x: x.norm(),
    "nansum": lambda m, x: x[:1].nansum(0), "logsumexp": lambda m, x: x[:1].logsumexp(0),
    "quantile": lambda m, x: x.quantile(0.5), "cummax": lambda m, x: x.cummax(0),
    "unique_consecutive": lambda m, x: x.unique_consecutive(),
    "add of 0": lambda m, x: x + 0, "mul by 1": lambda m, x: x * 1, "pow of 1": lambda m, x: x ** 1,
    "div by 1": lambda m, x: x / 1, "sub of 0": lambda m, x: x - 0,
    "positive": lambda m, x: x.positive(), "plus": lambda m, x: +x, "abs": lambda m, x: x.abs(),
    "clamp": lambda m, x: x.clamp(min=-1), "round": lambda m, x: x.round(),
    "floor": lambda m, x: x.floor(), "nan_to_num": lambda m, x: x.nan_to_num(),
    "relu": lambda m, x: x.relu(), "logaddexp": lambda m, x: m.maximum(x, x),
    "lerp": lambda m, x: x.lerp(x, 0.0), "float_power": lambda m, x: x.float_power(1),
    "matrix_power 1": lambda m, x: x.matrix_power(1), "kron of 1": lambda m, x: m.kron(
        x, m.ones(1)), "outer of 1": lambda m, x: m.outer(x, m.ones(1)),
    "matrix_power 0": lambda m, x: x.matrix_power(0), "heaviside": lambda m, x: x.hardshrink(0.0),
    # products
    "einsum of one": lambda m, x: m.einsum("...->...", x),
    "einsum of two axes": lambda m, x: m.einsum("ij->ij", x),
    "einsum that transposes": lambda m, x: m.einsum("ij->ji", x),
    "einsum of a diagonal": lambda m, x: m.einsum("ii->i", x),
    "einsum of a trace": lambda m, x: m.einsum("ii", x),
    "einsum without an arrow": lambda m, x: m.einsum("ba", x),
    "einsum of a cube": lambda m, x: m.einsum("abc->cab", x),
    "einsum of dots": lambda m, x: m.einsum("...i->i...", x),
    "einsum that sums": lambda m, x: m.einsum("ij->i", x),
    "einsum that sums a row": lambda m, x: m.einsum("ij->j", x),
    "einsum of two": lambda m, x: m.einsum("ij,->ij", x, m.ones(())),
    "einsum of a vector": lambda m, x: m.einsum("i->i", x),
    "einsum of a number": lambda m, x: m.einsum("->", x),
    "einsum that sums ones": lambda m, x: m.einsum("abc->a", x),
    "tensordot of 0": lambda m, x: m.tensordot(x, m.ones(()), 0),
    "cov": lambda m, x: x.cov(), "trace": lambda m, x: x.trace(),
    "matmul": lambda m, x: x @ m.eye(x.shape[-1]),
    # networks
    "Identity": lambda m, x: m.nn.Identity()(x), "Flatten": lambda m, x: m.nn.Flatten(0)(x),
    "Flatten from 1": lambda m, x: m.nn.Flatten()(x), "Sequential": lambda m, x: m.nn.Sequential()(
        x), "Dropout(0)": lambda m, x: m.nn.Dropout(0.0)(x),
    "Dropout in eval": lambda m, x: m.nn.Dropout(0.5).eval()(x),
    "Sequential of Identity": lambda m, x: m.nn.Sequential(m.nn.Identity())(x),
    "ReLU": lambda m, x: m.nn.ReLU()(x),
    "ReLU in place": lambda m, x: m.nn.functional.relu(x, inplace=True),
}


def nn_form(text: str) -> Call:
    """A row of a function in nn.functional, from how it is called."""
    def call(m: Any, x: Any) -> Any:
        return eval(f"F.{text}", {"F": m.nn.functional, "x": x, "m": m, "n": x.shape[2:]})
    return call


FORMS |= {f"F.{text}": nn_form(text) for text in (
    "pad(x, (0, 0))", "pad(x, (0, 1))", "pad(x, (0, -1))", "pad(x, (0, 0), 'constant', 3.0)",
    "pad(x, (0, 0), 'reflect')", "pad(x, (0, 0), 'replicate')", "pad(x, (0, 0), 'circular')",
    "pad(x, (0, 0, 0, 0), 'reflect')", "pad(x, ())", "dropout(x, 0.0)", "dropout(x, 0.5, False)",
    "dropout(x, 1.0)", "dropout1d(x, 0.0)", "dropout2d(x, 0.0)", "dropout2d(x, 0.5, False)",
    "dropout3d(x, 0.0)", "alpha_dropout(x, 0.0)", "alpha_dropout(x, 0.0, True)",
    "feature_alpha_dropout(x, 0.0, True)", "dropout(x, 0.0, True, True)",
    "alpha_dropout(x, 0.5, False)", "feature_alpha_dropout(x, 0.5, False)",
    "dropout(x, 0.5, False, True)", "dropout3d(x, 0.5, False)", "dropout1d(x, 0.5, False)",
    "interpolate(x, n)", "interpolate(x, scale_factor=1)", "interpolate(x, n, mode='bilinear')",
    "interpolate(x, n, mode='area')", "interpolate(x, n, mode='nearest-exact')",
    "interpolate(x, n, mode='bicubic')", "interpolate(x, n, mode='linear')",
    "interpolate(x, scale_factor=2)", "interpolate(x, n, mode='bilinear', align_corners=True)",
    "adaptive_avg_pool1d(x, x.shape[-1])", "adaptive_avg_pool2d(x, x.shape[-1])",
    "adaptive_avg_pool2d(x, (None, None))", "adaptive_max_pool2d(x, x.shape[-1])",
    "adaptive_max_pool1d(x, x.shape[-1])", "adaptive_max_pool2d(x, (None, None))",
    "adaptive_avg_pool3d(x, x.shape[-1])", "adaptive_avg_pool2d(x, 1)",
    "avg_pool1d(x, 1)", "avg_pool2d(x, 1)", "max_pool1d(x, 1)", "max_pool2d(x, 1)",
    "max_pool2d(x, 1, 2)", "avg_pool2d(x, 1, 2)", "unfold(x, 1)",
    "fold(x, (1, x.shape[-1]), 1)", "pixel_shuffle(x, 1)", "pixel_shuffle(x, 2)",
    "pixel_unshuffle(x, 1)", "pixel_unshuffle(x, 2)", "channel_shuffle(x, 1)",
    "channel_shuffle(x, 2)", "channel_shuffle(x, x.shape[1])", "glu(x)", "relu(x)", "relu6(x)",
    "leaky_relu(x, 1.0)", "elu(x)", "hardtanh(x, -99.0, 99.0)", "threshold(x, -1.0, 0.0)",
    "prelu(x, m.ones(1))", "softshrink(x, 0.0)", "hardshrink(x, 0.0)", "celu(x)", "selu(x)",
    "rrelu(x, 1.0, 1.0)", "normalize(x)", "linear(x, m.eye(x.shape[-1]))",
    "l1_loss(x, m.zeros(x.shape), reduction='none')", "relu6(x, inplace=True)",
    "embedding(m.arange(x.shape[0]), x)", "conv1d(x, m.ones(x.shape[1], 1, 1), "
    "groups=x.shape[1])", "threshold(x, -1.0, 0.0, True)", "hardtanh(x, inplace=True)",
    "one_hot(x.long())", "pairwise_distance(x, m.zeros(x.shape), 1.0)",
    "kl_div(x, x, reduction='none')", "mse_loss(x, x, reduction='none')",
    "logsigmoid(x)", "tanhshrink(x)", "softplus(x)", "silu(x)", "gelu(x)", "softmin(x, 0)")}


def parts(result: Any) -> list[Any]:
    """The tensors in what a call gave."""
    return list(result) if isinstance(result, tuple | list) else [result]


def written(tensor: Any, number: int) -> bool:
    """Adds to a tensor; False if it is refused, as an element is shown twice."""
    try:
        tensor.add_(number)
    except (RuntimeError, lt.ShapeError):
        return False
    return True


def _differences(a: Any, b: Any) -> Any:
    if isinstance(a, list):
        return [_differences(x, y) for x, y in zip(a, b, strict=True)]
    return a != b and not (a != a and b != b)


def aliasing(call: Call, layout: str, library: Any) -> Iterator[Any]:
    """Which elements of the result change with those of the argument; and for each tensor in the
    result, which of the argument change with it, or False if it cannot be written."""
    x = LAYOUTS[layout](library)
    results = parts(call(library, x))
    before = [r.tolist() for r in results]
    yield written(x, 1000) and [_differences(b, r.tolist())
                                for b, r in zip(before, results, strict=True)]
    for number in range(len(results)):
        x = LAYOUTS[layout](library)
        before = x.tolist()
        part = parts(call(library, x))[number]
        yield written(part, 1) and _differences(before, x.tolist())


NARROWER = {"dropout2d", "dropout3d", "feature_alpha_dropout", "adaptive_avg_pool2d",
            "adaptive_avg_pool3d"}
"""Functions that take fewer shapes here: PyTorch warns of the others, or takes them by chance."""


@pytest.mark.parametrize("name", FORMS)
def test_views_and_copies_are_torchs(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if name != "cpu":  # what is a view does not depend on the device; this one compiles nothing
        monkeypatch.setenv("DEVICE", "interpreter")
    call, wrong, seen = FORMS[name], [], 0
    for layout in LAYOUTS:
        try:
            expected = list(aliasing(call, layout, torch))
        except (RuntimeError, IndexError, ValueError, NotImplementedError, TypeError):
            continue
        try:
            found = list(aliasing(call, layout, lt))
        except lt.ShapeError:
            assert name.removeprefix("F.").partition("(")[0] in NARROWER, f"{name} of {layout}"
            continue
        seen += 1
        if found != expected:
            wrong.append(layout)
    assert not wrong, f"{name} of {wrong}"
    assert seen, f"no layout fits {name}"


@pytest.mark.parametrize("shape", [(), (5,), (2, 3), (2, 3, 2), (0, 2)])
def test_positions_an_axis_each_lie_in_one_tensor_as_in_pytorch(shape: tuple[int, ...]) -> None:
    def layouts(m: Any) -> list[Any]:
        found = (m.ones(shape) * 2).nonzero(as_tuple=True)
        return [(tuple(t.shape), tuple(t.stride()), t.numel() and t.storage_offset(), t.tolist())
                for t in found]  # no elements are nowhere
    assert layouts(lt) == layouts(torch)
