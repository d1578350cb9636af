"""The machine and settings under which a time was measured: times of another do not compare."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass

from ansorc.search.measure.options import CachePolicy
from ansorc.target import cpu_model, detect


@dataclass(frozen=True)
class Environment:
    """What must be equal for two times to be comparable."""

    cpu: str
    """The model name that the CPU gives itself."""
    features: tuple[str, ...]
    """Its instruction sets, by their LLVM names."""
    cores: int
    """Cores that the measuring process could use."""
    threads: int
    """Threads of the kernel; 0 means all of `cores`, and is what as many as `cores` become."""
    cache: CachePolicy = "warm"
    """What the caches held when the timed calls began."""

    def __post_init__(self) -> None:
        if self.threads == self.cores:
            object.__setattr__(self, "threads", 0)

    @property
    def running(self) -> int:
        """The threads that run a kernel."""
        return self.threads or self.cores

    @property
    def key(self) -> str:
        """A short content hash."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:16]

    def to_json(self) -> str:
        """Return the fields as JSON text."""
        return json.dumps(asdict(self), sort_keys=True)

    @staticmethod
    def from_json(text: str) -> Environment:
        """Return the environment that `to_json` wrote; older ones knew warm caches alone."""
        fields = json.loads(text)
        return Environment(
            str(fields["cpu"]),
            tuple(str(name) for name in fields["features"]),
            int(fields["cores"]),
            int(fields["threads"]),
            fields.get("cache", "warm"),
        )


def current_environment(threads: int = 0, cache: CachePolicy = "warm") -> Environment:
    """Return the environment of this process for kernels of `threads` threads (0: all cores)."""
    target = detect()
    return Environment(cpu_model(), target.features, target.cores, threads, cache)
