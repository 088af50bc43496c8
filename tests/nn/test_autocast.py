"""autocast beside PyTorch's: which types operations compute in, values, gradients, nesting, jit."""
from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tensor_values import normal
from torch_if_there import torch

import lazyten as lt
from lazyten.frontend.core import mixed_precision
from lazyten.frontend.core.mixed_precision import LOW, POLICY, WIDE
from lazyten.ir.node import is_alias, toposort
from lazyten.ir.ops import Op
from lazyten.nn import functional as F

HALVES = [lt.bfloat16, lt.float16]
by_half = pytest.mark.parametrize("half", HALVES, ids=lambda d: d.name)


A, B, V = normal(4, 6), normal(6, 4, seed=1), normal(6, seed=2)
BATCH, IMAGE = normal(2, 4, 6, seed=3), normal(2, 4, 9, 9, seed=4)
LABELS = np.array([0, 2, 1, 3])
SIGNS = np.sign(A).astype(np.int64)

CALLS: dict[str, Callable[[Any, Any, Callable[[Any], Any]], Any]] = {  # of a library, its
    # functions of networks, and what makes a tensor
    "matmul": lambda lib, f, t: t(A) @ t(B),
    "mm": lambda lib, f, t: t(A).mm(t(B)),
    "bmm": lambda lib, f, t: t(BATCH).bmm(t(BATCH).transpose(1, 2)),
    "mv": lambda lib, f, t: t(A).mv(t(V)),
    "addmm": lambda lib, f, t: t(normal(4, 4)).addmm(t(A), t(B)),
    "addmv": lambda lib, f, t: t(normal(4)).addmv(t(A), t(V)),
    "baddbmm": lambda lib, f, t: t(normal(2, 4, 4)).baddbmm(t(BATCH), t(BATCH).transpose(1, 2)),
    "tensordot": lambda lib, f, t: lib.tensordot(t(A), t(B), 1),
    "einsum": lambda lib, f, t: lib.einsum("ij,jk->ik", t(A), t(B)),
    "linear": lambda lib, f, t: f.linear(t(A), t(normal(3, 6)), t(normal(3))),
    "conv1d": lambda lib, f, t: f.conv1d(t(BATCH), t(normal(3, 4, 2)), t(normal(3))),
    "conv2d": lambda lib, f, t: f.conv2d(t(IMAGE), t(normal(3, 4, 2, 2)), padding=1),
    "conv3d": lambda lib, f, t: f.conv3d(t(IMAGE)[None], t(normal(3, 2, 2, 2, 2))),
    "conv_transpose1d": lambda lib, f, t: f.conv_transpose1d(t(BATCH), t(normal(4, 3, 2))),
    "conv_transpose2d": lambda lib, f, t: f.conv_transpose2d(t(IMAGE), t(normal(4, 3, 2, 2))),
    "conv_transpose3d": lambda lib, f, t: f.conv_transpose3d(t(IMAGE)[None],
                                                             t(normal(2, 3, 2, 2, 2))),
    "scaled_dot_product_attention": lambda lib, f, t: f.scaled_dot_product_attention(
        *[t(BATCH)] * 3),
    "prelu": lambda lib, f, t: f.prelu(t(A), t(V)),
    "softmax": lambda lib, f, t: f.softmax(t(A), 1),
    "log_softmax": lambda lib, f, t: t(A).log_softmax(1),
    "softplus": lambda lib, f, t: f.softplus(t(A)),
    "cross_entropy": lambda lib, f, t: f.cross_entropy(t(A), lib.tensor(LABELS)),
    "nll_loss": lambda lib, f, t: f.nll_loss(t(A), lib.tensor(LABELS)),
    "mse_loss": lambda lib, f, t: f.mse_loss(t(A), t(A[::-1].copy())),
    "l1_loss": lambda lib, f, t: f.l1_loss(t(A), t(A[::-1].copy())),
    "binary_cross_entropy_with_logits": lambda lib, f, t: f.binary_cross_entropy_with_logits(
        t(A), t(abs(A))),
    "cosine_embedding_loss": lambda lib, f, t: f.cosine_embedding_loss(
        t(A), t(A[::-1].copy()), lib.tensor([1, -1, 1, -1])),
    "gaussian_nll_loss": lambda lib, f, t: f.gaussian_nll_loss(t(A), t(A[::-1].copy()), t(abs(A))),
    "hinge_embedding_loss": lambda lib, f, t: f.hinge_embedding_loss(
        t(A), lib.tensor(SIGNS)),
    "huber_loss": lambda lib, f, t: f.huber_loss(t(A), t(A[::-1].copy())),
    "kl_div": lambda lib, f, t: f.kl_div(t(A), t(abs(A))),
    "margin_ranking_loss": lambda lib, f, t: f.margin_ranking_loss(
        t(A), t(A[::-1].copy()), lib.tensor(SIGNS)),
    "multi_margin_loss": lambda lib, f, t: f.multi_margin_loss(t(A), lib.tensor(LABELS)),
    "multilabel_margin_loss": lambda lib, f, t: f.multilabel_margin_loss(
        t(B[:4]), lib.tensor([[0, 2, -1, 1]] * 4)),
    "poisson_nll_loss": lambda lib, f, t: f.poisson_nll_loss(t(A), t(abs(A))),
    "smooth_l1_loss": lambda lib, f, t: f.smooth_l1_loss(t(A), t(A[::-1].copy())),
    "soft_margin_loss": lambda lib, f, t: f.soft_margin_loss(t(A), lib.tensor(SIGNS)),
    "triplet_margin_loss": lambda lib, f, t: f.triplet_margin_loss(
        t(A), t(A[::-1].copy()), t(A[:, ::-1].copy())),
    "cosine_similarity": lambda lib, f, t: f.cosine_similarity(t(A), t(A[::-1].copy())),
    "pdist": lambda lib, f, t: f.pdist(t(A)),
    "group_norm": lambda lib, f, t: f.group_norm(t(A), 2, t(V), t(V)),
    "layer_norm": lambda lib, f, t: f.layer_norm(t(A), (6,), t(V), t(V)),
    "norm": lambda lib, f, t: t(A).norm(),
    "sum": lambda lib, f, t: t(A).sum(1),
    "prod": lambda lib, f, t: t(V).prod(),
    "cumsum": lambda lib, f, t: t(A).cumsum(1),
    "cumprod": lambda lib, f, t: t(A).cumprod(1),
    "exp": lambda lib, f, t: lib.exp(t(A)),
    "expm1": lambda lib, f, t: t(A).expm1(),
    "log": lambda lib, f, t: t(abs(A)).log(),
    "log2": lambda lib, f, t: t(abs(A)).log2(),
    "log10": lambda lib, f, t: t(abs(A)).log10(),
    "log1p": lambda lib, f, t: t(abs(A)).log1p(),
    "pow": lambda lib, f, t: t(abs(A)) ** 1.5,
    "__rpow__": lambda lib, f, t: 2 ** t(A),
    "rsqrt": lambda lib, f, t: t(abs(A)).rsqrt(),
    "reciprocal": lambda lib, f, t: t(A).reciprocal(),
    "tan": lambda lib, f, t: t(A).tan(),
    "asin": lambda lib, f, t: lib.arcsin(t(A / 9)),
    "acos": lambda lib, f, t: t(A / 9).acos(),
    "sinh": lambda lib, f, t: t(A).sinh(),
    "cosh": lambda lib, f, t: t(A).cosh(),
}


