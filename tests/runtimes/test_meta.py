"""The device 'meta': tensors of a shape and a type, without values."""
from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import lazyten as lt
from lazyten import nn


def test_shapes_and_types_follow_without_values() -> None:
    with lt.device("meta"):
        model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(16, 2))
        y = model(lt.rand(5, 3, 4, 4))
    assert y.shape == (5, 2) and y.is_meta and y.device == "meta" == lt.device("meta").type
    assert not lt.ones(1).is_meta and "meta" not in lt.Device.available()
    assert repr(y.detach()) == "tensor(..., size=(5, 2), device='meta')"
    assert repr(lt.tensor([1, 2], device="meta")) == \
        "tensor(..., size=(2,), dtype=lazyten.int64, device='meta')"
    y.sum().backward()
    gradient = model[0].weight.grad
    assert gradient is not None and gradient.shape == (4, 3, 3, 3) and gradient.is_meta


@pytest.mark.parametrize("look", [
    lambda x: x.numpy(), lambda x: x.sum().item(), lambda x: bool(x.sum() > 0), lambda x: x.cpu(),
    lambda x: lt.zeros(2, 3).copy_(x), lambda x: x[x > 0],
    lambda x: nn.Linear(2, 3, device="meta").cpu()])
def test_a_value_is_an_error(look: Callable[[Any], Any]) -> None:
    with pytest.raises(lt.NoValuesError, match="to_empty") as caught:
        look(lt.ones(2, 3, device="meta") * 2)
    assert isinstance(caught.value, NotImplementedError)


@pytest.mark.parametrize("look", [lambda x: x.tolist(), lambda x: x.item(), np.asarray, float])
def test_a_number_that_fills_a_tensor_is_no_value(look: Callable[[Any], Any]) -> None:
    with pytest.raises(lt.NoValuesError, match="to_empty"):
        look(lt.zeros((), device="meta"))


def test_what_goes_there_is_forgotten_and_what_is_written_there_is_nothing() -> None:
    x = lt.ones(2, 3, requires_grad=True)
    assert x.to("meta").is_meta and x.detach().to("meta").shape == (2, 3)
    y = lt.empty(2, 3, device="meta")
    y.copy_(x.detach())
    y[0] = 5
    assert y.is_meta


def test_nothing_is_drawn_there() -> None:
    lt.manual_seed(0)
    expected = lt.rand(3).tolist()
    lt.manual_seed(0)
    nn.Linear(4, 5, device="meta")
    lt.randperm(4, device="meta")
    assert lt.rand(3).tolist() == expected


def test_a_module_gets_memory_and_then_its_values() -> None:
    source = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    x = lt.rand(4, 2)
    with lt.device("meta"):
        assigned, loaded = (nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)) for _ in range(2))
    assigned.load_state_dict(source.state_dict(), assign=True)
    loaded.to_empty(device="cpu").load_state_dict(source.state_dict())
    for model in (assigned, loaded):
        assert all(p.device == "cpu" for p in model.parameters())
        assert_array_equal(model.eval()(x).numpy(), source.eval()(x).numpy())


def test_many_models_are_computed_by_one_without_values() -> None:
    models = [nn.Linear(2, 3) for _ in range(4)]
    weights, buffers = lt.func.stack_module_state(models)
    base, x = copy.deepcopy(models[0]).to("meta"), lt.rand(5, 2)
    found = lt.func.vmap(lambda w, b: lt.func.functional_call(base, (w, b), (x,)))(weights, buffers)
    assert_array_equal(found.detach().numpy(), np.stack([m(x).detach().numpy() for m in models]))


def test_labels_and_matrices_without_values_give_shapes() -> None:
    labels = lt.zeros(3, dtype=lt.int64, device="meta")
    scores = lt.ones(3, 4, device="meta", requires_grad=True)
    loss = lt.nn.functional.cross_entropy(scores, labels)
    loss.backward()
    assert loss.is_meta and loss.shape == () and scores.grad is not None
    assert scores.detach()[labels].shape == (3, 4)
    assert lt.nn.functional.embedding(labels, scores).shape == (3, 4)
    a = lt.ones(2, 3, 3, device="meta")
    assert lt.linalg.svd(a[:, :2]).Vh.shape == (2, 3, 3)
    for found in (lt.linalg.inv(a), lt.linalg.cholesky(a), lt.linalg.solve(a, a),
                  lt.linalg.matrix_exp(a), lt.linalg.pinv(a), lt.linalg.lu(a).P):
        assert found.is_meta and found.shape == (2, 3, 3)
    with lt.device("meta"):
        linear = lt.nn.Linear(3, 5)
    assert lt.nn.init.orthogonal_(linear.weight).is_meta


# ---- bytes of files ------------------------------------------------------------------------------

def test_bytes_of_a_file_are_read_as_any_type(tmp_path: Path) -> None:
    values = np.arange(6, dtype=np.float64)
    (tmp_path / "values").write_bytes(values.tobytes() + b"\x80\x3f")
    storage = lt.UntypedStorage.from_file(tmp_path / "values", nbytes=50)
    assert storage.nbytes() == len(storage) == 50 and storage[49] == 0x3F
    part = lt.asarray(storage[8:48], dtype=lt.uint8)
    assert part.dtype is lt.uint8 and part.shape == (40,)
    shown = part.view(lt.float64)
    shown[0] = 7
    assert shown.tolist() == [7, 2, 3, 4, 5] and part.view(dtype=lt.float64)[0].item() == 1
    assert lt.asarray(storage[48:], dtype=lt.uint8).view(lt.bfloat16).tolist() == [1]
    assert lt.asarray(storage[5:5], dtype=lt.uint8).view(lt.float32).shape == (0,)
    with pytest.raises(lt.ArgumentError, match="read-only"):
        part[0] = 1
    with pytest.raises(lt.ShapeError, match=r"view of uint8 \(39,\) as float64"):
        lt.asarray(storage[:39], dtype=lt.uint8).view(lt.float64)


def test_a_file_that_is_not_there_or_too_short_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "values").write_bytes(b"ab")
    with pytest.raises(FileNotFoundError, match="no file"):
        lt.UntypedStorage.from_file(tmp_path / "other", nbytes=2)
    with pytest.raises(lt.ArgumentError, match="nbytes=3"):
        lt.UntypedStorage.from_file(str(tmp_path / "values"), nbytes=3)
    with pytest.raises(lt.ArgumentError, match="shared=True"):
        lt.UntypedStorage.from_file(tmp_path / "values", shared=True, nbytes=2)
