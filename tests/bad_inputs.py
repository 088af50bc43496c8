"""Mistakes of users, one a row: what they call, and what the error must say.

`test_errors.py` runs them all. A row's words are those of its message: the operation, the values at
fault, and the remedy. Mistakes that need files or an environment are in `test_errors.py` itself.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

import lazyten as lt
from lazyten.nn import functional as F


class Things:
    """Fresh tensors of many kinds for one row; nothing of them is computed yet."""

    def __init__(self) -> None:
        self.f = lt.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
        self.lazy = self.f * 2 + 1
        self.i = lt.tensor([[1, 2, 3], [4, 5, 6]])
        self.b = lt.tensor([True, False, True])
        self.v = lt.tensor([1.0, 2.0, 3.0])
        self.z = lt.tensor(1.5)
        self.none = lt.zeros(0, 3)
        self.double = lt.tensor([1.0, 2.0, 3.0], dtype=lt.float64)
        self.elsewhere = lt.tensor([1.0, 2.0, 3.0], device="cpu")
        self.labels = lt.tensor([0, 2])
        self.image, self.kernel = lt.ones(1, 2, 5, 5), lt.ones(4, 2, 3, 3)
        self.leaf = lt.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)
        self.layer = lt.nn.Linear(3, 2)
        self.sgd = lt.optim.SGD(self.layer.parameters(), lr=0.1, momentum=0.9)

    def tensors(self) -> dict[str, lt.Tensor]:
        """Every tensor by name, the layer's parameters among them."""
        own = {name: value for name, value in vars(self).items() if isinstance(value, lt.Tensor)}
        return own | dict(self.layer.named_parameters())


class Bad(NamedTuple):
    """A mistake: `error`'s message holds `operation`, every word of `values`, and `remedy`."""

    name: str
    call: Callable[[Things], object]
    error: type[lt.LazytenError]
    operation: str
    values: tuple[str, ...]
    remedy: str


class NoSuper(lt.nn.Module):
    """A module that forgets super().__init__()."""

    def __init__(self) -> None:
        self.inner = lt.nn.ReLU()


class NoForward(lt.nn.Module):
    """A module without forward()."""


def assign(x: lt.Tensor, index: object, value: object) -> None:
    """x[index] = value, as an expression."""
    x[index] = value


def set_grad(x: lt.Tensor, grad: object) -> None:
    """x.grad = grad, as an expression."""
    x.grad = grad  # type: ignore[assignment]  # a mistake on purpose


def backward_twice(x: lt.Tensor) -> None:
    """A second backward() through what the first has freed."""
    loss = (x.detach().clone().requires_grad_() * 2).sum()
    loss.backward()
    loss.backward()


def backward_of_untracked(x: lt.Tensor) -> None:
    """backward() of a loss that was computed within no_grad()."""
    with lt.no_grad():
        loss = (x * 2).sum()
    loss.backward()


def used_up(x: lt.nn.Module) -> lt.optim.Optimizer:
    """Two optimizers from one iterator."""
    parameters = x.parameters()
    lt.optim.SGD(parameters)
    return lt.optim.Adam(parameters)


S, D, X = lt.ShapeError, lt.DTypeError, lt.IndexingError
G, A, W, V = lt.GradientError, lt.ArgumentError, lt.StateError, lt.DeviceError

