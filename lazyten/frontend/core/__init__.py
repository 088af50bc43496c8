"""The core of Tensor: a handle of a storage, with values, gradients and writing.

In: what the groups of methods (methods/) ask for. Out: nodes in storages. Each class is a part that
the next one is made of, and TensorCore is all of them. They name what operations give `Tensor`, a
type variable: no part needs the class that all parts make (tensor.py), and results have its type.
Not here: what operations mean (operators/).

Files, in reading order:

- in_place.py: In-place twins, beside the method of which they are: `exp_ = in_place(exp)` writes
  what it gives, and with `t_ = shown_as(t)` the tensor becomes what it gives, a view.
- forms.py: Where operations that meet complex or sparse tensors are looked up: their forms.
- keywords.py: Other names that PyTorch takes arguments by: `axis=` for `dim=`, NumPy's `keepdims=`,
  `size=`, and what says how a new tensor is stored.
- handle.py: A tensor as a handle: a Storage, the moves that make a view of it, and whether
  gradients flow.
- size.py: Shapes as users get them.
- values.py: The values of a tensor: computed, read and printed; and memory of them that others
  know.
- printing.py: The text of a tensor, laid out as PyTorch lays it out: aligned, four decimals, long
  ones cut.
- operands.py: What operations take and give: tensors on one device and numbers, as nodes.
- writing.py: Writing to a tensor, and so to all views of its storage.
- pickling.py: Tensors as Python's pickle takes them.
- gradients.py: The gradient of a tensor, and what shares or takes over its storage.
- tensor_core.py: The core of Tensor as a whole, with what moves elements: reshape, permute, expand
  and so on.
- overriding.py: Classes and modes that take operations over: PyTorch's protocol
  `__torch_function__`.
- subclasses.py: Subclasses of Tensor that programs write: a tensor as an instance of one.
- functions.py: Methods from functions of nodes: of a tensor, of several operands, and what gives
  two tensors.
- mixed_precision.py: Mixed precision: `autocast`, within which products are computed in a low
  type, and what loses by that in float32.
"""
