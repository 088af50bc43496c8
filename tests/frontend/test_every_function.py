"""Every public function is reached by tests that ask for nothing but its definition; what they
cannot find out is named here."""
from __future__ import annotations

import numpy as np
import pytest
from public_functions import OUTSIDE, arguments, functions, made

import lazyten as lt
from lazyten.frontend.core.in_place import TWINS

NAMES = sorted(set(functions()) - OUTSIDE)


@pytest.mark.parametrize("name", NAMES)
def test_a_public_function_has_arguments_that_fit(name: str,
                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEVICE", "interpreter")
    assert arguments(name) is not None, f"give {name} a row in SPECIAL of public_functions.py"


@pytest.mark.parametrize("name", sorted(TWINS))
def test_a_twin_writes_what_its_method_gives(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the tensor, and so to its views."""
    monkeypatch.setenv("DEVICE", "interpreter")
    given = arguments(f"Tensor.{name}")
    assert given is not None
    x, *rest = [made(lt, a, "float64") for a in given]
    row, expected = x[0], getattr(x.clone(), name.removesuffix("_"))(*rest)
    assert getattr(x, name)(*rest) is x and x.shape == expected.shape
    np.testing.assert_array_equal(x.numpy(), expected.to(x.dtype).numpy())
    np.testing.assert_array_equal(row.numpy(), x[0].numpy())
