"""Rows of programs about gradients: values that keep their graphs, views of them, and what is done
to both before gradients flow back: hooks, writes, looks, `retain_grad`, gradients of gradients.

A letter in braces stands for a name of a sort: d data and p leaves, which are square matrices, q a
leaf that is a number, y a value of a matrix's shape, v a view of one, m a layer, f a function, A a
hand-written operation, l a list, h a hook; n stands for a number, k for the size.
"""
from __future__ import annotations

OPERATIONS = ("""class Own(lt.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b + a
    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        return g * (b + 1), g * a * {n}
{T} = Own""", """class Own(lt.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        out = (a * {n}).tanh()
        ctx.save_for_backward(out)
        return out
    @staticmethod
    def backward(ctx, g):
        out, = ctx.saved_tensors
        return g * (1 - out * out) * {n}, None
{T} = Own""")
LAYERS = ("lt.nn.Linear({k}, {k})", "lt.nn.Sequential(lt.nn.Linear({k}, {k}), lt.nn.Tanh())",
          "lt.nn.Sequential(lt.nn.Linear({k}, {k}), lt.nn.LayerNorm({k}))")
FUNCTIONS = ("a * {q}", "a.sin() * {p}", "a * a", "a[:] * 2", "a.detach() * a", "a @ {p} + a",
             "(a * {q}).softmax(-1)", "a.t() * {p}", "a.view_as(a) + a[0]")
"""What a function gives for `a`."""

VALUES = (
    "{y} * {q}", "{y} * {p}", "{y} @ {p}", "{p} + {y}", "{p} * {n}", "{d} @ {p}", "{y}.sin()",
    "{y}.tanh()", "{y} * {y}", "{y} + {y}", "{y} - {y}", "{y} ** 2", "{y} + {v}", "{y} * {v}",
    "{v} + {p}", "{y}.clone()", "{y} * {y}.detach()", "{y}.softmax(-1)", "{y}.relu()", "{y} + 0",
    "lt.where({y} > 0, {y}, {p})", "{A}.apply({y}, {p})", "{A}.apply({p}, {y})", "{f}({y})",
    "{f}({y} * {n})", "{f}({p})", "{f}({y}.view_as({y}))", "{m}({y})", "{m}({m}({y}))",
    "{y} + {p}.sum()", "{y} / 2", "{y}.t().contiguous()", "{y}.flip(0)", "{p}.data * {y}",
    "lt.checkpoint(lambda a: (a * {q}).sin(), {y})", "lt.checkpoint({f}, {y})",
    "with lt.no_grad(): {T} = {y} * 2",
    "with lt.no_grad():\n    with lt.enable_grad(): {T} = {y} * 2",
    "t = {y} * 1\nt[0] = {q}\n{T} = t", "t = {y} * 1\nt[:, :1].mul_({v}[..., :1])\n{T} = t * t",
    "t = lt.zeros_like({p})\nt.copy_({y})\nt[0].add_({p}[0])\n{T} = t * {n}",
    "lt.func.vmap(lambda r: r * {q})({y})", "lt.func.vmap(lambda r: r * {y}[0])({p})",
    "lt.func.grad(lambda a: (a * a * {y}).sum())({d})",
    "lt.func.jvp(lambda a: a * {y}, ({d},), ({d},))[1]",
    "t, u = [lt.func.vmap(lambda r: r * {n})({y}) for _ in range(2)]\n"
    "if t.requires_grad: t.register_hook(lambda g: g * 3)\n{T} = u",
    "t, u = [lt.zeros_like({d}).copy_({y}) for _ in range(2)]\n"
    "if t.requires_grad: t.register_hook(lambda g: g * 3)\n{T} = u * 2",
    "class Same(lt.autograd.Function):\n    @staticmethod\n    def forward(ctx, a): return a\n"
    "    @staticmethod\n    def backward(ctx, g): return g * {n}\n"
    "with lt.no_grad(): t = Same.apply({p})\n{T} = t * {p} + Same.apply({y})",
    "lt.stack([{y}, {p}]).sum(0)", "lt.cat([{y}, {v} + {p}]).cumsum(0)[:{p}.shape[0]] * 1",
)
DERIVATIVES = (
    "lt.autograd.grad(({y} * {y}).sum(), {p}, create_graph=True, materialize_grads=True)[0]",
    "lt.autograd.grad({y}.sum(), {p}, create_graph=True, materialize_grads=True)[0]",
    "lt.autograd.grad(({y} * {p}).sum(), {p}, create_graph=True)[0]",
    "lt.autograd.grad({y} * {q}, {p}, {y}, create_graph=True, materialize_grads=True)[0]",
    "lt.autograd.grad(({y} * {q}).sum(), {p}, retain_graph=True, materialize_grads=True)[0]",
)
VIEWS = ("{y}[0]", "{y}[:, :1]", "{y}.t()", "{y}[-1:]", "{y}.view_as({y})", "{y}[:]", "{p}[0]",
         "{p}.t()", "{p}.view_as({p})", "{y}.detach()", "{p}.detach()", "{v}[..., :1]",
         "{y}.unsqueeze(0)[0]", "{q}.expand({p}.shape)", "{y}.diagonal()")

