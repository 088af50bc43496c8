"""Mistakes with gradients, optimizers and their states."""
from __future__ import annotations

import numpy as np

import lazyten as lt
from bad_inputs.rows import A, Bad, D, G, S, W, assign, set_grad


def backward_twice(x: lt.Tensor) -> None:
    """A second backward() through what the first has freed."""
    loss = x.detach().clone().requires_grad_().square().sum()
    loss.backward()
    loss.backward()


def backward_of_untracked(x: lt.Tensor) -> None:
    """backward() of a loss that was computed within no_grad()."""
    with lt.no_grad():
        loss = (x * 2).sum()
    loss.backward()


def used_up(x: lt.nn.Module) -> lt.optim.Optimizer:
    """Two optimizers from one iterator."""
    parameters = x.parameters()
    lt.optim.SGD(parameters)
    return lt.optim.Adam(parameters)


AUTOGRAD = [
    Bad("a hook on what needs no gradient", lambda t: t.f.register_hook(print),
        G, "register_hook", ("(2, 3)",), "set requires_grad"),
    Bad("a hook that is no function", lambda t: t.leaf.register_hook(3),
        D, "register_hook", ("3",), "a function"),
    Bad("a hook after .grad of a view",
        lambda t: t.leaf[0].register_post_accumulate_grad_hook(print),
        G, "register_post_accumulate_grad_hook", (), "register_hook()"),
    Bad("retain_grad of what needs no gradient", lambda t: t.f.retain_grad(),
        G, "retain_grad", ("(2, 3)",), "set requires_grad"),
    Bad("grad for what needs no gradient", lambda t: lt.autograd.grad(t.leaf.sum(), t.f),
        G, "grad", ("input 0", "(2, 3)"), "set requires_grad"),
    Bad("grad for what is not used", lambda t: lt.autograd.grad(
        t.leaf.sum(), t.layer.weight), G, "grad", ("input 0", "(2, 3)"), "allow_unused=True"),
    Bad("grad with too few weights", lambda t: lt.autograd.grad(
        [t.leaf.sum(), t.leaf.mean()], t.leaf, [None]),
        A, "grad", ("1 weights", "2 outputs"), "one for each"),
    Bad("batched grad of unequal batches", lambda t: lt.autograd.grad(
        [t.leaf.sum(), t.leaf.mean()], t.leaf, [lt.ones(2), lt.ones(3)], is_grads_batched=True),
        A, "grad", ("(2,)", "(3,)"), "same size"),
    Bad("batched grad without weights", lambda t: lt.autograd.grad(
        t.leaf.sum(), t.leaf, is_grads_batched=True), A, "grad", ("[]",), "first axes"),
    Bad("grad of a list of numbers", lambda t: lt.autograd.grad([1.0], t.leaf),
        D, "grad", ("1.0",), "give tensors"),
    Bad("gradcheck of float32", lambda t: lt.autograd.gradcheck(lt.exp, t.leaf),
        A, "gradcheck", ("float64",), "requires_grad"),
    Bad("a Function without forward()", lambda t: lt.autograd.Function.apply(t.leaf),
        lt.NotWrittenError, "forward()", (), "add a static method"),
    Bad("more segments than layers", lambda t: lt.utils.checkpoint.checkpoint_sequential(
        [lt.exp], 2, t.f), A, "checkpoint_sequential", ("2 segments", "1 functions"),
        "from 1 to 1"),
    Bad("checkpoint of a tensor", lambda t: lt.checkpoint(t.f), A, "checkpoint", ("tensor",),
        "give the function"),
]


