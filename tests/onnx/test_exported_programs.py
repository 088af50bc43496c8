"""`lt.export.export`: modules as programs that are called, saved and loaded (torch.export)."""
from __future__ import annotations

import copy
import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lazyten as lt
from lazyten import nn

pytest.importorskip("onnx")
Program = lt.export.ExportedProgram


class Net(nn.Module):
    """A module of nested arguments and results, which looks at a size."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm, self.conv = nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Conv2d(1, 2, 3)

    def forward(self, x: lt.Tensor, ys: dict[str, Any], *, scale: float = 2.0,
                image: lt.Tensor | None = None) -> dict[str, Any]:
        """All that is given, in all that is asked for."""
        first, (second,) = ys["a"], ys["b"]
        hidden = self.norm(self.layer(x)).relu()
        if hidden.shape[0] > 1:
            hidden = hidden * scale
        assert image is not None
        return {"h": hidden + first, "image": (self.conv(image).mean((1, 2, 3)), None),
                "product": second @ hidden.T, "n": 3}


def given(rows: int, seed: int = 0) -> tuple[tuple[Any, ...], dict[str, Any]]:
    rng = np.random.default_rng(seed)

    def drawn(*shape: int) -> lt.Tensor:
        return lt.tensor(rng.normal(size=shape).astype("float32"))
    return (drawn(rows, 4), {"a": drawn(3), "b": (drawn(2, 3),)}), {
        "scale": 3.0, "image": drawn(rows, 1, 6, 6)}


def exported(model: Net) -> Any:
    rows = lt.export.Dim("rows", min=2, max=64)
    args, kwargs = given(5)
    return lt.export.export(model, args, kwargs, dynamic_shapes={
        "x": {0: rows}, "ys": {"a": None, "b": (None,)}, "image": {0: rows}})


def check(program: Any, model: Net) -> None:
    """It gives what the module gives, at several sizes."""
    called = program.module()
    for rows in (2, 5, 9):
        args, kwargs = given(rows, seed=rows)
        found, expected = called(*args, **kwargs), model(*args, **kwargs)
        assert found.keys() == expected.keys() and found["n"] == 3 and found["image"][1] is None
        for name in ("h", "product"):
            np.testing.assert_allclose(found[name].numpy(), expected[name].detach().numpy(),
                                       rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(found["image"][0].numpy(), expected["image"][0].detach().numpy(),
                                   rtol=1e-5, atol=1e-5)


def test_a_program_gives_what_the_module_gave_also_once_it_was_saved(tmp_path: Path) -> None:
    model = Net().eval()
    program = exported(model)
    check(program, model)
    buffer, path = io.BytesIO(), tmp_path / "net.pt2"
    for target in (buffer, path):
        lt.export.save(program, target)
    buffer.seek(0)
    for source in (buffer, path):
        again = lt.export.load(source)
        assert isinstance(again, Program) and list(again.state_dict) == list(model.state_dict())
        check(again.run_decompositions(), model)


def test_a_program_has_the_weights_that_the_module_had() -> None:
    layer, x = nn.Linear(2, 2), lt.ones(3, 2)
    program = lt.export.export(layer, (x,))
    before = layer(x).detach().numpy().copy()
    with lt.no_grad():
        layer.weight.mul_(2)
    np.testing.assert_allclose(program.module()(x).numpy(), before, rtol=1e-6)
    assert program.state_dict["weight"].tolist() != layer.weight.tolist()
    assert list(program.module().parameters()) == []
    y = x.clone().requires_grad_()
    program.module()(y).sum().backward()
    np.testing.assert_allclose(y.grad.numpy(), program.state_dict["weight"].sum(0).expand(
        3, 2).numpy(), rtol=1e-6)


def test_lt_export_is_still_the_function() -> None:
    import lazyten.export  # type: ignore[import-not-found]
    assert lt.export is lazyten.export and callable(lt.export)
    assert pickle.loads(pickle.dumps(lt.export)) is copy.deepcopy(lt.export) is lt.export
    with pytest.raises(NotImplementedError, match=r"fx\.symbolic_trace"):
        lt.export.register_dataclass(Net)


class Looking(nn.Module):
    """A module whose result is no data."""

    def forward(self, x: lt.Tensor) -> Any:
        """The module itself beside a tensor."""
        return x + 1, self


def test_mistakes(tmp_path: Path) -> None:
    args, kwargs = given(5)
    program = exported(Net().eval())
    with pytest.raises(NotImplementedError, match=r"program.module\(\)"):
        program(*args, **kwargs)
    with pytest.raises(AttributeError, match="model of ONNX"):
        _ = program.graph_module
    for wrong in ((args[:1], kwargs), (args, {**kwargs, "scale": 4.0}), (args, {"scale": 3.0}),
                  (args, {**kwargs, "other": 1}), ((args[0], None), kwargs)):
        with pytest.raises(lt.ArgumentError, match="was exported for"):
            program.module()(*wrong[0], **wrong[1])
    for call, words in (
            (lambda: lt.export.export(lt.sin, (args[0],)), "takes a module"),
            (lambda: lt.export.export(nn.Linear(4, 2), args[0]), "give a tuple"),
            (lambda: lt.export.export(Looking(), (args[0],)), "gives Looking"),
            (lambda: lt.export.export(nn.Linear(4, 2), (args[0],), dynamic_shapes={"y": ["n"]}),
             "sizes of 'y'; the arguments are input"),
            (lambda: lt.export.export(nn.Dropout(), (args[0],)), "random")):
        with pytest.raises(lt.ArgumentError, match=words):
            call()
    lt.save({"format": 1}, tmp_path / "other")
    with pytest.raises(lt.ArgumentError, match=r"none that lazyten\.export\.save"):
        lt.export.load(tmp_path / "other")
