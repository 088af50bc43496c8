"""Whole models: what is compiled, what runs by itself, and real ones beside onnxruntime."""
from __future__ import annotations

import copy
import pickle
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx_if_there
import pytest

import lazyten as lt

onnx = onnx_if_there.needed()
from lazyten.onnx import evaluation  # noqa: E402

helper: Any = onnx.helper
FLOAT, INT64, BOOL = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.BOOL


def value(name: str, shape: Any = None, kind: int = FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def array(name: str, values: Any, dtype: Any = None) -> Any:
    return onnx.numpy_helper.from_array(np.array(values, dtype), name)


def node(kind: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    return helper.make_node(kind, inputs.split(), outputs.split(), **attributes)


def loaded(nodes: list[Any], inputs: list[Any], initializers: Any = (), outputs: str = "y",
           opset: int = 20, device: str | None = None) -> Any:
    graph = helper.make_graph(nodes, "g", inputs, [value(n) for n in outputs.split()],
                              initializer=initializers)
    return lt.onnx.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)]),
                        device=device)


def steps(model: Any) -> list[list[str]]:
    """The kinds of steps that each shape's call takes."""
    return [[type(step).__name__ for step in plan.steps] for plan in model._program._plans.values()]


def rand(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def test_importing_lazyten_does_not_import_onnx() -> None:
    import subprocess
    import sys
    code = ("import sys, lazyten; lazyten.onnx; "
            "print([n for n in sys.modules if n.partition('.')[0] == 'onnx'])")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_arithmetic_on_shapes_is_done_beforehand_and_the_rest_is_one_program() -> None:
    """Also where sizes differ from call to call."""
    model = loaded([node("Shape", "x", "s"), node("Gather", "s zero", "n"), node(
        "Unsqueeze", "n first", "n1"), node("Concat", "n1 rest", "shape", axis=0),
        node("Reshape", "x shape", "u"), node("Range", "zero n one", "r"), node(
            "Cast", "r", "f", to=FLOAT), node("Unsqueeze", "f first", "f1"), node(
            "Transpose", "f1", "f2"), node("Add", "u f2", "y")], [value("x", ["n", 2, 3])],
        [array("zero", 0), array("one", 1), array("first", [0]), array("rest", [-1])])
    for n in (4, 4, 5, 4):
        x = rand(n, 2, 3)
        np.testing.assert_array_equal(
            model([x])[0], x.reshape(n, 6) + np.arange(n, dtype=np.float32)[:, None])
    assert steps(model) == [["Segment"], ["Segment"]]


def test_layers_that_work_out_the_same_shapes_have_it_worked_out_once() -> None:
    """And numbers of another type, or in another place, are others."""
    def with_layers(dtype: type, count: int) -> Any:
        nodes = [node("Div", "a b", "n0"), node("Div", "b a", "n1")]
        return loaded(nodes + [node("Add", f"n{k} n{k}", f"n{k + 2}") for k in range(count)], [],
                      [array("a", [7, 7], dtype), array("b", [2, 2], dtype)],
                      f"n{count} n{count + 1}")
    evaluation._known.cache_clear()
    found = with_layers(np.int64, 2)([])
    assert [x.tolist() for x in found] == [[6, 6], [0, 0]]
    misses = evaluation._known.cache_info().misses
    with_layers(np.int64, 2)
    assert evaluation._known.cache_info().misses == misses == 4
    assert [x.tolist() for x in with_layers(np.float32, 0)([])] == [
        [3.5, 3.5], pytest.approx([2 / 7] * 2)]


@pytest.mark.parametrize(("indices", "dtype"), [([[1, -3], [0, 2]], np.int32), (-1, np.int64),
                                                ([], np.int64)])
def test_rows_of_constants_are_taken_beforehand_as_others_are(indices: Any, dtype: type) -> None:
    x = rand(2, 3, 2)
    nodes = [node("Gather", "x at", "y", axis=-2), node("Gather", "given at", "z", axis=-2)]
    model = loaded(nodes, [value("given", x.shape)], [
        array("x", x), array("at", indices, dtype)], "y z")
    assert "y" in model._program.constants
    for found in model([x]):
        np.testing.assert_array_equal(found, np.take(x, np.array(indices, dtype), 1))
    with pytest.raises(lt.IndexingError, match=r"Gather.* 3 "):
        loaded(nodes[:1], [], [array("x", x), array("at", [0, 3])])


def test_results_of_a_call_stay_when_the_next_has_other_inputs() -> None:
    """Memory of small inputs serves again; a result may be an input, or a view of one."""
    model = loaded([node("Identity", "x", "y"), node("Transpose", "x", "z"),
                    node("Unsqueeze", "x axis", "u")], [value("x", ["n", 2])],
                   [array("axis", [0])], "y z u")
    kept = []
    for n in (3, 3, 3, 4, 3):
        given = rand(n, 2) + len(kept)
        kept.append((given.copy(), model([given])))
        given[:] = 0
    for given, results in kept:
        for found, wanted in zip(results, (given, given.T, given[None]), strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_memory_of_inputs_takes_what_is_like_the_last_and_nothing_else() -> None:
    model = loaded([node("Add", "x x", "y")], [value("x", ["n"])])
    x = np.arange(6, dtype=np.float32)
    for given in (x, x + 1, x[::-1], (x + 2).astype(">f4"), x[::2], x):
        np.testing.assert_array_equal(model([given])[0], 2 * given)
    with pytest.raises(lt.DTypeError):
        model([x.astype(np.float64)])
    with pytest.raises(lt.ShapeError):
        model([x[None]])
    np.testing.assert_array_equal(model([x])[0], 2 * x)


def test_calls_with_arrays_of_known_shapes_make_no_tensors(
        monkeypatch: pytest.MonkeyPatch, device: str) -> None:
    """Outputs are arrays of their own: results, views of them, inputs, constants."""
    model = loaded([node("Add", "x w", "s"), node("Transpose", "s", "t"),
                    node("Greater", "x w", "b"), node("Identity", "w", "c"),
                    node("Transpose", "x", "v"), node("Identity", "x", "i")],
                   [value("x", ["n", 2])], [array("w", [1, 2], np.float32)], "s t x b c v i",
                   device=device)
    calls = [rand(3, 2), rand(50000, 2)]
    for x in calls * 3:
        model([x])
    for _ in range(4):
        assert [len(y) for y in model([rand(0, 2)])] == [0, 2, 0, 0, 2, 2, 0]
    made = []
    new = lt.Tensor._view

    def counted(*given: Any) -> Any:
        made.append(given)
        return new(*given)
    monkeypatch.setattr(lt.Tensor, "_view", staticmethod(counted))
    for x in [*calls, *(np.float32(-1) - x for x in calls), calls[0]]:
        w = np.array([1, 2], np.float32)
        wanted = [x + w, (x + w).T, x, x > w, w, x.T, x]
        for _ in range(2):
            found = model([x])
            for have, want in zip(found, wanted, strict=True):
                np.testing.assert_array_equal(have, want)
                assert have.dtype == want.dtype and have.flags.writeable
                have[:] = 7
    assert not made


def test_what_only_shows_parts_of_inputs_computes_nothing() -> None:
    model = loaded([node("Slice", "x a b", "y"), node("Transpose", "y", "z")],
                   [value("x", [4, 3])], [array("a", [1]), array("b", [3])], "y z")
    for _ in range(4):
        x = rand(4, 3)
        found = model([x])
        np.testing.assert_array_equal(found[0], x[1:3])
        np.testing.assert_array_equal(found[1], x[1:3].T)
        assert all(y.flags.owndata for y in found)


def test_calls_with_arrays_look_at_indices_and_at_settings() -> None:
    model = loaded([node("Gather", "w i", "r"), node("Log", "r", "y")], [value("i", [2], INT64)],
                   [array("w", [1, 2, 0], np.float32)], "y")
    inside = np.array([1, 0])
    for _ in range(4):
        np.testing.assert_allclose(model([inside])[0], np.log([2, 1]), rtol=1e-6)
    with pytest.raises(lt.IndexingError, match="3"):
        model([np.array([0, 3])])
    np.testing.assert_allclose(model([inside])[0], np.log([2, 1]), rtol=1e-6)
    with lt.check("nan"):
        assert model([np.array([0, 2])])[0][0] == 0
        with pytest.raises(lt.LazytenError):
            loaded([node("Log", "x", "y")], [value("x", [2])])([np.array([-1, 1], np.float32)])
    traced = lt.func.vmap(lambda i: model([i])[0])(lt.tensor([[1, 0], [0, 1]]))
    np.testing.assert_allclose(traced.numpy(), np.log([[2, 1], [1, 2]]), rtol=1e-6)


def test_threads_that_call_a_model_have_memory_of_their_own() -> None:
    from concurrent.futures import ThreadPoolExecutor
    model = loaded([node("Mul", "x x", "y")], [value("x", [8])])

    def called(number: int) -> bool:
        x = np.full(8, number, np.float32)
        return all((model([x])[0] == x * x).all() for _ in range(50))
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(called, range(16)))


def test_powers_that_are_known_are_those_of_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the base has floats which hold them, and as many axes."""
    seen = []
    real = lt.pow

    def noted(base: Any, exponent: Any) -> Any:
        seen.append(type(exponent) is float)
        return real(base, exponent)
    monkeypatch.setattr(lt, "pow", noted)
    x = np.array([0.5, 2, 3, 0, -1, -2], np.float32)
    for base, exponent, is_number in (
            (x, np.float32(3), True), (x, np.float32([2]), True), (x, np.int64(3), True),
            (x.astype(np.float64), np.float32(-1), True), (np.abs(x), np.float64(0.5), True),
            (x, np.float32([[3]]), False), (np.abs(x), np.float64(0.1), False),
            (x.astype(np.float16), np.float32(1e6), False), (x.astype(np.int32), np.int8(2), False),
            (x.astype(np.int32), np.float32(2), False), (np.abs(x), np.abs(x), False)):
        kind = helper.np_dtype_to_tensor_dtype(base.dtype)
        model = loaded([node("Pow", "x e", "y")], [value("x", base.shape, kind)],
                       [onnx.numpy_helper.from_array(np.asarray(exponent), "e")])
        seen.clear()
        with np.errstate(all="ignore"):
            wanted = np.power(base, exponent).astype(base.dtype)
        np.testing.assert_allclose(model([base])[0], wanted, 1e-5)
        assert set(seen) == {is_number}, (base.dtype, exponent)


def test_what_hangs_on_values_runs_between_programs() -> None:
    """Sizes behind it may differ in each call, and so may what follows from them."""
    model = loaded([node("NonZero", "x", "i"), node("Shape", "i", "s"), node(
        "Gather", "s one", "n"), node("Transpose", "i", "t"), node("GatherND", "x t", "v"),
        node("Cast", "n", "f", to=FLOAT), node("Mul", "v f", "y")], [value("x", [2, 3])],
        [array("one", 1)])
    for x in ([[0, 1, 0], [2, 0, 3]], [[0, 0, 0], [0, 0, 5]], [[1, 2, 3], [4, 5, 6]],
              [[0, 1, 0], [2, 0, 7]]):
        given = np.array(x, np.float32)
        kept = given[given != 0]
        np.testing.assert_array_equal(model([given])[0], kept * len(kept))
    assert steps(model) == [["Alone", "Segment"]]


def test_what_a_step_of_its_own_gives_is_computed_before_the_next_program_reads_it() -> None:
    """It would be planned with that at each call."""
    model = loaded([node("RandomNormalLike", "x", "r"), node("Add", "x r", "y")], [value("x", [3])])
    model([rand(3)])
    plan, = model._program._plans.values()
    values = {"x": lt.tensor(rand(3))}
    plan.steps[0].run(values)
    assert values["r"]._storage.buffer is not None
    assert lt.jit(lambda x: model([x])[0])(values["x"]).shape == (3,)


def test_a_branch_is_chosen_beforehand_where_shapes_decide_and_else_at_each_call() -> None:
    relu = helper.make_graph([node("Relu", "x", "r")], "then", [], [value("r")])
    twice = helper.make_graph([node("Add", "x x", "r")], "else", [], [value("r")])
    by_shape = loaded([node("Size", "x", "n"), node("Greater", "n four", "c"), node(
        "If", "c", "y", then_branch=relu, else_branch=twice)], [value("x", ["n"])],
        [array("four", 4)])
    by_value = loaded([node("ReduceSum", "x", "s", keepdims=0), node("Greater", "s zero", "c"),
                       node("If", "c", "y", then_branch=relu, else_branch=twice)],
                      [value("x", ["n"])], [array("zero", 0, np.float32)])
    for x in (rand(3), rand(5), -np.abs(rand(3)), np.abs(rand(3))):
        np.testing.assert_array_equal(by_shape([x])[0], x.clip(0) if x.size > 4 else x + x)
        np.testing.assert_array_equal(by_value([x])[0], x.clip(0) if x.sum() > 0 else x + x)
    assert steps(by_shape) == [["Segment"], ["Segment"]]
    assert steps(by_value)[0] == ["Segment", "Alone"]


def test_branches_have_constants_of_their_own() -> None:
    """Under names that others have, too."""
    branches = [helper.make_graph([node(kind, "x w", "r")], kind, [], [value("r")],
                                  [array("w", number, np.float32)])
                for kind, number in (("Mul", 3), ("Add", 5))]
    model = loaded([node("Size", "x", "n"), node("Greater", "n two", "c"), node(
        "If", "c", "y", then_branch=branches[0], else_branch=branches[1]), node(
        "If", "c", "z", then_branch=branches[1], else_branch=branches[0])],
        [value("x", ["n"])], [array("two", 2)], "y z")
    for n in (2, 3, 2, 4, 3):
        x = rand(n)
        for found, wanted in zip(model([x]), (x * 3, x + 5) if n > 2 else (x + 5, x * 3),
                                 strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_a_branch_behind_a_step_of_its_own_follows_the_shapes_of_each_call() -> None:
    """The sizes there differ while the inputs' do not."""
    relu = helper.make_graph([node("Neg", "v", "r")], "then", [], [value("r")])
    twice = helper.make_graph([node("Add", "v v", "r")], "else", [], [value("r")])
    model = loaded([node("Cast", "x", "b", to=BOOL), node("Compress", "x b", "v"), node(
        "Size", "v", "n"), node("Greater", "n two", "c"), node(
        "If", "c", "y", then_branch=relu, else_branch=twice)], [value("x", [4])],
        [array("two", 2)])
    for x in ([1, 0, 0, 2], [1, 2, 3, 4], [0, 0, 3, 0], [0, 1, 2, 3]):
        given = np.array(x, np.float32)
        kept = given[given != 0]
        np.testing.assert_array_equal(model([given])[0], -kept if len(kept) > 2 else kept * 2)


def test_a_loop_ends_where_its_values_say() -> None:
    """It doubles until the sum is above a limit, and collects what it had."""
    body = helper.make_graph(
        [node("Add", "v v", "w"), node("ReduceSum", "w", "s", keepdims=0),
         node("Less", "s limit", "go"), node("Identity", "w", "seen")], "body",
        [value("i", [], INT64), value("c", [], BOOL), value("v")],
        [value("go", [], BOOL), value("w"), value("seen")])
    model = loaded([helper.make_node("Loop", ["", "", "x"], ["y", "z"], body=body)],
                   [value("x", [2])], [array("limit", 100, np.float32)], "y z")
    y, z = model([np.array([1, 2], np.float32)])
    assert y.tolist() == [64, 128] and z.tolist() == [[2 ** i, 2 ** (i + 1)] for i in range(1, 7)]


def test_batch_normalization_becomes_part_of_the_convolution() -> None:
    weights = [array("w", rand(4, 3, 3, 3)), array("b", rand(4)), array("g", rand(4)),
               array("h", rand(4)), array("m", rand(4)), array("v", np.abs(rand(4)) + 0.5)]
    nodes = [node("Conv", "x w b", "c"), node("BatchNormalization", "c g h m v", "y")]
    model = loaded(nodes, [value("x", [2, 3, 8, 8])], weights)
    plain = loaded(nodes, [value("x", [2, 3, 8, 8])], weights, "y c")
    assert [n.kind for n in model._program.nodes] == ["Conv"]
    assert [n.kind for n in plain._program.nodes] == ["Conv", "BatchNormalization"]
    x = rand(2, 3, 8, 8)
    np.testing.assert_allclose(model([x])[0], plain([x])[0], rtol=1e-4, atol=1e-5)


def test_weights_that_nodes_give_are_known_when_the_normalization_is_joined() -> None:
    weights = {"w": rand(4, 3, 1, 1), "g": rand(4), "h": rand(4), "m": rand(4),
               "v": np.abs(rand(4)) + 0.5}
    nodes = [node("Constant", "", name, value=array(name, x)) for name, x in weights.items()]
    nodes += [node("Conv", "x w", "c"), node("BatchNormalization", "c g h m v", "y")]
    model = loaded(nodes, [value("x", [2, 3, 8, 8])])
    assert [n.kind for n in model._program.nodes] == ["Conv"]
    assert not {*weights} & {*model._program.constants}  # memory of what nothing reads
    x = rand(2, 3, 8, 8)
    np.testing.assert_allclose(model([x])[0], loaded(nodes, [value("x", [2, 3, 8, 8])], (), "y c")
                               ([x])[0], rtol=1e-4, atol=1e-5)


def test_what_is_recorded_to_learn_its_shape_is_not_computed() -> None:
    count = 650  # so many, eagerly, and values that nobody asks for are computed
    model = loaded([node("Identity" if i == count else ("Neg", "Abs")[i % 2], f"{i}", f"{i + 1}")
                    for i in range(count + 1)], [value("0", [4])], outputs=f"{count + 1}")
    x = np.array([1, -2, 3, -4], np.float32)
    assert lt.testing.count_kernels(lambda: model([x])) == \
        lt.testing.count_kernels(lambda: model([x]))
    assert model([x])[0].tolist() == (abs(x) if count % 2 == 0 else -abs(x)).tolist()


def held(model: Any) -> Any:
    """The constant that has the tensor of the weights w: they, or they in blocks."""
    w = model._graph.constants["w"]
    return next(iter(w._blocks.values()), w)


def test_weights_are_made_once_and_shared() -> None:
    model = loaded([node("MatMul", "x w", "h"), node("MatMul", "h w", "y")],
                   [value("x", ["n", 64])], [array("w", rand(64, 64))])
    model([rand(2, 64)])
    first = held(model)._tensor
    model([rand(3, 64)])
    assert held(model)._tensor is first
    assert held(model)._array is None  # its elements are kept once
    assert model._graph.constants["w"]._array is None


def test_a_copy_of_a_model_shares_its_weights_and_nothing_else() -> None:
    model = loaded([node("MatMul", "x w", "y")], [value("x", ["n", 64])],
                   [array("w", rand(64, 64))])
    x = rand(2, 64)
    for _ in range(4):
        wanted = model([x])[0]
    for made in (copy.copy(model), copy.deepcopy(model)):
        np.testing.assert_array_equal(made([x])[0], wanted)
        assert made._program is not model._program
        assert held(made) is held(model)


def test_large_results_are_arrays_that_nothing_else_writes_to() -> None:
    """Neither later calls nor writes to another result that is the same."""
    model = loaded([node("Relu", "x", "y"), node("Transpose", "y", "z", perm=[1, 0]),
                    node("Identity", "y", "same"), node("Reshape", "y minus", "flat")],
                   [value("x", [128, 256])], [array("minus", np.array([-1]))],
                   outputs="y z same flat")
    given = [rand(128, 256) for _ in range(5)]
    found = [model([x]) for x in given * 2]
    del model
    for x, results in zip(given * 2, found, strict=True):
        wanted = x.clip(0)
        for have, want in zip(results, (wanted, wanted.T, wanted, wanted.ravel()), strict=True):
            np.testing.assert_array_equal(have, want)
            have[:] = 7


def test_a_model_can_be_pickled() -> None:
    """Whatever it has in it: a subgraph, an operator of another domain, one that stands for nodes;
    before and after it was called."""
    branch = [helper.make_graph([node(kind, "h", "b")], kind, [], [helper.make_value_info(
        "b", onnx.TypeProto())]) for kind in ("Neg", "Abs")]
    model = loaded([helper.make_node("BiasGelu", ["x", "w"], ["g"], domain="com.microsoft"),
                    node("HardSwish", "g", "h"), node("ReduceSum", "h", "s", keepdims=0),
                    node("Greater", "s zero", "c"),
                    helper.make_node("If", ["c"], ["y"], then_branch=branch[0],
                                     else_branch=branch[1])],
                   [value("x", ["n", 4])], [array("w", rand(4)), array("zero", np.float32(0))])
    x = rand(3, 4)
    early = pickle.loads(pickle.dumps(model))
    wanted = model([x])[0]
    for made in (early, pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(made([x])[0], wanted)
        assert str(made) == str(model)


def test_a_pickled_operator_that_is_gone_is_an_error() -> None:
    model = loaded([node("Relu", "x", "y")], [value("x", [3])])
    data = pickle.dumps(model).replace(b"Relu", b"Rely")
    with pytest.raises(lt.ArgumentError, match="the operator Rely of"):
        pickle.loads(data)


def test_tensors_give_tensors_and_arrays_are_not_shared() -> None:
    model = loaded([node("Identity", "x", "y"), node("Relu", "x", "z")], [value("x", [3])],
                   outputs="y z")
    x = rand(3)
    y, z = model({"x": lt.tensor(x)})
    assert isinstance(y, lt.Tensor) and z.tolist() == x.clip(0).tolist()
    found = model({"x": x})[0]
    found += 1
    assert (found != x).all()


def test_a_model_computes_on_the_device_asked_for() -> None:
    nodes = [node("RandomNormalLike", "x", "r"), node("Shape", "r", "s"),
             node("Expand", "w s", "e"),
             node("Mul", "r zero", "nothing"), node("Add", "e nothing", "f"),
             node("MatMul", "x f", "y")]
    graph = helper.make_graph(nodes, "g", [value("x", [3, 3])], [value("y")],
                              initializer=[array("w", 2, np.float32),
                                           array("zero", 0, np.float32)])
    model = lt.onnx.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]),
                         device="interpreter")
    x = np.eye(3, dtype=np.float32)
    assert model([x])[0].tolist() == [[2, 2, 2]] * 3
    assert model([lt.tensor(x, device="interpreter")])[0].device.type == "interpreter"


