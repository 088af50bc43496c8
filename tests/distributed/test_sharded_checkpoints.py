"""Checkpoints of one process: what is in them, and errors that say what is wrong. (Those of several
ranks are in test_checkpoint_of_ranks.py.)"""
from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lazyten as lt
from lazyten import nn
from lazyten.distributed import checkpoint
from lazyten.distributed.checkpoint.entries import nested


def _model() -> nn.Sequential:
    """Without a bias below the norm, whose gradient would be nothing but what rounding leaves."""
    made: nn.Sequential = nn.Sequential(nn.Linear(3, 2, bias=False), nn.BatchNorm1d(2))
    return made


def _loss(net: nn.Module, x: lt.Tensor) -> lt.Tensor:
    """What a change of the weights' length or of the norm's offsets changes, too: AdamW makes steps
    of full size of gradients that are 0 but for rounding."""
    return (net(x) - lt.arange(8.0).reshape(4, 2)).square().sum()


def _trained() -> tuple[nn.Sequential, lt.optim.Optimizer]:
    model = _model()
    optimizer = lt.optim.AdamW(model.parameters(), lr=lt.tensor(0.1))
    _loss(model, lt.rand(4, 3)).backward()
    optimizer.step()
    return model, optimizer


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "checkpoint"
    checkpoint.save({"model": _trained()[0], "count": 3}, checkpoint_id=path)
    return path


def _load(folder: Path) -> None:
    checkpoint.load({"model": _model(), "count": 0}, checkpoint_id=folder)


def test_a_new_model_and_optimizer_go_on_as_the_saved_ones(tmp_path: Path) -> None:
    model, optimizer = _trained()
    checkpoint.save({"model": model, "optimizer": optimizer}, checkpoint_id=tmp_path / "c")
    again = _model()
    other = lt.optim.AdamW(again.parameters(), lr=lt.tensor(0.7))
    checkpoint.load({"model": again, "optimizer": other}, checkpoint_id=str(tmp_path / "c"))
    x = lt.rand(4, 3)
    for _ in range(2):
        for net, opt in ((model, optimizer), (again, other)):
            opt.zero_grad()
            _loss(net, x).backward()
            opt.step()
    for name, value in model.state_dict().items():
        np.testing.assert_allclose(again.state_dict()[name].numpy(), value.numpy(), 1e-5, 1e-6)
    assert other.param_groups[0]["lr"].item() == pytest.approx(0.1)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["SGD", "Adagrad", "NAdam", "ASGD", "LBFGS", "Adafactor"])
def test_the_state_of_any_optimizer_comes_back(tmp_path: Path, name: str) -> None:
    """Of some there are lists of tensors, or factors of them, in it."""
    x = lt.rand(5, 3)

    def made() -> tuple[nn.Linear, lt.optim.Optimizer]:
        net = nn.Linear(3, 2)
        options = {"momentum": 0.9} if name == "SGD" else {}
        return net, getattr(lt.optim, name)(net.parameters(), lr=0.1, **options)

    def go_on(net: nn.Linear, optimizer: lt.optim.Optimizer) -> Any:
        def closure() -> lt.Tensor:
            optimizer.zero_grad()
            loss = net(x).square().sum()
            loss.backward()
            return loss
        for _ in range(2):
            optimizer.step(closure)
        return net.weight.detach().numpy()

    saved, again = made(), made()
    go_on(*saved)
    checkpoint.save({"net": saved[0], "optimizer": saved[1]}, checkpoint_id=tmp_path / "c")
    checkpoint.load({"net": again[0], "optimizer": again[1]}, checkpoint_id=tmp_path / "c")
    np.testing.assert_allclose(go_on(*saved), go_on(*again), 1e-4, 1e-6)


