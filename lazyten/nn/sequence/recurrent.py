"""Recurrent layers: RNN, LSTM and GRU over whole sequences, in one or two directions."""
from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from lazyten.frontend import functions
from lazyten.frontend.recorded.lookup import recorded
from lazyten.frontend.tensor import DTypeLike, Tensor
from lazyten.nn import functional as F
from lazyten.nn.functions.dropout import check_probability
from lazyten.nn.module import Module
from lazyten.nn.modules.base import set_within, uniform_within
from lazyten.nn.parameter import Parameter
from lazyten.nn.sequence.cells import CELLS, GATES, in_type_of, mode_of
from lazyten.nn.sequence.packing import Layout, PackedSequence, layout, rows_of
from lazyten.operators.arrays import recurrences
from lazyten.operators.math import shapes
from lazyten.support.errors import ArgumentError, DTypeError, ShapeError

States = tuple[Tensor, ...]


Weights = tuple[Tensor | None, ...]
"""Of one layer in one direction: those of the KINDS."""
KINDS = "weight_ih", "bias_ih", "weight_hh", "bias_hh", "weight_hr"


@recorded
def _computed(mode: str, x: Tensor, first: States, weights: Sequence[Weights], directions: int,
              dropout: float, training: bool, there: Tensor | None) -> States:
    """All layers over x (T, N, features): the output of the last, and each last state (layers *
    directions, N, .)."""
    last: list[States] = []
    outputs: list[Tensor] = []
    for at, own in enumerate(weights):
        way = at % directions
        if at and not way:
            x, outputs = F.dropout(_beside(outputs), dropout, training), []
        output, *states = _one_way(mode, x, tuple(s[at] for s in first), own, bool(way), there)
        outputs.append(output)
        last.append(tuple(states))
    return _beside(outputs), *(functions.stack(same) for same in zip(*last, strict=True))


@recorded
def _of_tensor(mode: str, x: Tensor, first: States | None, features: tuple[int, ...],
               weights: Sequence[Weights], directions: int, dropout: float, training: bool,
               batch_first: bool) -> States:
    """The same of x as a layer is given it, whose states are of so many features: zeros where none
    are given. The output is like x, and states are without N where x is."""
    batched = x.ndim == 3
    inner = x.transpose(0, 1) if batched and batch_first else x if batched else x.unsqueeze(1)
    if first is None:
        count, rows = len(weights), inner.shape[1]
        first = tuple(functions.zeros((count, rows, n), dtype=x.dtype, device=x.device)
                      for n in features)
    found = _computed(mode, inner, first, weights, directions, dropout, training, None)
    if not batched:
        return tuple([y.squeeze(1) for y in found])
    return (found[0].transpose(0, 1), *found[1:]) if batch_first else found


def _beside(outputs: Sequence[Tensor]) -> Tensor:
    """What both directions give, side by side."""
    return functions.cat(outputs, -1) if len(outputs) > 1 else outputs[0]


def _one_way(mode: str, x: Tensor, first: States, weights: Weights, reverse: bool,
             there: Tensor | None) -> States:
    """One layer in one direction: hidden states (T, N, .), and each last state (N, .). See
    recurrences.recurrent."""
    weight, bias, *others = weights
    assert weight is not None, "a layer has a weight for what it reads"
    # The product for all steps is one; autocast may compute it in a low type.
    xs = F.linear(x, weight, bias).to(dtype=x.dtype)
    output, states = recurrences.recurrent(
        CELLS[mode], xs.node, tuple(s.node for s in first),
        [None if w is None else w.node for w in others], reverse,
        None if there is None else there.node)
    given = (xs, *first, *(w for w in others if w is not None))
    return tuple(Tensor._result(s, *given) for s in (output, *states))


