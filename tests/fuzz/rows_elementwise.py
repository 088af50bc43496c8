"""Rows: operations on each element, operators, comparisons, conversions."""
from __future__ import annotations

from fuzz.rows import (
    EXACT,
    ROUGH,
    SUM,
    Row,
    fits_int8,
    inside_one,
    moderate,
    nonzero,
    not_negative,
    positive,
    row,
    rows,
)

SMOOTH = ("exp", "sin", "cos", "tanh", "sigmoid", "erf", "expm1", "exp2", "atan", "asinh", "sinh",
          "cosh", "tan", "erfc", "sinc", "silu", "gelu")
POSITIVE = ("log", "log2", "log10", "rsqrt", "lgamma", "digamma", "log1p", "reciprocal")
PICKING = ("abs", "neg", "relu", "sign", "square", "positive", "sgn")
ROUNDING = ("floor", "ceil", "trunc", "round", "frac", "fix")
BINARY = ("maximum", "minimum", "fmax", "fmin", "copysign", "heaviside", "rsub")

ARITHMETIC: list[Row] = [
    *rows(EXACT, ["{x:a} + {y:a~x}", "{x:n} - {y:n~x}", "{x:a} * {y:a~x}"], name="arithmetic",
          weight=6),
    *rows(EXACT, ["{x:n} + {c:num}", "{x:n} * {c:num}", "{c:num} - {x:n}", "{x:n} - {c:num}",
                  "-{x:n}", "{x:b} + {c:num}", "{x:b} * {c:num}"], name="with a number",
          weight=2),
    row("{x:a} / {y:a~x}", EXACT, "true division", when=nonzero),
    row("{x:n} / {c:choice(2|4|3|-8|0.5)}", EXACT, "true division"),
    row("{x:n} // {y:n~x}", EXACT, "floor division", when=nonzero),
    row("{x:n} % {y:n~x}", EXACT, "remainder", when=nonzero),
    row("{x:i} // {m:int(1,9)}", EXACT, "floor division of indices", weight=4),
    row("{x:i} % {m:int(1,9)}", EXACT, "remainder of indices", weight=4),
    row("{x:i} % {m:int(2,7)} * {k:int(1,5)} + {x} // {m}", EXACT, "indices split", weight=2),
    row("{x:n} ** {c:choice(0|1|2)}", EXACT, "power", when=moderate),
    row("{x:F} ** {c:choice(3|0.5|1.5|-1)}", ROUGH, "power", when=positive),
    row("{x:F} ** {y:F~x}", ROUGH, "power", when=positive),
    row("{x:n} // {c:choice(2|0.5|3|-2)}", EXACT, "floor division"),
    row("{x:n} % {c:choice(2|0.5|3|-2)}", EXACT, "remainder"),
    row("{x:n}.fmod({c:choice(2|3|-2)})", EXACT),
    row("{x:n}.div({y:n~x}, rounding_mode={r:choice('floor'|'trunc')})", EXACT, "div rounded",
        when=nonzero),
    row("{x:n}.add({y:n~x}, alpha={c:choice(2|-1|3)})", SUM),
    row("{x:n}.sub({y:n~x}, alpha={c:choice(2|-1|3)})", SUM),
    *rows(EXACT, [f"lt.{name}({{x:f}}, {{y:f~x}})" for name in BINARY if name != "rsub"]),
    *rows(EXACT, ["lt.maximum({x:n}, {y:n~x})", "lt.minimum({x:n}, {y:n~x})"]),
    row("{x:F}.atan2({y:F~x})", ROUGH),
    row("lt.hypot({x:F}, {y:F~x})", ROUGH),
    row("lt.logaddexp({x:F}, {y:F~x})", ROUGH, when=moderate),
    row("lt.addcmul({x:n}, {y:n~x}, {z:n~x}, value={c:choice(1|2|-1)})", SUM, when=moderate),
    row("lt.addcdiv({x:f}, {y:f~x}, {z:f~x}, value={c:choice(1|2)})", ROUGH,
        when=lambda x, y, z: positive(z)),
    row("lt.lerp({x:f}, {y:f=x@x}, {c:choice(0.25|0.5|0.75)})", SUM),
    row("lt.igamma({x:F}, {y:F~x})", ROUGH, when=positive),
    row("lt.igammac({x:F}, {y:F~x})", ROUGH, when=positive),
    row("lt.xlogy({x:F}, {y:F~x})", ROUGH, when=lambda x, y: positive(y)),
]