SHAPES = [
    Bad("add of shapes that do not broadcast", lambda t: t.f + lt.ones(2, 4),
        S, "add", ("(2, 3)", "(2, 4)", "axis -1", "3 and 4"), "must be equal"),
    Bad("add of a list that is not a rectangle", lambda t: t.f + [[1, 2], [3]],
        S, "tensor", ("[[1, 2], [3]]",), "need one length"),
    Bad("reshape to another number of elements", lambda t: t.f.reshape(4, 2),
        S, "reshape", ("(2, 3)", "(4, 2)", "6 elements"), "one as -1"),
    Bad("reshape with two unknown sizes", lambda t: t.f.reshape(-1, -1),
        S, "reshape", ("(2, 3)", "(-1, -1)"), "one axis may be -1"),
    Bad("reshape with an unknown size that is no whole number", lambda t: t.f.reshape(-1, 4),
        S, "reshape", ("(-1, 4)", "groups of 4"), "axis 0"),
    Bad("view that needs a copy", lambda t: t.f.T.view(6),
        S, "view", ("(3, 2)", "(6,)"), "use reshape()"),
    Bad("expand of an axis that is not 1", lambda t: t.f.expand(4, 3),
        S, "expand", ("(2, 3)", "(4, 3)", "axis 0"), "use repeat()"),
    Bad("expand to fewer axes", lambda t: t.f.expand(3), S, "expand", ("(2, 3)", "(3,)"), "give all 2"),
    Bad("expand to more elements than there can be", lambda t: t.z.expand(1 << 40, 1 << 40),
        S, "expand", ("1099511627776",), "smaller sizes"),
    Bad("permute that leaves an axis out", lambda t: t.f.permute(0),
        X, "permute", ("(0,)", "(2, 3)"), "name each of the 2 axes once"),
    Bad("permute that names an axis twice", lambda t: t.f.permute(0, 0),
        X, "permute", ("(0, 0)", "(2, 3)"), "once"),
    Bad("t of three axes", lambda t: lt.ones(2, 2, 2).t(), S, "t of", ("(2, 2, 2)",), "transpose()"),
    Bad("mT of a vector", lambda t: t.v.mT, S, "mT", ("(3,)",), "at least 2 axes"),
    Bad("cat of sizes that differ", lambda t: lt.cat([t.f, lt.ones(2, 4)]),
        S, "cat along axis 0", ("tensor 1", "(2, 4)", "(2, 3)"), "axis 1 must be equal"),
    Bad("cat of different numbers of axes", lambda t: lt.cat([t.f, t.v]),
        S, "cat", ("(3,)", "(2, 3)"), "must be equal"),
    Bad("cat of zero-dim tensors", lambda t: lt.cat([t.z, t.z]), S, "cat", ("zero-dim",), "use stack()"),
    Bad("cat of nothing", lambda t: lt.cat([]), A, "cat", ("no tensors",), "give at least one"),
    Bad("cat of one tensor without a list", lambda t: lt.cat(t.f),
        D, "cat", ("Tensor",), "as a list, cat([a, b])"),
    Bad("cat of a generator", lambda t: lt.cat(x for x in [t.f, t.f]),
        D, "cat", ("generator",), "as a list"),
    Bad("cat of lists", lambda t: lt.cat([t.f, [1, 2, 3]]),
        D, "cat", ("item 1", "[1, 2, 3]"), "lazyten.tensor()"),
    Bad("stack of shapes that differ", lambda t: lt.stack([t.f, t.v]),
        S, "stack", ("tensor 1", "(3,)", "(2, 3)"), "must be equal"),
    Bad("matmul of inner sizes that differ", lambda t: t.f @ t.f,
        S, "matmul", ("(2, 3)", "axis 1", "axis 0"), "transpose one?"),
    Bad("matmul of a zero-dim tensor", lambda t: t.z @ t.f, S, "matmul", ("()", "(2, 3)"), "with *"),
    Bad("matmul with a number", lambda t: t.f @ 2, D, "matmul", ("2",), "multiply with *"),
    Bad("matmul of batches that differ", lambda t: lt.ones(2, 2, 3) @ lt.ones(3, 3, 2),
        S, "matmul", ("(2, 2, 3)", "(3, 3, 2)", "batch"), "must be equal"),
    Bad("dot of lengths that differ", lambda t: t.v.dot(lt.ones(2)), S, "dot", ("(3,)", "(2,)"), "one size"),
    Bad("dot with a list", lambda t: t.v.dot([1, 2, 3]), D, "dot", ("[1, 2, 3]",), "lazyten.tensor()"),
    Bad("split into sizes that do not add up", lambda t: t.f.split([1, 2]),
        S, "split", ("[1, 2]", "axis 0"), "add up to 2"),
    Bad("split into parts of 0", lambda t: t.f.split(0), A, "split", ("0",), "1 or more"),
    Bad("chunk into 0 parts", lambda t: t.f.chunk(0), A, "chunk", ("0",), "1 or more"),
    Bad("chunk into half parts", lambda t: t.f.chunk(1.5), D, "chunk", ("1.5",), "whole number"),
    Bad("pad with half a pair", lambda t: t.f.pad([1]), S, "pad", ("(1,)", "(2, 3)"), "(before, after)"),
    Bad("pad that cuts more than there is", lambda t: t.f.pad([-2, -2]),
        S, "pad", ("axis 1", "size 3", "4 elements"), "cannot be cut"),
    Bad("pad with a word", lambda t: t.f.pad([1, 1], "x"), D, "pad", ("'x'",), "is a number"),
    Bad("pad by more than there can be", lambda t: t.f.pad([1 << 62, 1 << 62]),
        S, "pad", ("elements",), "smaller sizes"),
    Bad("repeat with too few numbers", lambda t: t.f.repeat(2), S, "repeat", ("(2,)", "(2, 3)"), "give a"),
    Bad("repeat of a negative number", lambda t: t.f.repeat(-1, 2),
        S, "repeat", ("axis 0", "-1"), "0 or more"),
    Bad("unflatten into sizes that do not fit", lambda t: t.f.unflatten(1, (2, 2)),
        S, "unflatten", ("(3,)", "(2, 2)"), "one as -1"),
    Bad("flatten of axes in the wrong order", lambda t: t.f.flatten(1, 0),
        A, "flatten", ("(2, 3)", "start_dim 1", "end_dim 0"), "comes after"),
    Bad("tril of a vector", lambda t: lt.tril(t.v), S, "tril", ("(3,)",), "at least 2 axes"),
    Bad("broadcast_tensors that do not fit", lambda t: lt.broadcast_tensors(t.f, lt.ones(4)),
        S, "broadcast_tensors", ("(2, 3)", "(4,)"), "must be equal"),
    Bad("an in-place sum that is larger", lambda t: t.f.add_(lt.ones(2, 2, 3)),
        S, "add_", ("(2, 3)", "(2, 2, 3)"), "makes a new tensor"),
    Bad("assignment of another length", lambda t: assign(t.f, 0, [1, 2]),
        S, "assignment", ("(2,)", "(3,)"), "must be equal"),
    Bad("assignment of more axes", lambda t: assign(t.f, 0, lt.ones(2, 3)),
        S, "assignment", ("(2, 3)", "(3,)"), "reshape it"),
    Bad("writing to an expanded view", lambda t: t.v.expand(2, 3).zero_(),
        S, "writing", ("(2, 3)",), "clone() it first"),
    Bad("masked_fill with a mask that does not fit",
        lambda t: t.f.masked_fill(lt.tensor([True, False]), 0),
        S, "masked_fill", ("(2, 3)", "(2,)"), "must be equal"),
    Bad("clamp with a bound that does not fit", lambda t: t.f.clamp(2, [1, 2]),
        S, "clamp", ("(2, 3)", "(2,)"), "must be equal"),
    Bad("gather with an index of fewer axes", lambda t: t.f.gather(1, lt.tensor([0])),
        S, "gather", ("(1,)", "(2, 3)"), "same number"),
    Bad("unbind of a zero-dim tensor", lambda t: t.z.unbind(), S, "unbind", ("zero-dim",), "item()"),
    Bad("max of no elements", lambda t: t.none.max(), S, "max", ("(0, 3)", "axis 0"), "check the size"),
    Bad("argmax of no elements", lambda t: t.none.argmax(0), S, "argmax", ("(0, 3)", "axis 0"), "check"),
    Bad("min of no elements", lambda t: t.none.amin(0), S, "min", ("(0, 3)", "axis 0"), "check"),
    Bad("item of many elements", lambda t: t.f.item(), S, "item", ("(2, 3)", "6"), "use tolist()"),
    Bad("item of no elements", lambda t: t.none.item(), S, "item", ("(0, 3)", "0"), "tolist()"),
    Bad("a comparison as a condition", lambda t: 1 if t.f > 2 else 0, S, "bool", ("(2, 3)",), "any()"),
    Bad("a number in a tensor", lambda t: 1 in t.f, S, "bool", ("(3,)",), "any() or all()"),
    Bad("len of a zero-dim tensor", lambda t: len(t.z), S, "len", ("zero-dim",), "numel()"),
    Bad("iteration over a zero-dim tensor", lambda t: list(t.z), S, "iteration", ("zero-dim",), "item()"),
]

