"""Names that programs set and ask before they begin: flags, libraries, kinds of tensors."""
from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import lazyten as lt
from lazyten.frontend.core import printing


def test_where_there_is_no_gpu_cuda_says_so() -> None:
    if lt.cuda.is_available():
        assert lt.cuda.device_count() > 0 and lt.cuda.get_device_name()
        return
    assert lt.cuda.device_count() == lt.cuda.memory_allocated() == lt.cuda.memory_reserved() == 0
    lt.cuda.empty_cache()
    lt.cuda.reset_peak_memory_stats()
    with pytest.raises(lt.DeviceError):
        lt.cuda.synchronize()
    lt.cuda.manual_seed_all(7)
    assert lt.initial_seed() == 7


def test_libraries_that_are_not_used_take_their_switches() -> None:
    assert not lt.backends.cudnn.is_available() and not lt.backends.mps.is_built()
    lt.backends.cudnn.benchmark = True
    assert lt.backends.cudnn.benchmark is True
    lt.backends.cudnn.benchmark = False
    with pytest.raises(AttributeError, match=r"no switch 'bench'.*benchmark"):
        lt.backends.cudnn.bench = True
    assert not hasattr(lt.backends.mkl, "enabled") and lt.backends.cudnn.version() is None
    with lt.backends.cudnn.flags(benchmark=True, enabled=True):
        assert lt.backends.cudnn.benchmark is lt.backends.cudnn.enabled is True
    assert lt.backends.cudnn.benchmark is lt.backends.cudnn.enabled is False
    lt.backends.cuda.enable_flash_sdp(True)
    with lt.backends.cuda.sdp_kernel(enable_flash=False):
        assert lt.backends.cuda.math_sdp_enabled() and not lt.backends.cuda.flash_sdp_enabled()
    lt.backends.cuda.matmul.allow_tf32 = True
    assert lt.get_float32_matmul_precision() == "high"
    lt.backends.cuda.matmul.allow_tf32 = False
    assert lt.get_float32_matmul_precision() == "highest"


def test_settings_of_the_process() -> None:
    lt.use_deterministic_algorithms(True)
    assert lt.are_deterministic_algorithms_enabled()
    lt.use_deterministic_algorithms(False)
    assert not lt.are_deterministic_algorithms_enabled()
    lt.set_num_interop_threads(4)
    assert lt.get_num_interop_threads() == 1 and lt.set_flush_denormal(True) is False


def test_kinds_of_tensors_make_them_and_know_them() -> None:
    x = lt.LongTensor([1, 2])
    assert x.dtype is lt.int64 and x.type() == "lazyten.LongTensor" == repr(lt.LongTensor)
    assert isinstance(x, lt.LongTensor) and not isinstance(x, lt.FloatTensor)
    assert lt.FloatTensor(2, 3).shape == (2, 3) and lt.BoolTensor([True]).tolist() == [True]
    assert x.type(lt.float32).type() == "lazyten.FloatTensor"
    assert x.type(lt.Tensor).dtype is x.double().type(lt.Tensor).dtype is lt.float32
    assert not any((x.is_sparse, x.is_meta, x.is_quantized, x.is_pinned()))
    assert x.pin_memory() is x and x.cpu().get_device() == -1


def test_what_compiles_parts_of_models_elsewhere_gives_them_as_they_are() -> None:
    @lt.jit.script
    def double(x: lt.Tensor) -> lt.Tensor:
        return x if lt.jit.is_scripting() or lt.jit.is_tracing() else x * 2

    model = lt.nn.Linear(2, 2)
    assert lt.jit.trace(model, lt.ones(1, 2)) is model is lt.compile(model, mode="default")
    assert lt.jit.ignore(double)(lt.ones(1)).tolist() == [2] == lt.jit(double)(lt.ones(1)).tolist()
    assert lt.compile(dynamic=True)(double) is double


def test_torchscripts_names_mean_what_python_does() -> None:
    jit = lt.jit

    @jit.script_if_tracing
    def double(x: lt.Tensor) -> lt.Tensor:
        return x * 2

    class Model(jit.ScriptModule):
        steps: jit.Final[int] = 2

        @jit.script_method
        def forward(self, x: lt.Tensor) -> lt.Tensor:
            return self.once(x) + 1 if self.training else self.never(x)

        @jit.export
        def once(self, x: lt.Tensor) -> lt.Tensor:
            return double(x)

        @jit.ignore(drop=True)
        def never(self, x: lt.Tensor) -> lt.Tensor:
            return x

        @jit.unused
        def neither(self, x: lt.Tensor) -> lt.Tensor:
            return x

    model = Model()
    assert model(lt.ones(1)).item() == 3 and jit.freeze(model.eval()) is model
    assert jit.annotate(list[int], [1]) == [1] and jit.wait(jit.fork(abs, -3)) == 3
    with jit.optimized_execution(False), jit.strict_fusion(), jit.fuser("fuser1"):
        assert not jit.is_scripting() and jit.set_fusion_strategy([("STATIC", 1)]) is None
    assert isinstance(model, jit.ScriptModule) and not isinstance(double, jit.ScriptFunction)
    for call in (jit.load, jit.save, jit.CompilationUnit):
        with pytest.raises(NotImplementedError, match="state_dict"):
            call("model.pt")
    with pytest.raises(AttributeError, match="nothing"):
        jit.nothing  # noqa: B018


@pytest.mark.parametrize(("value", "kind", "expected"), [
    ([1, 2], list[int], True), ([1, "a"], list[int], False), ({"a": 1}, dict[str, int], True),
    ({"a": 1}, dict[str, str], False), ((1, 2.0), tuple[int, float], True),
    (None, int | None, True),
    ((1, 2), tuple[int], False), ((1, 2), tuple[int, ...], True), ("a", int | str, True),
    ("a", (int, float), False), (3, Any, True), (None, None, True), ([None], list[int], False)])