def test_gradients_reach_inputs_or_are_refused() -> None:
    weights = rand(3, 2)
    model = loaded([node("MatMul", "x w", "h"), node("Tanh", "h", "y")], [value("x", ["n", 3])],
                   [array("w", weights)])
    for _ in range(3):
        x, other = (lt.tensor(rand(4, 3), requires_grad=True) for _ in range(2))
        model([x])[0].sum().backward()
        (other @ lt.tensor(weights)).tanh().sum().backward()
        np.testing.assert_allclose(x.grad.numpy(), other.grad.numpy(), rtol=1e-5)
    alone = loaded([node("Compress", "x c", "h"), node("Add", "h h", "y")], [value("x", [3])],
                   [array("c", [True, False, True])])
    x = lt.tensor(rand(3), requires_grad=True)
    with pytest.raises(lt.GradientError, match=r"Compress.*within lt\.no_grad"):
        alone([x])
    with lt.no_grad():
        assert alone([x])[0].tolist() == (x[::2] * 2).tolist()


def test_a_default_of_an_input_may_be_given_or_not() -> None:
    model = loaded([node("Neg", "w", "n"), node("Sub", "x n", "y")],
                   [value("x", [2]), value("w", [2])], [array("w", [1, 2], np.float32)])
    x = np.zeros(2, np.float32)
    for given in (5, 6, 7):
        assert model([x])[0].tolist() == [1, 2]
        assert model({"x": x, "w": x + given})[0].tolist() == [given, given]


