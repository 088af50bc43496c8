"""Pruning: weights of a module that are held at 0, under PyTorch's names.

`module.weight` becomes `module.weight_orig * module.weight_mask`, computed whenever it is asked
for: the parameter trains on, and the mask, a buffer of ones and zeros, is saved with the module.
"""
from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, TypeVar

from lazyten.frontend import functions
from lazyten.frontend.tensor import Tensor
from lazyten.nn.module import Module
from lazyten.nn.utils import computed
from lazyten.nn.utils.parametrizations import tensor_named
from lazyten.operators.math import shapes
from lazyten.support.errors import ArgumentError, DTypeError, ShapeError
from lazyten.support.grad_mode import no_grad

M = TypeVar("M", bound=Module)
_METHODS = "_pruning_methods"


class BasePruningMethod(ABC):
    """Chooses what of a tensor is pruned. A method of one's own defines PRUNING_TYPE and
    compute_mask(), and is used by `Own.apply(module, "weight", *arguments)`.

    PRUNING_TYPE: what a further method chooses from: 'unstructured', the elements that are left;
    'structured', those places along the axis `dim` of which anything is left; 'global', everything.
    """

    PRUNING_TYPE: ClassVar[str]
    _tensor_name: str

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Ones for what of `t` is kept, and zeros, which default_mask has already."""

    def apply_mask(self, module: Module) -> Tensor:
        """The pruned tensor."""
        name = self._tensor_name
        return masked(module, name)

    @classmethod
    def apply(cls, module: Module, name: str, *args: Any, importance_scores: Tensor | None = None,
              **kwargs: Any) -> BasePruningMethod:
        """Prune module.name, further if it is pruned already; gives the method. args, kwargs: those
        of the class. importance_scores, of the tensor's shape: chooses in place of its values."""
        value = tensor_named(module, name, f"prune of {cls.__name__}")
        scores = value if importance_scores is None else importance_scores
        _check_shape(f"prune of {cls.__name__}: importance_scores", scores, value)
        method: BasePruningMethod = cls(*args, **kwargs)
        method._tensor_name = name
        before = _methods(module).get(name)
        if before is not None:
            method = PruningContainer(before, method)
        with no_grad():
            there = functions.ones_like(value) if before is None else getattr(
                module, f"{name}_mask").clone()
            mask = method.compute_mask(scores.detach(), there).to(value.dtype)
        _check_shape(f"{cls.__name__}.compute_mask(): the mask", mask, value)
        if before is None:
            _begin(module, name)
        module.register_buffer(f"{name}_mask", mask)
        setattr(module, _METHODS, {**_methods(module), name: method})
        return method

    @no_grad()
    def prune(self, t: Tensor, default_mask: Tensor | None = None,
              importance_scores: Tensor | None = None) -> Tensor:
        """A tensor with zeros where this method prunes it."""
        scores = t if importance_scores is None else importance_scores
        _check_shape("prune: importance_scores", scores, t)
        there = functions.ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(scores, there).to(t.dtype)

    def remove(self, module: Module) -> None:
        """Have the pruned tensor be an ordinary parameter, with its zeros; it is trained from now
        on like any other, the zeros too."""
        name = self._tensor_name
        with no_grad():
            value = masked(module, name).detach().clone()
            kept = module._parameters.get(f"{name}_orig")
        computed.keep(module, name)
        delattr(module, f"{name}_orig")
        delattr(module, f"{name}_mask")
        rest = {other: method for other, method in _methods(module).items() if other != name}
        if rest:
            setattr(module, _METHODS, rest)
        else:
            delattr(module, _METHODS)
        if kept is None:
            module.register_buffer(name, value)
        else:
            kept.data = value
            module.register_parameter(name, kept)


def _methods(module: Module) -> dict[str, BasePruningMethod]:
    """How each pruned tensor of a module is pruned, by its name."""
    found: dict[str, BasePruningMethod] = module.__dict__.get(_METHODS, {})
    return found


def masked(module: Module, name: str) -> Tensor:
    """What module.name is while it is pruned."""
    mask: Tensor = getattr(module, f"{name}_mask")
    result: Tensor = mask * getattr(module, f"{name}_orig")
    return result


