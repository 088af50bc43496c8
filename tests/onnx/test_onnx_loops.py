"""Loops: several steps as one program, ends that are computed, and loops that do nothing."""
from __future__ import annotations

from typing import Any

import numpy as np
import onnx_if_there
import pytest

import lazyten as lt
from lazyten.ir.node import toposort
from lazyten.ir.ops import Op
from lazyten.operators.arrays.loops import looped

onnx = onnx_if_there.needed()
from lazyten.onnx import repeating  # noqa: E402
from lazyten.onnx.operators import recurrent  # noqa: E402

helper: Any = onnx.helper
FLOAT, INT64, BOOL = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.BOOL


def value(name: str, kind: int = FLOAT, shape: Any = None) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def array(name: str, values: Any, dtype: Any = None) -> Any:
    return onnx.numpy_helper.from_array(np.array(values, dtype), name)


def node(kind: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    return helper.make_node(kind, [n if n != "-" else "" for n in inputs.split()],
                            outputs.split(), **attributes)


def loaded(nodes: list[Any], inputs: list[Any], outputs: str, initializers: Any = (),
           device: str | None = None) -> Any:
    graph = helper.make_graph(nodes, "g", inputs, [value(n) for n in outputs.split()],
                              initializer=initializers)
    return lt.onnx.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]),
                        device=device)


def subgraph(nodes: list[Any], inputs: list[Any], outputs: str, initializers: Any = ()) -> Any:
    return helper.make_graph(nodes, "body", inputs, [value(n) for n in outputs.split()],
                             initializer=initializers)


def sums(looks: bool, device: str | None = None) -> Any:
    """s + x[i] while i + 1 is less than the length, counted as a value, or so many times; all sums
    are collected."""
    goes = node("Less", "j length", "goes") if looks else node("Identity", "c", "goes")
    body = subgraph(
        [node("Gather", "x i", "xi"), node("Add", "s xi", "t"), node("Add", "i one", "j"), goes,
         node("Identity", "t", "z")], [value("i", INT64, []), value("c", BOOL, []), value("s")],
        "goes t z", [array("one", 1)])
    counted = [node("Equal", "x x", "same"), node("Cast", "same", "ones", to=INT64),
               node("ReduceSum", "ones", "length", keepdims=0)]
    return loaded([*(counted if looks else [node("Size", "x", "length")]),
                   node("Loop", "- - s0" if looks else "length - s0", "y zs", body=body)],
                  [value("x", FLOAT, ["n"]), value("s0", FLOAT, [])], "y zs", device=device)


