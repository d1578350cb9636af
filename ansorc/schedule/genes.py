"""Steps as JSON and back, and the filling of the holes of a sketch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import MISSING, fields, replace
from typing import TypeAlias, cast

from ansorc.errors import RecordError
from ansorc.schedule.extent import TileLength, Tiles, resolve
from ansorc.schedule.state import Step
from ansorc.schedule.steps import STEPS, Split

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


def steps_to_json(steps: Iterable[Step]) -> list[Json]:
    """Return steps without holes as `[["Split", {"stage": "C", …}], …]`."""
    return [[type(step).__name__, _fields(step)] for step in steps]


def steps_from_json(data: object) -> tuple[Step, ...]:
    """Return the steps that `steps_to_json` wrote; raise RecordError on anything else."""
    if not isinstance(data, list):
        raise RecordError("the steps of a record are not a list")
    return tuple(_step(entry) for entry in cast(list[object], data))


def fill_holes(steps: Iterable[Step], tiles: Tiles) -> tuple[Step, ...]:
    """Return the steps with each Hole replaced by the number that `tiles` chooses for it."""
    return tuple(_fill(step, tiles) for step in steps)


def _fill(step: Step, tiles: Tiles) -> Step:
    if not isinstance(step, Split):
        return step
    lengths = tuple(_number(length, tiles) for length in step.lengths)
    return replace(step, lengths=lengths)


def _number(length: TileLength, tiles: Tiles) -> int:
    value = resolve(length, tiles)
    if not isinstance(value, int):
        raise ValueError(f"no single length is chosen for {length}")
    return value


def _fields(step: Step) -> dict[str, Json]:
    values: dict[str, Json] = {}
    for name, value in step.fields().items():
        is_tuple = isinstance(value, tuple)
        values[name] = cast(Json, list(cast(tuple[object, ...], value)) if is_tuple else value)
    return values


def _step(entry: object) -> Step:
    if not isinstance(entry, list) or len(cast(list[object], entry)) != 2:
        raise RecordError(f"{entry!r} is not a step: want [name, {{field: value}}]")
    name, values = cast(list[object], entry)
    if not isinstance(name, str) or name not in STEPS or not isinstance(values, dict):
        raise RecordError(f"{name!r} is not a step; known: {', '.join(STEPS)}")
    given = cast(dict[str, object], values)
    wanted = {field.name: field.default is MISSING for field in fields(STEPS[name])}
    is_whole = all(field in given for field, is_needed in wanted.items() if is_needed)
    if not is_whole or not wanted.keys() >= given.keys():
        raise RecordError(f"step {name} has the fields {sorted(given)}, not {sorted(wanted)}")
    return STEPS[name](**{key: _value(value) for key, value in given.items()})


def _value(value: object) -> str:
    """Return a list as a tuple, and other values as they are.

    The type is str only to satisfy the constructors of steps.
    """
    return cast(str, tuple(cast(list[object], value)) if isinstance(value, list) else value)
