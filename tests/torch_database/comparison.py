"""Samples of an entry in both libraries: outputs, then gradients of all inputs."""
from __future__ import annotations

import signal
import types
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

import lazyten as lt
from torch_database.translation import Untranslatable, tensors, translated, values
from torch_database.variants import Missing, element_type, ours, rebound, variants

_NAMES = """bernoulli cauchy exponential geometric log_normal multinomial normal
    normal_in_place normal_number_mean rand_like randint randint_like randn randn_like uniform
    nn_functional_alpha_dropout nn_functional_dropout nn_functional_dropout2d
    nn_functional_dropout3d nn_functional_feature_alpha_dropout_with_train
    nn_functional_fractional_max_pool2d nn_functional_fractional_max_pool3d
    nn_functional_multi_head_attention_forward nn_functional_rrelu
    nn_functional_scaled_dot_product_attention svd_lowrank"""
BY_CHANCE = set(_NAMES.split())
"""What draws numbers, which are others in each library: types and shapes are compared."""

VALUELESS = {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty",
             "new_empty_strided", "resize_", "resize_as_"}
"""What leaves values open."""

UP_TO_SIGN = {"linalg_eig", "linalg_eigh", "linalg_svd", "pca_lowrank", "svd"}
"""Whose vectors may point the other way, by LAPACK: what PyTorch's tests differentiate does not
depend on that, and is compared."""

TOLERANCE = {torch.float64: (1e-7, 1e-9), torch.float32: (1e-4, 1e-5), torch.float16: (2e-2, 2e-3),
             torch.bfloat16: (1e-1, 2e-2), torch.complex64: (1e-4, 1e-5),
             torch.complex128: (1e-7, 1e-9)}
"""Relative and absolute error; of other types none."""

Result = tuple[Any, list[Any] | None]
SKIPPED = ("skipped", "PyTorch takes none of its samples here")


@dataclass(frozen=True)
class Outcome:
    """What became of an entry: `result` is "right", "not there", "refused", "wrong values" or
    "wrong gradients"; of all but the first `why` says more."""

    name: str
    result: str
    why: str = ""


class Different(Exception):
    """Results differ; says how, and in values of which type."""

    def __init__(self, how: str, kind: torch.dtype | None = None) -> None:
        super().__init__(how)
        self.kind = kind


@dataclass
class Case:
    """A sample, and PyTorch's results for it."""

    entry: Any
    sample: Any
    kind: torch.dtype | None = None
    """What floats are made first, if anything."""

    @cached_property
    def by_chance(self) -> bool:
        """Whether values cannot be compared. What only drops elements may be told not to."""
        name, named = self.entry.formatted_name, self.sample.kwargs
        return name in BY_CHANCE | VALUELESS and not (
            named.get("dropout_p") == 0.0 or named.get("training") is False)

    def given(self, leaves: list[Any]) -> Any:
        """The sample's arguments. leaves: gets those that require gradients."""
        return _widened((self.sample.input, self.sample.args, self.sample.kwargs), self.kind,
                        leaves)

    @cached_property
    def expected(self) -> Result:
        """Outputs and gradients. Untranslatable for outputs that lazyten has none like."""
        leaves: list[Any] = []
        given = self.given(leaves)
        torch.manual_seed(42)
        output = self.entry.op(given[0], *given[1], **given[2])
        for x in tensors(output):
            if x.dtype is torch.complex32 or x.layout is not torch.strided:
                raise Untranslatable("complex" if x.is_complex() else "sparse")
        total = _total(self.processed(output))
        grads: list[Any] = [None] * len(leaves)
        if not isinstance(total, int) and not self.by_chance:
            try:
                grads = [*torch.autograd.grad(total, leaves, allow_unused=True)]
            except RuntimeError:  # of a sample, or an entry, that PyTorch does not differentiate
                return self._compared(output), None
        return self._compared(output), [torch.zeros_like(x) if g is None else g
                        for x, g in zip(leaves, grads, strict=True)]

    def found(self, function: Callable[..., Any]) -> tuple[Any, Callable[[], list[Any]]]:
        """lazyten's outputs, and what computes its gradients."""
        leaves: list[Any] = []
        given = [translated(x, leaves) for x in self.given([])]
        output = function(given[0], *given[1], **given[2])

        def gradients() -> list[Any]:
            total = 0 if self.by_chance else _total(self.processed(output, ours=True))
            if not isinstance(total, int):
                total.backward()
            return [lt.zeros_like(x) if x.grad is None else x.grad for x in leaves]
        return self._compared(output, ours=True), gradients

    def _compared(self, output: Any, ours: bool = False) -> Any:
        name = self.entry.formatted_name
        return self.processed(output, ours) if name in UP_TO_SIGN else output

    def processed(self, output: Any, ours: bool = False) -> Any:
        """What PyTorch's tests differentiate of an output."""
        process = self.sample.output_process_fn_grad
        return rebound(process)(output) if ours and isinstance(
            process, types.FunctionType) else process(output)


