"""`ansorc show`: a schedule and everything that is made of it, for debugging by reading."""

from __future__ import annotations

import click

from ansorc.cli.arguments import TaskOrNetworks, networks_of, takes_choice, takes_workload
from ansorc.cli.network_views import NETWORK_VIEWS, show_network
from ansorc.codegen.base import CountingBackend, backend_of
from ansorc.codegen.build import prepare
from ansorc.errors import BuildError
from ansorc.ir.printer import to_text
from ansorc.ir.stmt import Function
from ansorc.schedule import lower, replay
from ansorc.search.programs import Program, ProgramChoice, chosen_program
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
@takes_workload
@takes_choice
@click.option("--view", "views", multiple=True, metavar="VIEW",
              help="What to print; may be repeated. Default: schedule and ir.")  # fmt: skip
@click.option("--asm", "with_assembly", is_flag=True, help="The same as --view asm.")
def show(
    workload: TaskOrNetworks, choice: ProgramChoice, views: tuple[str, ...], *, with_assembly: bool
) -> None:
    """Print the best recorded program of a workload: loops, IR, LLVM IR, assembly.

    Of a network: its nodes, its tasks, its memory.

    Example:  ansorc show gemm.py:matmul --view schedule --asm
    """
    if not isinstance(workload, Task):
        for network in networks_of([workload]):
            show_network(network, choice, views)
        return
    task = workload
    known = dict.fromkeys((*_VIEWS, *backend_of(task.target).listings))
    for view in set(views) - set(known):
        words = f"'{view}' is not one of {', '.join(map(repr, known))}."
        raise click.BadParameter(words, param_hint="'--view'")
    program = chosen_program(task, choice)
    click.echo(f"# {task.name}: {program.origin}, for {task.target.text}")
    for view in (*views, "asm") if with_assembly else views or ("schedule", "ir"):
        click.echo(f"\n# {_VIEWS.get(view, view)}\n{_text(task, program, view).rstrip()}")


def _text(task: Task, program: Program, view: str) -> str:
    """The text of one of `_VIEWS`, or of those that only the target's back end has."""
    state = replay(task.dag, program.steps)
    match view:
        case "dag":
            return task.dag.to_text()
        case "sketches":
            return _derivations(task)
        case "schedule":
            return str(state)
        case "ir":
            return to_text(lower(state, task.name))
        case "passes":
            return _after_each_pass(lower(state, task.name), task)
        case _:
            return _listing(lower(state, task.name), task.target, view)


def _listing(lowered: Function, target: Target, view: str) -> str:
    """The text that the target's back end makes, or what it is made into."""
    backend = backend_of(target)
    counting = backend if view == "counts" and isinstance(backend, CountingBackend) else None
    if counting is None and view not in backend.listings:
        known = ", ".join(backend.listings)
        raise BuildError(f"the back end of '{target.text}' has no view '{view}'; it has {known}")
    prepared = prepare(lowered, target)
    text = backend.emit(prepared, target)
    if counting is not None:
        return counting.counts(prepared, text, target)
    return backend.listings[view](text, target)


def _derivations(task: Task) -> str:
    lines: list[str] = []
    for sketch in generate(task.dag, task.target, sketch_rules(target=task.target)):
        lines.append(sketch.name or "no change")
        lines += [f"    {applied.rule} on {applied.stage}" for applied in sketch.derivation]
    return "\n".join(lines)


def _after_each_pass(lowered: Function, task: Task) -> str:
    texts: list[str] = []

    def note(name: str, function: Function) -> None:
        texts.append(f"# after {name}\n{to_text(function)}")

    prepare(lowered, task.target, note)
    return "\n".join(texts)
