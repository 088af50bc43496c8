"""Tensors that share memory with NumPy arrays and PyTorch tensors: what is written to one shows in
the other, at once, and what was computed before keeps its value."""
from __future__ import annotations

import array as arrays
import gc
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch_if_there import torch

import lazyten as lt
from lazyten.storage.placement import default_device
from lazyten.storage.shared_memory import FEW_BYTES

Array = np.ndarray[Any, Any]


HOSTS = ["cpu", "interpreter"]
"""The devices in the host's memory, which can share it."""


@pytest.fixture(params=HOSTS, scope="session")
def host(request: pytest.FixtureRequest) -> str:
    """Each of them."""
    name: str = request.param
    return name


@pytest.fixture(autouse=True, scope="module")
def _on_a_host() -> Iterator[None]:
    """What names no device is on one of them."""
    with pytest.MonkeyPatch.context() as patch:
        if default_device() not in HOSTS:
            patch.setenv("DEVICE", "cpu")
        yield


BASE = np.arange(12, dtype=np.float32).reshape(3, 4)
RECORDS = np.array([(1.5, 2), (3.5, 4)], [("a", "f4"), ("b", "i8")])
KINDS: dict[str, Callable[[], Array]] = {
    "contiguous": BASE.copy, "transposed": lambda: BASE.copy().T,
    "permuted": lambda: np.arange(24.0).reshape(2, 3, 4).transpose(1, 2, 0),
    "columns": lambda: BASE.copy()[:, 1::2], "negative strides": lambda: BASE.copy()[::-1, ::-2],
    "byte-swapped": lambda: BASE.astype(">f4"), "swapped integers": lambda: np.arange(5).astype(
        ">i2")[::2], "a field": lambda: RECORDS.copy()["a"], "zero-dim": lambda: np.array(3.0),
    "half": lambda: BASE.astype("f2"), "bools": lambda: BASE > 4,
    "misaligned": lambda: np.frombuffer(bytearray(25), np.float64, 3, 1)}


@pytest.mark.parametrize("kind", KINDS)
def test_an_array_of_any_layout_shares_its_memory(kind: str, host: str) -> None:
    array = KINDS[kind]()
    x = lt.as_tensor(array, device=host)
    before = x + 0 if array.dtype != bool else ~~x
    array[...] = 1
    assert x.dtype is lt.promote_types(array.dtype.name, array.dtype.name)
    np.testing.assert_array_equal(x.numpy(), array)
    np.testing.assert_array_equal(before.numpy(), KINDS[kind]())
    x.zero_()
    assert not array.any()
    assert before.tolist() == KINDS[kind]().tolist()


@pytest.mark.torch
def test_every_maker_that_can_share_does_and_tensor_copies(monkeypatch: pytest.MonkeyPatch,
                                                           host: str) -> None:
    monkeypatch.setenv("DEVICE", host)
    array = np.ones(3)
    shared = [lt.from_numpy(array), lt.as_tensor(array), lt.asarray(array), lt.from_dlpack(array),
              lt.frombuffer(array, dtype=lt.float64), lt.as_tensor(torch.from_numpy(array))]
    copies = [lt.tensor(array), lt.Tensor(array), lt.as_tensor(array, dtype=lt.float32),
              lt.as_tensor([array]), lt.as_tensor(array[0])]
    array[:] = 5
    assert [x.tolist() for x in shared] == [[5.0] * 3] * 6
    shared[0].mul_(2)
    assert [x.tolist() for x in shared] == [[10.0] * 3] * 6
    assert [x.max().item() for x in copies] == [1.0] * 5
    assert shared[0].data_ptr() == shared[3].data_ptr() == array.ctypes.data
    assert shared[0][1:].data_ptr() == array[1:].ctypes.data


@pytest.mark.torch
@pytest.mark.parametrize("make", [lambda: BASE.copy().T, lambda: np.zeros((2, 3, 4)).transpose(
    2, 0, 1), lambda: np.zeros((1, 5)), lambda: np.zeros((4, 1, 3)).T])
