"""Graph to graph: reverse mode, forward mode, batching; a table and a walker each.

In: a GRAPH, and for which of its nodes a derivative is wanted. Out: a GRAPH. Not here:
`backward()` of tensors (frontend/), and lt.func's transforms of functions (func/).

Files, in reading order:

- arithmetic.py: Arithmetic on GRAPH nodes for derivative rules: equal shapes and dtypes,
  constants folded.
- watching.py: What runs code of the user's, and what runs none: a trace is told what the first
  calls.
- hooks.py: Functions that are told of gradients on their way back: by the value they are the
  gradient of.
- collective_rules.py: COLLECTIVE's rows of the tables of derivatives and of vmap, a function a
  table.
- vjp_rules.py: VJP: how each op passes a cotangent back to its sources, a row an op, a rule a
  source.
- gradient.py: Vjp: reverse-mode differentiation as a graph transform.
- joint_gradients.py: Gradients of several values by one rule, which sees those of all of them at
  once.
- functions_back.py: `GradFn`: the operations that a gradient flows back through, one by one, for
  who looks at them.
- twins.py: Values of their own for tensors that are computed alike.
- jvp_rules.py: JVP: how each op passes a tangent on from its sources, a row an op, a rule a
  source.
- forward_mode.py: Jvp: forward-mode differentiation as a graph transform.
- fixed_rules.py: Rules for gradients that are the same in each step: functions without a value in
  them.
- vmap_rules.py: VMAP: how each op is done for many examples at once, a row an op.
- batching.py: Batch: a graph of one example as a graph of many, which `lt.func.vmap` and
  Jacobians are made of.

`gradient.py` walks from an output to the wanted nodes; `vjp_rules.py` has a row an op.
Derivatives are GRAPH nodes, made with arithmetic.py, which folds constants, joins sums of sums,
and moves factors instead of products: a convolution's gradient for its input pads the output's
cotangent, not each of its products with a weight. Windows with a stride are windows of whole
tiles, each as long as the stride, so a sum over windows in a gradient is one over tiles, without
the zeros that the stride passes by. Composites whose formula has a better derivative than its
parts (sigmoid, tanh, relu, max_pool, log1p ...) carry a CUSTOM_GRADIENT rule. So do
`autograd.Function` (custom_function.py) and `checkpoint` (checkpointing.py), whose rule computes
its value again from copies of its inputs that only can be made once the cotangent is known. The
walk asks hooks.py for what watches a node's cotangent, and shows its steps to an observer if
there is one (anomaly.py).

There are three such walkers, one row an op each. `forward_mode.py` (jvp) passes tangents on by
`jvp_rules.py`: an elementwise op's row is VJP's, since its Jacobian is diagonal. `batching.py`
(vmap) puts an axis of examples in front of every node that differs between examples, by
`vmap_rules.py`; elementwise ops and movements share a row each. A CUSTOM_GRADIENT rule needs no
second form: for jvp the rule is called with an unknown cotangent and what it gives is transposed
by vjp; for vmap it is called with unknowns of one example and what it gives is batched.
"""
