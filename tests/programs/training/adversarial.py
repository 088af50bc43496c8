"""Adversarial training: FGSM by the gradient of the input, then PGD that is projected back."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def fgsm(model, X, y, epsilon):
    delta = torch.zeros_like(X, requires_grad=True)
    loss = nn.CrossEntropyLoss()(model(X + delta), y)
    loss.backward()
    return epsilon * delta.grad.detach().sign()


def pgd(model, X, y, epsilon, alpha, num_iter):
    x_adv = X.detach().clone()
    for _ in range(num_iter):
        x_adv.requires_grad_()
        with torch.enable_grad():
            loss = F.cross_entropy(model(x_adv), y)
        grad = torch.autograd.grad(loss, [x_adv])[0]
        x_adv = x_adv.detach() + alpha * torch.sign(grad.detach())
        x_adv = torch.min(torch.max(x_adv, X - epsilon), X + epsilon)
    return x_adv


def model():
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.2)


def batches(rng):
    return [(rng.normal(size=(7, 6)), rng.integers(0, 3, 7)) for _ in range(4)]


def step(model, optimizer, x, y):
    x_fast, x_slow = x + fgsm(model, x, y, 0.1), pgd(model, x, y, 0.1, 0.04, 3)
    optimizer.zero_grad()
    logits = model(torch.vstack((x, x_fast, x_slow)))
    loss = F.cross_entropy(logits, y.repeat(3))
    loss.backward()
    optimizer.step()
    return loss.detach()
