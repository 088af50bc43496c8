"""Sparse gradients of embeddings, and the optimizers that take them, beside PyTorch's."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lazyten as lt

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

WEIGHT = np.random.default_rng(0).normal(size=(9, 3))
LABELS = np.random.default_rng(1).integers(0, 9, (5, 2, 4))


def layer(T: Any, name: str, **options: Any) -> Any:
    return getattr(T.nn, name).from_pretrained(T.tensor(WEIGHT), freeze=False, sparse=True,
                                               **options)


LAYERS: dict[str, Callable[[Any], Any]] = {
    "embedding": lambda T: layer(T, "Embedding"),
    "padding": lambda T: layer(T, "Embedding", padding_idx=2),
    "bags of sums": lambda T: layer(T, "EmbeddingBag", mode="sum"),
    "bags of means": lambda T: layer(T, "EmbeddingBag", mode="mean"),
}
OPTIMIZERS: dict[str, Callable[[Any, Any], Any]] = {
    "SGD": lambda T, p: T.optim.SGD(p, lr=0.1),
    "SGD with momentum": lambda T, p: T.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.1),
    "SGD uphill": lambda T, p: T.optim.SGD(p, lr=0.1, maximize=True),
    "Adagrad": lambda T, p: T.optim.Adagrad(p, lr=0.1, lr_decay=0.01),
    "SparseAdam": lambda T, p: T.optim.SparseAdam(p, lr=0.1, betas=(0.8, 0.95), eps=1e-6),
    "SparseAdam uphill": lambda T, p: T.optim.SparseAdam(p, lr=0.1, maximize=True),
}


def trained(T: Any, kind: str, name: str) -> tuple[list[float], Any]:
    """The losses of five steps, and the weight after them."""
    module, losses = LAYERS[kind](T), []
    optimizer = OPTIMIZERS[name](T, list(module.parameters()))
    for labels in LABELS:
        optimizer.zero_grad()
        loss = (module(T.tensor(labels)) ** 2).sum() + module(T.tensor(labels[:1])).sum()
        loss.backward()
        assert module.weight.grad.is_sparse
        optimizer.step()
        losses.append(loss.item())
    return losses, module.weight.detach().numpy()


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("kind", LAYERS)
def test_training_with_sparse_gradients_is_pytorchs(kind: str, name: str) -> None:
    for mine, theirs in zip(*[trained(T, kind, name) for T in (lt, torch)], strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9)


def looked_up(T: Any, *labels: int) -> tuple[Any, Any]:
    w = T.tensor(WEIGHT, requires_grad=True)
    return w, T.nn.functional.embedding(T.tensor(labels), w, sparse=True)


def alone(T: Any) -> Any:
    w, rows = looked_up(T, 1, 1, 3)
    (rows ** 2).sum().backward()
    return w.grad


def once_more(T: Any) -> Any:
    w, rows = looked_up(T, 1, 3)
    rows.sum().backward()
    T.nn.functional.embedding(T.tensor([3, 0]), w, sparse=True).sum().backward()
    return w.grad


def beside_a_dense_use(T: Any) -> Any:
    w, rows = looked_up(T, 1, 1)
    (rows.sum() + (w ** 2).sum()).backward()
    return w.grad


def before_a_dense_gradient(T: Any) -> Any:
    w, rows = looked_up(T, 1, 1)
    rows.sum().backward()
    (w ** 2).sum().backward()
    return w.grad


def after_a_dense_gradient(T: Any) -> Any:
    w, rows = looked_up(T, 1, 1)
    (w ** 2).sum().backward()
    rows.sum().backward()
    return w.grad


def asked_for(T: Any) -> Any:
    w, rows = looked_up(T, 1, 1, 0)
    return T.autograd.grad(rows.sum(), w)[0]


def of_no_row(T: Any) -> Any:
    w = T.tensor(WEIGHT, requires_grad=True)
    T.nn.functional.embedding(T.zeros(2, 0, dtype=T.int64), w, sparse=True).sum().backward()
    return w.grad


def of_no_row_and_once_more(T: Any) -> Any:
    w = T.tensor(WEIGHT, requires_grad=True)
    no = T.zeros(0, dtype=T.int64)
    T.nn.functional.embedding(no, w, sparse=True).sum().backward()
    (T.nn.functional.embedding(T.tensor([3, 3]), w, sparse=True) ** 2).sum().backward()
    T.nn.functional.embedding_bag(no, w, T.tensor([0, 0]), mode="sum", sparse=True).sum().backward()
    return w.grad


def of_no_bag(T: Any) -> Any:
    w, no = T.tensor(WEIGHT, requires_grad=True), T.zeros(0, dtype=T.int64)
    found = T.nn.functional.embedding_bag(no, w, no, mode="sum", sparse=True)
    assert found.shape == (0, 3)
    found.sum().backward()
    optimizer = T.optim.SparseAdam([w], lr=0.1)
    optimizer.step()
    assert w.tolist() == WEIGHT.tolist()
    return w.grad


def set_by_hand(T: Any) -> Any:
    w = T.tensor(WEIGHT, requires_grad=True)
    w.grad = T.tensor(WEIGHT).to_sparse() * 2
    (w ** 2).sum().backward()
    return w.grad


GRADIENTS = {f.__name__: f for f in (
    alone, once_more, beside_a_dense_use, before_a_dense_gradient, after_a_dense_gradient,
    asked_for, of_no_row, of_no_row_and_once_more, of_no_bag, set_by_hand)}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_are_sparse_where_pytorchs_are(name: str) -> None:
    mine, theirs = (GRADIENTS[name](T) for T in (lt, torch))
    assert mine.is_sparse is theirs.is_sparse
    if theirs.is_sparse:
        assert mine._indices().tolist() == theirs._indices().tolist()
    np.testing.assert_allclose(mine.to_dense().numpy(), theirs.to_dense().numpy())


def test_the_state_of_sparse_adam_is_pytorchs_and_is_loaded_again() -> None:
    states = []
    for T in (lt, torch):
        module = layer(T, "Embedding")
        optimizer = T.optim.SparseAdam(list(module.parameters()), lr=0.1)
        for labels in LABELS[:2]:
            (module(T.tensor(labels)) ** 2).sum().backward()
            optimizer.step()
            module.zero_grad()
        other = T.optim.SparseAdam(list(module.parameters()))
        other.load_state_dict(optimizer.state_dict())
        (module(T.tensor(LABELS[3])) ** 2).sum().backward()
        other.step()
        states.append((other.state_dict()["state"][0], other.param_groups[0]["lr"]))
    assert states[0][0].keys() == states[1][0].keys()
    assert states[0][1] == states[1][1] == 0.1
    for name in ("exp_avg", "exp_avg_sq"):
        np.testing.assert_allclose(*[state[name].numpy() for state, _ in states], rtol=1e-9)


def product_of(T: Any) -> type[Any]:
    """A sparse matrix times a dense one, as an operation with a gradient of its own."""
    class Product(T.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, sparse: Any, dense: Any, values: Any) -> Any:
            inside = T.sparse_coo_tensor(sparse.indices(), values, sparse.shape)
            ctx.save_for_backward(sparse, None, dense, inside)
            return T.sparse.mm(sparse, dense) + T.matmul(inside, dense)

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            sparse, nothing, dense, inside = ctx.saved_tensors
            assert nothing is None and sparse.is_sparse and inside.layout == T.sparse_coo
            assert ctx.needs_input_grad == (False, True, True)
            at = sparse.indices()
            return None, T.sparse.mm((sparse + inside).t(), gradient), \
                gradient.matmul(dense.t())[at[0], at[1]]

    return Product


def test_a_users_operation_takes_and_saves_sparse_tensors() -> None:
    found = []
    for T in (lt, torch):
        places, values = T.tensor([[0, 1, 1], [2, 0, 2]]), T.tensor([3.0, 4.0, 5.0])
        sparse = T.sparse_coo_tensor(places, values, (2, 3)).coalesce()
        dense = T.tensor(WEIGHT[:3]).float().requires_grad_()
        values = (values * 0.5).requires_grad_()
        result = product_of(T).apply(sparse, dense, values)
        result.square().sum().backward()
        found.append([x.detach().numpy() for x in (result, dense.grad, values.grad)])
    for mine, other in zip(*found, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-5)


def test_gradients_of_sparse_arguments_and_results_of_a_users_operation_are_refused() -> None:
    class Same(lt.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x

    class Sparse(lt.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return lt.sparse_coo_tensor(lt.tensor([[0, 1]]), x, (4,))

    given = lt.sparse_coo_tensor(lt.tensor([[0, 1]]), lt.ones(2), (4,))
    assert Same.apply(given).to_dense().tolist() == [1.0, 1.0, 0.0, 0.0]
    with pytest.raises(lt.GradientError, match="no sparse argument"):
        Same.apply(given.requires_grad_())
    with pytest.raises(lt.GradientError, match="no sparse result"):
        Sparse.apply(lt.ones(2, requires_grad=True))
