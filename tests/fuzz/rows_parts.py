"""Rows: real memory read and written as complex numbers, complex memory through its parts, and
sparse tensors.

Numbers are complex or sparse within a statement, but their memory is that of real tensors, which
other rows read and write.
"""
from __future__ import annotations

from fuzz.rows import EXACT, ROUGH, SUM, Row, moderate, rows

PARTS_ROW = "parts of complex numbers"
"""The row of what lies in memory as its numbers do."""
_PAIRS = "{x:F![n,k,2]}"
_OWN = f"z = lt.view_as_complex({_PAIRS} if {{x}}.is_contiguous() and " \
       "{x}.storage_offset() % 2 == 0 else {x}.clone(memory_format=lt.contiguous_format))\n"
"""`z` of (n, k) complex numbers in the memory of x, or in that of a copy if x lies otherwise."""
_MADE = "z = lt.complex({x:F1+}, {y:F=x@x})\n"

PARTS: list[Row] = [
    *rows(EXACT, [_OWN + write for write in (
        "z.real.mul_({c:num})", "z.imag.add_({y:F[n,k]@x})", "z.imag.neg_()", "z.conj_physical_()",
        "z.real.copy_(z.imag)", "z.copy_(z.conj())", "z.copy_({y:F[n,k]@x})",
        "z[{i:position(x,0)}] = z[{j:position(x,0)}].conj()", "z.mul_(2)",
        "z[{i:position(x,0)}].imag.fill_({c:num})", "z.T.real.add_({c:num})",
        "z += {y:F[n,k]@x}", "z.imag = {y:F[n,k]@x}", "z.real[z.imag > {c:int(-1,2)}] = 1",
        "lt.view_as_real(z)[..., {c:int(0,1)}] = {y:F[n,k]@x}", "z.mul_(1j)",
        "z[:, {j:position(x,1)}] *= -1j",
        "z.masked_fill_({b:b[n,k]}, {c:num} + 2j)", "z.zero_()", "z.real.T.copy_({y:F[n,k]@x}.T)",
        "z.view(-1)[::2].imag.sub_(1)", "z.index_fill_(0, {i:index1(x,0,2)}, 1 - 2j)",
        "z.transpose(0, 1).imag.neg_()",
        "z.reshape(-1).real.add_(1)", "z.unsqueeze(1).imag.add_(z.real[:, None])")],
          name="write to parts", effect=True),
    *rows(EXACT, [_MADE + write for write in (
        "{T} = z.real", "{T} = z.imag", "{T} = lt.view_as_real(z)", "{T} = z.conj().imag.clone()",
        "{T} = z.transpose(0, -1).imag",
        "{T} = z[{i:position(x,0)}].real", "{T} = lt.view_as_real(z.conj().resolve_conj())",
        "w = z.conj() * 1\nz.real.mul_({c:num})\n{T} = w.real + w.imag",
        "w = z.imag\nz.mul_(1j)\n{T} = w * 1", "w = z[..., :1]\nz.imag.fill_({c:num})\n"
        "{T} = lt.view_as_real(w).clone()",
        "z.imag[{i:position(x,0)}] = {c:num}\n{T} = z.real + z.imag",
        "w = z.real\nw += z.imag\nz.imag.sub_(w)\n{T} = lt.view_as_real(z)")],
          name=PARTS_ROW, weight=1.5),
    *rows(SUM, [
        "x = {x:F}\ndef f(v):\n    z = lt.complex(v, v * 2)\n    z.real.mul_({y:F=x@x})\n"
        "    z.imag[...] = v * v\n    return (z * z.conj()).real.sum()\n"
        "{T} = lt.func.grad(f)(x)",
        "def f(v):\n    z = lt.view_as_complex(v * 1)\n    z.imag.add_(z.real)\n"
        "    return (lt.view_as_real(z.conj()) * lt.view_as_real(z)).sum()\n"
        "{T} = lt.func.grad(f)({x:F[n,k,2]})",
        "def f(v):\n    z = lt.complex(v, -v)\n    z[..., 0].real.mul_(3)\n    z.mul_(1j)\n"
        "    return z.imag + z.real * 2\n"
        "{T} = lt.func.vmap(f)({x:F2+})"],
          name="gradient through parts", when=moderate),
]
"""What is written through views of real and imaginary parts."""

