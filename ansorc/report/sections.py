"""The sections of a report: a title, charts and HTML."""

from __future__ import annotations

import difflib
import html
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from ansorc.codegen.base import LoopBackend, MachineLimits, backend_of
from ansorc.codegen.build import prepare
from ansorc.errors import AnsorcError
from ansorc.fleet.status import HEADINGS, devices_at, summary_of
from ansorc.report import charts
from ansorc.report.charts import Spec
from ansorc.report.history import PAUSE_S, History, retrain
from ansorc.schedule import lower, replay
from ansorc.search.programs import ChosenSchedule, program_of_record
from ansorc.search.record import Record
from ansorc.search.task import Task
from ansorc.target.units import seconds_text


@dataclass(frozen=True)
class PagePart:
    """A part of the page."""

    title: str
    body: str
    """HTML."""
    specs: tuple[Spec, ...] = ()
    """The charts before the body."""


def task_sections(history: History, limits: MachineLimits | None) -> list[PagePart]:
    """Return the sections about one task; `limits` are those of its machine, if known."""
    makers: tuple[Callable[[History], PagePart], ...] = (
        _summary, _curve, _time, _failures, _model,
        lambda one: _roofline(one, limits), _loops, _assembly, _environment,
    )  # fmt: skip
    return [make(history) for make in makers]


def file_sections(histories: Sequence[History], weights: Sequence[int] | None) -> list[PagePart]:
    """Return the sections about several tasks; `weights`: the calls of each in a network."""
    counts = weights or [1] * len(histories)
    times = [
        (history_.name, count * history_.best.median_s)
        for history_, count in zip(histories, counts, strict=True)
        if history_.best is not None and history_.best.median_s is not None
    ]
    times.sort(key=lambda history_: -history_[1])
    total = sum(value for _, value in times)
    rows = [(name, seconds_text(value), f"{value / total:.1%}") for name, value in times]
    words = "of one call of the network" if weights else (
        "each task counted once: give --task NETWORK.onnx to count how often each runs"
    )  # fmt: skip
    share = PagePart(
        "Share of each task",
        f"<p>{_text(f'{seconds_text(total)} in all, {words}.')}</p>"
        + _table(("task", "time", "share"), rows),
        (charts.shares(times),) if times else (),
    )
    trials = [(history_.name, str(len(history_.records)), str(sum(history_.failures.values())),
               "" if history_.best is None else _time_of(history_.best))
              for history_ in histories]  # fmt: skip
    over_time = PagePart(
        "Trials of each task",
        _table(("task", "trials", "failed", "best"), trials),
        (charts.trials_over_time(histories),),
    )
    return [share, over_time, _environment(histories[0])]


def _summary(history: History) -> PagePart:
    rows = [("trials", str(len(history.records))), ("failed", str(sum(history.failures.values())))]
    best, untuned = history.best, history.default_record
    if best is not None and best.median_s:
        share = best.spread_s / best.median_s
        rows.append(("best", f"{_time_of(best)}, spread {share:.1%}"))
        if history.task is not None and history.task.dag.flops:
            rows.append(("speed", f"{history.task.dag.flops / best.median_s / 1e9:.1f} GFLOP/s"))
        if untuned is not None and untuned.median_s:
            words = f"{_time_of(untuned)}, {untuned.median_s / best.median_s:.2f} times the best"
            rows.append(("untuned default", words))
    else:
        rows.append(("best", "no program was measured and checked"))
    return PagePart("Result", _table((), rows))


def _curve(history: History) -> PagePart:
    body = ""
    if history.failures:
        body = "<p>Failed trials stand at the lower edge.</p>"
    return PagePart("Best time by trial", body, (charts.curve(history),))


