"""Rows: modules and optimizers, autocast, hooks, generators and threads, several outputs."""
from __future__ import annotations

from fuzz.rows import EXACT, ROUGH, SUM, Row, moderate, row, rows


def called(module: str, *tensors: str, of: str = "{x}") -> str:
    """A form: a module's value with these tensors, `name: hole`, as parameters and buffers."""
    given = ", ".join(f"'{name}': {hole}" for name, _, hole in (t.partition(": ") for t in tensors))
    return f"lt.func.functional_call(lt.nn.{module}, {{{{{given}}}}}, ({of},))"


def trained(optimizer: str) -> str:
    """A form of several lines: a small network takes a step, then is called."""
    return "\n".join([
        "m = lt.nn.Sequential(lt.nn.Linear({x:s[n,k]}.shape[1], 3), lt.nn.{a:choice(Tanh|ReLU|"
        "Sigmoid)}(), lt.nn.Linear(3, 2))",
        "m.load_state_dict({{'0.weight': {w:s[3,k]}, '0.bias': {b:s[3]}, "
        "'2.weight': {v:s[2,3]}, '2.bias': {c:s[2]}}})",
        f"o = lt.optim.{optimizer}",
        "for _ in range({j:int(1,2)}):",
        "    o.zero_grad()",
        "    (m({x}.detach()) ** 2).mean().backward()",
        "    o.step()",
        "{T} = m({x})"])


MODULES: list[Row] = [
    row(called("Linear({w:s[o,k]}.shape[1], {w}.shape[0])", "weight: {w}", "bias: {b:s[o]}",
               of="{x:s[n,k]}"), SUM, "Linear", weight=2),
    row(called("Conv2d(2, 3, ({w:s[3,2,k,l]}.shape[2], {w}.shape[3]), stride={s:int(1,2)}, "
               "padding={p:int(0,1)})", "weight: {w}", "bias: {b:s[3]}",
               of="{x:s[n,2,7,6]}"), SUM, "Conv2d", weight=2),
    row(called("ConvTranspose2d(2, 3, {w:s[2,3,2,2]}.shape[2], stride={s:int(1,2)})",
               "weight: {w}", "bias: {b:s[3]}", of="{x:s[n,2,h,w]}"), SUM, "ConvTranspose2d"),
    row(called("LayerNorm({w:s[k]}.shape[0])", "weight: {w}", "bias: {b:s[k]}",
               of="{x:s[n,k]}"), ROUGH, "LayerNorm", when=moderate),
    row(called("Embedding({w:s[n,k]}.shape[0], {w}.shape[1])", "weight: {w}",
               of="{i:index(w,0)}"), EXACT, "Embedding"),
    row(called("Sequential(lt.nn.Linear({w:s[3,k]}.shape[1], 3), lt.nn.{a:choice(Tanh|ReLU|"
               "GELU|SiLU)}(), lt.nn.Flatten(), lt.nn.Softmax(1))", "0.weight: {w}",
               "0.bias: {b:s[3]}", of="{x:s[n,k]}"), ROUGH, "Sequential", when=moderate),
    *rows(ROUGH, [trained(o) for o in (
        "SGD(m.parameters(), lr=0.5, momentum=0.5)",
        "SGD(m.parameters(), lr=0.25, weight_decay=0.5, nesterov=True, momentum=0.25)",
        # With a small eps they take as large a step where a gradient is nothing but rounding.
        "Adam(m.parameters(), lr=0.25, eps=0.5)", "AdamW(m.parameters(), lr=0.25, eps=0.5)")],
          name="a network trained", when=moderate),
]

AUTOCAST: list[Row] = [
    *rows(ROUGH, [f"with lt.autocast(dtype=lt.{{t:choice(bfloat16|float16)}}): {{T}} = {form}"
                  for form in ("{x:s[n,k]} @ {y:s[k,m]}", "lt.bmm({x:s[b,n,k]}, "
                               "{y:s[b,k,m]})", "F.linear({x:s[n,k]}, {w:s[o,k]}, "
                               "{b:s[o]})", "F.conv2d({x:s[n,2,h,w]}, {y:s[o,2,k<h,l<w]})",
                               "({x:s[n,k]} @ {y:s[k,m]}) + {x}.sum()",
                               "({x:s[n,k]} @ {y:s[k,m]}).relu() @ {z:s[m,o]}")],
          name="autocast", when=moderate),
]

AUTOCAST_ALONE: list[Row] = [  # PyTorch has this policy on GPUs
    *rows(ROUGH, [f"with lt.autocast(dtype=lt.{{t:choice(bfloat16|float16)}}): {{T}} = {form}"
                  for form in ("{x:f1+}.softmax(-1)", "{x:f}.sum() * 2", "{x:F}.exp() + {y:f~x}",
                               "F.layer_norm({x:f[n,k]}, ({x}.shape[1],))")],
          name="autocast to float32", when=moderate, foreign=False),
]

