"""examples/deploy.py: a training step and LeNet in C, and a page on which one draws a digit."""
from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import browser
import pytest

sys.path.append(str(Path(__file__).parents[2] / "examples"))

import deploy

DRAW = """
const paper = document.getElementById("paper"), box = paper.getBoundingClientRect();
const at = (kind, [x, y]) => paper.dispatchEvent(new PointerEvent(kind, {
  clientX: box.left + x, clientY: box.top + y, bubbles: true}));
const circle = Array.from({length: 41}, (_, i) => [
  160 + 70 * Math.cos(i * Math.PI / 20), 160 + 110 * Math.sin(i * Math.PI / 20)]);
const seven = [[90, 70], [150, 60], [220, 50], [190, 130], [160, 200], [140, 270]];
const bar = [[110, 170], [230, 150]];
const found = [document.getElementById("digit").textContent];
for (const strokes of [[circle], [seven, bar]]) {
  for (const points of strokes) {
    at("pointerdown", points[0]);
    points.slice(1).forEach(point => at("pointermove", point));
    at("pointerup", points[0]);
    at("pointermove", [10, 10]);
  }
  found.push(document.getElementById("digit").textContent);
  document.getElementById("clear").click();
}
found.push(document.getElementById("digit").textContent);
return found;
"""
"""Draws with the mouse, and gives what the page says: of nothing, a nought, a seven, nothing."""


@pytest.mark.slow
def test_lenet_runs_in_c_and_in_a_browser(
        tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    deploy.main(["--output", str(tmp_path)])
    printed = capsys.readouterr().out
    if shutil.which("cc") is not None:
        trained = re.search(r"train: 22 steps in C, .* by at most (\S+)\n", printed)
        assert trained and float(trained[1]) < 1e-4, printed
        tested = re.search(r"classify: ([\d,]+) bytes, (\d\d\.\d\d)% of 360", printed)
        assert tested and int(tested[1].replace(",", "")) < 300_000, printed
        assert float(tested[2]) > 95
    assert printed.splitlines()[-1] == f"page: {tmp_path / 'digit.html'}"
    if browser.found() is None:
        pytest.skip("there is no browser")
    assert browser.run(tmp_path / "digit.html", DRAW, tmp_path) == ["", "0", "7", ""]


@pytest.mark.parametrize(("arguments", "message"), [
    (["--batch-size", "0"], "argument --batch-size: expected 1 or more, found 0"),
    (["--batch-size", "99999"], "argument --batch-size: only 1,437 images to train on"),
    (["--device", "abacus"], "there is no device 'abacus'")])
def test_what_the_example_cannot_use_is_one_line(
        arguments: list[str], message: str, tmp_path: Path,
        capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        deploy.main([*arguments, "--output", str(tmp_path / "out")])
    error = capsys.readouterr().err
    assert error.startswith("deploy.py: error: ") and message in error


@pytest.mark.slow
def test_without_a_compiler_the_programs_are_written_all_the_same(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    deploy.main(["--output", str(tmp_path), "--epochs", "1", "--batch-size", "512"])
    printed = capsys.readouterr().out
    assert "step.c is not tried" in printed and "lenet.c is not tried" in printed
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"step.c", "step.h", "batches.bin", "lenet.c", "lenet.h", "images.bin",
                     "digit.wasm", "digit.h", "digit.html"}