def lazy(dtype: lt.DType = lt.float32) -> Callable[[Any], lt.Tensor]:
    return lambda values: lt.tensor(values).to(dtype)


def of_torch(values: Any, dtype: torch.dtype | None = None) -> torch.Tensor:
    return torch.tensor(values).to(dtype or torch.float32)


def test_every_row_of_the_policy_has_a_call_here() -> None:
    assert CALLS.keys() == POLICY.keys()


@by_half
@pytest.mark.parametrize("name", CALLS)
def test_an_operation_computes_in_the_type_of_its_row(name: str, half: lt.DType) -> None:
    """Given float32, and given the low type itself."""
    for given in (lt.float32, half):
        with lt.autocast(dtype=half):
            found = CALLS[name](lt, F, lazy(given))
        expected = half if POLICY[name] == LOW else lt.float32
        assert found.dtype is expected, given


@pytest.mark.parametrize("name", CALLS)
def test_float64_is_left_alone_as_in_pytorch(name: str) -> None:
    with lt.autocast():
        assert CALLS[name](lt, F, lazy(lt.float64)).dtype is lt.float64


def test_what_is_given_by_keyword_is_cast_too() -> None:
    x, w = lt.tensor(A), lt.tensor(normal(3, 6))
    with lt.autocast(dtype=lt.bfloat16):
        assert F.linear(input=x, weight=w).dtype is lt.bfloat16
        assert lt.einsum("ij,jk->ik", x, w.T).dtype is x.mm(mat2=w.T).dtype is lt.bfloat16


