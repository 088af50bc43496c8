"""Graph convolution: messages along edges, summed by index_add_, degrees by scatter_add_."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class GCNConv(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.lin = nn.Linear(in_channels, out_channels, bias=False)
        self.bias = nn.Parameter(torch.zeros(out_channels))

    def forward(self, x, edge_index):
        n = x.size(0)
        loops = torch.arange(n).unsqueeze(0).repeat(2, 1)
        row, col = torch.cat([edge_index, loops], dim=1)
        x = self.lin(x)
        deg = torch.zeros(n, dtype=x.dtype).scatter_add_(0, col, torch.ones_like(col).to(x.dtype))
        deg_inv_sqrt = deg.pow(-0.5)
        deg_inv_sqrt[deg_inv_sqrt == float("inf")] = 0
        norm = deg_inv_sqrt[row] * deg_inv_sqrt[col]
        out = torch.zeros_like(x).index_add_(0, col, norm.view(-1, 1) * x[row])
        return out + self.bias


class GCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = GCNConv(5, 8), GCNConv(8, 3)

    def forward(self, x, edge_index):
        x = self.conv1(x, edge_index).relu()
        return F.log_softmax(self.conv2(x, edge_index), dim=-1)


def model():
    return GCN()


def optimizer(model):
    return torch.optim.Adam([dict(params=model.conv1.parameters(), weight_decay=5e-4),
                             dict(params=model.conv2.parameters(), weight_decay=0)], lr=0.01)


def batches(rng):
    x, y = rng.normal(size=(9, 5)), rng.integers(0, 3, 9)
    edges, train = rng.integers(0, 9, (2, 20)), rng.random(9) > 0.4
    return [(x, edges, y, train) for _ in range(4)]


def step(model, optimizer, x, edge_index, y, train_mask):
    model.train()
    optimizer.zero_grad()
    out = model(x, edge_index)
    picked = F.nll_loss(out, y, reduction="none") * train_mask
    loss = picked.sum() / train_mask.sum()
    loss.backward()
    optimizer.step()
    correct = (out.argmax(dim=-1) == y) & ~train_mask
    return loss.detach(), correct.sum()
