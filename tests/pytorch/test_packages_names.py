"""Names that packages for PyTorch ask for, and what they may do with what is refused."""
from __future__ import annotations

import copy
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lazyten as lt
from lazyten.pytorch.names import ELEMENTS


def test_what_is_refused_may_be_named_in_classes_and_annotations() -> None:
    passes: Any = import_module("lazyten.fx.passes")

    class Walker(passes.Interpreter):  # type: ignore[misc]
        """A class of a package's, of a class that is not there."""

    def function(x: passes.Node | None, y: list[passes.Proxy[int]]) -> None:
        """Annotated."""
    assert eval("int | passes.Node"), function
    assert not isinstance(3, passes.Proxy) and not isinstance(Walker, passes.Proxy)
    for call in (Walker, passes.Tracer, passes.some.thing.below, lambda: bool(passes.enabled)):
        with pytest.raises(NotImplementedError, match="lazyten records operations itself"):
            call()


def test_modules_below_refused_ones_can_be_imported() -> None:
    from lazyten.fx.experimental import proxy_tensor  # type: ignore[import-not-found]
    from lazyten.onnx import symbolic_opset11
    from lazyten.onnx.symbolic_helper import parse_args  # type: ignore[import-not-found]
    assert parse_args("v", "f")(len) is len
    for refused in (proxy_tensor.make_fx, symbolic_opset11.squeeze):
        with pytest.raises(NotImplementedError):
            refused()


def test_nothing_is_under_way_of_what_is_refused() -> None:
    from lazyten.autograd.forward_ad import unpack_dual  # type: ignore[import-not-found]
    x = lt.ones(2)
    assert unpack_dual(x).primal is x and unpack_dual(x).tangent is None
    assert not lt.profiler.kineto_available() and not lt.onnx.is_in_onnx_export()
    assert not lt._C._are_functorch_transforms_active() and lt._C._get_tracing_state() is None  # type: ignore[attr-defined]
    assert not lt._subclasses.fake_tensor.is_fake(x)  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ELEMENTS)
def test_an_element_type_that_no_tensor_has(name: str) -> None:
    kind = getattr(lt, name)
    assert kind is getattr(lt, name) and kind is not lt.float32 and repr(kind) == f"lazyten.{name}"
    with pytest.raises(lt.DTypeError, match=name):
        lt.zeros(2, dtype=kind)


def test_what_pytorchs_data_parallel_is_made_of_may_be_imported() -> None:
    from lazyten.nn.parallel import data_parallel, parallel_apply, replicate
    from lazyten.nn.parallel.scatter_gather import scatter_kwargs  # type: ignore[import-not-found]
    layer = lt.nn.Linear(2, 3)
    assert data_parallel(layer, lt.ones(4, 2), module_kwargs={}).shape == (4, 3)
    assert data_parallel(layer, (lt.ones(4, 2),), [0]).shape == (4, 3)
    for use in (parallel_apply, replicate, scatter_kwargs):
        with pytest.raises(NotImplementedError, match="DistributedDataParallel"):
            use(layer, [0, 1])
    with pytest.raises(lt.DeviceError, match="are several"):
        data_parallel(layer, lt.ones(4, 2), [0, 1])


def test_layouts_of_sparse_tensors_compare_and_make_nothing() -> None:
    assert lt.ones(2).layout is not lt.sparse_coo and lt.ones(2, layout=lt.strided).sum() == 2
    with pytest.raises(lt.ArgumentError, match=r"layout=lazyten.sparse_csr is not one"):
        lt.ones(2, layout=lt.sparse_csr)


@pytest.mark.parametrize("name", ["mps", "xpu:1"])
def test_a_device_of_pytorchs_is_a_name_until_a_tensor_is_to_live_there(name: str) -> None:
    device = lt.device(name)
    assert device.type == name.partition(":")[0] != lt.ones(1).device.type
    assert not lt.is_autocast_enabled(name)
    for use in (lambda: lt.ones(2, device=device), lambda: lt.ones(2).to(device),
                lambda: lt.set_default_device(device), device.__enter__):
        with pytest.raises(lt.DeviceError, match=f"there is no device '{name}'"):
            use()
    assert lt.ones(1).device == lt.get_default_device()


def test_questions_of_what_is_under_way_have_answers() -> None:
    from lazyten.fx.experimental.proxy_tensor import get_proxy_mode  # type: ignore[import-not-found]
    from lazyten.utils._python_dispatch import is_traceable_wrapper_subclass  # type: ignore[import-not-found]
    assert get_proxy_mode() is None and is_traceable_wrapper_subclass(lt.ones(1)) is False


