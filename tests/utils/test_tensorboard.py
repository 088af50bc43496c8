"""Files for TensorBoard, read back field by field: numbers of the fields are those of its protocol
buffers, and the checksums those of its records."""
from __future__ import annotations

import io
import struct
import wave
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lazyten as lt
from lazyten.utils.event_records import checksum, png
from lazyten.utils.tensorboard import FileWriter, SummaryWriter

Fields = dict[int, list[Any]]


def fields(message: bytes) -> Fields:
    """The fields of a message, by their numbers."""
    found, at = defaultdict(list), 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            value |= (message[at] & 127) << shift
            shift += 7
            at += 1
            if message[at - 1] < 128:
                return value

    while at < len(message):
        key = number()
        kind = key & 7
        if kind == 0:
            value: Any = number()
        else:
            length = {1: 8, 5: 4}.get(kind) or number()
            part = message[at:at + length]
            at += length
            value = part if kind == 2 else struct.unpack("<d" if kind == 1 else "<f", part)[0]
        found[key >> 3].append(value)
    return found


def events(folder: Path) -> list[Fields]:
    """The events of a folder's files but the first of each, which names the format."""
    found = []
    for path in sorted(folder.glob("events.out.tfevents.*")):
        content, at = path.read_bytes(), 0
        messages = []
        while at < len(content):
            length, = struct.unpack("<Q", content[at:at + 8])
            messages.append(content[at + 12:at + 12 + length])
            at += 16 + length
        assert at == len(content) and fields(messages[0])[3] == [b"brain.Event:2"]
        found += map(fields, messages[1:])
    return found


def value(event: Fields) -> Fields:
    """The value of a summary's event."""
    return fields(fields(event[5][0])[1][0])


def opened(content: bytes) -> Any:
    """The pixels of a PNG file, as Pillow reads them; skips where that is not installed."""
    return np.asarray(pytest.importorskip("PIL.Image").open(io.BytesIO(content)))


def test_checksums_are_crc32c() -> None:
    assert checksum(b"123456789") == 0xE3069283  # the check value of its catalogue


def test_records_have_masked_checksums_of_length_and_content(tmp_path: Path) -> None:
    SummaryWriter(tmp_path).close()
    content = next(tmp_path.iterdir()).read_bytes()

    def unmasked(masked: bytes) -> int:
        turned = (struct.unpack("<I", masked)[0] - 0xA282EAD8) & 0xFFFFFFFF
        return (turned << 15 | turned >> 17) & 0xFFFFFFFF

    assert unmasked(content[8:12]) == checksum(content[:8])
    assert unmasked(content[-4:]) == checksum(content[12:-4])


