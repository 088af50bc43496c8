"""Complex tensors: their memory, views, writing, what is refused, and that they run as others do.
"""
from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lazyten as lt
from lazyten import nn

Array = np.ndarray[Any, Any]


def numbers(*shape: int, seed: int = 0) -> Array:
    """Complex numbers of both signs, in single precision."""
    random = np.random.default_rng(seed)
    return (random.standard_normal(shape) + 1j * random.standard_normal(shape)).astype(np.complex64)


def test_a_complex_tensor_is_a_tensor_that_says_what_it_is() -> None:
    x = lt.tensor([[1 + 2j, 3.0, 4]])
    assert isinstance(x, lt.Tensor) and x.is_complex() and not x.is_floating_point()
    assert x.dtype is lt.complex64 is lt.cfloat and x.shape == (1, 3) and x.numel() == 3
    assert (x.element_size(), x.nbytes, x.stride(), x.itemsize) == (8, 24, (3, 1), 8)
    assert x[0, 0].item() == 1 + 2j and x.tolist() == [[1 + 2j, 3, 4]] and complex(x[0, 1]) == 3
    assert x.numpy().dtype == np.complex64 and lt.complex128.is_complex
    assert lt.tensor(1j, dtype=lt.cdouble).dtype is lt.complex128 is lt.as_tensor(1j).to(
        dtype=lt.cdouble).dtype


def test_functions_that_ask_what_a_tensor_is_answer_for_complex_ones() -> None:
    x = lt.tensor([1 + 2j])
    assert not lt.is_floating_point(x) and lt.is_complex(x) and lt.is_signed(x) and x.is_signed()
    assert not (lt.is_conj(x) or lt.is_neg(x) or lt.is_inference(x)) and lt.get_device(x) == -1
    assert lt.typename(x) == x.type() == "lazyten.ComplexFloatTensor"
    assert x.to(lt.complex128).type() == "lazyten.ComplexDoubleTensor"
    assert x.type(lt.complex128).dtype is lt.complex128


def test_complex_tensors_are_printed_by_their_parts() -> None:
    assert repr(lt.tensor([1 + 2j, -3 - 1j])) == "tensor([ 1.+2.j, -3.-1.j])"
    assert repr(lt.tensor(0.5 - 0.25j, dtype=lt.complex128)) == \
        "tensor(0.5000-0.2500j, dtype=lazyten.complex128)"


def test_parts_and_pairs_share_memory_with_the_numbers() -> None:
    x = lt.tensor(numbers(3))
    pairs, real = lt.view_as_real(x), x.real
    pairs[0] = lt.tensor([5.0, 6.0])
    real[1] = 7
    x.imag[1] = 8
    x[2] = 9j
    assert x.tolist() == [5 + 6j, 7 + 8j, 9j] and real.tolist() == [5, 7, 0]
    assert pairs.tolist() == [[5, 6], [7, 8], [0, 9]]
    again = lt.view_as_complex(pairs)
    again *= 1j
    assert x.tolist() == [-6 + 5j, -8 + 7j, -9]


def test_views_are_those_of_numpy_and_share_memory(device: str) -> None:
    x = numbers(2, 3, 4)
    for name, view in {
            "transpose": lambda t: t.swapaxes(0, 2), "index": lambda t: t[1, ..., ::2],
            "reshape": lambda t: t.reshape(6, 4), "T": lambda t: t[0].T,
            "negative": lambda t: t[:, -1], "new": lambda t: t[None, :, 1:],
            "diagonal": lambda t: t.diagonal(0, 1, 2)}.items():
        mine, other = lt.tensor(x, device=device), x.copy()
        seen, wanted = view(mine), view(other)
        np.testing.assert_array_equal(seen.numpy(), wanted, err_msg=name)
        if wanted.flags.writeable:
            seen += 2j
            wanted += 2j
        np.testing.assert_allclose(mine.numpy(), other, rtol=1e-6, err_msg=name)


