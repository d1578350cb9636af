"""A back end that fits on a few screens: loops as C, compiled by the system's C compiler."""

from __future__ import annotations

import math
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ansorc.codegen.base import Backend, Capabilities, LoadedKernel, Probes
from ansorc.codegen.llvm.backend import BACKEND as LLVM
from ansorc.codegen.package.artifact import Artifact, write_artifact
from ansorc.codegen.package.header import c_type
from ansorc.codegen.package.signature import Signature
from ansorc.codegen.package.toolchain import find_toolchain
from ansorc.codegen.program.compiled import CompiledProgram
from ansorc.errors import BuildError
from ansorc.ir import expr as ex
from ansorc.ir import stmt as st
from ansorc.ir.arith.simplify import simplify_stmt
from ansorc.ir.buffer import Buffer
from ansorc.ir.operator import BinaryOp
from ansorc.ir.passes.pipeline import Passes
from ansorc.ir.stmt import Function
from ansorc.target import Target

MARKER = "made by the toy back end"
STATUS = {"returns_77": 77}
"""What kernels of these names return."""
HELPERS = """\
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#define MIN(a, b) ((a) < (b) || (a) != (a) ? (a) : (b))
#define MAX(a, b) ((a) > (b) || (a) != (a) ? (a) : (b))
#define FLOORDIV(a, b) ((a) / (b) - ((a) % (b) != 0 && ((a) < 0) != ((b) < 0)))
#define MOD(a, b) ((a) - FLOORDIV(a, b) * (b))
#define rsqrtf(x) (1.0f / sqrtf(x))
#define sigmoidf(x) (1.0f / (1.0f + expf(-(x))))
"""
C_NAMES = {"abs": "fabs", "round": "rint"}
FORMS = {
    BinaryOp.MIN: "MIN({}, {})", BinaryOp.MAX: "MAX({}, {})", BinaryOp.AND: "({} && {})",
    BinaryOp.OR: "({} || {})", BinaryOp.FLOORDIV: "FLOORDIV({}, {})", BinaryOp.MOD: "MOD({}, {})",
}  # fmt: skip


class Writer:
    """Writes one function of the IR as the body of a C function."""

    def __init__(self, function: Function) -> None:
        self.function, self.lines = function, list[str]()
        self.names = {buffer.name: f"p{n}" for n, buffer in enumerate(function.params)}
        for buffer, offset in allocated(function).items():
            self.names[buffer.name] = name = f"b{offset}"
            kind = c_type(buffer.dtype)
            self.lines.append(f"{kind} *{name} = ({kind} *)((char *)workspace + {offset});")
        self.statement(function.body)

    @property
    def params(self) -> str:
        return ", ".join(f"{c_type(b.dtype)} *{self.names[b.name]}" for b in self.function.params)

    def statement(self, stmt: st.Stmt) -> None:
        match stmt:
            case st.For(var, extent, kind, body) if kind is not st.LoopKind.BOUND:
                name = self.names[var.name] = f"i{len(self.lines)}"
                self.block(f"for (int64_t {name} = 0; {name} < {extent}; {name}++)", body)
            case st.Store(buffer, indices, value):
                self.lines.append(f"{self.place(buffer, indices)} = {self.expr(value)};")
            case st.If(condition, then, otherwise):
                self.block(f"if ({self.expr(condition)})", then)
                if otherwise is not None:
                    self.block("else", otherwise)
            case st.Seq(parts):
                list(map(self.statement, parts))
            case st.Allocate(_, body):
                self.statement(body)
            case st.Prefetch():
                pass
            case _:
                raise BuildError(f"the toy back end has no code for {type(stmt).__name__}")

    def block(self, head: str, body: st.Stmt) -> None:
        self.lines.append(f"{head} {{")
        self.statement(body)
        self.lines.append("}")

    def place(self, buffer: Buffer, indices: Sequence[ex.Expr]) -> str:
        pairs = zip(indices, buffer.strides, strict=True)
        index = " + ".join(f"{self.expr(one)} * {stride}" for one, stride in pairs)
        return f"{self.names[buffer.name]}[{index or 0}]"

    def expr(self, expr: ex.Expr) -> str:
        match expr:
            case ex.Const(value, dtype) if dtype.is_float and not math.isfinite(value):
                return "NAN" if math.isnan(value) else f"({'-' if value < 0 else ''}INFINITY)"
            case ex.Const(value, dtype):
                number = float(value).hex() if dtype.is_float else f"{int(value)}LL"
                return f"(({c_type(dtype)}){number})"
            case ex.Var(name):
                return self.names[name]
            case ex.Load(buffer, indices):
                return self.place(buffer, indices)
            case ex.Binary(op, left, right):
                form = FORMS.get(op, f"({{}} {op.value} {{}})")
                return form.format(self.expr(left), self.expr(right))
            case ex.Compare(op, left, right):
                return f"({self.expr(left)} {op.value} {self.expr(right)})"
            case ex.Not(operand):
                return f"(!{self.expr(operand)})"
            case ex.Select(condition, then, otherwise):
                return "({} ? {} : {})".format(*map(self.expr, (condition, then, otherwise)))
            case ex.Cast(dtype, operand) if dtype.is_float or not ex.dtype_of(operand).is_float:
                return f"(({c_type(dtype)}){self.expr(operand)})"
            case ex.Call(name, args) if ex.dtype_of(expr).bits == 32:
                return f"{C_NAMES.get(name, name)}f({', '.join(map(self.expr, args))})"
            case _:
                raise BuildError(f"the toy back end has no code for {type(expr).__name__}")


