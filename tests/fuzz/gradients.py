"""Writes random programs about gradients, of forms in `rows_gradients`: values computed of leaves
and of one another, views, hooks, writes, looks, and backward() again and again, anywhere.

What is noted in a list, by hooks for one, is looked at as sums that do not depend on the order: of
hooks of several values each library has its own.
"""
from __future__ import annotations

from fuzz.program import Program, Statement
from fuzz.rows import EXACT, ROUGH
from fuzz.rows_gradients import (
    DERIVATIVES,
    EVENTS,
    FUNCTIONS,
    HOOKS,
    LAYERS,
    OPERATIONS,
    VALUES,
    VIEWS,
)
from fuzz.setting import Setting, numbers

NOTED = "lt.tensor([len({l}), *(sum(float((x.detach() ** i).sum()) for x in {l}) for i in (1, 2))])"


def about_gradients(s: Setting, longest: int) -> Program:
    """A program of up to so many statements after its inputs."""
    _inputs(s)
    for _ in range(s.draw.randint(3, longest)):
        _statement(s)
    s.add(None, s.draw.choice(EVENTS["backward"][1]), "backward")
    s.observed.append(str(s.add("x", NOTED, "noted")))
    tensors = [n for letter in "pqyvk" for n in s.names.get(letter, ())]
    return Program(tuple(s.statements), (*s.observed, *tensors), tuple(tensors))


def _inputs(s: Setting) -> None:
    draw = s.draw
    size, dtype = draw.choice((1, 2, 2, 3)), draw.choice(("float32", "float64"))

    def tensor(letter: str, *shape: int) -> None:
        s.add(letter, f"lt.tensor({numbers(draw, *shape)}, dtype=lt.{dtype}"
              f"{'' if letter == 'd' else ', requires_grad=True'})", "input", EXACT)

    tensor("d", size, size)
    for _ in range(draw.choice((1, 1, 2))):
        tensor("p", size, size)
    tensor("q")
    s.add("l", "[]", "list", EXACT)
    if draw.random() < 0.3:
        s.add("A", draw.choice(OPERATIONS), "Function", EXACT)
    if draw.random() < 0.3:
        layer = draw.choice(LAYERS).replace("{k}", str(size))
        s.add("m", f"m = lt.nn.Sequential({layer}).to(lt.{dtype})\nwith lt.no_grad():\n"
              "    for i, p in enumerate(m.parameters()): p.copy_((lt.arange(p.numel()) * (i + 3) "
              "% 7 - 3).reshape(p.shape) / 4)\n{T} = m", "module", EXACT)
        s.add("k", "next({m}.parameters())", "parameter", EXACT)
    if draw.random() < 0.5:
        _function(s)
    s.add("y", draw.choice(("{p} * {n}", "{p} * {p}", "{d} @ {p}", "{p} + 0", "{p}.sin()")),
          "value", ROUGH)


def _function(s: Setting) -> None:
    made = s.filled(s.draw.choice(FUNCTIONS))
    assert made is not None
    name, prefix = f"f{len(s.statements)}", s.draw.choice(("", "@lt.jit", "@lt.compile"))
    s.names["f"] = [name]
    s.statements.append(Statement(name, prefix, row="def", parameters=("a",), result="t",
                                  body=(Statement("t", *made, "function", ROUGH),)))


def _hooked(s: Setting) -> str:
    """Of which sorts hooks are registered. PyTorch crashes on views that were written."""
    rows = {made.row for made in s.statements}
    return "yyvpp" if rows.isdisjoint(("write", "write without a gradient")) else "yyypp"


def _statement(s: Setting) -> None:
    draw = s.draw
    sort = draw.random()
    if sort < 0.35:
        s.add("y", draw.choice(VALUES), "value")
    elif sort < 0.4:
        s.add("y", draw.choice(DERIVATIVES), "autograd.grad")
    elif sort < 0.5:
        s.add("v", draw.choice(VIEWS), "view", EXACT)
    elif sort < 0.65:
        of = draw.choice(_hooked(s))
        hook = draw.choice(HOOKS)
        form = f"{{{of}}}.register_hook({hook})"
        if of == "p" and draw.random() < 0.3:
            form = "{p}.register_post_accumulate_grad_hook(lambda p: " \
                "{l}.append(p.grad.detach().clone()))"
        s.add("h", f"{{T}} = {form}" if of == "p" else
              f"{{T}} = {form} if {{{of}}}.requires_grad else None", "hook", EXACT)
    else:
        kind = draw.choices(list(EVENTS), [weight for weight, _ in EVENTS.values()])[0]
        forms = [f for f in EVENTS[kind][1] if kind != "retain_grad" or f[4] in _hooked(s)]
        s.add(None, draw.choice(forms), kind)
