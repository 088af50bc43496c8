"""Every mistake of a user gets an error that helps, where it was made, and breaks nothing.

The mistakes are the rows of `bad_inputs`; here are the checks, and mistakes with files, memory
and the environment.
"""
from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import bad_inputs
import numpy as np
import pytest
from bad_inputs.rows import Bad, Things

import lazyten as lt
from lazyten.nn import functional as F
from lazyten.random import default_generator
from lazyten.support import errors

INTERNAL = re.compile(r"\bassert|Error\b|numpy\.|llvm|has no attribute|unsupported operand|"
                      r"Op\.[A-Z]|broadcast_to|inhomogeneous|<[A-Z_]+ |_operand|positional|"
                      r"__\w+__ ")
"""What a message must not hold: Python's, NumPy's and lazyten's own workings."""


@pytest.fixture(autouse=True)
def _on_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEVICE", "interpreter")


@pytest.fixture(scope="module")
def untouched() -> dict[str, Any]:
    """The snapshot of things that no call has failed on."""
    lt.manual_seed(7)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEVICE", "interpreter")
        return snapshot(Things())


def snapshot(things: Things) -> dict[str, Any]:
    """All that a failed call must leave as it was. Computes the values."""
    tensors = things.tensors()
    return {
        "values": {name: t.detach().numpy().tolist() for name, t in tensors.items()},
        "kinds": {name: (t.shape, t.dtype, t.device) for name, t in tensors.items()},
        "gradients": {name: (t.requires_grad, t.is_leaf, t.grad is None)
                      for name, t in tensors.items()},
        "parameters": [name for name, _ in things.layer.named_parameters()],
        "state": [*things.layer.state_dict()],
        "modules": [name for name, _ in things.layer.named_modules()],
        "options": [{k: v for k, v in g.items() if k != "params"} for g in things.sgd.param_groups],
        "moments": len(things.sgd.state),
        "mode": lt.is_grad_enabled(),
    }


def check_message(error: lt.LazytenError, *words: str) -> None:
    """The message holds these words, in English, and nothing internal."""
    text = str(error)
    for word in words:
        assert word in text, f"{word!r} is missing in: {text}"
    found = INTERNAL.search(text.replace("super().__init__()", ""))
    assert not found, f"{found.group()!r} is internal: {text}"
    assert len(text) < 500


def failure(bad: Bad, things: Things) -> lt.LazytenError:
    """The error of a row, raised while its own line runs and before anything is computed."""
    with pytest.raises(lt.LazytenError) as caught:
        bad.call(things)
    codes = [frame.f_code for frame, _ in traceback.walk_tb(caught.tb)]
    assert bad.call.__code__ in codes
    files = {Path(code.co_filename).name for code in codes}
    assert not files & {"realization.py", "schedule.py"}, "the error came when computing"
    return caught.value


@pytest.mark.few(247)
@pytest.mark.parametrize("bad", bad_inputs.ALL, ids=lambda bad: bad.name.replace(" ", "-"))
def test_a_mistake_is_named_where_it_is_made_and_changes_nothing(
        bad: Bad, untouched: dict[str, Any]) -> None:
    lt.manual_seed(7)
    things = Things()
    taken = default_generator.counted()
    error = failure(bad, things)
    assert type(error) is bad.error
    check_message(error, bad.operation, *bad.values, bad.remedy)
    assert error.__suppress_context__ or error.__context__ is None, "another error shows through"
    assert default_generator.counted() == taken
    lt.realize(*(t for t in things.tensors().values() if t.device == "interpreter"))
    assert snapshot(things) == untouched
    later = (things.leaf * things.f).sum() + things.layer(things.lazy).sum() + things.v.sum()
    later.backward()
    assert things.leaf.grad is not None
    assert things.leaf.grad.tolist() == untouched["values"]["f"], "the tensors are of no more use"


def test_no_two_rows_have_one_name() -> None:
    names = [bad.name for bad in bad_inputs.ALL]
    assert len(set(names)) == len(names) >= 80


def test_errors_are_also_pythons_own_kinds() -> None:
    with pytest.raises(ValueError, match="reshape"):
        lt.ones(2, 3).reshape(4)
    with pytest.raises(TypeError, match="add"):
        lt.ones(2) + "a"
    with pytest.raises(IndexError, match="index 2"):
        lt.ones(2)[2]
    with pytest.raises(KeyError, match="missing"):
        lt.nn.Linear(1, 1).load_state_dict({})
    with pytest.raises(FileNotFoundError, match="nowhere"):
        lt.load("nowhere")


