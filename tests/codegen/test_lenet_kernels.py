"""The kernels of LeNet's training step: which there are, how their loops run, and what they compute
in each."""
from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest
from golden_text import Golden

import lazyten as lt
from lazyten import nn, optim
from lazyten.codegen.pipeline import generate
from lazyten.codegen.targets.target import AVX2
from lazyten.execution.plans import plan
from lazyten.ir.kernel import Kernel
from lazyten.schedule.schedule import Schedule

BATCH = 32


def lenet() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))


@pytest.fixture(scope="module")
def step() -> Schedule:
    """What one training step computes, as it is scheduled."""
    made: list[Schedule] = []
    scheduling = plan.schedule

    def recorded(*args: object) -> Schedule:
        made.append(scheduling(*args))  # type: ignore[arg-type]
        return made[-1]

    lt.manual_seed(0)
    model = lenet()
    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    images = lt.tensor(np.zeros((BATCH, 1, 32, 32), np.float32))
    labels = lt.tensor(np.zeros(BATCH, np.int64))
    loss = nn.functional.cross_entropy(model(images), labels)
    loss.backward()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "schedule", recorded)
        optimizer.step()
    assert len(made) == 1, "a step is one schedule"
    return made[0]


def row(kernel: Kernel) -> str:
    """A kernel's signature, its decisions for AVX2, and its loops."""
    inputs = " ".join(f"{dtype.name}[{size}]" for dtype, size in kernel.inputs)
    outputs = " ".join(f"{o.dtype.name}{list(o.shape)}" for o in kernel.outputs)
    return f"{kernel.name}: {outputs} <- {inputs}\n{generate(kernel, AVX2).loops.rstrip()}\n"


def test_lenet_step_kernels(step: Schedule, golden: Golden) -> None:
    assert "\n".join(row(s.kernel) for s in step.steps) == golden


def test_lenet_step_memory_is_shared_by_lifetime(step: Schedule) -> None:
    alone = sum(step.arrays[a][0].itemsize * step.arrays[a][1] for a in step.blocks)
    assert sum(step.block_sizes) < 0.9 * alone
    places = {a: ("output", a) for a in step.outputs if a >= step.inputs}
    places |= {a: ("output", owner) for a, owner in step.aliases.items()}
    places |= {a: ("block", block) for a, block in step.blocks.items()}
    lives = [(min(at), max(at) if a not in step.outputs else len(step.steps), place)
             for a, place in places.items()
             if (at := [i for i, s in enumerate(step.steps) if a in s.args])]
    for i, (first, last, block) in enumerate(lives):
        for start, stop, other in lives[:i]:
            assert block != other or last < start or stop < first, "two live arrays in one block"


INSTRUCTION = re.compile(r"^  (?:%[\w.]+ = )?(?:call .*@(llvm[\w.]+)|(\w+))", re.MULTILINE)
LOOPS = re.compile(r"^(?:(loop)|done)\d+:$", re.MULTILINE)


def instructions(source: str) -> str:
    """How often each of LLVM's instructions is there, by the number of loops around it."""
    counts: dict[int, Counter[str]] = {}
    depth, start = 0, 0
    for label in (*LOOPS.finditer(source), None):
        found = INSTRUCTION.findall(source[start:label.start() if label else None])
        counts.setdefault(depth, Counter()).update(a or b for a, b in found)
        if label:
            depth, start = depth + (1 if label[1] else -1), label.end()
    return "".join(f"in {depth} loops: " + ", ".join(f"{n} {name}" for name, n in sorted(
        found.items())) + "\n" for depth, found in sorted(counts.items()))


def test_lenet_kernels_compute_nothing_twice(step: Schedule, golden: Golden) -> None:
    """Nor in a loop what does not depend on it; and they read vectors where they can."""
    kernels = {s.kernel.name: s.kernel for s in step.steps}
    assert "\n".join(f"{name}\n{instructions(generate(kernels[name], AVX2).source)}" for name in (
        "reduce_32_84_120", "reduce_32_6_28_28_5_5")) == golden
