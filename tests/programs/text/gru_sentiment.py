"""Sentiment of sentences of different lengths: Embedding, a packed bidirectional GRU, a head."""
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

LENGTHS = [5, 2, 4, 1]


class Sentiment(nn.Module):
    def __init__(self, vocab_size, embedding_dim, hidden_dim, pad_idx):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, embedding_dim, padding_idx=pad_idx)
        self.rnn = nn.GRU(embedding_dim, hidden_dim, bidirectional=True, batch_first=True)
        self.fc = nn.Linear(hidden_dim * 4, 1)
        self.dropout = nn.Dropout(0.0)

    def forward(self, text, lengths):
        embedded = self.dropout(self.embedding(text))
        packed = pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
        packed_output, hidden = self.rnn(packed)
        output, _ = pad_packed_sequence(packed_output, batch_first=True)
        hidden = torch.cat((hidden[-2, :, :], hidden[-1, :, :]), dim=1)
        return self.fc(torch.cat([hidden, output.max(dim=1)[0]], 1)).squeeze(1)


def model():
    return Sentiment(13, 5, 6, pad_idx=0)


def optimizer(model):
    return torch.optim.Adam(model.parameters())


def batches(rng):
    for _ in range(4):
        text = rng.integers(1, 13, (4, 5))
        for row, length in zip(text, LENGTHS, strict=True):
            row[length:] = 0
        yield text, rng.integers(0, 2, 4).astype(float)


def step(model, optimizer, text, label):
    optimizer.zero_grad()
    predictions = model(text, torch.tensor(LENGTHS))
    loss = nn.BCEWithLogitsLoss()(predictions, label)
    loss.backward()
    optimizer.step()
    return loss.detach(), (torch.round(torch.sigmoid(predictions)) == label).float().mean()
