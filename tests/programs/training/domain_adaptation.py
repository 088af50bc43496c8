"""Domain adaptation: gradients reversed on the way to the features, tied autoencoder beside it."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.autograd import Function


class ReverseLayerF(Function):
    @staticmethod
    def forward(ctx, x, alpha):
        ctx.alpha = alpha
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad_output):
        output = grad_output.neg() * ctx.alpha
        return output, None


class DANN(nn.Module):
    def __init__(self):
        super().__init__()
        self.feature = nn.Linear(6, 5)
        self.out_bias = nn.Parameter(torch.zeros(6))
        self.class_classifier = nn.Linear(5, 3)
        self.domain_classifier = nn.Sequential(nn.Linear(5, 4), nn.ReLU(True), nn.Linear(4, 2))

    def forward(self, x, alpha):
        feature = torch.tanh(self.feature(x))
        back = F.linear(feature, self.feature.weight.t(), self.out_bias)
        reverse_feature = ReverseLayerF.apply(feature, alpha)
        return (F.log_softmax(self.class_classifier(feature), dim=1),
                F.log_softmax(self.domain_classifier(reverse_feature), dim=1), back)


def model():
    return DANN()


def optimizer(model):
    return torch.optim.Adam(model.parameters(), lr=1e-2)


def batches(rng):
    return [(rng.normal(size=(6, 6)), rng.integers(0, 3, 6), rng.normal(size=(6, 6)) + 1)
            for _ in range(4)]


def step(model, optimizer, source, labels, target):
    optimizer.zero_grad()
    loss_class = nn.NLLLoss()
    class_output, source_domain, source_back = model(source, alpha=0.5)
    _, target_domain, target_back = model(target, alpha=0.5)
    err = loss_class(class_output, labels)
    err += loss_class(source_domain, torch.zeros(len(source)).long())
    err += loss_class(target_domain, torch.ones(len(target)).long())
    err += F.mse_loss(source_back, source) + F.mse_loss(target_back, target)
    err.backward()
    optimizer.step()
    return err.detach()