def test_tensors_are_written_in_place_and_other_data_is_put_in_its_place(tmp_path: Path) -> None:
    x, half, wide = lt.arange(3.0), lt.tensor([1.5, float("nan")]).bfloat16(), lt.tensor(True)
    numbers = {"a": 1, 2: (0.1, None), "list": [1, x * 2, {"b": b"\0"}], "none": {}}
    state = {"x": x, "half": half, "wide": wide, "empty": lt.zeros(0, 3), "numbers": numbers,
             "many": OrderedDict(c=lt.complex(x, x))}
    checkpoint.save(state, checkpoint_id=tmp_path / "c")
    there, many = lt.zeros(3), OrderedDict(c=lt.complex(x * 0, x))
    found: dict[str, Any] = {
        "x": there, "half": half * 0, "wide": lt.tensor(False), "empty": lt.zeros(0, 3),
        "numbers": {"a": 0, 2: 0, "list": [0, x * 0, {"b": 0}], "none": 0}, "many": many}
    checkpoint.load(found, checkpoint_id=tmp_path / "c")
    assert there.tolist() == [0.0, 1.0, 2.0] and found["x"] is there and found["wide"].item()
    assert str(found["half"]) == str(half) and many["c"][2].item() == 2 + 2j
    assert found["numbers"]["list"][1].tolist() == [0.0, 2.0, 4.0]
    assert found["numbers"]["list"][2] == {"b": b"\0"} and found["numbers"]["none"] == {}
    assert found["numbers"][2] == (0.1, None) and found["numbers"]["a"] == 1


def test_an_earlier_checkpoint_is_replaced(folder: Path) -> None:
    checkpoint.save({"count": 4}, checkpoint_id=folder)
    state = {"count": 0}
    checkpoint.load(state, checkpoint_id=folder)
    assert state == {"count": 4}
    assert [path.name for path in folder.parent.iterdir()] == ["checkpoint"]
    assert [path.name for path in folder.iterdir()] == ["index.json"]


def test_what_ended_jobs_have_left_is_removed(folder: Path) -> None:
    partial = folder.parent / ".checkpoint.partial"
    partial.mkdir()
    (partial / "1-0.safetensors").write_bytes(b"")
    (folder / "1-0.safetensors").write_bytes(b"")
    _load(folder)
    checkpoint.save({"model": _model(), "count": 4}, checkpoint_id=folder)
    _load(folder)
    assert [path.name for path in folder.parent.iterdir()] == ["checkpoint"]
    assert sorted(path.name for path in folder.iterdir()) == ["2-0.safetensors", "index.json"]


def test_a_save_that_fails_leaves_the_earlier_checkpoint(
        folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")
    monkeypatch.setattr(checkpoint.saving, "write_arrays", full)
    with pytest.raises(lt.ArgumentError, match="No space left"):
        checkpoint.save({"x": lt.ones(2)}, checkpoint_id=folder)
    _load(folder)


def test_a_folder_of_something_else_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "thesis.txt").write_text("years")
    for place in (tmp_path / "own", tmp_path / "own" / "thesis.txt"):
        with pytest.raises(lt.ArgumentError, match="is no checkpoint"):
            checkpoint.save({"x": 1}, checkpoint_id=place)
    assert (tmp_path / "own" / "thesis.txt").read_text() == "years"


def _no_index(folder: Path) -> None:
    (folder / "index.json").unlink()


def _no_file(folder: Path) -> None:
    (folder / "0-0.safetensors").unlink()


def _cut_file(folder: Path) -> None:
    path = folder / "0-0.safetensors"
    path.write_bytes(path.read_bytes()[:-4])


def _altered_file(folder: Path) -> None:
    path = folder / "0-0.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


def _cut_index(folder: Path) -> None:
    path = folder / "index.json"
    path.write_text(path.read_text()[:-9])


