"""An autoencoder with a codebook that moving averages train, and codes that nobody uses renewed."""
import torch
import torch.nn.functional as F
from torch import einsum, nn


def ema_inplace(moving_avg, new, decay):
    moving_avg.data.mul_(decay).add_(new, alpha=1 - decay)


def laplace_smoothing(x, n_categories, eps=1e-5, dim=-1):
    denom = x.sum(dim=dim, keepdim=True)
    return (x + eps) / (denom + n_categories * eps)


class Codebook(nn.Module):
    def __init__(self, dim, codebook_size, decay=0.8):
        super().__init__()
        embed = torch.empty(codebook_size, dim)
        nn.init.kaiming_uniform_(embed)
        self.decay, self.codebook_size = decay, codebook_size
        self.register_buffer("initted", torch.Tensor([True]))
        self.register_buffer("cluster_size", torch.zeros(codebook_size))
        self.register_buffer("embed_avg", embed.clone())
        self.register_buffer("embed", embed)

    @torch.jit.ignore
    def init_embed_(self, data):
        if self.initted:
            return
        self.embed.data.copy_(data[:self.codebook_size])
        self.initted.data.copy_(torch.Tensor([True]))

    def replace(self, samples, mask):
        if not torch.any(mask):
            return
        sampled = samples[:mask.sum().item()]
        self.embed.data[mask] = sampled
        self.cluster_size.data[mask] = 1.
        self.embed_avg.data[mask] = sampled

    def forward(self, x):
        flatten = x.reshape(-1, x.shape[-1])
        self.init_embed_(flatten)
        embed = self.embed.detach()
        dist = -torch.cdist(flatten, embed, p=2)
        embed_ind = dist.argmax(dim=-1)
        onehot = F.one_hot(embed_ind, self.codebook_size).type(x.dtype)
        quantize = F.embedding(embed_ind, embed).view(x.shape)
        if self.training:
            ema_inplace(self.cluster_size, onehot.sum(dim=0), self.decay)
            ema_inplace(self.embed_avg, einsum("n d, n c -> c d", flatten.detach(), onehot),
                        self.decay)
            size = laplace_smoothing(self.cluster_size, self.codebook_size)
            size = size * self.cluster_size.sum(dim=-1, keepdim=True)
            self.embed.data.copy_(self.embed_avg / size.unsqueeze(-1))
            self.replace(flatten.detach(), self.cluster_size < 0.1)
        return quantize, embed_ind.view(x.shape[:-1])


class VQVAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(1, 8, 4, 2, 1), nn.ReLU(True), nn.Conv2d(8, 6, 1))
        self.layers = nn.ModuleList([Codebook(6, 8) for _ in range(2)])
        self.decoder = nn.Sequential(nn.Conv2d(6, 8, 3, padding=1), nn.ReLU(True),
                                     nn.ConvTranspose2d(8, 1, 4, 2, 1), nn.Tanh())

    def forward(self, x):
        residual = self.encoder(x).permute(0, 2, 3, 1)
        quantized_out, commits, indices = 0., [], []
        for layer in self.layers:
            quantized, ind = layer(residual)
            commits.append(F.mse_loss(quantized.detach(), residual))
            quantized = residual + (quantized - residual).detach()
            residual = residual - quantized.detach()
            quantized_out = quantized_out + quantized
            indices.append(ind)
        return (self.decoder(quantized_out.permute(0, 3, 1, 2)), torch.stack(commits),
                torch.stack(indices, dim=-1))


def model():
    return VQVAE()


def optimizer(model):
    return torch.optim.Adam(model.parameters(), lr=3e-3)


def batches(rng):
    return [(rng.random((3, 1, 8, 8)),) for _ in range(4)]


def step(model, optimizer, x):
    out, commit, indices = model(x)
    loss = F.l1_loss(out, x) + 0.25 * commit.sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach(), indices
