"""The tensor: what users hold. A thin handle: a Storage, and the moves that make a view of it.

Its parts are classes: the core (core/), and over it a group of methods a subject (methods/). Every
operation makes GRAPH nodes (operators/) and computes nothing; printing, `.numpy()`, `.item()`,
`bool()` and `realize()` compute. Indexing, transposing and the like give views, which share the
Storage: what is written through one is seen through all.
"""
from __future__ import annotations

from typing import Any

from lazyten.frontend.core import pickling
from lazyten.frontend.core.handle import DTypeLike as DTypeLike
from lazyten.frontend.core.handle import made_of_parts
from lazyten.frontend.core.size import Size
from lazyten.frontend.core.subclasses import SubclassMethods
from lazyten.frontend.methods.arithmetic import ArithmeticMethods
from lazyten.frontend.methods.arrangement import ArrangementMethods
from lazyten.frontend.methods.comparisons import ComparisonMethods
from lazyten.frontend.methods.conversion import KINDS as KINDS
from lazyten.frontend.methods.conversion import ConversionMethods
from lazyten.frontend.methods.counting import CountingMethods
from lazyten.frontend.methods.elementwise import ElementwiseMethods
from lazyten.frontend.methods.gathering import GatherMethods
from lazyten.frontend.methods.gradients import GradientMethods
from lazyten.frontend.methods.indexing import IndexingMethods
from lazyten.frontend.methods.math import MathMethods
from lazyten.frontend.methods.metadata import MetadataMethods
from lazyten.frontend.methods.order import OrderMethods
from lazyten.frontend.methods.products import ProductMethods
from lazyten.frontend.methods.random import RandomMethods
from lazyten.frontend.methods.reductions import ReductionMethods
from lazyten.frontend.methods.views import ViewMethods
from lazyten.frontend.recorded.lookup import record_methods
from lazyten.ir import dtype as dt
from lazyten.ir.node import const
from lazyten.operators.math import shapes
from lazyten.pytorch.modules import add_methods
from lazyten.pytorch.names import TENSOR_METHODS, mark_absent
from lazyten.storage import data as _data
from lazyten.storage.placement import placed
from lazyten.storage.storage import Storage


@made_of_parts
class Tensor(ArithmeticMethods["Tensor"], ComparisonMethods["Tensor"], ElementwiseMethods["Tensor"],
             MathMethods["Tensor"], ReductionMethods["Tensor"], IndexingMethods["Tensor"],
             ArrangementMethods["Tensor"], ProductMethods["Tensor"], ViewMethods["Tensor"],
             OrderMethods["Tensor"], CountingMethods["Tensor"], GatherMethods["Tensor"],
             RandomMethods["Tensor"], ConversionMethods["Tensor"], GradientMethods["Tensor"],
             MetadataMethods["Tensor"], SubclassMethods["Tensor"]):
    """An array of numbers that is computed when it is needed.

    Tensor(2, 3), or Tensor(x.shape), is a tensor of these sizes, whose values do not matter.
    Tensor(data) copies nested sequences or a NumPy array to the default float type;
    `lazyten.tensor` keeps the type.
    """

    __slots__ = ("__dict__",)  # programs mark tensors with attributes, which no result has
    __array_priority__ = 1000  # NumPy leaves `array + tensor` to the tensor

    def __init__(self, *data: Any, dtype: DTypeLike | None = None, device: str | None = None,
                 requires_grad: bool = False) -> None:
        kind = dt.default_float if dtype is None else dt.as_dtype(dtype)
        is_shape = len(data) == 1 and isinstance(data[0], Size)
        if is_shape or _data.are_sizes(data):
            where = placed(device)
            sizes = data if is_shape or data else (0,)
            self._hold(Storage(const(0, kind, shapes.new_shape(sizes, "Tensor")), where))
        else:
            given = _data.only_sequence(data)
            wanted = dtype if isinstance(given, Tensor) else kind
            self._hold(Tensor._copy_of(given, wanted, device)._storage)
        if requires_grad:
            self.requires_grad_()


pickling.KINDS["tensor"] = Tensor
record_methods(Tensor)
add_methods(Tensor)
mark_absent(Tensor, TENSOR_METHODS)
