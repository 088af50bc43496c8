"""Views beside NumPy's: random chains of indexing and movement; writes seen through all views."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensor_values import Array, as_tensor, assert_same, computed

import lazyten as lt

Pair = tuple[lt.Tensor, Array]
Step = Callable[[Any], Any]


# ---- random moves --------------------------------------------------------------------------------

def draw_slice(draw: st.DrawFn, n: int) -> slice:
    ends = st.none() | st.integers(-n - 2, n + 2)
    return slice(draw(ends), draw(ends), draw(st.sampled_from([None, 1, 2, 3, -1, -2, -3])))


def draw_index(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Integers and slices for some axes, with Nones and an Ellipsis among them."""
    entries: list[Any] = []
    used = draw(st.integers(0, len(shape)))
    dots = draw(st.none() | st.integers(0, used))
    for place in range(used):
        if place == dots:
            entries.append(Ellipsis)
        if draw(st.integers(0, 4)) == 0:
            entries.append(None)
        axis = place if dots is None or place < dots else len(shape) - used + place
        n = shape[axis]
        integer = n > 0 and draw(st.booleans())
        entries.append(draw(st.integers(-n, n - 1)) if integer else draw_slice(draw, n))
    if dots == used:
        entries.append(Ellipsis)
    return tuple(entries)


def draw_split(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Another shape of the same number of elements."""
    total = int(np.prod(shape))
    if total == 0:
        return draw(st.sampled_from([(0,), (0, 3), (2, 0)]))
    sizes: list[int] = []
    while total > 1 and len(sizes) < 3:
        factor = draw(st.sampled_from([d for d in range(1, total + 1) if total % d == 0]))
        sizes.append(factor)
        total //= factor
    return (*sizes, total)


def draw_move(draw: st.DrawFn, x: Pair, views_only: bool) -> Pair:
    """One move of a tensor and of an array: NumPy's must be a view where `views_only`."""
    t, a = x
    axis = draw(st.integers(-a.ndim, a.ndim - 1)) if a.ndim else 0
    kind = draw(st.sampled_from(["index", "permute", "transpose", "flip", "squeeze", "unsqueeze",
                                 "reshape", "expand", "split", "narrow", "unflatten"]))
    if kind == "index":
        index = draw_index(draw, a.shape)
        whole = index if Ellipsis in index else (*index, ...)  # NumPy's zero-dim result is a view
        return t[index], a[whole]
    if kind == "permute":
        order = draw(st.permutations(range(a.ndim)))
        return t.permute(order), a.transpose(order)
    if kind == "unsqueeze":
        place = draw(st.integers(-a.ndim - 1, a.ndim))
        return t.unsqueeze(place), np.expand_dims(a, place)
    if kind == "squeeze":
        return t.squeeze(), a.squeeze()
    if kind == "reshape":
        shape = draw_split(draw, a.shape)
        if views_only and not np.shares_memory(a.reshape(shape), a):
            return x
        return t.reshape(shape), a.reshape(shape)
    if not a.ndim:
        return x
    if kind == "transpose":
        other = draw(st.integers(0, a.ndim - 1))
        return t.transpose(axis, other), a.swapaxes(axis, other)
    if kind == "flip":
        return t[(*(slice(None),) * (axis % a.ndim), slice(None, None, -1))], np.flip(a, axis)
    if kind == "split":
        size = draw(st.integers(1, 4))
        parts = t.split(size, axis)
        cuts = list(range(size, a.shape[axis], size))
        which = draw(st.integers(0, len(parts) - 1))
        return parts[which], np.split(a, cuts, axis)[which]
    if kind == "narrow":
        start = draw(st.integers(0, a.shape[axis]))
        length = draw(st.integers(0, a.shape[axis] - start))
        taken = tuple(slice(None) if i != axis % a.ndim else slice(start, start + length)
                      for i in range(a.ndim))
        return t.narrow(axis, start, length), a[taken]
    if kind == "expand" and not views_only:
        shape = (draw(st.integers(1, 2)), *(3 if n == 1 else n for n in a.shape))
        return t.expand(shape), np.broadcast_to(a, shape)
    return x


@st.composite
def chains(draw: st.DrawFn, device: str = "interpreter") -> Pair:
    """A tensor and an array after the same random moves."""
    shape = draw(st.lists(st.integers(0, 5), min_size=0, max_size=4).map(tuple))
    values = np.arange(int(np.prod(shape)), dtype=np.int32).reshape(shape)
    x: Pair = as_tensor(values, device), values
    for _ in range(draw(st.integers(1, 5))):
        x = draw_move(draw, x, views_only=False)
        if x[1].size > 2000:
            break
    return x


@given(x=chains())
def test_random_chains_of_views_match_numpy(x: Pair) -> None:
    assert x[0].shape == x[1].shape
    assert_same(x[0].numpy(), x[1])


@given(x=chains())
def test_computing_with_random_views_matches_numpy(x: Pair) -> None:
    assert_same((x[0] * 2 + 1).numpy(), x[1] * 2 + 1)


@given(data=st.data())
def test_compiled_kernels_read_random_views_as_numpy_does(data: st.DataObject) -> None:
    chosen = [data.draw(chains("cpu")) for _ in range(3)]
    results = {str(i): t * 2 + 1 for i, (t, _) in enumerate(chosen)}
    found = computed(results)
    for i, (_, a) in enumerate(chosen):
        assert_same(found[str(i)], a * 2 + 1)


# ---- writing through views -----------------------------------------------------------------------

def write(draw: st.DrawFn, x: Pair) -> None:
    """The same random write through a view of a tensor and of an array."""
    t, a = x
    value = draw(st.integers(-9, 9))
    kind = draw(st.sampled_from(["set", "fill_", "add_", "mul_", "copy_", "index", "mask"]))
    if kind == "set":
        t[...] = value
        a[...] = value
    elif kind == "fill_":
        t.fill_(value)
        a.fill(value)
    elif kind == "add_":
        t += value
        np.add(a, value, out=a)
    elif kind == "mul_":
        t.mul_(value)
        np.multiply(a, value, out=a)
    elif kind == "copy_":
        source = np.arange(a.size, dtype=a.dtype).reshape(a.shape) + value
        t.copy_(as_tensor(source, t.device))
        a[...] = source
    elif kind == "index":
        index = draw_index(draw, a.shape)
        t[index] = value
        a[index] = value
    else:
        t[t > value] = value
        a[a > value] = value


@st.composite
def programs(draw: st.DrawFn, device: str = "interpreter") -> list[Pair]:
    """Views of one storage and of one array, after random views of views and writes."""
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple))
    values = np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape)
    views: list[Pair] = [(as_tensor(values, device), values)]
    for _ in range(draw(st.integers(2, 8))):
        chosen = draw(st.sampled_from(views))
        if draw(st.booleans()):
            views.append(draw_move(draw, chosen, views_only=True))
        else:
            write(draw, chosen)
        if draw(st.integers(0, 5)) == 0:
            chosen[0].realize()
    return views


