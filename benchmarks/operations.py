"""Common operations at three sizes beside PyTorch: `python -m benchmarks.operations`.

Rows are expressions, which both frameworks run; lazyten's are jitted. As in kernels.py both run in
one process by turns, a time is the least there was, and results are compared first. Rows of `grad`
have the gradients of the result's sum, weighted by its tanh, beside the forward pass.

    python -m benchmarks.operations 'conv|pool'     # rows whose names a pattern is found in
    python -m benchmarks.operations --threads 2 --worse 1.3     # only those so much slower
"""
from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks import kernels
from benchmarks.kernels import Row

SECONDS = 0.12
Shapes = tuple[tuple[int, ...], ...]

IMAGES: tuple[Shapes, ...] = (((2, 3, 17, 17),), ((8, 32, 28, 28),), ((16, 64, 56, 56),))
MATRICES: tuple[Shapes, ...] = (((7, 33),), ((100, 1000),), ((1000, 1000),))
PAIRS: tuple[Shapes, ...] = tuple(s * 2 for s in MATRICES)

ROWS: tuple[tuple[str, tuple[Shapes, ...]], ...] = (
    # products
    ("x @ y", (((7, 33), (33, 5)), ((65, 127), (127, 63)), ((300, 500), (500, 400)))),
    ("x @ y.mT", (((7, 33), (5, 33)), ((64, 784), (128, 784)), ((512, 512), (512, 512)))),
    ("m.bmm(x, y)",
     (((10, 4, 4), (10, 4, 4)), ((64, 32, 48), (64, 48, 32)), ((32, 128, 64), (32, 64, 128)))),
    ("m.mv(x, y)", (((7, 33), (33,)), ((300, 500), (500,)), ((2000, 2000), (2000,)))),
    ("f.linear(x, y)", (((1, 64), (10, 64)), ((1, 1024), (1024, 1024)), ((128, 256), (512, 256)))),
    ("m.einsum('bij,bkj->bik', x, y)", (((3, 5, 7), (3, 6, 7)), ((16, 50, 64), (16, 50, 64)),
                                         ((8, 128, 512), (8, 256, 512)))),
    ("m.einsum('bhid,bhjd->bhij', x, y).softmax(-1)",
     (((1, 2, 9, 8),) * 2, ((4, 4, 64, 32),) * 2, ((8, 8, 128, 64),) * 2)),
    ("m.einsum('ij,kj->j', x, y)",
     (((7, 33), (9, 33)), ((100, 300), (200, 300)), ((1000, 500), (700, 500)))),
    ("m.outer(x, y)", (((7,), (33,)), ((300,), (500,)), ((2000,), (1000,)))),
    ("f.bilinear(x, x, y)",
     (((4, 5), (6, 5, 5)), ((32, 16), (20, 16, 16)), ((128, 32), (32, 32, 32)))),
    # convolutions
    ("f.conv1d(x, y, padding=1)",
     (((2, 3, 50), (4, 3, 3)), ((8, 16, 500), (32, 16, 3)), ((16, 64, 1000), (64, 64, 3)))),
    ("f.conv1d(x, y, stride=2, dilation=2)", (((2, 3, 50), (4, 3, 5)), ((8, 16, 500), (32, 16, 5)),
                                               ((16, 64, 1000), (64, 64, 5)))),
    ("f.conv2d(x, y)", (((2, 3, 17, 17), (5, 3, 3, 3)), ((8, 16, 28, 28), (32, 16, 5, 5)),
                         ((8, 64, 56, 56), (64, 64, 1, 1)))),
    ("f.conv2d(x, y, padding=1)", (((1, 1, 9, 9), (3, 1, 3, 3)), ((4, 3, 64, 64), (16, 3, 3, 3)),
                                    ((8, 64, 28, 28), (64, 64, 3, 3)))),
    ("f.conv2d(x, y, stride=2, padding=3)",
     (((2, 3, 31, 31), (8, 3, 7, 7)), ((4, 3, 64, 64), (32, 3, 7, 7)),
                                              ((2, 3, 224, 224), (64, 3, 7, 7)))),
    ("f.conv2d(x, y, padding=1, groups=x.shape[1])",
     (((2, 3, 17, 17), (3, 1, 3, 3)), ((8, 32, 28, 28), (32, 1, 3, 3)),
                                                        ((8, 128, 28, 28), (128, 1, 3, 3)))),
    ("f.conv2d(x, y, padding=1, groups=4)",
     (((2, 4, 9, 9), (8, 1, 3, 3)), ((4, 32, 28, 28), (32, 8, 3, 3)),
                                              ((8, 64, 28, 28), (128, 16, 3, 3)))),
    ("f.conv3d(x, y, padding=1)",
     (((1, 2, 5, 6, 7), (3, 2, 3, 3, 3)), ((2, 8, 8, 16, 16), (8, 8, 3, 3, 3)),
                                    ((2, 16, 16, 32, 32), (16, 16, 3, 3, 3)))),
    ("f.conv_transpose2d(x, y, stride=2)",
     (((2, 3, 7, 7), (3, 5, 3, 3)), ((4, 16, 14, 14), (16, 8, 4, 4)),
                                              ((8, 64, 28, 28), (64, 32, 2, 2)))),
    ("f.conv_transpose1d(x, y, stride=2)", (((2, 3, 17), (3, 5, 4)), ((4, 16, 200), (16, 8, 4)),
                                              ((8, 64, 500), (64, 32, 4)))),
    # pools
    ("f.max_pool2d(x, 2)", IMAGES),
    ("f.max_pool2d(x, 3, 2, 1)", IMAGES),
    ("f.avg_pool2d(x, 2)", IMAGES),
    ("f.avg_pool2d(x, 3, 1, 1)", IMAGES),
    ("f.adaptive_avg_pool2d(x, 1)", IMAGES),
    ("f.max_pool1d(x, 3)", (((2, 3, 50),), ((8, 16, 500),), ((16, 64, 1000),))),
    ("f.max_pool3d(x, 2)", (((1, 2, 5, 6, 7),), ((2, 8, 8, 16, 16),), ((2, 16, 16, 32, 32),))),
    # norms
    ("f.batch_norm(x, None, None, training=True)", IMAGES),
    ("f.group_norm(x, x.shape[1] // 1 if x.shape[1] < 4 else 4)", IMAGES),
    ("f.instance_norm(x)", IMAGES),
    ("f.layer_norm(x, x.shape[-1:])", MATRICES),
    ("f.rms_norm(x, x.shape[-1:])", MATRICES),
    ("f.normalize(x)", MATRICES),
    ("f.local_response_norm(x, 3)", IMAGES),
    # losses
    ("f.mse_loss(x, y)", PAIRS),
    ("f.l1_loss(x, y)", PAIRS),
    ("f.smooth_l1_loss(x, y)", PAIRS),
    ("f.binary_cross_entropy_with_logits(x, y.sigmoid())", PAIRS),
    ("f.cross_entropy(x, i)", MATRICES),
    ("f.nll_loss(f.log_softmax(x, 1), i)", MATRICES),
    ("f.kl_div(x, y.softmax(1), reduction='batchmean')", PAIRS),
    ("f.cosine_similarity(x, y)", PAIRS),
    ("f.hinge_embedding_loss(x, y.sign())", PAIRS),
    ("m.cdist(x, y)", (((7, 3), (9, 3)), ((100, 16), (200, 16)), ((500, 64), (500, 64)))),
    # elementwise
    *((f"f.{name}(x)", MATRICES) for name in (
        "relu", "gelu", "silu", "elu", "softplus", "tanh", "sigmoid", "leaky_relu", "hardswish",
        "mish", "selu", "logsigmoid")),
    *((f"m.{name}(x)", MATRICES) for name in (
        "exp", "sin", "erf", "abs", "round", "sign", "tan", "atan", "asinh", "lgamma", "expm1",
        "rsqrt", "frac")),
    ("m.log1p(x * x)", MATRICES),
    ("m.pow(x.abs(), y)", PAIRS),
    ("m.atan2(x, y)", PAIRS),
    ("m.fmod(x, y)", PAIRS),
    ("m.remainder(x, y)", PAIRS),
    ("x + y * 2", PAIRS),
    ("x.T + y.T.contiguous()", PAIRS),
    ("x.clamp(-1, 1)", MATRICES),
    ("m.where(x > 0, x, y)", PAIRS),
    ("m.lerp(x, y, 0.3)", PAIRS),
    ("m.maximum(x, y)", PAIRS),
    ("(x * 100).long() // 7", MATRICES),
    ("(x * 100).long() % 7", MATRICES),
    ("(x * 100).int() // ((y * 10).int().abs() + 1)", PAIRS),
    ("(x * 100).long() // ((y * 10).long().abs() + 1)", PAIRS),
    ("x.half() * 2", MATRICES),
    ("(x.bfloat16() * 2).float()", MATRICES),
    ("x.double().exp()", MATRICES),
    ("x.abs().to(m.uint8)", MATRICES),
    # copies
    ("x.T.contiguous()", MATRICES),
    ("x.permute(0, 2, 3, 1).contiguous()", IMAGES),
    ("m.cat([x, y])", PAIRS),
    ("m.cat([x, y], 1)", PAIRS),
    ("m.stack([x, y], -1)", PAIRS),
    ("m.stack([a * 2 for a in x.split(3, 1)[:2]])", (((7, 33),), ((100, 600),), ((1000, 600),))),
    ("x.flip(1)", MATRICES),
    ("x.roll(3, 1)", MATRICES),
    ("x[:, ::2]", MATRICES),
    ("x.tril()", MATRICES),
    ("x.repeat(2, 3)", MATRICES),
    ("x.diagonal()", MATRICES),
    ("f.pad(x, (1, 2, 1, 2))", IMAGES),
    ("f.pad(x, (1, 2, 1, 2), mode='reflect')", IMAGES),
    ("f.pad(x, (1, 2, 1, 2), mode='replicate')", IMAGES),
    ("f.pixel_shuffle(x, 2)", (((1, 4, 5, 5),), ((4, 32, 28, 28),), ((8, 64, 56, 56),))),
    ("f.unfold(x, 3, padding=1)", IMAGES),
    ("f.interpolate(x, scale_factor=2)", IMAGES),
    ("f.interpolate(x, scale_factor=2, mode='bilinear')", IMAGES),
    ("f.interpolate(x, size=(20, 20), mode='bilinear', align_corners=True)", IMAGES),
    ("f.interpolate(x, scale_factor=2, mode='bicubic')", IMAGES),
    ("f.interpolate(x, size=(9, 9), mode='area')", IMAGES),
    # indexing
    ("f.embedding(i, x)", MATRICES),
    ("x[i]", MATRICES),
    ("x[i, j]", MATRICES),
    ("x[:, j]", MATRICES),
    ("m.gather(x, 1, k)", MATRICES),
    ("m.gather(x, 0, l)", MATRICES),
    ("x.index_select(1, j)", MATRICES),
    ("m.zeros_like(x).index_add(0, i, x)", MATRICES),
    ("m.zeros_like(x).scatter_add(1, k, x)", MATRICES),
    ("m.zeros_like(x).scatter(1, k, x)", MATRICES),
    ("x.masked_fill(y > 0, 0.)", PAIRS),
    ("f.one_hot(i, 33)", (((7, 33),), ((1000, 33),), ((30000, 33),))),
    ("m.take_along_dim(x, k, 1)", MATRICES),
    ("f.grid_sample(x, g, align_corners=False)", IMAGES),
    # reductions
    *((f"x.{name}({axis})", IMAGES) for name in ("sum", "amax") for axis in (0, 1, 2, 3)),
    ("x.sum()", MATRICES),
    ("x.sum((0, 2, 3))", IMAGES),
    ("x.mean((2, 3))", IMAGES),
    ("x.var(0)", MATRICES),
    ("x.std(1)", MATRICES),
    ("x.norm()", MATRICES),
    ("x.norm(dim=1)", MATRICES),
    ("x.argmax(0)", MATRICES),
    ("x.argmax(1)", MATRICES),
    ("x.max(1)[0]", MATRICES),
    ("x.max(0)", MATRICES),
    ("x.prod(1)", MATRICES),
    ("x.logsumexp(1)", MATRICES),
    ("(x > 0).any(1)", MATRICES),
    ("(x > 0).sum(0)", MATRICES),
    ("(x * 100).long().sum(1)", MATRICES),
    ("x.softmax(0)", MATRICES),
    ("x.softmax(1)", MATRICES),
    ("x.softmax(1)", IMAGES),
    ("x.log_softmax(1)", MATRICES),
    ("x.cumsum(0)", MATRICES),
    ("x.cumsum(1)", MATRICES),
    ("x.cumprod(1)", MATRICES),
    ("x.median(1)[0]", MATRICES),
    ("x.sort(1)[0]", MATRICES),
    ("x.sort(0)[0]", MATRICES),
    ("x.argsort(1, stable=True)", MATRICES),
    ("x.topk(5, 1)[0]", MATRICES),
    ("m.searchsorted(x.sort(1)[0], y)", PAIRS),
    ("m.bucketize(x, m.linspace(-2, 2, 16))", MATRICES),
    ("m.histc(x, 50, -3, 3)", MATRICES),
    # matrices
    ("m.linalg.inv(z)", (((10, 3, 3),), ((100, 8, 8),), ((1, 64, 64),))),
    ("m.linalg.det(z)", (((10, 3, 3),), ((100, 8, 8),), ((1, 64, 64),))),
    ("m.linalg.solve(z, x)", (((10, 3, 3),), ((100, 8, 8),), ((1, 64, 64),))),
    ("m.linalg.cholesky(z)", (((10, 3, 3),), ((100, 8, 8),), ((1, 64, 64),))),
    ("m.linalg.qr(x)[1].abs()", (((10, 3, 3),), ((100, 8, 8),), ((1, 64, 64),))),
    ("m.view_as_real(m.fft.fft(x))", (((7, 33),), ((100, 128),), ((100, 1000),))),
)
"""(expression of x, y and integers that index them, shapes of the inputs at three sizes)."""

