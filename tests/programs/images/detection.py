"""A detector's loss: boolean masks pick cells with an object, focal loss, IoU of boxes."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def focal_loss(logits, targets, alpha=0.25, gamma=2.0):
    p = torch.sigmoid(logits)
    ce_loss = F.binary_cross_entropy_with_logits(logits, targets, reduction="none")
    p_t = p * targets + (1 - p) * (1 - targets)
    alpha_t = alpha * targets + (1 - alpha) * (1 - targets)
    return (alpha_t * ce_loss * ((1 - p_t) ** gamma)).mean()


def iou(boxes1, boxes2):
    lt = torch.max(boxes1[..., :2], boxes2[..., :2])
    rb = torch.min(boxes1[..., 2:], boxes2[..., 2:])
    wh = (rb - lt).clamp(min=0)
    inter = wh[..., 0] * wh[..., 1]
    area1, area2 = ((b[..., 2:] - b[..., :2]).prod(-1) for b in (boxes1, boxes2))
    return inter / (area1 + area2 - inter + 1e-6)


def model():
    return nn.Sequential(nn.Conv2d(3, 6, 3, stride=2, padding=1), nn.SiLU(), nn.Conv2d(6, 5, 1))


def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def batches(rng):
    for _ in range(4):
        corner, size = rng.random((2, 2, 4, 4, 2))
        has_object = rng.random((2, 4, 4)) > 0.6
        boxes = np.concatenate([corner, corner + size + 0.1], -1)
        yield rng.normal(size=(2, 3, 8, 8)), has_object, boxes


def step(model, optimizer, images, has_object, boxes):
    out = model(images).permute(0, 2, 3, 1)
    confidence, raw = out[..., 0], out[..., 1:]
    predicted = torch.cat([raw[..., :2].sigmoid(), raw[..., :2].sigmoid() + raw[..., 2:].exp()], -1)
    loss = focal_loss(confidence, has_object.to(out.dtype))
    loss += F.smooth_l1_loss(predicted[has_object], boxes[has_object])
    loss += (1 - iou(predicted[has_object], boxes[has_object])).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()
