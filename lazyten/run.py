"""`python -m lazyten run script.py`: a program written for PyTorch, with lazyten in its place.

`import torch`, and of anything below it, gives lazyten's module of that name. What lazyten does not
have is an AttributeError or ImportError where it is used, as always; and a list of all that the
script mentions comes at the end.
"""
from __future__ import annotations

import ast
import atexit
import os
import runpy
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import Distribution
from multiprocessing import spawn
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from lazyten.frontend.tensor import Tensor
from lazyten.ir.dtype import DType
from lazyten.linalg import results
from lazyten.nn.parameter import Parameter
from lazyten.pytorch.modules import IMPORTED
from lazyten.pytorch.names import reason
from lazyten.support.errors import ArgumentError
from lazyten.version import TorchVersion

PYTORCH = "2.13.0"
"""The version of PyTorch whose names and results are meant."""
_NAMED: dict[type, str] = {Tensor: "torch", Parameter: "torch.nn.parameter", DType: "torch",
                           **dict.fromkeys(map(results.__dict__.__getitem__, results.__all__),
                                           "torch.return_types")}
"""What these classes say their modules are: packages choose what to call by that of Tensor, and
read the name of an element type from its text."""
_ROOTS = {"torch": "lazyten", "functorch": "lazyten.functorch"}
"""The packages that lazyten stands in for."""
_PACKAGE = "in a package, "
_NOTHING = object()
_DEFINED = type | FunctionType
_ITS_OWN = ("__getattr__", "__dir__")
"""Functions of modules by which a stand-in has its own ways."""


def run(script: str, arguments: Sequence[str], profiled: bool = False,
        is_module: bool = False) -> None:
    """Run a script, or a module by its name, with these command-line arguments. ArgumentError if
    the script cannot be read; what it raises; at the end, whatever it is, the names that lazyten
    lacks go to stderr (but not those that an installed package looked for and did without), and
    where the time went if it is `profiled`. One of several processes that mpiexec or srun has
    started finds in the environment what torchrun would say (RANK, WORLD_SIZE, LOCAL_RANK)."""
    lacking = {} if is_module else missing_names(_source(script), script)
    missed, before, is_done = dict[str, str](), (sys.argv, sys.path.copy()), False
    folder = Path.cwd() if is_module else Path(script).resolve().parent
    sys.argv, sys.path[0:0] = [script, *arguments], [str(folder)]
    try:
        with standing_in(missed), _as_by_torchrun(), _profile() if profiled else nullcontext():
            if is_module:
                runpy.run_module(script, run_name="__main__", alter_sys=True)
            else:
                runpy.run_path(script, run_name="__main__")
            is_done = True
    finally:
        sys.argv, sys.path[:] = before
        report = lacking | {name: where for name, where in missed.items()
                            if not (is_done and where.startswith(_PACKAGE))}
        if report:
            print("lazyten lacks what this program uses:", file=sys.stderr)
            for name, where in sorted(report.items()):
                print(f"  {name}  ({where})", file=sys.stderr)


def _source(script: str) -> str:
    """The text of a script."""
    try:
        return Path(script).read_text("utf8")
    except (OSError, UnicodeDecodeError) as error:
        raise ArgumentError(f"run: cannot read {script}: {error}; give the path of a Python "
                            f"script") from error


@contextmanager
def _as_by_torchrun() -> Iterator[None]:
    """Within this block the environment says what torchrun would."""
    from lazyten.distributed.job import as_torchrun_says
    said = as_torchrun_says(os.environ)
    os.environ.update(said)
    try:
        yield
    finally:
        for name in said:
            os.environ.pop(name, None)


@contextmanager
def _profile() -> Iterator[None]:
    """Print to stderr what this block's time went to."""
    from lazyten.seeing.profile import profile
    profiled = profile()
    try:
        with profiled:
            yield
    finally:
        print(profiled.table(), file=sys.stderr)


@contextmanager
def standing_in(missed: dict[str, str]) -> Iterator[None]:
    """Within this block `import torch` gives lazyten. missed: gets the names that were asked for in
    vain, each with where."""
    hidden = {name: sys.modules.pop(name) for name in list(sys.modules) if _is_torch(name)}
    named = {kind: kind.__module__ for kind in _NAMED}
    finder = _Finder(missed)
    sys.meta_path.insert(0, finder)
    _name(_NAMED)
    before, spawn.get_preparation_data = spawn.get_preparation_data, _prepared
    try:
        yield
    finally:
        spawn.get_preparation_data = before
        _name(named)
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if _is_torch(name)]:
            del sys.modules[name]
        sys.modules.update(hidden)


_first_data = spawn.get_preparation_data


def _prepared(name: str) -> dict[str, Any]:
    """What a spawned process is given first: it reads this before the program, and so has lazyten
    stand in there, too."""
    return {**_first_data(name), "lazyten": _InChildren()}


class _InChildren:
    """In a pickle: a call of `_stand_in`."""

    def __reduce__(self) -> Any:
        return _stand_in, ()


