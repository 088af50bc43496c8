"""`python -m lazyten run`: scripts written for PyTorch, unchanged."""
from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import lazyten as lt
from lazyten.run import found, missing_names

SCRIPT = """
import argparse, sys
import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.nn import Linear
from torch.optim.lr_scheduler import StepLR
from helper import double

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int)
steps = parser.parse_args().steps

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = Linear(2, 1)

    def forward(self, x):
        return F.relu(self.layer(x))

net = Net()
optimizer = optim.SGD(net.parameters(), lr=0.1)
scheduler = StepLR(optimizer, 1)
for _ in range(steps):
    optimizer.zero_grad()
    net(double(torch.ones(3, 2))).sum().backward()
    optimizer.step()
    scheduler.step()
print(scheduler.get_last_lr()[0] < 0.1, isinstance(net.layer, torch.nn.Linear), __name__)
print(torch.__version__.split("+")[1], torch.__version__ > "2.2")
print(torch.optim.__name__, sys.argv[1:])
"""
ENDING = """
if steps > 9:
    torch.nowhere.mm(net, net)
torch.compiled_with_cxx11_abi()
"""
HELPER = "import torch\ndef double(x): return torch.add(x, x)\n"


def run(folder: Path, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "helper.py").write_text(HELPER)
    (folder / "script.py").write_text(script)
    return subprocess.run([sys.executable, "-m", "lazyten", "run", str(folder / "script.py"),
                           *arguments], capture_output=True, text=True)


def test_a_script_runs_with_its_arguments_and_its_neighbours(tmp_path: Path) -> None:
    done = run(tmp_path, SCRIPT, "--steps", "2")
    assert done.stderr == "" and done.returncode == 0
    assert done.stdout == "True True __main__\nlazyten True\ntorch.optim ['--steps', '2']\n"


FUNCTORCH = """
import functorch, torch
from functorch import combine_state_for_ensemble, make_functional, make_functional_with_buffers

layer = torch.nn.Linear(2, 1)
f, params = make_functional(layer)
grads = functorch.grad(lambda p: f(p, torch.ones(2)).sum())(params)
print([x.tolist() for x in grads], params[0] is layer.weight)
net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
f, params, buffers = make_functional_with_buffers(net, disable_autograd_tracking=True)
print(f(params, buffers, torch.zeros(2, 2)).tolist(), params[0].requires_grad, len(buffers))
f, params, buffers = combine_state_for_ensemble([torch.nn.Linear(2, 1) for _ in range(3)])
print(tuple(functorch.vmap(f, (0, 0, None))(params, buffers, torch.ones(4, 2)).shape))
try:
    make_functional(net)
except RuntimeError as error:
    print(error)
"""


def test_functorch_is_there_as_it_was_before_torch_func(tmp_path: Path) -> None:
    done = run(tmp_path, FUNCTORCH)
    assert done.stdout.splitlines() == [
        "[[[1.0, 1.0]], [1.0]] False", "[[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]] False 3", "(3, 4, 1)",
        "make_functional: the module has buffers; use make_functional_with_buffers"], done.stderr


def test_a_module_runs_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text("import sys\nimport torch\n"
                                        "print(torch.__version__, sys.argv[1:], __name__)\n")
    done = subprocess.run([sys.executable, "-m", "lazyten", "run", "-m", "module", "-q", "x"],
                          capture_output=True, text=True, cwd=tmp_path)
    assert done.stderr == "" and done.stdout == "2.13.0+lazyten ['-q', 'x'] __main__\n"


def test_tensors_say_that_they_are_pytorchs(tmp_path: Path) -> None:
    done = run(tmp_path, "import copy\nimport pickle\nimport torch\nx = torch.ones(2)\n"
               "print(type(x).__module__)\n"
               "print(torch.float32, torch.bool, copy.deepcopy(torch.bool) is torch.bool)\n"
               "print(pickle.loads(pickle.dumps([torch.float64, torch.bool])))\n"
               "print(torch.nn.Parameter, type(x + x) is torch.Tensor)\n"
               "try:\n    x + object()\nexcept TypeError:\n    print(type(x * 2).__module__)\n"
               "print(torch.overrides.has_torch_function((x,)))")
    assert done.stderr == ""
    assert done.stdout == ("torch\ntorch.float32 torch.bool True\n[torch.float64, torch.bool]\n"
                           "<class 'torch.nn.parameter.Parameter'> True\ntorch\nFalse\n")


