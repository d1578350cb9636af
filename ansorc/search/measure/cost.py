"""What a candidate has cost: the seconds of each phase of its build and of its run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass


@dataclass(frozen=True)
class BuildCost:
    """Seconds that each phase of building a candidate took."""

    lower_s: float = 0.0
    passes_s: float = 0.0
    emit_s: float = 0.0
    llvm_s: float = 0.0

    @property
    def total_s(self) -> float:
        """Seconds for the whole build."""
        return sum(astuple(self))

    @staticmethod
    def sum(costs: Iterable[BuildCost]) -> BuildCost:
        """Return the sum of `costs`, phase by phase."""
        return BuildCost(*map(sum, zip(*map(astuple, costs), strict=True)))


@dataclass(frozen=True)
class RunCost:
    """Seconds that each phase of running a candidate took."""

    prepare_s: float = 0.0
    """Linking the machine code, packing constants."""
    warm_up_s: float = 0.0
    """The first call, which is not timed."""
    check_s: float = 0.0
    """Poisoning the outputs and comparing them with the reference."""
    repeats_s: float = 0.0
    """The timed calls, with what is done between them."""

    @property
    def total_s(self) -> float:
        """Seconds for the whole run."""
        return sum(astuple(self))

    @staticmethod
    def sum(costs: Iterable[RunCost]) -> RunCost:
        """Return the sum of `costs`, phase by phase."""
        return RunCost(*map(sum, zip(*map(astuple, costs), strict=True)))
