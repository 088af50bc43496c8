"""Rows: making tensors, views and moves, joining, reductions, scans, sorting, gather and scatter."""
from __future__ import annotations

from fuzz.rows import EXACT, ROUGH, SUM, Row, moderate, positive, row, rows

CREATION: list[Row] = [
    row("lt.arange({n:size})", EXACT, weight=3),
    row("lt.arange({n:size}) % {m:int(1,7)}", EXACT, "arange % m", weight=2),
    row("lt.arange({n:size}) // {m:int(1,7)}", EXACT, "arange // m", weight=2),
    row("lt.arange({k:int(-4,4)}, {n:int(5,20)}, {m:int(1,3)}, dtype={t:dtype(n)})", EXACT),
    row("lt.arange({n:int(2,8)} * {m:int(2,8)}).reshape({n}, {m})", EXACT, "arange as a matrix",
        weight=3),
    row("lt.eye({n:size}, dtype={t:dtype(n)})", EXACT, weight=0.5),
    row("lt.full({s:newshape}, {c:choice(2|0.5|-3)}, dtype=lt.float32)", EXACT),
    row("lt.zeros({s:newshape}, dtype={t:dtype(a)})", EXACT),
    row("lt.ones({s:newshape}, dtype={t:dtype(a)})", EXACT),
    row("lt.linspace({k:int(-3,0)}, {m:int(1,5)}, {n:size})", ROUGH, weight=0.5),
    *rows(EXACT, ["lt.zeros_like({x:a})", "lt.ones_like({x:a})",
                  "lt.full_like({x:f}, {c:num})"], weight=0.4),
    row("lt.tril_indices({n:int(2,5)}, {m:int(2,5)})", EXACT, weight=0.4),
]

VIEWS: list[Row] = [
    row("{x:a1+}[{s:slice(x)}]", EXACT, "slice", weight=6),
    row("{x:a}.reshape({s:reshaped(x)})", EXACT, weight=5),
    row("{x:a}.view({s:reshaped(x)})", EXACT),
    row("{x:a2+}.transpose({d:axis(x)}, {e:axis(x)})", EXACT, weight=3),
    row("{x:a}.permute({p:perm(x)})", EXACT, weight=2),
    row("{x:a}.flatten()", EXACT),
    row("{x:a}.unsqueeze({d:newaxis(x)})", EXACT, weight=2),
    row("{x:a}.squeeze()", EXACT),
    row("{x:a}.expand({s:expanded(x)})", EXACT, weight=2),
    row("{x:a1+}.narrow({d:axis(x)}, {k:part(x,d)})", EXACT),
    row("{x:a1+}.select({d:axis(x)}, {k:position(x,d)})", EXACT),
    row("{x:a2+}.diagonal({k:int(-1,1)}, {e:axes2(x)})", EXACT),
    row("{x:a1+}.unfold({d:axis(x)}, {k:window(x,d)})", EXACT, weight=2),
    row("{x:a1+}.chunk({k:int(1,3)}, {d:axis(x)})[0]", EXACT),
    row("{x:a1+}.split({k:int(1,3)}, {d:axis(x)})[-1]", EXACT),
    row("{x:a}.detach()", EXACT),
    row("{x:a2+}.movedim({d:axis(x)}, {e:axis(x)})", EXACT),
    row("{x:a2}.T", EXACT, "T"),
    row("{x:a2+}.mT", EXACT, "mT"),
    row("{x:a}.view_as({x})", EXACT, weight=0.5),
    row("{x:a1+}.unbind({d:axis(x)})[0]", EXACT),
    row("{x:a2}.as_strided(({x}.shape[1], {x}.shape[0]), (1, {x}.shape[1]))", EXACT, weight=0.5),
    row("lt.broadcast_tensors({x:a}, {y:a~x})[0]", EXACT, weight=0.5),
]

