"""StorageAlign: pad the rows of a buffer, so that they do not meet in the same sets of a cache."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ansorc.schedule.memory import unreachable
from ansorc.schedule.stage import Alignment
from ansorc.schedule.state import State, Step

MAX_FACTOR = 4096
"""The largest factor, in elements: beyond a page, rows meet in no other sets than they did."""


@dataclass(frozen=True)
class StorageAlign(Step):
    """Lay out a tensor with steps of `axis` `n * factor + offset` elements apart in memory.

        alloc B.local: float32[256, 512]    ->    alloc B.local: float32[256, 528]

    with axis "ax0", factor 32 and offset 16; `n` is as small as it can be. The padding is at the
    end of the next inner dimension and never used. An input or output has the caller's layout.
    """

    axis: str
    factor: int
    offset: int = 0

    def apply(self, state: State) -> State:
        """Return the state with the alignment of the axis set, replacing an earlier one."""
        stage = self.stage_of(state)
        self.require(
            state, f"'{self.stage}' is an output, whose layout is the caller's; "
            "use cache_write first and align that", condition=not stage.is_output,
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
