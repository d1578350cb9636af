"""The clock of a GPU and what holds it down, by NVIDIA's management library.

It comes with the driver, and is asked through ctypes; where it is missing nothing is said.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

_NAMES = ("libnvidia-ml.so.1", "nvml.dll")
_SM_CLOCK = 1
_HELD_BY = {
    0x2: "its application clocks", 0x4: "power", 0x8: "the hardware", 0x10: "other GPUs",
    0x20: "heat", 0x40: "heat", 0x80: "the power supply",
}  # fmt: skip
"""The meaning of the bits of `nvmlDeviceGetCurrentClocksThrottleReasons`; 0x1 is an idle GPU."""


def clock_of(bus: str) -> str:
    """Return the clock now of the GPU at a PCI bus address, as in "1005 MHz, held down by power".

    Empty if nobody tells.
    """
    library, device = _library(), ctypes.c_void_p()
    if library is None:
        return ""
    mhz, bits = ctypes.c_uint(), ctypes.c_ulonglong()
    try:
        is_unknown = (
            library.nvmlDeviceGetHandleByPciBusId_v2(bus.encode(), ctypes.byref(device))
            or library.nvmlDeviceGetClockInfo(device, _SM_CLOCK, ctypes.byref(mhz))
            or library.nvmlDeviceGetCurrentClocksThrottleReasons(device, ctypes.byref(bits))
        )
    except AttributeError:  # its version has no such function
        is_unknown = True
    if is_unknown:
        return ""
    reasons = dict.fromkeys(words for bit, words in _HELD_BY.items() if bits.value & bit)
    return f"{mhz.value} MHz" + (f", held down by {' and '.join(reasons)}" if reasons else "")


@lru_cache(maxsize=1)
def _library() -> Any:
    for name in _NAMES:
        try:
            library = ctypes.CDLL(name)
            if library.nvmlInit_v2() == 0:
                return library
        except (OSError, AttributeError):
            continue
    return None