def _changed(change: Callable[[Any], object]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        path = folder / "index.json"
        found = json.loads(path.read_text())
        change(found)
        path.write_text(json.dumps(found))
    return damage


def _weight(index: Any) -> Any:
    return index["tensors"]["model.0.weight"]


@pytest.mark.parametrize(("damage", "kind", "words"), [
    (_no_index, FileNotFoundError, "index.json"),
    (_no_file, FileNotFoundError, "0-0.safetensors"),
    (_cut_file, lt.ArgumentError, "0-0.safetensors is not a whole safetensors file"),
    (_altered_file, lt.ArgumentError, "0-0.safetensors was changed after it was saved"),
    (_cut_index, lt.ArgumentError, "index.json is damaged"),
    (_changed(lambda index: index.update(format="other")), lt.ArgumentError, "format is 'other'"),
    (_changed(lambda index: index.pop("values")), lt.ArgumentError, "lacks 'values'"),
    (_changed(lambda index: _weight(index).update(chunks=[])), lt.ArgumentError,
     r"model.0.weight of shape \(2, 3\) has parts of 0 elements"),
    (_changed(lambda index: _weight(index)["chunks"][0].update(offsets=[1, 0])), lt.ArgumentError,
     "model.0.weight .* has a part"),
    (_changed(lambda index: _weight(index)["chunks"][0].update(file="../x")), lt.ArgumentError,
     "model.0.weight .* has a part"),
    (_changed(lambda index: _weight(index)["chunks"][0].update(key="model.0.bias")),
     lt.ArgumentError, "another checkpoint"),
    (_changed(lambda index: _weight(index).update(dtype="floot")), lt.ArgumentError, "floot"),
    (_changed(lambda index: index["tensors"].pop("model.0.weight")), lt.StateError,
     "missing in .*: model.0.weight"),
    (_changed(lambda index: index["values"].pop("count")), lt.StateError, "missing in .*: count")])
def test_what_is_missing_or_damaged_is_named(folder: Path, damage: Callable[[Path], None],
                                             kind: type[Exception], words: str) -> None:
    damage(folder)
    with pytest.raises(kind, match=words):
        _load(folder)


def test_a_checkpoint_without_checksums_is_read(folder: Path) -> None:
    _changed(lambda index: index.pop("checksums"))(folder)
    _load(folder)


@pytest.mark.parametrize(("state", "words"), [
    ({"count": lt.zeros(1)}, "missing .*count"), ({"model": {"0.weight": 3}}, "model.0.weight"),
    ({"model": nn.Sequential(nn.Linear(3, 4))}, r"weight has another shape: saved \(2, 3\)"),
    ({"model": nn.Sequential(nn.Linear(3, 2)).double()}, "another dtype: saved float32"),
    ({"optimizer": lt.optim.SGD([nn.Parameter(lt.ones(1))])}, "missing .*optimizer")])
def test_what_does_not_fit_is_named_and_nothing_is_loaded(folder: Path, state: dict[str, Any],
                                                          words: str) -> None:
    x = lt.zeros(2)
    with pytest.raises(lt.StateError, match=words):
        checkpoint.load({"model.0.bias": x, "model": {"0.bias": x}, **state}, checkpoint_id=folder)
    assert x.tolist() == [0.0, 0.0]


@pytest.mark.parametrize(("state", "words"), [
    ([lt.ones(1)], "list .* is no dict"), (nn.Linear(1, 1), "Linear .* is no dict"),
    ({"a": {(1, 2): 3}}, "a has the key"), ({"a": object()}, "a is object"),
    ({"a": (lt.ones(1),)}, "a is tuple"), ({"a": np.ones(2)}, "a is ndarray"),
    ({"a.b": 1, "a": {"b": 2}}, "two values are called 'a.b'"),
    ({"a": lt.ones(1, dtype=lt.complex128)}, "complex128")])
def test_what_cannot_be_saved_is_named(tmp_path: Path, state: Any, words: str) -> None:
    with pytest.raises(lt.LazytenError, match=words):
        checkpoint.save(state, checkpoint_id=tmp_path / "c")
    assert not (tmp_path / "c").exists()


def test_arguments_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    for call in (checkpoint.save, checkpoint.load):
        with pytest.raises(lt.ArgumentError, match="checkpoint_id=path"):
            call({"x": 1})
        with pytest.raises(lt.ArgumentError, match="planner"):
            call({"x": 1}, checkpoint_id=tmp_path / "c", planner=1)  # type: ignore[arg-type]


def test_ways_lead_back_to_dicts_and_lists() -> None:
    assert nested({("a", (1,)): 1, ("a", (0,)): 0, ("b",): {}, ("b", 2): 3}) == \
        {"a": [0, 1], "b": {2: 3}}