ONLY_ON_GPUS = ("mv", "addmv")
"""PyTorch's table for CPUs leaves these products in float32."""


@pytest.mark.torch
@pytest.mark.parametrize("name", [n for n, row in POLICY.items()
                                  if row == LOW and n not in ONLY_ON_GPUS])
def test_products_have_the_types_and_values_of_torch_autocast(name: str) -> None:
    with lt.autocast(dtype=lt.bfloat16):
        found = CALLS[name](lt, F, lazy())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        expected = CALLS[name](torch, torch.nn.functional, of_torch)
    assert found.dtype.name == str(expected.dtype).removeprefix("torch.")
    wanted = expected.float().numpy()
    np.testing.assert_allclose(found.float().numpy(), wanted, rtol=2**-7,
                               atol=2**-7 * np.abs(wanted).max())


@pytest.mark.few(19)
@pytest.mark.parametrize("name", [n for n, row in POLICY.items() if row == WIDE])
def test_what_loses_by_a_low_type_has_float32s_values(name: str) -> None:
    """As computed in float32 from the rounded operands."""
    with lt.autocast(dtype=lt.bfloat16):
        found = CALLS[name](lt, F, lazy(lt.bfloat16))
    expected = CALLS[name](lt, F, lambda values: lt.tensor(values).bfloat16().float())
    np.testing.assert_array_equal(found.numpy(), expected.numpy())


@by_half
def test_products_are_summed_in_float32_and_rounded_once(half: lt.DType) -> None:
    """As PyTorch does; 4,096 ones would stay at 256 in bfloat16."""
    a, b = normal(3, 500), normal(500, 4, seed=1)
    low = lt.tensor(a).to(half), lt.tensor(b).to(half)
    wide = [x.double().numpy() for x in low]
    exact = lt.tensor(wide[0] @ wide[1]).to(half).float().numpy()
    np.testing.assert_allclose((low[0] @ low[1]).float().numpy(), exact,
                               rtol=2.0 ** (1 - half.significand_bits))
    ones = lt.ones(2, 4096, dtype=half)
    assert (ones @ ones.T).tolist() == [[4096.0] * 2] * 2
    assert lt.einsum("ik,jk->ij", ones, ones).tolist() == [[4096.0] * 2] * 2
    line = F.conv1d(ones[None, :, :1024], ones[None, :, :1024])
    assert line.tolist() == [[[2048.0]]]


# ---- gradients -----------------------------------------------------------------------------------

@pytest.mark.torch
def test_gradients_are_of_the_parameters_types_and_near_torchs() -> None:
    values = normal(8, 6), normal(5, 6, seed=1), normal(5, seed=2)

    def loss(lib: Any, f: Any, x: Any, w: Any, b: Any) -> Any:
        return (f.linear(x, w, b).relu() ** 2).sum()

    mine = [lt.tensor(v, requires_grad=True) for v in values]
    with lt.autocast(dtype=lt.bfloat16):
        loss(lt, F, *mine).backward()
    theirs = [torch.tensor(v, requires_grad=True) for v in values]
    with torch.autocast("cpu", torch.bfloat16):
        out = loss(torch, torch.nn.functional, *theirs)
    out.backward()
    for a, b in zip(mine, theirs, strict=True):
        assert a.grad is not None and b.grad is not None and a.grad.dtype is lt.float32
        scale = float(b.grad.abs().max())
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), atol=scale * 2**-6, rtol=2**-6)


def test_backward_outside_computes_as_inside() -> None:
    w = lt.tensor(normal(6, 4))

    def gradient(inside: bool) -> list[Any]:
        x = lt.tensor(A, requires_grad=True)
        with lt.autocast():
            loss = (x @ w).square().sum()
            if inside:
                loss.backward()
        if not inside:
            loss.backward()
        assert x.grad is not None
        return x.grad.tolist()  # type: ignore[no-any-return]

    assert gradient(True) == gradient(False)


