"""How many kernels a program is: what one computes together, and what had better be apart."""
from __future__ import annotations

import numpy as np
import pytest

import lazyten as lt
from lazyten.ir.node import toposort
from lazyten.ir.ops import Op
from lazyten.testing import assert_kernels, watch_kernels

F = lt.nn.functional
PADS = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}


@pytest.mark.parametrize("mode", PADS)
def test_what_is_put_together_from_pieces_twice_is_one_kernel(mode: str) -> None:
    """Along rows and along columns: a row is read in pieces, each of them once."""
    x = lt.rand(8, 4, 64, 64, device="cpu").realize()
    padded = assert_kernels(lambda: F.pad(x, (2, 3, 1, 2), mode=mode), 1)
    np.testing.assert_array_equal(padded.numpy(), np.pad(
        x.numpy(), ((0, 0), (0, 0), (1, 2), (2, 3)), PADS[mode]))


def test_a_convolution_is_not_computed_in_the_loops_of_the_zeros_around_it() -> None:
    x, w = (lt.rand(*shape, device="cpu").realize() for shape in ((4, 8, 30, 30), (8, 8, 3, 3)))
    with watch_kernels() as kernels:
        F.conv2d(F.hardswish(F.conv2d(x, w, padding=1)), w, padding=1).realize()
    reducing = [step.kernel.outputs for _, made in kernels.schedules for step in made.steps
                if step.kernel.name.startswith("reduce")]
    assert [(out.shape, out.op is Op.PAD) for out, in reducing] == [((4, 8, 30, 30), False)] * 2


def test_means_of_rows_are_not_computed_again_for_each_sum_of_a_column() -> None:
    """They are cheap in the loops of what they are subtracted from, but for those of the gradient
    of the scale, which adds rows up."""
    x, w = (lt.rand(*shape, device="cpu").realize() for shape in ((8, 64, 128), (128, 128)))
    scale, shift = (lt.ones(128, device="cpu", requires_grad=True) for _ in range(2))
    with watch_kernels() as kernels:
        normal = F.layer_norm(x + x @ w, (128,), scale, shift)
        (normal @ w.T).square().sum().backward()
        lt.realize(scale.grad, shift.grad)
    sums = [n for _, made in kernels.schedules for step in made.steps
            for n in toposort(step.kernel.outputs) if n.op is Op.REDUCE and n.arg[1] == (0, 1)]
    assert sums
    assert all(n.op is not Op.REDUCE for n in toposort([s.src[0] for s in sums]))


def test_differences_of_all_rows_are_taken_again_rather_than_stored() -> None:
    """By the distances and both gradients: what they are of is small, and they are float64."""
    x, y = (lt.rand(n, 16, device="cpu").realize().requires_grad_() for n in (60, 50))
    with watch_kernels() as kernels:
        lt.realize(*lt.autograd.grad(lt.cdist(x, y).square().sum(), (x, y)))
    stored = [out.numel for _, made in kernels.schedules for step in made.steps
              for out in step.kernel.outputs]
    assert max(stored) == 60 * 50


def test_what_is_done_with_sums_of_narrow_products_is_a_kernel_of_its_own() -> None:
    """Vectors hold neighbours that are added; with floats they hold sums."""
    rng = np.random.default_rng(0)
    a, b = (lt.tensor(rng.integers(-9, 9, (n, 256)).astype(np.int8), device="cpu")
            for n in (64, 128))
    scale = lt.tensor([0.5], device="cpu")
    found = assert_kernels(lambda: (a.int() @ b.int().T).float() * scale, 2)
    np.testing.assert_array_equal(found.numpy(), 0.5 * (a.int().numpy() @ b.int().numpy().T))
    wide = [x.float().realize() for x in (a, b)]
    assert_kernels(lambda: (wide[0] @ wide[1].T) * scale, 1)


def test_a_comparison_of_positions_that_many_kernels_make_is_stored_by_none() -> None:
    """Of pairs of rows: stored, it would take a byte for each pair and column."""
    n, columns = 32, 200
    tables = [lt.randint(0, 9, (n, columns), device="cpu").realize() for _ in range(10)]

    def earlier() -> lt.Tensor:
        rows = lt.arange(n, device="cpu").byte()
        first, second = (x.expand(n, n, columns) for x in (rows[:, None, None], rows[:, None]))
        return second < first
    with watch_kernels() as kernels:
        found = [((x[:, None] == x) & earlier()).sum(1) for x in tables]
        lt.realize(*found)
    assert max(value.node.numel for _, made in kernels.schedules for value in made.stored) == \
        n * columns
    for x, ranks in zip(tables, found, strict=True):
        values = x.numpy()
        same = (values[:, None] == values) & np.tri(n, n, -1, dtype=bool)[..., None]
        np.testing.assert_array_equal(ranks.numpy(), same.sum(1))


def test_a_table_of_positions_that_a_product_reads_is_stored() -> None:
    """The product would compute each element of it anew for each row of its other operand."""
    x, n = lt.randn(96, 128, device="cpu").realize(), 128

    def table() -> lt.Tensor:
        places = lt.arange(n, device="cpu")
        return (places[:, None] * places % 7).float()
    found = assert_kernels(lambda: x @ table(), 2)
    places = np.arange(n)
    np.testing.assert_allclose(found.numpy(), x.numpy() @ (places[:, None] * places % 7), 1e-4,
                               1e-3)
