"""A codebook of running averages: buffers assigned in forward, straight-through gradients."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class VectorQuantizerEMA(nn.Module):
    def __init__(self, num_embeddings, embedding_dim, decay=0.9, epsilon=1e-5):
        super().__init__()
        self.num_embeddings, self.decay, self.epsilon = num_embeddings, decay, epsilon
        embed = torch.randn(num_embeddings, embedding_dim)
        self.register_buffer("embedding", embed)
        self.register_buffer("ema_w", embed.clone())
        self.register_buffer("cluster_size", torch.zeros(num_embeddings))
        self.register_buffer("steps", torch.tensor(0, dtype=torch.long))

    def forward(self, x):
        distances = (torch.sum(x ** 2, dim=1, keepdim=True) + torch.sum(self.embedding ** 2, dim=1)
                     - 2 * torch.matmul(x, self.embedding.t()))
        indices = torch.argmin(distances, dim=1)
        encodings = F.one_hot(indices, self.num_embeddings).type(x.dtype)
        quantized = torch.matmul(encodings, self.embedding)
        if self.training:
            with torch.no_grad():
                self.steps += 1
                self.cluster_size = self.cluster_size * self.decay + \
                    (1 - self.decay) * torch.sum(encodings, 0)
                n = torch.sum(self.cluster_size)
                size = (self.cluster_size + self.epsilon) / \
                    (n + self.num_embeddings * self.epsilon) * n
                self.ema_w.mul_(self.decay).add_(encodings.t() @ x, alpha=1 - self.decay)
                self.embedding.copy_(self.ema_w / size.unsqueeze(1))
        loss = 0.25 * F.mse_loss(quantized.detach(), x)
        return x + (quantized - x).detach(), loss


class VQ(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = nn.Linear(8, 3), nn.Linear(3, 8)
        self.quantizer = VectorQuantizerEMA(5, 3)

    def forward(self, x):
        quantized, loss = self.quantizer(self.encoder(x))
        return self.decoder(quantized), loss


def model():
    return VQ()


def optimizer(model):
    return torch.optim.Adam(model.parameters(), lr=1e-2, amsgrad=False)


def batches(rng):
    return [(rng.normal(size=(10, 8)),) for _ in range(4)]


def step(model, optimizer, data):
    optimizer.zero_grad()
    data_recon, vq_loss = model(data)
    loss = F.mse_loss(data_recon, data) + vq_loss
    loss.backward()
    optimizer.step()
    return loss.detach()
