"""Complex numbers: tensors of pairs of floats, and what operations do with them.

In: complex tensors, arrays and numbers. Out: the same, made by operations on their parts. Not here:
transforms (fft/), which are products with matrices of complex numbers.

Files, in reading order:

- indices.py: Indices of complex tensors as indices of their pairs.
- tensors.py: Complex tensors: pairs of floats in memory, shown as complex numbers.
- computing.py: Operations on complex numbers as operations on their parts, each looked up as one.
- arithmetic.py: Arithmetic of complex numbers: its rules, and its forms.
- functions.py: Elementwise functions of complex numbers: their rules, and their forms.
- structure.py: Views of complex tensors, and what does the same with each of their parts.
- products.py: Products of complex matrices and tensors: products of their parts, added up.
- making.py: Complex tensors of other things: parts, lengths and angles, numbers and arrays; and
  new ones.
- methods.py: The methods of complex tensors: their forms; and a refusal of every other one.

No node and no memory has a complex type, so the compiler knows nothing of complex numbers. A
`ComplexTensor` holds a real tensor whose last axis has the two parts, and shares its memory: that
is what view_as_real and view_as_complex show. An operation (a form, found by its name) is a rule on
real tensors, looked up as one; gradients, jit and all devices follow, and what is fused is the real
arithmetic. The gradient of a complex number is d/d real + i d/d imaginary, as in PyTorch.

What has no form is refused: a complex tensor has no node and no storage to show, so an operation
that is written for real numbers raises a ComplexError when it asks for one, and what wraps it
(core/forms.py) then finds its form, or names the operation in the error. Pairs are never
taken for twice as many numbers.
"""
