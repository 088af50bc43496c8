"""stopgap"""
import ctypes
import numpy as np
from lazyten.device import Executor, Program
from lazyten.codegen.pipeline import generate
from lazyten.codegen.target import Target


class CpuProgram(Program):
    def __init__(self, gen, engine, address):
        self.name, self.source, self.loops, self.engine = gen.name, gen.source, gen.loops, engine
        self.f = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(address)
        self.table = None

    def launch(self, buffers):
        n = len(buffers)
        table = (ctypes.c_void_p * n)(*[b.ctypes.data for b in buffers])
        self.f(ctypes.addressof(table))


class CpuRuntime(Executor):
    def alloc(self, n):
        raw = np.empty(n + 64, np.uint8); o = -raw.ctypes.data % 64
        return raw[o:o + n]

    def free(self, h): pass

    def copy_in(self, h, s): h[:s.nbytes] = s.reshape(-1).view(np.uint8)

    def copy_out(self, t, h): t.reshape(-1).view(np.uint8)[:] = h[:t.nbytes]

    def synchronize(self): pass

    def build(self, kernels):
        import llvmlite.binding as llvm
        llvm.initialize_native_target(); llvm.initialize_native_asmprinter()
        tm = llvm.Target.from_default_triple().create_target_machine(cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=2, jit=True)
        gens = [generate(k, Target()) for k in kernels]
        text = "\n".join(sorted({d for g in gens for d in g.declares})) + "\n" + "\n".join(g.source for g in gens)
        mod = llvm.parse_assembly(text); mod.verify()
        eng = llvm.create_mcjit_compiler(mod, tm); eng.finalize_object()
        return [CpuProgram(g, eng, eng.get_function_address(g.name)) for g in gens]
