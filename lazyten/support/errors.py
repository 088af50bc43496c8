"""Every error a user can meet. A user's mistake: a `LazytenError`; our own bug: `InternalError`.

A message names the operation, the values, the axis at fault, and what to do about it.
"""
from __future__ import annotations

import pickle


class LazytenError(RuntimeError):
    """Base of all errors that a user's program can cause; also a RuntimeError, which is what
    programs catch of PyTorch's operations."""


class ShapeError(LazytenError, ValueError):
    """Shapes that do not fit the operation; also a ValueError."""


class DTypeError(LazytenError, TypeError):
    """Element types that do not fit the operation; also a TypeError."""


class ForeignOperandError(DTypeError):
    """An operand of a class that has operators of its own, which operators leave the work to."""


class FormError(LazytenError):
    """An operation that is written for tensors with a node, and has met one without: what wraps it
    has its form do it, or names it."""


class ComplexError(FormError, DTypeError):
    """An operation that is there for real numbers alone, and has met complex ones: what wraps it
    has its form do it, or names it (`not_complex`)."""

    def __init__(self) -> None:
        super().__init__("the operation is not there for complex tensors; compute with x.real and "
                         "x.imag, or view_as_real(x), instead")


def not_complex(operation: str, hint: str = "") -> DTypeError:
    """The error of an operation that complex tensors do not have."""
    return DTypeError(f"{operation} of complex tensors is not there{hint}; compute with x.real and "
                      f"x.imag, or view_as_real(x), instead")


class SparseError(FormError):
    """An operation that is there for dense tensors alone, and has met a sparse one: what wraps it
    has its form do it, or names it (`not_sparse`)."""

    def __init__(self) -> None:
        super().__init__(f"the operation{_NOT_SPARSE}")


class SparseLayoutError(LazytenError, NotImplementedError):
    """An operation that sparse tensors, or those of this layout, do not have; also a
    NotImplementedError, as PyTorch's."""


_NOT_SPARSE = (" is not there for sparse tensors; use x.to_dense(), or compute with x.values() and "
               "make a sparse tensor of them again")


def not_sparse(operation: str) -> SparseLayoutError:
    """The error of an operation that sparse tensors do not have."""
    return SparseLayoutError(f"{operation}{_NOT_SPARSE}")


def two_devices(operation: str, one: object, other: object) -> DeviceError:
    """The error of an operation whose operands are on these devices."""
    return DeviceError(f"{operation} of tensors on '{one}' and '{other}': both must be on one "
                       f"device; move one with .to('{one}')")


class IndexingError(LazytenError, IndexError):
    """An index or an axis outside the tensor; also an IndexError."""


class EmptyAxisError(ShapeError, IndexingError):
    """An operation along an axis that is not there, or has no elements to choose from; also a
    ValueError and an IndexError."""


class SliceError(IndexingError, ValueError):
    """A slice whose step is 0; also an IndexError and a ValueError."""


class SlicePartError(IndexingError, TypeError):
    """A slice whose parts are no whole numbers; also an IndexError and a TypeError."""


class IndexShapeError(ShapeError, IndexingError):
    """Index arrays whose shapes do not broadcast; also a ValueError and an IndexError."""


class IndexDTypeError(DTypeError, IndexingError):
    """An index of an element type that is none; also a TypeError and an IndexError."""


class NoAxisError(ShapeError, TypeError):
    """What needs an axis, as len() and iteration, of a tensor without; also a ValueError and a
    TypeError."""


class DeviceError(LazytenError):
    """A device that is unknown or unusable, or tensors on different devices."""


class NoValuesError(DeviceError, NotImplementedError):
    """The value of a tensor on the device 'meta', where none has any; also a
    NotImplementedError."""

    def __init__(self) -> None:
        super().__init__("a tensor on device 'meta' has a shape and a type, but no values: give a "
                         "module memory by to_empty(device=...) and load its weights, or load them "
                         "by load_state_dict(..., assign=True)")


class OutOfMemoryError(DeviceError):
    """A device that has no memory left for a tensor; also a RuntimeError."""


class CompileError(LazytenError):
    """A kernel that the device's compiler refused; names the kernel and the user's line."""


