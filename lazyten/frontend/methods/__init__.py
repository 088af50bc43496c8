"""Tensor's methods, a file a subject.

In: tensors. Out: tensors. Each file is a class that Tensor inherits. They know Tensor only as the
protocol of tensor_like.py, so that no module imports in a circle.

Files, in reading order:

- tensor_like.py: What the groups of tensor methods beside this file need of the class that they
  become a part of.
- in_place.py: In-place twins: `exp_ = in_place(exp)` beside the method whose result is written.
- arrangement.py: Methods that repeat, shift, cut and fill, and reductions to several values.
- counting.py: What is found by comparing and counting elements, as methods.
- creation.py: New tensors like this one, as methods: on its device, of its dtype unless another
  is given.
- gathering.py: Methods that read and write at positions along one axis.
- gradients.py: Methods that look at gradients on their way: hooks, and gradients of what is no
  leaf.
- math.py: Elementwise methods beyond the operators of tensor.py: a table, and those that need
  more than an operand.
- metadata.py: What a tensor says about itself: sizes in bytes, identity of storage, how it came
  to be; copies of it, and how other libraries see it.
- order.py: Sorting, and what is found by sorting, as methods.
- products.py: Products of vectors and matrices, as methods.
- random.py: Random numbers as methods: tensors filled in place, and draws by the probabilities in
  a tensor.
- reductions.py: Reductions and cumulative functions, as methods.
- views.py: Views of tensors beyond indexing and transposing, as methods: diagonals, windows,
  strides, parts.
"""