LAYERS = [
    Bad("linear of sizes that differ", lambda t: F.linear(t.f, lt.ones(2, 4)),
        S, "linear", ("(2, 3)", "(2, 4)"), "must be 4"),
    Bad("linear with a bias that does not fit", lambda t: F.linear(t.f, lt.ones(2, 3), lt.ones(3)),
        S, "linear", ("bias", "(3,)"), "needs (2,)"),
    Bad("a layer called with a NumPy array", lambda t: t.layer(np.ones((2, 3))),
        D, "linear", ("ndarray",), "lazyten.tensor()"),
    Bad("a layer called with None", lambda t: t.layer(None), D, "linear", ("None",), "lazyten.tensor()"),
    Bad("a model called with a list", lambda t: lt.nn.Sequential(lt.nn.ReLU())([1.0, 2.0]),
        D, "relu", ("[1.0, 2.0]",), "lazyten.tensor()"),
    Bad("a layer called with doubles", lambda t: t.layer(t.double),
        D, "linear", ("float64", "float32"), "input.to(lazyten.float32)"),
    Bad("a layer called with integers", lambda t: t.layer(t.i), D, "linear", ("int64",), "convert one"),
    Bad("conv2d of channels that differ", lambda t: F.conv2d(t.image, lt.ones(4, 3, 3, 3)),
        S, "conv2d", ("(1, 2, 5, 5)", "(4, 3, 3, 3)", "axis 1"), "groups=1 is for 3"),
    Bad("conv2d with too few axes", lambda t: F.conv2d(t.f, t.kernel),
        S, "conv2d", ("(2, 3)", "(4, 2, 3, 3)"), "it needs 4 axes"),
    Bad("conv2d with a kernel larger than the image", lambda t: F.conv2d(t.image, lt.ones(4, 2, 7, 7)),
        S, "conv2d", ("7", "spatial axis 0", "5"), "a smaller kernel or more padding"),
    Bad("conv2d with a kernel of size 0", lambda t: F.conv2d(t.image, lt.ones(4, 2, 0, 3)),
        S, "conv2d", ("(4, 2, 0, 3)",), "1 or more"),
    Bad("conv2d with a bias that does not fit", lambda t: F.conv2d(t.image, t.kernel, lt.ones(3)),
        S, "conv2d", ("bias", "(3,)"), "needs (4,)"),
    Bad("conv2d with a bias of integers", lambda t: F.conv2d(t.image, t.kernel, lt.ones(4).int()),
        D, "conv2d", ("bias", "int32"), "one float type"),
    Bad("conv2d with a list as bias", lambda t: F.conv2d(t.image, t.kernel, [0.0] * 4),
        D, "conv2d", ("bias", "list"), "lazyten.tensor()"),
    Bad("conv2d with stride 0", lambda t: F.conv2d(t.image, t.kernel, stride=0),
        A, "conv2d", ("stride 0",), "give 1 or more"),
    Bad("conv2d with half a stride", lambda t: F.conv2d(t.image, t.kernel, stride=1.5),
        D, "conv2d", ("stride", "1.5"), "whole number"),
    Bad("conv2d with an unknown padding", lambda t: F.conv2d(t.image, t.kernel, padding="full"),
        A, "conv2d", ("'full'",), "'same'"),
    Bad("conv2d with groups that do not divide", lambda t: F.conv2d(t.image, t.kernel, groups=3),
        A, "conv2d", ("groups=3", "2 input"), "must divide"),
    Bad("conv2d with groups that are a float", lambda t: F.conv2d(t.image, t.kernel, groups=1.0),
        D, "conv2d", ("groups", "1.0"), "whole number"),
    Bad("conv2d of integers", lambda t: F.conv2d(t.image.int(), t.kernel),
        D, "conv2d", ("int32", "float32"), "one float type"),
    Bad("max_pool2d with a window larger than the image", lambda t: F.max_pool2d(t.image, 7),
        S, "max_pool2d", ("7", "axis 0", "5"), "smaller kernel"),
    Bad("max_pool2d of a matrix", lambda t: F.max_pool2d(t.f, 2),
        S, "max_pool2d", ("(2, 3)",), "(batch, channels, height, width)"),
    Bad("max_pool2d with too much padding", lambda t: F.max_pool2d(t.image, 2, padding=2),
        A, "max_pool2d", ("padding 2", "kernel_size 2"), "more than half"),
    Bad("avg_pool2d of integers", lambda t: F.avg_pool2d(t.image.int(), 2),
        D, "avg_pool", ("int32",), ".float()"),
    Bad("layer_norm of another size", lambda t: F.layer_norm(t.f, [4]),
        S, "layer_norm", ("(2, 3)", "(4,)"), "must be equal"),
    Bad("layer_norm with a weight of another shape", lambda t: F.layer_norm(t.f, [3], lt.ones(2, 3)),
        S, "layer_norm", ("weight", "(2, 3)"), "needs (3,)"),
    Bad("layer_norm of integers", lambda t: F.layer_norm(t.i, [3]), D, "layer_norm", ("int64",), ".float()"),
    Bad("cross_entropy with float labels", lambda t: F.cross_entropy(t.f, t.labels.float()),
        S, "cross_entropy", ("(2, 3)", "float32 (2,)"), "convert labels with .long()"),
    Bad("cross_entropy with too many labels", lambda t: F.cross_entropy(t.f, lt.tensor([0, 1, 2])),
        S, "cross_entropy", ("(2, 3)", "int64 (3,)"), "labels of shape (2,)"),
    Bad("cross_entropy with a list of labels", lambda t: F.cross_entropy(t.f, [0, 1]),
        D, "cross_entropy", ("target", "[0, 1]"), "lazyten.tensor()"),
    Bad("cross_entropy of integers", lambda t: F.cross_entropy(t.i, t.labels),
        D, "cross_entropy", ("int64",), ".float()"),
    Bad("cross_entropy with an unknown reduction",
        lambda t: F.cross_entropy(t.f, t.labels, reduction="avg"),
        A, "cross_entropy", ("'avg'",), "mean, sum, none"),
    Bad("cross_entropy with too much smoothing",
        lambda t: F.cross_entropy(t.f, t.labels, label_smoothing=2),
        A, "cross_entropy", ("label_smoothing 2",), "0 to 1"),
    Bad("cross_entropy with weights of another size",
        lambda t: F.cross_entropy(t.f, t.labels, weight=lt.ones(2)),
        S, "cross_entropy", ("weight (2,)",), "(3,)"),
    Bad("mse_loss of shapes that would broadcast", lambda t: F.mse_loss(t.f, t.v),
        S, "mse_loss", ("(2, 3)", "(3,)"), "reshape one"),
    Bad("mse_loss with an array", lambda t: F.mse_loss(t.f, np.ones((2, 3))),
        D, "mse_loss", ("target", "ndarray"), "lazyten.tensor()"),
    Bad("mse_loss of integers", lambda t: F.mse_loss(t.i, t.i), D, "mse_loss", ("int64",), ".float()"),
    Bad("one_hot of floats", lambda t: F.one_hot(t.f, 3), D, "one_hot", ("float32",), ".long()"),
    Bad("one_hot of half a class", lambda t: F.one_hot(t.labels, 2.5),
        D, "one_hot", ("2.5",), "whole number"),
    Bad("dropout with p above 1", lambda t: F.dropout(t.f, 1.5), A, "dropout", ("p=1.5",), "0 to 1"),
    Bad("dropout of integers", lambda t: F.dropout(t.i), D, "dropout", ("int64",), ".float()"),
    Bad("Dropout with p below 0", lambda t: lt.nn.Dropout(-0.1), A, "Dropout", ("p=-0.1",), "0 to 1"),
    Bad("softmax without an axis", lambda t: F.softmax(t.f, None), D, "softmax", ("None",), "axis"),
    Bad("gelu by an unknown formula", lambda t: t.f.gelu("fast"), A, "gelu", ("'fast'",), "'tanh'"),
    Bad("Linear of a negative size", lambda t: lt.nn.Linear(-1, 2), A, "Linear", ("-1",), "0 or more"),
    Bad("Linear of half a size", lambda t: lt.nn.Linear(1.5, 2), D, "Linear", ("1.5",), "whole number"),
    Bad("Linear of integers", lambda t: lt.nn.Linear(3, 2, dtype="int32"),
        D, "uniform_", ("int32",), "it is for floats"),
    Bad("Conv2d of a negative number of channels", lambda t: lt.nn.Conv2d(-2, 4, 3),
        A, "Conv2d", ("-2",), "1 or more"),
    Bad("Conv2d with groups that do not divide", lambda t: lt.nn.Conv2d(2, 4, 3, groups=3),
        A, "Conv2d", ("groups=3",), "must divide"),
    Bad("Conv2d with negative padding", lambda t: lt.nn.Conv2d(2, 4, 3, padding=-1),
        A, "Conv2d", ("padding -1",), "0 or more"),
    Bad("Sequential of classes instead of layers", lambda t: lt.nn.Sequential(lt.nn.ReLU),
        A, "Sequential", ("item 0", "type"), "Sequential(a, b)"),
    Bad("Sequential of a list", lambda t: lt.nn.Sequential([lt.nn.ReLU()]),
        A, "Sequential", ("list",), "one by one"),
    Bad("Sequential with an index outside", lambda t: lt.nn.Sequential(lt.nn.ReLU())[3],
        X, "Sequential", ("3", "1 modules"), "use -1 to 0"),
    Bad("a module that forgets super().__init__()", lambda t: NoSuper(),
        A, "NoSuper.inner", (), "call super().__init__()"),
    Bad("a module without forward()", lambda t: NoForward()(t.f), A, "NoForward", (), "add a method forward"),
    Bad("register_buffer of a list", lambda t: t.layer.register_buffer("mean", [1.0]),
        D, "register_buffer", ("'mean'", "[1.0]"), "lazyten.tensor()"),
    Bad("add_module with a dot in the name", lambda t: t.layer.add_module("a.b", lt.nn.ReLU()),
        A, "add_module", ("'a.b'",), "without dots"),
    Bad("Parameter of a list", lambda t: lt.nn.Parameter([1.0]), D, "Parameter", ("[1.0]",), "give a tensor"),
    Bad("a model of integers", lambda t: t.layer.to(dtype="int32"), D, "Linear", ("int32",), "a float type"),
    Bad("a model moved nowhere", lambda t: t.layer.to("gpu9"), V, "device", ("'gpu9'",), "interpreter"),
    Bad("kaiming_uniform_ of a vector", lambda t: lt.nn.init.kaiming_uniform_(t.v),
        S, "kaiming_uniform_", ("(3,)",), "at least 2 axes"),
    Bad("kaiming_uniform_ by an unknown mode", lambda t: lt.nn.init.kaiming_uniform_(t.f, mode="fan"),
        A, "kaiming_uniform_", ("'fan'",), "'fan_out'"),
    Bad("constant_ of a word", lambda t: lt.nn.init.constant_(t.f, "a"), D, "fill_", ("'a'",), "number"),
]

