"""What programs do with nn.utils and nn.init, in both libraries: `test_torch_utils.py` compares
what each of these gives, and test_utils.py runs some of them jitted. T is the package."""
from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

Program = Callable[[Any], Any]
PROGRAMS: dict[str, Program] = {}


def program(function: Program) -> Program:
    PROGRAMS[function.__name__] = function
    return function


def numbers(T: Any, *shape: int, seed: int = 0) -> Any:
    return T.tensor(np.random.default_rng((seed, *shape)).normal(size=shape))


def filled(T: Any, layer: Any) -> Any:
    """The layer in float64 with given parameters and statistics."""
    layer = layer.double()
    with T.no_grad():
        for i, (name, value) in enumerate(layer.state_dict().items()):
            if value.is_floating_point():
                drawn = numbers(T, *value.shape, seed=i)
                value.copy_(drawn.abs() + 0.5 if name.endswith("var") else drawn)
    return layer


def net(T: Any) -> Any:
    """A layer with gradients, one without."""
    made = filled(T, T.nn.Sequential(T.nn.Linear(3, 4), T.nn.Tanh(), T.nn.Linear(4, 2)))
    (made(numbers(T, 5, 3)) ** 2).sum().backward()
    made[0].bias.grad = None
    return made


def grads(made: Any) -> list[Any]:
    return [p.grad for p in made.parameters()]


# ---- gradients -----------------------------------------------------------------------------------

@program
def gradients_clipped_to_a_norm(T: Any) -> Any:
    found = []
    for order in (2.0, 1, 3.0, float("inf"), 0.5):
        for most in (0.7, 1e6):
            made = net(T)
            found.append((T.nn.utils.clip_grad_norm_(made.parameters(), most, order), grads(made)))
    return found


@program
def the_norm_of_one_tensor_and_of_none(T: Any) -> Any:
    made = net(T)
    bare = T.nn.Linear(2, 2)
    return (T.nn.utils.clip_grad_norm_(made[0].weight, max_norm=0.1), grads(made),
            T.nn.utils.clip_grad_norm_(bare.parameters(), 1.0),
            T.nn.utils.get_total_norm([p.grad for p in made[2].parameters()], norm_type=2))


@program
def gradients_that_are_not_finite(T: Any) -> Any:
    made = net(T)
    made[0].weight.grad[0, 0] = float("nan")
    try:
        T.nn.utils.clip_grad_norm_(made.parameters(), 1.0, error_if_nonfinite=True)
    except RuntimeError:
        return "refused", grads(made)
    return None


@program
def gradients_held_between_limits(T: Any) -> Any:
    made = net(T)
    return T.nn.utils.clip_grad_value_(made.parameters(), 0.3), grads(made)


@program
def parameters_as_a_vector_and_back(T: Any) -> Any:
    made, other = net(T), net(T)
    vector = T.nn.utils.parameters_to_vector(made.parameters())
    (vector ** 2).sum().backward()
    T.nn.utils.vector_to_parameters(vector.detach() * 2, other.parameters())
    return vector, grads(made), list(other.parameters())


# ---- parametrizations ----------------------------------------------------------------------------

def shown(T: Any, layer: Any, x: Any) -> Any:
    """Everything of a layer: text, names, values, gradients after a call."""
    y = layer(x)
    (y * y).sum().backward()
    state = layer.state_dict()
    return (repr(layer), type(layer).__name__, list(state),
            [v.clone() for v in state.values()], y,
            [(n, p.grad) for n, p in layer.named_parameters()])


def weight_normed(of: Callable[[Any], Any], make: Callable[[Any], Any], x: tuple[int, ...],
                  **options: Any) -> Program:
    return lambda T: shown(T, of(T)(filled(T, make(T)), **options), numbers(T, *x))


def lately(T: Any) -> Any:
    return T.nn.utils.parametrizations.weight_norm


def earlier(T: Any) -> Any:
    return T.nn.utils.weight_norm


PROGRAMS |= {
    f"{of.__name__}: weight_norm {name}": weight_normed(of, make, x, **options)
    for of in (lately, earlier) for name, make, x, options in (
        ("of rows", lambda T: T.nn.Linear(3, 4), (5, 3), {}),
        ("of columns", lambda T: T.nn.Linear(3, 4), (5, 3), {"dim": 1}),
        ("of a convolution", lambda T: T.nn.Conv2d(3, 4, 2), (5, 3, 6, 6), {}),
        ("of all", lambda T: T.nn.Conv1d(3, 4, 2), (5, 3, 6), {"dim": None}),
        ("of a bias", lambda T: T.nn.Linear(3, 4), (5, 3), {"name": "bias"}))}


@program
def states_of_either_weight_norm(T: Any) -> Any:
    old = T.nn.utils.weight_norm(filled(T, T.nn.Linear(3, 4)))
    new = T.nn.utils.parametrizations.weight_norm(T.nn.Linear(3, 4).double())
    new.load_state_dict(old.state_dict())
    before = list(new.state_dict()), new.weight.clone()
    T.nn.utils.parametrize.remove_parametrizations(new, "weight")
    T.nn.utils.remove_weight_norm(old)
    return (before, repr(new), list(new.state_dict()), new.weight,
            repr(old), list(old.state_dict()), old.weight,
            [p.requires_grad for p in old.parameters()])


