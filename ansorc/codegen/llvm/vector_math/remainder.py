"""fmod, mod and floor_divide: what a division of floats leaves, exactly.

With n = floor(fl(|x| / |y|)) below 2^24 (float32) or 2^53, |x| - n |y| is a float, so one FMA gives
it; where the quotient was rounded up to n it is negative, and |y| more is the remainder. Lanes with
a larger quotient go through a loop: what a division by its rounded quotient leaves is a float, too
(Boldo and Daumas, "Representable correcting terms", 2003), at least 2^23 times smaller, and has the
same remainder, since n is whole.
"""

from __future__ import annotations

import math

from ansorc.codegen.llvm.vector_math.double_length import product
from ansorc.codegen.llvm.vector_math.lane_calls import any_lane, lane_by_lane
from ansorc.codegen.llvm.vector_math.vector_writer import VectorWriter


def fmod(w: VectorWriter, x: str, y: str) -> str:
    """Return what x / y, cut to an integer, leaves, with the sign of `x`, as C has it."""
    return w.flip_sign(_rest(w, x, y), w.sign_of(x))


def mod(w: VectorWriter, x: str, y: str) -> str:
    """Return what x / y, rounded down, leaves, with the sign of `y` (of zeros too), as NumPy."""
    rest = _rest(w, x, y)
    turned = w.sub(w.call("fabs", y), rest)
    return w.flip_sign(w.select(_is_turned(w, x, y, rest), turned, rest), w.sign_of(y))


def floor_divide(w: VectorWriter, x: str, y: str) -> str:
    """Return x / y rounded down, as Python, NumPy and PyTorch do: by what the division leaves."""
    rest = _rest(w, x, y)
    plain, zero = w.div(x, y), w.number(0.0)
    quotient = w.div(w.sub(x, w.flip_sign(rest, w.sign_of(x))), y)
    lower = w.sub(quotient, w.number(1.0))
    quotient = w.select(_is_turned(w, x, y, rest), lower, quotient)
    whole = w.call("floor", quotient)
    is_short = w.compare("ogt", w.sub(quotient, whole), w.number(0.5))
    whole = w.select(is_short, w.add(whole, w.number(1.0)), whole)
    signed_zero = w.from_bits(w.sign_of(plain))
    whole = w.select(w.compare("oeq", quotient, zero), signed_zero, whole)
    return w.select(w.compare("oeq", y, zero), plain, whole)


def _is_turned(w: VectorWriter, x: str, y: str, rest: str) -> str:
    """Return the mask of the lanes where a rest is left and the operands' signs differ."""
    signs = w.bitwise("xor", w.sign_of(x), w.sign_of(y))
    differ = w.code.emit(f"icmp ne {w.shape.int_type} {signs}, {w.integer(0)}")
    return w.both(differ, w.compare("une", rest, w.number(0.0)))


def _rest(w: VectorWriter, x: str, y: str) -> str:
    """Return |x| - n |y| with the n that makes it the least that is not negative.

    NaN for an infinite `x` and for y = 0; |x| for an infinite `y`.
    """
    size, step = w.call("fabs", x), w.call("fabs", y)
    quotient = w.div(size, step)
    rest = _subtract_multiple(w, size, w.call("floor", quotient), step)
    rest = _not_negative(w, rest, step)
    rest = w.select(w.compare("olt", size, step), size, rest)
    is_number = w.both(
        w.compare("olt", size, w.number(math.inf)), w.compare("ogt", step, w.number(0.0))
    )
    is_large = w.compare("oge", quotient, w.number(2.0 ** (w.shape.mantissa + 1)))
    if not w.shape.has_fma and w.shape.bits == 64:  # a factor must not overflow when it is cut
        is_huge = w.compare("oge", size, w.number(2.0**990))
        is_large = w.either(is_large, w.both(is_huge, w.compare("oge", size, step)))
    return _with_large(w, (size, step), w.both(is_number, is_large), rest)


def _with_large(w: VectorWriter, operands: tuple[str, str], is_large: str, rest: str) -> str:
    """Branch to the loop if there is a lane with a large quotient."""
    code = w.code
    code.lines += [
        f"  br i1 {any_lane(w, is_large)}, label %large, label %done",
        "large:",
    ]
    size = w.select(is_large, operands[0], w.number(0.0))
    step = w.select(is_large, operands[1], w.number(1.0))
    if w.shape.has_fma or w.shape.bits == 32:
        exact, after = _by_steps(w, size, step), "%last"
    else:
        exact, after = lane_by_lane(w, "fmod", (size, step))
    mixed = w.select(is_large, exact, rest)
    code.lines += ["  br label %done", "done:"]
    return code.emit(f"phi {w.shape.float_type} [{rest}, %entry], [{mixed}, {after}]")


def _by_steps(w: VectorWriter, size: str, step: str) -> str:
    """Write the loop: each round divides by the step, times 2^n where that overflows."""
    code, kind = w.code, w.shape.float_type
    code.lines += ["  br label %step", "step:"]
    phi_line = len(code.lines)
    code.lines.append("")  # the rest, which depends on what the round leaves
    divisor = step
    for exponent in (w.shape.bias - 1, 100):
        quotient = w.call("fabs", w.div("%rest", divisor))
        overflows = w.compare("oeq", quotient, w.number(math.inf))
        larger = w.mul(divisor, w.number(2.0**exponent))
        divisor = w.select(overflows, larger, divisor)
    whole = w.call("roundeven", w.div("%rest", divisor))
    left = _subtract_multiple(w, "%rest", whole, divisor)
    code.lines[phi_line] = f"  %rest = phi {kind} [{size}, %large], [{left}, %step]"
    goes_on = any_lane(w, w.compare("oge", w.call("fabs", left), step))
    code.lines += [f"  br i1 {goes_on}, label %step, label %last", "last:"]
    return _not_negative(w, left, step)


def _not_negative(w: VectorWriter, rest: str, step: str) -> str:
    return w.select(w.compare("olt", rest, w.number(0.0)), w.add(rest, step), rest)


def _subtract_multiple(w: VectorWriter, total: str, count: str, each: str) -> str:
    """Return total - count * each, which is a float, without rounding anything."""
    if w.shape.has_fma:
        return w.fma(w.negate(count), each, total)
    if w.shape.bits == 64:
        taken, error = product(w, count, each)
        return w.sub(w.sub(total, taken), error)
    d = w.double()
    total, count, each = (w.widen(value) for value in (total, count, each))
    return w.narrow(d.sub(total, d.mul(count, each)))
