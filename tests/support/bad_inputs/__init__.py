"""Mistakes of users, one a row: what they call, and what the error must say.

`test_errors.py` runs them all. A row's words are those of its message: the operation, the values at
fault, and the remedy. Mistakes that need files or an environment are in `test_errors.py` itself.
"""
from __future__ import annotations

from bad_inputs.arguments import ARGUMENTS
from bad_inputs.layers import LAYERS
from bad_inputs.programs import PROGRAMS
from bad_inputs.shapes import PRODUCTS, SHAPES, VIEWS
from bad_inputs.training import AUTOGRAD, GRADIENTS, OPTIMIZERS, STATES
from bad_inputs.transforms import TRANSFORMS
from bad_inputs.types import DEVICES, DTYPES, INDICES

ALL = [*SHAPES, *LAYERS, *DTYPES, *INDICES, *VIEWS, *PRODUCTS, *AUTOGRAD, *DEVICES, *GRADIENTS,
       *ARGUMENTS, *OPTIMIZERS, *STATES, *TRANSFORMS, *PROGRAMS]