def test_reading_and_writing_at_places_and_masks() -> None:
    x = numbers(3, 4)
    mine, other = lt.tensor(x), x.copy()
    np.testing.assert_array_equal(mine[[2, 0], 1:].numpy(), x[[2, 0], 1:])
    np.testing.assert_array_equal(mine[mine.real > 0].numpy(), x[x.real > 0])
    np.testing.assert_array_equal(mine[lt.tensor([1, 0])].numpy(), x[[1, 0]])
    mine[mine.real > 0] = 1j
    other[other.real > 0] = 1j
    mine[[0, 1], 2] = 3.0
    other[[0, 1], 2] = 3.0
    np.testing.assert_array_equal(mine.numpy(), other)
    with pytest.raises(lt.IndexingError):
        mine[0, 0, 0]


def test_operations_that_move_numbers_do_so_with_both_parts() -> None:
    x, y = numbers(2, 3), numbers(2, 3, seed=1)
    a, b = lt.tensor(x), lt.tensor(y)
    mask = np.array([[True, False, True], [False, False, True]])
    for given, wanted in (
            (lt.cat([a, b.real]), np.concatenate([x, y.real])), (lt.stack([a, b], 1),
                                                                 np.stack([x, y], 1)),
            (lt.hstack([a, b]), np.hstack([x, y])), (a.flip(1), x[:, ::-1]),
            (a.roll(1, 1), np.roll(x, 1, 1)), (a.repeat(2, 1), np.tile(x, (2, 1))),
            (lt.where(lt.tensor(mask), a, b), np.where(mask, x, y)),
            (a.masked_fill(lt.tensor(mask), 2 + 1j), np.where(mask, 2 + 1j, x)),
            (lt.nn.functional.pad(a, (1, 2)), np.pad(x, ((0, 0), (1, 2)))),
            (lt.fft.fftshift(a), np.fft.fftshift(x)), (lt.fft.ifftshift(a), np.fft.ifftshift(x)),
            (lt.fft.ifftshift(lt.fft.fftshift(a, 1), 1), x),
            (a.index_select(1, lt.tensor([2, 0])), x[:, [2, 0]]), (a.tril(), np.tril(x))):
        np.testing.assert_allclose(given.numpy(), wanted, rtol=1e-6)


def test_new_tensors_of_a_complex_type() -> None:
    assert lt.zeros(2, 3, dtype=lt.cfloat).numpy().dtype == np.complex64
    like = lt.ones(2, dtype=lt.complex128)
    assert lt.ones_like(like).tolist() == [1, 1] == like.new_ones(2).tolist()
    assert lt.full((2,), 1 + 1j).tolist() == [1 + 1j] * 2 and lt.eye(2, dtype=lt.cfloat)[0, 0] == 1
    lt.manual_seed(0)
    drawn = lt.randn(4000, dtype=lt.cfloat).numpy()
    assert abs(np.mean(np.abs(drawn) ** 2) - 1) < 0.1 and abs(drawn.real.std() - 0.5 ** 0.5) < 0.05
    assert lt.tensor([1.0, np.inf]).to(lt.cfloat).tolist() == [1, complex(np.inf, 0)]
    assert lt.polar(lt.tensor([2.0]), lt.tensor([np.pi / 2])).imag.item() == pytest.approx(2)
    assert lt.complex(lt.tensor([1.0]), lt.tensor([2.0])).tolist() == [1 + 2j]


def test_memory_of_a_numpy_array_is_shared() -> None:
    array = numbers(3)
    shared = lt.from_numpy(array)
    shared[0] = 5j
    assert shared.is_complex() and array[0] == 5j


