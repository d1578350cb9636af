"""The runner's machine code: loading, calls that go wrong, draws, packings, on each machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from ansorc.fleet.board_runner import BoardRunner, TrialOutcome
from ansorc.fleet.drawn_inputs import Draw
from ansorc.fleet.runner_link import RefusedError
from ansorc.ir.buffer import Buffer
from ansorc.ir.dtype import dtype
from ansorc.ir.packing import PackedPart, Packing
from tests.runtime.runner.runners import (
    QUICK,
    SIZE,
    Machine,
    each_machine,
    object_of,
    runner_of,
    trial,
)


@pytest.fixture
def runner(machine: Machine, made: Path) -> Iterator[BoardRunner]:
    with closing(BoardRunner(runner_of(machine, made))) as started:
        yield started


def bytes_of(runner: BoardRunner, machine: Machine, made: Path, array: int) -> NDArray[np.generic]:
    """What an array of SIZE bytes holds, copied by a kernel."""
    runner.load(0, object_of(machine, made), "copy")
    report = runner.run(trial(array))
    assert report.outcome == TrialOutcome.DONE
    return runner.fetch(0, np.dtype(np.uint8), SIZE)


FAULTS = {
    "crash": (TrialOutcome.SIGNAL, 11),
    "hang": (TrialOutcome.TIMEOUT, 0),
    "before": (TrialOutcome.OUTSIDE, 0),
    "after": (TrialOutcome.OUTSIDE, 0),
    "far_after": (TrialOutcome.SIGNAL, 11),
    "to_input": (TrialOutcome.SIGNAL, 11),
    "beyond_workspace": (TrialOutcome.OUTSIDE, 0xFFFFFFFF),
    "fails": (TrialOutcome.STATUS, 7),
}


@each_machine
def test_a_kernel_harms_its_own_process_alone(
    runner: BoardRunner, machine: Machine, made: Path
) -> None:
    array = runner.allocate(SIZE)
    code = object_of(machine, made)
    for name, (outcome, value) in FAULTS.items():
        runner.load(0, code, name)
        report = runner.run(trial(array, workspace=100, limit_s=1.0 if name == "hang" else 20.0))
        assert (report.outcome, report.stage) == (outcome, "in its first call"), name
        assert outcome == TrialOutcome.TIMEOUT or report.value == value, name
        assert not report.times
    runner.load(0, code, "works")
    report = runner.run(trial(array, workspace=100))
    assert report.outcome == TrialOutcome.DONE, report
    (times,) = report.times
    assert len(times.seconds) >= QUICK.min_repeats
    assert all(0 < one < 1 for one in times.seconds)


@each_machine
def test_what_cannot_be_loaded_is_refused_by_name(
    runner: BoardRunner, machine: Machine, made: Path
) -> None:
    code = object_of(machine, made)
    refused = [
        (object_of(machine, made, "UNKNOWN"), "calls", "it calls 'unheard_of', which the runner"),
        (object_of(machine, made, "THREAD_LOCAL"), "reads", "own'|__tls_get_addr"),
        (code, "absent", "it has no function 'absent'"),
        (code[: len(code) // 2], "copy", "not inside of it"),
        (b"\x7fELF" + bytes(99), "copy", "is for machine 0 of ELF"),
        (b"text", "copy", "no ELF file"),
        (bytes(code[:16]) + b"\3\0" + bytes(code[18:]), "copy", "ELF type 3"),
    ]
    for wrong, name, words in refused:
        with pytest.raises(RefusedError, match=words):
            runner.load(0, wrong, name)
    with pytest.raises(RefusedError, match="not described right"):
        runner.run(trial(runner.allocate(SIZE)))
    runner.load(0, code, "copy")
    assert runner.run(trial(runner.allocate(SIZE))).outcome == TrialOutcome.DONE


@each_machine
def test_both_sides_draw_the_same_inputs(runner: BoardRunner, machine: Machine, made: Path) -> None:
    array = runner.allocate(SIZE)
    names = "float16", "bfloat16", "float32", "float64", "int8", "int32", "int64", "uint8", "bool"
    for seed, name in enumerate(names):
        for is_positive in (False, True):
            drawn = Draw((seed << 32) + 1, dtype(name), is_positive)
            mine = drawn.array((SIZE // dtype(name).bytes,))
            runner.draw(array, drawn)
            found = bytes_of(runner, machine, made, array)
            assert found.tobytes() == mine.tobytes(), name
            assert len(np.unique(mine)) > (100 if drawn.dtype.is_float else 1)
            assert not is_positive or not drawn.dtype.is_float or mine.min() >= 0.5


@each_machine
def test_both_sides_pack_constants_alike(runner: BoardRunner, machine: Machine, made: Path) -> None:
    source = Buffer("w", (6, 7), dtype("float32"), constant=True)
    parts = PackedPart(1, 4, 2), PackedPart(0, 2, 5), PackedPart(0, 1, 5), PackedPart(1, 1, 5)
    values = np.random.default_rng(3).standard_normal(source.shape).astype(np.float32)
    weight, array = runner.allocate(values.nbytes), runner.allocate(SIZE)
    runner.write(weight, values.tobytes())
    for offsets in ((0, 0), (-1, -2)):
        packing = Packing(source, parts, offsets)
        runner.pack(weight, array, packing)
        packed = packing.apply(values)
        assert (packed == 0).any(), "it is filled up"
        assert bytes_of(runner, machine, made, array).tobytes() == packed.tobytes()
    with pytest.raises(RefusedError, match="does not fit"):
        runner.pack(weight, array, Packing(source, (PackedPart(0, 1, 300),), (0, 0)))
