"""One task on a board: its inputs there, its reference here, and programs checked with both."""

from __future__ import annotations

import signal
import time
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from ansorc.codegen.package.signature import FAULT_STATUS, LACKS_FEATURES, OUT_OF_MEMORY
from ansorc.codegen.program.compiled import CompiledProgram
from ansorc.errors import MeasureError
from ansorc.fleet.board_runner import (
    ArgumentKind,
    BoardProgram,
    BoardRunner,
    BoardTrial,
    TrialOutcome,
    TrialReport,
)
from ansorc.fleet.drawn_inputs import DrawnTask
from ansorc.fleet.runner_link import Refusal, RefusedError
from ansorc.ir.fault import FAULT_WORDS
from ansorc.ir.packing import Packing
from ansorc.search.measure import Failure, FailureKind, Measurement, RunCost, RunOptions
from ansorc.search.measure.check import Comparison
from ansorc.search.measure.messages import CompiledKernel
from ansorc.search.measure.result import Outcome

_PACKED_BYTES = 256 << 20
_WORKSPACE = 0xFFFFFFFF
_STATUS_MEANING = {
    OUT_OF_MEMORY: (FailureKind.OUT_OF_MEMORY, "the kernel could not allocate its buffers"),
    LACKS_FEATURES: (
        FailureKind.COMPILE,
        "the kernel needs instructions that the board's CPU does not have",
    ),
    **{
        status: (FailureKind.WRONG_RESULT, f"candidate rejected: it {FAULT_WORDS[kind]}")
        for kind, status in FAULT_STATUS.items()
    },
}
_REFUSED = {
    Refusal.BAD_OBJECT: FailureKind.COMPILE,
    Refusal.NO_MEMORY: FailureKind.OUT_OF_MEMORY,
}


@dataclass(frozen=True)
class RunOrder:
    """Options for running programs."""

    options: RunOptions
    limit_s: float
    """Time limit of one program."""
    best_s: float = 0.0
    """Time of the best known program in seconds; 0: none."""