REFUSED: dict[str, Callable[[Any, Any], Any]] = {
    "sort": lambda c, r: c.sort(), "max": lambda c, r: c.max(), "<": lambda c, r: c < c,
    "relu": lambda c, r: nn.functional.relu(c), "maximum": lambda c, r: lt.maximum(r, c),
    "softmax": lambda c, r: lt.softmax(c, 0), "floor": lambda c, r: c.floor(),
    "layer_norm": lambda c, r: nn.functional.layer_norm(c, (2,)), "erf": lambda c, r: lt.erf(c),
    "ldl": lambda c, r: lt.linalg.ldl_factor(c), "bitcast": lambda c, r: c.bitcast(lt.float64),
    "median": lambda c, r: lt.median(c),
    "mse_loss": lambda c, r: nn.functional.mse_loss(c, c), "clamp": lambda c, r: c.clamp(0, 1),
    "eigenvalues": lambda c, r: lt.lobpcg(c), "float": lambda c, r: c.float(),
    "into a real one": lambda c, r: r.add_(c), "copy": lambda c, r: r.copy_(c),
    "assigned": lambda c, r: r.__setitem__(0, 1j), "its node": lambda c, r: c.node,
    "as a number": lambda c, r: float(c[0, 0]), "arange": lambda c, r: lt.arange(
        3, dtype=lt.cfloat), "of halves": lambda c, r: lt.complex(r.half(), r.half()),
    "lbfgs": lambda c, r: lt.optim.LBFGS([c.requires_grad_()]),
    "sum of a type": lambda c, r: c.sum(dtype=lt.float32)}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_there_for_complex_numbers_is_refused(name: str) -> None:
    with pytest.raises(lt.DTypeError):
        given = REFUSED[name](lt.tensor(numbers(2, 2)), lt.ones(2, 2))
        given.numpy()


@pytest.mark.parametrize("name", sorted(n for n in dir(lt.Tensor) if not n.startswith("_")))
def test_every_method_gives_numbers_of_a_complex_type_or_refuses(name: str) -> None:
    """None takes pairs for twice as many numbers: what comes out has no axis of 2 more."""
    x = lt.tensor(numbers(3, 3))
    try:
        found = getattr(x, name)
        given = found() if callable(found) else found
    except (lt.LazytenError, TypeError, AttributeError):
        return
    if isinstance(given, lt.Tensor):
        assert (3, 3, 2) != given.shape and (name in ("nonzero", "argwhere")
                                             or 18 != given.numel())


def test_the_error_names_the_operation() -> None:
    with pytest.raises(lt.DTypeError, match="sort of complex tensors is not there"):
        lt.sort(lt.tensor([1j]))
    with pytest.raises(lt.DTypeError, match=r"nn\.relu of complex"):
        nn.functional.relu(lt.tensor([1j]))


class Rotated(nn.Module):
    """Complex weights, and a complex buffer."""

    def __init__(self) -> None:
        super().__init__()
        lt.manual_seed(1)
        self.weight = nn.Parameter(lt.randn(4, 4, dtype=lt.cfloat))
        self.register_buffer("turn", lt.polar(lt.ones(4), lt.arange(4).float()))

    def forward(self, x: lt.Tensor) -> lt.Tensor:
        return ((x @ self.weight) * self.turn).abs()


def trained(steps: int, jitted: bool) -> tuple[list[float], Rotated]:
    """A model after some steps of Adam, and its losses."""
    model, x = Rotated(), lt.tensor(numbers(5, 4))
    optimizer = lt.optim.Adam(model.parameters(), lr=0.05)

    def step(x: lt.Tensor) -> lt.Tensor:
        optimizer.zero_grad()
        loss = (model(x) - 1).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    run = lt.jit(step) if jitted else step
    return [run(x).item() for _ in range(steps)], model


def test_a_training_step_is_the_same_jitted_and_compiles_once() -> None:
    eager, model = trained(6, False)
    jitted, other = trained(6, True)
    np.testing.assert_allclose(jitted, eager, rtol=1e-5)
    np.testing.assert_allclose(model.weight.detach().numpy(), other.weight.detach().numpy(),
                               rtol=1e-4)
    assert eager[-1] < eager[0]