NO_GRADIENT = re.compile(
    r"round|sign\(|argm|argsort|long|int\(|one_hot|searchsorted|bucketize|histc|any\(|> 0\)|half"
    r"|bfloat|uint8|masked_fill|index_add|scatter|qr|lgamma|atan2|fmod|frac")
"""What has none, or none worth a row."""


def inputs(text: str, shapes: Shapes) -> dict[str, np.ndarray[Any, Any]]:
    """What an expression names: x and y of `shapes`, places i, j, k, l of x, definite z, grid g."""
    random = np.random.default_rng(0)
    x = random.standard_normal(shapes[0], np.float32)
    n, last = shapes[0][0], shapes[0][-1]
    made: dict[str, Callable[[], np.ndarray[Any, Any]]] = {
        "x": lambda: x,
        "y": lambda: random.standard_normal(shapes[-1], np.float32),
        "i": lambda: random.integers(0, min(n, last), n),
        "j": lambda: random.integers(0, last, n),
        "k": lambda: random.integers(0, last, shapes[0]),
        "l": lambda: random.integers(0, n, shapes[0]),
        "z": lambda: x @ x.swapaxes(-1, -2) + 4 * np.eye(last, dtype=np.float32),
        "g": lambda: random.uniform(-1, 1, (n, *shapes[0][2:], 2)).astype(np.float32),
    }
    return {name: make() for name, make in made.items() if re.search(rf"\b{name}\b", text)}


