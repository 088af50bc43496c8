"""Speed on an NVIDIA GPU beside PyTorch on the same one: `python -m benchmarks.gpu`.

Each row says what was achieved, in TFLOP/s or TB/s, and its share of what gpu_ceilings.py measures
in the same run. Rounds alternate between the two; the figure is the best of all rounds. A row that
a library cannot run says so. `--device cpu --rounds 1 --largest 64` tries the rows without a GPU:
the figures are then without shares, and of no use.
"""
from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks import lenet, models
from benchmarks.cases import LENET_FLOPS
from benchmarks.frameworks import Framework, load, usable_cores

SIZES = (512, 1024, 2048, 4096, 8192)
ELEMENTS = 1 << 26
HEADS = (8, 16, 2048, 64)  # batch, heads, length and width of attention
BATCH = 128
TURN_S = 0.1

Run = Callable[[], Any]


@dataclass(frozen=True)
class GpuCase:
    """A row. prepare: for a library (torch or lazyten) and its Framework, a function that runs it.

    work: FLOP or bytes of a call, as `unit` says. ceiling: which of `ceilings` limits it.
    """

    name: str
    prepare: Callable[[Any, Framework], Run]
    work: float
    unit: str
    ceiling: str


def products(sizes: Sequence[int]) -> Iterator[GpuCase]:
    """Square matrices; tf32 is float32 that may be rounded to 10 bits of mantissa."""
    for kind, dtype in (("fp32", "float32"), ("tf32", "float32"), ("fp16", "float16"),
                        ("bf16", "bfloat16")):
        for n in sizes:
            yield GpuCase(f"GEMM {kind} {n}", partial(product, n, dtype, kind == "tf32"),
                          2.0 * n ** 3, "FLOP", kind)


def product(n: int, dtype: str, rounded: bool, library: Any, f: Framework) -> Run:
    """The product of two random matrices."""
    if hasattr(library, "set_float32_matmul_precision"):
        library.set_float32_matmul_precision("high" if rounded else "highest")
    elif rounded:
        raise NotImplementedError("no tf32")
    a, b = (matrix(f, n, n, seed).to(getattr(library, dtype)) for seed in range(2))
    return partial(f.compile(lambda a, b: a @ b), a, b)


def matrix(f: Framework, rows: int, columns: int, seed: int = 0) -> Any:
    """Random numbers, on the default device."""
    values = np.random.default_rng(seed).standard_normal((rows, columns), dtype=np.float32)
    return f.array(values)


