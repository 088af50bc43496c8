"""PyTorch's names: what lazyten has at another place, and why it lacks what it lacks."""
from __future__ import annotations

import importlib
import inspect
import re

import pytest
from torch_if_there import torch

import lazyten as lt
from lazyten.pytorch import modules
from lazyten.pytorch.names import REASONS, TENSOR_METHODS, TYPES, reason


@pytest.mark.torch
@pytest.mark.parametrize("name", sorted(modules.SAME))
def test_a_module_has_pytorchs_names_at_pytorchs_place(name: str) -> None:
    ours, theirs = importlib.import_module(f"lazyten.{name}"), importlib.import_module(
        f"torch.{name}")
    public = {n for n, value in vars(theirs).items() if not n.startswith("__")
              and getattr(value, "__module__", None) == theirs.__name__}
    shared = {n for n in public if hasattr(ours, n)}
    there = {n for n in vars(theirs) if not n.startswith("_")}  # some of which are made elsewhere
    assert shared or not public or any(hasattr(ours, n) for n in there) \
        or name == "utils.data._utils"
    homes = {n: modules.ABOVE.get(f"{name}.{n}", modules.SAME[name]) for n in shared}
    assert all(getattr(ours, n) is getattr(
        importlib.import_module(f"lazyten.{home}".rstrip(".")), n) for n, home in homes.items())
    parent, _, last = name.rpartition(".")
    owner = importlib.import_module(f"lazyten.{parent}" if parent else "lazyten")
    assert getattr(owner, last).__name__ == f"lazyten.{name}"


@pytest.mark.torch
@pytest.mark.parametrize("name", sorted(modules.REFUSED))
def test_a_refused_module_is_one_of_pytorch_and_says_why(name: str) -> None:
    if name not in ("utils.cpp_extension", "utils.mobile_optimizer"):
        importlib.import_module(f"torch.{name}")  # these need what a CPU's build may lack
    something = importlib.import_module(f"lazyten.{name}").something
    with pytest.raises(NotImplementedError, match=re.escape(f"{name}.something: ")):
        something(1)


@pytest.mark.torch
def test_methods_that_are_absent_are_pytorchs_and_say_why() -> None:
    x = lt.ones(2)
    for name in TENSOR_METHODS:
        assert hasattr(torch.Tensor, name) and not hasattr(x, name)
        with pytest.raises(AttributeError, match=f"Tensor has no '{name}': .{{20}}"):
            getattr(lt.Tensor, name)


@pytest.mark.torch
def test_each_reason_is_that_of_a_name_of_pytorchs() -> None:
    names = {*dir(torch), *dir(torch.Tensor)}
    for pattern, _ in REASONS:
        assert any(re.fullmatch(pattern, name) for name in names), pattern


@pytest.mark.parametrize(("name", "why"), [
    ("chalf", "16-bit"), ("symeig", "taken this name away; use lt.linalg.eig"),
    ("hspmm", "sparse"), ("quantize_per_tensor", "quantized"), ("cond", "Python's own"),
    ("HalfStorage", "data_ptr"), ("nothing_at_all", "has no attribute")])
def test_a_missing_name_says_why(name: str, why: str) -> None:
    with pytest.raises(AttributeError, match=why):
        getattr(lt, name)


@pytest.mark.torch
@pytest.mark.parametrize("name", TYPES)
def test_a_class_of_nothing_may_be_named_and_refuses_to_be_made(name: str) -> None:
    assert isinstance(getattr(torch, name), type)
    kind = getattr(lt, name)
    assert kind is getattr(lt, name) and kind.__name__ == name and hasattr(kind | None, "__args__")
    assert not isinstance(lt.ones(1), kind) and not isinstance(1, (kind, str))

    class Mine(kind):  # type: ignore[misc,valid-type]
        """A class of a program's."""

    for refused in (kind, Mine):
        why = re.escape(f"{refused.__name__}: {reason(name)}")
        with pytest.raises(NotImplementedError, match=why):
            refused(lt.ones(1))


