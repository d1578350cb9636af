"""`ansorc show`: print a schedule and the code made from it, for debugging by reading."""

from __future__ import annotations

from dataclasses import dataclass

import click

from ansorc.cli.arguments import (
    TaskOrNetworks,
    networks_of,
    takes_choice,
    takes_workload_if_given,
)
from ansorc.cli.bisect_view import show_bisection
from ansorc.cli.network_bisect import show_network_bisection
from ansorc.cli.network_views import NETWORK_VIEWS, show_network
from ansorc.cli.record_view import find_record, rebuild, show_record
from ansorc.codegen.base import CountingBackend, backend_of
from ansorc.codegen.build import prepare
from ansorc.errors import (
    BuildError,
    InternalError,
    LanguageError,
    ParseError,
    RecordError,
    ScheduleError,
)
from ansorc.ir.packing import Packing
from ansorc.ir.parser import parse
from ansorc.ir.printer import to_text
from ansorc.ir.stmt import Function
from ansorc.schedule import Names, State, lower, packings, replay
from ansorc.search.measure import ProgramText
from ansorc.search.programs import ProgramChoice, choose_program
from ansorc.search.record import Record
from ansorc.search.sketch import generate
from ansorc.search.space import sketch_rules
from ansorc.search.task import Task
from ansorc.target import Target

_VIEWS = {
    "dag": "the computation",
    "schedule": "the schedule as nested loops",
    "ir": "the loop program, as lowered",
    "passes": "the loop program after each pass",
    "llvm": "the LLVM IR that is emitted",
    "optimized": "the LLVM IR after LLVM's passes",
    "asm": "the assembly, with its innermost loops marked",
    "counts": "for GPUs, what compiler and memory make of it, in figures",
    "sketches": "the structures that the search chooses from, and the rules that derived them",
}


@click.command(
    epilog="Views: "
    + "; ".join(f"{view}, {what}" for view, what in _VIEWS.items())
    + "; and those of the target's back end. Of networks: "
    + "; ".join(f"{view}, {what}" for view, what in NETWORK_VIEWS.items()),
)
@takes_workload_if_given
@takes_choice
@click.option("--view", "views", multiple=True, metavar="VIEW",
              help="What to print; may be repeated. Default: schedule and ir.")  # fmt: skip
@click.option("--asm", "with_assembly", is_flag=True, help="The same as --view asm.")
@click.option("--record", "record_id", default="", metavar="ID",
              help="A program of the record file, also a failed one, by the beginning of its key "
                   "(`ansorc records list FILE --task NAME`); without --view it is built and "
                   "measured again, in worker processes.")  # fmt: skip
@click.option("--bisect", is_flag=True,
              help="Run the loops in the interpreter, check them against float64, and name the "
                   "first pass after which they are wrong; of a network, the rewrite or "
                   "the kernel.")  # fmt: skip
def show(
    workload: TaskOrNetworks | None, choice: ProgramChoice, views: tuple[str, ...], record_id: str,
    *, with_assembly: bool, bisect: bool,
) -> None:  # fmt: skip
    """Print the best recorded program of a workload: loops, IR, LLVM IR, assembly.

    For a network, print its nodes, its tasks or its memory. With --record, print any program of a
    record file; no workload need be named then.

    Example:  ansorc show gemm.py:matmul --view schedule --asm
    """
    if workload is not None and not isinstance(workload, Task):
        if record_id:
            raise click.UsageError(
                "a record is of an operator; name it alone, without the network that has it"
            )
        for network in networks_of([workload]):
            if bisect:
                show_network_bisection(network, choice)
            else:
                show_network(network, choice, views)
        return
    asked = (*views, "asm") if with_assembly else views
    if record_id:
        task, record = find_record(choice.records, record_id, workload)
        _require_known(asked, task)
        show_record(task, record)
        program = ShownProgram(task, record.program)
    elif workload is None:
        raise click.UsageError("name a workload, FILE:WORKLOAD or NETWORK.onnx, or --record ID")
    else:
        task, record = workload, None
        _require_known(asked, task)
        chosen = choose_program(task, choice)
        program = ShownProgram(task, ProgramText.encode(chosen.steps, Names(task.dag)))
        click.echo(f"# {task.name}: {chosen.origin}, for {task.target.text}")
    if bisect:
        lower_program, layouts = program.lower_program(), program.layouts()
        show_bisection(task, lower_program, layouts, program.text, choice.threads)
        return
    usual = () if program.text.function else ("schedule", "ir")
    for view in asked or usual:
        click.echo(f"\n# {_VIEWS.get(view, view)}\n{_view_text(program, view, record).rstrip()}")
    if record is not None and not asked:
        rebuild(task, record)