def test_numbers_have_tag_step_and_time(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("loss", lt.tensor(1.5, requires_grad=True), 3, walltime=7)
        writer.add_scalar("half", lt.tensor(2.5, dtype=lt.bfloat16), lt.tensor(-1))
        writer.add_scalar("new", np.float32(4), new_style=True)
        writer.add_scalar("double", 1e300, double_precision=True)
    first, second, third, fourth = events(tmp_path)
    assert first[1] == [7] and first[2] == [3] and value(first) == {1: [b"loss"], 2: [1.5]}
    assert second[2] == [2 ** 64 - 1] and value(second)[2] == [2.5]
    assert not third[2] and struct.unpack("<f", fields(value(third)[8][0])[5][0]) == (4,)
    assert struct.unpack("<d", fields(value(fourth)[8][0])[6][0]) == (1e300,)


def test_several_numbers_have_folders_of_their_own(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalars("a/b", {"x": 1.0, "y": lt.tensor(2.0)}, 5)
        assert len(writer.all_writers) == 3
    for name, number in (("a_b_x", 1), ("a_b_y", 2)):
        event, = events(tmp_path / name)
        assert event[2] == [5] and value(event) == {1: [b"a/b"], 2: [number]}


def test_histograms_count_what_numpy_counts(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=50)
    with SummaryWriter(tmp_path) as writer:
        writer.add_histogram("usual", lt.tensor(values))
        writer.add_histogram("six", values, bins=np.linspace(-9, 9, 7).tolist())
        writer.add_histogram("few", values, bins=np.linspace(-9, 9, 8).tolist(), max_bins=2)
    usual, six, few = (fields(value(event)[5][0]) for event in events(tmp_path))
    for found in (usual, six, few):
        assert found[1] == [values.min()] and found[2] == [values.max()] and found[3] == [50]
        np.testing.assert_allclose([found[4][0], found[5][0]], [values.sum(), values @ values])
        counts, bounds = (np.frombuffer(found[n][0]) for n in (7, 6))
        assert counts[0] == 0 and counts[1] > 0 and counts.sum() == 50
        assert counts.size == bounds.size
        expected = np.histogram(values, bounds)[0]
        np.testing.assert_array_equal(counts[1:], expected)
    bounds = np.frombuffer(usual[6][0])
    np.testing.assert_allclose(bounds[-1] / bounds[-2], 1.1)


def test_images_are_png_files(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (4, 5, 3), np.uint8)
    batch = rng.random((9, 1, 2, 3), np.float32)
    with SummaryWriter(tmp_path) as writer:
        writer.add_image("floats", lt.tensor(pixels.transpose(2, 0, 1) / 255).float() + 1e-4)
        writer.add_image("bytes", pixels, dataformats="HWC")
        writer.add_image("grey", pixels[:, :, 0], dataformats="HW")
        writer.add_images("many", lt.tensor(batch))
    shown = [opened(fields(value(event)[4][0])[4][0])
             for event in events(tmp_path)]
    np.testing.assert_array_equal(shown[0], pixels)
    np.testing.assert_array_equal(shown[1], pixels)
    np.testing.assert_array_equal(shown[2], np.repeat(pixels[:, :, :1], 3, 2))
    assert shown[3].shape == (4, 24, 3)
    np.testing.assert_array_equal(shown[3][2:, :3, 1], (batch[8, 0] * 255).astype(np.uint8))
    assert not shown[3][2:, 3:].any()


def test_sound_texts_and_curves(tmp_path: Path) -> None:
    samples = np.linspace(-2, 2, 9, dtype=np.float32)
    with SummaryWriter(tmp_path) as writer:
        writer.add_audio("sound", lt.tensor(samples)[None], sample_rate=8000)
        writer.add_text("note", "**good**", 2)
        writer.add_pr_curve("pr", lt.tensor([1, 0, 1, 1]), lt.tensor([0.9, 0.6, 0.4, 0.1]),
                            num_thresholds=3)
    sound, note, curve = map(value, events(tmp_path))
    with wave.open(io.BytesIO(fields(sound[6][0])[4][0])) as file:
        assert file.getframerate() == 8000 and file.getnchannels() == 1
        np.testing.assert_array_equal(np.frombuffer(file.readframes(9), "<i2"),
                                      (samples.clip(-1, 1) * 32767).astype(np.int16))
    assert note[1] == [b"note/text_summary"] and fields(note[8][0])[8] == [b"**good**"]
    rows = np.frombuffer(fields(curve[8][0])[5][0], "<f4").reshape(6, 3)
    np.testing.assert_allclose(rows, [[3, 1, 0], [1, 1, 0], [0, 0, 1], [0, 2, 3],
                                      [0.75, 0.5, 0], [1, 1 / 3, 0]])


def test_hyperparameters_are_of_a_run_below(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_hparams({"rate": 0.1, "kind": "adam", "none": None, "on": True},
                           {"accuracy": 0.5}, {"kind": ["adam", "sgd"]}, run_name="first",
                           global_step=4)
    described, begun, over, metric = events(tmp_path / "first")
    experiment = fields(fields(fields(fields(value(described)[9][0])[1][0])[2][0])[2][0])
    rate, kind, on = map(fields, experiment[4])
    assert rate == {1: [b"rate"], 4: [3]} and kind[1] == [b"kind"] and kind[4] == [1]
    assert on == {1: [b"on"], 4: [2]}
    assert [fields(x)[3] for x in fields(kind[5][0])[1]] == [[b"adam"], [b"sgd"]]
    assert fields(fields(experiment[5][0])[1][0]) == {2: [b"accuracy"]}
    start = fields(fields(fields(fields(value(begun)[9][0])[1][0])[2][0])[3][0])
    assert [fields(entry)[1][0] for entry in start[1]] == [b"rate", b"kind", b"on"]
    assert fields(fields(start[1][0])[2][0])[2] == [0.1]
    assert fields(fields(start[1][2])[2][0]) == {4: [1]}
    assert value(over)[1] == [b"_hparams_/session_end_info"]
    assert metric[2] == [4] and value(metric) == {1: [b"accuracy"], 2: [0.5]}


def test_a_model_is_a_graph_of_its_modules(tmp_path: Path) -> None:
    model = lt.nn.Sequential(lt.nn.Linear(2, 3), lt.nn.Sequential(lt.nn.ReLU()))
    with SummaryWriter(tmp_path) as writer:
        writer.add_graph(model, lt.zeros(1, 2))
    event, = events(tmp_path)
    first, second = map(fields, fields(event[4][0])[1])
    assert first == {1: [b"Sequential/0"], 2: [b"Linear"]}
    assert second == {1: [b"Sequential/1/0"], 2: [b"ReLU"], 3: [b"Sequential/0"]}
    assert not model[0]._forward_hooks


def test_points_for_the_projector(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as writer:
        writer.add_embedding(lt.tensor([[1.0, 2.0], [3.0, 4.0]]), [("a", 1), ("b", 2)],
                             lt.ones(2, 1, 3, 4), 7, "p", ["name", "size"])
        with pytest.raises(lt.ShapeError, match=r"shape \(2, 2\) with 1 labels"):
            writer.add_embedding(lt.ones(2, 2), ["a"])
    folder = tmp_path / "00007/p"
    assert (folder / "tensors.tsv").read_text() == "1.0\t2.0\n3.0\t4.0\n"
    assert (folder / "metadata.tsv").read_text() == "name\tsize\na\t1\nb\t2\n"
    assert opened((folder / "sprite.png").read_bytes()).shape == (6, 8, 3)
    assert 'tensor_path: "00007/p/tensors.tsv"' in (tmp_path / "projector_config.pbtxt").read_text()


def test_a_figure_is_an_image(tmp_path: Path) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    with SummaryWriter(tmp_path) as writer:
        writer.add_figure("plot", pyplot.figure(figsize=(2, 1), dpi=50))
    image = fields(value(events(tmp_path)[0])[4][0])
    assert image[1] == [50] and image[2] == [100]


def test_events_are_in_the_file_once_there_are_enough_of_them(tmp_path: Path) -> None:
    writer = FileWriter(tmp_path, max_queue=2, filename_suffix=".mine")
    writer.add_summary(b"", 1)
    assert not events(tmp_path)
    writer.add_summary(b"", 2)
    assert len(events(tmp_path)) == 2
    writer.close()
    writer.add_summary(b"", 3)
    writer.flush()
    assert len(events(tmp_path)) == 3 and len(list(tmp_path.glob("*.mine"))) == 2


def test_the_folder_has_a_usual_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    writer = SummaryWriter(comment="_try", purge_step=3)
    writer.close()
    assert writer.get_logdir().startswith("runs") and writer.log_dir.endswith("_try")
    event, = events(Path(writer.log_dir))
    assert event[2] == [3] and fields(event[7][0]) == {1: [1]}


def test_what_cannot_be_shown_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(lt.ArgumentError, match="cannot make the folder"):
        SummaryWriter(tmp_path / "file")
    writer = SummaryWriter(tmp_path)
    with pytest.raises(lt.ShapeError, match=r"'loss': values of shape \(2,\); give one number"):
        writer.add_scalar("loss", lt.ones(2))
    with pytest.raises(lt.DTypeError, match="str 'x' holds no real numbers"):
        writer.add_scalar("loss", "x")
    with pytest.raises(lt.ArgumentError, match="NaN or infinite values"):
        writer.add_histogram("h", lt.tensor([1.0, float("nan")]))
    with pytest.raises(lt.ArgumentError, match="no value lies within the bins"):
        writer.add_histogram("h", lt.ones(3), bins=[2.0, 3.0])
    with pytest.raises(lt.ShapeError, match=r"shape \(2, 3\) with dataformats='CHW'"):
        writer.add_image("i", lt.ones(2, 3))
    with pytest.raises(lt.ShapeError, match="2 channels"):
        writer.add_image("i", lt.ones(2, 3, 3))
    with pytest.raises(lt.ShapeError, match="add_hparams 'sizes': values of shape"):
        writer.add_hparams({"sizes": lt.ones(2)}, {})
    with pytest.raises(lt.ShapeError, match="2 labels and 3 predictions"):
        writer.add_pr_curve("c", lt.ones(2), lt.ones(3))
    writer.close()


def test_png_files_are_read_as_they_were_written() -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (3, 2, 3), np.uint8)
    np.testing.assert_array_equal(opened(png(pixels)), pixels)
