"""`lt.utils.tensorboard`: files that TensorBoard shows, under PyTorch's names.

Nothing of TensorBoard is needed to write them; `pip install tensorboard` and
`tensorboard --logdir runs` show them.
"""
from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any, Self

import numpy as np

from lazyten.pytorch.refusals import refused
from lazyten.support.errors import ArgumentError, ShapeError
from lazyten.support.grad_mode import no_grad
from lazyten.support.paths import path_of, write_files, writing
from lazyten.utils import event_summaries as summaries
from lazyten.utils.event_records import double, part, png, record, whole

globals().update(refused(
    "utils.tensorboard", "events are written by SummaryWriter, which has add_scalar, "
    "add_histogram, add_image and others", "RecordWriter"))
__all__ = ["FileWriter", "SummaryWriter"]
_files = count()


class FileWriter:
    """A file of events in a folder, which is made.

    max_queue, flush_secs: it is written after so many events, or seconds, and when it is flushed or
    closed; filename_suffix: what its name ends with. ArgumentError if the folder is none, or
    cannot be written to."""

    def __init__(self, log_dir: str | os.PathLike[str], max_queue: int = 10,
                 flush_secs: float = 120, filename_suffix: str = "") -> None:
        self._folder = path_of(log_dir, "SummaryWriter", "a folder")
        self._most, self._seconds, self._suffix = max_queue, flush_secs, filename_suffix
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ArgumentError(f"SummaryWriter: cannot make the folder {self._folder}: "
                                f"{error}") from error
        self.reopen()

    def get_logdir(self) -> str:
        """The folder."""
        return str(self._folder)

    def reopen(self) -> None:
        """Go on in a new file."""
        name = f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}." \
               f"{os.getpid()}.{next(_files)}{self._suffix}"
        self._path = self._folder / name
        with writing(self._path, "SummaryWriter"):
            self._file = self._path.open("wb")
        self._write(record(double(1, time.time()) + part(3, "brain.Event:2")))
        self.flush()

    def _write(self, content: bytes) -> None:
        with writing(self._path, "SummaryWriter"):
            self._file.write(content)

    def add_event(self, content: bytes, step: Any = None, walltime: float | None = None) -> None:
        """Write one event: a field of it, for a step, at a time in s since 1970."""
        if self._file.closed:
            self.reopen()
        stamp = double(1, time.time() if walltime is None else walltime)
        at = b"" if step is None else whole(2, int(step))
        self._write(record(stamp + at + content))
        self._pending += 1
        if self._pending >= self._most or time.monotonic() - self._flushed > self._seconds:
            self.flush()

    def add_summary(self, summary: bytes, global_step: Any = None,
                    walltime: float | None = None) -> None:
        """Write a `Summary` message."""
        self.add_event(part(5, summary), global_step, walltime)

    def flush(self) -> None:
        """Have all events in the file."""
        if not self._file.closed:
            with writing(self._path, "SummaryWriter"):
                self._file.flush()
        self._pending, self._flushed = 0, time.monotonic()

    def close(self) -> None:
        """End the file; a later event begins another."""
        with writing(self._path, "SummaryWriter"):
            self._file.close()


