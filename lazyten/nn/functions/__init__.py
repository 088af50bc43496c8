"""Functions of neural networks, which `lazyten.nn.functional` offers.

In: tensors. Out: tensors. A file a subject. Not here: what has spatial axes (spatial/), losses
(criteria/), layers (nn/modules/).

Files, in reading order:

- options.py: Options that many functions share: `inplace`, and `reduction` with its two older
  words.
- activations.py: Activations of tensors, which `lazyten.nn.functional` offers.
- in_place.py: Activations that write to their input, and give it back.
- softmax.py: Softmax and its relatives along an axis, which `lazyten.nn.functional` offers.
- dropout.py: Dropout: elements or whole channels that are left out by chance while a network
  trains.
- chance.py: Dropout under the names that PyTorch has beside `nn.functional`: what trains is said,
  not left out, and each has a twin that writes to its input.
- segments.py: Segments of an axis, of lengths that differ, each reduced to one line.
- linear.py: Affine maps of tensors, which `lazyten.nn.functional` offers.
- embedding.py: Embeddings: rows of a weight by number, alone and in bags; numbers as rows of
  zeros and a one.
- attention.py: Attention: softmax(query @ key.T) @ value, as a composite of tensor operations.
- multi_head_attention.py: Attention of several heads: what projects to queries, keys and values,
  and back, around scaled_dot_product_attention.
- normalization.py: Normalization of tensors over some axes, which `lazyten.nn.functional` offers.
- padding.py: Padding of tensors in four modes, as views joined together.
- distances.py: Lengths of vectors and distances between them, along an axis of tensors.
"""
