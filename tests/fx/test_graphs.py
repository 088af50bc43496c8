"""`lt.fx`: programs as graphs, beside PyTorch's; and what graphs are changed and made into."""
from __future__ import annotations

import copy
import math
import operator
import pickle
from functools import wraps
from threading import Thread
from typing import Any

import numpy as np
import pytest
from torch_if_there import torch

import lazyten as lt
from lazyten import fx, nn
from lazyten.fx.proxy import TraceError


class Net(nn.Module):
    """Convolutions, parameters and buffers of its own, shapes, parts, a branch on a flag."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.scale = nn.Parameter(lt.ones(4) * 2)
        self.register_buffer("shift", lt.full((1, 4, 1, 1), 0.5))
        self.inside = nn.Sequential(nn.ReLU(), nn.Linear(4, 2))

    def forward(self, x: Any, flag: bool = False) -> Any:
        y = self.norm(self.conv(x)) * self.scale.view(1, -1, 1, 1) + self.shift
        b, _ = y.shape[:2]
        y = nn.functional.relu(y.mean((2, 3)).reshape(b, -1)) / math.sqrt(4)
        first, second = lt.chunk(y, 2, 1)
        y = 1 - lt.cat([first, -second], dim=1) ** 2
        if flag:
            y = y * 2
        return {"out": self.inside(y[:, :4]), "parts": (y, b)}


def net() -> Net:
    lt.manual_seed(0)
    return Net().eval()


def image() -> lt.Tensor:
    return lt.rand(2, 3, 5, 5)


def same(a: Any, b: Any) -> bool:
    return bool(lt.equal(a["out"], b["out"])) and a["parts"][1] == b["parts"][1]


def test_a_graph_does_what_the_module_does_and_so_do_its_copies() -> None:
    module, x = net(), image()
    traced = fx.symbolic_trace(module, {"flag": False})
    copies = (traced, copy.deepcopy(traced), copy.copy(traced),
              pickle.loads(pickle.dumps(traced)), fx.GraphModule(module, traced.graph))
    for made in copies:
        assert same(made(x), module(x)) and made.training is module.training
        assert made.state_dict().keys() == module.state_dict().keys()
    assert same(fx.Interpreter(traced).run(x), module(x))
    assert type(traced).__name__ == "Net" and type(copies[1]) is not type(traced)


def test_parameters_are_read_when_the_graph_runs_not_when_it_is_made() -> None:
    module, x = net(), image()
    traced = fx.symbolic_trace(module, {"flag": False})
    before = traced(x)["out"]
    with lt.no_grad():
        module.scale.mul_(3)
    assert same(traced(x), module(x)) and not lt.equal(traced(x)["out"], before)
    traced(x)["out"].sum().backward()
    assert module.scale.grad is not None


def test_a_known_argument_decides_and_another_is_refused() -> None:
    module, x = net(), image()
    traced = fx.symbolic_trace(module, concrete_args={"flag": True})
    assert same(traced(x), module(x, True)) and same(traced(x, True), module(x, True))
    traced.graph.eliminate_dead_code()
    traced.recompile()
    with pytest.raises(lt.ArgumentError, match="flag=False was True in concrete_args"):
        traced(x, False)
    with pytest.raises(lt.ArgumentError, match="concrete_args has flog"):
        fx.symbolic_trace(module, concrete_args={"flog": True})


def test_a_graph_is_changed() -> None:
    module, x = net(), image()
    traced = fx.symbolic_trace(module, {"flag": False})
    node = next(n for n in traced.graph.nodes if n.target is operator.pow)
    with traced.graph.inserting_after(node):
        other = traced.graph.call_function(lt.tanh, (node.args[0],))
    with pytest.raises(lt.ArgumentError, match="pow_1 is read by"):
        traced.graph.erase_node(node)
    assert node.replace_all_uses_with(other) and not node.users
    traced.graph.erase_node(node)
    traced.graph.lint()
    traced.recompile()
    assert "tanh" in traced.code and "**" not in traced.code
    assert not lt.equal(traced(x)["out"], module(x)["out"])
    assert node not in list(traced.graph.nodes) and other.prev.next is other


def test_a_transformer_makes_another_graph() -> None:
    class Sigmoids(fx.Transformer):
        """Sigmoids in place of rectifiers."""

        def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
            return lt.sigmoid(*args) if target is nn.functional.relu else super().call_function(
                target, args, kwargs)
    made = Sigmoids(fx.symbolic_trace(net(), {"flag": False})).transform()
    assert lt.sigmoid in [n.target for n in made.graph.nodes]
    assert made(image())["out"].shape == (2, 2)


def test_what_depends_on_values_is_refused() -> None:
    for function in (lambda x: x if x.sum() > 0 else -x, lambda x: list(x), len,
                     lambda x: len(x)):
        with pytest.raises(TraceError, match="not known as the program is traced"):
            fx.symbolic_trace(function)
    assert lt.ones(2).add(1).tolist() == [2, 2]  # nothing is traced any more


def test_a_module_that_is_no_part_of_the_root_is_named() -> None:
    layer = nn.Linear(2, 2)
    with pytest.raises(NameError, match="Linear is called that is no submodule"):
        fx.symbolic_trace(lambda x: layer(x))


def test_a_graph_that_is_wrong_is_refused() -> None:
    graph, other = fx.Graph(), fx.Graph()
    x = graph.placeholder("x")
    with pytest.raises(lt.ArgumentError, match="node of another graph"):
        other.call_function(lt.relu, (x,))
    with pytest.raises(lt.ArgumentError, match="op='call' is none of"):
        graph.create_node("call", "x")
    with pytest.raises(lt.ArgumentError, match="a function for call_function"):
        graph.create_node("call_function", "relu")
    y = graph.call_function(lt.relu, (x,))
    graph.output(y)
    x.prepend(y)
    with pytest.raises(lt.ArgumentError, match="relu reads x, which is not before it"):
        graph.lint()
    with pytest.raises(lt.ArgumentError, match="graph is of weight, which root does not"):
        attribute = fx.Graph()
        attribute.output(attribute.get_attr("weight"))
        fx.GraphModule({}, attribute)


def _long(x: Any) -> Any:
    if x.sum() > 0:
        return x
    return -x


fx.wrap("_long")


class Taking(nn.Module):
    """Arguments of all kinds."""

    def forward(self, a: Any, b: Any, *others: Any, c: float = 1, **named: Any) -> Any:
        return a * b + others[1] * c - named["d"]


@pytest.mark.parametrize(("function", "args", "kwargs"), [
    (lambda *xs: xs[0] * 2, (1, 2), {}),
    (lambda x, **named: x + named["a"], (3,), {"a": 5}),
    (lambda x, **named: x + named.get("a", 1), (3,), {"a": 5}),
    (lambda *xs, by=2, **named: xs[1] * by - named["a"], (3, 4), {"by": 5, "a": 6}),
    (Taking(), (1, 2, 3, 4), {"c": 5.0, "d": 6}), (Taking().forward, (1, 2, 3, 4), {"d": 6})])
def test_arguments_that_are_as_many_as_there_are_stay_so(function: Any, args: Any,
                                                         kwargs: Any) -> None:
    args, kwargs = ([lt.full((3,), float(n)) for n in args],
                    {name: lt.full((3,), float(n)) for name, n in kwargs.items()})
    assert lt.equal(fx.symbolic_trace(function)(*args, **kwargs), function(*args, **kwargs))


def test_arguments_of_what_wraps_a_function_and_tensors_as_defaults_are_refused() -> None:
    @wraps(_two)
    def wrapping(*args: Any) -> Any:
        return args[0]
    wrapping.__wrapped__ = lambda *parts: parts[0]  # type: ignore[attr-defined]
    with pytest.raises(lt.ArgumentError, match="function that wraps another function"):
        fx.symbolic_trace(wrapping)
    one = lt.ones(1)
    with pytest.raises(lt.ArgumentError, match="y is a tensor unless it is given"):
        fx.symbolic_trace(lambda x, y=one: x + y)


def test_inputs_that_are_called_as_others_nodes_are_are_kept_apart() -> None:
    def function(max: Any, max_1: Any, max_2: Any) -> Any:
        return max * 4 + max_1 * 2 + max_2
    x, y, z = lt.tensor([3.0]), lt.tensor([5.0]), lt.tensor([7.0])
    assert fx.symbolic_trace(function)(x, y, z).item() == 29


def test_other_threads_call_modules_while_one_traces() -> None:
    module, mistakes, is_over = nn.Sequential(nn.Linear(2, 2), nn.Tanh()), list[Any](), list[int]()
    expected, called = module(lt.ones(2)), nn.Module.__call__

    def calling() -> None:
        try:
            while not is_over:
                assert lt.allclose(module(lt.ones(2)), expected)
        except BaseException as error:
            mistakes.append(error)

    def tracing() -> None:
        try:
            for _ in range(20):
                graph = fx.symbolic_trace(nn.Sequential(nn.Sequential(nn.Linear(2, 2)), module))
                assert len(graph.graph.nodes) == 5
        except BaseException as error:
            mistakes.append(error)
    threads = [Thread(target=calling), Thread(target=tracing), Thread(target=tracing)]
    for thread in threads:
        thread.start()
    for thread in threads[1:]:
        thread.join()
    is_over.append(1)
    threads[0].join()
    assert not mistakes and nn.Module.__call__ is called


def test_what_another_thread_does_meanwhile_is_no_part_of_a_graph() -> None:
    layer, given = nn.Linear(2, 2), list[Any]()

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: Any) -> Any:
            other = Thread(target=lambda: given.append(layer(lt.ones(2))))
            other.start()
            other.join()
            return self.layer(x)
    assert len(fx.symbolic_trace(Net()).graph.nodes) == 3 and type(given[0]) is lt.Tensor


def test_a_graph_that_is_traced_inside_another_ends_nothing() -> None:
    def function(x: Any) -> Any:
        assert len(fx.symbolic_trace(lambda y: lt.relu(y)).graph.nodes) == 3
        return lt.relu(x)
    assert fx.symbolic_trace(function)(lt.tensor([-1.0])).item() == 0


def test_functions_that_are_attributes_of_a_module_are_not_given_it() -> None:
    class Layer(nn.Module):
        act, linear = nn.functional.relu, nn.functional.linear

        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(lt.tensor([[1.0, -3.0]]))

        def forward(self, x: Any) -> Any:
            return self.act(self.linear(x, self.w)) + self.act(x)
    traced, x = fx.symbolic_trace(Layer()), lt.tensor([[1.0, -2.0]])
    assert lt.equal(traced(x), Layer()(x)) and len(traced.graph.nodes) == 7


def test_a_wrapped_function_is_a_node() -> None:
    traced = fx.symbolic_trace(lambda x: _long(x) + 1)
    assert [n.op for n in traced.graph.nodes] == ["placeholder", "call_function", "call_function",
                                                  "output"]
    assert traced(lt.tensor([-3.0, 1.0])).tolist() == [4, 0] and _long(lt.ones(1)).item() == 1


def _two(parts: Any) -> Any:
    first, second = parts
    return {"first": first, "all": [second, (first, 1)]}


PROGRAMS: dict[str, Any] = {
    "operators": lambda T: lambda x: (-x + 2 * x - x / 3) @ x.T ** 2 > 0,
    "functions": lambda T: lambda x: T.cat([T.relu(x), T.ones_like(x)], dim=1),
    "methods": lambda T: lambda x: x.reshape(x.shape[0], -1).relu_(),
    "parts": lambda T: lambda x: sum(T.chunk(x, 2)[0].unbind(0)[i] for i in range(1)),
    "unpacked": lambda T: lambda x: _two(T.chunk(x, 2)),
    "in place": lambda T: lambda x: operator.iadd(x[0, 1:], 1).add_(2),
    "names": lambda T: lambda input, max=2: T.softmax(input.max(1)[0], dim=-1),
    "constants": lambda T: lambda x: x.to(T.float64) + T.tensor([1.0, 2.0]),
}


def nodes(T: Any, name: str) -> list[tuple[Any, ...]]:
    graph = T.fx.symbolic_trace(PROGRAMS[name](T)).graph
    return [(n.op, n.name, str(n.target) if isinstance(n.target, str) else n.target.__name__,
             str(n.args).replace("lazyten.", "torch."), str(n.kwargs), sorted(map(str, n.users)))
            for n in graph.nodes]


@pytest.mark.torch
@pytest.mark.parametrize("name", PROGRAMS)
def test_graphs_have_the_nodes_of_pytorchs(name: str) -> None:
    assert nodes(lt, name) == nodes(torch, name)


def test_classes_that_take_operations_over_are_told_of_the_functions_that_users_call() -> None:
    seen = []

    class Taker:
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
                               ) -> Any:
            seen.append(func)

    x = Taker()
    calls: tuple[tuple[Any, Any], ...] = (
        (lt.cat, ([x],)), (lt.stack, ([x, x],)), (lt.hstack, ([x],)), (lt.ones_like, (x,)),
        (lt.rand_like, (x,)), (lt.arange, (x,)), (lt.full, ((2,), x)), (lt.relu, (x,)),
        (nn.functional.linear, (x, x)), (lt.linalg.norm, (x,)), (lt.randint_like, (x, 3)))
    for function, args in calls:
        function(*args)
        assert seen.pop() is function


SEVERAL = {
    lt.broadcast_tensors: lambda f, x, y: f(x, y)[1], lt.meshgrid: lambda f, x, y: f(x[0], y[0])[1],
    lt.block_diag: lambda f, x, y: f(x, y), lt.cartesian_prod: lambda f, x, y: f(x[0], y[0]),
    lt.atleast_1d: lambda f, x, y: f(x, y)[1], lt.atleast_2d: lambda f, x, y: f(x, y)[0],
    lt.atleast_3d: lambda f, x, y: f(x), lt.chain_matmul: lambda f, x, y: f(x, y),
    lt.linalg.multi_dot: lambda f, x, y: f([x, y])}


@pytest.mark.parametrize("function", SEVERAL, ids=lambda f: f.__name__)
def test_functions_of_any_number_of_tensors_are_nodes(function: Any) -> None:
    call = SEVERAL[function]
    traced = fx.symbolic_trace(lambda x, y: call(function, x, y))
    nodes = [node.target for node in traced.graph.nodes if node.op == "call_function"]
    assert function in nodes
    x, y = lt.rand(2, 2), lt.rand(2, 2)
    assert (traced(x, y) == call(function, x, y)).all()


@pytest.mark.parametrize("given", [
    lambda x, y: ("ij,jk", [x, y]), lambda x, y: ("ij,jk", x, y),
    lambda x, y: (x, [0, 1], y, [1, 2])])
def test_einsum_is_a_node_of_its_operands_one_by_one(given: Any) -> None:
    traced = fx.symbolic_trace(lambda x, y: lt.einsum(*given(x, y)))
    node = next(node for node in traced.graph.nodes if node.op == "call_function")
    assert node.target is lt.einsum
    assert [type(x) for x in node.args] == [str, fx.Node, fx.Node]
    x, y = lt.rand(2, 3), lt.rand(3, 2)
    np.testing.assert_allclose(traced(x, y).numpy(), x.numpy() @ y.numpy(), rtol=1e-5)
