"""StorageAlign and Panel: the memory layout of the tensor of a stage."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ansorc.schedule.memory import unreachable
from ansorc.schedule.stage import Alignment, SplitRelation
from ansorc.schedule.state import Renaming, State, Step

MAX_FACTOR = 4096
"""The largest factor, in elements: a pitch beyond a page changes no set of a cache."""


@dataclass(frozen=True)
class StorageAlign(Step):
    """Lay out a tensor with steps of `axis` `n * factor + offset` elements apart in memory.

        alloc B.local: float32[256, 512]    ->    alloc B.local: float32[256, 528]

    with axis "ax0", factor 32 and offset 16; `n` is as small as it can be. The padding is at the
    end of the next inner dimension and never used. An input or output has the caller's layout.
    """

    keeps_arrays = False

    axis: str
    factor: int
    offset: int = 0

    def rename(self, names: Renaming) -> StorageAlign:
        """Return the step with its stage and axis renamed as in `names.target`."""
        axis = names.axis(self, self.stage, self.axis)
        return replace(super().rename(names), axis=axis)

    def apply(self, state: State) -> State:
        """Return the state with the alignment of the axis set, replacing an earlier one."""
        stage = self.stage_of(state)
        self.require(
            state, f"'{self.stage}' is an output, whose layout is the caller's; "
            "use cache_write first and align that", condition=not stage.is_output,
        )  # fmt: skip
        self.require(
            state, f"'{self.stage}' is held in panels, which leave nothing to align",
            condition=not stage.panel,
        )  # fmt: skip
        names = [axis.name for axis in stage.op.axes]
        listed = ", ".join(f"'{name}'" for name in names[:-1]) or "none"
        self.require(
            state, f"'{self.axis}' is not an axis with a stride to align; there is {listed}",
            condition=self.axis in names[:-1],
        )  # fmt: skip
        self.require(
            state, f"a factor is 1 to {MAX_FACTOR} elements, not {self.factor}",
            condition=1 <= self.factor <= MAX_FACTOR,
        )  # fmt: skip
        self.require(
            state, f"an offset is 0 or more and below the factor {self.factor}, not {self.offset}",
            condition=0 <= self.offset < self.factor,
        )  # fmt: skip
        others = tuple(old for old in stage.alignments if old.axis != self.axis)
        alignment = Alignment(self.axis, self.factor, self.offset)
        aligned = replace(stage, alignments=(*others, alignment))
        lost = unreachable(aligned)
        if lost is not None:
            self.refuse(
                state, f"no padding makes the stride of '{lost.axis}' "
                f"{lost.offset} modulo {lost.factor}, for what is inside the next axis is not "
                "padded; align a later axis, or use a multiple of its size as factor and offset",
            )  # fmt: skip
        return state.with_stage(aligned)


@dataclass(frozen=True)
class Panel(Step):
    """Store a tensor in panels along a split axis, one panel after the other.

        alloc B.local: float32[256, 512]    ->    alloc B.local: float32[16, 256, 32]
        B.local[k, j.0 * 32 + j.1]          ->    B.local[j.0, k, j.1]

    with the iterator "j.1" of extent 32. A tile of that length then reads contiguous memory,
    whatever the length of the rows (GotoBLAS). An input or output has the caller's layout.
    """

    keeps_arrays = False

    iterator: str

    def apply(self, state: State) -> State:
        """Return the state in which the tensor of the stage is stored in panels."""
        stage = self.stage_of(state)
        self.require(
            state, f"'{self.stage}' is an output, whose layout is the caller's; "
            "use cache_write first and hold that in panels", condition=not stage.is_output,
        )  # fmt: skip
        self.require(
            state, f"'{self.stage}' is held in panels or aligned already",
            condition=not stage.panel and not stage.alignments,
        )  # fmt: skip
        axes = {axis.name for axis in stage.op.axes}
        last = [
            relation.children[-1].name
            for relation in stage.relations
            if isinstance(relation, SplitRelation) and relation.parent.name in axes
        ]
        listed = ", ".join(f"'{name}'" for name in last) or "none; split an axis first"
        self.require(
            state, f"'{self.iterator}' is not the last part of an axis that was split; "
            f"there is {listed}", condition=self.iterator in last,
        )  # fmt: skip
        return state.with_stage(replace(stage, panel=self.iterator))