def _begin(module: Module, name: str) -> None:
    """Have module.name be computed from what it was, which is called name_orig from now on."""
    parameter, buffer = module._parameters.get(name), module._buffers.get(name)
    if parameter is None and buffer is None:
        raise ArgumentError(f"prune: {name!r} of {type(module).__name__} is computed from other "
                            f"tensors; prune one of those")
    computed.compute(module, name, lambda self: masked(self, name))
    if parameter is not None:
        module.register_parameter(f"{name}_orig", parameter)
    else:
        module.register_buffer(f"{name}_orig", buffer)


class PruningContainer(BasePruningMethod):
    """Several methods, each of which chooses from what those before have left."""

    def __init__(self, *args: BasePruningMethod | Iterable[BasePruningMethod]) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        for given in args:
            for method in [given] if isinstance(given, BasePruningMethod) else given:
                self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod | None) -> None:
        """Have one more method. ArgumentError if it is for another tensor."""
        if not isinstance(method, BasePruningMethod):
            raise DTypeError(f"PruningContainer: {method!r:.40} is no pruning method; give an "
                             f"object of a class such as L1Unstructured")
        own = method._tensor_name
        if self._pruning_methods and own != self._tensor_name:
            raise ArgumentError(f"PruningContainer for {self._tensor_name!r}: the method added is "
                                f"for {own!r}; all are for one tensor")
        self._tensor_name = own
        self._pruning_methods += method._pruning_methods if isinstance(
            method, PruningContainer) else (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, at: int) -> BasePruningMethod:
        return self._pruning_methods[at]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask that the last method makes of that of the others."""
        method, mask = self._pruning_methods[-1], default_mask.clone()
        where: Any
        if method.PRUNING_TYPE == "unstructured":
            where = mask == 1
        elif method.PRUNING_TYPE == "structured":
            dim = shapes.axis(getattr(method, "dim", -1), t.ndim, type(method).__name__)
            where = [slice(None)] * t.ndim
            where[dim] = mask.sum([a for a in range(t.ndim) if a != dim]) != 0
            where = tuple(where)
        elif method.PRUNING_TYPE == "global":
            where = (slice(None),) * t.ndim
        else:
            raise ArgumentError(f"{type(method).__name__}: PRUNING_TYPE={method.PRUNING_TYPE!r} is "
                                f"none of 'unstructured', 'structured', 'global'")
        mask[where] = method.compute_mask(t[where], mask[where]).to(mask.dtype)
        return mask


class Identity(BasePruningMethod):
    """Prunes nothing: parameters and names become those of a pruned module."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask


class _Some(BasePruningMethod):
    """Prunes an amount of what there is: so many (int), or that share of all (float)."""

    def __init__(self, amount: int | float) -> None:
        is_share = isinstance(amount, float)
        if isinstance(amount, bool) or not isinstance(amount, int | float) or amount < 0 or \
                is_share and not amount <= 1:
            raise ArgumentError(f"{type(self).__name__}: amount={amount!r} is neither a share, a "
                                f"float from 0 to 1, nor a number of elements, an int of 0 or more")
        self.amount = amount

    def _count(self, size: int) -> int:
        """How many of `size` are pruned."""
        if isinstance(self.amount, float):
            return round(self.amount * size)
        if self.amount > size:
            raise ArgumentError(f"{type(self).__name__}: amount={self.amount} is more than the "
                                f"{size} that there are")
        return self.amount


class RandomUnstructured(_Some):
    """Prunes elements by chance."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        chance = functions.empty(t.shape, device=t.device).uniform_()
        return _without_least(chance, self._count(t.numel()), default_mask)


class L1Unstructured(_Some):
    """Prunes the elements of least absolute value."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return _without_least(t.abs(), self._count(t.numel()), default_mask)


def _without_least(values: Tensor, count: int, mask: Tensor) -> Tensor:
    """The mask with zeros for that many of the least values."""
    least = values.flatten().topk(count, largest=False).indices
    return mask.flatten().index_fill(0, least, 0).reshape(mask.shape)


class _AlongAnAxis(_Some):
    """Prunes whole places along an axis: channels, rows."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: int | float, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = shapes.as_int(dim, type(self).__name__, "dim")

    @abstractmethod
    def _worth(self, t: Tensor, others: list[int]) -> Tensor:
        """A number for each place, which all axes but `others` have; the least are pruned."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if t.ndim < 2:
            raise ShapeError(f"{type(self).__name__} of shape {t.shape}: whole places of an axis "
                             f"are for tensors of 2 axes or more; use L1Unstructured")
        dim = shapes.axis(self.dim, t.ndim, type(self).__name__)
        worth = self._worth(t, [a for a in range(t.ndim) if a != dim])
        kept = _without_least(worth, self._count(t.shape[dim]), functions.ones_like(worth))
        return default_mask * kept.reshape([-1 if a == dim else 1 for a in range(t.ndim)])