GRADIENTS = [
    Bad("backward without a graph", lambda t: t.f.sum().backward(),
        G, "backward", ("()",), "requires_grad"),
    Bad("backward twice", lambda t: backward_twice(t.f),
        G, "backward", ("before",), "retain_graph=True"),
    Bad("backward of what no_grad() computed", lambda t: backward_of_untracked(t.leaf),
        G, "backward", ("()",), "outside no_grad()"),
    Bad("backward of many elements", lambda t: (t.leaf * 2).backward(),
        G, "backward", ("(2, 3)",), "reduce first"),
    Bad("backward with a gradient of another shape", lambda t: (t.leaf * 2).backward(lt.ones(3)),
        G, "backward", ("(3,)", "(2, 3)"), "must be alike"),
    Bad("backward with a gradient of another type",
        lambda t: (t.leaf * 2).backward(lt.ones(2, 3, dtype="int64")),
        G, "backward", ("int64", "float32"), "must be alike"),
    Bad("backward for a tensor without gradients",
        lambda t: (t.leaf * 2).sum().backward(inputs=[t.f]),
        G, "backward", ("(2, 3)",), "set requires_grad"),
    Bad("backward for no tensors", lambda t: (t.leaf * 2).sum().backward(inputs=[]),
        G, "backward", ("empty",), "leave inputs out"),
    Bad("gradients for no tensors", lambda t: lt.autograd.grad((t.leaf * 2).sum(), []),
        A, "grad", ("empty",), "give the tensors"),
    Bad("gradients that are both refused and zeros", lambda t: lt.autograd.grad(
        t.leaf.sum(), t.leaf, allow_unused=False, materialize_grads=True),
        A, "grad", ("materialize_grads",), "leave one of them out"),
    Bad("a tensor as its own gradient", lambda t: setattr(t.leaf, "grad", t.leaf),
        G, "grad", ("(2, 3)",), "clone()"),
    Bad("a Jacobian in chunks of no row",
        lambda t: lt.func.jacrev(lambda x: x, chunk_size=0), A, "jacrev", ("0",), "1 or more"),
    Bad("a leaf transposed in place", lambda t: t.leaf.t_(), G, "t_", (), "gives a view"),
    Bad("a fill by a vector", lambda t: t.f.fill_(t.v), D, "fill_", ("(3,)",), "zero-dim"),
    Bad("a norm of no known kind", lambda t: t.f.norm("nucl"), A, "norm", ("'nucl'",), "'fro'"),
    Bad("a norm of integers", lambda t: t.i.norm(), D, "norm", ("int64",), ".float()"),
    Bad("integers rounded to decimals", lambda t: t.i.round(decimals=1),
        D, "round", ("int64", "1"), ".float()"),
    Bad("a view as a type that does not fit", lambda t: t.f.view(lt.float64),
        S, "view", ("float32", "(2, 3)", "float64"), "contiguous()"),
    Bad("a quantile by an unknown interpolation",
        lambda t: t.f.quantile(0.5, interpolation="best"), A, "quantile", ("'best'",), "midpoint"),
    Bad("isin of two numbers", lambda t: lt.isin(1, 2), D, "isin", (), "lazyten.tensor()"),
    Bad("addcmul of integers by a fraction", lambda t: t.i.addcmul(t.i, t.i, value=0.5),
        D, "addcmul", ("value=0.5",), ".float()"),
    Bad("addmv of integers by a fraction", lambda t: lt.addmv(t.labels, t.i, t.i[0], alpha=0.5),
        D, "addmv", ("int64", "alpha=0.5"), ".float()"),
    Bad("put of too few elements", lambda t: t.f.put(t.labels, t.v[:1]),
        S, "put", ("1", "2"), "one of this type"),
    Bad("a diagonal scattered of another length", lambda t: t.f.diagonal_scatter(t.v),
        S, "diagonal_scatter", ("(3,)", "(2,)"), "must be"),
    Bad("backward with a number", lambda t: (t.leaf * 2).backward(1.0),
        D, "backward", ("1.0",), "lazyten.tensor()"),
    Bad("requires_grad of integers", lambda t: t.i.requires_grad_(),
        G, "requires_grad", ("int64",), ".float()"),
    Bad("a tensor of integers with requires_grad", lambda t: lt.tensor([1, 2], requires_grad=True),
        G, "requires_grad", ("int64",), ".float()"),
    Bad("switching off what an operation made", lambda t: (t.leaf * 2).requires_grad_(False),
        G, "requires_grad", ("False",), "use detach()"),
    Bad("add_ on a leaf", lambda t: t.leaf.add_(1), G, "add_", ("leaf",), "inside no_grad()"),
    Bad("assignment into a leaf", lambda t: assign(t.leaf, 0, 1.0),
        G, "assignment", ("leaf",), "no_grad()"),
    Bad("a .grad of another shape", lambda t: set_grad(t.leaf, lt.ones(3)),
        G, "grad =", ("(3,)", "(2, 3)"), "must be like"),
    Bad("a .grad of another type", lambda t: set_grad(t.leaf, lt.ones(2, 3, dtype="float64")),
        G, "grad =", ("float64", "float32"), "must be like"),
    Bad("a .grad that is a number", lambda t: set_grad(t.leaf, 1.0),
        D, "grad =", ("1.0",), "lazyten.tensor()"),
    Bad("grad of an unrelated input", lambda t: lt.grad(t.leaf.sum(), [t.leaf, t.f]),
        G, "grad", ("input 1", "(2, 3)"), "set requires_grad"),
    Bad("grad for a number", lambda t: lt.grad(t.leaf.sum(), 1.0),
        D, "grad", ("inputs", "1.0"), "give tensors"),
    Bad("grad of a number", lambda t: lt.grad(1.0, t.leaf),
        D, "grad", ("outputs", "1.0"), "give tensors"),
    Bad("grad of many elements", lambda t: lt.grad(t.leaf * 2, t.leaf),
        G, "", ("(2, 3)",), "reduce first"),
]