@given(views=programs())
def test_random_programs_of_views_and_writes_match_numpy(views: list[Pair]) -> None:
    for number, (t, a) in enumerate(views):
        assert_same(t.numpy(), a, f"view {number}")


@given(views=programs(device="cpu"))
def test_compiled_programs_of_views_and_writes_match_numpy(views: list[Pair]) -> None:
    for number, (t, a) in enumerate(views):
        assert_same(t.numpy(), a, f"view {number}")


def test_a_value_read_before_a_write_stays(device: str) -> None:
    x = lt.zeros(3, device=device)
    before, copy = x + 1, x.clone()
    x[0] = 5
    x += 1
    lt.realize(before, copy, x)
    assert before.tolist() == [1, 1, 1] and copy.tolist() == [0, 0, 0]
    assert x.tolist() == [6, 1, 1]


def test_writing_to_one_line_of_an_expanded_view_changes_all_as_in_torch() -> None:
    x = lt.zeros(1, 3)
    x.expand(2, 3)[1] = 5
    assert x.tolist() == [[5.0, 5.0, 5.0]]


def test_writing_to_an_expanded_view_of_no_elements_writes_nothing() -> None:
    x = lt.ones(1, 3)
    for view in (x[:, 3:].expand(2, 0), x.unfold(1, 2, 1)[:0], x.as_strided((2, 0), (0, 1))):
        view.fill_(5)
        view += 1
    assert x.tolist() == [[1, 1, 1]]


def test_writing_to_an_expanded_view_is_refused() -> None:
    with pytest.raises(lt.ShapeError, match="more than once"):
        lt.zeros(1, 3).expand(2, 3)[:] = 1
    with pytest.raises(lt.ShapeError, match="more than once"):
        lt.zeros(3, 1).expand(3, 2).add_(1)


