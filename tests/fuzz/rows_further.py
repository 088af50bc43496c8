"""Rows: complex numbers, spectra, matrices, scatters, special functions, sequences, optimizers.

What is complex begins and ends in real tensors, as other rows know no others.
"""
from __future__ import annotations

from fuzz.rows import EXACT, ROUGH, SUM, Row, moderate, positive, row, rows


def inside(*arrays: object) -> bool:
    """Moderate, with elements: what has none is refused by some of these functions."""
    return moderate(*arrays) and all(a.size for a in arrays)  # type: ignore[attr-defined]


def in_parts(*forms: str) -> list[str]:
    """Forms of complex tensors, as those of their real and imaginary parts."""
    return [f"lt.view_as_real({form}).contiguous()" for form in forms]


_Z, _LINE = "lt.complex({x:F}, {y:F=x@x})", "lt.complex({x:F1+}, {y:F=x@x})"

COMPLEX: list[Row] = [
    *rows(EXACT, in_parts(_Z, _Z + " + {z:F~x@x}", "-lt.complex({x:F}, {x}).conj()",
                          "lt.complex({x:F2}, {y:F=x@x}).mH", _LINE + "[{s:slice(x)}]",
                          _LINE + ".flip({d:axis(x)})", f"lt.cat([{_LINE}, {{y}} * 1j])")),
    *rows(SUM, in_parts(_Z + " * lt.complex({y}, {x})", _Z + " * lt.complex({y}, {x}).conj()",
                        _LINE + ".sum({d:axis(x)})", _LINE + ".cumsum({d:axis(x)})",
                        "lt.complex({x:F[n,k]}, {x}) @ lt.complex({y:F[k,m]@x}, {y})"),
          when=moderate),
    *rows(ROUGH, [*in_parts(_Z + ".exp()", _Z + ".sin()", _Z + " ** 2",
                            _LINE + ".prod({d:axis(x)})",
                            "lt.complex({x:F}, {x}.abs() + 1).sqrt()",
                            "lt.complex({x:F}, {x}.abs() + 1).log()",
                            "lt.polar({x:F}.abs(), {y:F=x@x})",
                            "{x:F} / lt.complex({y:F=x@x}, {y}.abs() + 1)"),
                  _Z + ".abs()", _Z + ".angle()", _LINE + ".var({d:axis(x)})"], when=moderate),
]

SPECTRA: list[Row] = [
    *rows(ROUGH, [*in_parts("lt.fft.fft({x:F1+}, dim={d:axis(x)})", "lt.fft.fft2({x:F2+})",
                            "lt.fft.rfft({x:F1+}, {k:int(1,9)}, {d:axis(x)})",
                            f"lt.fft.ifft({_LINE}, norm='ortho')", "lt.fft.rfftn({x:F2})"),
                  "lt.fft.irfft(lt.fft.rfft({x:F1+}), {k:int(1,9)})",
                  "lt.fft.hfft(lt.complex({x:F1}, {y:F=x@x}), {k:int(1,9)})",
                  "lt.fft.irfft2(lt.fft.rfft2({x:F2}))", "lt.fft.rfft({x:F1+}).abs()"],
          when=inside),
    *rows(EXACT, ["lt.fft.fftshift({x:n1+}, {d:axis(x)})", "lt.fft.ifftshift({x:n1+})"],
          weight=0.5),
    *rows(ROUGH, ["lt.fft.fftfreq({n:int(1,9)}, 0.5)", "lt.fft.rfftfreq({n:int(1,9)})"],
          weight=0.3),
]

_FULL = "({x:F[n,n]} + 40 * lt.eye({x}.shape[0], dtype={x}.dtype))"
"""A matrix that is far from singular, of what is at most 30 in rows of a few."""
_OWN = "({x:F[n,m]} @ {x}.T + lt.eye({x}.shape[0], dtype={x}.dtype))"
"""A matrix with eigenvalues above 1."""


def small(*arrays: object) -> bool:
    """Few numbers below 4, so that matrices of them are far from singular ones."""
    return inside(*arrays) and all(
        a.shape[-1] <= 8 and abs(a).max() <= 4 for a in arrays)  # type: ignore[attr-defined]


