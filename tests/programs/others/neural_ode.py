"""A neural ODE: Runge-Kutta steps through one network, gradients through all of them."""
import torch
import torch.nn as nn


class ODEFunc(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 10), nn.Tanh(), nn.Linear(10, 2))
        for m in self.net.modules():
            if isinstance(m, nn.Linear):
                nn.init.normal_(m.weight, mean=0, std=0.3)
                nn.init.constant_(m.bias, val=0)

    def forward(self, t, y):
        return self.net(y ** 3) * torch.cos(t)


def odeint(func, y0, t):
    solution = [y0]
    for t0, t1 in zip(t[:-1], t[1:]):
        y, dt = solution[-1], t1 - t0
        k1 = func(t0, y)
        k2 = func(t0 + dt / 2, y + dt * k1 / 2)
        k3 = func(t0 + dt / 2, y + dt * k2 / 2)
        k4 = func(t1, y + dt * k3)
        solution.append(y + (k1 + 2 * (k2 + k3) + k4) * dt / 6)
    return torch.stack(solution)


def model():
    return ODEFunc()


def optimizer(model):
    return torch.optim.RMSprop(model.parameters(), lr=1e-3)


def batches(rng):
    return [(rng.normal(size=(5, 2)), rng.normal(size=(4, 5, 2))) for _ in range(4)]


def step(func, optimizer, y0, true_y):
    optimizer.zero_grad()
    t = torch.linspace(0.0, 1.0, 4, dtype=y0.dtype)
    pred_y = odeint(func, y0, t)
    loss = torch.mean(torch.abs(pred_y - true_y))
    loss.backward()
    optimizer.step()
    return loss.detach()
