"""Settings: all that there are, and what has to be made anew where one differs.

A captured call of a jitted function (a trace) is kept by `trace_key`, the values of what SETTINGS
says it depends on; plans and kernels by `lazyten.execution.plans.plan.Options`.
"""
from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

from lazyten.frontend.core import mixed_precision
from lazyten.frontend.limits import get_default_dtype
from lazyten.storage.placement import default_device
from lazyten.support import check_mode, matmul_precision
from lazyten.support.grad_mode import is_grad_enabled


@dataclass(frozen=True, slots=True)
class Setting:
    """What users can set.

    about: in words. names: environment variables, and names of `lazyten`. now: its value in this
    thread, where a trace depends on it. planned: whether plans and kernels do, too.
    """

    about: str
    names: tuple[str, ...]
    now: Callable[[], Hashable] | None = None
    planned: bool = False


SETTINGS = (
    Setting("where new tensors live", ("DEVICE", "set_default_device", "device"), default_device),
    Setting("the type of floats without one", ("set_default_dtype", "set_default_tensor_type"),
            get_default_dtype),
    Setting("whether gradients are recorded",
            ("no_grad", "enable_grad", "set_grad_enabled", "inference_mode"), is_grad_enabled),
    Setting("the type that products are computed in",
            ("autocast", "set_autocast_enabled", "set_autocast_dtype", "set_autocast_cpu_enabled",
             "set_autocast_cpu_dtype", "set_autocast_gpu_dtype"), mixed_precision.state),
    Setting("whether products of float32 may be rounded to tf32",
            ("set_float32_matmul_precision",), matmul_precision.allows_tf32, planned=True),
    Setting("what kernels look for while they run", ("CHECK", "check"), check_mode.active,
            planned=True),
    Setting("decisions in place of the optimizer's; plans in use are compiled anew",
            ("LAZYTEN_DECISIONS", "load_decisions", "tune")),
    Setting("the processor that texts are written for; looked at when a device starts",
            ("LAZYTEN_TARGET",)),
    Setting("the OpenCL device that comes first; looked at when it starts", ("LAZYTEN_OPENCL",)),
    Setting("whether each CUDA kernel is waited for; looked at when a device starts",
            ("CUDA_LAUNCH_BLOCKING",)),
    Setting("whether GPUs carry out collectives themselves: `0` never, `1` they must, groups of "
            "one rank too; looked at by `distributed.init`", ("LAZYTEN_NCCL",)),
    Setting("threads of a kernel on the cpu", ("LAZYTEN_NUM_THREADS", "set_num_threads")),
    Setting("memory that is kept for reuse", ("LAZYTEN_POOL_BYTES",)),
    Setting("whether graphs are interpreted in place of compiled: `never`, `always`, or where it "
            "pays", ("LAZYTEN_INTERPRET",)),
    Setting("where compiled kernels are kept", ("LAZYTEN_CACHE", "XDG_CACHE_HOME")),
    Setting("how much of the disk they take", ("LAZYTEN_CACHE_SIZE",)),
    Setting("what is printed of each computation", ("DEBUG",)),
    Setting("passes after which to print", ("LAZYTEN_PRINT_AFTER",)),
    Setting("whether what passes make is proven", ("LAZYTEN_VERIFY",)),
    Setting("the folder that launches are kept in", ("LAZYTEN_DUMP", "dump_kernels")),
    Setting("whether backward() looks for the first NaN", ("set_anomaly_enabled",)),
    Setting("how tensors are printed", ("set_printoptions",)),
)
"""All of them."""

TRACED = {f"now{i}": setting.now for i, setting in enumerate(SETTINGS) if setting.now is not None}
"""What gives the present value of each that a trace depends on."""

trace_key: Callable[[], tuple[Hashable, ...]] = eval(
    f"lambda: ({''.join(f'{name}(), ' for name in TRACED)})", dict(TRACED))
"""All these values. Each jitted call asks: a loop over the functions takes half as long again."""
