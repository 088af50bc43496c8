"""Modules and parameters: what `module_checks.py` says, and what PyTorch has no say in."""
from __future__ import annotations

import copy
from typing import Any

import pytest
from module_checks import CHECKS, averaging, doubling

import lazyten as lt
from lazyten import nn


@pytest.mark.parametrize("name", CHECKS)
def test_modules_do_what_programs_expect(name: str) -> None:
    check, expected = CHECKS[name]
    assert check(lt) == expected


def test_parameters_and_buffers_are_those_that_have_names_in_the_same_order() -> None:
    shared = nn.Linear(2, 2, bias=False)
    net = nn.Sequential(nn.BatchNorm1d(2), nn.Sequential(shared, nn.ReLU(), shared), nn.BatchNorm1d(
        2, affine=False), shared)
    net.again, net.nothing = net[1], None
    net[1].weight = shared.weight
    net.register_buffer("own", net[0].running_mean)
    for walked, named in ((net.parameters(), net.named_parameters()),
                          (net.buffers(), net.named_buffers())):
        expected = [value for _, value in named]
        assert [*map(id, walked)] == [*map(id, expected)] and len(expected) > 2
    assert len([*net.parameters(recurse=False)]) == 0


@pytest.mark.parametrize("name", ["named_parameters", "named_modules", "_named_members"])
def test_parameters_are_those_that_a_class_names(name: str) -> None:
    def first(self: Any, *args: Any, **kwargs: Any) -> Any:
        return iter([*getattr(nn.Module, name)(self, *args, **kwargs)][:1])
    net = type("Net", (nn.Sequential,), {name: first})(nn.Linear(1, 1), nn.Linear(1, 1))
    other = nn.Sequential(nn.Linear(1, 1))
    setattr(other, name, lambda *args, **kwargs: iter([]))
    assert len([*net.parameters()]) == (0 if name == "named_modules" else 1)
    assert not [*other.parameters()]


def test_a_buffer_assigned_in_a_jitted_function_is_one_after_each_call() -> None:
    net = averaging(lt)
    call = lt.no_grad()(lt.jit(net))
    assert [call(lt.ones(1)).item() for _ in range(3)] == [0.5, 0.25, 0.125]
    assert net.mean.tolist() == [0.875] and list(net.state_dict()) == ["scale", "mean"]
    assert call.__wrapped__.cache_size == 1


def test_jit_sees_what_is_registered_replaced_and_left_out() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(lt.ones(2), requires_grad=False)
            self.register_buffer("shift", lt.zeros(2))
            self.register_parameter("bias", None)
            self.inner: Any = None

        def forward(self, x: lt.Tensor) -> Any:
            y = x * self.scale + self.shift
            y = y if self.bias is None else y + self.bias
            return y if self.inner is None else self.inner(y)

    net = Net()
    call = lt.no_grad()(lt.jit(net))
    x = lt.ones(2)
    seen = [call(x).tolist(), call(x).tolist()]
    net.scale = nn.Parameter(lt.full((2,), 3.0))
    seen.append(call(x).tolist())
    net.shift = lt.ones(2)
    seen.append(call(x).tolist())
    net.bias = nn.Parameter(lt.full((2,), 5.0))
    seen.append(call(x).tolist())
    net._parameters["bias"] = None
    seen.append(call(x).tolist())
    net.inner = nn.Dropout(1.0)
    seen.append(call(x).tolist())
    del net.inner
    net.inner = None
    seen.append(call(x).tolist())
    assert [v[0] for v in seen] == [1, 1, 3, 4, 9, 4, 0, 4]


def test_jit_sees_the_first_buffer_and_the_first_hook() -> None:
    class Net(nn.Module):
        def forward(self, x: lt.Tensor) -> Any:
            return x + self.shift if hasattr(self, "shift") else x

    net = Net()
    call = lt.jit(net)
    x = lt.ones(1)
    seen = [call(x).item(), call(x).item()]
    net.register_buffer("shift", lt.ones(1))
    seen.append(call(x).item())
    net.register_forward_hook(lambda m, args, y: y * 10)
    seen.append(call(x).item())
    assert seen == [1, 1, 2, 20]