DTYPES = [
    Bad("mean of integers", lambda t: t.i.mean(), D, "mean", ("int64",), ".float()"),
    Bad("var of bools", lambda t: t.b.var(), D, "var", ("bool",), ".float()"),
    Bad("sub of bools", lambda t: t.b - t.b, D, "sub", ("bool",), "convert first"),
    Bad("neg of bools", lambda t: -t.b, D, "neg", ("bool",), "convert first"),
    Bad("~ of floats", lambda t: ~t.f, D, "bitwise_not", ("float32",), ".to(lazyten.int64)"),
    Bad("shift of floats", lambda t: t.f << 1, D, "bitwise_left_shift", ("float32",), "integer types"),
    Bad("shift by a float", lambda t: t.i >> 1.5, D, "bitwise_right_shift", ("1.5",), "convert first"),
    Bad("and of floats", lambda t: t.f & t.f, D, "bitwise_and", ("float32",), "bool or integer"),
    Bad("matmul of different types", lambda t: t.f @ t.i.T, D, "matmul", ("float32", "int64"), ".to("),
    Bad("matmul of bools", lambda t: t.b @ t.b, D, "matmul", ("bool",), ".float()"),
    Bad("an unknown type by name", lambda t: t.f.type("float99"), D, "dtype", ("'float99'",), "float32"),
    Bad("complex as a type", lambda t: t.f.type(complex), D, "dtype", ("complex",), "use one of"),
    Bad("zeros of an unknown type", lambda t: lt.zeros(2, dtype=7), D, "dtype", ("7",), "use one of"),
    Bad("a tensor of a word", lambda t: lt.tensor("abc"), D, "tensor", ("'abc'",), "it takes numbers"),
    Bad("a tensor of None", lambda t: lt.tensor([None, 1.0]), D, "tensor", ("[None, 1.0]",), "numbers"),
    Bad("a tensor of a dict", lambda t: lt.tensor({"a": 1}), D, "tensor", ("{'a': 1}",), "numbers"),
    Bad("a tensor of a generator", lambda t: lt.tensor(x for x in range(3)),
        D, "tensor", ("generator",), "nested sequences"),
    Bad("a tensor of complex numbers", lambda t: lt.tensor(np.array([1j])),
        D, "tensor", ("complex128",), ".astype('float32')"),
    Bad("a tensor of objects", lambda t: lt.tensor(np.array([None])), D, "tensor", ("object",), ".astype("),
    Bad("a tensor of rows of different lengths", lambda t: lt.tensor([[1, 2], [3]]),
        S, "tensor", ("[[1, 2], [3]]",), "one length"),
    Bad("a tensor of a huge whole number", lambda t: lt.tensor(1 << 70),
        D, "tensor", (str(1 << 70),), "use a float"),
    Bad("from_numpy of a list", lambda t: lt.from_numpy([1]), D, "from_numpy", ("list",), "use tensor()"),
    Bad("add of a word", lambda t: t.f + "a", D, "add", ("'a'",), "a tensor, an array or a number"),
    Bad("a word plus a tensor", lambda t: "a" + t.f, D, "add", ("'a'",), "must be a tensor"),
    Bad("mul by None", lambda t: t.f * None, D, "mul", ("None",), "must be a tensor"),
    Bad("add of a complex number", lambda t: t.f + 1j, D, "add", ("1j",), "must be a tensor"),
    Bad("add of NumPy's complex number", lambda t: t.f + np.complex64(1j), D, "add", ("1j",), "must be"),
    Bad("add of a huge whole number", lambda t: t.i + (1 << 70), D, "add", (str(1 << 70),), "use a float"),
    Bad("add with a word as alpha", lambda t: t.f.add(t.v, alpha="a"), D, "mul", ("'a'",), "must be"),
    Bad("where with a condition of floats", lambda t: lt.where(t.f, 1, 2),
        D, "where", ("float32",), "condition != 0"),
    Bad("where with a list as condition", lambda t: lt.where([True, False, True], t.f, t.f),
        D, "where", ("condition", "[True, False, True]"), "lazyten.tensor()"),
    Bad("where with a word", lambda t: lt.where(t.b, t.f, "x"), D, "where", ("'x'",), "must be a tensor"),
    Bad("masked_fill with a mask of integers", lambda t: t.f.masked_fill(t.i, 0),
        D, "masked_fill", ("int64",), "mask != 0"),
    Bad("masked_fill of infinity into integers", lambda t: t.i.masked_fill(t.b, float("inf")),
        A, "masked_fill", ("inf", "int64"), "use a float type"),
    Bad("fill_ with None", lambda t: t.f.fill_(None), D, "fill_", ("None",), "is a number"),
    Bad("fill_ with a vector", lambda t: t.f.fill_([1]), D, "fill_", ("[1]",), "is a number"),
    Bad("fill_ of integers with NaN", lambda t: t.i.fill_(float("nan")), A, "fill_", ("nan",), "float type"),
    Bad("add_ of a float to integers", lambda t: t.i.add_(1.5),
        D, "add_", ("int64", "float32"), "make a new tensor"),
    Bad("clamp_ with a word", lambda t: t.f.clamp_("a"), D, "clamp", ("'a'",), "must be a tensor"),
    Bad("var with a word as correction", lambda t: t.f.var(correction="a"),
        D, "var", ("correction", "'a'"), "is a number"),
    Bad("exp of a number", lambda t: lt.exp(1.0), D, "exp", ("float 1.0",), "lazyten.tensor()"),
    Bad("exp of NumPy's number", lambda t: lt.exp(np.float64(1)), D, "exp", ("float64",), "lazyten.tensor()"),
    Bad("sum of a list", lambda t: lt.sum([1, 2]), D, "sum", ("[1, 2]",), "lazyten.tensor()"),
    Bad("matmul of lists", lambda t: lt.matmul([[1]], [[2]]), D, "matmul", ("[[1]]",), "lazyten.tensor()"),
    Bad("zeros_like of a list", lambda t: lt.zeros_like([1]), D, "zeros_like", ("[1]",), "lazyten.tensor()"),
    Bad("gather with a list", lambda t: t.f.gather(0, [[0]]), D, "gather", ("[[0]]",), "lazyten.tensor()"),
    Bad("gather with floats", lambda t: t.f.gather(1, t.f), D, "gather", ("float32",), ".long()"),
    Bad("view_as of a list", lambda t: t.f.view_as([1]), D, "view_as", ("[1]",), "lazyten.tensor()"),
    Bad("realize of a list", lambda t: lt.realize([t.f]), D, "realize", ("list",), "lazyten.tensor()"),
    Bad("a bit pattern of another width", lambda t: t.f.bitcast("float64"),
        D, "bitcast", ("float32", "float64"), "the same number of bits"),
    Bad("a float as a Python index", lambda t: [1, 2, 3][t.z], D, "index", ("float32",), ".long()"),
    Bad("rand_like of integers", lambda t: lt.rand_like(t.i), D, "rand", ("int64",), "use randint"),
    Bad("a NumPy array that shares memory", lambda t: np.array(t.f, copy=False),
        A, "NumPy", ("copy=False",), "leave out"),
]

