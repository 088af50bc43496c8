"""Every public function of tensors, found where it is defined, with arguments that it takes.

A new function is here by itself. Where none of USUAL fits, it needs a row in SPECIAL;
`test_every_function.py` names it. `test_bad_arguments.py` gives each what does not belong there,
`test_torch_every_function.py` compares each with PyTorch.
"""
from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np

import lazyten as lt
from lazyten.nn import functional as F

Arguments = tuple[Any, ...]


def functions() -> dict[str, Callable[..., Any]]:
    """The public functions by name, and methods of tensors that are no functions, too."""
    found = {f"lt.{n}": f for n in lt.__all__ if (f := getattr(lt, n)) is not getattr(F, n, None)}
    found |= {f"F.{n}": f for n, f in vars(F).items() if not n.startswith("_")}
    found |= {f"Tensor.{n}": getattr(lt.Tensor, n, None) for n in dir(lt.Tensor) if n[0] != "_"
              and f"lt.{n}" not in found}
    return {name: f for name, f in found.items() if inspect.isfunction(f)}


def named(home: str, words: str) -> set[str]:
    """The full names of some functions of `lt`, `F` or `Tensor`."""
    return {f"{home}.{word}" for word in words.split()}


OUTSIDE = named("lt", """
    _check_with _check_tensor_all_with get_device_module
    as_tensor asarray can_cast checkpoint empty_cache explain from_dlpack to_dlpack from_numpy
    frombuffer
    get_default_dtype get_float32_matmul_precision get_num_threads get_rng_state grad initial_seed
    export is_autocast_enabled is_grad_enabled jit load_decisions load_safetensors manual_seed
    memory_stats profile promote_types quantize reset_peak result_type save_safetensors seed shard
    set_default_dtype set_float32_matmul_precision set_num_threads set_rng_state
    tune view vmap are_deterministic_algorithms_enabled compile get_default_device
    get_num_interop_threads load
    save set_default_device set_default_tensor_type set_flush_denormal
    set_num_interop_threads set_printoptions use_deterministic_algorithms

    get_autocast_cpu_dtype get_autocast_dtype get_autocast_gpu_dtype get_deterministic_debug_mode
    is_anomaly_check_nan_enabled is_anomaly_enabled is_autocast_cpu_enabled
    is_deterministic_algorithms_warn_only_enabled is_inference_mode_enabled is_warn_always_enabled
    set_anomaly_enabled set_deterministic_debug_mode set_warn_always typename

    autocast_decrement_nesting autocast_increment_nesting clear_autocast_cache
    is_autocast_cache_enabled set_autocast_cache_enabled set_autocast_cpu_dtype
    set_autocast_cpu_enabled set_autocast_dtype set_autocast_enabled set_autocast_gpu_dtype

    nonzero_static segment_reduce

    complex imag istft polar stft view_as_complex view_as_real
    sparse_compressed_tensor sparse_coo_tensor sparse_csc_tensor
    sparse_csr_tensor""") | named("Tensor", """
    ccol_indices coalesce col_indices crow_indices dense_dim indices is_coalesced row_indices
    sparse_dim sparse_mask to_dense to_sparse to_sparse_coo to_sparse_csc to_sparse_csr values
    apply_ map2_ map_ as_subclass backward data_ptr register_hook
    register_post_accumulate_grad_hook retain_grad""")
"""What is no function of tensors: it makes them of other things, or has to do with the process, a
graph or an address; and what takes its arguments by name alone, or
complex numbers, or sparse tensors (tests/sparse)."""


