"""`torch.onnx.export`'s arguments, which `lazyten.onnx.export` takes as well."""
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lazyten as lt

onnx = pytest.importorskip("onnx")


class Scaled(lt.nn.Module):
    """A layer whose result depends on its mode, and which takes a tensor and a flag by name."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.dropout = lt.nn.Linear(3, 2), lt.nn.Dropout(0.5)

    def forward(self, x: lt.Tensor, scale: lt.Tensor | None = None, negated: bool = False
                ) -> lt.Tensor:
        y = self.dropout(self.linear(x))
        y = y if scale is None else y * scale
        return -y if negated else y


def inputs_of(model: Any) -> dict[str, list[Any]]:
    return {value.name: [d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim]
            for value in model.graph.input}


def test_options_that_change_nothing_are_taken(tmp_path: Path) -> None:
    model, x = Scaled(), lt.rand(4, 3)
    given = lt.onnx.export(
        model=model, args=(x,), f=tmp_path / "m.onnx", export_params=True, opset_version=11,
        do_constant_folding=True, input_names=["x"], output_names=["y"], verbose=False,
        dynamic_axes={"x": {0: "batch"}, "y": {0: "batch"}}, dynamo=False)
    assert model.training and model.dropout.training  # as it was, and evaluated in between
    assert inputs_of(given) == {"x": ["batch", 3]}
    more = lt.rand(7, 3)
    found, = lt.onnx.load(tmp_path / "m.onnx")([more])
    np.testing.assert_allclose(found.numpy(), model.eval()(more).numpy(), rtol=1e-5, atol=1e-6)


def test_inputs_by_name_come_after_the_others() -> None:
    model, x, scale = Scaled().eval(), lt.rand(4, 3), lt.rand(2)
    expected = model(x, scale=scale, negated=True).numpy()
    by_option = lt.onnx.export(model, (x,), kwargs={"scale": scale, "negated": True})
    by_last = lt.onnx.export(model, (x, {"scale": scale, "negated": True}))
    by_place = lt.onnx.export(model, (x, scale, True))
    assert inputs_of(by_option) == inputs_of(by_last) == {"x": [4, 3], "scale": [2]}
    for given in (by_option, by_last, by_place):
        found, = lt.onnx.load(given)([x, scale])
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_weights_and_inputs_keep_their_names() -> None:
    """Also where a module is given inputs by name, and numbers before tensors."""
    model, x, scale = Scaled().eval(), lt.rand(4, 3), lt.rand(2)
    given = lt.onnx.export(model, (x,), kwargs={"scale": scale})
    assert {"linear.weight", "linear.bias"} <= {w.name for w in given.graph.initializer}
    numbered = lt.onnx.export(lambda factor, x, y: factor * x + y, (2.0, x), kwargs={"y": x + 1})
    assert [*inputs_of(numbered)] == ["x", "y"]


def test_dynamic_shapes_are_by_argument_or_in_order() -> None:
    model, x = Scaled().eval(), lt.rand(4, 3)
    by_name = lt.onnx.export(model, (x,), dynamic_shapes={"x": {0: "batch"}, "scale": None})
    in_order = lt.onnx.export(model, (x,), dynamic_shapes=(("batch", None),))
    assert list(inputs_of(by_name).values()) == list(inputs_of(in_order).values()) == [["batch", 3]]
    with pytest.raises(lt.ArgumentError, match="dynamic_shapes and dynamic say the same"):
        lt.onnx.export(model, (x,), dynamic={0: {0: "batch"}}, dynamic_shapes={"x": {0: "batch"}})


@pytest.mark.parametrize("shapes", [{"x": {0: "batch"}}, [{0: "batch"}, None, None]])
def test_dynamic_shapes_are_those_of_the_argument_so_named(shapes: Any) -> None:
    """Not of the tensor whose number is the argument's."""
    x, y = lt.rand(4, 3), lt.rand(5, 3)
    swapped = lt.onnx.export(lambda y, x: x * y.sum(0), kwargs={"x": x, "y": y},
                             dynamic_shapes={"x": {0: "batch"}})
    assert inputs_of(swapped) == {"x": ["batch", 3], "y": [5, 3]}
    later = lt.onnx.export(lambda x, factor, y: x * factor * y.sum(0), (x, 2.0, y),
                           dynamic_shapes=shapes)
    assert [*inputs_of(later).values()] == [["batch", 3], [5, 3]]
    last = lt.onnx.export(lambda factor, x: x * factor, (2.0, x),
                          dynamic_shapes=(None, ("batch", None)))
    assert [*inputs_of(last).values()] == [["batch", 3]]
    with pytest.raises(lt.ArgumentError, match=r"sizes of 'z'; the tensors given are self, other"):
        lt.onnx.export(lt.mul, (x, x), dynamic_shapes={"z": {0: "batch"}})


def test_dynamo_gives_a_program_that_saves_itself(tmp_path: Path) -> None:
    model, x = Scaled().eval(), lt.rand(4, 3)
    program = lt.onnx.export(model, (x,), dynamo=True)
    program.save(tmp_path / "m.onnx")
    for found, in (program(x), lt.onnx.load(tmp_path / "m.onnx")([x])):
        np.testing.assert_allclose(found.numpy(), model(x).numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("training", "wanted"), [("EVAL", False), ("PRESERVE", True)])
def test_the_older_exporter_has_a_mode(training: str, wanted: bool) -> None:
    seen = []

    class Telling(lt.nn.Module):
        def forward(self, x: lt.Tensor) -> lt.Tensor:
            seen.append(self.training)
            return x + 1

    lt.onnx.export(Telling(), lt.rand(2), dynamo=False,
                   training=getattr(lt.onnx.TrainingMode, training))
    lt.onnx.export(Telling(), lt.rand(2))
    assert seen[0] is wanted and seen[-1] is True


def test_what_cannot_be_exported_says_why() -> None:
    x = lt.rand(2)
    with pytest.raises(lt.ArgumentError, match="there is no option opset"):
        lt.onnx.export(abs, x, opset=18)
    with pytest.raises(lt.ArgumentError, match="f and path are the same"):
        lt.onnx.export(abs, x, "a.onnx", f="b.onnx")
    with pytest.raises(lt.ArgumentError, match="give a function or a module, and its tensors"):
        lt.onnx.export(abs)
    with pytest.raises(lt.ArgumentError, match="tensors within lists are no inputs"):
        lt.onnx.export(lambda xs: xs[0], ([x, x],))
