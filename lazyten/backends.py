"""`lt.backends`: PyTorch's switches of its libraries, so that programs which set them run.

lazyten uses none of these libraries. `is_available()` says so; what is set is kept and has no
effect, but for `cuda.matmul.allow_tf32`, which is `lt.set_float32_matmul_precision`. Results are
the same from run to run whatever is set.
"""
from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from lazyten.cuda import is_available
from lazyten.support.matmul_precision import allows_tf32, set_float32_matmul_precision


class Switches:
    """A library that is not used, and its switches. AttributeError for one it has not."""

    def __init__(self, library: str, **switches: Any) -> None:
        self.__dict__.update(_library=library, **switches)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_") or name not in self.__dict__:
            raise self._unknown(name)
        self.__dict__[name] = value

    def __getattr__(self, name: str) -> Any:
        raise self._unknown(name)

    def _unknown(self, name: str) -> AttributeError:
        known = ", ".join(n for n in self.__dict__ if not n.startswith("_")) or "none"
        return AttributeError(f"backends.{self._library} has no switch {name!r}: lazyten does "
                                  f"not use {self._library}; known ones are {known}")

    def is_available(self) -> bool:
        """False: lazyten does not use it."""
        return False

    is_built = is_available

    def version(self) -> None:
        """None: there is no such library."""

    @contextmanager
    def flags(self, **switches: Any) -> Iterator[None]:
        """Within this block these switches are set."""
        before = {name: getattr(self, name) for name in switches}
        for name, value in switches.items():
            setattr(self, name, value)
        try:
            yield
        finally:
            self.__dict__.update(before)


class _Matmul:
    """Products on an NVIDIA GPU."""

    @property
    def allow_tf32(self) -> bool:
        """Whether float32 factors may be rounded to tf32."""
        return allows_tf32()

    @allow_tf32.setter
    def allow_tf32(self, allowed: bool) -> None:
        set_float32_matmul_precision("high" if allowed else "highest")


class _PlanCache:
    """The plans that cuFFT would keep: none, as lazyten compiles transforms with the rest. What
    max_size is set to has no effect."""

    size, max_size = 0, 0

    def clear(self) -> None:
        """Nothing."""

    def __getitem__(self, device: object) -> _PlanCache:
        return self


class _Cuda:
    """The device `cuda`."""

    matmul = _Matmul()

    @staticmethod
    def is_built() -> bool:
        """Whether there is such a device: programs that ask go on to use it."""
        return is_available()

    @staticmethod
    def enable_math_sdp(enabled: bool) -> None:
        """Nothing: attention is fused as everything is, by no kernel of its own."""

    enable_flash_sdp = enable_mem_efficient_sdp = enable_cudnn_sdp = enable_math_sdp

    @staticmethod
    def math_sdp_enabled() -> bool:
        """True: attention is computed as its formula says."""
        return True

    @staticmethod
    def flash_sdp_enabled() -> bool:
        """False: there is no kernel for attention alone."""
        return False

    mem_efficient_sdp_enabled = cudnn_sdp_enabled = flash_sdp_enabled

    @staticmethod
    def sdp_kernel(enable_flash: bool = True, enable_math: bool = True,
                   enable_mem_efficient: bool = True, enable_cudnn: bool = True
                   ) -> nullcontext[None]:
        """For `with`, which changes nothing; see enable_math_sdp."""
        return nullcontext()


    @staticmethod
    def preferred_linalg_library(backend: object = None) -> str:
        """'lazyten': factorizations are its own, whichever library is asked for."""
        return "lazyten"

    preferred_blas_library = preferred_linalg_library

    @staticmethod
    def can_use_flash_attention(params: object, debug: bool = False) -> bool:
        """False: there is no kernel for attention alone."""
        return False

    can_use_efficient_attention = can_use_cudnn_attention = can_use_flash_attention
    is_flash_attention_available = flash_sdp_enabled
    cufft_plan_cache = _PlanCache()


class _Cpu(Switches):
    """The processor, as PyTorch's kernels for it would see it."""

    @staticmethod
    def get_cpu_capability() -> str:
        """'DEFAULT': lazyten compiles for the processor at hand, not for one of a list."""
        return "DEFAULT"


cpu = _Cpu("cpu")
cuda = _Cuda()
cusparselt = Switches("cusparselt")
cudnn = Switches("cudnn", enabled=False, benchmark=False, deterministic=True, allow_tf32=False,
                 benchmark_limit=None)
mkl = Switches("mkl")
mkldnn = Switches("mkldnn", enabled=False)
mps = Switches("mps")
nnpack = Switches("nnpack")
openmp = Switches("openmp")
opt_einsum = Switches("opt_einsum", enabled=False, strategy=None)
quantized = Switches("quantized", engine="none", supported_engines=("none",))
xnnpack = Switches("xnnpack", enabled=False)
