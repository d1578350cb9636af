"""How loops move through a tensor that is held in panels: along the panel, or to the next one."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import numpy as np

from ansorc.schedule.memory import panel_of
from ansorc.search.features.access import Access
from ansorc.search.features.movement import Movement, Step
from ansorc.search.features.nest import Nests

Item = TypeVar("Item")


def in_panels(nests: Nests, access: Access) -> Access:
    """Return `access` with the dimension that is divided into panels as two, outermost and last.

    A loop that moves the index by whole panels moves the first one, any other the last one.
    """
    stage = nests.state.find(access.buffer.name)
    found = None if stage is None else panel_of(stage)
    if found is None:
        return access
    place, extent = found
    length = nests.array(extent)
    moved = access.movements[place]
    pairs = [_divided(step, length) for step in moved.steps]
    panels = Movement(tuple(pair[0] for pair in pairs), moved.extents)
    columns = Movement(tuple(pair[1] for pair in pairs), moved.extents)
    return replace(
        access,
        movements=(panels, *_without(access.movements, place), columns),
        spreads=(0, *_without(access.spreads, place), access.spreads[place]),
        counts=(1, *_without(access.counts, place), access.counts[place]),
        limits=(np.inf, *_without(access.limits, place), access.limits[place]),
    )


def _divided(step: Step, length: Step) -> tuple[Step, Step]:
    if step is None or length is None:
        return None, None
    is_whole = np.abs(step) >= length
    panels = np.where(is_whole, np.ceil(np.abs(step) / length), 0.0)
    columns = np.where(is_whole, 0.0, step)
    return panels if is_whole.any() else None, None if is_whole.all() else columns


def _without(items: tuple[Item, ...], place: int) -> tuple[Item, ...]:
    return (*items[:place], *items[place + 1 :])
