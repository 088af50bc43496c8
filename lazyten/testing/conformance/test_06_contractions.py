"""Stage 6: products of matrices, convolutions, and several reductions in one kernel."""
from __future__ import annotations

from typing import Any

import numpy as np

import lazyten as lt
from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.nn import functional as F
from lazyten.testing import assert_kernels
from lazyten.testing.conformance.test_04_views import on
from lazyten.testing.conformance.values import whole
from lazyten.testing.diagnosis import Nonconformance, expect_values
from lazyten.testing.kit import advice
from lazyten.testing.scorecard import Scorecard

PRODUCTS = [(1, 1, 1), (5, 7, 3), (16, 16, 16), (33, 65, 17), (130, 47, 65), (1, 300, 200),
            (200, 300, 1)]
STAGED = (
    "Products of matrices are the first kernels with register tiles, and with operands that are "
    "packed into scratch memory: `Generated.scratch` buffers follow the kernel's own arguments, "
    "each of `Generated.entries` is launched in order with the same buffers, and a tile that "
    "overlaps the one before writes the same values again.")


@advice(STAGED)
def test_products_of_matrices_of_any_shape(device: str, card: Scorecard) -> None:
    found = []
    for dtype in (dt.float32, dt.float64, dt.int32, dt.bfloat16):
        for m, k, n in PRODUCTS if dtype in card.dtypes else ():
            a, b = small(dtype, (m, k), 1), small(dtype, (k, n), 2)
            what = f"{dtype.name}[{m}, {k}] @ [{k}, {n}]"
            found.append((what, on(device, a, dtype) @ on(device, b, dtype), a @ b))
    lt.realize(*[tensor for _, tensor, _ in found])
    for what, tensor, want in found:
        expect_values(tensor, want, what)


def small(dtype: DType, shape: tuple[int, ...], seed: int) -> Any:
    """Whole numbers, so few that sums of products are exact, in 16 bits too."""
    values = whole(dtype, shape, seed)
    if dtype.is_half:
        values *= np.random.default_rng(seed).random(shape) < 0.1
    return values


@advice(STAGED)
def test_a_large_product_is_right_everywhere(device: str) -> None:
    a, b = whole(dt.float32, (257, 310), 3), whole(dt.float32, (310, 290), 4)
    x, y = on(device, a, dt.float32), on(device, b, dt.float32)
    expect_values(x @ y, a @ b, "a product of [257, 310] and [310, 290]")
    expect_values((y.T @ x.T).contiguous(), (a @ b).T, "the same, transposed")


@advice(STAGED)
def test_products_over_many_examples(device: str) -> None:
    a, b = whole(dt.float32, (4, 19, 23), 5), whole(dt.float32, (4, 23, 11), 6)
    x, y = on(device, a, dt.float32), on(device, b, dt.float32)
    expect_values(x @ y, a @ b, "four products at once")
    expect_values(lt.einsum("bij,bjk->ik", x, y), np.einsum("bij,bjk->ik", a, b), "their sum")


@advice("Convolutions read windows: masked loads at the borders give 0, and touch nothing outside.")
def test_convolutions_and_their_gradients(device: str) -> None:
    images, filters = whole(dt.float32, (2, 3, 9, 11), 7), whole(dt.float32, (4, 3, 3, 3), 8)

    def results(where: str) -> list[lt.Tensor]:
        x = lt.tensor(images, device=where, requires_grad=True)
        w = lt.tensor(filters, device=where, requires_grad=True)
        y = F.conv2d(x, w, padding=1, stride=2)
        F.max_pool2d(y, 2).sum().backward()
        assert x.grad is not None and w.grad is not None
        return [y, x.grad, w.grad]
    here, there = results(device), results("interpreter")
    lt.realize(*here)
    for what, got, want in zip(("the values", "the gradient of the images",
                                "the gradient of the filters"), here, there, strict=True):
        expect_values(got.detach(), want.detach().numpy(), f"a convolution: {what}")


@advice("A kernel with several reductions keeps the first one's results for the second: they are "
        "variables, declared outside of the second loop.")
def test_a_softmax_is_one_kernel_and_right(device: str) -> None:
    values = np.random.default_rng(9).normal(size=(37, 65)).astype(np.float32) * 4
    x = lt.tensor(values, device=device).realize()
    got = assert_kernels(lambda: x.softmax(1), 1).numpy()
    wide = values.astype(np.float64)
    exact = np.exp(wide - wide.max(1, keepdims=True))
    exact /= exact.sum(1, keepdims=True)
    error = float(np.abs(got - exact).max())
    if not error < 1e-6:
        raise Nonconformance(f"a softmax is off by {error}")


@advice("A kernel with several outputs that share loads or reductions gives a wrong one: each "
        "output has a buffer of its own.")
def test_values_that_share_a_kernel_are_all_right(device: str) -> None:
    values = whole(dt.float32, (40, 50), 10)
    x = lt.tensor(values, device=device).realize()
    best = x.max(1)
    found = [(best.values, values.max(1)), (best.indices, values.argmax(1)),
             (x.sum(1), values.sum(1)), ((x * x).sum(1), (values * values).sum(1))]
    lt.realize(*[tensor for tensor, _ in found])
    for number, (tensor, want) in enumerate(found):
        expect_values(tensor, want, f"output {number}")