OPTIMIZERS = [
    Bad("an optimizer without parameters", lambda t: lt.optim.SGD([]),
        A, "SGD", ("no parameters",), "list"),
    Bad("two optimizers from one iterator", lambda t: used_up(t.layer),
        A, "Adam", ("used up",), "again"),
    Bad("an optimizer of one tensor", lambda t: lt.optim.SGD(t.leaf),
        D, "SGD", ("one tensor",), "[tensor]"),
    Bad("an optimizer of a model", lambda t: lt.optim.SGD(t.layer),
        D, "SGD", ("Linear",), "parameters()"),
    Bad("an optimizer of a method", lambda t: lt.optim.SGD(t.layer.parameters),
        D, "SGD", ("method",), "parameters()"),
    Bad("an optimizer of some named parameters",
        lambda t: lt.optim.SGD([*t.layer.named_parameters(), t.leaf]),
        A, "SGD", ("2 of 3",), "all of them or to none"),
    Bad("an optimizer of a set", lambda t: lt.optim.SGD({t.leaf}),
        D, "SGD", ("set",), "a list"),
    Bad("a step that gradients flow through", lambda t: lt.optim.SGD([t.leaf], differentiable=True),
        A, "SGD", ("differentiable=True",), "functional_call"),
    Bad("SparseAdam of no steps", lambda t: lt.optim.SparseAdam([t.leaf], lr=0),
        A, "SparseAdam", ("lr=0",), "above 0"),
    Bad("Muon of a vector", lambda t: lt.optim.Muon([t.v.detach().requires_grad_()]),
        S, "Muon", ("1 axes",), "AdamW"),
    Bad("L-BFGS of two groups",
        lambda t: lt.optim.LBFGS([{"params": [p]} for p in t.layer.parameters()]),
        A, "LBFGS", ("one group",), "one list"),
    Bad("L-BFGS without a closure", lambda t: lt.optim.LBFGS([t.leaf]).step(),
        A, "LBFGS.step", ("several times",), "closure"),
    Bad("a hook of an optimizer that is no function", lambda t: t.sgd.register_step_pre_hook(1),
        A, "hook", ("int 1",), "give a function"),
    Bad("an optimizer of an intermediate result", lambda t: lt.optim.SGD([t.leaf * 2]),
        lt.LeafError, "SGD", ("(2, 3)",), "no leaf"),
    Bad("a parameter given twice", lambda t: lt.optim.SGD([t.leaf, t.leaf]),
        A, "SGD", ("(2, 3)", "twice"), "once"),
    Bad("a negative learning rate", lambda t: lt.optim.SGD([t.leaf], lr=-1),
        A, "SGD", ("lr=-1",), "0 or more"),
    Bad("a learning rate that is NaN", lambda t: lt.optim.Adam([t.leaf], lr=float("nan")),
        A, "Adam", ("lr=nan",), "0 or more"),
    Bad("a learning rate that is a word", lambda t: lt.optim.SGD([t.leaf], lr="a"),
        D, "SGD", ("lr", "'a'"), "is a number"),
    Bad("a negative momentum", lambda t: lt.optim.SGD([t.leaf], momentum=-1),
        A, "SGD", ("momentum=-1",), "0 or more"),
    Bad("nesterov without momentum", lambda t: lt.optim.SGD([t.leaf], nesterov=True),
        A, "SGD", ("momentum=0",), "needs a momentum"),
    Bad("a beta of 1", lambda t: lt.optim.Adam([t.leaf], betas=(0.9, 1.0)),
        A, "Adam", ("(0.9, 1.0)",), "below 1"),
    Bad("one beta", lambda t: lt.optim.AdamW([t.leaf], betas=0.9),
        A, "AdamW", ("0.9",), "two numbers"),
    Bad("a negative eps", lambda t: lt.optim.Adam([t.leaf], eps=-1),
        A, "Adam", ("eps=-1",), "0 or more"),
    Bad("a bad option of a group", lambda t: lt.optim.Adam([{"params": [t.leaf], "betas": (2, 3)}]),
        A, "Adam", ("(2, 3)",), "below 1"),
    Bad("a group without parameters", lambda t: lt.optim.SGD([{"lr": 1}]),
        A, "SGD", ("group 0",), "'params'"),
    Bad("step with the loss", lambda t: t.sgd.step(t.z),
        A, "step", ("Tensor",), "without arguments"),
]