@pytest.fixture(params=[0, 40])
def soon(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Steps are compiled together at once, or on the way."""
    monkeypatch.setattr("lazyten.onnx.repeating.WORTH", request.param)
    return request.param


@pytest.mark.parametrize("looks", [False, True])
def test_steps_in_one_program_give_what_they_give_one_by_one(soon: int, looks: bool) -> None:
    """Whatever the number of steps; one behind the last would read behind the end."""
    model = sums(looks)
    for n in (1, 2, 16, 17, 18, 19, 33, 34, 70):
        x = np.random.default_rng(n).integers(-9, 9, n).astype(np.float32)
        y, zs = model([x, np.array(2, np.float32)])
        np.testing.assert_array_equal(zs, 2 + np.cumsum(x, dtype=np.float32))
        assert y == zs[-1]
    [body] = model._program._bodies.values()
    assert not looks or any(plan.whole.blocks for plan in body._plans.values())


def test_states_stay_as_the_last_step_left_them(soon: int) -> None:
    """Also where the condition ends the loop within a program of several steps."""
    body = subgraph([node("Mul", "s two", "t"), node("Add", "k one", "k1"),
                     node("Less", "t limit", "goes")],
                    [value("i", INT64, []), value("c", BOOL, []), value("s"), value("k", INT64)],
                    "goes t k1", [array("two", 2, np.float32), array("one", 1)])
    model = loaded([node("Loop", "- - s k", "y count", body=body)],
                   [value("limit", FLOAT, []), value("s", FLOAT, [1]), value("k", INT64, [1])],
                   "y count")
    for steps in (1, 5, 16, 17, 18, 40, 41, 60):
        y, count = model([np.array(2.0 ** steps, np.float32), np.ones(1, np.float32),
                          np.zeros(1, np.int64)])
        assert (y, count) == (2.0 ** steps, steps)


def test_scanned_rows_may_come_in_several_at_once(soon: int) -> None:
    body = subgraph([node("Add", "s u", "t"), node("Mul", "t v", "z")],
                    [value("s"), value("u"), value("v")], "t z")
    model = loaded([node("Scan", "s us vs", "y zs", body=body, num_scan_inputs=2,
                         scan_input_directions=[0, 1], scan_input_axes=[0, 1],
                         scan_output_directions=[1])],
                   [value("s", FLOAT, [2]), value("us", FLOAT, ["n", 2]),
                    value("vs", FLOAT, [2, "n"])], "y zs")
    for n in (1, 16, 17, 18, 50):
        us, vs = (np.random.default_rng(n).integers(-9, 9, (n, 2)).astype(np.float32)
                  for _ in range(2))
        y, zs = model([np.ones(2, np.float32), us, vs.T.copy()])
        wanted = 1 + np.cumsum(us, 0, dtype=np.float32)
        np.testing.assert_array_equal(y, wanted[-1])
        np.testing.assert_array_equal(zs, (wanted * vs[::-1])[::-1])


def test_what_a_body_captures_may_differ_from_call_to_call(soon: int) -> None:
    body = subgraph([node("Add", "s w", "t"), node("Identity", "c", "goes")],
                    [value("i", INT64, []), value("c", BOOL, []), value("s")], "goes t")
    model = loaded([node("Loop", "n - s", "y", body=body)],
                   [value("n", INT64, []), value("s", FLOAT, [2]), value("w", FLOAT, [2])], "y")
    for weight in (1, 2, 3):
        given = [np.array(50), np.zeros(2, np.float32), np.full(2, weight, np.float32)]
        np.testing.assert_array_equal(model(given)[0], np.full(2, 50.0 * weight))


def test_gradients_go_through_programs_of_several_steps(soon: int) -> None:
    body = subgraph([node("Mul", "s w", "t"), node("Identity", "c", "goes")],
                    [value("i", INT64, []), value("c", BOOL, []), value("s")], "goes t")
    model = loaded([node("Loop", "n - s", "y", body=body)],
                   [value("n", INT64, []), value("s", FLOAT, [1]), value("w", FLOAT, [1])], "y")
    for _ in range(3):
        w = lt.tensor([1.0], requires_grad=True)
        model([lt.tensor(40), lt.tensor([3.0]), w])[0].sum().backward()
        assert w.grad is not None and w.grad.tolist() == [120.0]


def test_a_loop_runs_on_the_device_of_the_model(device: str) -> None:
    x = np.arange(5, dtype=np.float32)
    np.testing.assert_array_equal(sums(True, device)([x, np.array(0, np.float32)])[1],
                                  np.cumsum(x))


def test_a_loop_without_steps_collects_no_rows_of_the_right_shape() -> None:
    body = subgraph([node("Add", "s s", "t"), node("Cast", "t", "z", to=INT64),
                     node("Identity", "c", "goes")],
                    [value("i", INT64, []), value("c", BOOL, []), value("s")], "goes t z")
    model = loaded([node("Loop", "n c0 s", "y zs", body=body)],
                   [value("n", INT64, []), value("c0", BOOL, []), value("s", FLOAT, [2, 3])],
                   "y zs")
    s = np.ones((2, 3), np.float32)
    for count, condition in ((0, True), (5, False), (-1, True)):
        y, zs = model([np.array(count), np.array(condition), s])
        np.testing.assert_array_equal(y, s)
        assert zs.shape == (0, 2, 3) and zs.dtype == np.int64
    assert model([np.array(2), np.array(True), s])[1].tolist() == [[[2] * 3] * 2, [[4] * 3] * 2]


def test_a_scan_of_no_rows_collects_none() -> None:
    body = subgraph([node("Add", "s u", "t"), node("Identity", "t", "z")],
                    [value("s"), value("u")], "t z")
    model = loaded([node("Scan", "s us", "y zs", body=body, num_scan_inputs=1)],
                   [value("s", FLOAT, [2]), value("us", FLOAT, ["n", 2])], "y zs")
    y, zs = model([np.ones(2, np.float32), np.zeros((0, 2), np.float32)])
    assert y.tolist() == [1, 1] and zs.shape == (0, 2)


def is_one_program(model: Any) -> bool:
    return all(plan.whole is not None for plan in model._program._plans.values())


def counted(nodes: list[Any], states: str, given: str, inputs: list[Any], steps: Any,
            initializers: Any = (), outside: Any = ()) -> Any:
    """A Loop of so many steps, whose body has the number i."""
    names = [x.name for x in inputs if x.name.endswith("0")]
    body = subgraph([node("Identity", "c", "goes"), *nodes],
                    [value("i", INT64, []), value("c", BOOL, []),
                     *(value(name[0]) for name in names)], f"goes {states} {given}", initializers)
    outputs = " ".join(f"y{k}" for k in range(len(f"{states} {given}".split())))
    known = {x.name for x in outside}
    return loaded([node("Loop", f"n - {' '.join(names)}", outputs, body=body)],
                  [x for x in inputs if x.name not in known], outputs,
                  [array("n", steps), *outside])


def test_a_loop_whose_number_of_steps_follows_from_shapes_is_one_program() -> None:
    model = sums(False)
    for n in (2, 5, 40):
        x = np.random.default_rng(n).integers(-9, 9, n).astype(np.float32)
        y, zs = model([x, np.array(2, np.float32)])
        np.testing.assert_array_equal(zs, 2 + np.cumsum(x, dtype=np.float32))
        assert y == zs[-1]
    assert is_one_program(model)


def test_states_of_other_types_are_scans_of_their_own() -> None:
    """A count, what it makes of sums, a state that stays, and results that are states."""
    model = counted(
        [node("Add", "k three", "k1"), node("Cast", "k", "f", to=FLOAT), node("Mul", "s w", "t"),
         node("Add", "t f", "u"), node("Identity", "s", "before"), node("Identity", "w", "same"),
         node("Greater", "u f", "above")], "k1 u w", "before same above k1",
        [value("k0", INT64, []), value("s0", FLOAT, [2]), value("w0", FLOAT, [])], 20,
        [array("three", 3)])
    s, w = np.array([1, 2], np.float32), np.array(0.5, np.float32)
    found = model([np.array(7), s, w])
    befores, aboves = [], []
    for k in range(7, 67, 3):
        befores.append(s)
        s = s * w + np.float32(k)
        aboves.append(s > k)
    wanted = [67, s, w, befores, [w] * 20, aboves, range(10, 70, 3)]
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, np.array([*other] if isinstance(other, range) else other),
                                   1e-6)
    assert is_one_program(model)


def test_a_scan_is_one_program_whatever_its_directions() -> None:
    body = subgraph([node("Mul", "s u", "t"), node("Add", "t v", "z"), node("Identity", "u", "q")],
                    [value("s"), value("u"), value("v")], "z t q")
    model = loaded([node("Scan", "s us vs", "y ts qs", body=body, num_scan_inputs=2,
                         scan_input_directions=[0, 1], scan_input_axes=[0, 1],
                         scan_output_directions=[1, 0], scan_output_axes=[1, 0])],
                   [value("s", FLOAT, [2]), value("us", FLOAT, ["n", 2]),
                    value("vs", FLOAT, [2, "n"])], "y ts qs")
    us, vs = np.random.default_rng(0).uniform(-1, 1, (2, 30, 2)).astype(np.float32)
    y, ts, qs = model([np.ones(2, np.float32), us, vs.T.copy()])
    s, wanted = np.ones(2, np.float32), []
    for u, v in zip(us, vs[::-1], strict=True):
        wanted.append(s * u)
        s = wanted[-1] + v
    np.testing.assert_allclose(y, s, 1e-5)
    np.testing.assert_allclose(ts, np.array(wanted)[::-1].T, 1e-5)
    np.testing.assert_array_equal(qs, us)
    assert is_one_program(model)


@pytest.mark.parametrize("case", ["large", "outside", "grows"])
def test_what_a_scan_cannot_do_runs_by_steps(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """States that take too much memory, an index that has to be checked, a state that grows."""
    if case == "large":
        monkeypatch.setattr("lazyten.operators.arrays.loops.KEPT_BYTES", 100)
    nodes = {"large": [node("Add", "s x", "t")],
             "outside": [node("Gather", "x i", "xi"), node("Add", "s xi", "t")],
             "grows": [node("Concat", "s x", "t", axis=0)]}[case]
    model = counted(nodes, "t", "", [value("s0", FLOAT, [None]), value("x", FLOAT, [3])], 12)
    given = [np.zeros(3, np.float32), np.arange(3, dtype=np.float32)]
    if case == "outside":
        with pytest.raises(lt.IndexingError, match="index 3 is outside axis 0"):
            model(given)
        return
    found = model(given)[0]
    np.testing.assert_array_equal(found, np.tile(given[1], 13)[:39] * (np.arange(39) > 2)
                                  if case == "grows" else 12 * given[1])
    assert not is_one_program(model)


def test_gradients_go_through_a_loop_that_is_a_scan() -> None:
    model = counted([node("Mul", "s w", "t"), node("Sin", "t", "u")], "u", "t",
                    [value("s0", FLOAT, [2]), value("w", FLOAT, [2])], 9)
    results = []
    for by_steps in (False, True):
        s, w = (lt.tensor([0.5, 2.0], requires_grad=True) for _ in range(2))
        total = 0
        if by_steps:
            state = s
            for _ in range(9):
                total = total + (state * w).sum()
                state = (state * w).sin()
        else:
            state, ts = model([s, w])
            total = ts.sum()
        (state.sum() + total).backward()
        assert s.grad is not None and w.grad is not None
        results.append([*s.grad.tolist(), *w.grad.tolist()])
    np.testing.assert_allclose(*results, rtol=1e-5)


def over_time(length: str) -> Any:
    """A recurrent layer as TensorFlow's is exported: a counter of its own, a condition that
    compares it, and both products in each step; of rows that were looked up in a table."""
    body = subgraph(
        [node("Gather", "rows k", "row"), node("MatMul", "row w", "fresh"),
         node("MatMul", "h r", "old"), node("Add", "fresh old", "both"), node("Tanh", "both", "t"),
         node("Add", "k one", "next"), node("Cast", "next", "f", to=FLOAT),
         node("Cast", "limit", "g", to=FLOAT), node("Less", "f g", "goes")],
        [value("i", INT64, []), value("c", BOOL, []), value("k", INT64, []), value("h")],
        "goes next t t", [array("one", 1)])
    return loaded(
        [node("Gather", "table words", "rows"), node(length, "words", "limit"),
         node("Loop", "- yes zero h0", "ks y ys", body=body)],
        [value("words", INT64, ["n"]), value("table", FLOAT, [9, 4]), value("w", FLOAT, [4, 16]),
         value("r", FLOAT, [16, 16])], "ks y ys",
        [array("yes", True), array("zero", 0, np.int64),
         array("h0", np.full((1, 16), 0.5), np.float32)])


@pytest.mark.parametrize("length", ["Size", "ReduceMax"])
def test_a_condition_on_a_counter_is_foreseen_where_the_length_is(length: str) -> None:
    """Not where the length is a value, such as the greatest word."""
    model, random = over_time(length), np.random.default_rng(3)
    table, w, r = (random.uniform(-1, 1, shape).astype(np.float32)
                   for shape in ((9, 4), (4, 16), (16, 16)))
    words = np.array([6, 2, 0, 1, 6, 3])
    h, wanted = np.full((1, 16), 0.5, np.float32), []
    for word in words:
        h = np.tanh(table[word] @ w + h @ r)
        wanted.append(h)
    ks, y, ys = model([words, table, w, r])
    assert ks == 6
    np.testing.assert_allclose(y, h, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(ys, wanted, rtol=1e-5, atol=1e-6)
    assert is_one_program(model) == (length == "Size")
    with pytest.raises(lt.IndexingError, match="index 9 is outside axis 0"):
        model([np.array([0, 9, 2]), table, w, r])


def test_a_count_from_a_constant_on_is_known_before_and_after_all_steps() -> None:
    model = counted([node("Mul", "k two", "k1"), node("Gather", "x k", "xk"),
                     node("Add", "s xk", "t")], "k1 t", "k",
                    [value("k0", INT64, []), value("s0", FLOAT, []), value("x", FLOAT, [20])], 5,
                    [array("two", 2)], [array("k0", 1)])
    x = np.arange(20, dtype=np.float32)
    k, s, ks = model([np.array(0.5, np.float32), x])
    assert k == 32 and s == 31.5 and ks.tolist() == [1, 2, 4, 8, 16]
    assert is_one_program(model)


def test_products_of_rows_alone_are_one_for_all_steps() -> None:
    """Of a scan's step only what a state goes into is left."""
    rows, state, fixed, w = lt.randn(20, 4), lt.randn(8), lt.randn(8), lt.randn(4, 8)

    def step(own: Any, before: Any) -> Any:
        x, h, same = (lt.Tensor._result(n, rows) for n in (*own, *before))
        t = ((x @ w) * same).tanh() * (h @ lt.ones(8, 8))
        return [t.node, before[1]], []
    found = looped(step, [rows.node], [state.node, fixed.node], 20, {})
    assert found is not None
    body = next(n for n in toposort(found[0]) if n.op is Op.SCAN).arg
    sums = [n for n in toposort(body.outputs) if n.op is Op.REDUCE]
    assert len(sums) == 1 and body.xs == 1
    h = state
    for x in rows:
        h = ((x @ w) * fixed).tanh() * (h @ lt.ones(8, 8))
    np.testing.assert_allclose(lt.Tensor._result(found[0][0], rows).numpy(), h.numpy(), rtol=1e-4)


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_a_recurrent_layer_is_as_large_whatever_its_steps(kind: str) -> None:
    """How many nodes there are to schedule."""
    function = {"LSTM": recurrent.lstm, "GRU": recurrent.gru, "RNN": recurrent.rnn}[kind]
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind]
    sizes = []
    for steps in (20, 200):
        x, w, r = lt.randn(steps, 2, 3), lt.randn(2, gates * 4, 3), lt.randn(2, gates * 4, 4)
        lengths = lt.tensor([steps, steps // 2])
        y = function(x, w, r, None, lengths, direction="bidirectional")[0]
        sizes.append(len(toposort([y.node])))
    assert sizes[0] == sizes[1]


@pytest.mark.parametrize("steps", [[3, 4], []])
def test_a_loop_whose_number_of_steps_is_no_number_is_refused(steps: list[int]) -> None:
    model = counted([node("Add", "s s", "t")], "t", "", [value("s0", FLOAT, [2])],
                    np.array(steps, np.int64))
    with pytest.raises(lt.ArgumentError, match=r"Loop of ai\.onnx"):
        model([np.zeros(2, np.float32)])


def test_a_loop_without_an_end_is_refused() -> None:
    body = subgraph([node("Add", "s s", "t"), node("Identity", "c", "goes")],
                    [value("i", INT64, []), value("c", BOOL, []), value("s")], "goes t")
    model = loaded([node("Loop", "- - s", "y", body=body)], [value("s", FLOAT, [2])], "y")
    with pytest.raises(lt.ArgumentError, match="has no end"):
        model([np.zeros(2, np.float32)])


def test_a_loop_without_steps_whose_body_needs_some_has_the_shapes_that_the_file_says() -> None:
    take = [node("Gather", "x i", "row"), node("Reshape", "row k", "z"),
            node("Identity", "c", "goes")]
    body = subgraph(take, [value("i", INT64, []), value("c", BOOL, [])], "goes z")
    body.output[1].CopyFrom(value("z", FLOAT, ["m", 2]))
    model = loaded([node("Shape", "x", "size"), node("Gather", "size zero", "n"),
                    node("Loop", "n -", "zs", body=body)],
                   [value("x", FLOAT, ["n", 4])], "zs", [
                       onnx.numpy_helper.from_array(np.array([2, 2]), "k"),
                       onnx.numpy_helper.from_array(np.array(0), "zero")])
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(model([x])[0], x.reshape(3, 2, 2))
    found, = model([x[:0]])
    assert found.shape == (0, 0, 2) and found.dtype == np.float32


def test_a_loop_without_steps_hides_no_failure_of_a_compiler(monkeypatch: pytest.MonkeyPatch
                                                            ) -> None:
    body = subgraph([node("Identity", "c", "goes"), node("Cast", "i", "z", to=FLOAT)],
                    [value("i", INT64, []), value("c", BOOL, [])], "goes z")
    body.output[1].CopyFrom(value("z", FLOAT, []))
    model = loaded([node("Loop", "n -", "zs", body=body)], [value("n", INT64, [])], "zs")

    def failing(*_: Any) -> Any:
        raise lt.CompileError("no such instruction")
    monkeypatch.setattr(repeating.Body, "__call__", failing)
    with pytest.raises(lt.CompileError):
        model([np.array(0)])