def test_a_parameter_of_complex_numbers_is_one_parameter() -> None:
    model = Rotated()
    assert isinstance(model.weight, nn.Parameter) and model.weight.is_leaf
    assert [p.shape for p in model.parameters()] == [(4, 4)]
    model(lt.tensor(numbers(2, 4))).sum().backward()
    assert model.weight.grad.dtype is lt.complex64 and model.weight.grad is model.weight.grad
    assert nn.utils.clip_grad_norm_(model.parameters(), 1e-3).item() > 1e-3
    assert model.weight.grad.norm().item() == pytest.approx(1e-3, rel=1e-3)
    other = copy.deepcopy(model)
    assert isinstance(other.weight, nn.Parameter) and lt.equal(other.weight, model.weight)
    with lt.no_grad():
        other.weight.mul_(2)
    assert not lt.equal(other.weight, model.weight)
    assert model.double().weight.dtype is lt.complex64
    assert model.to("interpreter").weight.device == "interpreter"


def test_state_is_saved_and_loaded(tmp_path: Path) -> None:
    model, other = Rotated(), Rotated()
    with lt.no_grad():
        model.weight *= 1j
    lt.save(model.state_dict(), tmp_path / "state")
    other.load_state_dict(lt.load(tmp_path / "state"))
    assert lt.equal(model.weight, other.weight) and lt.equal(model.turn, other.turn)
    with pytest.raises(lt.DTypeError, match="complex128"):
        lt.save({"x": lt.ones(2, dtype=lt.complex128)}, tmp_path / "state")


def test_jit_takes_and_gives_complex_tensors_and_tells_them_from_pairs() -> None:
    @lt.jit
    def f(a: lt.Tensor, b: list[lt.Tensor]) -> Any:
        return a * b[0], {"size": a.abs()}, a

    x, y = numbers(4), numbers(4, seed=1)
    for _ in range(3):
        product, sizes, same = f(lt.tensor(x), [lt.tensor(y)])
        np.testing.assert_allclose(product.numpy(), x * y, rtol=1e-6)
        assert product.dtype is same.dtype is lt.complex64
        np.testing.assert_allclose(sizes["size"].numpy(), np.abs(x), rtol=1e-6)
    pairs, other = [lt.view_as_real(lt.tensor(v)).clone() for v in (x, y)]
    assert f(pairs, [other])[0].shape == (4, 2)


def test_jit_writes_to_complex_arguments() -> None:
    @lt.jit
    def f(z: lt.Tensor) -> lt.Tensor:
        z *= 2
        z[0] = 1j
        return z.real

    for _ in range(3):
        z = lt.tensor([5 + 1j, 2 + 3j])
        assert f(z).tolist() == [0, 4] and z.tolist() == [1j, 4 + 6j]


def test_a_part_that_begins_elsewhere_in_each_step_is_read_there() -> None:
    table = lt.polar(lt.ones(64, 8), lt.rand(64, 8)).realize()
    x = lt.tensor(numbers(4, 8))
    for start in range(0, 40, 4):
        given = (x * table[start:start + 4]).numpy()
        np.testing.assert_allclose(given, x.numpy() * table.numpy()[start:start + 4], rtol=1e-5)


@pytest.mark.parametrize("operation, numpy_one", [
    (lt.add, np.add), (lt.mul, np.multiply), (lt.div, np.divide), (lt.pow, np.power)])
def test_results_are_written_to_out(operation: Any, numpy_one: Any) -> None:
    a, b = numbers(2, 3), numbers(3, seed=1)
    out = lt.zeros(2, 3, dtype=lt.complex64)
    view = out[:, 1:]
    assert operation(lt.tensor(a), lt.tensor(b), out=out) is out
    np.testing.assert_allclose(out.numpy(), numpy_one(a, b), rtol=1e-4)
    np.testing.assert_array_equal(view.numpy(), out.numpy()[:, 1:])


