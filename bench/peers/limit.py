"""Not a peer but the machine: how long its FMA units or its memory need for a case, in turns too.

A call takes no less than its useful operations at the FMA peak, and no less than moving its arrays
once at the bandwidth that a probe reaches on as many bytes (so from the cache that holds them). The
longer one is the limit of the case.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata
from typing import NoReturn

from ansorc.codegen.llvm.limits import CopyProbe, FmaProbe, ReadProbe
from ansorc.target import Target
from bench.paper_cases import case
from bench.peers.program import Make, Program, Request, Unsupported

_FIRST_S = 0.02
_FEW_OUTPUTS = 8
"""Outputs of less than this part of all bytes do not count as writing."""


def versions() -> dict[str, str]:
    """Return the version of ansorc, whose probes these are."""
    return {"ansorc": metadata.version("ansorc")}


def programs(request: Request) -> Iterator[tuple[str, Make]]:
    """Yield the limit that binds; it is timed like a program, but computes nothing."""
    if not request.case:
        raise Unsupported("there is nothing to dispatch")
    yield "limit", lambda: _limit(request)


def _limit(request: Request) -> Program:
    dag = case(request.case).dag()
    target = Target.parse("native")
    size = sum(buffer.bytes for buffer in dag.params)
    written = sum(buffer.bytes for buffer in dag.outputs)
    fma = FmaProbe(target, request.threads)
    if _FEW_OUTPUTS * written < size:
        name, memory = "read bandwidth", ReadProbe(target, request.threads, size)
    else:
        name, memory = "copy bandwidth", CopyProbe(target, request.threads, size // 2)
    arithmetic_s = dag.flops / fma.time(_FIRST_S)[0]
    moving_s = size / memory.time(_FIRST_S)[0]
    if arithmetic_s >= moving_s:
        return _probed("FMA peak", fma, dag.flops)
    return _probed(name, memory, size)


def _probed(name: str, probe: FmaProbe | ReadProbe | CopyProbe, work: float) -> Program:
    def nothing() -> None:
        """A limit has no result."""

    def no_output() -> NoReturn:
        raise AssertionError("a limit has no output")

    return Program(
        name, nothing, no_output, lambda seconds: [work / probe.time(seconds)[0]], is_limit=True
    )
