"""Rows of training programs: what a loss is made of, and what is done between an optimizer's steps.

A letter in braces stands for a name of a sort: d data, W b q parameters by their shape and p any of
them, c a number that losses close over, m a small network, f a loss, o an optimizer, h a hook, v a
view of a parameter, s an optimizer's state and t a network's, e a schedule; n and r for numbers, of
which r is a rate.
"""
from __future__ import annotations

OPTIMIZERS = (
    "SGD({0}, lr=0.25)", "SGD({0}, lr=0.25, momentum=0.5)",
    "SGD({0}, lr=0.125, momentum=0.5, dampening=0.25, weight_decay=0.125)",
    "SGD({0}, lr=0.125, momentum=0.5, nesterov=True, maximize=True)",
    "Adam({0}, lr=0.125, eps=0.5)", "Adam({0}, lr=0.125, eps=0.5, amsgrad=True, weight_decay=0.1)",
    "AdamW({0}, lr=0.125, eps=0.5)", "RMSprop({0}, lr=0.125, eps=0.5, momentum=0.5)",
    "RMSprop({0}, lr=0.125, eps=0.5, centered=True)", "Adagrad({0}, lr=0.25, eps=0.5)",
    "Adamax({0}, lr=0.125, eps=0.5)", "NAdam({0}, lr=0.125, eps=0.5)",
    "RAdam({0}, lr=0.125, eps=0.5)", "Adadelta({0}, lr=0.5, eps=0.5)", "ASGD({0}, lr=0.125)")

STARTS = ("a @ {W}", "F.linear(a, {W}.t(), {b})", "a @ {W} + {b}", "(a[:, :, None] * {W}).sum(1)",
          "lt.einsum('nk,kh->nh', a, {W})", "F.linear(a, {W}.t()).sub({b})", "{m}(a)")
MIDDLES = (
    "t + {b}", "t.tanh()", "t * {q}", "t * {c}[0]", "lt.where(t > 0, t, t * {c}[0])", "t.flip(0)",
    "t = t.clone()\nt[:1] *= 2\n{T} = t", "t = t * 1\nt.view(-1)[::2].add_({q})\n{T} = t",
    "t = t * 1\nt.relu_()\n{T} = t", "t = t * 1\nt.t().mul_(2)\n{T} = t",
    "t = t * 2\nu = t[:, :1]\nu.sub_({q})\nu.mul_(t[:, -1:] * 1)\n{T} = t + u",
    "t = t * 1\nu = t.detach()\nu.mul_(2)\n{T} = t + u", "t + t.detach().sum()",
    "with lt.no_grad(): u = t.mean()\n{T} = t - u", "t.masked_fill(t > 1, 0.5)",
    "lt.checkpoint(lambda v: (v * {q}).sin(), t)",
    "lt.checkpoint(lambda v: v.tanh() @ {W}.t() @ {W}, t)",
    "t.contiguous().as_strided((t.shape[1], t.shape[0]), (1, t.shape[1])).t() * 2",
    "t[:, :, None, None].contiguous(memory_format=lt.channels_last)[:, :, 0, 0] * 1",
    "z = lt.complex(t, t * {q})\n{T} = (z * z.conj()).real",
    "z = lt.complex(t, -t)\nz.real.mul_({q})\n{T} = z.real * z.imag",
    "with lt.autocast(dtype=lt.bfloat16): u = t @ {W}.t()\n{T} = t + u.to(t.dtype).sum()",
    "lt.eye(t.shape[0], dtype=t.dtype).to_sparse() @ t",
    "u = t * 1\nu.copy_(t * 2)\nu[..., 0] = {q}\n{T} = u + t",
    "t + F.embedding(lt.arange(t.shape[0]) % {W}.shape[0], {W})", "lt.cat([t, t * 2])",
    "t.cumsum(0)", "t.softmax(-1)", "lt.func.vmap(lambda r: r * {b})(t) if t.shape[0] else t",
    "t + lt.func.grad(lambda v: (v * {q}).sin().sum())(t)", "t[:0]", "t.sum(0)[None]",
    "t.expand(2, *t.shape)[1]", "t[:, lt.tensor([0, 0])].sum(1, keepdim=True) + t",
    "u = t + 0\nu.index_add_(0, lt.arange(t.shape[0]), t)\n{T} = u",
    "u = lt.zeros_like(t)\nu.addcmul_(t, t)\nu[1:] += t[:-1]\n{T} = u",
    "t.register_hook(lambda g: g * 2)\n{T} = t * 1", "t + {p}.sum()",
    "t * {p}.reshape(-1)[:1].sum()",
)
ENDS = ("(t ** 2).mean()", "t.sum()", "t.sin().sum()", "F.mse_loss(t, t.detach() * 0.5)",
        "t.mean() * {c}[0]", "(t * t.detach()).sum() / 4", "t.abs().sum() + {q} ** 2",
        "F.cross_entropy(t, lt.arange(t.shape[0]) % t.shape[1]) if t.numel() else t.sum()")