def test_train_in_a_jitted_function_is_done_by_each_call() -> None:
    net = nn.Sequential(nn.Dropout(0.0))
    call = lt.jit(lambda x: net.train()(x))
    assert call(lt.ones(2)).tolist() == [1, 1]
    net.eval()
    assert call(lt.ones(2)).tolist() == [1, 1] and net.training and net[0].training


def test_a_module_that_moves_nowhere_keeps_what_was_traced() -> None:
    net = nn.Linear(2, 2)
    call = lt.no_grad()(lt.jit(net))
    call(lt.ones(1, 2))
    net.float().to("cpu" if lt.ones(1).device == "cpu" else lt.ones(1).device)
    call(lt.ones(1, 2))
    assert call.__wrapped__.cache_size == 1


def test_jit_sees_hooks_that_come_and_go() -> None:
    net = nn.Sequential(nn.ReLU())
    call = lt.jit(net)
    x = lt.ones(2)
    seen = [call(x).tolist(), call(x).tolist()]
    plus = net[0].register_forward_hook(lambda m, args, y: y + 1)
    seen += [call(x).tolist(), call(x).tolist()]
    net[0].register_forward_hook(lambda m, args, y: y * 5)
    seen.append(call(x).tolist())
    plus.remove()
    seen.append(call(x).tolist())
    assert [v[0] for v in seen] == [1, 1, 2, 2, 10, 5]


def test_jit_sees_parts_that_come_and_go() -> None:
    net = nn.Sequential(nn.ReLU())
    call = lt.jit(net)
    x = lt.full((2,), -1.0)
    seen = [call(x).tolist(), call(x).tolist()]
    net[0] = nn.Identity()
    seen.append(call(x).tolist())
    net.append(nn.ReLU())
    seen.append(call(x).tolist())
    del net[1]
    seen.append(call(x).tolist())
    net._modules = type(net._modules)(other=nn.Sigmoid())
    seen.append(call(x).tolist())
    assert [v[0] for v in seen[:5]] == [0, 0, -1, 0, -1] and 0.2 < seen[5][0] < 0.3


def test_the_older_hook_of_gradients_is_the_full_one_with_a_warning() -> None:
    net = doubling(lt)
    seen: list[list[float]] = []
    with pytest.warns(FutureWarning, match="register_full_backward_hook"):
        handle = net.register_backward_hook(lambda m, given, result: seen.append(
            [given[0].item(), result[0].item()]))
    x = lt.tensor([1.0], requires_grad=True)
    net(x).sum().backward()
    handle.remove()
    net(x).sum().backward()
    assert seen == [[2.0, 1.0]]


@pytest.mark.parametrize("options", [{}, {"kdim": 6, "vdim": 6, "add_bias_kv": True}])
def test_attention_draws_its_parameters_anew_but_for_the_last_weight(options: Any) -> None:
    layer = lt.nn.MultiheadAttention(4, 2, **options)
    with lt.no_grad():
        for parameter in layer.parameters():
            parameter.fill_(7.0)
    layer._reset_parameters()
    same = {name for name, p in layer.named_parameters() if bool((p == 7.0).any())}
    assert same == {"out_proj.weight"}
    assert not layer.in_proj_bias.any() and not layer.out_proj.bias.any()


def test_a_parameter_of_a_parameter_warns_that_it_is_a_copy() -> None:
    first = lt.nn.Parameter(lt.ones(2))
    with pytest.warns(UserWarning, match="trained apart"):
        second = lt.nn.Parameter(first)
    assert second is not first and second.tolist() == [1.0, 1.0]


def test_hooks_of_gradients_run_in_jitted_functions_and_twice_differentiated() -> None:
    net = doubling(lt)
    net.register_full_backward_hook(lambda m, given, result: (given[0] * 10,))

    def slope(x: lt.Tensor) -> lt.Tensor:
        x = x.detach().requires_grad_()
        (first,) = lt.autograd.grad((net(x) ** 3).sum(), [x], create_graph=True)
        (second,) = lt.autograd.grad(first.sum(), [x])
        return second

    x = lt.tensor([1.0])  # (2x)**3: 24 x**2, hooked 240 x**2; then its gradient, hooked again
    assert slope(x).tolist() == [4800.0]
    call = lt.jit(slope)
    assert [call(x).tolist(), call(x + 1).tolist()] == [[4800.0], [9600.0]]


