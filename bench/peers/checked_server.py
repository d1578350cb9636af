"""The process of a side whose result is compared with a reference in a file: prepare, then time.

{"do": "prepare", "reference": …, …}      -> {"error": …, "way": …, "spent_s": …}
{"do": "time", "seconds": 0.03}           -> {"seconds": [a call's, …]}

`error` is the largest deviation from float64, as a share of the largest element.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from ansorc.compare.figures import largest_error
from ansorc.compare.program import Clocked
from ansorc.compare.serving import JsonFields
from bench.peers.program import Make

_CHOOSING_S = 0.02


class CheckedServer:
    """Answers the messages to one side, whose ways `ways` makes for a message."""

    def __init__(self, ways: Callable[[JsonFields], Iterable[tuple[str, Make]]]) -> None:
        self._ways = ways
        self._way: Clocked | None = None

    def prepare(self, message: JsonFields) -> JsonFields:
        """Choose the fastest of the side's ways, and compare its result with the reference."""
        self._way = None  # the arrays of the case before may be large
        ways = [Clocked(make()) for _, make in self._ways(message)]
        self._way = ways[0]
        if len(ways) > 1:
            self._way = min(ways, key=lambda way: float(np.median(way.burst(_CHOOSING_S))))
        program = self._way.program
        program.run()
        result, expected = np.asarray(program.output()), np.load(message["reference"])
        if result.shape != expected.shape:
            raise ValueError(f"its shape is {result.shape}, not {expected.shape}")
        error = largest_error(result, expected)
        return {"error": error, "way": program.name, "spent_s": program.tuned_s}

    def time(self, message: JsonFields) -> JsonFields:
        """Return the seconds of a call in each of several batches."""
        assert self._way is not None
        return {"seconds": self._way.burst(message["seconds"])}
