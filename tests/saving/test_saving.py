"""`lt.save` and `lt.load`: nested data in a safetensors file, and no code."""
from __future__ import annotations

import io
import pickle
import zipfile
from argparse import Namespace
from collections import Counter, OrderedDict, defaultdict, deque
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lazyten as lt
from lazyten import nn
from lazyten.saving import serialization

pytest.importorskip("safetensors")


def again(value: Any) -> Any:
    file = io.BytesIO()
    lt.save(value, file)
    file.seek(0)
    return lt.load(file)


PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(
    max_size=5) | st.binary(max_size=5)
KEYS = st.integers() | st.text(max_size=5) | st.tuples(st.integers(), st.booleans())


@settings(max_examples=60)
@given(st.recursive(PLAIN, lambda inner: st.lists(inner, max_size=3) | st.lists(
    inner, max_size=3).map(tuple) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=12))
def test_plain_data_comes_back_with_its_types(value: Any) -> None:
    assert repr(again(value)) == repr(value)


def test_a_checkpoint_comes_back(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Linear(2, 1))
    optimizer = lt.optim.AdamW(model.parameters())
    model(lt.ones(4, 3)).sum().backward()
    optimizer.step()
    lt.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3,
             "best": float("inf")}, tmp_path / "checkpoint.pt")
    loaded = lt.load(tmp_path / "checkpoint.pt", map_location="cpu", weights_only=False)
    other = nn.Sequential(nn.Linear(3, 2), nn.ReLU(), nn.Linear(2, 1))
    assert "All keys" in str(other.load_state_dict(loaded["model"]))
    lt.optim.AdamW(other.parameters()).load_state_dict(loaded["optimizer"])
    assert (loaded["epoch"], loaded["best"]) == (3, float("inf"))
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        assert a.tolist() == b.tolist()
    state = optimizer.state_dict()["state"][0]["exp_avg"]
    assert loaded["optimizer"]["state"][0]["exp_avg"].tolist() == state.tolist()


def test_what_surrounds_tensors_comes_back_as_what_it_was() -> None:
    value = {"size": lt.ones(2, 3).shape, "device": lt.device("interpreter:1"), "set": {1, 2},
             "dtype": lt.bfloat16, "ordered": OrderedDict(b=1, a=2), "float": np.float64(2.5),
             "array": np.arange(3, dtype=np.int16), "frozen": frozenset((1, 2)), "1j": 2 - 1j,
             "recent": deque([1, 2]), "args": Namespace(lr=0.1, sizes=[1, 2], out=Path("a/b")),
             "config": SimpleNamespace(name="x", inner=Namespace(depth=None))}
    found = again(value)
    assert repr(found) == repr(value)
    assert [type(v) for v in found.values()] == [type(v) for v in value.values()]
    for factory in (dict, list, set, int, float, None):
        found = again(defaultdict(factory, a={1: 2}))
        assert found == {"a": {1: 2}} and found.default_factory is factory
    assert again(Counter("aab")).most_common(1) == [("a", 2)]
    leaf, plain, view = again([lt.ones(2).requires_grad_(), lt.ones(2), lt.arange(6)[::-2]])
    assert leaf.requires_grad and not plain.requires_grad and view.tolist() == [5, 3, 1]


def test_what_programs_say_of_pickles_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    lt.save([lt.ones(2)], path, pickle, 4, _use_new_zipfile_serialization=False)
    found = lt.load(path, "cpu", pickle, weights_only=None, encoding="latin1")
    assert found[0].tolist() == [1.0, 1.0]


def test_a_place_may_be_said_by_a_function_or_a_dict(tmp_path: Path) -> None:
    lt.save({"w": lt.ones(2)}, tmp_path / "file")
    for place, device in (
            (lambda storage, location: storage, "cpu"), ({"cuda:0": "cpu"}, "cpu"),
            ({"cpu": "interpreter"}, "interpreter"), (lt.device("interpreter"), "interpreter"),
            (lambda storage, location: "interpreter", "interpreter")):
        assert lt.load(tmp_path / "file", map_location=place)["w"].device == device


def test_a_safetensors_file_of_others_is_its_named_tensors(tmp_path: Path) -> None:
    lt.save_safetensors({"w": lt.ones(2)}, tmp_path / "file")
    assert lt.load(tmp_path / "file")["w"].tolist() == [1, 1]


def test_a_whole_module_comes_back_only_if_code_is_allowed(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    optimizer = lt.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    lt.save({"net": model, "optimizer": optimizer, "epoch": 2}, tmp_path / "file")
    for weights_only in (True, None):
        with pytest.raises(pickle.UnpicklingError, match=r"whole objects.*weights_only=False"):
            lt.load(tmp_path / "file", weights_only=weights_only)
    with pytest.raises(lt.ArgumentError, match=r"map_location='interpreter'.*\.to\(\)"):
        lt.load(tmp_path / "file", "interpreter", weights_only=False)
    found = lt.load(tmp_path / "file", "cpu", weights_only=False)
    assert repr(found["net"]) == repr(model) and found["epoch"] == 2
    assert found["net"](lt.ones(2, 3)).tolist() == model(lt.ones(2, 3)).tolist()
    assert found["optimizer"].param_groups[0]["params"][0] is found["net"][0].weight


def test_what_cannot_be_pickled_is_refused_by_its_place_and_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(lt.ArgumentError, match=r"the object\['net'\]\[0\] is function.*state_dict"):
        lt.save({"net": [lambda x: x]}, tmp_path / "file")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ['["tensor", "5", false]', '["bytes", "zz"]', '["dict", [[1]]]',
                                  "[]", "{"])
def test_a_damaged_text_of_how_tensors_nest_is_refused(text: str) -> None:
    content = serialization.packed({"0": lt.zeros(2)}, {"lazyten.structure": text})
    with pytest.raises(lt.ArgumentError, match="how its tensors nest"):
        lt.load(io.BytesIO(content))


def test_a_damaged_pickle_is_refused() -> None:
    structure = {"lazyten.structure": '["lazyten.object", "lazyten.object"]'}
    content = serialization.packed({"lazyten.object": lt.tensor([0x80, 4, 0x7d]).byte()}, structure)
    with pytest.raises(lt.ArgumentError, match="damaged"):
        lt.load(io.BytesIO(content), weights_only=False)


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "other.pt", "w") as archive:
        archive.writestr("data.pkl", pickle.dumps({"w": 1}))
    (tmp_path / "old.pt").write_bytes(pickle.dumps({"w": 1}, protocol=2))
    for name, why in (("other.pt", "no program or archive of PyTorch"),
                      ("old.pt", "a pickle that PyTorch did not write")):
        with pytest.raises(lt.ArgumentError, match=why):
            lt.load(tmp_path / name)
    with pytest.raises(lt.ArgumentError, match="cannot read"):
        lt.load(tmp_path / "nothing")
    with open(__file__, encoding="utf8") as text, pytest.raises(lt.ArgumentError, match="binary"):
        lt.load(text)  # type: ignore[arg-type]
    with pytest.raises(lt.ArgumentError, match="open for writing"):
        lt.save(1, text)  # type: ignore[arg-type]
    with pytest.raises(lt.ArgumentError, match="map_location"):
        lt.load(tmp_path / "other.pt", map_location=3)  # type: ignore[arg-type]
