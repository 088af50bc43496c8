"""nn.TransformerEncoder over words with sinusoidal positions and a padding mask."""
import math

import torch
from torch import Tensor, nn


class PositionalEncoding(nn.Module):
    def __init__(self, d_model: int, dropout: float = 0.0, max_len: int = 20):
        super().__init__()
        self.dropout = nn.Dropout(p=dropout)
        position = torch.arange(max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(1, max_len, d_model)
        pe[0, :, 0::2] = torch.sin(position * div_term)
        pe[0, :, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe)

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(x + self.pe[:, :x.size(1)])


class Classifier(nn.Module):
    def __init__(self, ntoken: int, d_model: int, nhead: int, nlayers: int):
        super().__init__()
        self.d_model = d_model
        self.embedding = nn.Embedding(ntoken, d_model)
        self.pos_encoder = PositionalEncoding(d_model)
        layer = nn.TransformerEncoderLayer(d_model, nhead, 2 * d_model, dropout=0.0,
                                           batch_first=True)
        self.transformer_encoder = nn.TransformerEncoder(layer, nlayers)
        self.linear = nn.Linear(d_model, 3)
        self.embedding.weight.data.uniform_(-0.1, 0.1)

    def forward(self, src: Tensor) -> Tensor:
        padding = src == 0
        x = self.pos_encoder(self.embedding(src) * math.sqrt(self.d_model))
        x = self.transformer_encoder(x, src_key_padding_mask=padding)
        keep = (~padding).unsqueeze(-1).to(x.dtype)
        return self.linear((x * keep).sum(1) / keep.sum(1).clamp(min=1))


def model():
    return Classifier(15, 8, 2, 2)


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.5)


def batches(rng):
    for _ in range(4):
        words = rng.integers(1, 15, (4, 6))
        words[1, 4:] = words[3, 1:] = 0
        yield words, rng.integers(0, 3, 4)


def step(model, optimizer, words, labels):
    model.train()
    loss = nn.functional.cross_entropy(model(words), labels)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    return loss.detach()
