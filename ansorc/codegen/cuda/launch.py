"""What the host has to know of a CUDA program: which kernels it launches, and on what.

The first line of a CUDA text is a comment that holds the plan; compiled code carries it in front of
the image.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from ansorc.errors import BuildError

_COMMENT = "// launches: "
_MAGIC = b"ansorc cuda 2\n"


@dataclass(frozen=True)
class KernelArgument:
    """An array that a kernel gets: a parameter of the program, or a place in its workspace."""

    kind: Literal["parameter", "workspace"]
    place: int
    """The parameter's position in call order, or an offset in bytes, of a kernel's workspace a
    multiple of 256."""
    offset: int = 0
    """Of a parameter: where in it the array begins, in bytes."""


@dataclass(frozen=True)
class Launch:
    """One launch of a `__global__` function; launches of a program follow each other in a stream.

    CUDA's limits (threads of a block, shared memory) hold: `emit` refuses what breaks them.
    """

    name: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_shared_bytes: int
    """Bytes of `extern __shared__` memory; 0 where all shared arrays are declared in the kernel."""
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
    """Of a network: how many launches each of its calls of a kernel makes. Its last parameter are
    the weights, if there are any."""
    fault_place: int = 0
    """Where in the workspace it says which check failed, if any did (`FAULT_RECORD`)."""
    fault_statuses: tuple[int, ...] = ()
    """For each check its status; none: there are no checks. Else the first launch clears that."""

    def comment(self) -> str:
        """Return the first line of the text of this program."""
        return f"{_COMMENT}{json.dumps(asdict(self), sort_keys=True)}"

    @staticmethod
    def of_text(text: str) -> LaunchPlan:
        """Return the plan in the first line of `text`; raise BuildError if there is none."""
        first = text.partition("\n")[0]
        if not first.startswith(_COMMENT):
            raise BuildError("this is no CUDA text of ansorc: its first line holds no launches")
        return _plan(json.loads(first.removeprefix(_COMMENT)))

    def with_image(self, image: bytes, text: str = "") -> bytes:
        """Return the code of this program: the plan, and what the compiler made (of `text`)."""
        plan = json.dumps(asdict(self), sort_keys=True).encode()
        source = zlib.compress(text.encode())
        return b"%s%d %d\n%s%s%s" % (_MAGIC, len(plan), len(source), plan, source, image)

    @staticmethod
    def of_code(code: bytes) -> tuple[LaunchPlan, bytes]:
        """Return the plan and the image of what `with_image` made; raise BuildError for others."""
        plan, _, image = _parts(code)
        return _plan(json.loads(plan)), image

    @staticmethod
    def text_of(code: bytes) -> str:
        """Return the text that `with_image` got, "" if none; raise BuildError for other code."""
        return zlib.decompress(_parts(code)[1]).decode()


def _parts(code: bytes) -> tuple[bytes, bytes, bytes]:
    """The plan, the compressed text and the image in compiled code."""
    if not code.startswith(_MAGIC):
        raise BuildError("this is no compiled CUDA program of ansorc: its head is another")
    lengths, _, rest = code.removeprefix(_MAGIC).partition(b"\n")
    first, second = map(int, lengths.split())
    end = first + second
    return rest[:first], rest[first:end], rest[end:]


def _plan(data: Mapping[str, Any]) -> LaunchPlan:
    launches = tuple(
        Launch(
            one["name"], tuple(one["grid"]), tuple(one["block"]), one["dynamic_shared_bytes"],
            tuple(KernelArgument(**argument) for argument in one["arguments"]),
        )
        for one in data["launches"]
    )  # fmt: skip
    calls = tuple(data.get("calls", ()))
    statuses = tuple(data.get("fault_statuses", ()))
    place = data.get("fault_place", 0)
    return LaunchPlan(data["name"], launches, data["workspace_bytes"], calls, place, statuses)
