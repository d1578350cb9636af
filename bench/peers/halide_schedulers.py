"""What every use of Halide's autoschedulers needs: its plugins, and parameters of known extents."""

# Halide's Python package has no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import halide as hl


def load_autoscheduler(name: str) -> None:
    """Load an autoscheduler; the plugins lie in the wheel, outside of where the loader looks."""
    folder = Path(str(hl.__file__)).parent
    plugins = sorted(folder.glob(f"lib*/libautoschedule_{name.lower()}.*"))
    if not plugins:
        raise ImportError(f"the wheel of halide has no autoscheduler {name} in {folder}")
    hl.load_plugin(str(plugins[0]))


def set_bounds(holder: Any, shape: Sequence[int]) -> None:
    """Tell Halide the extents and strides; its dimensions are NumPy's from last to first."""
    stride = 1
    for axis, extent in enumerate(shape[::-1]):
        holder.dim(axis).set_bounds(0, extent)
        holder.dim(axis).set_stride(stride)
        stride *= extent
