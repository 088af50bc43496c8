"""Arithmetic on constants: NumPy gives what tensors give, and makes none."""
from __future__ import annotations

from typing import Any

import numpy as np
import onnx_if_there
import pytest

import lazyten as lt

onnx = onnx_if_there.needed()
from lazyten.onnx import evaluation, values  # noqa: E402

helper: Any = onnx.helper
A, B = np.array([[7, -3], [0, 5]]), np.array([2, 3])
BIG = np.array([2**62, -2**63])
YES = np.array([True, False])
FLOAT, INT32, BOOL = onnx.TensorProto.FLOAT, onnx.TensorProto.INT32, onnx.TensorProto.BOOL
CASES: list[tuple[str, dict[str, Any], list[Any]]] = [
    *[(kind, {}, [A, B]) for kind in ("Add", "Sub", "Mul", "Greater", "Less", "GreaterOrEqual",
                                      "LessOrEqual", "Equal")],
    *[(kind, {}, [BIG, BIG]) for kind in ("Add", "Mul", "Sub")],
    *[(kind, {}, [YES, ~YES]) for kind in ("And", "Or", "Xor", "Equal")], ("Not", {}, [YES]),
    ("Add", {}, [np.uint8([250]), np.uint8([9])]), ("Div", {}, [np.abs(A), B]),
    ("Mod", {}, [np.abs(A), B]), ("Mod", {"fmod": 1}, [np.abs(A), B]),
    *[("Cast", {"to": to}, [x]) for to in (FLOAT, INT32, BOOL) for x in (A, YES)],
    ("Cast", {"to": FLOAT}, [BIG]), ("Cast", {"to": INT32}, [BIG]),
    ("Where", {}, [YES, A, B]), ("Where", {}, [YES, np.float32([1, 2]), np.float32(3)]),
    ("Concat", {"axis": 0}, [A, A[:1], A[:0]]), ("Concat", {"axis": -1}, [A, A]),
    *[("Trilu", {"upper": upper}, [A, np.array(k)]) for upper in (0, 1) for k in (-1, 0, 1, 9)],
]
"""Operators of constants that NumPy computes."""
LEFT = [("Div", {}, [A, B]), ("Mod", {}, [A, B]), ("Add", {}, [np.float32([1]), np.float32([2])]),
        ("Div", {}, [A, B * 0]), ("Cast", {"to": INT32}, [np.float32([1.7, -1.7])])]
"""And such as it leaves to tensors."""


def model(kind: str, attributes: dict[str, Any], inputs: list[Any], known: bool) -> Any:
    names = [f"i{n}" for n in range(len(inputs))]
    given = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
             for n, x in zip(names, inputs, strict=True)]
    graph = helper.make_graph(
        [helper.make_node(kind, names, ["y"], **attributes)], "g", [] if known else given,
        [helper.make_value_info("y", onnx.TypeProto())],
        [onnx.numpy_helper.from_array(x, n) for n, x in zip(names, inputs, strict=True)]
        if known else [])
    return lt.onnx.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]))


@pytest.mark.parametrize(("kind", "attributes", "inputs"), [*CASES, *LEFT])
def test_constants_give_what_inputs_give(kind: str, attributes: dict[str, Any],
                                         inputs: list[Any]) -> None:
    one = model(kind, attributes, inputs, True)({})[0]
    other = model(kind, attributes, inputs, False)(inputs)[0]
    assert one.dtype == other.dtype and one.shape == other.shape
    np.testing.assert_array_equal(one, other)


def test_no_tensor_is_made_of_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: Any) -> Any:
        raise AssertionError("a tensor")
    monkeypatch.setattr(values, "make_tensor", refuse)
    evaluation._known.cache_clear()  # what others of the same constants gave
    for kind, attributes, inputs in CASES:
        model(kind, attributes, inputs, True)({})


@pytest.mark.parametrize(("kind", "attributes", "inputs", "words"), [
    ("Add", {}, [A, np.arange(3)], "broadcast"), ("Where", {}, [YES, A, np.arange(3)], "broadcast"),
    ("Concat", {"axis": 0}, [A, B], "Concat"), ("Concat", {"axis": 5}, [A, A], "axis"),
    ("Trilu", {}, [B], "Trilu"),
    ("Mul", {}, [np.zeros((1 << 20, 1), np.int64), np.zeros((1, 1 << 20), np.int64)], "allocate")])
def test_what_is_wrong_of_constants_is_told(kind: str, attributes: dict[str, Any],
                                            inputs: list[Any], words: str) -> None:
    with pytest.raises(lt.LazytenError, match=words):
        model(kind, attributes, inputs, True)({})
