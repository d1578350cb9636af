"""Run a loop program on NumPy arrays: the reference of every test.

The function becomes Python source of the same loops, compiled once. Undefined behaviour of the IR
is an error here: an index outside its buffer, division by zero, a race between GPU threads, a
barrier that not all threads reach, a result or a choice that depends on memory that was never
written.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial
from types import TracebackType
from typing import Any, assert_never, cast

import numpy as np

from ansorc.errors import IRError
from ansorc.ir.async_stores import AsyncStores
from ansorc.ir.buffer import Buffer, Scope
from ansorc.ir.expr import (
    Exchange,
    Expr,
    MatrixLoad,
    MatrixMultiply,
    Shuffle,
    Transpose,
    Var,
    dtype_of,
)
from ansorc.ir.interpret_expr import LANE, ExprCompiler, PyExpr
from ansorc.ir.matrix_units import multiply_tiles, receive_pieces, receive_rows
from ansorc.ir.printer import buffer_text, stmt_text
from ansorc.ir.run_c_call import run_c_call
from ansorc.ir.stmt import (
    Allocate,
    Await,
    Barrier,
    CallC,
    Check,
    For,
    Function,
    If,
    LoopKind,
    Prefetch,
    Seq,
    Stmt,
    Store,
    statements,
    written_buffers,
)
from ansorc.ir.thread_races import ThreadClock, WatchedMemory
from ansorc.ir.undefined import Undefined, UndefinedUseError, first_undefined
from ansorc.ir.verify import verify

_MAX_NESTED_LOOPS = 16
"""CPython refuses more than 20 nested loops in one function."""

_Thread = Generator[int, None, None]
"""A GPU thread: it yields the number of each barrier at which it waits."""


def interpret(
    function: Function, arrays: Sequence[np.ndarray[Any, Any]], *, fresh_outputs: bool = False
) -> None:
    """Run `function` on `arrays`, one for each parameter in order, changing its outputs in place.

    Loops of every kind run serially; the threads of a GPU block take turns at each barrier. With
    `fresh_outputs` the outputs are undefined at first, and every element of them must be stored;
    inputs that are updated are not among them. Raise IRError for an illegal function, wrong arrays
    and undefined behaviour; the arrays then keep their contents.
    """
    memory = _run(function, arrays, fresh_outputs=fresh_outputs)
    outputs = _outputs(function)
    for buffer, elements in zip(function.params, memory, strict=True):
        if buffer in outputs:
            _check_defined(function.name, buffer, elements)
    for buffer, array, elements in zip(function.params, arrays, memory, strict=True):
        if buffer in outputs:
            array[...] = np.array(elements, buffer.dtype.numpy).reshape(buffer.shape)


def interpret_partly(
    function: Function, arrays: Sequence[np.ndarray[Any, Any]]
) -> list[np.ndarray[Any, np.dtype[np.bool_]]]:
    """Run `function` as `interpret` does; return for each array which elements stay undefined.

    These elements of the arrays are not changed. A pass must keep every element that is defined.
    """
    memory, outputs = _run(function, arrays, fresh_outputs=False), _outputs(function)
    masks: list[np.ndarray[Any, np.dtype[np.bool_]]] = []
    for buffer, array, elements in zip(function.params, arrays, memory, strict=True):
        flags = [element.__class__ is Undefined for element in elements]
        masks.append(np.array(flags, bool).reshape(buffer.shape))
        if buffer in outputs:
            kept = zip(flags, elements, array.ravel(), strict=True)
            values = [old if is_missing else new for is_missing, new, old in kept]
            array[...] = np.array(values, buffer.dtype.numpy).reshape(buffer.shape)
    return masks


def _outputs(function: Function) -> set[Buffer]:
    """Return the parameters that `function` stores to."""
    stored = {buffer.name for buffer in written_buffers(function.body)}
    return {buffer for buffer in function.params if buffer.name in stored}


def _run(
    function: Function, arrays: Sequence[np.ndarray[Any, Any]], *, fresh_outputs: bool
) -> list[list[Any]]:
    """Run `function`; return the elements of each parameter after it."""
    verify(function)
    _check_arrays(function, arrays)
    outputs = _outputs(function)
    with np.errstate(all="ignore"):
        compiler = _Compiler(function)
        run = compiler.compile()
        memory: list[list[Any]] = []
        for buffer, array in zip(function.params, arrays, strict=True):
            is_fresh = fresh_outputs and buffer in outputs and not buffer.is_updated
            elements = (
                [Undefined(buffer)] * buffer.elements if is_fresh else _elements(buffer, array)
            )
            if compiler.has_threads and buffer in outputs:
                elements = WatchedMemory(elements, buffer, compiler.clock)
            memory.append(elements)
        try:
            run(*memory)
        except UndefinedUseError as error:
            raise IRError(compiler.complaint(error)) from None
    return memory


def _check_defined(kernel: str, output: Buffer, elements: list[Any]) -> None:
    missing = first_undefined(*elements)
    if missing is None:
        return
    number = next(n for n, element in enumerate(elements) if element is missing)
    index = ", ".join(str(int(where)) for where in np.unravel_index(number, output.shape))
    where = f"{output.name}[{index}]"
    if missing.source == output:
        raise IRError(f"kernel '{kernel}' never stores to {where} of {buffer_text(output)}")
    raise IRError(
        f"kernel '{kernel}' stores to {where} of {buffer_text(output)} what it computed from an "
        f"element of {buffer_text(missing.source)} that nobody wrote; a pass or a schedule reads "
        "more than is there"
    )


def _check_arrays(function: Function, arrays: Sequence[np.ndarray[Any, Any]]) -> None:
    if len(arrays) != len(function.params):
        raise IRError(
            f"kernel '{function.name}' takes {len(function.params)} arrays, not {len(arrays)}"
        )
    for buffer, array in zip(function.params, arrays, strict=True):
        if array.shape != buffer.shape or array.dtype != buffer.dtype.numpy:
            type_ = f"{array.dtype}{list(array.shape)}"
            raise IRError(
                f"kernel '{function.name}' takes {buffer_text(buffer)}, not an array {type_}"
            )


def _elements(buffer: Buffer, array: np.ndarray[Any, Any]) -> list[Any]:
    """Return the elements in row-major order: floats as NumPy scalars, others as Python's."""
    return list(array.ravel()) if buffer.dtype.is_float else array.ravel().tolist()


