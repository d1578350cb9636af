"""Tasks and records for the tests of the record file."""

from dataclasses import replace

from ansorc import lang
from ansorc.lang.scalar_type import Scalar
from ansorc.search.measure import FailureKind, ProgramText
from ansorc.search.record import Environment, Record
from ansorc.search.task import Task

TARGET = "x86_64-linux-gnu -mcpu=znver3"
HERE = Environment("Test CPU", ("avx2", "fma"), 2, 0)
ELSEWHERE = replace(HERE, cpu="Other CPU")


def task_of(extent: int = 8) -> Task:
    source = lang.placeholder((extent,), name="A")

    def double(i: Scalar) -> Scalar:
        return source[i] * 2.0

    result = lang.compute((extent,), double, name="B")
    return Task(lang.ComputeDAG([source, result]), TARGET, "double")


def record_of(
    task_key: str, number: int, median_s: float | None = 1e-3, *, checked: bool = True
) -> Record:
    candidate = ProgramText.of_json([["Split", {"stage": "B", "lengths": [number]}]])
    return Record(
        task_key,
        candidate.key,
        candidate.steps,
        "",
        HERE,
        median_s,
        1e-5,
        30,
        None if median_s is not None else FailureKind.CRASH,
        "" if median_s is not None else "SIGSEGV",
        checked and median_s is not None,
        0.08,
        1.7e9 + number,
        0,
        "0.1",
    )
