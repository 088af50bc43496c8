"""Operators at old opsets and with options, beside onnxruntime; and that none is missing."""
from __future__ import annotations

from typing import Any

import numpy as np
import onnx_if_there
import pytest
from onnx_additions import ADDITIONS
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


ALL = [*CALLS, *ADDITIONS]


@pytest.mark.few(40)
@pytest.mark.parametrize("number", [pytest.param(
    n, id=f"{n}-{row.kind}", marks=() if n % 4 == 0 else (pytest.mark.slow,))
    for n, row in enumerate(ALL)])
def test_an_operator_gives_what_onnxruntime_gives(number: int) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")
    proto, feeds = model(ALL[number])
    session = runtime.InferenceSession(proto.SerializeToString(),
                                       providers=["CPUExecutionProvider"])
    found, wanted = lt.onnx.load(proto)(feeds), session.run(None, feeds)
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape
        np.testing.assert_allclose(one.astype(np.float64), other.astype(np.float64), 1e-4, 1e-5)


@pytest.mark.parametrize(("kind", "gates"), [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
def test_a_recurrent_layer_of_no_steps_ends_with_zeros(kind: str, gates: int) -> None:
    """As in onnxruntime, whose GRU of no steps and LSTM's last cell are broken, though."""
    states = 2 if kind == "LSTM" else 1
    x, first = np.zeros((0, 3, 5), np.float32), np.ones((2, 3, 4), np.float32)
    feeds = {"x": x, "w": np.ones((2, gates * 4, 5), np.float32),
             "r": np.ones((2, gates * 4, 4), np.float32), "h": first, "c": first}
    names = ["x", "w", "r", "", "", "h", "c"][:5 + states]
    outputs = ["y", "end", "cell"][:1 + states]
    graph = helper.make_graph(
        [helper.make_node(kind, names, outputs, hidden_size=4, direction="bidirectional")], "g",
        [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, feeds[n].shape)
         for n in names if n], [helper.make_value_info(n, onnx.TypeProto()) for n in outputs])
    model = lt.onnx.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)]))
    y, *ends = model({n: feeds[n] for n in names if n})
    assert y.shape == (0, 2, 3, 4)
    assert all(end.shape == (2, 3, 4) and not end.any() for end in ends)


@pytest.mark.parametrize(("kind", "opset", "options", "sizes", "wanted"), [
    ("Hardmax", 13, {}, None, (2, 0)), ("Resize", 13, {"mode": "linear"}, (0, 1, 8), (0, 1, 8))])
def test_of_nothing_nothing_is_made(kind: str, opset: int, options: dict[str, Any],
                                    sizes: tuple[int, ...] | None, wanted: tuple[int, ...]) -> None:
    x = np.zeros((0, 1, 4) if sizes else (2, 0), np.float32)
    names = ["x", "", "", "sizes"] if sizes else ["x"]
    graph = helper.make_graph(
        [helper.make_node(kind, names, ["y"], **options)], "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, x.shape)],
        [helper.make_value_info("y", onnx.TypeProto())],
        [onnx.numpy_helper.from_array(np.array(sizes or (), np.int64), "sizes")])
    found, = lt.onnx.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)]))(
        [x])
    assert found.shape == wanted and found.dtype == np.float32


@pytest.mark.parametrize("keep", [0, 1])
def test_rows_that_are_none_have_no_greatest_place(keep: int) -> None:
    x = np.zeros((2, 0, 0), np.float32)
    node = helper.make_node("ArgMax", ["x"], ["y"], axis=1, keepdims=keep)
    found, = run([node], {"x": x}, ["y"])
    assert found.shape == ((2, 1, 0) if keep else (2, 0)) and found.dtype == np.int64
    with pytest.raises(lt.LazytenError, match="size 0"):
        run([helper.make_node("ArgMax", ["x"], ["y"], axis=1)], {"x": x[:, :, :0].reshape(2, 0)},
            ["y"])


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_an_axis_without_elements_is_resized_by_a_scale(mode: str) -> None:
    graph = helper.make_graph(
        [helper.make_node("Resize", ["x", "", "scales"], ["y"], mode=mode)], "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 2, 0, 4])],
        [helper.make_value_info("y", onnx.TypeProto())],
        [onnx.numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "scales")])
    found, = lt.onnx.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]))(
        [np.zeros((1, 2, 0, 4), np.float32)])
    assert found.shape == (1, 2, 0, 8)


