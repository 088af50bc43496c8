"""Two tasks: gradients that contradict each other are projected, and the tasks' weights learned."""
import copy

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class PCGrad:
    def __init__(self, optimizer):
        self._optim = optimizer

    def pc_backward(self, objectives):
        grads, has_grads = [], []
        for objective in objectives:
            self._optim.zero_grad(set_to_none=True)
            objective.backward(retain_graph=True)
            grad, has_grad = self._retrieve()
            grads.append(torch.cat([g.flatten() for g in grad]))
            has_grads.append(torch.cat([g.flatten() for g in has_grad]))
        self._set(self._project(grads, has_grads))

    def _project(self, grads, has_grads):
        shared = torch.stack(has_grads).prod(0).bool()
        pc_grad = copy.deepcopy(grads)
        for g_i in pc_grad:
            for g_j in grads:
                g_i_g_j = torch.dot(g_i, g_j)
                if g_i_g_j < 0:
                    g_i -= g_i_g_j * g_j / (g_j.norm() ** 2)
        merged = torch.zeros_like(grads[0]).to(grads[0].device)
        merged[shared] = torch.stack([g[shared] for g in pc_grad]).mean(dim=0)
        merged[~shared] = torch.stack([g[~shared] for g in pc_grad]).sum(dim=0)
        return merged

    def _retrieve(self):
        grad, has_grad = [], []
        for group in self._optim.param_groups:
            for p in group["params"]:
                grad.append(torch.zeros_like(p) if p.grad is None else p.grad.clone())
                has_grad.append(torch.zeros_like(p) if p.grad is None else torch.ones_like(p))
        return grad, has_grad

    def _set(self, merged):
        at = 0
        for group in self._optim.param_groups:
            for p in group["params"]:
                length = np.prod(p.shape)
                p.grad = merged[at:at + length].view(p.shape).clone()
                at += length


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(5, 8), nn.Tanh())
        self.a, self.b = nn.Linear(8, 3), nn.Linear(8, 2)
        self.task_weights = nn.Parameter(torch.ones(2))

    def forward(self, x):
        h = self.trunk(x)
        return self.a(h), self.b(h)


def model():
    return Net()


def optimizer(model):
    rest = [p for n, p in model.named_parameters() if n != "task_weights"]
    inner = torch.optim.Adam(rest, lr=1e-2)
    return inner, PCGrad(inner), torch.optim.Adam([model.task_weights], lr=0.02)


def batches(rng):
    return [(rng.normal(size=(6, 5)), rng.integers(0, 3, (6,)), rng.normal(size=(6, 2)))
            for _ in range(4)]


def step(model, optimizers, x, labels, target):
    inner, surgery, of_weights = optimizers
    a, b = model(x)
    losses = torch.stack([F.cross_entropy(a, labels), F.mse_loss(b, target)])
    norms = []
    for weight, loss in zip(model.task_weights, losses):
        first = torch.autograd.grad(loss, model.trunk[0].parameters(), retain_graph=True)[0]
        norms.append(torch.norm(torch.mul(weight, first)))
    norms = torch.stack(norms)
    mean_norm = np.mean(norms.detach().cpu().numpy())
    balance = torch.sum(torch.abs(norms - torch.tensor(mean_norm, requires_grad=False)))
    model.task_weights.grad = torch.autograd.grad(balance, model.task_weights,
                                                  retain_graph=True)[0]
    surgery.pc_backward(list(model.task_weights.detach() * losses))
    inner.step()
    of_weights.step()
    model.task_weights.data = model.task_weights.data * (2 / torch.sum(model.task_weights.data))
    return losses.detach(), balance.detach()
