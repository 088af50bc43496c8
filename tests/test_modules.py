"""Modules and parameters: what `module_checks.py` says, and what PyTorch has no say in."""
from __future__ import annotations

from typing import Any

import pytest
from module_checks import CHECKS, averaging

import lazyten as lt
from lazyten import nn


@pytest.mark.parametrize("name", CHECKS)
def test_modules_do_what_programs_expect(name: str) -> None:
    check, expected = CHECKS[name]
    assert check(lt) == expected


def test_a_buffer_assigned_in_a_jitted_function_is_refused_or_kept() -> None:
    net = averaging(lt)
    call = lt.no_grad()(lt.jit(net))
    with pytest.raises(lt.JitError, match=r"Averaging\.mean.*module_checks\.py.*copy_\(\)"):
        call(lt.ones(3))
    assert net.mean.tolist() == [0.0] and list(net.state_dict()) == ["scale", "mean"]


def test_jit_sees_what_is_registered_replaced_and_left_out() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(lt.ones(2), requires_grad=False)
            self.register_buffer("shift", lt.zeros(2))
            self.register_parameter("bias", None)
            self.inner: Any = None

        def forward(self, x: lt.Tensor) -> Any:
            y = x * self.scale + self.shift
            y = y if self.bias is None else y + self.bias
            return y if self.inner is None else self.inner(y)

    net = Net()
    call = lt.no_grad()(lt.jit(net))
    x = lt.ones(2)
    seen = [call(x).tolist(), call(x).tolist()]
    net.scale = nn.Parameter(lt.full((2,), 3.0))
    seen.append(call(x).tolist())
    net.shift = lt.ones(2)
    seen.append(call(x).tolist())
    net.bias = nn.Parameter(lt.full((2,), 5.0))
    seen.append(call(x).tolist())
    net._parameters["bias"] = None
    seen.append(call(x).tolist())
    net.inner = nn.Dropout(1.0)
    seen.append(call(x).tolist())
    del net.inner
    net.inner = None
    seen.append(call(x).tolist())
    assert [v[0] for v in seen] == [1, 1, 3, 4, 9, 4, 0, 4]


def test_train_in_a_jitted_function_is_refused_unless_nothing_changes() -> None:
    net = nn.Sequential(nn.Dropout(0.0))
    call = lt.jit(lambda x: net.train()(x))
    assert call(lt.ones(2)).tolist() == [1, 1]
    net.eval()
    with pytest.raises(lt.JitError, match="training"):
        call(lt.ones(2))
    assert not net.training


def test_a_module_that_moves_nowhere_keeps_what_was_traced() -> None:
    net = nn.Linear(2, 2)
    call = lt.no_grad()(lt.jit(net))
    call(lt.ones(1, 2))
    net.float().to("cpu" if lt.ones(1).device == "cpu" else lt.ones(1).device)
    call(lt.ones(1, 2))
    assert call.__wrapped__.cache_size == 1
