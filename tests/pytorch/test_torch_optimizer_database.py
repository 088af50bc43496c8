"""PyTorch's database of optimizers: steps, states and mistakes with all options in both libraries.
"""
from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("expecttest", reason="PyTorch's tests need expecttest (make test-torch)")

from torch_database.optimizers import accepted, differences, optimizers

pytestmark = pytest.mark.torch
NAMES = ["ASGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "LBFGS", "Muon",
         "NAdam", "RAdam", "RMSprop", "Rprop", "SGD"]
LENIENT = {"Adam", "AdamW"}
"""What takes numbers as tensors with options with which PyTorch does not."""


@pytest.mark.torch
def test_the_optimizers_are_those_of_the_database() -> None:
    assert sorted(optimizers()) == NAMES


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
def test_an_optimizer_does_what_pytorchs_does(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEVICE", "interpreter")
    assert differences(name) == []
    mistakes = [text for text in accepted(name) if "ensor" not in text or name not in LENIENT]
    assert mistakes == []
