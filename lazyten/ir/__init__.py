"""The one node class, the op table, element types, kernels. Start with ops.py.

In: nothing but support. Out: nodes, which all passes read and make, and the kernels made of them.
Not here: rules that rewrite nodes (symbolic/).

Files, in reading order:

- dtype.py: Element types: what they are called, how wide they are, and how two of them combine.
- ops.py: The op table: every op declared once, with its arity, dtype rule, NumPy meaning and
  error bound.
- movement.py: Movement ops: what they do to shapes, and where each element of the result comes
  from.
- arguments.py: What some ops have as their argument: loop variables, kernel arguments, checked
  positions.
- shapes.py: The shape of a node from what it is made of, and what fields it may have.
- node.py: The one node class of both levels: interned, frozen, compared with `is`.
- inspection.py: Nodes looked at: checked, and written as text, a line each.
- unknown.py: Arrays that a graph is made for before they are known: examples, cotangents,
  tangents.
- evaluation.py: What GRAPH nodes are worth, in NumPy: the op table's meanings, and movement by
  arrays.
- kernel.py: What the scheduler hands to a runtime: kernels over numbered arguments, in order.
- scan.py: Scans: a body of nodes that runs once for each position of the first axis, and hands a
  state on.
- numbers.py: Graphs taken apart into their numbers and all the rest, and put together with other
  numbers.
- number_tape.py: Numbers of Python that differ from time to time: inputs of a program, not a
  program each.
- collective.py: Collectives: values that the ranks of a group make together, each of what it has
  itself.
- kernel_text.py: A kernel from its text: reads what `lazyten.ir.kernel.computation` writes.
- decision_grammar.py: The grammar of decisions: what a text such as `tile(i0:3, i1:4)
  vector(i1:8)` is made of.

`Node(op, dtype, src, arg)` (node.py) is interned: equal nodes are one object, compared with `is`.
At GRAPH level a node is an array with a shape; at LOOP level one element, shape `()`. Elementwise
ops are shared by both levels and by index arithmetic (dtype int64). Operands of a GRAPH
elementwise node have equal shapes and dtypes: broadcasting is an explicit RESHAPE + EXPAND,
promotion an explicit CAST.

- CONST's arg is `(value, shape)`: a constant array is one node at any shape.
- REDUCE's arg is `(combiner, axes)`; reduced axes keep size 1. MIN does not exist: it is `NOT MAX
  NOT` for integers and bool, `NEG MAX NEG` for floats.
- IOTA counts 0..n-1: arange, one_hot, argmax, random counters and masks are written with it.
- LEAF, DETACH and CUSTOM_GRADIENT have the value of src[0]; they only steer gradients, and the
  scheduler drops them. LEAF(x, id) is read where a parameter is; the id keeps two parameters with
  equal values apart. CUSTOM_GRADIENT(value, inputs...; rule) replaces the gradient of `value`'s
  own expression by `rule(cotangent, node) -> cotangents of the inputs`.
- Seven movement ops, not six: RESHAPE PERMUTE EXPAND PAD SHRINK FLIP and **SHEAR** (movement.py).
  SHEAR slides one axis by another: `out[.., i, .., k, ..] = in[.., i + f*k + offset, .., k, ..]`.
  Windows are EXPAND + SHEAR; its gradient is PAD + SHEAR by -f. With the usual six, a window is a
  chain of reshapes whose gradient has div/mod indices; with SHEAR a convolution and both its
  gradients have affine indices, which is what the optimizer needs.
- GATHER(x, index; axis) is `x[.., index[.., j, ..], ..]`, SCATTER(base, index, values; axis,
  combiner) its transpose: index has x's shape but for `axis`. Every kind of index array is one of
  the two, with moves around it (index_arrays.py); their gradients are each other.
- SHARD(x; sharding) is x, which the ranks of a group share out along an axis: the pass of
  lazyten/sharding takes it away and cuts the graph.
- SCAN(rows..., first states..., same for all...; body) is all steps of a recurrence: row t of the
  result holds the states after step t, and what else the body gives. The body is nodes over BUFFERs
  of its own, which no pass walks into; what a SCAN means is written out by `unrolled` (scan.py),
  through which it is differentiated and batched.
- EXP is an op of its own beside EXP2: written as `EXP2(x / ln 2)`, it would lose `|x| / 2` units
  in the last place to the rounding of the product.

The op table (ops.py) gives each elementwise op its arity, dtype rule, NumPy meaning and error
bound. `ops.evaluate` is the semantics: the interpreter runtime, constant folding and tests call
it. 16-bit floats are computed in float32 and rounded to nearest even after each op; a REDUCE of
them is accumulated in float32 and rounded once. Sums of products (matmul, einsum, convolutions)
are written with operands cast to float32 and a result cast back, so products are not rounded at
all. 8-bit floats are a kind of their own ('s', only stored): the table lets CAST, BITCAST and
WHERE take them, and no other op.
"""
