"""Write statements as CUDA C: one loop of the program is one `for` of the text."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import assert_never

from ansorc.codegen.cuda.atomic import atomic_text
from ansorc.codegen.cuda.expr import LANE, PRIVATE, CudaExpressions, in_lane
from ansorc.codegen.cuda.prelude import NAMES
from ansorc.codegen.cuda.types import CHOICE, CExpr, c_type, is_narrow
from ansorc.codegen.package.signature import FAULT_RECORD
from ansorc.codegen.program.device_program import CheckLine, Line
from ansorc.errors import BuildError
from ansorc.ir.arith.simplify import simplify
from ansorc.ir.buffer import Buffer, Scope
from ansorc.ir.dtype import BFLOAT16, FLOAT16, FLOAT32, INT8, INT64
from ansorc.ir.expr import (
    Binary,
    BinaryOp,
    Broadcast,
    Const,
    Expr,
    Load,
    MatrixLoad,
    MatrixMultiply,
    Ramp,
    Reduce,
    Select,
    Transpose,
    dtype_of,
)
from ansorc.ir.fault import MOST_ARGUMENTS, FaultSite
from ansorc.ir.node import children, walk
from ansorc.ir.operator import MATH_FUNCTIONS
from ansorc.ir.printer import expr_text
from ansorc.ir.stmt import (
    Allocate,
    Await,
    Barrier,
    CallC,
    Check,
    For,
    If,
    LoopKind,
    Prefetch,
    Seq,
    Stmt,
    Store,
    statements,
    substatements,
)
from ansorc.ir.substitute import free_vars
from ansorc.target.code_facts import ASYNC_COPY_BYTES

_INDENT = "  "
_RESERVED = frozenset(
    """auto bool break case catch char class const constexpr continue default delete do double else
    enum explicit export extern false float for friend goto if inline int lanes long namespace
    new operator private protected public register return short signed sizeof static struct
    switch template this throw true try typedef typename union unsigned using virtual void volatile
    while half bfloat16 asm main add fabs join rint""".split()  # noqa: SIM905
) | NAMES.union(f"{name}{ending}" for name in MATH_FUNCTIONS for ending in ("", "f"))
"""Names with another meaning to a C++ compiler, or in the prelude."""


_LONG_BODY = 64
"""Stores in the body of a loop from which on NVIDIA's compiler is told to leave it a loop: else it
writes out short ones, which takes long and is not what the model chose."""
_MOST_PRODUCTS = 640
"""16 KiB of code, about 1.6 instructions for a product: what the first instruction cache holds."""
MATRIX_NAMES = {FLOAT16: "mma_f16", BFLOAT16: "mma_bf16", FLOAT32: "mma_tf32", INT8: "mma_s8"}


class CudaStatements:
    """The statements of one kernel."""

    def __init__(self) -> None:
        self.exprs = CudaExpressions()
        self.fault_sites: tuple[FaultSite, ...] = ()
        """The subjects of the program's checks."""
        self.lines: list[Line] = []
        self._depth = 1
        self._taken: set[str] = set()
        self._declared: list[set[str]] = [set()]
        """The arrays of each block of the text that is open."""

    def name(self, wanted: str) -> str:
        """Return a C name that nothing else has and that reminds of `wanted`."""
        plain = re.sub(r"\W+", "_", wanted)
        if plain in _RESERVED or not plain[0].isalpha():
            plain = f"{plain}_"
        name, count = plain, 1
        while name in self._taken:
            count += 1
            name = f"{plain}_{count}"
        self._taken.add(name)
        return name

    def bind(self, loop: For) -> str:
        """Return the name of the variable of `loop`, which is known from now on."""
        known = self.exprs.variables.get(loop.var.name)
        name = self.name(loop.var.name) if known is None else known.text
        self.exprs.define(loop.var.name, CExpr(name, INT64, low=0, high=loop.extent - 1))
        return name

    def line(self, text: str) -> None:
        """Write one line."""
        self.lines.append(_INDENT * self._depth + text)

    def statement(self, stmt: Stmt) -> None:
        """Write `stmt`."""
        match stmt:
            case Store():
                self._store(stmt, None)
            case For():
                self._for(stmt)
            case Seq(stmts):
                for part in stmts:
                    self.statement(part)
            case If(condition, Store() as store, None) if dtype_of(condition).lanes > 1:
                self._store(store, condition)
            case If():
                self._if(stmt)
            case Allocate(buffer, body):
                self._allocate(buffer, body)
            case Barrier():
                self.line("__syncthreads();")
            case Prefetch() | CallC():  # emit_cuda refuses C functions
                pass
            case Check():
                self._check(stmt)
            case Await(pending):
                self.exprs.parts.add("asynchronous")
                self.line(f"await_copies<{pending}>();")
            case _:
                assert_never(stmt)

    def _check(self, stmt: Check) -> None:
        """Write what tells, in the record of faults, the first lane of any thread that fails."""
        exprs = self.exprs
        exprs.parts.add("faults")
        site = self.fault_sites.index(FaultSite(stmt.kind, stmt.about, len(stmt.args))) + 1
        lanes = max(dtype_of(part).lanes for part in (stmt.condition, *stmt.args))

        def write() -> None:
            texts = [exprs.value(arg).text for arg in stmt.args]
            told = ", ".join(texts + ["0"] * (MOST_ARGUMENTS - len(texts)))
            record, test = exprs.buffers[FAULT_RECORD], exprs.value(stmt.condition).text
            start = f"{_INDENT * self._depth}if (!({test})) tell_fault({record}, "
            self.lines.append(CheckLine(start, site, f", {told});"))

        if lanes == 1:
            write()
            return
        with self._each_lane(lanes, None):
            write()

    @contextmanager
    def _block(self, head: str, tail: str = "}") -> Generator[None]:
        self.line(f"{head} {{" if head else "{")
        with self._inside(tail):
            yield

    @contextmanager
    def _inside(self, tail: str = "}") -> Generator[None]:
        """Write what stands in a block whose head is written, and `tail`."""
        self._depth += 1
        self._declared.append(set())
        yield
        self._declared.pop()
        self._depth -= 1
        self.line(tail)

    def _for(self, loop: For) -> None:
        if loop.kind is LoopKind.BOUND:
            self.statement(loop.body)  # `emit` has written what its variable is
            return
        name = self.bind(loop)
        if loop.kind is LoopKind.UNROLLED:
            self.line("#pragma unroll")
        elif slots := _slots(loop):
            self.line(f"#pragma unroll {slots}")
        elif _straight(loop.body) >= _LONG_BODY:
            self.line("#pragma unroll 1")
        begin, end = [self.exprs.value(bound).text for bound in loop.bounds] or ("0", loop.extent)
        with self._block(f"for (int {name} = {begin}; {name} < {end}; ++{name})"):
            self.statement(loop.body)

    def _if(self, stmt: If) -> None:
        tail = "}" if stmt.otherwise is None else "} else {"
        with self._block(f"if ({self.exprs.value(stmt.condition).text})", tail):
            self.statement(stmt.then)
        if stmt.otherwise is not None:
            with self._inside():
                self.statement(stmt.otherwise)

    def _allocate(self, buffer: Buffer, body: Stmt) -> None:
        if buffer.scope not in PRIVATE:
            self.statement(body)  # `emit` has declared it
            return
        name = self.exprs.buffers.get(buffer) or self.name(buffer.name)
        self.exprs.buffers[buffer] = name
        if name in self._declared[-1]:
            with self._block(""):
                self._declare(buffer, name, body)
        else:
            self._declare(buffer, name, body)

    def _declare(self, buffer: Buffer, name: str, body: Stmt) -> None:
        self._declared[-1].add(name)
        sizes = "".join(f"[{extent}]" for extent in buffer.shape) if buffer.elements > 1 else ""
        self.exprs.parts.update({c_type(buffer.dtype)} & {"half", "bfloat16"})
        first, *rest = body.stmts if isinstance(body, Seq) else (body,)
        if not sizes and isinstance(first, Store) and first.buffer == buffer:
            value = self.exprs.store_text(self.exprs.value(first.value), buffer.dtype)
            self.line(f"{c_type(buffer.dtype)} {name} = {value};")
            self.statement(Seq(tuple(rest)))
        else:
            self.line(f"{c_type(buffer.dtype)} {name}{sizes};")
            self.statement(body)

    def _store(self, store: Store, condition: Expr | None) -> None:
        lanes = max((dtype_of(index).lanes for index in store.indices), default=1)
        if store.is_async and condition is None and self._copy(store, lanes):
            return
        if isinstance(store.value, MatrixLoad | MatrixMultiply | Transpose):
            self._by_warp(store, store.value)
            return
        if store.is_atomic:
            self.line(atomic_text(self.exprs, store, self.name("old")))
            return
        if lanes == 1:
            value = self.exprs.store_text(self.exprs.value(store.value), store.buffer.dtype)
            self.line(f"{self.exprs.place(store.buffer, store.indices)} = {value};")
            return
        target = None if condition is not None else self.exprs.vector(store.buffer, store.indices)
        copied = None if target is None else self._whole_vector(store.value, lanes)
        if target is not None and copied is not None:
            self.line(f"store<{lanes}>({target.address}, {copied});")
            return
        has_vectors = target is not None or self._has_vectors(store.value)
        if has_vectors or self._is_kept_apart(store):
            with self._block(""):
                self._lanes(store, lanes, condition)
        else:
            self._lanes(store, lanes, condition)

    def _whole_vector(self, value: Expr, lanes: int) -> str | None:
        """Return the text of a vector that is loaded, or not where a scalar condition says so."""
        match value:
            case Load(buffer, indices):
                source = self.exprs.vector(buffer, indices)
                return None if source is None else f"load<{lanes}>({source.address})"
            case Const() | Broadcast(Const()) if not is_narrow(dtype_of(value)):
                self.exprs.parts.add("fill")
                kind = c_type(dtype_of(value).element)
                return f"fill<{lanes}, {kind}>({self.exprs.value(value).text})"
            case Select(condition, Load() as then, otherwise) if dtype_of(condition).lanes == 1:
                arms = [self._whole_vector(arm, lanes) for arm in (then, otherwise)]
                if arms[0] is None or arms[1] is None or is_narrow(then.buffer.dtype):
                    return None
                test = self.exprs.value(condition).at(CHOICE + 1)
                return f"{test} ? {arms[0]} : {arms[1]}"
            case _:
                return None

    def _copy(self, store: Store, lanes: int) -> bool:
        """Write an asynchronous copy, if one instruction does it; return whether it is written.

        A store that is done at once is right as well.
        """
        value, test = store.value, ""
        if isinstance(value, Select) and isinstance(value.otherwise, Const | Broadcast):
            if not _is_zero(value.otherwise) or dtype_of(value.condition).lanes > 1:
                return False
            value, test = value.then, f", {self.exprs.value(value.condition).text}"
        size = lanes * store.buffer.dtype.bytes
        if not isinstance(value, Load) or size not in ASYNC_COPY_BYTES:
            return False
        places: list[str] = []
        for buffer, indices in ((store.buffer, store.indices), (value.buffer, value.indices)):
            vector = self.exprs.vector(buffer, indices) if lanes > 1 else None
            if lanes > 1 and vector is None:
                return False
            places.append(vector.address if vector else f"&{self.exprs.place(buffer, indices)}")
        self.exprs.parts.add("asynchronous")
        self.line(f"copy_async<{size}>({', '.join(places)}{test});")
        return True

    def _by_warp(self, store: Store, value: MatrixLoad | MatrixMultiply | Transpose) -> None:
        """Write what a warp does together; raise BuildError where no instruction does it."""
        exprs = self.exprs
        goal = Load(store.buffer, store.indices)
        match value:
            case Transpose(operand, count):
                exprs.parts.update(("shuffle", "exchange"))
                size = dtype_of(value).lanes * store.buffer.dtype.bytes // count
                ends = ", ".join(map(self._fragment, (goal, operand)))
                self.line(f"exchange<{exprs.threads}, {count}, {size}>({ends});")
            case MatrixLoad(row, is_transposed):
                exprs.parts.add("matrix_units")
                vector = None
                if isinstance(row, Load) and row.buffer.scope is Scope.SHARED:
                    vector = exprs.vector(row.buffer, row.indices)
                if vector is None:
                    raise _undone(value, "it takes aligned rows of a shared array")
                name = f"load_matrices{'_transposed' * is_transposed}"
                self.line(f"{name}({self._fragment(goal)}, {vector.address});")
            case MatrixMultiply(total) if total != goal:
                raise _undone(value, "sums are added to where they are stored")
            case MatrixMultiply():
                exprs.parts.add("matrix_units")
                self._multiply(goal, value)

    def _multiply(self, goal: Load, value: MatrixMultiply) -> None:
        sums = self.exprs.places(goal.buffer, goal.indices, 4)
        factors = ", ".join(map(self._fragment, (value.left, value.right)))
        name = MATRIX_NAMES[dtype_of(value.left).element]
        if not is_narrow(goal.buffer.dtype):
            self.line(f"{name}({', '.join(sums)}, {factors});")
            return
        self.exprs.parts.add("half_sums")
        if all(_are_neighbours(goal.indices, first) for first in (0, 2)):
            self.line(f"{name}({sums[0]}, {sums[2]}, {factors});")
            return
        rows = self.name("rows")
        with self._block(""):
            self.line(f"half {rows}[4] = {{{', '.join(sums)}}};")
            self.line(f"{name}({rows}[0], {rows}[2], {factors});")
            for number, each in enumerate(sums):
                self.line(f"{each} = {rows}[{number}];")
        self._taken.discard(rows)

    def _fragment(self, value: Expr) -> str:
        """Return the text of where the registers of a thread begin that hold a vector."""
        last = value.indices[-1] if isinstance(value, Load) and value.indices else value
        is_row = isinstance(last, Ramp) and last.stride == Const(1, INT64)
        if not isinstance(value, Load) or value.buffer.scope not in PRIVATE or not is_row:
            raise _undone(value, "it takes neighbours in an array of the thread")
        return f"&{self.exprs.places(value.buffer, value.indices, 1)[0]}"

    def _has_vectors(self, value: Expr) -> bool:
        return any(self.exprs.vector(load.buffer, load.indices) for load in _vector_loads(value))

    def _lanes(self, store: Store, lanes: int, condition: Expr | None) -> None:
        """Write a store lane by lane, between loads and a store of whole vectors."""
        exprs, dtype = self.exprs, store.buffer.dtype
        if condition is None:
            self._load_vectors(store.value)
        target = None if condition is not None else exprs.vector(store.buffer, store.indices)
        kept = target is not None or self._is_kept_apart(store)
        result = self.name("result") if kept else ""
        if kept:
            exprs.parts.add("lanes")
            self.line(f"lanes<{c_type(dtype)}, {lanes}> {result};")
        with self._each_lane(lanes, condition) as lane:
            value = exprs.store_text(exprs.value(store.value), dtype)
            element = f"{result}.at[{lane}]" if kept else exprs.place(store.buffer, store.indices)
            self.line(f"{element} = {value};")
        if target is not None:
            self.line(f"store<{lanes}>({target.address}, {result});")
        elif kept:
            with self._each_lane(lanes, condition) as lane:
                self.line(f"{exprs.place(store.buffer, store.indices)} = {result}.at[{lane}];")
        exprs.hold({})
        self._taken.discard(result)

    @contextmanager
    def _each_lane(self, lanes: int, condition: Expr | None) -> Generator[str]:
        name = self.name("lane")
        self.exprs.define(LANE.name, CExpr(name, INT64, low=0, high=lanes - 1))
        self.line("#pragma unroll")
        with self._block(f"for (int {name} = 0; {name} < {lanes}; ++{name})"):
            if condition is None:
                yield name
            else:
                with self._block(f"if ({self.exprs.value(condition).text})"):
                    yield name
        self.exprs.undefine(LANE.name)
        self._taken.discard(name)

    def _load_vectors(self, value: Expr) -> None:
        held: dict[Load, str] = {}
        for load, condition in _vector_loads(value).items():
            vector = self.exprs.vector(load.buffer, load.indices)
            if vector is not None:
                test = "" if condition is None else self.exprs.value(condition).at(CHOICE + 1)
                name = self.name(f"{load.buffer.name}_lanes")
                kind = f"lanes<{c_type(load.buffer.dtype)}, {vector.dtype.lanes}>"
                text = f"load<{vector.dtype.lanes}>({vector.address})"
                text = text if condition is None else f"{test} ? {text} : {kind}{{}}"
                self.line(f"const {kind} {name} = {text};")
                held[load] = name
        self.exprs.hold(held)

    def _is_kept_apart(self, store: Store) -> bool:
        """Whether a lane may load what another one stores: all are loaded before."""
        apart = any(map(_tells_lanes, store.indices))
        return any(
            load.buffer.name == store.buffer.name and not (apart and load.indices == store.indices)
            for load in _loads(store.value)
        )