def test_assignment_broadcasts_and_converts(device: str) -> None:
    x, a = lt.zeros(2, 3, dtype=lt.int32, device=device), np.zeros((2, 3), np.int32)
    x[:, 1:] = [[7, 8]]
    a[:, 1:] = [[7, 8]]
    x[0] = lt.tensor([1.0, 2.0, 3.0], device=device).int()
    a[0] = [1, 2, 3]
    assert_same(x.numpy(), a)
    y = lt.zeros(2, device=device)
    y[0] = 3
    y[1] = lt.tensor(2, device=device)
    assert y.tolist() == [3, 2] and y.dtype is lt.float32
    with pytest.raises(lt.ShapeError):
        x[0] = [1, 2]


def test_overlapping_writes_read_the_old_values(device: str) -> None:
    x, a = lt.arange(6, device=device), np.arange(6)
    x[1:] = x[:-1]
    a[1:] = a[:-1].copy()
    x.copy_(x.flip(0) + x)
    a = a[::-1] + a
    assert_same(x.numpy(), a)


# ---- index arrays --------------------------------------------------------------------------------

def test_index_arrays_and_gather_match_numpy(device: str) -> None:
    values = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    x = as_tensor(values, device)
    index = np.array([[2, 0], [-1, 1]])
    into = np.random.default_rng(0).integers(0, 3, (2, 5, 4))
    found = computed({
        "middle": x[:, as_tensor(index, device)], "list": x[[1, 0, 1]],
        "select": x.index_select(2, as_tensor([3, 3, 0], device)),
        "gather": x.gather(1, as_tensor(into, device)), "bools": (x > 5)[as_tensor([1], device)],
        "slices": x[:1, :, as_tensor([1, 2], device)]})
    assert_same(found["middle"], values[:, index])
    assert_same(found["list"], values[[1, 0, 1]])
    assert_same(found["select"], values[:, :, [3, 3, 0]])
    assert_same(found["gather"], np.take_along_axis(values, into, 1))
    assert_same(found["bools"], (values > 5)[[1]])
    assert_same(found["slices"], values[:1, :, [1, 2]])


def test_infinities_and_nans_do_not_leak_through_index_arrays(device: str) -> None:
    x = as_tensor(np.float32([np.nan, np.inf, 3]), device)
    assert x[as_tensor([2, 1], device)].tolist() == [3, np.inf]


@pytest.mark.parametrize("index", [7, -4, (0, 0, 0), (..., ...), 1.5, (True, 0, 0, 0),
                                   slice(0, 2, 0), "a", (None, 5)])
def test_wrong_indices_are_refused(index: Any) -> None:
    with pytest.raises(lt.IndexingError):
        lt.zeros(3, 4)[index]


@pytest.mark.parametrize("index, error", [
    (slice(0, 2, 0), ValueError), (slice(0.0, 2.0), TypeError), (([0, 1], [0, 1, 2]), IndexError),
    (np.array([0.0, 1.0]), IndexError)], ids=["step of 0", "float parts", "shapes", "floats"])
def test_wrong_indices_are_errors_of_pythons_own_kinds(index: Any, error: type[Exception]) -> None:
    with pytest.raises(error) as caught:
        lt.zeros(3, 4)[index]
    assert isinstance(caught.value, lt.IndexingError)


def test_tensors_without_axes_have_no_length_as_numbers_have_none() -> None:
    for x in (lt.tensor(1.0), lt.tensor(1j)):
        with pytest.raises(TypeError, match="zero-dim"):
            len(x)
        with pytest.raises(TypeError, match="zero-dim"):
            iter(x)


@pytest.mark.parametrize("element", ["a", None])
def test_what_is_no_number_cannot_be_looked_for_in_a_tensor(element: Any) -> None:
    with pytest.raises(lt.DTypeError, match="give a number or a tensor"):
        element in lt.ones(2)  # noqa: B015


def test_elements_cannot_be_deleted() -> None:
    for x in (lt.zeros(3), lt.zeros(3, dtype=lt.complex64)):
        with pytest.raises(lt.DTypeError, match="index what is to stay"):
            del x[0]


@pytest.mark.filterwarnings("ignore:index at")
def test_tensors_of_uint8_are_masks_as_in_torch(device: str) -> None:
    values = np.arange(12.0).reshape(3, 4)
    rows = np.array([1, 0, 2], np.uint8)
    x = as_tensor(values, device)
    assert_same(x[as_tensor(rows, device)].numpy(), values[rows != 0])
    assert_same(x[rows].numpy(), values[rows != 0])
    assert_same(x[as_tensor(rows, device), 1].numpy(), values[rows != 0, 1])
    assert_same(x[lt.tensor(1, dtype=lt.uint8, device=device)].numpy(), values[None])
    places = (values > 5).astype(np.uint8)
    assert_same(x[as_tensor(places, device)].numpy(), values[values > 5])
    both = lt.complex(x, x)[as_tensor(places, device)]
    assert_same(both.imag.numpy(), values[values > 5])
    x[as_tensor(rows, device)] = -1
    values[rows != 0] = -1
    assert_same(x.numpy(), values)