def test_func_transforms_see_the_casts() -> None:
    x, w = lt.tensor(A), lt.tensor(B)

    def loss(w: lt.Tensor) -> lt.Tensor:
        with lt.autocast():
            return (x @ w).square().sum()

    leaf = w.clone().requires_grad_()
    loss(leaf).backward()
    assert leaf.grad is not None
    assert lt.func.grad(loss)(w).tolist() == leaf.grad.tolist()
    with lt.autocast():
        rows = lt.func.vmap(lambda row: w.T @ row)(x)
    assert rows.dtype is lt.bfloat16
    np.testing.assert_array_equal(rows.float().numpy(),
                                  (x.bfloat16() @ w.bfloat16()).float().numpy())


def test_a_checkpoint_computes_again_in_the_same_types() -> None:
    w = lt.tensor(B, requires_grad=True)
    with lt.autocast():
        loss = lt.checkpoint(lambda x: (x @ w).relu(), lt.tensor(A)).square().sum()
    loss.backward()
    first = w.grad
    w.grad = None
    with lt.autocast():
        (lt.tensor(A) @ w).relu().square().sum().backward()
    assert first is not None and w.grad is not None and first.tolist() == w.grad.tolist()


# ---- where it holds ------------------------------------------------------------------------------

@pytest.mark.torch
def test_blocks_nest_as_in_pytorch() -> None:
    def types(lib: Any, low: Any, other: Any, x: Any) -> list[str]:
        seen = [x @ x]
        with lib.autocast(str(x.device), dtype=low):
            seen += [x @ x]
            with lib.autocast(str(x.device), enabled=False):
                seen += [x @ x]
                with lib.autocast(str(x.device), dtype=other):
                    seen += [x @ x]
            seen += [x @ x]
        return [str(y.dtype).partition(".")[2] for y in (*seen, x @ x)]

    found = types(lt, lt.bfloat16, lt.float16, lt.ones(2, 2))
    assert found == types(torch, torch.bfloat16, torch.float16, torch.ones(2, 2))


def test_a_block_ends_also_with_an_exception_and_may_be_entered_again() -> None:
    again = lt.autocast()
    with pytest.raises(ZeroDivisionError), again, again:
        raise ZeroDivisionError
    assert not lt.is_autocast_enabled() and mixed_precision.state() == ((), ())


def test_a_decorator_casts_within_the_function() -> None:
    @lt.amp.autocast(dtype=lt.float16)
    def product(x: lt.Tensor) -> lt.Tensor:
        """Its docstring."""
        return x @ x

    assert product(lt.ones(2, 2)).dtype is lt.float16 and product.__doc__ == "Its docstring."
    assert not lt.is_autocast_enabled()


def test_only_tensors_of_its_device_are_cast() -> None:
    with lt.autocast("interpreter"):
        assert lt.is_autocast_enabled("interpreter") and not lt.is_autocast_enabled("cpu")
        assert (lt.ones(2, 2, device="cpu") @ lt.ones(2, 2, device="cpu")).dtype is lt.float32
        x = lt.ones(2, 2, device="interpreter")
        with lt.autocast("cpu", lt.float16):
            assert (x @ x).dtype is lt.bfloat16
            assert (x.to("cpu") @ x.to("cpu")).dtype is lt.float16


@pytest.mark.torch
@pytest.mark.parametrize("cast_inputs", [False, True])
@pytest.mark.parametrize("enabled", [False, True])
def test_a_hand_written_gradient_computes_in_the_types_of_its_forward(cast_inputs: bool,
                                                                      enabled: bool) -> None:
    seen: dict[str, list[str]] = {"lazyten": [], "torch": []}
    grads = []
    for library in (lt, torch):
        options = {"cast_inputs": library.float32} if cast_inputs else {}

        class Product(library.autograd.Function):  # type: ignore[misc, name-defined]
            @staticmethod
            @library.amp.custom_fwd(device_type="cpu", **options)
            def forward(ctx: Any, x: Any, w: Any) -> Any:
                ctx.save_for_backward(x, w)
                note(x @ w)
                return x @ w

            @staticmethod
            @library.amp.custom_bwd(device_type="cpu")
            def backward(ctx: Any, g: Any) -> Any:
                x, w = ctx.saved_tensors
                note(g @ w.mT)
                return g @ w.mT, x.mT @ g

        def note(x: Any, name: str = library.__name__) -> None:
            seen[name].append(str(x.dtype).rpartition(".")[2])

        w = library.tensor(B, requires_grad=True)
        with library.autocast("cpu", library.bfloat16, enabled):
            y = Product.apply(library.tensor(A) * 1, w)
        y.sum().backward()
        note(y)
        grads.append(w.grad.float().numpy())
    assert seen["lazyten"] == seen["torch"]
    np.testing.assert_allclose(*grads, rtol=2e-2, atol=2e-2)


