"""What an NVIDIA GPU can do at most, measured by kernels that do nothing else.

Multiply-adds in registers: fp32 by fma, the types of tensor cores by the warp's mma instruction
(Hopper's wgmma goes beyond it, so a share may be above 100%); and a copy of a large array.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence

from lazyten.runtimes.cuda import compiler as cuda_compiler
from lazyten.runtimes.cuda import driver as cuda_driver

CHAINS = 8  # independent accumulators of a thread
STEPS = 4096
THREADS = 256
BLOCKS_EACH = 8  # blocks of a multiprocessor
COPY_BYTES = 1 << 30
REPEATS = 5

FMA = f"""
extern "C" __global__ void fp32(float *out) {{
  float x[{CHAINS}];
  for (int c = 0; c < {CHAINS}; ++c) x[c] = threadIdx.x + c;
  for (int i = 0; i < {STEPS}; ++i)
    #pragma unroll
    for (int c = 0; c < {CHAINS}; ++c) x[c] = fmaf(x[c], 0.5f, 1.0f);
  float sum = 0;
  for (int c = 0; c < {CHAINS}; ++c) sum += x[c];
  if (sum == -1.0f) out[0] = sum;
}}
"""
MMA = """
extern "C" __global__ void %(name)s(float *out) {
  float d[%(chains)d][4] = {};
  unsigned a = threadIdx.x, b = threadIdx.x * 3;
  for (int i = 0; i < %(steps)d; ++i)
    #pragma unroll
    for (int c = 0; c < %(chains)d; ++c)
      asm volatile("mma.sync.aligned.%(instruction)s {%%0, %%1, %%2, %%3}, {%%4, %%5, %%4, %%5}, "
                   "{%%4, %%5}, {%%0, %%1, %%2, %%3};"
                   : "+f"(d[c][0]), "+f"(d[c][1]), "+f"(d[c][2]), "+f"(d[c][3]) : "r"(a), "r"(b));
  float sum = 0;
  for (int c = 0; c < %(chains)d; ++c) sum += d[c][0] + d[c][1] + d[c][2] + d[c][3];
  if (sum == -1.0f) out[0] = sum;
}
"""
INSTRUCTIONS = {"fp16": ("m16n8k16.row.col.f32.f16.f16.f32", 16),
                "bf16": ("m16n8k16.row.col.f32.bf16.bf16.f32", 16),
                "tf32": ("m16n8k8.row.col.f32.tf32.tf32.f32", 8)}
"""For each type the instruction, and how many products one element of its result adds."""
COPY = """
extern "C" __global__ void copy(float4 *to, const float4 *from, unsigned long count) {
  for (unsigned long i = blockIdx.x * (unsigned long)blockDim.x + threadIdx.x; i < count;
       i += (unsigned long)gridDim.x * blockDim.x) to[i] = from[i];
}
"""


def source() -> str:
    """All kernels as one program."""
    return "\n".join([FMA, COPY, *(
        MMA % {"name": name, "chains": CHAINS, "steps": STEPS, "instruction": instruction}
        for name, (instruction, _) in INSTRUCTIONS.items())])


def work_of(name: str, blocks: int) -> float:
    """FLOP of a launch of so many blocks, or bytes read and written."""
    if name == "copy":
        return 2.0 * COPY_BYTES
    if name == "fp32":
        return 2.0 * CHAINS * STEPS * THREADS * blocks
    return 2.0 * 16 * 8 * INSTRUCTIONS[name][1] * CHAINS * STEPS * (THREADS / 32) * blocks


def ceilings(device: int = 0) -> dict[str, float]:
    """FLOP/s by type, and bytes a second under 'copy': the best of a few launches."""
    cuda_driver.start()
    gpu = cuda_driver.properties(device)
    context = cuda_driver.Context(device)
    architecture = cuda_compiler.architecture_for(gpu.architecture, gpu.name)
    module = context.load(cuda_compiler.machine_code(source(), architecture))
    blocks = gpu.multiprocessors * BLOCKS_EACH
    memory = [context.allocate(COPY_BYTES) for _ in range(2)]
    try:
        found = {}
        for name in ("fp32", *INSTRUCTIONS, "copy"):
            arguments = [*memory, COPY_BYTES // 16] if name == "copy" else memory[:1]
            launch = cuda_driver.KernelLaunch(context.function(module, name), (blocks, 1, 1),
                                              (THREADS, 1, 1), arguments)
            found[name] = work_of(name, blocks) / best_seconds(context, launch)
        return found
    finally:
        for address in memory:
            context.release(address)
        context.unload(module)


def best_seconds(context: cuda_driver.Context, launch: cuda_driver.KernelLaunch) -> float:
    """The shortest of a few launches, by the GPU's clock; the first is not counted."""
    start, end = context.event(timed=True), context.event(timed=True)
    seconds: Sequence[float] = [_timed(lambda: context.launch(launch), context, start, end)
                                for _ in range(REPEATS + 1)]
    return min(seconds[1:])


def _timed(launch: Callable[[], None], context: cuda_driver.Context, start: object,
           end: object) -> float:
    context.record(start)
    launch()
    context.record(end)
    context.wait_for(end)
    return context.seconds_between(start, end)
