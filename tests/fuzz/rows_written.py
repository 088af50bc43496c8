"""Rows: what is written in place inside of functions that are transformed, results that are written
to memory there is (`out=`), memory formats, strides as one says, and what has no elements."""
from __future__ import annotations

from fuzz.rows import EXACT, ROUGH, SUM, Row, moderate, row, rows

FORMAT_ROW = "memory format"
"""The row of what lies in memory as a program says."""

_WRITES = (
    "w.mul_(2)", "w[..., :1] = 0", "w[..., 0] += w.sum(-1)", "w.view(-1)[::2].add_(1)",
    "w.clamp_(-1, 1)", "w.copy_(w.flip(-1) * 1)", "w.index_fill_(-1, lt.tensor([0]), 2.0)",
    "w[...] = w * w", "w.transpose(0, -1).add_(1)", "w.cumsum_(-1)", "w.unsqueeze(0).mul_(w[:1])",
    "w.as_strided((w.numel(),), (1,)).mul_(3)", "w[-1:] *= w[:1]", "w.relu_()", "w.sin_()",
    "w.index_add_(0, lt.tensor([0]), w[-1:] * 1)", "u = w[..., 1:]\nu += w[..., :-1] * 1",
    "u = w.view(-1)\nu.mul_({c:num})\nw.add_(u.sum())", "w.masked_fill_(w > 0.5, {c:num})",
    "u = w.flip(0)\nw.sub_(u * 2)\nw.add_(u)", "w.addcmul_(w * 1, w * 1)", "w.lerp_(w * 2, 0.5)",
    "u = w.expand(2, *w.shape)\nw.mul_(u.sum(0))", "w.pow_(2)", "w.zero_()",
    "u = w.sum()\nw.div_(u * u + 1)", "w.index_put_((lt.tensor([0]),), w[-1:] * 2)",
    "w.select(-1, 0).copy_(w.select(-1, -1) * 2)", "w.fill_(1).mul_(w.clone() + 1)")
_WAYS = (
    "lt.func.grad(lambda v: f(v).sum())(x)", "lt.func.grad(lambda v: (f(v) ** 2).sum())(x)",
    "lt.func.vmap(f)(x)", "lt.func.vmap(f, in_dims=1, out_dims=1)(x)",
    "lt.func.jvp(f, (x,), (x * 2 + 1,))[1]", "lt.func.vjp(f, x)[1](x * 1)[0]",
    "lt.func.jacrev(f)(x)", "lt.func.jacfwd(f)(x)", "lt.func.hessian(lambda v: f(v).sum())(x)",
    "lt.func.vmap(lt.func.grad(lambda v: f(v).sum()))(x)", "lt.func.vmap(f, (0,))(x)",
    "lt.func.vmap(lambda v: lt.func.jvp(f, (v,), (v * 2,))[1])(x)",
    "lt.func.linearize(f, x)[1](x + 1)", "f(f(x))",
    "lt.func.vmap(lt.func.jacrev(f))(x)", "lt.checkpoint(f, x).clone()")


def few(*arrays: object) -> bool:
    """Few numbers, and moderate ones, of which a matrix of derivatives is small."""
    return moderate(*arrays) and all(0 < a.size <= 30 for a in arrays)  # type: ignore[attr-defined]


def written(write: str, way: str) -> str:
    """A form of several lines: a function that writes to what it has made, transformed."""
    body = "".join(f"    {line}\n" for line in write.split("\n"))
    return (f"x = {{x:F2}}.detach()\ndef f(v):\n    w = v * 1\n{body}    return w * v\n"
            f"{{T}} = {way}")


WRITTEN: list[Row] = [
    row(written(write, way), ROUGH, "transform of writes", when=few)
    for write in _WRITES for way in _WAYS]

_OUT = "{z:F!}.detach()"
_LINES = "{z:F1+!}.detach()"

OUT: list[Row] = [
    *rows(EXACT, [f"lt.mul({_OUT}, 2, out={{z}}.detach())",
                  f"lt.add({_OUT} * 1, 1, out={{z}}.data)",
                  f"lt.clamp({_OUT} * 1, -1, 1, out={{z}}.detach())",
                  "lt.arange({z:F!}.numel() // 2, out={z}.detach())",
                  f"lt.cat([{_OUT}.reshape(-1)[1:] * 1, {{z}}.detach().reshape(-1)[:1] * 1], "
                  "out={z}.detach())",
                  f"lt.select({_LINES} * 1, {{d:axis(z)}}, 0).abs_()",
                  f"lt.neg({_LINES}[:1] * 1, out={{z}}.detach())",
                  f"lt.amax({_LINES} * 1, {{d:axis(z)}}, out={{z}}.detach())",
                  f"lt.index_select({_LINES} * 1, {{d:axis(z)}}, {{i:index1(z,d,1)}}, "
                  "out={z}.detach())"],
          name="written to out", effect=True, when=lambda *a: all(x.size for x in a)),
    *rows(SUM, [f"lt.sum({_LINES} * 1, {{d:axis(z)}}, out={{z}}.detach())",
                f"lt.cumsum({_LINES} * 1, {{d:axis(z)}}, out={{z}}.detach())",
                "lt.matmul({z:F2!}.detach().T[:, :0] @ {z}.detach()[:0], {z}.detach().T * 1, "
                "out={z}.detach())"],
          name="sum written to out", effect=True, when=lambda *a: all(x.size for x in a)),
]