ONE_BY_ONE: list[Row] = [
    *rows(ROUGH, [f"{{x:f}}.{name}()" for name in SMOOTH if name not in ("silu", "gelu")],
          when=moderate, weight=0.4),
    *rows(ROUGH, [f"F.{name}({{x:f}})" for name in ("silu", "gelu", "softplus", "mish", "selu",
                                                     "elu", "logsigmoid", "softsign", "celu",
                                                     "hardswish", "hardsigmoid", "tanhshrink")],
          when=moderate, weight=0.4),
    *rows(EXACT, ["F.relu6({x:f})", "F.hardtanh({x:f})", "F.threshold({x:f}, 0.5, -1.0)",
                  "F.hardshrink({x:f})", "F.softshrink({x:f})", "F.leaky_relu({x:f}, 0.25)"],
          weight=0.5),
    *rows(ROUGH, [f"{{x:f}}.{name}()" for name in POSITIVE], when=positive, weight=0.4),
    *rows(ROUGH, ["{x:F}.asin()", "{x:F}.acos()", "{x:F}.atanh()", "{x:F}.erfinv()"],
          when=inside_one, weight=0.3),
    row("{x:f}.sqrt()", EXACT, when=positive),
    *rows(EXACT, [f"{{x:f}}.{name}()" for name in PICKING], weight=0.7),
    *rows(EXACT, [f"{{x:i}}.{name}()" for name in ("abs", "neg", "sign", "square", "relu")],
          weight=0.5),
    *rows(EXACT, [f"{{x:f}}.{name}()" for name in ROUNDING], weight=0.4),
    # A bound below 0 is none to an unsigned integer, and another number in PyTorch.
    row("{x:f}.clamp({c:choice(-1|0|-2.5)}, {d:choice(0.5|2|3)})", EXACT),
    row("{x:n}.clamp({c:choice(0|0.5)}, {d:choice(0.5|2|3)})", EXACT),
    row("{x:n}.clamp(min={c:choice(0|1|1.5)})", EXACT),
    row("{x:n}.clamp({y:n~x@x}, {z:n~x@x})", EXACT, "clamp by tensors"),
    row("{x:f}.nan_to_num()", EXACT),
]

LOGIC: list[Row] = [
    *rows(EXACT, [f"{{x:a}} {op} {{y:a~x}}" for op in ("<", "<=", ">", ">=", "==", "!=")],
          name="comparison"),
    # A number below 0 is compared as it is with unsigned integers; PyTorch takes it modulo 2 ** n.
    *rows(EXACT, ["{x:f} < {c:num}", "{x:f} >= {c:num}", "{x:n} < {k:int(0,3)}",
                  "{x:n} >= {k:int(0,3)}", "{x:i} % 2 == {k:int(0,1)}",
                  "{x:i} % {m:int(2,6)} < {k:int(1,4)}"], name="comparison with a number"),
    *rows(EXACT, ["{x:b} & {y:b~x}", "{x:b} | {y:b~x}", "{x:b} ^ {y:b~x}", "~{x:b}",
                  "{x:i} & {y:i~x}", "{x:i} ^ {y:i~x}", "~{x:i}", "{x:i} | {k:int(0,9)}"],
          name="bitwise", weight=0.6),
    *rows(EXACT, ["{x:i} << {k:int(0,3)}", "{x:i} >> {k:int(0,3)}"], name="shift", weight=0.6),
    *rows(EXACT, ["{x:a}.logical_and({y:a~x})", "{x:a}.logical_or({y:a~x})",
                  "{x:a}.logical_not()", "{x:f}.isnan()", "{x:f}.isfinite()", "{x:f}.signbit()",
                  "lt.isin({x:i}, {y:i@x})"], weight=0.4),
    row("lt.where({b:b}, {x:a~b}, {y:a~x})", EXACT, weight=4),
    row("lt.where({b:b}, {x:n~b}, {c:num})", EXACT, weight=2),
    row("{x:n}.masked_fill({b:b~x}, {c:choice(0|1|-2)})", EXACT, weight=2),
    row("lt.where({x:n} == {x}.{m:choice(max|min)}(), {y:n~x}, {c:choice(0|1)})", EXACT,
        "where it is the extreme", weight=2),
]

CONVERSIONS: list[Row] = [
    row("{x:a}.to({t:dtype(f)})", EXACT, weight=2),
    row("{x:a}.to({t:choice(lt.int16|lt.int32|lt.int64|lt.int8)})", EXACT, when=fits_int8),
    row("{x:a}.to(lt.uint8)", EXACT, when=not_negative),
    row("{x:a}.to(lt.bool_)", EXACT),
    *rows(EXACT, ["{x:a}.float()", "{x:a}.double()", "{x:a}.half()", "{x:a}.bool()"],
          when=fits_int8, weight=0.5),
    row("{x:a}.type_as({y:f})", EXACT, weight=0.5),
]