def _time(history: History) -> PagePart:
    builds = sum(record.build_s for record in history.records)
    runs = sum(record.run_s for record in history.records)
    title = "Where the time went"
    if builds + runs == 0.0:
        return PagePart(title, "<p>The records do not say: they are of an earlier version.</p>")
    words = (
        f"{history.busy_s:.0f} s from the first trial to the last, pauses of more than "
        f"{PAUSE_S:.0f} s left out. Building and running are seconds of the worker processes, "
        "several of which work at once; searching is not recorded."
    )
    spec = charts.seconds_by_phase({"building programs": builds, "running programs": runs})
    return PagePart(title, f"<p>{_text(words)}</p>", (spec,))


def _failures(history: History) -> PagePart:
    title = "Failures by class"
    if not history.failures:
        return PagePart(title, "<p>No trial failed.</p>")
    rows = [
        (name, str(count), history.example(name)) for name, count in history.failures.most_common()
    ]
    return PagePart(title, _table(("class", "trials", "the first one"), rows),
                   (charts.failures(history),))  # fmt: skip


def _model(history: History) -> PagePart:
    title = "How well the model predicted"
    forecasts, qualities = retrain(history)
    if not forecasts:
        words = "There are too few rounds with measured programs to learn from and then predict."
        return PagePart(title, f"<p>{words}</p>")
    specs = [charts.predictions(forecasts)]
    if qualities:
        specs.append(charts.ranking(qualities))
    words = (
        "What the run itself expected is not in the records. For each round a model was trained "
        "again, on the trials before that round alone, and asked for the times of the round."
    )
    return PagePart(title, f"<p>{words}</p>", tuple(specs))


def _roofline(history: History, limits: MachineLimits | None) -> PagePart:
    title, task = "Roofline", history.task
    if task is None or not task.dag.flops:
        return PagePart(title, "<p>The task is not known, or does no arithmetic to count.</p>")
    if limits is None:
        words = (
            "The limits of the machine are not known here: make the report on the machine that "
            "measured, without --no-limits."
        )
        return PagePart(title, f"<p>{words}</p>")
    records = {"best": history.best, "untuned default": history.default_record}
    rates = {
        name: task.dag.flops / record.median_s
        for name, record in records.items()
        if record is not None and record.median_s
    }
    moved = sum(buffer.bytes for buffer in task.dag.params)
    is_one = history.environment.running == 1
    peak = limits.fma_one if is_one else limits.fma_all
    read = limits.read_one if is_one else limits.read_all
    words = (
        f"Peak {peak / 1e9:.0f} GFLOP/s, memory {read / 1e9:.1f} GB/s, float32, both measured "
        f"when this page was made. {moved / 1e6:.3g} MB of inputs and outputs are counted once."
    )
    spec = charts.roofline(task.dag.flops / moved, rates, limits, one_core=is_one)
    return PagePart(title, f"<p>{_text(words)}</p>", (spec,))


def _loops(history: History) -> PagePart:
    title = "The best loops and those of the untuned default"
    best, untuned = _best_program(history), history.default
    if history.task is None or best is None or untuned is None:
        return PagePart(title, "<p>There is no best program, or this version cannot read it.</p>")
    texts = [str(replay(history.task.dag, record.steps)).splitlines() for record in (best, untuned)]
    marks = _differing(*texts)
    columns = "".join(
        f"<figure><figcaption>{name}</figcaption><pre tabindex='0' aria-label='{name}'>"
        + "\n".join(_line(text, number in mark) for number, text in enumerate(lines))
        + "</pre></figure>"
        for name, lines, mark in zip(("best", "untuned default"), texts, marks, strict=True)
    )
    words = "<p>Marked lines are not in the other program.</p>"
    return PagePart(title, f"{words}<div class='beside'>{columns}</div>")


def _differing(first: Sequence[str], second: Sequence[str]) -> tuple[set[int], set[int]]:
    """Return the numbers of the lines of each text that the other one does not have."""
    marks: tuple[set[int], set[int]] = (set(range(len(first))), set(range(len(second))))
    matcher = difflib.SequenceMatcher(None, first, second, autojunk=False)
    for first_, second_, size in matcher.get_matching_blocks():
        marks[0].difference_update(range(first_, first_ + size))
        marks[1].difference_update(range(second_, second_ + size))
    return marks


