"""The examples beside LeNet, shortened: what they print and leave behind, and how they refuse."""
from __future__ import annotations

import re
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from numpy.testing import assert_allclose

sys.path.append(str(Path(__file__).parents[2] / "examples"))

import course
import gpt
import mixed_precision
import options
import resnet
import text_classifier
import vae
from gpt_model import GPT, Shape, sample
from image_folder import Augmented, ImageFolder
from loop import predict
from PIL import Image
from scalars import Scalar
from texts import encode, load, load_embedded, vocabulary

import lazyten as lt

MODULES = (text_classifier, gpt, course, vae, resnet, mixed_precision)
SHORT = [  # on the interpreter
    (text_classifier, ["--data", "few.tsv", "--length", "8", "--epochs", "2", "--batch-size", "8"]),
    (gpt, ["--steps", "4", "--block", "8", "--layers", "1", "--width", "8", "--write", "12",
           "--batch-size", "4"]),
    (course, ["--epochs", "10", "--batch-size", "20"]),
]
PERCENT = r"held-out accuracy (\d+\.\d+)%"
LEARNS = [  # arguments, the figure in the last line, and what it is between
    (text_classifier, ["--epochs", "6"], PERCENT, (60, 100)),
    (gpt, ["--steps", "100", "--batch-size", "16", "--width", "64"], r"loss (\d+\.\d+)", (0, 3)),
    (course, [], r"losses differ by at most (\S+);", (0, 1e-6)),
    (vae, ["--epochs", "10"], r"bound (\d+\.\d+)", (90, 180)),
    (resnet, ["--epochs", "3", "--lr", "0.03"], PERCENT, (85, 100)),  # at .1 rounding decides
    (mixed_precision, ["--epochs", "6", "--layers", "2", "--width", "64"], PERCENT, (60, 100)),
]


def name_of(value: object) -> str | None:
    return value.__name__ if isinstance(value, ModuleType) else ""


def check_files(module: ModuleType, folder: Path, last: str) -> None:
    """The last line names what is in the folder: a model, if there is one, and a picture."""
    kept = sorted(str(file) for file in folder.iterdir())
    assert kept and all(file in last for file in kept)
    picture = (folder / f"{module.__name__}.png").read_bytes()[:24]
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    assert min(struct.unpack(">II", picture[16:])) > 400
    if module is not course:
        assert len(lt.load_safetensors(folder / "model.safetensors")) >= 4


