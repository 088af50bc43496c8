"""16-bit floats in hardware: what a device has, and the functions that text calls for it.

Text has their patterns, as unsigned 16-bit integers. The functions give the bits of half.py's
formulas, but for NaNs: an instruction rounds once, and so does float32's result that is rounded to
16 bits, as 24 bits are enough for sums and products of 11 or 8 (S. Figueroa, "When is double
rounding innocuous?", 1995).
"""
from __future__ import annotations

from dataclasses import dataclass

from lazyten.ir import dtype as dt
from lazyten.ir.dtype import DType
from lazyten.ir.ops import Op


@dataclass(frozen=True, slots=True)
class NativeHalves:
    """The 16-bit floats, by name, that a device's instructions convert from float32 (and float16
    to it), and that they add, subtract and multiply: some of the former."""

    converted: tuple[str, ...] = ()
    computed: tuple[str, ...] = ()

    def converts(self, dtype: DType) -> bool:
        """Whether it rounds float32 to this type."""
        return dtype.name in self.converted

    def computes(self, op: Op, dtype: DType) -> bool:
        """Whether it has this op on this type."""
        return op in COMPUTED and dtype.name in self.computed


SOFTWARE = NativeHalves()
"""A device without any."""
COMPUTED = {Op.ADD: "add", Op.SUB: "sub", Op.MUL: "mul"}
_SHORT = {dt.float16: "f16", dt.bfloat16: "bf16"}


def conversion(source: DType, target: DType) -> str:
    """The name of the function that converts between float32 and a 16-bit float."""
    return (f"lazyten_from_{_SHORT[source]}" if source.is_half
            else f"lazyten_to_{_SHORT[target]}")


def computation(op: Op, dtype: DType) -> str:
    """The name of the function that is an op on a 16-bit float."""
    return f"lazyten_{COMPUTED[op]}_{_SHORT[dtype]}"


# ---- CUDA: instructions of PTX -------------------------------------------------------------------

def _cuda(name: str, result: str, params: str, text: str, constraints: str) -> str:
    kind = {"h": "ushort", "f": "float"}
    given = ", ".join(f"{kind[c]} {p}" for p, c in zip(params, constraints, strict=True))
    inputs = ", ".join(f'"{c}"({p})' for p, c in zip(params, constraints, strict=True))
    return (f"#ifndef LAZYTEN_ON_CPU\nstatic __device__ inline {kind[result]} lazyten_{name}"
            f'({given}) {{\n  {kind[result]} r;\n  asm("{text}" : "={result}"(r) : {inputs});\n'
            "  return r;\n}\n#endif")


def _through_fma(factors: str) -> str:
    """bfloat16 has no sum of its own before sm_90, but a multiply-add, which rounds once."""
    return f"{{ .reg .b16 c; mov.b16 c, {factors}; }}"


def _cuda_functions() -> dict[str, str]:
    one, minus_one, minus_zero = "0x3F80U", "0xBF80U", "0x8000U"
    rows = [("from_f16", "f", "x", "cvt.f32.f16 %0, %1;", "h"),
            ("to_f16", "h", "x", "cvt.rn.f16.f32 %0, %1;", "f"),
            ("to_bf16", "h", "x", "cvt.rn.bf16.f32 %0, %1;", "f"),
            *((f"{op}_f16", "h", "xy", f"{op}.rn.f16 %0, %1, %2;", "hh")
              for op in COMPUTED.values()),
            ("add_bf16", "h", "xy", _through_fma(f"{one}; fma.rn.bf16 %0, %1, c, %2"), "hh"),
            ("sub_bf16", "h", "xy", _through_fma(f"{minus_one}; fma.rn.bf16 %0, %2, c, %1"), "hh"),
            ("mul_bf16", "h", "xy", _through_fma(f"{minus_zero}; fma.rn.bf16 %0, %1, %2, c"),
             "hh")]
    return {f"lazyten_{row[0]}": _cuda(*row) for row in rows}


CUDA_HALVES = tuple(_cuda_functions().items())
"""For sm_80 and newer; those of float16, but for bfloat16, for all. They are left out under
LAZYTEN_ON_CPU, where a test defines them."""


# ---- OpenCL: conversions are in every version, arithmetic is in cl_khr_fp16 ----------------------

_ARITHMETIC = ("#pragma OPENCL EXTENSION cl_khr_fp16 : enable\nstatic ushort lazyten_{name}_f16"
               "(ushort x, ushort y) {{ return as_ushort((half)(as_half(x) {symbol} as_half(y))); "
               "}}")

_BYTES = "uchar b[2] __attribute__((aligned(2)))"
"""What a half may alias; a ushort may not. (Devices are little-endian, as NumPy here.)"""

OPENCL_HALVES = (
    ("lazyten_from_f16", f"static float lazyten_from_f16(ushort x) {{ {_BYTES}; b[0] = x; "
                         "b[1] = x >> 8; return vload_half(0, (private const half *)b); }"),
    ("lazyten_to_f16", f"static ushort lazyten_to_f16(float x) {{ {_BYTES}; "
                       "vstore_half_rte(x, 0, (private half *)b); "
                       "return as_ushort((uchar2)(b[0], b[1])); }"),
    *((f"lazyten_{name}_f16", _ARITHMETIC.format(name=name, symbol=symbol))
      for name, symbol in (("add", "+"), ("sub", "-"), ("mul", "*"))))