def test_an_index_of_uint8_says_that_it_is_a_mask() -> None:
    with pytest.warns(UserWarning, match="taken as a mask"):
        lt.zeros(2)[lt.tensor([1, 0], dtype=lt.uint8)]


@pytest.mark.parametrize("index", [
    ((0, 1), (1, 0)), ([0, 2], ([0], [1])), (slice(None), (3, 0)), ((True, False, True),), ((),)])
def test_tuples_in_an_index_are_index_arrays(index: Any, device: str) -> None:
    values = np.arange(12.0).reshape(3, 4)
    x = as_tensor(values, device)
    as_lists = tuple(list(e) if isinstance(e, tuple) else e for e in index)
    wanted = [np.zeros(0, np.int64) if e == [] else e for e in as_lists]
    assert_same(x[index].numpy(), values[tuple(wanted)])
    x[index] = -1
    values[tuple(wanted)] = -1
    assert_same(x.numpy(), values)


def test_bool_masks_can_be_read_through_and_written(device: str) -> None:
    x = lt.arange(4, device=device)
    assert x[x > 1].tolist() == [2, 3]
    x[x > 1] = 0
    assert x.tolist() == [0, 1, 0, 0]


@pytest.mark.parametrize("index", [
    (True,), (False, ...), (slice(1, None), True), (..., True), (None, False), (True, None, True),
    ([0, 2], True), (np.array([True, False, True]), True), (True, np.array([1, 0, 1]), [0, 1, 2])])
def test_bools_without_axes_are_masks_of_an_axis_of_their_own(index: Any, device: str) -> None:
    values = np.arange(12.0).reshape(3, 4)
    x = as_tensor(values, device)
    assert_same(x[index].numpy(), values[index])
    x[index] = -1
    values[index] = -1
    assert_same(x.numpy(), values)


# ---- moves that are not views --------------------------------------------------------------------

def test_repeat_roll_pad_stack_and_cat_match_numpy(device: str) -> None:
    values = np.arange(6.0).reshape(2, 3)
    x = as_tensor(values, device)
    found = computed({
        "repeat": x.repeat(2, 3), "wide": x.repeat(2, 1, 2), "roll": lt.roll(x, 1, 1),
        "back": lt.roll(x, -4, 1), "pad": x.pad((1, 2)), "pads": x.pad((1, 0, 0, 2), -1.5),
        "cut": x.pad((-1, 1)), "stack": lt.stack([x, x + 1], -1), "cat": lt.cat([x, x[:, :1]], 1),
        "tril": lt.tril(x), "triu": lt.triu(x, 1), "stack0": lt.stack([x, x]),
        "empty": lt.cat([x[:0], x, x[:0]])})
    assert_same(found["repeat"], np.tile(values, (2, 3)))
    assert_same(found["wide"], np.tile(values, (2, 1, 2)))
    assert_same(found["roll"], np.roll(values, 1, 1))
    assert_same(found["back"], np.roll(values, -4, 1))
    assert_same(found["pad"], np.pad(values, ((0, 0), (1, 2))))
    assert_same(found["pads"], np.pad(values, ((0, 2), (1, 0)), constant_values=-1.5))
    assert_same(found["cut"], np.pad(values[:, 1:], ((0, 0), (0, 1))))
    assert_same(found["stack"], np.stack([values, values + 1], -1))
    assert_same(found["stack0"], np.stack([values, values]))
    assert_same(found["cat"], np.concatenate([values, values[:, :1]], 1))
    assert_same(found["tril"], np.tril(values))
    assert_same(found["triu"], np.triu(values, 1))
    assert_same(found["empty"], values)


def test_repeat_interleave_of_counts_alone_gives_positions(device: str) -> None:
    counts = np.array([2, 0, 3])
    assert_same(lt.repeat_interleave(as_tensor(counts, device)).numpy(),
                np.repeat(np.arange(3), counts))
    for wrong in (lt.tensor([1, -2]), lt.tensor([1.0]), lt.ones(2, 2, dtype=lt.int64)):
        with pytest.raises(lt.ArgumentError, match="repeat_interleave"):
            lt.repeat_interleave(wrong)


