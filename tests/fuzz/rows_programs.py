"""Rows: products and networks, writes, gradients, calls of functions, random numbers, computing."""
from __future__ import annotations

from fuzz.rows import EXACT, ROUGH, SUM, Row, moderate, not_negative, row, rows

PRODUCTS: list[Row] = [
    row("{x:n[n,k]} @ {y:n[k,m]@x}", SUM, "matmul", weight=3),
    row("{x:n[b,n,k]} @ {y:n[k,m]@x}", SUM, "matmul"),
    row("{x:n[b,n,k]} @ {y:n[b,k,m]@x}", SUM, "bmm"),
    row("{x:n[n,k]} @ {y:n[k]@x}", SUM, "mv"),
    row("{x:n[k]}.dot({y:n[k]@x})", SUM),
    row("{x:f2} @ {x}.T", SUM, "matmul with itself", weight=2),
    row("lt.einsum('ij,kj->ik', {x:n[n,k]}, {y:n[m,k]@x})", SUM),
    row("lt.einsum('bij,bjk->bki', {x:n[b,n,k]}, {y:n[b,k,m]@x})", SUM),
    row("lt.einsum('ij,j->i', {x:n[n,k]}, {y:n[k]@x})", SUM),
    row("lt.outer({x:n1}, {y:n1@x})", SUM),
    row("lt.addmm({z:f[n,m]}, {x:f[n,k]@z}, {y:f[k,m]@z}, beta={c:choice(1|2|0.5)})", SUM),
    row("lt.baddbmm({z:f[b,n,m]}, {x:f[b,n,k]@z}, {y:f[b,k,m]@z})", SUM),
    row("lt.tensordot({x:f[n,k,m]}, {y:f[k,m,o]@x}, dims=2)", SUM),
    row("lt.kron({x:n[n,m]}, {y:n[2,k]@x})", SUM, weight=0.5),
    row("{x:n[n,3]}.cross({y:n[n,3]@x}, dim=1)", SUM, weight=0.5),
]

