"""The emulator refuses what a processor refuses: else tests with it would prove nothing."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from tests.support.tiles.emulated import emulator


def configuration(*shapes: tuple[int, int], palette: int = 1) -> ctypes.Array[ctypes.c_uint8]:
    content = (ctypes.c_uint8 * 64)(palette)
    for number, (rows, row_bytes) in enumerate(shapes):
        content[16 + 2 * number], content[48 + number] = row_bytes, rows
    return content


@pytest.mark.parametrize(
    ("shapes", "words"),
    [
        ((), b"zeros without a configuration"),
        (((16, 64), (16, 32), (16, 64)), b"shapes that do not fit"),
        (((16, 64), (15, 64), (16, 64)), b"shapes that do not fit"),
        (((16, 64), (16, 64), (16, 60)), b"shapes that do not fit"),
        (((17, 64), (16, 64), (16, 64)), b"a tile too large"),
        (((16, 64), (16, 64), (16, 64)), b""),
        (((5, 12), (5, 8), (2, 12)), b""),
    ],
)
def test_shapes_are_checked(shapes: tuple[tuple[int, int], ...], words: bytes) -> None:
    library = emulator()
    library.tiles_reset()
    if shapes:
        library.tiles_ldtilecfg(configuration(*shapes))
    for number in range(3):
        library.tiles_tilezero(ctypes.c_int8(number))
    library.tiles_tdpbssd(ctypes.c_int8(0), ctypes.c_int8(1), ctypes.c_int8(2))
    assert words in library.tiles_fault() if words else library.tiles_fault() == b""
    library.tiles_reset()


def test_nothing_is_held_after_the_release() -> None:
    library = emulator()
    for words in (b"that nothing was put in", b"a store without a configuration"):
        library.tiles_reset()
        library.tiles_ldtilecfg(configuration((16, 64)))
        if b"store" in words:
            library.tiles_tilezero(ctypes.c_int8(0))
            library.tiles_tilerelease()
        into = np.zeros((16, 16), np.int32)
        address = ctypes.c_void_p(into.ctypes.data)
        library.tiles_tilestored64(ctypes.c_int8(0), address, ctypes.c_int64(64))
        assert words in library.tiles_fault()
    library.tiles_ldtilecfg(configuration((16, 64), palette=0))
    library.tiles_reset()


def test_a_product_of_bytes() -> None:
    rng = np.random.default_rng(0)
    left = rng.integers(-128, 128, (7, 20), np.int8)
    right = rng.integers(0, 256, (5, 9, 4), np.uint8)
    sums = np.zeros((7, 9), np.int32)
    library = emulator()
    library.tiles_reset()
    library.tiles_ldtilecfg(configuration((7, 36), (7, 20), (5, 36)))
    library.tiles_tilezero(ctypes.c_int8(0))
    for number, array in ((1, left), (2, right)):
        stride = ctypes.c_int64(array.strides[0])
        library.tiles_tileloadd64(ctypes.c_int8(number), ctypes.c_void_p(array.ctypes.data), stride)
    library.tiles_tdpbsud(ctypes.c_int8(0), ctypes.c_int8(1), ctypes.c_int8(2))
    library.tiles_tilestored64(
        ctypes.c_int8(0), ctypes.c_void_p(sums.ctypes.data), ctypes.c_int64(36)
    )
    assert library.tiles_fault() == b""
    library.tiles_reset()
    columns = right.transpose(0, 2, 1).reshape(20, 9).astype(np.int64)
    np.testing.assert_array_equal(sums, left.astype(np.int64) @ columns)