def test_a_grid_needs_a_vector() -> None:
    with pytest.raises(lt.ArgumentError, match="meshgrid of no tensors"):
        lt.meshgrid()


def test_new_tensors_match_numpys(device: str) -> None:
    made = {
        "arange": (lt.arange(2, 11, 3, device=device), np.arange(2, 11, 3)),
        "down": (lt.arange(5, 0, -2, device=device), np.arange(5, 0, -2)),
        "floats": (lt.arange(0, 1, 0.125, device=device), np.arange(0, 1, 0.125, np.float32)),
        "none": (lt.arange(3, 3, device=device), np.arange(0)),
        "linspace": (lt.linspace(-1, 2, 7, device=device), np.linspace(-1, 2, 7, dtype=np.float32)),
        "one": (lt.linspace(4, 9, 1, device=device), np.float32([4])),
        "eye": (lt.eye(2, 3, device=device), np.eye(2, 3, dtype=np.float32)),
        "full": (lt.full((2, 1), 7, device=device), np.full((2, 1), 7)),
        "zeros": (lt.zeros(2, 0, dtype=lt.int8, device=device), np.zeros((2, 0), np.int8)),
        "like": (lt.ones_like(lt.zeros(3, device=device), dtype=lt.bool_), np.ones(3, bool))}
    found = computed({n: t for n, (t, _) in made.items()})
    for name, (_, expected) in made.items():
        assert_same(found[name], expected, name)


def test_parts_have_numpys_sizes() -> None:
    x = lt.arange(10)
    assert [p.numel() for p in x.split(4)] == [4, 4, 2]
    assert [p.tolist() for p in x.split([3, 0, 7])] == [[0, 1, 2], [], list(range(3, 10))]
    assert [p.numel() for p in x.chunk(4)] == [3, 3, 3, 1]
    assert [p.item() for p in x.unbind()] == list(range(10))
    with pytest.raises(lt.ShapeError):
        x.split([3, 3])
    with pytest.raises(lt.ArgumentError):
        x.split(0)
    with pytest.raises(lt.IndexingError):
        x.narrow(0, 8, 3)
    for start, length in ((True, 2), (0, True), (lt.tensor([1]), 2)):
        with pytest.raises(lt.DTypeError, match=r"narrow: start=.* are whole numbers"):
            x.narrow(0, start, length)
    assert x.narrow(0, lt.tensor(-2), 2).tolist() == [8, 9]


def test_a_position_in_an_array_without_elements_is_refused() -> None:
    with pytest.raises(lt.ShapeError, match=r"unravel_index of 1 positions .* no elements"):
        lt.unravel_index(lt.tensor(0), (2, 0))
    assert [i.shape for i in lt.unravel_index(lt.zeros(0, dtype=lt.int64), (2, 0))] == [(0,), (0,)]


@pytest.mark.parametrize("call", [
    lambda x: x.reshape(5), lambda x: x.reshape(-1, -1), lambda x: x.reshape(4, -1),
    lambda x: x.view(7), lambda x: x.T.view(6), lambda x: x.permute(0, 0), lambda x: x.permute(0),
    lambda x: x.transpose(0, 2), lambda x: x.expand(4, 3), lambda x: x.expand(3),
    lambda x: x.squeeze(3), lambda x: x.unsqueeze(4), lambda x: x.flip(2), lambda x: x.pad((1,)),
    lambda x: x.pad((-4, 0)), lambda x: lt.cat([x, x.T]), lambda x: lt.stack([x, x.T]),
    lambda x: lt.cat([]), lambda x: x.flatten(1, 0), lambda x: x.repeat(2), lambda x: x.unflatten(
        1, (2, 2)), lambda x: lt.zeros(-1), lambda x: lt.arange(0, 1, 0), lambda x: x.mm(x),
    lambda x: lt.linspace(0, 1, -1), lambda x: len(x.sum())])
def test_wrong_moves_are_refused_with_a_lazyten_error(call: Callable[[lt.Tensor], Any]) -> None:
    with pytest.raises(lt.LazytenError) as info:
        call(lt.zeros(2, 3))
    assert not isinstance(info.value, lt.InternalError)


# ---- devices -------------------------------------------------------------------------------------

def test_equal_constants_on_two_devices_are_two_values() -> None:
    here = lt.arange(4, device="cpu") * 3
    there = lt.arange(4, device="interpreter") * 3
    assert here.tolist() == there.tolist() == [0, 3, 6, 9]
    assert (here + 1).tolist() == (there + 1).tolist() == [1, 4, 7, 10]


