"""A neural differential equation whose gradient is that of an adjoint, solved backwards."""
import torch
import torch.nn.functional as F
from torch import nn


def ode_solve(z, t0, t1, f, n_steps=2):
    h = (t1 - t0) / n_steps
    t = t0
    for _ in range(n_steps):
        z = z + h * f(z, t)
        t = t + h
    return z


class Dynamics(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = nn.Linear(4 + 1, 8)
        self.l2 = nn.Linear(8, 4)

    def forward(self, z, t):
        tt = t.expand(z.shape[0]).unsqueeze(-1)
        return self.l2(torch.tanh(self.l1(torch.cat((z, tt), -1))))

    def with_grad(self, z, t, grad_outputs):
        out = self.forward(z, t)
        adfdz, adfdt, *adfdp = torch.autograd.grad(
            (out,), (z, t) + tuple(self.parameters()), grad_outputs=(grad_outputs,),
            allow_unused=True, retain_graph=True)
        adfdp = torch.cat([p.flatten() for p in adfdp]).unsqueeze(0)
        return out, adfdz, adfdt, adfdp.expand(z.shape[0], -1) / z.shape[0]

    def flatten_parameters(self):
        return torch.cat([p.flatten() for p in self.parameters()])


class Adjoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, z0, t, flat_parameters, func):
        with torch.no_grad():
            z = torch.zeros(len(t), *z0.shape).to(z0)
            z[0] = z0
            for i in range(len(t) - 1):
                z0 = ode_solve(z0, t[i], t[i + 1], func)
                z[i + 1] = z0
        ctx.func = func
        ctx.save_for_backward(t, z.clone(), flat_parameters)
        return z

    @staticmethod
    def backward(ctx, dLdz):
        func = ctx.func
        t, z, flat_parameters = ctx.saved_tensors
        steps, bs, n = z.size()

        def augmented(aug, t_i):
            z_i, a = aug[:, :n], aug[:, n:2 * n]
            with torch.set_grad_enabled(True):
                t_i = t_i.detach().requires_grad_(True)
                z_i = z_i.detach().requires_grad_(True)
                out, adfdz, _, adfdp = func.with_grad(z_i, t_i, grad_outputs=a)
            return torch.cat((out, -adfdz, -adfdp), dim=1)

        with torch.no_grad():
            adj_z = torch.zeros(bs, n).to(dLdz)
            adj_p = torch.zeros(bs, flat_parameters.size(0)).to(dLdz)
            for i in range(steps - 1, 0, -1):
                adj_z += dLdz[i]
                aug = torch.cat((z[i], adj_z, torch.zeros_like(adj_p)), dim=-1)
                aug = ode_solve(aug, t[i], t[i - 1], augmented)
                adj_z[:] = aug[:, n:2 * n]
                adj_p[:] += aug[:, 2 * n:]
            adj_z += dLdz[0]
        return adj_z, torch.zeros(steps, bs, 1), adj_p.sum(0), None


def model():
    return Dynamics()


def optimizer(model):
    return torch.optim.Adam(model.parameters(), lr=1e-2)


def batches(rng):
    return [(rng.normal(size=(3, 4)), rng.normal(size=(3, 3, 4))) for _ in range(4)]


def step(model, optimizer, z0, target):
    t = torch.tensor([0., .5, 1.]).to(z0)
    z0.requires_grad_(True)
    z = Adjoint.apply(z0, t, model.flatten_parameters(), model)
    loss = F.mse_loss(z, target.transpose(0, 1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach(), z0.grad
