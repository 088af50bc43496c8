"""What setup.cfg and the pins promise. That the wheel works alone: `make wheel-check`."""
from __future__ import annotations

import configparser
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from import_graph import CHECKOUT, FOLDERS, source_files
from packaging.requirements import Requirement

import lazyten

CONFIG = configparser.ConfigParser()
CONFIG.read(CHECKOUT / "setup.cfg")
CORE = CONFIG["options"]["install_requires"].split()
EXTRAS = {name: re.findall(r"^[a-z].*$", text, re.MULTILINE)
          for name, text in CONFIG["options.extras_require"].items()}


def pins(name: str) -> dict[str, str]:
    """Package to version, of a requirements file."""
    lines = (CHECKOUT / name).read_text().splitlines()
    pairs = (line.partition(";")[0].split("==") for line in lines if line and line[0] not in "#-")
    return {package.lower().replace("_", "-"): version for package, version in pairs}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from a copy of what is packaged, so that nothing is left in the checkout."""
    copy = tmp_path_factory.mktemp("copy")
    for folder in FOLDERS:
        shutil.copytree(CHECKOUT / folder, copy / folder,
                        ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(CHECKOUT / file, copy)
    subprocess.run([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index",
                    "--no-build-isolation", "--wheel-dir", copy / "dist", copy], check=True)
    return next((copy / "dist").glob("lazyten-*.whl"))


def test_the_core_needs_only_numpy_and_llvmlite() -> None:
    assert [Requirement(r).name for r in CORE] == ["numpy", "llvmlite"]


def test_setup_cfg_lists_every_package() -> None:
    packages = {name for name, path in source_files().items() if path.name == "__init__.py"}
    assert set(CONFIG["options"]["packages"].split()) == packages


@pytest.mark.parametrize("requirement", [*CORE, *EXTRAS["examples"], *EXTRAS["cuda"],
                                         *EXTRAS["opencl"], *EXTRAS["opencl-intel"],
                                         *EXTRAS["testing"], *EXTRAS["dev"]])
def test_pins_fit_what_setup_cfg_asks_for(requirement: str) -> None:
    wanted = Requirement(requirement)
    pinned = pins("requirements.txt") | pins("requirements-dev.txt")
    pinned |= pins(".ci/requirements-intel.txt")
    assert pinned[wanted.name] in wanted.specifier


def test_the_changelog_has_an_entry_for_this_version() -> None:
    assert f"\n## {lazyten.__version__}" in (CHECKOUT / "CHANGELOG.md").read_text()


def test_the_wheel_holds_exactly_the_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {n for n in archive.namelist() if ".dist-info/" not in n}
        licensed = any(n.endswith("LICENSE") for n in archive.namelist())
    modules = {f"{FOLDERS[path.relative_to(CHECKOUT).parts[0]].replace('.', '/')}/"
               f"{'/'.join(path.relative_to(CHECKOUT).parts[1:])}"
               for path in source_files().values()}
    page = {f"lazyten/seeing/page.{kind}" for kind in ("html", "css", "js")}
    assert names == modules | {"lazyten/py.typed"} | page
    assert licensed


@pytest.mark.slow
def test_an_unpacked_wheel_imports_codegen_and_runtimes(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    code = ("import lazyten, lazyten.codegen.loops.lower; "
            "import lazyten.runtimes.interpreter.interpreter as last;"
            "print(lazyten.__file__, last.__file__)")
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, text=True, check=True,
                            stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": str(tmp_path)})
    assert all(Path(file).is_relative_to(tmp_path) for file in result.stdout.split())
