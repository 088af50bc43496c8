"""PyTorch's other names of arguments, and what else is the same function called in another way."""
from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
import pytest

import lazyten as lt

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


def both(call: Callable[[Any, Any], Any]) -> tuple[Any, Any]:
    """What a call gives in both libraries, as lists with their dtypes."""
    def plain(value: Any) -> Any:
        if isinstance(value, tuple | list):
            return [plain(v) for v in value]
        if hasattr(value, "tolist") and hasattr(value, "dtype"):
            return str(value.dtype).partition(".")[2], list(value.shape), value.tolist()
        return value
    return tuple(plain(call(T, T.arange(6.0).reshape(2, 3))) for T in (lt, torch))


@pytest.mark.parametrize("call", [
    lambda T, x: [f(x, axis=1) for f in (T.sum, T.mean, T.std, T.var, T.prod, T.cumsum, T.softmax,
                                         T.argmax, T.logsumexp, T.squeeze, T.unsqueeze)],
    lambda T, x: [T.special.xlog1py(x, 2.0), T.special.xlog1py(x.long(), 2), x.narrow(1, -2, 2),
                  (x * 1).conj_physical_()],
    lambda T, x: [x.sum(axis=0, keepdims=True), x.mean(1, keepdims=True), x.max(axis=1).values],
    lambda T, x: [T.cat([x, x], axis=1), T.stack((x, x), axis=-1), T.concat([x, x], dim=0)],
    lambda T, x: [T.sum(input=x, axis=1), T.amax(x, axis=(0, 1)), x.flip(dims=(0,)),
                  x.permute(dims=(1, 0)), x.reshape(shape=(3, 2)), x.expand(size=(2, 2, 3))],
    lambda T, x: [T.zeros(size=(2, 3)), T.ones(size=(2,)), T.empty(size=(2, 0)).shape == (2, 0),
                  T.rand(size=(2,)).shape == (2,), T.randn(size=(3, 1)).shape == (3, 1)],
    lambda T, x: [T.zeros(2, dtype=float), x.to(float), x.sum(dtype=float), T.tensor(1, dtype=int),
                  T.view_as_real(T.ones(2, dtype=complex)), T.full((2,), 1, dtype=bool)],
    lambda T, x: [T.zeros(2, layout=T.strided, pin_memory=False), T.full((2,), 1.5, layout=None),
                  T.zeros_like(x, memory_format=T.preserve_format),
                  T.ones_like(x, memory_format=T.contiguous_format),
                  T.tensor([1], pin_memory=False)],
    lambda T, x: [T.pow(2, x), T.pow(2.5, x.long()), T.sub(1, x), T.add(2, x.int()), T.mul(2, x),
                  T.div(1, x + 1), T.true_divide(3, x + 1), T.remainder(7, x + 1),
                  T.float_power(2, x), T.bitwise_and(5, x.int()), T.xlogy(2, x + 1),
                  T.sub(1, x.half()), T.mul(2.5, x.half()), T.floor_divide(7, x + 1)],
    lambda T, x: [x[range(2)], x[:, range(0, 3, 2)], x[range(1, -1, -1), range(2)]],
    lambda T, x: [T.range(0, 3), T.range(1, 2, 0.5), T.range(3, 0, -1), T.range(0, 1, 0.3),
                  T.scalar_tensor(3), T.scalar_tensor(2, dtype=T.int64)],
    lambda T, x: [T.relu_(x - 3), T.exp_(x * 1), T.clamp_(x * 1, max=2.0)],
    lambda T, x: [T.conv1d(x[None], T.ones(1, 2, 2)), T.max_pool1d(x, 2), T.layer_norm(x, (3,)),
                  T.dropout(x, 0.0, True), T.selu(x), T.threshold(x, 2.0, 9.0)],
    lambda T, x: [T.index_put(x, (T.tensor([0, 1]), T.tensor([1, 1])), T.tensor(9.0)),
                  T.index_put(x, (T.tensor([0, 0]),), T.tensor(1.0), accumulate=True), x],
    lambda T, x: [T.cdist(x, x[:1] + 1), T.cdist(x[None], x[None], p=1.0), T.cdist(x, x, 3.0),
                  T.ones(4, 2, 3).sum_to_size(1, 3), x.sum_to_size(2, 3), x.sum_to_size(1),
                  T.cdist(x[:0], x), x.is_inference()],
    lambda T, x: [like(requires_grad=True, layout=T.strided, pin_memory=False, device="cpu")
                  for like in (partial(x.new_zeros, 2, 3), partial(x.new_ones, (2,)),
                               partial(x.new_full, (2,), 3.0), partial(T.logspace, 0, 1, 2))],
    lambda T, x: [T.asarray(x, dtype=T.float64, requires_grad=True), T.asarray(x, copy=False),
                  T.asarray([1, 2], copy=True), T.asarray(np.ones(2), copy=False),
                  T.asarray(x.requires_grad_()).requires_grad,
                  T.asarray(x.requires_grad_(), requires_grad=False).requires_grad],
    lambda T, x: [x.new_empty(2, requires_grad=True).requires_grad,
                  x.new_tensor([1, 2], requires_grad=True).requires_grad,
                  x.new_empty_strided((2,), (1,), requires_grad=True).requires_grad,
                  T.normal(0.0, 1.0, (2,), requires_grad=True).requires_grad,
                  (x + 1j).new_ones(2, requires_grad=True).requires_grad,
                  T.view_as_real((x + 1j).new_tensor([1, 2j]))],
    lambda T, x: [T.randint_like(x, high=1), T.randint_like(x, low=2, high=3),
                  T.einsum("i,j->ij", T.arange(3), x[0]), T.einsum("i,i->i", x[0], x[1].double())],
    lambda T, x: [list(made.shape) for made in (
        T.Tensor(x.size()), T.Tensor(x.shape[:1]), T.FloatTensor(x.size()), T.LongTensor(x.shape),
        T.Tensor(x.shape[:0]), T.Tensor((4, 3)))],
    lambda T, x: [T.split(x, split_size_or_sections=2, dim=1), x.split(split_size=[1, 1]),
                  T.split(tensor=x, split_size_or_sections=1), x.tensor_split(sections=2),
                  x.tensor_split(indices=(1,)), x.hsplit(sections=3), x.vsplit(indices=(1,)),
                  T.dsplit(x[None], sections=3),
                  x.tensor_split(tensor_indices_or_sections=T.tensor(2))],
    lambda T, x: [T.tensordot(a=x, b=x, dims=2), T.tensordot(a=x + 1j, b=x * 1j, dims=2).imag,
                  x[0].dot(tensor=x[1]), T.dot(input=x[0], tensor=x[1]),
                  x.heaviside(values=x), T.heaviside(input=x, values=x)],
    lambda T, x: [T.swapdims(x, dim0=0, dim1=1), x.swapdims(dim0=0, dim1=-1),
                  x.clone().swapdims_(dim0=0, dim1=1), T.broadcast_to(x[0], size=(2, 3)),
                  x.view(size=(3, 2)), x.clone().resize_(size=(2, 2)),
                  x.clone().resize_as_(x.T, memory_format=T.contiguous_format)],
    lambda T, x: [x.clone().copy_(x + 1, True), x.clone().copy_(other=x[0]),
                  x.clone().copy_(x + 1, non_blocking=True), x.type(T.float64, True),
                  T.view_as_real((x + 1j).copy_(x, non_blocking=True)),
                  x.cpu(memory_format=T.preserve_format), x.is_pinned(device=None)],
    lambda T, x: [x.clone().uniform_(**{"from": 2.0, "to": 2.0}), x.clone().random_(to=1),
                  x.clone().random_(**{"from": 1, "to": 2}), x.clone().uniform_(2.0, to=2.0)],
    lambda T, x: [str(T.promote_types(type1=T.int32, type2=T.float32)).partition(".")[2],
                  str(T.result_type(tensor=x.int(), other=2.5)).partition(".")[2],
                  str(T.result_type(scalar=2.5, tensor=x.int())).partition(".")[2],
                  str(T.result_type(scalar1=2, scalar2=1j)).partition(".")[2],
                  T.can_cast(from_=T.float32, to=T.int32)],
    lambda T, x: [T.isin(elements=x, test_element=1.0), T.isin(element=1.0, test_elements=x),
                  T.tril_indices(2, 2, layout=T.strided), T.triu_indices(2, 2, layout=T.strided)],
    lambda T, x: [T.cholesky_solve(input=x.T, input2=T.eye(3) * 2),
                  T.orgqr(input=x.T, input2=T.zeros(2)),
                  T.linalg.tensorsolve(T.eye(2), other=x.T[0]),
                  T.ormqr(input=x.T, input2=T.zeros(2), input3=x.T),
                  T.linalg.lstsq(input=T.eye(2), b=x)[0] + 0.0],
    lambda T, x: [T.view_as_real(T.fft.fft(x, out=T.empty(2, 3, dtype=T.complex64))),
                  T.fft.irfft(x, n=3, out=T.empty(0)),
                  T.fft.rfft2(input=x, out=None).abs().round(decimals=3)],
    lambda T, x: [T.from_dlpack(ext_tensor=x), T.from_dlpack(x, device="cpu", copy=False),
                  T.from_dlpack(T.to_dlpack(x)), T.from_dlpack(x, copy=True),
                  T.utils.dlpack.from_dlpack(ext_tensor=x)],
    lambda T, x: [type(T.nn.ModuleList([T.nn.ReLU()]).pop(key=0)).__name__,
                  type(T.nn.Sequential(T.nn.ReLU()).pop(key=-1)).__name__,
                  len(T.nn.Sequential().extend(sequential=[T.nn.ReLU(), T.nn.Tanh()]))],
    lambda T, x: [T.func.jacfwd(lambda v: v * v, randomness="same")(x[0]),
                  T.func.jvp(lambda v: v * 2, (x,), (x,), strict=True),
                  T.func.jvp(lambda v: T.ones(2), (x,), (x,), strict=False)],
    lambda T, x: [T.nn.utils.stateless.functional_call(
        T.nn.Linear(3, 3), parameters_and_buffers={"weight": T.eye(3), "bias": T.ones(3)},
        args=(x,))],
    lambda T, x: [T.distributions.HalfNormal(1.0).icdf(prob=x / 10),
                  T.distributions.HalfCauchy(2.0).icdf(prob=x / 10),
                  *[getattr(T.distributions.MixtureSameFamily(
                      T.distributions.Categorical(T.ones(2)),
                      T.distributions.Normal(T.arange(2.0), 1.0)), name)(x=x)
                    for name in ("log_prob", "cdf")],
                  T.distributions.Wishart(T.tensor(3.0), T.eye(2)).rsample(
                      max_try_correction=1).shape == (2, 2),
                  T.distributions.CorrCholeskyTransform().log_abs_det_jacobian(
                      T.zeros(1), T.eye(2), intermediates=None),
                  T.distributions.constraints.multinomial(2).check(x=x)],
    lambda T, x: [T.autograd.forward_ad.unpack_dual(tensor=x)[0]],
    lambda T, x: [[R.get_enum(name) for name in ("none", "mean", "sum")] + [
        R.legacy_get_string(*given, emit_warning=False) for given in (
            (None, None), (False, None), (True, False), (None, True))]
        for R in [import_module(f"{T.__name__}.nn._reduction")]],
    lambda T, x: [T.trapezoid(x[:0], dim=0), T.trapezoid(T.ones(0)), T.trapezoid(x[:, :0], x),
                  T.cumulative_trapezoid(x[:, :0]), T.trapezoid(T.ones(0, dtype=T.int32))],
    lambda T, x: [T.nn.functional.pad(x, (1, 2), mode, 0.0) for mode in (
        "reflect", "replicate", "circular")],
    lambda T, x: [T.div(7, 2, rounding_mode="floor"), T.div(7, 2), T.add(1, 2.5), T.mul(7, True),
                  T.sub(5, 2, alpha=2), T.floor_divide(-7, 2), T.true_divide(7.5, 2)],
    lambda T, x: [T.nn.functional.max_unpool1d(T.ones(0, 1, 2), T.ones(0, 1, 2).long(), 2),
                  T.nn.functional.max_unpool2d(T.ones(0, 1, 1, 2), T.ones(0, 1, 1, 2).long(), 2),
                  T.nn.functional.max_unpool3d(T.ones(0, 1, 1, 1, 2),
                                               T.ones(0, 1, 1, 1, 2).long(), 2)],
    lambda T, x: [T.where(T.tensor([2, 0, 1], dtype=T.uint8), x, -x),
                  x.where(T.tensor([[0], [1]], dtype=T.uint8), T.tensor(9.0))],
    lambda T, x: [T.randint(5, 6, (3,), dtype=T.float32), T.randint(0, 1, size=(2,)),
                  T.randint_like(x, 1)],
    lambda T, x: [T.autograd.Variable(x), T.detach(x), T.compile(lambda y: y * 2)(x)
                  if T is lt else x * 2],
])
@pytest.mark.filterwarnings("ignore:torch.range")
@pytest.mark.filterwarnings("ignore:.*uint8")
@pytest.mark.filterwarnings("ignore:torch.asarray")
def test_calls_mean_the_same(call: Callable[[Any, Any], Any]) -> None:
    ours, theirs = both(call)
    for a, b in zip(ours, theirs, strict=True):
        if isinstance(a, tuple):
            assert a[:2] == b[:2], (a, b)
            np.testing.assert_allclose(a[2], b[2], rtol=2e-3 if a[0] == "float16" else 1e-6)
        else:
            assert a == b