def _line(text: str, is_marked: bool) -> str:  # noqa: FBT001
    return f"<mark>{_text(text)}</mark>" if is_marked else _text(text)


def _assembly(history: History) -> PagePart:
    title = "The instructions of its assembly"
    best = _best_program(history)
    if history.task is None or best is None:
        return PagePart(title, "<p>There is no best program, or this version cannot read it.</p>")
    try:
        loops = _innermost_loops(history.task, best)
    except AnsorcError as error:
        words = str(error).partition("\n")[0]
        return PagePart(title, f"<p>It cannot be made here: {_text(words)}</p>")
    if not loops:
        return PagePart(title, "<p>It has no loop.</p>")
    items = "".join(f"<li>{_text(loop)}</li>" for loop in loops)
    return PagePart(title, f"<p>Its innermost loops:</p><ul>{items}</ul>")


def _innermost_loops(task: Task, program: ChosenSchedule) -> list[str]:
    """Return the summary of each innermost loop of the program's assembly."""
    backend = backend_of(task.target)
    if not isinstance(backend, LoopBackend):
        return ["the back end of this target has no listing of loops"]
    function = prepare(lower(replay(task.dag, program.steps), task.name), task.target)
    return list(backend.innermost_loops(backend.emit(function, task.target), task.target))


def _best_program(history: History) -> ChosenSchedule | None:
    if history.best is None or history.task is None:
        return None
    try:
        program = program_of_record(history.task, history.best)
        replay(history.task.dag, program.steps)
    except (AnsorcError, ValueError):
        return None
    return program


def _environment(history: History) -> PagePart:
    environment, records = history.environment, history.records
    rows = [
        ("CPU", environment.cpu), ("features", " ".join(environment.features)),
        ("cores", str(environment.cores)), ("threads", str(environment.running)),
        ("caches when timed", environment.cache),
        ("target", history.task.target.text if history.task else "unknown"),
        ("measured with", "; ".join(sorted({f"ansorc {record.version}" for record in records}))),
        ("seeds", ", ".join(map(str, sorted({record.seed for record in records})))),
        ("measured", f"{_date(records[0])} to {_date(records[-1])}"),
    ]  # fmt: skip
    return PagePart("Environment", _table((), rows))


def fleet_sections(scheduler: str) -> list[PagePart]:
    """Return the section about the devices of a fleet, or why it is unknown; none for ""."""
    if not scheduler:
        return []
    try:
        devices = devices_at(scheduler)
    except AnsorcError as error:
        return [PagePart("Fleet", f"<p>{_text(str(error))}</p>")]
    table = _table(HEADINGS, [device.row() for device in devices])
    notes = "".join(
        f"<p>{_text(device.note)}</p>" for device in devices if device.state == "kept apart"
    )
    words = f"{scheduler}, when this page was made: {summary_of(devices)}"
    return [PagePart("Fleet", f"<p>{_text(words)}</p>{table}{notes}")]


def _date(record: Record) -> str:
    try:
        return datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (OverflowError, ValueError, OSError):
        return "unknown"


def _time_of(record: Record) -> str:
    return "" if record.median_s is None else seconds_text(record.median_s)


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; without `headings` the first column holds them."""
    head = "".join(f"<th scope='col'>{_text(cell)}</th>" for cell in headings)
    lines: list[str] = [f"<tr>{head}</tr>"] if headings else []
    for first, *others in rows:
        cells = "".join(f"<td>{_text(cell)}</td>" for cell in others)
        header = f"<th scope='row'>{_text(first)}</th>" if first else "<td></td>"
        lines.append(f"<tr>{header}{cells}</tr>")
    return f"<div class='wide' tabindex='0'><table>{''.join(lines)}</table></div>"


def _text(words: str) -> str:
    return html.escape(words)


def as_script(specs: Sequence[Spec]) -> str:
    """Return charts as JSON that is safe inside a script of a page, whatever their texts."""
    return json.dumps(specs, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
