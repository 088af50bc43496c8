"""einops on lazyten's tensors beside NumPy's arrays."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lazyten as lt

einops = pytest.importorskip("einops")
import lazyten.einops_backend  # noqa: E402  # after the check that einops is there

X = np.arange(2 * 4 * 6 * 3, dtype=np.float32).reshape(2, 4, 6, 3)
LINES = [("rearrange", "b h w c -> b c h w", {}), ("rearrange", "b h w c -> (b h) (w c)", {}),
         ("rearrange", "b (h p) (w q) c -> (b h w) p q c", {"p": 2, "q": 3}),
         ("reduce", "b h w c -> b c", {"reduction": "mean"}),
         ("reduce", "b (h p) (w q) c -> b h w c", {"reduction": "max", "p": 2, "q": 2}),
         ("repeat", "b h w c -> b (h r) w c k", {"r": 2, "k": 3})]


@pytest.mark.parametrize(("name", "pattern", "sizes"), LINES)
def test_einops_gives_what_it_gives_of_arrays(name: str, pattern: str, sizes: dict[str, Any],
                                              device: str) -> None:
    function = getattr(einops, name)
    found = function(lt.tensor(X, device=device), pattern, **sizes)
    assert isinstance(found, lt.Tensor)
    np.testing.assert_array_equal(found.numpy(), function(X, pattern, **sizes))


def test_einops_takes_lists_packs_and_multiplies(device: str) -> None:
    x = lt.tensor(X, device=device)
    listed = einops.rearrange([x, x + 1], "n b h w c -> b (n h) w c")
    np.testing.assert_array_equal(listed.numpy(),
                                  einops.rearrange([X, X + 1], "n b h w c -> b (n h) w c"))
    packed, shapes = einops.pack([x, x[:, 0]], "b * c")
    np.testing.assert_array_equal(packed.numpy(), einops.pack([X, X[:, 0]], "b * c")[0])
    assert [part.shape for part in einops.unpack(packed, shapes, "b * c")] == [(2, 4, 6, 3),
                                                                              (2, 6, 3)]
    product = einops.einsum(x[0], x[1], "h w c, h v c -> w v")
    np.testing.assert_allclose(product.numpy(), np.einsum("hwc,hvc->wv", X[0], X[1]), rtol=1e-5)


def test_gradients_flow_through_einops(device: str) -> None:
    x = lt.tensor(X, device=device, requires_grad=True)
    einops.reduce(x ** 2, "b h w c -> b", "sum").sum().backward()
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.numpy(), 2 * X)
