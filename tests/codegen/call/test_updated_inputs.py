"""Kernels that write new values to their inputs: calls from Python and C, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import ansorc as ac
from ansorc.errors import CallError, OutOfRangeError
from tests.support.guarded_memory import guarded

K, ROW = ac.placeholder((9, 5), "K"), ac.placeholder((5,), "row")
PLACE = ac.placeholder((1,), "pos", "int32")
SUMS = ac.placeholder((9,), "S")


def appended(*, has_output: bool = False) -> ac.ComputeDAG:
    """Write a row; the sums of all rows are added to one more updated input, or an output."""
    new = ac.update(K, ROW, at=PLACE[0], name="K2")
    j = ac.reduce_axis(5, "j")
    sums = ac.compute((9,), lambda i: ac.sum(new[i, j], axis=j), "sums")
    if has_output:
        return ac.ComputeDAG([K, ROW, PLACE, sums, new])
    made = ac.update(SUMS, ac.compute((9,), lambda i: sums[i] + SUMS[i]), name="S2")
    return ac.ComputeDAG([K, ROW, PLACE, SUMS, made, new])


def arrays(place: int = 3) -> list[np.ndarray]:
    rng = np.random.default_rng(place)
    k, row, s = (rng.random(shape, np.float32) for shape in ((9, 5), 5, 9))
    return [k, row, np.array([place], np.int32), s]


@pytest.mark.parametrize("target", ["native", "cuda-emulated -arch=sm_80"])
def test_calls_write_in_place(target: str) -> None:
    module, given = ac.build(appended(), target), [guarded(array) for array in arrays()]
    if "cuda" in target:  # whose vectors need addresses that are multiples of 16
        given = [np.array(array) for array in given]
    expected, sums = given[0].copy(), given[3].copy()
    expected[3] = given[1]
    for _ in range(3):
        assert module(*given) is None
        sums += expected.sum(1)
    np.testing.assert_array_equal(given[0], expected)
    np.testing.assert_allclose(given[3], sums, rtol=1e-5)


def test_other_outputs_are_returned() -> None:
    module = ac.build(appended(has_output=True))
    k, row, place, _ = arrays()
    out = np.zeros(9, np.float32)
    found = module(k, row, place)
    assert module(k, row, place, out) is None
    np.testing.assert_array_equal(found, out)
    np.testing.assert_array_equal(k[3], row)
    with pytest.raises(OutOfRangeError, match="got the index 9 for dimension 0 of 'K'"):
        module(k, row, place + 6)


def test_refusals() -> None:
    module, (k, row, place, s) = ac.build(appended()), arrays()
    frozen = k.copy()
    frozen.flags.writeable = False
    with pytest.raises(CallError, match="'K' is read-only, but the kernel writes the new values"):
        module(frozen, row, place, s)
    with pytest.raises(CallError, match="the updated input 'K' overlaps 'row' in memory"):
        module(k, k[4], place, s)
    with pytest.raises(CallError, match=r"'K' is not contiguous .* copy it to one, and copy the r"):
        module(np.zeros((9, 10), np.float32)[:, ::2], row, place, s)
    module(k, row, place, s)
    with pytest.raises(CallError, match="overlaps"):  # machine code knows it, too
        module(k, k[4], place, s)
    with pytest.raises(CallError, match="is read-only"):
        module(frozen, row, place, s)


def test_the_library_says_what_it_updates(tmp_path: Path) -> None:
    ac.build(appended(), name="append").save(tmp_path / "append.so")
    header = (tmp_path / "append.h").read_text()
    assert "float *K,\n" in header
    assert "const float *row" in header
    assert "K: float32[9][5], input, updated" in header
    assert "A call writes new values to K, S, which may not overlap any other array" in header
    manifest = json.loads((tmp_path / "append.json").read_text())
    assert '"updated": true' in json.dumps(manifest)
    k, row, place, s = arrays()
    ac.load_library(tmp_path / "append.so")(k, row, place, s)
    np.testing.assert_array_equal(k[3], row)