def test_all_errors_are_runtime_errors_as_those_of_pytorchs_operations() -> None:
    kinds = {kind for kind in vars(errors).values() if isinstance(kind, type)
             and issubclass(kind, Exception)} - {errors.InternalError}
    assert len(kinds) > 15 and all(issubclass(kind, RuntimeError) for kind in kinds)


def test_a_leaf_goes_on_collecting_gradients_after_failed_backwards() -> None:
    leaf = lt.tensor([1.0, 2.0], requires_grad=True)
    square = leaf * leaf
    for bad in (None, lt.ones(3), lt.ones(2, device="cpu")):
        with pytest.raises(lt.LazytenError):
            square.backward(bad)
        assert leaf.grad is None
    square.backward(lt.tensor([1.0, 10.0]))
    assert leaf.grad is not None
    assert leaf.grad.tolist() == [2.0, 40.0]


def test_no_grad_ends_with_the_error_that_leaves_it() -> None:
    with pytest.raises(lt.ShapeError), lt.no_grad():
        lt.ones(2) + lt.ones(3)
    assert lt.is_grad_enabled()


def test_a_float_as_a_whole_number_does_not_spoil_later_graphs() -> None:
    """Nodes are interned, and 1.0 == 1: one wrong shape would be found again by later calls."""
    image, kernel = lt.ones(1, 2, 5, 5), lt.ones(4, 2, 3, 3)
    for call in (lambda: F.conv2d(image, kernel, groups=1.0), lambda: F.one_hot(lt.arange(3), 3.0),
                 lambda: lt.roll(image, 1.0, 3), lambda: image.narrow(0, 0, 1.0)):
        with pytest.raises(lt.DTypeError, match="whole number"):
            call()
    assert F.conv2d(image, kernel, groups=1).tolist() == np.full((1, 4, 3, 3), 18.0).tolist()
    assert F.one_hot(lt.arange(3), 3).tolist() == np.eye(3).tolist()


# ---- optimizers ----------------------------------------------------------------------------------

def two_groups() -> tuple[list[lt.Tensor], lt.optim.Adam]:
    """Two parameters with gradients, each in a group of its own."""
    parameters = [lt.tensor([1.0, 2.0], requires_grad=True), lt.tensor([3.0], requires_grad=True)]
    optimizer = lt.optim.Adam([{"params": [p]} for p in parameters], lr=0.5)
    (parameters[0].sum() * parameters[1].sum()).backward()
    return parameters, optimizer


@pytest.mark.parametrize("option", [{"lr": -1.0}, {"lr": "fast"}, {"betas": (0.9, 2.0)},
                                    {"eps": None}])
def test_a_step_with_a_bad_option_in_one_group_changes_no_group(option: dict[str, Any]) -> None:
    parameters, optimizer = two_groups()
    good = {name: optimizer.param_groups[1][name] for name in option}
    optimizer.param_groups[1].update(option)
    with pytest.raises((lt.ArgumentError, lt.DTypeError)) as caught:
        optimizer.step()
    check_message(caught.value, "Adam", *option)
    assert [p.tolist() for p in parameters] == [[1.0, 2.0], [3.0]]
    assert not optimizer.state
    optimizer.param_groups[1].update(good)
    optimizer.step()
    np.testing.assert_allclose(parameters[0].tolist(), [0.5, 1.5], rtol=1e-6)
    np.testing.assert_allclose(parameters[1].tolist(), [2.5], rtol=1e-6)


# ---- files ---------------------------------------------------------------------------------------

def saved(folder: Path) -> Path:
    """A file with one tensor."""
    lt.save_safetensors({"a": lt.tensor([1.0, 2.0])}, folder / "old.safetensors")
    return folder / "old.safetensors"