def _slots(loop: For) -> int:
    """Return how many iterations are written out of a loop that copies run ahead of; 0 for none.

    As many as there are slots: then each has a number, and none is computed. That tells beside
    matrix units, whose instructions are few; more than the instruction cache holds would not.
    """
    products = _products(loop.body)
    if not products or not any(isinstance(part, Await) for part in statements(loop.body)):
        return 0
    name = loop.var.name
    slots = {
        int(node.right.value)
        for node in walk(loop.body)
        if isinstance(node, Binary)
        and node.op is BinaryOp.MOD
        and isinstance(node.right, Const)
        and free_vars(node.left) == {name}
    }
    fits = len(slots) == 1 and products * max(slots) <= _MOST_PRODUCTS
    return max(slots) if fits and max(slots) < loop.extent else 0


def _straight(stmt: Stmt) -> int:
    """Return the most stores of straight code inside of `stmt`, those of loops left out."""
    match stmt:
        case For(extent=extent, kind=kind, body=body):
            is_loop = kind not in (LoopKind.UNROLLED, LoopKind.VECTORIZED)
            return _straight(body) * (1 if is_loop else extent)
        case Store():
            return 1
        case _:
            return sum(map(_straight, substatements(stmt)))


def _products(stmt: Stmt) -> int:
    """Return the products by matrix units of the straight code that `stmt` becomes."""
    match stmt:
        case For(extent=extent, body=body):
            return extent * _products(body)
        case Store(value=value):
            return int(isinstance(value, MatrixMultiply))
        case _:
            return sum(map(_products, substatements(stmt)))