class RNNBase(Module):
    """What recurrent layers share. mode: 'RNN_TANH', 'RNN_RELU', 'LSTM' or 'GRU'.

    Parameters of layer k: weight_ih_lk (gates * hidden_size, features of what it reads),
    weight_hh_lk (gates * hidden_size, features of the hidden state), bias_ih_lk and bias_hh_lk, of
    an LSTM with proj_size weight_hr_lk (proj_size, hidden_size); and the same with _reverse for the
    other direction. All are uniform up to 1 / sqrt(hidden_size).
    """

    count = 1
    """How many states a step hands on."""

    def __init__(self, mode: str, input_size: int, hidden_size: int, num_layers: int = 1,
                 bias: bool = True, batch_first: bool = False, dropout: float = 0.0,
                 bidirectional: bool = False, proj_size: int = 0, device: str | None = None,
                 dtype: DTypeLike | None = None) -> None:
        super().__init__()
        check_probability(dropout, type(self).__name__)
        self.mode = mode
        self.input_size, self.hidden_size, self.proj_size = input_size, hidden_size, proj_size
        self.num_layers, self.bias, self.batch_first = num_layers, bias, batch_first
        self.dropout, self.bidirectional = float(dropout), bidirectional
        self._check_arguments()
        rows = GATES[mode] * hidden_size
        for layer in range(num_layers):
            read = self._hidden * self._directions if layer else input_size
            for suffix in ("", "_reverse")[:self._directions]:
                sizes: dict[str, tuple[int, ...]] = {
                    "weight_ih": (rows, read), "weight_hh": (rows, self._hidden)}
                sizes |= {"bias_ih": (rows,), "bias_hh": (rows,)} if bias else {}
                sizes |= {"weight_hr": (proj_size, hidden_size)} if proj_size else {}
                for name, shape in sizes.items():
                    self.register_parameter(f"{name}_l{layer}{suffix}", uniform_within(
                        shape, 1 / math.sqrt(hidden_size), device, dtype))

    def _check_arguments(self) -> None:
        name = type(self).__name__
        if self.mode not in CELLS:
            raise ArgumentError(f"{name}: mode {self.mode!r} is not one of {', '.join(CELLS)}")
        for what, flag in (("bias", self.bias), ("batch_first", self.batch_first)):
            if not isinstance(flag, bool):
                raise DTypeError(f"{name}: {what} is {type(flag).__name__} {flag!r:.40}; give True "
                                 f"or False")
        for what in ("input_size", "hidden_size", "num_layers"):
            if shapes.as_int(getattr(self, what), name, what) < 1:
                raise ArgumentError(f"{name}: {what}={getattr(self, what)} must be 1 or more")
        if not 0 <= shapes.as_int(self.proj_size, name, "proj_size") < self.hidden_size:
            raise ArgumentError(f"{name}: proj_size={self.proj_size} must be less than "
                                f"hidden_size={self.hidden_size}, or 0 for no projection")
        if self.dropout and self.num_layers == 1:
            warnings.warn(f"{name}: dropout={self.dropout} drops between layers, and there is only "
                          f"one", stacklevel=4)

    @property
    def _directions(self) -> int:
        return 2 if self.bidirectional else 1

    @property
    def _hidden(self) -> int:
        """Features of the hidden state."""
        return self.proj_size or self.hidden_size

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters of each layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    @property
    def _all_weights(self) -> list[list[str]]:
        """Their names."""
        kinds = ["weight_ih", "weight_hh", *(["bias_ih", "bias_hh"] if self.bias else []),
                 *(["weight_hr"] if self.proj_size else [])]
        return [[f"{kind}_l{layer}{suffix}" for kind in kinds] for layer in range(self.num_layers)
                for suffix in ("", "_reverse")[:self._directions]]

    @property
    def _flat_weights_names(self) -> list[str]:
        return [name for names in self._all_weights for name in names]

    def flatten_parameters(self) -> None:
        """Nothing: parameters need not lie side by side."""

    def reset_parameters(self) -> None:
        """Initial values, anew."""
        bound = 1 / math.sqrt(self.hidden_size)
        for parameter in self.parameters():
            set_within(parameter, bound)

    def extra_repr(self) -> str:
        options = [("proj_size", 0), ("num_layers", 1), ("bias", True), ("batch_first", False),
                   ("dropout", 0), ("bidirectional", False)]
        shown = "".join(f", {name}={getattr(self, name)}" for name, usual in options
                        if getattr(self, name) != usual)
        return f"{self.input_size}, {self.hidden_size}{shown}"

    # ---- calls -----------------------------------------------------------------------------------

    def forward(self, input: Any, hx: Any = None) -> Any:
        """(output, last states) of a tensor (T, N, input_size), (N, T, input_size) if batch_first,
        or (T, input_size); or of a PackedSequence, whose output is one, too.

        output: the hidden states of the last layer, of both directions side by side. States, zeros
        unless given, are (num_layers * directions, N, features), or without N.
        """
        states = self._given_states(hx)
        if isinstance(input, PackedSequence):
            return self._packed(input, states)
        self._check_input(input, (2, 3))
        x = self._converted(input)
        batched = x.ndim == 3
        axis = 1 if self.batch_first and batched else 0
        self._check_steps(x.shape[axis])
        if states is not None:
            states = self._first_states(states, x, x.shape[1 - axis] if batched else 1, batched)
        output, *last = _of_tensor(
            self.mode, x, states, tuple(self._state_sizes()), self._weights, self._directions,
            self.dropout, self.training, self.batch_first)
        return output, self._result(tuple(last))

    def _packed(self, packed: PackedSequence, states: States | None) -> tuple[PackedSequence, Any]:
        """What forward() gives for packed sequences, padded in between."""
        self._check_input(packed.data, (2,))
        data, (sizes, _) = self._converted(packed.data), packed.sizes_and_order()
        where = layout(sizes, data.device)
        x = rows_of(data, where.back, where.rows).unflatten(0, (len(sizes), sizes[0]))
        first = self._first_states(states, x, sizes[0], True)
        if packed.sorted_indices is not None:
            first = tuple(s.index_select(1, packed.sorted_indices) for s in first)
        output, last = self._layers(x, first, where)
        if packed.unsorted_indices is not None:
            last = tuple(s.index_select(1, packed.unsorted_indices) for s in last)
        rows = rows_of(output.flatten(0, 1), where.rows, where.back)
        return packed.with_data(rows), self._result(last)

    def _layers(self, x: Tensor, first: States, where: Layout | None) -> tuple[Tensor, States]:
        """All layers over x (T, N, features): the output of the last, and last states."""
        self._check_steps(x.shape[0])
        there = None
        if where is not None and min(where.lengths) < x.shape[0]:
            there = (where.back >= 0).reshape(*x.shape[:2], 1)
        output, *last = _computed(self.mode, x, first, self._weights, self._directions,
                                  self.dropout, self.training, there)
        return output, tuple(last)

    @property
    def _weights(self) -> tuple[Weights, ...]:
        """The parameters of each layer and direction, None for a kind that there is not."""
        names = _names(self.num_layers, self._directions, self.bias, bool(self.proj_size))
        return tuple([tuple([None if name is None else getattr(self, name) for name in own])
                      for own in names])

    # ---- states, and checks ----------------------------------------------------------------------

    def _result(self, states: States) -> Any:
        return states[0]

    def _given_states(self, hx: Any) -> States | None:
        """States as users give them, in a tuple."""
        given = hx if self.count > 1 else (hx,)
        if hx is None:
            return None
        if not isinstance(given, tuple | list) or len(given) != self.count or not all(
                isinstance(s, Tensor) for s in given):
            want = "a pair of tensors (h, c)" if self.count > 1 else "a tensor"
            raise DTypeError(f"{type(self).__name__}: the states are {type(hx).__name__} "
                             f"{hx!r:.40}; give {want}, or None for zeros")
        return tuple(given)

    def _state_sizes(self) -> Iterator[int]:
        """The features of each state."""
        yield self._hidden
        yield from (self.hidden_size,) * (self.count - 1)

    def _first_states(self, given: States | None, x: Tensor, batch: int, batched: bool) -> States:
        """States (layers * directions, N, .) to begin with."""
        count = self.num_layers * self._directions
        if given is None:
            return tuple(functions.zeros((count, batch, n), dtype=x.dtype, device=x.device)
                         for n in self._state_sizes())
        for state, n in zip(given, self._state_sizes(), strict=True):
            wanted = (count, batch, n) if batched else (count, n)
            if state.shape != wanted:
                raise ShapeError(f"{type(self).__name__}: a first state has shape {state.shape}; "
                                 f"it needs {wanted}: layers times directions, "
                                 f"{'batch, ' if batched else ''}features")
        return tuple(self._converted(s if batched else s.unsqueeze(1)) for s in given)

    def _converted(self, x: Tensor) -> Tensor:
        return in_type_of(self.weight_ih_l0, x, type(self).__name__)

    def _check_steps(self, count: int) -> None:
        if not count:
            raise ShapeError(f"{type(self).__name__}: the input has no steps; give one or more")

    def _check_input(self, x: Any, ranks: Sequence[int]) -> None:
        name = type(self).__name__
        if not isinstance(x, Tensor):
            raise DTypeError(f"{name}: the input is {type(x).__name__} {x!r:.40}; give a tensor or "
                             f"a PackedSequence")
        if x.ndim not in ranks or x.shape[-1] != self.input_size:
            axes = "(batch, steps, " if self.batch_first else "(steps, batch, "
            raise ShapeError(f"{name}: the input has shape {x.shape}; it needs {axes}"
                             f"{self.input_size}), (steps, {self.input_size}), or packed (elements,"
                             f" {self.input_size})")


