"""PyTorch's files of weights, read by `lt.load` without running what is in them."""
from __future__ import annotations

import io
import pickle
import subprocess
import zipfile
from argparse import Namespace
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest

import lazyten as lt

pytest.importorskip("safetensors")
FORMATS = pytest.mark.parametrize("is_archive", [True, False])
"""Today's, and that of before PyTorch 1.6."""


def read(content: bytes, **options: Any) -> Any:
    return lt.load(io.BytesIO(content), **options)


def written(value: Any, is_archive: bool) -> bytes:
    import torch
    file = io.BytesIO()
    torch.save(value, file, _use_new_zipfile_serialization=is_archive)
    return file.getvalue()


class Order:
    def __reduce__(self) -> Any:
        return subprocess.check_output, (["touch", "/nowhere/at/all"],)


def archive(**files: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        for name, content in files.items():
            made.writestr(f"x/{name.replace('_', '.')}", content)
    return file.getvalue()


def test_what_a_file_would_have_called_is_not_called() -> None:
    old = pickle.dumps(0x1950A86A20F9469CFC6C, 2) + pickle.dumps(1001, 2) + pickle.dumps(
        {"little_endian": True}, 2) + pickle.dumps(Order(), 2)
    for content in (archive(data_pkl=pickle.dumps(Order())), old):
        with pytest.raises(lt.ArgumentError, match=r"names .*check_output.*weights_only"):
            read(content)
        with pytest.raises(pickle.UnpicklingError):
            read(content, weights_only=None)


def test_damaged_and_foreign_archives_are_refused() -> None:
    for files, why in (({"data_pkl": b"\x80\x02}q"}, "cannot be read as a file of PyTorch"),
                       ({"data_pkl": pickle.dumps(1), "byteorder": b"big"}, "highest byte"),
                       ({"data_pkl": b"", "constants_pkl": b""}, "TorchScript")):
        with pytest.raises(lt.ArgumentError, match=why):
            read(archive(**files))


def test_what_a_file_names_has_no_attributes_set_by_it() -> None:
    add, text = lt.Tensor.add, b"X\x03\x00\x00\x00"
    call = b"ctorch._utils\n_rebuild_tensor_v2\n"
    for named, state in ((call, b"}" + text + b"addK\x01s"),
                         (b"ctorch\nTensor\n", b"N}" + text + b"addK\x01s\x86"),
                         (b"ctorch\nfloat32\n", b"N}X\x04\x00\x00\x00name" + text + b"odds\x86"),
                         (b"ctorch\nTensor\n]K\x01a\x85R", b"}" + text + b"newK\x01s")):
        with pytest.raises(pickle.UnpicklingError, match=r"sets attributes of a .*weights_only"):
            read(archive(data_pkl=b"\x80\x02" + named + state + b"b."))
    assert lt.Tensor.add is add and lt.float32.name == "float32"


@pytest.mark.parametrize("of", [
    b"cbuiltins\nint\nX\x01\x00\x00\x00z\x85R",
    b"cbuiltins\nbytearray\n\x8a\x06" + bytes(5) + b"\x40\x85R",
    b"\x82\x01", b"\x95" + b"\xff" * 8, b"\xff", b"J\x01"])
def test_damaged_pickles_are_refused_whatever_they_do(of: bytes) -> None:
    with pytest.raises(lt.ArgumentError, match="cannot be read as a file of PyTorch"):
        read(archive(data_pkl=b"\x80\x02" + of + b"."))


def test_a_part_of_a_storage_is_refused() -> None:
    named = (b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000"
             b"X\x03\x00\x00\x00cpuK\x03X\x01\x00\x00\x001K\x01K\x02\x87tQ.")
    with pytest.raises(lt.ArgumentError, match="as a storage"):
        read(archive(data_pkl=b"\x80\x02" + named, **{"data/0": bytes(12)}))


@pytest.mark.torch
@FORMATS
def test_all_types_are_read(is_archive: bool) -> None:
    torch = pytest.importorskip("torch")
    for name in ("complex64", "complex128", "uint16", "int8", "float8_e5m2"):
        kind = getattr(torch, name)
        found = read(written({"type": kind, "of": torch.ones(2).to(kind)}, is_archive))
        assert found["type"] is found["of"].dtype is getattr(lt, name)


@pytest.mark.torch
@FORMATS
def test_parts_of_nothing_have_their_own_types(is_archive: bool) -> None:
    """PyTorch gives all of them one storage, and names it with each one's type."""
    torch = pytest.importorskip("torch")
    x = torch.zeros(3, 0, dtype=torch.complex64)
    first, second = read(written([x, x.imag], is_archive))
    assert (first.dtype, second.dtype) == (lt.complex64, lt.float32)
    assert first.shape == second.shape == (3, 0)


@pytest.mark.torch
@FORMATS
def test_conjugates_and_negatives_that_pytorch_only_notes_are_values(is_archive: bool) -> None:
    torch = pytest.importorskip("torch")
    z, other = torch.tensor([[1 + 2j, 3 - 4j], [5 + 6j, 7 - 8j]])
    values = [z.conj(), z, z.conj()[1:], other.clone().conj().imag]
    assert values[0].is_conj() and values[3].is_neg()
    for a, b in zip(values, read(written(values, is_archive)), strict=True):
        assert a.tolist() == b.tolist()


@pytest.mark.torch
@FORMATS
def test_a_checkpoint_of_pytorch_is_read(is_archive: bool) -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Conv2d(1, 3, 3), torch.nn.BatchNorm2d(3))
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.rand(2, 1, 4, 4)).sum().backward()
    optimizer.step()
    found = read(written({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                          "epoch": 3, "rng": torch.get_rng_state(), "size": torch.ones(2).shape,
                          "device": torch.device("cpu"), "dtype": torch.float16}, is_archive))
    other = lt.nn.Sequential(lt.nn.Conv2d(1, 3, 3), lt.nn.BatchNorm2d(3))
    assert "All keys" in str(other.load_state_dict(found["model"]))
    for a, b in zip(model.state_dict().values(), other.state_dict().values(), strict=True):
        assert a.tolist() == b.tolist()
    loaded = lt.optim.AdamW(other.parameters())
    loaded.load_state_dict(found["optimizer"])
    assert (found["epoch"], found["size"], found["dtype"]) == (3, lt.Size([2]), lt.float16)
    assert isinstance(found["model"], OrderedDict) and found["device"] == lt.device("cpu")


