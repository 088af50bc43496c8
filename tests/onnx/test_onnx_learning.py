"""Operators of ai.onnx.ml on categories, texts and maps, beside onnxruntime; pipelines as
converters of scikit-learn write them."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_if_there
import pytest

import lazyten as lt
from lazyten.support.errors import LazytenError

onnx = onnx_if_there.needed()
helper: Any = onnx.helper
ML = "ai.onnx.ml"
random = np.random.default_rng(0)


def some(*shape: int) -> list[float]:
    return [float(v) for v in random.standard_normal(shape).astype(np.float32).ravel()]


def kind_of_map(x: dict[Any, Any]) -> Any:
    """Of floats by texts or integers."""
    kind = onnx.TypeProto()
    texts = isinstance(next(iter(x)), str)
    kind.map_type.key_type = onnx.TensorProto.STRING if texts else onnx.TensorProto.INT64
    kind.map_type.value_type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    return kind


def model(nodes: Sequence[Any], feeds: dict[str, Any], outputs: Sequence[str],
          opset: int = 3) -> Any:
    inputs = [helper.make_value_info(name, kind_of_map(x)) if isinstance(x, dict) else
              helper.make_tensor_value_info(
        name, onnx.TensorProto.STRING if x.dtype == object else
        helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for name, x in feeds.items()]
    graph = helper.make_graph(list(nodes), "g", inputs, [
        helper.make_value_info(name, onnx.TypeProto()) for name in outputs])
    domains = (ML, opset), ("", 17), ("com.microsoft", 1)
    return helper.make_model(graph, opset_imports=[
        helper.make_opsetid(*domain) for domain in domains], ir_version=10)


def node(kind: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> Any:
    return helper.make_node(kind, inputs, outputs, domain=ML, **attributes)


def check(nodes: Sequence[Any], feeds: dict[str, Any], outputs: Sequence[str],
          opset: int = 3) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")
    proto = model(nodes, feeds, outputs, opset)
    wanted = runtime.InferenceSession(proto.SerializeToString(),
                                      providers=["CPUExecutionProvider"]).run(None, feeds)
    for found, other in zip(lt.onnx.load(proto)(feeds), wanted, strict=True):
        if isinstance(other, list):
            assert [one.keys() for one in found] == [one.keys() for one in other]
            found, other = (np.array([[row[key] for key in other[0]] for row in rows])
                            for rows in (found, other))
        assert found.shape == other.shape
        if other.dtype == object:
            assert found.tolist() == other.tolist()
        else:
            np.testing.assert_allclose(found, other, 1e-4, 1e-5)


X = random.standard_normal((6, 3)).astype(np.float32)
WORDS = np.array([["a", "b"], ["c", "zz"]], object)
NUMBERS = np.array([[0, 1, 7], [2, 0, -1]])
CATEGORIES: dict[str, tuple[str, dict[str, Any], Any, int]] = {
    "one hot of texts": ("OneHotEncoder", {"cats_strings": ["a", "c", "b"]}, WORDS, 3),
    "one hot of numbers": ("OneHotEncoder", {"cats_int64s": [0, 2, 1]}, NUMBERS, 3),
    "one hot of floats": ("OneHotEncoder", {"cats_int64s": [0, 1]}, X, 3),
    "texts to numbers": ("CategoryMapper", {"cats_strings": ["a", "c"], "cats_int64s": [5, 6],
                                            "default_int64": 9}, WORDS, 1),
    "numbers to texts": ("CategoryMapper", {"cats_strings": ["a", "c"], "cats_int64s": [1, 2],
                                            "default_string": "?"}, NUMBERS, 1),
    "places of texts": ("LabelEncoder", {"classes_strings": ["a", "c"]}, WORDS, 1),
    "texts at places": ("LabelEncoder", {"classes_strings": ["a", "c"]}, NUMBERS, 1),
    "floats without NaN": ("LabelEncoder", {"keys_floats": [1.0, float("nan")], "values_int64s":
                                            [4, 5]}, np.array([1, np.nan, 2], np.float32), 2),
    "rows of zeros": ("Normalizer", {"norm": "L2"}, np.zeros((2, 3), np.float32), 1),
    "maps": ("ZipMap", {"classlabels_strings": ["a", "b", "c"]}, X, 1),
    "maps of numbers": ("ZipMap", {"classlabels_int64s": [3, 1, 2]}, X, 1),
    "a row": ("LinearRegressor", {"coefficients": [1.0, 2, 3]}, X[0], 1)}


@pytest.mark.parametrize("name", CATEGORIES)
def test_categories_are_what_onnxruntime_makes_of_them(name: str) -> None:
    kind, attributes, x, opset = CATEGORIES[name]
    check([node(kind, ["x"], ["y"], **attributes)], {"x": x}, ["y"], opset)


@pytest.mark.parametrize("widths", [[3, 2], [2, 2], [5, 4]])
def test_features_are_cut_or_filled_up(widths: list[int]) -> None:
    check([node("FeatureVectorizer", ["x", "i"], ["y"], inputdimensions=widths)],
          {"x": X, "i": X[:, :2].copy()}, ["y"])


KERNELS = {"LINEAR": [0.0, 0, 0], "POLY": [0.5, 1, 3], "RBF": [0.4, 0, 0], "SIGMOID": [0.3, 0.2, 0]}


@pytest.mark.parametrize("kernel", KERNELS)
def test_support_vectors_tell_classes_and_values(kernel: str) -> None:
    common = {"kernel_type": kernel, "kernel_params": KERNELS[kernel]}
    for one_class in (0, 1):
        check([node("SVMRegressor", ["x"], ["y"], coefficients=some(5), n_supports=5, rho=[0.3],
                    support_vectors=some(5, 3), one_class=one_class, **common)], {"x": X}, ["y"])
    for classes, pairs in ((2, 1), (3, 3), (4, 6)):
        machine = {**common, "coefficients": some(classes - 1, 2 * classes), "rho": some(pairs),
                   "support_vectors": some(2 * classes, 3), "vectors_per_class": [2] * classes}
        chances = {"prob_a": [-abs(v) for v in some(pairs)], "prob_b": some(pairs)}
        for labels in ({"classlabels_ints": [4, 7, 9, 11][:classes]},
                       {"classlabels_strings": [*"abcd"][:classes]}):
            for rest in ({}, chances, {"post_transform": "LOGISTIC"},
                         {"post_transform": "SOFTMAX"}):
                check([node("SVMClassifier", ["x"], ["y", "z"], **machine, **labels, **rest)],
                      {"x": X}, ["y", "z"])


@pytest.mark.parametrize("texts", [["no", "yes"], ["a", "b", "c"]])
def test_a_pipeline_names_classes_and_gives_a_map_of_their_scores(texts: list[str]) -> None:
    count = len(texts)
    rows = 1 if count == 2 else count
    check([node("Scaler", ["x"], ["s"], offset=[0.1, 0.2, 0.3], scale=[2.0, 1, 3]),
           node("LinearClassifier", ["s"], ["label", "p"], coefficients=some(rows, 3),
                intercepts=some(rows), classlabels_strings=texts,
                post_transform="LOGISTIC" if count == 2 else "SOFTMAX"),
           node("Normalizer", ["p"], ["q"], norm="L1"),
           node("ZipMap", ["q"], ["scores"], classlabels_strings=texts)],
          {"x": X}, ["label", "scores"])


def test_a_tree_names_classes() -> None:
    tree: dict[str, Any] = {
        "nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [1, 0, 0],
        "nodes_values": [0.1, 0.0, 0.0], "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0]}
    check([node("TreeEnsembleClassifier", ["x"], ["label", "z"], **tree, class_treeids=[0, 0, 0],
                class_nodeids=[1, 2, 2], class_ids=[0, 1, 2], class_weights=[1.0, 0.3, 0.7],
                classlabels_strings=["a", "b", "c"])], {"x": X}, ["label", "z"])


@pytest.mark.parametrize(("kind", "attributes", "x", "words"), [
    ("OneHotEncoder", {"cats_int64s": [0, 1], "zeros": 0}, NUMBERS, "7 is none of the categories"),
    ("OneHotEncoder", {"cats_int64s": [0, 1]}, WORDS, "for categories such as 0"),
    ("OneHotEncoder", {}, NUMBERS, "give cats_int64s, or cats_strings"),
    ("ZipMap", {"classlabels_int64s": [1, 2]}, X, r"float32 \[6, 3\] for 2 labels"),
    ("SVMRegressor", {"coefficients": [1.0], "rho": [0.0], "n_supports": 1, "kernel_type": "LINE",
                      "support_vectors": [1.0, 2, 3]}, X, "kernel_type 'LINE'"),
    ("SVMRegressor", {"coefficients": [1.0], "rho": [0.0], "n_supports": 2,
                      "support_vectors": [1.0, 2, 3]}, X, "3 numbers are no 2 rows")])
def test_what_makes_no_sense_is_refused(kind: str, attributes: dict[str, Any], x: Any,
                                        words: str) -> None:
    with pytest.raises(LazytenError, match=words):
        lt.onnx.load(model([node(kind, ["x"], ["y"], **attributes)], {"x": x}, ["y"]))({"x": x})


@pytest.mark.parametrize("name", ["ArrayFeatureExtractor", "Gather", "Where", "OneHot",
                                  "ScatterElements"])
def test_texts_are_moved_to_places_that_are_computed(name: str) -> None:
    texts = np.array(["low", "mid", "high"], object)
    feeds: dict[str, Any] = {"x": X, "texts": texts}
    start = [helper.make_node("ArgMax", ["x"], ["at"], axis=1, keepdims=0)]
    take = {"ArrayFeatureExtractor": node(name, ["texts", "at"], ["y"]),
            "Gather": helper.make_node(name, ["texts", "at"], ["y"]),
            "ScatterElements": helper.make_node(name, ["texts", "at", "new"], ["y"]),
            "Where": helper.make_node(name, ["is", "texts", "new"], ["y"]),
            "OneHot": helper.make_node(name, ["at", "depth", "two"], ["y"])}[name]
    if name == "ScatterElements":
        start[0] = helper.make_node("ArgMax", ["x"], ["at"], axis=0, keepdims=0)
        feeds["x"] = np.eye(3, dtype=np.float32)[[2, 0, 1]]
        feeds["new"] = np.array(["a", "b", "c"], object)
    if name == "Where":
        start = [helper.make_node("IsNaN", ["x"], ["is"])]
        feeds["x"], feeds["new"] = np.array([[1, np.nan, 2]], np.float32), texts[:1]
    if name == "OneHot":
        feeds["two"], feeds["depth"] = texts[:2], np.array(3)
        del feeds["texts"]
    check([*start, take], feeds, ["y"])


def test_texts_are_not_added_up() -> None:
    texts = np.array(["a", "b"], object)
    proto = model([helper.make_node("ScatterElements", ["x", "i", "x"], ["y"], reduction="add")],
                  {"x": texts, "i": np.array([0, 0])}, ["y"])
    with pytest.raises(lt.ArgumentError, match="reduction 'add'"):
        lt.onnx.load(proto)({"x": texts, "i": np.array([0, 0])})


@pytest.mark.parametrize("attributes", [
    {"separators": [" "]}, {"separators": [" ", "[.!]"], "mark": 1},
    {"separators": [""], "pad_value": "-"}, {"tokenexp": "."}, {"tokenexp": "[a-z]+", "mark": 1},
    {"tokenexp": "(b|a)o+", "mincharnum": 3}, {"tokenexp": r"\w+"}, {"tokenexp": "xyz"}], ids=str)
@pytest.mark.parametrize("shape", [(4,), (2, 2)])
def test_texts_are_cut_into_parts(attributes: dict[str, Any], shape: tuple[int, ...]) -> None:
    texts = np.array(["the quick  fox", "", "boo! fooo ao.", "füße sind: 12"], object)
    given = {"mincharnum": 1, "pad_value": "#", "mark": 0, **attributes}
    check([helper.make_node("Tokenizer", ["x"], ["y"], domain="com.microsoft", **given)],
          {"x": texts.reshape(shape)}, ["y"])


def test_texts_are_hashed() -> None:
    texts = np.array([["", "a", "ab"], ["abc", "abcde", "füße"]], object)
    check([helper.make_node("MurmurHash3", ["x"], ["y"], domain="com.microsoft")], {"x": texts},
          ["y"])


@pytest.mark.parametrize(("kind", "attributes"), [
    ("DictVectorizer", {"int64_vocabulary": [4, 7, 1]}),
    *[("CastMap", {"cast_to": to, "map_form": form, "max_map": 3})
      for to in ("TO_FLOAT", "TO_INT64", "TO_STRING") for form in ("DENSE", "SPARSE")]])
def test_maps_are_rows(kind: str, attributes: dict[str, Any]) -> None:
    check([node(kind, ["x"], ["y"], **attributes)], {"x": {4: 2.6, 1: -1.5}}, ["y"], 1)


def test_a_map_of_texts_is_a_row() -> None:
    check([node("DictVectorizer", ["x"], ["y"], string_vocabulary=["b", "no", "a"])],
          {"x": {"a": 1.5, "b": 2.0}}, ["y"], 1)
    with pytest.raises(lt.DTypeError, match="values of this map are no float"):
        lt.onnx.load(model([node("DictVectorizer", ["x"], ["y"], string_vocabulary=["b"])],
                           {"x": {"a": 1.0}}, ["y"], 1))({"x": {"a": "one"}})
