"""A DAG as text: one line for each input and computation, and one for the call order.

    input A: float32[512, 256]
    input B: float32[256, 128] constant
    input I: int32[512] in 0..9 sorted
    compute C: float32[512, 128] (i: 512, j: 128) sum over (k: 256) = A[i, k] * B[k, j]
        hint always_unroll_inner = "j"
    params A, B, C

Lines after a computation give its further outputs. A reduction of tuples also has one line for each
element: the initial value, and the result of combining (l0, l1, …) with (r0, r1, …).

    compute S: float32[4] (i: 4) tuple over (k: 8) = A[i, k]
        also Q: float32[4] = A[i, k] * A[i, k]
        combine from 0.0 = l0 + r0
        combine from 0.0 = l1 + r1

A reduce axis whose range is data has a line with it; its extent is above all values:

    compute y: float32[4] (i: 4) sum over (k: 90) = V[k] * x[J[k]]
        range k = P[i] .. P[i + 1]

Values that are held for each element of a computation come before it:

    let y.let0: float32[] = x[i] - m[0]
    compute y: float32[8] (i: 8) = y.let0[] * y.let0[]

A scan names its axis, and each of its tensors the value in front of the first element:

    compute R: float32[4, 8] (i: 4, t: 8) scan t from 0.0 = R[i, t - 1] + A[i, t]
    compute X: float32[9] (t: 9) scan back t from 1.0 = X[t + 1] * Y[t + 1]
        also Y: float32[9] from 0.0 = Y[t + 1] + X[t + 1]

Long reductions in its steps have lines of their own, and are loaded by their names:

    compute h: float32[9, 512] (t: 9, u: 512) scan t from 0.0 = tanh(x[t, u] + h.step0[])
        step h.step0: float32[] sum over (k: 512) = h[t - 1, k] * w[k, u]

A computation that scatters its terms has one line for each axis along which it does:

    compute H: int64[256] (i: 256) sum over (n: 1000) = 1
        at i = cast(int64, I[n])

A computation that writes to inputs says so after its tensors, for each of them:

    input K: float32[4096, 128] updated
    compute K2: float32[4096, 128] (j: 128) = row[j]
        overwrites K[cast(int64, pos[0]), j]

Functions of the user's that are called come first, as JSON (`OwnFunction.to_text`):

    function {"name": "double", "arguments": ["float32"], "result": "float32", "llvm": …}

Dimensions whose size the caller gives come first; extents that follow from them are written with
the most that they may be:

    dim n: 1..4096
    input x: float32[n of 4096, 768]
    compute y: float32[n of 4096] (i: n of 4096) sum over (k: 768) = x[i, k] / cast(float32, dim.n)

Expressions are written as in docs/language.md. A line that starts with # is a comment.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ansorc.errors import LanguageError, ParseError
from ansorc.ir.buffer import Buffer, Scope
from ansorc.ir.dim import Dim, Size, dims_of, parse_dim, parse_size
from ansorc.ir.dtype import dtype
from ansorc.ir.expr import Const, Expr, Load, OwnCall, Var
from ansorc.ir.own_function import OwnFunction
from ansorc.ir.parser import parse_expr
from ansorc.ir.printer import buffer_text, expr_text, extent_text
from ansorc.lang.compute_op import (
    Axis,
    Combiner,
    ComputeOp,
    Output,
    Place,
    Scan,
    StateBuffer,
    StepSum,
    Temporary,
)
from ansorc.lang.naming import check_axis_name, check_tensor_name
from ansorc.lang.reducer import Reducer, operands

_BUFFER = r"(?P<name>\S+): (?P<dtype>\w+)\[(?P<shape>[^\]]*)\]"
_INPUT = re.compile(
    rf"input {_BUFFER}(?: in (?P<low>\S+?)\.\.(?P<high>\S+))?(?P<sorted> sorted)?"
    r"(?P<complex> complex)?(?P<constant> constant)?(?P<updated> updated)?"
)
_COMPUTE = re.compile(
    rf"compute {_BUFFER}(?P<complex> complex)? \((?P<axes>[^)]*)\)"
    r"(?: (?P<combiner>\w+) over \((?P<reduce>[^)]*)\))? = (?P<body>.+)"
)
_LET = re.compile(rf"let {_BUFFER} = (?P<body>.+)")
_SCAN = re.compile(
    rf"compute {_BUFFER} \((?P<axes>[^)]*)\) scan (?P<back>back )?(?P<axis>\S+)"
    r" from (?P<init>.+?) = (?P<body>.+)"
)
_ALSO = re.compile(rf"also {_BUFFER}(?: from (?P<init>.+?))? = (?P<body>.+)")
_STEP = re.compile(rf"step {_BUFFER} (?P<combiner>\w+) over \((?P<reduce>[^)]*)\) = (?P<body>.+)")
_RANGE = re.compile(r"range (?P<axis>\S+) = (?P<begin>.+) \.\. (?P<end>.+)")
_AT = re.compile(r"at (?P<axis>\S+) = (?P<index>.+)")
_OVERWRITES = re.compile(r"overwrites (?P<element>.+)")
_COMBINE = re.compile(r"combine from (?P<identity>\S+) = (?P<body>.+)")
_HINT = re.compile(r"hint (?P<name>\S+) = (?P<value>\".*\")")
_FUNCTION = re.compile(r"function (?P<text>\{.+\})")
_PARAMS = re.compile(r"params (?P<names>.+)")
_DIM = re.compile(r"dim (?P<text>.+)")


def dag_text(params: Sequence[Buffer], ops: Sequence[ComputeOp]) -> str:
    """Return the text of the computations `ops` behind the parameters `params`."""
    computed = {buffer.name for op in ops for buffer in op.buffers}
    lines = [f"dim {dim}" for dim in dims_of([e for b in params for e in b.extents])]
    lines += [f"function {function.to_text()}" for function in own_functions(ops)]
    lines += [f"input {buffer_text(b)}" for b in params if b.name not in computed]
    for op in ops:
        lines.extend(_op_lines(op))
    lines.append(f"params {', '.join(buffer.name for buffer in params)}")
    return "\n".join(lines) + "\n"


def parse_dag(text: str) -> tuple[tuple[Buffer, ...], tuple[ComputeOp, ...]]:
    """Return the parameters and computations of `text`; raise ParseError with the wrong line."""
    reader = _Reader()
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        try:
            reader.line(stripped)
        except (ParseError, LanguageError) as error:
            raise ParseError(f"line {number} of the DAG: {error}\n    {stripped}") from None
    if reader.params is None:
        raise ParseError("the DAG has no line 'params …' that gives the call order")
    return reader.params, tuple(reader.ops)


def own_functions(ops: Sequence[ComputeOp]) -> tuple[OwnFunction, ...]:
    """Return the functions of the user's that `ops` call, each once."""
    calls = (node for op in ops for node in op.nodes() if isinstance(node, OwnCall))
    return tuple({call.name: call.function for call in calls}.values())