INDICES = [
    Bad("an index outside", lambda t: t.f[2], X, "index", ("2", "axis 0", "(2, 3)"), "-2 to 1"),
    Bad("a negative index outside", lambda t: t.f[0, -4], X, "index", ("-4", "axis 1"), "-3 to 2"),
    Bad("too many indices", lambda t: t.f[0, 0, 0], X, "index", ("3 entries", "(2, 3)"), "leave some out"),
    Bad("an index of a zero-dim tensor", lambda t: t.z[0], X, "index", ("()", "0 axes"), "leave some out"),
    Bad("a float as an index", lambda t: t.f[1.5], X, "index", ("1.5", "axis 0"), "use integers"),
    Bad("a word as an index", lambda t: t.f[0, "a"], X, "index", ("'a'", "axis 1"), "use integers"),
    Bad("a float tensor as an index", lambda t: t.f[t.v], D, "index", ("float32",), ".long()"),
    Bad("a list of floats as an index", lambda t: t.f[[0.5, 1]], D, "index", ("float32",), ".long()"),
    Bad("a list with an index outside", lambda t: t.f[[0, 5]], X, "index", ("5", "axis 0"), "-2 to 1"),
    Bad("two index arrays", lambda t: t.f[[0, 1], [0, 1]], X, "index", ("one index array",), "gather()"),
    Bad("a mask as an index", lambda t: t.f[t.f > 1], X, "mask", ("(2, 3)",), "where()"),
    Bad("a slice with step 0", lambda t: t.f[::0], X, "slice", ("axis 0", "0"), "use 1 or more"),
    Bad("a slice with a float", lambda t: t.f[1.0:2], X, "slice", ("1.0", "axis 0"), "whole numbers"),
    Bad("two ellipses", lambda t: t.f[..., ...], X, "index", ("2 ellipses",), "one can stand"),
    Bad("assignment outside", lambda t: assign(t.f, 2, 1.0), X, "index", ("2", "axis 0"), "-2 to 1"),
    Bad("assignment of a word", lambda t: assign(t.f, (0, 0), "a"), D, "assignment", ("'a'",), "must be"),
    Bad("assignment through a list", lambda t: assign(t.f, [0, 1], 1.0),
        X, "assignment", ("int64 (2,)", "(2, 3)"), "use where()"),
    Bad("sum over an axis outside", lambda t: t.f.sum(2), X, "sum", ("axis 2", "2 axes"), "use -2 to 1"),
    Bad("sum over an axis twice", lambda t: t.f.sum((0, -2)), X, "sum", ("(0, -2)",), "once"),
    Bad("sum over half an axis", lambda t: t.f.sum(1.5), D, "sum", ("1.5",), "whole number"),
    Bad("sum of a zero-dim tensor over axis 1", lambda t: t.z.sum(1), X, "sum", ("axis 1",), "0 and -1"),
    Bad("max over two axes", lambda t: t.f.max((0, 1)), D, "max", ("(0, 1)",), "whole number"),
    Bad("argmax over an axis outside", lambda t: t.f.argmax(-3), X, "argmax", ("-3",), "use -2 to 1"),
    Bad("transpose of an axis outside", lambda t: t.f.transpose(0, 2), X, "transpose", ("2",), "-2 to 1"),
    Bad("squeeze of an axis outside", lambda t: t.f.squeeze(2), X, "squeeze", ("axis 2",), "-2 to 1"),
    Bad("unsqueeze too far", lambda t: t.f.unsqueeze(4), X, "unsqueeze", ("axis 4",), "use -3 to 2"),
    Bad("flip of an axis twice", lambda t: t.f.flip(0, 0), X, "flip", ("(0, 0)",), "name each once"),
    Bad("cat along an axis outside", lambda t: lt.cat([t.f, t.f], 2), X, "cat", ("axis 2",), "-2 to 1"),
    Bad("narrow beyond the end", lambda t: t.f.narrow(0, 1, 2),
        X, "narrow", ("2 elements from 1", "axis 0"), "end at 2"),
    Bad("narrow from half an element", lambda t: t.f.narrow(0, 0.5, 1), D, "narrow", ("0.5",), "whole number"),
    Bad("select beyond the end", lambda t: t.f.select(0, 2), X, "index", ("2", "axis 0"), "-2 to 1"),
    Bad("roll by half an element", lambda t: lt.roll(t.f, 1.5, 0), D, "roll", ("1.5",), "whole number"),
    Bad("size of an axis outside", lambda t: t.f.size(2), X, "size", ("axis 2",), "use -2 to 1"),
]

