"""Transformers: layers of attention and of perceptrons, stacked (A. Vaswani and others, "Attention
is all you need", 2017)."""
from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

from lazyten.frontend import functions
from lazyten.frontend.tensor import DTypeLike, Tensor
from lazyten.nn import functional as F
from lazyten.nn import init
from lazyten.nn.containers import ModuleList
from lazyten.nn.module import Module
from lazyten.nn.modules import GELU, Dropout, LayerNorm, Linear, ReLU
from lazyten.nn.sequence.attention import MultiheadAttention
from lazyten.operators.math import shapes
from lazyten.support.errors import ArgumentError, ShapeError

Activation = str | Callable[[Tensor], Tensor]
_BY_NAME: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu}


class _Layer(Module):
    """What layers of encoders and decoders share: attention to themselves, then a perceptron.

    Each is added to what it reads, and normalized afterwards, or, if norm_first, before (R. Xiong
    and others, 2020). `attentions`: the names of the attentions of a layer, in their order.
    """

    attentions: tuple[str, ...]

    def __init__(self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
                 activation: Activation = F.relu, layer_norm_eps: float = 1e-5,
                 batch_first: bool = False, norm_first: bool = False, bias: bool = True,
                 device: str | None = None, dtype: DTypeLike | None = None) -> None:
        super().__init__()
        self.norm_first = norm_first
        for name in self.attentions:
            setattr(self, name, MultiheadAttention(
                d_model, nhead, dropout, bias, batch_first=batch_first, device=device,
                dtype=dtype))
        self.linear1 = Linear(d_model, dim_feedforward, bias, device, dtype)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, device, dtype)
        blocks = range(1, len(self.attentions) + 2)
        for i in blocks:
            setattr(self, f"norm{i}", LayerNorm(d_model, layer_norm_eps, bias=bias, device=device,
                                                dtype=dtype))
        for i in blocks:
            setattr(self, f"dropout{i}", Dropout(dropout))
        self.activation = act = _activation(activation)
        self.activation_relu_or_gelu = 1 if act is F.relu or isinstance(act, ReLU) else \
            2 if act is F.gelu or isinstance(act, GELU) else 0

    def _added(self, x: Tensor, number: int, block: Callable[[Tensor], Tensor]) -> Tensor:
        """x and what block `number` makes of it, one of the two normalized."""
        norm = getattr(self, f"norm{number}")
        return x + block(norm(x)) if self.norm_first else norm(x + block(x))

    def _sa_block(self, x: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None,
                  is_causal: bool = False) -> Tensor:
        """Attention to itself. (The names of the blocks are PyTorch's: subclasses replace them.)"""
        result: Tensor = self.dropout1(self.self_attn(
            x, x, x, attn_mask=attn_mask, key_padding_mask=key_padding_mask, need_weights=False,
            is_causal=is_causal)[0])
        return result

    def _ff_block(self, x: Tensor) -> Tensor:
        """The perceptron."""
        last = getattr(self, f"dropout{len(self.attentions) + 1}")
        result: Tensor = last(self.linear2(self.dropout(self.activation(self.linear1(x)))))
        return result