SPAWNING = """
import torch
import torch.multiprocessing as mp

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
        self.b.weight = self.a.weight

def child(net, queue):
    queue.put((torch.__version__, net.a.weight is net.b.weight, net.state_dict()))

if __name__ == "__main__":
    net = Net()
    context = mp.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=child, args=(net, queue))
    process.start()
    version, is_tied, state = queue.get()
    process.join()
    print(version, is_tied, torch.equal(state["a.weight"], net.a.weight), process.exitcode)
"""


def test_lazyten_stands_in_in_spawned_processes_too(tmp_path: Path) -> None:
    done = run(tmp_path, SPAWNING)
    assert done.stderr == "" and done.stdout == "2.13.0+lazyten True True 0\n"


def test_torch_itself_is_in_pickles_as_lazytens_module(tmp_path: Path) -> None:
    done = run(tmp_path, "import pickle\nimport torch\nfrom torch import nn\n"
               "print([m.__name__ for m in pickle.loads(pickle.dumps([torch, nn]))])")
    assert done.stderr == "" and done.stdout == "['lazyten', 'lazyten.nn']\n"


@pytest.mark.slow
def test_a_script_is_profiled_whatever_it_ends_with(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import torch\nx = torch.rand(9, 9)\n"
                                        "print(x.shape)\n(x @ x).tolist()\nraise OSError")
    done = subprocess.run([sys.executable, "-m", "lazyten", "run", "--profile",
                           str(tmp_path / "script.py")], capture_output=True, text=True)
    assert done.returncode == 1 and done.stdout == "torch.Size([9, 9])\n"
    assert "Python and copies" in done.stderr and "script.py:4" in done.stderr
    assert "(x @ x).tolist()" in done.stderr and "OSError" in done.stderr


def test_what_is_missing_is_listed_at_the_end(tmp_path: Path) -> None:
    done = run(tmp_path, SCRIPT + ENDING, "--steps", "2")
    assert done.returncode == 1 and done.stdout.count("\n") == 3
    before, _, listed = done.stderr.partition("lazyten lacks what this program uses:\n")
    assert "AttributeError: lazyten has no torch.compiled_with_cxx11_abi" in done.stderr
    line = SCRIPT.count("\n") + 3
    assert f"  torch.compiled_with_cxx11_abi  (script.py:{line + 1})\n" in done.stderr
    assert f"  torch.nowhere  (script.py:{line})\n" in done.stderr and (before or listed)


def test_an_import_of_what_is_missing_says_so(tmp_path: Path) -> None:
    done = run(tmp_path, "try:\n    import torch._lazy\nexcept ImportError as e:\n    print(e)")
    assert done.stdout == "lazyten has no torch._lazy\n" and "torch._lazy  (" in done.stderr


def test_what_is_refused_can_be_imported_and_says_why_when_it_is_used(tmp_path: Path) -> None:
    done = run(tmp_path, "import torch.nested\nfrom torch.autograd.function import Function\n"
               "try:\n    torch.nested.nested_tensor([])\nexcept NotImplementedError as e:\n"
               "    print(e)\ntry:\n    torch.chalf\nexcept AttributeError as e:\n    print(e)")
    assert done.stdout.startswith("nested.nested_tensor: sequences of different lengths")
    assert "lazyten has no torch.chalf: complex numbers of two 16-bit floats" in done.stdout


def test_a_jitted_step_may_mention_a_module_that_is_refused(tmp_path: Path) -> None:
    done = run(tmp_path, "import torch.nested\nimport lazyten\nlayer = torch.nn.Linear(2, 2)\n"
               "def step():\n    torch.nested.__name__\n    return layer(torch.ones(2, 2)).shape\n"
               "step = lazyten.jit(step)\nprint(step(), step())\n"
               "print(getattr(torch.nested, '__file__', None))")
    assert done.stdout == "torch.Size([2, 2]) torch.Size([2, 2])\nNone\n" and done.stderr == ""


