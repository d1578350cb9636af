"""The text of a program is the program: what is printed parses back to the same value."""

from __future__ import annotations

from hypothesis import given

from ansorc.ir.node import structure_text
from ansorc.ir.parser import parse
from ansorc.ir.printer import to_text
from ansorc.ir.stmt import Function
from ansorc.ir.verify import verify
from tests.support.ir_strategies import Options, functions, gpu_functions
from tests.support.nightly import examples


def check_round_trip(function: Function) -> None:
    verify(function)
    again = parse(to_text(function))
    assert structure_text(again) == structure_text(
        function
    )  # tells -0.0 from 0.0, and finds NaN equal to NaN
    assert to_text(again) == to_text(function)


@examples(30, nightly=150)
@given(functions(Options(is_wild=True)))
def test_any_program_reads_back(function: Function) -> None:
    check_round_trip(function)


@examples(12, nightly=50)
@given(functions())
def test_a_plain_program_equals_what_reads_back(function: Function) -> None:
    assert parse(to_text(function)) == function


@examples(9, nightly=40)
@given(gpu_functions())
def test_gpu_programs_read_back(function: Function) -> None:
    check_round_trip(function)
