"""Defects seeded into CUDA programs that are right: what a wrong pass would write."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from ansorc.codegen.cuda.text import cuda_text
from ansorc.codegen.program.device_program import DeviceProgram
from ansorc.lang.dag import ComputeDAG
from ansorc.schedule import Schedule, lower
from ansorc.target import Target
from tests.codegen.cuda.hand_schedules import (
    argmax,
    matmul_dag,
    matrix_dag,
    matrix_matmul,
    row_sums,
    softmax,
    tiled_conv2d,
    tiled_matmul,
    transpose,
)
from tests.codegen.cuda.proof import Experiment, program_of_function, sanitize, sanitized_bits

SM_75, SM_80 = (Target.parse(f"cuda-emulated -arch={arch}") for arch in ("sm_75", "sm_80"))


def _product(
    m: int, n: int, k: int, lanes: int, stages: int = 0, dtype: str = "float32"
) -> Schedule:
    tiled = tiled_matmul(matmul_dag(m, n, k, dtype), (2, 2, 2), (2, 2, 4), 8, lanes)
    return tiled.pragma("C.local", "async_stages", stages) if stages else tiled


def _by_units(
    extents: tuple[int, int, int],
    layout: str,
    function: str,
    stages: int,
    lanes: int = 8,
    sums: str = "float32",
) -> Schedule:
    dtype, sums = ("int8", "int32") if function == "mma_s8" else ("float16", sums)
    dag = matrix_dag(*extents, dtype, layout, sums)
    warps, steps = (2, 2) if dtype == "float16" else (1, 1)
    return matrix_matmul(dag, (1, 2), (warps, 2), function, steps=steps, lanes=lanes, stages=stages)


SCHEDULES: dict[str, tuple[Callable[[], Schedule], Target]] = {
    "serial sums": (lambda: row_sums(40, 10), SM_80),
    "transpose": (lambda: transpose(24, 16), SM_80),
    "transpose with tails": (lambda: transpose(23, 13), SM_80),
    "matmul": (lambda: _product(32, 32, 16, 4), SM_80),
    "matmul with tails": (lambda: _product(30, 29, 13, 1), SM_80),
    "conv2d": (lambda: tiled_conv2d(7, 8, 16), SM_80),
    "softmax": (lambda: softmax(3, 70, 32), SM_80),
    "wide softmax": (lambda: softmax(3, 300, 128), SM_80),
    "argmax": (lambda: argmax(5, 150, 64), SM_80),
    "copies ahead": (lambda: _product(32, 32, 40, 4, 3), SM_80),
    "copies ahead with tails": (lambda: _product(30, 29, 45, 1, 2), SM_80),
    "copies ahead in registers": (lambda: _product(30, 29, 45, 1, 3), SM_75),
    "float16 by units": (lambda: _by_units((32, 64, 160), "mk,kn", "mma_f16", 3), SM_80),
    "float16 by units, with tails": (lambda: _by_units((50, 40, 128), "km,nk", "mma_f16", 2),
                                     SM_80),
    "float16 exchanged": (lambda: _by_units((50, 40, 64), "mk,nk", "mma_f16", 0, sums="float16"),
                          SM_80),
    "int8 by units": (lambda: _by_units((32, 32, 64), "mk,nk", "mma_s8", 0, 16), SM_80),
}  # fmt: skip
"""Every way in which the threads of a GPU share work, on extents that a block does not divide."""

_ARRAY = re.compile(r"^\s*(__shared__ .*|[\w ]+ \w+(\[\d+\])+);$")
_INDEX = r"(?<=[\w\]])\[(?P<index>[^\[\]]+)\]"


@dataclass(frozen=True)
class Defect:
    """What is found in a line, and what a wrong pass would have written there."""

    kind: str
    pattern: re.Pattern[str]
    make: Callable[[re.Match[str]], Iterator[str]]

    def changed(self, line: str) -> Iterator[str]:
        """Every line that differs from `line` in one place."""
        for found in self.pattern.finditer(line):
            for new in self.make(found):
                yield line[: found.start()] + new + line[found.end() :]


def _defect(kind: str, pattern: str, *make: Callable[[re.Match[str]], str] | str) -> Defect:
    def made(found: re.Match[str]) -> Iterator[str]:
        for each in make:
            yield found.expand(each) if isinstance(each, str) else each(found)

    return Defect(kind, re.compile(pattern), made)


def _number(found: re.Match[str], change: Callable[[int], int]) -> str:
    return found["before"] + str(change(int(found["number"]))) + found["after"]


def _numbers(before: str, after: str = "") -> str:
    return f"(?P<before>{before})(?P<number>\\d+)(?P<after>{after})"


def _terms_lost(found: re.Match[str]) -> Iterator[str]:
    terms = found["index"].split(" + ")
    for place in range(len(terms)):
        left = [*terms[:place], *terms[place + 1 :]]
        if left and "(" not in found["index"]:
            yield f"[{' + '.join(left)}]"


_more = partial(_number, change=lambda n: n + 1)
_fewer = partial(_number, change=lambda n: n - 1)
DEFECTS = (
    _defect("barrier removed", r"__syncthreads\(\);", ";"),
    _defect("wait lost", _numbers("await_copies<", ">"), _more),
    _defect("index off by one", _INDEX, r"[\g<index> + 1]"),
    Defect("term of an index lost", re.compile(_INDEX), _terms_lost),
    _defect("wrong stride", _numbers(r"(?<=\w )\* ", r"(?= \+|\])"), _more),
    _defect("wrong swizzle", _numbers(r"(?<=\w )[%/] ", r"(?= \+| \*|\])"), _more,
            partial(_number, change=lambda n: 2 * n)),
    _defect("slot of another stage", _numbers(r"\(\w+ \+ ", r"(?=\) % \d+ \*)"), _more, _fewer),
    _defect("tail predicate lost", r"\bif \([^{}]*<[^{}]*\) \{", "if (true) {"),
    _defect("tail predicate lost", r"[\w *+]+ < \d+ \?", " true ?"),
    _defect("tail predicate off by one", _numbers("< ", r"(?= &&|\) \{| \?)"), _more, _fewer),
    _defect("stored by all threads", r"\bif \(\w+( % \d+)? == 0\) \{", "if (true) {"),
    _defect("wrong lane", _numbers(r"shuffle<\d+>\(\w+, ", r"(?=\))"),
            partial(_number, change=lambda n: n // 2 or 2)),
    _defect("wrong lane", _numbers(r"exchange<\d+, ", r"(?=, )"),
            partial(_number, change=lambda n: n // 2)),
    _defect("exchange lost", r"shuffle<\d+>\((\w+), \d+\)", r"\1"),
    _defect("matrix turned round", r"\bload_matrices(_transposed)?\(",
            lambda found: "load_matrices(" if found[1] else "load_matrices_transposed("),
    _defect("loop too short", _numbers(r"\bfor \(int \w+ = 0; \w+ < ", "(?=;)"), _fewer),
    _defect("wrong start", r"(?<= = )(-infinity_f\(\)|0\.0f|0)(?=;)", "1"),
    _defect("array too small", _numbers(r"^  __shared__ .*\[", r"(?=\];)"),
            partial(_number, change=lambda n: n // 2)),
)  # fmt: skip
KINDS = tuple(dict.fromkeys(defect.kind for defect in DEFECTS))


@dataclass(frozen=True)
class Mutant:
    """A program with one defect."""

    kind: str
    line: int
    """Of its text."""
    program: DeviceProgram

    @property
    def lines(self) -> list[str]:
        """Those of its text."""
        return cuda_text(self.program).splitlines()

    @property
    def changed(self) -> str:
        """The line that was changed."""
        return self.lines[self.line - 1].strip()


def mutants_of(program: DeviceProgram) -> list[Mutant]:
    """The programs that differ from `program` in one defect, each once."""
    lines = cuda_text(program).splitlines()
    shared = set(re.findall(r"__shared__.* (\w+)\[", "\n".join(lines)))
    found: dict[DeviceProgram, Mutant] = {}
    is_used = False
    for number, place, line_number in _places(program, lines):
        line = lines[line_number - 1]
        is_used = is_used or (
            "__shared__" not in line and not shared.isdisjoint(re.findall(r"\w+", line))
        )
        if line == "  __syncthreads();" and not is_used:
            continue  # nobody has anything to wait for yet
        for defect in DEFECTS:
            if _ARRAY.match(line) and defect.kind != "array too small":
                continue
            for changed in defect.changed(line):
                new = _with_line(program, number, place, changed)
                found.setdefault(new, Mutant(defect.kind, line_number, new))
    return list(found.values())


def _places(program: DeviceProgram, lines: Sequence[str]) -> Iterator[tuple[int, int, int]]:
    """The lines of bodies: the number of the kernel, the place in it, the line of the text."""
    heads = [number for number, line in enumerate(lines, 1) if "__global__" in line]
    for number, (kernel, head) in enumerate(zip(program.kernels, heads, strict=True)):
        first = head + 1 + bool(kernel.dynamic_memory)
        for place in range(len(kernel.lines)):
            yield number, place, first + place


def _with_line(program: DeviceProgram, number: int, place: int, line: str) -> DeviceProgram:
    kernels = list(program.kernels)
    before = kernels[number].lines
    kernels[number] = replace(kernels[number], lines=(*before[:place], line, *before[place + 1 :]))
    return replace(program, kernels=tuple(kernels))


def programs() -> Iterator[tuple[str, DeviceProgram, ComputeDAG]]:
    """The programs to be changed: name, kernels, definition."""
    for name, (make, target) in SCHEDULES.items():
        schedule = make()
        yield name, program_of_function(lower(schedule, "kernel"), target), schedule.dag


def caught(mutant: Mutant, experiments: Sequence[Experiment]) -> str:
    """How the mutant was found out, in other processes: it may write anywhere; "" if it was not."""
    first, *others = experiments
    found = sanitize(mutant.program, first, "address") or sanitize(mutant.program, first, "thread")
    for experiment in others:
        found = found or sanitize(mutant.program, experiment, "address")
    return found


def is_equivalent(
    mutant: Mutant, program: DeviceProgram, experiments: Sequence[Experiment]
) -> bool:
    """Whether the mutant computes the same bits as `program` for all experiments.

    What a program computes for one shape is a fixed formula of its inputs: sums of products and, in
    softmax and argmax, comparisons. Two such formulas that are not the same differ for almost all
    random inputs, so those that agree in every bit are the same.
    """
    return all(
        sanitized_bits(mutant.program, each) == sanitized_bits(program, each)
        for each in experiments
    )