NETWORKS: list[Row] = [
    row("F.conv1d({x:f[n,c,l]}, {w:f[o,c,k<l]@x}, stride={s:int(1,2)}, padding={p:int(0,2)})",
        SUM, weight=1.5),
    row("F.conv2d({x:f[n,c,h,w]}, {y:f[o,c,k<h,l<w]@x}, stride={s:int(1,2)}, "
        "padding={p:int(0,1)})", SUM, weight=2),
    row("F.conv2d({x:f[n,4,h,w]}, {y:f[4,2,k<h,l<w]@x}, groups=2)", SUM, "grouped conv2d"),
    row("F.conv2d({x:f[n,c,7,w]}, {y:f[o,c,2,1]@x}, dilation=({d:int(1,3)}, 1))", SUM,
        "dilated conv2d"),
    row("F.conv_transpose1d({x:f[n,c,l]}, {w:f[c,o,k]@x}, stride={s:int(1,3)}, "
        "padding={p:int(0,1)})", SUM),
    row("F.conv_transpose2d({x:f[n,c,h,w]}, {y:f[c,o,k,l]@x}, stride={s:int(1,2)})", SUM),
    row("F.max_pool1d({x:f[n,c,l]}, {k:part1(l)}, stride={s:int(1,3)})", EXACT),
    row("F.max_pool2d({x:f[n,c,h,w]}, ({k:part1(h)}, {m:part1(w)}), stride={s:int(1,2)})", EXACT,
        weight=2),
    row("F.max_pool2d({x:f[n,c,h,w]}, 2, 1, 1)", EXACT),
    row("F.max_pool2d({x:F[n,c,4,6]}, 3, 2, 1, return_indices=True)[1]", EXACT),
    row("F.avg_pool2d({x:f[n,c,h,w]}, ({k:part1(h)}, {m:part1(w)}), stride={s:int(1,2)})", ROUGH),
    row("F.avg_pool1d({x:f[n,c,l]}, {k:part1(l)}, 1, {k} // 2)", ROUGH),
    row("F.adaptive_avg_pool2d({x:f[n,c,h,w]}, ({k:int(1,3)}, {m:int(1,3)}))", ROUGH),
    row("F.adaptive_max_pool1d({x:f[n,c,l]}, {k:int(1,3)})", EXACT),
    row("F.linear({x:f[n,k]}, {w:f[o,k]@x}, {b:f[o]@x})", SUM, weight=1.5),
    row("F.layer_norm({x:F[n,k]}, ({x}.shape[-1],))", ROUGH, when=moderate),
    row("F.layer_norm({x:F[n,k]}, ({x}.shape[-1],), {w:F[k]@x}, {b:F[k]@x})", ROUGH,
        when=moderate),
    row("F.batch_norm({x:F[4,c,l]}, None, None, training=True)", ROUGH, when=moderate),
    row("F.group_norm({x:F[n,4,l]}, 2)", ROUGH, when=moderate),
    row("F.instance_norm({x:F[n,c,5]})", ROUGH, when=moderate),
    row("F.rms_norm({x:F[n,k]}, ({x}.shape[-1],))", ROUGH, when=moderate),
    row("F.normalize({x:F2+}, dim={d:axis(x)})", ROUGH, when=moderate),
    row("F.glu({x:F[n,6]}, 1)", ROUGH, when=moderate),
    row("F.scaled_dot_product_attention({q:F[b,n,k]}, {y:F[b,m,k]@q}, {v:F[b,m,o]@q})", ROUGH,
        when=moderate, weight=1.5),
    row("F.interpolate({x:F[n,c,h,w]}, scale_factor=2, mode='nearest')", EXACT, weight=0.5),
    row("F.interpolate({x:F[n,c,h,w]}, size=(3, 5), mode='bilinear')", ROUGH, weight=0.5),
    row("F.cross_entropy({x:F[n,k]}, {i:labels(n,k)})", ROUGH, when=lambda x, *o: moderate(x),
        weight=2),
    row("F.cross_entropy({x:F[n,k]}, lt.arange({x}.shape[0]) % {x}.shape[1])", ROUGH,
        when=moderate),
    row("F.nll_loss({x:F[n,k]}, {i:labels(n,k)})", ROUGH),
    *rows(ROUGH, ["F.mse_loss({x:F}, {y:F=x@x})", "F.l1_loss({x:F}, {y:F=x@x})",
                  "F.smooth_l1_loss({x:F}, {y:F=x@x})", "F.huber_loss({x:F}, {y:F=x@x})"],
          weight=0.5),
    row("F.binary_cross_entropy_with_logits({x:F}, {x}.sigmoid().round())", ROUGH, when=moderate),
    row("F.kl_div({x:F}, {y:F=x@x}.softmax(-1))", ROUGH, when=moderate, weight=0.5),
    row("F.cosine_similarity({x:F[n,k]}, {y:F[n,k]@x})", ROUGH, when=moderate, weight=0.5),
]

