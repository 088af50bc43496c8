"""A program as machine code: kernels by the LLVM renderer, and the function around as LLVM IR.

In: a `Program` whose kernels are LLVM IR, and a processor. Out: an object file, made by the LLVM of
llvmlite, which compiles for any processor on any machine; or a shared library, linked by the
system's C compiler.
"""
from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import llvmlite.binding as llvm

from lazyten.ahead.header import Form, blocks_given
from lazyten.ahead.program import Call, Kept, Place, Program, contents
from lazyten.codegen.targets.target import Target
from lazyten.runtimes.host.host import host_target, processor
from lazyten.runtimes.host.processors import PROCESSORS
from lazyten.support.errors import CompileError, DeviceError

LEVEL = 2
"""LLVM's level of code generation, as compilers have it by default."""
COPY = """\
define internal void @copy_bytes(ptr %to, ptr %from, i64 %count) nounwind {
entry:
  %empty = icmp eq i64 %count, 0
  br i1 %empty, label %done, label %next
next:
  %i = phi i64 [0, %entry], [%more, %next]
  %source = getelementptr i8, ptr %from, i64 %i
  %target = getelementptr i8, ptr %to, i64 %i
  %byte = load i8, ptr %source
  store volatile i8 %byte, ptr %target
  %more = add i64 %i, 1
  %last = icmp eq i64 %more, %count
  br i1 %last, label %done, label %next
done:
  ret void
}"""
"""Volatile, so that no compiler makes a call of memcpy of it."""


def target_of(row: str) -> Target:
    """What kernels are written for: this processor, or one of PROCESSORS."""
    return host_target() if row == "host" else PROCESSORS[row].target