def test_a_list_of_modules_may_leave_some_out() -> None:
    net = nn.ModuleList([nn.Linear(2, 3), None])
    net.append(None)
    net[0] = None
    net.insert(0, nn.Linear(3, 1))
    del net[1]
    assert len(net) == 3 and net[1] is None and list(net.state_dict()) == ["0.weight", "0.bias"]
    assert repr(net).endswith("(1-2): 2 x None\n)")
    assert list(net.to(lt.float64).children()) == [net[0]]
    with pytest.raises(lt.DTypeError, match="item 3 is int, not a Module"):
        net.append(3)



def test_changing_a_container_in_a_jitted_function_is_refused() -> None:
    net = nn.ModuleList([nn.ReLU()])
    for change in (lambda: net.append(nn.ReLU()), lambda: net.pop(), lambda: net.insert(0, net[0]),
                   lambda: net.register_forward_hook(print)):
        with pytest.raises(lt.JitError):
            lt.jit(fullgraph=True)(lambda x, change=change: (change(), x)[1])(lt.ones(1))
    assert len(net) == 1


def test_parameters_have_attributes_of_a_program_that_copies_lack() -> None:
    layer, lazy = nn.Linear(2, 2), nn.LazyLinear(2)
    layer.weight.marked = lazy.weight.marked = True  # type: ignore[attr-defined]
    lazy(lt.ones(1, 2))
    layer.double()
    assert layer.weight.marked and lazy.weight.marked  # type: ignore[attr-defined]
    assert not hasattr(copy.deepcopy(layer).weight, "marked")


def test_a_jitted_function_reads_what_parameters_are_marked_with() -> None:
    def scaled(p: lt.Tensor) -> lt.Tensor:
        return (p * getattr(p, "factor", 1)).sum()

    given, named = nn.Parameter(lt.ones(2)), nn.Parameter(lt.ones(2))
    of_given, of_named = lt.jit(scaled), lt.jit(lambda: scaled(named))
    for factor in (None, 3, 3, 5):
        if factor is not None:
            given.factor = named.factor = factor  # type: ignore[attr-defined]
        for _ in range(2):
            assert of_given(given).item() == of_named().item() == 2 * (factor or 1)
    with pytest.raises(lt.JitError, match="attributes of the program's"):
        lt.jit(scaled, fullgraph=True)(given)


def test_a_number_saved_as_one_element_is_loaded_as_a_number() -> None:
    layer = nn.BatchNorm1d(2)
    for assign in (False, True):
        state = layer.state_dict()
        state["num_batches_tracked"] = lt.tensor([7])
        layer.load_state_dict(state, assign=assign)
        assert layer.num_batches_tracked.shape == () and layer.num_batches_tracked.item() == 7
    with pytest.raises(TypeError, match="not a mapping"):
        layer.load_state_dict([1])


def test_parameter_dicts_are_joined_copied_and_emptied() -> None:
    first = nn.ParameterDict({"b": lt.ones(1), "a": lt.zeros(2)})
    both = first | nn.ParameterDict({"c": lt.ones(3)})
    assert list(both) == ["a", "b", "c"] and both["a"] is first["a"]
    assert list(reversed(both)) == ["c", "b", "a"] and list(first) == ["a", "b"]
    first |= both
    key, value = first.popitem()
    assert (key, value.shape, list(first)) == ("c", (3,), ["a", "b"])
    assert list(first.copy().keys()) == ["a", "b"]
    assert list(first.fromkeys(["x", "y"], 1).items()) == [("x", 1), ("y", 1)]
    first.clear()
    with pytest.raises(KeyError):
        first.popitem()


class Curved(nn.Module):
    """Has a parameter by the name of a property, which subclasses make of other parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.curvature = nn.Parameter(lt.ones(2))


class Ball(Curved):
    @property
    def curvature(self) -> lt.Tensor:
        return -self.radius  # type: ignore[operator]  # there only once the parameter is


class Named(Curved):
    curvature = 3


def test_a_property_that_is_not_there_yet_hides_no_parameter() -> None:
    assert list(Ball().state_dict()) == ["curvature"] and Ball().curvature.tolist() == [1, 1]
    with pytest.raises(lt.AttributeNameError, match="already exists"):
        Named()
