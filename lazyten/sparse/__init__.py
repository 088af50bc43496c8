"""`lt.sparse`: tensors of which only some elements are held, under PyTorch's names.

In: indices and values, or dense tensors. Out: sparse tensors, and what operations give of them. Not
here: how an optimizer takes a sparse gradient (optim/), which rows of an embedding have one
(nn/functions/embedding.py).

Files, in reading order:

- tensors.py: Sparse tensors: a tensor of values, and tensors of whole numbers that say where.
- coordinates.py: Tensors in coordinates: indices (sparse axes, nnz), values (nnz, dense axes..).
- compressed.py: Tensors in compressed rows or columns: where rows begin, columns, values.
- invariants.py: Whether indices and values fit each other: errors that name what does not.
- making.py: Making sparse tensors: of indices and values, of dense tensors, and of each other.
- arithmetic.py: Arithmetic of sparse tensors, and functions that give 0 for 0.
- arrangement.py: Axes and parts of sparse tensors: transposed, chosen, joined.
- products.py: Products of sparse matrices: rows gathered, scaled and added up.
- reductions.py: Sums and softmax of sparse tensors.
- conversions.py: Other element types and devices, writes, and what only sparse tensors have.
- printing.py: The text of a sparse tensor, laid out as PyTorch lays it out.
- gradients.py: Gradients that are held as the rows of a weight that have one.
- kinds.py: PyTorch's older names, such as `lt.sparse.FloatTensor`.
- methods.py: The methods of sparse tensors: their forms; and a refusal of every other one.

No node and no memory is sparse, so the compiler knows nothing of it: a sparse tensor holds dense
ones, and an operation on it (a form, found by its name) is gathers, sums by index and arithmetic of
these. Gradients flow through the values; all devices, element types and jit follow. What has to
know where values are (coalesce(), a product of two sparse matrices, select()) reads the indices,
which are looked at, and checked, when a tensor is made; in a jitted function these are refused, and
what needs no look (products with dense matrices, sums, arithmetic at the same places) works.

As of complex tensors (frontend/complexes/), what has no form is refused: there is no node and no
storage to show, so nothing is taken for a dense tensor of the values.
"""
from __future__ import annotations

from lazyten.pytorch.modules import later
from lazyten.sparse.invariants import check_sparse_tensor_invariants
from lazyten.sparse.kinds import TYPES
from lazyten.sparse.methods import WHERE_FORMS_ARE
from lazyten.sparse.products import addmm, sampled_addmm, spdiags
from lazyten.sparse.products import sparse_mm as mm
from lazyten.sparse.reductions import log_softmax, softmax
from lazyten.sparse.reductions import sparse_sum as sum
from lazyten.sparse.tensors import SparseTensor

assert WHERE_FORMS_ARE  # what operations do with sparse tensors is there once they are loaded
globals().update(TYPES)
__getattr__ = later("lazyten.sparse")

__all__ = ["SparseTensor", "addmm", "check_sparse_tensor_invariants", "log_softmax", "mm",
           "sampled_addmm", "softmax", "spdiags", "sum", *TYPES]