def _op_lines(op: ComputeOp) -> Iterator[str]:
    for held in op.temporaries:
        declared = buffer_text(replace(held.buffer, scope=Scope.GLOBAL))
        yield f"let {declared} = {expr_text(held.value)}"
    head = f"compute {buffer_text(op.buffer)} ({_axes_text(op.axes)})"
    over = f" {op.combiner.value} over ({_axes_text(op.reduce_axes)})" if op.combiner else ""
    first, *more = [f" from {expr_text(init)}" for init in op.inits] or [""] * len(op.buffers)
    if op.scan is not None:
        over = f" scan {'back ' if op.scan.is_reversed else ''}{op.scan.axis}"
    yield f"{head}{over}{first} = {expr_text(op.body)}"
    for axis in op.reduce_axes:
        if axis.bounds:
            yield f"    range {axis.name} = {' .. '.join(map(expr_text, axis.bounds))}"
    for place in op.places:
        yield f"    at {place.axis} = {expr_text(place.index)}"
    for each in op.step_sums:
        declared = buffer_text(replace(each.buffer, scope=Scope.GLOBAL))
        over = f"{each.combiner.value} over ({_axes_text(each.axes)})"
        yield f"    step {declared} {over} = {expr_text(each.body)}"
    for output, init in zip(op.more, more, strict=True):
        yield f"    also {buffer_text(output.buffer)}{init} = {expr_text(output.body)}"
    if isinstance(op.combiner, Reducer):
        pairs = zip(op.combiner.identities, op.combiner.results, strict=True)
        for identity, result in pairs:
            yield f"    combine from {expr_text(identity)} = {expr_text(result)}"
    for load in op.overwrites:
        yield f"    overwrites {expr_text(load)}"
    for name, value in op.hints:
        yield f"    hint {name} = {json.dumps(value)}"


