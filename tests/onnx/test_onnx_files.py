"""Files that are wrong, cut off, mutated or hostile: each is a LazytenError, quickly."""
from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx_if_there
import pytest

import lazyten as lt

onnx = onnx_if_there.needed()

helper: Any = onnx.helper
FLOAT = onnx.TensorProto.FLOAT


def value(name: str, shape: Any = (2, 3), kind: int = FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def array(name: str, values: Any) -> Any:
    return onnx.numpy_helper.from_array(np.array(values), name)


def model(nodes: list[Any], initializers: list[Any] = (), *, opset: int = 20,  # type: ignore[assignment]
          outputs: str = "y", functions: list[Any] = ()) -> Any:  # type: ignore[assignment]
    graph = helper.make_graph(nodes, "g", [value("x")], [value(n, None) for n in outputs.split()],
                              initializer=initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset),
                                                   helper.make_opsetid("mine", 1)],
                             functions=functions)


def node(kind: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    return helper.make_node(kind, inputs.split(), outputs.split(), name=f"the {kind}",
                            **attributes)


def sized(dims: list[int], data: bytes) -> Any:
    tensor = onnx.TensorProto(name="w", data_type=FLOAT, raw_data=data)
    tensor.dims.extend(dims)
    return tensor


def nameless() -> Any:
    found = model([node("Split", "x", "y z", axis=0)])
    found.graph.node[0].output[1] = ""
    found.graph.output.add().name = ""
    return found


def recursive() -> Any:
    f = helper.make_function("mine", "f", ["a"], ["b"], [
        helper.make_node("f", ["a"], ["b"], domain="mine")], [helper.make_opsetid("mine", 1)])
    return model([helper.make_node("f", ["x"], ["y"], domain="mine")], functions=[f])


def doubling(levels: int) -> Any:
    """A function that calls two of a function that calls two of ..: 2 ** levels nodes."""
    opsets = [helper.make_opsetid("mine", 1), helper.make_opsetid("", 20)]
    functions = [helper.make_function("mine", "f0", ["a"], ["b"], [
        helper.make_node("Relu", ["a"], ["b"])], opsets)]
    for i in range(1, levels):
        functions.append(helper.make_function("mine", f"f{i}", ["a"], ["b"], [
            helper.make_node(f"f{i - 1}", ["a"], ["c"], domain="mine"),
            helper.make_node(f"f{i - 1}", ["c"], ["b"], domain="mine")], opsets))
    return model([helper.make_node(f"f{levels - 1}", ["x"], ["y"], domain="mine")],
                 functions=functions)


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "an unknown operator": (
        lambda: model([node("Frobnicate", "x", "y")]),
        r"node 'the Frobnicate' \(Frobnicate of ai.onnx, opset 20\): the standard has no such"),
    "an operator newer than the opset": (
        lambda: model([node("Gelu", "x", "y")], opset=13), r"Gelu of ai.onnx, opset 13"),
    "an operator taken back": (
        lambda: model([node("Upsample", "x x", "y")], opset=20), "taken back"),
    "an operator of another domain": (
        lambda: model([helper.make_node("Normalizer", ["x"], ["y"], domain="ai.onnx.ml")]),
        "imports no opset of the domain 'ai.onnx.ml'"),
    "an input that is left out": (
        lambda: model([helper.make_node("IsInf", [""], ["y"])]), "the input 'X' is left out"),
    "an operator that lazyten lacks": (
        lambda: model([node("ImageDecoder", "x", "y")]), "lazyten does not have this operator"),
    "an opset of the future": (
        lambda: model([node("Relu", "x", "y")], opset=10 ** 6), "knows opsets up to"),
    "an opset below 1": (lambda: model([node("Relu", "x", "y")], opset=-(1 << 63)), "no opset"),
    "a cycle": (
        lambda: model([node("Add", "x b", "a"), node("Mul", "a x", "b"), node("Relu", "b", "y")]),
        "need each other's outputs: 'the Add', 'the Mul'"),
    "a missing weight": (
        lambda: model([node("Add", "x w", "y")]), "reads 'w', which nothing makes"),
    "a missing output": (lambda: model([node("Relu", "x", "z")]), "'y', which nothing"),
    "an output without a name": (lambda: nameless(), "the output ''"),
    "two of one name": (
        lambda: model([node("Relu", "x", "y"), node("Abs", "x", "y")]), "made twice: 'y'"),
    "too few inputs": (lambda: model([node("Add", "x", "y")]), "has 1 inputs: 2 to 2"),
    "an unknown attribute": (
        lambda: model([node("Relu", "x", "y", beta=1.0)]), "has the attribute 'beta'"),
    "an attribute of another type": (
        lambda: model([node("LeakyRelu", "x", "y", alpha="much")]), "should be FLOAT"),
    "a missing attribute": (
        lambda: model([node("Concat", "x x", "y")]), "needs the attribute 'axis'"),
    "sizes without data": (
        lambda: model([node("Add", "x w", "y")], [sized([1 << 20, 1 << 10], b"\0" * 64)]),
        "its data do not fit"),
    "absurd sizes": (
        lambda: model([node("Add", "x w", "y")], [sized([1 << 40, 1 << 20], b"\0" * 64)]),
        "elements at most"),
    "negative sizes": (
        lambda: model([node("Add", "x w", "y")], [sized([-1, 16], b"\0" * 64)]),
        "at least 0"),
    "complex numbers": (
        lambda: model([node("Add", "x w", "y")], [array("w", 1j)]), "no complex numbers"),
    "a constant of absurd size": (
        lambda: model([node("ConstantOfShape", "w", "c"), node("Add", "x c", "y")],
                      [array("w", [1 << 40, 1 << 20])]), "elements at most"),
    "a range without an end": (
        lambda: model([node("Range", "a b c", "r"), node("Add", "x r", "y")],
                      [array("a", 0), array("b", 1), array("c", 0)]), "the step 0"),
    "a range of absurd length": (
        lambda: model([node("Range", "a b c", "r"), node("Add", "x r", "y")],
                      [array("a", 0), array("b", 1 << 60), array("c", 1)]), "elements at most"),
    "a function that calls itself": (recursive, "calls itself"),
    "functions that double": (lambda: doubling(25), "more than 10000 nodes"),
    "external data of bytes": (
        lambda: model([node("Add", "x w", "y")], [external("w.bin")]), "the model by its path"),
}