class BoardBench:
    """A task whose arrays are on a runner's machine; of no use once that runner is lost."""

    def __init__(self, runner: BoardRunner, drawn: DrawnTask) -> None:
        self._runner, self._drawn = runner, drawn
        self._arrays: dict[str, int] = {}
        self._packed: OrderedDict[Packing, int] = OrderedDict()
        self._verdicts: dict[bytes, Comparison] = {}
        """By digests of all outputs: equal bits are compared once."""
        for buffer in drawn.task.dag.inputs:
            self._arrays[buffer.name] = runner.allocate(buffer.bytes)
            if buffer.name in drawn.draws:
                runner.draw(self._arrays[buffer.name], drawn.draws[buffer.name])
            else:
                runner.write(self._arrays[buffer.name], drawn.inputs[buffer.name].tobytes())
        self._outputs = tuple(
            (buffer.bytes, 0xFF if buffer.dtype.is_float else 0xCD) for buffer, _ in drawn.expected
        )

    def close(self) -> None:
        """Free its arrays on the board."""
        for number in (*self._arrays.values(), *self._packed.values()):
            self._runner.drop(number)
        self._arrays.clear()
        self._packed.clear()

    def measure(self, kernel: CompiledKernel, order: RunOrder) -> Outcome:
        """Check one kernel, and time it unless the machine is emulated."""
        return self._try(kernel, order, is_timed=True)

    def rank(self, kernels: Sequence[CompiledKernel], order: RunOrder) -> list[Outcome | None]:
        """Check all kernels, then time those that are right in turns.

        If one of these fails then, the others are not timed: the outcome of each is None.
        """
        outcomes: list[Outcome | None] = [
            self._try(each, order, is_timed=False) for each in kernels
        ]
        right = {n: known for n, known in enumerate(outcomes) if isinstance(known, Measurement)}
        if self._runner.machine.emulated or not right:
            return outcomes
        programs = tuple(self._load(kernels[n], number) for number, n in enumerate(right))
        trial = BoardTrial(
            programs, self._outputs, order.options, order.limit_s * len(right), in_turns=True
        )
        report = self._runner.run(trial)
        if report.outcome != TrialOutcome.DONE:
            failure = self._failure(report)
            for number, (n, known) in enumerate(right.items()):
                is_at_fault = number == report.program
                outcomes[n] = replace(failure, run=known.run) if is_at_fault else None
            return outcomes
        for (n, known), times in zip(right.items(), report.times, strict=True):
            outcomes[n] = replace(known, seconds=times.seconds)
            if times.digests not in self._verdicts:
                failure = Failure.of(
                    FailureKind.WRONG_RESULT,
                    "candidate rejected: together with others it gave other bits than alone",
                )
                outcomes[n] = replace(failure, run=known.run)
        return outcomes

    def _try(self, kernel: CompiledKernel, order: RunOrder, *, is_timed: bool) -> Outcome:
        clock, emulated = time.perf_counter, self._runner.machine.emulated
        begin = clock()
        try:
            program = self._load(kernel, 0)
            loaded = clock()
            trial = BoardTrial(
                (program,), self._outputs, order.options, order.limit_s, order.best_s,
                is_timed=is_timed and not emulated,
            )  # fmt: skip
            report = self._runner.run(trial)
        except RefusedError as error:
            cost = RunCost(prepare_s=clock() - begin)
            return replace(_failure_of_refusal(error), run=cost)
        ran = clock()
        if report.outcome != TrialOutcome.DONE:
            return replace(self._failure(report), run=RunCost(loaded - begin, ran - loaded))
        (times,) = report.times
        verdict = self._verdict(times.digests)
        cost = RunCost(
            loaded - begin, times.first_s, clock() - ran, max(0.0, ran - loaded - times.first_s)
        )
        if verdict.complaint:
            return replace(Failure.of(FailureKind.WRONG_RESULT, verdict.complaint), run=cost)
        if emulated:
            words = f"right (error {verdict.max_error:.3g} x tolerance), not timed: {emulated}"
            return replace(Failure.of(FailureKind.UNTIMED, words), run=cost)
        return Measurement(
            times.seconds, checked=True, stopped_early=times.stopped_early,
            max_error=verdict.max_error, run=cost,
        )  # fmt: skip

    def _load(self, kernel: CompiledKernel, code: int) -> BoardProgram:
        """The kernel on the board, with its constants packed there."""
        signature = kernel.signature
        self._runner.load(code, CompiledProgram.from_bytes(kernel.code).image, signature.name)
        packings = {packing.source.name: packing for packing in kernel.packings}
        constants = {b.name for b in self._drawn.task.dag.inputs if b.constant}
        numbers = {buffer.name: n for n, (buffer, _) in enumerate(self._drawn.expected)}
        arguments: list[tuple[ArgumentKind, int]] = []
        for buffer in self._drawn.task.dag.params:
            if buffer.name in numbers:
                arguments.append((ArgumentKind.OUTPUT, numbers[buffer.name]))
                continue
            kind = ArgumentKind.CONSTANT if buffer.name in constants else ArgumentKind.INPUT
            packing = packings.get(buffer.name)
            array = self._arrays[buffer.name] if packing is None else self._pack_array(packing)
            arguments.append((kind, array))
        return BoardProgram(code, signature.workspace_bytes, tuple(arguments))

    def _pack_array(self, packing: Packing) -> int:
        """A packed constant on the board; the latest used are kept."""
        if packing not in self._packed:
            number = self._runner.allocate(packing.packed.bytes)
            name = packing.source.name
            if packing.transforms:
                packed = packing.apply(self._drawn.inputs[name])
                self._runner.write(number, packed.tobytes())
            else:
                self._runner.pack(self._arrays[name], number, packing)
            self._packed[packing] = number
        self._packed.move_to_end(packing)
        while sum(array.packed.bytes for array in self._packed) > _PACKED_BYTES:
            if len(self._packed) <= len(self._arrays):
                break  # what one program reads at once
            self._runner.drop(self._packed.popitem(last=False)[1])
        return self._packed[packing]

    def _verdict(self, digests: bytes) -> Comparison:
        """Return how right the outputs of the last trial are; new bits are fetched."""
        if digests not in self._verdicts:
            worst = Comparison(0.0)
            for number, (buffer, expectation) in enumerate(self._drawn.expected):
                dtype = np.dtype(buffer.dtype.numpy)
                actual = self._runner.fetch(number, dtype, buffer.elements)
                comparison = expectation.compare(actual.reshape(buffer.shape))
                worst = comparison if comparison.max_error >= worst.max_error else worst
                if comparison.complaint:
                    return comparison
            self._verdicts[digests] = worst
        return self._verdicts[digests]

    def _failure(self, report: TrialReport) -> Failure:
        """Return the failure to record of a program that did not come to its end."""
        match report.outcome:
            case TrialOutcome.STATUS:
                default = FailureKind.UNKNOWN, f"the kernel returned {report.value}"
                return Failure.of(*_STATUS_MEANING.get(report.value, default))
            case TrialOutcome.SIGNAL:
                name = str(report.value)
                with suppress(ValueError):
                    name = signal.Signals(report.value).name
                words = f"the process on the board died by {name} {report.stage}"
                if report.value == signal.SIGKILL:
                    words += "; maybe the board has no memory left"
                return Failure.of(FailureKind.CRASH, words)
            case TrialOutcome.TIMEOUT:
                words = f"it was stopped after its time limit {report.stage}"
                return Failure.of(FailureKind.RUN_TIMEOUT, words)
            case TrialOutcome.OUTSIDE:
                where = "memory" if report.value == _WORKSPACE else "output"
                words = f"candidate rejected: it wrote outside its {where}"
                return Failure.of(FailureKind.WRONG_RESULT, words)
            case TrialOutcome.NO_MEMORY:
                words = "the board has no memory for the outputs and the workspace"
                return Failure.of(FailureKind.OUT_OF_MEMORY, words)
            case _:
                words = f"the kernel ended the process on the board {report.stage}"
                return Failure.of(FailureKind.CRASH, words)


def _failure_of_refusal(error: RefusedError) -> Failure:
    """The program's failure where the runner refuses it; raise MeasureError for other refusals."""
    kind = _REFUSED.get(Refusal(error.why))
    if kind is None:
        raise MeasureError(f"the runner refuses: {error}") from error
    return Failure.of(kind, f"the board's runner: {error}")
