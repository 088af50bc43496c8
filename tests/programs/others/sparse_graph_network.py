"""A graph network as its authors wrote it: a normalized adjacency as a sparse tensor, spmm."""
import math

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def normalize(adj):
    """D^-1 (A + I) as rows, columns and values."""
    adj = np.maximum(adj, adj.T) + np.eye(len(adj))
    rowsum = adj.sum(1)
    r_inv = np.power(rowsum, -1.0)
    r_inv[np.isinf(r_inv)] = 0.0
    adj = np.diag(r_inv) @ adj
    row, col = np.nonzero(adj)
    return row, col, adj[row, col]


def to_torch_sparse_tensor(row, col, data, n):
    indices = torch.from_numpy(np.vstack((row, col)).astype(np.int64))
    values = torch.from_numpy(data).to(torch.get_default_dtype())
    return torch.sparse_coo_tensor(indices, values, torch.Size([n, n]))


class GraphConvolution(nn.Module):
    def __init__(self, in_features, out_features, bias=True):
        super().__init__()
        self.weight = nn.Parameter(torch.FloatTensor(in_features, out_features))
        if bias:
            self.bias = nn.Parameter(torch.FloatTensor(out_features))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def reset_parameters(self):
        stdv = 1.0 / math.sqrt(self.weight.size(1))
        self.weight.data.uniform_(-stdv, stdv)
        if self.bias is not None:
            self.bias.data.uniform_(-stdv, stdv)

    def forward(self, input, adj):
        support = torch.mm(input, self.weight)
        output = torch.spmm(adj, support)
        return output + self.bias if self.bias is not None else output


class GCN(nn.Module):
    def __init__(self, nfeat, nhid, nclass):
        super().__init__()
        self.gc1 = GraphConvolution(nfeat, nhid)
        self.gc2 = GraphConvolution(nhid, nclass)
        links = np.random.default_rng(5).random((20, 20)) < 0.1
        self.adj = to_torch_sparse_tensor(*normalize(links.astype(np.float64)), 20)

    def forward(self, x):
        x = F.relu(self.gc1(x, self.adj))
        return F.log_softmax(self.gc2(x, self.adj), dim=1)


def model():
    return GCN(7, 6, 3)


def optimizer(model):
    return torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)


def batches(rng):
    features, labels = rng.random((20, 7)), rng.integers(0, 3, 20)
    features /= features.sum(1, keepdims=True)
    return [(features, labels, np.arange(12)) for _ in range(5)]


def step(model, optimizer, features, labels, idx_train):
    model.train()
    optimizer.zero_grad()
    output = model(features)
    loss_train = F.nll_loss(output[idx_train], labels[idx_train])
    loss_train.backward()
    optimizer.step()
    return loss_train.detach()
