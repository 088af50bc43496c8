"""Cells of recurrent nets: one step of a sequence."""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from lazyten.frontend import functions
from lazyten.frontend.core import mixed_precision
from lazyten.frontend.recorded.lookup import recorded
from lazyten.frontend.tensor import DTypeLike, Tensor
from lazyten.nn import functional as F
from lazyten.nn.module import Module
from lazyten.nn.modules.base import set_within, uniform_within
from lazyten.nn.parameter import Parameter
from lazyten.operators.arrays import recurrences
from lazyten.operators.arrays.recurrences import Cell
from lazyten.operators.math import shapes
from lazyten.support.errors import ArgumentError, DTypeError, KindError, ShapeError

CELLS: dict[str, Cell] = {"RNN_TANH": recurrences.tanh_cell, "RNN_RELU": recurrences.relu_cell,
                          "LSTM": recurrences.lstm_cell, "GRU": recurrences.gru_cell}
GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "LSTM": 4, "GRU": 3}


@recorded
def _next_states(mode: str, x: Tensor, states: Sequence[Tensor], weight: Tensor,
                 bias: Tensor | None) -> tuple[Tensor, ...]:
    """The states after a step. See recurrences.step."""
    nodes = recurrences.step(CELLS[mode], x.node, tuple(s.node for s in states), weight.T.node,
                             None if bias is None else bias.node)
    given = (x, *states, weight, *(() if bias is None else (bias,)))
    return tuple(Tensor._result(n, *given) for n in nodes)


def mode_of(nonlinearity: str, layer: str) -> str:
    """The cell of a plain recurrent net. ArgumentError for an unknown nonlinearity."""
    mode = f"RNN_{nonlinearity}".upper()
    if mode not in CELLS or nonlinearity not in ("tanh", "relu"):
        raise ArgumentError(f"{layer}: nonlinearity {nonlinearity!r} is neither 'tanh' nor 'relu'")
    return mode


def in_type_of(weight: Tensor, x: Tensor, layer: str) -> Tensor:
    """An input or a state in the type of the weights, which autocast may have made another.
    KindError for another type otherwise."""
    if x.dtype is weight.dtype:
        return x
    if x.dtype.is_float and mixed_precision.is_autocast_enabled(x.device):
        return x.to(dtype=weight.dtype)
    name = weight.dtype.name
    raise KindError(f"{layer}: the input or a state is {x.dtype.name} and the weights are {name}; "
                    f"convert one, for example with .to(lazyten.{name})")


class RNNCellBase(Module):
    """What cells share: weight_ih (gates * hidden_size, input_size), weight_hh (gates *
    hidden_size, hidden_size) and biases of both, uniform up to 1 / sqrt(hidden_size)."""

    bias_ih: Parameter | None
    bias_hh: Parameter | None

    def __init__(self, input_size: int, hidden_size: int, bias: bool, num_chunks: int,
                 device: str | None = None, dtype: DTypeLike | None = None) -> None:
        super().__init__()
        name = f"{type(self).__name__}({input_size}, {hidden_size})"
        for number in (input_size, hidden_size):
            if shapes.as_int(number, name, "a number of features") < 0:
                raise ArgumentError(f"{name}: features must be 0 or more")
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        bound = 1 / math.sqrt(hidden_size) if hidden_size else 0.0
        rows = num_chunks * hidden_size
        for part, shape in (("weight_ih", (rows, input_size)), ("weight_hh", (rows, hidden_size)),
                            ("bias_ih", (rows,)), ("bias_hh", (rows,))):
            self.register_parameter(part, uniform_within(shape, bound, device, dtype)
                                    if bias or len(shape) > 1 else None)

    def reset_parameters(self) -> None:
        """Initial values, anew."""
        bound = 1 / math.sqrt(self.hidden_size) if self.hidden_size else 0.0
        for parameter in self.parameters():
            set_within(parameter, bound)

    def extra_repr(self) -> str:
        more = getattr(self, "nonlinearity", "tanh")
        return (f"{self.input_size}, {self.hidden_size}"
                f"{'' if self.bias else ', bias=False'}"
                f"{'' if more == 'tanh' else f', nonlinearity={more}'}")

    def _stepped(self, mode: str, input: Tensor, hx: tuple[Tensor, ...] | None, count: int = 1
                 ) -> tuple[Tensor, ...]:
        weights = self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh
        return _stepped(type(self).__name__, mode, input, hx, weights, count)


Weights = tuple[Tensor, Tensor, Tensor | None, Tensor | None]
"""(gates * hidden, input), (gates * hidden, hidden), and a bias of each."""


