"""Check which loops may be bound to GPU threads: a thread must hold what it computes.

And where a reduction may store its identities.
"""

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


def require_kept_in_order(step: Step, before: State, after: State) -> None:
    """Refuse `step` on `before` if in `after` a stage keeps what iterations in no order make."""
    for stage in after.stages:
        if stage.ring is None:
            continue
        loops = after.around(stage)
        owner, loop = loops[-1]
        step.require(
            before, f"'{stage.name}' keeps what '{loop.name}' made, one iteration after the other, "
            f"so the loop cannot be {loop.mark.value}; divide it, and let the inner part keep it",
            (owner.name, loop.name), condition=loop.mark in (Mark.NONE, Mark.UNROLL),
        )  # fmt: skip
        own = ((stage, iterator) for iterator in stage.iterators)
        bound = [(o.name, it.name) for o, it in (*loops, *own) if it.mark is Mark.BIND]
        step.require(
            before, f"'{stage.name}' keeps what iterations made, which threads of a GPU do not "
            "share in order", *bound, condition=not bound,
        )  # fmt: skip


def require_initial_fits(step: Step, before: State, after: State) -> None:
    """Refuse `step` on `before` if in `after` its stage cannot store its identities where it says.

    A nest of its own for them has all loops over results inside that place once more.
    """
    stage = after.stage(step.stage)
    position = stage.position(stage.initial) if stage.initial else None
    if position is None:
        return
    rows = next((it.name for it in stage.iterators[:position] if stage.is_ragged(it)), "")
    step.require(
        before, f"'{rows}' runs over a range that is data and may be empty, and then nothing "
        f"would be stored before '{stage.initial}' inside of it; use a loop outside it",
        (stage.name, rows), condition=not rows,
    )  # fmt: skip
    bound = [it.name for it in stage.iterators[position:] if it.mark is Mark.BIND]
    step.require(
        before, f"the results of '{stage.name}' are set to what they begin with before "
        f"'{stage.initial}', by the loops inside it once more, and a loop that is bound to threads "
        "cannot be there twice; use a loop inside it",
        *((stage.name, name) for name in bound), condition=not bound,
    )  # fmt: skip


def _threads(stage: Stage) -> dict[str, str]:
    """Return the thread index of each loop of `stage` that is bound, without virtual threads."""
    return {
        iterator.name: iterator.thread
        for iterator in stage.iterators
        if iterator.mark is Mark.BIND and iterator.thread != "vthread"
    }
