"""Recurrent layers: RNN, GRU and LSTM, forwards, backwards or both."""
from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

import lazyten as lt
from lazyten.onnx.scanning import scanned
from lazyten.onnx.table import operator
from lazyten.support.errors import ArgumentError

T = lt.Tensor
F = lt.nn.functional
Activation = Callable[[T], T]

ACTIVATIONS: dict[str, tuple[Callable[[T, float, float], T], float, float]] = {
    "affine": (lambda x, a, b: x * a + b, 1.0, 0.0),
    "elu": (lambda x, a, b: F.elu(x, a), 1.0, 0.0),
    "hardsigmoid": (lambda x, a, b: (x * a + b).clamp(0, 1), 0.2, 0.5),
    "leakyrelu": (lambda x, a, b: F.leaky_relu(x, a), 0.01, 0.0),
    "relu": (lambda x, a, b: x.relu(), 0.0, 0.0),
    "scaledtanh": (lambda x, a, b: (x * b).tanh() * a, 1.0, 1.0),
    "sigmoid": (lambda x, a, b: x.sigmoid(), 0.0, 0.0),
    "softplus": (lambda x, a, b: lt.logaddexp(x, lt.zeros_like(x)), 0.0, 0.0),
    "softsign": (lambda x, a, b: F.softsign(x), 0.0, 0.0),
    "tanh": (lambda x, a, b: x.tanh(), 0.0, 0.0),
    "thresholdedrelu": (lambda x, a, b: lt.where(x > a, x, 0.0), 1.0, 0.0),
}
"""Functions of x, alpha and beta, with the defaults of these."""


@dataclass(frozen=True)
class Options:
    """The attributes that the three layers have in common."""

    activations: list[str] | None
    activation_alpha: list[float] | None
    activation_beta: list[float] | None
    clip: float
    direction: str
    layout: int

    def functions(self, standard: Sequence[str]) -> list[list[Activation]]:
        """The activations of each direction."""
        count = 2 if self.direction == "bidirectional" else 1
        names = self.activations or [*standard] * count
        if len(names) < len(standard) * count:
            raise ArgumentError(f"activations {names}: {len(standard)} for each direction")
        found = [self._function(i, name, i % len(standard) < 2) for i, name in enumerate(names)]
        return [found[i * len(standard):(i + 1) * len(standard)] for i in range(count)]

    def _function(self, place: int, name: str, of_gate: bool) -> Activation:
        """An activation; what a gate is given is clipped, a cell is not."""
        if name.lower() not in ACTIVATIONS:
            raise ArgumentError(f"activation {name!r}: {sorted(ACTIVATIONS)} are there")
        function, alpha, beta = ACTIVATIONS[name.lower()]
        given_alpha, given_beta = self.activation_alpha or [], self.activation_beta or []
        a = given_alpha[place] if place < len(given_alpha) else alpha
        b = given_beta[place] if place < len(given_beta) else beta

        def apply(x: T) -> T:
            clipped = x.clamp(-self.clip, self.clip) if self.clip and of_gate else x
            return function(clipped, a, b)
        return apply


Step = Callable[[T, list[T]], list[T]]


def _run(x: T, states: list[T], lengths: T | None, step: Step, backwards: bool,
         others: Sequence[T | None]) -> tuple[T, list[T]]:
    """All steps of one direction. x: what each step is given, [steps, batch, ..]. others: what else
    steps read. Returns the first state of each step, and the last states. Behind its length a
    sequence has zeros, and one of no steps has zeros as its last states, as in onnxruntime."""
    def ahead(own: list[T], before: list[T]) -> tuple[list[T], list[T]]:
        t, given = own
        new = step(given, before)
        if lengths is None:
            return new, new[:1]
        going = (lengths > t)[:, None]
        return [lt.where(going, a, b) for a, b in zip(new, before, strict=True)], [
            lt.where(going, new[0], 0.0)]
    steps = x.shape[0]
    if not steps:
        return states[0].new_zeros((0, *states[0].shape)), [lt.zeros_like(s) for s in states]
    if lengths is not None:
        states = [lt.where((lengths > 0)[:, None], s, 0.0) for s in states]
    scan = scanned(ahead, [x], states, [o for o in (lengths, *others) if o is not None],
                   known=[np.arange(steps)], reverse=backwards)
    if scan is not None:
        return scan[1][0], scan[0]
    found: list[T] = [x] * steps
    for t in reversed(range(steps)) if backwards else range(steps):
        states, [found[t]] = ahead([lt.tensor(t, device=x.device), x[t]], states)
    return lt.stack(found), states