@lru_cache(64)
def _names(layers: int, directions: int, bias: bool, projects: bool
           ) -> tuple[tuple[str | None, ...], ...]:
    """Of each layer and direction the name of each of the KINDS, None for one that there is not."""
    there = [projects if kind == "weight_hr" else bias or not kind.startswith("bias")
             for kind in KINDS]
    return tuple([tuple([f"{kind}_l{layer}{suffix}" if is_there else None
                         for kind, is_there in zip(KINDS, there, strict=True)])
                  for layer in range(layers) for suffix in ("", "_reverse")[:directions]])


class RNN(RNNBase):
    """Plain recurrent layers: h = nonlinearity(W_ih x + b_ih + W_hh h + b_hh). See
    RNNBase.forward."""

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1,
                 nonlinearity: str = "tanh", bias: bool = True, batch_first: bool = False,
                 dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0,
                 device: str | None = None, dtype: DTypeLike | None = None) -> None:
        _check_no_projection(proj_size, "RNN")
        super().__init__(mode_of(nonlinearity, "RNN"), input_size, hidden_size, num_layers, bias,
                         batch_first, dropout, bidirectional, 0, device, dtype)
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """Layers of LSTM cells: of (T, N, input_size) the hidden states (T, N, hidden_size) and the
    last (h, c), each (num_layers, N, hidden_size); see RNNBase.forward.

    i, f, o = sigmoid(W x + U h + b), g = tanh(W x + U h + b), c' = f c + i g, h' = o tanh(c'), each
    with a W, U and b of its own, which is the sum of two (S. Hochreiter and J. Schmidhuber, 1997).

    proj_size: features of the hidden state h, which weight_hr makes of the cell's (H. Sak and
    others, 2014); 0: hidden_size.
    """

    count = 2

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
                 batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False,
                 proj_size: int = 0, device: str | None = None, dtype: DTypeLike | None = None
                 ) -> None:
        super().__init__("LSTM", input_size, hidden_size, num_layers, bias, batch_first, dropout,
                         bidirectional, proj_size, device, dtype)

    def _result(self, states: States) -> Any:
        return states


class GRU(RNNBase):
    """Layers of GRU cells: of (T, N, input_size) the hidden states (T, N, hidden_size) and the last
    ones, (num_layers, N, hidden_size); see RNNBase.forward.

    r, z = sigmoid(W x + U h + b), n = tanh(W x + b + r (U h + d)), h' = (1 - z) n + z h, each with
    a W, U and b of its own (K. Cho and others, 2014).
    """

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
                 batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False,
                 proj_size: int = 0, device: str | None = None, dtype: DTypeLike | None = None
                 ) -> None:
        _check_no_projection(proj_size, "GRU")
        super().__init__("GRU", input_size, hidden_size, num_layers, bias, batch_first, dropout,
                         bidirectional, 0, device, dtype)


def _check_no_projection(proj_size: int, layer: str) -> None:
    if proj_size:
        raise ArgumentError(f"{layer}: proj_size={proj_size} is for an LSTM only")
