"""Where the package onnx is not installed the error says so."""
from __future__ import annotations

from importlib.machinery import PathFinder
from pathlib import Path

import pytest

import lazyten as lt


@pytest.mark.parametrize("folder", ["onnx", "models"])
def test_without_the_package_onnx_the_error_names_what_to_install(
        folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / folder).mkdir()  # Python takes a folder of that name for a package
    monkeypatch.setattr("lazyten.onnx.find_spec",
                        lambda name: PathFinder.find_spec(name, [str(tmp_path)]))
    with pytest.raises(lt.LazytenError, match=r"pip install 'lazyten\[onnx\]'"):
        lt.onnx.load(b"")
    with pytest.raises(lt.LazytenError, match=r"pip install 'lazyten\[onnx\]'"):
        lt.onnx.export(lambda x: x, lt.zeros(1))