class SummaryWriter:
    """What training shows of itself, in files of a folder that TensorBoard reads.

    log_dir: the folder, which is made; without one runs/TIME_HOST and `comment`; purge_step: what
    an earlier run wrote from this step on is not shown; the rest as FileWriter. `tag` is always the
    name that a value has, `global_step` when it is of, `walltime` a time in s since 1970. Of a
    tensor values are computed."""

    def __init__(self, log_dir: str | os.PathLike[str] | None = None, comment: str = "",
                 purge_step: int | None = None, max_queue: int = 10, flush_secs: float = 120,
                 filename_suffix: str = "") -> None:
        if not log_dir:
            now = datetime.now().strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", f"{now}_{socket.gethostname()}{comment}")
        self.log_dir = os.fspath(path_of(log_dir, "SummaryWriter", "a folder"))
        self.purge_step = purge_step
        self._options = max_queue, flush_secs, filename_suffix
        self._writers: dict[str, FileWriter] = {}
        self.file_writer: FileWriter | None = self._get_file_writer()
        if purge_step is not None:
            self.file_writer.add_event(part(7, whole(1, 1)), purge_step)  # a session begins

    def _get_file_writer(self) -> FileWriter:
        return self._of(self.log_dir)

    def _of(self, folder: str) -> FileWriter:
        """The file of a folder."""
        if folder not in self._writers:
            self._writers[folder] = FileWriter(folder, *self._options)
        return self._writers[folder]

    @property
    def all_writers(self) -> dict[str, FileWriter]:
        """The files that are written, by their folders."""
        return self._writers

    def get_logdir(self) -> str:
        """The folder."""
        return self.log_dir

    def _add(self, summary: bytes, step: Any, walltime: float | None) -> None:
        self._get_file_writer().add_summary(summary, step, walltime)

    def add_scalar(self, tag: str, scalar_value: Any, global_step: Any = None,
                   walltime: float | None = None, new_style: bool = False,
                   double_precision: bool = False) -> None:
        """A number, or a tensor or an array of one."""
        self._add(summaries.scalar(tag, scalar_value, new_style, double_precision), global_step,
                  walltime)

    def add_scalars(self, main_tag: str, tag_scalar_dict: Mapping[str, Any],
                    global_step: Any = None, walltime: float | None = None) -> None:
        """Several numbers, drawn as one chart: each has a folder of its own."""
        for tag, value in tag_scalar_dict.items():
            folder = os.path.join(self.log_dir, f"{main_tag.replace('/', '_')}_{tag}")
            self._of(folder).add_summary(summaries.scalar(main_tag, value), global_step, walltime)

    def add_histogram(self, tag: str, values: Any, global_step: Any = None,
                      bins: str | Sequence[float] = "tensorflow", walltime: float | None = None,
                      max_bins: int | None = None) -> None:
        """How often values lie where, as numpy.histogram counts them."""
        self._add(summaries.histogram(tag, values, bins, max_bins), global_step, walltime)

    def add_image(self, tag: str, img_tensor: Any, global_step: Any = None,
                  walltime: float | None = None, dataformats: str = "CHW") -> None:
        """An image of floats from 0 to 1 or of uint8. dataformats: what its axes are."""
        pixels = summaries.pixels_of(img_tensor, dataformats, "add_image")
        self._add(summaries.image(tag, pixels), global_step, walltime)

    def add_images(self, tag: str, img_tensor: Any, global_step: Any = None,
                   walltime: float | None = None, dataformats: str = "NCHW") -> None:
        """Images as one, in rows of 8."""
        self.add_image(tag, img_tensor, global_step, walltime, dataformats)

    def add_figure(self, tag: str, figure: Any, global_step: Any = None, close: bool = True,
                   walltime: float | None = None) -> None:
        """A figure of matplotlib, or a list of them. close: whether matplotlib forgets it."""
        import matplotlib.pyplot
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        def drawn(one: Any) -> np.ndarray:
            canvas: Any = FigureCanvasAgg(one)
            canvas.draw()
            shown = np.array(canvas.buffer_rgba())[:, :, :3]
            if close:
                matplotlib.pyplot.close(one)
            return shown

        if isinstance(figure, list):
            self.add_images(tag, np.stack([drawn(one) for one in figure]), global_step, walltime,
                            "NHWC")
        else:
            self.add_image(tag, drawn(figure), global_step, walltime, "HWC")

    def add_audio(self, tag: str, snd_tensor: Any, global_step: Any = None,
                  sample_rate: int = 44100, walltime: float | None = None) -> None:
        """Sound of samples from -1 to 1, so many in a second."""
        self._add(summaries.audio(tag, snd_tensor, sample_rate), global_step, walltime)

    def add_text(self, tag: str, text_string: str, global_step: Any = None,
                 walltime: float | None = None) -> None:
        """A text in Markdown."""
        self._add(summaries.text(tag, text_string), global_step, walltime)

    def add_pr_curve(self, tag: str, labels: Any, predictions: Any, global_step: Any = None,
                     num_thresholds: int = 127, weights: Any = None,
                     walltime: float | None = None) -> None:
        """Precision and recall of predictions, probabilities, where labels are 0 or 1."""
        self._add(summaries.pr_curve(tag, labels, predictions, num_thresholds, weights),
                  global_step, walltime)

    def add_hparams(self, hparam_dict: Mapping[str, Any], metric_dict: Mapping[str, Any],
                    hparam_domain_discrete: Mapping[str, Sequence[Any]] | None = None,
                    run_name: str | None = None, global_step: Any = None) -> None:
        """Hyperparameters (numbers and texts) of a run with the metrics that it came to, in a
        folder below."""
        found = summaries.hyperparameters(hparam_dict, metric_dict, hparam_domain_discrete or {})
        folder = os.path.join(self.log_dir, run_name or str(time.time()))
        with SummaryWriter(folder) as below:
            for summary in found:
                below._add(summary, None, None)
            for name, value in metric_dict.items():
                below.add_scalar(name, value, global_step)

    def add_graph(self, model: Any, input_to_model: Any = None, verbose: bool = False,
                  use_strict_trace: bool = True) -> None:
        """The modules of a model as it calls them, run once on its inputs, a tensor or several."""
        inputs = input_to_model if isinstance(input_to_model, tuple | list) else [input_to_model]
        with no_grad():
            found = summaries.graph(model, lambda: model(*inputs))
        self._get_file_writer().add_event(part(4, found))

    def add_embedding(self, mat: Any, metadata: Sequence[Any] | None = None, label_img: Any = None,
                      global_step: Any = None, tag: str = "default",
                      metadata_header: Sequence[str] | None = None) -> None:
        """Points for the projector, a row each. metadata: a label of each, or several, named by
        `metadata_header`; label_img: an image of each, (N, C, H, W)."""
        points = summaries.array_of(mat, "add_embedding")
        if points.ndim != 2 or (metadata is not None and len(metadata) != len(points)):
            labels = 0 if metadata is None else len(metadata)
            raise ShapeError(f"add_embedding {tag!r}: points of shape {points.shape} with {labels} "
                             f"labels; give a matrix, and a label for each row")
        place = f"{int(global_step or 0):05d}/{tag}"
        folder = Path(self.log_dir) / place
        lines = [f'tensor_name: "{tag}:{place.partition("/")[0]}"',
                 f'tensor_path: "{place}/tensors.tsv"']
        files = {folder / "tensors.tsv": _table(points.tolist()).encode()}
        if metadata is not None:
            rows = [*([metadata_header] if metadata_header else []), *metadata]
            files[folder / "metadata.tsv"] = _table(rows).encode()
            lines.append(f'metadata_path: "{place}/metadata.tsv"')
        if label_img is not None:
            images = summaries.array_of(label_img, "add_embedding")
            files[folder / "sprite.png"] = png(_grid(images))
            lines += ["sprite {", f'image_path: "{place}/sprite.png"',
                      f"single_image_dim: {images.shape[3]}",
                      f"single_image_dim: {images.shape[2]}", "}"]
        with writing(folder, "add_embedding"):
            folder.mkdir(parents=True, exist_ok=True)
        write_files(files, "add_embedding")
        list_of_all = Path(self.log_dir) / "projector_config.pbtxt"
        before = list_of_all.read_text("utf8") if list_of_all.exists() else ""
        entry = "embeddings {\n" + "\n".join(lines) + "\n}\n"
        write_files({list_of_all: (before + entry).encode()}, "add_embedding")

    def flush(self) -> None:
        """Have all events in the files."""
        for writer in self._writers.values():
            writer.flush()

    def close(self) -> None:
        """End the files; a later event begins others."""
        for writer in self._writers.values():
            writer.close()
        self._writers = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


def _grid(images: np.ndarray) -> np.ndarray:
    """The images (N, C, H, W) of points as one, as many in a row as there are rows."""
    side = int(np.ceil(np.sqrt(len(images))))
    filled = np.zeros((side * side, *images.shape[1:]), images.dtype)
    filled[:len(images)] = images
    rows = [summaries.pixels_of(one, "CHW", "add_embedding") for one in filled]
    return np.concatenate([np.concatenate(rows[at:at + side], 1)
                           for at in range(0, side * side, side)], 0)


def _table(rows: Sequence[Any]) -> str:
    """Rows of values, or values, as lines with tabs in between."""
    return "".join("\t".join(str(x) for x in (row if isinstance(row, list | tuple) else [row]))
                   + "\n" for row in rows)
