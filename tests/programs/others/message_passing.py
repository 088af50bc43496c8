"""Graph networks over lists of edges: attention by a softmax over edges, sums by index."""
import torch
import torch.nn.functional as F
from torch import nn


def broadcast(index, src):
    for _ in range(index.dim(), src.dim()):
        index = index.unsqueeze(-1)
    return index.expand_as(src)


def scatter(src, index, size, reduce="sum"):
    index = broadcast(index, src)
    shape = [size, *src.size()[1:]]
    if reduce in ("sum", "mean"):
        out = torch.zeros(shape, dtype=src.dtype, device=src.device).scatter_add_(0, index, src)
        if reduce == "mean":
            count = torch.zeros(shape, dtype=src.dtype)
            count.scatter_add_(0, index, torch.ones_like(src))
            count[count < 1] = 1
            out.true_divide_(count)
        return out
    return src.new_zeros(shape).scatter_reduce_(0, index, src, reduce=f"a{reduce}",
                                                include_self=False)


def softmax(src, index, num_nodes):
    out = src - scatter(src.detach(), index, num_nodes, "max")[index]
    out = out.exp()
    out_sum = scatter(out, index, num_nodes) + 1e-16
    return out / out_sum.index_select(0, index)


class GIN(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.eps = nn.Parameter(torch.Tensor([0.]))
        self.mlp = nn.Sequential(nn.Linear(size, size), nn.ReLU(), nn.Linear(size, size))

    def forward(self, x, edge_index):
        row, col = edge_index
        agg = torch.zeros_like(x).index_add_(0, col, x[row])
        return self.mlp((1 + self.eps) * x + agg)


class GAT(nn.Module):
    def __init__(self, size, heads=2):
        super().__init__()
        self.heads = heads
        self.left, self.right = nn.Linear(size, size), nn.Linear(size, size, bias=False)
        self.att = nn.Parameter(torch.empty(1, heads, size // heads))
        nn.init.xavier_uniform_(self.att)

    def forward(self, x, edge_index):
        n = x.size(0)
        xl = self.left(x).view(n, self.heads, -1)
        xr = self.right(x).view(n, self.heads, -1)
        j, i = edge_index[0], edge_index[1]
        alpha = (F.leaky_relu(xl[j] + xr[i], 0.2) * self.att).sum(-1)
        alpha = softmax(alpha, i, n)
        return scatter(xl[j] * alpha.unsqueeze(-1), i, n).flatten(1)


class MPNN(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size
        self.edge = nn.Sequential(nn.Linear(3, size * size))
        self.gru = nn.GRU(size, size)

    def forward(self, x, edge_index, edge_attr):
        h = x.unsqueeze(0)
        w = self.edge(edge_attr).view(-1, self.size, self.size)
        for _ in range(2):
            m = torch.bmm(x[edge_index[0]].unsqueeze(1), w).squeeze(1)
            m = F.relu(scatter(m, edge_index[1], x.size(0), "mean"))
            out, h = self.gru(m.unsqueeze(0), h)
            x = out.squeeze(0)
        return x


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.gin, self.gat, self.mpnn = GIN(4), GAT(4), MPNN(4)
        self.out = nn.Linear(16, 1)

    def forward(self, x, edge_index, edge_attr, batch):
        y = F.elu(self.gin(x, edge_index)) + self.gat(x, edge_index)
        y = self.mpnn(y, edge_index, edge_attr)
        size = int(batch.max().item() + 1)
        return self.out(torch.cat([scatter(y, batch, size, r)
                                   for r in ("sum", "mean", "max", "min")], 1)).squeeze(-1)


def model():
    return Net()


def optimizer(model):
    return torch.optim.Adagrad(model.parameters(), lr=0.01, weight_decay=1e-4)


def batches(rng):
    return [(rng.normal(size=(6, 4)), rng.integers(0, 6, (2, 14)), rng.normal(size=(14, 3)),
             rng.permutation([0, 0, 1, 1, 1, 2]), rng.normal(size=(3,))) for _ in range(4)]


def step(model, optimizer, x, edge_index, edge_attr, batch, target):
    optimizer.zero_grad()
    loss = F.smooth_l1_loss(model(x, edge_index, edge_attr, batch), target)
    loss.backward()
    optimizer.step()
    return loss.detach()
