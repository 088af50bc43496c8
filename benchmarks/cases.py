"""The rows of the table, as data: what each computes, on what, and how much work that is."""
from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial, reduce
from math import prod
from operator import add

import numpy as np

from benchmarks import lenet as lenet_model
from benchmarks import models, programs
from benchmarks.case import Case, Input, expression
from benchmarks.frameworks import Framework, Tensor

MI = 1 << 20
MANY = 16  # products in one call of the rows that say so
CHAIN = 25  # repetitions of four operations in the recording row
CONV1, CONV2 = 2 * 28 * 28 * 6 * 25, 2 * 10 * 10 * 16 * 150  # FLOP of one image, forward
DENSE = 2 * (400 * 120 + 120 * 84 + 84 * 10)
LENET_FLOPS = 2 * CONV1 + 3 * (CONV2 + DENSE)  # the images need no gradient
LONG = 1.5e8  # FLOP of one call, from which a row is left out of a quick run
LARGE = 8 * MI  # the same for numbers read
HEADS = (2, 8, 1024, 64)  # batch, heads, length and width of the attention rows

TRANSPOSES: dict[str, Callable[..., Tensor]] = {
    "nn": lambda f, a, b: a @ b, "nt": lambda f, a, b: a @ b.T, "tn": lambda f, a, b: a.T @ b}


def arithmetic(name: str, run: Callable[..., Tensor], work: float, *inputs: Input,
               tolerance: float = 1e-5) -> Case:
    """A row whose work is floating-point operations."""
    return Case(name, expression(run, *inputs), work, "FLOP", tolerance=tolerance,
                heavy=work >= LONG)


def streaming(name: str, run: Callable[..., Tensor], *inputs: Input, written: int = 0) -> Case:
    """A row whose work is memory: each input read once and `written` float32 numbers stored."""
    size = sum(prod(given) if isinstance(given, tuple) else given.size for given in inputs)
    return Case(name, expression(run, *inputs), 4 * (size + written), "B",
                heavy=size >= LARGE)


def squares() -> Iterator[Case]:
    """Products of square matrices, either one transposed; small ones also in calls of many."""
    for n in (64, 128, 256, 512, 1024, 2048):
        for kind, run in TRANSPOSES.items():
            yield arithmetic(f"matmul {n} {kind}", run, 2 * n ** 3, (n, n), (n, n))
    for n in (64, 128, 256):
        for kind, run in TRANSPOSES.items():
            yield Case(f"matmul {n} {kind}, one of {MANY} in a call",
                       expression(partial(power, run, MANY), (n, n), (n, n)), 2 * n ** 3, "FLOP",
                       parts=MANY, tolerance=1e-4)


def power(multiply: Callable[..., Tensor], count: int, f: Framework, x: Tensor,
          weight: Tensor) -> Tensor:
    """`count` products, each of the last one's result."""
    for _ in range(count):
        x = multiply(f, x, weight)
    return x


def products() -> Iterator[Case]:
    """Other matrix products: LeNet's linear layers on a batch of 128, vectors, batches."""
    for inputs, outputs in ((400, 120), (120, 84), (84, 10)):
        yield arithmetic(f"linear 128x{inputs} -> {outputs}", TRANSPOSES["nt"],
                         2 * 128 * inputs * outputs, (128, inputs), (outputs, inputs))
    multiply = TRANSPOSES["nn"]
    yield streaming("matrix 4096x4096 @ vector", multiply, (4096, 4096), (4096,), written=4096)
    yield streaming("vector @ matrix 4096x4096", multiply, (4096,), (4096, 4096), written=4096)
    yield arithmetic("matmul 32 x 128", multiply, 2 * 32 * 128 ** 3, *[(32, 128, 128)] * 2)
    yield arithmetic("matmul 256 x 32", multiply, 2 * 256 * 32 ** 3, *[(256, 32, 32)] * 2)


