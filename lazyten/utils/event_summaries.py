"""What TensorBoard shows, as messages of its files: numbers, histograms, images, texts and others.

In: numbers, arrays or tensors. Out: bytes, a `Summary` message. The numbers of the fields are those
of TensorBoard's `summary.proto`, `tensor.proto`, `graph.proto` and `plugins/hparams/*.proto`.
"""
from __future__ import annotations

import io
import wave
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from lazyten.frontend.tensor import Tensor
from lazyten.support.errors import ArgumentError, DTypeError, ShapeError
from lazyten.utils.event_records import double, numbers, part, png, single, varint, whole

FLOAT, DOUBLE, STRING = 1, 2, 7
"""Element types of tensors in messages."""
_COLUMNS = 8
"""How many images of a batch stand in a row."""


def array_of(value: Any, operation: str) -> np.ndarray:
    """A tensor, an array, or numbers, as an array; DTypeError for what holds no numbers."""
    found = value.detach().cpu() if isinstance(value, Tensor) else value
    if isinstance(found, Tensor):
        found = found.float() if found.dtype.is_float and found.itemsize < 4 else found
        found = found.numpy()
    array = np.asarray(found)
    if array.dtype.kind not in "biuf":
        raise DTypeError(f"{operation}: {type(value).__name__} {value!r:.60} holds no real "
                         f"numbers; give a number, an array or a tensor")
    return array


def _summary(tag: str, *fields: bytes) -> bytes:
    return part(1, part(1, str(tag)) + b"".join(fields))


def _metadata(plugin: str, content: bytes = b"") -> bytes:
    return part(9, part(1, part(1, plugin) + part(2, content)))


def _tensor(dtype: int, shape: Iterable[int], content: bytes) -> bytes:
    sizes = b"".join(part(2, whole(1, size)) for size in shape)
    return part(8, whole(1, dtype) + part(2, sizes) + content)


def scalar(tag: str, value: Any, new_style: bool = False, double_precision: bool = False) -> bytes:
    """One number. new_style: as a tensor, by which TensorBoard keeps more of the points."""
    array = array_of(value, "add_scalar")
    if array.size != 1:
        raise ShapeError(f"add_scalar {tag!r}: values of shape {array.shape}; give one number, "
                         f"such as x.mean()")
    number = float(array.reshape(()))
    if double_precision:
        return _summary(tag, _metadata("scalars"), _tensor(DOUBLE, (), numbers(6, [number], "<f8")))
    if new_style:
        return _summary(tag, _metadata("scalars"), _tensor(FLOAT, (), numbers(5, [number], "<f4")))
    return _summary(tag, single(2, number))


@cache
def _usual_bounds() -> tuple[float, ...]:
    """Bounds of a histogram's bins which grow by a tenth each, on both sides of 0."""
    above = []
    bound = 1e-12
    while bound < 1e20:
        above.append(bound)
        bound *= 1.1
    return (*(-bound for bound in reversed(above)), 0.0, *above)


def histogram(tag: str, values: Any, bins: str | Sequence[float] = "tensorflow",
              max_bins: int | None = None) -> bytes:
    """How often values lie where. bins: 'tensorflow' for bounds that grow by a tenth each, another
    word or bounds as numpy.histogram takes them; max_bins: neighbours are put together until there
    are at most some as many."""
    array = array_of(values, "add_histogram").reshape(-1).astype(np.float64)
    if not array.size or not np.isfinite(array).all():
        what = "NaN or infinite values" if array.size else "no values"
        raise ArgumentError(f"add_histogram {tag!r}: {what}; give finite ones, such as "
                            f"x[x.isfinite()]")
    counts, bounds = np.histogram(
        array, np.asarray(_usual_bounds()) if isinstance(bins, str) and bins == "tensorflow"
        else bins)
    if max_bins is not None and len(counts) > max_bins:
        step = len(counts) // max_bins
        bounds = np.append(bounds[:-1:step], bounds[-1])
        counts = np.add.reduceat(counts, range(0, len(counts), step))
    filled = np.flatnonzero(counts)
    if not filled.size:
        raise ArgumentError(f"add_histogram {tag!r}: no value lies within the bins, from "
                            f"{bounds[0]} to {bounds[-1]}; give bins that values lie in")
    first, end = int(filled[0]), int(filled[-1]) + 1
    shown = [0, *counts[first:end]]  # a bin is told by its upper bound; an empty one, the lowest
    return _summary(tag, part(5, double(1, array.min()) + double(2, array.max())
                              + double(3, array.size) + double(4, array.sum())
                              + double(5, float(array @ array))
                              + numbers(6, bounds[first:end + 1], "<f8")
                              + numbers(7, shown, "<f8")))


