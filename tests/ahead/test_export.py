"""`lt.export`: programs without Python give the numbers that Python gives."""
from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ahead_programs import AS_C, AS_WASM, WAYS, Array, Loaded, Memory, call, memory_for, needs_cc
from example_counts import examples
from golden_text import Golden
from hypothesis import example, given
from hypothesis import strategies as st

import lazyten as lt
from lazyten import nn, optim
from lazyten.ahead.capturing import traced
from lazyten.ahead.llvm_object import target_of
from lazyten.ahead.planning import planned
from lazyten.ir import ops
from lazyten.nn import functional as F

CROSS = {"aarch64": 183, "riscv64": 243, "x86-64-v2": 62, "x86-64-v3": 62, "x86-64-v4": 62}
"""Numbers of machines in files of the ELF format."""


def network() -> nn.Module:
    lt.manual_seed(0)
    return nn.Sequential(nn.Conv2d(2, 6, 3), nn.BatchNorm2d(6), nn.GELU(), nn.MaxPool2d(2),
                         nn.Dropout(), nn.Flatten(), nn.Linear(54, 5), nn.Softmax(1)).eval()


def decoded(memory: Memory, array: Any) -> Array:
    return np.asarray(ops.decode(memory[array.name], array.dtype)).reshape(array.shape)


@pytest.mark.few(2)
@pytest.mark.parametrize("way", WAYS)
def test_a_module_gives_what_it_gives_in_python(way: str, tmp_path: Path) -> None:
    model, x = network(), lt.rand(3, 2, 8, 8)
    made = lt.export(model, x, tmp_path / f"net{way}")
    assert [path.name for path in made.files] == [f"net{way}", "net.h"]
    assert str(made).startswith("net(input: float32[3, 2, 8, 8]) -> output: float32[3, 5]; ")
    found = call(made, input=x.numpy())
    np.testing.assert_allclose(found["output"].reshape(3, 5), model(x).numpy(), 1e-5, 1e-7)


def of_all_kinds(x: lt.Tensor, at: lt.Tensor, options: dict[str, Any]) -> dict[str, Any]:
    """Element types, an input and an output given twice, sorting, positions, constants."""
    table = lt.tensor(np.arange(12.0).reshape(4, 3), dtype=lt.float32)
    ordered = x.sort(1)
    return {"sum": x.sum() * options["by"], "same": x, "twice": x.sum() * options["by"],
            "rows": table[at], "sorted": ordered.values, "order": ordered.indices,
            "half": x.half() * 3, "brain": x.bfloat16() @ x.bfloat16().T, "small": x.to(
                lt.float8_e5m2), "positive": x > 0.5, "rest": x % 0.3, "wide": x.double().exp(),
            "integers": (x * 1000).int() // 7, "bytes": (x * 100).to(lt.uint8),
            "negative": lt.full((2,), -2**63, dtype=lt.int64), "nothing": x[:, :0],
            "special": lt.tensor([float("inf"), -float("inf"), float("nan"), 1e-42]),
            "columns": x.T}


@pytest.mark.few(1)
@pytest.mark.parametrize("way", WAYS)
def test_results_of_all_kinds(way: str, tmp_path: Path) -> None:
    x, at = lt.rand(4, 6), lt.tensor([3, 0, -4, 1, 1])
    names = list(of_all_kinds(x, at, {"by": 0.1}))
    made = lt.export(of_all_kinds, (x, at, {"by": 0.1}), tmp_path / f"kinds{way}",
                     output_names=[f"{n}_of_x" for n in names])
    found = call(made, x=x.numpy(), at=at.numpy())
    for array, (name, value) in zip(made.outputs, of_all_kinds(x, at, {"by": 0.1}).items(),
                                    strict=True):
        assert array.dtype is value.dtype and array.shape == tuple(value.shape), name
        np.testing.assert_allclose(decoded(found, array), value.double().numpy(), 1e-5, 1e-6,
                                   err_msg=name)