def _stepped(name: str, mode: str, input: Tensor, hx: tuple[Tensor, ...] | None, weights: Weights,
             count: int = 1) -> tuple[Tensor, ...]:
    """`count` states after a step, with the batch axis that the input has."""
    weight_ih, weight, bias_ih, bias = weights
    inputs, hidden = weight_ih.shape[-1], weight.shape[-1]
    _check_tensors(name, input, hx, count)
    shape = (*input.shape[:-1], hidden)
    if input.ndim not in (1, 2) or input.shape[-1] != inputs:
        raise ShapeError(f"{name}: the input has shape {input.shape}; it needs (batch, {inputs}) "
                         f"or ({inputs},)")
    for number, state in enumerate(hx or ()):
        if state.shape != shape:
            raise ShapeError(f"{name}: state {number} has shape {state.shape}; beside an input "
                             f"{input.shape} it needs {shape}")
    zeros = functions.zeros(shape, dtype=weight.dtype, device=input.device)
    input, *states = (in_type_of(weight, x, name) for x in (input, *(hx or (zeros,) * count)))
    states = [s.reshape(-1, hidden) for s in states]
    x = F.linear(input.reshape(-1, inputs), weight_ih, bias_ih).to(dtype=weight.dtype)
    return tuple(s.reshape(shape) for s in _next_states(mode, x, states, weight, bias))


def _check_tensors(name: str, input: object, hx: object, count: int) -> None:
    """DTypeError unless the input is a tensor, and `count` states are."""
    states = () if hx is None else hx if isinstance(hx, tuple | list) else None
    if states is None or hx is not None and len(states) != count:
        raise DTypeError(f"{name}: the states are {type(hx).__name__} {hx!r:.40}; give a pair of "
                         f"tensors (h, c), or None")
    for what, x in [("the input", input), *((f"state {n}", s) for n, s in enumerate(states))]:
        if not isinstance(x, Tensor):
            raise DTypeError(f"{name}: {what} is {type(x).__name__} {x!r:.40}, not a tensor; wrap "
                             f"it in lazyten.tensor()")


class RNNCell(RNNCellBase):
    """nonlinearity(W_ih x + b_ih + W_hh h + b_hh): (batch, input_size), or without a batch, and a
    state (batch, hidden_size), zeros unless given, to the next state."""

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True,
                 nonlinearity: str = "tanh", device: str | None = None,
                 dtype: DTypeLike | None = None) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        mode = mode_of(self.nonlinearity, "RNNCell")
        return self._stepped(mode, input, None if hx is None else (hx,))[0]


class LSTMCell(RNNCellBase):
    """One step of an LSTM: (batch, input_size), or without a batch, and states (h, c), zeros unless
    given, to the next ones."""

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True,
                 device: str | None = None, dtype: DTypeLike | None = None) -> None:
        super().__init__(input_size, hidden_size, bias, GATES["LSTM"], device, dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None
                ) -> tuple[Tensor, Tensor]:
        h, c = self._stepped("LSTM", input, hx, 2)
        return h, c


class GRUCell(RNNCellBase):
    """One step of a GRU: (batch, input_size), or without a batch, and a state (batch, hidden_size),
    zeros unless given, to the next state."""

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True,
                 device: str | None = None, dtype: DTypeLike | None = None) -> None:
        super().__init__(input_size, hidden_size, bias, GATES["GRU"], device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._stepped("GRU", input, None if hx is None else (hx,))[0]


def _cell(name: str, mode: str) -> Callable[..., Tensor]:
    def cell(input: Tensor, hx: Tensor, w_ih: Tensor, w_hh: Tensor, b_ih: Tensor | None = None,
             b_hh: Tensor | None = None) -> Tensor:
        return _stepped(name, mode, input, (hx,), (w_ih, w_hh, b_ih, b_hh))[0]
    cell.__name__ = cell.__qualname__ = name
    cell.__doc__ = f"The state after a step of a {mode} cell with these weights; see nn's cells."
    return cell


gru_cell = _cell("gru_cell", "GRU")
rnn_tanh_cell = _cell("rnn_tanh_cell", "RNN_TANH")
rnn_relu_cell = _cell("rnn_relu_cell", "RNN_RELU")


def lstm_cell(input: Tensor, hx: Sequence[Tensor], w_ih: Tensor, w_hh: Tensor,
              b_ih: Tensor | None = None, b_hh: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The states (h, c) after a step of an LSTM cell with these weights; see nn.LSTMCell."""
    h, c = _stepped("lstm_cell", "LSTM", input, tuple(hx), (w_ih, w_hh, b_ih, b_hh), 2)
    return h, c
