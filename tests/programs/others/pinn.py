"""A physics-informed network: Burgers' equation by autograd.grad with create_graph."""
import torch
import torch.nn as nn


class PINN(nn.Module):
    def __init__(self, layers=(2, 8, 8, 1)):
        super().__init__()
        self.linears = nn.ModuleList([nn.Linear(i, o)
                                      for i, o in zip(layers[:-1], layers[1:])])
        self.nu = nn.Parameter(torch.tensor(0.05))

    def forward(self, x, t):
        a = torch.hstack([x, t])
        for layer in self.linears[:-1]:
            a = torch.tanh(layer(a))
        return self.linears[-1](a)

    def residual(self, x, t):
        x.requires_grad_(True)
        t.requires_grad_(True)
        u = self(x, t)
        ones = torch.ones_like(u)
        u_t = torch.autograd.grad(u, t, grad_outputs=ones, create_graph=True)[0]
        u_x = torch.autograd.grad(u, x, grad_outputs=ones, create_graph=True,
                                  retain_graph=True)[0]
        u_xx = torch.autograd.grad(u_x.sum(), x, create_graph=True)[0]
        return u_t + u * u_x - self.nu * u_xx


def model():
    return PINN()


def optimizer(model):
    return torch.optim.Adam(model.parameters(), lr=5e-3)


def batches(rng):
    return [(*rng.random((4, 10, 1)),) for _ in range(4)]


def step(model, optimizer, x, t, x0, u0):
    optimizer.zero_grad()
    f = model.residual(x.clone(), t.clone())
    loss = (f ** 2).mean() + torch.mean((model(x0, torch.zeros_like(x0)) - u0) ** 2)
    loss.backward()
    optimizer.step()
    return loss.detach()
