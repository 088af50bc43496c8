"""`Distribution`: what all distributions have, and the small functions that they are written in."""
from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self, overload

from lazyten.autograd import grad
from lazyten.distributions import constraints
from lazyten.distributions.constraints import Constraint
from lazyten.execution import realization
from lazyten.frontend.core.size import Size
from lazyten.frontend.functions import broadcast_tensors, tensor, where
from lazyten.frontend.limits import finfo, get_default_dtype
from lazyten.frontend.random_functions import rand, randn
from lazyten.frontend.tensor import Tensor
from lazyten.ir import dtype as dt
from lazyten.operators.math import elementwise as ew
from lazyten.storage import levels, tracing
from lazyten.storage.device import widest_float
from lazyten.support.errors import ArgumentError, DTypeError, NoGradientError, NotDefinedError
from lazyten.support.grad_mode import enable_grad, no_grad

Shape = Sequence[int]


class Distribution:
    """Random values: `sample()` draws some, `log_prob(value)` is the log of their density.

    batch_shape: of independent distributions side by side, with parameters of their own;
    event_shape: of one value. validate_args: whether parameters and values are looked at; they are
    not in jitted functions and under transforms, where there is nothing to look at.
    """

    has_rsample = False
    has_enumerate_support = False
    _validate_args = __debug__
    arg_constraints: dict[str, Constraint] = {}  # noqa: RUF012  # as PyTorch's, and never changed

    def __init__(self, batch_shape: Shape = (), event_shape: Shape = (),
                 validate_args: bool | None = None) -> None:
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._looks:
            self._check_parameters()
        super().__init__()  # of a class beside it, such as Module

    def _check_parameters(self) -> None:
        """ArgumentError unless each parameter is as it must be; all are looked at together."""
        given = [(name, constraint) for name, constraint in self.arg_constraints.items()
                 if name in self.__dict__ and not constraints.is_dependent(constraint)]
        checked = [constraint.check(getattr(self, name)).all() for name, constraint in given]
        realization.realize([x._storage for x in checked if isinstance(x, Tensor)])
        for (name, constraint), holds in zip(given, checked, strict=True):
            if not bool(holds):
                raise ArgumentError(f"{type(self).__name__}: {name} is not {constraint}, where it "
                                    f"is {getattr(self, name).detach().tolist()!r:.200}")

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether parameters and values are looked at, where nothing else is said."""
        if not isinstance(value, bool):
            raise ArgumentError(f"set_default_validate_args({value!r}): give True or False")
        Distribution._validate_args = value

    @property
    def _looks(self) -> bool:
        return self._validate_args and tracing.current() is None and not levels.under_way()

    @property
    def support(self) -> Constraint:
        """What values may be."""
        raise NotDefinedError(f"{type(self).__name__} has no support")

    @property
    def batch_shape(self) -> Size:
        """The shape of independent distributions side by side."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of one value."""
        return self._event_shape

    @property
    def mean(self) -> Tensor:
        """The mean."""
        raise NotDefinedError(f"{type(self).__name__} has no mean")

    @property
    def mode(self) -> Tensor:
        """The most likely value."""
        raise NotDefinedError(f"{type(self).__name__} has no mode")

    @property
    def variance(self) -> Tensor:
        """The variance."""
        raise NotDefinedError(f"{type(self).__name__} has no variance")

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        """Values of shape sample_shape + batch_shape + event_shape, without gradients."""
        with no_grad():
            return self._drawn(self._extended_shape(sample_shape))

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """sample() through which gradients flow to the parameters. GradientError where there is no
        such way."""
        if not self.has_rsample:
            raise NoGradientError(f"rsample of {type(self).__name__}: gradients do not flow "
                                  f"through its samples here; use sample() and log_prob(), or "
                                  f"another distribution")
        return self._drawn(self._extended_shape(sample_shape))

    def _drawn(self, shape: Size) -> Tensor:
        """Values of this whole shape. (A user's own distribution defines rsample or sample.)"""
        mine, count = type(self), len(shape) - len(self._extended_shape())
        if mine.rsample is not Distribution.rsample:
            return self.rsample(shape[:count])
        if mine.sample is not Distribution.sample:
            return self.sample(shape[:count])
        raise NotDefinedError(f"{type(self).__name__} cannot be sampled from")

    def sample_n(self, n: int) -> Tensor:
        """sample((n,))."""
        return self.sample((n,))

    def log_prob(self, value: Tensor) -> Tensor:
        """The log of the density, or of the probability, of shape sample_shape + batch_shape."""
        raise NotDefinedError(f"{type(self).__name__} has no log_prob")

    def cdf(self, value: Tensor) -> Tensor:
        """How likely a value is not above this one."""
        raise NotDefinedError(f"{type(self).__name__} has no cdf")

    def icdf(self, value: Tensor) -> Tensor:
        """The value that is not exceeded with this probability."""
        raise NotDefinedError(f"{type(self).__name__} has no icdf")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values, along a first axis."""
        raise NotDefinedError(f"{type(self).__name__} has no list of values")

    def entropy(self) -> Tensor:
        """The entropy, in nats."""
        raise NotDefinedError(f"{type(self).__name__} has no entropy")

    def perplexity(self) -> Tensor:
        """exp(entropy())."""
        return self.entropy().exp()

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Self:
        """The same distribution with a larger batch_shape. _instance: of a subclass, which gets
        what it does not have yet."""
        made = copy.copy(self) if _instance is None else _instance
        had = set() if _instance is None else set(_instance.__dict__)
        own = len(self._batch_shape)
        for name, value in self.__dict__.items():
            if name not in had:
                made.__dict__[name] = value.expand(*batch_shape, *value.shape[own:]) \
                    if isinstance(value, Tensor) else value
        made._batch_shape = Size(batch_shape)
        return made

    def _get_checked_instance(self, cls: type[Any], _instance: Any = None) -> Any:
        """What a subclass's expand() makes its result of: _instance, or one without values.
        NotImplementedError in a subclass of that with an `__init__` of its own, and no expand()."""
        if _instance is None and type(self).__init__ != cls.__init__:
            raise NotDefinedError(f"{type(self).__name__}, a subclass of {cls.__name__} with "
                                  f"an __init__ of its own, needs an expand() of its own, too")
        return object.__new__(type(self)) if _instance is None else _instance

    def _extended_shape(self, sample_shape: Shape = ()) -> Size:
        if not isinstance(sample_shape, Iterable):
            raise DTypeError(f"{type(self).__name__}: sample_shape is {sample_shape!r:.60}; give a "
                             f"tuple of sizes, such as ({sample_shape!r:.60},)")
        return Size((*sample_shape, *self._batch_shape, *self._event_shape))

    def _validate_sample(self, value: Any) -> Tensor:
        """The value, which may be a number if arguments are not validated. ArgumentError unless it
        may be one."""
        if isinstance(value, int | float) and not self._validate_args:
            value = self._number(value)
        if not isinstance(value, Tensor):
            raise ArgumentError(f"{type(self).__name__}.log_prob: {type(value).__name__} "
                                f"{value!r:.40} is not a tensor; wrap it in lazyten.tensor()")
        event = self._event_shape
        wanted = zip(reversed(value.shape), reversed((*self._batch_shape, *event)), strict=False)
        if self._validate_args and value.shape[max(value.ndim - len(event), 0):] != event \
                or any(a not in (1, b) and b != 1 for a, b in wanted):
            raise ArgumentError(f"{type(self).__name__}: values of shape {value.shape} do not fit "
                                f"batch_shape {self._batch_shape} and event_shape {event}")
        if self._looks and not bool(self.support.check(value).all()):
            raise ArgumentError(f"{type(self).__name__}: a value is not in {self.support}: "
                                f"{value.detach().tolist()!r:.200}")
        return value

    def _given(self, value: Any) -> Tensor:
        """A value, or a probability, that may be a number."""
        return value if isinstance(value, Tensor) else self._number(value)

    def _number(self, value: float) -> Tensor:
        """A number in the type of the parameters."""
        given = (self.__dict__.get(name) for name in self.arg_constraints)
        dtype = next((x.dtype for x in given if isinstance(x, Tensor) and x.dtype.is_float),
                     get_default_dtype())
        return tensor(value, dtype=dtype)

    def __repr__(self) -> str:
        shown = [f"{name}: {value.item() if value.numel() == 1 else value.shape}"
                 for name in self.arg_constraints
                 if isinstance(value := self.__dict__.get(name), Tensor)]
        return f"{type(self).__name__}({', '.join(shown)})"


class ExponentialFamily(Distribution):
    """Distributions of density exp(sum of statistic * natural parameter - log normalizer + carrier
    measure). A user's own that says what these are has entropy() and kl_divergence by them."""

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        raise NotDefinedError(f"{type(self).__name__} has no _natural_params; define them to have "
                              f"entropy() and kl_divergence by them")

    @property
    def _mean_carrier_measure(self) -> Tensor | float:
        raise NotDefinedError(f"{type(self).__name__} has no _mean_carrier_measure; define it to "
                              f"have entropy()")

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        raise NotDefinedError(f"{type(self).__name__} has no _log_normalizer; define it to have "
                              f"entropy() and kl_divergence by it")

    def _mean_statistics(self) -> tuple[tuple[Tensor, ...], Tensor, tuple[Tensor, ...]]:
        """The natural parameters, the log normalizer there, and its slopes, which are the means of
        the statistics (C. Bishop, Pattern Recognition and Machine Learning, 2.4)."""
        with enable_grad():
            at = tuple(x.detach().requires_grad_() if not x.requires_grad else x
                       for x in self._natural_params)
            normalizer = self._log_normalizer(*at)
            means = grad(normalizer.sum(), at, create_graph=True)
            return at, normalizer, tuple([mean for mean in means if mean is not None])

    def entropy(self) -> Tensor:
        at, normalizer, means = self._mean_statistics()
        found = normalizer - self._mean_carrier_measure
        for parameter, mean in zip(at, means, strict=True):
            found = found - sum_rightmost(parameter * mean, len(self._event_shape))
        return found


