"""Tensor, and the functions of `lazyten`.

In: what users write. Out: nodes in storages. Not here: what operations mean (operators/), layers
(nn/).

Files, in reading order:

- tensor.py: The tensor: what users hold, made of its parts.
- arguments.py: Checks that what a function takes for tensors are tensors, all on one device.
- functions.py: The functions of `lazyten` itself: making tensors, joining them, and choosing
  between them.
- array_functions.py: Functions of `lazyten` that arrange, pair and fill tensors, made of others.
- foreach.py: `lt._foreach_add_(tensors, ..)` and the like: a method of each of several tensors.
- calculus.py: Integrals and derivatives of functions whose values at some points are given.
- view_copies.py: Views as copies, under PyTorch's names: `lt.expand_copy(x, ..)` is a tensor of
  its own with what x.expand(..) shows. And what is written where a view would show it, in a copy.
- random_functions.py: The functions of `lazyten` that make tensors of random numbers.
- limits.py: Facts about element types: finfo, iinfo, the default float type, which casts are
  safe.
- setting_table.py: Settings: all that there are, and what has to be made anew where one differs.
- settings.py: PyTorch's settings of how it computes, for programs that set them: here they change
  nothing.
- interop.py: Tensors that share the memory of NumPy arrays, and of other libraries by DLPack.
- tensor_types.py: PyTorch's older names of tensors by their element type: `lt.FloatTensor` and the
  like.
- parts.py: What one rank of several has of a tensor: boxes of its elements, and tensors that say
  which.

`Tensor` (core/handle.py) is a thin handle: (Storage, moves, lineage, grad). `Storage` (storage.py)
holds the node of the current value, of some natural shape; `moves` is a chain of movement ops
from the storage's shape to the tensor's. The tensor's node is the moves replayed on the storage's
node, so every alias sees an in-place update (the Storage gets a new node), gradients flow through
views with no extra rule, and a write through a view is the moves inverted. Strides and offset
come from the ShapeTracker of the moves (view.py, strides.py): a chain of Views, merged to one
wherever one set of strides can say the same.

`requires_grad` is a property of the Storage: a leaf has a `leaf_id` and is read through LEAF; a
result has `keeps_graph` until backward() has used its graph. A handle made by detach(), or a view
made inside no_grad(), has a `Lineage` (lineage.py), which its views share, and reads through
DETACH; once something with gradients is written through one of them, that lineage carries these,
and the storage does not. A value written over another as a whole is `flat_in` it: it has the
gradient 0 for it. What requires no gradient has no way to a LEAF: `.grad` is behind a DETACH.

`core/mixed_precision.py` is autocast: `casting` gives an operation its row, and wraps it, where it
is defined. `amp.py`'s GradScaler makes a step a choice: an optimizer writes by `_set`, which picks
between old and new by a zero-dim bool.
"""
