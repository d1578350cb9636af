"""The machine that a runner reports, as a target and as the environment of its times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath

from ansorc.errors import MeasureError, TargetError
from ansorc.fleet.announcement import Announcement
from ansorc.target import Target
from ansorc.target.presets import (
    ARM_FEATURES,
    ARM_PARTS,
    CPUINFO_NAMES,
    GUARDED_FEATURES,
    PRESETS,
    x86_model_name,
)

_KEYS = {16: "hwcap", 26: "hwcap2"}
"""Keys of the auxiliary vector, by the numbers in `ARM_FEATURES`."""
_UNITS = {"K": 1 << 10, "M": 1 << 20}
_LEVELS = ("x86-64-v4", "x86-64-v3", "x86-64-v2")
EMULATED = "emulated "
"""Beginning of the processor's name in the environment of records from an emulator."""


@dataclass(frozen=True)
class RunnerMachine:
    """The lines "name: value" of a runner's hello."""

    facts: Mapping[str, str]

    @staticmethod
    def of(hello: bytes, command: str = "") -> RunnerMachine:
        """Return what a hello says; raise MeasureError if it says no architecture.

        A machine is emulated if the runner finds out, or if `command`, which started it, says so.
        """
        lines = hello.decode(errors="replace").splitlines()
        facts = {name: value for name, _, value in (line.partition(": ") for line in lines)}
        if "architecture" not in facts:
            raise MeasureError(f"the runner does not say what it runs on: {hello[:200]!r}")
        if any(PurePath(word).name.startswith("qemu-") for word in command.split()):
            facts.setdefault("emulated", "its command names QEMU")
        return RunnerMachine(facts)

    @property
    def emulated(self) -> str:
        """Why its times are an emulator's; empty on a real machine."""
        return self.facts.get("emulated", "")

    @property
    def probe_s(self) -> float:
        """Seconds that a fixed piece of work takes it, in one thread."""
        return float(self.facts["probe_s"])

    @property
    def can_be_cold(self) -> bool:
        """Return whether it has instructions that empty its caches."""
        return self.facts.get("cold") == "1"

    @property
    def target(self) -> Target:
        """The target of its code, as it was proved; raise TargetError for another CPU."""
        architecture = self.facts["architecture"]
        if architecture == "aarch64":
            preset, features = self._arm()
        elif architecture == "x86_64":
            preset, features = self._x86()
        else:
            raise TargetError(
                f"the runner is on {architecture}: ansorc makes code for x86_64 and aarch64; "
                "a 64-bit system on the board, and its runner, would do"
            )
        known = set(PRESETS[preset].features)
        changes = [f"+{name}" for name in sorted(features - known)]
        changes += [f"-{name}" for name in sorted(known - features - {"neon"})]
        words = [f"{architecture}-linux-gnu", f"-mcpu={preset}", f"-cores={self.facts['cores']}"]
        if changes:
            words.append("-mattr=" + ",".join(changes))
        caches = [
            _bytes(self.facts.get(f"cache{level}", "")) or usual
            for level, usual in enumerate(PRESETS[preset].cache_bytes, start=1)
        ]
        words.append("-cache=" + ",".join(map(str, caches)))
        return Target.parse(" ".join(words))

    def announcement(self, label: str) -> Announcement:
        """Return what a device called `label` says of itself."""
        name = self.facts.get("model") or self.facts.get("part") or self.facts["architecture"]
        if self.emulated:
            name = EMULATED + self.facts.get("part", self.facts["architecture"])
        target = self.target
        return Announcement(label, target.text, name, target.features, target.cores, self.probe_s)

    def is_same(self, other: RunnerMachine) -> bool:
        """Return whether both are the same machine, as far as it shows."""
        varying = {"probe_s"}
        mine = {name: value for name, value in self.facts.items() if name not in varying}
        return mine == {n: value for n, value in other.facts.items() if n not in varying}

    def _arm(self) -> tuple[str, set[str]]:
        words = {key: int(self.facts.get(name, "0")) for key, name in _KEYS.items()}
        features = {name for name, (key, bit) in ARM_FEATURES.items() if words[key] >> bit & 1}
        return ARM_PARTS.get(self.facts.get("part", ""), "generic"), {"neon", *features}

    def _x86(self) -> tuple[str, set[str]]:
        flags = self.facts.get("flags", "").split()
        features = {CPUINFO_NAMES.get(flag, flag) for flag in flags} & set(GUARDED_FEATURES)
        family, model = (int(self.facts.get(name, "0")) for name in ("cpu family", "cpu model"))
        name = x86_model_name(self.facts.get("vendor_id", ""), family, model, features)
        levels = (level for level in _LEVELS if set(PRESETS[level].features) <= features)
        return name or next(levels, _LEVELS[-1]), features


def _bytes(text: str) -> int:
    """The size of a cache as Linux writes it, such as 512K; 0 if it does not."""
    number, unit = text[:-1], text[-1:]
    return int(number) * _UNITS[unit] if number.isdigit() and unit in _UNITS else 0
