"""Pickles: what goes in comes back, as in PyTorch, and what shared memory shares it again."""
from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import lazyten as lt
from lazyten import nn

NUMBERS = [0.0, 1.0, 2.5, -3.0]


def again(thing: Any) -> Any:
    return pickle.loads(pickle.dumps(thing))


@lt.jit
def doubled(x: lt.Tensor) -> lt.Tensor:
    return x * 2


class Tagged(lt.Tensor):
    """A subclass as programs write them."""


class Slotted(lt.Tensor):
    """One with a place of its own."""

    __slots__ = ("place",)


@pytest.mark.parametrize("name", [
    "bool", "int8", "uint8", "int16", "int32", "int64", "uint16", "uint64", "float16", "bfloat16",
    "float32", "float64", "float8_e4m3fn", "float8_e5m2", "complex64", "complex128"])
def test_a_tensor_comes_back_in_its_type(name: str) -> None:
    dtype = getattr(lt, name)
    x = lt.tensor([abs(n) if "u" in name else n for n in NUMBERS]).to(dtype)
    y = again(x)
    assert y.dtype is dtype and y.tolist() == x.tolist() and type(y) is type(x)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_every_protocol_has_views_and_strides(protocol: int, device: str) -> None:
    x = lt.arange(6.0, device=device).reshape(2, 3)
    for view in (x.t(), x[1:, ::2], x[0, 1], x[:0], x[0].expand(3, 3), lt.full((2,), 7.0)):
        y = pickle.loads(pickle.dumps(view, protocol))
        assert y.tolist() == view.tolist() and y.stride() == view.stride()
        assert y.device == view.device and y.storage_offset() == view.storage_offset()


def test_what_shares_memory_shares_it_again() -> None:
    base = lt.arange(6.0)
    x, view, same = again([base, base[2:4], base])
    view.zero_()
    assert x.tolist() == [0, 1, 0, 0, 4, 5] and same is x
    assert base.tolist() == [0, 1, 2, 3, 4, 5]


def test_a_leaf_comes_back_as_one_without_its_gradient() -> None:
    x = lt.ones(2, requires_grad=True)
    (x * 2).sum().backward()
    for order in ([x, x.detach()], [x.detach(), x]):
        pair = sorted(again(order), key=lambda t: t.requires_grad)
        detached, leaf = pair
        assert leaf.is_leaf and leaf.requires_grad and leaf.grad is None
        assert not detached.requires_grad
        assert detached.untyped_storage() == leaf.untyped_storage()
        (leaf * 3).sum().backward()
        assert leaf.grad.tolist() == [3, 3]


def test_what_an_operation_made_comes_back_as_a_leaf() -> None:
    x = lt.ones(3, requires_grad=True)
    y, part = again([x * 2, x[1:]])
    assert y.is_leaf and y.requires_grad and y.tolist() == [2, 2, 2]
    assert part.is_leaf and part.requires_grad and part.tolist() == [1, 1]


def test_memory_that_was_written_from_outside_is_read_anew() -> None:
    x = lt.arange(3.0)
    shared = lt.from_numpy(x.numpy())
    other = lt.ones(2).numpy()
    y = lt.from_numpy(other)
    other[0] = 5
    assert again(y).tolist() == [5, 1] and again(shared).tolist() == [0, 1, 2]


def test_what_has_no_values_has_none_afterwards() -> None:
    x = again(lt.empty(2, 3, device="meta", dtype=lt.bfloat16).t())
    assert x.device == "meta" and x.shape == (3, 2) and x.dtype is lt.bfloat16


def test_sparse_tensors_keep_their_layout() -> None:
    dense = lt.tensor([[0.0, 2.0], [3.0, 0.0]])
    for sparse in (dense.to_sparse(), dense.to_sparse_csr(), dense.to_sparse_csc(),
                   dense.to_sparse().requires_grad_()):
        found = again(sparse)
        assert found.layout is sparse.layout and found.requires_grad == sparse.requires_grad
        assert found.to_dense().tolist() == dense.tolist() and found.is_leaf


def test_attributes_and_classes_are_kept() -> None:
    x = lt.ones(2)
    x.label = ["a"]
    assert again(x).label == ["a"] and copy.deepcopy(x).label == ["a"]
    assert copy.deepcopy(x).label is not x.label
    tagged = lt.ones(2).as_subclass(Tagged)
    tagged.k = 5
    assert type(again(tagged)) is Tagged and again(tagged).k == 5
    slotted = lt.ones(2).as_subclass(Slotted)
    slotted.place, slotted.k = (1, 2), 3
    assert again(slotted).place == (1, 2) and again(slotted).k == 3
    buffer = again(nn.Buffer(lt.ones(2), persistent=False))
    assert type(buffer) is nn.Buffer and not buffer.persistent


@pytest.mark.parametrize("made", [
    lambda: nn.Parameter(lt.ones(2)), lambda: nn.Parameter(lt.ones(2), requires_grad=False),
    lambda: nn.Parameter(lt.ones(2) + 1j), lambda: nn.UninitializedParameter()])
