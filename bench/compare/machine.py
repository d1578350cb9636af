"""The machine that a run was made on, described so that its figures can be judged."""

from __future__ import annotations

import os
import platform
from dataclasses import asdict
from typing import Any

import numpy as np

from ansorc.codegen.llvm.limits import machine_limits
from ansorc.search.record.record import current_environment
from ansorc.target import detect


def describe(versions: dict[str, dict[str, str]]) -> dict[str, Any]:
    """Return the machine, its measured limits (3 s) and the `versions` of all sides."""
    target = detect()
    return {
        "cpu": current_environment().cpu,
        "cores": target.cores,
        "target": target.text,
        "features": list(target.features),
        "cache_bytes": list(target.cache_bytes),
        "limits": asdict(machine_limits(target)),
        "load": list(os.getloadavg()),
        "system": platform.platform(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "versions": versions,
    }


def is_same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether times of two machines compare."""
    return all(one[key] == other[key] for key in ("cpu", "cores", "target"))