def _axes_text(axes: Sequence[Axis]) -> str:
    return ", ".join(f"{axis.name}: {extent_text(axis.extent, axis.size)}" for axis in axes)


@dataclass
class _Reader:
    """The tensors and computations of the lines read so far."""

    buffers: dict[str, Buffer] = field(default_factory=dict[str, Buffer])
    ops: list[ComputeOp] = field(default_factory=list[ComputeOp])
    held: dict[str, tuple[Buffer, str]] = field(default_factory=dict[str, tuple[Buffer, str]])
    """The values that the next computation holds, as text."""
    functions: dict[str, OwnFunction] = field(default_factory=dict[str, OwnFunction])
    dims: dict[str, Dim] = field(default_factory=dict[str, Dim])
    params: tuple[Buffer, ...] | None = None
    scan: list[re.Match[str]] = field(default_factory=list[re.Match[str]])
    """The lines of a scan whose tensors may not all be known yet."""
    steps: list[re.Match[str]] = field(default_factory=list[re.Match[str]])
    """The lines of the reductions in its steps."""

    def line(self, text: str) -> None:
        """Read one line; raise ParseError or LanguageError if it is not valid."""
        if self.params is not None:
            raise ParseError("nothing may follow the line 'params …'")
        if self.scan and self._continues_scan(text):
            return
        self._finish_scan()
        if (match_ := _DIM.fullmatch(text)) or (match_ := _FUNCTION.fullmatch(text)):
            self._declare(match_)
        elif match_ := _INPUT.fullmatch(text):
            self._input(match_)
        elif match_ := _LET.fullmatch(text):
            self._let(match_)
        elif match_ := _SCAN.fullmatch(text):
            self.scan = [match_]
        elif match_ := _COMPUTE.fullmatch(text):
            op = self._op(match_)
            self.ops.append(op)
            self.buffers[op.name] = op.buffer
        elif (match_ := _ALSO.fullmatch(text)) and self.ops:
            self._also(match_)
        elif self.ops and self._is_of_indices(text):
            pass
        elif (match_ := _COMBINE.fullmatch(text)) and self.ops:
            self._combine(match_["identity"], match_["body"])
        elif (match_ := _HINT.fullmatch(text)) and self.ops:
            self._hint(match_["name"], match_["value"])
        elif match_ := _PARAMS.fullmatch(text):
            self.params = tuple(
                self._buffer_named(name.strip()) for name in match_["names"].split(",")
            )
        else:
            raise ParseError(
                "expected 'input …', 'compute …', 'range …', 'at …', 'also …', 'overwrites …', "
                "'combine …', 'hint …' or 'params …', or 'step …' behind a scan"
            )

    def _continues_scan(self, text: str) -> bool:
        """Return whether a line belongs to the scan before it; that is then kept."""
        for pattern, lines in ((_ALSO, self.scan), (_STEP, self.steps)):
            if match_ := pattern.fullmatch(text):
                lines.append(match_)
                return True
        return False

    def _is_of_indices(self, text: str) -> bool:
        """Return whether a line says where terms are or go; the last computation then knows."""
        if match_ := _RANGE.fullmatch(text):
            self._range(match_["axis"], (match_["begin"], match_["end"]))
        elif match_ := _AT.fullmatch(text):
            self._at(match_["axis"], match_["index"])
        elif match_ := _OVERWRITES.fullmatch(text):
            self._overwrites(match_["element"])
        return match_ is not None

    def _buffer(self, match_: re.Match[str]) -> Buffer:
        name = match_["name"]
        check_tensor_name(name)
        if name in self.buffers:
            raise ParseError(f"there are two tensors '{name}'")
        pairs = list(_extents(match_["shape"], self.dims))
        shape, sizes = tuple(extent for extent, _ in pairs), tuple(size for _, size in pairs)
        sizes = sizes if any(size is not None for size in sizes) else ()
        return Buffer(name, shape, dtype(match_["dtype"]), sizes=sizes)

    def _declare(self, match_: re.Match[str]) -> None:
        """Read a dimension, or a function of the user's."""
        if match_.re is _DIM:
            dim = parse_dim(match_["text"])
            self.dims[dim.name] = dim
        else:
            function = OwnFunction.from_text(match_["text"])
            self.functions[function.symbol] = function

    def _input(self, match_: re.Match[str]) -> None:
        buffer = _add_promise(self._buffer(match_), match_)
        self.buffers[buffer.name] = buffer

    def _let(self, match_: re.Match[str]) -> None:
        buffer = replace(self._buffer(match_), scope=Scope.LOCAL)
        self.held[buffer.name] = buffer, match_["body"]

    def _parse(
        self, text: str, buffers: Mapping[str, Buffer], variables: Mapping[str, Var]
    ) -> Expr:
        sized = {dim.variable: Var(dim.variable) for dim in self.dims.values()}
        return parse_expr(text, buffers, {**variables, **sized}, self.functions)

    def _op(self, match_: re.Match[str]) -> ComputeOp:
        buffer = replace(self._buffer(match_), is_complex=bool(match_["complex"]))
        axes = _axes(match_["axes"], self.dims)
        reduce_axes = _axes(match_["reduce"] or "", self.dims)
        variables, buffers = _variables(axes, reduce_axes), dict(self.buffers)
        held: list[Temporary] = []
        for name, (scalar, text) in self.held.items():
            held.append(Temporary(scalar, self._parse(text, buffers, variables)))
            buffers[name] = scalar
        self.held.clear()
        body: Expr = self._parse(match_["body"], buffers, variables)
        combiner = _combiner(match_["combiner"]) if match_["combiner"] else None
        return ComputeOp(
            buffer.name, buffer, axes, reduce_axes, combiner, body, temporaries=tuple(held)
        )

    def _finish_scan(self) -> None:
        """Read the scan whose lines are known, if there is one."""
        if not self.scan:
            return
        lines, self.scan = self.scan, []
        sums, self.steps = self.steps, []
        buffers = [self._buffer(line) for line in lines]
        axes = _axes(lines[0]["axes"], self.dims)
        names = {
            buffer.name: StateBuffer(buffer.name, buffer.shape, buffer.dtype, output=number)
            for number, buffer in enumerate(buffers)
        }
        known, variables = {**self.buffers, **names}, _variables(axes, ())
        steps = tuple(self._step(line, known, axes) for line in sums)
        known |= {each.buffer.name: each.buffer for each in steps}
        if any(line["init"] is None for line in lines):
            raise ParseError("each tensor of a scan needs a value 'from …' in front of it")
        inits = tuple(self._parse(line["init"], self.buffers, variables) for line in lines)
        first, *more = (
            Output(buffer, self._parse(line["body"], known, variables))
            for buffer, line in zip(buffers, lines, strict=True)
        )
        scan = Scan(lines[0]["axis"], inits, lines[0]["back"] is not None, steps)
        self.ops.append(
            ComputeOp(
                first.buffer.name, first.buffer, axes, (), None, first.body, more=tuple(more),
                scan=scan,
            )
        )  # fmt: skip
        self.buffers |= {buffer.name: buffer for buffer in buffers}

    def _step(
        self, line: re.Match[str], known: Mapping[str, Buffer], axes: Sequence[Axis]
    ) -> StepSum:
        inner, combiner = _axes(line["reduce"], self.dims), _combiner(line["combiner"])
        if not isinstance(combiner, Combiner):
            raise ParseError("the step of a scan reduces by sum, prod, max, min, any or all")
        scalar = replace(self._buffer(line), scope=Scope.LOCAL)
        body = self._parse(line["body"], known, _variables(axes, inner))
        return StepSum(scalar, inner, combiner, body)

    def _also(self, match_: re.Match[str]) -> None:
        op, buffer = self.ops[-1], self._buffer(match_)
        buffers = self.buffers | {each.buffer.name: each.buffer for each in op.temporaries}
        body = self._parse(match_["body"], buffers, _variables(op.axes, op.reduce_axes))
        self.ops[-1] = replace(op, more=(*op.more, Output(buffer, body)))
        self.buffers[buffer.name] = buffer

    def _range(self, name: str, ends: tuple[str, str]) -> None:
        op = self.ops[-1]
        begin, end = (parse_expr(each, self.buffers, _variables(op.axes, ())) for each in ends)
        if all(axis.name != name for axis in op.reduce_axes):
            raise ParseError(f"'{op.name}' has no reduce axis '{name}'")
        axes = tuple(
            replace(axis, begin=begin, end=end) if axis.name == name else axis
            for axis in op.reduce_axes
        )
        self.ops[-1] = replace(op, reduce_axes=axes)

    def _at(self, axis: str, index: str) -> None:
        op = self.ops[-1]
        place = Place(axis, self._parse(index, self.buffers, _variables(op.axes, op.reduce_axes)))
        self.ops[-1] = replace(op, places=(*op.places, place))

    def _overwrites(self, element: str) -> None:
        op = self.ops[-1]
        load = self._parse(element, self.buffers, _variables(op.axes, ()))
        if not isinstance(load, Load):
            raise ParseError(f"'{element}' is no element of a tensor; name one, as A[i0, i1]")
        self.ops[-1] = replace(op, overwrites=(*op.overwrites, load))

    def _combine(self, identity: str, body: str) -> None:
        op = self.ops[-1]
        if not isinstance(op.combiner, Reducer):
            raise ParseError(f"'{op.name}' is not a reduction of tuples")
        first = parse_expr(identity, {}, {})
        if not isinstance(first, Const):
            raise ParseError(f"'{identity}' is not a literal")
        variables = {v.name: v for side in operands([b.dtype for b in op.buffers]) for v in side}
        combiner = Reducer(
            (*op.combiner.identities, first),
            (*op.combiner.results, self._parse(body, {}, variables)),
        )
        self.ops[-1] = replace(op, combiner=combiner)

    def _hint(self, name: str, value: str) -> None:
        try:
            text: object = json.loads(value)
        except ValueError as error:
            raise ParseError(f"the value of the hint '{name}' is not a JSON string") from error
        op = self.ops[-1]
        self.ops[-1] = replace(op, hints=(*op.hints, (name, str(text))))

    def _buffer_named(self, name: str) -> Buffer:
        if name not in self.buffers:
            raise ParseError(f"unknown tensor '{name}'; known are {', '.join(self.buffers)}")
        return self.buffers[name]


