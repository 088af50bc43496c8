"""Ops that machines lack, from ops that they have, with the same bits everywhere.

In: LOOP nodes with any op of the table. Out: with those that machine code has.

Files, in reading order:

- decompose.py: Ops and types that machine code lacks become ones that it has.
- expression.py: Short names for making LOOP expressions: what decompose and its parts write
  formulas with.
- casts.py: CAST where machine conversions do not say what happens: floats to integers, float64 to
  16 bits.
- half.py: The 8- and 16-bit floats in float32: machine code has none of them.
- power.py: POW: cheap forms for common constant exponents, then by logarithm, then integers by
  squaring.
- sine.py: SIN and COS of float32 and float64, right for huge arguments too: x/pi modulo 2 is exact
  enough.
- transcendental.py: EXP, EXP2 and LOG2 of float32 and float64, from arithmetic, integer shifts
  and bit patterns.
- double_double.py: Sums of two floats: a value as high + low, some 106 bits of float64, 48 of
  float32.

`decompose`: writes what machines lack in simple ops, on nodes, so that all targets get the same
bits: transcendental functions, POW, 8- and 16-bit floats, saturating casts, shifts out of range.
"""