DEVICES = [
    Bad("an unknown device", lambda t: lt.zeros(2, device="gpu9"), V, "device", ("'gpu9'",), "interpreter"),
    Bad("a device with a word as its number", lambda t: lt.zeros(2, device="cpu:x"),
        V, "device", ("'cpu:x'",), "as in 'cpu:0'"),
    Bad("a device by number", lambda t: lt.tensor([1.0], device=0), V, "device", ("0",), "by name"),
    Bad("no name for a device", lambda t: lt.ones(2, device=""), V, "device", ("''",), "interpreter"),
    Bad("to an unknown device", lambda t: t.f.to("gpu9"), V, "device", ("'gpu9'",), "interpreter"),
    Bad("add across devices", lambda t: t.v + t.elsewhere,
        V, "add", ("'interpreter'", "'cpu'"), ".to('interpreter')"),
    Bad("cat across devices", lambda t: lt.cat([t.v, t.elsewhere]), V, "cat", ("'cpu'",), ".to("),
    Bad("matmul across devices", lambda t: t.v @ t.elsewhere, V, "matmul", ("'cpu'",), ".to("),
    Bad("a loss across devices", lambda t: F.mse_loss(t.v, t.elsewhere), V, "mse_loss", ("'cpu'",), ".to("),
    Bad("a layer on another device", lambda t: F.layer_norm(t.f, [3], t.elsewhere),
        V, "layer_norm", ("'cpu'",), ".to("),
    Bad("a mask on another device", lambda t: t.v.masked_fill(t.elsewhere > 1, 0),
        V, "masked_fill", ("'cpu'",), ".to("),
    Bad("an index on another device", lambda t: t.f[lt.tensor([0], device="cpu")],
        V, "index", ("'cpu'",), ".to("),
    Bad("copy_ across devices", lambda t: t.v.copy_(t.elsewhere), V, "copy_", ("'cpu'",), ".to("),
    Bad("a gradient on another device", lambda t: (t.leaf * 2).sum(0).backward(t.elsewhere),
        V, "backward", ("'cpu'",), ".to("),
    Bad("a .grad on another device", lambda t: set_grad(t.leaf, lt.ones(2, 3, device="cpu")),
        V, "grad", ("'cpu'",), ".to("),
]

