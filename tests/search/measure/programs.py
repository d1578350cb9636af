"""A small task, and loop programs for it that behave in every way a candidate can."""

from functools import cache

from ansorc import lang
from ansorc.ir.buffer import Buffer, Scope
from ansorc.ir.dtype import FLOAT32
from ansorc.ir.expr import Const, Load, Var, as_expr
from ansorc.ir.printer import to_text
from ansorc.ir.stmt import Allocate, For, Function, LoopKind, Seq, Stmt, Store
from ansorc.lang import ComputeDAG, compute, placeholder, reduce_axis
from ansorc.search.measure import ProgramText
from ansorc.search.task import Task

EXTENT = 1024
LONG = 1 << 14
TIB = 1 << 40


@cache
def task() -> Task:
    """B[i] = A[i] * 2 for 1024 elements."""
    source = placeholder((EXTENT,), name="A")

    def double(i: lang.Scalar) -> lang.Scalar:
        return source[i] * 2.0

    result = compute((EXTENT,), double, name="B")
    return Task(ComputeDAG([source, result]), "native", "double")


@cache
def long_task(*, constant: bool = False) -> Task:
    """B[0] = the sum of A, 64 KiB: it fits into the first or second cache."""
    source = placeholder((LONG,), name="A", constant=constant)
    place = reduce_axis(LONG, name="k")
    result = compute((1,), lambda _: lang.sum(source[place], axis=place), name="B")
    return Task(ComputeDAG([source, result]), "native", "long")


def summing() -> ProgramText:
    """The sum in vectors: one addition after the other would take longer than memory does."""
    return ProgramText.of_json([["Vectorize", {"stage": "t1", "iterator": "a1"}]])


def source() -> Buffer:
    return task().dag.params[0]


def result() -> Buffer:
    return task().dag.params[1]


def candidate(body: Stmt) -> ProgramText:
    return ProgramText.of_function(to_text(Function("kernel", task().dag.params, body)))


def loop(extent: int, body: Stmt, name: str = "i", kind: LoopKind = LoopKind.SERIAL) -> For:
    return For(Var(name), extent, kind, body)


def doubled(factor: float = 2.0, extent: int = EXTENT) -> Stmt:
    index = (Var("i"),)
    return loop(extent, Store(result(), index, Load(source(), index) * factor))


def parallel_rows() -> ProgramText:
    """What `right` computes, by several threads."""
    i = Var("i")
    return candidate(
        loop(EXTENT, Store(result(), (i,), Load(source(), (i,)) * 2.0), kind=LoopKind.PARALLEL)
    )


def right(times: int = 1) -> ProgramText:
    """A right program; each count is different code."""
    index = (Var("i"),)
    repeat = Store(result(), index, Load(source(), index) * 2.0)
    return candidate(Seq((loop(times, loop(EXTENT, repeat), "r"), doubled())))


def wrong(factor: float = 2.001) -> ProgramText:
    return candidate(doubled(factor))


def incomplete() -> ProgramText:
    return candidate(doubled(extent=EXTENT - 1))


def overwriting() -> ProgramText:
    """Writes one element too many."""
    return candidate(doubled(extent=EXTENT + 1))


def crashing(distance: int = TIB) -> ProgramText:
    return candidate(Seq((doubled(), Store(result(), (Const(distance, Var("i").dtype),), ZERO))))


def endless() -> ProgramText:
    """Some days of dependent additions."""
    first = (Const(0, Var("i").dtype),)
    step = Store(result(), first, Load(result(), first) * 1.0001 + 0.5)
    return candidate(Seq((doubled(), loop(1 << 45, step, "forever"))))


def greedy() -> ProgramText:
    """Needs a buffer of 4 TiB."""
    hoard = Buffer("hoard", (TIB,), FLOAT32, Scope.GLOBAL)
    fill = loop(TIB, Store(hoard, (Var("h"),), ZERO), "h")
    return candidate(Seq((Allocate(hoard, fill), doubled())))


def exploding() -> ProgramText:
    """Has many unrolled statements, each a sum of 60 elements that lie anywhere."""
    places = [(Var("u") * (2 * n + 1)) % EXTENT for n in range(60)]
    total = sum((Load(source(), (place,)) * 2.0 for place in places), as_expr(0.0))
    body = Store(result(), (Var("u") % EXTENT,), total)
    return candidate(loop(8000, body, "u", LoopKind.UNROLLED))


ZERO = Const(0.0, FLOAT32)