def _axes(text: str, dims: Mapping[str, Dim]) -> tuple[Axis, ...]:
    if not text:
        return ()
    axes: list[Axis] = []
    for part in text.split(","):
        name, _, extent = part.partition(":")
        check_axis_name(name.strip())
        axes.extend(Axis(name.strip(), n, size=size) for n, size in _extents(extent, dims))
    return tuple(axes)


def _extents(text: str, dims: Mapping[str, Dim]) -> Iterator[tuple[int, Size | None]]:
    """Yield each extent, and its size if the caller gives it."""
    for word in text.split(",") if text.strip() else ():
        before, is_sized, most = word.rpartition(" of ")
        if not most.strip().isdecimal():
            raise ParseError(f"'{word.strip()}' is not an extent")
        size = parse_size(before, dims) if is_sized else None
        yield int(most), size if isinstance(size, Size) else None


def _variables(axes: Sequence[Axis], reduce_axes: Sequence[Axis]) -> dict[str, Var]:
    return {axis.name: Var(axis.name) for axis in (*axes, *reduce_axes)}


def _combiner(word: str) -> Combiner | Reducer:
    if word == "tuple":
        return Reducer((), ())
    try:
        return Combiner(word)
    except ValueError:
        known = ", ".join([*(combiner.value for combiner in Combiner), "tuple"])
        raise ParseError(f"unknown reduction '{word}'; use {known}") from None


def _add_promise(buffer: Buffer, match_: re.Match[str]) -> Buffer:
    """Return an input with its promises: constant, range, sorted."""
    ends = None
    if match_["low"] is not None:
        number = float if buffer.dtype.is_float else int
        ends = number(match_["low"]), number(match_["high"])
    return replace(
        buffer, promised=ends, is_sorted=bool(match_["sorted"]),
        is_complex=bool(match_["complex"]), constant=bool(match_["constant"]),
        is_updated=bool(match_["updated"]),
    )  # fmt: skip
