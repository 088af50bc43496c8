"""Every public function is reached by tests that ask for nothing but its definition; what they
cannot find out is named here."""
from __future__ import annotations

import pytest
from public_functions import OUTSIDE, arguments, functions

NAMES = sorted(set(functions()) - OUTSIDE)


@pytest.mark.parametrize("name", NAMES)
def test_a_public_function_has_arguments_that_fit(name: str,
                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEVICE", "interpreter")
    assert arguments(name) is not None, f"give {name} a row in SPECIAL of public_functions.py"
