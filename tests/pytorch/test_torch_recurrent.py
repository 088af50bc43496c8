"""Recurrent layers, cells, and packed sequences beside PyTorch's: names, outputs, last states and
gradients over their options, lengths and initial states."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from layer_compare import compare_layers, torch

import lazyten as lt
from lazyten.testing import watch_kernels

pytestmark = pytest.mark.torch

RNG = np.random.default_rng(0)
Options = dict[str, Any]


def normal(*shape: int) -> Any:
    return RNG.normal(size=shape)


def states(name: str, count: int, batch: tuple[int, ...], hidden: int = 4, cell: int = 4) -> Any:
    """First states of a layer, as its call takes them."""
    h = normal(count, *batch, hidden)
    return (h, normal(count, *batch, cell)) if name == "LSTM" else h


X = normal(5, 3, 2)

LAYERS: dict[str, tuple[str, Options, tuple[Any, ...]]] = {
    "LSTM": ("LSTM", {}, (X,)),
    "GRU": ("GRU", {}, (X,)),
    "RNN": ("RNN", {}, (X,)),
    "RNN, relu": ("RNN", {"nonlinearity": "relu", "bias": False}, (X,)),
    "one step": ("LSTM", {}, (X[:1],)),
    "first states": ("LSTM", {}, (X, states("LSTM", 1, (3,)))),
    "LSTM of two layers": ("LSTM", {"num_layers": 2, "bidirectional": True, "bias": False}, (
        X, states("LSTM", 4, (3,)))),
    "GRU of two layers": ("GRU", {"num_layers": 2, "bidirectional": True, "batch_first": True}, (
        normal(3, 5, 2), states("GRU", 4, (3,)))),
    "RNN of three layers": ("RNN", {"num_layers": 3}, (X, states("RNN", 3, (3,)))),
    "all dropped between layers": ("GRU", {"num_layers": 2, "dropout": 1.0}, (X,)),
    "projected": ("LSTM", {"proj_size": 3, "num_layers": 2, "bidirectional": True}, (
        X, states("LSTM", 4, (3,), 3))),
    "projected, no bias": ("LSTM", {"proj_size": 2, "bias": False}, (X,)),
    "unbatched": ("LSTM", {"num_layers": 2, "batch_first": True}, (
        X[:, 0], states("LSTM", 2, ()))),
    "unbatched, both ways": ("GRU", {"bidirectional": True}, (X[:, 0], states("GRU", 2, ()))),
    "unbatched, no states": ("RNN", {"bidirectional": True}, (X[:, 0],)),
    "no examples": ("LSTM", {}, (X[:, :0],)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_recurrent_layers_match_torch(name: str) -> None:
    kind, arguments, inputs = LAYERS[name]
    compare_layers(kind, {"input_size": 2, "hidden_size": 4, **arguments}, inputs, {})


def test_a_layer_in_evaluation_drops_nothing() -> None:
    kind, arguments, inputs = LAYERS["all dropped between layers"]
    compare_layers(kind, {"input_size": 2, "hidden_size": 4, **arguments}, inputs, {},
                   training=False)


@pytest.mark.parametrize("jit", [True, False])
@pytest.mark.parametrize("name", ["GRU", "projected, no bias"])
def test_a_compiled_recurrent_layer_matches_torch(name: str, jit: bool) -> None:
    kind, arguments, inputs = LAYERS[name]
    compare_layers(kind, {"input_size": 2, "hidden_size": 4, **arguments}, inputs, {},
                   device="cpu", jit=jit)


CELLS: dict[str, tuple[str, Options, tuple[Any, ...]]] = {
    "RNNCell": ("RNNCell", {}, (X[0], X[0] @ normal(2, 4))),
    "RNNCell, relu": ("RNNCell", {"nonlinearity": "relu", "bias": False}, (X[0],)),
    "LSTMCell": ("LSTMCell", {}, (X[0], (normal(3, 4), normal(3, 4)))),
    "LSTMCell, no bias": ("LSTMCell", {"bias": False}, (X[0],)),
    "GRUCell": ("GRUCell", {}, (X[0], normal(3, 4))),
    "GRUCell, unbatched": ("GRUCell", {}, (X[0, 0], normal(4))),
    "LSTMCell, unbatched": ("LSTMCell", {}, (X[0, 0],)),
}


@pytest.mark.parametrize("name", CELLS)
def test_cells_match_torch(name: str) -> None:
    kind, arguments, inputs = CELLS[name]
    compare_layers(kind, {"input_size": 2, "hidden_size": 4, **arguments}, inputs, {})


# ---- packed sequences ----------------------------------------------------------------------------

def packed_call(lengths: Any, sort: bool, first: bool) -> Any:
    """How to run a layer on packed sequences: what it gives, padded again, and last states."""
    def run(T: Any, layer: Any, inputs: Any, options: Options) -> Any:
        rnn = T.nn.utils.rnn
        packed = rnn.pack_padded_sequence(inputs[0], lengths, first, enforce_sorted=not sort)
        output, last = layer(packed, *inputs[1:])
        return [output.data, *rnn.pad_packed_sequence(output, first, -1.5), last]
    return run


PACKED: dict[str, tuple[str, Options, tuple[Any, ...], list[int]]] = {
    "LSTM": ("LSTM", {"bidirectional": True, "num_layers": 2}, (X, states("LSTM", 4, (3,))),
             [2, 5, 1]),
    "LSTM, projected": ("LSTM", {"bidirectional": True, "proj_size": 3}, (X,), [4, 4, 2]),
    "GRU": ("GRU", {"bidirectional": True, "batch_first": True}, (
        normal(3, 6, 2), states("GRU", 2, (3,))), [1, 5, 3]),
    "RNN, sorted": ("RNN", {"num_layers": 2}, (X,), [5, 3, 3]),
    "all of a length": ("GRU", {}, (X,), [5, 5, 5]),
    "shorter than the input": ("LSTM", {"bidirectional": True}, (X,), [3, 2, 2]),
}


@pytest.mark.parametrize("name", PACKED)
def test_packed_sequences_match_torch(name: str) -> None:
    kind, arguments, inputs, lengths = PACKED[name]
    falling = lengths == sorted(lengths, reverse=True)
    run = packed_call(lengths, not falling, arguments.get("batch_first", False))
    compare_layers(kind, {"input_size": 2, "hidden_size": 4, **arguments}, inputs, {}, run)


@pytest.mark.parametrize("jit", [True, False])
def test_compiled_packed_sequences_match_torch(jit: bool) -> None:
    kind, arguments, inputs, lengths = PACKED["LSTM, projected"]
    compare_layers(kind, {"input_size": 2, "hidden_size": 4, **arguments}, inputs, {},
                   packed_call(lengths, False, False), device="cpu", jit=jit)


@given(lengths=st.lists(st.integers(1, 4), min_size=1, max_size=5), first=st.booleans(),
       more=st.integers(0, 2), value=st.sampled_from([0.0, -1.0]))
def test_packing_and_padding_match_torch(lengths: list[int], first: bool, more: int, value: float
                                         ) -> None:
    parts = [np.arange(n * 2.0).reshape(n, 2) + 10 * i for i, n in enumerate(lengths)]

    def all_of(T: Any, tensor: Any) -> list[Any]:
        rnn = T.nn.utils.rnn
        given = [tensor(p) for p in parts]
        side = rnn.pad_sequence(given, first, value, "left")
        padded = rnn.pad_sequence(given, first, value)
        packed = rnn.pack_sequence(given, enforce_sorted=False)
        again, sizes = rnn.pad_packed_sequence(packed, first, value, max(lengths) + more)
        wide = rnn.pack_padded_sequence(padded, T.tensor(lengths), first, False)
        return [side, padded, *packed, again, sizes, wide.data, *rnn.unpack_sequence(packed),
                *rnn.unpad_sequence(again.clone(), sizes, first)]  # torch's transposes what it gets
    found = all_of(lt, lambda a: lt.tensor(a, device="interpreter"))
    for mine, its in zip(found, all_of(torch, torch.tensor), strict=True):
        assert mine.tolist() == its.tolist()


def test_packed_sequences_are_named_tuples_and_convert() -> None:
    for T in (lt, torch):
        rnn = T.nn.utils.rnn
        packed = rnn.pack_sequence([T.ones(2, 1), T.zeros(3, 1)], enforce_sorted=False)
        data, sizes, order, back = packed
        assert (sizes.tolist(), order.tolist(), back.tolist()) == ([2, 2, 1], [1, 0], [1, 0])
        assert packed.double().data.dtype is T.float64 and packed.float() is packed
        assert isinstance(packed.to(T.int64), rnn.PackedSequence) and not packed.is_cuda
        assert not packed.is_pinned()
        assert rnn.PackedSequence(data, sizes, order).unsorted_indices.tolist() == [1, 0]
        assert rnn.pack_sequence([T.ones(2), T.ones(1)]).sorted_indices is None


def test_parameters_are_torchs() -> None:
    """Their names by layer, and their ranges."""
    options = {"num_layers": 2, "bidirectional": True, "proj_size": 5}
    ours, theirs = (T.nn.LSTM(3, 16, **options) for T in (lt, torch))
    assert [[tuple(p.shape) for p in row] for row in ours.all_weights] == \
        [[tuple(p.shape) for p in row] for row in theirs.all_weights]
    assert ours._flat_weights_names == theirs._flat_weights_names
    for layer in (ours, lt.nn.GRUCell(3, 16)):
        for _ in range(2):
            values = np.concatenate([p.detach().numpy().ravel() for p in layer.parameters()])
            assert 0.24 < np.abs(values).max() <= 0.25
            assert values.std() == pytest.approx(0.25 / 3 ** 0.5, rel=0.1)
            layer.reset_parameters()
    assert ours.flatten_parameters() is None


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_jitted_training_on_sequences_of_different_lengths_matches_torch(kind: str) -> None:
    """Losses of a layer that reads what it is to say next, by steps of SGD with momentum."""
    arrays = [normal(n, 2, 3) for n in (4, 6, 4, 6)]

    def losses(T: Any, dtype: Any, jit: bool) -> list[float]:
        layer = getattr(T.nn, kind)(3, 3, dtype=dtype)
        layer.load_state_dict({n: T.tensor(v) for n, v in first.items()})
        optimizer = T.optim.SGD(layer.parameters(), lr=0.5, momentum=0.9)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = (layer(x[:-1])[0] - x[1:]).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()
        run = lt.jit(step) if jit else step
        return [run(T.tensor(a)).item() for a in arrays]
    first = {n: normal(*p.shape) for n, p in getattr(torch.nn, kind)(3, 3).state_dict().items()}
    expected = losses(torch, torch.float64, False)
    for jit in (True, False):
        np.testing.assert_allclose(losses(lt, lt.float64, jit), expected, rtol=1e-8)


def test_a_new_length_compiles_only_what_is_computed_for_all_steps_at_once() -> None:
    layer = lt.nn.LSTM(8, 16, device="cpu")

    def kernels(length: int) -> set[Any]:
        with watch_kernels() as seen:
            layer(lt.ones(length, 4, 8, device="cpu"))[0].square().sum().backward()
            lt.realize(*(p.grad for p in layer.parameters() if p.grad is not None))
        return {step.kernel for _, schedule in seen.schedules for step in schedule.steps}
    short, long = kernels(5), kernels(50)
    assert len(long) == len(short)
    assert len(long - short) <= 8
