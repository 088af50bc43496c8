"""How a program calls the functions that it defines: as they are, jitted, transformed, and both."""
from __future__ import annotations

import random
from collections.abc import Callable

JITTED = {"jit": "@lt.jit", "compile": "@lt.compile", "vmap of jit": "@lt.jit",
          "grad of jit": "@lt.jit"}
"""What is written above a function, by kind."""
BATCHED = ("vmap", "per-example gradient", "vmap of jit", "jit of vmap")
NEEDS_FLOAT = ("grad", "jvp", "hessian", "per-example gradient", "grad of jit", "jit of grad",
               "jacrev", "jacfwd", "vjp", "checkpointed gradient")

CALLS: dict[str, Callable[[random.Random], list[str]]] = {
    "plain": lambda draw: ["{0}(...)"],
    "jit": lambda draw: ["{0}(...)"] * draw.choice((1, 2, 3)),
    "checkpoint": lambda draw: ["lt.checkpoint({0}, ...).contiguous().clone()"],
    "vmap": lambda draw: ["lt.func.vmap({0})(...)"],
    "grad": lambda draw: ["lt.func.grad(lambda *v: {0}(*v).sum())(...)"],
    "jvp": lambda draw: ["lt.func.jvp({0}, (...,), (...,))" + draw.choice(("[0]", "[1]"))],
    "hessian": lambda draw: ["lt.func.hessian(lambda *v: ({0}(*v) ** 2).sum())(...)"],
    "per-example gradient": lambda draw: [
        "lt.func.vmap(lt.func.grad(lambda *v: {0}(*v).sum()))(...)"],
    "compile": lambda draw: ["{0}(...)"] * draw.choice((1, 2)),
    "vmap of jit": lambda draw: ["lt.func.vmap({0})(...)"],
    "jit of vmap": lambda draw: ["lt.jit(lt.func.vmap({0}))(...)"],
    "grad of jit": lambda draw: ["lt.func.grad(lambda *v: {0}(*v).sum())(...)"] * 2,
    "jit of grad": lambda draw: ["lt.jit(lt.func.grad(lambda *v: {0}(*v).sum()))(...)"],
    "jacrev": lambda draw: ["lt.func.jacrev({0})(...)"],
    "jacfwd": lambda draw: ["lt.func.jacfwd({0})(...)"],
    "vjp": lambda draw: ["(lambda r: r[1](r[0] * 2)[0])(lt.func.vjp({0}, ...))"],
    "checkpointed gradient": lambda draw: [
        "(lambda p: lt.autograd.grad((lt.checkpoint({0}, *p) ** 2).sum(), p[0], "
        "allow_unused=True)[0])([v.detach().clone().requires_grad_() for v in (...,)])"],
}
"""How a function is called, by kind; `...` are its arguments."""