def machine_for(row: str) -> llvm.TargetMachine:
    """LLVM's machine, whose code may stand at any address. DeviceError if this build of LLVM does
    not compile for it."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    abi = {"riscv-v": "lp64d"}.get(row, "")
    if row == "host":
        triple, (cpu, features) = llvm.get_default_triple(), processor()
    else:
        wanted = PROCESSORS[row]
        triple, cpu, features = wanted.triple, wanted.cpu, wanted.features
    try:
        found = llvm.Target.from_triple(triple)
    except RuntimeError as error:
        raise DeviceError(f"export: this build of LLVM does not compile for {row} ({triple}): "
                          f"{error}") from error
    return found.create_target_machine(
        cpu=cpu, features=features, opt=LEVEL, codemodel="default", abiname=abi,
        reloc="static" if row == "wasm-simd" else "pic")


def object_file(program: Program, form: Form, row: str) -> bytes:
    """The content of an object file."""
    machine = machine_for(row)
    try:
        module = llvm.parse_assembly(text(program, form))
        module.triple, module.data_layout = machine.triple, str(machine.target_data)
        module.verify()
    except RuntimeError as error:
        raise CompileError(f"LLVM refuses program {program.name}: {str(error).strip()}. This is a "
                           f"bug in lazyten: please report it") from error
    public = {"program": program.name, "initialize": f"{program.name}_initialize"}
    for function in module.functions:
        if not function.is_declaration and function.name not in public:
            function.linkage, function.name = llvm.Linkage.internal, f"ahead.{function.name}"
    for function in module.functions:
        function.name = public.get(function.name, function.name)
    made: bytes = machine.emit_object(module)
    return made


def shared_library(content: bytes, name: str) -> bytes:
    """An object file, linked. DeviceError where there is no C compiler."""
    compiler = shlex.split(os.environ.get("CC", "cc"))
    with tempfile.TemporaryDirectory(prefix="lazyten-export-") as folder:
        given, made = Path(folder, f"{name}.o"), Path(folder, f"{name}.so")
        given.write_bytes(content)
        try:
            done = subprocess.run([*compiler, "-shared", "-o", str(made), str(given), "-lm"],
                                  text=True, capture_output=True, check=False)
        except OSError as error:
            raise DeviceError(f"export: a shared library is linked by a C compiler, and there is "
                              f"no {compiler[0]!r}: install gcc or clang, name one by the variable "
                              f"CC, or let the path end in .o") from error
        if done.returncode:
            raise DeviceError(f"export: {compiler[0]} cannot link a shared library of this target: "
                              f"{done.stderr.strip()}; let the path end in .o, or name another "
                              f"compiler by the variable CC")
        return made.read_bytes()


# ---- the text ------------------------------------------------------------------------------------

def text(program: Program, form: Form) -> str:
    """The program as LLVM IR, its own functions as `program` and `initialize`."""
    lines = [*dict.fromkeys(line for k in program.kernels for line in k.declares)]
    if program.constants and not form.beside:
        lines.append(_block("weights", program.constants))
    if program.states and not form.beside:
        lines += [_block("state", program.states), *_initialize(program)]
    if program.blocks and not form.by_caller:
        lines.append(f"@workspace = internal global [{program.workspace_bytes} x i8] "
                     "zeroinitializer, align 64")
    lines += [COPY, *(k.source for k in program.kernels), *_Function(program, form).lines(), ""]
    return "\n".join(lines)


def _block(name: str, kept: tuple[Kept, ...]) -> str:
    """A constant with the contents of arrays."""
    content = contents(kept)
    digits = content.hex()
    escaped = "".join(f"\\{digits[i:i + 2]}" for i in range(0, len(digits), 2))
    return f'@{name} = internal constant [{len(content)} x i8] c"{escaped}", align 64'


def _initialize(program: Program) -> list[str]:
    return ["define void @initialize(ptr %state) nounwind {",
            f"  call void @copy_bytes(ptr %state, ptr @state, i64 {program.state_bytes})",
            "  ret void", "}"]


class _Function:
    """The function that calls the kernels, each with a table of its arguments."""

    def __init__(self, program: Program, form: Form) -> None:
        self.program, self.form = program, form
        self.starts = program.starts()
        self.made: list[str] = []
        self.count = 0

    def lines(self) -> list[str]:
        """Its text."""
        program = self.program
        most = max((len(c.arguments) for c in program.calls), default=1)
        for call in program.calls[:program.checked]:
            self._call(call)
        for number, check in enumerate(program.checks, 1):
            value = self._let(f"load i64, ptr {self._at(check.place)}")
            inside = self._let(f"icmp ult i64 {value}, {check.size}")
            self.made += [f"  br i1 {inside}, label %inside{number}, label %outside{number}",
                          f"outside{number}:", f"  ret i32 {number}", f"inside{number}:"]
        for call in program.calls[program.checked:]:
            self._call(call)
        for copy in program.copies:
            source, target = self._at(copy.source), self._at(copy.target)
            self.made.append(f"  call void @copy_bytes(ptr {target}, ptr {source}, "
                             f"i64 {copy.nbytes})")
        given = ", ".join(f"ptr {name}" for name in self._parameters())
        return [f"define i32 @program({given}) nounwind {{", "entry:",
                f"  %table = alloca ptr, i64 {most}", *self.made, "  ret i32 0", "}"]

    def _call(self, call: Call) -> None:
        for number, place in enumerate(call.arguments):
            slot = self._let(f"getelementptr ptr, ptr %table, i64 {number}")
            self.made.append(f"  store ptr {self._at(place)}, ptr {slot}")
        self.made.append(f"  call void @{call.function}(ptr %table)")

    def _parameters(self) -> Iterator[str]:
        yield from (f"%input{i}" for i in range(len(self.program.inputs)))
        yield from (f"%output{i}" for i in range(len(self.program.outputs)))
        yield from (f"%{block}" for block in blocks_given(self.program, self.form))

    def _let(self, expression: str) -> str:
        self.count += 1
        self.made.append(f"  %v{self.count} = {expression}")
        return f"%v{self.count}"

    def _at(self, place: Place) -> str:
        """A pointer to a place."""
        offset, number = place.offset, place.number
        if place.region == "constant":
            start = "%weights" if self.form.beside else "@weights"
            offset += self.starts["constant"][number]
        elif place.region == "workspace":
            start = "%workspace" if self.form.by_caller else "@workspace"
            offset += self.starts["workspace"][number]
        else:
            start = "%state" if place.region == "state" else f"%{place.region}{number}"
        return self._let(f"getelementptr i8, ptr {start}, i64 {offset}") if offset else start
