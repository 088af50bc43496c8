"""LeNet with integers: as accurate as in floats, and small where it is exported to."""
from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ahead_programs import WAYS, call
from slow_rows import slow_but

sys.path.append(str(Path(__file__).parents[2] / "examples"))

import lenet

import lazyten as lt
from benchmarks import quantized

KINDS: dict[str, dict[str, Any]] = {
    "int8": {}, "int4": {"weights": "int4"}, "products": {"examples": True}}


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", slow_but(KINDS, "int8"))
@pytest.mark.parametrize("way", WAYS)
def test_an_exported_program_has_the_integers_and_gives_the_same(way: str, kind: str,
                                                                 tmp_path: Path) -> None:
    lt.manual_seed(0)
    image = lt.rand(1, 1, 32, 32)
    options = KINDS[kind] | ({"examples": [image]} if "examples" in KINDS[kind] else {})
    model = lt.quantize(lenet.lenet(), **options).eval()
    made = lt.export(model, image, tmp_path / f"net{way}")
    found = call(made, input=image.numpy())
    with lt.no_grad():
        np.testing.assert_allclose(found["output"], model(image).numpy().reshape(-1), 1e-4, 1e-5)
    if way == ".o":
        assert made.files[0].stat().st_size < 100_000  # the weights alone have 247,000 in floats


@pytest.mark.slow
def test_quantized_lenets_are_half_a_percent_off_at_most() -> None:
    trainer = quantized.trained(40)
    models = quantized.quantized_lenets(trainer)
    found = {name: np.mean([quantized.accuracy(model, digits) for digits in (
        trainer.train, trainer.test)]) for name, model in models.items()}
    assert found["float32"] > 0.98
    assert {name for name, right in found.items() if right < found["float32"] - 0.005} == set()


def test_the_table_of_linear_layers(monkeypatch: pytest.MonkeyPatch,
                                    capsys: pytest.CaptureFixture[str]) -> None:
    for name, value in (("FEATURES", 128), ("ROWS", (1, 2)), ("ROUNDS", 2), ("TURN_S", 0.0)):
        monkeypatch.setattr(quantized, name, value)
    quantized.main(["linear"])
    head, rule, *rows = [[cell.strip() for cell in line.split("|")[1:-1]]
                         for line in capsys.readouterr().out.splitlines()]
    assert head == ["Linear(128, 128)", "bytes", "1 rows, ms", "2 rows, ms"]
    assert rule == ["---"] * 4 and [row[:2] for row in rows] == [
        ["float32", "66,048"], ["int8 weights", "17,408"],
        ["int8 weights, groups of 128", "17,408"],
        ["int4 weights, groups of 128", "9,216"], ["int8 products", "17,413"]]


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", KINDS)
def test_a_model_of_integers_goes_to_onnx_and_back(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    lt.manual_seed(0)
    images = lt.rand(2, 1, 32, 32)
    options = KINDS[kind] | ({"examples": [images]} if "examples" in KINDS[kind] else {})
    model = lt.quantize(lenet.lenet(), **options)
    lt.onnx.export(model, images, tmp_path / "net.onnx")
    assert (tmp_path / "net.onnx").stat().st_size < 100_000
    found, = lt.onnx.load(tmp_path / "net.onnx")([images.numpy()])
    np.testing.assert_allclose(found, model(images).detach().numpy(), 1e-4, 1e-5)
