"""Products of matrices, and what is made of them."""
from __future__ import annotations

import lazyten as lt
from lazyten.onnx.table import operator

T = lt.Tensor


@operator("MatMul")
def matmul(a: T, b: T) -> T:
    """Products of matrices, a batch of them if there are more axes."""
    return lt.matmul(a, b)


@operator("Gemm", since=7)
def gemm(a: T, b: T, c: T | None = None, *, alpha: float = 1.0, beta: float = 1.0,
         transA: int = 0, transB: int = 0) -> T:
    """alpha a b + beta c, with a and b transposed if asked."""
    found = lt.matmul(a.mT if transA else a, b.mT if transB else b)
    if alpha != 1:
        found = found * alpha
    if c is not None:
        found = found + (c if beta == 1 else c * beta)
    return found.to(a.dtype)


@operator("Einsum")
def einsum(*inputs: T, equation: str) -> T:
    """Sums of products, as an equation says."""
    return lt.einsum(equation, *inputs)


@operator("Det")
def determinant(x: T) -> T:
    """Determinants of matrices by elimination, with the greatest element of a column as pivot."""
    shape, n = x.shape[:-2], x.shape[-1]
    m = x.reshape(-1, n, n)
    found = lt.ones(m.shape[0], dtype=x.dtype, device=x.device)
    rows = lt.arange(n, device=x.device)
    for i in range(n):
        left = lt.where(rows >= i, m[:, :, i].abs(), -1.0)
        pivot = left.argmax(1)[:, None]
        moved = lt.where(rows == i, pivot, lt.where(rows == pivot, i, rows))
        m = m.gather(1, moved[:, :, None].expand(m.shape))
        head = m[:, i, i]
        found = found * head * lt.where(pivot[:, 0] == i, 1.0, -1.0).to(x.dtype)
        factor = m[:, :, i] / lt.where(head == 0, lt.ones_like(head), head)[:, None]
        factor = lt.where(rows > i, factor, 0.0).to(x.dtype)
        m = m - factor[:, :, None] * m[:, i][:, None, :]
    return found.reshape(shape)
