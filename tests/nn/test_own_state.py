"""What modules of one's own save and load by PyTorch's methods: `_save_to_state_dict`,
`_load_from_state_dict`, `get_extra_state`, versions and hooks."""
from __future__ import annotations

import io
from collections import OrderedDict
from typing import Any

import pytest

import lazyten as lt
from lazyten import nn


class Renamed(nn.Module):
    """What was called `old` is now `layer`, and `frozen` is saved under another name."""

    _version = 3

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.frozen = nn.Parameter(lt.zeros(2))
        self.seen: list[Any] = []

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "still"] = destination.pop(prefix + "frozen")

    def _load_from_state_dict(self, state_dict: Any, prefix: str, local_metadata: Any, *rest: Any
                              ) -> None:
        self.seen.append(local_metadata.get("version"))
        for key in list(state_dict):
            if key.startswith(prefix + "old."):
                state_dict[key.replace("old.", "layer.")] = state_dict.pop(key) * 2
        if prefix + "still" in state_dict:
            state_dict[prefix + "frozen"] = state_dict.pop(prefix + "still")
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)


def old_state(prefix: str) -> dict[str, lt.Tensor]:
    return {f"{prefix}old.weight": lt.ones(2, 2), f"{prefix}old.bias": lt.ones(2),
            f"{prefix}still": lt.tensor([3.0, 4.0])}


def test_a_class_says_how_it_is_loaded_and_its_parts_see_what_it_changed() -> None:
    model = nn.Sequential(nn.Linear(2, 2), Renamed())
    given = {**model[0].state_dict(prefix="0."), **old_state("1.")}
    assert not model.load_state_dict(given).missing_keys
    part = model[1]
    assert part.layer.weight.tolist() == [[2, 2], [2, 2]] and part.layer.bias.tolist() == [2, 2]
    assert part.frozen.tolist() == [3, 4]
    assert list(given)[2:] == ["1.old.weight", "1.old.bias", "1.still"]  # it changed a copy


def test_nothing_is_loaded_if_a_later_module_does_not_fit() -> None:
    model = nn.Sequential(Renamed(), nn.Linear(2, 3))
    with pytest.raises(lt.StateError, match=r"missing: 1\.bias; of another shape: 1\.weight"):
        model.load_state_dict({**old_state("0."), "1.weight": lt.ones(7)})
    assert model[0].frozen.tolist() == [0, 0] and model[0].layer.weight.tolist() != [[2, 2]] * 2


def test_a_class_that_loads_all_by_itself_misses_nothing() -> None:
    class Itself(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(lt.zeros(2))

        def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
            with lt.no_grad():
                self.weight.copy_(state_dict[prefix + "packed"] + 1)

    model = nn.Sequential(Itself())
    assert str(model.load_state_dict({"0.packed": lt.ones(2)})) == "<All keys matched successfully>"
    assert model[0].weight.tolist() == [2, 2]


def test_a_class_that_hands_on_metadata_of_its_own_loads_at_once() -> None:
    class Plain(nn.Linear):
        def _load_from_state_dict(self, state_dict: Any, prefix: str, local_metadata: Any,
                                  *rest: Any) -> None:
            super()._load_from_state_dict(state_dict, prefix, {}, *rest)
            self.twice = self.bias.tolist() * 2

    model = Plain(1, 1)
    model.load_state_dict({"weight": lt.ones(1, 1), "bias": lt.tensor([5.0])})
    assert model.twice == [5, 5] and model.weight.tolist() == [[1]]


def test_versions_are_saved_beside_the_state_and_in_files() -> None:
    model = nn.Sequential(Renamed())
    state = model.state_dict()
    assert list(state) == ["0.still", "0.layer.weight", "0.layer.bias"]
    file = io.BytesIO()
    lt.save({"model": state}, file)
    file.seek(0)
    for given in (state, lt.load(file)["model"], dict(state)):
        model.load_state_dict(given)
    assert model[0].seen == [3, 3, None]


class Counting(nn.Linear):
    def __init__(self, count: int) -> None:
        super().__init__(1, 1)
        self.count = count

    def get_extra_state(self) -> Any:
        return {"count": self.count}

    def set_extra_state(self, state: Any) -> None:
        self.count = state["count"]


def test_extra_state_is_saved_and_loaded() -> None:
    state = nn.Sequential(Counting(3)).state_dict()
    assert state["0._extra_state"] == {"count": 3}
    other = nn.Sequential(Counting(0))
    other.load_state_dict(state)
    assert other[0].count == 3
    with pytest.raises(lt.StateError, match=r"missing: 0\._extra_state"):
        other.load_state_dict({k: v for k, v in state.items() if "extra" not in k})
    with pytest.raises(lt.StateError, match=r"unexpected: 0\._extra_state"):
        nn.Sequential(nn.Linear(1, 1)).load_state_dict(state)
    for call in (nn.Linear(1, 1).get_extra_state, lambda: nn.Linear(1, 1).set_extra_state(1)):
        with pytest.raises(lt.LazytenError, match=r"defines no [gs]et_extra_state"):
            call()


def test_hooks_under_pytorchs_older_names() -> None:
    model = nn.Linear(1, 1)
    seen: list[Any] = []

    def without_module(state: Any, prefix: str, *rest: Any) -> None:
        seen.append((len(rest), sorted(state)))
        state["weight"] = state.pop("w")

    model._register_load_state_dict_pre_hook(without_module)
    model._register_load_state_dict_pre_hook(lambda module, state, *rest: seen.append(module), True)
    model._register_state_dict_hook(lambda module, state, prefix, about: seen.append(about))
    model.load_state_dict({"w": lt.ones(1, 1), "bias": lt.zeros(1)})
    assert model.weight.tolist() == [[1]]
    model.state_dict()
    assert seen == [(5, ["bias", "w"]), model, {"version": 1}]


def test_a_state_may_be_asked_for_without_names() -> None:
    found: dict[str, Any] = OrderedDict(a=1)
    given = nn.Linear(1, 1).state_dict(found, "x.", True)
    assert given is found and list(found) == ["a", "x.weight", "x.bias"]
    assert found["x.weight"].requires_grad


def test_names_that_are_no_names_and_values_that_are_no_tensors() -> None:
    model = nn.Linear(1, 1)
    with pytest.raises(lt.StateError, match="0 is no name of a tensor"):
        model.load_state_dict({0: lt.ones(1)})  # type: ignore[dict-item]
    with pytest.raises(lt.StateError, match=r"bias is list .* not a tensor.*Nothing was loaded"):
        model.load_state_dict({"weight": lt.ones(1, 1), "bias": [1.0]})
    assert str(model.load_state_dict({"weight": lt.ones(1, 1), "bias": lt.ones(1), "epoch": 3},
                                     strict=False)) == \
        "IncompatibleKeys(missing_keys=[], unexpected_keys=['epoch'])"