class RandomStructured(_AlongAnAxis):
    """Prunes places along axis `dim` by chance."""

    def _worth(self, t: Tensor, others: list[int]) -> Tensor:
        return functions.empty(t.detach().sum(others).shape, device=t.device).uniform_()


class LnStructured(_AlongAnAxis):
    """Prunes places along axis `dim` where the n-norm of what is there is least. n: a number, or
    whatever else lt.norm takes as `p`."""

    def __init__(self, amount: int | float, n: Any, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def _worth(self, t: Tensor, others: list[int]) -> Tensor:
        return t.norm(p=self.n, dim=others)


class CustomFromMask(BasePruningMethod):
    """Prunes where a mask of 0 and 1 is 0."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        _check_shape("CustomFromMask: the mask", self.mask, default_mask)
        return default_mask * self.mask.to(device=default_mask.device, dtype=default_mask.dtype)


def _check_shape(what: str, given: Tensor, of: Tensor) -> None:
    """ShapeError unless both tensors have the same shape."""
    if given.shape != of.shape:
        raise ShapeError(f"{what} has shape {given.shape}, and the tensor {of.shape}; they must be "
                         f"equal")


# ---- functions -----------------------------------------------------------------------------------

def identity(module: M, name: str) -> M:
    """Have module.name pruned by nothing yet; gives the module."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: M, name: str, amount: int | float) -> M:
    """Prune an amount of module.name, so many or that share, by chance; gives the module."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: M, name: str, amount: int | float,
                    importance_scores: Tensor | None = None) -> M:
    """Prune an amount of module.name, so many or that share, where its values, or the scores if
    given, are nearest to 0; gives the module."""
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module: M, name: str, amount: int | float, dim: int) -> M:
    """Prune an amount of the places along axis `dim` of module.name, so many or that share, by
    chance; gives the module."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(module: M, name: str, amount: int | float, n: Any, dim: int,
                  importance_scores: Tensor | None = None) -> M:
    """Prune an amount of the places along axis `dim` of module.name, so many or that share, where
    the n-norm is least; gives the module."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: M, name: str, mask: Tensor) -> M:
    """Prune module.name where a mask of 0 and 1 is 0; gives the module."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(parameters: Iterable[tuple[Module, str]],
                        pruning_method: type[BasePruningMethod],
                        importance_scores: Mapping[tuple[Module, str], Tensor] | None = None,
                        **kwargs: Any) -> None:
    """Prune tensors, pairs of a module and a name, as if all were one: an amount of all of them.

    pruning_method: a class of type 'unstructured', such as L1Unstructured, and kwargs its options.
    """
    pairs, scores = list(parameters), importance_scores or {}
    if not pairs:
        raise ArgumentError("global_unstructured of no tensors; give pairs of a module and a name")
    if pruning_method.PRUNING_TYPE != "unstructured":
        raise DTypeError(f"global_unstructured: {pruning_method.__name__} is of type "
                         f"{pruning_method.PRUNING_TYPE!r}, and whole places of an axis cannot be "
                         f"compared between tensors; use one of type 'unstructured'")
    values = [tensor_named(module, name, "global_unstructured").detach() for module, name in pairs]
    method = pruning_method(**kwargs)
    method._tensor_name = "all"
    with no_grad():
        masks = [getattr(module, f"{name}_mask", functions.ones_like(value))
                 for (module, name), value in zip(pairs, values, strict=True)]
        ranked = [scores.get(pair, value) for pair, value in zip(pairs, values, strict=True)]
        mask = PruningContainer(method).compute_mask(
            functions.cat([x.detach().flatten() for x in ranked]),
            functions.cat([x.flatten() for x in masks]))
        parts = mask.split([value.numel() for value in values])
    for (module, name), value, part in zip(pairs, values, parts, strict=True):
        custom_from_mask(module, name, part.reshape(value.shape))


def remove(module: M, name: str) -> M:
    """Have module.name be an ordinary parameter with its zeros of now; gives the module."""
    method = _methods(module).get(name)
    if method is None:
        raise ArgumentError(f"remove: {name!r} of {type(module).__name__} is not pruned")
    method.remove(module)
    return module


def is_pruned(module: Module) -> bool:
    """Whether a tensor of the module, or of a part of it, is pruned."""
    return any(_methods(part) for part in module.modules())
