"""Embeddings of a graph's nodes by skip-gram: negative samples, sparse gradients, SparseAdam."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class SkipGram(nn.Module):
    def __init__(self, nodes, dim):
        super().__init__()
        self.u_embeddings = nn.Embedding(nodes, dim, sparse=True)
        self.v_embeddings = nn.Embedding(nodes, dim, sparse=True)
        initrange = 1.0 / dim
        nn.init.uniform_(self.u_embeddings.weight.data, -initrange, initrange)
        nn.init.constant_(self.v_embeddings.weight.data, 0.1)

    def forward(self, pos_u, pos_v, neg_v):
        emb_u = self.u_embeddings(pos_u)
        emb_v = self.v_embeddings(pos_v)
        emb_neg_v = self.v_embeddings(neg_v)
        score = torch.sum(torch.mul(emb_u, emb_v), dim=1)
        score = -F.logsigmoid(torch.clamp(score, max=10, min=-10))
        neg_score = torch.bmm(emb_neg_v, emb_u.unsqueeze(2)).squeeze()
        neg_score = -torch.sum(F.logsigmoid(-torch.clamp(neg_score, max=10, min=-10)), dim=1)
        return torch.mean(score + neg_score)


def model():
    return SkipGram(30, 6)


def optimizer(model):
    chosen = torch.optim.SparseAdam(list(model.parameters()), lr=0.01)
    return chosen, torch.optim.lr_scheduler.CosineAnnealingLR(chosen, 5)


def batches(rng):
    return [(rng.integers(0, 30, 8), rng.integers(0, 30, 8), rng.integers(0, 30, (8, 3)))
            for _ in range(5)]


def step(model, optimizers, pos_u, pos_v, neg_v):
    optimizer, scheduler = optimizers
    optimizer.zero_grad()
    loss = model(pos_u, pos_v, neg_v)
    loss.backward()
    optimizer.step()
    scheduler.step()
    return loss.detach()