def _widened(given: Any, kind: torch.dtype | None, leaves: list[Any]) -> Any:
    """Arguments with the tensors of floats in another type. leaves: gets those with gradients."""
    if isinstance(given, torch.Tensor):
        if kind is not None and given.is_floating_point():
            given = given.detach().to(kind).requires_grad_(given.requires_grad)
        if kind is torch.float64 and given.is_complex():
            given = given.detach().to(torch.complex128).requires_grad_(given.requires_grad)
        leaves += [given] * given.requires_grad
        return given
    if isinstance(given, dict):
        return {name: _widened(x, kind, leaves) for name, x in given.items()}
    if type(given) in (list, tuple):
        return type(given)(_widened(x, kind, leaves) for x in given)
    return given


def _total(result: Any) -> Any:
    """A sum in which each element of what may have gradients counts differently."""
    total: Any = 0
    for x in tensors(result):
        if x.requires_grad:
            random = np.random.default_rng(9)
            weight = random.uniform(0.5, 1.5, tuple(x.shape)).astype(np.float32)
            library = torch if isinstance(x, torch.Tensor) else lt
            if x.is_complex():
                weight = (weight + 1j * random.uniform(0.5, 1.5, tuple(x.shape))).astype(
                    np.complex64)
            part = (x * library.tensor(weight).to(x.dtype)).sum()
            total = total + (part.real if x.is_complex() else part)
    return total


def outcome(name: str, most: int = 6, kind: torch.dtype | None = None,
            seconds: int = 120) -> Outcome:
    """What becomes of an entry with `most` of its samples, chosen evenly."""
    entry = variants()[name]

    def over(*_: Any) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, over)
    signal.alarm(seconds)
    taken = 0
    try:
        function = ours(entry)
        for sample in samples(entry, kind or element_type(entry), most):
            wrong = compared(Case(entry, sample), function)
            if wrong is not None and wrong != SKIPPED:
                return Outcome(name, *wrong)
            taken += wrong is None
    except Missing:
        return Outcome(name, "not there")
    except Untranslatable as error:
        return Outcome(name, "not there", str(error))
    except TimeoutError:
        return Outcome(name, "refused", f"takes longer than {seconds} s")
    finally:
        signal.alarm(0)
    return Outcome(name, "right") if taken else Outcome(name, "not there", SKIPPED[1])


