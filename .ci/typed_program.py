"""A user's program, for `mypy --strict`: what is public has types, where it is public."""
from typing import assert_type

import lazyten as lt
from lazyten.nn import functional as F

x = lt.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
assert_type(lt.exp(x), lt.Tensor)
assert_type(lt.cumprod(x, dim=1, dtype=lt.float64), lt.Tensor)
assert_type(lt.concat([x, lt.zeros(2, 2)], dim=0), lt.Tensor)
assert_type(x.exp() + 1, lt.Tensor)
assert_type(x.detach().exp_(), lt.Tensor)
assert_type(x.detach().lerp_(x.detach(), weight=0.5), lt.Tensor)
assert_type(x.sum(0).sort(descending=True).values, lt.Tensor)
assert_type(lt.max(x), lt.Tensor)
assert_type(lt.nn.Parameter(x) * 2, lt.Tensor)
assert_type(lt.nn.Parameter(x).softmax(1).lerp(x, 0.5).flip(0)[0], lt.Tensor)
assert_type(F.softmax(x, dim=1), lt.Tensor)
assert_type(F.mse_loss(x, lt.ones_like(x), reduction="sum"), lt.Tensor)
assert_type(x.dtype, lt.DType)

with lt.autocast(dtype=lt.bfloat16), lt.no_grad():
    assert_type(lt.matmul(x, x.T), lt.Tensor)


@lt.jit
def doubled(y: lt.Tensor) -> lt.Tensor:
    """Twice the tensor."""
    return y * 2


lt.grad(doubled(x).sum(), [x])
lt.exp(x, 1)  # type: ignore[call-arg]  # a wrong call is an error, so the types are there
lt.sort(x, dim="last")  # type: ignore[arg-type]
x.round_(decimals=None)  # type: ignore[arg-type]
F.no_such_function(x)  # type: ignore[attr-defined]
