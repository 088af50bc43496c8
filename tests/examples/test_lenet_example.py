"""examples/lenet.py: what it prints and leaves behind, how it refuses arguments, how it stops."""
from __future__ import annotations

import re
import signal
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2] / "examples"))

import lenet

import lazyten as lt

SCRIPT = lenet.__file__
EPOCH = re.compile(r"epoch 1/1  loss (\d\.\d{4})  train (\d+\.\d\d)%  test (\d+\.\d\d)%  "
                   r"[\d,]+ images/s")
LAST = re.compile(r"test accuracy (\d+\.\d\d)% in \d+\.\d s; model: (\S+); pictures: (\S+)")
PARAMETERS = [(6, 1, 5, 5), (6,), (16, 6, 5, 5), (16,), (120, 400), (120,), (84, 120), (84,),
              (10, 84), (10,)]


def write_mnist(folder: Path, train: int, test: int) -> None:
    """Noise in MNIST's format."""
    random = np.random.default_rng(0)
    for name, count in (("train", train), ("t10k", test)):
        header = struct.pack(">BBBB3I", 0, 0, 8, 3, count, 28, 28)
        (folder / f"{name}-images-idx3-ubyte").write_bytes(header + random.bytes(count * 28 * 28))
        header = struct.pack(">BBBBI", 0, 0, 8, 1, count)
        (folder / f"{name}-labels-idx1-ubyte").write_bytes(header + bytes(count))


def test_one_epoch_learns_and_saves_the_model_and_the_pictures(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, SCRIPT, "--epochs", "1", "--device", "cpu",
                           "--output", tmp_path / "out"],
                          cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    epoch, last = done.stdout.splitlines()
    shown, ended = EPOCH.fullmatch(epoch), LAST.fullmatch(last)
    assert shown and ended
    assert float(shown[1]) < np.log(10)  # the loss of guessing
    assert float(shown[3]) > 30  # guessing gives 10 %
    assert ended[1] == shown[3]
    model, picture = tmp_path / "out" / "lenet.safetensors", tmp_path / "out" / "lenet.png"
    assert (ended[2], ended[3]) == (str(model), str(picture))
    assert sorted(tuple(t.shape) for t in lt.load_safetensors(model).values()) == sorted(PARAMETERS)
    header = picture.read_bytes()[:24]
    assert header.startswith(b"\x89PNG\r\n\x1a\n")
    assert min(struct.unpack(">II", header[16:])) > 800  # wide and high enough to read


@pytest.mark.slow
def test_bfloat16_learns_as_float32_does(
        tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same images in the same order: losses and accuracies stay close, weights in float32."""
    losses, accuracies, first_weights = [], [], []
    for dtype in ("float32", "bfloat16"):
        lenet.main(["--epochs", "2", "--dtype", dtype, "--output", str(tmp_path)])
        words = capsys.readouterr().out.splitlines()[1].split()
        losses.append(float(words[3]))
        accuracies.append(float(words[7].rstrip("%")))
        saved = lt.load_safetensors(tmp_path / "lenet.safetensors")
        assert {t.dtype for t in saved.values()} == {lt.float32}
        first_weights.append(next(t for t in saved.values() if t.shape == (6, 1, 5, 5)).tolist())
    assert first_weights[0] != first_weights[1]
    assert abs(losses[0] - losses[1]) < 0.1
    assert abs(accuracies[0] - accuracies[1]) < 5


@pytest.mark.slow
def test_a_seed_decides_the_result_and_mnist_files_are_used(
        tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_mnist(tmp_path, train=9, test=4)
    losses = []
    for seed in ("1", "1", "2"):
        lenet.main(["--epochs", "1", "--batch-size", "4", "--seed", seed, "--mnist", str(tmp_path),
                    "--output", str(tmp_path)])
        losses.append(capsys.readouterr().out.split()[3])
    assert losses[0] == losses[1] != losses[2]


@pytest.mark.parametrize(("arguments", "message"), [
    (["--epochs", "-1"], "argument --epochs: expected 1 or more, found -1"),
    (["--epochs", "many"], "argument --epochs: expected a whole number, found 'many'"),
    (["--batch-size", "0"], "argument --batch-size: expected 1 or more, found 0"),
    (["--batch-size", "1438"], "argument --batch-size: only 1,437 images to train on"),
    (["--lr", "nan"], "argument --lr: expected a number above 0, found 'nan'"),
    (["--lr", "-0.1"], "argument --lr: expected a number above 0, found '-0.1'"),
    (["--lr", "fast"], "argument --lr: expected a number above 0, found 'fast'"),
    (["--dtype", "int8"], "argument --dtype: invalid choice: 'int8'"),
    (["--seed", "-3"], "argument --seed: expected 0 or more, found -3"),
    (["--device", "abacus"], "there is no device 'abacus'"),
    (["--mnist", "nowhere"], "nowhere has none of train-images-idx3-ubyte, "),
    (["--mnist"], "argument --mnist: expected one argument"),
    (["--output", "taken/out"], "argument --output: cannot make taken/out: Not a directory"),
    (["--output", "taken"], "argument --output: cannot make taken: File exists"),
    (["--colour", "red"], "unrecognized arguments: --colour red"),
])
def test_a_bad_argument_gives_one_line_and_code_two(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
        arguments: list[str], message: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("taken").write_text("a file where a folder is wanted")
    with pytest.raises(SystemExit) as ended:
        lenet.main(arguments)
    out, said = capsys.readouterr()
    assert (ended.value.code, out) == (2, "")
    assert said.startswith(f"lenet.py: error: {message}")
    assert said.count("\n") == 1


@pytest.mark.slow
def test_interrupting_stops_with_one_line(tmp_path: Path) -> None:
    running = subprocess.Popen(
        [sys.executable, SCRIPT, "--epochs", "1000", "--output", tmp_path], cwd=tmp_path,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))  # nohup ignores it
    assert running.stdout is not None
    assert running.stdout.readline().startswith("epoch    1/1000  loss ")
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=60)
    assert said == "lenet.py: stopped by Ctrl-C\n"
    assert running.returncode == 130
    assert list(tmp_path.iterdir()) == []


def test_help_names_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        lenet.main(["--help"])
    shown = capsys.readouterr().out
    for option in ("--device", "--epochs", "--batch-size", "--lr", "--seed", "--mnist", "--output"):
        assert option in shown
    assert "(default: lenet-out)" in shown
    assert "None" not in shown and "SUPPRESS" not in shown