def outs(T: Any, x: Any) -> list[Any]:
    same, empty, other = T.zeros(2, 3), T.empty(0), T.zeros(3, 2)
    view = same[0]
    values, places = T.empty(0), T.empty(0, dtype=T.int64)
    results = [T.exp(x, out=same), T.add(x, x, out=empty), T.max(x, 1, out=(values, places)),
               T.cat([x, x], out=T.empty(4, 3)), T.sum(x, 0, out=T.empty(3)),
               T.matmul(x, x.T, out=T.empty(2, 2)), T.gt(x, 2, out=T.empty(2, 3)),
               T.arange(3, out=T.empty(3)), T.zeros(2, out=T.ones(0, dtype=T.int32)),
               T.linspace(0, 1, 3, out=T.empty(3)), T.logspace(0, 1, 2, out=T.empty(2)),
               T.eye(2, out=T.empty(2, 2)), T.full((2,), 3, out=T.empty(2, dtype=T.float64)),
               T.isin(x, x[0], out=T.empty(2, 3, dtype=T.bool)),
               T.randn(3, out=T.empty(3)).shape == (3,),
               T.view_as_real(T.complex(x, x, out=T.empty(2, 3, dtype=T.complex64))),
               T.nn.functional.normalize(x, out=T.empty(0))]
    assert results[0] is same and results[1] is empty
    return [*results, same, view, empty, values, places, other]