MOVES: list[Row] = [
    row("{x:a}.clone()", EXACT),
    row("{x:a}.contiguous()", EXACT),
    row("{x:a1+}.flip({d:axis(x)})", EXACT, weight=2),
    row("{x:a1+}.roll({k:int(-3,3)}, {d:axis(x)})", EXACT, weight=2),
    row("{x:a1+}.roll({k:int(-3,3)})", EXACT),
    row("{x:a}.repeat({s:repeats(x)})", EXACT, weight=2),
    row("{x:a}.tile({s:repeats(x)})", EXACT),
    row("{x:a1+}.repeat_interleave({k:int(1,3)}, dim={d:axis(x)})", EXACT, weight=2),
    row("{x:a2+}.tril({k:int(-1,1)})", EXACT),
    row("{x:a2+}.triu({k:int(-1,1)})", EXACT),
    row("{x:a2+}.rot90({k:int(1,3)}, (0, 1))", EXACT),
    row("F.pad({x:n1+}, ({k:int(0,2)}, {m:int(0,2)}), value={c:choice(0|1|-2)})", EXACT,
        weight=2),
    row("F.pad({x:f2+}, ({k:int(0,2)}, {m:int(0,2)}, {n:int(-1,1)}, 1))", EXACT),
    row("F.pad({x:f[n,c,6]}, ({k:int(0,3)}, {m:int(0,3)}), mode={w:choice('reflect'|'replicate'|"
        "'circular')})", EXACT),
    row("lt.cat([{x:a1+}, {y:a=x}], {d:axis(x)})", EXACT, weight=3),
    row("lt.cat([{x:a1+}, {y:a=x}, {x}], {d:axis(x)})", EXACT),
    row("lt.stack([{x:a}, {y:a=x}], {d:newaxis(x)})", EXACT, weight=2),
    row("lt.diag({x:a1})", EXACT, weight=0.5),
    row("lt.diag_embed({x:a1+})", EXACT, weight=0.5),
    row("{x:i1+}.diff(dim={d:axis(x)})", EXACT),
    row("{x:f1+}.diff(dim={d:axis(x)})", EXACT),
    row("lt.meshgrid({x:i1}, {y:i1@x}, indexing='ij')[0]", EXACT, weight=0.5),
    row("lt.einsum('{e:choice(ij->ji|ij->j|ii->i|ij->)}', {x:n[n,n]})", SUM, "einsum"),
    row("F.pixel_shuffle({x:f[n,4,h,w]}, 2)", EXACT, weight=0.4),
    row("F.unfold({x:F[n,c,h,w]}, ({k:part1(h)}, {m:part1(w)}))", EXACT, "F.unfold", weight=0.5),
]

REDUCTIONS: list[Row] = [
    row("{x:a}.sum()", SUM, weight=3),
    row("{x:a1+}.sum({d:axis(x)}, keepdim={k:bool})", SUM, weight=4),
    row("{x:a1+}.sum({d:axes(x)})", SUM, weight=3),
    row("{x:f1+}.mean({d:axis(x)}, keepdim={k:bool})", ROUGH, weight=2),
    row("{x:f}.mean()", ROUGH),
    row("{x:n}.prod()", ROUGH, when=lambda x: moderate(x) and x.size < 8),
    row("{x:n1+}.prod({d:axis(x)})", ROUGH, when=moderate),
    *rows(EXACT, ["{x:n}.max()", "{x:n}.min()", "{x:n1+}.amax({d:axes(x)})",
                  "{x:n1+}.amin({d:axes(x)}, keepdim={k:bool})", "{x:a}.any()", "{x:a}.all()",
                  "{x:a1+}.any({d:axis(x)})", "{x:a1+}.all({d:axis(x)})"]),
    *rows(EXACT, ["{x:n1+}.max({d:axis(x)})[{k:int(0,1)}]",
                  "{x:n1+}.min({d:axis(x)}, keepdim={b:bool})[0]",
                  "{x:n1+}.argmax({d:axis(x)})", "{x:n1+}.argmin({d:axis(x)}, keepdim={k:bool})",
                  "{x:n}.argmax()", "{x:n}.argmin()", "{x:a}.count_nonzero()",
                  "{x:a1+}.count_nonzero({d:axis(x)})"], weight=1.5),
    *rows(ROUGH, ["{x:F1+}.std({d:axis(x)})", "{x:F1+}.var({d:axis(x)}, correction=0)",
                  "{x:F}.var()", "{x:F1+}.logsumexp({d:axis(x)})", "{x:F}.norm()",
                  "{x:F1+}.norm({p:choice(1|2|3)}, {d:axis(x)})", "{x:F1+}.nansum({d:axis(x)})",
                  "{x:f1+}.softmax({d:axis(x)})", "{x:f1+}.log_softmax({d:axis(x)})",
                  "{x:F1+}.std({d:axes(x)}, keepdim={k:bool})"], when=moderate, weight=0.8),
]

SCANS: list[Row] = [
    row("{x:a1+}.cumsum({d:axis(x)})", SUM, weight=3),
    row("{x:n1+}.cumprod({d:axis(x)})", ROUGH, when=lambda x: moderate(x) and x.size < 40),
    row("{x:n1+}.cummax({d:axis(x)})[{k:int(0,1)}]", EXACT),
    row("{x:n1+}.cummin({d:axis(x)})[{k:int(0,1)}]", EXACT),
    row("{x:F1+}.logcumsumexp({d:axis(x)})", ROUGH, when=moderate),
]