def pixels_of(value: Any, axes: str, operation: str) -> np.ndarray:
    """An image, or a batch of them in rows of 8, as uint8 of shape (height, width, 3).

    value: floats from 0 to 1, or uint8; axes: what each axis is, letters of 'NCHW'."""
    array, axes = array_of(value, operation), axes.upper()
    if array.ndim != len(axes) or len(set(axes)) != len(axes) \
            or not {"H", "W"} <= set(axes) <= set("NCHW"):
        raise ShapeError(f"{operation}: an image of shape {array.shape} with dataformats={axes!r}; "
                         f"give one letter of N, C, H and W for each axis")
    if array.dtype != np.uint8:
        floats = np.nan_to_num(array.astype(np.float32)) * np.float32(255)
        array = floats.clip(0, 255).astype(np.uint8)
    whole_axes = "".join(name for name in "NCHW" if name not in axes) + axes
    array = array.reshape((1,) * (4 - array.ndim) + array.shape)
    array = array.transpose([whole_axes.index(name) for name in "NHWC"])
    if array.shape[3] not in (1, 3, 4):
        raise ShapeError(f"{operation}: images of {array.shape[3]} channels; give 1 or 3, as in "
                         f"x[:, :3], or dataformats= that say which axis they are")
    array = np.repeat(array, 3, 3) if array.shape[3] == 1 else array[..., :3]
    count, height, width, _ = array.shape
    columns = min(count, _COLUMNS)
    rows = -(-count // columns)
    grid = np.zeros((rows * columns, height, width, 3), np.uint8)
    grid[:count] = array
    return grid.reshape(rows, columns, height, width, 3).swapaxes(1, 2).reshape(
        rows * height, columns * width, 3)


def image(tag: str, pixels: np.ndarray) -> bytes:
    """An image of what `pixels_of` gives."""
    height, width, _ = pixels.shape
    return _summary(tag, part(4, whole(1, height) + whole(2, width) + whole(3, 3)
                              + part(4, png(pixels))))


def audio(tag: str, value: Any, sample_rate: int) -> bytes:
    """Sound. value: samples from -1 to 1, one axis longer than 1; sample_rate: in 1/s."""
    samples = array_of(value, "add_audio").squeeze()
    if samples.ndim != 1:
        raise ShapeError(f"add_audio {tag!r}: samples of shape {np.shape(value)}; give one channel")
    file = io.BytesIO()
    with wave.open(file, "wb") as written:
        written.setnchannels(1)
        written.setsampwidth(2)
        written.setframerate(int(sample_rate))
        written.writeframes((samples.clip(-1, 1) * 32767).astype("<i2").tobytes())
    return _summary(tag, part(6, single(1, sample_rate) + whole(2, 1) + whole(3, samples.size)
                              + part(4, file.getvalue()) + part(5, "audio/wav")))


def text(tag: str, content: str) -> bytes:
    """A text in Markdown."""
    return _summary(f"{tag}/text_summary", _metadata("text"),
                    _tensor(STRING, (1,), part(8, str(content))))


def pr_curve(tag: str, labels: Any, predictions: Any, thresholds: int, weights: Any) -> bytes:
    """Precision and recall of predictions from 0 to 1, at `thresholds` (at most 127) bounds, from
    the counts of what is right or wrong above each and below."""
    thresholds = min(thresholds, 127)
    truth, found = (array_of(x, "add_pr_curve").reshape(-1).astype(np.float64)
                    for x in (labels, predictions))
    if truth.shape != found.shape:
        raise ShapeError(f"add_pr_curve {tag!r}: {truth.size} labels and {found.size} predictions; "
                         f"give as many of each")
    weight = 1.0 if weights is None else array_of(weights, "add_pr_curve").reshape(-1)
    places = np.floor(found * (thresholds - 1)).astype(np.int64).clip(0, thresholds - 1)

    def above(kind: np.ndarray) -> Any:
        counts = np.bincount(places, kind * weight, thresholds)
        return counts[::-1].cumsum()[::-1]

    hit, wrong = above(truth), above(1 - truth)
    least = 1e-7  # of a divisor
    rows = np.stack([hit, wrong, wrong[0] - wrong, hit[0] - hit,
                     hit / np.maximum(least, hit + wrong), hit / np.maximum(least, hit[0])])
    return _summary(tag, _metadata("pr_curves", whole(2, thresholds)),
                    _tensor(FLOAT, rows.shape, numbers(5, rows.reshape(-1), "<f4")))


def hyperparameters(given: Mapping[str, Any], metrics: Iterable[str],
                    choices: Mapping[str, Sequence[Any]]) -> list[bytes]:
    """Three messages: which hyperparameters and metrics there are, what they are in this run, and
    that it is over. choices: all values that one may have."""
    values: dict[str, tuple[int, bytes]] = {
        name: _parameter(name, value) for name, value in given.items() if value is not None}
    described = b"".join(
        part(4, part(1, name) + whole(4, kind) + (part(5, b"".join(
            part(1, _parameter(name, choice)[1]) for choice in choices[name]))
            if name in choices else b"")) for name, (kind, _) in values.items())
    measured = b"".join(part(5, part(1, part(2, name))) for name in metrics)
    begun = b"".join(part(1, part(1, name) + part(2, value)) for name, (_, value) in values.items())
    parts: tuple[tuple[str, int, bytes], ...] = (
        ("experiment", 2, described + measured), ("session_start_info", 3, begun),
        ("session_end_info", 4, whole(1, 1)))
    return [_summary(f"_hparams_/{name}", _metadata("hparams", part(number, content)))
            for name, number, content in parts]


def _parameter(name: str, value: Any) -> tuple[int, bytes]:
    """The type of a hyperparameter (text, a truth value or a number), and its value as a message.
    """
    if isinstance(value, str):
        return 1, part(3, value)
    if isinstance(value, bool):
        return 2, whole(4, value)
    array = array_of(value, f"add_hparams {name!r}")
    if array.size != 1:
        raise ShapeError(f"add_hparams {name!r}: values of shape {array.shape}; give one number, a "
                         f"text, or str(value)")
    return 3, double(2, float(array.reshape(())))


def graph(module: Any, run: Callable[[], object]) -> bytes:
    """The modules below one, as they are called while `run` runs, as nodes of a `GraphDef`: each
    reads what those before it have made of tensors."""
    names = {below: f"{type(module).__name__}/{name.replace('.', '/')}".rstrip("/")
             for name, below in module.named_modules()}
    made: dict[int, tuple[object, str]] = {}
    nodes: list[bytes] = []

    def called(below: Any, inputs: tuple[Any, ...], output: Any) -> None:
        sources = dict.fromkeys(made[id(x)][1] for x in inputs if id(x) in made)
        if not any(True for _ in below.children()):
            nodes.append(part(1, part(1, names[below]) + part(2, type(below).__name__)
                              + b"".join(part(3, source) for source in sources)))
            for x in output if isinstance(output, tuple | list) else (output,):
                made[id(x)] = x, names[below]

    hooks = [below.register_forward_hook(called) for below in names]
    try:
        run()
    finally:
        for hook in hooks:
            hook.remove()
    return b"".join(nodes) + part(4, b"\x08" + varint(22))  # the version of what graphs are