def forward(text: str, names: tuple[str, ...]) -> Callable[..., Any]:
    """The function of an expression: of a framework, its functions of networks, and inputs."""
    function: Callable[..., Any] = eval(f"lambda m, f, {', '.join(names)}: {text}")
    return function


def backward(text: str, names: tuple[str, ...], floats: tuple[str, ...]) -> Callable[..., Any]:
    """The gradients of an expression with respect to its floats."""
    run = forward(text, names)

    def gradients(m: Any, f: Any, *given: Any) -> Any:
        values = [x.detach().requires_grad_() if name in floats else x
                  for name, x in zip(names, given, strict=True)]
        result = run(m, f, *values)
        result = result[0] if isinstance(result, tuple) else result
        loss = (result * result.detach().tanh()).sum()
        return tuple(m.autograd.grad(loss, [x for name, x in zip(names, values, strict=True)
                                            if name in floats]))
    return gradients


def rows() -> Iterator[Row]:
    """All rows: of an expression, at each size, forward and backward."""
    for text, sizes in ROWS:
        for shapes in sizes:
            given = inputs(text, shapes)
            names = tuple(given)
            label = f"{text} {' '.join('x'.join(map(str, s)) for s in shapes)}"
            yield Row(label, forward(text, names), tuple(given.values()))
            if not NO_GRADIENT.search(text):
                floats = tuple(n for n in names if given[n].dtype == np.float32)
                yield Row(f"grad {label}", backward(text, names, floats), tuple(given.values()))


if __name__ == "__main__":
    kernels.main(rows(), __doc__, 80, SECONDS)