def external(location: str, **entries: int) -> Any:
    tensor = onnx.TensorProto(name="w", data_type=FLOAT,
                              data_location=onnx.TensorProto.EXTERNAL)
    tensor.dims.extend([2, 3])
    for key, given in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=str(given))
    return tensor


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_model_is_an_error_at_load(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lazyten.onnx.reader.NODE_LIMIT", 10_000)
    make, words = WRONG[name]
    with pytest.raises(lt.LazytenError, match=words):
        lt.onnx.load(make())


@pytest.mark.parametrize(("location", "entries", "words"), [
    ("../secret", {}, "outside the model's folder"), ("/etc/passwd", {}, "outside the model's"),
    ("link", {}, "outside the model's folder"), ("absent", {}, "there is no such file"),
    ("", {}, "outside"), (".", {}, "there is no such file"),
    ("w.bin", {"length": 1 << 40}, "which has 24"), ("w.bin", {"offset": 8}, "do not fit"),
    ("w.bin", {"offset": -8}, "from byte -8"), ("w.bin", {"length": 4}, "do not fit"),
    ("w.bin", {"offset": 1 << 70}, "which has 24")])
def test_external_data_stay_in_the_folder_and_in_the_file(
        tmp_path: Path, location: str, entries: dict[str, int], words: str) -> None:
    (tmp_path / "secret").write_bytes(b"\0" * 24)
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "w.bin").write_bytes(b"\0" * 24)
    (folder / "link").symlink_to(tmp_path / "secret")
    path = folder / "m.onnx"
    path.write_bytes(model([node("Add", "x w", "y")],
                           [external(location, **entries)]).SerializeToString())
    with pytest.raises(lt.ArgumentError, match=words):
        lt.onnx.load(path)