def allocated(function: Function) -> dict[Buffer, int]:
    """The offset of each allocated buffer in the workspace, in bytes."""
    offsets, end = dict[Buffer, int](), 0
    for part in st.statements(function.body):
        if isinstance(part, st.Allocate) and part.buffer not in offsets:
            offsets[part.buffer] = end
            end += -(-part.buffer.bytes // 64) * 64
    return offsets


class Toy:
    passes: Passes = (("simplify", lambda function, target: simplify_stmt(function)),)
    probes: Probes = LLVM.probes
    listings: Mapping[str, Callable[[str, Target], str]] = {"c": lambda text, target: text}

    def capabilities(self, target: Target) -> Capabilities:
        return Capabilities(packs_constants=True, obstacle=LLVM.capabilities(target).obstacle)

    def emit(
        self,
        function: Function,
        target: Target,
        packers: Sequence[Function] = (),
        *,
        is_guarded: bool = True,  # the code is for every processor of the kind
    ) -> str:
        dtypes = {b.dtype for f in (function, *packers) for b in (*f.params, *allocated(f))}
        if narrow := [str(dtype) for dtype in dtypes if dtype.is_float and dtype.bits < 32]:
            raise BuildError(f"the toy back end has no code for {', '.join(narrow)}")
        kernel, size = Writer(function), self.workspace_bytes(function)
        name, arguments = function.name, ", ".join(f"p{n}" for n in range(len(function.params)))
        own = f"""if (workspace == NULL && {size} > 0) {{
            void *memory = aligned_alloc(64, {size});
            int32_t status = memory == NULL ? 1 : {name}({arguments}, memory, threads);
            return free(memory), status; }}"""
        head = f"int32_t {name}({kernel.params}, void *workspace, int32_t threads)"
        marker = f'const char {name}_marker[] = "{MARKER}";'
        parts = [HELPERS, marker, f"{head} {{\n{own}", *kernel.lines]
        parts.append(f"return {STATUS.get(name, 0)}; }}")
        parts.append(f"size_t {name}_workspace_bytes(void) {{ return {size}; }}")
        for packer in map(Writer, packers):
            parts.append(f"int32_t {packer.function.name}({packer.params}) {{")
            parts += [*packer.lines, "return 0; }"]
        return "\n".join(parts)

    def compile(self, source: str, target: Target) -> CompiledProgram:
        with tempfile.TemporaryDirectory() as directory:
            made = Path(directory, "kernel.o")
            flags = ("-std=gnu11", "-O2", "-fPIC", "-ffp-contract=off", "-xc", "-c", "-")
            run([*find_toolchain(target).cc, *flags, "-o", str(made)], source)
            return CompiledProgram(made.read_bytes())

    def workspace_bytes(self, function: Function) -> int:
        return sum(-(-buffer.bytes // 64) * 64 for buffer in allocated(function))

    def load(self, code: CompiledProgram, signature: Signature, target: Target) -> LoadedKernel:
        with tempfile.TemporaryDirectory() as directory:
            source, library = Path(directory, "kernel.o"), Path(directory, "kernel.so")
            source.write_bytes(code.image)
            run([*find_toolchain(target).cc, "-shared", str(source), "-o", str(library), "-lm"])
            return LLVM.open(library, signature, target)

    def save(
        self, path: Path, code: CompiledProgram, signature: Signature, target: Target
    ) -> Artifact:
        return write_artifact(path, code.image, signature, target)

    def open(self, library: Path, signature: Signature, target: Target) -> LoadedKernel:
        return LLVM.open(library, signature, target)


def run(command: Sequence[str], text: str = "") -> None:
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"the C compiler refuses the code: {done.stderr}")


BACKEND: Backend = Toy()