@dataclass(frozen=True)
class ShownProgram:
    """A program of a task, and what can be shown of it."""

    task: Task
    text: ProgramText

    def state(self) -> State:
        """Return the schedule; raise ScheduleError if a step does not fit."""
        if self.text.function:
            raise RecordError("the program was given as loops, which have no schedule")
        return replay(self.task.dag, self.text.decode(Names(self.task.dag)))

    def layouts(self) -> tuple[Packing, ...]:
        """Return the packings of its constants."""
        return () if self.text.function else packings(self.state())

    def lower_program(self) -> Function:
        """Return the loops before all passes; raise as `state`."""
        if self.text.function:
            return parse(self.text.function)
        return lower(self.state(), self.task.name)


def _require_known(views: tuple[str, ...], task: Task) -> None:
    known = dict.fromkeys((*_VIEWS, *backend_of(task.target).listings))
    for view in views:
        if view not in known:
            words = f"'{view}' is not one of {', '.join(map(repr, known))}."
            raise click.BadParameter(words, param_hint="'--view'")


def _view_text(program: ShownProgram, view: str, record: Record | None) -> str:
    """Return the text of a view, or the reason why a record cannot be shown."""
    if record is None:
        return _text(program, view)
    try:
        return _text(program, view)
    except (ScheduleError, LanguageError, RecordError, ParseError, BuildError, InternalError) as e:
        return f"cannot be made: {e}"


def _text(program: ShownProgram, view: str) -> str:
    """Return the text of one of `_VIEWS`, or of a view of the target's back end."""
    task = program.task
    match view:
        case "dag":
            return task.dag.to_text()
        case "sketches":
            return _derivations(task)
        case "schedule":
            return str(program.state())
        case "ir":
            return to_text(program.lower_program())
        case "passes":
            return _after_each_pass(program.lower_program(), task)
        case _:
            return _listing(program.lower_program(), task.target, view)


def _listing(lower_program: Function, target: Target, view: str) -> str:
    """Return the text that the target's back end emits, or its machine code."""
    backend = backend_of(target)
    counting = backend if view == "counts" and isinstance(backend, CountingBackend) else None
    if counting is None and view not in backend.listings:
        known = ", ".join(backend.listings)
        raise BuildError(f"the back end of '{target.text}' has no view '{view}'; it has {known}")
    prepared = prepare(lower_program, target)
    source = backend.emit(prepared, target)
    if counting is not None:
        return counting.counts(prepared, source, target)
    return backend.listings[view](source, target)


def _derivations(task: Task) -> str:
    lines: list[str] = []
    for sketch in generate(task.dag, task.target, sketch_rules(target=task.target)):
        lines.append(sketch.name or "no change")
        lines += [f"    {applied.rule} on {applied.stage}" for applied in sketch.derivation]
    return "\n".join(lines)


def _after_each_pass(lower_program: Function, task: Task) -> str:
    texts: list[str] = []

    def note(name: str, function: Function) -> None:
        texts.append(f"# after {name}\n{to_text(function)}")

    prepare(lower_program, task.target, note)
    return "\n".join(texts)
