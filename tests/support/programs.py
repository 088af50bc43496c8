"""Programs on tensors that together need kernels of every kind, for any device."""
from __future__ import annotations

from typing import Any

import numpy as np

import lazyten as lt
from lazyten import nn

Array = np.ndarray[Any, Any]


def results(device: str) -> list[Array]:
    """What programs on tensors give: convolutions, gradients, indices, several outputs a kernel."""
    r = np.random.default_rng(0)

    def t(*shape: int) -> Any:
        return lt.tensor(r.normal(size=shape).astype(np.float32), device=device)
    x, w, image, filters = t(5, 19), t(19, 7), t(2, 3, 9, 11), t(4, 3, 3, 3)
    rows = lt.tensor([0, 3, 3], device=device)
    weights = t(9, 9).requires_grad_()
    (weights @ weights.T).softmax(1)[rows].sum().backward()
    filters.requires_grad_()
    nn.functional.conv2d(image, filters, stride=2, padding=1).relu().sum().backward()
    outputs = [
        x @ w, (w.T @ x.T).contiguous(), (x @ w).softmax(1), t(33, 35).T.contiguous(), x.sum(),
        *x.max(0), x.argmax(1), x.cumsum(1), x.half() * 2, x.bfloat16() + x.bfloat16(),
        x.sin(), (x > 0).any(1), (x * 100).int() // 7, x.double() ** 1.5,
        nn.functional.conv2d(image, filters), nn.functional.max_pool2d(image, 2), x[rows],
        weights.grad, filters.grad, x.flip(1)[:, 3:] + 1, x.unfold(1, 4, 3).sum(2),
        x.sort(1).values,
        lt.zeros(5, 19, device=device).index_add(0, rows, x[:3]), *lt.var_mean(x, 0),
        t(300).sum() + t(3), x.gather(1, (x > 0).long()), lt.cat([x, x * 2], 1)[:, ::2],
        nn.functional.layer_norm(x, (19,)), x.sum(0), (x * x).sum(0)]
    lt.realize(*outputs)
    return [o.detach().double().numpy() for o in outputs]