class lazy_property:  # PyTorch's name
    """A property that is computed once, with its gradients."""

    def __init__(self, wrapped: Callable[[Any], Tensor]) -> None:
        self.wrapped = wrapped
        self.__doc__ = wrapped.__doc__

    @overload
    def __get__(self, instance: None, owner: Any) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: Any) -> Tensor: ...

    def __get__(self, instance: object, owner: Any) -> Self | Tensor:
        if instance is None:
            return self
        with enable_grad():
            value = self.wrapped(instance)
        instance.__dict__[self.wrapped.__name__] = value
        return value


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Numbers and tensors as tensors of one shape; numbers are of the tensors' type."""
    like = next((v for v in values if isinstance(v, Tensor)), None)
    kind = get_default_dtype() if like is None or not like.dtype.is_float else like.dtype
    device = None if like is None else like.device
    made = [v if isinstance(v, Tensor) else tensor(v, dtype=kind, device=device) for v in values]
    return tuple(broadcast_tensors(*made))


def in_float64(formula: Callable[..., Tensor], *given: Tensor) -> Tensor:
    """A formula of tensors whose large terms cancel, in float64 if their device has that, rounded
    once to their own type."""
    dtype = ew.result_type([t.node for t in given])
    wide = widest_float(given[0].device)
    return formula(*[t.to(dtype=wide) for t in given]).to(dtype=dtype)