class TransformerEncoderLayer(_Layer):
    """Attention of a sequence to itself, then a perceptron: (L, N, d_model) to the same.

    dim_feedforward: features inside the perceptron; activation: 'relu', 'gelu', or a function of
    tensors; batch_first: sequences are (N, L, d_model); norm_first: normalize what a block reads,
    and not the sum that it leaves.
    """

    attentions = ("self_attn",)

    def forward(self, src: Tensor, src_mask: Tensor | None = None,
                src_key_padding_mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
        """Masks as multi_head_attention_forward takes them; is_causal says that src_mask hides what
        comes later."""
        x = self._added(src, 1, lambda x: self._sa_block(
            x, src_mask, src_key_padding_mask, is_causal=is_causal))
        return self._added(x, 2, self._ff_block)


class TransformerDecoderLayer(_Layer):
    """Attention of a sequence to itself, then to a memory, then a perceptron: (L, N, d_model) to
    the same. Arguments are those of TransformerEncoderLayer."""

    attentions = ("self_attn", "multihead_attn")

    def forward(self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None,
                memory_mask: Tensor | None = None, tgt_key_padding_mask: Tensor | None = None,
                memory_key_padding_mask: Tensor | None = None, tgt_is_causal: bool = False,
                memory_is_causal: bool = False) -> Tensor:
        """memory (S, N, d_model): what an encoder gave. Masks as multi_head_attention_forward takes
        them, of the sequence itself and of the memory."""
        x = self._added(tgt, 1, lambda x: self._sa_block(
            x, tgt_mask, tgt_key_padding_mask, tgt_is_causal))
        x = self._added(x, 2, lambda x: self._mha_block(
            x, memory, memory_mask, memory_key_padding_mask, memory_is_causal))
        return self._added(x, 3, self._ff_block)

    def _mha_block(self, x: Tensor, mem: Tensor, attn_mask: Tensor | None,
                   key_padding_mask: Tensor | None, is_causal: bool = False) -> Tensor:
        """Attention to the memory."""
        result: Tensor = self.dropout2(self.multihead_attn(
            x, mem, mem, attn_mask=attn_mask, key_padding_mask=key_padding_mask,
            need_weights=False, is_causal=is_causal)[0])
        return result


class _Stack(Module):
    """`num_layers` copies of a layer, and a norm for what the last gives."""

    def __init__(self, layer: Module, num_layers: int, norm: Module | None) -> None:
        super().__init__()
        shapes.as_int(num_layers, type(self).__name__, "num_layers")
        self.layers = ModuleList(copy.deepcopy(layer) for _ in range(num_layers))
        self.num_layers, self.norm = num_layers, norm

    def _last(self, x: Tensor) -> Tensor:
        return x if self.norm is None else self.norm(x)


class TransformerEncoder(_Stack):
    """Layers of an encoder, one after another: num_layers copies of encoder_layer, which begin with
    the same values. enable_nested_tensor and mask_check change nothing here."""

    def __init__(self, encoder_layer: Module, num_layers: int, norm: Module | None = None,
                 enable_nested_tensor: bool = True, mask_check: bool = True) -> None:
        super().__init__(encoder_layer, num_layers, norm)
        self.enable_nested_tensor, self.mask_check = enable_nested_tensor, mask_check
        self.use_nested_tensor = False

    def forward(self, src: Tensor, mask: Tensor | None = None,
                src_key_padding_mask: Tensor | None = None, is_causal: bool | None = None
                ) -> Tensor:
        """Arguments are those of a layer's forward()."""
        for layer in self.layers:
            src = layer(src, src_mask=mask, is_causal=is_causal is True,
                        src_key_padding_mask=src_key_padding_mask)
        return self._last(src)


class TransformerDecoder(_Stack):
    """Layers of a decoder, one after another: num_layers copies of decoder_layer, which begin with
    the same values."""

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__(decoder_layer, num_layers, norm)

    def forward(self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None,
                memory_mask: Tensor | None = None, tgt_key_padding_mask: Tensor | None = None,
                memory_key_padding_mask: Tensor | None = None, tgt_is_causal: bool | None = None,
                memory_is_causal: bool = False) -> Tensor:
        """Arguments are those of a layer's forward()."""
        for layer in self.layers:
            tgt = layer(tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask,
                        tgt_key_padding_mask=tgt_key_padding_mask,
                        memory_key_padding_mask=memory_key_padding_mask,
                        tgt_is_causal=tgt_is_causal is True, memory_is_causal=memory_is_causal)
        return self._last(tgt)


class Transformer(Module):
    """An encoder of one sequence, and a decoder of another that sees it.

    custom_encoder, custom_decoder: modules that are called as TransformerEncoder and
    TransformerDecoder would be. Other arguments are those of TransformerEncoderLayer.
    """

    def __init__(self, d_model: int = 512, nhead: int = 8, num_encoder_layers: int = 6,
                 num_decoder_layers: int = 6, dim_feedforward: int = 2048, dropout: float = 0.1,
                 activation: Activation = F.relu, custom_encoder: Any | None = None,
                 custom_decoder: Any | None = None, layer_norm_eps: float = 1e-5,
                 batch_first: bool = False, norm_first: bool = False, bias: bool = True,
                 device: str | None = None, dtype: DTypeLike | None = None) -> None:
        super().__init__()

        def norm() -> LayerNorm:
            return LayerNorm(d_model, layer_norm_eps, bias=bias, device=device, dtype=dtype)
        options = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps,
                   batch_first, norm_first, bias, device, dtype)
        self.encoder = TransformerEncoder(
            TransformerEncoderLayer(*options), num_encoder_layers, norm()
        ) if custom_encoder is None else custom_encoder
        self.decoder = TransformerDecoder(
            TransformerDecoderLayer(*options), num_decoder_layers, norm()
        ) if custom_decoder is None else custom_decoder
        self._reset_parameters()
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first

    def _reset_parameters(self) -> None:
        weights = [p for p in self.parameters() if p.ndim > 1]
        for weight in weights:
            init.xavier_uniform_(weight)
        functions.realize(*weights)

    def forward(self, src: Tensor, tgt: Tensor, src_mask: Tensor | None = None,
                tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None,
                src_key_padding_mask: Tensor | None = None,
                tgt_key_padding_mask: Tensor | None = None,
                memory_key_padding_mask: Tensor | None = None, src_is_causal: bool | None = None,
                tgt_is_causal: bool | None = None, memory_is_causal: bool = False) -> Tensor:
        """src (S, N, d_model) and tgt (L, N, d_model), with masks of each, and of what tgt may see
        of what the encoder gave; (L, N, d_model)."""
        axis = 0 if self.batch_first else 1
        if src.shape[-1:] != (self.d_model,) or tgt.shape[-1:] != (self.d_model,) or \
                src.ndim == 3 and src.shape[axis] != tgt.shape[axis]:
            raise ShapeError(f"Transformer: src {src.shape} and tgt {tgt.shape}: the last axis "
                             f"must be {self.d_model}, d_model, and axis {axis}, the batch, the "
                             f"same")
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask,
                              is_causal=src_is_causal)
        output: Tensor = self.decoder(
            tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal)
        return output

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: str | None = None,
                                        dtype: DTypeLike | None = None) -> Tensor:
        """A mask (sz, sz) that hides what comes later: -inf above the diagonal, 0 elsewhere."""
        hidden = functions.full((sz, sz), -math.inf, dtype=dtype, device=device)
        return hidden.triu(1)


def _activation(given: Activation) -> Callable[[Tensor], Tensor]:
    if not isinstance(given, str):
        return given
    if given not in _BY_NAME:
        raise ArgumentError(f"activation {given!r} is not one of {', '.join(_BY_NAME)}; give a "
                            f"function of tensors for another")
    return _BY_NAME[given]