WINDOWS_ALONE: list[Row] = [
    # Gradients of convolutions of what is not finite: PyTorch leaves zeros of padding out.
    *rows(ROUGH, [
        "lt.func.grad(lambda v: F.conv2d(v, {y:F[o,c,3,2]} / ({y} != {y}.max()), "
        "stride={s:int(1,2)}, padding={p:int(0,1)}).sum())({x:F[n,c,7,6]@y})",
        "lt.func.grad(lambda v: (F.conv2d(v, {y:F[o,c,3,2]}, stride={s:int(1,3)}, "
        "padding={p:int(0,1)})[..., :1] * float('{e:choice(nan|inf)}')).sum())({x:F[n,c,8,7]@y})",
        "lt.func.grad(lambda v: F.conv_transpose2d(v, {y:F[c,o,k,l]} / ({y} != {y}.min()), "
        "stride={s:int(1,2)}, padding={p:int(0,1)}).sum())({x:F[n,c,4,3]@y})"],
          name="gradient of unusual windows"),
]
UNUSUAL = frozenset({"gradient of unusual windows"})
"""Rows that are there for values that are not finite."""

HOOKS: list[Row] = [
    *rows(EXACT, ["{y:f?}.register_hook(lambda g: g * {c:choice(2|-1|0.5)})",
                  "{y:f?}.register_hook(lambda g: None)",
                  "{x:f*}.register_hook(lambda g: g.clamp(-1, 1))"],
          name="gradient hook", effect=True),
    row("{y:f?}.retain_grad()", EXACT, effect=True, weight=0.5),
]

GENERATORS: list[Row] = [
    *rows(EXACT, [
        "with lt.random.fork_rng(): {T} = lt.rand({s:newshape})",
        "s = lt.get_rng_state()\na = lt.rand({n:size})\nlt.set_rng_state(s)\n"
        "{T} = lt.stack([a, lt.rand({n})])",
        "g = lt.Generator({k:int(0,9)})\na = lt.randint(0, 9, ({n:size},), generator=g)\n"
        "s = g.get_state()\nlt.randperm(7, generator=g)\ng.set_state(s)\n"
        "{T} = lt.cat([a, lt.randint(0, 9, ({n},), generator=g)])",
        "{T} = ThreadPoolExecutor(1).submit(lambda: lt.rand({s:newshape})).result()",
        "{T} = lt.stack(list(ThreadPoolExecutor(2).map(lambda k: lt.rand({n:size}, "
        "generator=lt.Generator(k)), range(3))))"],
          name="generators", foreign=False, weight=2),
]

THREADS: list[Row] = [
    row("{T} = lt.stack(list(ThreadPoolExecutor(2).map(lambda k: ({x:n} * k).sum(), range(3))))",
        SUM, "threads"),
    row("{T} = lt.stack(list(ThreadPoolExecutor(3).map(lambda k: {x:n} + k, range(3))))", EXACT,
        "threads"),
    row("{T} = ThreadPoolExecutor(1).submit(lambda: {x:f?}.exp().sum()).result()", ROUGH,
        "threads", when=moderate),
]

SEVERAL: list[Row] = [
    *rows(EXACT, [
        "{x:n1+}.sort(dim={d:axis(x)}, stable=True, descending={k:bool})",
        "{x:n1+}.max({d:axis(x)})", "{x:n1+}.min({d:axis(x)}, keepdim={k:bool})",
        "{x:n1+}.cummax({d:axis(x)})", "{x:n1+}.aminmax(dim={d:axis(x)})",
        "{x:a1+}.unbind({d:axis(x)})", "{x:a1+}.split({k:int(1,3)}, {d:axis(x)})",
        "{x:a1+}.chunk({k:int(1,3)}, {d:axis(x)})",
        "{x:a1+}.tensor_split({k:int(1,3)}, {d:axis(x)})",
        "lt.meshgrid({x:i1}, {y:i1@x}, indexing='ij')", "lt.broadcast_tensors({x:a}, {y:a~x})",
        "{x:i}.unique(return_inverse=True, return_counts=True)",
        "lt.unique_consecutive({x:i1}, return_inverse=True, return_counts=True)",
        "{x:n}.nonzero(as_tuple=True)"]),
    *rows(ROUGH, ["lt.var_mean({x:F1+}, {d:axis(x)})", "lt.std_mean({x:F})"], when=moderate),
    *rows(EXACT, ["F.max_pool2d({x:F[n,c,4,6]}, 2, 1, return_indices=True)",
                  "{x:F1}.detach().histogram(3)"], weight=0.5),
]