def _layer(x: T, w: T, initial: Sequence[T | None], lengths: T | None, options: Options,
           hidden: int, make_step: Callable[[int], tuple[T, Step]], others: Sequence[T | None],
           ) -> tuple[T, list[T]]:
    """Both directions: outputs [steps, directions, batch, hidden] and last states, each
    [directions, batch, hidden]. make_step gives what is added to each step's input, and the
    step, which reads `others`."""
    if options.direction not in ("forward", "reverse", "bidirectional"):
        raise ArgumentError(f"direction {options.direction!r}: forward, reverse and bidirectional "
                            f"are the ones there are")
    if options.layout:
        x = x.transpose(0, 1)
        initial = [None if s is None else s.transpose(0, 1) for s in initial]
    directions = 2 if options.direction == "bidirectional" else 1
    for state in initial:
        if state is not None and (state.shape[0], state.shape[-1]) != (directions, hidden):
            raise lt.ShapeError(f"a first state of shape {list(state.shape)}: with states of "
                                f"{hidden} it must be [{directions}, batch, {hidden}]; the "
                                f"standard has no projection of states")
    outputs, last = [], []
    for d in range(directions):
        bias, step = make_step(d)
        given = x @ w[d].mT + bias
        states = [lt.zeros(x.shape[1], hidden, dtype=x.dtype, device=x.device)
                  if s is None else s[d] for s in initial]
        backwards = d == 1 or options.direction == "reverse"
        found, final = _run(given, states, lengths, step, backwards, others)
        outputs.append(found)
        last.append(final)
    y = lt.stack(outputs, 1)
    ends = [lt.stack(parts) for parts in zip(*last, strict=True)]
    if options.layout:
        y, ends = y.permute(2, 0, 1, 3), [end.transpose(0, 1) for end in ends]
    return y, ends


def _check_weights(w: T, r: T, gates: int, options: Options) -> None:
    """ShapeError unless weights of inputs and states are those of one layer."""
    directions = 2 if options.direction == "bidirectional" else 1
    wide = gates * r.shape[-1]
    if tuple(r.shape[:2]) != (directions, wide) or tuple(w.shape[:2]) != (directions, wide):
        raise lt.ShapeError(f"weights of inputs {list(w.shape)} and of states {list(r.shape)}: "
                            f"with states of {r.shape[-1]} both must be [{directions}, {wide}, "
                            f"..]")


def _biases(b: T | None, like: T, gates: int, hidden: int) -> tuple[T, T]:
    """Biases of inputs and of states: [directions, gates * hidden] each."""
    if b is None:
        zeros = lt.zeros(like.shape[0], gates * hidden, dtype=like.dtype, device=like.device)
        return zeros, zeros
    return b[:, :gates * hidden], b[:, gates * hidden:]


@operator("RNN", since=7)
def rnn(x: T, w: T, r: T, b: T | None = None, lengths: T | None = None,
        initial_h: T | None = None, *, activation_alpha: list[float] | None = None,
        activation_beta: list[float] | None = None, activations: list[str] | None = None,
        clip: float = 0.0, direction: str = "forward", hidden_size: int | None = None,
        layout: int = 0) -> tuple[T, T]:
    """h = f(x w + h r + b) at each step."""
    options = Options(activations, activation_alpha, activation_beta, clip, direction, layout)
    functions, hidden = options.functions(["Tanh"]), r.shape[-1]
    _check_weights(w, r, 1, options)
    inner, outer = _biases(b, w, 1, hidden)

    def make_step(d: int) -> tuple[T, Step]:
        def step(given: T, states: list[T]) -> list[T]:
            return [functions[d][0](given + states[0] @ r[d].mT)]
        return inner[d] + outer[d], step
    y, ends = _layer(x, w, [initial_h], lengths, options, hidden, make_step, [r])
    return y, ends[0]


