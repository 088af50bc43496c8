"""Stage 10: what goes wrong is an error that says what to do, and the device works afterwards."""
from __future__ import annotations

import numpy as np
import pytest

import lazyten as lt
from lazyten.codegen.targets.generated import Generated
from lazyten.devices.executor import Executor
from lazyten.ir import dtype as dt
from lazyten.runtimes.contract import Runtime
from lazyten.support.errors import CompileError, DTypeError, IndexingError
from lazyten.support.location import Location
from lazyten.testing.diagnosis import Nonconformance, expect_values
from lazyten.testing.kit import advice
from lazyten.testing.scorecard import Scorecard

WRONG = Generated("wrong", "this is no program (", (), "", Location("/home/user/train.py", 12),
                  ("wrong",), (), (1,))


@pytest.fixture(autouse=True)
def _works_afterwards(device: str) -> object:
    """After each check the device computes as before."""
    yield
    x = lt.tensor([1.0, 2.0], device=device)
    expect_values(x * 7, np.array([7, 14], np.float32), "a product after an error")


@advice("compile raises lazyten.CompileError with the kernel's name, the user's line (`where`) and "
        "the compiler's message; it refuses a text before anything is launched.")
def test_a_text_that_the_compiler_refuses_is_a_compile_error(runtime: Executor) -> None:
    if not isinstance(runtime, Runtime):
        pytest.skip("this device compiles no text")
    try:
        runtime.load(runtime.compile([WRONG]), ["wrong"])
    except CompileError as error:
        missing = [word for word in ("wrong", "train.py:12") if word not in str(error)]
        if missing:
            raise Nonconformance(f"the error does not name {missing}: {error}") from error
    except Exception as error:
        raise Nonconformance(f"{type(error).__name__} instead of CompileError: {error}") from error
    else:
        raise Nonconformance("a text that is no program was compiled")


@advice("target.dtypes lists what kernels may use; what is not in it is refused by name.")
def test_a_dtype_that_is_not_claimed_is_refused(device: str, card: Scorecard) -> None:
    absent = [d for d in dt.ALL if d not in card.dtypes]
    if not absent:
        pytest.skip("the device claims every element type")
    for dtype in absent:
        with pytest.raises(DTypeError, match=dtype.name):
            (lt.zeros(3, dtype=dtype, device=device).contiguous().realize())


@advice("An index outside is never followed: the result of the check comes back by copy_out.")
def test_an_index_outside_is_an_error(device: str) -> None:
    x, index = lt.ones(5, 3, device=device), lt.tensor([0, 7], device=device)
    with pytest.raises(IndexingError, match="7"):
        x[index].realize()


@advice("A tensor on this device meets one on another only by .to(): copies go through the host.")
def test_copies_to_other_devices_and_back(device: str, card: Scorecard) -> None:
    for dtype in (d for d in dt.ARITHMETIC if d in card.dtypes):
        here = lt.tensor([0, 1, 3], device="interpreter").to(dtype)
        there = here.to(device)
        expect_values((there | there if dtype is dt.bool_ else there + there).to("interpreter"),
                      (here | here if dtype is dt.bool_ else here + here).numpy(),
                      f"{dtype.name}, there and back")