def test_a_scaler_for_a_gpu_that_is_not_there_scales_nothing() -> None:
    if lt.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.warns(UserWarning, match="scales nothing"):
        assert not lt.amp.GradScaler("cuda").is_enabled()


def test_other_threads_are_left_alone() -> None:
    seen: list[bool] = []
    with lt.autocast():
        thread = threading.Thread(target=lambda: seen.append(lt.is_autocast_enabled()))
        thread.start()
        thread.join()
        assert lt.is_autocast_enabled()
    assert seen == [False]


@pytest.mark.parametrize("wrong", [lt.float32, lt.float64, lt.int8, lt.float8_e5m2])
def test_other_types_change_nothing_and_a_warning_says_so(wrong: lt.DType) -> None:
    with pytest.warns(UserWarning, match=f"autocast to {wrong.name}.*bfloat16 or float16"):
        off = lt.autocast(dtype=wrong)
    with off:
        assert (lt.ones(2, 2) @ lt.ones(2, 2)).dtype is lt.float32
    with lt.autocast("cpu", wrong, False, cache_enabled=False):
        assert not lt.is_autocast_enabled()


def test_tensors_in_a_list_are_cast_and_other_arguments_are_left_as_they_are() -> None:
    x = lt.ones(2, 2)
    with lt.autocast():
        assert lt.einsum("ij,jk->ik", [x, x]).dtype is lt.bfloat16
        assert F.layer_norm(x, normalized_shape=[2]).dtype is lt.float32
        assert x.sum(dim=(0, 1)).item() == 4


def test_in_place_operations_keep_the_tensors_type() -> None:
    x = lt.ones(2, dtype=lt.bfloat16)
    with lt.autocast():
        x.exp_()
        x += x.sum()
    assert x.dtype is lt.bfloat16


# ---- jit -----------------------------------------------------------------------------------------

def test_a_jitted_function_is_traced_for_each_state() -> None:
    product = lt.jit(lambda x: x @ x)
    x = lt.tensor(normal(4, 4))
    for _ in range(3):
        assert product(x).dtype is lt.float32
        with lt.autocast():
            assert product(x).dtype is lt.bfloat16
        with lt.autocast(dtype=lt.float16):
            assert product(x).dtype is lt.float16
    assert product.cache_size == 3


def test_a_block_inside_a_jitted_function_is_part_of_it() -> None:
    @lt.jit
    def step(x: lt.Tensor, w: lt.Tensor) -> tuple[lt.Tensor, lt.Tensor]:
        with lt.autocast():
            y = x @ w
        return y, y @ y

    for _ in range(3):
        low, wide = step(lt.tensor(A), lt.tensor(B))
        assert low.dtype is wide.dtype is lt.bfloat16
        np.testing.assert_array_equal(low.float().numpy(), (
            lt.tensor(A).bfloat16() @ lt.tensor(B).bfloat16()).float().numpy())
    assert step.cache_size == 1


def test_a_weight_is_cast_once_for_all_its_uses() -> None:
    w = lt.tensor(B, requires_grad=True)
    with lt.autocast():
        first, second = lt.tensor(A) @ w, lt.tensor(normal(4, 6, seed=9)) @ w
    casts = [n for n in toposort([first.node, second.node])
             if n.op is Op.CAST and n.dtype is lt.bfloat16
             and w.node in (n.src[0], *(n.src[0].src if is_alias(n.src[0]) else ()))]
    assert len(casts) == 1


# ---- without a block -----------------------------------------------------------------------------

SETTERS: dict[str, Callable[[Any], Any]] = {
    "on": lambda lib: lib.set_autocast_enabled("cpu", True),
    "off": lambda lib: lib.set_autocast_enabled("cpu", False),
    "cpu on": lambda lib: lib.set_autocast_cpu_enabled(True),
    "half": lambda lib: lib.set_autocast_dtype("cpu", lib.float16),
    "brain": lambda lib: lib.set_autocast_cpu_dtype(lib.bfloat16),
    "uncached": lambda lib: lib.set_autocast_cache_enabled(False),
    "forget": lambda lib: lib.clear_autocast_cache(),
    "more": lambda lib: lib.autocast_increment_nesting(),
    "less": lambda lib: lib.autocast_decrement_nesting(),
}