SCALED = ("s = lt.GradScaler(init_scale=4.0, growth_interval=2)\nfor i in range(4):\n"
          "    {o}.zero_grad()\n    l = {f}({d}) * (float('inf') if i == 1 else {n})\n"
          "    s.scale(l).backward()\n    UNSCALED    s.step({o})\n    s.update()")
"""Steps of which the second is skipped."""

EVENTS: dict[str, tuple[float, tuple[str, ...]]] = {
    "zero_grad": (3, ("{o}.zero_grad()", "{o}.zero_grad(set_to_none=False)")),
    "backward": (5, ("{f}({d}).backward()", "({f}({d}) / 2).backward()",
                     "{f}({d} * 0.5).backward()", "{f}({d}[:1]).backward()",
                     "lt.autograd.backward([{f}({d}), {f}({d}) * 2])",
                     "l = {f}({d})\nl.backward(retain_graph=True)\nl.backward()")),
    "step": (6, ("{o}.step()",)),
    "whole step": (6, ("{o}.zero_grad()\n{f}({d}).backward()\n{o}.step()",
                       "for _ in range(3):\n    {o}.zero_grad()\n    {f}({d}).backward()\n"
                       "    {o}.step()",
                       "for _ in range(4):\n    {f}({d}).backward()\n    if _ % 2:\n"
                       "        {o}.step()\n        {o}.zero_grad()",
                       "def closure():\n    {o}.zero_grad()\n    l = {f}({d})\n    l.backward()\n"
                       "    return l\n{o}.step(closure)",
                       "l = {f}({d})\nl.item()\n{o}.zero_grad()\nl.backward()\nstr(l.detach())\n"
                       "{o}.step()")),
    "scaled step": (1, (SCALED.replace("    UNSCALED", ""), SCALED.replace("UNSCALED", (
        "s.unscale_({o})\n    lt.nn.utils.clip_grad_norm_([{W}, {b}, {q}], 0.5)\n")))),
    "rate": (2, ("for g in {o}.param_groups: g['lr'] = {r}",
                 "for g in {o}.param_groups: g['lr'] *= 0.5",
                 "{o}.param_groups[0]['weight_decay'] = {r}",
                 "{o}.param_groups[-1]['lr'] = {r}")),
    "number of a closure": (2, ("{c}[0] = {n}", "{c}[0] *= -0.5",
                                "{c}[0] = float({f}({d}).detach() > 0.5) + 0.5")),
    "write to a parameter": (3, (
        "with lt.no_grad(): {p}.mul_(0.5)", "with lt.no_grad(): {p}.view(-1)[:1].add_({n})",
        "with lt.no_grad(): {p}[..., :1] = {n}", "with lt.no_grad(): {p} += {n}",
        "{p}.data.clamp_(-1, 1)", "{p}.data[...] = {p}.data * {n}", "{p}.detach().add_({n})",
        "with lt.no_grad(): {p}.copy_({p}.flip(0) if {p}.ndim else -{p})",
        "{p}.detach().view(-1)[::2].mul_({n})", "{p}.data = {p}.data.clone() * {n}",
        "with lt.no_grad(): {W}.t()[0].mul_({n})", "with lt.no_grad(): {W}[:, -1].copy_({W}[:, 0])",
        "with lt.no_grad(): {W}[{W} > 0.5] = {n}", "{v}.mul_({n})", "{v}.add_({n})",
        "{v}[...] = {n}", "with lt.no_grad(): {v}.copy_({p}.detach().sum() * {n})",
        "lt.nn.init.constant_({p}, {n})",
        "with lt.no_grad(): {W}.as_strided((1,), (1,), {W}.storage_offset()).fill_({n})")),
    "write to a gradient": (2, (
        "if {p}.grad is not None: {p}.grad.mul_({n})", "if {p}.grad is not None: {p}.grad.zero_()",
        "{p}.grad = None", "{p}.grad = lt.ones_like({p}) * {n}",
        "if {p}.grad is not None: {p}.grad.view(-1)[:1] = {n}",
        "lt.nn.utils.clip_grad_norm_([{W}, {b}, {q}], 0.5)",
        "lt.nn.utils.clip_grad_value_([{W}, {b}, {q}], 0.25)")),
    "gradients by hand": (1.5, (
        "for p, g in zip([{W}, {b}, {q}], lt.autograd.grad({f}({d}), [{W}, {b}, {q}], "
        "allow_unused=True)): p.grad = g",
        "g = lt.autograd.grad({f}({d}), {W}, create_graph=True, allow_unused=True)[0]\n"
        "if g is not None and g.requires_grad: (g ** 2).sum().backward()",
        "with lt.no_grad():\n    for p in [{W}, {b}, {q}]:\n"
        "        if p.grad is not None: p -= {n} * p.grad")),
    "requires_grad": (0.7, ("{p}.requires_grad_(False)", "{p}.requires_grad_()",
                            "{W}.requires_grad_(not {W}.requires_grad)")),
    "load": (1.5, ("{o}.load_state_dict({s})", "{m}.load_state_dict({t})",
                   "import copy\n{o}.load_state_dict(copy.deepcopy({s}))",
                   "import copy\n{o}.load_state_dict(copy.deepcopy({o}.state_dict()))")),
    "hook removed": (1, ("{h}.remove()",)),
    "unused": (0.4, ("{f}({d})", "lt.realize({p})", "{p}.detach().tolist()",
                     "{m}.eval()", "{m}.train()", "{m}.zero_grad()",
                     "with lt.no_grad(): {f}({d})")),
    "schedule": (1, ("{e}.step()",)),
    "group": (0.6, ("if not any({p} is p for g in {o}.param_groups for p in g['params']): "
                    "{o}.add_param_group({{'params': [{p}], 'lr': {r}}})",)),
}
"""What is done, by kind: how often, and forms with letters of sorts of names in their holes."""

