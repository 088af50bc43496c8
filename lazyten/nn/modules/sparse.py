"""Embeddings as layers."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from lazyten.frontend.tensor import DTypeLike, Tensor
from lazyten.nn import functional as F
from lazyten.nn import init
from lazyten.nn.modules.base import Layer, check_counts
from lazyten.nn.parameter import Parameter
from lazyten.support.errors import ArgumentError, ShapeError
from lazyten.support.grad_mode import no_grad


class _Rows(Layer):
    """A weight (num_embeddings, embedding_dim), normal at first but for a row of zeros."""

    weight: Parameter

    def _set_rows(self, num_embeddings: int, embedding_dim: int, padding_idx: int | None,
                  given: Tensor | None, device: str | None, dtype: DTypeLike | None) -> None:
        name = type(self).__name__
        check_counts(name, 0, num_embeddings=num_embeddings, embedding_dim=embedding_dim)
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise ArgumentError(f"{name}({num_embeddings}, {embedding_dim}): "
                                    f"padding_idx={padding_idx} is not one of its rows")
            padding_idx %= num_embeddings
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = padding_idx
        if given is None:
            self._parameter("weight", (num_embeddings, embedding_dim), device, dtype)
            self.reset_parameters()
            return
        if given.shape != (num_embeddings, embedding_dim):
            raise ShapeError(f"{name}({num_embeddings}, {embedding_dim}): the weight given has "
                             f"shape {given.shape}")
        self.weight = given if isinstance(given, Parameter) else Parameter(given)

    def reset_parameters(self) -> None:
        """Rows drawn anew: normal, and zeros for padding_idx."""
        init.normal_(self.weight)
        self._fill_padding_idx_with_zero()
        self.weight.detach().realize()

    def _fill_padding_idx_with_zero(self) -> None:
        """(PyTorch's name, which subclasses call when they draw the rows in another way.)"""
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx] = 0

    def _options(self, usual: Mapping[str, object]) -> str:
        """The options that are not as usual."""
        return "".join(f", {name}={getattr(self, name)}" for name, value in usual.items()
                       if getattr(self, name) != value)


class Embedding(_Rows):
    """functional.embedding of a weight (num_embeddings, embedding_dim): (..) to (..,
    embedding_dim). `padding_idx` is a row of zeros at first and gets no gradient."""

    def __init__(self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None,
                 max_norm: float | None = None, norm_type: float = 2.0,
                 scale_grad_by_freq: bool = False, sparse: bool = False,
                 _weight: Tensor | None = None, _freeze: bool = False, device: str | None = None,
                 dtype: DTypeLike | None = None) -> None:
        super().__init__()
        self.max_norm, self.norm_type = max_norm, norm_type
        self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse
        self._set_rows(num_embeddings, embedding_dim, padding_idx, _weight, device, dtype)
        if _freeze:
            self.weight.requires_grad_(False)

    @classmethod
    def from_pretrained(cls, embeddings: Tensor, freeze: bool = True,
                        padding_idx: int | None = None, max_norm: float | None = None,
                        norm_type: float = 2.0, scale_grad_by_freq: bool = False,
                        sparse: bool = False) -> Self:
        """A layer with a copy of this weight (rows, features), frozen if `freeze`; a Parameter
        becomes the layer's own."""
        rows, features = _matrix(embeddings, cls.__name__)
        return cls(rows, features, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse,
                   _weight=embeddings, _freeze=freeze)

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(input, self.weight, self.padding_idx, self.max_norm, self.norm_type,
                           self.scale_grad_by_freq, self.sparse)

    def extra_repr(self) -> str:
        usual = {"padding_idx": None, "max_norm": None, "norm_type": 2.0,
                 "scale_grad_by_freq": False, "sparse": False}
        return f"{self.num_embeddings}, {self.embedding_dim}{self._options(usual)}"


class EmbeddingBag(_Rows):
    """functional.embedding_bag of a weight (num_embeddings, embedding_dim)."""

    def __init__(self, num_embeddings: int, embedding_dim: int, max_norm: float | None = None,
                 norm_type: float = 2.0, scale_grad_by_freq: bool = False, mode: str = "mean",
                 sparse: bool = False, _weight: Tensor | None = None,
                 include_last_offset: bool = False, padding_idx: int | None = None,
                 device: str | None = None, dtype: DTypeLike | None = None) -> None:
        super().__init__()
        self.max_norm, self.norm_type = max_norm, norm_type
        self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse
        self.mode, self.include_last_offset = mode, include_last_offset
        self._set_rows(num_embeddings, embedding_dim, padding_idx, _weight, device, dtype)

    @classmethod
    def from_pretrained(cls, embeddings: Tensor, freeze: bool = True,
                        max_norm: float | None = None, norm_type: float = 2.0,
                        scale_grad_by_freq: bool = False, mode: str = "mean",
                        sparse: bool = False, include_last_offset: bool = False,
                        padding_idx: int | None = None) -> Self:
        """A layer with a copy of this weight, as Embedding.from_pretrained makes one."""
        rows, features = _matrix(embeddings, cls.__name__)
        layer = cls(rows, features, max_norm, norm_type, scale_grad_by_freq, mode, sparse,
                    embeddings, include_last_offset, padding_idx)
        layer.weight.requires_grad_(not freeze)
        return layer

    def forward(self, input: Tensor, offsets: Tensor | None = None,
                per_sample_weights: Tensor | None = None) -> Tensor:
        return F.embedding_bag(input, self.weight, offsets, self.max_norm, self.norm_type,
                               self.scale_grad_by_freq, self.mode, self.sparse,
                               per_sample_weights, self.include_last_offset, self.padding_idx)

    def extra_repr(self) -> str:
        usual = {"max_norm": None, "norm_type": 2.0, "scale_grad_by_freq": False}
        return (f"{self.num_embeddings}, {self.embedding_dim}{self._options(usual)}, "
                f"mode={self.mode!r}{self._options({'padding_idx': None})}")


def _matrix(embeddings: Any, name: str) -> tuple[int, int]:
    if not isinstance(embeddings, Tensor) or embeddings.ndim != 2:
        raise ShapeError(f"{name}.from_pretrained: the embeddings are a tensor of shape (rows, "
                         f"features), not {getattr(embeddings, 'shape', type(embeddings))}")
    rows, features = embeddings.shape
    return rows, features
