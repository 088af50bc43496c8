"""What lazyten refuses of PyTorch: it can be imported, and says why when it is used."""
from __future__ import annotations

from collections.abc import Callable
from types import new_class
from typing import Any

import pytest

import lazyten as lt
from lazyten.multiprocessing import Queue, get_context
from lazyten.profiler import emit_nvtx  # type: ignore[attr-defined]
from lazyten.utils.tensorboard import RecordWriter  # type: ignore[attr-defined]


@pytest.mark.parametrize(("use", "message"), [
    (lambda: lt.hub.load("pytorch/vision", "resnet18"), r"^hub\.load: .*load_safetensors\(path\)"),
    (lambda: emit_nvtx(), r"^profiler\.emit_nvtx: .*lazyten.profile"),
    (lambda: bool(lt.profiler.DeviceType.CPU), r"^profiler\.DeviceType\.CPU: "),
    (lambda: RecordWriter("runs"), r"^utils\.tensorboard\.RecordWriter: .*SummaryWriter"),
    (lambda: lt.multiprocessing.spawn(print, nprocs=2), r"^multiprocessing\.spawn: .*Pool"),
    (lambda: lt.nn.CrossMapLRN2d(5), r"^nn\.CrossMapLRN2d: .*nn\.LocalResponseNorm"),
    (lambda: new_class("Mine", (RecordWriter,))(), r"^Mine: .*SummaryWriter")])
def test_using_what_is_refused_says_why(use: Callable[[], Any], message: str) -> None:
    with pytest.raises(lt.NotDefinedError, match=message):
        use()


def test_one_process_is_this_one() -> None:
    seen: list[Any] = []
    lt.multiprocessing.spawn(lambda *given: seen.append(given), args=("a", 2), nprocs=1, join=True)
    assert seen == [(0, "a", 2)]


def test_the_rest_of_multiprocessing_is_pythons() -> None:
    import multiprocessing
    assert (Queue, get_context) == (multiprocessing.Queue, multiprocessing.get_context)


def test_the_version_is_the_packages() -> None:
    assert lt.version.__version__ == lt.__version__
    assert lt.version.cuda is None and not lt.version.debug


def test_marks_of_refused_modules_leave_functions_as_they_are() -> None:
    @lt.fx.wrap
    def double(x: int) -> int:
        return 2 * x
    assert double(2) == 4
    with pytest.raises(NotImplementedError, match=r"^distributed\.rpc\.rpc_sync: .*collectives"):
        lt.distributed.rpc.rpc_sync("worker1", double, args=(2,))


def test_what_programs_import_beside_downloads_is_there() -> None:
    found = lt.hub.HASH_REGEX.search("net-1f2e3d4c.pth")
    assert found is not None and found.group(1) == "1f2e3d4c"
    assert lt.hub.urlparse("https://a.b/c.pth").path == "/c.pth"


def test_the_folder_of_downloads_is_one_that_programs_choose(monkeypatch: pytest.MonkeyPatch
                                                              ) -> None:
    monkeypatch.setenv("TORCH_HOME", "/home/of")
    assert lt.hub.get_dir().replace("\\", "/") == "/home/of/hub"
    monkeypatch.setattr(lt.hub, "_dir", None)
    lt.hub.set_dir("/models")
    assert lt.hub.get_dir() == "/models"


def test_switches_of_libraries_and_of_what_is_kept_change_nothing() -> None:
    cuda = lt.backends.cuda
    cuda.cufft_plan_cache.max_size = 10
    cuda.cufft_plan_cache[0].clear()
    assert cuda.preferred_linalg_library("magma") == "lazyten" and cuda.cufft_plan_cache.size == 0
    assert not cuda.can_use_flash_attention(None)


def test_an_inplace_function_is_a_function_with_a_flag() -> None:
    class Double(lt.autograd.function.InplaceFunction):  # type: ignore[attr-defined, misc]
        """2 x, whose gradient is said to be 5."""

        @staticmethod
        def forward(ctx: Any, x: lt.Tensor) -> lt.Tensor:
            return 2 * x

        @staticmethod
        def backward(ctx: Any, gradient: lt.Tensor) -> lt.Tensor:
            return 5 * gradient

    x = lt.ones(2, requires_grad=True)
    Double.apply(x).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [5, 5] and Double(True).inplace


def test_assert_is_a_function_too() -> None:
    lt._assert(lt.ones(()) > 0, "positive")
    with pytest.raises(AssertionError, match="positive"):
        lt._assert(lt.ones(()) < 0, "positive")


def test_other_names_of_modules_are_there() -> None:
    from lazyten.functional import einsum
    assert einsum is lt.einsum
    assert lt.jit.annotations.List is not None