STEPS = ("{o}.zero_grad()\n{f}({d}).backward()\n{o}.step()",
         "l = {f}({d})\n{o}.zero_grad()\nl.backward()\n{o}.step()",
         "l = {f}({d})\nl.backward()\n{o}.step()\n{o}.zero_grad(set_to_none=False)",
         "for p in [{W}, {b}, {q}]: p.grad = None\n{f}({d}).backward()\n"
         "lt.nn.utils.clip_grad_norm_([{W}, {b}, {q}], 1.0, foreach=False)\n{o}.step()",
         "{o}.zero_grad()\n(float({f}({d}).detach() < 2) * {f}({d})).backward()\n{o}.step()",
         "{f}({d}).backward()\nwith lt.no_grad():\n    for p in [{W}, {b}, {q}]:\n"
         "        if p.grad is not None: p -= 0.125 * p.grad; p.grad.zero_()")
"""Whole steps, as in loops."""
WHEN = ("== 2", "== 3", "> 1", "% 2", "== 0", "in (1, 4)")
"""When in a loop something else is done."""
NAMED: dict[str, tuple[float, str, tuple[str, ...]]] = {
    "hook": (2, "h", ("{p}.register_hook(lambda g: g * 2)", "{p}.register_hook(lambda g: None)",
                      "{p}.register_hook(lambda g: g.clamp(-0.5, 0.5))",
                      "{p}.register_hook(lambda g: g + {q}.detach())",
                      "{p}.register_post_accumulate_grad_hook(lambda p: (p.grad.mul_({n}), "
                      "None)[1])",
                      "{p}.register_hook(lambda g: g * {c}[0])",
                      "{m}.register_forward_hook(lambda m, i, o: o * 2)",
                      "{m}.register_forward_pre_hook(lambda m, i: (i[0] * {n},))",
                      "{m}.register_full_backward_hook(lambda m, i, o: tuple("
                      "None if g is None else g * 2 for g in i))",
                      "{o}.register_step_pre_hook(lambda o, a, k: ([p.grad.mul_({n}) for g in "
                      "o.param_groups for p in g['params'] if p.grad is not None], None)[1])",
                      "{o}.register_step_post_hook(lambda o, a, k: {c}.__setitem__(0, {n}))")),
    "view": (1, "v", ("{p}.detach()[..., :1]", "{p}.data.view(-1)[-1:]", "{W}.detach().t()[0]",
                      "{p}.data", "{W}.detach().as_strided((2,), (0,), 0)[:1]")),
    "state": (1, "s", ("{o}.state_dict()", "import copy\n{T} = copy.deepcopy({o}.state_dict())")),
    "model's state": (0.5, "t", ("{{k: v.detach().clone() for k, v in {m}.state_dict().items()}}",
                                 "{m}.state_dict()")),
    "schedule made": (0.4, "e", ("lt.optim.lr_scheduler.StepLR({o}, 2, 0.5)",
                                 "lt.optim.lr_scheduler.ExponentialLR({o}, 0.5)",
                                 "lt.optim.lr_scheduler.CosineAnnealingLR({o}, 4)",
                                 "lt.optim.lr_scheduler.OneCycleLR({o}, 0.25, total_steps=50)")),
    "look": (3, "x", ("{p}.detach().clone()", "{W}.detach() * 1", "{f}({d}).detach()",
                      "{p}.grad.clone() if {p}.grad is not None else {p}.detach() * 2",
                      "lt.cat([lt.zeros(1), *(x.detach().reshape(-1).float() for k, x in "
                      "{o}.state[{p}].items() if lt.is_tensor(x) and k not in ('step', 'sum'))])",
                      "lt.cat([x.detach().reshape(-1) for x in {m}.state_dict().values()])",
                      "lt.func.grad(lambda v: ({d}.sum() * v.clone().mul_({n}) * v).sum())("
                      "{p}.detach())",
                      "lt.func.jacrev(lambda v: v.clone().index_fill_(0, lt.tensor([0]), 2.0) * "
                      "v)({b}.detach())", "{d} * 1")),
}
"""What is done and named: how often, the letter of its name, and forms."""