def spectral(T: Any, layer: Any, x: Any, older: bool, **options: Any) -> Any:
    """With the same vectors in both libraries: those of the left are drawn."""
    where = T.nn.utils if older else T.nn.utils.parametrizations
    layer = where.spectral_norm(filled(T, layer), **options)
    with T.no_grad():
        for name, buffer in layer.named_buffers():
            drawn = numbers(T, *buffer.shape, seed=len(name))
            buffer.copy_(drawn / (drawn ** 2).sum() ** 0.5)
    first = shown(T, layer, x)
    layer.eval()
    in_use = layer(x), list(layer.buffers())
    if older:
        T.nn.utils.remove_spectral_norm(layer)
    else:
        T.nn.utils.parametrize.remove_parametrizations(layer, "weight")
    return first, in_use, repr(layer), list(layer.state_dict()), layer.weight


PROGRAMS |= {
    f"{'older ' * older}spectral_norm of {name}": lambda T, o=older, m=make, x=x, k=options:
    spectral(T, m(T), numbers(T, *x), o, **k)
    for older in (False, True) for name, make, x, options in (
        ("a linear layer", lambda T: T.nn.Linear(3, 4), (5, 3), {}),
        ("a convolution", lambda T: T.nn.Conv2d(3, 4, 2), (5, 3, 6, 6), {"n_power_iterations": 3}),
        ("a transposed convolution", lambda T: T.nn.ConvTranspose1d(3, 4, 2), (5, 3, 6), {}),
        ("columns", lambda T: T.nn.Linear(3, 4), (5, 3), {"dim": 1, "eps": 1e-3}))}


def orthogonal(T: Any, layer: Any, x: Any, name: str = "weight", **options: Any) -> Any:
    """Two steps of training, then another value. With the same base in both libraries, of which
    some columns are drawn."""
    layer = T.nn.utils.parametrizations.orthogonal(filled(T, layer), name, **options)
    begun = getattr(layer, name).clone()
    with T.no_grad():
        for buffer in layer.buffers():
            drawn = np.random.default_rng(7).normal(size=tuple(buffer.shape))
            buffer.copy_(T.tensor(np.linalg.qr(drawn)[0]))
    steps, optimizer = [], T.optim.SGD(layer.parameters(), 0.05)
    for _ in range(2):
        optimizer.zero_grad()
        steps.append(shown(T, layer, x))
        optimizer.step()
    trained = getattr(layer, name).clone()
    set_to = None
    if options.get("use_trivialization", True) or options["orthogonal_map"] == "householder":
        with T.no_grad():
            setattr(layer, name, 2 * trained.flip(0))
        set_to = getattr(layer, name).clone()
    T.nn.utils.parametrize.remove_parametrizations(layer, name)
    return begun, steps, trained, set_to, layer(x), list(layer.state_dict())


ORTHOGONAL: dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    "square": (lambda T: T.nn.Linear(4, 4), (3, 4)),
    "tall": (lambda T: T.nn.Linear(3, 5), (2, 3)),
    "wide": (lambda T: T.nn.Linear(5, 3), (2, 5)),
    "a batch": (lambda T: T.nn.Conv2d(2, 3, (3, 2)), (1, 2, 4, 3)),
    "one column": (lambda T: T.nn.Linear(1, 4), (2, 1))}
PROGRAMS |= {
    f"orthogonal of {kind} by {way}, base {base}":
    lambda T, m=make, x=x, k={"orthogonal_map": way, "use_trivialization": base}:
    orthogonal(T, m(T), numbers(T, *x), **k)
    for kind, (make, x) in ORTHOGONAL.items()
    for way in (None, "matrix_exp", "cayley", "householder") for base in (True, False)
    if base or way}