_AS, _BS = "{x:F2}.to_sparse()", "{y:F=x@x}.to_sparse()"
_NK = "{x:F[n,k]}.to_sparse()"

SPARSE: list[Row] = [
    *rows(EXACT, [f"{_AS}.to_dense()", f"({_AS} + {_BS}).to_dense()", f"({_AS} * {_BS}).to_dense()",
                  f"({_AS} - {_BS}).to_dense()", f"({_AS} * {{c:num}}).to_dense()",
                  f"{_AS}.t().to_dense()", f"{_AS}.values() * 1", f"{_AS}.indices() * 1",
                  f"{_AS}.to_sparse_csr().values() * 1",
                  f"{_AS}.to_sparse_csr().crow_indices() * 1",
                  f"{_AS}.to_sparse_csc().row_indices() * 1", f"{_AS}.t().coalesce().values() * 1",
                  f"({_AS} * {{y:F=x@x}}).to_dense()", "{y:F2} + {x:F=y@y}.to_sparse()",
                  f"lt.cat([{_AS}, {_BS}], {{d:int(0,1)}}).to_dense()",
                  f"lt.stack([{_AS}, {_BS}]).to_dense()", f"{_AS}[{{i:position(x,0)}}].to_dense()",
                  f"{_AS}.index_select(0, {{i:index1(x,0,3)}}).to_dense()",
                  f"{_AS}.narrow(0, 0, 1).to_dense()", f"{_AS}.abs().neg().to_dense()",
                  "{y:F2}.sparse_mask({x:F=y@y}.to_sparse().coalesce()).to_dense()",
                  f"{_AS}.to_sparse_csr().to_dense()"], name="sparse moves"),
    *rows(SUM, [f"{_NK} @ {{y:F[k,m]@x}}",
                f"{_NK}.to_sparse_csr() @ {{y:F[k,m]@x}}",
                f"({_NK} @ {{y:F[k,m]@x}}.to_sparse()).to_dense()",
                f"{_NK} @ {{y:F[k]@x}}", f"{_AS}.sum()",
                f"lt.sparse.sum({_AS}, {{d:int(0,1)}}).to_dense()",
                "lt.sparse.addmm({z:F[n,m]}, {x:F[n,k]@z}.to_sparse(), {y:F[k,m]@z})",
                "lt.sparse_coo_tensor(lt.tensor([[0, 2, 0]]), {v:F[3]}, (4,)).to_dense()",
                "lt.sparse_coo_tensor(lt.tensor([[1, 1], [0, 0]]), {v:F[2,k]}, "
                "(2, 2, {v}.shape[1])).coalesce().to_dense()"],
          name="sparse sums", when=moderate),
    *rows(ROUGH, [f"lt.sparse.softmax({_AS}, {{d:int(0,1)}}).to_dense()", f"{_AS}.norm()",
                  f"{_AS}.sin().to_dense()", f"({_AS} / 3).to_dense()",
                  f"{_AS}.pow(2).to_dense()"],
          name="sparse functions", when=moderate),
    *rows(EXACT, [
        "lt.sparse_coo_tensor(lt.arange({x:F![n]}.shape[0])[None], {x}, {x}.shape)._values()"
        ".mul_({c:num})",
        "s = lt.sparse_coo_tensor(lt.arange({x:F![n,k]}.shape[0])[None], {x}, {x}.shape)\n"
        "s.mul_({c:num})",
        "s = lt.sparse_coo_tensor(lt.arange({x:F![n,k]}.shape[0])[None], {x}, {x}.shape)\n"
        "s._values()[{i:position(x,0)}] = {c:num}",
        "{x:F2!}.add_({y:F=x@x}.to_sparse())", "{x:F2!} += {y:F=x@x}.to_sparse()"],
          name="write to sparse values", effect=True),
]
"""Sparse tensors, dense again or by their values."""