BACKWARDS = (
    "({y} * {q}).sum().backward(retain_graph=True)",
    "({y} + {p}).backward({d}, retain_graph=True)",
    "({y} * {y} * {q}).sum().backward(retain_graph=True)",
    "({y} * {p}).mean().backward(retain_graph=True)",
    "({y} + {v} * {q}).sum().backward(retain_graph=True)",
    "lt.autograd.backward([{y} * {q}, {y} + {p}], [{d}, {d}], retain_graph=True)",
    "({y} + {p}).sum().backward(retain_graph=True, inputs=[{p}])",
    "with lt.no_grad(): t = {y}.sum()\n({y} * {p} * t).sum().backward(retain_graph=True)",
    "for i in range(3): ({y} * {q} * {n}).sum().backward(retain_graph=True)",
    "t = {y} * {q}\nwith lt.no_grad(): t.backward({d}, retain_graph=True)",
)
HOOKS = ("lambda g: {l}.append(g.detach().clone())", "lambda g: g * 2", "lambda g: g * {n}",
         "lambda g: g.clamp(-1, 1)", "lambda g: None", "lambda g: g + {q}")
EVENTS: dict[str, tuple[float, tuple[str, ...]]] = {
    "backward": (4, BACKWARDS),
    "backward with a graph": (0.5, (
        "({y} * {q}).sum().backward(create_graph=True)",
        "({y} * {y} * {p}).mean().backward(create_graph=True)")),
    "retain_grad": (1.5, ("if {y}.requires_grad: {y}.retain_grad()",
                          "if {v}.requires_grad: {v}.retain_grad()")),
    "look": (2, ("{y}.sum().item()", "{y}.detach().numpy()", "str({y})", "lt.realize({y})",
                 "{l}.append({y}.detach().clone())", "{l}.append({v}.detach() * 1)",
                 "if {p}.grad is not None: {l}.append({p}.grad.detach().clone())")),
    "write": (1.5, ("{y}.mul_({n})", "{y}.add_({q})", "{y}.add_({p})", "{y}[0] = {q}",
                    "{y}[:, :1] = {p}[:, -1:] * 2", "{y}.copy_({p} * 2)", "{y}.zero_()",
                    "{y}[0].add_({p}[-1])", "{y}.t().add_({p})", "{v}.add_({q})", "{v}.mul_({n})",
                    "{v}.copy_({q})", "{v}[..., :1] = {n}", "{y}.relu_()", "{y}.clamp_(-1, 1)")),
    "write without a gradient": (1, (
        "{y}.detach().add_({n})", "with lt.no_grad(): {y}.mul_({n})",
        "with lt.no_grad(): {p}.add_({n})", "with lt.no_grad(): {p}[0] = {n}",
        "{v}.data.mul_({n})")),
    "gradient": (1.5, (
        "{p}.grad = None", "if {p}.grad is not None: {p}.grad = {p}.grad.detach() * {n}",
        "{p}.grad = {d} * {n}", "lt.nn.utils.clip_grad_norm_([{p}, {q}], 0.5)",
        "{l} += [g for g in lt.autograd.grad(({y} * {q}).sum(), [{p}, {q}], retain_graph=True, "
        "allow_unused=True) if g is not None]",
        "{l} += [g for g in lt.autograd.grad(({y} * {y} + {p}).sum(), [{p}, {q}], "
        "retain_graph=True, allow_unused=True) if g is not None]",
        "t = {y} * 1\nu = t * t * {q}\nwith lt.no_grad(): "
        "{l} += lt.autograd.grad(u, [t, {q}], {d}, retain_graph=True)")),
    "hook removed": (0.5, ("if {h} is not None: {h}.remove()",)),
}
"""What is done, by kind: how often, and forms."""