def test_what_is_no_power_of_two_that_fits_is_the_last_one() -> None:
    graph = helper.make_graph(
        [helper.make_node("Cast", ["x"], ["p"], to=onnx.TensorProto.FLOAT8E8M0),
         helper.make_node("Cast", ["p"], ["y"], to=onnx.TensorProto.FLOAT)], "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, None)],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)])
    x = np.array([np.inf, 3e38, 2.0**127, 3, 0, 1e-45, 2.0**-127, 7e-39, np.nan], np.float32)
    wanted = [2.0**127] * 3 + [4, 2.0**-127, 2.0**-127, 2.0**-127, 2.0**-126, np.nan]
    assert np.array_equal(lt.onnx.load(proto)([x])[0], np.float32(wanted), equal_nan=True)


def load(kind: str, attributes: dict[str, Any], inputs: list[Any], outputs: int = 1) -> Any:
    """A node of onnxruntime's domain, loaded, and its inputs by name."""
    proto, feeds = model(Row(kind, ("com.microsoft", 1), attributes, inputs, outputs))
    return lt.onnx.load(proto), feeds


def called(kind: str, attributes: dict[str, Any], *inputs: Any, outputs: int = 1) -> Any:
    loaded, feeds = load(kind, attributes, list(inputs), outputs)
    return loaded(feeds)


def test_queries_keys_and_values_may_be_packed() -> None:
    q, k, v = (rows.standard_normal((2, 3, 2, 4)).astype(np.float32) for rows in
               [np.random.default_rng(0)] * 3)
    flat = [x.reshape(2, 3, 8) for x in (q, k, v)]
    wanted = called("MultiHeadAttention", {"num_heads": 2}, *flat)[0]
    for packed in ([flat[0], np.stack([k, v], 3)], [np.stack([q, k, v], 3)]):
        found = called("MultiHeadAttention", {"num_heads": 2}, *packed)[0]
        np.testing.assert_allclose(found, wanted, 1e-6, 1e-6)


def test_rows_of_a_batch_have_caches_filled_to_different_places() -> None:
    """Each gives what it gives alone."""
    rows = np.random.default_rng(0)
    given = [rows.standard_normal(shape).astype(np.float32)
             for shape in ((2, 1, 32), (2, 1, 16), (2, 1, 16), (2, 1, 6, 16), (2, 1, 6, 16))]
    last, options = np.array([2, 4], np.int32), {"num_heads": 2, "kv_num_heads": 1}
    y, keys, _ = called("GroupQueryAttention", options, *given, last, np.array([5], np.int32),
                        outputs=3)
    for n, end in enumerate(last):
        alone = [x[n:n + 1] for x in given[:3]] + [x[n:n + 1, :, :end] for x in given[3:]]
        one, rest, _ = called("GroupQueryAttention", options, *alone, last[n:n + 1],
                              np.array([end + 1], np.int32), outputs=3)
        np.testing.assert_allclose(y[n], one[0], 1e-5, 1e-6)
        np.testing.assert_array_equal(keys[n, :, :end + 1], rest[0])


def test_sums_that_are_normalized_are_outputs_too() -> None:
    x, skip, weight = (np.full((1, 2, 4), 2, np.float32), np.eye(4, dtype=np.float32)[None, :2],
                       np.ones(4, np.float32))
    for kind in ("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"):
        node = helper.make_node(kind, ["x", "skip", "w"], ["y", "", "", "sum"],
                                domain="com.microsoft")
        given = [helper.make_tensor_value_info(n, 1, None) for n in ("x", "skip", "w")]
        graph = helper.make_graph([node], "g", given, [
            helper.make_tensor_value_info(n, 1, None) for n in ("y", "sum")])
        loaded = lt.onnx.load(helper.make_model(
            graph, opset_imports=[helper.make_opsetid("com.microsoft", 1)]))
        np.testing.assert_array_equal(loaded([x, skip, weight])[1], x + skip)


@pytest.mark.parametrize("low", [0, 5])
def test_a_quantized_lstm_is_as_near_as_bytes_are(low: int) -> None:
    """A number halfway between two bytes is one or the other."""
    runtime = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")
    rows = np.random.default_rng(0)
    x, b, h = (rows.standard_normal(shape).astype(np.float32)
               for shape in ((4, 2, 5), (2, 24), (2, 2, 3)))
    w, r = (rows.integers(-99, 99, (2, n, 12)).astype(np.int8) for n in (5, 3))
    scale, zero = np.array([0.01, 0.02], np.float32), np.full(2, low, np.int8)
    none = np.zeros(0, np.float32)
    proto, feeds = model(Row("DynamicQuantizeLSTM", ("com.microsoft", 1), {
        "hidden_size": 3, "direction": "bidirectional"},
        [x, w, r, b, none, h, h, none, scale, zero, scale, zero], 3))
    plain = lt.onnx.load(proto)(feeds)
    for name in ("i1", "i2", "i8", "i9", "i10", "i11"):  # weights are constants there
        proto.graph.initializer.append(onnx.numpy_helper.from_array(feeds.pop(name), name))
    kept = [value for value in proto.graph.input if value.name in feeds]
    del proto.graph.input[:]
    proto.graph.input.extend(kept)
    session = runtime.InferenceSession(proto.SerializeToString(),
                                       providers=["CPUExecutionProvider"])
    loaded = lt.onnx.load(proto)
    for found, wanted, same in zip(loaded(feeds), session.run(None, feeds), plain, strict=True):
        np.testing.assert_allclose(found, wanted, atol=0.02)
        np.testing.assert_allclose(found, same, atol=0.02)
    kept = {x.shape: x.dtype for x in loaded._program.constants.values()}
    assert kept[2, 5, 12] == kept[2, 3, 12] == np.float32  # and not dequantized at each call


REFUSED = {
    "no such operator": ("Frobnicate", {}, 1, 1, "of this domain lazyten has Attention, "),
    "too many inputs": ("Gelu", {}, 2, 1, r"2 inputs and 1 outputs: 1 to 1 and 1 to 1 are"),
    "too many outputs": ("Gelu", {}, 1, 2, "1 inputs and 2 outputs"),
    "an unknown attribute": ("QuickGelu", {"beta": 1.0}, 1, 1, r"'beta', and only .*'alpha'"),
    "a wrong type": ("QuickGelu", {"alpha": 1}, 1, 1, "'alpha' is 1, and should be float"),
    "a missing attribute": ("MultiHeadAttention", {}, 1, 1, "needs the attribute 'num_heads'"),
    "an input that is not covered": ("Attention", {"num_heads": 1}, 7, 1,
                                     "the input 'past_sequence_length', which is not supported"),
    "a value that is not covered": ("Attention", {"num_heads": 1, "do_rotary": 1}, 2, 1,
                                    "'do_rotary' is 1, and only 0 is supported"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_an_addition_cannot_do_is_refused_when_it_is_loaded(case: str) -> None:
    kind, attributes, inputs, outputs, words = REFUSED[case]
    with pytest.raises(lt.ArgumentError, match=words):
        load(kind, attributes, [np.ones((2, 3), np.float32)] * inputs, outputs)


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


def test_sums_of_nothing_before_each_element_are_none() -> None:
    axis = onnx.numpy_helper.from_array(np.array(1), "axis")
    graph = helper.make_graph(
        [helper.make_node("CumSum", ["x", "axis"], ["y"], exclusive=1)], "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2, 0])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)], [axis])
    assert lt.onnx.load(helper.make_model(graph))([np.zeros((2, 0), "f4")])[0].shape == (2, 0)


def test_a_long_axis_is_padded_far() -> None:
    """Its size is what counts, whatever the other axes' are."""
    x = np.arange(40_000, dtype=np.float32).reshape(1, 1, -1)
    pads = np.array([0, 0, 20_000, 0, 0, 20_000])
    y, = run([one("Pad", ["x", "pads"], ["y"], mode="reflect")], {"x": x, "pads": pads}, ["y"])
    np.testing.assert_array_equal(y, np.pad(x, ((0, 0), (0, 0), (20_000, 20_000)), "reflect"))


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


@pytest.mark.parametrize(("side", "image"), [(np.nan, 0), (np.inf, 0), (3, 2)])
def test_boxes_of_no_size_or_of_no_image_are_an_error(side: float, image: int) -> None:
    feeds = {"x": np.ones((2, 1, 4, 4), np.float32), "boxes": np.float32([[0, 0, 2, side]]),
             "images": np.array([image])}
    with pytest.raises(lt.ArgumentError, match="the 2 that there are"):
        run([one("RoiAlign", [*feeds], ["y"], sampling_ratio=2)], feeds, ["y"])