@pytest.mark.filterwarnings("ignore")
def test_out_is_written() -> None:
    ours, theirs = both(outs)
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        if isinstance(a, bool):
            assert a is b
            continue
        pairs = [(a, b)] if isinstance(a, tuple) else list(zip(a, b, strict=True))
        for one, other in pairs:
            assert one[:2] == other[:2]
            np.testing.assert_allclose(one[2], other[2], rtol=1e-6)


def test_what_out_cannot_hold_is_refused() -> None:
    x = lt.ones(2)
    with pytest.raises(lt.GradientError, match=r"add.*out="):
        lt.add(lt.ones(2, requires_grad=True), x, out=lt.zeros(2))
    with pytest.raises(lt.DTypeError, match="exp: out is int32"):
        lt.exp(x, out=lt.zeros(2, dtype=lt.int32))
    with pytest.raises(lt.DTypeError, match="exp: out is int 3"):
        lt.exp(x, out=3)  # type: ignore[call-arg]
    with pytest.raises(lt.ArgumentError, match=r"max: out=.*tuple of 2"):
        lt.max(x, 0, out=x)  # type: ignore[call-arg]
    with pytest.raises(lt.ArgumentError, match="layout='sparse'"):
        lt.zeros(2, layout="sparse")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="nonsense"):
        lt.zeros(2, nonsense=1)  # type: ignore[call-arg]


