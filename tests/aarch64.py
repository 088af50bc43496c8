"""Runs lazyten on AArch64, emulated: LeNet for an epoch, then a part of the test suite.

`make test-aarch64`, or `python tests/aarch64.py [options and files for pytest]`. It needs QEMU's
emulator of programs, and once debootstrap, as root, and the network: Debian's Python for arm64 and
the pinned wheels go to lazyten-aarch64 in the user's cache folder. Nothing of Debian is started
but Python, and neither chroot nor binfmt_misc is needed: a script in build/aarch64 stands for the
interpreter, in tests that start it themselves, too.
"""
from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
SUITE, PYTHON = "bookworm", "3.11"
"""Debian's release, and the Python that it has."""
GLIBC = 36
"""Minor version of the release's C library; wheels for older ones run there, too."""
DEV_PACKAGES = ("einops", "hypothesis", "iniconfig", "mpmath", "pluggy", "Pygments", "pytest",
                "sortedcontainers", "typing_extensions")
"""What the tests below need of requirements-dev.txt; all of requirements.txt is installed."""
BLAS = "ARMV8"
"""NumPy's kernels without SVE: with those for SVE, on the processor that QEMU 7.2 emulates, NumPy's
products of matrices alone have NaNs in them, so that tests would compare with wrong numbers."""
FILES = ("decompose", "codegen_random", "native_halves", "cache_sizes", "scans", "random",
         "serialization")
"""Test files that run unless others are named: they take no more than ten minutes."""


def main(arguments: list[str]) -> int:
    """Set up what is missing, run LeNet and the tests; the first exit status that is not 0."""
    emulator = _emulator()
    cache = _cache_folder()
    python = _environment(emulator, _debian(cache), _wheels(cache))
    environment = {**os.environ, "CI": "1", "LAZYTEN_CACHE": "0", "OPENBLAS_CORETYPE": BLAS}
    found = {path.stem: str(path) for path in (REPOSITORY / "tests").rglob("test_*.py")}
    tests = arguments or [found[f"test_{name}"] for name in FILES]
    for command in (
            ["-m", "lazyten", "doctor"],
            ["examples/lenet.py", "--epochs", "1", "--output", str(python.parents[1] / "lenet")],
            ["-m", "pytest", "-p", "no:cacheprovider", "-o", "faulthandler_timeout=0",
             "--durations=5", *tests]):
        print("====", "python", *command, flush=True)
        status = subprocess.run([python, *command], cwd=REPOSITORY, env=environment,
                                check=False).returncode
        if status:
            return status
    return 0


def _emulator() -> str:
    """The path of QEMU's emulator."""
    if platform.machine().lower() in ("aarch64", "arm64"):
        sys.exit("this machine is an AArch64 itself: run `make test`")
    for name in ("qemu-aarch64-static", "qemu-aarch64"):
        found = shutil.which(name)
        if found:
            return found
    sys.exit("QEMU's emulator of AArch64 programs is not installed (Debian and Ubuntu: "
             "apt install qemu-user-static)")


def _cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME", "")
    folder = Path(base if os.path.isabs(base) else Path.home() / ".cache", "lazyten-aarch64")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _debian(cache: Path) -> Path:
    """A folder with Debian's Python and its libraries, unpacked and not set up."""
    root = cache / SUITE
    if root.exists():
        return root
    if shutil.which("debootstrap") is None or shutil.which("dpkg-deb") is None:
        sys.exit("debootstrap and dpkg-deb are needed once, for Debian's Python on arm64 (Debian "
                 "and Ubuntu: apt install debootstrap)")
    if os.geteuid() != 0:
        sys.exit(f"debootstrap has to run as root, once: sudo XDG_CACHE_HOME={cache.parent} "
                 f"{sys.executable} {' '.join(sys.argv)}")
    print(f"Debian {SUITE} for arm64 goes to {root} (once)", flush=True)
    unfinished = _empty(root)
    subprocess.run(["debootstrap", "--foreign", "--arch=arm64", "--variant=minbase",
                    "--include=python3", SUITE, unfinished], check=True)
    for package in sorted((unfinished / "var/cache/apt/archives").glob("*.deb")):
        subprocess.run(["dpkg-deb", "-x", package, unfinished], check=True)
        package.unlink()
    return unfinished.rename(root)


def _wheels(cache: Path) -> Path:
    """A folder with the pinned packages for AArch64."""
    dev = (REPOSITORY / "requirements-dev.txt").read_text().splitlines()
    pins = (REPOSITORY / "requirements.txt").read_text().splitlines() + [
        line for line in dev if re.split("[=;]", line)[0] in DEV_PACKAGES]
    digest = hashlib.sha256("\n".join(pins).encode()).hexdigest()[:16]
    folder = cache / f"packages-{digest}"
    if not folder.exists():
        print(f"Packages for AArch64 go to {folder} (once)", flush=True)
        platforms = ["manylinux2014_aarch64",
                     *(f"manylinux_2_{minor}_aarch64" for minor in range(17, GLIBC + 1))]
        unfinished = _empty(folder)
        wanted = [pin for pin in pins if pin and not pin.startswith("#")]
        _pip("--only-binary=:all:", "--no-deps", f"--python-version={PYTHON}",
             *(f"--platform={name}" for name in platforms), f"--target={unfinished}", *wanted)
        unfinished.rename(folder)
    return folder


def _environment(emulator: str, root: Path, packages: Path) -> Path:
    """A virtual environment with this checkout's lazyten; gives what starts its Python."""
    folder = REPOSITORY / "build" / "aarch64"
    shutil.rmtree(folder, ignore_errors=True)
    python, site = folder / "bin" / "python", folder / f"lib/python{PYTHON}/site-packages"
    for parent in (python.parent, site):
        parent.mkdir(parents=True)
    (folder / "pyvenv.cfg").write_text("home = /usr/bin\ninclude-system-site-packages = false\n")
    python.write_text(f'#!/bin/sh\nexec "{emulator}" -L "{root}" -0 "{python}" '
                      f'"{root}/usr/bin/python{PYTHON}" "$@"\n')
    python.chmod(0o755)
    (site / "packages.pth").write_text(f"{packages}\n")
    _pip("--no-deps", "--no-build-isolation", f"--target={site}", "--editable",
         str(REPOSITORY))
    return python


def _pip(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "pip", "--quiet", "install", *arguments], check=True)


def _empty(folder: Path) -> Path:
    """A new folder beside this one, for what is not finished."""
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir()
    return unfinished


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