def _tells_lanes(index: Expr) -> bool:
    """Whether each lane has another index."""
    return isinstance(index, Ramp) and isinstance(index.stride, Const) and index.stride.value != 0


def _are_neighbours(indices: Sequence[Expr], lane: int) -> bool:
    """Whether the next lane has the next element of an array."""
    pairs = zip(in_lane(indices, lane + 1), in_lane(indices, lane), strict=True)
    *others, last = [simplify(b - a, {}) for b, a in pairs]
    return last == Const(1, INT64) and all(each == Const(0, INT64) for each in others)


def _undone(value: Expr, reason: str) -> BuildError:
    return BuildError(f"no instruction does {expr_text(value)}: {reason}")


def _is_zero(value: Const | Broadcast) -> bool:
    return _is_zero(value.operand) if isinstance(value, Broadcast) else value.value == 0  # pyright: ignore[reportArgumentType]


def _loads(root: Expr) -> Iterator[Load]:
    if isinstance(root, Load):
        yield root
    for child in children(root):
        yield from _loads(child)  # pyright: ignore[reportArgumentType]


def _vector_loads(value: Expr) -> dict[Load, Expr | None]:
    """Return the loads that may be made of whole vectors, and the scalar condition of each.

    None: it happens whatever the values are. What is chosen lane by lane is left out.
    """
    loads: dict[Load, Expr | None] = {}

    def visit(expr: Expr, condition: Expr | None) -> None:
        if isinstance(expr, Load):
            if condition is None or expr not in loads:
                loads[expr] = condition
        elif isinstance(expr, Select):
            visit(expr.condition, condition)
            if condition is None and dtype_of(expr.condition).lanes == 1:
                visit(expr.then, expr.condition)
        elif not isinstance(expr, Reduce):
            for child in children(expr):
                visit(child, condition)  # pyright: ignore[reportArgumentType]

    visit(value, None)
    return loads
