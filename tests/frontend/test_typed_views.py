"""Views of a tensor's memory as another element type, beside NumPy's."""
from __future__ import annotations

import copy
import gc
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensor_values import Array, assert_same

import lazyten as lt

KINDS = ("uint8", "int8", "int16", "int32", "int64", "float32", "float64")
HOST = ("cpu", "interpreter")
"""The devices whose memory is the host's."""


def same_bits(tensor: lt.Tensor, array: Array) -> None:
    assert tensor.shape == array.shape
    assert tensor.numpy().tobytes() == array.tobytes(), (tensor, array)


@pytest.mark.parametrize("on", HOST)
@given(data=st.data())
def test_what_is_written_through_one_type_shows_in_all(on: str, data: st.DataObject) -> None:
    whole = np.arange(48, dtype=np.uint8)
    pairs: list[tuple[lt.Tensor, Array]] = [(lt.tensor(whole, device=on), whole)]
    for _ in range(data.draw(st.integers(1, 8))):
        tensor, array = pairs[data.draw(st.integers(0, len(pairs) - 1))]
        what = data.draw(st.sampled_from(["view", "part", "write", "add", "read"]))
        if what == "view":
            kind = data.draw(st.sampled_from(KINDS))
            try:
                shown = array.view(kind)
            except ValueError:
                with pytest.raises(lt.ShapeError, match=r"^view of "):
                    tensor.view(getattr(lt, kind))
                continue
            pairs.append((tensor.view(getattr(lt, kind)), shown))
        elif what == "part":
            place = slice(data.draw(st.integers(0, 3)), None, data.draw(st.sampled_from([1, 2])))
            pairs.append((tensor[place], array[place]))
        elif what == "write" and array.size:
            at = data.draw(st.integers(0, array.size - 1))
            tensor[at], array[at] = 3, 3
        elif what == "add" and array.dtype.kind != "f":
            tensor += 1
            array += 1
        else:
            same_bits(tensor, array)
    for tensor, array in pairs:
        same_bits(tensor, array)


@pytest.mark.parametrize("on", HOST)
def test_values_that_are_pending_or_one_number_can_be_shown(on: str) -> None:
    x = lt.ones(2, 3, device=on)
    assert x.view(lt.int32).tolist() == [[0x3f800000] * 3] * 2
    y = x * 2
    shown = y.view(dtype=lt.int32)
    y += 6
    assert shown.tolist() == [[0x41000000] * 3] * 2
    assert x.tolist() == [[1.0] * 3] * 2


def test_halves_and_axes_in_another_order() -> None:
    x = lt.tensor([[1.5, 2.0], [-0.0, 4.0]], dtype=lt.bfloat16)
    bits = x.T.view(lt.int16)
    assert bits.tolist() == [[0x3fc0, -0x8000], [0x4000, 0x4080]]
    bits[0, 1] = 0x3f80
    assert x.tolist() == [[1.5, 2.0], [1.0, 4.0]]
    assert x.view(lt.float32).shape == (2, 1)
    pairs = lt.arange(4.0).view(lt.complex64)
    assert pairs.tolist() == [1j, 2 + 3j]


def test_a_part_with_steps_shares_memory_in_another_type() -> None:
    x = lt.arange(12, dtype=lt.uint8)
    odd, last = x[1::2].view(lt.int8), x.reshape(3, 4)[::-2, :2].view(lt.int16)
    x += 1
    assert odd.tolist() == [2, 4, 6, 8, 10, 12]
    assert last.tolist() == [[0x0a09], [0x0201]]
    last.zero_()
    assert x.tolist() == [0, 0, 3, 4, 5, 6, 7, 8, 0, 0, 11, 12]
    assert x[12:].view(lt.int8).shape == x[12:].view(lt.int64).shape == (0,)


def test_an_array_with_gaps_is_shared_in_another_type() -> None:
    array = np.arange(12, dtype=np.int32).reshape(3, 4)[:, 1:3]
    x = lt.from_numpy(array)
    x[1:].view(lt.float32).fill_(1)
    assert array.tolist() == [[1, 2], [0x3f800000] * 2, [0x3f800000] * 2]
    with pytest.raises(lt.ShapeError, match=r"as float32: NumPy has no such view of the array"):
        x[::2].view(lt.float32)


def test_no_gradient_flows_through_another_type() -> None:
    x = lt.tensor([1.0, 2.0], requires_grad=True)
    shown = x.view(lt.int32)
    assert not shown.requires_grad
    shown.zero_()
    assert x.tolist() == [0.0, 0.0]
    (x * 3).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [3.0, 3.0]


def test_an_optimizer_writes_what_is_shown() -> None:
    x = lt.nn.Parameter(lt.tensor([1.0, 2.0]))
    shown, optimizer = x.detach().view(lt.int32), lt.optim.SGD([x], lr=1.0)
    for _ in range(4):
        optimizer.zero_grad()
        x.sum().backward()
        optimizer.step()
        assert_same(shown.numpy(), x.detach().numpy().view(np.int32))
    assert x.tolist() == [-3.0, -2.0]


def test_a_compiled_function_shows_values_of_each_call() -> None:
    @lt.jit
    def exponents(x: lt.Tensor) -> lt.Tensor:
        return (x.view(lt.int32) >> 23) - 127

    for values in ([1.0, 2.0], [8.0, 0.5], [1024.0, 3.0]):
        _, twice = np.frexp(values)
        assert exponents(lt.tensor(values)).tolist() == (twice - 1).tolist()


def test_a_jitted_function_writes_through_another_type_at_its_first_call_too() -> None:
    @lt.jit
    def doubled(x: lt.Tensor) -> lt.Tensor:
        x.view(lt.int32).add_(1 << 23)
        return x * 1

    for value in (1.0, 3.0, 5.0):
        x = lt.full((4,), value)
        assert doubled(x).tolist() == x.tolist() == [2 * value] * 4


def test_memory_is_private_again_when_no_other_type_is_there() -> None:
    x = lt.arange(4.0).realize()
    shown = x.view(lt.int32)
    del shown
    gc.collect()
    x += 1
    assert x.tolist() == [1.0, 2.0, 3.0, 4.0]
    assert x._storage.shared is None
    assert copy.deepcopy(x).tolist() == x.tolist()


@pytest.mark.parametrize("shape, kind, words", (
    ((), lt.int16, r"view of float32 \(\) as int16: .*0d array"),
    ((2, 3), lt.float64, r"view of float32 \(2, 3\) as float64: .*last axis"),
    ((4,), lt.bool_, r"view of float32 \(4,\) as bool: some bytes are neither 0 nor 1")))
def test_what_does_not_fit_is_an_error(shape: Any, kind: lt.DType, words: str) -> None:
    with pytest.raises(lt.LazytenError, match=words):
        lt.ones(shape).view(kind)
    with pytest.raises(lt.ShapeError, match=r"last axis must be contiguous"):
        lt.ones(2, 4).T.view(lt.int16)


def test_memory_that_is_not_the_hosts_has_one_type(device: str) -> None:
    x = lt.ones(3, device=device)
    if device in HOST:
        assert x.view(lt.int32).tolist() == [0x3f800000] * 3
    else:
        with pytest.raises(lt.DTypeError, match=r"not the host's, so it has one type; bitcast\(\)"):
            x.view(lt.int32)
    with pytest.raises(lt.DTypeError, match=r"not the host's"):
        lt.ones(3, device="meta").view(lt.int32)
