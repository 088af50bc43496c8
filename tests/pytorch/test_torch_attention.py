"""MultiheadAttention and transformers beside PyTorch's: names, outputs and gradients over their
options and masks."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from layer_compare import compare_layers, torch

import lazyten as lt

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore:enable_nested_tensor")]

RNG = np.random.default_rng(0)
Options = dict[str, Any]


def normal(*shape: int) -> Any:
    return RNG.normal(size=shape)


def later(n: int) -> Any:
    """True where a key comes after the query."""
    return np.triu(np.ones((n, n), bool), 1)


Q, K, V = normal(5, 2, 12), normal(7, 2, 12), normal(7, 2, 12)
HIDDEN = RNG.uniform(size=(5, 7)) < 0.3
PADDED = np.arange(7) >= np.array([[7], [4]])
ALSO = np.arange(6) >= np.array([[6], [4]])
FLOATS = normal(5, 7)
BY_HEAD = normal(6, 5, 7)
CAUSAL = np.where(later(5), -np.inf, 0.0)

ATTENTIONS: dict[str, tuple[Options, tuple[Any, ...], Options]] = {
    "plain": ({}, (Q, K, V), {}),
    "without weights": ({}, (Q, K, V), {"need_weights": False}),
    "weights of each head": ({}, (Q, K, V), {"average_attn_weights": False}),
    "no bias": ({"bias": False}, (Q, K, V), {"attn_mask": HIDDEN}),
    "padding": ({}, (Q, K, V), {"key_padding_mask": PADDED}),
    "padding, no weights": ({}, (Q, K, V), {"key_padding_mask": PADDED, "need_weights": False}),
    "both masks": ({}, (Q, K, V), {"key_padding_mask": PADDED, "attn_mask": HIDDEN,
                                   "average_attn_weights": False}),
    "float masks": ({}, (Q, K, V), {"key_padding_mask": normal(2, 7), "attn_mask": FLOATS,
                                    "need_weights": False}),
    "a mask each head": ({}, (Q, K, V), {"attn_mask": BY_HEAD}),
    "a mask each head, no weights": ({}, (Q, K, V), {"attn_mask": BY_HEAD > 0.5,
                                                     "need_weights": False}),
    "other sizes": ({"kdim": 4, "vdim": 6}, (Q, normal(7, 2, 4), normal(7, 2, 6)),
                    {"attn_mask": HIDDEN}),
    "other size of keys": ({"kdim": 4, "bias": False}, (Q, normal(7, 2, 4), V), {}),
    "more keys": ({"add_bias_kv": True, "add_zero_attn": True}, (Q, K, V),
                  {"attn_mask": HIDDEN, "key_padding_mask": PADDED}),
    "more keys, no weights": ({"add_bias_kv": True, "add_zero_attn": True}, (Q, K, V),
                              {"attn_mask": FLOATS, "need_weights": False}),
    "a zero key": ({"add_zero_attn": True}, (Q, K, V), {"average_attn_weights": False}),
    "batch first": ({"batch_first": True, "num_heads": 4}, (
        normal(2, 5, 12), normal(2, 7, 12), normal(2, 7, 12)), {"key_padding_mask": PADDED}),
    "unbatched": ({}, (normal(5, 12), normal(7, 12), normal(7, 12)), {
        "key_padding_mask": PADDED[1], "attn_mask": HIDDEN}),
    "unbatched, a mask each head": ({"batch_first": True}, (
        normal(5, 12), normal(7, 12), normal(7, 12)), {"attn_mask": normal(3, 5, 7),
                                                       "average_attn_weights": False}),
    "causal": ({}, (Q, K[:5], V[:5]), {"attn_mask": later(5), "is_causal": True,
                                       "need_weights": False}),
    "causal, with weights": ({}, (Q, K[:5], V[:5]), {"attn_mask": CAUSAL, "is_causal": True}),
    "causal, padded": ({}, (Q, K[:5], V[:5]), {
        "attn_mask": later(5), "is_causal": True, "need_weights": False,
        "key_padding_mask": np.arange(5) >= np.array([[5], [4]])}),
}


@pytest.mark.parametrize("name", ATTENTIONS)
def test_attention_matches_torch(name: str) -> None:
    arguments, inputs, options = ATTENTIONS[name]
    compare_layers("MultiheadAttention", {"embed_dim": 12, "num_heads": 3, **arguments}, inputs,
                   options)


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("heads", [2, 3])
def test_attention_of_a_sequence_to_itself_matches_torch(batch_first: bool, heads: int) -> None:
    """One tensor for all three: one product projects it."""
    compare_layers("MultiheadAttention", {"embed_dim": 12, "num_heads": heads, "batch_first":
                                          batch_first}, (normal(3, 4, 12),), {},
                   run=lambda T, layer, x, o: layer(x[0], x[0], x[0], **o))


def test_a_query_that_sees_nothing_is_torchs() -> None:
    hidden = HIDDEN.copy()
    hidden[2] = True
    torch.manual_seed(0)
    theirs = torch.nn.MultiheadAttention(12, 3, dtype=torch.float64)
    ours = lt.nn.MultiheadAttention(12, 3, dtype=lt.float64)
    ours.load_state_dict({n: lt.tensor(p.numpy()) for n, p in theirs.state_dict().items()})
    for weights in (True, False):
        found, _ = ours(*map(lt.tensor, (Q, K, V)), attn_mask=lt.tensor(hidden),
                        need_weights=weights)
        expected, _ = theirs(*map(torch.tensor, (Q, K, V)), attn_mask=torch.tensor(hidden),
                             need_weights=weights)
        np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), atol=1e-12)


def test_what_is_static_takes_the_place_of_keys_and_values() -> None:
    weights = [normal(36, 12), normal(36), normal(12, 12), normal(12)]
    fixed = normal(6, 7, 4), normal(6, 7, 4)

    def attend(T: Any) -> Any:
        w, b, out, shift, k, v, *x = (T.tensor(a) for a in (*weights, *fixed, Q, K, V))
        return T.nn.functional.multi_head_attention_forward(
            *x, 12, 3, w, b, None, None, False, 0.0, out, shift, static_k=k, static_v=v)
    for mine, its in zip(attend(lt), attend(torch), strict=True):
        np.testing.assert_allclose(mine.numpy(), its.numpy(), atol=1e-12)


# ---- transformers --------------------------------------------------------------------------------

SMALL = {"d_model": 12, "nhead": 3, "dim_feedforward": 8, "dropout": 0.0}
SRC, TGT = normal(6, 2, 12), normal(5, 2, 12)
MASKED = {"src_key_padding_mask": ALSO, "src_mask": later(6)}

LAYERS: dict[str, tuple[str, Options, tuple[Any, ...], Options]] = {
    "encoder": ("TransformerEncoderLayer", {}, (SRC,), {}),
    "encoder, normalized first": ("TransformerEncoderLayer", {"norm_first": True}, (SRC,), MASKED),
    "encoder, gelu": ("TransformerEncoderLayer", {
        "activation": "gelu", "bias": False, "layer_norm_eps": 0.1}, (SRC,), MASKED),
    "encoder, batch first": ("TransformerEncoderLayer", {"batch_first": True}, (SRC,), {
        "src_mask": later(2), "is_causal": True}),
    "encoder, all dropped": ("TransformerEncoderLayer", {"dropout": 1.0}, (SRC,), {}),
    "encoder, unbatched": ("TransformerEncoderLayer", {}, (SRC[:, 0],), {}),
    "decoder": ("TransformerDecoderLayer", {}, (TGT, SRC), {}),
    "decoder, normalized first": ("TransformerDecoderLayer", {"norm_first": True}, (TGT, SRC), {
        "tgt_mask": later(5), "tgt_is_causal": True, "memory_key_padding_mask": ALSO}),
    "decoder, batch first": ("TransformerDecoderLayer", {"batch_first": True, "bias": False}, (
        normal(2, 5, 12), normal(2, 6, 12)), {
            "tgt_mask": CAUSAL, "memory_mask": normal(5, 6),
            "tgt_key_padding_mask": np.zeros((2, 5))}),
    "both": ("Transformer", {"num_encoder_layers": 2, "num_decoder_layers": 2}, (SRC, TGT), {}),
    "both, masked": ("Transformer", {
        "num_encoder_layers": 1, "num_decoder_layers": 2, "batch_first": True, "norm_first": True,
        "activation": "gelu"}, (normal(2, 6, 12), normal(2, 5, 12)), {
            "tgt_mask": CAUSAL, "src_key_padding_mask": ALSO, "memory_key_padding_mask": ALSO,
            "src_mask": later(6), "memory_mask": normal(5, 6) > 1, "tgt_is_causal": True}),
}


@pytest.mark.filterwarnings("ignore:Support for mismatched")
@pytest.mark.parametrize("name", LAYERS)
def test_transformers_match_torch(name: str) -> None:
    kind, arguments, inputs, options = LAYERS[name]
    compare_layers(kind, {**SMALL, **arguments}, inputs, options)


def test_a_layer_in_evaluation_drops_nothing() -> None:
    kind, arguments, inputs, options = LAYERS["encoder, all dropped"]
    compare_layers(kind, {**SMALL, **arguments}, inputs, options, training=False)


def test_a_jitted_transformer_matches_torch() -> None:
    kind, arguments, inputs, options = LAYERS["both, masked"]
    compare_layers(kind, {**SMALL, **arguments, "num_decoder_layers": 1}, inputs, options,
                   device="cpu", jit=True)


def test_activations_are_names_functions_and_modules() -> None:
    def stack(T: Any, activation: Any) -> Any:
        layer = T.nn.TransformerEncoderLayer(4, 2, 4, activation=activation)
        return T.nn.TransformerEncoder(layer, 2, T.nn.LayerNorm(4), enable_nested_tensor=False)
    for name in ("ReLU", "GELU", "Tanh"):
        ours, theirs = (stack(T, getattr(T.nn, name)()) for T in (lt, torch))
        assert repr(ours) == repr(theirs)
        assert list(ours.state_dict()) == list(theirs.state_dict())
        assert ours.layers[0].activation_relu_or_gelu == theirs.layers[0].activation_relu_or_gelu
        assert ours.layers[0].activation is not ours.layers[1].activation
    assert stack(lt, "gelu").layers[0].activation is lt.nn.functional.gelu
    assert stack(lt, lt.tanh).layers[1].activation is lt.tanh


def test_initial_values_are_spread_as_torchs() -> None:
    """Each parameter's mean and deviation, within four standard errors; biases are zeros."""
    lt.manual_seed(0)
    torch.manual_seed(0)
    arguments = {**SMALL, "num_encoder_layers": 1, "num_decoder_layers": 1}
    pairs = [(lt.nn.Transformer(**arguments), torch.nn.Transformer(**arguments)),
             (lt.nn.MultiheadAttention(64, 2, add_bias_kv=True, kdim=8),
              torch.nn.MultiheadAttention(64, 2, add_bias_kv=True, kdim=8))]
    for ours, theirs in pairs:
        its = dict(theirs.named_parameters())
        for name, p in ours.named_parameters():
            mine, other = p.detach().numpy(), its[name].detach().numpy()
            if np.ptp(other) == 0:
                assert np.array_equal(mine, other), name
                continue
            error = 4 / np.sqrt(mine.size)
            assert abs(mine.mean()) < error * other.std(), name
            assert mine.std() == pytest.approx(other.std(), rel=error), name


def test_the_mask_of_what_comes_later_is_torchs() -> None:
    ours, theirs = (T.nn.Transformer.generate_square_subsequent_mask for T in (lt, torch))
    assert ours(4).tolist() == theirs(4).tolist()
    assert ours(2, dtype=lt.float64).dtype is lt.float64