class _Compiler:
    """Writes the Python source of a function, statement by statement."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.exprs = ExprCompiler(function.name)
        self.lines: list[str] = []
        self.statements: list[Stmt] = []
        """The statement of each line."""
        self.statement: Stmt = function.body
        self.indent = 0
        self.loops = 0
        self.threads: dict[str, str] = {}
        """The loop variable of each GPU thread or block index that encloses the statement."""
        self.extents: dict[str, int] = {}
        self.group: tuple[int, int] | None = None
        """The line and indentation of the outermost thread loop around the statement, or None."""
        self.has_threads = any(
            isinstance(part, For) and part.kind is LoopKind.BOUND
            for part in statements(function.body)
        )
        self.clock = ThreadClock(function.name)
        self.shared: list[Buffer] = []
        """The allocated buffers that several threads reach."""

    def compile(self) -> Callable[..., None]:
        """Return a Python function that takes one flat list for each parameter."""
        params = [self._bind_buffer(buffer) for buffer in self.function.params]
        self._open(f"def run({', '.join(params)}):")
        self._stmt(self.function.body)
        names = self.exprs.globals
        names |= {"together": self._together, "clock": self.clock, "watched": self._watch}
        names["AsyncStores"] = AsyncStores
        names["span"] = partial(_ragged_range, self.function.name)
        names |= {
            "given_rows": receive_rows,
            "multiplied": multiply_tiles,
            "given_pieces": receive_pieces,
        }
        code = compile("\n".join(self.lines), self._file, "exec")
        exec(code, names)
        return cast("Callable[..., None]", names["run"])

    def complaint(self, error: UndefinedUseError) -> str:
        """Return the message for an `error` that a run of the source raised."""
        values, line = _failing_line(error.__traceback__, self._file)
        values_ = ", ".join(
            f"{name}={values[value.text]}"
            for name, value in self.exprs.variables.items()
            if value.text in values
        )
        text = stmt_text(self.statements[line - 1]).splitlines()[0].strip()
        return (
            f"kernel '{self.function.name}' chooses by an element of {buffer_text(error.source)} "
            f"that nobody wrote, or goes where it says, in\n{text}"
            + (f"\nwhere {values_}" if values_ else "")
        )

    @property
    def _file(self) -> str:
        return f"<kernel {self.function.name}>"

    def _stmt(self, stmt: Stmt) -> None:
        outer, self.statement = self.statement, stmt
        self._write(stmt)
        self.statement = outer

    def _write(self, stmt: Stmt) -> None:
        match stmt:
            case For(_, _, LoopKind.BOUND):
                self._bind_loop(stmt)
            case For():
                self._loop(stmt)
            case Store():
                self._store(stmt)
            case If(condition, Store() as store) if dtype_of(condition).lanes > 1:
                self._store(store, self.exprs.expr(condition).text)
            case If(condition, then, otherwise):
                self._open(f"if {self.exprs.expr(condition).text}:")
                self._close(then)
                if otherwise is not None:
                    self._open("else:")
                    self._close(otherwise)
            case Seq(stmts):
                for inner in stmts:
                    self._stmt(inner)
                if not stmts:
                    self._line("pass")
            case Allocate(buffer, body):
                self._allocate(buffer)
                self._stmt(body)
            case Prefetch() | Barrier() | Await():
                self._line(self._waiting(stmt))
            case Check():
                self._check(stmt)
            case CallC():
                self._call_c(stmt)
            case _:
                assert_never(stmt)

    def _check(self, stmt: Check) -> None:
        """Write a check of each lane in turn."""
        parts = (stmt.condition, *stmt.args)
        lanes = max(dtype_of(part).lanes for part in parts)
        with_lanes = f"for {LANE} in range({lanes}): " if lanes > 1 else ""
        self._line(f"{with_lanes}{self.exprs.fault(stmt)}")

    def _call_c(self, stmt: CallC) -> None:
        """Write a call of the reference on whole arrays."""
        name = stmt.symbol.replace("@", "_c_")
        run = self.exprs.constant(name, partial(run_c_call, stmt))
        names = [self.exprs.buffers[buffer.name] for buffer in (*stmt.inputs, stmt.output)]
        self._line(f"{run}({', '.join(names)})")

    def _waiting(self, stmt: Prefetch | Barrier | Await) -> str:
        if isinstance(stmt, Barrier):
            return f"yield {len(self.lines)}"
        if isinstance(stmt, Await) and self.group:
            return f"copies.wait({stmt.pending})"
        return "pass"

    def _loop(self, loop: For) -> None:
        self.loops += 1
        if self.loops % _MAX_NESTED_LOOPS == 0:
            self._in_part(lambda: self._plain_loop(loop))
        else:
            self._plain_loop(loop)
        self.loops -= 1

    def _plain_loop(self, loop: For) -> None:
        var, ends = loop.var, [self.exprs.expr(bound).text for bound in loop.bounds]
        values = f"span({', '.join(ends)}, {loop.extent})" if ends else f"range({loop.extent})"
        self._open(f"for {self._bind(var, loop.extent)} in {values}:")
        if var.name in self.threads.values():
            blocks = [v for thread, v in self.threads.items() if thread.startswith("blockIdx")]
            numbers = ", ".join(self.exprs.variables[name].text for name in blocks)
            self._line(f"clock.enter_block({numbers})")
        self._close(loop.body)

    def _in_part(self, write: Callable[[], None]) -> None:
        """Write a nested function and a call of it."""
        name = self.exprs.fresh("part")
        self._open(f"def {name}():")
        write()
        if self.group:
            self._line("yield from ()")
        self.indent -= 1
        self._line(f"yield from {name}()" if self.group else f"{name}()")

    def _bind_loop(self, loop: For) -> None:
        outer = self.threads.get(loop.thread)
        if outer is not None:
            variable = self.exprs.variables[outer].text
            self._line(f"{self._bind(loop.var, loop.extent)} = {variable}")
            self._stmt(loop.body)
            return
        saved = self.threads
        if not saved:
            self._line("clock.launch()")
        if loop.thread != "vthread":
            self.threads = {**saved, loop.thread: loop.var.name}
            self.extents[loop.thread] = loop.extent
        if loop.thread.startswith("threadIdx"):
            self._thread_loop(loop)
        else:
            self._loop(loop)
        self.threads = saved
        if not saved:
            self._line("clock.launch()")

    def _thread_loop(self, loop: For) -> None:
        is_outermost = self.group is None
        if is_outermost:
            self.group = (len(self.lines), self.indent)
        name = self.exprs.fresh("thread")
        self._open(f"def {name}({self._bind(loop.var, loop.extent)}):")
        self._line("yield from ()")
        self._line("copies = AsyncStores()")
        self._close(loop.body)
        depth = sum(thread.startswith("threadIdx") for thread in self.threads) - 1
        threads = (
            f"together([{name}(index) for index in range({loop.extent})], {depth}, {loop.thread!r})"
        )
        self._line(f"for _ in {threads}: pass" if is_outermost else f"yield from {threads}")
        if is_outermost:
            self.group = None

    def _together(self, threads: list[_Thread], depth: int, name: str) -> _Thread:
        """Run the threads, inside `depth` loops over others, from barrier to barrier."""
        while True:
            barriers: list[int | None] = []
            for index, thread in enumerate(threads):
                self.clock.run(depth, name, index)
                barriers.append(next(thread, None))
            self.clock.rest(depth)
            if depth == 0 and (barriers[0] is None or barriers[0] >= 0):
                self.clock.wait()
            if all(barrier is None for barrier in barriers):
                return
            if len(set(barriers)) > 1 or barriers[0] is None:
                kind = "barrier" if any(p is not None and p >= 0 for p in barriers) else "shuffle"
                raise IRError(
                    f"kernel '{self.function.name}' has a {kind} that only some threads of a "
                    "block reach; move it out of the If that divides them"
                )
            yield barriers[0]

    def _store(self, store: Store, mask: str = "True") -> None:
        """Write a store of the lanes in which `mask` holds."""
        buffer, indices, value = store.buffer, store.indices, store.value
        if isinstance(value, Exchange):
            self._exchange(buffer, indices, value)
            return
        lanes = max((dtype_of(index).lanes for index in indices), default=1)
        name = self.exprs.buffers[buffer.name]
        offset, element = self.exprs.place(buffer, indices), self.exprs.expr(value).text
        is_async = store.is_async and self.group is not None
        if lanes == 1:
            both = f"{name}[{offset}] = {element}"
            if store.is_atomic and self.has_threads:
                both = f"clock.set_atomic(True); {both}; clock.set_atomic(False)"
            self._line(f"copies.begin({name}, {offset}, {element})" if is_async else both)
            return
        wanted = f"for {LANE} in range({lanes}) if {mask}"
        pairs = ", ".join(f"[{text} {wanted}]" for text in (offset, element))
        each = f"copies.begin({name}, place, value)" if is_async else f"{name}[place] = value"
        self._line(f"for place, value in zip({pairs}): {each}")

    def _exchange(self, buffer: Buffer, indices: Sequence[Expr], value: Exchange) -> None:
        """Write an exchange: all threads provide values, then read those of other threads.

        The negative numbers of the barriers mean that no memory is waited for.
        """
        number, stride = "0", 1
        for thread in ("threadIdx.x", "threadIdx.y", "threadIdx.z"):
            if thread in self.threads:
                number += f" + {self.exprs.variables[self.threads[thread]].text} * {stride}"
                stride *= self.extents[thread]
        name, given = self.exprs.buffers[buffer.name], self.exprs.fresh("given")
        self.exprs.constant(given, dict[int, object]())
        match value:
            case Shuffle(operand, distance):
                gives, takes = self._vector(operand), f"{given}[({number}) ^ {distance}]"
            case Transpose(operand, threads):
                gives = self._vector(operand)
                takes = f"given_pieces({given}, {number}, {threads})"
            case MatrixLoad(operand, is_transposed):
                gives = self._vector(operand)
                takes = f"given_rows({given}, {number}, is_transposed={is_transposed})"
            case MatrixMultiply(total, left, right):
                dtype = self.exprs.constant(f"dtype_{buffer.dtype}", buffer.dtype)
                gives = f"{self._vector(left)} + {self._vector(right)}"
                takes = f"multiplied({given}, {number}, {self._vector(total)}, {dtype})"
        self._line(f"{given}[{number}] = {gives}")
        self._line(f"yield -{len(self.lines)}")
        lanes = dtype_of(value).lanes
        places = f"[{self.exprs.place(buffer, indices)} for {LANE} in range({lanes})]"
        self._line(f"for place, value in zip({places}, {takes}): {name}[place] = value")
        self._line(f"yield -{len(self.lines)}")

    def _vector(self, value: Expr) -> str:
        """Return the source of the list of the lanes of `value`."""
        return f"[{self.exprs.expr(value).text} for {LANE} in range({dtype_of(value).lanes})]"

    def _allocate(self, buffer: Buffer) -> None:
        """Write an allocation; memory that a block shares is allocated before its threads start."""
        name = self._bind_buffer(buffer)
        filler = self.exprs.constant(f"undefined_{name}", Undefined(buffer))
        text = f"{name} = [{filler}] * {buffer.elements}"
        if self.has_threads and buffer.scope in (Scope.SHARED, Scope.GLOBAL):
            self.shared.append(buffer)
            head, _, elements = text.partition(" = ")
            text = f"{head} = watched({elements}, {len(self.shared) - 1})"
        if buffer.scope is Scope.SHARED and self.group:
            line, indent = self.group
            self.lines.insert(line, " " * indent + text)
            self.statements.insert(line, self.statement)
        else:
            self._line(text)

    def _watch(self, elements: list[Any], number: int) -> WatchedMemory:
        return WatchedMemory(elements, self.shared[number], self.clock)

    def _bind(self, var: Var, extent: int) -> str:
        name = self.exprs.fresh(var.name)
        self.exprs.variables[var.name] = PyExpr(name, 0, extent - 1)
        return name

    def _bind_buffer(self, buffer: Buffer) -> str:
        name = self.exprs.buffers[buffer.name] = self.exprs.fresh(buffer.name)
        return name

    def _line(self, text: str) -> None:
        self.lines.append(" " * self.indent + text)
        self.statements.append(self.statement)

    def _open(self, text: str) -> None:
        self._line(text)
        self.indent += 1

    def _close(self, body: Stmt) -> None:
        """Write the body of the block that the line before opened."""
        self._stmt(body)
        self.indent -= 1


def _ragged_range(kernel: str, begin: int, end: int, extent: int) -> range:
    """Return the values of a ragged loop; raise IRError if one is not below `extent`."""
    if begin < end and (begin < 0 or end > extent):
        raise IRError(
            f"kernel '{kernel}' has a loop over {begin}..{end}, not inside of 0..{extent}"
        )
    return range(begin, end)


def _failing_line(traceback: TracebackType | None, file: str) -> tuple[dict[str, Any], int]:
    """Return the variables of the frames in the source `file`, and the line of the innermost."""
    values, line = dict[str, Any](), 0
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == file:
            values |= traceback.tb_frame.f_locals
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return values, line
