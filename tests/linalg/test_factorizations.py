"""`lt.linalg` beside NumPy and differences of values; in lt.jit, vmap and lt.func; its errors."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lazyten as lt
from lazyten.autograd import gradcheck, gradgradcheck
from lazyten.execution.blas import _limit
from lazyten.linalg import host

Array = np.ndarray[Any, Any]
rng = np.random.default_rng(0)
SQUARE = rng.normal(size=(2, 3, 3)) + 3 * np.eye(3)
TALL, WIDE = rng.normal(size=(2, 4, 3)), rng.normal(size=(2, 3, 5))
POSITIVE = SQUARE @ np.swapaxes(SQUARE, -1, -2)


def same(found: lt.Tensor, expected: Any) -> None:
    np.testing.assert_allclose(found.detach().numpy(), expected, 1e-9, 1e-10)


@pytest.mark.parametrize("a", [SQUARE, TALL, WIDE, np.zeros((2, 0, 3)), np.zeros((0, 3, 3))],
                         ids=["square", "tall", "wide", "no rows", "no matrices"])
def test_factors_multiply_to_the_matrix(a: Array) -> None:
    x = lt.tensor(a)
    m, n = a.shape[-2:]
    q, r = lt.linalg.qr(x)
    same(q @ r, a)
    same(q.mT @ q, np.broadcast_to(np.eye(min(m, n)), (len(a), min(m, n), min(m, n))))
    p, lower, upper = lt.linalg.lu(x)
    same(p @ lower @ upper, a)
    assert float(lower.triu(1).abs().sum()) == float(upper.tril(-1).abs().sum()) == 0
    for full in (True, False):
        u, s, vh = lt.linalg.svd(x, full)
        k = s.shape[-1]
        same(u[..., :k] * s.unsqueeze(-2) @ vh[..., :k, :], a)
    same(x @ lt.linalg.pinv(x) @ x, a)


def test_factors_of_square_matrices() -> None:
    x, positive, b = lt.tensor(SQUARE), lt.tensor(POSITIVE), lt.tensor(TALL[:, :3])
    same(x @ lt.linalg.inv(x), np.broadcast_to(np.eye(3), SQUARE.shape))
    same(x @ lt.linalg.solve(x, b), b.numpy())
    same(x.tril() @ lt.linalg.solve_triangular(x, b, upper=False), b.numpy())
    lower = lt.linalg.cholesky(positive)
    same(lower @ lower.mT, POSITIVE)
    same(lt.cholesky_solve(b, lower), np.linalg.solve(POSITIVE, b.numpy()))
    values, vectors = lt.linalg.eigh(positive)
    same(vectors * values.unsqueeze(-2) @ vectors.mT, POSITIVE)
    same(positive.det(), np.linalg.det(POSITIVE))
    same(positive.logdet(), np.log(np.linalg.det(POSITIVE)))
    same(lt.linalg.lu_solve(*lt.linalg.lu_factor(x), b), np.linalg.solve(SQUARE, b.numpy()))
    same(lt.linalg.lstsq(lt.tensor(TALL[0]), lt.tensor(TALL[1]))[0],
         np.linalg.lstsq(TALL[0], TALL[1])[0])
    same(lt.linalg.matrix_power(x, -2) @ x @ x, np.broadcast_to(np.eye(3), SQUARE.shape))


def test_exponentials_of_small_and_large_matrices_are_those_of_their_eigenvalues() -> None:
    for scale in (0.0, 1e-3, 1.0, 30.0):
        values, vectors = np.linalg.eigh(POSITIVE[0] / np.linalg.norm(POSITIVE[0]) * scale)
        exact = vectors * np.exp(values) @ vectors.T
        found = lt.linalg.matrix_exp(lt.tensor(vectors * values @ vectors.T)).numpy()
        np.testing.assert_allclose(found, exact, 1e-11, 1e-13 * np.exp(scale))


def test_reflections_multiply_to_q() -> None:
    for a in (SQUARE, TALL):
        factors, tau = lt.geqrf(lt.tensor(a))
        q = lt.linalg.householder_product(factors, tau)
        same(q @ factors[..., :a.shape[-1], :].triu(), a)
        whole = lt.ormqr(factors, tau, lt.eye(a.shape[-2], dtype=lt.float64).expand(len(a), -1, -1))
        same(whole[..., :a.shape[-1]], q.numpy())
        same(lt.ormqr(factors, tau, whole, transpose=True),
             np.broadcast_to(np.eye(a.shape[-2]), whole.shape))


def test_factors_of_indefinite_matrices_solve() -> None:
    a = rng.normal(size=(3, 6, 6))
    a = np.round(a + np.swapaxes(a, -1, -2), 1) * (1 - np.eye(6))  # blocks of two rows
    factors, pivots = lt.linalg.ldl_factor(lt.tensor(a))
    assert bool((pivots < 0).any())
    same(lt.linalg.ldl_solve(factors, pivots, lt.tensor(a[0])), np.linalg.solve(a, a[0]))


def test_the_largest_parts_of_a_matrix() -> None:
    a = rng.normal(size=(30, 3)) @ rng.normal(size=(3, 20))
    u, s, v = lt.svd_lowrank(lt.tensor(a))
    same(s[:3], np.linalg.svd(a)[1][:3])
    same(u * s @ v.T, a)
    _, s, v = lt.pca_lowrank(lt.tensor(a), 3)
    np.testing.assert_allclose((s.square() / 29).numpy(), np.linalg.eigvalsh(np.cov(a.T))[:-4:-1])
    values, vectors = lt.lobpcg(lt.tensor(a.T @ a), 3, tol=1e-13)
    same(values, np.linalg.eigvalsh(a.T @ a)[:-4:-1])
    same(vectors.T @ vectors, np.eye(3))


def low_rank_product(a: lt.Tensor) -> lt.Tensor:
    """Of what is drawn from one state, so that differences are of a function."""
    lt.manual_seed(0)
    u, s, v = lt.svd_lowrank(a, 2, 1)
    return (u * s) @ v.T


GRADIENTS: dict[str, tuple[Callable[..., Any], Array]] = {
    "inv": (lt.linalg.inv, SQUARE[0]),
    "solve": (lambda a: lt.linalg.solve(a, a[:, :2]), SQUARE[0]),
    "solve_triangular": (lambda a: lt.linalg.solve_triangular(a, a.T, upper=True), SQUARE[0]),
    "cholesky": (lambda a: lt.linalg.cholesky(a @ a.mT), SQUARE[0]),
    "det": (lt.linalg.det, SQUARE[0]),
    "logdet": (lambda a: lt.logdet(a @ a.mT), SQUARE[0]),
    "qr": (lambda a: tuple(lt.linalg.qr(a)), TALL[0]),
    "qr wide": (lambda a: lt.linalg.qr(a)[1], WIDE[0]),
    "lu": (lambda a: lt.linalg.lu_factor(a)[0], SQUARE[0]),
    "eigh": (lambda a: lt.linalg.eigh(a @ a.mT).eigenvectors.square(), SQUARE[0]),
    "svd": (lambda a: lt.linalg.svd(a, False).U.square(), TALL[0]),
    "pinv": (lt.linalg.pinv, WIDE[0]),
    "lstsq": (lambda a: lt.linalg.lstsq(a, a.square())[0], TALL[0]),
    "matrix_exp": (lt.linalg.matrix_exp, SQUARE[0] / 4),
    "householder_product": (lambda a: lt.linalg.householder_product(a, a[0] * a[1]), TALL[0]),
    "ormqr": (lambda a: lt.ormqr(a, a[0] * a[1], a.sin(), transpose=True), TALL[0]),
    "ldl_solve": (lambda b: lt.linalg.ldl_solve(*lt.linalg.ldl_factor(
        lt.tensor(SQUARE[0] + SQUARE[0].T)), b.square()), SQUARE[1]),
    "svd_lowrank": (low_rank_product, TALL[0]),
    "lobpcg": (lambda a: lt.lobpcg(lt.cat([a, a.cos(), a.exp()], 1) @ lt.cat(
        [a, a.cos(), a.exp()], 1).mT, tol=1e-14)[1].square(), TALL[0]),
    "lobpcg with B": (lambda a: lt.lobpcg(
        lt.tensor(np.diag([1.0, 2, 5, 7])), B=a @ a.mT + lt.eye(4, dtype=lt.float64),
        X=lt.tensor(TALL[1][:, :1]), tol=1e-14)[1].square(), TALL[0]),
}


@pytest.mark.few(3)
@pytest.mark.parametrize("name", [pytest.param(name, marks=(pytest.mark.slow,)) if name in (
    "svd_lowrank", "lobpcg with B", "householder_product", "ormqr", "qr wide") else name
    for name in GRADIENTS])
def test_gradients_and_second_gradients_are_those_of_differences(
        name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEVICE", "interpreter")
    function, at = GRADIENTS[name]
    x = lt.tensor(at, requires_grad=True)
    assert gradcheck(function, (x,))
    assert gradgradcheck(function, (x,))


def test_the_gradient_of_a_singular_determinant_is_of_cofactors(device: str) -> None:
    x = lt.tensor([[1.0, 2.0], [2.0, 4.0]], dtype=lt.float64, device=device, requires_grad=True)
    x.det().backward()
    assert x.grad is not None
    same(x.grad, [[4, -2], [-2, 1]])
    first, = lt.autograd.grad(x.det(), [x], create_graph=True)
    with pytest.raises(lt.GradientError, match="no second derivative"):
        lt.autograd.grad(first.sum(), [x])
    with pytest.raises(lt.linalg.LinAlgError, match="singular"):
        x.slogdet()[1].backward()


def test_a_jitted_function_goes_on_in_python_and_has_gradients() -> None:
    def loss(a: lt.Tensor, b: lt.Tensor) -> lt.Tensor:
        lower = lt.linalg.cholesky(a @ a.mT)
        return lt.linalg.solve(a * 2, b).square().sum() + lower.diagonal(0, -2, -1).log().sum()

    @lt.jit
    def step(a: lt.Tensor, b: lt.Tensor) -> tuple[lt.Tensor, lt.Tensor]:
        value = loss(a, b)
        return value, lt.autograd.grad(value, [a])[0]

    for number in range(3):
        a = lt.tensor(SQUARE + number, requires_grad=True)
        b = lt.tensor(TALL[:, :3] * (number + 1))
        value, gradient = step(a, b)
        expected = loss(a, b)
        same(value, expected.item())
        same(gradient, lt.autograd.grad(expected, [a])[0].numpy())


def test_jacobians_are_rows_of_gradients() -> None:
    x = lt.tensor(SQUARE[0])
    b = lt.tensor(TALL[:, :3])
    for function in (lt.linalg.inv, lt.linalg.det, lambda a: lt.linalg.cholesky(a @ a.mT),
                     lambda a: lt.linalg.solve(a, b[0]), lt.linalg.matrix_exp):
        leaf = lt.tensor(SQUARE[0], requires_grad=True)
        y = function(leaf)
        jacobian = lt.func.jacrev(function)(x).reshape(-1, 9)
        for number in range(y.numel()):
            row, = lt.autograd.grad(y.reshape(-1)[number], [leaf], retain_graph=True)
            same(jacobian[number], row.numpy().reshape(-1))
    same(lt.vmap(lambda v: lt.linalg.solve(x, v))(b), np.linalg.solve(SQUARE[0], b.numpy()))
    same(lt.vmap(lambda v: lt.linalg.solve_triangular(x, v, upper=True))(b),
         np.linalg.solve(np.triu(SQUARE[0]), b.numpy()))
    with pytest.raises(lt.TransformError, match=r"linalg.matrix_exp: .*row of a Jacobian"):
        lt.func.jacfwd(lt.linalg.matrix_exp)(x)


OF_EXAMPLES: dict[str, Callable[[lt.Tensor, lt.Tensor], lt.Tensor]] = {
    "inv": lambda a, b: lt.linalg.inv(a), "solve": lt.linalg.solve,
    "solve a vector": lambda a, b: lt.linalg.solve(a, b[..., 0]),
    "triangle": lambda a, b: lt.linalg.solve_triangular(a, b, upper=True),
    "det": lambda a, b: lt.linalg.det(a), "logdet": lambda a, b: lt.logdet(a),
    "cholesky": lambda a, b: lt.cholesky_solve(b, lt.linalg.cholesky(a)),
    "cholesky_inverse": lambda a, b: lt.cholesky_inverse(a),
    "eigh": lambda a, b: lt.linalg.eigh(a).eigenvalues, "svd": lambda a, b: lt.linalg.svdvals(a),
    "qr": lambda a, b: lt.linalg.qr(a).R, "lu": lambda a, b: lt.linalg.lu(a).U,
    "lu_solve": lambda a, b: lt.linalg.lu_solve(*lt.linalg.lu_factor(a), b),
    "pinv": lambda a, b: lt.linalg.pinv(a, rtol=b.abs().amin((-1, -2)) / 1e9),
    "lstsq": lambda a, b: lt.linalg.lstsq(a, b).solution,
    "residuals": lambda a, b: lt.linalg.lstsq(a[..., :2], b, driver="gelsd").residuals,
    "matrix_exp": lambda a, b: lt.linalg.matrix_exp(a / 10),
    "matrix_rank": lambda a, b: lt.linalg.matrix_rank(a)[..., None, None] * b,
    "ldl": lambda a, b: lt.linalg.ldl_solve(*lt.linalg.ldl_factor(a.detach()), b),
    "geqrf": lambda a, b: lt.geqrf(a.detach()).tau + b[..., 0],
    "eigenvectors": lambda a, b: lt.linalg.eig(a).eigenvectors.abs() * b[..., :1],
}


@pytest.mark.parametrize("name", OF_EXAMPLES)
def test_vmap_factorizes_the_matrix_of_each_example(name: str) -> None:
    function = OF_EXAMPLES[name]
    random = np.random.default_rng(3)
    values = random.normal(size=(3, 2, 3, 3))
    a = lt.tensor(values @ values.swapaxes(-1, -2) + np.eye(3))
    b = lt.tensor(random.normal(size=(3, 2, 3, 2)))

    def loss(a: lt.Tensor, b: lt.Tensor) -> lt.Tensor:
        return (function(a, b) ** 2).sum()

    wanted = [[function(x, y).numpy() for x, y in zip(*rows, strict=True)]
              for rows in zip(a, b, strict=True)]
    same(lt.vmap(lt.vmap(function))(a, b), np.array(wanted))
    same(lt.vmap(function)(a, b), np.array(wanted))
    same(lt.vmap(function, (None, 0))(a[0, 0], b[:, 0]),
         np.array([function(a[0, 0], y).numpy() for y in b[:, 0]]))
    if name == "eigenvectors":  # whose gradient is of the angles, too
        return
    both = lt.func.grad(loss, (0, 1))
    for number, found in enumerate(lt.vmap(both)(a[0], b[0])):
        same(found, np.array([both(x, y)[number].numpy() for x, y in zip(a[0], b[0], strict=True)]))
    around = lt.func.grad(lambda a, b: (lt.vmap(function)(a, b) ** 2).sum(), (0, 1))
    for found, of_each in zip(around(a[0], b[0]), lt.vmap(both)(a[0], b[0]), strict=True):
        same(found, of_each.numpy())


@pytest.mark.parametrize("a", [SQUARE, SQUARE + 1j * POSITIVE, np.zeros((2, 0, 0)), np.eye(3)],
                         ids=["real", "complex", "of no rows", "identity"])
def test_any_square_matrix_times_an_eigenvector_is_its_multiple(a: Array) -> None:
    values, vectors = lt.linalg.eig(lt.tensor(a))
    assert values.dtype is vectors.dtype is lt.complex128
    same(lt.tensor(a).to(dtype=lt.complex128) @ vectors, (vectors * values.unsqueeze(-2)).numpy())
    same(vectors.abs().square().sum(-2), np.ones(a.shape[:-1]))
    same(lt.linalg.eigvals(lt.tensor(a)), values.numpy())


@pytest.mark.parametrize("a", [
    POSITIVE, POSITIVE + 1j * (SQUARE - np.swapaxes(SQUARE, -1, -2)) / 9], ids=["real", "complex"])
def test_cholesky_reads_one_triangle(a: Array) -> None:
    lower = np.linalg.cholesky(a)
    same(lt.linalg.cholesky(lt.tensor(np.tril(a) + np.triu(SQUARE, 1))), lower)
    same(lt.linalg.cholesky(lt.tensor(np.triu(a) + np.tril(SQUARE, -1)), upper=True),
         np.swapaxes(lower, -1, -2).conj())


def test_the_second_gradient_goes_through_functions_in_a_gradient() -> None:
    x = lt.tensor(SQUARE[0])
    hessian = lt.func.hessian(lambda a: lt.logdet(a @ a.mT))(x)
    assert hessian.shape == (3, 3, 3, 3)
    inverse = np.linalg.inv(SQUARE[0])
    same(hessian, -2 * np.einsum("li,jk->ijkl", inverse, inverse))


ERRORS: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "rows": (lambda: lt.linalg.inv(lt.ones(2, 3)), lt.ShapeError,
             r"linalg.inv of shape \(2, 3\): the last two axes, 2 and 3, must be equal"),
    "axes": (lambda: lt.linalg.svd(lt.ones(2)), lt.ShapeError, "give 2 axes or more"),
    "type": (lambda: lt.linalg.qr(lt.eye(2).half()), lt.DTypeError,
             r"linalg.qr of float16: it takes float32 and float64, .*; convert with \.float\(\)"),
    "singular": (lambda: lt.linalg.inv(lt.stack([lt.eye(2), lt.ones(2, 2)])),
                 lt.linalg.LinAlgError, r"linalg.inv \(matrix 1 of the batch\): .*singular: "
                 r"number 2 on .*pinv and lstsq"),
    "positive": (lambda: lt.linalg.cholesky(-lt.eye(2)), RuntimeError,
                 "linalg.cholesky: .*not positive definite: its first 1 rows"),
    "rcond": (lambda: lt.linalg.lstsq(lt.eye(2), lt.eye(2), "x"),  # type: ignore[arg-type]
              lt.DTypeError, "rcond"),
    "ind": (lambda: lt.linalg.tensorinv(lt.eye(2), 1.5),  # type: ignore[arg-type]
            lt.DTypeError, "ind"),
    "products": (lambda: lt.linalg.multi_dot(None), lt.ArgumentError,  # type: ignore[arg-type]
                 "multi_dot of a NoneType: give a list"),
    "dims": (lambda: lt.linalg.tensorsolve(lt.eye(2), lt.ones(2), 1),  # type: ignore[arg-type]
             lt.ArgumentError, "sequence of axes"),
    "columns": (lambda: lt.vander(lt.tensor([1j]), N=-1), lt.ArgumentError, "vander: N=-1"),
    "power": (lambda: lt.linalg.matrix_power(lt.ones(2, 3, dtype=lt.complex64), 2), lt.ShapeError,
              r"matrix_power of shape \(2, 3\) to the power 2: it is for square"),
    "eig of NaN": (lambda: lt.linalg.eig(lt.full((2, 2), float("nan"))), lt.linalg.LinAlgError,
                   "linalg.eig: there is a NaN"),
    "an angle": (lambda: lt.linalg.eigh(lt.tensor(
        [[2, 1j], [-1j, 3]], requires_grad=True)).eigenvectors.real.sum().backward(),
        lt.GradientError, "linalg.eigh: .*angle of complex eigenvectors"),
    "complex and real": (lambda: lt.linalg.solve(lt.eye(2, dtype=lt.complex64), lt.ones(2, 1)),
                         lt.DTypeError, "linalg.solve of complex64 and float32: convert one"),
    "complex lobpcg": (lambda: lt.lobpcg(lt.eye(9, dtype=lt.complex64)), lt.DTypeError,
                       "linalg.lobpcg of complex tensors is not there"),
    "unknown": (lambda: lt.linalg.nothing, AttributeError, "no attribute 'nothing'"),
    "geqrf": (lambda: lt.geqrf(lt.eye(2).requires_grad_()).a.sum().backward(), lt.GradientError,
              "linalg.qr, which gives Q and R, has one"),
    "tau": (lambda: lt.orgqr(lt.ones(2, 3, 2), lt.ones(2)), lt.ShapeError,
            r"tau needs the axes \(2,\) before its last"),
    "reflections": (lambda: lt.orgqr(lt.ones(3, 2), lt.ones(3)), lt.ShapeError, "3 reflections"),
    "wide": (lambda: lt.orgqr(lt.ones(2, 3), lt.ones(2)), lt.ShapeError, "3 columns .* 2 rows"),
    "ormqr": (lambda: lt.ormqr(lt.ones(3, 2), lt.ones(2), lt.ones(2, 3)), lt.ShapeError,
              "Q is of 3 rows"),
    "indefinite": (lambda: lt.linalg.ldl_factor(lt.zeros(2, 2)), lt.linalg.LinAlgError,
                   "0 as number 1 on its diagonal"),
    "of factors": (lambda: lt.linalg.ldl_solve(
        lt.eye(2).requires_grad_(), lt.tensor([1, 2], dtype=lt.int32),
        lt.ones(2, 1)).sum().backward(), lt.GradientError, "ldl_solve has no gradient of the fac"),
    "q": (lambda: lt.svd_lowrank(lt.ones(3, 2), -1), lt.ArgumentError, "q=-1"),
    "rank": (lambda: lt.pca_lowrank(lt.ones(3, 2), 3), lt.ArgumentError, "q=3 is more than 2"),
    "few rows": (lambda: lt.lobpcg(lt.eye(4), 2), lt.ArgumentError, "need 6 rows or more"),
    "k": (lambda: lt.lobpcg(lt.eye(9), 3, n=2), lt.ArgumentError, "k=3 eigenvalues of 2 vectors"),
    "method": (lambda: lt.lobpcg(lt.eye(4), method="jacobi"), lt.ArgumentError, "'jacobi'"),
    "lstsq": (lambda: lt.Tensor.lstsq, AttributeError, "taken this name away"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_say_what_to_do(name: str) -> None:
    call, kind, words = ERRORS[name]
    with pytest.raises(kind, match=words):
        call()


@pytest.mark.parametrize("ord", ("fro", "nuc", 2, 1))
def test_a_norm_of_matrices_says_over_which_axes(ord: Any) -> None:
    with pytest.raises(lt.ShapeError, match="say over which axes"):
        lt.linalg.norm(lt.ones(2, 3, 3), ord)


@pytest.mark.parametrize("dim", (1, -1, (1,)))
@pytest.mark.parametrize("ord", ("fro", "nuc"))
def test_a_norm_of_matrices_is_not_of_one_axis(ord: Any, dim: Any) -> None:
    with pytest.raises(lt.ArgumentError, match=r"dim=\(-?1,\) must name 2 axes"):
        lt.linalg.norm(lt.ones(3, 3), ord, dim)


@pytest.mark.parametrize("p", (None, 2, -2, 1, "fro"))
def test_the_condition_of_a_matrix_without_elements_is_0(p: Any) -> None:
    assert lt.linalg.cond(lt.ones(2, 0, 0), p).tolist() == [0, 0]


def test_factors_of_a_singular_matrix_are_refused_where_they_cannot_be_used() -> None:
    x = lt.tensor([[1.0, 2.0], [2.0, 4.0]])
    with pytest.raises(lt.LinAlgError, match="number 2 on the diagonal"):
        lt.linalg.lu_factor(x)
    assert lt.linalg.lu_factor_ex(x).info == 2


@pytest.mark.parametrize("upper", [False, True])
def test_the_inverse_of_what_a_factor_with_a_zero_is_of_is_refused(upper: bool) -> None:
    factors = lt.tensor([[[2.0, 0], [0, 3]], [[1.0, 0], [0, 0]]])
    with pytest.raises(lt.linalg.LinAlgError, match=r"matrix 1 of the batch.*number 2 on the diag"):
        lt.cholesky_inverse(factors, upper=upper)
    np.testing.assert_allclose(lt.cholesky_inverse(factors[0], upper=upper).numpy(),
                               [[1 / 4, 0], [0, 1 / 9]], rtol=1e-6)
    assert lt.cholesky_inverse(lt.zeros(3, 0, 0)).shape == (3, 0, 0)


@pytest.mark.parametrize(("rows", "expected"), [(4, 1), (host.ALONE, 1), (host.ALONE + 1, 2)])
def test_small_matrices_take_one_thread_of_a_library(rows: int, expected: int,
                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    limit = _limit()
    if limit is None:
        pytest.skip("this NumPy has another BLAS")
    found: list[int] = []
    solve = np.linalg.solve

    def watched(a: Array, b: Array) -> Array:
        found.append(limit(1))
        limit(found[-1])
        return solve(a, b)
    monkeypatch.setattr(np.linalg, "solve", watched)
    before, kernels = limit(2), lt.get_num_threads()
    lt.set_num_threads(2)
    try:
        lt.linalg.solve(lt.eye(rows), lt.ones(rows)).realize()
        assert found == [expected]
        assert limit(2) == 2
    finally:
        limit(before)
        lt.set_num_threads(kernels)
