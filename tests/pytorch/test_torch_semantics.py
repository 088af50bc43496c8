"""Named semantic checks beside PyTorch, on each device."""
from __future__ import annotations

from typing import Any

import functional_checks
import numpy as np
import pytest
import semantic_checks
import statistics_checks
import usage_checks
from semantic_checks import Both
from torch_if_there import torch

import lazyten as lt


def plain(result: Any) -> Any:
    """A result of either library as nested tuples of arrays with their dtype's name, and of what is
    no tensor."""
    if isinstance(result, lt.Tensor | torch.Tensor):
        name = str(result.dtype).rpartition(".")[2]
        return name, result.detach().cpu().numpy()
    if isinstance(result, list | tuple):
        return tuple(plain(x) for x in result)
    return result


def assert_alike(found: Any, expected: Any) -> None:
    """Equal shapes, dtypes and signs of zeros; values to a few units in the last place."""
    assert type(found) is type(expected)
    if isinstance(expected, np.ndarray):
        assert found.shape == expected.shape
        if expected.dtype.kind != "f":
            np.testing.assert_array_equal(found, expected)
            return
        np.testing.assert_allclose(found, expected, rtol=2e-6, atol=2e-7)
        zero = (expected == 0) & (found == 0)
        np.testing.assert_array_equal(np.signbit(found[zero]), np.signbit(expected[zero]))
    elif isinstance(expected, tuple):
        assert len(found) == len(expected)
        for mine, other in zip(found, expected, strict=True):
            assert_alike(mine, other)
    else:
        assert found == expected


CHECKS = {**semantic_checks.ALL, **statistics_checks.ALL, **functional_checks.ALL,
          **usage_checks.ALL}


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore:size_average and reduce", "ignore:Implicit dimension",
                            "ignore:reduction. 'mean' divides")
@pytest.mark.parametrize("name", CHECKS)
def test_a_check_gives_what_pytorch_gives(name: str, device: str,
                                          monkeypatch: pytest.MonkeyPatch) -> None:
    check = CHECKS[name]
    if name.endswith(" shares"):  # the host's memory
        monkeypatch.setenv("DEVICE", "cpu")
    expected = plain(check(torch, Both(torch.from_numpy)))
    found = plain(check(lt, Both(lambda array: lt.tensor(array, device=device))))
    assert_alike(found, expected)


def test_there_are_as_many_checks_as_promised() -> None:
    assert len(CHECKS) >= 150
