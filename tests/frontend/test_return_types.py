"""What functions give that give several tensors: classes of the functions' names."""
from __future__ import annotations

import pickle

import pytest

import lazyten as lt

return_types = lt.return_types
X = lt.tensor([[3.0, 1.0, 2.0], [1.0, 5.0, 4.0]])


@pytest.mark.parametrize("name", ["max", "min", "cummax", "cummin", "sort", "topk", "kthvalue",
                                  "median", "nanmedian", "mode"])
@pytest.mark.parametrize("x", [X, X.int(), lt.tensor(2.0)])
def test_values_and_indices_are_of_the_functions_class(name: str, x: lt.Tensor) -> None:
    arguments = (1,) if name in ("topk", "kthvalue") else () if name == "sort" else (-1,)
    found = getattr(lt, name)(x, *arguments)
    kind = getattr(return_types, name)
    assert type(found) is kind and isinstance(found, tuple) and found._fields == (
        "values", "indices")
    assert type(pickle.loads(pickle.dumps(found))) is kind
    others = {"max": "min", "sort": "topk"}
    assert not isinstance(found, getattr(return_types, others.get(name, "sort")))


def test_factors_of_matrices_are_of_their_functions_classes() -> None:
    a = lt.tensor([[2.0, 1.0], [1.0, 3.0]])
    for name, found in {
            "linalg_eigh": lt.linalg.eigh(a), "linalg_svd": lt.linalg.svd(a), "svd": lt.svd(a),
            "linalg_slogdet": lt.linalg.slogdet(a), "aminmax": lt.aminmax(a), "frexp": lt.frexp(a),
            "histogram": lt.histogram(a, 3), "qr": lt.qr(a), "geqrf": lt.geqrf(a)}.items():
        assert isinstance(found, getattr(return_types, name)), name


def test_they_print_each_tensor_by_its_name() -> None:
    assert repr(X.max(1)) == ("lazyten.return_types.max(\nvalues=tensor([3., 5.]),\n"
                              "indices=tensor([0, 1]))")
    with pytest.raises(AttributeError):
        return_types.nothing  # noqa: B018


def test_jitted_functions_give_them() -> None:
    found = lt.jit(lambda x: x.sort(1))(X)
    assert type(found) is return_types.sort and found.values.tolist() == [[1, 2, 3], [1, 4, 5]]


def test_a_view_knows_what_it_is_a_view_of() -> None:
    x = lt.arange(6.0)
    part = x[2:4]
    base = part._base
    assert base is not None and base.tolist() == x.tolist() and part._is_view()
    part += 1
    assert base.tolist() == [0, 1, 3, 4, 4, 5]
    assert x._base is None and not x._is_view() and (x * 2)._base is None
    w = lt.nn.Parameter(x.clone())
    assert w[1:]._base is w and w.view(2, 3).T._base is w


def test_functions_without_writes_are_what_they_are() -> None:
    def twice(x: lt.Tensor) -> lt.Tensor:
        y = x.clone()
        y.mul_(2)
        return y
    assert lt.func.functionalize(twice)(X).tolist() == (2 * X).tolist()
    with pytest.raises(lt.ArgumentError, match="mutations_and_views"):
        lt.func.functionalize(twice, remove="nothing")