def triangle(T: Any) -> Any:
    class Symmetric(T.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return x.triu() + x.triu(1).T

        def right_inverse(self, x: Any) -> Any:
            return x.triu()
    return Symmetric()


def exponential(T: Any) -> Any:
    class Exponential(T.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return x.exp()
    return Exponential()


@program
def a_weight_as_a_function(T: Any) -> Any:
    P = T.nn.utils.parametrize
    layer = filled(T, T.nn.Linear(3, 3))
    weight = layer.weight
    P.register_parametrization(layer, "weight", triangle(T))
    found: list[Any] = [shown(T, layer, numbers(T, 2, 3)), layer.parametrizations.weight[0] is None,
                        weight is layer.parametrizations.weight.original,
                        isinstance(layer, T.nn.Linear), P.type_before_parametrizations(
                            layer).__name__]
    layer.weight = T.ones(3, 3).double() * 2
    found += [layer.weight, layer.parametrizations.weight.original.clone()]
    P.register_parametrization(layer, "weight", exponential(T))
    P.register_parametrization(layer, "bias", exponential(T))
    found += [shown(T, layer, numbers(T, 2, 3)), P.is_parametrized(layer),
              P.is_parametrized(layer, "bias"), P.is_parametrized(layer, "other")]
    with P.cached():
        found += [layer.weight is layer.weight]
    found += [layer.weight is layer.weight, copy.deepcopy(layer).weight]
    P.remove_parametrizations(layer, "weight", leave_parametrized=False)
    found += [repr(layer), layer.weight, layer.weight is weight]
    P.remove_parametrizations(layer, "bias")
    return (*found, repr(layer), layer.bias, list(layer.state_dict()),
            [p.requires_grad for p in layer.parameters()], P.is_parametrized(layer))


@program
def a_buffer_as_a_function(T: Any) -> Any:
    P = T.nn.utils.parametrize
    layer = T.nn.Module()
    layer.register_buffer("scale", T.ones(2))
    P.register_parametrization(layer, "scale", exponential(T))
    found = [layer.scale, list(layer.state_dict()), list(layer.parameters())]
    P.remove_parametrizations(layer, "scale")
    return (*found, layer.scale, list(layer.state_dict()))


@program
def parametrizations_that_do_not_fit(T: Any) -> Any:
    P = T.nn.utils.parametrize
    layer, found = T.nn.Linear(3, 2), []

    class Row(T.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return x[0]
    for call in (lambda: P.register_parametrization(layer, "other", Row()),
                 lambda: P.register_parametrization(layer, "weight", Row()),
                 lambda: P.remove_parametrizations(layer, "weight")):
        try:
            call()
        except (ValueError, AttributeError):
            found.append("refused")
    return found, list(layer.state_dict())


# ---- fused layers --------------------------------------------------------------------------------

@program
def layers_with_their_normalization(T: Any) -> Any:
    found = []
    nn, U = T.nn, T.nn.utils
    for conv, norm, x in ((nn.Conv2d(3, 4, 2), nn.BatchNorm2d(4), (2, 3, 5, 5)),
                          (nn.Conv1d(3, 4, 2, bias=False), nn.BatchNorm1d(4, affine=False),
                           (2, 3, 5)),
                          (nn.ConvTranspose2d(3, 4, 2), nn.BatchNorm2d(4, 0.1), (2, 3, 5, 5))):
        both = filled(T, nn.Sequential(conv, norm)).eval()
        fused = U.fuse_conv_bn_eval(conv, norm, isinstance(conv, nn.ConvTranspose2d))
        found += [both(numbers(T, *x)) - fused(numbers(T, *x)), repr(fused),
                  [(n, v, v.requires_grad) for n, v in fused.named_parameters()]]
    both = filled(T, nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))).eval()
    return (*found, U.fuse_linear_bn_eval(*both)(numbers(T, 5, 3)), both(numbers(T, 5, 3)))


# ---- initial values that are not drawn -----------------------------------------------------------

@program
def values_that_are_not_drawn(T: Any) -> Any:
    init = T.nn.init
    return [init.eye_(T.empty(3, 4)), init.constant_(T.empty(2), 0.3), init.zeros_(T.empty(2)),
            init.ones_(T.empty(2)), init.dirac_(T.empty(3, 2, 3)), init.dirac_(T.empty(2, 5, 2, 3)),
            init.dirac_(T.empty(6, 2, 3, 3, 3), 3),
            [init.calculate_gain(n) for n in (
                "linear", "conv2d", "conv_transpose3d", "sigmoid", "tanh", "relu", "selu",
                "leaky_relu")], init.calculate_gain("leaky_relu", 0.2)]


DRAWN: dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    "uniform_": (lambda i: lambda t: i.uniform_(t, -1, 3), (200, 150)),
    "normal_": (lambda i: lambda t: i.normal_(t, 1.0, 2.0), (200, 150)),
    "trunc_normal_": (lambda i: i.trunc_normal_, (200, 150)),
    "trunc_normal_ to one side": (
        lambda i: lambda t: i.trunc_normal_(t, 0.5, 2.0, 1.0, 4.0), (200, 150)),
    "xavier_uniform_": (lambda i: i.xavier_uniform_, (200, 15, 10)),
    "xavier_normal_": (lambda i: lambda t: i.xavier_normal_(t, gain=2), (200, 150)),
    "kaiming_uniform_": (lambda i: lambda t: i.kaiming_uniform_(t, 5 ** 0.5), (200, 15, 10)),
    "kaiming_normal_": (lambda i: lambda t: i.kaiming_normal_(
        t, mode="fan_out", nonlinearity="relu"), (200, 15, 10)),
    "sparse_": (lambda i: lambda t: i.sparse_(t, 0.3, 0.5), (200, 150)),
    "orthogonal_": (lambda i: lambda t: i.orthogonal_(t, 1.5), (200, 150)),
    "orthogonal_ of few rows": (lambda i: i.orthogonal_, (100, 15, 20)),
}
"""Functions of nn.init that draw, and the shape to try them with."""