def test_out_of_other_types_and_of_lists() -> None:
    a, b = numbers(4), numbers(4, seed=1)
    x, y = lt.tensor(a), lt.tensor(b)
    out, length = lt.zeros(8, dtype=lt.complex64), lt.zeros(4)
    assert lt.cat([x, y], out=out) is out and lt.abs(x, out=length) is length
    np.testing.assert_array_equal(out.numpy(), np.concatenate([a, b]))
    np.testing.assert_allclose(length.numpy(), np.abs(a), rtol=1e-6)
    assert lt.exp(length, out=out[:4]) is not None  # real numbers in a complex tensor
    np.testing.assert_allclose(out.numpy()[:4], np.exp(np.abs(a)), rtol=1e-6)
    assert lt.sum(x, 0, out=lt.zeros(3, dtype=lt.complex64)).shape == ()
    with pytest.raises(lt.DTypeError, match="mul: out is float32, which cannot hold a result"):
        lt.mul(x, y, out=length)
    with pytest.raises(lt.GradientError, match="with out="):
        lt.mul(x, y.requires_grad_(), out=out)


def test_backward_needs_a_real_number_or_weights() -> None:
    x = lt.tensor([1 + 2j], requires_grad=True)
    with pytest.raises(lt.GradientError, match="complex"):
        (x * x).sum().backward()
    (x * x).backward(lt.tensor([1 + 0j]))
    np.testing.assert_allclose(x.grad.numpy(), [2 - 4j])
    x.grad = None
    seen: list[Any] = []
    y = x * 1
    y.register_hook(seen.append)
    y.abs().sum().backward()
    assert seen[0].is_complex() and x.grad is not None
    assert not x.detach().requires_grad


def test_rotary_embeddings_are_rotations() -> None:
    angles = lt.outer(lt.arange(6).float(), 1.0 / 100 ** (lt.arange(0, 8, 2).float() / 8))
    turns = lt.polar(lt.ones_like(angles), angles)
    x = lt.randn(2, 6, 3, 8)
    pairs = lt.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    given = lt.view_as_real(pairs * turns.view(1, 6, 1, 4)).flatten(3).type_as(x)
    a, c, s = x.numpy(), np.cos(angles.numpy()), np.sin(angles.numpy())
    first, second, c, s = a[..., ::2], a[..., 1::2], c[None, :, None], s[None, :, None]
    wanted = np.stack([first * c - second * s, first * s + second * c], -1).reshape(a.shape)
    np.testing.assert_allclose(given.numpy(), wanted, rtol=1e-4, atol=1e-5)


def test_dlpack_shares_complex_memory_both_ways() -> None:
    array = numbers(2, 3)
    shared = lt.from_dlpack(array)
    array[0, 1] = 7j
    assert shared.dtype is lt.complex64 and shared[0, 1].item() == 7j
    assert lt.asarray(array, copy=False)[0, 1].item() == 7j
    x = lt.tensor(numbers(2, 3), device="cpu")
    seen = np.from_dlpack(x)
    x[1, 2] = 5
    assert seen.shape == (2, 3) and seen[1, 2] == 5
    np.testing.assert_array_equal(np.from_dlpack(x.T), x.numpy().T)
    with pytest.raises(lt.ArgumentError, match="requires gradients"):
        np.from_dlpack(x.requires_grad_())


@pytest.mark.parametrize("make", [
    lambda: lt.ones(2), lambda: lt.ones(2) + 1j, lambda: lt.eye(2).to_sparse(),
    lambda: lt.eye(2).to_sparse_csr()], ids=["real", "complex", "coordinates", "compressed"])
def test_to_takes_every_kind_of_tensor_for_the_same(make: Callable[[], Any]) -> None:
    x = make()
    assert x.to(None) is x and x.to(x.dtype, True) is x and x.to(x, False, False) is x
    copied = x.to(x.dtype, False, True)
    assert copied is not x and copied.dtype is x.dtype
    wide = lt.complex128 if x.is_complex() else lt.float64
    assert x.to(None, dtype=wide).dtype is x.to("cpu", wide).dtype is wide