def test_tensors_move_between_devices(device: str) -> None:
    other = "interpreter" if device == "cpu" else "cpu"
    x = lt.arange(6, device=device).reshape(2, 3).T
    moved = x.to(other)
    assert moved.device == other and moved.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert (moved + 1).to(device).sum().item() == 21
    assert x.to(device) is x and x.to(lt.int64) is x
    with pytest.raises(lt.DeviceError, match="nowhere"):
        x.to(device="nowhere")


def test_storages_that_are_shared_have_one_number() -> None:
    x, other = lt.arange(4.0), lt.arange(4.0)
    first, second = x.untyped_storage(), x[1:].untyped_storage()
    assert first.data_ptr() == second.data_ptr() != other.untyped_storage().data_ptr()
    assert first.size() == len(second) == second.nbytes() == 16 and first.element_size() == 1
    assert first.device == x.device and first.device.type == x.device.type


def test_a_diagonal_is_filled_in_all_axes_and_again_below_a_row(device: str) -> None:
    def filled(*shape: int, wrap: bool = False) -> list[list[int]]:
        x = lt.zeros(*shape, device=device)
        assert x.fill_diagonal_(1, wrap) is x
        return np.argwhere(x.numpy()).tolist()  # type: ignore[no-any-return]
    assert filled(3, 3, 3) == [[i, i, i] for i in range(3)]
    assert filled(7, 3) == filled(3, 7) == filled(3, 7, wrap=True) == [[i, i] for i in range(3)]
    for rows, columns in ((7, 3), (8, 3), (5, 4), (9, 1)):
        expected = np.zeros((rows, columns))
        np.fill_diagonal(expected, 1, wrap=True)
        assert filled(rows, columns, wrap=True) == np.argwhere(expected).tolist()
    x = lt.zeros(3, 7, device=device)
    x.t().fill_diagonal_(2.0, wrap=True)
    assert x.nonzero().tolist() == [[0, 0], [0, 4], [1, 1], [1, 5], [2, 2], [2, 6]]
    with pytest.raises(lt.ShapeError, match=r"fill_diagonal_ of shape \(2, 3, 2\)"):
        filled(2, 3, 2)


def test_a_tensor_is_reversed_along_its_first_axis(device: str) -> None:
    x = lt.arange(6, device=device).reshape(2, 3)
    assert reversed(x).tolist() == [[3, 4, 5], [0, 1, 2]]  # type: ignore[call-overload]
    assert reversed(lt.tensor(1.5, device=device)).item() == 1.5  # type: ignore[call-overload]
    pairs = lt.tensor([1 + 2j, 3], device=device)
    assert reversed(pairs).tolist() == [3, 1 + 2j]  # type: ignore[call-overload]


def test_a_view_as_the_type_that_there_is_is_a_view() -> None:
    x = lt.zeros(2)
    x.view(lt.float32).add_(1)
    assert x.tolist() == [1.0, 1.0]


def test_an_axis_without_elements_has_as_many_chunks_as_asked_for() -> None:
    assert [part.shape for part in lt.zeros(3, 0).chunk(4, 1)] == [(3, 0)] * 4


@pytest.mark.parametrize("none", ([], (), range(0), range(3, 3)))
def test_an_index_of_no_places_gives_no_elements(none: Any) -> None:
    assert lt.arange(6).reshape(3, 2)[none, 1].shape == (0,)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "uint8", "bool", "float16",
                                   "bfloat16"])
def test_a_number_is_read_where_a_view_of_one_element_begins(dtype: str, device: str) -> None:
    whole = np.arange(24).reshape(2, 3, 4)
    x = lt.tensor(whole % 2 if dtype == "bool" else whole, dtype=getattr(lt, dtype), device=device)
    values = x.numpy()
    for index in np.ndindex(2, 3, 4):
        i, j, k = index
        expected = values[index].item()
        views = [x[index], x[i][j][k], x[i:i + 1, j, k:k + 1], x.permute(2, 0, 1)[k, i, j],
                 x.flip(0)[1 - i, j, k]]
        if j:
            views.append(x[i, 1:][j - 1, k])
        if j % 2 == 0:
            views.append(x[:, ::2][i, j // 2, k])
        assert [view.item() for view in views] == [expected] * len(views)
    with pytest.raises(lt.ShapeError, match="2 elements"):
        x[0, 0, 1:3].item()