GRADIENTS = [
    Bad("backward without a graph", lambda t: t.f.sum().backward(), G, "backward", ("()",), "requires_grad"),
    Bad("backward twice", lambda t: backward_twice(t.f), G, "backward", ("before",), "retain_graph=True"),
    Bad("backward of what no_grad() computed", lambda t: backward_of_untracked(t.leaf),
        G, "backward", ("()",), "outside no_grad()"),
    Bad("backward of many elements", lambda t: (t.leaf * 2).backward(),
        G, "backward", ("(2, 3)",), "reduce first"),
    Bad("backward with a gradient of another shape", lambda t: (t.leaf * 2).backward(lt.ones(3)),
        G, "backward", ("(3,)", "(2, 3)"), "must be alike"),
    Bad("backward with a gradient of another type",
        lambda t: (t.leaf * 2).backward(lt.ones(2, 3, dtype="float64")),
        G, "backward", ("float64", "float32"), "must be alike"),
    Bad("backward with a number", lambda t: (t.leaf * 2).backward(1.0),
        D, "backward", ("1.0",), "lazyten.tensor()"),
    Bad("requires_grad of integers", lambda t: t.i.requires_grad_(),
        G, "requires_grad", ("int64",), ".float()"),
    Bad("a tensor of integers with requires_grad", lambda t: lt.tensor([1, 2], requires_grad=True),
        G, "requires_grad", ("int64",), ".float()"),
    Bad("switching off what an operation made", lambda t: (t.leaf * 2).requires_grad_(False),
        G, "requires_grad", ("False",), "use detach()"),
    Bad("switching on a detached view", lambda t: t.leaf.detach().requires_grad_(),
        G, "requires_grad", ("detached view",), "clone()"),
    Bad("add_ on a leaf", lambda t: t.leaf.add_(1), G, "add_", ("leaf",), "inside no_grad()"),
    Bad("assignment into a leaf", lambda t: assign(t.leaf, 0, 1.0), G, "assignment", ("leaf",), "no_grad()"),
    Bad("a .grad of another shape", lambda t: set_grad(t.leaf, lt.ones(3)),
        G, "grad =", ("(3,)", "(2, 3)"), "must be like"),
    Bad("a .grad of another type", lambda t: set_grad(t.leaf, lt.ones(2, 3, dtype="float64")),
        G, "grad =", ("float64", "float32"), "must be like"),
    Bad("a .grad that is a number", lambda t: set_grad(t.leaf, 1.0), D, "grad =", ("1.0",), "lazyten.tensor()"),
    Bad("grad of an unrelated input", lambda t: lt.grad(t.leaf.sum(), [t.leaf, t.f]),
        G, "grad", ("input 1", "(2, 3)"), "leave the input out"),
    Bad("grad for a number", lambda t: lt.grad(t.leaf.sum(), 1.0), D, "grad", ("inputs", "1.0"), "tensor"),
    Bad("grad of a number", lambda t: lt.grad(1.0, t.leaf), D, "grad", ("outputs", "1.0"), "lazyten.tensor()"),
    Bad("grad of many elements", lambda t: lt.grad(t.leaf * 2, t.leaf), G, "", ("(2, 3)",), "reduce first"),
]

ARGUMENTS = [
    Bad("zeros of a negative size", lambda t: lt.zeros(2, -3), S, "zeros", ("axis 1", "-3"), "0 or more"),
    Bad("zeros of half a size", lambda t: lt.zeros(1.5), D, "zeros", ("1.5",), "whole number"),
    Bad("zeros of a word", lambda t: lt.zeros("a"), D, "zeros", ("'a'",), "whole number"),
    Bad("ones of more than there can be", lambda t: lt.ones(1 << 32, 1 << 32),
        S, "ones", ("4294967296", "18,446,744,073,709,551,616"), "smaller sizes"),
    Bad("full of a word", lambda t: lt.full((2,), "a"), D, "full", ("'a'",), "is a number"),
    Bad("full of NaN as an integer", lambda t: lt.full((2,), float("nan"), dtype="int32"),
        A, "full", ("nan", "int32"), "use a float type"),
    Bad("full of a huge whole number", lambda t: lt.full((2,), 1 << 70), D, "full", (str(1 << 70),), "float"),
    Bad("arange with step 0", lambda t: lt.arange(0, 5, 0), A, "arange", ("0, 5, 0",), "must not be 0"),
    Bad("arange to infinity", lambda t: lt.arange(float("inf")), A, "arange", ("inf",), "must be finite"),
    Bad("arange of a word", lambda t: lt.arange("a"), D, "arange", ("'a'",), "is a number"),
    Bad("arange of more than there can be", lambda t: lt.arange(1 << 63), S, "arange", ("elements",), "small"),
    Bad("linspace with a negative number of steps", lambda t: lt.linspace(0, 1, -1),
        A, "linspace", ("-1",), "0 or more"),
    Bad("linspace with half a step", lambda t: lt.linspace(0, 1, 2.5), D, "linspace", ("2.5",), "whole number"),
    Bad("eye of a negative size", lambda t: lt.eye(-1), S, "eye", ("-1",), "0 or more"),
    Bad("randint with low above high", lambda t: lt.randint(5, 3, (2,)), A, "randint", ("5", "3"), "below"),
    Bad("randint that does not fit", lambda t: lt.randint(0, 300, (2,), dtype="uint8"),
        A, "randint", ("299", "uint8"), "0 to 255"),
    Bad("randint of floats", lambda t: lt.randint(0, 5, (2,), dtype="float32"),
        D, "randint", ("float32",), "integer type"),
    Bad("rand of integers", lambda t: lt.rand(2, dtype="int32"), D, "rand", ("int32",), "use randint"),
    Bad("rand with a number as generator", lambda t: lt.rand(2, generator=5),
        D, "generator", ("5",), "lazyten.Generator(seed)"),
    Bad("randperm of a negative number", lambda t: lt.randperm(-1), S, "randperm", ("-1",), "0 or more"),
    Bad("a word as a seed", lambda t: lt.manual_seed("a"), D, "manual_seed", ("'a'",), "whole number"),
    Bad("a seed of too many bits", lambda t: lt.manual_seed(1 << 70),
        A, "manual_seed", (str(1 << 70),), "below 2**64"),
    Bad("a generator's state that is none", lambda t: lt.Generator(0).set_state((1,)),
        A, "set_state", ("(1,)",), "get_state()"),
    Bad("uniform_ of integers", lambda t: t.i.uniform_(), D, "uniform_", ("int64",), ".float()"),
    Bad("uniform_ with its bounds exchanged", lambda t: t.f.uniform_(2, 1),
        A, "uniform_", ("low=2", "high=1"), "exchange them"),
    Bad("normal_ with a negative deviation", lambda t: t.f.normal_(0, -1), A, "normal_", ("-1",), "0 or more"),
    Bad("clamp without bounds", lambda t: t.f.clamp(), A, "clamp", ("min",), "give min, max or both"),
    Bad("pad by reflection", lambda t: F.pad(t.f, [1, 1], mode="reflect"),
        A, "pad", ("'reflect'",), "'constant' is"),
    Bad("int of NaN", lambda t: lt.tensor(float("nan")).__int__(), A, "int", ("nan",), "use float()"),
]