def convolutions() -> Iterator[Case]:
    """Each convolution forward and its two gradients: LeNet's two, and two of ResNet-18's."""
    for name, x, channels, size, stride, padding in (
            ("LeNet 1st", (128, 1, 28, 28), 6, 5, 1, 2),
            ("LeNet 2nd", (128, 6, 14, 14), 16, 5, 1, 0),
            ("64 ch 56x56", (4, 64, 56, 56), 64, 3, 1, 1),
            ("128 ch 28x28 / 2", (4, 128, 28, 28), 128, 3, 2, 1)):
        weight = (channels, x[1], size, size)
        height = (x[2] + 2 * padding - size) // stride + 1
        output = (x[0], channels, height, height)
        work = 2 * prod(output) * prod(weight[1:])
        options = stride, padding
        yield arithmetic(f"conv {name}", partial(convolve, options), work, x, weight)
        yield arithmetic(f"conv {name}, input gradient", partial(input_gradient, options), work,
                         output, x, weight)
        yield arithmetic(f"conv {name}, weight gradient", partial(weight_gradient, options), work,
                         output, x, weight)


def convolve(options: tuple[int, int], f: Framework, x: Tensor, weight: Tensor) -> Tensor:
    """The convolution with this stride and padding."""
    return f.conv2d(x, weight, *options)


def input_gradient(options: tuple[int, int], f: Framework, *tensors: Tensor) -> Tensor:
    """Its gradient for the images, of (cotangent, images, weight)."""
    return f.conv2d_input_gradient(*tensors, *options)


def weight_gradient(options: tuple[int, int], f: Framework, *tensors: Tensor) -> Tensor:
    """Its gradient for the weight, of (cotangent, images, weight)."""
    return f.conv2d_weight_gradient(*tensors, *options)


def rms_norm(f: Framework, x: Tensor, weight: Tensor) -> Tensor:
    """Each row over its root mean square."""
    return x / ((x * x).mean(1) + 1e-5).reshape(-1, 1) ** 0.5 * weight


