"""A program for a device as its back end emits it: `DeviceProgram`, text in parts and launches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from ansorc.codegen.program.launch_plan import LaunchPlan


@dataclass(frozen=True)
class CheckLine:
    """A line of a kernel that says which check of its program fails there."""

    before: str
    check: int
    """Counted from 1 on."""
    after: str

    def __str__(self) -> str:
        return f"{self.before}{self.check}{self.after}"


Line: TypeAlias = str | CheckLine


@dataclass(frozen=True)
class KernelText:
    """One kernel in the language of a back end, which knows how its head is written."""

    name: str
    parameters: tuple[str, ...]
    """Their declarations, in the order of `Launch.arguments`."""
    threads: int
    """The threads of a block."""
    lines: tuple[Line, ...]
    """Its body."""
    parts: tuple[str, ...] = ()
    """The names of the parts of the prelude that it needs."""
    dynamic_memory: str = ""
    """The body's name for the shared memory that the launch allocates; "": there is none."""
    waits: bool = False
    """Whether threads of a block wait for each other."""

    def rename(self, name: str, checks_before: int) -> KernelText:
        """Return the kernel as a part of another program, which has other checks before its own."""
        lines = (
            replace(line, check=line.check + checks_before) if isinstance(line, CheckLine) else line
            for line in self.lines
        )
        return replace(self, name=name, lines=tuple(lines))


@dataclass(frozen=True)
class DeviceProgram:
    """Kernels, each once, and the launches of them that are one call of the program."""

    kernels: tuple[KernelText, ...]
    plan: LaunchPlan

    @staticmethod
    def from_json(fields: Mapping[str, Any]) -> DeviceProgram:
        """Return the program whose `asdict` was written."""
        kernels = tuple(map(_kernel_of, fields["kernels"]))
        return DeviceProgram(kernels, LaunchPlan.from_json(fields["plan"]))


def _kernel_of(fields: Mapping[str, Any]) -> KernelText:
    lines = (line if isinstance(line, str) else CheckLine(**line) for line in fields["lines"])
    return KernelText(
        fields["name"], tuple(fields["parameters"]), fields["threads"], tuple(lines),
        tuple(fields["parts"]), fields["dynamic_memory"], fields["waits"],
    )  # fmt: skip
