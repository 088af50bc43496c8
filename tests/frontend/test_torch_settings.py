"""Names that programs set and ask before they begin: flags, libraries, kinds of tensors."""
from __future__ import annotations

import itertools

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
    assert lt.cuda.manual_seed_all is lt.manual_seed


def test_libraries_that_are_not_used_take_their_switches() -> None:
    assert not lt.backends.cudnn.is_available() and not lt.backends.mps.is_built()
    lt.backends.cudnn.benchmark = True
    assert lt.backends.cudnn.benchmark is True
    lt.backends.cudnn.benchmark = False
    with pytest.raises(AttributeError, match=r"no switch 'bench'.*benchmark"):
        lt.backends.cudnn.bench = True
    assert not hasattr(lt.backends.mkl, "enabled")
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
              np.array([1.0, np.inf, np.nan]), np.float32(3.25)]
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
