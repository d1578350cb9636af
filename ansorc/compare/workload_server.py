"""The process of one side of `ansorc bench`: JSON lines in and out, arrays in .npz files.

{"do": "prepare", "workload": {…}, "arrays": …, "outputs": …}  -> {"program": …, "versions": {…}}
{"do": "time", "seconds": 0.03}                                -> what `Clocked.times` returns

An answer {"gap": words, "kind": kind} says why there is none.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from ansorc.compare.program import Clocked
from ansorc.compare.serving import JsonFields, serve
from ansorc.compare.workload_request import WorkloadRequest
from ansorc.compare.workload_sides import SIDES, versions
from ansorc.search.programs import ProgramChoice
from ansorc.search.record import parse_record_uri


class WorkloadServer:
    """Answers the messages to one side."""

    def __init__(self, side: str) -> None:
        self._side = side
        self._way: Clocked | None = None

    def prepare(self, message: JsonFields) -> JsonFields:
        """Make the side's program, and write its outputs."""
        self._way, known = None, versions(self._side)
        fields = message["workload"]
        with np.load(message["arrays"]) as held:
            inputs = {name: held[f"input {name}"] for name in fields.pop("inputs")}
            constants = {name: held[f"constant {name}"] for name in fields.pop("constants")}
        fields["path"], choice = Path(fields["path"]), fields.pop("choice")
        choice["records"] = parse_record_uri(choice["records"])
        request = WorkloadRequest(
            inputs=inputs, constants=constants, choice=ProgramChoice(**choice), **fields
        )
        ways = [make() for make in SIDES[self._side][0](request)]
        self._way = Clocked(ways[0].program)
        self._way.program.run()
        np.savez(message["outputs"], *ways[0].outputs())
        return {"program": self._way.program.name, "versions": known}

    def time(self, message: JsonFields) -> JsonFields:
        """Return what calls take, in each way of calling."""
        assert self._way is not None
        return dict(self._way.times(message["seconds"]))


def main() -> None:
    """Serve the side that is named."""
    server = WorkloadServer(sys.argv[1])
    serve({"prepare": server.prepare, "time": server.time})


if __name__ == "__main__":
    main()
