"""A perceptron on tabular data: embedded categories beside normalized numbers."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class TabularModel(nn.Module):
    def __init__(self, cardinalities, n_numbers, hidden):
        super().__init__()
        self.embeddings = nn.ModuleList([nn.Embedding(n, min(4, n // 2 + 1))
                                         for n in cardinalities])
        n_embedded = sum(e.embedding_dim for e in self.embeddings)
        self.bn = nn.BatchNorm1d(n_numbers)
        self.layers = nn.Sequential(
            nn.Linear(n_embedded + n_numbers, hidden), nn.ReLU(inplace=True),
            nn.BatchNorm1d(hidden), nn.Dropout(0.0), nn.Linear(hidden, 2))
        for m in self.modules():
            if isinstance(m, nn.Linear):
                nn.init.kaiming_normal_(m.weight, nonlinearity="relu")
                nn.init.zeros_(m.bias)

    def forward(self, categories, numbers):
        x = [e(categories[:, i]) for i, e in enumerate(self.embeddings)]
        x = torch.cat(x, 1)
        return self.layers(torch.cat([x, self.bn(numbers)], dim=1))


def model():
    return TabularModel([3, 7, 5], 4, 16)


def optimizer(model):
    return torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.01)


def batches(rng):
    for _ in range(5):
        categories = rng.integers(0, [3, 7, 5], (12, 3))
        numbers = rng.normal(size=(12, 4)) * 3 + 1
        yield categories, numbers, (numbers[:, 0] > categories[:, 1] - 2).astype("int64")


def step(model, optimizer, categories, numbers, target):
    model.train()
    optimizer.zero_grad()
    output = model(categories, numbers)
    loss = F.cross_entropy(output, target, weight=torch.tensor([1.0, 2.0], dtype=output.dtype))
    loss.backward()
    optimizer.step()
    return loss.detach()
