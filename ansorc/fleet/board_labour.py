"""The jobs of a worker that lends a board to a fleet: it builds here and measures there."""

from __future__ import annotations

from ansorc.fleet.board import Board, BoardMeasurer
from ansorc.fleet.device import measure_job
from ansorc.fleet.jobs import TaskOrder, answer_build, programs_of
from ansorc.search.measure import Stopwatch
from ansorc.search.measure.messages import Message


class BoardLabour:
    """Does jobs on `board`, which it closes at the end."""

    def __init__(self, board: Board) -> None:
        self._board = board

    def do(self, job: Message) -> Message:
        """Do one job; raise MeasureError where no runner answers."""
        order = TaskOrder.of(job)
        if job.text("kind") == "build":
            programs = programs_of(job)
            (reply,) = self._board.build(order.task, programs, order.options)
            return answer_build(job, reply)
        measurer = BoardMeasurer(self._board, order.task, order.options, 0.0, Stopwatch())
        return measure_job(job, measurer)

    def close(self) -> None:
        """End the runner and the builders."""
        self._board.close()