def batch_norm(f: Framework, x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """Each channel of [N, C, H, W] normalized by its mean and variance in the batch."""
    centred = x - x.mean((0, 2, 3)).reshape(1, -1, 1, 1)
    variance = (centred * centred).mean((0, 2, 3)).reshape(1, -1, 1, 1)
    return centred / (variance + 1e-5) ** 0.5 * scale + shift


def chain(f: Framework, a: Tensor, b: Tensor) -> Tensor:
    """Four elementwise operations."""
    return f.sigmoid(a * b + 1) * a - b


def rows_and_images() -> Iterator[Case]:
    """Softmax, losses and norms."""
    labels = np.random.default_rng(3).integers(0, 1000, 4096)
    images, rows = (32, 64, 56, 56), (4096, 768)
    for shape in ((64, 10), (4096, 1024)):
        yield streaming(f"softmax {shape[0]}x{shape[1]}", lambda f, x: f.softmax(x), shape,
                        written=prod(shape))
    yield streaming("log_softmax + nll 4096x1000", lambda f, x, y: f.cross_entropy(x, y),
                    (4096, 1000), labels)
    yield streaming("layer norm 4096x768", lambda f, *x: f.layer_norm(*x), rows, (768,), (768,),
                    written=prod(rows))
    yield streaming("rms norm 4096x768", rms_norm, rows, (768,), written=prod(rows))
    yield streaming("batch norm 32x64x56x56", batch_norm, images, (1, 64, 1, 1), (1, 64, 1, 1),
                    written=prod(images))


def memory() -> Iterator[Case]:
    """Rows that should run at the memory's speed."""
    for size, name in ((MI, "2^20"), (32 * MI, "2^25")):
        yield streaming(f"relu(a*b+c), {name}", lambda f, a, b, c: f.relu(a * b + c),
                        *[(size,)] * 3, written=size)
        yield streaming(f"sigmoid(a*b+1)*a-b, {name}", chain, (size,), (size,), written=size)
        yield streaming(f"sum, {name}", lambda f, x: x.sum(), (size,))
    square = (4096, 1024)
    yield streaming("sum 4096x1024 over axis 0", lambda f, x: x.sum(0), square)
    yield streaming("sum 4096x1024 over axis 1", lambda f, x: x.sum(1), square)
    yield streaming("argmax 4096x1024", lambda f, x: x.argmax(1), square)
    yield streaming("cumsum 4096x1024", lambda f, x: x.cumsum(1), square, written=prod(square))
    yield streaming("transposed copy 2048x2048", lambda f, x: f.transposed(x), (2048, 2048),
                    written=2048 ** 2)


def attention() -> Iterator[Case]:
    """Forward, and forward with backward; the work is two products forward and four backward."""
    product = 2 * prod(HEADS) * HEADS[2]
    size = "x".join(map(str, HEADS))
    yield arithmetic(f"attention {size}", lambda f, *x: f.attention(*x), 2 * product,
                     *[HEADS] * 3)
    yield arithmetic(f"attention {size}, and backward", lambda f, *x: f.attention_gradients(*x),
                     6 * product, *[HEADS] * 4, tolerance=1e-4)


def lenet(batch: int, jit: bool = True) -> Case:
    """One training step of LeNet-5: forward, backward, SGD with momentum, the loss fetched."""
    return Case(f"LeNet step, batch {batch}{'' if jit else ', eager'}",
                lambda f: lenet_model.training_step(f, batch, jit),
                work=LENET_FLOPS * batch, unit="FLOP", checked=4, tolerance=1e-4,
                waits=False,  # the loss is a number already
                expected=None if jit else lambda _: lenet(batch).reference(),
                heavy=LENET_FLOPS * batch >= LONG)


def model(name: str, title: str) -> Case:
    """One training step of a model of models.py."""
    return Case(f"{title} step", lambda f: models.training_step(f, name),
                models.MODELS[name].flops, "FLOP", checked=2,
                tolerance=1e-4, waits=False, heavy=True,
                expected=partial(models.reference_losses, name))


def small_operations(f: Framework, x: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """4 * CHAIN operations on tiny tensors, one after the other."""
    for _ in range(CHAIN):
        x = f.relu(x * a + b) - a
    return x


def fetched_sum(f: Framework, a: Tensor, b: Tensor) -> float:
    """The sum of two tensors' elements, as a number of Python's."""
    return float((a + b).sum().item())


def updated(f: Framework, a: Tensor, b: Tensor) -> Tensor:
    """A running mean, in place."""
    a *= 0.9
    a += b
    return a


def overheads() -> Iterator[Case]:
    """What a call and an operation cost when there is nothing to compute."""
    for count in (1, 10, 50):
        yield Case(f"one call of {count} tiny products",
                   expression(partial(power, TRANSPOSES["nn"], count), (4, 4), (4, 4)),
                   count * 2 * 4 ** 3, "FLOP", tolerance=1e-4)
    yield Case("one call of 20 tiny tensors",
               expression(lambda f, *x: reduce(add, x), *[(4, 4)] * 20))
    yield Case("one small operation", expression(small_operations, *[(4, 4)] * 3, compiled=False),
               parts=4 * CHAIN, waits=False)
    yield Case("a small sum fetched, eager",
               expression(fetched_sum, *[(8, 8)] * 2, compiled=False), waits=False)
    yield Case("a small update in place, eager",
               expression(updated, *[(8, 8)] * 2, compiled=False))


CASES = (
    *squares(), *products(), *convolutions(), *rows_and_images(), *memory(), *attention(),
    *(lenet(batch, jit) for jit in (True, False) for batch in (32, 128, 512)),
    *overheads(),
    model("gpt", "GPT 4x128, 8x64 tokens,"),
    model("resnet", "ResNet-18 of quarter width, 16 images,"),
    *programs.rows(),
)
