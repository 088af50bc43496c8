"""What programs written for PyTorch do with modules and parameters: each check is run with lazyten
(test_modules.py) and with PyTorch (test_torch_modules.py), and must give the same, which is
written down beside it. A check takes the package, and gives plain Python values."""
from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

Check = Callable[[Any], Any]
CHECKS: dict[str, tuple[Check, Any]] = {}


def gives(expected: Any) -> Callable[[Check], Check]:
    """Make a function a check that gives this."""
    def register(check: Check) -> Check:
        CHECKS[check.__name__] = check, expected
        return check
    return register


def fails(call: Callable[[], Any], error: type[Exception]) -> bool:
    """Whether a call raises such an error."""
    try:
        call()
    except error:
        return True
    return False


def names(named: Any) -> list[str]:
    """The names of (name, value) pairs."""
    return [name for name, _ in named]


def averaging(T: Any) -> Any:
    """A module that assigns its buffer anew at each call."""
    class Averaging(T.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", T.zeros(1))
            self.scale = T.nn.Parameter(T.ones(1))

        def forward(self, x: Any) -> Any:
            self.mean = 0.5 * self.mean + 0.5 * x.mean().detach()
            return x * self.scale - self.mean
    return Averaging()


def small(T: Any) -> Any:
    """A layer, parameters trained and frozen, and a buffer."""
    class Small(T.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.scale = T.nn.Parameter(T.ones(2))
            self.frozen = T.nn.Parameter(T.zeros(2), requires_grad=False)
            self.layer = T.nn.Linear(2, 2)
            self.register_buffer("count", T.tensor([0, 3]))

        def forward(self, x: Any) -> Any:
            return self.layer(x) * self.scale + self.frozen
    return Small()


# ---- what is registered --------------------------------------------------------------------------

@gives((["mean"], ["scale", "mean"], [1.5], "float64", [1.5]))
def a_buffer_assigned_anew_stays_a_buffer(T: Any) -> Any:
    net = averaging(T)
    for _ in range(2):
        net(T.full((4,), 2.0))
    saved = net.state_dict()
    net.to(T.float64)
    return (names(net.named_buffers()), list(saved), saved["mean"].tolist(),
            str(net.mean.dtype).rpartition(".")[2], net.mean.tolist())


@gives((["scale", "frozen", "layer.weight", "layer.bias"], False, True, [0.0, 0.0], None,
        [3.0, 3.0]))
def a_frozen_parameter_is_registered(T: Any) -> Any:
    net = small(T)
    given = T.zeros(2, 2)
    net(given).sum().backward()
    before = net.frozen.tolist()
    net.frozen.data = net.frozen.data + 3
    return (names(net.named_parameters()), net.frozen.requires_grad,
            isinstance(net.frozen, T.nn.Parameter), before, net.frozen.grad, net.frozen.tolist())


@gives(([], [], [], True))
def a_tensor_that_requires_gradients_is_no_parameter(T: Any) -> Any:
    net = T.nn.Module()
    net.leaf = T.ones(2, requires_grad=True)
    net.result = net.leaf * 2
    net.plain = T.ones(2)
    return (list(net.parameters()), list(net.buffers()), list(net.state_dict()),
            net.result.requires_grad)


@gives([True, True, True, True, True, ["scale", "frozen", "layer.weight", "layer.bias"]])
def what_is_no_parameter_cannot_take_the_place_of_one(T: Any) -> Any:
    net = small(T)

    def assign(name: str, value: Any) -> Callable[[], None]:
        return lambda: setattr(net, name, value)
    return [*(fails(assign(name, value), TypeError) for name, value in (
        ("scale", net.scale * 2), ("scale", 3), ("layer", T.ones(2)), ("count", 3),
        ("scale", T.nn.Linear(1, 1)))), names(net.named_parameters())]


@gives((["frozen", "layer.weight", "layer.bias"], ["scale", "frozen", "layer", "count"], None, None,
        ["frozen"], None))
def none_takes_any_place(T: Any) -> Any:
    net = small(T)
    net.scale = None
    first = names(net.named_parameters())
    held = [n for table in (net._parameters, net._modules, net._buffers) for n in table]
    net.layer = net.count = None
    return first, held, net.layer, net.count, list(net.state_dict()), net.scale


@gives(((["a", "b"], ["c"]), (["a", "b", "c"], []), (["a", "b"], ["c"])))
def a_name_changes_its_kind(T: Any) -> Any:
    net = T.nn.Module()
    net.a, net.b = T.nn.Parameter(T.ones(1)), T.nn.Parameter(T.ones(1))
    net.c = 3
    net.c = T.nn.Linear(1, 1)
    seen = [(list(net._parameters), list(net._modules))]
    net.c = T.nn.Parameter(T.ones(1))
    seen.append((list(net._parameters), list(net._modules)))
    del net.c
    net.c = T.nn.Linear(1, 1)
    return (*seen, (list(net._parameters), list(net._modules)))


@gives((False, True, [], True))
def deleted_attributes_are_gone(T: Any) -> Any:
    net = small(T)
    del net.scale, net.layer, net.frozen, net.count
    return (hasattr(net, "scale"), fails(lambda: delattr(net, "scale"), AttributeError),
            list(net.state_dict()), fails(lambda: net.layer, AttributeError))


@gives((3, True, True, 5))
def before_init_there_are_plain_attributes_only(T: Any) -> Any:
    class Early(T.nn.Module):  # type: ignore[misc]
        def __init__(self, value: Any) -> None:
            self.early = value
            super().__init__()
    return (Early(3).early, fails(lambda: Early(T.nn.Parameter(T.ones(1))), AttributeError),
            fails(lambda: Early(T.nn.Linear(1, 1)), AttributeError), Early(5).early)


# ---- modes ---------------------------------------------------------------------------------------

@gives(([False, False, False], [True, False, False], True))
def train_calls_the_train_of_each_child(T: Any) -> Any:
    class Frozen(T.nn.Linear):  # type: ignore[misc]
        def train(self, mode: bool = True) -> Any:
            return super().train(False)
    net = T.nn.Sequential(Frozen(1, 1), T.nn.Sequential(Frozen(1, 1)))
    net.eval()
    first = [net.training, net[0].training, net[1][0].training]
    net.train()
    return (first, [net.training, net[0].training, net[1][0].training],
            fails(lambda: net.train("yes"), ValueError))


# ---- Tensor --------------------------------------------------------------------------------------

@gives((["float32"] * 6, [1.0, 2.0], [1.0, 0.0], [2, 3], [4], [0], True, True))
def tensor_of_data_is_of_floats(T: Any) -> Any:
    import numpy as np
    made = [T.Tensor([1, 2]), T.Tensor([True, False]), T.Tensor(2, 3), T.Tensor(4), T.Tensor(),
            T.Tensor(np.array([1, 2]))]
    return ([str(t.dtype).rpartition(".")[2] for t in made], made[0].tolist(), made[1].tolist(),
            list(made[2].shape), list(made[3].shape), list(made[4].shape),
            fails(lambda: T.Tensor(2.5), TypeError), fails(lambda: T.Tensor(True), TypeError))


# ---- parameters ----------------------------------------------------------------------------------

@gives((True, False, False, True, [0],
        "Parameter containing:\ntensor([1., 1.], requires_grad=True)"))
def parameters_are_of_a_class_and_results_are_not(T: Any) -> Any:
    p = T.nn.Parameter(T.ones(2))
    return (isinstance(p, T.nn.Parameter), isinstance(p * 2, T.nn.Parameter),
            isinstance(p.detach(), T.nn.Parameter), p.is_leaf,
            list(T.nn.Parameter().shape), repr(p))


@gives((True, True, False, None, [1.0, 1.0], [0.0, 0.0], True, True))
def a_deep_copy_has_parameters_of_its_own(T: Any) -> Any:
    net = small(T)
    net(T.ones(1, 2)).sum().backward()
    net.alias = net.scale
    twin = copy.deepcopy(net)
    with T.no_grad():
        twin.scale.zero_()
    return (isinstance(twin.scale, T.nn.Parameter), twin.scale.requires_grad,
            twin.frozen.requires_grad, twin.scale.grad, net.scale.tolist(), twin.alias.tolist(),
            twin.alias is twin.scale, isinstance(twin.layer.weight, T.nn.Parameter))


@gives((["scale"], [["weight", "bias"], ["weight", None]]))
def registered_by_name(T: Any) -> Any:
    net = T.nn.Module()
    net.register_parameter("scale", T.nn.Parameter(T.ones(1)))
    net.register_parameter("absent", None)
    return (names(net.named_parameters()), [
        [n if p is not None else None for n, p in layer._parameters.items()]
        for layer in (T.nn.Linear(1, 1), T.nn.Linear(1, 1, bias=False))])


@gives([True] * 8)
def names_that_cannot_be_registered(T: Any) -> Any:
    net = small(T)
    p = T.nn.Parameter(T.ones(1))
    return [fails(lambda: net.register_parameter("a.b", p), KeyError),
            fails(lambda: net.register_parameter("", p), KeyError),
            fails(lambda: net.register_parameter("forward", p), KeyError),
            fails(lambda: net.register_buffer("scale", T.ones(1)), KeyError),
            fails(lambda: net.add_module("a.b", T.nn.ReLU()), KeyError),
            fails(lambda: net.register_parameter("more", T.ones(1)), TypeError),
            fails(lambda: net.register_buffer("more", 3), TypeError),
            fails(lambda: net.add_module("more", T.ones(1)), TypeError)]


@gives((["kept"], ["kept", "scratch"], ["float64", "float64"], [2.0], ["kept"], True))
def buffers_that_are_not_saved(T: Any) -> Any:
    net = T.nn.Module()
    net.register_buffer("kept", T.zeros(1))
    net.register_buffer("scratch", T.ones(1), persistent=False)
    net.register_buffer("absent", None)
    first = names(net.named_buffers())
    net.double()
    net.scratch = net.scratch * 2
    net.load_state_dict({"kept": T.ones(1)})
    return (list(net.state_dict()), first,
            [str(b.dtype).rpartition(".")[2] for b in net.buffers()], net.scratch.tolist(),
            list(net.state_dict()), net.absent is None)


@gives((["weight", "0.weight"], [2.0, 2.0]))
def losses_keep_their_weight_as_a_buffer(T: Any) -> Any:
    loss = T.nn.CrossEntropyLoss(weight=T.tensor([2.0, 2.0]))
    return [*loss.state_dict(), *T.nn.Sequential(loss).state_dict()], loss.weight.tolist()


@gives((["kept", "scratch"], ["kept"], [], [5.0, 5.0], True, False))
def buffers_by_assignment(T: Any) -> Any:
    net, data = T.nn.Module(), T.ones(2)
    net.kept = T.nn.Buffer(data)
    net.scratch = T.nn.Buffer(T.zeros(1), persistent=False)
    first = names(net.named_buffers()), list(net.state_dict()), list(net.parameters())
    data.fill_(5.0)
    return (*first, net.kept.tolist(), isinstance(net.kept, T.Tensor),
            isinstance(T.ones(1), T.nn.Buffer))


@gives((["module.weight", "module.bias"], [[3.0]], "DataParallel"))
def a_module_in_another_for_several_devices(T: Any) -> Any:
    inner = T.nn.Linear(2, 1)
    with T.no_grad():
        inner.weight.fill_(1.0)
        inner.bias.fill_(1.0)
    net = T.nn.DataParallel(inner)
    return list(net.state_dict()), net(T.ones(1, 2)).tolist(), type(net).__name__


# ---- walking -------------------------------------------------------------------------------------

def nested(T: Any) -> Any:
    """A shared layer, and one below another."""
    shared = T.nn.Linear(1, 1)
    return T.nn.Sequential(OrderedDict(
        a=shared, b=T.nn.Sequential(T.nn.Linear(1, 1, bias=False), shared), c=shared))


@gives((["a", "b"], ["", "a", "b", "b.0"], ["", "a", "b", "b.0", "b.1", "c"],
        ["net", "net.a", "net.b", "net.b.0"], ["a.weight", "a.bias", "b.0.weight"],
        ["m.a.weight", "m.a.bias", "m.b.0.weight"], [], ["m.weight", "m.bias"], 5,
        ["a.weight", "a.bias", "b.0.weight", "b.1.weight", "b.1.bias", "c.weight", "c.bias"]))
def walking(T: Any) -> Any:
    net = nested(T)
    return (names(net.named_children()), names(net.named_modules()),
            names(net.named_modules(remove_duplicate=False)),
            names(net.named_modules(prefix="net")), names(net.named_parameters()),
            names(net.named_parameters(prefix="m")), list(net.parameters(recurse=False)),
            names(net.a.named_parameters("m", False)), len(list(net.modules())) + 1,
            names(net.named_parameters(remove_duplicate=False)))


@gives(["Linear", "Linear", "Linear", "Sequential", "Sequential"])
def apply_goes_from_below(T: Any) -> Any:
    seen: list[str] = []
    net = nested(T)
    return seen if net.apply(lambda m: seen.append(type(m).__name__)) is net else None


@gives((True, True, True, True, True, True, True))
def parts_by_path(T: Any) -> Any:
    net = nested(T)
    return (net.get_submodule("b.0") is net.b[0], net.get_submodule("") is net,
            net.get_parameter("b.1.weight") is net.a.weight,
            fails(lambda: net.get_submodule("b.7"), AttributeError),
            fails(lambda: net.get_parameter("b.0.bias"), AttributeError),
            fails(lambda: net.get_buffer("a.weight"), AttributeError),
            fails(lambda: net.nothing, AttributeError))


# ---- state ---------------------------------------------------------------------------------------

@gives((["m.scale", "m.frozen", "m.count", "m.layer.weight", "m.layer.bias"], False, True))
def state_with_options(T: Any) -> Any:
    net = small(T)
    state = net.state_dict(prefix="m.", keep_vars=True)
    return list(state), net.state_dict()["scale"].requires_grad, state["m.scale"] is net.scale


@gives(("<All keys matched successfully>", ["frozen"], ["extra"], True, True))
def loading_tells_what_differs(T: Any) -> Any:
    net = small(T)
    state = dict(small(T).state_dict())
    whole = repr(net.load_state_dict(state))
    state["extra"] = state.pop("frozen")
    result = net.load_state_dict(state, strict=False)
    return (whole, result.missing_keys, result.unexpected_keys,
            fails(lambda: net.load_state_dict(state), RuntimeError),
            fails(lambda: net.load_state_dict({"scale": T.ones(3)}, strict=False), RuntimeError))


@gives((True, [True, False], "float64", True, [7, 7]))
def loading_may_assign(T: Any) -> Any:
    net = small(T)
    state = {n: (t.double() if t.is_floating_point() else t + 7) for n, t in
             net.state_dict().items()}
    state["count"] = T.tensor([7, 7])
    net.load_state_dict(state, assign=True)
    return (isinstance(net.scale, T.nn.Parameter), [net.scale.requires_grad,
            net.frozen.requires_grad], str(net.scale.dtype).rpartition(".")[2],
            net.count is state["count"], net.count.tolist())


# ---- gradients, dtypes ---------------------------------------------------------------------------

@gives(([0.0, 0.0], None, None, [False, False, False, False], True))
def zero_grad_and_freezing(T: Any) -> Any:
    net = small(T)
    net(T.ones(1, 2)).sum().backward()
    net.zero_grad(set_to_none=False)
    zeros = net.scale.grad.tolist()
    net.zero_grad()
    return (zeros, net.scale.grad, net.frozen.grad,
            [p.requires_grad for p in net.requires_grad_(False).parameters()],
            net.scale.requires_grad_().requires_grad)


@gives((["float16", "float64", "float32", "float64", "float64", "float32"], "int64", "float64",
        True))
def dtypes_change_for_floats_only(T: Any) -> Any:
    net = small(T)
    net(T.ones(1, 2)).sum().backward()
    kept, found = net.scale, []
    for change in (lambda: net.half(), lambda: net.double(), lambda: net.float(),
                   lambda: net.to(T.float64), lambda: net.to("cpu", T.float64),
                   lambda: net.to(T.ones(1))):
        assert change() is net
        found.append(str(net.scale.dtype).rpartition(".")[2])
    net.double()
    return (found, str(net.count.dtype).rpartition(".")[2],
            str(net.scale.grad.dtype).rpartition(".")[2], net.scale is kept)


@gives(([0.0, 0.0], [0.5, 0.5], [0.0, 0.0]))
def an_optimizer_leaves_frozen_parameters_alone(T: Any) -> Any:
    net = small(T)
    optimizer = T.optim.SGD(net.parameters(), lr=0.5)
    with T.no_grad():
        net.layer.weight.zero_()
        net.layer.bias.fill_(1.0)
    net(T.zeros(1, 2)).sum().backward()
    optimizer.step()
    frozen = T.optim.Adam([net.frozen])
    frozen.step()
    return net.frozen.tolist(), net.scale.tolist(), net.frozen.tolist()


# ---- printing ------------------------------------------------------------------------------------

@gives("Tall(\n  size=3\n  (inner): Tall(size=3)\n)")
def printing(T: Any) -> Any:
    class Tall(T.nn.Module):  # type: ignore[misc]
        def extra_repr(self) -> str:
            return "size=3"
    net = Tall()
    net.inner = Tall()
    return repr(net)


# ---- hooks ---------------------------------------------------------------------------------------

def doubling(T: Any) -> Any:
    """x * scale, with a scale of 2, and an option."""
    class Doubling(T.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.scale = T.nn.Parameter(T.full((1,), 2.0))

        def forward(self, x: Any, shift: float = 0.0) -> Any:
            return x * self.scale + shift
    return Doubling()


@gives(([2.0], [22.0], [122.0], [2.0], ["pre", "post", "first", "pre", "post"]))
def hooks_of_calls(T: Any) -> Any:
    net, x, seen = doubling(T), T.ones(1), []
    found = [net(x).tolist()]
    pre = net.register_forward_pre_hook(lambda m, args: (seen.append("pre"), args[0] + 10)[1])
    net.register_forward_hook(lambda m, args, y: seen.append("post"))
    found.append(net(x).tolist())
    first = net.register_forward_pre_hook(
        lambda m, args: (seen.append("first"), (args[0] + 50,))[1], prepend=True)
    found.append(net(x).tolist())
    for handle in (pre, first):
        handle.remove()
    seen_before = seen.copy()
    found.append(net(x).tolist())
    return (*found, seen_before)


@gives(([6.0], [106.0], [105.0], ["None"], True))
def hooks_with_named_arguments(T: Any) -> Any:
    net, x, seen = doubling(T), T.ones(1), []
    with net.register_forward_pre_hook(lambda m, args, kwargs: (args, {"shift": 4.0}),
                                       with_kwargs=True):
        found = [net(x, shift=1.0).tolist()]
        with net.register_forward_hook(lambda m, args, kwargs, y: y + 100, with_kwargs=True):
            found.append(net(x).tolist())
    net.register_forward_hook(lambda m, args, y: None if y is None else y + 100)
    net.register_forward_hook(lambda m, args, y: seen.append(repr(y)) if y is None else None,
                              always_call=True)
    found.append(net(x, shift=3.0).tolist())
    return (*found, seen if fails(lambda: net(x, shift="a"), TypeError) else None,
            len(net._forward_hooks) == 2)


@gives(([[4.0, 6.0]], [[2.0, 3.0]], [4.0, 6.0], [5.0], ["grad", "no"]))
def hooks_of_gradients(T: Any) -> Any:
    net, seen = doubling(T), []
    net.register_full_backward_hook(lambda m, given, result: seen.append((given, result)))
    x = T.tensor([1.0, 1.0], requires_grad=True)
    (net(x) * T.tensor([2.0, 3.0])).sum().backward()
    (given,), (result,) = seen[0]
    calls = ["grad"]
    other = doubling(T)
    other.register_full_backward_hook(
        lambda m, given, result: calls.append("no" if given == (None,) else "yes"))
    other(T.ones(2)).sum().backward()
    return [given.tolist()], [result.tolist()], x.grad.tolist(), net.scale.grad.tolist(), calls


@gives(([40.0, 40.0], [200.0], [[200.0, 200.0]], [(2, None, True)]))
def hooks_change_gradients(T: Any) -> Any:
    net, seen = doubling(T), []
    net.register_full_backward_pre_hook(lambda m, result: (result[0] * 100,))
    net.register_full_backward_hook(lambda m, given, result: (given[0] / 10,))
    net.register_full_backward_hook(lambda m, given, result: seen.append(result[0].tolist()))
    x = T.tensor([0.5, 0.5], requires_grad=True)
    (net(x) * 2).sum().backward()

    class Two(T.nn.Module):  # type: ignore[misc]
        def forward(self, a: Any, n: Any, b: Any) -> Any:
            return a * b, n, a + b
    two, kinds = Two(), []
    two.register_full_backward_hook(
        lambda m, given, result: kinds.append((len(given) - 1, given[1], result[1] is None)))
    a, b = (T.tensor([v], requires_grad=True) for v in (3.0, 5.0))
    first, _, second = two(a, 7, b)
    (first * 2 + second).sum().backward()
    assert (a.grad.tolist(), b.grad.tolist()) == ([11.0], [7.0])
    return x.grad.tolist(), net.scale.grad.tolist(), seen, kinds


@gives((["scale", "version"], [9.0], [], ["called"], True))
def hooks_of_state(T: Any) -> Any:
    net, seen = doubling(T), []
    net.register_state_dict_post_hook(
        lambda m, state, prefix, meta: state.__setitem__(prefix + "version", T.ones(1)))
    saved = list(net.state_dict())

    def rename(m: Any, state: Any, prefix: str, meta: Any, strict: bool, missing: Any,
               unexpected: Any, errors: Any) -> None:
        if prefix + "old" in state:
            state[prefix + "scale"] = state.pop(prefix + "old")
    net.register_load_state_dict_pre_hook(rename)
    net.register_load_state_dict_post_hook(lambda m, keys: seen.append("called"))
    given = {"old": T.full((1,), 9.0)}
    result = net.load_state_dict(given)
    return saved, net.scale.tolist(), result.missing_keys, seen, "old" in given


@gives((True, 3, [1.0]))
def a_deep_copy_keeps_hooks(T: Any) -> Any:
    net = doubling(T)
    seen: list[int] = []
    net.register_forward_hook(lambda m, args, y: seen.append(1) or y - 1)
    twin = copy.deepcopy(net)
    twin.register_forward_hook(lambda m, args, y: seen.append(2))
    result = twin(T.ones(1)).tolist()
    net(T.ones(1))
    return len(net._forward_hooks) == 1, len(seen), result


# ---- containers ----------------------------------------------------------------------------------

def layers(T: Any, *sizes: int) -> list[Any]:
    """Layers, told apart by their sizes."""
    return [T.nn.Linear(n, n) for n in sizes]


def sizes(modules: Any) -> list[int]:
    """What tells these layers apart."""
    return [m.in_features for m in modules]


@gives(([1, 2, 3, 4, 5], ["0", "1", "2", "3", "4"], [2, 3], "ModuleList", [9, 2, 3, 4],
        [9, 7, 2, 3, 4], 4, [9, 7, 2, 3], ["0.weight", "0.bias", "1.weight", "1.bias"], True, True,
        [9, 7, 8], 3, True))
def module_lists(T: Any) -> Any:
    net = T.nn.ModuleList(layers(T, 1, 2))
    net.append(layers(T, 3)[0]).extend(layers(T, 4))
    net += layers(T, 5)
    found: list[Any] = [sizes(net), names(net.named_children()), sizes(net[1:3]),
                        type(net[1:3]).__name__]
    net[0] = layers(T, 9)[0]
    del net[-1]
    found.append(sizes(net))
    net.insert(1, layers(T, 7)[0])
    found.append(sizes(net))
    found += [net.pop(-1).in_features, sizes(net)]
    del net[2:]
    found += [names(net.named_parameters()), fails(lambda: net[2], IndexError),
              fails(lambda: net.append(3), TypeError)]
    return (*found, sizes(net + layers(T, 8)), len(net + layers(T, 8)), net[0] in net)


@gives((["a", "b", "c"], [1, 2, 3], True, 2, ["a", "c"], ["a.weight", "a.bias"], True, 1, [5], 0))
def module_dicts(T: Any) -> Any:
    a, b, c = layers(T, 1, 2, 3)
    net = T.nn.ModuleDict({"a": a, "b": b})
    net["c"] = c
    found = [list(net), sizes(net.values()), "b" in net, net.pop("b").in_features,
             list(net.keys())]
    del net["c"]
    found += [names(net.named_parameters()), fails(lambda: net["c"], KeyError), len(net)]
    net.update([("a", layers(T, 5)[0])])
    found.append(sizes(m for _, m in net.items()))
    net.clear()
    return (*found, len(net))


@gives((["0", "1", "2"], [True, True, True], [2, 3], 3, ["0", "1"], True, [5.0], True,
        "ParameterList(  (0): Parameter containing: [float32 of size 2x3])"))
def parameter_lists(T: Any) -> Any:
    net = T.nn.ParameterList([T.ones(1), T.nn.Parameter(T.ones(2))])
    net.append(T.ones(3))
    found = [names(net.named_parameters()), [isinstance(p, T.nn.Parameter) for p in net],
             [len(p) for p in net[1:]], len(net), names(net[1:].named_parameters()),
             fails(lambda: net[3], IndexError)]
    net[0] = T.full((1,), 5.0)
    found += [net[0].tolist(), net[0].requires_grad]
    text = repr(T.nn.ParameterList([T.ones(2, 3)]))
    return (*found, text.replace("torch.", "").replace("lazyten.", ""))


@gives((["b", "a"], ["a", "b", "c"], ["a", "b"], True, 7, [1.0], ["b", "c"], True, None, [2.0], 0))
def parameter_dicts(T: Any) -> Any:
    ordered = T.nn.ParameterDict(OrderedDict(b=T.ones(1), a=T.ones(1)))
    net = T.nn.ParameterDict({"b": T.nn.Parameter(T.ones(2)), "a": T.ones(1)})
    net["c"] = 7
    found = [list(ordered), list(net), names(net.named_parameters()), "a" in net, net["c"],
             net.pop("a").tolist(), list(net.keys()), fails(lambda: net["a"], AttributeError),
             net.get("z"), net.setdefault("d", T.full((1,), 2.0)).tolist()]
    net.clear()
    return (*found, len(net))


@gives(((12, 20), 12, 20, (3, 2), True))
def fans_of_weights(T: Any) -> Any:
    weight, init = T.ones(5, 3, 2, 2), T.nn.init
    return (init._calculate_fan_in_and_fan_out(weight),
            init._calculate_correct_fan(weight, "fan_in"),
            init._calculate_correct_fan(weight, "FAN_OUT"),
            init._calculate_fan_in_and_fan_out(T.ones(2, 3)),
            fails(lambda: init._calculate_correct_fan(weight, "fan"), ValueError))


@gives(([1, 2], "Sequential", ["b", "c"], [1, 2, 3, 4], [4, 1, 2, 3], 4, [1, 2, 3, 1, 2, 3],
        [1, 2, 3, 7], [1, 9, 3], ["0", "1"], [9, 3], True, True))
def sequentials(T: Any) -> Any:
    net = T.nn.Sequential(*layers(T, 1, 2, 3))
    named = T.nn.Sequential(OrderedDict(zip("abc", layers(T, 1, 2, 3), strict=True)))
    found: list[Any] = [sizes(net[:2]), type(net[:2]).__name__, names(named[1:].named_children()),
                        sizes(T.nn.Sequential(*net).append(layers(T, 4)[0]))]
    longer = T.nn.Sequential(*net).insert(0, layers(T, 4)[0])
    found += [sizes(longer), longer.pop(0).in_features, sizes(net * 2),
              sizes(net + T.nn.Sequential(*layers(T, 7)))]
    net[1] = layers(T, 9)[0]
    found.append(sizes(net))
    del net[0]
    found += [names(net.named_children()), sizes(net)]
    return (*found, fails(lambda: net[5], IndexError),
            sizes(T.nn.Sequential().extend(net)) == sizes(net))


@gives("ModuleList(\n  (0-1): 2 x ReLU()\n  (2): Sequential(\n    (0): Tanh()\n  )\n)")
def equal_modules_print_once(T: Any) -> Any:
    return repr(T.nn.ModuleList([T.nn.ReLU(), T.nn.ReLU(), T.nn.Sequential(T.nn.Tanh())]))


@gives(["Embedding(3, 4, padding_idx=1, max_norm=2.0)",
        "MaxPool2d(kernel_size=(2, 3), stride=1, padding=1, dilation=1, ceil_mode=False)",
        "AvgPool2d(kernel_size=2, stride=2, padding=0)",
        "LayerNorm((3, 4), eps=1e-05, elementwise_affine=True, bias=False)",
        "Dropout(p=0.5, inplace=False)", "Flatten(start_dim=1, end_dim=-1)", "ReLU(inplace=True)",
        "ReLU()", "GELU(approximate='none')", "SiLU()", "Softmax(dim=1)", "LogSoftmax(dim=None)",
        "Conv2d(2, 4, kernel_size=(3, 1), stride=(2, 2), padding=(1, 1), dilation=(2, 2), "
        "groups=2, bias=False)",
        "Conv1d(1, 2, kernel_size=(3,), stride=(1,), padding=same)",
        "ConvTranspose2d(2, 2, kernel_size=(3, 3), stride=(2, 2), output_padding=(1, 1))"])
def layers_show_their_options(T: Any) -> Any:
    nn = T.nn
    return list(map(repr, [
        nn.Embedding(3, 4, padding_idx=1, max_norm=2.0), nn.MaxPool2d((2, 3), stride=1, padding=1),
        nn.AvgPool2d(2), nn.LayerNorm((3, 4), bias=False), nn.Dropout(), nn.Flatten(),
        nn.ReLU(True), nn.ReLU(), nn.GELU(), nn.SiLU(), nn.Softmax(1), nn.LogSoftmax(),
        nn.Conv2d(2, 4, (3, 1), 2, 1, 2, 2, False), nn.Conv1d(1, 2, 3, padding="same"),
        nn.ConvTranspose2d(2, 2, 3, stride=2, output_padding=1)]))