class CheckError(LazytenError):
    """What a kernel compiled with checks found (see `lazyten.check`): an access outside an array,
    which is a bug in lazyten, or a NaN, an infinity or an overflow in the program's values. kind:
    which of these, as CHECK names it."""

    def __init__(self, message: str, kind: str = "") -> None:
        super().__init__(message)
        self.kind = kind


class WorkerError(LazytenError):
    """A worker process of a DataLoader that has died or takes too long, or an error in one whose
    class is not known here; also a RuntimeError."""


class GradientError(LazytenError):
    """A gradient that cannot be had: no graph, a freed graph, a non-scalar output."""


class ArgumentError(LazytenError, ValueError):
    """A parameter whose value makes no sense for the operation; also a ValueError."""


class ValueRangeError(ArgumentError, IndexingError):
    """An element outside of what an operation is for, found as it is computed: a negative
    probability; also a ValueError, and an IndexError, as what else is found then."""


class CodeInFileError(ArgumentError, pickle.UnpicklingError):
    """A file whose objects are made by running what it says, where only data was asked for; also a
    ValueError, and pickle's UnpicklingError."""


class LeafError(GradientError, ArgumentError):
    """A tensor that an operation made, where a leaf is needed; also a ValueError."""


class NoGradientError(GradientError, NotImplementedError):
    """A gradient that an operation does not have; also a NotImplementedError."""


class HookError(GradientError, DTypeError):
    """What a hook of a gradient gave is no tensor; also a TypeError."""


class NotWrittenError(GradientError, ArgumentError, NotImplementedError):
    """A method that a subclass has to define and does not: forward() or backward(); also a
    ValueError and a NotImplementedError."""


class NotOfTypeError(DTypeError, NotImplementedError):
    """An operation that elements of this type do not have; also a TypeError and a
    NotImplementedError."""


class KindError(DTypeError, ArgumentError):
    """An option is of a kind that its operation does not take, what a transform of lazyten.func was
    given, or its function gave, is no tensor, or what a recurrent layer was given is not of its
    weights' type; also a TypeError and a ValueError."""


class NotDefinedError(LazytenError, NotImplementedError):
    """What others of its kind have, and a class or an object does not define; also a
    NotImplementedError."""


class MissingFileError(ArgumentError, FileNotFoundError):
    """A file to be read that is not there; also a FileNotFoundError."""


class LinAlgError(LazytenError):
    """A matrix that a factorization does not take: singular, not positive definite, with a NaN;
    also a RuntimeError."""


class DistributedError(LazytenError):
    """Ranks that do different collectives, or one that is gone or does not come within the time
    limit; also a RuntimeError."""


class JitError(LazytenError):
    """What a jitted function must not do, with the line that does it: read a value that is not
    computed yet, or change Python state that a replay would not change."""


class TransformError(LazytenError):
    """What a function under a transform of lazyten.func must not do, with the line that does it:
    write to a tensor from outside, branch on a value that vmap has many of, draw random numbers
    without a say whether examples share them."""


class ModuleAttributeError(LazytenError, AttributeError):
    """An attribute, a part or a parameter that a module does not have, or cannot have yet because
    its __init__ does not call super().__init__(); also an AttributeError."""


class AttributeNameError(ArgumentError, KeyError):
    """A name that cannot be a module's parameter, buffer or part, or that a ModuleDict does not
    have; also a KeyError."""

    def __str__(self) -> str:  # KeyError would show the message in quotes
        return str(self.args[0]) if self.args else ""


class StateError(LazytenError, KeyError):
    """Saved tensors that do not match a model: missing, unexpected, or of another shape; also a
    KeyError and a RuntimeError."""

    def __str__(self) -> str:  # KeyError would show the message in quotes
        return str(self.args[0]) if self.args else ""


class StateSizeError(StateError, ArgumentError):
    """A saved optimizer with other groups than this one has; also a ValueError."""


class StateTypeError(StateError, DTypeError):
    """What is to be loaded is no dict of names; also a TypeError."""


class InternalError(Exception):
    """A bug in lazyten, not in the user's program: please report it with the text shown."""
