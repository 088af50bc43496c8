"""PyTorch's database of operators: a part of what `make coverage` compares, and its page."""
from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("expecttest", reason="PyTorch's tests need expecttest (make test-torch)")

from torch_database.comparison import outcome
from torch_database.page import PAGE, page
from torch_database.unsupported import why_not
from torch_database.variants import variants

pytestmark = pytest.mark.torch
PARTS = 8


@pytest.mark.torch
@pytest.mark.parametrize("part", range(PARTS))
def test_forms_are_right_or_wrong_as_the_table_says(part: int,
                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    """One sample of every fourth form: `make coverage` takes six of all."""
    monkeypatch.setenv("DEVICE", "interpreter")
    right = [name for name in variants() if name not in why_not()]
    found = [outcome(name, most=1) for name in right[4 * part::4 * PARTS]]
    assert [x for x in found if x.result != "right"] == []


@pytest.mark.torch
@pytest.mark.parametrize("name", [
    "cov", "gradient", "histogramdd", "index_reduce_amax", "linalg_vander", "masked_var",
    "scatter_reduce_amin", "signal_windows_exponential", "to", "unravel_index"])
def test_what_was_wrong_once_is_right(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEVICE", "interpreter")
    assert outcome(name).result == "right"


@pytest.mark.torch
def test_the_page_says_what_the_table_says() -> None:
    assert set(why_not()) <= set(variants())
    assert PAGE.read_text("utf8") == page(), "run `make coverage`"
