"""The text of a math function for one vector length and machine, and where it is written from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

from ansorc.codegen.llvm.vector_math.error_function import erf
from ansorc.codegen.llvm.vector_math.exponential import exp, exp2, expm1, sigmoid, tanh
from ansorc.codegen.llvm.vector_math.lane_calls import any_lane, lane_by_lane
from ansorc.codegen.llvm.vector_math.logarithm import log, log1p, log2
from ansorc.codegen.llvm.vector_math.power import pow
from ansorc.codegen.llvm.vector_math.remainder import floor_divide, fmod, mod
from ansorc.codegen.llvm.vector_math.trigonometric import cos, limit, sin
from ansorc.codegen.llvm.vector_math.vector_writer import FunctionBody, VectorShape, VectorWriter

_BODIES: dict[str, Callable[..., str]] = {
    function.__name__: function
    for function in (
        exp, exp2, expm1, sigmoid, tanh, log, log2, log1p, erf, sin, cos, pow, fmod, mod,
        floor_divide,
    )
}  # fmt: skip
_TRIGONOMETRIC = ("sin", "cos")
_BRANCHING = (*_TRIGONOMETRIC, "fmod", "mod", "floor_divide")


class MathFunction(NamedTuple):
    """An LLVM function, internal to the module it is put into."""

    symbol: str
    definition: str
    declarations: tuple[str, ...]
    instructions: int
    """The instructions of its code; 0 where it has branches, and so cannot be written in place."""


@lru_cache(maxsize=256)
def math_function(name: str, shape: VectorShape) -> MathFunction:
    """Return the function `name` on values of `shape`, with the attributes #1 of its module.

    Each lane's result depends on that lane only, and is the same for every number of lanes.
    """
    code = FunctionBody()
    writer = VectorWriter(shape, code)
    body = _BODIES[name]
    operands = [f"%x{number}" for number in range(body.__code__.co_argcount - 1)]
    result = body(writer, *operands)
    if name in _TRIGONOMETRIC:
        result = _with_large(writer, name, operands[0], result)
    kind, symbol = shape.float_type, f"@ansorc.{name}.{shape.suffix}"
    params = ", ".join(f"{kind} {operand}" for operand in operands)
    head = f"define internal {kind} {symbol}({params}) #1 {{\nentry:"
    text = "\n".join([head, *code.lines, f"  ret {kind} {result}", "}"])
    instructions = 0 if name in _BRANCHING else len(code.lines)
    return MathFunction(symbol, text, tuple(code.declarations), instructions)


def write_in_place(
    name: str, shape: VectorShape, operands: Sequence[str], emit: Callable[[str], str]
) -> str:
    """Write the code of a function without branches by `emit`; return the name of its result.

    `emit` writes an instruction and returns the name of its result. The instructions are those of
    `math_function`, so the results are the same to the bit; its declarations are needed.
    """
    return _BODIES[name](VectorWriter(shape, _Elsewhere(emit)), *operands)


class _Elsewhere(FunctionBody):
    """The code of the function that calls."""

    def __init__(self, emit: Callable[[str], str]) -> None:
        super().__init__()
        self._emit = emit

    def emit(self, text: str) -> str:
        return self._emit(text)


def _with_large(w: VectorWriter, name: str, x: str, result: str) -> str:
    """Branch to the C library, lane by lane, if there is a lane that is too large."""
    code = w.code
    is_large = w.compare("ogt", w.call("fabs", x), w.number(limit(w)))
    code.lines += [f"  br i1 {any_lane(w, is_large)}, label %large, label %done", "large:"]
    exact, after = lane_by_lane(w, name, (w.select(is_large, x, w.number(0.0)),))
    mixed = w.select(is_large, exact, result)
    code.lines += ["  br label %done", "done:"]
    return code.emit(f"phi {w.shape.float_type} [{result}, %entry], [{mixed}, {after}]")