@operator("GRU", since=7)
def gru(x: T, w: T, r: T, b: T | None = None, lengths: T | None = None,
        initial_h: T | None = None, *, activation_alpha: list[float] | None = None,
        activation_beta: list[float] | None = None, activations: list[str] | None = None,
        clip: float = 0.0, direction: str = "forward", hidden_size: int | None = None,
        layout: int = 0, linear_before_reset: int = 0) -> tuple[T, T]:
    """Gates z (how much stays) and r (how much of the state the new value sees), in this order."""
    options = Options(activations, activation_alpha, activation_beta, clip, direction, layout)
    functions, n = options.functions(["Sigmoid", "Tanh"]), r.shape[-1]
    _check_weights(w, r, 3, options)
    inner, outer = _biases(b, w, 3, n)

    def make_step(d: int) -> tuple[T, Step]:
        f, g = functions[d]
        bias = outer[d]

        def step(given: T, states: list[T]) -> list[T]:
            h = states[0]
            gates = f(given[:, :2 * n] + h @ r[d, :2 * n].mT + bias[:2 * n])
            z, reset = gates[:, :n], gates[:, n:]
            seen = reset * (h @ r[d, 2 * n:].mT + bias[2 * n:]) if linear_before_reset else \
                (reset * h) @ r[d, 2 * n:].mT + bias[2 * n:]
            return [(1 - z) * g(given[:, 2 * n:] + seen) + z * h]
        return inner[d], step
    y, ends = _layer(x, w, [initial_h], lengths, options, n, make_step, [r, b])
    return y, ends[0]


@operator("LSTM", since=7)
def lstm(x: T, w: T, r: T, b: T | None = None, lengths: T | None = None,
         initial_h: T | None = None, initial_c: T | None = None, peepholes: T | None = None, *,
         activation_alpha: list[float] | None = None, activation_beta: list[float] | None = None,
         activations: list[str] | None = None, clip: float = 0.0, direction: str = "forward",
         hidden_size: int | None = None, input_forget: int = 0,
         layout: int = 0) -> tuple[T, T, T]:
    """Gates i, o, f and the new value c, in this order; peepholes let gates i, o, f see c."""
    options = Options(activations, activation_alpha, activation_beta, clip, direction, layout)
    return lstm_of(x, w, r, b, lengths, initial_h, initial_c, peepholes, options, input_forget,
                   lambda h: h)


def lstm_of(x: T, w: T, r: T, b: T | None, lengths: T | None, initial_h: T | None,
            initial_c: T | None, peepholes: T | None, options: Options, input_forget: int,
            seen: Callable[[T], T]) -> tuple[T, T, T]:
    """An LSTM. seen: what the next step sees of a state."""
    functions, n = options.functions(["Sigmoid", "Tanh", "Tanh"]), r.shape[-1]
    _check_weights(w, r, 4, options)
    inner, outer = _biases(b, w, 4, n)

    def make_step(d: int) -> tuple[T, Step]:
        f, g, h = functions[d]
        peep = None if peepholes is None else [peepholes[d, k * n:(k + 1) * n] for k in range(3)]

        def step(given: T, states: list[T]) -> list[T]:
            old, cell = states
            gates = given + seen(old) @ r[d].mT
            i, o, forget, c = (gates[:, k * n:(k + 1) * n] for k in range(4))
            if peep is not None:
                i, forget = i + peep[0] * cell, forget + peep[2] * cell
            i = f(i)
            forget = 1 - i if input_forget else f(forget)
            cell = forget * cell + i * g(c)
            return [f(o + peep[1] * cell if peep is not None else o) * h(cell), cell]
        return inner[d] + outer[d], step
    y, ends = _layer(x, w, [initial_h, initial_c], lengths, options, n, make_step, [r, peepholes])
    return y, ends[0], ends[1]
