"""What is not right of PyTorch's database, by reason. `make coverage` checks that nothing else is
wrong, and writes docs/coverage.md from it."""
from __future__ import annotations

REASONS = {
    "complex": ("needs complex numbers of 16-bit parts", """
        chalf"""),
    "sparse": ("makes or takes a sparse tensor", """
        sparse_mm_reduce sparse_sampled_addmm to_sparse"""),
    "internal": ("is PyTorch's own, which programs do not call, or needs a GPU there", """
        _batch_norm_with_update _chunk_cat _native_batch_norm_legit _segment_reduce_lengths
        _segment_reduce_offsets _softmax_backward_data _unsafe_masked_index
        _unsafe_masked_index_put_accumulate _upsample_bilinear2d_aa hash_tensor
        jiterator_2inputs_2outputs jiterator_4inputs_with_extra_args jiterator_binary
        jiterator_binary_return_by_ref jiterator_unary max_pool2d_with_indices_backward
        native_batch_norm native_dropout_backward native_group_norm native_layer_norm
        nn_functional_batch_norm_without_cudnn slice torch__scaled_mm
        torch__scaled_mm_v2 torch_ops_aten__efficient_attention_forward
        torch_ops_aten__flash_attention_forward torch_ops_aten__safe_softmax_default"""),
    "pytorch": ("differs where PyTorch's own result is not the derivative", """
        as_strided_scatter cholesky_inverse cholesky_solve"""),
}
"""By a word: what it means, and the names of the entries."""


def why_not() -> dict[str, str]:
    """The reason's word of each entry that is not right."""
    return {name: word for word, (_, names) in REASONS.items() for name in names.split()}