def test_modules_below_modules_are_there_without_an_import() -> None:
    assert lt.autograd.function.Function is lt.autograd.Function  # type: ignore[attr-defined]
    assert lt.cuda.amp.GradScaler is lt.amp.GradScaler
    assert lt.nn.modules.SyncBatchNorm is \
        lt.nn.modules.batchnorm.SyncBatchNorm is lt.nn.SyncBatchNorm
    assert lt.nn.modules.utils._pair(2) == (2, 2)
    assert lt.nn.modules.utils._triple([1, 2, 3]) == (1, 2, 3)
    assert lt.nn.modules.utils._reverse_repeat_tuple((1, 2), 2) == (2, 2, 1, 1)
    assert lt.distributed.is_gloo_available() is False and not lt.mps.is_available()
    with pytest.raises(lt.DistributedError, match="has joined no others"):
        lt.distributed.get_rank()
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        lt.optim.nothing  # noqa: B018


@pytest.mark.torch
@pytest.mark.parametrize("name", ["accelerator", "compiler", "cpu", "mps", "xpu"])
def test_what_programs_ask_of_the_machine_takes_pytorchs_arguments(name: str) -> None:
    ours = importlib.import_module(f"lazyten.{name}")
    for function in ours.__all__:
        mine, theirs = getattr(ours, function), getattr(getattr(torch, name), function, None)
        if inspect.isfunction(theirs) and name != "compiler":
            assert len(inspect.signature(mine).parameters) \
                >= len(inspect.signature(theirs).parameters), function
    if name != "compiler":
        assert ours.is_available() == (name == "cpu" or lt.cuda.is_available()
                                       and name == "accelerator")
    else:
        assert ours.disable(abs) is abs is ours.disable(recursive=False)(abs)
        assert not ours.is_compiling()
        with ours.set_stance("force_eager"):
            pass


def test_tensor_types_go_by_pytorchs_names() -> None:
    x = lt.tensor([1.5, 2.5])
    for kind in ("torch.LongTensor", lt.LongTensor, "lazyten.LongTensor"):
        assert x.type(kind).dtype is lt.int64  # type: ignore[arg-type]
    assert isinstance(x, lt.FloatTensor)  # type: ignore[arg-type]
    assert not isinstance(x, lt.cuda.FloatTensor)  # type: ignore[arg-type]
    assert repr(lt.cuda.FloatTensor) == "lazyten.cuda.FloatTensor"
    lt.set_default_tensor_type("torch.DoubleTensor")
    try:
        assert lt.ones(1).dtype is lt.float64
    finally:
        lt.set_default_tensor_type(lt.FloatTensor)
    assert lt.ones(1).dtype is lt.float32
    with pytest.raises(lt.DTypeError, match="give a name"):
        lt.set_default_tensor_type(lt.float32)


@pytest.mark.torch
def test_a_module_moves_to_a_layout() -> None:
    for framework in (lt, torch):
        model = framework.nn.Sequential(framework.nn.Conv2d(2, 3, 2), framework.nn.Flatten(),
                                        framework.nn.Linear(3, 1))
        model.to(framework.device("cpu"), framework.float32, True)
        model.to(memory_format=framework.channels_last)
        assert model[0].weight.requires_grad and model[2].weight.is_contiguous()
    with pytest.raises(lt.ArgumentError, match="channels_last"):
        lt.nn.Linear(1, 1).to(memory_format=3)  # type: ignore[arg-type]


def test_attention_of_a_chosen_kind_is_attention() -> None:
    from lazyten.nn.attention import SDPBackend, sdpa_kernel
    q = lt.randn(1, 2, 3, 4)
    with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION]):
        found = lt.nn.functional.scaled_dot_product_attention(q, q, q)
    assert found.shape == q.shape
    with pytest.raises(lt.ArgumentError, match="no SDPBackend"), sdpa_kernel(3):  # type: ignore[arg-type]
        pass