def test_a_parameter_stays_one(made: Any) -> None:
    p = made()
    p.tag = 1
    q = again(p)
    assert type(q) is type(p) and q.requires_grad == p.requires_grad and q.tag == 1
    assert repr(q) == repr(p)


def test_a_detached_tensor_is_one_in_a_deep_copy() -> None:
    x = lt.ones(2, requires_grad=True)
    for order in ([x, x.detach()], [x.detach(), x]):
        detached, leaf = sorted(copy.deepcopy(order), key=lambda t: t.requires_grad)
        assert leaf.requires_grad and not detached.requires_grad
        assert detached.untyped_storage() == leaf.untyped_storage()


def test_hooks_are_left_out_with_a_warning() -> None:
    x = lt.ones(2, requires_grad=True)
    x.register_hook(print)
    with pytest.warns(UserWarning, match="hooks"):
        assert again(x).requires_grad


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(5, 3)
        self.back = nn.Linear(3, 5, bias=False)
        self.back.weight = self.table.weight
        self.act = lt.tanh
        self.register_buffer("seen", lt.zeros(()), persistent=False)

    def forward(self, x: lt.Tensor) -> lt.Tensor:
        return self.back(self.act(self.table(x)))  # type: ignore[no-any-return]


def test_a_model_and_its_optimizer_go_on_where_they_were() -> None:
    lt.manual_seed(0)
    model, x = Tied(), lt.tensor([0, 1, 4])
    optimizer = lt.optim.AdamW(model.parameters(), lr=0.1)
    schedule = lt.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)

    def step(m: Tied, o: Any, s: Any) -> float:
        o.zero_grad()
        loss = nn.functional.cross_entropy(m(x), x)
        loss.backward()
        o.step()
        s.step()
        return float(loss)

    step(model, optimizer, schedule)
    twin, other, its = again((model, optimizer, schedule))
    assert twin.back.weight is twin.table.weight
    assert other.param_groups[0]["params"][0] is twin.table.weight
    losses = [[step(*given) for _ in range(3)] for given in (
        (model, optimizer, schedule), (twin, other, its))]
    assert losses[0] == losses[1]
    assert model.table.weight.tolist() == twin.table.weight.tolist()


def test_hooks_of_modules_are_kept() -> None:
    net = nn.Linear(1, 1)
    net.register_forward_hook(_plus_one)
    assert again(net)(lt.ones(1)).tolist() == net(lt.ones(1)).tolist()


def _plus_one(module: Any, args: Any, y: lt.Tensor) -> lt.Tensor:
    return y + 1


def test_a_generator_goes_on() -> None:
    generator = lt.Generator(3)
    lt.rand(5, generator=generator)
    copies = again(generator), copy.deepcopy(generator), generator
    assert len({lt.rand(1, generator=g).item() for g in copies}) == 1
    assert {g.device for g in copies} == {"cpu"}


def test_a_scaler_keeps_its_scale() -> None:
    scaler = lt.amp.GradScaler("cpu", init_scale=8.0)
    assert again(scaler).get_scale() == 8 and copy.deepcopy(scaler).get_scale() == 8
    w = nn.Parameter(lt.ones(1))
    optimizer = lt.optim.SGD([w], lr=0.1)
    scaler.scale(w.sum()).backward()
    scaler.unscale_(optimizer)
    with pytest.raises(lt.StateError, match="update"):
        pickle.dumps(scaler)


def test_distributions_come_back() -> None:
    normal = again(lt.distributions.Normal(lt.zeros(2), 2.0))
    assert normal.variance.tolist() == [4, 4] and normal.sample().shape == (2,)


def test_functions_are_known_by_their_names() -> None:
    for home in (lt, lt.linalg, lt.special, lt.fft, nn.functional, lt.Tensor):
        for name in dir(home):
            function = getattr(home, name, None)
            if name[0] != "_" and type(function) is type(again) and \
                    not function.__qualname__.startswith(("_of_sparse", "Complex")):
                assert again(function) is function, name
    assert lt.clip.__name__ == "clip" and lt.relu.__module__ == "lazyten"


def test_layouts_and_formats_are_the_same_objects() -> None:
    for one in (lt.strided, lt.sparse_coo, lt.sparse_csr, lt.channels_last, lt.preserve_format):
        assert again(one) is one and copy.deepcopy(one) is one


def test_jitted_functions_are_traced_anew_or_known_by_name() -> None:
    assert again(doubled) is doubled and copy.deepcopy(doubled) is doubled
    net = lt.jit(nn.Linear(2, 1), check=True)
    twin = again(net)
    assert twin.check and twin.function is not net.function
    assert twin(lt.ones(2)).tolist() == net(lt.ones(2)).tolist()


def test_a_storage_is_copied_with_its_values() -> None:
    x = lt.arange(4.0)
    y, storage = again((x, x[1:].untyped_storage()))
    assert storage == y.untyped_storage() and storage.nbytes() == 16
    assert copy.deepcopy(storage) != storage
