"""What elementwise functions and reductions mean, as nodes.

In: GRAPH nodes. Out: one of the same or a smaller shape. Not here: what moves elements (arrays/).

Files, in reading order:

- shapes.py: Checks of what users give as axes, shapes and sizes, with messages for users.
- gradients.py: Values whose gradient is a rule of their own, in place of that of how they are
  computed.
- elementwise.py: Elementwise operations as users know them: operands of any dtype and shape,
  broadcast, promoted.
- special.py: Elementary and special functions, as graphs of the few ops of the op table.
- inverse_functions.py: Inverse trigonometric and hyperbolic functions, and functions of two
  floats, as graphs of ops.
- statistical_functions.py: Functions of statistics: the error function's complement and inverse,
  and the gamma function's logarithm with its derivatives, as graphs of ops.
- zeta_functions.py: Hurwitz's zeta function, and the derivatives of digamma, as graphs of ops.
- incomplete_gamma.py: The incomplete gamma functions, as graphs of ops.
- bessel_tables.py: Chebyshev series of Bessel's functions and Airy's, which bessel.py sums up.
- bessel.py: Bessel's functions of orders 0 and 1, and Airy's, as graphs of ops.
- composites.py: Small functions made of others, elementwise: scaled sums, interpolation,
  comparisons with tolerance.
- number_parts.py: What numbers are made of: neighbours, significands and exponents, angles,
  common divisors.
- portable.py: Log, exp and sine from +, * and / alone, each rounded by itself: the same bits on
  every device.
- reductions.py: Reductions as users know them: sums, extremes, statistics, positions of extremes.
- scans.py: Cumulative sums, products and maxima along an axis, in a few passes over memory.
- losses.py: Softmax and the losses made with it, as graphs.
"""
