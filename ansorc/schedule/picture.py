"""The loops of a program as text, one line each: plain, with lines marked, or with all details."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import TypeAlias

from ansorc.errors import Spot
from ansorc.ir.buffer import Buffer
from ansorc.ir.printer import expr_text
from ansorc.schedule.extent import text
from ansorc.schedule.memory import memory_shape
from ansorc.schedule.stage import At, Mark, Root, Stage

Stages: TypeAlias = Sequence[Stage]
"""The stages of a program, producers first."""
_SIGNS = {"sum": "+=", "prod": "*=", "max": "max=", "min": "min=", "any": "or=", "all": "and="}


def loop_lines(stages: Stages) -> Iterator[tuple[str, Spot]]:
    """Yield each line of the loops, with the stage and the loop that it shows."""
    for stage in stages:
        if isinstance(stage.attach, Root):
            yield from _nest_lines(stages, stage, 0)


def picture(stages: Stages, spots: Sequence[Spot]) -> str:
    """Return the loops with `spots` marked; inlined stages are shown only if marked."""
    inlined = ((f"{s.name} = ... (inlined)", (s.name, "")) for s in stages if s.is_inlined)
    lines = [*(line for line in inlined if line[1] in spots), *loop_lines(stages)]
    width = max((len(line) for line, spot in lines if spot in spots), default=0)
    return "\n".join(
        f"> {line:<{width}}  <-- here" if spot in spots else f"  {line}" for line, spot in lines
    )


def details(stages: Stages) -> Iterator[str]:
    """Yield the lines of the loops with the values of all stages, and of what is held in memory.

        hold C.local: float32[4, 16], 256 bytes

    stands where a buffer begins to live: before all loops, or inside the loop in which its stage is
    computed, or directly outside of it if the stage keeps what iterations made. Indices of values
    are those of the definition. Inlined stages are part of others.
    """
    for stage in stages:
        if isinstance(stage.attach, Root) and not stage.is_output:
            yield from _buffer_lines(stage, 0)
    for stage in stages:
        if isinstance(stage.attach, Root):
            yield from _detailed_nest(stages, stage, 0)


def _nest_lines(stages: Stages, stage: Stage, depth: int) -> Iterator[tuple[str, Spot]]:
    for line, loop in _loops(stage):
        if loop == stage.initial:
            yield f"{'  ' * depth}{stage.name} = identity", (stage.name, "")
        yield f"{'  ' * depth}{line}", (stage.name, loop)
        depth += 1
        for inner in _inside(stages, stage.name, loop):
            yield from _nest_lines(stages, inner, depth)
    sign = "=" if stage.op.combiner is None else f"{stage.op.combiner.value}="
    sign = sign if stage.op.scan is None else "scan="
    kept = (
        "" if stage.ring is None else f", keeping {text(stage.ring.length)} along {stage.ring.axis}"
    )
    yield f"{'  ' * depth}{stage.name} {sign} ...{kept}", (stage.name, "")


def _detailed_nest(stages: Stages, stage: Stage, depth: int) -> Iterator[str]:
    for line, loop in _loops(stage):
        inside = _inside(stages, stage.name, loop)
        for inner in inside:
            yield from _buffer_lines(inner, depth) if inner.ring else ()
        if loop == stage.initial:
            yield f"{'  ' * depth}{stage.name} = identity"
        yield f"{'  ' * depth}{line}"
        depth += 1
        for inner in inside:
            yield from () if inner.ring else _buffer_lines(inner, depth)
        for inner in inside:
            yield from _detailed_nest(stages, inner, depth)
    op, indent = stage.op, "  " * depth
    for temporary in op.temporaries:
        yield f"{indent}{temporary.buffer.name} = {expr_text(temporary.value)}"
    combiner = "" if op.combiner is None else str(op.combiner.value)
    sign = _SIGNS.get(combiner, f"{combiner}=")
    places = {place.axis: expr_text(place.index) for place in op.places}
    axes = ", ".join(places.get(axis.name, axis.name) for axis in op.axes)
    for buffer, body in zip(op.buffers, op.bodies, strict=True):
        yield f"{indent}{buffer.name}[{axes}] {sign} {expr_text(body)}"


def _loops(stage: Stage) -> Iterator[tuple[str, str]]:
    """Yield the line of each loop of a stage, outermost first, with the loop's name."""
    for iterator in stage.iterators:
        mark = f"bind {iterator.thread}" if iterator.mark is Mark.BIND else iterator.mark.value
        sharing = f" dynamic {iterator.chunk}" if iterator.chunk else ""
        values = f"0..{text(iterator.extent)}"
        if stage.op.ragged_axis is not None and stage.is_ragged(iterator):
            values = " .. ".join(map(expr_text, stage.op.ragged_axis.bounds))
        yield f"{mark} {iterator.name} in {values}{sharing}", iterator.name


def _buffer_lines(stage: Stage, depth: int) -> Iterator[str]:
    """Yield a line for each tensor of a stage: its shape in memory, and its bytes if known."""
    shape = memory_shape(stage)
    extents = [extent for extent in shape if isinstance(extent, int)]
    for buffer in stage.op.buffers:
        size = f", {_bytes(buffer, prod(extents))}" if len(extents) == len(shape) else ""
        scope = f" {stage.scope}" if stage.scope else ""
        words = ", ".join(map(text, shape))
        yield f"{'  ' * depth}hold {buffer.name}: {buffer.dtype}[{words}]{scope}{size}"


def _bytes(buffer: Buffer, elements: int) -> str:
    """Return the size of a buffer in the unit that fits."""
    size = elements * buffer.dtype.bytes
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size / unit:.4g} {name}"
    return f"{size} bytes"


def _inside(stages: Stages, name: str, iterator: str) -> tuple[Stage, ...]:
    """Return the stages computed directly inside a loop, producers first."""
    return tuple(s for s in stages if s.attach == At(name, iterator))