def _seen(lib: Any) -> tuple[Any, ...]:
    """What a program can find out of autocast on the cpu."""
    product = (lib.ones(2, 2) @ lib.ones(2, 2)).dtype
    return (str(product).rpartition(".")[2],
            str(lib.get_autocast_dtype("cpu")).rpartition(".")[2], lib.is_autocast_enabled("cpu"),
            lib.is_autocast_cache_enabled())


def _walk(lib: Any, steps: list[Any]) -> list[Any]:
    """What each step gives, and what is seen after it; a list is a block with its options first."""
    seen = []
    for step in steps:
        if isinstance(step, str):
            seen.append((SETTERS[step](lib), _seen(lib)))
            continue
        options, *inside = step
        with lib.autocast("cpu", **{name: getattr(lib, x) if isinstance(x, str) else x
                                    for name, x in options.items()}):
            seen += [_seen(lib), *_walk(lib, inside)]
        seen.append(_seen(lib))
    return seen


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("steps", [
    ["on", "off"], ["half", "on", "brain", "off"], ["cpu on", "half"], ["uncached", "forget"],
    ["more", "more", "less", "less"], ["half", [{}], [{"dtype": "bfloat16"}]],
    [[{"dtype": "float16"}, [{}], [{"enabled": False}], "brain", [{}]]],
    [[{}, "off", [{}], "half"], "on", [{"enabled": False}, "on"]],
    [[{"enabled": False, "dtype": "float16"}, "on"]],
    [[{"cache_enabled": False}, [{}], [{"cache_enabled": True}]], "uncached", [{}]],
    [[{}, "more", "less"]],
], ids=str)
def test_what_is_set_agrees_with_blocks_as_in_pytorch(steps: list[Any]) -> None:
    seen: list[list[Any]] = []
    for lib in (lt, torch):
        thread = threading.Thread(target=lambda lib=lib: seen.append(_walk(lib, steps)))
        thread.start()  # what is set ends with its thread
        thread.join()
    assert len(seen) == 2 and seen[0] == seen[1]


def test_a_jitted_function_is_traced_again_where_another_type_is_set() -> None:
    calls: list[lt.DType] = []

    @lt.jit
    def product(x: lt.Tensor) -> lt.Tensor:
        with lt.autocast("cpu"):
            calls.append((y := x @ x).dtype)
        return y

    x = lt.ones(2, 2, device="cpu")
    for low in (lt.float16, lt.bfloat16, lt.float16):
        before = lt.get_autocast_dtype("cpu")
        lt.set_autocast_dtype("cpu", low)
        try:
            assert product(x).dtype is low and product(x).dtype is low
        finally:
            lt.set_autocast_dtype("cpu", before)
    assert set(calls) == {lt.float16, lt.bfloat16}


def test_what_cannot_be_set_is_refused() -> None:
    with pytest.raises(lt.DTypeError, match=r"set_autocast_dtype\('cpu', float32\): .* bfloat16"):
        lt.set_autocast_dtype("cpu", lt.float32)
    with pytest.raises(lt.ArgumentError, match=r"set_autocast_enabled\(True, False\)"):
        lt.set_autocast_enabled(True, False)
    assert not lt.is_autocast_enabled("cpu")


def test_a_jitted_function_that_sets_it_does_so_in_each_call() -> None:
    @lt.jit
    def product(x: lt.Tensor) -> lt.Tensor:
        lt.set_autocast_enabled("cpu", True)
        return x @ x

    for _ in range(4):
        assert product(lt.ones(2, 2, device="cpu")).dtype is lt.bfloat16
        assert lt.is_autocast_enabled("cpu")
        lt.set_autocast_enabled("cpu", False)
        assert (lt.ones(2, 2) @ lt.ones(2, 2)).dtype is lt.float32


def test_without_a_device_it_is_the_default_one() -> None:
    lt.set_autocast_enabled(True)
    try:
        assert lt.is_autocast_enabled() and (lt.ones(2, 2) @ lt.ones(2, 2)).dtype is lt.bfloat16
    finally:
        lt.set_autocast_enabled(False)
    assert not lt.is_autocast_enabled()
