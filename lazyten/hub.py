"""`lt.hub`: PyTorch's downloads of models and their code, which lazyten refuses; what programs
import beside them is there."""
from __future__ import annotations

import os
import re
from urllib.parse import urlparse as urlparse

from lazyten.pytorch.refusals import refused

globals().update(refused(
    "hub", "lazyten downloads nothing and runs no code that it fetched; download a model's weights "
    "yourself, and read them with lazyten.load_safetensors(path)",
    "download_url_to_file", "help", "list", "load", "load_state_dict_from_url"))
HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
"""The digits of a checksum in the name of a file of weights, such as `net-1f2e3d4c.pth`."""


_dir: str | None = None


def get_dir() -> str:
    """The folder that programs look for downloaded files in: what set_dir() says, or `hub` in the
    folder that packages keep data below."""
    return os.path.join(_get_torch_home(), "hub") if _dir is None else _dir


def set_dir(d: str | os.PathLike[str]) -> None:
    """Have get_dir() say another folder."""
    global _dir
    _dir = os.path.expanduser(os.fspath(d))


def _get_torch_home() -> str:
    """The folder that packages keep data below: TORCH_HOME in the environment, or `torch` in the
    user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    return os.path.expanduser(os.environ.get("TORCH_HOME", os.path.join(cache, "torch")))