@pytest.mark.parametrize("way", WAYS)
def test_weights_and_states_have_their_values_in_all_types(way: str, tmp_path: Path) -> None:
    kinds = [lt.float16, lt.bfloat16, lt.float64, lt.float8_e4m3fn, lt.int8, lt.uint64, lt.bool_]
    values = lt.tensor([1.5, -0.25, 100.0, 0.0])
    weights = [values.abs().to(kind).realize() for kind in kinds]
    state = (values * 2).half().realize()

    def give(x: lt.Tensor) -> list[lt.Tensor]:
        state.mul_(x)
        return [(w.float() + x).double() for w in weights]
    made = lt.export(give, lt.zeros(1), tmp_path / f"give{way}")
    program, memory = Loaded(made), memory_for(made, {"x": np.array([3], np.float32)})
    program.initialize(memory)
    assert program.run(memory) == 0
    for array, weight in zip(made.outputs, weights, strict=True):
        np.testing.assert_array_equal(memory[array.name], weight.double().numpy() + 3)
    assert memory["state"][:8].view(np.float16).tolist() == [9, -1.5, 600, 0]


@pytest.mark.parametrize("way", WAYS)
def test_an_index_outside_ends_the_program_with_its_number(way: str, tmp_path: Path) -> None:
    seen = lt.zeros(4)

    def look(at: lt.Tensor, label: lt.Tensor) -> lt.Tensor:
        seen.add_(1)
        return seen[at] + F.nll_loss(lt.zeros(2, 5), label)
    made = lt.export(look, (lt.tensor([1, 2]), lt.tensor([0, 4])), tmp_path / f"look{way}")
    program, text = Loaded(made), made.files[1].read_text()
    memory = memory_for(made, {"at": np.array([1, -4]), "label": np.array([0, 4])})
    assert [a.name for a in made.states] == ["seen"]
    assert program.run(memory) == 0 and memory["output"].tolist() == [1, 1]
    statuses = set()
    for at, label in (([1, 4], [0, 4]), ([1, 0], [5, 0])):
        before = memory["state"].copy()
        memory["at"][:], memory["label"][:] = at, label
        status = program.run(memory)
        statuses.add(status)
        assert f"{status}: " in text and (memory["state"] == before).all()
    assert statuses == {1, 2} and not seen.any()


@pytest.mark.parametrize("way", WAYS)
def test_a_state_whose_new_value_is_an_index_changes_once_that_is_looked_at(
        way: str, tmp_path: Path) -> None:
    at, table = lt.tensor([0, 0]), lt.tensor([3.0, 5.0, 7.0, 9.0])

    def look(by: lt.Tensor) -> lt.Tensor:
        at.add_(by)
        return table[at.clone()]
    made = lt.export(look, lt.tensor([1, 2]), tmp_path / f"look{way}")
    program, memory = Loaded(made), memory_for(made, {"by": np.array([1, 2])})
    program.initialize(memory)
    for by, status, places, rows in (([1, 2], 0, [1, 2], [5, 7]), ([2, 2], 1, [1, 2], None),
                                     ([1, 0], 0, [2, 2], [7, 7])):
        memory["by"][:] = by
        assert program.run(memory) == status
        assert memory["state"].view(np.int64)[:2].tolist() == places
        assert rows is None or memory["output"].tolist() == rows


@pytest.mark.parametrize("way", WAYS)
def test_arguments_and_closed_over_tensors_may_change_in_place(way: str, tmp_path: Path) -> None:
    """Each gets what the others had before, and nothing changes in Python."""
    first, second = lt.tensor([1.0, 2.0]), lt.tensor([3.0, 4.0])

    def rotate(x: lt.Tensor) -> lt.Tensor:
        old = x.clone()
        x.copy_(first)
        first.copy_(second)
        second.copy_(old)
        return old * 2
    made = lt.export(rotate, lt.zeros(2), tmp_path / f"rotate{way}")
    assert first.tolist() == [1, 2] and second.tolist() == [3, 4]
    program, memory = Loaded(made), memory_for(made, {"x": np.array([5.0, 6.0])})
    program.initialize(memory)
    for number in range(4):
        x = lt.tensor(memory["x"].copy())
        assert program.run(memory) == 0
        assert memory["output"].tolist() == rotate(x).tolist()
        state = {a.name: memory["state"].view(np.float32)[16 * i:16 * i + 2].tolist()
                 for i, a in enumerate(made.states)}
        assert memory["x"].tolist() == x.tolist(), number
        assert state == {"first": first.tolist(), "second": second.tolist()}


OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "SGD": lambda p: optim.SGD(p, 0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "SGD, dampened": lambda p: optim.SGD(p, 0.1, momentum=0.9, dampening=0.5),
    "Adam": lambda p: optim.Adam(p, 0.01, amsgrad=True), "AdamW": lambda p: optim.AdamW(p, 0.01),
    "NAdam": lambda p: optim.NAdam(p, 0.01), "RAdam": lambda p: optim.RAdam(p, 0.01),
    "Adamax": lambda p: optim.Adamax(p, 0.01), "Adagrad": lambda p: optim.Adagrad(p, 0.1, 0.1),
    "RMSprop": lambda p: optim.RMSprop(p, 0.01, centered=True),
    "Adadelta": lambda p: optim.Adadelta(p), "Rprop": lambda p: optim.Rprop(p),
    "ASGD": lambda p: optim.ASGD(p, 0.1, t0=1.0)}


def training(make: Callable[[Any], Any]) -> tuple[Any, Any, list[tuple[lt.Tensor, lt.Tensor]]]:
    """A step with an optimizer, the optimizer, and batches."""
    lt.manual_seed(1)
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 3))
    optimizer = make(model.parameters())
    batches = [(lt.rand(4, 6), lt.randint(0, 3, (4,))) for _ in range(4)]

    def step(x: lt.Tensor, label: lt.Tensor) -> lt.Tensor:
        loss = F.cross_entropy(model(x), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss
    return step, optimizer, batches


def check_losses(name: str, path: Path, steps_before: int = 0) -> None:
    """A program's losses are those of Python, which goes on as if there was none."""
    step, optimizer, batches = training(OPTIMIZERS[name])
    for x, label in batches[:steps_before]:
        step(x, label)
    before = str(optimizer.state_dict())
    made = lt.export(step, batches[0], path, output_names=["loss"])
    assert str(optimizer.state_dict()) == before
    program = Loaded(made)
    memory = memory_for(made, {"x": batches[0][0].numpy(), "label": batches[0][1].numpy()})
    program.initialize(memory)
    for x, label in batches:
        memory["x"][:], memory["label"][:] = x.numpy().ravel(), label.numpy()
        assert program.run(memory) == 0
        assert memory["loss"][0] == pytest.approx(step(x, label).item(), 2e-5)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_training_step_has_the_losses_of_python(name: str, tmp_path: Path) -> None:
    check_losses(name, tmp_path / "step.o")


def test_a_step_changes_parameters_where_they_are(tmp_path: Path) -> None:
    """In machine code most of them are not copied, as labels are looked at early."""
    step, _, batches = training(OPTIMIZERS["Adam"])
    program = planned(traced(step, batches[0], "step", None, None), target_of("x86-64-v3"),
                      lambda dtype: None)
    assert program.checked < len(program.calls) / 2
    assert sum(copy.nbytes for copy in program.copies) < program.state_bytes / 2


@pytest.mark.slow
def test_recurrent_layers_learn_and_keep_their_state(tmp_path: Path) -> None:
    """Steps of a scan stay in order, and labels are looked at before anything changes."""
    lt.manual_seed(2)
    layer, head, hidden = nn.GRU(5, 6), nn.Linear(6, 3), lt.zeros(1, 4, 6)
    optimizer = optim.Adam([*layer.parameters(), *head.parameters()], 0.01)

    def step(x: lt.Tensor, label: lt.Tensor) -> lt.Tensor:
        outputs, last = layer(x, hidden)
        hidden.copy_(last.detach())
        loss = F.cross_entropy(head(outputs[-1]), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss
    x, label = lt.rand(7, 4, 5), lt.tensor([0, 2, 1, 0])
    made = lt.export(step, (x, label), tmp_path / "step.o", output_names=["loss"])
    program, memory = Loaded(made), memory_for(made, {"x": x.numpy(), "label": label.numpy()})
    program.initialize(memory)
    for n in range(3):
        assert program.run(memory) == 0
        assert memory["loss"][0] == pytest.approx(step(x, label).item(), 2e-5), n
    before = memory["state"].copy()
    memory["label"][2] = 3
    assert program.run(memory) == 1 and (memory["state"] == before).all()


@pytest.mark.few(1)
@pytest.mark.parametrize("way", [AS_C, AS_WASM])
def test_a_step_goes_on_where_python_is(way: str, tmp_path: Path) -> None:
    check_losses("Adam", tmp_path / f"step{way}", steps_before=2)


def test_a_learning_rate_that_is_a_tensor_is_a_part_of_the_state(tmp_path: Path) -> None:
    rate = lt.tensor(0.1)
    step, _, batches = training(lambda p: optim.Adam(p, rate, capturable=True))
    made = lt.export(step, batches[0], tmp_path / "step.o")
    names = [a.name for a in made.states]
    memory = memory_for(made, {"x": batches[0][0].numpy(), "label": batches[0][1].numpy()})
    program, place = Loaded(made), sum(-(-a.nbytes // 64) * 16 for a in
                                       made.states[:names.index("lr")])
    program.initialize(memory)
    for n, (x, label) in enumerate(batches):
        memory["state"].view(np.float32)[place] = 0.1 / (1 + n)
        rate.fill_(0.1 / (1 + n))
        memory["x"][:], memory["label"][:] = x.numpy().ravel(), label.numpy()
        assert program.run(memory) == 0
        assert memory["output"][0] == pytest.approx(step(x, label).item(), 2e-5)


def test_c_source_does_not_say_that_long_has_64_bits(tmp_path: Path) -> None:
    made = lt.export(lambda x: (x * 2**40 + 0.5).long() // 3, lt.zeros(3), tmp_path / "f.c")
    text = made.files[0].read_text()
    assert re.search(r"\dull\b", text) and not re.search(r"\dul\b", text)
    assert "#if LONG_MAX == INT32_MAX\n#define long long long" in text


@pytest.mark.slow
@needs_cc
def test_a_step_from_c_takes_another_learning_rate_and_weights_by_name(tmp_path: Path) -> None:
    step, optimizer, batches = training(OPTIMIZERS["Adam"])
    made = lt.export(step, batches[0], tmp_path / "step.c")
    (tmp_path / "main.c").write_text("""
#include <stdio.h>
#include "step.h"
static struct step_state state;
int main(void) {
  float x[STEP_X_SIZE], loss;
  int64_t label[STEP_LABEL_SIZE] = {0, 1, 2, 0};
  for (int i = 0; i < STEP_X_SIZE; ++i) x[i] = i % 5;
  step_initialize(&state);
  for (int n = 0; n < 3; ++n) {
    state.lr[0] = 0.1f / (1 + n);
    int status = step(x, label, &loss, &state);
    printf("%d %.6f %.6f %g\\n", status, loss, state.model_0_weight[0],
           state.model_0_weight_step[0]);
  }
}
""")
    subprocess.run(["cc", "-Wall", "-Werror", "-O2", "-o", "main", "main.c", "step.c", "-lm"],
                   cwd=tmp_path, check=True)
    lines = subprocess.run([tmp_path / "main"], capture_output=True, text=True,
                           check=True).stdout.splitlines()
    x = lt.tensor(np.arange(24.0).reshape(4, 6) % 5, dtype=lt.float32)
    assert len(made.states) == 6 * 5 + 3 + 1
    for n, line in enumerate(lines):
        optimizer.param_groups[0]["lr"] = 0.1 / (1 + n)
        loss = step(x, lt.tensor([0, 1, 2, 0])).item()
        weight = optimizer.param_groups[0]["params"][0].flatten()[0].item()
        assert [float(word) for word in line.split()] == pytest.approx(
            [0, loss, weight, n + 1], abs=2e-5)
    assert len(lines) == 3


@pytest.mark.parametrize("way", WAYS)
def test_weights_beside_and_memory_of_the_callers(way: str, tmp_path: Path) -> None:
    model, x = network().train(), lt.rand(3, 2, 8, 8)
    model[4].eval()
    made = lt.export(model, x, tmp_path / f"net{way}", weights="beside", workspace="caller")
    assert [p.name for p in made.files[2:]] == ["net.weights.bin", "net.state.bin"]
    assert [a.name for a in made.states] == ["_1_num_batches_tracked", "_1_running_mean",
                                            "_1_running_var"]
    assert made.files[2].stat().st_size == made.weights_bytes
    program, memory = Loaded(made, workspace=True), memory_for(made, {"input": x.numpy()})
    for _ in range(2):
        assert program.run(memory) == 0
        np.testing.assert_allclose(memory["output"].reshape(3, 5), model(x).numpy(), 1e-4, 1e-6)
    assert memory["state"].view(np.int64)[0] == model[1].num_batches_tracked.item() == 2


@pytest.mark.slow
@examples(8)
@example(90, 300, 250)  # packs an operand
@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 40))
def test_products_of_any_shape(m: int, k: int, n: int) -> None:
    lt.manual_seed(m)
    a, b = lt.rand(m, k), lt.rand(k, n)
    with tempfile.TemporaryDirectory() as folder:
        made = lt.export(lambda a, b: (a @ b) @ b.T, (a, b), Path(folder, "f.o"))
        found = call(made, a=a.numpy(), b=b.numpy())
    expected = a.numpy().astype(float) @ b.numpy() @ b.numpy().T
    np.testing.assert_allclose(found["output"].reshape(m, k), expected, 1e-4)


@pytest.mark.few(2)
@pytest.mark.parametrize("target", CROSS)
def test_object_files_for_other_processors(target: str, tmp_path: Path) -> None:
    step, _, batches = training(OPTIMIZERS["SGD"])
    made = lt.export(step, batches[0], tmp_path / "step.o", target)
    content = made.files[0].read_bytes()
    assert content[:4] == b"\x7fELF"
    assert int.from_bytes(content[18:20], "little") == CROSS[target]


@needs_cc
def test_a_shared_library_for_this_processor(tmp_path: Path) -> None:
    made = lt.export(lambda x: x.exp(), lt.zeros(3), tmp_path / "f.so")
    x, out = np.array([0, 1, 2], np.float32), np.zeros(3, np.float32)
    function = ctypes.CDLL(str(made.files[0])).f
    assert function(*(a.ctypes.data_as(ctypes.c_void_p) for a in (x, out))) == 0
    np.testing.assert_allclose(out, np.exp(x), 1e-6)


def test_the_header_and_the_source_of_a_small_program(golden: Golden, tmp_path: Path) -> None:
    weight = nn.Parameter(lt.tensor([[0.5, -1.5], [float("nan"), 2.0]]))
    counts = lt.zeros(2, dtype=lt.int64)

    def scaled(x: lt.Tensor, at: lt.Tensor) -> tuple[lt.Tensor, lt.Tensor]:
        counts[at] += 1
        return x @ weight, counts
    made = lt.export(scaled, (lt.zeros(3, 2), lt.tensor([0])), tmp_path / "scaled.c",
                     output_names=["product", "counted"])
    header, source = made.files[1].read_text(), made.files[0].read_text()
    function = source[source.index("\nint scaled("):]
    assert f"{header}{function}" == golden


@needs_cc
def test_the_header_is_c_and_cpp_and_programs_link_together(tmp_path: Path) -> None:
    for name in ("one", "two"):
        lt.export(lambda x: x.exp() + 1, lt.zeros(3), tmp_path / f"{name}.c")
    lt.export(lambda x: x.exp() + 1, lt.zeros(3), tmp_path / "three.o")
    (tmp_path / "main.c").write_text("""
#include "one.h"
#include "two.h"
#include "three.h"
int main(void) {
  float x[ONE_X_SIZE] = {0}, a[3], b[3], c[3];
  return one(x, a) | two(x, b) | three(x, c) | !(a[0] == 2 && b[1] == 2 && c[2] == 2);
}
""")
    files = ["main.c", "one.c", "two.c", "three.o"]
    subprocess.run(["cc", "-funsigned-char", "-ffp-contract=fast", "-o", "main", *files, "-lm"],
                   cwd=tmp_path, check=True)
    subprocess.run([tmp_path / "main"], check=True)
    if shutil.which("c++"):
        subprocess.run(["c++", "-fsyntax-only", "-x", "c++", "one.h"], cwd=tmp_path, check=True)
    refused = subprocess.run(["cc", "-ffast-math", "-c", "one.c"], cwd=tmp_path, check=False,
                             capture_output=True, text=True)
    assert refused.returncode and "compile without -ffast-math" in refused.stderr
