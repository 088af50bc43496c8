"""`testing.make_tensor`: random numbers of each type, in an interval."""
from __future__ import annotations

import pytest

import lazyten as lt
from lazyten.testing import make_tensor


@pytest.mark.parametrize("kind", [lt.float32, lt.float16, lt.int64, lt.uint8, lt.bool_], ids=str)
def test_numbers_are_of_the_types_usual_interval(kind: lt.DType) -> None:
    lt.manual_seed(0)
    x = make_tensor((40, 50), dtype=kind, device="cpu")
    least, most = float(x.min().item()), float(x.max().item())
    first, last = {"b": (0, 1), "u": (0, 9)}.get(kind.kind, (-9, 9))
    assert first <= least < first + 1 and last - 1 < most <= last
    assert x.dtype is kind and x.shape == (40, 50) and (bool((x == 0).any()) or kind.is_float)
    assert not (make_tensor(2000, dtype=kind, device="cpu", exclude_zero=True) == 0).any()


def test_an_interval_may_be_given_and_elements_may_lie_apart() -> None:
    x = make_tensor(3, 40, dtype=lt.int32, device="cpu", low=2.5, high=5, noncontiguous=True)
    assert set(x.flatten().tolist()) == {3, 4} and not x.is_contiguous() and x.shape == (3, 40)
    z = make_tensor(2, 8, dtype=lt.complex64, device="cpu", low=1, high=2, requires_grad=True)
    assert z.dtype is lt.complex64 and z.requires_grad and bool((z.real >= 1).all())
    assert bool((z.imag <= 2).all())
    with pytest.raises(lt.ArgumentError, match="low=3 and high=3"):
        make_tensor(2, dtype=lt.int64, device="cpu", low=3, high=3)
    with pytest.raises(lt.ArgumentError, match="noncontiguous and memory_format"):
        make_tensor(2, dtype=lt.float32, device="cpu", noncontiguous=True,
                    memory_format=lt.contiguous_format)
