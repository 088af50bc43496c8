"""`checkpoint`: activations that are computed again rather than kept."""
from __future__ import annotations

from lazyten.autograd.checkpointing import checkpoint

__all__ = ["checkpoint"]
