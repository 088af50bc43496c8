"""What indexing, joining, sorting, windows and products mean, as nodes.

In: GRAPH nodes. Out: a node whose elements come from other places, or are sums of products.

Files, in reading order:

- indexing.py: Indexing: what stands between the brackets, as movement ops.
- index_arrays.py: Index arrays: reading and writing where integers, known only when they are
  computed, say.
- strided.py: Views by strides, as movement ops: diagonals, sliding windows, any strides over a
  storage; and writing through them.
- joining.py: Joining tensors: cat and stack.
- arrangements.py: Elements repeated, shifted, turned and cut.
- ordering.py: Sorting, and what is at some place in order.
- searching.py: Searching: for places in what is sorted, and for what comes first in order, without
  sorting the rest.
- sorting_network.py: Sorting by a network of comparisons: Batcher's bitonic sort, of many short
  rows at once.
- radix_sort.py: Sorting long axes by their digits, in linear time (LSD radix sort).
- windows.py: Sliding windows over any number of axes; matrix products.
- products.py: Products of several arrays: einsum and what can be said with it.
- recurrences.py: Recurrences: cells of recurrent nets, a step after another along the first axis.
- loops.py: Loops whose steps are alike: a step, recorded once, is the body of a scan.
- alignments.py: Alignments: the ways in which labels may be spread over time, summed up.
- pooling.py: Pooling: one number for each window of the last axes.
- convolutions.py: Convolutions over any number of axes, and transposed ones, which are gradients
  of those.

ordering.py sorts axes of a few elements by ranks, most by sorting_network.py, elementwise kernels
alone, and the longest by radix_sort.py, a chain of reductions, a scan and a SCATTER for each digit.
Outside of jitted functions the host sorts the same keys where they are many.

`nn.Module` (nn/module.py) is made of its tables of attributes (nn/attributes.py: parameters,
buffers and modules are found there by `__getattr__`, and are nowhere else), of calls with hooks
(nn/module_hooks.py) and of saving and loading (nn/module_state.py). Hooks of gradients are
CUSTOM_GRADIENT nodes: all inputs of a call, and all its outputs, get theirs by one rule each
(autodiff/joint_gradients.py), so a hook is shown all of them at once. A
`Parameter` (nn/parameter.py) is a Tensor by class only: it is a leaf of a storage of its own, or
frozen.
"""
