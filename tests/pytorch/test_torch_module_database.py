"""PyTorch's database of modules: each is built, printed, run and differentiated beside it."""
from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("expecttest", reason="PyTorch's tests need expecttest (make test-torch)")

from torch_database.modules import REFUSED, accepted, differences, modules

import lazyten as lt

pytestmark = pytest.mark.torch
PARTS = 6
LENIENT = {
    "CircularPad1d": "any number of axes may come before those that are padded",
    "NLLLoss": "weights of another float type are taken",
}
"""What takes arguments that PyTorch does not, and why."""


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(PARTS))
def test_modules_are_and_do_what_pytorchs_do(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEVICE", "interpreter")
    assert [text for name in sorted(modules())[part::PARTS] for text in differences(name)] == []


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
def test_modules_refuse_what_pytorchs_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEVICE", "interpreter")
    assert [text for name in sorted(set(modules()) - set(LENIENT)) for text in accepted(name)] == []


@pytest.mark.torch
def test_each_module_of_the_database_is_there() -> None:
    assert len(modules()) > 110
    assert [name for name in [*modules(), *REFUSED] if not hasattr(lt.nn, name)] == []
