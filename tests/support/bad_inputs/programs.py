"""Mistakes around a model: with data, schedules of learning rates, scalers and distributions."""
from __future__ import annotations

from typing import Any

import numpy as np

import lazyten as lt
from bad_inputs.rows import A, Bad, D, X
from lazyten.utils import data

# without their types, as these are mistakes on purpose
schedulers: Any = lt.optim.lr_scheduler
layers: Any = lt.nn
distributions: Any = lt.distributions
loader: Any = data
swa_utils: Any = lt.optim.swa_utils


class WithoutLength(data.Dataset[int]):
    """A data set that does not say how many examples it has."""

    def __getitem__(self, index: int) -> int:
        return index


DATA = [
    Bad("a data set that is a number", lambda t: loader.DataLoader(3, shuffle=True),
        D, "Sampler", ("int 3",), "__len__() and __getitem__()"),
    Bad("a data set without a length", lambda t: len(loader.DataLoader(WithoutLength())),
        D, "Sampler", ("WithoutLength",), "IterableDataset"),
    Bad("random indices of no examples", lambda t: list(loader.RandomSampler([], num_samples=3)),
        A, "RandomSampler", ("num_samples=3",), "has some"),
    Bad("random indices of no examples, with replacement",
        lambda t: list(loader.RandomSampler([], replacement=True, num_samples=3)),
        A, "RandomSampler", ("num_samples=3",), "has some"),
    Bad("a split of a number", lambda t: loader.random_split(3, [1]),
        D, "random_split", ("int 3",), "__len__()"),
    Bad("numbers as data sets in a row", lambda t: loader.ConcatDataset([3]),
        D, "ConcatDataset", ("int 3",), "__len__()"),
    Bad("what makes batches is no function", lambda t: loader.DataLoader([1], collate_fn=3),
        D, "DataLoader", ("collate_fn=3",), "give a function"),
    Bad("what begins workers is no function",
        lambda t: loader.DataLoader([1], num_workers=1, worker_init_fn=3),
        D, "DataLoader", ("worker_init_fn=3",), "give a function"),
    Bad("examples with other names",
        lambda t: loader.default_collate([{"a": 1}, {"b": 1}]),
        A, "default_collate", ("example 1", "'a'", "'b'"), "collate_fn"),
    Bad("a batch of no examples", lambda t: loader.default_collate([]),
        A, "default_collate", ("no examples",), "one or more"),
    Bad("a batch of a tensor and a number", lambda t: loader.default_collate([t.f, 3]),
        D, "default_collate", ("example 1", "int 3", "Tensor"), "collate_fn"),
    Bad("a batch of an array and a list", lambda t: loader.default_collate([np.ones(2), [3]]),
        D, "default_collate", ("example 1", "list [3]", "ndarray"), "collate_fn"),
    Bad("a batch of a tuple and a number", lambda t: loader.default_collate([(1, 2), 3]),
        D, "default_collate", ("example 1", "int 3", "tuple"), "collate_fn"),
    Bad("a batch of a dict and a list", lambda t: loader.default_collate([{"a": 1}, [1]]),
        D, "default_collate", ("example 1", "list [1]", "dict"), "collate_fn"),
]
SCHEDULES = [
    Bad("a rate that falls every 0 epochs", lambda t: schedulers.StepLR(t.sgd, 0),
        A, "StepLR", ("step_size=0",), "above 0"),
    Bad("a rate that falls every so many letters", lambda t: schedulers.StepLR(t.sgd, "a"),
        D, "StepLR", ("step_size", "'a'"), "a number"),
    Bad("a cosine of no epochs", lambda t: schedulers.CosineAnnealingLR(t.sgd, 0),
        A, "CosineAnnealingLR", ("T_max=0",), "above 0"),
    Bad("a cycle of no steps", lambda t: schedulers.CyclicLR(t.sgd, 0.1, 0.2, step_size_up=0),
        A, "CyclicLR", ("step_size_up=0",), "above 0"),
    Bad("one epoch as a list of them", lambda t: schedulers.MultiStepLR(t.sgd, 3),
        D, "MultiStepLR", ("int 3",), "a list of epochs"),
    Bad("averages of no model", lambda t: swa_utils.AveragedModel(np),
        D, "AveragedModel", ("module 'numpy'",), "give the model"),
    Bad("a scaler's step of no optimizer", lambda t: lt.amp.GradScaler().step(t.layer),
        D, "GradScaler", ("Linear",), "the optimizer itself"),
]
MODULES = [
    Bad("a function for each module that is none", lambda t: t.layer.apply(3),
        D, "apply", ("int 3",), "a function of a module"),
    Bad("an index of an empty list of modules", lambda t: layers.ModuleList()[0],
        X, "ModuleList", ("index 0", "no modules"), "append()"),
    Bad("a norm of the gradients of a number", lambda t: layers.utils.clip_grad_norm_(3, 1.0),
        D, "clip_grad_norm_", ("int 3",), "model.parameters()"),
    Bad("a vector of the parameters of a number", lambda t: layers.utils.parameters_to_vector(3),
        D, "parameters_to_vector", ("int 3",), "model.parameters()"),
    Bad("a batch normalization that is none made part of a layer",
        lambda t: layers.utils.fusion.fuse_linear_bn_eval(t.layer, t.layer),
        D, "fuse_linear_bn_eval", ("Linear",), "the batch normalization"),
    Bad("a parametrization that is no module",
        lambda t: layers.utils.parametrize.register_parametrization(t.layer, "weight", abs),
        D, "register_parametrization", ("'weight'", "abs"), "forward()"),
    Bad("layers with integers of a tensor", lambda t: lt.quantization.quantize_dynamic(t.f),
        D, "quantize_dynamic", ("Tensor",), "give the model"),
    Bad("an image resized by letters", lambda t: layers.Upsample(scale_factor="a"),
        D, "Upsample", ("scale_factor", "'a'"), "a number"),
    Bad("a transform along two axes of a vector", lambda t: lt.fft.fft2(t.v),
        X, "fftn", ("axis -2", "1 axes"), "use -1 to 0"),
    Bad("distances with a power below 0", lambda t: lt.cdist(t.f, t.f, p=-1),
        A, "cdist", ("p=-1",), "0 or more"),
    Bad("distances of all pairs with a power below 0", lambda t: lt.pdist(t.f, -2.0),
        A, "pdist", ("p=-2.0",), "0 or more"),
    Bad("gradients checked of no function", lambda t: lt.autograd.gradcheck(t.f, t.f),
        A, "gradcheck", ("Tensor",), "give the function"),
]
DISTRIBUTIONS = [
    Bad("a number as a shape of samples", lambda t: distributions.Normal(0.0, 1.0).sample(3),
        D, "Normal", ("sample_shape is 3",), "(3,)"),
    Bad("a composition of numbers", lambda t: distributions.ComposeTransform([3]),
        D, "ComposeTransform", ("int 3",), "a list of transforms"),
]
PROGRAMS = [*DATA, *SCHEDULES, *MODULES, *DISTRIBUTIONS]
