"""Images read at any places, beside PyTorch: all modes, and gradients of images and places."""
from __future__ import annotations

import numpy as np
import pytest
from torch_compare import compare, normal

from lazyten.nn import functional as F

torch = pytest.importorskip("torch")

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore:Since version 1.3.0")]
TF = torch.nn.functional
PLACES = np.random.default_rng(3).uniform(-1.8, 1.8, (2, 4, 3, 2))
IN_BLOCKS = np.random.default_rng(3).uniform(-1.8, 1.8, (2, 2, 3, 4, 3))


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_grid_sample_matches_torch(mode: str, padding_mode: str, align_corners: bool) -> None:
    options = {"mode": mode, "padding_mode": padding_mode, "align_corners": align_corners}
    for size in ((5, 6), (1, 3)):
        compare(lambda x, g: F.grid_sample(x, g, **options),
                lambda x, g: TF.grid_sample(x, g, **options), normal(2, 3, *size), PLACES)
    if mode != "bicubic":
        compare(lambda x, g: F.grid_sample(x, g, **options),
                lambda x, g: TF.grid_sample(x, g, **options), normal(2, 3, 3, 5, 4), IN_BLOCKS)


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("size", [(2, 1, 3, 4), (2, 3, 1, 2), (2, 1, 2, 1, 3)])
def test_affine_grid_matches_torch(size: tuple[int, ...], align_corners: bool) -> None:
    compare(lambda x: F.affine_grid(x, size, align_corners),
            lambda x: TF.affine_grid(x, list(size), align_corners),
            normal(2, len(size) - 2, len(size) - 1))
