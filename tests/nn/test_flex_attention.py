"""Attention by functions of positions: its scores and masks are those of NumPy's formula."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import lazyten as lt
from lazyten.nn.attention.bias import (
    CausalBias,
    CausalVariant,
    causal_lower_right,
    causal_upper_left,
)
from lazyten.nn.attention.flex_attention import (
    AuxRequest,
    BlockMask,
    and_masks,
    create_block_mask,
    create_mask,
    flex_attention,
    or_masks,
)
from lazyten.nn.functional import scaled_dot_product_attention

RNG = np.random.default_rng(0)
Q, K, V = (lt.tensor(RNG.normal(size=(2, 4, 12, 8))) for _ in range(3))


def causal(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
    return q_idx >= kv_idx


def near(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
    return (q_idx - kv_idx).abs() <= 1 + h


def positions() -> list[Any]:
    return list(np.ogrid[:2, :4, :12, :12])


def expected(scores: Any, seen: Any = True) -> Any:
    scores = np.where(seen, scores, -np.inf)
    top = np.maximum(scores.max(-1, keepdims=True), -1e300)
    weights = np.exp(scores - top)
    total = weights.sum(-1, keepdims=True)
    return weights / np.where(total == 0, 1, total) @ V.numpy()


def scores() -> Any:
    return Q.numpy() @ K.numpy().swapaxes(-1, -2) / np.sqrt(8)


def test_without_functions_it_is_attention() -> None:
    np.testing.assert_allclose(flex_attention(Q, K, V).numpy(), expected(scores()), atol=1e-12)


def test_a_score_is_changed_by_its_position_and_what_is_read_there() -> None:
    table = lt.tensor(RNG.normal(size=(4, 12)))

    def bias(score: Any, b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        return score * (b + 1) + table[h, (q_idx - kv_idx).abs()] - kv_idx
    b, h, q, k = positions()
    wanted = scores() * (b + 1) + table.numpy()[h, abs(q - k)] - k
    np.testing.assert_allclose(flex_attention(Q, K, V, bias).numpy(), expected(wanted), atol=1e-12)


def test_what_a_score_reads_has_gradients() -> None:
    table = lt.zeros(12, dtype=lt.float64, requires_grad=True)

    def output() -> Any:
        return flex_attention(Q, K, V, lambda s, b, h, q, k: s + table[(q - k).abs()]).sum()
    found = lt.autograd.grad(output(), table)[0]
    step = 1e-6
    with lt.no_grad():
        table[3] += step
        above = output().item()
        table[3] -= 2 * step
        below = output().item()
    np.testing.assert_allclose(found[3].item(), (above - below) / (2 * step), rtol=1e-6)


@pytest.mark.parametrize(("mask", "size"), [(causal, 4), (near, 4), (near, 5), (near, (4, 6))])
def test_a_block_mask_hides_what_its_function_does_not_show(mask: Any, size: Any) -> None:
    blocks = create_block_mask(mask, None, 4, 12, 12, BLOCK_SIZE=size)
    seen = mask(*map(lt.tensor, positions())).numpy()
    np.testing.assert_allclose(flex_attention(Q, K, V, block_mask=blocks).numpy(),
                               expected(scores(), seen), atol=1e-12)


def test_blocks_that_are_not_listed_are_not_seen() -> None:
    columns = lt.tensor([[[[0, 2, 1], [1, 0, 2], [2, 0, 0]]]]).int()
    some = lt.tensor([[[1, 1, 0]]]).int()
    whole = lt.tensor([[[0, 1, 0]]]).int()
    blocks = BlockMask.from_kv_blocks(some, columns, whole, columns.roll(1, -1), 4, causal)
    _, _, q, k = positions()
    seen = (q >= k) & (q // 4 == k // 4) & (q < 8) | (q // 4 == 1) & (k // 4 == 2)
    found = flex_attention(Q, K, V, block_mask=blocks)
    np.testing.assert_allclose(found.numpy(), expected(scores(), seen), atol=1e-12)
    assert blocks.to_dense().tolist() == [[[[True, False, False], [False, True, True],
                                            [False, False, False]]]]
    assert blocks.q_num_blocks is not None and blocks.q_num_blocks.tolist() == [[[1, 1, 0]]]
    blocks.mask_mod = lambda b, h, q, k: k < q
    assert (flex_attention(Q, K, V, block_mask=blocks) != found).any()


def test_a_query_that_sees_nothing_gives_0() -> None:
    blocks = create_block_mask(lambda b, h, q, k: (q >= k) & (q != 3), None, None, 12, 12)
    found = flex_attention(Q, K, V, block_mask=blocks)
    assert (found[:, :, 3] == 0).all() and not found.isnan().any()


def test_lists_of_blocks_say_which_are_empty_and_which_are_whole() -> None:
    blocks = create_block_mask(causal, 1, 1, 12, 12, BLOCK_SIZE=4)
    assert blocks.kv_num_blocks.tolist() == [[[1, 1, 1]]]
    assert blocks.full_kv_num_blocks is not None
    assert blocks.full_kv_num_blocks.tolist() == [[[0, 1, 2]]]
    assert blocks.shape == (1, 1, 12, 12) and blocks.numel() == 144
    assert blocks.sparsity() == pytest.approx(100 / 3)
    assert repr(blocks) == "BlockMask(shape=(1, 1, 12, 12), sparsity=33.33%)"
    part = blocks[:, :, 1]
    assert part.shape == (1, 1, 4, 12)
    with pytest.raises(RuntimeError, match="assign one to it"):
        flex_attention(Q[:, :, :4], K, V, block_mask=part)
    assert blocks._adjust(8, 8).to_dense().tolist() == [[[[True, False], [True, True]]]]


def test_functions_of_positions_join() -> None:
    both = create_mask(and_masks(causal, near), None, 4, 12, 12)
    one = create_mask(or_masks(causal, near), None, 4, 12, 12)
    a, b = (create_mask(f, None, 4, 12, 12) for f in (causal, near))
    assert (both == (a & b)).all() and (one == (a | b)).all()
    with pytest.raises(lt.ArgumentError, match="is no function of positions"):
        and_masks(causal, 3)  # type: ignore[arg-type]


def test_heads_of_keys_serve_several_of_the_query() -> None:
    few = K[:, ::2], V[:, ::2]
    found = flex_attention(Q, *few, enable_gqa=True)
    wanted = flex_attention(Q, *(x.repeat_interleave(2, 1) for x in few))
    np.testing.assert_allclose(found.numpy(), wanted.numpy(), atol=1e-12)
    with pytest.raises(lt.ShapeError, match="enable_gqa=True"):
        flex_attention(Q, *few)


def test_what_it_was_normalized_by_is_given() -> None:
    _, aux = flex_attention(Q, K, V, return_aux=AuxRequest(lse=True, max_scores=True))
    np.testing.assert_allclose(aux.lse.numpy(), np.log(np.exp(scores()).sum(-1)), atol=1e-12)
    np.testing.assert_allclose(aux.max_scores.numpy(), scores().max(-1), atol=1e-12)
    with pytest.warns(FutureWarning, match="return_aux"):
        _, lse = flex_attention(Q, K, V, return_lse=True)
    np.testing.assert_allclose(lse.numpy(), aux.lse.numpy(), rtol=1e-12)  # kernels of their own


def test_it_is_jitted() -> None:
    def attention(q: lt.Tensor, k: lt.Tensor, v: lt.Tensor) -> lt.Tensor:
        blocks = create_block_mask(causal, None, None, 12, 12, BLOCK_SIZE=4)
        result: lt.Tensor = flex_attention(q, k, v, lambda s, b, h, i, j: s - (i - j), blocks)
        return result
    jitted = lt.jit(attention)
    for _ in range(3):
        np.testing.assert_allclose(jitted(Q, K, V).numpy(), attention(Q, K, V).numpy(), atol=1e-12)


@pytest.mark.parametrize(("use", "message"), [
    (lambda: flex_attention(Q[0], K, V), "each needs axes of batches"),
    (lambda: flex_attention(Q.float(), K, V), "must be of one float type"),
    (lambda: flex_attention(Q[..., :4], K, V), "equal last axes"),
    (lambda: flex_attention(Q, K, V, block_mask=create_block_mask(causal, 1, 1, 8, 12)),
     "a block_mask of 8 queries and 12 keys"),
    (lambda: causal_upper_left(3), "the numbers of queries and of keys"),
    (lambda: CausalBias(1, 3, 3), "is no CausalVariant")])  # type: ignore[arg-type]
def test_what_does_not_fit_is_said(use: Any, message: str) -> None:
    with pytest.raises(lt.LazytenError, match=message):
        use()


def test_causal_masks_begin_or_end_in_a_corner() -> None:
    q, k, v = Q[:, :, :5], K[:, :, :9], V[:, :, :9]
    left, right = causal_upper_left(5, 9), causal_lower_right(5, 9)
    assert (right.variant, right.seq_len_q, right.seq_len_kv) == (CausalVariant.LOWER_RIGHT, 5, 9)
    assert left.tolist() == np.tri(5, 9).astype(bool).tolist()
    assert right.tolist() == np.tri(5, 9, 4).astype(bool).tolist()
    plain = scaled_dot_product_attention(q, k, v, is_causal=True)
    np.testing.assert_allclose(scaled_dot_product_attention(q, k, v, left).numpy(), plain.numpy(),
                               atol=1e-12)
    with pytest.warns(UserWarning, match="the first 2 queries see no key"):
        causal_lower_right(5, 3)
