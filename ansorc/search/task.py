"""The subject of tuning: a tensor computation for a target, under a name."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace

from ansorc.codegen.base import opener_of
from ansorc.errors import ArgumentError, RecordError
from ansorc.lang.dag import ComputeDAG
from ansorc.lang.literal import short_text
from ansorc.target import Target


@dataclass(frozen=True, init=False)
class Task:
    """A computation to tune for a target; `target` may be given as text such as "native"."""

    dag: ComputeDAG
    target: Target
    name: str

    def __init__(self, dag: ComputeDAG, target: Target | str = "native", name: str = "kernel"):
        parsed = Target.parse(target) if isinstance(target, str) else target
        for value, kind, what in (
            (dag, ComputeDAG, "dag"),
            (parsed, Target, "target"),
            (name, str, "name"),
        ):
            if not isinstance(value, kind):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ArgumentError(f"Task: {what} is {short_text(value)}, not a {kind.__name__}")
        refuse_c_functions(dag, parsed)
        object.__setattr__(self, "dag", dag)
        object.__setattr__(self, "target", parsed)
        object.__setattr__(self, "name", name)

    def __str__(self) -> str:
        return f"{self.name} for {self.target.text}\n{self.dag}"

    def __repr__(self) -> str:
        return f"<Task {self.name}: {self.dag!r} for {self.target.text}>"

    @property
    def key(self) -> str:
        """A content hash of the computation and the target; the name does not count."""
        return hashlib.sha256(f"{self.dag.key}\n{self.target.text}".encode()).hexdigest()[:24]

    def with_threads(self, threads: int) -> Task:
        """Return the task as it looks to kernels of `threads` threads (0: one for each core).

        Its target has that many cores, for the search and the default to share the work among. The
        key is another: times are recorded under that of the task itself.
        """
        if threads in (0, self.target.cores):
            return self
        return Task(self.dag, replace(self.target, cores=threads), self.name)

    def to_json(self) -> str:
        """Return the task as text that `from_json` reads back."""
        fields = {"dag": self.dag.to_text(), "target": self.target.text, "name": self.name}
        return json.dumps(fields)

    @staticmethod
    def from_json(text: str) -> Task:
        """Return the task that `to_json` wrote; raise RecordError if `text` is not one."""
        try:
            fields: dict[str, str] = json.loads(text)
            dag, target, name = fields["dag"], fields["target"], fields["name"]
        except (ValueError, KeyError, TypeError) as error:
            raise RecordError(f"not a task: {text[:80]!r} ({error})") from error
        return Task.from_texts(dag, target, name)

    @staticmethod
    def from_texts(dag_text: str, target_text: str, name: str) -> Task:
        """Return the task of `ComputeDAG.to_text`, `Target.text` and a name."""
        return Task(ComputeDAG.from_text(dag_text), Target.parse(target_text), name)


def refuse_c_functions(dag: ComputeDAG, target: Target) -> None:
    """Raise ArgumentError if a stage of `dag` is a C function, and `target` is a device."""
    call = next((op.c_call for op in dag.ops if op.c_call is not None), None)
    if call is not None and opener_of(target).capabilities(target).device:
        raise ArgumentError(
            f"the C function '{call.function.name}' runs on CPUs, not on '{target.text}'; write "
            "its stage by ac.compute for a GPU"
        )
