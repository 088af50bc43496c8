"""`quantize_dynamic`: which layers have integers as weights, in PyTorch's way of saying."""
from __future__ import annotations

from typing import Any

import pytest

import lazyten as lt
from lazyten.quantization import default_dynamic_qconfig, quantize_dynamic
from lazyten.quantization.layers import is_quantized


class Tagger(lt.nn.Module):
    """Linear layers, one within another module, and a recurrent one."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.first = lt.nn.LSTM(4, 6), lt.nn.Linear(6, 8)
        self.rest = lt.nn.Sequential(lt.nn.ReLU(), lt.nn.Linear(8, 3))

    def forward(self, x: lt.Tensor) -> Any:
        return self.rest(self.first(self.lstm(x)[0]))


@pytest.mark.parametrize(("spec", "chosen"), [
    (None, ["first", "rest.1"]), ({lt.nn.Linear, lt.nn.LSTM}, ["first", "rest.1"]),
    ({lt.nn.LSTM}, []), ({"rest": default_dynamic_qconfig}, ["rest.1"]), ({"first"}, ["first"]),
    ({lt.nn.Sequential}, ["rest.1"]), ({""}, ["first", "rest.1"]),
    ({lt.nn.Linear: default_dynamic_qconfig, "first": None}, ["rest.1"]),
    ({"": default_dynamic_qconfig, lt.nn.Sequential: None}, ["first"])])
def test_linear_layers_are_chosen_by_class_or_name(spec: Any, chosen: list[str]) -> None:
    model = Tagger()
    made = quantize_dynamic(model, spec, dtype=lt.qint8)  # type: ignore[attr-defined]
    assert [name for name, layer in made.named_modules() if is_quantized(layer)] == chosen
    assert not any(map(is_quantized, model.modules())) and not made.training
    x = lt.rand(5, 2, 4)
    assert (made(x) - model(x)).abs().max().item() < 0.02
    if chosen:
        assert (made(x) - model(x)).abs().max().item() > 0


def test_the_model_itself_is_changed_if_asked() -> None:
    model = Tagger()
    assert quantize_dynamic(model, inplace=True) is model and is_quantized(model.first)


def test_weights_of_other_types_are_refused() -> None:
    with pytest.raises(lt.ArgumentError, match="weights become integers of 8 bits"):
        quantize_dynamic(Tagger(), dtype=lt.float16)


def test_it_has_pytorchs_older_and_newer_name() -> None:
    from lazyten.ao.quantization import quantize_dynamic as newer  # type: ignore[import-not-found]
    assert newer is quantize_dynamic is lt.quantization.quantize_dynamic
    with pytest.raises(lt.NotDefinedError, match=r"ao\.quantization\.fuse_modules"):
        lt.ao.quantization.fuse_modules(Tagger(), [])  # type: ignore[attr-defined]