def test_a_script_that_is_not_there(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "lazyten", "run", str(tmp_path / "no.py")],
                          capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.startswith("run: cannot read")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("source", "names"), [
    ("import torch\ntorch.nn.Linear(1, 2); torch.float32", {}),
    ("import torch as t\nt.nn.Nothing.at.all", {"torch.nn.Nothing": "f.py:2"}),
    ("from torch import nn as m, nowhere\nm.Linear\nnowhere", {"torch.nowhere": "f.py:3"}),
    ("import torch.nn.functional as F\nF.gone(1)\nx.F.gone",
     {"torch.nn.functional.gone": "f.py:2"}),
    ("import numpy as torch\ntorch.nowhere", {}),
    ("import torch\ntorch.Tensor.nowhere", {})])
def test_names_are_found_in_the_text(source: str, names: dict[str, str]) -> None:
    assert missing_names(source, "f.py") == names


def test_modules_below_modules_are_found() -> None:
    import lazyten
    assert found("torch.optim.lr_scheduler.StepLR") is lazyten.optim.lr_scheduler.StepLR
    assert found("torch") is lazyten and found("torch.nn.functional") is lazyten.nn.functional


WEIGHTS = """
import sys
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

path = sys.argv[1]
with torch.device("meta"):
    model = torch.nn.Linear(2, 3, dtype=torch.bfloat16)
save_file({"weight": torch.ones(3, 2).bfloat16(), "bias": torch.arange(3).bfloat16()}, path)
model.load_state_dict(load_file(path), assign=True)
print(model(torch.ones(2).bfloat16()).tolist(), model.weight.device)
with safe_open(path, framework="pt") as opened:
    print(opened.get_slice("bias")[1:].tolist(), opened.get_tensor("weight").dtype)
"""


def test_weights_are_loaded_into_a_model_without_memory(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    done = run(tmp_path, WEIGHTS, str(tmp_path / "weights.safetensors"))
    assert done.stdout == "[2.0, 3.0, 4.0] cpu\n[1.0, 2.0] torch.bfloat16\n", done.stderr


def test_what_a_program_prints_and_asks_of_modules_is_as_with_pytorch(tmp_path: Path) -> None:
    done = run(tmp_path, (
        "import torch, copy, pickle\n"
        "from torch.nn.utils.spectral_norm import spectral_norm\n"
        "from torch.nn.utils.weight_norm import weight_norm\n"
        "from torch.nn.modules.conv import LazyConv2d\n"
        "from torch.utils.data.dataloader import get_worker_info\n"
        "x = torch.ones(2, 3)\n"
        "print(x.shape, f'{x[0].size()}', torch.Size([]), x.type(), torch.LongTensor)\n"
        "print(torch.zeros(0, 3), torch.zeros(2, 0).bool())\n"
        "print(copy.deepcopy(x.shape), pickle.loads(pickle.dumps(x.shape)), torch.strided)\n"
        "print(spectral_norm is torch.nn.utils.spectral_norm, torch.sparse.torch is torch)\n"
        "print(torch.nn.utils.weight_norm(torch.nn.Linear(2, 3)).weight_g.shape)\n"
        "try:\n    torch.fft.wavelet\nexcept AttributeError as error:\n    print(error)\n"))
    assert done.stdout == (
        "torch.Size([2, 3]) torch.Size([3]) torch.Size([]) torch.FloatTensor torch.LongTensor\n"
        "tensor([], size=(0, 3)) tensor([], size=(2, 0), dtype=torch.bool)\n"
        "torch.Size([2, 3]) torch.Size([2, 3]) torch.strided\nTrue True\ntorch.Size([3, 1])\n"
        "lazyten has no torch.fft.wavelet\n")
    assert "torch.fft.wavelet" in done.stderr and str(lt.ones(2, 3).shape) == "(2, 3)"


def test_what_pytorchs_modules_import_is_found_in_them() -> None:
    for name, same in {"torch.nn.modules.conv.Module": "torch.nn.Module",
                       "torch.distributions.normal.broadcast_all":
                           "torch.distributions.utils.broadcast_all",
                       "torch.optim.adam.Optimizer": "torch.optim.Optimizer",
                       "torch.nn.modules.activation.xavier_uniform_":
                           "torch.nn.init.xavier_uniform_",
                       "torch.utils.data.dataloader.Dataset": "torch.utils.data.Dataset"}.items():
        assert found(name) is found(same), name
    assert found("torch.Module") is found("torch.nn.modules.conv.Nothing")
    assert found("torch.optim.optimizer.ParamsT") is not found("torch.Module")
