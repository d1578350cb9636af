"""What NVIDIA's management library says of a GPU's clock, and that records keep it."""

from __future__ import annotations

from typing import Any

import pytest

from ansorc.codegen.cuda import clocks
from ansorc.search.measure.messages import outcomes_message, outcomes_of
from ansorc.search.measure.result import Measurement


class FakeLibrary:
    """Answers as the library of a GPU at 1005 MHz does; `bits` are what holds it down."""

    def __init__(self, bits: int, status: int = 0) -> None:
        self._bits, self._status = bits, status

    def nvmlDeviceGetHandleByPciBusId_v2(self, bus: bytes, device: Any) -> int:  # noqa: N802
        assert bus == b"0000:01:00.0"
        device._obj.value = 7
        return 0

    def nvmlDeviceGetClockInfo(self, device: Any, which: int, mhz: Any) -> int:  # noqa: N802
        assert (device.value, which) == (7, 1)
        mhz._obj.value = 1005
        return self._status

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, device: Any, bits: Any) -> int:  # noqa: N802
        bits._obj.value = self._bits
        return 0


@pytest.mark.parametrize(
    ("library", "words"),
    [
        (FakeLibrary(0), "1005 MHz"),
        (FakeLibrary(0x1), "1005 MHz"),
        (FakeLibrary(0x4), "1005 MHz, held down by power"),
        (FakeLibrary(0x64), "1005 MHz, held down by power and heat"),
        (FakeLibrary(0, status=3), ""),
        (None, ""),
        (object(), ""),
    ],
)
def test_clocks_in_words(monkeypatch: pytest.MonkeyPatch, library: object, words: str) -> None:
    monkeypatch.setattr(clocks, "_library", lambda: library)
    assert clocks.clock_of("0000:01:00.0") == words


def test_a_machine_without_the_library() -> None:
    assert isinstance(clocks.clock_of("0000:01:00.0"), str)


def test_what_was_said_comes_with_the_times() -> None:
    found = Measurement((1e-3,), checked=True, note="1005 MHz, held down by power")
    assert outcomes_of(outcomes_message([found])) == [found]
