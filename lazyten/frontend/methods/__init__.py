"""Tensor's methods, a file a subject.

In: tensors. Out: tensors. Each file is a class over the core (core/), and Tensor inherits from all
of them. What they compute is written on nodes, in operators/.

Files, in reading order:

- arithmetic.py: Arithmetic and its operators, with and without writing in place.
- comparisons.py: Comparisons, logic and bits, and what is chosen by them.
- elementwise.py: The usual functions of each element, and softmax.
- math.py: Elementwise methods beyond the usual ones: a table, and those that need more than an
  operand.
- reductions.py: Reductions and cumulative functions, as methods.
- gathering.py: Methods that read and write at positions along one axis.
- indexing.py: Indexing, and parts along an axis.
- views.py: Views of tensors beyond indexing and transposing, as methods: diagonals, windows,
  strides, parts.
- arrangement.py: Methods that repeat, shift, cut and fill, and reductions to several values.
- products.py: Products of vectors and matrices, as methods.
- order.py: Sorting, and what is found by sorting, as methods.
- counting.py: What is found by comparing and counting elements, as methods.
- random.py: Random numbers as methods: tensors filled in place, and draws by the probabilities in
  a tensor.
- conversion.py: Other types, devices and layouts, and new tensors like this one.
- gradients.py: backward(), and methods that look at gradients on their way: hooks, and gradients
  of what is no leaf.
- metadata.py: What a tensor says about itself: sizes in bytes, identity of storage, how it came
  to be; copies of it, and how other libraries see it.
"""
