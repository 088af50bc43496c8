"""Operators at old opsets and with options, beside onnxruntime; and that none is missing."""
from __future__ import annotations

from typing import Any

import numpy as np
import onnx_if_there
import pytest
from onnx_calls import CALLS, Row

import lazyten as lt

onnx = onnx_if_there.needed()
helper: Any = onnx.helper


def model(row: Row) -> tuple[Any, dict[str, Any]]:
    """A model of one node, and its inputs by name. An empty float array stands for none."""
    domain, opset = row.opset if isinstance(row.opset, tuple) else ("", row.opset)
    feeds = {f"i{k}": np.asarray(x) for k, x in enumerate(row.inputs)}
    names = ["" if x.size == 0 else name for name, x in feeds.items()]
    outputs = [f"o{k}" for k in range(row.outputs)]
    inputs = [helper.make_tensor_value_info(
        name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for name, x in feeds.items()]
    graph = helper.make_graph(
        [helper.make_node(row.kind, names, outputs, domain=domain, **row.attributes)], "g", inputs,
        [helper.make_value_info(name, onnx.TypeProto()) for name in outputs])
    opsets = [helper.make_opsetid(domain, opset)] + [helper.make_opsetid("", 17)] * bool(domain)
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), feeds


@pytest.mark.few(23)
@pytest.mark.parametrize("number", [pytest.param(
    n, id=f"{n}-{row.kind}", marks=() if n % 4 == 0 else (pytest.mark.slow,))
    for n, row in enumerate(CALLS)])
def test_an_operator_gives_what_onnxruntime_gives(number: int) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")
    proto, feeds = model(CALLS[number])
    session = runtime.InferenceSession(proto.SerializeToString(),
                                       providers=["CPUExecutionProvider"])
    found, wanted = lt.onnx.load(proto)(feeds), session.run(None, feeds)
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape
        np.testing.assert_allclose(one.astype(np.float64), other.astype(np.float64), 1e-4, 1e-5)


ABSENT = {"ImageDecoder"}


def test_all_opsets_have_all_operators_with_all_their_attributes() -> None:
    """A row of the table holds for each version of the standard's operators, or a definition."""
    lt.onnx.load(model(CALLS[0])[0])  # which makes the table
    from lazyten.onnx.table import find
    missing = []
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain or schema.deprecated or schema.name in ABSENT:
            continue
        newest = onnx.defs.get_schema(schema.name, max(7, schema.since_version), "")
        if newest.since_version != schema.since_version or newest.deprecated:
            continue  # of opsets before 7
        row = find("", schema.name, schema.since_version)
        defined = schema.has_function or schema.has_context_dependent_function
        if row is None and not defined:
            missing.append((schema.name, schema.since_version))
        elif row is not None and ({*schema.attributes} - row.attributes
                                  or row.required > schema.min_input
                                  or not row.variadic and len(row.inputs) < schema.max_input):
            missing.append((schema.name, schema.since_version, row))
    assert missing == []


def one(kind: str, inputs: list[str], outputs: list[str], **attributes: Any) -> Any:
    return helper.make_node(kind, inputs, outputs, **attributes)


def run(nodes: list[Any], feeds: dict[str, Any], outputs: list[str]) -> list[Any]:
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for name, x in feeds.items()],
        [helper.make_value_info(name, onnx.TypeProto()) for name in outputs])
    return lt.onnx.load(helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 20)]))(feeds)


def test_sequences_and_optional_values() -> None:
    x, at = np.arange(6, dtype=np.float32).reshape(2, 3), np.array(-1)
    found = run([one("SequenceConstruct", ["x", "x", "x"], ["s"]),
                 one("SequenceErase", ["s", "at"], ["t"]), one("SequenceAt", ["t", "at"], ["u"]),
                 one("Neg", ["u"], ["n"]), one("SequenceInsert", ["t", "n", "at"], ["v"]),
                 one("ConcatFromSequence", ["v"], ["joined"], axis=1),
                 one("ConcatFromSequence", ["v"], ["stacked"], axis=-1, new_axis=1),
                 one("Optional", ["v"], ["o"]), one("OptionalHasElement", ["o"], ["there"]),
                 one("OptionalGetElement", ["o"], ["w"]), one("SequenceLength", ["w"], ["count"])],
                {"x": x, "at": at}, ["joined", "stacked", "there", "count"])
    np.testing.assert_array_equal(found[0], np.concatenate([x, -x, x], 1))
    np.testing.assert_array_equal(found[1], np.stack([x, -x, x], -1))
    assert found[2].tolist() is True and found[3].tolist() == 3


@pytest.mark.parametrize(("kind", "attributes", "check"), [
    ("RandomUniform", {"shape": [50, 40], "low": 2.0, "high": 4.0},
     lambda x: 2 <= x.min() < 2.1 and 3.9 < x.max() < 4 and abs(x.mean() - 3) < 0.1),
    ("RandomNormal", {"shape": [50, 40], "mean": 5.0, "scale": 0.5},
     lambda x: abs(x.mean() - 5) < 0.1 and abs(x.std() - 0.5) < 0.05)])
def test_random_numbers_are_of_their_distribution_and_a_seed_fixes_them(
        kind: str, attributes: dict[str, Any], check: Any) -> None:
    nodes = [one(kind, [], ["a"], **attributes),
             *[one(kind, [], [name], seed=3.0, **attributes) for name in "bc"]]
    a, b, c = run(nodes, {}, ["a", "b", "c"])
    assert check(a) and check(b) and a.dtype == np.float32
    assert (b == c).all() and (a != b).any()


def test_a_number_of_a_type_that_lazyten_lacks_is_an_array() -> None:
    found = run([one("Cast", ["x"], ["y"], to=onnx.TensorProto.FLOAT8E5M2)],
                {"x": np.array(3, np.float32)}, ["y"])[0]
    assert isinstance(found, np.ndarray) and found.shape == () and float(found) == 3


def test_multinomial_draws_by_probability() -> None:
    logits = np.log(np.array([[0.7, 0.1, 0.2], [0.0, 0.5, 0.5]], np.float32).clip(1e-30))
    drawn = run([one("Multinomial", ["x"], ["y"], sample_size=4000, seed=1.0)], {"x": logits},
                ["y"])[0]
    shares = np.stack([(drawn == k).mean(1) for k in range(3)], 1)
    np.testing.assert_allclose(shares, np.exp(logits), atol=0.03)
    assert drawn.dtype == np.int32
