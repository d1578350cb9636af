"""What users give by mistake to functions that want something else."""

# pyright: basic, reportArgumentType=false, reportCallIssue=false
from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import ansorc as ac
from ansorc.errors import AnsorcError
from ansorc.ir.expr import Var


def bare_errors(
    name: str,
    function: Callable[..., object],
    args: Sequence[Any],
    options: Mapping[str, Any],
    step: int = 1,
) -> list[str]:
    """Return which errors are none of ansorc when one argument at a time is a hostile value.

    The arguments themselves must be taken. Of the values every `step`-th is tried.
    """
    function(*args, **options)
    found: list[str] = []

    def attempt(
        place: object, value: object, args: Sequence[Any], options: Mapping[str, Any]
    ) -> None:
        try:
            function(*args, **options)
        except AnsorcError as error:
            if not str(error):
                found.append(f"{name}: {place} is {value!r}: no words")
        except Exception as error:  # noqa: BLE001, that is what is looked for
            found.append(f"{name}: {place} is {value!r}: {type(error).__name__}: {error}")

    for place in range(len(args)):
        for value in hostile_values()[::step]:
            attempt(place, value, [*args[:place], value, *args[place + 1 :]], options)
    for key in options:
        for value in hostile_values()[::step]:
            attempt(key, value, args, {**options, key: value})
    return found


class Broken:
    """An object that can be asked nothing."""

    def __repr__(self) -> str:
        return "<broken>"


def hostile_values() -> list[Any]:
    """Return values of many types: numbers out of range, wrong sequences, elements, tensors."""
    tensor = ac.placeholder((3, 4), "hostile")
    k = ac.reduce_axis(4, "k")
    return [
        None, True, False, 0, 1, -1, 7, 10**30, 0.0, 1.5, -0.5, math.nan, math.inf, 1j, "", "text",
        "a b", "float32", b"bytes", (), [], {}, set[int](), [0], (1, 1), [-1, 2], (0, 0, 0),
        (1, 2, 3, 4, 5, 6, 7), [1.5], ["x"], [None], [[1]], (0, True), {"a": 1}, {3}, range(2),
        Broken(), object, int, float, len, lambda: 1, lambda x: x, iter([1, 2]), slice(0, 2), ...,
        np.int64(1), np.int8(-1), np.uint64(2**63), np.float32(0.5), np.float64(math.nan),
        np.bool_(True), np.array(2), np.array(1.5), np.array([1, 0]), np.array([0.5]),
        np.zeros((2, 2)), np.array(["x"]), np.array([None]), np.array([], dtype=np.int64),
        np.datetime64("2020-01-01"), np.timedelta64(1, "s"), np.float32, np.dtype("float16"),
        np.dtype(">f4"), np.complex64, np.str_("name"), tensor, [tensor], (tensor, tensor),
        tensor[0, 0], [tensor[0, 0]], k, [k], ac.sum(tensor[0, k], axis=k), Var("i"),
        ac.ComputeDAG([tensor, ac.compute((3, 4), lambda i, j: tensor[i, j], "copy")]),
    ]  # fmt: skip
