"""The text of a program: what is measured and recorded of it, and the one codec of its steps."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from ansorc.schedule import Names, Step, steps_from_json, steps_to_json


@dataclass(frozen=True)
class ProgramText:
    """The text of a program: schedule steps as JSON, or a whole loop program as IR text.

    This is the one value of a program that is not measured yet, wherever it comes from: the search,
    the untuned default, related tasks, or records. Processes and machines take it as it is.

    `steps` is what `schedule.steps_to_json` returns, as text, of steps under canonical names
    (`schedule.Names`), so that it serves all definitions of one computation. If `function` is given
    it is parsed (`ansorc.ir.parser`) and built instead of the steps; its parameters must be the
    task's.
    """

    steps: str
    function: str = ""

    @staticmethod
    def encode(steps: Iterable[Step], names: Names) -> ProgramText:
        """Return `steps` of the definition that `names` is of as text; raise as `to_canonical`."""
        return ProgramText.of_json(steps_to_json(names.to_canonical(tuple(steps))))

    @staticmethod
    def of_json(steps: Sequence[object]) -> ProgramText:
        """Return a JSON list of steps under canonical names as text."""
        return ProgramText(json.dumps(steps, separators=(",", ":")))

    @staticmethod
    def of_function(text: str) -> ProgramText:
        """Return a loop program's text; it has no steps."""
        return ProgramText("[]", text)

    def decode(self, names: Names) -> tuple[Step, ...]:
        """Return the steps under the names of the definition that `names` is of.

        Raise ScheduleError where they name what it does not have, RecordError where they are no
        steps of this ansorc.
        """
        return names.from_canonical(self.written_steps)

    @property
    def written_steps(self) -> tuple[Step, ...]:
        """The steps under the names that stand in the text; raise RecordError as `decode`."""
        return steps_from_json(json.loads(self.steps))

    @cached_property
    def key(self) -> str:
        """A content hash: equal programs of one task have equal keys."""
        steps = json.dumps(json.loads(self.steps), separators=(",", ":"), sort_keys=True)
        return hashlib.sha256(f"{steps}\n{self.function}".encode()).hexdigest()[:24]
