"""What programs call of modules beside training them."""
from __future__ import annotations

from typing import NamedTuple

import pytest

import lazyten as lt
from lazyten import nn


def test_a_module_is_put_in_the_place_of_a_dotted_name() -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.ReLU()))
    net.set_submodule("1.0", nn.Tanh())
    assert isinstance(net[1][0], nn.Tanh)
    net.set_submodule("1.1", nn.ReLU())
    assert len(net[1]) == 2
    with pytest.raises(lt.LazytenError, match="has no module '7'"):
        net.set_submodule("7.0", nn.ReLU())
    with pytest.raises(lt.LazytenError, match="has no module '2'"):
        net.set_submodule("1.2", nn.ReLU(), strict=True)
    with pytest.raises(lt.DTypeError, match=r"set_submodule\('1.0'\): int 3 is not a Module"):
        net.set_submodule("1.0", 3)


def test_what_prepares_modules_elsewhere_leaves_them_as_they_are() -> None:
    net = nn.Linear(2, 3)
    expected = net(lt.ones(2)).tolist()
    net.compile(mode="max-autotune", fullgraph=True)
    assert net.share_memory() is net is net.to_empty(device="cpu")
    assert net(lt.ones(2)).tolist() == expected


def test_hooks_of_all_modules_are_called_before_those_of_one() -> None:
    hooks = lt.nn.modules.module  # type: ignore[attr-defined]
    model = lt.nn.Sequential(lt.nn.Identity(), lt.nn.Flatten(0))
    told: list[str] = []
    model[1].register_forward_hook(lambda m, args, y: told.append("own"))
    x = lt.ones(2, requires_grad=True)
    with hooks.register_module_forward_pre_hook(lambda m, args: (args[0] * 2,)), \
            hooks.register_module_forward_hook(
                lambda m, args, kwargs, y: told.append(type(m).__name__), with_kwargs=True), \
            hooks.register_module_full_backward_pre_hook(lambda m, grads: (grads[0] * 3,)), \
            hooks.register_module_full_backward_hook(
                lambda m, inputs, outputs: (inputs[0] * 5 if m is model else None,)
                if m is model else None):
        y = model(x)
        y.sum().backward()
    assert y.tolist() == [8.0, 8.0] and x.grad is not None
    assert x.grad.tolist() == [8.0 * 27 * 5] * 2
    assert told == ["Identity", "Flatten", "own", "Sequential"]
    assert model(x).tolist() == [1.0, 1.0] and len(told) == 5
    with pytest.warns(FutureWarning), \
            hooks.register_module_backward_hook(lambda m, inputs, outputs: told.append("older")):
        model[0](lt.ones(2, requires_grad=True)).sum().backward()
    assert told[5:] == ["older"]
    with pytest.raises(lt.ArgumentError, match="a hook of all modules is int"):
        hooks.register_module_forward_hook(3)


class Parts(NamedTuple):
    first: lt.Tensor
    second: lt.Tensor


def test_hooks_of_gradients_and_checkpoints_leave_a_named_tuple_one() -> None:
    class Split(lt.nn.Module):
        def forward(self, x: lt.Tensor) -> Parts:
            return Parts(x * 2, x * 3)

    model, x = Split(), lt.ones(2, requires_grad=True)
    model.register_full_backward_hook(lambda m, inputs, outputs: (inputs[0] * 5,))
    model(x).second.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [15.0, 15.0]
    lt.checkpoint(Split(), x).first.sum().backward()
    assert x.grad.tolist() == [17.0, 17.0]


def test_what_a_hook_of_the_state_gives_is_the_state_or_an_error() -> None:
    model = lt.nn.Sequential(lt.nn.Linear(2, 1))
    handle = model._register_state_dict_hook(lambda m, state, prefix, about: {"all": len(state)})
    assert model.state_dict() == {"all": 2}
    handle.remove()
    model.register_state_dict_post_hook(lambda m, state, prefix, about: {})
    with pytest.raises(lt.ArgumentError, match=r"state_dict\(\) of Sequential gave dict"):
        model.state_dict()


def test_a_jitted_function_sees_hooks_of_all_modules_come_and_go() -> None:
    model = lt.nn.Identity()
    jitted = lt.jit(lambda x: model(x) + 1)
    x = lt.ones(2)
    for _ in range(3):
        assert jitted(x).tolist() == [2.0, 2.0]
    module = lt.nn.modules.module  # type: ignore[attr-defined]
    handle = module.register_module_forward_hook(lambda m, args, y: y * 3)
    for _ in range(3):
        assert jitted(x).tolist() == [4.0, 4.0]
    handle.remove()
    assert jitted(x).tolist() == [2.0, 2.0]


def test_a_hook_of_gradients_is_told_none_for_what_nothing_was_made_of() -> None:
    """Of outputs that nobody reads, and of arguments that none of the outputs read depends on."""
    class Two(lt.nn.Module):
        def forward(self, x: lt.Tensor, y: lt.Tensor) -> tuple[lt.Tensor, lt.Tensor]:
            return x * 2, y * 3

    model, told = Two(), []
    model.register_full_backward_pre_hook(lambda m, of_outputs: told.append(of_outputs))
    model.register_full_backward_hook(
        lambda m, of_inputs, of_outputs: told.append((*of_inputs, *of_outputs)))
    x, y = lt.ones(2, requires_grad=True), lt.ones(2, requires_grad=True)
    model(x, y)[1].sum().backward()
    assert [[g if g is None else g.tolist() for g in all_of_them] for all_of_them in told] == [
        [None, [1, 1]], [None, [3, 3], None, [1, 1]]]
    assert x.grad is None and y.grad is not None and y.grad.tolist() == [3, 3]
