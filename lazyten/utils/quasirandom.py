"""`lt.quasirandom`: points that fill a cube evenly, under PyTorch's names. They need SciPy."""
from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from lazyten.frontend.functions import tensor
from lazyten.frontend.limits import get_default_dtype
from lazyten.frontend.tensor import Tensor
from lazyten.ir.dtype import DType
from lazyten.random import default_generator
from lazyten.support.errors import ArgumentError, LazytenError


class SobolEngine:
    """A Sobol sequence: points of the cube [0, 1)^dimension, `draw`n in order.

    scramble: in a random order of its own, by the seed, or the default generator's. The points are
    SciPy's, of S. Joe and F. Y. Kuo's direction numbers (2008), as PyTorch's are; scrambled ones
    are not those of PyTorch. ArgumentError for a dimension beyond 1 to 21201.
    """

    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if not 1 <= dimension <= self.MAXDIM:
            raise ArgumentError(f"SobolEngine: dimension={dimension}; give 1 to {self.MAXDIM}")
        if find_spec("scipy") is None:
            raise LazytenError("lazyten.quasirandom needs the package scipy: pip install scipy")
        self.dimension, self.scramble = dimension, scramble
        self.seed = default_generator.initial_seed() if seed is None else seed
        self.reset()

    def reset(self) -> SobolEngine:
        """Begin again; gives the engine."""
        from scipy.stats import qmc
        self.num_generated = 0
        self._points = qmc.Sobol(self.dimension, scramble=self.scramble, rng=self.seed)
        return self

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: DType | None = None) -> Tensor:
        """The next n points, (n, dimension) numbers."""
        import warnings
        with warnings.catch_warnings():  # of numbers of points that are no power of 2
            warnings.simplefilter("ignore", UserWarning)
            points: Any = self._points.random(n)
        self.num_generated += n
        result = tensor(points, dtype=dtype or get_default_dtype())
        return result if out is None else out.resize_(result.shape).copy_(result)

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: DType | None = None) -> Tensor:
        """The next 2 ** m points. ArgumentError unless there are a power of 2 with those before, of
        which alone parts of the cube have equally many."""
        count = self.num_generated + 2 ** m
        if count & (count - 1):
            raise ArgumentError(f"draw_base2({m}) after {self.num_generated}: {count} points in "
                                f"all, which is no power of 2; use draw()")
        return self.draw(2 ** m, out, dtype)

    def fast_forward(self, n: int) -> SobolEngine:
        """Leave n points out; gives the engine."""
        self._points.fast_forward(n)
        self.num_generated += n
        return self

    def __repr__(self) -> str:
        return f"SobolEngine(dimension={self.dimension}, scramble={self.scramble})"