@pytest.mark.filterwarnings("ignore:This overload of")
@pytest.mark.parametrize("call", [
    lambda T, x: x.clone().addcmul_(2, x, x), lambda T, x: x.addcdiv(0.5, x, x + 1),
    lambda T, x: T.addcmul(x, 2, x, x), lambda T, x: T.addcmul(x, x, x, value=2),
    lambda T, x: T.addmm(2, T.ones(2, 2), 3, x, x.T), lambda T, x: T.addmm(2, x[:, :2], x, x.T),
    lambda T, x: T.ones(2, 2).addmm_(2, 3, x, x.T), lambda T, x: T.addmv(2, x[:, 0], 3, x, x[0]),
    lambda T, x: T.addr(2, x, 3, x[:, 0], x[0]),
    lambda T, x: x[:, :2].addbmm(2, x[None], x.T[None]),
    lambda T, x: T.baddbmm(0.5, T.ones(1, 2, 2), 3, x[None], x.T[None]),
    lambda T, x: x.clone().addcdiv_(-T.tensor(0.5), x, x + 1),
    lambda T, x: x[0, 0].addcmul(T.tensor(2.0), x[0, 0], x[0, 1]),
    lambda T, x: T.addmm(T.tensor(2.0), T.ones(2, 2), T.tensor(3.0), x, x.T),
    lambda T, x: T.ones(2, 2).addmm(T.tensor(2.0), x, x.T),
    lambda T, x: T.addmv(2, x[:, 0], T.tensor(3.0), x, x[0]),
    lambda T, x: T.normal(0.0, T.tensor(0.0), (2, 3)) + x])
def test_numbers_may_stand_among_tensors(call: Callable[[Any, Any], Any]) -> None:
    ours, theirs = both(call)
    assert ours == theirs


@pytest.mark.parametrize("T", [lt, torch], ids=["lazyten", "torch"])
def test_modes_and_generators_are_called_by_pytorch_s_names(T: Any) -> None:
    with T.random.fork_rng(devices=[], enabled=True):
        T.rand(3)
    T.set_rng_state(new_state=T.get_rng_state())
    with T.set_grad_enabled(mode=False):
        assert not T.is_grad_enabled()
    with T.autograd.set_detect_anomaly(mode=True, check_nan=False):
        pass
    layer = T.nn.ReLU()
    twice = T.nn.Sequential(layer, layer)
    assert len(list(twice.modules())) == 2
    assert len(list(twice.modules(remove_duplicate=False))) == 3
    assert not T.cuda.is_bf16_supported(including_emulation=False)
    with pytest.raises(ValueError, match=r"copy|alias"):
        T.asarray([1.0], copy=False)