MATRICES: list[Row] = [
    *rows(ROUGH, [f"lt.linalg.solve({_FULL}, {{y:F[n,k]@x}})", f"lt.linalg.inv({_FULL})",
                  f"lt.linalg.det({_FULL} / 40)", f"lt.linalg.slogdet({_FULL})[1]",
                  f"lt.linalg.cholesky({_OWN})", f"lt.linalg.eigvalsh({_OWN})",
                  f"lt.logdet({_OWN})", f"lt.cholesky_inverse(lt.linalg.cholesky({_OWN}))",
                  f"lt.linalg.lu_factor({_FULL})[0]", f"lt.linalg.qr({_FULL})[1].abs()",
                  f"lt.linalg.solve_triangular({_FULL}.tril(), {{y:F[n,k]@x}}, upper=False)",
                  f"lt.linalg.pinv({_FULL})", f"lt.linalg.lstsq({_FULL}, {{y:F[n,k]@x}})[0]",
                  "lt.linalg.svdvals({x:F[n,m]} + lt.eye({x}.shape[0], {x}.shape[1], "
                  "dtype={x}.dtype))", "lt.linalg.matrix_exp({x:F[n,n]} / 8)"], when=small),
    *rows(ROUGH, ["lt.linalg.vector_norm({x:F1+}, {p:choice(1|2|3|0.5)}, {d:axis(x)})",
                  "lt.linalg.matrix_norm({x:F2+}, {p:choice('fro'|1|-1|float('inf'))})",
                  "lt.cdist({x:F[n,k]}, {y:F[m,k]@x}, p={p:choice(1|2|3)})"], when=inside),
    *rows(SUM, ["lt.linalg.multi_dot([{x:F[n,k]}, {y:F[k,m]@x}, {z:F[m,o]@x}])",
                "lt.linalg.vecdot({x:F1+}, {y:F=x@x})", "lt.chain_matmul({x:F[n,k]}, {y:F[k,m]@x})",
                "lt.linalg.matmul({x:F[n,k]}, {y:F[k,m]@x})"], when=moderate),
]

SCATTERS: list[Row] = [
    *rows(SUM, ["{x:n1+}.index_add({d:axis(x)}, {i:index1(x,d,2)}, {x}.narrow({d}, 0, 2), "
                "alpha={c:choice(2|-1)})",
                "{x:n1+}.scatter_reduce({d:axis(x)}, {i:indexlike(x,d)}, {y:n=x@x}, 'sum', "
                "include_self={k:bool})",
                "{x:n1+}.scatter_add({d:axis(x)}, {i:indexlike(x,d)}, {x} * 2)",
                "{x:n1+}.index_put(({i:index1(x,0,3)},), {x}[{i}] * 2, accumulate=True)",
                "lt.zeros_like({x:f[n]}).index_add(0, {i:labels(n,n)}, {x})",
                "F.embedding_bag(weight={w:s[n,k]}, input={i:labels(n,n)}[None], mode='sum')"],
          when=moderate),
    *rows(EXACT, ["{x:n1+}.scatter_reduce({d:axis(x)}, {i:indexlike(x,d)}, {y:n=x@x}, "
                  "'{r:choice(amax|amin)}', include_self={k:bool})",
                  "{x:n1+}.scatter({d:axis(x)}, {i:indexlike(x,d)}, 2, reduce='add')",
                  "{x:n1+}.index_fill({d:axis(x)}, {i:index1(x,d,2)}, 3)",
                  "F.embedding_bag(weight={w:s[n,k]}, input={i:labels(n,n)}[None], mode='max')",
                  "F.embedding_bag(weight={w:s[n,k]}, input={i:labels(n,n)}, mode='max', "
                  "offsets=lt.tensor([0, len({i}) // 2]))",
                  "lt.bincount({x:l1} % 7, minlength={m:int(0,6)})"]),
    *rows(ROUGH, ["{x:F1+}.scatter_reduce({d:axis(x)}, {i:indexlike(x,d)}, {y:F=x@x}, 'mean', "
                  "include_self={k:bool})",
                  "{x:F1+}.index_reduce(0, {i:index1(x,0,2)}, {x}.narrow(0, 0, 2) * 2, 'mean')",
                  "{x:F1+}.scatter_reduce({d:axis(x)}, {i:indexlike(x,d)}, {y:F=x@x}, 'prod')",
                  "F.embedding_bag(weight={w:s[n,k]}, input={i:labels(n,n)}[None], mode='mean')"],
          when=moderate),
]