def test_a_value_is_of_a_type_as_annotations_have_them(value: object, kind: object,
                                                       expected: bool) -> None:
    assert lt.jit.isinstance(value, kind) is expected


def test_what_was_set_is_what_is_asked_for() -> None:
    for mode, number in (("warn", 1), ("error", 2), (1, 1), ("default", 0)):
        lt.set_deterministic_debug_mode(mode)  # type: ignore[arg-type]
        assert lt.get_deterministic_debug_mode() == number
        assert lt.is_deterministic_algorithms_warn_only_enabled() == (number == 1)
    with pytest.raises(lt.ArgumentError, match="'default', 'warn'"):
        lt.set_deterministic_debug_mode("loud")
    lt.set_anomaly_enabled(True)
    assert lt.is_anomaly_enabled()
    lt.set_anomaly_enabled(False)
    assert not lt.is_anomaly_enabled()
    for always in (True, False):
        lt.set_warn_always(always)
        assert lt.is_warn_always_enabled() is always
    with lt.autocast("cpu", lt.float16):
        assert lt.get_autocast_dtype("cpu") is lt.float16 and lt.is_autocast_cpu_enabled()
    assert lt.get_autocast_cpu_dtype() is lt.get_autocast_gpu_dtype() is lt.bfloat16
    assert lt.typename(lt.ones(1)) == "lazyten.FloatTensor" and lt.typename(1) == "int"
    with lt.profiler.record_function("forward"), lt.autograd.profiler.record_function("again"):
        assert lt.profiler.record_function("double")(lambda: 2)() == 2
    lt.multiprocessing.set_sharing_strategy("file_system")
    assert not lt.overrides.has_torch_function((lt.ones(1),))
    assert lt.amp.is_autocast_available("cpu") and not lt.amp.is_autocast_available("mps")


def test_a_generators_body_is_in_the_mode_and_what_is_between_its_values_is_not() -> None:
    ended = []

    @lt.no_grad()
    def modes() -> Iterator[object]:
        try:
            given = yield lt.is_grad_enabled()
            try:
                yield given, lt.is_grad_enabled()
            except KeyError:
                yield "caught", lt.is_grad_enabled()
        finally:
            ended.append(lt.is_grad_enabled())

    steps = modes()
    assert next(steps) is False and lt.is_grad_enabled()
    assert steps.send(3) == (3, False) and steps.throw(KeyError()) == ("caught", False)
    assert lt.is_grad_enabled() and not list(steps) and ended == [False]
    closed = modes()
    next(closed)
    closed.close()
    assert len(ended) == 2

    @lt.inference_mode
    def asked() -> bool:
        return lt.is_inference_mode_enabled()

    assert asked() and not lt.is_inference_mode_enabled()


def test_the_old_way_to_a_tensor_of_the_same_type() -> None:
    x = lt.ones(2, dtype=lt.int64)
    for made, expected in ((x.new(2, 3), (2, 3)), (x.new(lt.Size((4,))), (4,)), (x.new(), (0,)),
                           (x.new([1.0, 2.0]), (2,)), (x.new(lt.ones(3)), (3,))):
        assert made.shape == expected and made.dtype is lt.int64


@pytest.mark.slow
def test_counts_are_drawn_around_their_means() -> None:
    lt.manual_seed(0)
    rate, prob = lt.tensor([0.5, 4.0, 30.0]), lt.tensor([0.1, 0.5, 0.9])
    drawn = lt.poisson(rate.expand(4000, 3)).mean(0)
    assert ((drawn - rate).abs() < 4 * (rate / 4000).sqrt()).all()
    tries = lt.binomial(lt.full((4000, 3), 10.0), prob.expand(4000, 3))
    assert tries.dtype is lt.float32 and tries.max() <= 10
    assert ((tries.mean(0) - 10 * prob).abs() < 4 * (10 * prob * (1 - prob) / 4000).sqrt()).all()
    one, again = (lt.poisson(rate, lt.Generator().manual_seed(3)) for _ in range(2))
    assert one.tolist() == again.tolist()


def test_bad_print_options_change_nothing() -> None:
    before = printing.options
    for options in ({"profile": "long"}, {"profile": {}}, {"precision": -1}, {"edgeitems": "3"}):
        with pytest.raises(lt.ArgumentError, match=next(iter(options))):
            lt.set_printoptions(**options)  # type: ignore[arg-type]
    assert printing.options is before


@pytest.mark.torch
def test_print_options_are_pytorchs() -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(3, 4)).astype("f4"), np.arange(2000).astype("f4"),
              rng.normal(size=(40, 50)) * 1e5, np.arange(12).reshape(3, 4),
              np.array([1.0, np.inf, np.nan]), np.float32(3.25), np.zeros(3, "f4"),
              np.zeros(0, "c8"), rng.normal(size=40).astype("c8"),
              (rng.integers(-60, 60, 40) + 1j * rng.integers(-9, 9, 40)).astype("c8")]
    try:
        for precision, threshold, edge, line, profile, powers in itertools.product(
                (None, 2), (None, 10), (None, 1, 5), (None, 120), (None, "short"), (None, True)):
            for library in (torch, lt):
                library.set_printoptions(precision, threshold, edge, line, profile, powers)
            for array in arrays:
                expected = repr(torch.tensor(array)).replace("torch.", "lazyten.")
                assert repr(lt.tensor(array)) == expected
    finally:
        for library in (torch, lt):
            library.set_printoptions(profile="default")