def test_strides_of_an_array_without_gaps_are_kept(make: Callable[[], Array]) -> None:
    ours, theirs = lt.from_numpy(make()), torch.from_numpy(make())
    assert ours.is_contiguous() == theirs.is_contiguous()
    assert [s for s, n in zip(ours.stride(), ours.shape, strict=True) if n > 1] == [
        s for s, n in zip(theirs.stride(), theirs.shape, strict=True) if n > 1]


def test_an_empty_array_makes_an_empty_tensor(host: str) -> None:
    x = lt.as_tensor(np.zeros((0, 2), np.int8), device=host)
    assert x.shape == (0, 2) and x.add_(1).tolist() == []
    assert np.from_dlpack(x).shape == np.asarray(x, copy=False).shape == (0, 2)


def read_only() -> Array:
    array = np.arange(3.0)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize("make", [lt.from_numpy, lt.as_tensor, lambda a: lt.frombuffer(
    a.tobytes(), dtype=lt.float64)])
def test_a_read_only_array_is_warned_of_and_not_written(make: Callable[[Array], lt.Tensor]) -> None:
    array = read_only()
    with pytest.warns(UserWarning, match="read-only") as caught:
        x = make(array)
    assert caught[0].filename == __file__
    assert (x + 1).tolist() == [1.0, 2.0, 3.0]
    for write in (lambda: x.add_(1), lambda: x[1:].zero_(), lambda: lt.jit(lambda x: x.add_(1))(x)):
        with pytest.raises(lt.ArgumentError, match=r"clone\(\)"):
            write()
    assert x.tolist() == array.tolist() == [0.0, 1.0, 2.0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert lt.tensor(array).add_(1).tolist() == [1.0, 2.0, 3.0]


def test_elements_that_an_array_shows_twice_are_read_and_not_written() -> None:
    array = np.zeros(4)
    x = lt.from_numpy(np.lib.stride_tricks.as_strided(array, (3, 2), (8, 8)))
    array[1] = 7
    assert x.tolist() == [[0, 7], [7, 0], [0, 0]]
    with pytest.raises(lt.ArgumentError, match="more than once"):
        x.add_(1)


@pytest.mark.parametrize(("array", "words"), [
    (RECORDS, r"array\['a'\]"), (np.array([1, None]), "object"),
    (np.array(["a"]), "astype"), (np.array(["2026-01-01"], "M8[D]"), "astype")])
def test_what_is_no_array_of_numbers_is_refused(array: Array, words: str) -> None:
    for make in (lt.from_numpy, lt.as_tensor, lt.tensor):
        with pytest.raises(lt.DTypeError, match=words):
            make(array)


def test_buffers_of_other_kinds_are_shared() -> None:
    memory = arrays.array("i", [1, 2, 3, 4])
    x = lt.frombuffer(memory, dtype=lt.int32, count=2, offset=4)
    memory[1] = 9
    assert x.tolist() == [9, 3]
    x[1] = 0
    assert memory.tolist() == [1, 9, 0, 4]
    with pytest.raises(lt.ArgumentError, match="offset=3"):
        lt.frombuffer(memory, dtype=lt.int32, offset=3)
    with pytest.raises(lt.ArgumentError, match="int"):
        lt.frombuffer(5, dtype=lt.int32)


@pytest.mark.parametrize(("dtype", "one"), [(lt.bfloat16, 0x3F80), (lt.float8_e4m3fn, 0x38)])
def test_buffers_of_types_that_numpy_lacks_are_shared(dtype: lt.DType, one: int) -> None:
    memory = np.full(3, one, dtype.numpy)
    x = lt.frombuffer(memory, dtype=dtype)
    assert x.dtype is dtype and x.float().tolist() == [1, 1, 1]
    memory[1] = 0
    assert x.float().tolist() == [1, 0, 1]
    x[0] = 0
    assert memory.tolist() == [0, 0, one]


# ---- a tensor's own memory -----------------------------------------------------------------------

VIEWS = [lambda x: x, lambda x: x.T, lambda x: x[1:, ::2], lambda x: x[0, 0], lambda x: x[:0],
         lambda x: x[:, ::-1]]
TYPES = ["float32", "float64", "float16", "int8", "int64", "uint8", "bool"]


@pytest.mark.torch
@pytest.mark.parametrize("number", range(len(VIEWS)))
@pytest.mark.parametrize("dtype", TYPES)
def test_dlpack_gives_numpy_and_torch_the_values(number: int, dtype: str, host: str) -> None:
    x = VIEWS[number](lt.arange(12, device=host).reshape(3, 4).to(dtype=dtype))
    assert x.__dlpack_device__() == (1, 0)
    found = np.from_dlpack(x)
    assert found.dtype.name == dtype
    np.testing.assert_array_equal(found, x.numpy())
    if number < 5:  # torch has no negative strides
        assert torch.from_dlpack(x).tolist() == x.tolist()
    back = lt.from_dlpack(found)
    assert back.tolist() == x.tolist() and back.dtype is x.dtype


@pytest.mark.torch
@pytest.mark.parametrize("number", [0, 1, 2, 3, 5])
def test_writes_to_what_dlpack_gives_show_both_ways(number: int, host: str) -> None:
    base = lt.arange(12.0, device=host).reshape(3, 4)
    x = VIEWS[number](base)
    array = np.from_dlpack(x)
    before = base * 1
    array[...] = -1
    assert (x == -1).all().item() and (base == -1).sum().item() == x.numel()
    base.add_(5)
    assert (array == 4).all()
    np.testing.assert_array_equal(np.asarray(x, copy=False), array)
    assert before.sum().item() == 66
    if number < 5:
        other = torch.from_dlpack(x)
        other.mul_(2)
        assert (array == 8).all() and (x == 8).all().item()


@pytest.mark.torch
def test_memory_that_was_given_lives_as_long_as_it_is_used_and_is_left_when_it_is_not() -> None:
    x = lt.arange(1000, device="cpu") * 3
    array, other = np.from_dlpack(x[10:]), torch.from_dlpack(x)
    assert array.ctypes.data == x[10:].data_ptr() and other.data_ptr() == x.data_ptr()
    del x
    gc.collect()
    noise = [lt.full((1000,), 7, device="cpu").clone().add_(1).realize() for _ in range(5)]
    assert len(noise) == 5
    assert array.tolist() == [3 * n for n in range(10, 1000)]
    y = lt.ones(3, device="cpu")
    given = np.from_dlpack(y)
    given[1] = 5
    assert y._storage.shared is not None
    del given
    assert y.tolist() == [1, 5, 1] and y._storage.shared is None
    z = lt.as_tensor(np.ones(3), device="cpu")
    assert (z + 1).tolist() == [2, 2, 2] and z._storage.shared is None


def test_the_owner_of_an_array_may_write_after_the_array_is_gone(host: str) -> None:
    owner = np.zeros(4)
    x = lt.as_tensor(owner[1:], device=host)
    assert x.tolist() == [0, 0, 0]
    owner[:] = 3
    assert x.tolist() == [3, 3, 3]
    buffer = bytearray(24)
    y = lt.as_tensor(np.frombuffer(buffer), device=host)
    assert y.tolist() == [0, 0, 0]
    buffer[6:8] = b"\xf0\x3f"
    assert y.tolist() == [1, 0, 0]


def test_numpy_is_a_copy_and_sharing_must_be_asked_for(host: str) -> None:
    x = lt.arange(4.0, device=host)
    copies = [x.numpy(), np.asarray(x), np.array(x), np.from_dlpack(x, copy=True)]
    shared = np.asarray(x, copy=False)
    x.zero_()
    assert [c.tolist() for c in copies] == [[0, 1, 2, 3]] * 4
    assert not shared.any()
    with pytest.raises(lt.ArgumentError, match="copy=False"):
        np.asarray(x, np.float64, copy=False)
    with pytest.raises(lt.ArgumentError, match="copy=False"):
        np.asarray(x.bfloat16(), copy=False)


def test_numpys_functions_give_tensors_and_no_gradient_is_lost_unseen() -> None:
    x = lt.tensor([1.0, 4.0], dtype=lt.float64)
    for found, expected in ((np.sqrt(x), [1, 2]), (np.add(x, x), [2, 8]), (np.sqrt(x[1]), 2),
                            (np.maximum(np.array([2.0, 2.0]), x), [2, 4]), (np.argmax(x), 1),
                            (np.isnan(x), [False, False])):
        assert isinstance(found, lt.Tensor) and found.tolist() == expected
    x.requires_grad_()
    assert np.argmax(x).item() == 1 and np.isnan(x).dtype is lt.bool
    with pytest.raises(lt.GradientError, match=r"sqrt of NumPy .* x\.detach\(\)"):
        np.sqrt(x)
    with lt.no_grad():
        assert np.sqrt(x).tolist() == [1, 2]


@pytest.mark.torch
def test_a_tensor_comes_from_torch_by_dlpack_and_shares() -> None:
    theirs = torch.arange(6).reshape(2, 3)
    ours = lt.from_dlpack(theirs.T)
    theirs.add_(1)
    assert ours.tolist() == [[1, 4], [2, 5], [3, 6]] and ours.stride() == (1, 3)
    ours[0].zero_()
    assert theirs.tolist() == [[0, 2, 3], [0, 5, 6]]
    with pytest.raises(lt.DTypeError, match="Tensor"):
        lt.from_dlpack(torch.ones(2, dtype=torch.bfloat16))


@pytest.mark.parametrize("size", [3, FEW_BYTES])
@pytest.mark.parametrize("value", [-0.0, np.nan, 0.0])
def test_every_change_of_bits_outside_is_seen(value: float, size: int, host: str) -> None:
    array = np.zeros(size)
    x = lt.as_tensor(array, device=host)
    assert not np.signbit((x * 1.0).numpy()).any()
    array[1] = value
    np.testing.assert_array_equal((x * 1.0).numpy(), array)
    np.testing.assert_array_equal(np.signbit((x * 1.0).numpy()), np.signbit(array))


# ---- gradients, jit and training -----------------------------------------------------------------

@pytest.mark.torch
def test_gradients_flow_to_a_leaf_over_shared_memory_as_in_torch(host: str) -> None:
    def slopes(make: Callable[[Array], Any], realize: Callable[..., Any]) -> list[Any]:
        array = np.array([1.0, 2.0])
        x = make(array).requires_grad_()
        y = x * 3
        array[:] = [5, 7]
        (y + x * x).sum().backward()
        first = x.grad.tolist()
        (y2,) = (x.clone(),)
        y2.mul_(x)
        return [first, y2.tolist(), array.tolist()]

    assert slopes(lambda a: lt.as_tensor(a, device=host), lt.realize) == slopes(
        torch.from_numpy, torch.tensor)


def test_a_write_from_outside_leaves_the_gradient_of_what_was_there(host: str) -> None:
    w = lt.tensor([2.0, 3.0], device=host, requires_grad=True)
    array = np.array([1.0, 1.0], np.float32)
    x = lt.as_tensor(array, device=host)
    x.mul_(w)
    assert array.tolist() == [2, 3] and x.requires_grad
    array[0] = 10
    (x * 2).sum().backward()
    assert x.tolist() == [10, 3]
    assert w.grad is not None and w.grad.tolist() == [2, 2]


def test_an_optimizer_updates_the_array(host: str) -> None:
    array = np.array([1.0, 2.0], np.float32)
    x = lt.as_tensor(array, device=host).requires_grad_()
    optimizer = lt.optim.SGD([x], lr=0.5)
    for expected in ([0.0, 0.0], [0.0, 0.0]):
        optimizer.zero_grad()
        (x * x).sum().backward()
        optimizer.step()
        assert array.tolist() == expected


def test_a_jitted_function_reads_arrays_at_each_call_and_writes_them(host: str) -> None:
    array, closed = np.zeros(3), np.zeros(3)
    x, y = lt.as_tensor(array, device=host), lt.as_tensor(closed, device=host)

    @lt.jit
    def step(x: lt.Tensor) -> lt.Tensor:
        y.add_(1)
        x.add_(y)
        return x * 2

    found = []
    for number in range(4):
        array[0], closed[1] = number, -number
        found.append(step(x))
        assert array[0] == number + number + 1 and closed[1] == 1 - number
    assert [f.tolist()[0] for f in found] == [2.0, 6.0, 10.0, 14.0]
    np.testing.assert_array_equal(x.numpy(), array)


def test_a_tensor_is_not_written_where_computing_fails(host: str) -> None:
    array = np.arange(3.0)
    x = lt.as_tensor(array, device=host)
    with pytest.raises(lt.IndexingError):
        x.copy_(lt.arange(3.0, device=host)[lt.tensor([0, 1, 9], device=host) + 0])
    assert x.tolist() == array.tolist() == [0, 1, 2]


# ---- as torch, whatever happens ------------------------------------------------------------------

ACTIONS = st.lists(st.tuples(
    st.sampled_from(["array", "part", "add_", "view", "other", "record", "look", "export", "drop",
                     "given", "detach"]),
    st.integers(-5, 5), st.integers(0, 99)), min_size=2, max_size=12)
PARTS: list[Callable[[Any], Any]] = [lambda x: x[1], lambda x: x[:, 1:], lambda x: x[::2],
                                     lambda x: x.T, lambda x: x[0, 1:3]]


class Sharers:
    """Aliases of one array in a library: tensors, views, what was recorded, what was exported."""

    def __init__(self, make: Callable[[Array], Any], export: Callable[[Any], Array]) -> None:
        self.array = np.arange(12.0).reshape(3, 4)
        self.make, self.export = make, export
        self.tensors, self.given = [make(self.array)], [self.array]
        self.recorded: list[Any] = []

    def act(self, name: str, value: int, which: int) -> Any:
        """Do one thing; gives what can be seen of it."""
        x = self.tensors[which % len(self.tensors)]
        if name == "array":
            self.array[...] += value
        elif name == "part":
            PARTS[which % 5](self.array)[...] *= value
        elif name == "add_":
            x.add_(value)
        elif name == "view":
            y = PARTS[which % 5](self.tensors[0])
            y.mul_(2)
            self.tensors.append(y)
        elif name == "other":
            self.tensors.append(self.make(self.array))
        elif name == "detach":
            self.tensors.append(x.detach())
        elif name == "record":
            self.recorded.append(x * value)
        elif name == "export":
            self.given.append(self.export(x))
        elif name == "drop" and len(self.given) > 1:
            self.given.pop()
        elif name == "given":
            self.given[which % len(self.given)][...] -= value
        elif name == "look":
            return [x.tolist(), x.sum().item()]
        return None

    def seen(self) -> list[Any]:
        """All there is to see."""
        return [x.tolist() for x in [*self.tensors, *self.recorded, *self.given]]


@pytest.mark.torch
@given(actions=ACTIONS)
def test_sharing_is_torchs_whatever_is_done(host: str, actions: Any) -> None:
    ours = Sharers(lambda a: lt.as_tensor(a, device=host), np.from_dlpack)
    theirs = Sharers(torch.from_numpy, np.from_dlpack)
    for action in actions:
        assert ours.act(*action) == theirs.act(*action)
    assert ours.seen() == theirs.seen()


@pytest.mark.torch
@given(actions=ACTIONS)
def test_a_tensors_own_memory_is_shared_as_torchs_is(host: str, actions: Any) -> None:
    """The tensor is there first, and the array is what it exports."""
    def start(make: Callable[[Array], Any]) -> Sharers:
        result = Sharers(make, np.from_dlpack)
        result.tensors = [make(np.arange(12.0).reshape(3, 4)) + 0]
        result.array = np.from_dlpack(result.tensors[0])
        result.make = lambda a: result.tensors[0].detach()
        result.given = [result.array]
        return result

    ours = start(lambda a: lt.tensor(a, device=host))
    theirs = start(torch.tensor)
    for action in actions:
        assert ours.act(*action) == theirs.act(*action)
    assert ours.seen() == theirs.seen()


def test_a_value_that_an_equal_one_was_computed_for_shares_its_memory(host: str) -> None:
    x = lt.tensor([1.0, 2.0], device=host)
    first, second = x * 2 + 1, x * 2 + 1
    assert first._storage.value is second._storage.value  # as graphs, outside of a frame
    assert first.tolist() == [3, 5]  # now the memory of both
    array = np.from_dlpack(second)
    second.add_(10)
    assert second.tolist() == array.tolist() == [13, 15]
    array = np.from_dlpack(second.add_(1))
    second *= x
    assert second.tolist() == array.tolist() == [14, 32] and first.tolist() == [3, 5]


# ---- storages as programs see them ---------------------------------------------------------------

def test_a_storage_is_a_row_of_elements_that_views_share() -> None:
    x = lt.arange(6.0).reshape(2, 3)
    row = x[1].storage()
    assert (row.size(), len(row), row.element_size(), row.nbytes()) == (6, 6, 4, 24)
    assert row.dtype is lt.float32 and row[2] == 2 and row[4:] == [4, 5]
    assert row == x.storage() and row.untyped() == x.untyped_storage()
    row[0] = 9
    assert x.tolist() == [[9, 1, 2], [3, 4, 5]] and row.tolist()[:2] == [9, 1]
    assert isinstance(row, lt.TypedStorage) and "6 of float32" in repr(row)


def test_set_shows_the_elements_of_another_tensor_or_storage() -> None:
    x, y = lt.arange(6.0).reshape(2, 3), lt.zeros(2)
    y.set_(x)
    y[0, 0] = 5
    assert x.tolist() == [[5, 1, 2], [3, 4, 5]]
    y.set_(x.untyped_storage(), 1, (2, 2))
    assert y.tolist() == [[1, 2], [3, 4]]
    y.set_(x.untyped_storage(), 1, (2, 2), (1, 3))
    y += 10
    assert x.tolist() == [[5, 11, 12], [3, 14, 15]]
    assert y.set_(x.storage()).shape == (6,) and y.set_(x, 3, (2,), (2,)).tolist() == [3, 15]
    assert y.set_(x[1], 1, (2,), (1,)).tolist() == [14, 15]
    with pytest.raises(lt.ArgumentError, match="storage_offset -1 is before"):
        y.set_(x[1], -1, (2,), (1,))
    for sizes, strides in (((3,), None), ((3,), (1,))):
        with pytest.raises(lt.LazytenError, match=r"2 elements|5 elements|storage"):
            y.set_(x[1], 1, sizes, strides)
    assert y.set_().shape == (0,) and y.dtype is lt.float32
    with pytest.raises(lt.DTypeError, match="set_ of float32 to int64"):
        y.set_(lt.ones(2, dtype=lt.int64))


def test_data_that_is_assigned_is_shared_unless_gradients_are_required() -> None:
    x, y = lt.ones(2), lt.arange(6.0)
    x.data = y[::2]
    x += 1
    assert y.tolist() == [1, 1, 3, 3, 5, 5] and x.shape == (3,)
    one, other = lt.nn.Linear(2, 2), lt.nn.Linear(2, 2)
    one.weight.data = lt.eye(2)
    kept = one.weight.data
    one.weight.data = lt.zeros(2, 2)
    one.weight.data = kept  # its own of before
    assert one.weight.tolist() == [[1, 0], [0, 1]] and one.weight.requires_grad
    with pytest.warns(UserWarning, match="copies it"):
        one.weight.data = other.weight.data
    assert one.weight.tolist() == other.weight.tolist()


def test_functions_of_python_are_called_for_each_element() -> None:
    assert lt.ones(2).apply_(lambda a: a + 3).tolist() == [4, 4]
    x = lt.arange(4).reshape(2, 2)
    assert x.map_(lt.tensor([1, 2]), lambda a, b: a * b) is x and x.tolist() == [[0, 2], [2, 6]]
    assert x.map2_(x, lt.tensor(1), lambda a, b, c: a + b + c).tolist() == [[1, 5], [5, 13]]
    assert lt.ones(2, dtype=lt.bfloat16).apply_(lambda a: 3 * a).tolist() == [3, 3]
    with pytest.raises(lt.GradientError, match="apply_ of tensors that require"):
        lt.ones(2, requires_grad=True).apply_(lambda a: a)
