"""Layers for sequences: what they refuse, and say about it."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from slow_rows import slow_but

import lazyten as lt
from lazyten import autograd, nn
from lazyten.nn.utils import rnn


def zeros(*shape: int) -> lt.Tensor:
    return lt.zeros(*shape)


def attend(*shapes: tuple[int, ...], **options: Any) -> Callable[[], object]:
    """A call of attention with 4 features and 2 heads."""
    return lambda: nn.MultiheadAttention(4, 2)(*(zeros(*s) for s in shapes), **options)


def run(kind: str, *shapes: tuple[int, ...], **options: Any) -> Callable[[], object]:
    """A call of a recurrent layer or cell with 2 features, and a hidden state of 3."""
    return lambda: getattr(nn, kind)(2, 3, **options)(*(zeros(*s) for s in shapes))


def pack(lengths: Any, *shape: int, **options: Any) -> Callable[[], object]:
    return lambda: rnn.pack_padded_sequence(zeros(*shape), lengths, **options)


Q, K = (5, 3, 4), (7, 3, 4)

MISTAKES: list[tuple[Callable[[], object], type[lt.LazytenError], list[str]]] = [
    (lambda: nn.MultiheadAttention(5, 2), lt.ArgumentError, ["2 heads", "5 features"]),
    (lambda: nn.MultiheadAttention(4, 0), lt.ArgumentError, ["(4, 0)", "1 or more"]),
    (lambda: nn.MultiheadAttention(4, 2, dropout=2.0), lt.ArgumentError, ["p=2.0"]),
    (attend((5, 4), K, K), lt.ShapeError, ["(5, 4)", "(7, 3, 4)", "length, batch"]),
    (attend((4,), (4,), (4,)), lt.ShapeError, ["(4,)"]),
    (attend((5, 3, 6), K, K), lt.ShapeError, ["6 features", "embed_dim is 4"]),
    (attend(Q, K, (6, 3, 4)), lt.ShapeError, ["(7, 3, 4)", "(6, 3, 4)", "axis 0"]),
    (attend(Q, (7, 2, 4), (7, 2, 4)), lt.ShapeError, ["(7, 2, 4)", "axis 1"]),
    (attend(Q, K, K, attn_mask=zeros(5, 6)), lt.ShapeError, ["(5, 6)", "(5, 7)", "(6, 5, 7)"]),
    (attend(Q, K, K, attn_mask=zeros(7)), lt.ShapeError, ["attn_mask", "(7,)"]),
    (attend(Q, K, K, attn_mask=zeros(5, 7).long()), lt.DTypeError, ["attn_mask", "int64", "bool"]),
    (attend(Q, K, K, key_padding_mask=zeros(7)), lt.ShapeError, ["(7,)", "2 axes"]),
    (attend(Q, K, K, key_padding_mask=zeros(3, 6)), lt.ShapeError, ["(3, 6)", "(3, 7)"]),
    (attend(Q, K, K, is_causal=True), lt.ArgumentError, ["is_causal", "attn_mask", "subsequent"]),
    (lambda: nn.MultiheadAttention(4, 2)(zeros(*Q), [0.0], zeros(*K)), lt.DTypeError, ["list"]),
    (lambda: nn.TransformerEncoderLayer(4, 2, activation="tan"), lt.ArgumentError,
     ["'tan'", "relu, gelu"]),
    (lambda: nn.Transformer(4, 2, 1, 1, 4)(zeros(5, 3, 4), zeros(5, 2, 4)), lt.ShapeError,
     ["(5, 3, 4)", "(5, 2, 4)", "axis 1"]),
    (lambda: nn.Transformer(4, 2, 1, 1, 4)(zeros(5, 3, 4), zeros(5, 3, 6)), lt.ShapeError,
     ["(5, 3, 6)", "d_model"]),
    (lambda: nn.RNN(2, 3, nonlinearity="tan"), lt.ArgumentError, ["'tan'", "'relu'"]),
    (lambda: nn.LSTM(0, 3), lt.ArgumentError, ["input_size=0"]),
    (lambda: nn.LSTM(2, 3.0), lt.DTypeError, ["hidden_size", "3.0"]),  # type: ignore[arg-type]
    (lambda: nn.LSTM(2, 3, num_layers=0), lt.ArgumentError, ["num_layers=0"]),
    (lambda: nn.LSTM(2, 3, proj_size=3), lt.ArgumentError, ["proj_size=3", "hidden_size=3"]),
    (lambda: nn.GRU(2, 3, proj_size=2), lt.ArgumentError, ["proj_size", "LSTM"]),
    (lambda: nn.GRU(2, 3, 2, dropout=1.5), lt.ArgumentError, ["p=1.5"]),
    (lambda: nn.GRU(2, 3, 2, batch_first=1), lt.DTypeError,  # type: ignore[arg-type]
     ["batch_first", "int"]),
    (run("LSTM", (5, 4, 3)), lt.ShapeError, ["(5, 4, 3)", "(steps, batch, 2)"]),
    (run("GRU", (5, 4, 3), batch_first=True), lt.ShapeError, ["(batch, steps, 2)"]),
    (run("RNN", (2,)), lt.ShapeError, ["(2,)"]),
    (run("RNN", (0, 4, 2)), lt.ShapeError, ["no steps"]),
    (run("GRU", (5, 4, 2), (1, 4, 2)), lt.ShapeError, ["(1, 4, 2)", "(1, 4, 3)"]),
    (run("GRU", (5, 2), (1, 1, 3)), lt.ShapeError, ["(1, 1, 3)", "(1, 3)"]),
    (run("LSTM", (5, 4, 2), (1, 4, 3)), lt.DTypeError, ["(h, c)"]),
    (lambda: nn.LSTM(2, 3)(zeros(5, 4, 2).double()), lt.DTypeError, ["float64", "float32"]),
    (lambda: nn.LSTM(2, 3)([0.0]), lt.DTypeError, ["list"]),
    (run("RNNCell", (4, 3)), lt.ShapeError, ["(4, 3)", "(batch, 2)"]),
    (run("RNNCell", (4, 2), (4, 2)), lt.ShapeError, ["state 0", "(4, 2)", "(4, 3)"]),
    (run("RNNCell", (4, 2), nonlinearity="tan"), lt.ArgumentError, ["'tan'"]),
    (run("LSTMCell", (4, 2), (4, 3)), lt.DTypeError, ["(h, c)"]),
    (pack([2, 5], 5, 2, 1), lt.ArgumentError, ["[2, 5]", "enforce_sorted=False"]),
    (pack([5, 0], 5, 2, 1), lt.ArgumentError, ["a length is 0"]),
    (pack([6, 5], 5, 2, 1), lt.ShapeError, ["[6, 5]", "5 steps"]),
    (pack([5], 5, 2, 1), lt.ShapeError, ["1 lengths for 2"]),
    (pack([5], 5), lt.ShapeError, ["(5,)", "longest, batch"]),
    (lambda: rnn.pad_packed_sequence(zeros(2)), lt.DTypeError,  # type: ignore[arg-type]
     ["PackedSequence"]),
    (lambda: rnn.pad_packed_sequence(rnn.pack_sequence([zeros(2)]), total_length=1),
     lt.ArgumentError, ["total_length=1", "2"]),
    (lambda: rnn.pad_sequence([]), lt.ArgumentError, ["no sequences"]),
    (lambda: rnn.pad_sequence([zeros(2, 1), zeros(2, 3)]), lt.ShapeError, ["(2, 1)", "(2, 3)"]),
    (lambda: rnn.pad_sequence([zeros(2)], padding_side="up"), lt.ArgumentError, ["'up'"]),
]


@pytest.mark.parametrize("number", range(len(MISTAKES)))
def test_refusals_name_what_is_wrong(number: int) -> None:
    mistake, error, words = MISTAKES[number]
    with pytest.raises(error) as raised:
        mistake()
    for word in words:
        assert word in str(raised.value)


def test_dropout_that_has_no_layers_to_drop_between_is_told() -> None:
    with pytest.warns(UserWarning, match="only one"):
        nn.GRU(2, 3, dropout=0.5)


def test_autocast_leaves_recurrent_layers_in_the_type_of_their_weights() -> None:
    layer, cell, linear = nn.LSTM(3, 2), nn.GRUCell(3, 2), nn.Linear(2, 3)
    with lt.autocast(dtype=lt.bfloat16):
        x = linear(lt.ones(4, 1, 2))
        output, (h, _) = layer(x)
        assert output.dtype is h.dtype is cell(x[0], h[0]).dtype is lt.float32


def test_recurrent_layers_batch_and_differentiate_twice() -> None:
    """vmap gives what a loop does, and forward mode what reverse mode does."""
    layer = nn.GRU(2, 3, device="interpreter")
    x = lt.randn(2, 3, 2, device="interpreter")

    def loss(a: lt.Tensor) -> lt.Tensor:
        return layer(a)[0].square().sum()
    one_by_one = lt.stack([lt.func.grad(loss)(a) for a in x])
    assert lt.allclose(lt.func.vmap(lt.func.grad(loss))(x), one_by_one, atol=1e-6)
    forward, reverse = lt.func.jacfwd(loss)(x[0]), lt.func.jacrev(loss)(x[0])
    assert lt.allclose(forward, reverse, atol=1e-6)
    twice = lt.func.hessian(loss)(x[0]).reshape(6, 6)
    assert lt.allclose(twice, twice.T, atol=1e-5)


@pytest.mark.parametrize("kind", slow_but(["LSTM", "GRU", "RNN"], "RNN"))
def test_gradients_and_second_gradients_are_differences_of_values(kind: str) -> None:
    options = {"proj_size": 1} if kind == "LSTM" else {}
    layer = getattr(nn, kind)(1, 2, device="interpreter", dtype=lt.float64, **options)
    x = lt.randn(3, 1, 1, dtype=lt.float64, device="interpreter").requires_grad_()
    names, weights = zip(*layer.named_parameters(), strict=True)

    def call(a: lt.Tensor, *given: lt.Tensor) -> Any:
        output, last = lt.func.functional_call(layer, dict(zip(names, given, strict=False)), (a,))
        return output, *(last if isinstance(last, tuple) else (last,))
    assert autograd.gradcheck(call, [x, *weights])
    assert autograd.gradgradcheck(lambda a, w: call(a, weights[0], w)[0], [x, weights[1]])


@pytest.mark.frees_nodes
def test_steps_belong_to_the_line_that_calls_the_layer() -> None:
    layer, x = nn.GRU(3, 11), lt.ones(5, 3, 3)
    first = lt.explain(layer(x)[0])
    second = lt.explain(
        layer(x)[0])
    lines = [{line.rpartition(".py:")[2] for line in text.splitlines()
              if ": reduce_3_33_11 stores" in line} for text in (first, second)]
    assert [len(found) for found in lines] == [1, 1] and lines[0] != lines[1]


def test_recurrent_layers_of_16_bit_floats_compute_in_float32() -> None:
    wide, low = (nn.LSTM(3, 5, device="interpreter") for _ in range(2))
    x = lt.randn(6, 2, 3, device="interpreter")
    for dtype, places in ((lt.bfloat16, 1e-2), (lt.float16, 2e-3)):
        low.float().load_state_dict(wide.state_dict())
        output, (h, _) = low.to(dtype)(x.to(dtype))
        assert output.dtype is h.dtype is dtype
        assert lt.allclose(output.float(), wide(x)[0], atol=places)


@pytest.mark.parametrize("layer", [nn.RNN, nn.LSTM, nn.GRU])
def test_an_input_of_another_type_is_a_value_error_and_a_type_error(layer: type[nn.RNN]) -> None:
    for kind in (ValueError, TypeError):
        with pytest.raises(kind, match="float64 and the weights are float32"):
            layer(3, 4)(lt.ones(2, 3, dtype=lt.float64))