STATES = [
    Bad("a state that misses names", lambda t: t.layer.load_state_dict({}),
        W, "load_state_dict of Linear", ("missing", "weight, bias"), "as the saved one"),
    Bad("a state with a name too many",
        lambda t: t.layer.load_state_dict({"weight": lt.ones(2, 3), "bias": t.v[:2], "x": t.v}),
        W, "load_state_dict", ("unexpected: x",), "Nothing was loaded"),
    Bad("a state of another shape",
        lambda t: t.layer.load_state_dict({"bias": lt.ones(2), "weight": lt.ones(3, 2)}),
        W, "load_state_dict", ("weight", "(3, 2)", "(2, 3)"), "Nothing was loaded"),
    Bad("a state of arrays",
        lambda t: t.layer.load_state_dict({"bias": lt.ones(2), "weight": np.ones((2, 3))}),
        W, "load_state_dict", ("weight", "ndarray"), "lazyten.tensor()"),
    Bad("a file's name as a state", lambda t: t.layer.load_state_dict("a.safetensors"),
        lt.StateTypeError, "load_state_dict", ("'a.safetensors'",), "load_safetensors()"),
    Bad("a model as a state", lambda t: t.layer.load_state_dict(t.layer),
        lt.StateTypeError, "load_state_dict", ("Linear",), "state_dict()"),
    Bad("an optimizer's state that is none", lambda t: t.sgd.load_state_dict({}),
        W, "load_state_dict", ("{}",), "'param_groups'"),
    Bad("an optimizer's state for fewer parameters",
        lambda t: t.sgd.load_state_dict({"state": {}, "param_groups": [{"params": [0]}]}),
        lt.StateSizeError, "load_state_dict", ("[1]", "[2]"), "must be equal"),
    Bad("an optimizer's state of another shape",
        lambda t: t.sgd.load_state_dict({"state": {1: {"momentum_buffer": t.f}},
                                         "param_groups": [{"params": [0, 1], "lr": 7.0}]}),
        W, "load_state_dict", ("momentum_buffer", "(2, 3)", "(2,)"), "must be equal"),
    Bad("an optimizer's state with a bad option",
        lambda t: t.sgd.load_state_dict({"state": {}, "param_groups": [
            t.sgd.state_dict()["param_groups"][0] | {"lr": -1}]}),
        A, "SGD", ("lr=-1",), "0 or more"),
]
