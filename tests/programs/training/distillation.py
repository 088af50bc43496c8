"""A student learns from a frozen teacher: KL divergence of softened outputs."""
import torch
import torch.nn as nn
import torch.nn.functional as F

T, ALPHA = 3.0, 0.7


class Distiller(nn.Module):
    def __init__(self):
        super().__init__()
        self.teacher = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(),
                                     nn.Linear(16, 4))
        self.student = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 4))
        self.teacher.requires_grad_(False)

    def train(self, mode=True):
        super().train(mode)
        self.teacher.eval()
        return self


def model():
    return Distiller().train()


def optimizer(model):
    return torch.optim.RAdam(filter(lambda p: p.requires_grad, model.parameters()), lr=0.05)


def batches(rng):
    return [(rng.normal(size=(8, 6)), rng.integers(0, 4, 8)) for _ in range(7)]


def step(model, optimizer, x, y):
    with torch.inference_mode():
        teacher_logits = model.teacher(x)
    teacher_logits = teacher_logits.clone()
    student_logits = model.student(x)
    distillation_loss = nn.KLDivLoss(reduction="batchmean")(
        F.log_softmax(student_logits / T, dim=1), F.softmax(teacher_logits / T, dim=1)) * (T * T)
    loss = ALPHA * distillation_loss + (1.0 - ALPHA) * F.cross_entropy(student_logits, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()