ORDER: list[Row] = [
    row("{x:n1+}.sort({d:axis(x)}, descending={k:bool})[0]", EXACT, weight=3),
    row("{x:n1+}.sort({d:axis(x)}, descending={k:bool}, stable=True)[1]", EXACT,
        foreign=True),
    row("{x:n1+}.argsort({d:axis(x)}, stable=True)", EXACT, weight=2),
    row("{x:n1+}.topk({k:length(x,d)}, {d})[0]", EXACT, weight=2),
    row("{x:n1+}.kthvalue({k:length(x,d)}, {d})[0]", EXACT),
    row("{x:n1+}.median({d:axis(x)})[0]", EXACT),
    row("{x:n}.median()", EXACT),
    row("{x:F1+}.quantile({q:choice(0.25|0.5|0.9)}, {d:axis(x)})", ROUGH, weight=0.5),
    row("lt.searchsorted({x:n1}.sort()[0], {y:n@x})", EXACT),
    row("lt.bucketize({y:f}, {x:f1@y}.sort()[0])", EXACT),
    row("lt.unique({x:i})", EXACT, weight=0.5),
    row("lt.bincount({x:i1} % 5 * ({x} > 0))", EXACT, weight=0.5),
    row("{x:n1+}.gather({d:axis(x)}, {x}.argsort({d}, stable=True))", EXACT, "gather its order",
        weight=2),
    row("{x:n1+}.gather({d:axis(x)}, {x}.argmax({d}, keepdim=True))", EXACT, "gather its maximum",
        weight=2),
    row("({x:n1+}.sort({d:axis(x)})[0] == {x}).sum()", EXACT, "sorted beside itself"),
    row("{x:f1}.histc(4, -4, 4)", EXACT, weight=0.5),
]

INDEXING: list[Row] = [
    row("{x:a1+}[{i:index(x,0)}]", EXACT, "index", weight=4),
    row("{x:a2+}[{i:index(x,0)}, {k:position(x,1)}]", EXACT, "index and a number"),
    row("{x:a2+}[:, {i:index(x,1)}]", EXACT, "index of the second axis", weight=2),
    row("{x:a2+}[{i:index1(x,0,3)}, {j:index1(x,1,3)}]", EXACT, "two indices", weight=2),
    row("{x:a1+}[{b:b=x}]", EXACT, "mask", weight=1),
    row("{x:a1+}.index_select({d:axis(x)}, {i:index1(x,d,4)})", EXACT, weight=2),
    row("{x:a1+}.gather({d:axis(x)}, {i:indexlike(x,d)})", EXACT, weight=3),
    row("{x:a1+}.take_along_dim({i:indexlike(x,d,axis)}, {d})", EXACT),
    row("{x:n1+}.scatter({d:axis(x)}, {i:indexlike(x,d)}, {c:choice(0|1|-3)})", EXACT),
    row("{x:n1+}.scatter_add({d:axis(x)}, {i:indexlike(x,d)}, {y:n=x@x})", SUM, weight=3),
    row("{x:n1+}.scatter_reduce({d:axis(x)}, {i:indexlike(x,d)}, {y:n=x@x}, "
        "{r:choice('amax'|'amin')}, include_self={k:bool})", EXACT),
    row("{x:n1+}.scatter_reduce({d:axis(x)}, {i:indexlike(x,d)}, {y:n=x@x}, "
        "{r:choice('sum'|'mean'|'prod')})", ROUGH, when=lambda x, *o: moderate(x, o[-1])),
    row("{x:n1+}.index_add(0, {i:index1(x,0,3)}, {x}[:1].repeat(3, *[1] * ({x}.ndim - 1)))",
        SUM),
    row("{x:n1+}.index_fill({d:axis(x)}, {i:index1(x,d,2)}, {c:choice(0|2)})", EXACT),
    row("{x:a}.take({i:flatindex(x)})", EXACT),
    row("F.one_hot({x:l} % 5 * ({x} > 0), 5)", EXACT),
    row("F.embedding(weight={x:f2}, input={i:index(x,0)})", EXACT),
    row("{x:a}.masked_select({b:b=x})", EXACT, weight=0.5),
    row("lt.nonzero({x:a})", EXACT, weight=0.5),
]

TABLE = [*CREATION, *VIEWS, *MOVES, *REDUCTIONS, *SCANS, *ORDER, *INDEXING]
POSITIVE = positive
