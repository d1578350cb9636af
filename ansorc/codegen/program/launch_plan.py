"""The launches of a program for a device: which kernels the host starts, and on what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class KernelArgument:
    """An array that a kernel gets: a parameter of the program, or a place in its workspace."""

    kind: Literal["parameter", "workspace"]
    place: int
    """The parameter's position in call order, or an offset in bytes, of a kernel's workspace a
    multiple of 256."""
    offset: int = 0
    """The offset of the array in its parameter, in bytes."""


@dataclass(frozen=True)
class Launch:
    """One launch of a kernel; launches of a program follow each other in a stream.

    The device's limits (threads of a block, shared memory) hold: `emit` refuses what breaks them.
    """

    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_shared_bytes: int
    """Bytes of `KernelText.dynamic_memory`; 0 where the kernel declares all its shared arrays."""
    arguments: tuple[KernelArgument, ...]

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        return self.grid[0] * self.grid[1] * self.grid[2]


@dataclass(frozen=True)
class LaunchPlan:
    """The launches of one program, in their order, and the workspace that they share."""

    name: str
    launches: tuple[Launch, ...]
    workspace_bytes: int = 0
    """Bytes of global memory for what is kept between launches, aligned to 256; 0: none."""
    calls: tuple[int, ...] = ()
    """For a network: how many launches each of its calls of a kernel makes. Its last parameter are
    the weights, if there are any."""
    fault_place: int = 0
    """Where in the workspace it says which check failed, if any did (`FAULT_RECORD`)."""
    fault_statuses: tuple[int, ...] = ()
    """For each check its status; none: there are no checks. Else the first launch clears that."""

    @staticmethod
    def from_json(fields: Mapping[str, Any]) -> LaunchPlan:
        """Return the plan whose `asdict` was written; raise KeyError or TypeError for others."""
        launches = tuple(
            Launch(
                launch["name"], tuple(launch["grid"]), tuple(launch["block"]),
                launch["dynamic_shared_bytes"],
                tuple(KernelArgument(**argument) for argument in launch["arguments"]),
            )
            for launch in fields["launches"]
        )  # fmt: skip
        return LaunchPlan(
            fields["name"],
            launches,
            fields["workspace_bytes"],
            tuple(fields.get("calls", ())),
            fields.get("fault_place", 0),
            tuple(fields.get("fault_statuses", ())),
        )