def choose(condition: Tensor, x: Any, y: Any) -> Tensor:
    """x where a condition holds, else y."""
    chosen: Tensor = where(condition, x, y)
    return chosen


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities away from 0 and 1, so that their logs are finite."""
    eps = finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Logs of probabilities; of one of two, of their ratio."""
    kept = clamp_probs(probs)
    return kept.log() - (-kept).log1p() if is_binary else kept.log()


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Probabilities of logs."""
    return logits.sigmoid() if is_binary else logits.softmax(-1)


def sum_rightmost(value: Tensor, count: int) -> Tensor:
    """The sum over the last axes."""
    return value.sum(tuple(range(-count, 0))) if count else value


def uniform_like(shape: Size, like: Tensor) -> Tensor:
    """Evenly spread over (0, 1), of the type and on the device of a tensor."""
    drawn = rand(*shape, dtype=like.dtype, device=like.device)
    return drawn.clamp(min=finfo(like.dtype).tiny)


def given_one(name: str, probs: Any, logits: Any) -> None:
    """ArgumentError unless one of two parameters is given."""
    if (probs is None) == (logits is None):
        raise ArgumentError(f"{name}: give either probs or logits")


_sum_rightmost = sum_rightmost


def _standard_normal(shape: Shape, dtype: dt.DType, device: Any) -> Tensor:
    """Numbers of the standard normal distribution."""
    return randn(shape, dtype=dtype, device=device)