def _stand_in() -> None:
    """Have lazyten stand in until this process ends."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        _for_good.enter_context(standing_in({}))
        atexit.register(_for_good.close)


_for_good = ExitStack()


def _name(modules: Mapping[type, str]) -> None:
    """Have these classes say that they are of these modules."""
    for kind, module in modules.items():
        kind.__module__ = module


def _is_torch(name: str) -> bool:
    return name.partition(".")[0] in _ROOTS


def found(name: str) -> Any:
    """What lazyten has for a name such as 'torch.nn.Linear'; _NOTHING if nothing."""
    root, *parts = name.split(".")
    home = _ROOTS[root]
    value: Any = import_module(home)
    for part in parts:
        if part == "torch" and isinstance(value, ModuleType):  # imported by the module itself
            home = _ROOTS[part]
            value = import_module(home)
            continue
        if not isinstance(value, ModuleType) and not hasattr(value, part):
            value = sys.modules.get(home, value)  # of the same name, as nn.utils.spectral_norm
        home = f"{home}.{part}"
        try:
            value = getattr(value, part)
        except AttributeError:
            try:
                value = import_module(f"{value.__name__}.{part}")
            except (AttributeError, ImportError):
                return _imported(parts)
    return value


def _imported(parts: list[str]) -> Any:
    """What the module of PyTorch with this name imports for itself; _NOTHING if nothing is known of
    it."""
    if len(parts) < 3 or parts[-1] not in IMPORTED or not isinstance(
            found(".".join(("torch", *parts[:-1]))), ModuleType):
        return _NOTHING
    return getattr(import_module(f"lazyten.{IMPORTED[parts[-1]]}".rstrip(".")), parts[-1])


class _StandIn(ModuleType):
    """A module of PyTorch, with what lazyten has by its names."""

    def __init__(self, name: str, missed: dict[str, str]) -> None:
        super().__init__(name)
        self.__dict__.update(_missed=missed, __path__=[])
        if name == "torch":
            self.__dict__.update(__version__=TorchVersion(f"{PYTORCH}+lazyten"), torch=self)

    def __getattr__(self, name: str) -> Any:
        if name == "torch":  # what modules of PyTorch's import for themselves
            return import_module(name)
        whole = f"{self.__name__}.{name}"
        value = found(whole)
        if isinstance(value, ModuleType) and value.__name__.startswith("lazyten"):
            return import_module(whole)
        if value is _NOTHING:
            if not name.startswith("__"):
                frame = sys._getframe(1)
                file = Path(frame.f_code.co_filename)
                package = _PACKAGE if "site-packages" in file.parts else ""
                self._missed[whole] = f"{package}{file.name}:{frame.f_lineno}"
            why = reason(name)
            raise AttributeError(f"lazyten has no {whole}" + (f": {why}" if why else ""))
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, _StandIn) and callable(found(value.__name__)):
            return  # a module of a function's name, which import would put in its place
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return dir(found(self.__name__))

    def __reduce__(self) -> Any:
        return found, (self.__name__,)  # what a process has where nothing stands in

    @property
    def __all__(self) -> list[str]:
        """What `from torch import *` takes."""
        return [name for name in dir(self) if not name.startswith("_")]


class _Installed(Distribution):
    """What is known of torch as a package."""

    def read_text(self, filename: str) -> str | None:
        """The texts that each package comes with: its name and version, and its module."""
        return {"METADATA": f"Metadata-Version: 2.1\nName: torch\nVersion: {PYTORCH}\n",
                "top_level.txt": "torch\n"}.get(filename)

    def locate_file(self, path: Any) -> Path:
        """Where a file of it would be."""
        return Path(__file__).parent / str(path)


class _Finder(MetaPathFinder, Loader):
    """Finds torch and the modules below it."""

    def __init__(self, missed: dict[str, str]) -> None:
        self.missed = missed

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """The module that stands in; ModuleNotFoundError for what lazyten does not have."""
        if not _is_torch(fullname):
            return None
        if found(fullname) is _NOTHING:
            self.missed[fullname] = "imported"
            raise ModuleNotFoundError(f"lazyten has no {fullname}", name=fullname)
        return ModuleSpec(fullname, self, is_package=True)

    def find_distributions(self, context: Any = None) -> Iterator[Distribution]:
        """PyTorch as an installed package, for those that ask for its version."""
        if getattr(context, "name", None) in (None, "torch"):
            yield _Installed()

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _StandIn(spec.name, self.missed)

    def exec_module(self, module: ModuleType) -> None:
        """Give it the classes and functions that are loaded, for those who look into vars()."""
        home = found(module.__name__)
        module.__dict__.update({
            name: getattr(home, name) for name in dir(home) if name not in _ITS_OWN
            and isinstance(getattr(home, "__dict__", {}).get(name), _DEFINED)})


def missing_names(source: str, script: str) -> dict[str, str]:
    """The names of torch that a script mentions and lazyten does not have, each with its first
    line. SyntaxError if it is no Python."""
    tree, file = ast.parse(source, script), Path(script).name
    known: dict[str, str] = {}  # what variables mean: names of torch
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if _is_torch(alias.name):
                    root = alias.name.partition(".")[0]
                    known[alias.asname or root] = alias.name if alias.asname else root
        elif isinstance(node, ast.ImportFrom) and not node.level and _is_torch(node.module or ""):
            known |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
    lines: dict[str, str] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.expr):
            continue
        name = _dotted(node, known)
        if name is not None and found(name) is _NOTHING:
            while found(name.rpartition(".")[0]) is _NOTHING:  # the first part that is not there
                name = name.rpartition(".")[0]
            lines.setdefault(name, f"{file}:{node.lineno}")
    return lines


def _dotted(node: ast.expr, known: dict[str, str]) -> str | None:
    """The name of torch that an expression is, if it is one."""
    if isinstance(node, ast.Name):
        return known.get(node.id)
    if isinstance(node, ast.Attribute):
        below = _dotted(node.value, known)
        return None if below is None or not isinstance(found(below), ModuleType) else \
            f"{below}.{node.attr}"
    return None
