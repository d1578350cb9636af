"""Check which loops may be bound to GPU threads: a thread must hold what it computes."""

from __future__ import annotations

from ansorc.schedule.stage import At, Mark, Stage
from ansorc.schedule.state import State, Step


def require_threads_fit(step: Step, before: State, after: State) -> None:
    """Refuse `step` on `before` if in `after` an attached stage is only computed in part.

    Only outermost loops start blocks. Threads share the work of an attached stage only if they
    share the memory that holds it; otherwise each computes a part and reads elements that it does
    not have.
    """
    nest = after.root(after.stage(step.stage))
    for stage in after.stages:
        if isinstance(stage.attach, At) and after.root(stage) is nest:
            threads = _threads(stage)
            blocks = [name for name, thread in threads.items() if thread.startswith("blockIdx")]
            step.require(
                before, f"'{stage.name}' is computed inside a loop of '{stage.attach.stage}', "
                "and blocks are started by outermost loops alone",
                *((stage.name, name) for name in blocks), condition=not blocks,
            )  # fmt: skip
            outer = [
                (outer_stage.name, iterator.name)
                for outer_stage, iterator in after.around(stage)
                if iterator.mark is Mark.BIND and iterator.thread.startswith("threadIdx")
            ]
            step.require(
                before, f"'{stage.name}' is computed in a loop over threads, each of which holds "
                "its own values, so it cannot be shared out among threads; hold it in shared "
                "memory",
                *outer, *((stage.name, name) for name in threads),
                condition=not threads or not outer or stage.scope == "shared",
            )  # fmt: skip


def _threads(stage: Stage) -> dict[str, str]:
    """Return the thread index of each loop of `stage` that is bound, without virtual threads."""
    return {
        iterator.name: iterator.thread
        for iterator in stage.iterators
        if iterator.mark is Mark.BIND and iterator.thread != "vthread"
    }
