"""Functions that a device computes by one instruction to fewer bits than the op table asks.

c_ops.py makes the calls, where an op says that so many are enough. PTX ISA, "ex2": the relative
error is 2**-22 at most, and subnormal numbers are 0.
"""
from __future__ import annotations

NEAR_EXP2 = "lazyten_near_exp2"
CUDA_NEAR = ((NEAR_EXP2, f"""#ifndef LAZYTEN_ON_CPU
static __device__ inline float {NEAR_EXP2}(float x) {{
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}}
#endif"""),)
"""By name. They are left out under LAZYTEN_ON_CPU, where a test defines them."""
