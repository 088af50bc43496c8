"""Speech: a convolution over time, a bidirectional LSTM, CTC over padded targets."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class SpeechModel(nn.Module):
    def __init__(self, n_feats=5, n_class=6):
        super().__init__()
        self.cnn = nn.Conv1d(n_feats, 6, 3, stride=1, padding=1)
        self.layer_norm = nn.LayerNorm(6)
        self.rnn = nn.LSTM(6, 4, num_layers=1, batch_first=False, bidirectional=True)
        self.classifier = nn.Sequential(nn.Linear(8, 6), nn.GELU(), nn.Linear(6, n_class))

    def forward(self, x):
        x = self.cnn(x).permute(2, 0, 1)
        x, (_, _) = self.rnn(F.gelu(self.layer_norm(x)))
        return F.log_softmax(self.classifier(x), dim=2)


def model():
    return SpeechModel()


def optimizer(model):
    return torch.optim.AdamW(model.parameters(), 5e-3)


def batches(rng):
    return [(rng.normal(size=(3, 5, 9)), rng.integers(1, 6, (3, 3))) for _ in range(4)]


def step(model, optimizer, spectrograms, labels):
    input_lengths, label_lengths = torch.tensor([9, 8, 6]), torch.tensor([3, 1, 2])
    optimizer.zero_grad()
    output = model(spectrograms)
    loss = nn.CTCLoss(blank=0)(output, labels, input_lengths, label_lengths)
    loss.backward()
    optimizer.step()
    return loss.detach()
