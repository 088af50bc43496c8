"""Layers that keep a state from call to call in place of all keys and values: linear attention, and
convolutions over time.

In the shapes: b batch, t places, n heads, h numbers of a head.
"""
from __future__ import annotations

import math
from collections.abc import Callable

import lazyten as lt
from lazyten.onnx.operators.microsoft.attention import split_heads
from lazyten.onnx.scanning import Tensors, scanned
from lazyten.onnx.schemas import MICROSOFT
from lazyten.onnx.table import operator
from lazyten.support.errors import ArgumentError, ShapeError

T = lt.Tensor
RULES = {"linear": (False, False), "gated": (True, False), "delta": (False, True),
         "gated_delta": (True, True)}
"""Whether the state decays, and whether it learns what it does not give yet."""
ACTIVATIONS: dict[str, Callable[[T], T]] = {
    "none": lambda x: x, "silu": lt.nn.functional.silu, "swish": lt.nn.functional.silu}


def _by_place(x: T, heads: int) -> T:
    """[t, b, n, h] of [b, t, n * h]."""
    return split_heads(x.to(lt.float32), heads).permute(2, 0, 1, 3)


@operator("LinearAttention", domain=MICROSOFT, gives=2, fixed={"state_window": 0})
def linear_attention(query: T, key: T, value: T, past_state: T | None = None,
                     decay: T | None = None, beta: T | None = None, *, q_num_heads: int,
                     kv_num_heads: int, chunk_size: int = 64, scale: float = 0.0,
                     update_rule: str = "gated_delta") -> tuple[T, T]:
    """Queries times a state [b, n, h, h], to which each place adds its key times its value, and the
    last state. The state decays before by exp(decay); by a rule of differences (delta, of
    arXiv:2406.06484) what the state gives for the key is taken from the value, times beta."""
    if update_rule not in RULES:
        raise ArgumentError(f"update_rule {update_rule!r}: {sorted(RULES)} are there")
    decays, differs = RULES[update_rule]
    if decays and decay is None or differs and beta is None:
        raise ArgumentError(f"update_rule {update_rule!r} needs the input "
                            f"{'decay' if decays and decay is None else 'beta'}")
    if max(q_num_heads, kv_num_heads) % min(q_num_heads, kv_num_heads):
        raise ShapeError(f"{q_num_heads} heads of queries and {kv_num_heads} of keys: one must be "
                         f"a multiple of the other")
    q, k, v = (_by_place(x, n) for x, n in (
        (query, q_num_heads), (key, kv_num_heads), (value, kv_num_heads)))
    q = q * (scale or 1 / math.sqrt(q.shape[-1]))
    rows = [q, k, v]
    if decays and decay is not None:
        rows.append(_by_place(decay, kv_num_heads).exp().unsqueeze(-1))
    if differs and beta is not None:
        wide = beta.expand(*beta.shape[:2], kv_num_heads)
        rows.append(_by_place(wide, kv_num_heads))
    state = lt.zeros(*k.shape[1:], v.shape[-1], device=query.device) if past_state is None \
        else past_state.to(lt.float32)
    groups = q_num_heads // kv_num_heads, kv_num_heads // q_num_heads

    def step(own: Tensors, before: Tensors) -> tuple[Tensors, Tensors]:
        q, k, v, *more = own
        old = before[0] * more[0] if decays else before[0]
        if differs:
            v = (v - (old * k.unsqueeze(-1)).sum(-2)) * more[-1]
        new = old + k.unsqueeze(-1) * v.unsqueeze(-2)
        asked = q.repeat_interleave(groups[1], dim=1) if groups[1] > 1 else q
        read = new.repeat_interleave(groups[0], dim=1) if groups[0] > 1 else new
        return [new], [(asked.unsqueeze(-1) * read).sum(-2)]
    ends, found = _run(step, rows, state)
    y = found.permute(1, 0, 2, 3).flatten(2)
    return y.to(query.dtype), ends.to(query.dtype if past_state is None else past_state.dtype)


def _run(step: Callable[[Tensors, Tensors], tuple[Tensors, Tensors]], rows: Tensors, state: T,
         ) -> tuple[T, T]:
    """The last state, and what all steps give."""
    found = scanned(step, rows, [state], [])
    if found is not None:
        return found[0][0], found[1][0]
    given = []
    for t in range(rows[0].shape[0]):
        [state], [one] = step([x[t] for x in rows], [state])
        given.append(one)
    if not given:
        raise ShapeError("a sequence of no places")
    return state, lt.stack(given)


@operator("CausalConvWithState", domain=MICROSOFT, gives=2, fixed={
    "ndim": 1, "state_window": 0, "state_update_capacity": 0, "state_length": 0,
    "state_channels_last": -1, "input_channels": 0, "input_channel_offset": 0})
def causal_convolution(x: T, weight: T, bias: T | None = None, past_state: T | None = None, *,
                       activation: str = "none", channels_last: int = 0,
                       dilation: int = 1) -> tuple[T, T]:
    """Each channel of [b, channels, t] convolved with the places up to its own, those before the
    first from the state; and the last places, the next state."""
    if activation not in ACTIVATIONS:
        raise ArgumentError(f"activation {activation!r}: {sorted(ACTIVATIONS)} are there")
    length, kept = x.shape[1 if channels_last else 2], (weight.shape[-1] - 1) * dilation
    rest = x.shape[2:]

    def first(y: T) -> T:
        return y.flatten(2).transpose(1, 2) if channels_last else y

    def last(y: T) -> T:
        return y.transpose(1, 2).reshape(y.shape[0], y.shape[2], *rest) if channels_last else y
    images = first(x)
    before = images.new_zeros((*images.shape[:2], kept)) if past_state is None \
        else first(past_state)
    whole = lt.cat([before, images], 2)
    found = lt.nn.functional.conv1d(whole, weight, bias, dilation=dilation,
                                    groups=images.shape[1])
    return last(ACTIVATIONS[activation](found)), last(whole.narrow(2, length, kept))