def streams(elements: int) -> Iterator[GpuCase]:
    """What memory limits: reads and writes counted once."""
    rows, columns = max(elements // 4096, 1), min(elements, 4096)
    size = 4.0 * rows * columns

    def of(name: str, fn: Callable[[Framework, Any], Any], arrays: float) -> GpuCase:
        def prepare(library: Any, f: Framework) -> Run:
            x = matrix(f, rows, columns)
            return partial(f.compile(lambda x: fn(f, x)), x)
        return GpuCase(f"{name} {rows}x{columns}", prepare, arrays * size, "B", "copy")
    yield of("x * 2 + 1", lambda f, x: x * 2 + 1, 2)
    yield of("exp(x) * tanh(x)", lambda f, x: x.exp() * x.tanh(), 2)
    yield of("sum", lambda f, x: x.sum(), 1)
    yield of("sum of rows", lambda f, x: x.sum(1), 1)
    yield of("sum of columns", lambda f, x: x.sum(0), 1)
    yield of("softmax", lambda f, x: f.softmax(x), 2)
    yield of("layer norm", lambda f, x: f.layer_norm(x, x[0], x[0]), 2)


def attention(heads: Sequence[int]) -> Iterator[GpuCase]:
    """Scaled dot-product attention, forwards."""
    batch, count, length, width = heads
    work = 4.0 * batch * count * length * length * width
    for kind, dtype in (("fp32", "float32"), ("fp16", "float16")):
        def prepare(library: Any, f: Framework, dtype: str = dtype) -> Run:
            q, k, v = (matrix(f, batch * count * length, width, seed).reshape(*heads)
                       .to(getattr(library, dtype)) for seed in range(3))
            attend = library.nn.functional.scaled_dot_product_attention
            return partial(f.compile(attend), q, k, v)
        yield GpuCase(f"attention {kind} {'x'.join(map(str, heads))}", prepare, work, "FLOP", kind)


def training(batch: int) -> Iterator[GpuCase]:
    """Steps of LeNet and of a small GPT; the work of a GPT's step is that of its parameters."""
    yield GpuCase(f"LeNet step, batch {batch}",
                  lambda library, f: lenet.training_step(f, batch), LENET_FLOPS * batch, "FLOP",
                  "fp32")
    parameters = sum(math.prod(s) for s in models.gpt_shapes().values())
    yield GpuCase("GPT step", lambda library, f: models.training_step(f, "gpt"),
                  6.0 * parameters * models.SEQUENCES * models.LENGTH, "FLOP", "fp32")


def cases(largest: int) -> list[GpuCase]:
    """All rows, as far as sizes go up to `largest`."""
    sizes = [n for n in SIZES if n <= largest] or [largest]
    small = largest < SIZES[0]
    return [*products(sizes), *streams(largest * largest if small else ELEMENTS),
            *attention((1, 2, largest, 16) if small else HEADS), *training(4 if small else BATCH)]


def seconds_of(run: Run, wait: Callable[[], object], turn_s: float) -> float:
    """Seconds of one call, the mean of as many as fill a turn."""
    calls, spent = 1, 0.0
    while True:
        start = time.perf_counter()
        for _ in range(calls):
            result = run()
        wait_for(result, wait)
        spent = time.perf_counter() - start
        if spent >= turn_s or calls >= 10_000:
            return spent / calls
        calls = min(10_000, max(calls * 2, int(calls * turn_s / max(spent, 1e-6))))


def wait_for(result: Any, wait: Callable[[], object]) -> None:
    """Return when a result is computed."""
    if hasattr(result, "realize"):
        result.realize()
    wait()


def libraries(device: str) -> dict[str, tuple[Any, Framework, Callable[[], object]]]:
    """What is compared: the module, its Framework, and what waits for its device."""
    import lazyten as lt
    from lazyten.storage.device import executor
    from lazyten.storage.placement import canonical

    found: dict[str, tuple[Any, Framework, Callable[[], object]]] = {
        "lazyten": (lt, load("lazyten", usable_cores()), executor(canonical(device)).synchronize)}
    try:
        torch = import_module("torch")
    except ImportError:
        return found
    framework, wait = load("torch", usable_cores()), lambda: None
    if device.startswith("cuda"):
        if not torch.cuda.is_available():
            return found
        torch.set_default_device(device)
        framework = replace(framework, array=lambda x: torch.tensor(x))
        wait = torch.cuda.synchronize
    found["torch"] = torch, framework, wait
    return found


def measure(case: GpuCase, compared: Mapping[str, tuple[Any, Framework, Callable[[], object]]],
            rounds: int, turn_s: float = TURN_S) -> dict[str, float | str]:
    """The best seconds of a call in each library, or what went wrong."""
    runs: dict[str, Run] = {}
    found: dict[str, float | str] = {}
    for name, (library, framework, wait) in compared.items():
        try:
            runs[name] = case.prepare(library, framework)
            wait_for(runs[name](), wait)
        except Exception as error:  # a row says what went wrong, and the others go on
            runs.pop(name, None)
            found[name] = str(error).splitlines()[0] if str(error) else type(error).__name__
    for _ in range(rounds):
        for name, run in runs.items():
            seconds = seconds_of(run, compared[name][2], turn_s)
            before = found.get(name, math.inf)
            found[name] = min(seconds, before) if isinstance(before, float) else seconds
    return found


def cell(case: GpuCase, result: float | str, limits: Mapping[str, float]) -> str:
    """`12.3 TFLOP/s  45%`"""
    if isinstance(result, str):
        return result[:40]
    rate = case.work / result
    limit = limits.get(case.ceiling)
    share = f" {rate / limit:>5.0%}" if limit else ""
    return f"{rate / 1e12:.3f} T{case.unit}/s{share}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--largest", type=int, default=SIZES[-1])
    parser.add_argument("--only", default="", help="rows with this in their name")
    options = parser.parse_args()
    os.environ["DEVICE"] = options.device
    compared = libraries(options.device)
    limits: dict[str, float] = {}
    if options.device.startswith("cuda"):
        from benchmarks.gpu_ceilings import ceilings
        limits = ceilings(int(options.device.partition(":")[2] or 0))
        print("measured ceilings: " + ", ".join(
            f"{name} {rate / 1e12:.2f} T{'B' if name == 'copy' else 'FLOP'}/s"
            for name, rate in limits.items()))
    print(f"{'row':<34}" + "".join(f"{name:<32}" for name in compared))
    for case in cases(options.largest):
        if options.only in case.name:
            found = measure(case, compared, options.rounds)
            print(f"{case.name:<34}" + "".join(
                f"{cell(case, found[name], limits):<32}" for name in compared), flush=True)


if __name__ == "__main__":
    main()