def samples(entry: Any, kind: torch.dtype, most: int) -> list[Any]:
    """`most` of an entry's samples, chosen evenly."""
    torch.manual_seed(0)
    wanted = entry.supports_autograd and (kind.is_floating_point or kind.is_complex)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = list(entry.sample_inputs("cpu", kind, requires_grad=wanted))
    if len(found) <= most:
        return found
    return [found[i * (len(found) - 1) // max(most - 1, 1)] for i in range(most)]


def compared(case: Case, function: Callable[..., Any]) -> tuple[str, str] | None:
    """What is wrong with lazyten's results, SKIPPED if PyTorch refuses the sample; else None."""
    shown = f" :: {case.sample.summary()}"[:400]
    wrong = "wrong values"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expected, grads = case.expected
        except (RuntimeError, TypeError, ValueError, IndexError):
            return SKIPPED
        try:
            rounding = Rounding(Case(case.entry, case.sample, torch.float64), function)
            found, gradients = case.found(function)
            same(found, expected, rounding, 0)
            wrong = "wrong gradients"
            if grads is not None:
                same(gradients(), grads, rounding, 1)
        except Different as error:
            return wrong, f"{error}{shown}"
        except (Untranslatable, TimeoutError):
            raise
        except Exception as error:
            return ("refused" if wrong == "wrong values" else wrong,
                    f"{type(error).__name__}: {error}{shown}")
    return None


# ---- results -------------------------------------------------------------------------------------

@dataclass
class Rounding:
    """Says whether rounding explains a difference in float32: the results in float64 are equal, and
    either lazyten's in float32 are no farther from them than PyTorch's by a factor of 4, or by some
    roundings of the largest."""

    wide: Case
    function: Callable[..., Any]

    @cached_property
    def equal_in_float64(self) -> bool:
        """Whether the libraries agree about the same numbers in float64."""
        try:
            found, gradients = self.wide.found(self.function)
            same(found, self.wide.expected[0])
            if self.wide.expected[1] is not None:
                same(gradients(), self.wide.expected[1])
        except Different:
            return False
        return True

    def explains(self, found: list[Any], expected: list[Any], part: int) -> bool:
        """Of all tensors of floats of the outputs (part 0) or of the gradients (1)."""
        exact = [values(x) for x in tensors(self.wide.expected[part])
                 if x.is_floating_point() or x.is_complex()]
        largest = max(np.abs(np.nan_to_num(x, posinf=0, neginf=0)).max(initial=0) for x in exact)
        for mine, theirs, right in zip(found, expected, exact, strict=True):
            if not np.array_equal(np.isfinite(mine), np.isfinite(theirs)):
                return False
            off, near = (np.abs(np.nan_to_num(x - right)).max(initial=0) for x in (mine, theirs))
            if off > max(4 * near, 256 * 2.0**-24 * largest):
                return False
        return self.equal_in_float64


def same(found: Any, expected: Any, rounding: Rounding | None = None, part: int = 0) -> None:
    """Raises Different unless results are alike, or rounding explains why they are not."""
    floats: list[list[Any]] = [[], []]
    different: list[Different] = []
    _alike(found, expected, floats, different)
    if not different or rounding is not None and rounding.wide.by_chance:
        return
    exact = [d for d in different if d.kind not in (torch.float32, torch.complex64)]
    if exact or rounding is None or not rounding.explains(*floats, part):
        raise (exact or different)[0]


def _alike(found: Any, expected: Any, floats: list[list[Any]], different: list[Different]) -> None:
    """Raises Different for what rounding cannot explain, and adds to `different` what it may."""
    if isinstance(expected, torch.Tensor):
        if not isinstance(found, lt.Tensor):
            raise Different(f"{type(found).__name__} in place of a tensor")
        for a, b in ((tuple(found.shape), tuple(expected.shape)),
                     (found.dtype.name, str(expected.dtype).removeprefix("torch."))):
            if a != b:
                raise Different(f"{a} in place of {b}")
        _close(found, expected, floats, different)
    elif isinstance(expected, list | tuple):
        if not isinstance(found, list | tuple) or len(found) != len(expected):
            raise Different(f"{type(found).__name__} in place of {len(expected)} parts")
        for a, b in zip(found, expected, strict=True):
            _alike(a, b, floats, different)
    elif isinstance(expected, float) and isinstance(found, float):
        np.testing.assert_allclose(found, expected, 1e-5)
    elif expected != found:
        raise Different(f"{found!r} in place of {expected!r}"[:200])


def _close(found: Any, expected: Any, floats: list[list[Any]], different: list[Different]) -> None:
    """Whether values are as near as their type allows."""
    kind = expected.dtype
    mine, theirs = values(found), values(expected)
    if kind.is_floating_point or kind.is_complex:
        floats[0].append(mine)
        floats[1].append(theirs)
    relative, absolute = TOLERANCE.get(kind, (0, 0))
    try:
        np.testing.assert_allclose(mine, theirs, relative, absolute)
    except AssertionError as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        different.append(Different("; ".join(lines[1:9]), kind))