@pytest.mark.torch
@FORMATS
def test_tensors_have_their_types_and_strides_and_share_memory(is_archive: bool) -> None:
    torch = pytest.importorskip("torch")
    x = torch.arange(24.).reshape(4, 6)
    z = torch.complex(x, x + 1)
    values = [x, x.t(), x[1:3, ::2], x[2], x[3, 1], x[:0], torch.ones(3).to(torch.bfloat16),
              torch.tensor([True, False]), torch.arange(3, dtype=torch.uint8), z.t(), z[1:],
              torch.ones(2, dtype=torch.uint16), torch.tensor(-5), x.half(), x.double().mT,
              torch.ones(2, requires_grad=True), torch.nn.Parameter(x[0])]
    found = read(written(values, is_archive))
    for a, b in zip(values, found, strict=True):
        assert str(a.dtype) == str(b.dtype).replace("lazyten", "torch")
        assert (tuple(a.shape), a.stride(), a.requires_grad) == (
            tuple(b.shape), b.stride(), b.requires_grad)
        assert a.tolist() == b.tolist()
    found[3].fill_(7)
    assert found[0][2].tolist() == [7] * 6 == found[1][:, 2].tolist()
    assert isinstance(found[-1], lt.nn.Parameter)


@pytest.mark.torch
def test_a_tensor_outside_of_its_storage_is_refused() -> None:
    torch = pytest.importorskip("torch")
    content = written(torch.arange(4.).as_strided((2, 2), (2, 1)), True)
    with zipfile.ZipFile(io.BytesIO(content)) as made:
        root = made.namelist()[0].partition("/")[0]
        text = made.read(f"{root}/data.pkl")
        assert text.count(b"K\x02K\x01\x86") == 1
        shorter = made.read(f"{root}/data/0")[:12]
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        made.writestr("x/data.pkl", text)
        made.writestr("x/data/0", shorter)
    with pytest.raises(lt.ArgumentError, match=r"shape \(2, 2\).*damaged"):
        read(file.getvalue())


def of(torch: Any) -> dict[str, tuple[Any, tuple[int, ...]]]:
    nn = torch.nn
    return {"linear": (nn.Linear(3, 2), (4, 3)), "lstm": (nn.LSTM(3, 4, 2), (5, 2, 3)),
            "conv": (nn.Conv2d(2, 3, 3, padding=1, padding_mode="reflect"), (1, 2, 6, 6)),
            "norms": (nn.Sequential(nn.BatchNorm1d(3), nn.LayerNorm(3), nn.GELU()), (4, 3)),
            "encoder": (nn.TransformerEncoder(nn.TransformerEncoderLayer(
                8, 2, 16, 0.0, batch_first=True), 1), (2, 3, 8))}


@pytest.mark.torch
@pytest.mark.parametrize("name", ["linear", "lstm", "conv", "norms", "encoder"])
def test_a_whole_module_of_pytorch_is_one_of_lazyten_if_code_is_allowed(name: str) -> None:
    torch = pytest.importorskip("torch")
    model, shape = of(torch)[name]
    for is_archive in (True, False):
        content = written(model, is_archive)
        with pytest.raises(lt.ArgumentError, match=r"names torch.nn.*weights_only=False"):
            read(content)
        found = read(content, weights_only=False)
        assert isinstance(found, lt.nn.Module)
        values = np.random.default_rng(0).normal(size=shape).astype(np.float32)
        expected, result = model(torch.from_numpy(values)), found(lt.tensor(values))
        if isinstance(expected, tuple):
            expected, result = expected[0], result[0]
        np.testing.assert_allclose(result.detach().numpy(), expected.detach().numpy(), rtol=1e-4,
                                   atol=1e-5)


@pytest.mark.torch
def test_what_else_is_pytorchs_own_is_refused_even_if_code_is_allowed() -> None:
    torch = pytest.importorskip("torch")
    content = written(torch.optim.SGD([torch.ones(1, requires_grad=True)], 0.1), True)
    with pytest.raises(lt.ArgumentError, match=r"torch.optim.sgd.SGD.*state_dict"):
        read(content, weights_only=False)


@pytest.mark.torch
def test_names_that_the_user_calls_safe_are_read() -> None:
    pytest.importorskip("torch")
    content = written({"args": Namespace(lr=0.1)}, True)
    with pytest.raises(lt.ArgumentError, match=r"argparse.Namespace"):
        read(content)
    for safe in (Namespace, (Namespace, "argparse.Namespace")):
        with lt.serialization.safe_globals([safe]):  # type: ignore[attr-defined]
            assert lt.serialization.get_safe_globals() == [Namespace]  # type: ignore[attr-defined]
            assert read(content) == {"args": Namespace(lr=0.1)}
    with pytest.raises(lt.ArgumentError):
        read(content)