WRITES: list[Row] = [
    *rows(EXACT, ["{x:f!} += {y:a>x}", "{x:n!} *= {y:n>x@x}", "{x:n!} -= {y:n>x@x}",
                  "{x:a!}.copy_({y:a>x@x})", "{x:n!}.add_({c:int(-3,3)})", "{x:n!}.mul_(2)",
                  "{x:n!}.zero_()", "{x:a!}.fill_({c:int(0,1)})", "{x:f!}.neg_()",
                  "{x:n!}.clamp_(-1, 2)", "{x:f!}.relu_()"], effect=True, name="write", weight=1.5),
    row("{x:n1+!}[{s:slice(x)}] = {c:int(0,3)}", EXACT, "slice assigned a number", effect=True,
        weight=3),
    row("{x:n1+!}[{s:slice(x)}] += {c:int(0,3)}", EXACT, "slice added to", effect=True, weight=2),
    row("{x:n1+!}[{k:position(x,0)}] = {x}[{m:position(x,0)}]", EXACT, "row assigned a row",
        effect=True, weight=2),
    row("{x:n2!}.T.add_({x})", EXACT, "write to a transpose", effect=True, weight=0.5,
        when=lambda x: x.shape[0] == x.shape[-1]),
    row("{x:n!}.masked_fill_({b:b>x}, {c:int(0,3)})", EXACT, effect=True),
    row("{x:n!}[{b:b=x}] = {c:int(0,3)}", EXACT, "mask assigned", effect=True),
    row("{x:n1+!}[{i:index(x,0)}] = {c:int(0,3)}", EXACT, "index assigned", effect=True),
    row("{x:n1+!}.index_fill_({d:axis(x)}, {i:index1(x,d,2)}, 2)", EXACT, effect=True),
    row("{x:n1+!}.scatter_add_({d:axis(x)}, {i:indexlike(x,d)}, {y:n=x@x})", SUM, effect=True),
    row("{x:n1+!}.index_put_(({i:index1(x,0,3)},), {x}.sum() * 0 + 1, accumulate=True)", SUM,
        effect=True),
    row("{x:a2!}.transpose_(0, 1)", EXACT, effect=True, weight=0.3),
    row("{x:a!}.unsqueeze_(0)", EXACT, effect=True, weight=0.3),
    row("{x:f!}.detach().add_({y:f>x@x})", EXACT, "write to what is detached", effect=True),
    row("{x:f!}.detach().copy_({y:f>x@x})", EXACT, "write to what is detached", effect=True),
    row("{x:f}.data.mul_(2)", EXACT, "write to data", effect=True),
    row("with lt.no_grad(): {x:f}.add_({y:f>x@x})", EXACT, "write without gradient", effect=True),
    row("{x:f!}.addcmul_({y:n>x}, {z:n>x})", SUM, effect=True, when=moderate),
    row("{x:f1+!}.cumsum_({d:axis(x)})", SUM, effect=True, weight=0.5),
    row("{x:f2+!}.fill_diagonal_({c:int(0,3)})", EXACT, effect=True, weight=0.5),
]

GRADIENTS: list[Row] = [
    row("{x:f}.detach().clone().requires_grad_()", EXACT, "a new leaf", weight=2),
    row("{y:f?}.sum().backward(retain_graph=True)", ROUGH, effect=True, weight=3),
    row("({y:f?} * {z:f=y@y}.detach()).sum().backward(retain_graph=True)", ROUGH, effect=True,
        weight=3),
    row("({y:f?} ** 2).sum().backward(retain_graph=True)", ROUGH, effect=True, weight=2),
    row("{x:f^}.grad.clone()", EXACT, "grad", weight=2),
    row("lt.autograd.grad({y:f?}.sum(), {x:f*}, create_graph=True, allow_unused=True)[0]", ROUGH,
        weight=4),
    row("lt.autograd.grad(({y:f?} ** 2).sum(), {x:f*}, create_graph=True, allow_unused=True)[0]",
        ROUGH, weight=3),
    row("lt.autograd.grad({y:f?}, {x:f?}, {z:f=y@y}.detach(), retain_graph=True, allow_unused=True)[0]",
        ROUGH, weight=2),
]

RANDOM: list[Row] = [
    *rows(EXACT, ["lt.rand({s:newshape})", "lt.randint(-5, 9, {s:newshape})",
                  "lt.randperm({n:size})", "lt.rand_like({x:F})", "lt.rand({s:newshape}).round()"],
          foreign=False, weight=2),
    *rows(ROUGH, ["lt.randn({s:newshape})", "F.dropout({x:f}, 0.5)", "lt.randn_like({x:F})"],
          foreign=False, weight=2),
    *rows(EXACT, ["{x:F!}.uniform_(-1, 1)", "{x:F!}.bernoulli_(0.5)", "{x:i!}.random_(0, 5)"],
          foreign=False, effect=True, weight=2),
    row("({x:f2} * 0 + 1).multinomial(1)", EXACT, foreign=False, when=not_negative),
]

COMPUTING: list[Row] = [
    row("lt.realize({x:a})", EXACT, effect=True, weight=2),
    row("lt.realize({x:a}, {y:a})", EXACT, effect=True),
]

TABLE = [*PRODUCTS, *NETWORKS, *WRITES, *GRADIENTS, *COMPUTING]
