"""Sizes that follow from dimensions: arithmetic, bounds, text."""

from __future__ import annotations

import random

import pytest

from ansorc.errors import LanguageError, ParseError
from ansorc.ir.dim import (
    Dim,
    Size,
    SizeLike,
    divide_up,
    least_of,
    most_of,
    parse_dim,
    parse_size,
    size_of,
    value_of,
)

N, M, H = Dim("n", 1, 40), Dim("m", 2, 9), Dim("h", 32, 256, 32)
DIMS = {dim.name: dim for dim in (N, M, H)}


def _random_size(rng: random.Random, depth: int) -> tuple[SizeLike, str]:
    """Return a size, and the same as Python text."""
    if depth == 0:
        dim = rng.choice((N, M, H))
        return (size_of(dim), dim.name) if rng.random() < 0.8 else (7, "7")
    left, right = _random_size(rng, depth - 1), _random_size(rng, depth - 1)
    number = rng.choice((2, 3, 8, 32))
    match rng.randrange(5):
        case 0:
            return left[0] + right[0], f"({left[1]} + {right[1]})"
        case 1:
            return left[0] - right[0], f"({left[1]} - {right[1]})"
        case 2:
            return left[0] * number, f"({left[1]} * {number})"
        case 3 if depth < 3:
            return left[0] * right[0], f"({left[1]} * {right[1]})"
        case _:
            return left[0] // number, f"({left[1]} // {number})"


def _sizes(rng: random.Random) -> dict[str, int]:
    return {d.name: rng.randrange(d.low, d.high + 1, d.multiple) for d in DIMS.values()}


def test_sizes_compute_what_python_does() -> None:
    rng = random.Random(0)
    for _ in range(400):
        size, text = _random_size(rng, 3)
        for _ in range(5):
            sizes = _sizes(rng)
            expected = eval(text, {}, sizes)
            assert value_of(size, sizes) == expected, text
            assert least_of(size) <= expected <= most_of(size), text


def test_text_is_read_back() -> None:
    rng = random.Random(1)
    for _ in range(300):
        size, _ = _random_size(rng, 3)
        assert parse_size(str(size), DIMS) == size


def test_what_is_equal_is_written_in_one_way() -> None:
    n, h = size_of(N), size_of(H)
    assert n + n == 2 * n
    assert (4 * n + 8) // 4 == n + 2
    assert n * (n + 1) - n * n == n
    assert h // 8 * 8 == h
    assert n - n == 0
    assert str(2 * n + 1) == "2*n + 1"
    assert str(h // 64) == "(((h // 32)) // 2)"
    assert divide_up(n, 16) == (n + 15) // 16


def test_parts_of_a_range_replace_dimensions() -> None:
    n, m = size_of(N), size_of(M)
    size = n * m + n // 4
    assert isinstance(size, Size)
    assert size.replace({"n": 8}) == 8 * m + 2
    assert size.replace({"n": 8, "m": 3}) == 26
    narrow = size_of(Dim("n", 1, 3))
    assert size.replace({"n": narrow}) == narrow * m  # n // 4 is 0


@pytest.mark.parametrize("text", ["n: 1..40", "h: 32..256 by 32"])
def test_dimensions_are_read_back(text: str) -> None:
    assert str(parse_dim(text)) == text


def test_other_text_is_refused() -> None:
    for text in ("n +", "k", "n ** 2", "n // 0", "n // m"):
        with pytest.raises(ParseError, match="is not a size over"):
            parse_size(text, DIMS)
    with pytest.raises(ParseError, match="is not a dimension"):
        parse_dim("n 1..2")


def test_python_cannot_choose_by_a_size() -> None:
    with pytest.raises(LanguageError, match="so Python cannot choose by it"):
        bool(size_of(N))
    with pytest.raises(LanguageError, match="so it cannot be used as an int"):
        range(size_of(N))  # pyright: ignore[reportArgumentType]
    with pytest.raises(LanguageError, match="give a divisor above 0"):
        _ = size_of(N) // 0