OPTIMIZERS = [
    Bad("an optimizer without parameters", lambda t: lt.optim.SGD([]), A, "SGD", ("no parameters",), "list"),
    Bad("two optimizers from one iterator", lambda t: used_up(t.layer), A, "Adam", ("used up",), "again"),
    Bad("an optimizer of one tensor", lambda t: lt.optim.SGD(t.leaf), D, "SGD", ("one tensor",), "[tensor]"),
    Bad("an optimizer of a model", lambda t: lt.optim.SGD(t.layer), D, "SGD", ("Linear",), "parameters()"),
    Bad("an optimizer of a method", lambda t: lt.optim.SGD(t.layer.parameters),
        D, "SGD", ("method",), "parameters()"),
    Bad("an optimizer of named parameters", lambda t: lt.optim.SGD(t.layer.named_parameters()),
        D, "SGD", ("tuple",), "model.parameters()"),
    Bad("an optimizer of a constant", lambda t: lt.optim.SGD([t.f]), G, "SGD", ("(2, 3)",), "requires_grad_()"),
    Bad("an optimizer of an intermediate result", lambda t: lt.optim.SGD([t.leaf * 2]),
        G, "SGD", ("(2, 3)",), "no leaf"),
    Bad("a parameter given twice", lambda t: lt.optim.SGD([t.leaf, t.leaf]),
        A, "SGD", ("(2, 3)", "twice"), "once"),
    Bad("a negative learning rate", lambda t: lt.optim.SGD([t.leaf], lr=-1), A, "SGD", ("lr=-1",), "0 or more"),
    Bad("a learning rate that is NaN", lambda t: lt.optim.Adam([t.leaf], lr=float("nan")),
        A, "Adam", ("lr=nan",), "0 or more"),
    Bad("a learning rate that is a word", lambda t: lt.optim.SGD([t.leaf], lr="a"),
        D, "SGD", ("lr", "'a'"), "is a number"),
    Bad("a negative momentum", lambda t: lt.optim.SGD([t.leaf], momentum=-1),
        A, "SGD", ("momentum=-1",), "0 or more"),
    Bad("nesterov without momentum", lambda t: lt.optim.SGD([t.leaf], nesterov=True),
        A, "SGD", ("momentum=0.0",), "needs a momentum"),
    Bad("a beta of 1", lambda t: lt.optim.Adam([t.leaf], betas=(0.9, 1.0)),
        A, "Adam", ("(0.9, 1.0)",), "below 1"),
    Bad("one beta", lambda t: lt.optim.AdamW([t.leaf], betas=0.9), A, "AdamW", ("0.9",), "two numbers"),
    Bad("a negative eps", lambda t: lt.optim.Adam([t.leaf], eps=-1), A, "Adam", ("eps=-1",), "0 or more"),
    Bad("a bad option of a group", lambda t: lt.optim.Adam([{"params": [t.leaf], "betas": (2, 3)}]),
        A, "Adam", ("(2, 3)",), "below 1"),
    Bad("a misspelt option of a group", lambda t: lt.optim.SGD([{"params": [t.leaf], "rate": 1}]),
        A, "SGD", ("group 0", "'rate'"), "'params' and of lr"),
    Bad("a group without parameters", lambda t: lt.optim.SGD([{"lr": 1}]), A, "SGD", ("group 0",), "'params'"),
    Bad("step with the loss", lambda t: t.sgd.step(t.z), A, "step", ("Tensor",), "without arguments"),
]

STATES = [
    Bad("a state that misses names", lambda t: t.layer.load_state_dict({}),
        W, "load_state_dict of Linear", ("missing", "weight, bias"), "as the saved one"),
    Bad("a state with a name too many",
        lambda t: t.layer.load_state_dict({"weight": lt.ones(2, 3), "bias": t.v[:2], "x": t.v}),
        W, "load_state_dict", ("unexpected: x",), "Nothing was loaded"),
    Bad("a state of another shape",
        lambda t: t.layer.load_state_dict({"bias": lt.ones(2), "weight": lt.ones(3, 2)}),
        W, "load_state_dict", ("weight", "(3, 2)", "(2, 3)"), "Nothing was loaded"),
    Bad("a state of arrays",
        lambda t: t.layer.load_state_dict({"bias": lt.ones(2), "weight": np.ones((2, 3))}),
        W, "load_state_dict", ("weight", "ndarray"), "lazyten.tensor()"),
    Bad("a file's name as a state", lambda t: t.layer.load_state_dict("a.safetensors"),
        W, "load_state_dict", ("'a.safetensors'",), "load_safetensors()"),
    Bad("a model as a state", lambda t: t.layer.load_state_dict(t.layer),
        W, "load_state_dict", ("Linear",), "state_dict()"),
    Bad("an optimizer's state that is none", lambda t: t.sgd.load_state_dict({}),
        W, "load_state_dict", ("{}",), "'param_groups'"),
    Bad("an optimizer's state for fewer parameters",
        lambda t: t.sgd.load_state_dict({"state": {}, "param_groups": [{"params": [0]}]}),
        W, "load_state_dict", ("[1]", "[2]"), "must be equal"),
    Bad("an optimizer's state of another shape",
        lambda t: t.sgd.load_state_dict({"state": {1: {"momentum_buffer": t.f}},
                                         "param_groups": [{"params": [0, 1], "lr": 7.0}]}),
        W, "load_state_dict", ("momentum_buffer", "(2, 3)", "(2,)"), "must be equal"),
    Bad("an optimizer's state with a bad option",
        lambda t: t.sgd.load_state_dict({"state": {}, "param_groups": [{"params": [0, 1], "lr": -1}]}),
        A, "SGD", ("lr=-1",), "0 or more"),
]

ALL = [*SHAPES, *LAYERS, *DTYPES, *INDICES, *DEVICES, *GRADIENTS, *ARGUMENTS, *OPTIMIZERS, *STATES]
