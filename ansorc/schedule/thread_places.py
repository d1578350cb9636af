"""Which loops may be GPU threads where: what a thread computes must be what it holds."""

from __future__ import annotations

from ansorc.schedule.stage import At, Mark, Stage
from ansorc.schedule.state import State, Step


def require_threads_fit(step: Step, before: State, after: State) -> None:
    """Refuse `step` on `before` if in `after` a stage inside others is computed in part only.

    Blocks are started outermost. Threads inside others share the work of a stage only if they
    share the memory that holds it: else each computes a part, and reads what it has not.
    """
    for stage in after.stages:
        if isinstance(stage.attach, At):
            own = _threads(stage)
            blocks = [name for name, thread in own.items() if thread.startswith("blockIdx")]
            step.require(
                before, f"'{stage.name}' is computed inside a loop of '{stage.attach.stage}', "
                "and blocks are started by outermost loops alone",
                *((stage.name, name) for name in blocks), condition=not blocks,
            )  # fmt: skip
            outer = [
                (place.name, iterator.name)
                for place, iterator in after.around(stage)
                if iterator.mark is Mark.BIND and iterator.thread.startswith("threadIdx")
            ]
            step.require(
                before, f"'{stage.name}' is computed in a loop over threads, each of which holds "
                "its own values, so it cannot be shared out among threads; hold it in shared "
                "memory",
                *outer, *((stage.name, name) for name in own),
                condition=not own or not outer or stage.scope == "shared",
            )  # fmt: skip


def _threads(stage: Stage) -> dict[str, str]:
    """The thread of each loop of `stage` that is bound to one, virtual ones left out."""
    return {
        iterator.name: iterator.thread
        for iterator in stage.iterators
        if iterator.mark is Mark.BIND and iterator.thread != "vthread"
    }
