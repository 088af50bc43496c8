"""An ensemble: the state of several models stacked, and one vmap over all of them."""
import copy

import torch
from torch import nn
from torch.func import functional_call, stack_module_state, vmap


class Member(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(4, 6)
        self.fc2 = nn.Linear(6, 3)
        self.register_buffer("scale", torch.tensor([0.5]))

    def forward(self, x):
        return self.fc2(torch.tanh(self.fc1(x))) * self.scale


def model():
    return nn.ModuleList([Member() for _ in range(3)])


def optimizer(model):
    params, buffers = stack_module_state(list(model))
    return torch.optim.SGD(list(params.values()), lr=0.5), params, buffers


def batches(rng):
    return [(rng.normal(size=(5, 4)), rng.integers(0, 3, 5)) for _ in range(3)]


def step(model, optimizer, x, y):
    sgd, params, buffers = optimizer
    base = copy.deepcopy(model[0])

    def member(params, buffers, x):
        return functional_call(base, (params, buffers), (x,))

    logits = vmap(member, in_dims=(0, 0, None))(params, buffers, x)
    loss = sum(nn.functional.cross_entropy(one, y) for one in logits)
    sgd.zero_grad()
    loss.backward()
    sgd.step()
    with torch.no_grad():
        for i, one in enumerate(model):
            for name, p in one.named_parameters():
                p.copy_(params[name][i])
    return loss.detach(), logits.detach()
