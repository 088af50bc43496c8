"""Hooks of one tensor are not called for another that is computed alike after them."""
from collections.abc import Callable

import pytest

import lazyten as lt
from lazyten import nn

Course = Callable[[], list[float]]


def leaf() -> lt.Tensor:
    return lt.tensor([1.0, 2.0], requires_grad=True)


def in_a_loop() -> list[float]:
    w = leaf()
    for _ in range(3):
        y = w * 2
        y.register_hook(lambda g: g * 2)
        (y * y).sum().backward()
    return w.grad.tolist()  # type: ignore[union-attr]


def together() -> list[float]:
    w, made = leaf(), []
    for k in range(3):
        made.append(w * w)
        made[-1].register_hook(lambda g, k=k: g * (k + 2))  # type: ignore[misc]
    (made[0] + made[1] + made[2]).sum().backward()
    return w.grad.tolist()  # type: ignore[union-attr]


def beside_one_without() -> list[float]:
    w = leaf()
    y = w * 2
    y.register_hook(lambda g: g * 10)
    z = w * 2
    (y + z).sum().backward()
    return w.grad.tolist()  # type: ignore[union-attr]


def of_what_is_made_of_it() -> list[float]:
    w = leaf()
    y = w * 2
    y.register_hook(lambda g: g * 10)
    (lt.cat([y]) + (y + 0).reshape(2, 1).reshape(2)).sum().backward()
    return w.grad.tolist()  # type: ignore[union-attr]


def removed() -> list[float]:
    w = leaf()
    y = w * 2
    y.register_hook(lambda g: g * 10).remove()
    (y + w * 2).sum().backward()
    return w.grad.tolist()  # type: ignore[union-attr]


def of_several_sources() -> list[float]:
    w, v = leaf(), leaf()
    for k in (2, 3):
        y = lt.where(w > v * 0, w, v) * w + lt.cat([w[1:], v[:1]])
        y.register_hook(lambda g, k=k: g * k)  # type: ignore[misc]
        y.sum().backward()
    return [*w.grad.tolist(), *v.grad.tolist()]  # type: ignore[union-attr]


EXPECTED: dict[Course, list[float]] = {
    in_a_loop: [48.0, 96.0], together: [18.0, 36.0], beside_one_without: [22.0, 22.0],
    of_what_is_made_of_it: [40.0, 40.0], removed: [4.0, 4.0],
    of_several_sources: [10.0, 25.0, 5.0, 0.0]}


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("course", EXPECTED, ids=lambda course: course.__name__)
def test_gradients_are_those_of_tensors_of_their_own(course: Course, jitted: bool) -> None:
    for _ in range(3):  # looked up, too
        assert (lt.jit(course) if jitted else course)() == EXPECTED[course]


def test_a_layer_in_a_loop_tells_each_hook_once() -> None:
    layer, x, seen = nn.Linear(2, 2), leaf(), []
    for k in range(4):
        out = layer(x)
        out.register_hook(lambda g, k=k: seen.append((k, g.tolist())))  # type: ignore[misc]
        (out * (k + 1)).sum().backward()
    assert seen == [(k, [k + 1.0] * 2) for k in range(4)]
