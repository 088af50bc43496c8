"""The standard's own tests of operators: each model loaded, run twice, and compared."""
from __future__ import annotations

import onnx_if_there
import pytest
from onnx_cases import NAMES, REFUSED, as_value, cases, compare, selected

import lazyten as lt

onnx_if_there.needed()


@pytest.mark.few(11)
@pytest.mark.parametrize("name", selected())
def test_an_operator_does_what_the_standard_says(name: str) -> None:
    case = cases()[name]
    reason = next((why for start, why in REFUSED.items() if name.startswith(start)), None)
    if reason is not None:
        with pytest.raises(lt.ArgumentError, match=reason):
            lt.onnx.load(case.model)
        return
    model = lt.onnx.load(case.model.SerializeToString())
    for inputs, outputs in case.data_sets:
        for _ in range(2):  # the first call compiles, the second runs what is kept
            found = model([as_value(value) for value in inputs])
            assert len(found) == len(outputs)
            for one, wanted in zip(found, outputs, strict=True):
                compare(name, one, as_value(wanted), case.rtol, case.atol)


@pytest.mark.slow
def test_the_list_of_node_tests_is_that_of_the_package() -> None:
    """1,875 of 1,884 pass; nine, of an operator that decodes images, are refused."""
    assert sorted(cases()) == sorted(NAMES)
    assert len(NAMES) == 1884
    assert sum(name.startswith(tuple(REFUSED)) for name in NAMES) == 9