@pytest.mark.few(1)
@pytest.mark.parametrize(("module", "arguments"), SHORT, ids=name_of)
def test_a_short_run_leaves_a_model_and_a_picture(
        module: ModuleType, arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    Path("few.tsv").write_text("good\twhat a film\nbad\twhat a waste\n" * 6)
    module.main([*arguments, "--device", "interpreter", "--output", "out"])
    printed, warned = capsys.readouterr()
    assert warned == "" and re.search(r"loss \d+\.\d{4}", printed), printed
    check_files(module, Path("out"), printed.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize(("module", "arguments", "figure", "limits"), LEARNS, ids=name_of)
def test_an_example_learns(
        module: ModuleType, arguments: list[str], figure: str, limits: tuple[float, float],
        tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module.main([*arguments, "--device", "cpu", "--output", str(tmp_path)])
    last = capsys.readouterr().out.splitlines()[-1]
    found = re.search(figure, last)
    assert found and limits[0] < float(found[1]) < limits[1], last
    check_files(module, tmp_path, last)


BAD = [
    *[(module, *case) for module in MODULES for case in (
        (["--batch-size", "0"], "argument --batch-size: expected 1 or more, found 0"),
        (["--lr", "fast"], "argument --lr: expected a number above 0, found 'fast'"),
        (["--device", "abacus"], "there is no device 'abacus'"),
        (["--output", "taken"], "argument --output: cannot make taken: File exists"))],
    *[(module, ["--batch-size", "99999"], "argument --batch-size: only ")
      for module in (text_classifier, vae, resnet)],
    (text_classifier, ["--data", "nowhere"], "nowhere: cannot be read: No such file"),
    (text_classifier, ["--data", "empty"], "empty: no .txt file in its folders: expected"),
    (text_classifier, ["--data", "bare.tsv"], "bare.tsv: line 2: expected a label, a tab and"),
    (text_classifier, ["--data", "one.tsv"], "one.tsv: expected two labels or more, found 'good'"),
    (text_classifier, ["--data", "few.tsv"], "few.tsv: 1 of 2 labels have fewer than 5 texts"),
    (text_classifier, ["--data", "latin.txt"], "latin.txt: expected text in UTF-8, found the byte"),
    (gpt, ["--data", "latin.txt"], "latin.txt: expected text in UTF-8, found the byte 0xe9 at 3"),
    (gpt, ["--data", "nowhere"], "nowhere: cannot be read: No such file"),
    (gpt, ["--data", "taken"], "a text of 10 characters is too short"),
    (gpt, ["--width", "10"], "argument --width: 10 is not a multiple of 4 heads"),
    (gpt, ["--prompt", "雪"], "argument --prompt: expected one or more characters of the text"),
    (gpt, ["--prompt", ""], "argument --prompt: it is empty"),
    (resnet, ["--depth", "9"], "argument --depth: expected 8, 14, 20 or another 6n + 2, found 9"),
    (resnet, ["--data", "nowhere"], "nowhere: there is no such folder: expected a folder for"),
    (resnet, ["--data", "empty"], "empty: found images in 0 of its folders"),
    (resnet, ["--data", "scarce"], "scarce/b: has 1 images: 5 or more"),
    (resnet, ["--data", "broken", "--batch-size", "8"], "broken/b/4.png: cannot be read"),
    (mixed_precision, ["--accumulate", "5"], "argument --accumulate: 5 pieces do not divide"),
    (mixed_precision, ["--width", "6"], "argument --width: 6 is not a multiple of 4"),
    (mixed_precision, ["--dtype", "int8"], "argument --dtype: invalid choice: 'int8'"),
]


@pytest.fixture
def bad_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the working directory: files and folders that are not what they should be."""
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    Path("taken").write_text("a file; it")
    Path("bare.tsv").write_text("good\ta film\njust a line\n")
    Path("one.tsv").write_text("good\ta film\n" * 9)
    Path("few.tsv").write_text("good\ta film\n" * 9 + "bad\ta film\n")
    Path("latin.txt").write_bytes("café\tau lait".encode("latin-1"))
    for folder, files in (("scarce", 1), ("broken", 5)):
        for label in "ab":
            Path(folder, label).mkdir(parents=True)
            for i in range(5 if label == "a" else files):
                Image.new("L", (8, 8)).save(Path(folder, label, f"{i}.png"))
    Path("broken/b/4.png").write_bytes(Path("broken/b/0.png").read_bytes()[:40])


@pytest.mark.few(16)
@pytest.mark.usefixtures("bad_files")
@pytest.mark.parametrize(("module", "arguments", "message"), BAD, ids=name_of)
def test_what_is_wrong_gives_one_line_and_code_two(
        module: ModuleType, arguments: list[str], message: str,
        capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        module.main(["--epochs" if module is not gpt else "--steps", "1", "--device", "interpreter",
                     *arguments])
    said = capsys.readouterr().err
    assert ended.value.code == 2
    assert said.startswith(f"{module.__name__}.py: error: {message}") and said.count("\n") == 1


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_help_names_every_option_with_its_default(
        module: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        module.main(["--help"])
    shown = capsys.readouterr().out
    for action in module.options()._actions:
        assert action.help and action.option_strings[0] in shown
    assert "None" not in shown and "SUPPRESS" not in shown


def test_ctrl_c_ends_an_example_with_one_line(
        monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def main(arguments: list[str]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(SystemExit, match="130"):
        options.run(main, "gpt.py")
    assert capsys.readouterr() == ("", "gpt.py: stopped by Ctrl-C\n")


# ---- what each is made of ----

def test_texts_that_come_with_python_have_labels_and_none_twice() -> None:
    data = load_embedded()
    assert len(data.texts) == len(data.labels) == len(set(data.texts)) > 1000
    assert data.classes == sorted(data.classes) and set(data.labels) == set(range(6))


@pytest.mark.parametrize("kind", ["file", "folders"])
def test_texts_are_read_from_a_file_or_from_folders(kind: str, tmp_path: Path) -> None:
    pairs = [("neg", f"a dull film, {i}") for i in range(5)]
    pairs += [("pos", f"what a film! {i}") for i in range(5)]
    if kind == "file":
        (tmp_path / "data").write_text("\n".join("\t".join(pair) for pair in pairs) + "\n\n")
    for i, (label, text) in enumerate(pairs if kind == "folders" else ()):
        (tmp_path / "data" / label).mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / label / f"{i}.txt").write_text(text)
    data = load(tmp_path / "data")
    assert [data.classes[k] for k in data.labels] == [label for label, _ in pairs]
    assert data.texts == [text for _, text in pairs]
    numbers = vocabulary(data.texts, most=3)
    assert sorted(numbers) == ["a", "dull", "film"]
    assert encode(["A film, what? A dull film"], numbers, 7)[0].tolist() == \
        [numbers["a"], numbers["film"], 1, 1, numbers["a"], numbers["dull"], numbers["film"]]
    assert encode(["dull"], numbers, 3)[0].tolist() == [numbers["dull"], 0, 0]


def test_the_cache_gives_what_the_whole_text_gives() -> None:
    lt.manual_seed(0)
    model = GPT(Shape(vocabulary=7, block=6, layers=2, heads=2, width=8)).to("interpreter")
    for parameter in model.parameters():
        parameter.data = lt.randn(parameter.shape, device="interpreter")
    text = lt.tensor([[1, 4, 0, 6, 2, 2]], device="interpreter")
    cache = model.empty_cache(1, "interpreter")
    with lt.no_grad():
        whole = model(text)
        for i in range(6):
            logits, cache = model.next(text[:, i], lt.tensor(i, device="interpreter"), cache)
            assert_allclose(logits.numpy(), whole[:, i].numpy(), atol=1e-5)


def test_sampling_goes_on_past_the_block_with_what_the_model_finds_likely() -> None:
    lt.manual_seed(0)
    model = GPT(Shape(vocabulary=40, block=4, layers=1, heads=1, width=8)).to("interpreter")
    for parameter in model.parameters():
        parameter.data = lt.randn(parameter.shape, device="interpreter")
    model.position.weight.data *= 5  # so that it matters which characters the window has
    start, count = [0, 3], 15
    written = list(sample(model, start, count, temperature=1e-4, device="interpreter"))
    text, window = list(start), list(start)
    for _ in range(count):
        window = window[-2:] if len(window) > 4 else window
        with lt.no_grad():
            window.append(model(lt.tensor([window], device="interpreter"))[0, -1].argmax().item())
        text.append(window[-1])
    assert start + written == text


def test_scalars_have_the_gradients_of_tensors() -> None:
    def value(a: Scalar, b: Scalar, softplus: Callable[[Scalar], Scalar]) -> Scalar:
        c = a * b + a.tanh() * a
        return softplus(c - 2.0 * b) * c + (b - a) * 3.0 + b

    for start in ((0.5, -1.5), (2.0, 3.0), (-4.0, 0.1)):
        scalars = [Scalar(x) for x in start]
        result = value(*scalars, Scalar.softplus)
        result.backward()
        tensors = [lt.tensor(x, dtype=lt.float64, requires_grad=True) for x in start]
        expected = value(*tensors, lt.nn.functional.softplus)
        expected.backward()
        assert_allclose(result.value, expected.item())
        assert_allclose([s.gradient for s in scalars], [t.grad.item() for t in tensors])


def test_images_are_cut_from_the_middle_and_moved_at_most_so_far(tmp_path: Path) -> None:
    for label in ("cat", "dog"):
        (tmp_path / label).mkdir()
        for i in range(5):
            image = Image.new("RGB", (12, 6), (255, 0, 0))
            image.paste((0, 51 * i, 255), (3, 0, 9, 6))  # the middle square
            image.save(tmp_path / label / f"{i}.PNG")
    data = ImageFolder(tmp_path, 6)
    assert data.classes == ["cat", "dog"] and data.labels.tolist() == [0] * 5 + [1] * 5
    image, label = data[8]
    assert label == 1 and image.shape == (3, 6, 6)
    assert_allclose(image, np.broadcast_to(np.array([0, 0.6, 1])[:, None, None], (3, 6, 6)))
    moved = Augmented(data, [8, 2], 1, mirror=True, seed=0)
    assert len(moved) == 2 and moved[1][1] == 0
    assert_allclose(moved[0][0], image)  # of one colour: moved and mirrored it is the same


def test_predictions_of_overlapping_batches_stand_where_they_belong() -> None:
    values = lt.arange(10)
    found = predict(lambda x: lt.nn.functional.one_hot(x % 4, 4), values, size=4)
    assert found.tolist() == [i % 4 for i in range(10)]
