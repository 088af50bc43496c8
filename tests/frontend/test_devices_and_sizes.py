"""The objects that say where a tensor is and how large: strings and tuples that know more."""
from __future__ import annotations

import copy
import pickle
import threading

import pytest

import lazyten as lt


def test_a_device_is_its_name_and_knows_its_parts() -> None:
    device = lt.device("interpreter:1")
    assert device == "interpreter:1" == lt.device("interpreter", 1) == lt.device(device)
    assert (device.type, device.index) == ("interpreter", 1)
    assert repr(device) == "device(type='interpreter', index=1)" and str(device) == "interpreter:1"
    assert repr(lt.device("CPU:0")) == "device(type='cpu')"
    for copied in (copy.deepcopy(device), pickle.loads(pickle.dumps(device))):
        assert copied == device and isinstance(copied, lt.device)


def test_a_tensor_gives_its_device_as_one() -> None:
    x = lt.ones(2, device=lt.device("interpreter"))
    assert isinstance(x.device, lt.device) and x.device.type == "interpreter"
    assert x.to(lt.device("cpu")).device == "cpu"


def test_no_device_has_this_name() -> None:
    with pytest.raises(lt.DeviceError, match=r"'mps'.*cpu"):
        lt.ones(2, device=lt.device("mps"))
    with pytest.raises(lt.DeviceError, match=r"'abacus'.*cpu"):
        lt.device("abacus")
    with pytest.raises(lt.DeviceError, match="device=3"):
        lt.ones(2, device=3)  # type: ignore[arg-type]


def test_new_tensors_live_on_the_device_of_the_block_in_its_thread() -> None:
    elsewhere: list[str] = []
    with lt.device("interpreter"):
        assert lt.ones(2).device == lt.rand(2).device == "interpreter"
        with lt.device("cpu"):
            assert lt.ones(2).device == "cpu"
        assert lt.get_default_device() == "interpreter"
        thread = threading.Thread(target=lambda: elsewhere.append(lt.ones(2).device))
        thread.start()
        thread.join()
    assert elsewhere == [lt.ones(2).device] == [lt.device.default()]


def test_the_default_device_can_be_set() -> None:
    before = lt.get_default_device()
    lt.set_default_device("interpreter")
    try:
        assert lt.zeros(1).device == "interpreter"
        with pytest.raises(lt.DeviceError):
            lt.set_default_device("nowhere")
        assert lt.zeros(1).device == "interpreter"
    finally:
        lt.set_default_device(None)
    assert lt.zeros(1).device == before


def test_a_jitted_function_is_traced_anew_on_another_default_device() -> None:
    made = lt.jit(lambda x: (x + 1, lt.ones(2)))
    for device in ("cpu", "interpreter", "cpu"):
        with lt.device(device):
            assert made(lt.zeros(2))[1].device == device


def test_sizes_are_tuples_whose_parts_are_sizes() -> None:
    size = lt.ones(2, 3, 4).shape
    assert size == (2, 3, 4) == lt.Size([2, 3, 4]) and size.numel() == 24 and hash(size) == hash(
        (2, 3, 4))
    parts = size[1:], size[:-1] + (5,), (5, *size), size + size, (1,) + size, size * 2  # noqa: RUF005
    assert [type(p) for p in parts] == [lt.Size, lt.Size, tuple, lt.Size, lt.Size, lt.Size]
    assert parts[4] == (1, 2, 3, 4) and size[:2].numel() == 6 and type(size[0]) is int
    for copied in (copy.deepcopy(size), pickle.loads(pickle.dumps(size))):
        assert copied == size and isinstance(copied, lt.Size)
    assert isinstance(lt.ones(2).size(), lt.Size) and lt.zeros(size).shape == size


def test_a_size_is_what_a_jitted_function_depends_on() -> None:
    reshaped = lt.jit(lambda x, size: x.reshape(size) * 2)
    for size in ((3, 2), (6,), (3, 2)):
        assert reshaped(lt.ones(2, 3), lt.Size(size)).shape == size


@pytest.mark.parametrize("kind", ["cpu", "interpreter", "meta", "cuda", "opencl"])
def test_counting_the_devices_of_a_kind_comes_to_an_end(kind: str) -> None:
    count = 0
    with pytest.raises(lt.DeviceError, match=f"the last .* '{kind}:63'"):
        for count in range(1000):
            lt.device(kind, count)
    assert count == 64
