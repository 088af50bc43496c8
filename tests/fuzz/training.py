"""Writes random training programs: parameters, losses that read them, optimizers, and between their
steps what people do there: rates that change, writes through views, hooks, gradients added up,
states that are loaded. Two in three are those of gradients.py.

A program is a list of statements as any other, of forms in `rows_training`. What has happened to a
name is not looked at: a statement says by itself what it needs.
"""
from __future__ import annotations

import random
from textwrap import indent

from fuzz.campaign import Campaign
from fuzz.gradients import about_gradients
from fuzz.program import Program, Statement
from fuzz.rows import EXACT, ROUGH
from fuzz.rows_training import ENDS, EVENTS, MIDDLES, NAMED, OPTIMIZERS, STARTS, STEPS, WHEN
from fuzz.setting import Setting, numbers


class Trainings:
    """Programs by number, as of `Generator`."""

    def __init__(self, seed: int, longest: int = 14) -> None:
        self.seed, self.longest = seed, longest
        self.broken: list[tuple[Program, Exception]] = []
        self.refused: list[tuple[Program, Exception]] = []

    def program(self, number: int) -> Program:
        """The program of this number."""
        setting = Setting(random.Random(f"training {self.seed} {number}"))
        if number % 3:
            return about_gradients(setting, self.longest)
        inputs(setting)
        for _ in range(setting.draw.choice((1, 1, 2))):
            setting.statements.append(loss(setting))
        optimizer(setting)
        if setting.draw.random() < 0.2:
            optimizer(setting)
        for _ in range(setting.draw.randint(3, self.longest)):
            event(setting)
        observed = [*setting.observed, *setting.names["p"]]
        return Program(tuple(setting.statements), tuple(observed), tuple(setting.names["p"]))


def inputs(s: Setting) -> None:
    """Data, parameters, a small network, a number that losses read."""
    draw = s.draw
    n, k, h = draw.choice((1, 2, 3, 5)), draw.choice((1, 2, 4)), draw.choice((1, 2, 3))
    dtype = draw.choice(("float32", "float32", "float32", "float64"))

    def tensor(letter: str, *shape: int, leaf: bool = True) -> str:
        form = f"lt.tensor({numbers(draw, *shape)}, dtype=lt.{dtype}" if all(shape) else \
            f"lt.zeros({shape}, dtype=lt.{dtype}"
        if leaf and draw.random() < 0.4:
            form = f"lt.nn.Parameter({form}))"
        else:
            form += ", requires_grad=True)" if leaf else ")"
        return str(s.add(letter, form, "input", EXACT))

    tensor("d", n, k, leaf=False)
    if draw.random() < 0.3:
        tensor("d", draw.choice((n, n, n + 1, 0)), k, leaf=False)
    s.names["p"] = [tensor("W", k, h), tensor("b", h), tensor("q")]
    s.add("c", f"{{{{0: {draw.choice(('1.0', '0.5', '2.0'))}}}}}", "closed over", EXACT)
    if draw.random() < 0.5:
        layers = draw.choice((f"lt.nn.Linear({k}, {h})", f"lt.nn.Linear({k}, 3), lt.nn.Tanh(), "
                              f"lt.nn.Linear(3, {h})", f"lt.nn.Linear({k}, {h}), "
                              f"lt.nn.BatchNorm1d({h})", f"lt.nn.Linear({k}, {h}), "
                              f"lt.nn.LayerNorm({h}), lt.nn.ReLU(inplace=True)"))
        s.add("m", f"m = lt.nn.Sequential({layers}).to(lt.{dtype})\nwith lt.no_grad():\n"
              "    for i, p in enumerate(m.parameters()): p.copy_((lt.arange(p.numel()) * (i + 3) "
              "% 7 - 3).reshape(p.shape) / 4)\n{T} = m", "module", EXACT)
        s.names["p"].append(str(s.add("k", "{m}[0].weight", "parameter", EXACT)))
        s.names["p"].append(str(s.add("k", "{m}[0].bias", "parameter", EXACT)))


def loss(s: Setting) -> Statement:
    """A function of data that reads parameters and what they close over."""
    draw = s.draw
    body = []
    forms = [draw.choice(STARTS), *draw.sample(MIDDLES, draw.randint(0, 4)), draw.choice(ENDS)]
    for form in forms:
        made = s.filled(form)
        if made is not None:
            body.append(Statement("t", *made, "loss", ROUGH))
        elif form is forms[0]:
            body.append(Statement("t", *(s.filled(STARTS[0]) or ("", ())), "loss", ROUGH))
    prefix = draw.choice(("", "", "", "@lt.jit", "@lt.compile"))
    name = f"f{len(s.statements)}"
    s.names.setdefault("f", []).append(name)
    return Statement(name, prefix, row="def", parameters=("a",), body=tuple(body), result="t")


def optimizer(s: Setting) -> None:
    draw = s.draw
    own = draw.sample(s.names["p"], draw.randint(1, len(s.names["p"])))
    if draw.random() < 0.3 and len(own) > 1:
        groups = (f"[{{{{'params': [{own[0]}], 'lr': 0.5}}}}, "
                  f"{{{{'params': [{', '.join(own[1:])}]}}}}]")
    else:
        groups = f"[{', '.join(own)}]"
    form = f"lt.optim.{draw.choice(OPTIMIZERS)}"
    if draw.random() < 0.3:
        form = form[:-1] + f", foreach={draw.choice(('True', 'False'))})"
    for i, name in enumerate(own):
        groups = groups.replace(name, f"{{{i}}}")
    target = f"o{len(s.statements)}"
    s.statements.append(Statement(target, form.replace("{0}", groups), tuple(own), "optimizer",
                                  EXACT))
    s.names.setdefault("o", []).append(target)


def looped(s: Setting) -> None:
    """Add steps that are the same but for one thing that is done in the middle."""
    draw = s.draw
    kinds = [k for k in EVENTS if k not in ("whole step", "scaled step", "step")]
    kind = draw.choices(kinds, [EVENTS[k][0] for k in kinds])[0]
    changes = "\n".join(draw.choice(EVENTS[kind][1]) for _ in range(draw.choice((1, 1, 2))))
    lines = ["r = []", f"for i in range({draw.randint(4, 7)}):",
             indent(draw.choice(STEPS), "    "), f"    if i {draw.choice(WHEN)}:",
             indent(changes, "        "), "    r.append({p}.detach().clone())",
             "{T} = lt.stack(r)"]
    target = s.add("x", "\n".join(lines), "loop")
    if target:
        s.observed.append(target)


def event(s: Setting) -> None:
    """Add something that is done."""
    if s.draw.random() < 0.3:
        looped(s)
        return
    weights = {**{k: w for k, (w, _) in EVENTS.items()}, **{k: w for k, (w, _, _) in NAMED.items()}}
    kind = s.draw.choices(list(weights), list(weights.values()))[0]
    if kind in EVENTS:
        s.add(None, s.draw.choice(EVENTS[kind][1]), kind)
        return
    _, letter, forms = NAMED[kind]
    target = s.add(letter, s.draw.choice(forms), kind, ROUGH if kind == "look" else EXACT)
    if kind == "look" and target:
        s.observed.append(target)


class TrainingCampaign(Campaign):
    """Runs training programs of a seed on a device. No value of theirs is exact."""

    with_exactness = staticmethod(lambda program: program)

    def __init__(self, device: str, seed: int, longest: int = 14, together: int = 6,
                 small: float = 0.0) -> None:
        super().__init__(device, seed, longest, together, small)
        self.generator = Trainings(seed, longest)