LAYOUTS: list[Row] = [
    *rows(EXACT, ["{x:n[n,c,h,w]}.contiguous(memory_format=lt.channels_last)",
                  "{x:n[n,c,h,w]}.to(memory_format=lt.channels_last)",
                  "{x:n[n,c,h,w]}.clone(memory_format=lt.channels_last)",
                  "lt.empty_permuted(({n:int(1,4)}, {m:int(1,4)}), (1, 0)).fill_(2.0)",
                  "{x:n[n,c,h,w]}.to(lt.float64, memory_format=lt.channels_last)"],
          name=FORMAT_ROW),
    *rows(EXACT, ["F.max_pool2d({x:f[n,c,h,w]}.contiguous(memory_format=lt.channels_last), 1)",
                  "{x:n[n,c,h,w]}.contiguous(memory_format=lt.channels_last).flatten(1)",
                  "{x:n[n,c,h,w]}.contiguous(memory_format=lt.channels_last).mul(2).sum(1) * 1",
                  "{x:f!}.as_strided(({x}.numel() // 2,), (1,), {x}.storage_offset()).clone()",
                  "{x:f}.reshape(-1).as_strided((3, {x}.numel() // 3), (1, 3)) * 1",
                  "{x:n1}.unfold(0, 1, 2)[:, 0].flip(0)"],
          name="of another memory format", when=lambda x: x.size > 3),
    *rows(EXACT, ["{x:f!}.detach().as_strided((2,), (1,), {x}.storage_offset()).mul_({c:num})",
                  "{x:f2!}.detach().T.as_strided((2, 1), (1, 1), {x}.storage_offset())"
                  ".add_({c:num})",
                  "{x:f2!}.detach().T.flip(0).T[::2].copy_({x}.detach()[::2] * 2)"],
          name="write by strides", effect=True, when=lambda x: x.size > 3),
]

_NONE = "{x:n1+}[:0]"
EMPTY: list[Row] = [
    *rows(EXACT, [_NONE, "{x:n2+}[:, :0]", f"{_NONE} * 2", f"lt.cat([{_NONE}, {{x}}])",
                  f"{_NONE}.sum()", f"{_NONE}.sum(0)", f"{_NONE}.prod()", f"{_NONE}.any()",
                  f"{_NONE}.all(0)", f"{_NONE}.flip(0).cumsum(0)", f"{_NONE}.sort(0)[0]",
                  f"{_NONE}.unsqueeze(1).expand(-1, 3, *{{x}}.shape[1:])", f"{_NONE}.reshape(0, 4)",
                  f"lt.stack([{_NONE}, {_NONE.replace(':n1+', '')}])", f"{_NONE}.nonzero()",
                  "{x:n[n,k]}[:0] @ {y:n[k,m]@x}", "{x:n[n,k]}[:, :0] @ {y:n[k,m]@x}[:0]",
                  "{x:n1+}.index_select(0, lt.zeros(0, dtype=lt.int64))",
                  "{x:n1+}[lt.zeros(0, 2, dtype=lt.int64)]", "{x:n1+}.masked_select({x} != {x})",
                  "lt.zeros(0, 3).sum({d:int(0,1)})", "lt.zeros(2, 0).argsort(1)",
                  "F.pad({x:n1+}[..., :0], (1, 2))", f"{_NONE}.detach().unique()",
                  "{x:n1+}[:0].bool().any(0)",
                  "lt.where({x:n1+}[:0] > 0, {x}[:0], 1)", "{x:n1+}[:0].scatter_add(0, "
                  "lt.zeros({x}[:0].shape, dtype=lt.int64), {x})", "lt.bincount({x:l1}[:0])",
                  "lt.einsum('ij->j', {x:n2}[:0])", "{x:n1+}[:0].diff(dim=0)"],
          name="no elements"),
    *rows(ROUGH, ["{x:f1+}[:0].mean()", "{x:F1+}[:0].var(0)", "{x:F2}[:0].softmax(1)",
                  "{x:F2}[:0].logsumexp(0)", "{x:F1+}[:0].norm()", "F.linear({x:F[n,k]}[:0], "
                  "{w:F[o,k]@x})", "F.mse_loss({x:F1+}[:0], {x}[:0], reduction='sum')",
                  "F.layer_norm({x:F[n,k]}[:0], ({x}.shape[1],))", "{x:F2}[:0].std(1)",
                  "F.conv1d({x:F[n,c,l]}[:0], {w:F[o,c,k<l]@x})",
                  "F.cross_entropy({x:F2}[:0], lt.zeros(0, dtype=lt.int64), reduction='sum')"],
          name="no elements", when=moderate),
    *rows(EXACT, ["{x:f1+!}[:0].mul_(2)", "{x:f1+!}[:0] = 3",
                  "{x:f1+!}[:, None][:0].copy_({x}[:0, None])",
                  "{x:f1+!}.index_add_(0, lt.zeros(0, dtype=lt.int64), {x}[:0] * 1)",
                  "{x:f1+!}[lt.zeros(0, dtype=lt.int64)] = 5", "{x:f1+!}[{x} != {x}] = 1",
                  "{x:f1+!}.scatter_(0, lt.zeros({x}[:0].shape, dtype=lt.int64), 2)"],
          name="no elements written", effect=True),
]
