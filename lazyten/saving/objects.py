"""Objects of classes, such as a whole module, as a pickle among a file's tensors.

A pickle names classes and calls them, so reading one runs code: `weights_only=False` allows it.
"""
from __future__ import annotations

import pickle
from typing import Any

import numpy as np

from lazyten.frontend.functions import tensor
from lazyten.frontend.tensor import Tensor
from lazyten.ir import dtype as dt
from lazyten.support.errors import ArgumentError, CodeInFileError


def pickled(obj: Any, because: str) -> Tensor:
    """The bytes of an object's pickle (n,) uint8. ArgumentError, which begins with why it is one
    that needs it, for an object that cannot be pickled."""
    try:
        content = pickle.dumps(obj, protocol=5)
    except (pickle.PicklingError, AttributeError, TypeError, RecursionError) as error:
        raise ArgumentError(f"{because}, and the object cannot be pickled: {error}; save the "
                            f"state_dict() of modules, optimizers and schedulers, and what they "
                            f"are made of as numbers and texts") from error
    return tensor(np.frombuffer(content, np.uint8), dt.uint8, "cpu")


def unpickled(content: Tensor, source: str, allowed: bool, moved: str | None) -> Any:
    """The object of such a pickle. CodeInFileError unless allowed; moved: a device that somebody
    asked for, which a pickle does not heed (ArgumentError unless its tensors are on the host)."""
    if not allowed:
        raise CodeInFileError(f"load: {source} has whole objects in it, such as a module, and "
                              f"reading them runs what the file says: give weights_only=False if "
                              f"you trust who wrote it, or save the state_dict() in their place")
    if moved not in (None, "cpu"):
        raise ArgumentError(f"load: map_location={moved!r}: whole objects in {source} are read to "
                            f"the devices that they were on; move them with .to()")
    try:
        return pickle.loads(content.numpy().tobytes())
    except (pickle.UnpicklingError, EOFError) as error:
        raise ArgumentError(f"load: {source} has a damaged pickle: {error}; save or copy it again"
                            ) from error
    except (AttributeError, ImportError) as error:
        raise ArgumentError(f"load: {source} has an object whose class is not here: {error}; "
                            f"define or import it where it was when the file was saved") from error