SPECIAL: list[Row] = [
    *rows(ROUGH, [f"lt.special.{name}({{x:F}})" for name in (
        "i0e", "i1e", "i0", "i1", "erfcx", "ndtr", "log_ndtr", "expit", "entr")], when=moderate,
          weight=0.5),
    *rows(ROUGH, [f"lt.special.{name}({{x:F}}.detach())" for name in (  # PyTorch has no slopes
        "bessel_j0", "bessel_j1", "spherical_bessel_j0", "airy_ai")], when=moderate, weight=0.5),
    *rows(ROUGH, [f"lt.special.{name}({{x:F}})" for name in (
        "gammaln", "psi")], when=positive, weight=0.5),
    *rows(ROUGH, [f"lt.special.{name}({{x:F}}.detach())" for name in (
        "modified_bessel_k0", "scaled_modified_bessel_k1", "bessel_y0")], when=positive,
          weight=0.5),
    *rows(ROUGH, ["lt.special.xlog1py({x:F}, {y:F=x@x}.abs())", "lt.polygamma(1, {x:F}.abs() + 1)",
                  "lt.special.gammainc({x:F}.detach().abs() + 0.5, {y:F=x@x}.abs())",
                  "lt.special.zeta({x:F}.detach().abs() + 2, {y:F=x@x}.detach().abs() + 1)",
                  "lt.special.ndtri({x:F}.sigmoid())", "lt.mvlgamma({x:F}.abs() + 2, 2)",
                  "lt.special.hermite_polynomial_h({x:F}.detach(), {k:int(0,4)})"], when=moderate,
          weight=0.5),
    *rows(EXACT, ["lt.bitwise_left_shift({x:l}.clamp(0, 9), {k:int(0,3)})",
                  "lt.floor_divide({x:i}, {c:choice(2|3)})", "lt.rsub({x:n}, {y:n~x@x})",
                  "{x:F}.nan_to_num(1.0, 2.0, -2.0)", "lt.isreal({x:a})", "{x:f}.isneginf()",
                  "{x:a1+}.movedim({d:axis(x)}, 0)", "{x:n1+}.mode({d:axis(x)})[0]",
                  "lt.diagflat({x:n1})", "lt.corrcoef({x:F2}) != 7"], weight=0.5),
]

def recurrent(name: str, gates: int) -> str:
    """A form of several lines: a recurrent layer of 2 inputs and 3 states."""
    size = 3 * gates
    return "\n".join([
        f"m = lt.nn.{name}(2, 3, batch_first={{k:bool}})",
        f"m.load_state_dict({{{{'weight_ih_l0': {{w:s[{size},2]}}, 'weight_hh_l0': "
        f"{{v:s[{size},3]}}, 'bias_ih_l0': {{b:s[{size}]}}, 'bias_hh_l0': {{b}} * 2}}}})",
        "{T} = m({x:s[n,l,2]})[0].contiguous()"])


def stepped(optimizer: str) -> str:
    """A form of several lines: a parameter takes steps down a bowl."""
    return "\n".join(["p = {x:s}.detach().clone().requires_grad_()",
                      f"o = lt.optim.{optimizer}", "for _ in range({j:int(1,3)}):",
                      "    o.zero_grad()", "    (p ** 2 + 3 * p).sum().backward()",
                      "    o.step()", "{T} = p.detach()"])


SEQUENCES: list[Row] = [
    *rows(ROUGH, [recurrent("RNN", 1), recurrent("GRU", 3), recurrent("LSTM", 4)],
          name="recurrent", when=inside),
    row("m = lt.nn.BatchNorm1d({x:s[4,c,3]}.shape[1])\nm({x} * 2 + 1)\n"
        "{T} = lt.cat([m({x}), m.eval()({x})], 2)", ROUGH, "BatchNorm1d", when=inside),
    row("F.gaussian_nll_loss({x:F}, {y:F=x@x}, {z:F=x@x}.abs() + 1)", ROUGH, when=moderate),
    row("F.cosine_embedding_loss({x:F[n,k]}, {y:F[n,k]@x}, {z:F[n]@x}.sign() * 0 + 1)", ROUGH,
        when=inside),
    row("F.multilabel_soft_margin_loss({x:F[n,k]}, {y:F[n,k]@x}.sigmoid())", ROUGH, when=inside),
    row("F.grid_sample({x:F[n,c,h,w]}, {y:F[n,o,k,2]@x} / 2, padding_mode='{p:choice(zeros|border|"
        "reflection)}', align_corners={k:bool})", ROUGH, when=inside),
    row("F.avg_pool3d({x:f[n,c,4,4,w]}, (2, 2, 1))", ROUGH, when=moderate),
    row("F.lp_pool1d({x:F[n,c,l]}, 2, {k:part1(l)})", ROUGH, when=inside, weight=0.5),
    row("F.max_unpool1d(*F.max_pool1d({x:F[n,c,6]}, 2, return_indices=True), 2)", EXACT),
    row("F.conv_transpose3d({x:f[1,c,2,h,w]}, {y:f[c,o,2,2,2]@x})", SUM, when=moderate),
    *rows(ROUGH, [stepped(o) for o in (
        "RMSprop([p], lr=0.125, eps=0.5, momentum=0.5)", "Adagrad([p], lr=0.25, eps=0.5)",
        "Adamax([p], lr=0.25, eps=0.5)", "NAdam([p], lr=0.25, eps=0.5)",
        "Adadelta([p], lr=1.0, eps=0.5)", "ASGD([p], lr=0.125)",
        "RAdam([p], lr=0.25, eps=0.5)")], name="optimizer", when=moderate, weight=0.3),
]
