"""ComputeAt, ComputeInline, ComputeRoot: where a stage is computed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from ansorc.ir.operator import TILE_FUNCTIONS
from ansorc.schedule.bounds import region, settle
from ansorc.schedule.inlining import MOST_REPEATED, inline_op
from ansorc.schedule.stage import At, Inlined, Mark, Ring, Root, Stage, fresh_iterators
from ansorc.schedule.state import Renaming, State, Step
from ansorc.schedule.thread_places import require_kept_in_order, require_threads_fit
from ansorc.schedule.unrolling import require_bounded


@dataclass(frozen=True)
class AtLoop(Step):
    """A step that places a stage relative to a loop of another one, `target`."""

    keeps_arrays = False

    target: str
    iterator: str

    def rename(self, names: Renaming) -> Self:
        """Return the step with both stages and the loop renamed as in `names.target`."""
        return self._renamed(names, str(names.loops(self, self.target, self.iterator)))

    def _renamed(self, names: Renaming, iterator: str) -> Self:
        target = names.stage(self, self.target)
        return replace(self, stage=names.stage(self, self.stage), target=target, iterator=iterator)


@dataclass(frozen=True)
class ComputeAt(AtLoop):
    """Compute a stage inside a loop of `target`, only the region that is needed there.

        for i: P[i] = …              for i:
        for i: C[i] = f(P[i])   ->       P[i] = …
                                         C[i] = f(P[i])

    All readers of the stage must lie inside that loop. The loops of the stage then run over the
    region, so this comes before its own splits.
    """

    def apply(self, state: State) -> State:
        """Return the state with the stage attached."""
        stage, target = self.stage_of(state), self.stage_of(state, self.target)
        position = self.position_of(state, target, self.iterator)
        self._check(state, stage, target, position)
        return attach(self, state, (stage, target, self.iterator), before=state)

    def _check(self, state: State, stage: Stage, target: Stage, position: int) -> None:
        chain = [target.name, *(outer.name for outer, _ in state.chain(target))]
        words = f"'{self.target}' is computed inside '{self.stage}', and not the other way round"
        if target.name == stage.name:
            words = f"'{self.iterator}' is a loop of '{self.stage}' itself; name one of its reader"
        self.require(
            state, words, (self.target, self.iterator), condition=stage.name not in chain
        )  # fmt: skip
        self.require(
            state, f"'{self.stage}' is an output and must be computed whole",
            condition=not stage.is_output,
        )  # fmt: skip
        self.require_untouched(state, stage, "use compute_at")
        inside = tuple((target, iterator) for iterator in target.iterators[: position + 1])
        for outer, iterator in (*state.around(target), *inside):
            if iterator.mark in (Mark.VECTORIZE, Mark.TENSORIZE):
                self.refuse(
                    state, f"'{iterator.name}' is {iterator.mark.value}d; choose a loop outside it",
                    (outer.name, iterator.name),
                )  # fmt: skip


def attach(step: Step, state: State, where: tuple[Stage, Stage, str], *, before: State) -> State:
    """Return `state` with a stage computed inside a loop of another one; `where` names the three.

    `step` refuses it on `before` where it cannot be.
    """
    stage, target, iterator = where
    position = target.position(iterator)
    assert position is not None
    stage = replace(stage, ring=None)
    state = state.with_stage(stage)
    try:
        widths = tuple(box.width for box in region(state, stage.name, target, position + 1))
    except LookupError as error:
        step.refuse(
            before, f"'{error.args[0]}' reads '{stage.name}' outside that loop; "
            "every reader must be inside the loop in which it is computed", (error.args[0], ""),
        )  # fmt: skip
    attached = replace(
        stage,
        attach=At(target.name, iterator),
        region=widths,
        iterators=fresh_iterators(stage.op, widths),
    )
    after = settle(state.with_stage(attached), step, before)
    require_bounded(step, before, after, (target.name, iterator))
    require_threads_fit(step, before, after)
    require_kept_in_order(step, before, after)
    return after


@dataclass(frozen=True)
class StoreAt(AtLoop):
    """Keep what iterations of the loop make in which a stage is computed, so each adds what is new.

        for y.0:                          for y.0:
            for y.1:                          P[0 .. 2] = …
                P[0 .. 3] = …       ->        for y.1:
                C = f(P[0 .. 3])                  P[one more] = …
                                                  C = f(P[the last three])

    with the iterator "y.0" of `target`: the loop directly outside the one in which the stage is
    computed (`ComputeAt`), or "" if there is none. The tensor lives there, in a ring: as many
    elements along the axis that moves as one iteration reads, rounded up to a power of two.
    Iterations before the first one fill it. This is Halide's `store_at`, with what it folds.
    """

    def rename(self, names: Renaming) -> Self:
        """Return the step with both stages and the loop renamed as in `names.target`."""
        return super().rename(names) if self.iterator else self._renamed(names, "")

    def apply(self, state: State) -> State:
        """Return the state in which the stage keeps what it has."""
        stage, target = self.stage_of(state), self.stage_of(state, self.target)
        self.require(
            state, f"'{self.stage}' is not computed inside a loop of '{self.target}'; use "
            "compute_at first", condition=isinstance(stage.attach, At),
        )  # fmt: skip
        if self.iterator:
            self.position_of(state, target, self.iterator)
        around = [(outer.name, loop.name) for outer, loop in state.around(stage)]
        outside = around[-2] if len(around) > 1 else (around[-1][0], "")
        self.require(
            state, f"'{self.stage}' is computed in '{around[-1][1]}', so it can be kept "
            + (f"at '{outside[1]}' of '{outside[0]}', the loop directly outside it" if outside[1]
               else f"outside all loops of '{outside[0]}' alone, with the iterator ''"),
            around[-1], condition=(self.target, self.iterator) == outside,
        )  # fmt: skip
        self.require_untouched(state, stage, "use store_at")
        kept = state.with_stage(replace(stage, ring=Ring("", None, None)))
        require_kept_in_order(self, state, kept)
        return settle(kept, self, state)


@dataclass(frozen=True)
class ComputeRoot(Step):
    """Compute a stage on its own again, before all its readers; the opposite of ComputeAt."""

    def apply(self, state: State) -> State:
        """Return the state with the stage at the root."""
        stage = self.stage_of(state)
        self.require_untouched(state, stage, "use compute_root")
        whole = tuple(axis.extent for axis in stage.op.axes)
        root = replace(
            stage, attach=Root(), region=whole, ring=None,
            iterators=fresh_iterators(stage.op, whole),
        )  # fmt: skip
        return settle(state.with_stage(root), self, state)


@dataclass(frozen=True)
class ComputeInline(Step):
    """Compute the values of a stage where they are read, instead of storing them.

    for i: P[i] = A[i] + 1
    for i: C[i] = P[i] * 2      ->      for i: C[i] = (A[i] + 1) * 2

    A long value that is read more than once becomes a scalar, computed once for each element of
    the reader (`ansorc.schedule.inlining`).
    """

    keeps_arrays = False

    def apply(self, state: State) -> State:
        """Return the state with the stage's body in the place of every load of it."""
        stage = self.stage_of(state)
        self.require(
            state, f"'{self.stage}' is a reduction; use compute_at instead",
            condition=stage.op.combiner is None,
        )  # fmt: skip
        self.require(
            state, f"'{self.stage}' is a scan, each element of which needs the one before; use "
            "compute_at instead", condition=stage.op.scan is None,
        )  # fmt: skip
        self.require(
            state, f"'{self.stage}' is an output and must be stored", condition=not stage.is_output
        )
        for inner in state.stages_inside(stage.name):
            self.refuse(state, f"'{inner.name}' is computed inside its loops", (inner.name, ""))
        self.require_untouched(state, stage, "inline it")
        changed = state.with_stage(
            replace(stage, attach=Inlined(), iterators=(), relations=(), ring=None)
        )
        for reader in state.readers(stage.name):
            self.require(
                state, f"a matrix unit reads the factors of '{reader.name}' from memory, so "
                f"'{stage.name}' is to be stored; use compute_at instead", (reader.name, ""),
                condition=not any(it.function in TILE_FUNCTIONS for it in reader.iterators),
            )  # fmt: skip
            op = inline_op(reader.op, stage.op)
            if op is None:
                self.refuse(
                    state,
                    f"'{reader.name}' would repeat more than {MOST_REPEATED} expressions of "
                    f"'{stage.name}'; use compute_at instead",
                    (reader.name, ""),
                )
            changed = changed.with_stage(replace(changed.stage(reader.name), op=op))
        return settle(changed, self, state)
