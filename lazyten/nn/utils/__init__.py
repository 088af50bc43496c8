"""What programs use beside modules: `lazyten.nn.utils`.

In: modules, parameters and tensors. Out: the same.

Files, in reading order:

- rnn.py: Sequences of different lengths, padded and packed, under PyTorch's names.
- clip_grad.py: Gradients held to a norm or to limits, in place. Nothing is read, so they may be
  jitted.
- convert_parameters.py: Parameters as one vector, and back.
- computed.py: Modules one of whose tensors is computed from others whenever it is asked for.
- parametrize.py: Parametrizations: a module's tensor as a function of parameters, under PyTorch's
  names.
- parametrizations.py: Parametrizations of weights under PyTorch's names: a length and a direction,
  a greatest singular value of 1, columns of length 1 at right angles.
- weight_norm.py: `weight_norm` with the older names of its parts, name_g and name_v.
- spectral_norm.py: `spectral_norm` with the older names of its parts: name_orig, name_u and name_v.
- prune.py: Pruning: weights of a module that are held at 0, under PyTorch's names.
- fusion.py: A batch normalization in use, made part of the layer before it.
- init.py: A module whose parameters are set later.
"""
from lazyten.nn.utils import parametrizations, parametrize, prune, rnn
from lazyten.nn.utils.clip_grad import (
    clip_grad_norm,
    clip_grad_norm_,
    clip_grad_value_,
    clip_grads_with_norm_,
    get_total_norm,
)
from lazyten.nn.utils.convert_parameters import parameters_to_vector, vector_to_parameters
from lazyten.nn.utils.fusion import (
    fuse_conv_bn_eval,
    fuse_conv_bn_weights,
    fuse_linear_bn_eval,
    fuse_linear_bn_weights,
)
from lazyten.nn.utils.init import skip_init
from lazyten.nn.utils.spectral_norm import remove_spectral_norm, spectral_norm
from lazyten.nn.utils.weight_norm import remove_weight_norm, weight_norm
from lazyten.pytorch.modules import later as _later

__getattr__ = _later("lazyten.nn.utils")
__all__ = [
    "clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_",
    "fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights",
    "get_total_norm", "parameters_to_vector", "parametrizations", "parametrize", "prune",
    "remove_spectral_norm", "remove_weight_norm", "rnn", "skip_init", "spectral_norm",
    "vector_to_parameters", "weight_norm",
]
