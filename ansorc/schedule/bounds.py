"""Compute the box of a tensor that its readers need inside a loop, in closed form over the extents.

The box along one dimension is `low … low + width - 1`. Widths are Extents, so one evaluation
serves one program or a population. An index that is neither affine in the axes nor a quotient or a
remainder of one needs the whole dimension: that is always enough.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np

from ansorc.ir.arith.affine import Linear
from ansorc.ir.arith.cut_off import CutOff, linear_form
from ansorc.ir.arith.interval import Ranges
from ansorc.ir.expr import Binary, BinaryOp, Const, Expr, Load, Var
from ansorc.ir.node import walk
from ansorc.ir.substitute import free_vars
from ansorc.lang.compute_op import ComputeOp
from ansorc.schedule.box import IndexBounds, Quotient
from ansorc.schedule.constant_reads import unfit_read
from ansorc.schedule.extent import (
    Extent,
    add,
    common,
    divide_up,
    larger,
    same,
    scale,
    scale_span,
    smaller,
)
from ansorc.schedule.scan_state import first_step
from ansorc.schedule.sliding import (
    NoSlideError,
    find_slide,
    latest_warm_up,
    same_ring,
    warm_ups,
)
from ansorc.schedule.stage import At, Loop, Mark, Ring, Root, Stage, fresh_iterators
from ansorc.schedule.state import State, Step


def axis_boxes(stage: Stage, depth: int, *, is_shared: bool = False) -> dict[str, IndexBounds]:
    """Return the values that the axes of `stage` take inside its first `depth` loops.

    The first `depth` loops are fixed; the others run over their whole extent. With `is_shared`,
    for data that the threads of a GPU block share, the loops over these threads run as well.
    """
    parts = stage.parts
    fixed = stage.iterators[:depth]
    outer = {each.name for each in fixed if not (is_shared and runs_over_threads(each))}
    widths: dict[str, Extent] = {}
    begin = 0 if isinstance(stage.attach, Root) else 1  # another stage's tile may begin anywhere
    steps: dict[str, Extent] = {}
    scattered: dict[str, set[bool]] = {}
    for name, shares in parts.items():
        for part in shares:
            if not part.is_whole:
                scattered.setdefault(part.axis, set()).add(name in outer)
                steps[part.axis] = 1
            elif name in outer:
                steps[part.axis] = common(steps.get(part.axis, begin), part.stride)
            else:
                moved = scale_span(part.extent, part.stride)
                widths[part.axis] = add(widths.get(part.axis, 1), moved)
    if stage.op.scan is not None and stage.op.scan.is_reversed:
        steps[stage.op.scan_axis] = 1
    return {
        name: IndexBounds(None, extent)
        if False in scattered.get(name, ())
        else IndexBounds(
            Linear({(name, 1): 1}), smaller(widths.get(name, 1), extent), steps.get(name, begin)
        )
        for name, extent in _axis_extents(stage)
    }


def runs_over_threads(iterator: Loop) -> bool:
    """Return whether the iterations are threads, or virtual threads, of one GPU block."""
    return iterator.mark is Mark.BIND and not iterator.thread.startswith("blockIdx")


def region(
    state: State, name: str, target: Stage, depth: int, *, is_shared: bool | None = None
) -> tuple[IndexBounds, ...]:
    """Return the box of stage `name` that is read inside the first `depth` loops of `target`.

    With `is_shared` it is the box that all threads of a block read together; the default follows
    the scope of the stage. Raise LookupError with the name of a reader that is outside the loops.
    """
    if is_shared is None:
        is_shared = state.stage(name).scope == "shared"
    key = name, target.name, depth, is_shared
    known = state.regions if state.find(target.name) is target else {}
    if key not in known:
        known[key] = _region(state, name, (target, depth), is_shared=is_shared)
    return cast("tuple[IndexBounds, ...]", known[key])


def _region(
    state: State, name: str, spot: tuple[Stage, int], *, is_shared: bool
) -> tuple[IndexBounds, ...]:
    boxes = _box_read(state, name, spot, is_shared=is_shared)
    stage = state.stage(name)
    if stage.ring is None or not isinstance(stage.attach, At):
        return boxes
    target = state.stage(stage.attach.stage)
    loop = target.position(stage.attach.iterator)
    assert loop is not None
    if (spot[0].name, spot[1]) == (target.name, loop + 1):
        return find_slide(stage, boxes, target.iterators[loop], target).new_part(boxes)
    new = region(state, name, target, loop + 1)
    once = _box_read(state, name, (target, loop), is_shared=False)
    whole = _box_read(state, name, (target, loop + 1), is_shared=False)
    slide = find_slide(stage, whole, target.iterators[loop], target)
    return slide.with_warm_up(boxes, once, new, stage.ring)


def _box_read(
    state: State, name: str, spot: tuple[Stage, int], *, is_shared: bool
) -> tuple[IndexBounds, ...]:
    """Return the box of stage `name` that its readers inside the first loops of `spot` read."""
    source = state.stage(name).op
    shape = source.buffer.shape
    _require_before_steps(state, source, *spot)
    boxes: list[list[IndexBounds]] = [[] for _ in shape]
    for reader in state.readers(name):
        axes = _reader_boxes(state, reader, spot, is_shared=is_shared)
        indices = reader.op.indices
        ranges = {
            axis.name: (0, axis.extent - 1) for axis in (*reader.op.axes, *reader.op.reduce_axes)
        }
        for columns in (indices[b.name] for b in source.buffers if b.name in indices):
            for box, column in zip(boxes, columns, strict=True):
                box += [_index_box(index, axes, ranges) for index in column]
    mixed = () if source.scan is None else source.mixed_axes
    for place in source.places:  # terms go anywhere along it
        boxes[[axis.name for axis in source.axes].index(place.axis)] = [IndexBounds(None, None)]
    return tuple(
        IndexBounds(Linear(), axis.extent)  # each step needs all before it
        if axis.name == source.scan_axis or axis.name in mixed
        else _hull(box, axis.extent)
        for box, axis in zip(boxes, source.axes, strict=True)
    )


def _require_before_steps(state: State, source: ComputeOp, target: Stage, depth: int) -> None:
    """Raise LookupError if a loop needs `source` before it begins, but it is computed later.

    It is computed inside the first `depth` loops of `target`. The steps of a scan need what its
    states begin with, a loop over a range that is data its bounds.
    """
    ragged = target.op.ragged_axis
    row = None if ragged is None else target.position(ragged.name)
    needed = [(first_step(target), target.op.inits), (row, ragged.bounds if ragged else ())]
    early = [expr for loop, exprs in needed if loop is not None and depth > loop for expr in exprs]
    loads = (node for expr in early for node in walk(expr) if isinstance(node, Load))
    if any(load.buffer in source.buffers for load in loads):
        raise LookupError(target.name)


def settle(state: State, step: Step, before: State, *, within: str = "") -> State:
    """Update the regions of all attached stages after `step`, or refuse the step.

    A refusal shows the state `before`. Regions change in the nests that the step changed alone. If
    `within` names a stage, only its loops have changed, and the regions of stages outside of them
    are kept.

    A stage whose loops were already changed keeps its region: a step that would alter it comes too
    late. A reader must stay inside the loop in which its source is computed.
    """
    changed = {within}
    nests = set[str]() if within else _find_changed_nests(state, before)
    for name in [s.name for s in reversed(state.stages) if isinstance(s.attach, At)]:
        stage = state.stage(name)
        assert isinstance(stage.attach, At)
        # What the threads of a block share is read over loops further out, too.
        around = state.chain(stage) if stage.scope == "shared" else ()
        is_inside = any(outer.name in changed for outer, _ in around)
        is_changed = stage.attach.stage in changed or is_inside
        if is_changed or (not within and state.root(stage).name in nests):
            state = _settle_stage(state, stage, stage.attach, (step, before))
            if state.stage(name) is not stage:
                changed.add(name)
    for tensor in state.rewritten:
        if complaint := unfit_layout(state, tensor):
            step.refuse(before, f"the layout of '{tensor}' is rewritten, but then {complaint}")
    return state


def _find_changed_nests(state: State, before: State) -> set[str]:
    """Return the root stages whose nests have, or had, a stage that is not the same in both."""
    return {
        one.root(stage).name
        for one, other in ((state, before), (before, state))
        for stage in one.stages
        if other.find(stage.name) is not stage
    }


def unfit_layout(state: State, tensor: str) -> str:
    """Return why the layout of the input `tensor` cannot follow its reader; "" if it can.

    See `unfit_read`. In addition, the loops around the reader must step along its axes.
    """
    if complaint := unfit_read(state, tensor):
        return complaint
    (reader,) = state.readers(tensor)
    names = [axis.name for axis in reader.op.axes]
    loads = (load for load in reader.op.loads if load.buffer.name == tensor)
    moved = {name for load in loads for index in load.indices for name in free_vars(index)}
    stage = reader
    while isinstance(stage.attach, At):
        target = state.stage(stage.attach.stage)
        position = target.position(stage.attach.iterator)
        assert position is not None
        if stage.ring is not None and stage.ring.axis in moved:
            return f"'{stage.name}' slides along '{stage.ring.axis}'"
        boxes = dict(zip(names, region(state, stage.name, target, position + 1), strict=True))
        lows = [box.low for name, box in boxes.items() if name in moved and box.low is not None]
        scan, anchors = target.op.scan, {anchor for low in lows for anchor, _ in low.terms}
        if scan is not None and scan.is_reversed and scan.axis in anchors:
            return f"'{target.name}' is a scan that begins at the end"
        if any(divisor != 1 for low in lows for _, divisor in low.terms):
            return f"'{stage.name}' is computed for quotients of the loops of '{target.name}'"
        moved = {anchor for low in lows for anchor, _ in low.terms}
        stage, names = target, [axis.name for axis in target.op.axes]
    return ""


def _settle_stage(state: State, stage: Stage, attach: At, change: tuple[Step, State]) -> State:
    step, before = change
    target = state.stage(attach.stage)
    position = target.position(attach.iterator)
    assert position is not None
    try:
        widths = tuple(box.width for box in region(state, stage.name, target, position + 1))
        ring = find_ring(state, stage, (target, position))
    except NoSlideError as error:
        spots = ((stage.name, ""), (target.name, attach.iterator))
        step.refuse(before, f"'{stage.name}' keeps what '{attach.iterator}' made: {error}", *spots)
    except LookupError as error:
        step.refuse(
            before,
            f"'{error.args[0]}' reads '{stage.name}' outside the loop "
            f"'{attach.iterator}' of '{target.name}' in which it is computed",
            (error.args[0], ""), (stage.name, ""),
        )  # fmt: skip
    changed = {
        axis.name
        for axis, old, new in zip(stage.op.axes, stage.region, widths, strict=True)
        if not same(old, new)
    }
    if not changed:
        return state if same_ring(ring, stage.ring) else state.with_stage(replace(stage, ring=ring))
    if stage.is_shaped:
        moved = [n for n, parts in stage.parts.items() if changed & {p.axis for p in parts}]
        step.refuse(
            before,
            f"it would change the region of '{stage.name}', whose loops were already changed; "
            f"do this before computing '{stage.name}' at '{attach.iterator}'",
            *((stage.name, name) for name in moved),
        )
    iterators = fresh_iterators(stage.op, widths)
    return state.with_stage(replace(stage, region=widths, ring=ring, iterators=iterators))


def find_ring(state: State, stage: Stage, where: tuple[Stage, int]) -> Ring | None:
    """Return how `stage` keeps what iterations of a loop made; None if it does not.

    `where` is the stage in whose loop it is computed, and the position of the loop. Raise
    NoSlideError with the reason if nothing can be kept.
    """
    if stage.ring is None:
        return None
    target, position = where
    boxes = _box_read(state, stage.name, (target, position + 1), is_shared=False)
    loop = target.iterators[position]
    beside = state.stages_inside(target.name, loop.name)
    later = warm_ups(state, beside[beside.index(stage) + 1 :])
    before = latest_warm_up(state, stage, later, (target.name, loop.name))
    return find_slide(stage, boxes, loop, target).ring(stage, before)


def _axis_extents(stage: Stage) -> list[tuple[str, Extent]]:
    space = [(a.name, extent) for a, extent in zip(stage.op.axes, stage.region, strict=True)]
    return space + [(axis.name, axis.extent) for axis in stage.op.reduce_axes]


def _reader_boxes(
    state: State, reader: Stage, spot: tuple[Stage, int], *, is_shared: bool
) -> dict[str, IndexBounds]:
    target, depth = spot
    if reader.name == target.name:
        boxes = axis_boxes(target, depth, is_shared=is_shared)
        return _over_threads(state, target, boxes) if is_shared else boxes
    chain = state.chain(reader)
    if not any(stage.name == target.name and count >= depth for stage, count in chain):
        raise LookupError(reader.name)
    space = region(state, reader.name, target, depth, is_shared=is_shared)
    boxes = {axis.name: box for axis, box in zip(reader.op.axes, space, strict=True)}
    return boxes | {a.name: IndexBounds(Linear(), a.extent) for a in reader.op.reduce_axes}


def _over_threads(
    state: State, stage: Stage, boxes: dict[str, IndexBounds]
) -> dict[str, IndexBounds]:
    """Widen the boxes of the axes of `stage` by how far the threads around it move them."""
    if not isinstance(stage.attach, At):
        return boxes
    target = state.stage(stage.attach.stage)
    position = target.position(stage.attach.iterator)
    assert position is not None
    whole = region(state, stage.name, target, position + 1, is_shared=True)
    wider = dict(boxes)
    for axis, extent, all_threads in zip(stage.op.axes, stage.region, whole, strict=True):
        box, width = boxes[axis.name], all_threads.width
        moved = add(add(width, scale(extent, -1)), box.width)
        if not (width is None or moved is None or isinstance(width, int)):
            moved = np.where(width == axis.extent, width, moved)  # cut off there, moved or not
        if all_threads.low is not None and not all_threads.low.terms:
            wider[axis.name] = replace(box, low=Linear(), width=axis.extent)
        else:
            wider[axis.name] = replace(box, width=moved)
    return wider


def _index_box(index: Expr, axes: dict[str, IndexBounds], ranges: Ranges) -> IndexBounds:
    if isinstance(index, Var) and index.name in axes:
        return axes[index.name]
    form, cut = linear_form(index)
    if form is None:
        return _quotient_box(index, axes)
    box = _linear_box(form, axes)
    return box if cut is None or box.low is None else _box_within(box, form, cut, ranges)


def _box_within(box: IndexBounds, form: Linear[str], cut: CutOff, ranges: Ranges) -> IndexBounds:
    """Return a box of the values of `form` cut off at limits; its own box is `box`.

    With some constant `form` is never cut off, and cutting off moves it at most there: the box
    from one to the other holds all values. There may be no such constant.
    """
    ends = [sorted(n * end for end in ranges[axis]) for axis, n in form.terms.items()]
    least = cut.low - sum(low for low, _ in ends)
    most = cut.high - sum(high for _, high in ends)
    if least > most:
        return IndexBounds(None, None)
    shift = int(min(max(form.constant, least), most)) - form.constant
    start = box.start if shift > 0 else add(box.start, shift)
    return IndexBounds(box.low, add(box.width, abs(shift)), start=start)


def _linear_box(form: Linear[str], axes: dict[str, IndexBounds]) -> IndexBounds:
    low: Linear[Quotient] = Linear()
    width: Extent = 1
    start: Extent = form.constant
    for axis, coefficient in form.terms.items():
        box = axes.get(axis)
        if box is None or box.low is None:
            return IndexBounds(None, None)
        low.add_scaled(box.low, coefficient)
        moved = scale_span(box.width, abs(coefficient))
        width = add(width, moved)
        start = add(start, scale(box.start, coefficient))
        if coefficient < 0:
            start = add(start, scale(moved, -1))
    return IndexBounds(Linear(dict(sorted(low.terms.items()))), width, start=start)


def _quotient_box(index: Expr, axes: dict[str, IndexBounds]) -> IndexBounds:
    """Return the box of `axis // divisor` or `axis % divisor`; the whole dimension otherwise."""
    match index:
        case Binary(BinaryOp.MOD, Var(), Const(value, _)) if value > 0:
            return IndexBounds(Linear(), int(value))
        case Binary(BinaryOp.FLOORDIV, Var(axis), Const(value, _)) if value > 0:
            box, divisor = axes.get(axis), int(value)
        case _:
            return IndexBounds(None, None)
    if box is None or box.low is None or len(box.low.terms) != 1 or not same(box.start, 0):
        return IndexBounds(None, None)
    (((anchor, inner), factor),) = box.low.terms.items()
    if factor != 1 or inner != 1:
        return IndexBounds(None, None)
    # The first index is at most this far behind a multiple of the divisor.
    behind = add(divisor, scale(common(box.step, divisor), -1))
    width = divide_up(add(box.width, behind), divisor)
    return IndexBounds(Linear({(anchor, divisor): 1}), width)


def _hull(boxes: list[IndexBounds], extent: int) -> IndexBounds:
    first = boxes[0]
    start, width, step = first.start, first.width, first.step
    for box in boxes:
        if first.low is None or box.low is None or first.low.terms != box.low.terms:
            return IndexBounds(Linear(), extent)
        if box is first:
            continue
        step = common(step, box.step) if same(start, box.start) else 1
        end = larger(add(start, width), add(box.start, box.width))
        start = smaller(start, box.start)
        width = add(end, scale(start, -1))
    if isinstance(width, int) and width >= extent:
        return IndexBounds(Linear(), extent)
    return IndexBounds(first.low, smaller(width, extent), step, start)
