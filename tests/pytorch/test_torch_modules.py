"""`module_checks.py` with PyTorch: what is written there is what it does."""
from __future__ import annotations

import pytest
from module_checks import CHECKS

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.torch


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
@pytest.mark.parametrize("name", CHECKS)
def test_programs_expect_what_torch_does(name: str) -> None:
    check, expected = CHECKS[name]
    assert check(torch) == expected
