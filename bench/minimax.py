"""The coefficients in ansorc/codegen/llvm/vector_math: `python bench/minimax.py [NAME …]`.

`inverses` instead of names: the table of the logarithms.

Remez' exchange algorithm on a dense grid of Chebyshev points, in 60 digits (mpmath). For each
polynomial p it prints the largest weighted error |w (f - p)| in bits, and the coefficients, lowest
power first, rounded to float64.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count

from mpmath import mp, mpf

Real = Callable[[mpf], mpf]
mp.dps = 60
ROUNDS = 30
POINTS = 60
"""Grid points for each coefficient."""


@dataclass(frozen=True)
class Problem:
    """Approximate `f` on [low, high] so that |weight * (f - p)| is smallest."""

    f: Real
    low: mpf
    high: mpf
    weight: Real
    degrees: dict[int, int]
    """Degree for the format of so many bits."""


def minimax(problem: Problem, degree: int) -> tuple[list[mpf], mpf]:
    """Return the coefficients and the largest weighted error."""
    places = POINTS * (degree + 2)
    middle, half = (problem.high + problem.low) / 2, (problem.high - problem.low) / 2
    grid = [middle - half * mp.cos(mp.pi * k / (places - 1)) for k in range(places)]
    wanted, weights = [problem.f(x) for x in grid], [problem.weight(x) for x in grid]
    chosen = [round((places - 1) * k / (degree + 1)) for k in range(degree + 2)]
    for _ in range(ROUNDS):
        rows = [[grid[i] ** p for p in range(degree + 1)] + [(-1) ** k / weights[i]]
                for k, i in enumerate(chosen)]  # fmt: skip
        solution = mp.lu_solve(mp.matrix(rows), mp.matrix([wanted[i] for i in chosen]))
        coefficients = list(solution[: degree + 1])
        errors = [w * (y - mp.polyval(coefficients[::-1], x))
                  for x, y, w in zip(grid, wanted, weights, strict=True)]  # fmt: skip
        chosen, before = _peaks(errors, degree + 2), chosen
        if chosen == before:
            break
    return coefficients, max(map(abs, errors))


def _peaks(errors: list[mpf], count: int) -> list[int]:
    """Return where the error is largest between changes of sign, `count` of the largest."""
    peaks = [0]
    for place, error in enumerate(errors):
        if error * errors[peaks[-1]] < 0:
            peaks.append(place)
        elif abs(error) > abs(errors[peaks[-1]]):
            peaks[-1] = place
    while len(peaks) > count:
        peaks.pop(0 if abs(errors[peaks[0]]) < abs(errors[peaks[-1]]) else -1)
    assert len(peaks) == count, "the error changes its sign too seldom"
    return peaks


def _exp_tail(r: mpf) -> mpf:
    return (mp.expm1(r) - r) / r**2 if r else mpf(0.5)


def _log_part(r: mpf) -> mpf:
    return (mp.log1p(r) - r) / r**2 if r else -mpf(0.5)


def _log_ratio(r: mpf) -> mpf:
    return mp.log1p(r) / r if r else mpf(1)


def _log_tail(f: mpf) -> mpf:
    return (mp.log1p(f) - f + f**2 / 2) / f**3 if f else mpf(1) / 3


def _log2_ratio(f: mpf) -> mpf:
    return mp.log1p(f) / mp.log(2) / f if f else 1 / mp.log(2)


def _atanh_tail(z: mpf) -> mpf:
    s = mp.sqrt(z)
    return (mp.atanh(s) / s - 1 - z / 3) / z**2 if z else mpf(1) / 5


def _erf_ratio(u: mpf) -> mpf:
    x = mp.sqrt(u)
    return mp.erf(x) / x - 1 if x else 2 / mp.sqrt(mp.pi) - 1


def _erf_part(number: int) -> Problem:
    """Return (erf(x) - erf(m)) / (x - m) of x - m, around the middle m = number * 65 / 256."""
    middle, half = mpf(number) * 65 / 256, mpf(65) / 512 * (1 + mpf(2) ** -12)
    derivative = 2 / mp.sqrt(mp.pi) * mp.exp(-(middle**2))
    return Problem(
        lambda t: (mp.erf(middle + t) - mp.erf(middle)) / t if t else derivative,
        -half if number else mpf(0), half,
        lambda t: abs(t / mp.erf(middle + t)) + _TINY if middle + t else 1 / derivative, {32: 4},
    )  # fmt: skip


def _sin_tail(u: mpf) -> mpf:
    r = mp.sqrt(u)
    return (mp.sin(r) - r) / r**3 if r else mpf(-1) / 6


def _cos_tail(u: mpf) -> mpf:
    return (mp.cos(mp.sqrt(u)) - 1 + u / 2) / u**2 if u else mpf(1) / 24


_LOW, _HIGH = mp.sqrt(mpf(1) / 2) - 1, mp.sqrt(mpf(2)) - 1
_QUARTER = (mp.pi / 4 * (1 + mpf(2) ** -12)) ** 2
_HALF_LN2 = mp.log(2) / 2 * (1 + mpf(2) ** -12)
_THIRTY_SECOND = mpf(1) / 32 * (1 + mpf(2) ** -12)
_TINY = mpf(2) ** -80

PROBLEMS = {
    "exp_tail": Problem(
        _exp_tail, -_HALF_LN2, _HALF_LN2,
        lambda r: abs(r) + _TINY, {32: 4, 64: 9},
    ),
    "exp_tail_8": Problem(
        _exp_tail, -_HALF_LN2 / 8, _HALF_LN2 / 8, lambda r: abs(r**2) + _TINY, {32: 1},
    ),
    "exp_tail_16": Problem(
        _exp_tail, -_HALF_LN2 / 16, _HALF_LN2 / 16, lambda r: abs(r**2) + _TINY, {32: 1, 64: 4},
    ),
    "log_tail": Problem(
        _log_tail, _LOW, _HIGH, lambda f: f**2 + _TINY, {32: 7, 64: 18},
    ),
    "log_part": Problem(
        _log_part, -_THIRTY_SECOND, _THIRTY_SECOND, lambda r: abs(r) + _TINY, {32: 3, 64: 7},
    ),
    "log_ratio": Problem(
        _log_ratio, -_THIRTY_SECOND, _THIRTY_SECOND, lambda r: 1 / _log_ratio(r), {32: 5},
    ),
    "log2_ratio": Problem(
        _log2_ratio, _LOW, _HIGH, lambda f: 1 / _log2_ratio(f), {32: 11},
    ),
    "atanh_tail": Problem(
        _atanh_tail, mpf(0), (_HIGH / (2 + _HIGH)) ** 2,
        lambda z: z**2 + _TINY, {64: 6},
    ),
    "erf_ratio": Problem(
        _erf_ratio, mpf(0), mpf(1), lambda u: 1 / (1 + _erf_ratio(u)), {32: 6, 64: 11},
    ),
    **{f"erf_part_{number}": _erf_part(number) for number in range(16)},
    "log_erfc32": Problem(
        lambda x: mp.log(mp.erfc(x)), mpf(1), mpf(4), mp.erfc, {32: 6},
    ),
    "log_erfc64": Problem(
        lambda x: mp.log(mp.erfc(x)), mpf(1), mpf(6), mp.erfc, {64: 17},
    ),
    "sin_tail": Problem(
        _sin_tail, mpf(0), _QUARTER, lambda u: u + _TINY, {32: 2, 64: 5},
    ),
    "cos_tail": Problem(
        _cos_tail, mpf(0), _QUARTER, lambda u: u**2 + _TINY, {32: 2, 64: 5},
    ),
}  # fmt: skip


def inverses(digits: int) -> Iterator[tuple[mpf, mpf]]:
    """Return about the inverses of the middles of 16 parts of 45/64 to 45/32, and -log of them.

    An inverse has `digits` bits, and its logarithm is as good as a number of so many bits: it
    differs by 2**-11 units in the last place.
    """
    stride = 2 ** max(0, digits - 32)  # the logarithms of neighbours differ by a plain fraction
    for part in range(16):
        middle = (46 + 2 * part) / mpf(64) if part < 9 else (14 + 2 * part) / mpf(32)
        unit = mpf(2) ** (-digits if middle > 1 else 1 - digits)
        for step in count():
            offset = (-1) ** step * ((step + 1) // 2) * stride
            inverse = (mp.nint(1 / middle / unit) + offset) * unit
            logarithm = -mp.log(inverse)
            units = logarithm * mpf(2) ** (digits - 1) / _power_of_two_below(logarithm)
            if abs(units - mp.nint(units)) < mpf(2) ** -11:
                yield inverse, logarithm
                break


def _power_of_two_below(number: mpf) -> mpf:
    return mpf(2) ** mp.floor(mp.log(abs(number), 2)) if number else mpf(1)


def main() -> None:
    if sys.argv[1:] == ["inverses"]:
        for digits in (24, 53):
            for column in zip(*inverses(digits), strict=True):
                print(f"{digits} bits:", *(f"{float(x)!r}," for x in column), sep="\n    ")
        return
    for name in sys.argv[1:] or PROBLEMS:
        problem = PROBLEMS[name]
        for bits, degree in problem.degrees.items():
            coefficients, error = minimax(problem, degree)
            print(f"{name}, {bits} bits: error 2^{float(mp.log(error, 2)):.1f}")
            for coefficient in coefficients:
                print(f"    {float(coefficient)!r},")


if __name__ == "__main__":
    main()
