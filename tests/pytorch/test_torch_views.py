"""Strides, contiguity and which reshapes are views, beside PyTorch's."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lazyten as lt
from lazyten.frontend.recorded import lookup

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.torch

MOVES: dict[str, Callable[[Any], Any]] = {
    "transpose": lambda x: x.transpose(0, -1), "first": lambda x: x[..., :1],
    "second": lambda x: x[1:], "step": lambda x: x[..., ::2], "none": lambda x: x[None],
    "squeeze": lambda x: x.squeeze(), "flat": lambda x: x.flatten(),
    "expand": lambda x: x.unsqueeze(0).expand(3, *x.shape), "T": lambda x: x.mT,
    "narrow": lambda x: x.narrow(-1, 0, 2), "select": lambda x: x.select(0, 1),
    "split": lambda x: x.split(2, -1)[0], "permute": lambda x: x.permute(*range(1, x.ndim), 0),
    "diagonal": lambda x: x.diagonal(1, 0, -1), "unfold": lambda x: x.unfold(-1, 2, 1),
    "tiles": lambda x: x.unfold(0, 2, 2), "movedim": lambda x: x.movedim(0, -1),
    "hsplit": lambda x: x.tensor_split(2, -1)[1], "unflatten": lambda x: x.unflatten(0, (2, -1)),
    # where a view without elements begins is not always what PyTorch says
    "strided": lambda x: x.as_strided((2, 3), (3, 1), x.storage_offset() if x.numel() else 0)}


@given(names=st.lists(st.sampled_from(sorted(MOVES)), min_size=1, max_size=4))
def test_strides_and_contiguity_are_torchs(names: list[str]) -> None:
    ours, theirs = lt.arange(120).reshape(4, 5, 6), torch.arange(120).reshape(4, 5, 6)
    for name in names:
        try:
            theirs = MOVES[name](theirs)
        except (RuntimeError, IndexError):
            continue
        ours = MOVES[name](ours)
        assert ours.shape == tuple(theirs.shape)
        assert ours.tolist() == theirs.tolist()
        assert ours.is_contiguous() == theirs.is_contiguous()
        mine = [s for s, n in zip(ours.stride(), ours.shape, strict=True) if n > 1]
        other = [s for s, n in zip(theirs.stride(), theirs.shape, strict=True) if n > 1]
        if ours.numel() and name != "flat":  # of a copy, strides are those of the new memory
            assert mine == other, names
            assert ours.storage_offset() == theirs.storage_offset()
        if name == "flat":
            ours, theirs = ours.contiguous().clone(), theirs.contiguous().clone()


@pytest.mark.parametrize("cut", [
    lambda x: x[..., 2:2], lambda x: x[3:], lambda x: x[1:, 9:], lambda x: x[1:].diagonal(7, 0, -1),
    lambda x: x[1:, :0].flatten(), lambda x: x.mT[2:2].unfold(-1, 2, 1),
    lambda x: x[2:, 4:].mT.reshape(5, 0, 1)])
def test_a_view_without_elements_begins_where_torchs_does(cut: Callable[[Any], Any]) -> None:
    ours, theirs = cut(lt.zeros(3, 4, 5)), cut(torch.zeros(3, 4, 5))
    assert ours.shape == tuple(theirs.shape) and ours.numel() == 0
    assert ours.storage_offset() == theirs.storage_offset()


VIEWS = [((4, 6), lambda x: x, (24,)), ((4, 6), lambda x: x.T, (24,)),
         ((4, 6), lambda x: x.T, (6, 2, 2)), ((4, 6), lambda x: x[:, ::2], (4, 3, 1)),
         ((4, 6), lambda x: x[:, ::2], (12,)), ((4, 6), lambda x: x[::2], (12,)),
         ((4, 6), lambda x: x[1:3], (12,)), ((4, 6), lambda x: x[:, :3], (2, 2, 3)),
         ((4, 6), lambda x: x[:, :3], (2, 6)), ((1, 6), lambda x: x.expand(4, 6), (24,)),
         ((1, 6), lambda x: x.expand(4, 6), (2, 2, 6)), ((2, 3, 4), lambda x: x.transpose(0, 1),
                                                         (3, 8)),
         ((2, 3, 4), lambda x: x.transpose(1, 2), (2, 12)), ((2, 0), lambda x: x.T, (5, 0))]


@pytest.mark.parametrize(("shape", "move", "new"), VIEWS)
def test_view_is_refused_where_torch_refuses_it(shape: tuple[int, ...], move: Callable[[Any], Any],
                                                new: tuple[int, ...]) -> None:
    ours, theirs = move(lt.zeros(shape)), move(torch.zeros(shape))
    try:
        expected = theirs.view(new)
    except RuntimeError:
        with pytest.raises(lt.ShapeError, match=r"reshape\(\)"):
            ours.view(new)
        assert ours.reshape(new).shape == new
    else:
        found = ours.view(new)
        assert found.shape == tuple(expected.shape)
        if shape[0] != 1:  # expanded elements cannot be written
            found += 1
            assert ours.sum().item() == ours.numel()


# ---- lists as indices ----------------------------------------------------------------------------

LISTS: dict[str, Callable[[Any], Any]] = {
    "lists": lambda T: [[0, 2], [1, 3]], "tensors": lambda T: [T.tensor([0, 2]), T.tensor([1, 3])],
    "a tensor and a number": lambda T: [T.tensor([0, 2]), 1], "a slice": lambda T: [slice(1), [0]],
    "numbers as tensors": lambda T: [T.tensor(2), T.tensor(1)], "dots": lambda T: [..., [1, 3]],
    "none": lambda T: [None, T.tensor([1])], "a mask": lambda T: [T.tensor([True, False, True])],
    "numbers": lambda T: [2, 0], "bools": lambda T: [True, False, True], "nothing": lambda T: [],
    "one list": lambda T: [[2, 0]], "32 rows": lambda T: [[1, 2]] * 32}


@pytest.mark.filterwarnings("ignore:Using a non-tuple sequence", "ignore:index at")
@pytest.mark.parametrize("name", LISTS)
def test_a_list_of_index_arrays_is_one_for_each_axis(name: str) -> None:
    ours, theirs = lt.arange(12).reshape(3, 4), torch.arange(12).reshape(3, 4)
    assert ours[LISTS[name](lt)].tolist() == theirs[LISTS[name](torch)].tolist()
    ours[LISTS[name](lt)] = -1
    theirs[LISTS[name](torch)] = -1
    assert ours.tolist() == theirs.tolist()


def test_a_list_of_index_arrays_warns() -> None:
    lookup.forget()  # what is known is looked up, without another warning
    with pytest.warns(UserWarning, match=r"test_torch_views.py.*write x\[a, b\] in"):
        assert lt.arange(12).reshape(3, 4)[[[0, 2], [1, 3]]].tolist() == [1, 11]


# ---- views of one storage, and writes through them -----------------------------------------------

WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "add_": lambda x, y: x.add_(3), "mul_": lambda x, y: x.mul_(-2),
    "fill_": lambda x, y: x.fill_(7),
    "zero_": lambda x, y: x.zero_(), "relu_": lambda x, y: x.relu_(), "neg_": lambda x, y: x.neg_(),
    "add_ of itself": lambda x, y: x.add_(x), "copy_": lambda x, y: x.copy_(y.sum()),
    "add_ of another alias": lambda x, y: x.add_(y.max()), "clamp_": lambda x, y: x.clamp_(-5, 50),
    "masked_fill_": lambda x, y: x.masked_fill_(x > 4, 1.5), "iadd": lambda x, y: x.__iadd__(1),
    "cumsum_": lambda x, y: x.cumsum_(0), "lerp_": lambda x, y: x.lerp_(x * 2, 0.5)}


class Aliases:
    """Views of one storage in both libraries, and what a program does to them."""

    def __init__(self, device: str) -> None:
        numbers = [float(n % 11 - 5) for n in range(60)]
        self.ours = [lt.tensor(numbers, device=device).reshape(3, 4, 5)]
        self.theirs = [torch.tensor(numbers).reshape(3, 4, 5)]

    def move(self, name: str, which: int) -> None:
        """Add a view of one of them, where PyTorch can."""
        at = which % len(self.ours)
        try:
            view = MOVES[name](self.theirs[at])
        except (RuntimeError, IndexError):
            return
        if view.untyped_storage().data_ptr() != self.theirs[0].untyped_storage().data_ptr():
            return  # flatten() had to copy
        self.ours.append(MOVES[name](self.ours[at]))
        self.theirs.append(view)
        assert self.ours[-1].untyped_storage() == self.ours[0].untyped_storage()

    def write(self, name: str, which: int, other: int) -> None:
        """Write through one of them, unless it shows an element twice: that is an error here."""
        at, by = which % len(self.ours), other % len(self.ours)
        if not self.theirs[by].numel():
            return
        mine, view = self.ours[at], self.theirs[at]
        if overlapping(view):
            with pytest.raises(lt.ShapeError, match="more than once"):
                mine.zero_()
            return
        WRITES[name](mine, self.ours[by])
        WRITES[name](view, self.theirs[by])

    def check(self) -> None:
        """All aliases show the same numbers."""
        lt.realize(*self.ours)
        for mine, view in zip(self.ours, self.theirs, strict=True):
            assert mine.tolist() == view.tolist()


def overlapping(view: Any) -> bool:
    """Whether two indices of a view are one place."""
    places = torch.zeros(view.shape, dtype=torch.int64) + view.storage_offset()
    for axis, (n, step) in enumerate(zip(view.shape, view.stride(), strict=True)):
        line = torch.arange(n) * step
        places = places + line.reshape([-1 if a == axis else 1 for a in range(view.ndim)])
    return bool(places.unique().numel() < places.numel())


STEPS = st.lists(st.tuples(st.sampled_from(["move", "move", "write", "look"]),
                           st.sampled_from(sorted(MOVES)), st.sampled_from(sorted(WRITES)),
                           st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=9)


@given(steps=STEPS)
def test_a_write_through_any_view_is_seen_through_all_as_in_torch(device: str, steps: Any) -> None:
    aliases = Aliases(device)
    for kind, move, write, which, other in steps:
        if kind == "move":
            aliases.move(move, which)
        elif kind == "write":
            aliases.write(write, which, other)
        else:
            aliases.check()
    aliases.check()


@given(steps=STEPS)
def test_writes_through_views_inside_jit_are_torchs(steps: Any) -> None:
    """The same programs, recorded once and replayed; the storage is an argument."""
    expected = Aliases("cpu")
    program = [step for step in steps if step[0] != "look"]

    def run(aliases: Aliases) -> None:
        for kind, move, write, which, other in program:
            if kind == "move":
                aliases.move(move, which)
            else:
                aliases.write(write, which, other)

    @lt.jit
    def inside(x: lt.Tensor) -> list[lt.Tensor]:
        aliases = Aliases("cpu")
        aliases.ours[0] = x
        run(aliases)
        return [y + 0 for y in aliases.ours]

    run(expected)
    for _ in range(2):
        x = Aliases("cpu").ours[0].realize()
        for mine, view in zip(inside(x), expected.theirs, strict=True):
            assert mine.tolist() == view.tolist()
        assert x.tolist() == expected.theirs[0].tolist()
