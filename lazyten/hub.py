"""`lt.hub`: PyTorch's downloads of models and their code, which lazyten refuses."""
from __future__ import annotations

from lazyten.pytorch.refusals import refused

globals().update(refused(
    "hub", "lazyten downloads nothing and runs no code that it fetched; download a model's weights "
    "yourself, and read them with lazyten.load_safetensors(path)",
    "download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url",
    "set_dir"))