@pytest.mark.parametrize(("tensors", "words"), [
    ({"a": lt.tensor([5.0], device="interpreter"), "b": 5}, ("b is int 5", "lazyten.tensor()")),
    ({1: lt.tensor([5.0], device="interpreter")}, ("name 1", "use str()")),
    ([1.0], ("list [1.0]", "model.state_dict()")),
    (lt.nn.ReLU(), ("ReLU", "model.state_dict()")),
], ids=["number", "name", "list", "model"])
def test_saving_what_cannot_be_saved_leaves_the_old_file(tensors: Any, words: tuple[str, ...],
                                                         tmp_path: Path) -> None:
    path = saved(tmp_path)
    with pytest.raises(lt.DTypeError) as caught:
        lt.save_safetensors(tensors, path)
    check_message(caught.value, "save_safetensors", *words)
    assert lt.load_safetensors(path)["a"].tolist() == [1.0, 2.0]
    assert os.listdir(tmp_path) == [path.name]


def test_a_full_disk_leaves_the_old_file_and_no_partial_one(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(tmp_path)

    def half_written(self: Path, content: bytes) -> int:
        with open(self, "wb") as file:
            file.write(content[:len(content) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", half_written)
    with pytest.raises(lt.ArgumentError) as caught:
        lt.save_safetensors({"a": lt.tensor([9.0])}, path)
    check_message(caught.value, "save_safetensors", str(path), "No space left", "folder")
    assert lt.load_safetensors(path)["a"].tolist() == [1.0, 2.0]
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("place", ["missing/a", "old.safetensors/a", "."])
def test_saving_where_nothing_can_be_written_names_the_path(place: str, tmp_path: Path) -> None:
    saved(tmp_path)
    with pytest.raises(lt.ArgumentError) as caught:
        lt.save_safetensors({"a": lt.tensor([9.0])}, tmp_path / place)
    check_message(caught.value, "save_safetensors", str(tmp_path / place), "can be written")
    assert os.listdir(tmp_path) == ["old.safetensors"]


@pytest.mark.parametrize("function", [lt.load_safetensors,
                                      lambda path: lt.save_safetensors({}, path)])
def test_a_path_that_is_none_is_named(function: Any) -> None:
    with pytest.raises(lt.DTypeError) as caught:
        function(None)
    check_message(caught.value, "safetensors", "None", "a string")


def test_every_file_that_is_cut_short_is_refused(tmp_path: Path) -> None:
    whole = saved(tmp_path).read_bytes()
    path = tmp_path / "cut.safetensors"
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(lt.ArgumentError) as caught:
            lt.load_safetensors(path)
        assert "load_safetensors" in str(caught.value) and str(path) in str(caught.value)
        assert "save or copy it again" in str(caught.value)


def test_a_file_of_other_content_and_a_missing_one_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("weights")
    for name, words in (("text", "not a whole safetensors file"), ("none", "No such file"),
                        (".", "Is a directory")):
        with pytest.raises(lt.ArgumentError, match=words) as caught:
            lt.load_safetensors(tmp_path / name)
        assert str(tmp_path / name) in str(caught.value)


# ---- memory, environment -------------------------------------------------------------------------

def test_more_memory_than_there_is_says_how_much_and_computing_goes_on(device: str) -> None:
    x = lt.ones(4, device=device)
    huge = lt.ones(1 << 56, device=device) + x.sum()
    with pytest.raises(lt.DeviceError) as caught:
        huge.realize()
    check_message(caught.value, device, f"{4 << 56:,} bytes", "smaller pieces")
    assert huge.shape == (1 << 56,)
    assert (x + 1).tolist() == [2.0] * 4


@pytest.mark.parametrize("level", ["abc", "-1", "1.5"])
def test_a_debug_level_that_is_no_number_is_named(
        level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = lt.tensor([1.0] * 3) + 1
    monkeypatch.setenv("DEBUG", level)
    with pytest.raises(lt.ArgumentError) as caught:
        x.realize()
    check_message(caught.value, "DEBUG", level, "0 to 5")
    monkeypatch.delenv("DEBUG")
    assert x.tolist() == [2.0] * 3


def test_an_unknown_default_device_ends_a_program_with_one_clear_line(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import lazyten as lt\nx = 1\nlt.zeros(2)\n")
    done = subprocess.run([sys.executable, str(program)], env={**os.environ, "DEVICE": "gpu9"},
                          capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f'File "{program}", line 3' in done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("lazyten.support.errors.DeviceError: there is no device 'gpu9'")
    assert "cpu, interpreter" in last