def test_external_data_are_read(tmp_path: Path) -> None:
    weights = np.arange(6, dtype=np.float32).reshape(2, 3)
    (tmp_path / "w.bin").write_bytes(b"\1" * 8 + weights.tobytes())
    path = tmp_path / "m.onnx"
    path.write_bytes(model([node("Add", "x w", "y")],
                           [external("w.bin", offset=8, length=24)]).SerializeToString())
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(lt.onnx.load(path)([x])[0], weights + 1)


@pytest.mark.parametrize(("given", "error"), [
    ({}, lt.ArgumentError), ({"z": 1}, lt.ArgumentError), ([], lt.ArgumentError),
    (None, lt.ArgumentError), ([None], lt.ArgumentError), ([np.zeros((2, 3))], lt.DTypeError),
    ([np.zeros((2, 4), np.float32)], lt.ShapeError), ([["text"]], lt.DTypeError),
    ([np.zeros((2, 3, 1), np.float32)], lt.ShapeError)])
def test_inputs_are_checked(given: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="input"):
        lt.onnx.load(model([node("Relu", "x", "y")]))(given)


@pytest.mark.parametrize("source", [b"", b"\0", b"no model", b"\x08" * 100, "absent.onnx", 3, None])
def test_what_is_no_model_is_said_so(source: Any) -> None:
    with pytest.raises(lt.ArgumentError, match=r"onnx\.load"):
        lt.onnx.load(source)


@pytest.mark.parametrize(("kind", "gates"), [("RNN", 1), ("GRU", 3), ("LSTM", 4)])
def test_weights_of_a_recurrent_layer_that_do_not_fit_are_told(kind: str, gates: int) -> None:
    """And its first state, as of an LSTM with projections that PyTorch's exporter writes."""
    w, narrow, r, h = (np.zeros((1, n, k), np.float32) for n, k in (
        (gates * 4, 3), (gates * 4, 2), (gates * 4, 4), (2, 6)))
    arrays = [array("w", w), array("n", narrow), array("r", r), array("h", h), array("one", [1])]
    for inputs, words in (("u w n", rf"both must be \[1, {gates * 2}, \.\.\]"),
                          ("u w r none none h", r"it must be \[1, batch, 4\]")):
        names = " ".join(inputs.split()).replace("none", "")
        layer = onnx.helper.make_node(kind, names.split(" "), ["y"], name="layer")
        found = lt.onnx.load(model([node("Unsqueeze", "x one", "u"), layer], arrays))
        with pytest.raises(lt.ShapeError, match=rf"'layer' \({kind} .*{words}"):
            found([np.zeros((2, 3), np.float32)])


def test_an_error_of_a_call_names_the_node() -> None:
    found = lt.onnx.load(model([node("Reshape", "x w", "y")], [array("w", [5, 5])]))
    with pytest.raises(lt.ShapeError, match=r"node 'the Reshape' \(Reshape of ai.onnx, opset 20\)"):
        found([np.zeros((2, 3), np.float32)])