def test_a_version_compares_as_one() -> None:
    from lazyten.torch_version import TorchVersion  # type: ignore[import-not-found]
    found = TorchVersion("2.13.0+lazyten")
    assert found >= "2.2" and found > "2.9.1" and not found < "2.13" and found >= (2, 13)
    assert found > (2, 4, 1) and found < "3" and found < (2, 14) and found != "2.13.0"
    assert TorchVersion("2.13.0") == "2.13" == TorchVersion("2.13") and found > "2.13.0"
    assert TorchVersion("2.0.0a0") < "2.0.0" and TorchVersion("2.0rc2") > TorchVersion("2.0.0rc1")
    assert TorchVersion("2.1.0.dev3") < "2.1" and TorchVersion("parrot") > "1.0"
    assert found.split("+") == ["2.13.0", "lazyten"] and {found: 1}["2.13.0+lazyten"] == 1


def test_types_that_layers_are_annotated_with() -> None:
    from lazyten.nn.common_types import _scalar_or_tuple_2_t, _size_2_t  # type: ignore[import-not-found]
    assert _size_2_t == int | tuple[int, int] == _scalar_or_tuple_2_t[int]


def test_a_module_says_how_copies_are_made() -> None:
    class Counted(lt.nn.Linear):
        def __setstate__(self, state: dict[str, Any]) -> None:
            super().__setstate__(state)
            self.copies = getattr(self, "copies", 0) + 1

    first = Counted(2, 3)
    second = copy.deepcopy(copy.deepcopy(first))
    assert second.copies == 2 and second(lt.ones(2)).tolist() == first(lt.ones(2)).tolist()


def test_futures() -> None:
    from lazyten.futures import Future, collect_all, wait_all  # type: ignore[import-not-found]
    first, second = Future(), Future()
    both, seen = collect_all([first, second]), list[Any]()
    after = first.then(lambda f: f.value() + 1)
    failing = first.then(lambda f: f.value() + "")
    second.add_done_callback(lambda f: seen.append(f.wait()))
    assert not first.done() and not both.done() and lt.Future is Future
    first.set_result(1)
    second.set_result(2)
    assert after.wait() == 2 and wait_all(both.wait()) == [1, 2] == wait_all([first, second])
    assert seen == [2] and collect_all([]).wait() == []
    with pytest.raises(TypeError):
        failing.wait()
    assert lt.jit.fork(max, 3, 4).wait() == 4  # type: ignore[attr-defined]


def test_capsules_and_files() -> None:
    from lazyten.serialization import add_safe_globals, safe_globals  # type: ignore[import-not-found]
    from lazyten.utils.dlpack import from_dlpack, to_dlpack  # type: ignore[import-not-found]
    x = lt.arange(3.0)
    with pytest.warns(UserWarning, match="read-only"):  # as NumPy takes a capsule without a version
        y = from_dlpack(to_dlpack(x))
    assert y.data_ptr() == x.data_ptr() and y.tolist() == [0.0, 1.0, 2.0]
    with safe_globals([]):
        add_safe_globals([np.ndarray])
        assert "threads" in lt.__config__.parallel_info()


def test_tables_of_hooks_are_there_before_any_hook() -> None:
    module = lt.nn.Linear(2, 2)
    for table in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_state_dict_hooks"):
        assert len(getattr(module, table)) == 0
    module.register_forward_hook(lambda *_: None)
    assert len(module._forward_hooks) == 1 and len(lt.nn.Linear(2, 2)._forward_hooks) == 0
    assert lt._C._nn._parse_to("cpu", lt.float64) == ("cpu", lt.float64, False, None)  # type: ignore[attr-defined]
    assert lt.nn.modules.ModuleList is lt.nn.ModuleList


