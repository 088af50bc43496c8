"""Several processes and threads that share a cache on disk."""
from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from lazyten.support.disk_cache import DiskCache


def environment(folder: Path, **more: str) -> dict[str, str]:
    return os.environ | {"LAZYTEN_CACHE": str(folder), "DEVICE": "cpu"} | more


PROGRAM = '''
import lazyten as lt
from lazyten.codegen import pipeline
from lazyten.runtimes import code_cache
code_cache.IMPORTED += 60
made, generate = [], pipeline.generate
pipeline.generate = lambda kernel, target: made.append(kernel) or generate(kernel, target)
x = lt.arange(12).reshape(3, 4).float()
print(((x @ x.T).softmax(1) + 1).sum().item(), x.relu().sum().item())
print(len(made), "generated")
'''


def python(folder: Path, program: str, **more: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], env=environment(folder, **more),
                          capture_output=True, text=True)
    assert done.stderr == ""
    return done.stdout


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    cold, warm = (python(tmp_path, PROGRAM).splitlines() for _ in range(2))
    assert cold[0] == warm[0]
    assert int(cold[1].split()[0]) > 1
    assert warm[1] == "0 generated"


def test_a_second_process_loads_no_code_generator_and_makes_no_machine_code(
        tmp_path: Path) -> None:
    program = """
import sys
import llvmlite.binding as llvm
from lazyten.runtimes import code_cache
code_cache.IMPORTED += 60
made, emit = [], llvm.TargetMachine.emit_object
llvm.TargetMachine.emit_object = lambda self, module: made.append(module) or emit(self, module)
import lazyten as lt
x = lt.arange(512 * 512).reshape(512, 512).float()
f = lt.jit(lambda x: (x @ x).sum())
f(x).item(), f(x).item()
print(len(made), "lazyten.codegen.pipeline" in sys.modules)
"""
    cold, warm = (python(tmp_path, program).split() for _ in range(2))
    assert int(cold[0]) > 2 and cold[1] == "True"
    assert warm == ["0", "False"]


@pytest.mark.slow
def test_debug_prints_the_same_text_cold_and_warm(tmp_path: Path) -> None:
    program = "from lazyten.runtimes import code_cache; code_cache.IMPORTED += 60\n" \
              "import lazyten as lt; (lt.arange(10).float() * 2).sum().item()"
    cold, warm = (python(tmp_path, program, DEBUG="3") for _ in range(2))

    def untimed(text: str) -> list[str]:
        text = re.sub(r"^passes: .*\n(?:  .*\n)*", "", text, flags=re.MULTILINE)
        return [line for line in text.splitlines()
                if " us " not in line and "made in" not in line and "GFLOP" not in line
                and not line.startswith(("reduce_", "map_"))]
    assert "define void" in cold
    assert untimed(cold) == untimed(warm)
    assert python(tmp_path, "from lazyten.__main__ import main; main(['cache'])").split()[2] != "0"


HAMMER = '''
import random, sys
from collections.abc import Sequence
from pathlib import Path
from lazyten.support.disk_cache import DiskCache
seed, folder = int(sys.argv[1]), Path(sys.argv[2])
random.seed(seed)
hits = 0
for _ in range(400):
    cache, number = DiskCache(folder, limit=60_000), random.randrange(40)
    parts = [str(number).encode() * 1000, bytes(number)]
    found = cache.get(str(number))
    assert found in (None, parts), number
    hits += found is not None
    cache.put(str(number), parts)
print(hits)
'''


@pytest.mark.slow
def test_processes_that_share_a_folder_see_whole_entries(tmp_path: Path) -> None:
    processes = [subprocess.Popen([sys.executable, "-c", HAMMER, str(seed), str(tmp_path)],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                 for seed in range(2)]
    for process in processes:
        out, err = process.communicate(timeout=120)
        assert (process.returncode, err) == (0, "")
        assert int(out) > 0
    assert not list(tmp_path.glob("*.unfinished"))


@pytest.mark.slow
def test_threads_that_share_a_cache_see_whole_entries(tmp_path: Path) -> None:
    shared = DiskCache(tmp_path, limit=30_000)
    wrong: list[int] = []

    def work() -> None:
        for i in range(200):
            parts = [str(i % 20).encode() * 1000]
            if shared.get(str(i % 20)) not in (None, parts):
                wrong.append(i)
            shared.put(str(i % 20), parts)
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert shared.writable
