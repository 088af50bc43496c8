"""Skip-gram with negative sampling, and a closest word by cosine."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class SkipGram(nn.Module):
    def __init__(self, emb_size, emb_dimension):
        super().__init__()
        self.u_embeddings = nn.Embedding(emb_size, emb_dimension)
        self.v_embeddings = nn.Embedding(emb_size, emb_dimension)
        initrange = 1.0 / emb_dimension
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
    return SkipGram(12, 5)


def optimizer(model):
    return torch.optim.Adagrad(model.parameters(), lr=0.2)


def batches(rng):
    return [(rng.integers(0, 12, 8), rng.integers(0, 12, 8), rng.integers(0, 12, (8, 3)))
            for _ in range(5)]


def step(model, optimizer, pos_u, pos_v, neg_v):
    optimizer.zero_grad()
    loss = model(pos_u, pos_v, neg_v)
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        table = model.u_embeddings.weight
        similar = F.cosine_similarity(table[3:4], table).topk(3).indices
    return loss.detach(), similar