def test_a_package_sees_pytorchs_modules_from_within(tmp_path: Path) -> None:
    """What packages do when they are imported: look into vars(), probe for names, subclass."""
    package = tmp_path / "site-packages"
    package.mkdir()
    (package / "other.py").write_text(
        "import torch\nfrom torch import distributions, nn\n"
        "assert vars(distributions)['Normal'] is distributions.Normal\n"
        "assert torch.torch.Tensor is torch.Tensor\n"
        "assert vars(nn)['Linear'] is nn.Linear and 'Parameter' in vars(nn)\n"
        "assert not hasattr(torch, 'no_such_function')\n"
        "from importlib import metadata\n"
        "assert metadata.version('torch') == torch.__version__.split('+')[0]\n"
        "assert {*metadata.packages_distributions()['torch']} == {'torch'}\n"
        "def double(x: torch.LongTensor | None): return x * 2\n")
    script = tmp_path / "script.py"
    script.write_text(f"import sys; sys.path.append({str(package)!r})\n"
                      "import torch, other\nprint(other.double(torch.arange(3)).tolist())")
    done = subprocess.run([sys.executable, "-m", "lazyten", "run", str(script)],
                          capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[0, 2, 4]\n", "")
    script.write_text(script.read_text() + "\ntorch.no_other_function")
    done = subprocess.run([sys.executable, "-m", "lazyten", "run", str(script)],
                          capture_output=True, text=True)
    assert "  torch.no_such_function  (in a package, other.py:6)" in done.stderr


def test_a_handle_of_a_table_of_ones_own_has_a_number() -> None:
    first, second = dict[int, int](), dict[int, int]()
    handle = lt.utils.hooks.RemovableHandle(first, extra_dict=second)  # type: ignore[attr-defined]
    first[handle.id] = second[handle.id] = 1
    handle.remove()
    assert first == second == {}


def test_a_gradient_may_be_given_in_a_list() -> None:
    x = lt.ones(2, requires_grad=True)
    (x * 3).backward([lt.tensor([1.0, 2.0])])
    assert x.grad is not None and x.grad.tolist() == [3.0, 6.0]
    with pytest.raises(lt.DTypeError):
        (x * 3).backward([lt.ones(2), lt.ones(2)])


def test_an_optimizer_around_another_need_not_call_its_base() -> None:
    class Around(lt.optim.Optimizer):
        def __init__(self, inner: lt.optim.Optimizer) -> None:
            self.inner, self.defaults = inner, inner.defaults
            self.param_groups = inner.param_groups
            self._patch_step_function()

        @property
        def state(self) -> Any:
            return self.inner.state

        def step(self, closure: Any = None) -> Any:
            return self.inner.step(closure)

    w = lt.ones(2, requires_grad=True)
    optimizer, seen = Around(lt.optim.SGD([w], 0.5)), list[Any]()
    optimizer.register_step_post_hook(lambda *given: seen.append(given))
    w.sum().backward()
    optimizer.step()
    assert w.tolist() == [0.5, 0.5] and len(seen) == 1


def test_what_is_built_is_what_can_be_used() -> None:
    from lazyten.distributed import autograd, rpc  # type: ignore[attr-defined]
    assert lt.backends.cuda.is_built() == lt.cuda.is_available()
    assert not autograd.is_available() and not rpc.is_available()


def test_checks_raise_what_they_are_named_after() -> None:
    for check, error in ((lt._check, RuntimeError), (lt._check_index, IndexError),
                         (lt._check_value, ValueError), (lt._check_type, TypeError)):
        check(True, lambda: "fine")
        with pytest.raises(error, match=r"^too large$"):
            check(False, lambda: "too large")
    lt._check_tensor_all(lt.tensor([True, True]))
    with pytest.raises(RuntimeError, match="got False"):
        lt._check_tensor_all(lt.tensor([True, False]))
    with pytest.raises(ArithmeticError):
        lt._check_with(ArithmeticError, False)
    for wrong in (lambda: lt._check(1), lambda: lt._check(False, "text"),
                  lambda: lt._check_tensor_all(True)):
        with pytest.raises(lt.DTypeError):
            wrong()


def test_tensors_as_one_flat_one_and_back() -> None:
    from lazyten._utils import _flatten_dense_tensors, _unflatten_dense_tensors  # type: ignore[import-not-found]
    like = [lt.arange(6.0).reshape(2, 3), lt.ones(()), lt.zeros(0, 2)]
    flat = _flatten_dense_tensors(like)
    assert flat.tolist() == [0, 1, 2, 3, 4, 5, 1]
    flat.mul_(2)
    assert [x.tolist() for x in _unflatten_dense_tensors(flat, like)] == [
        [[0, 2, 4], [6, 8, 10]], 2, []]


def test_a_kind_of_device_has_its_functions() -> None:
    assert lt.get_device_module("cpu").is_available()
    assert lt.get_device_module(lt.device("cuda", 0)) is lt.cuda
    if not lt.cuda.is_available():
        assert lt.get_device_module().is_available() and lt.accelerator.memory_allocated() == 0  # type: ignore[attr-defined]
    assert lt.xpu.memory_allocated() == 0 and not lt.get_device_module("xpu").is_available()  # type: ignore[attr-defined]


def test_names_that_packages_import_at_their_top() -> None:
    from lazyten.nn.modules.module import _IncompatibleKeys
    from lazyten.storage import TypedStorage, UntypedStorage
    from lazyten.utils.data._utils.pin_memory import pin_memory  # type: ignore[import-not-found]
    from lazyten.utils.data.dataloader import _collate_fn_t, _DatasetKind
    assert _IncompatibleKeys(["a"], []).missing_keys == ["a"] and pin_memory([1]) == [1]
    assert isinstance(lt.ones(1).untyped_storage(), UntypedStorage) and _collate_fn_t
    assert not isinstance(3, TypedStorage) and _DatasetKind.Iterable == 1
    assert not isinstance(3, lt.onnx.ONNXProgram)
    assert lt.legacy_contiguous_format is lt.contiguous_format
    assert lt.distributed.Backend("NCCL") == lt.distributed.Backend.NCCL
    assert not lt._C._jit_set_profiling_mode(False)  # type: ignore[attr-defined]


def test_the_older_comparison_of_tensors() -> None:
    x = lt.tensor([1.0, float("nan")])
    lt.testing.assert_allclose(x, x.double())
    with pytest.raises(AssertionError, match=r"^here$"):
        lt.testing.assert_allclose(lt.ones(2), lt.zeros(2), msg="here")
