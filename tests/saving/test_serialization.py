"""Saving and loading tensors and modules in the safetensors format."""
from __future__ import annotations

import copy
import pickle
from pathlib import Path

import numpy as np
import pytest
from tensor_values import as_tensor, edges

import lazyten as lt
from lazyten import nn
from lazyten.ir import dtype as dt

safetensors_numpy = pytest.importorskip("safetensors.numpy")


@pytest.mark.parametrize("dtype", dt.ALL, ids=lambda d: d.name)
def test_every_dtype_round_trips(dtype: dt.DType, tmp_path: Path, device: str) -> None:
    x = as_tensor(edges(dtype), device, dtype)
    lt.save_safetensors({"x": x, "empty": x[:0], "zero": x[1]}, tmp_path / "file")
    loaded = lt.load_safetensors(tmp_path / "file", device)
    assert sorted(loaded) == ["empty", "x", "zero"]
    found = loaded["x"]
    assert found.dtype is dtype and found.device == device
    np.testing.assert_array_equal(found.tolist(), x.tolist())
    assert loaded["empty"].shape == (0,) and loaded["zero"].shape == ()


def test_many_tensors_of_one_size_are_saved_apart(tmp_path: Path) -> None:
    lt.save_safetensors({f"{n}": lt.full((40,), float(n)) for n in range(20)}, tmp_path / "file")
    loaded = lt.load_safetensors(tmp_path / "file")
    assert {name: set(x.tolist()) for name, x in loaded.items()} == {
        f"{n}": {float(n)} for n in range(20)}


def test_views_and_gradients_are_saved_as_values(tmp_path: Path) -> None:
    x = lt.arange(6).float().reshape(2, 3).requires_grad_()
    lt.save_safetensors({"x": x, "T": x.T, "step": x[:, ::-2]}, str(tmp_path / "file"))
    loaded = lt.load_safetensors(str(tmp_path / "file"))
    assert loaded["T"].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert loaded["step"].tolist() == [[2, 0], [5, 3]]
    assert not loaded["x"].requires_grad


def test_files_are_those_of_the_safetensors_package(tmp_path: Path) -> None:
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    lt.save_safetensors({"a": lt.tensor(values)}, tmp_path / "ours")
    np.testing.assert_array_equal(safetensors_numpy.load_file(tmp_path / "ours")["a"], values)
    safetensors_numpy.save_file({"b": values.astype(np.int16)}, tmp_path / "theirs")
    loaded = lt.load_safetensors(tmp_path / "theirs")["b"]
    assert loaded.dtype is lt.int16 and loaded.tolist() == values.astype(int).tolist()


def test_a_module_saved_and_loaded_gives_the_same_results(tmp_path: Path) -> None:
    make = lambda: nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))  # noqa: E731
    first, second = make(), make()
    lt.save_safetensors(first.state_dict(), tmp_path / "model")
    second.load_state_dict(lt.load_safetensors(tmp_path / "model"))
    x = lt.ones(2, 3)
    assert first(x).tolist() == second(x).tolist()


def test_saving_replaces_a_file_whole_and_leaves_no_other(tmp_path: Path) -> None:
    target = tmp_path / "file"
    for value in (1, 2):
        lt.save_safetensors({"x": lt.full((3,), value)}, target)
    assert lt.load_safetensors(target)["x"].tolist() == [2, 2, 2]
    with pytest.raises(lt.LazytenError):
        lt.save_safetensors({"x": 3}, target)  # type: ignore[dict-item]
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
    assert lt.load_safetensors(target)["x"].tolist() == [2, 2, 2]


def test_missing_broken_and_cut_files_are_explained(tmp_path: Path) -> None:
    with pytest.raises(lt.LazytenError, match="none"):
        lt.load_safetensors(tmp_path / "none")
    (tmp_path / "text").write_bytes(b"not a safetensors file at all")
    with pytest.raises(lt.LazytenError, match="text"):
        lt.load_safetensors(tmp_path / "text")
    lt.save_safetensors({"x": lt.zeros(100)}, tmp_path / "whole")
    content = (tmp_path / "whole").read_bytes()
    (tmp_path / "cut").write_bytes(content[:-5])
    with pytest.raises(lt.LazytenError, match="cut"):
        lt.load_safetensors(tmp_path / "cut")
    with pytest.raises(lt.LazytenError):
        lt.save_safetensors({"x": lt.zeros(1)}, tmp_path / "no" / "folder")


@pytest.mark.parametrize("header", [
    '{"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},'
    '"x":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}',
    '{"x":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"__metadata__":{"a":"1","a":"2"}}',
    '{"x":{"dtype":"U8","dtype":"I8","shape":[2],"data_offsets":[0,2]}}'])
def test_a_name_that_comes_twice_is_refused(header: str, tmp_path: Path) -> None:
    content = len(header).to_bytes(8, "little") + header.encode() + b"\1\2"
    (tmp_path / "twice").write_bytes(content)
    with pytest.raises(lt.ArgumentError, match="twice"):
        lt.load_safetensors(tmp_path / "twice")


def test_dtypes_are_the_same_objects_after_pickle_and_copy() -> None:
    for dtype in dt.ALL:
        assert copy.deepcopy(dtype) is dtype and pickle.loads(pickle.dumps(dtype)) is dtype