REAL = {"magika": ("magika/models/standard_v3_3/model.onnx", ("bytes", (1, 2048), np.int32)),
        "rapidocr_onnxruntime": ("rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
                                 ("x", (1, 3, 48, 192), np.float32))}


@pytest.mark.slow
@pytest.mark.parametrize("package", REAL)
def test_a_real_model_gives_what_onnxruntime_gives(package: str) -> None:
    runtime = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")
    place = find_spec(package)
    if place is None or place.origin is None:
        pytest.skip(f"the package {package}, which has the model, is not installed")
    inside, (name, shape, dtype) = REAL[package]
    path = Path(place.origin).parent.parent / inside
    generator = np.random.default_rng(0)
    x = generator.integers(0, 257, shape).astype(dtype) if dtype is np.int32 else \
        generator.standard_normal(shape).astype(dtype)
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    model = lt.onnx.load(path)
    for _ in range(2):
        for found, wanted in zip(model({name: x}), session.run(None, {name: x}), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-3)
    assert steps(model) == [["Segment"]]


def test_a_state_that_grows_a_hundred_times_is_compiled_once(
        monkeypatch: pytest.MonkeyPatch) -> None:
    """More lengths than programs of a large graph are kept for."""
    body = helper.make_graph(
        [node("Identity", "c", "d"), node("Concat", "s one", "t", axis=0)], "body",
        [value("i", [], INT64), value("c", [], BOOL), value("s", ["n"])],
        [value("d", [], BOOL), value("t", ["m"])], initializer=[array("one", [1], np.float32)])
    model = loaded([node("Loop", "n go x", "y", body=body)], [value("x", ["k"])],
                   [array("n", 100), array("go", True)])
    x = np.zeros(1, np.float32)
    np.testing.assert_array_equal(model([x])[0], [0] + [1] * 100)
    made: list[Any] = []
    jit = lt.jit
    monkeypatch.setattr(lt, "jit", lambda function: made.append(function) or jit(function))
    np.testing.assert_array_equal(model([x])[0], [0] + [1] * 100)
    assert not made