def _numbers(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """Floats in [0.1, 0.9], all different."""
    return np.round(np.random.default_rng(seed).uniform(0.1, 0.9, shape), 3)


f, g, m, v = _numbers(2, 3), _numbers(2, 3, seed=1), _numbers(3, 3, seed=2), _numbers(3, seed=3)
cube, line, image = _numbers(2, 3, 3), _numbers(1, 2, 8), _numbers(1, 2, 4, 4)
volume = _numbers(1, 2, 4, 4, 4)
at, one, n = np.array([[0, 1, 1], [1, 0, 1]]), np.array([0, 1]), np.array([0, 2, 1])

USUAL: list[Arguments] = [
    (f, 0, at, g), (f, 1, one, g[:, :2]), (image, v[:2], v[:2]), (f, m, m), (v, m, v),
    (m, v, v + 1), (f, f > 0.5, 0.5), (f > 0.5, f, g), (f, g, f + 1), (f, 0, at), (f, 1, one),
    (f, 0, 1), (f, 1, 1), ("ij,jk->ik", m, m), (0, 1, 5), (image, _numbers(3, 2, 2, 2)),
    (line, _numbers(3, 2, 2)), (volume, _numbers(3, 2, 2, 2, 2)), (image, (2, 2)),
    (volume, (2, 2, 2)), (image, 2), (line, 2), (volume, 2), (f, g), (v, v[::-1].copy()), (m, m),
    (f, one), (at, at), (f, f > 0.5), (f, (2, 3)), (f, (0, 1)), (f, 1), (f, 2), ((2, 3), 1.0),
    (2, 3), (at,), (image,), ([f, g],), ([v],), (f,), (m,), (v,), (5,), ((2, 3),)]
"""Arguments of which some fit most functions, and those with more come first. Arrays of floats
stand for tensors of the type under test, others for tensors of their own."""

SPECIAL: dict[str, Arguments] = {
    "F.bilinear": (f, g, _numbers(2, 3, 3), v[:2]), "F.conv_transpose1d": (line, _numbers(2, 3, 2)),
    "F.conv_transpose2d": (image, _numbers(2, 3, 2, 2)),
    "F.conv_transpose3d": (volume, _numbers(2, 3, 2, 2, 2)),
    "F.cosine_embedding_loss": (f, g, np.array([1, -1])),
    "F.affine_grid": (cube[:, :2], (2, 1, 3, 4)),
    "F.conv_tbc": (cube, _numbers(2, 3, 4), _numbers(4)),
    "F.ctc_loss": (np.log(_numbers(4, 2, 3)), np.array([[1, 2], [2, 1]]), np.array([4, 3]), one),
    **{f"F.fractional_max_pool{rest}": (image, 2, (2, 3), None, False, _numbers(1, 2, 2))
       for rest in ("2d", "2d_with_indices")},
    **{f"F.fractional_max_pool{rest}": (volume, 2, (2, 2, 1), None, False, _numbers(1, 2, 3))
       for rest in ("3d", "3d_with_indices")},
    "F.linear_cross_entropy": (f, m, one), "lt.norm_except_dim": (cube, 2, 1),
    **{f"lt.{name}dropout": (cube, 0.5, True)
       for name in ("", "alpha_", "feature_", "feature_alpha_")},
    "F.grid_sample": (image, _numbers(1, 3, 3, 2)),
    **{f"F.max_unpool{k}d": (x, np.broadcast_to(np.arange(x[0, 0].size).reshape(x.shape[2:]),
                                                x.shape).copy(), 2)
       for k, x in ((1, line), (2, image), (3, volume))},
    "F.embedding_bag": (at, m), "F.lp_pool2d": (image, 2.0, 2), "F.lp_pool3d": (volume, 2.0, 2),
    "F.fold": (_numbers(1, 4, 4), (3, 3), (2, 2)),
    "F.multilabel_margin_loss": (f, np.array([[0, 2, -1], [1, -1, 0]])), "F.prelu": (f, v),
    "F.multi_head_attention_forward": (
        cube, cube, cube, 3, 1, _numbers(9, 3, seed=7), _numbers(9, seed=8), None, None, False, 0.0,
        m, v), "F.embedding": (at, m), "F.one_hot": (at, 3),
    "lt.addbmm": (m, cube, cube), "lt.addmm": (m, m, m), "lt.baddbmm": (cube, cube, cube),
    "lt.as_strided": (f, (2, 2), (1, 2)), "lt.bincount": (n,), "lt.bmm": (cube, cube),
    "lt.index_fill": (f, 1, one, 0.5), "lt.index_put": (f, [one], g), "lt.is_nonzero": (v[:1],),
    "lt.cdist": (f, g), "Tensor.sum_to_size": (f, (1, 3)), "lt.kthvalue": (f * 10, 2),
    "lt.lu_solve": (f.T, m + np.eye(3), np.array([2, 3, 3], np.int32)),
    "lt.orgqr": (m, v), "lt.ormqr": (m, v, m),
    "lt.lu_unpack": (m, np.array([2, 3, 3], np.int32)),
    "lt.mv": (m, v), "lt.as_strided_copy": (f, (2, 2), (1, 2)),
    "lt.as_strided_scatter": (f, m[:2, :2], (2, 2), (1, 2)), "lt.narrow_copy": (f, 1, 1, 2),
    "lt.empty_permuted": ((2, 3), (1, 0)), "lt.empty_strided": ((2, 3), (1, 2)),
    "lt.grid_sampler": (image, _numbers(1, 3, 3, 2), 0, 0, False),
    "lt.grid_sampler_2d": (image, _numbers(1, 3, 3, 2), 0, 0, False),
    "lt.grid_sampler_3d": (volume, _numbers(1, 2, 3, 3, 3), 0, 0, False),
    "lt.index_reduce": (f, 1, one, g[:, :2], "mean"), "lt.renorm": (f, 2, 0, 1.0),
    "lt.split_with_sizes_copy": (f, (1, 2), 1), "lt.unsafe_split_with_sizes": (f, (1, 2), 1),
    "lt.unfold_copy": (f, 1, 2, 1), "lt.select_copy": (f, 1, 2), "lt.polygamma": (1, f),
    "Tensor.polygamma_": (f, 1),
    "lt.fake_quantize_per_channel_affine": (f, v + 0.01, np.array([0, 2, 5], np.int32), 1, 0, 15),
    "lt.fake_quantize_per_tensor_affine": (f, 0.05, 3, 0, 15),
    "lt.masked_scatter": (f, f > 0.5, g), "lt.narrow": (f, 1, 1, 2), "lt.randint": (0, 5, (2, 3)),
    "lt.scatter_reduce": (f, 0, at, g, "sum"), "lt.select_scatter": (f, g[:, 0], 1, 2),
    "lt.split_with_sizes": (f, (1, 2), 1), "lt.unflatten": (f, 1, (3, 1)),
    "lt.unravel_index": (at, (2, 3)),
    "Tensor.bitcast": (f, "float32"), "Tensor.geometric_": (f, 0.5),
    "Tensor.index_put_": (f, [one], g), "Tensor.item": (v[:1],),
    "Tensor.new_empty_strided": (f, (2, 3), (1, 2)), "Tensor.new_full": (f, (2, 2), 0.5),
    "Tensor.put": (f, one, v[:2]), "Tensor.prelu": (f, v),
    "Tensor.type": (f, "float64"), "Tensor.unfold": (f, 1, 2, 1),
}
"""Arguments of what takes none of USUAL; its twin that writes in place takes them, too."""


def made(library: Any, given: Any, kind: str, leaves: list[Any] | None = None) -> Any:
    """Arguments for a library: arrays as tensors, of floats as those of type `kind`. leaves: these
    collect gradients, and are here from then on; what is given is computed from them."""
    if isinstance(given, np.ndarray):
        tensor = library.tensor(given)
        if given.dtype != np.float64:
            return tensor
        tensor = tensor.to(getattr(library, kind))
        if leaves is None:
            return tensor
        leaves.append(tensor.requires_grad_())
        return tensor * 1
    if isinstance(given, list):
        return [made(library, x, kind, leaves) for x in given]
    return given


def called(library: Any, name: str, given: Arguments, kind: str,
           leaves: list[Any] | None = None) -> Any:
    """What the function of a library gives."""
    home, _, short = name.partition(".")
    where = {"lt": library, "F": library.nn.functional, "Tensor": library.Tensor}[home]
    return getattr(where, short)(*[made(library, x, kind, leaves) for x in given])


def special(name: str) -> Arguments | None:
    """A function's row, or that of the method of which it is the twin."""
    short = name.partition(".")[2].removesuffix("_")
    return SPECIAL.get(name) or SPECIAL.get(f"lt.{short}") or SPECIAL.get(f"Tensor.{short}")


@cache
def arguments(name: str, *others: Any) -> Arguments | None:
    """The first arguments that a function takes, in some type, here and in other libraries; None if
    there are none."""
    row = special(name)
    candidates = USUAL if row is None or name.startswith("F.") and name not in SPECIAL else [row]
    return next((given for kind in ("float32", "float64") for given in candidates
                 if all(fits(library, name, given, kind) for library in (lt, *others))), None)


def fits(library: Any, name: str, given: Arguments, kind: str) -> bool:
    """Whether a call works."""
    try:
        called(library, name, given, kind)
    except (TypeError, AttributeError, ValueError, RuntimeError, IndexError):
        return False
    return True


def tensors(result: Any) -> Iterator[Any]:
    """The tensors in a result, of whatever library."""
    if hasattr(result, "detach"):
        yield result
    elif isinstance(result, list | tuple):
        for part in result:
            yield from tensors(part)
