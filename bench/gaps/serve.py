"""The process of one side: `python -m bench.gaps.serve SIDE`, JSON lines in and out.

{"do": "prepare", "threads": …, "records": …}      -> {"error": …}
{"do": "time", "gap_us": …, "seconds": …}          -> {"seconds": a call's, the median}

`error` is the largest deviation from float64, as a share of the largest element. The side
"one beside other" is "one"; in the same process "other" is called before each gap.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

import numpy as np

from ansorc.compare.figures import largest_error
from ansorc.compare.program import SideProgram
from ansorc.compare.serving import JsonFields, serve
from bench.gaps.sides import BESIDE, SIDES, operands

_LEAST_CALLS, _WARM_UP = 11, 3


class GapServer:
    """Answers the messages to one side."""

    def __init__(self, side: str) -> None:
        self._name, _, self._other_name = side.partition(BESIDE)
        self._program: SideProgram | None = None
        self._other: SideProgram | None = None

    def prepare(self, message: JsonFields) -> JsonFields:
        """Make the side's program, and compare its result with float64."""
        records = Path(message["records"]) if message["records"] else None
        self._program = SIDES[self._name](message["threads"], records)
        if self._other_name:
            self._other = SIDES[self._other_name](message["threads"], records)
        a, b = operands()
        expected = a.astype(np.float64) @ b.astype(np.float64)
        self._program.run()
        return {"error": largest_error(np.asarray(self._program.output()), expected)}

    def time(self, message: JsonFields) -> JsonFields:
        """Return the time of a call after a gap in which the calling thread computes."""
        assert self._program is not None
        gap_s, seconds = message["gap_us"] * 1e-6, message["seconds"]
        run, clock, other = self._program.run, time.perf_counter, self._other
        times: list[float] = []
        end = clock() + seconds
        while len(times) < _LEAST_CALLS + _WARM_UP or clock() < end:
            if other is not None:
                other.run()
            until = clock() + gap_s
            while clock() < until:
                pass
            begin = clock()
            run()
            times.append(clock() - begin)
        return {"seconds": statistics.median(times[_WARM_UP:])}


def main() -> None:
    """Serve the side that is named."""
    server = GapServer(sys.argv[1])
    serve({"prepare": server.prepare, "time": server.time})


if __name__ == "__main__":
    main()
