"""A character model: nn.LSTM of two layers, its state carried from batch to batch, detached."""
import torch
import torch.nn as nn


class CharRNN(nn.Module):
    def __init__(self, vocab, hidden_size, num_layers, batch_size):
        super().__init__()
        self.encoder = nn.Embedding(vocab, 6)
        self.rnn = nn.LSTM(6, hidden_size, num_layers, batch_first=True, dropout=0.0)
        self.decoder = nn.Linear(hidden_size, vocab)
        shape = num_layers, batch_size, hidden_size
        self.register_buffer("h", torch.zeros(shape), persistent=False)
        self.register_buffer("c", torch.zeros(shape))

    def forward(self, x):
        output, (h, c) = self.rnn(self.encoder(x), (self.h, self.c))
        self.h, self.c = h.detach(), c.detach()
        return self.decoder(output.contiguous().view(-1, output.size(-1)))


def model():
    return CharRNN(vocab=11, hidden_size=7, num_layers=2, batch_size=3)


def optimizer(model):
    return torch.optim.Adam(model.parameters(), lr=0.005)


def batches(rng):
    text = rng.integers(0, 11, (3, 26))
    return [(text[:, i:i + 5], text[:, i + 1:i + 6]) for i in range(0, 25, 5)]


def step(model, optimizer, inputs, targets):
    model.zero_grad()
    loss = nn.CrossEntropyLoss()(model(inputs), targets.reshape(-1))
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.25)
    optimizer.step()
    return loss.detach()