def seeds() -> list[bytes]:
    """Small models of many kinds of messages."""
    branch = helper.make_graph([node("Relu", "x", "r")], "then", [], [value("r")])
    other = helper.make_graph([node("Neg", "x", "n")], "else", [], [value("n")])
    f = helper.make_function("mine", "f", ["a"], ["b"], [
        helper.make_node("LeakyRelu", ["a"], ["b"], alpha=0.5)], [helper.make_opsetid("", 20)])
    made = [
        model([node("Shape", "x", "s"), node("Gather", "s i", "n"), node("Concat", "n m", "t",
                                                                         axis=0),
               node("Reshape", "x t", "u"), node("MatMul", "u w", "y")],
              [array("i", [0]), array("m", [-1]), array("w", np.ones((3, 4), np.float32))]),
        model([node("ReduceSum", "x", "q", keepdims=0), node("Greater", "q z", "c"),
               node("If", "c", "y", then_branch=branch, else_branch=other)],
              [array("z", np.float32(0))]),
        model([helper.make_node("f", ["x"], ["y"], domain="mine")], functions=[f]),
        model([node("Conv", "v k", "y", pads=[1, 1, 1, 1], strides=[1, 1]),
               node("Unsqueeze", "x a", "v")],
              [array("k", np.ones((1, 1, 3, 3), np.float32)), array("a", [0, 1])]),
    ]
    return [m.SerializeToString() for m in made]


def mutated(data: bytes, chance: random.Random) -> bytes:
    """A file cut off, or with bytes changed, left out, doubled, or strewn with large numbers."""
    if chance.random() < 0.2:
        return data[:chance.randrange(len(data))]
    found = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 3, 8))):
        at = chance.randrange(len(found))
        kind = chance.randrange(5)
        if kind == 0:
            found[at] = chance.randrange(256)
        elif kind == 1:
            found[at] ^= 1 << chance.randrange(8)
        elif kind == 2:
            del found[at:at + chance.randrange(1, 9)]
        elif kind == 3:
            found[at:at] = found[at:at + chance.randrange(1, 30)]
        else:
            found[at:at + 1] = b"\xff" * chance.randrange(1, 10) + b"\x01"
        if not found:
            return b""
    return bytes(found)


NUMBERS = (0, 1, -1, 2, 3, 7, 127, -(1 << 31), 1 << 31, (1 << 63) - 1, -(1 << 63))


def rearranged(data: bytes, chance: random.Random) -> bytes:
    """A file whose messages have other numbers and names, or some twice, or some not."""
    whole = onnx.ModelProto.FromString(data)
    found: list[tuple[Any, Any]] = []

    def walk(message: Any) -> None:
        for field, given in message.ListFields():
            found.append((message, field))
            if field.message_type is not None:
                for part in [given] if hasattr(given, "ListFields") else given:
                    walk(part)
    walk(whole)
    names = ["x", "y", "s", "w", "c", ""]
    for _ in range(chance.choice((1, 1, 2, 4))):
        message, field = chance.choice(found)
        given = getattr(message, field.name)
        several = hasattr(given, "append") or hasattr(given, "add")
        new: Any = chance.choice(names) if isinstance(given, str) else chance.choice(NUMBERS)
        try:
            if several and len(given) and chance.random() < 0.5:
                del given[chance.randrange(len(given))]
            elif several:
                if not len(given):
                    continue
                given.extend([given[chance.randrange(len(given))]])
                if isinstance(given[0], int | str):
                    given[0] = chance.choice(names if isinstance(given[0], str) else NUMBERS)
            elif field.message_type is not None or chance.random() < 0.1:
                message.ClearField(field.name)
            else:
                setattr(message, field.name, chance.choice(names).encode()
                        if isinstance(given, bytes) else new)
        except (ValueError, TypeError):  # a number too large for its field
            continue
    return whole.SerializeToString()


@pytest.mark.parametrize("part", range(8))
def test_mutated_files_load_or_are_refused(part: int) -> None:
    """And what loads runs, or says why not."""
    chance = random.Random(part)
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    started = seeds()
    for number in range(60):
        change = rearranged if number % 3 else mutated
        data = change(chance.choice(started), chance)
        try:
            found = lt.onnx.load(data)
            found([x] * len(found.inputs))
        except lt.LazytenError as error:
            assert str(error)
