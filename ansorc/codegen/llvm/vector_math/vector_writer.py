"""Write straight-line LLVM code on vectors of floats, for machines with and without FMA."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ansorc.target import Target


@dataclass(frozen=True)
class VectorShape:
    """The types that the code of a math function depends on."""

    bits: int
    """The bits of an element: 32 or 64."""
    lanes: int
    has_fma: bool
    has_scale: bool
    """Whether there are AVX-512's `vscalef`, which is a * 2**n and rounds once, and `vrange`."""
    table: int
    """How many entries an instruction finds in registers, by their numbers; 1: there is none."""

    @staticmethod
    def on(target: Target, bits: int, lanes: int) -> VectorShape:
        """Return the shape of `lanes` floats of `bits` bits on a CPU."""
        features = target.features
        has_fma = not target.is_x86 or "fma" in features or "avx512f" in features
        is_wide = {"avx512f", "avx512dq"} <= set(features)
        # Published tables count three operations for Zen 1's `vpermps`; it was not timed there.
        has_permps = bits == 32 and has_fma and "avx2" in features and target.cpu != "znver1"
        return VectorShape(bits, lanes, has_fma, is_wide, 16 if is_wide else 8 if has_permps else 1)

    @property
    def mantissa(self) -> int:
        """Bits of the significand behind its leading one."""
        return 23 if self.bits == 32 else 52

    @property
    def bias(self) -> int:
        """Return what is added to an exponent before it is stored."""
        return 127 if self.bits == 32 else 1023

    @property
    def min_exponent(self) -> int:
        """Below 2 to this power numbers are subnormal."""
        return 1 - self.bias

    @property
    def suffix(self) -> str:
        """The ending of the names of intrinsics: `v8f32`, `f64`."""
        return f"v{self.lanes}f{self.bits}" if self.lanes > 1 else f"f{self.bits}"

    @property
    def float_type(self) -> str:
        """The LLVM type of a value."""
        return self.of("float" if self.bits == 32 else "double")

    @property
    def int_type(self) -> str:
        """The LLVM type of the bits of a value."""
        return self.of(f"i{self.bits}")

    @property
    def mask_type(self) -> str:
        """The LLVM type of the result of a comparison."""
        return self.of("i1")

    def of(self, element: str) -> str:
        """Return the LLVM type of a value whose lanes are `element`s."""
        return f"<{self.lanes} x {element}>" if self.lanes > 1 else element


class FunctionBody:
    """The lines of one function and what it refers to."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.declarations: dict[str, None] = {}

    def emit(self, text: str) -> str:
        """Write an instruction; return the name of its result."""
        name = f"%v{len(self.lines)}"
        self.lines.append(f"  {name} = {text}")
        return name


class VectorWriter:
    """Operands are the names and literals of LLVM. Every operation rounds as IEEE 754 says.

    So a lane gets the same bits whatever the other lanes hold and however many there are.
    """

    def __init__(self, shape: VectorShape, code: FunctionBody) -> None:
        self.shape = shape
        self.code = code

    def double(self) -> VectorWriter:
        """Return the writer of the same code on as many lanes of 64 bits."""
        return VectorWriter(replace(self.shape, bits=64, has_scale=False, table=1), self.code)

    def widen(self, value: str) -> str:
        """Return a float32 as the float64 of the same value, for the writer `double`."""
        wide = self.double().shape.float_type
        return self.code.emit(f"fpext {self.shape.float_type} {value} to {wide}")

    def narrow(self, value: str) -> str:
        """Return a float64 of the writer `double` rounded to float32."""
        wide = self.double().shape.float_type
        return self.code.emit(f"fptrunc {wide} {value} to {self.shape.float_type}")

    def number(self, value: float) -> str:
        """Return the literal `value` rounded to the format, in all lanes."""
        literal = self.element(value)
        return f"splat ({literal})" if self.shape.lanes > 1 else literal.rpartition(" ")[2]

    def element(self, value: float) -> str:
        """Return the literal `value` rounded to the format, in one lane, behind its type."""
        kind = "double"
        if self.shape.bits == 32:
            kind, (value,) = "float", struct.unpack("<f", struct.pack("<f", value))
        bits = int.from_bytes(struct.pack("<d", value), "little")
        return f"{kind} 0x{bits:016X}"

    def integer(self, value: int) -> str:
        """Return the literal `value` in all lanes."""
        return f"splat (i{self.shape.bits} {value})" if self.shape.lanes > 1 else str(value)

    def add(self, a: str, b: str) -> str:
        return self._float("fadd", a, b)

    def sub(self, a: str, b: str) -> str:
        return self._float("fsub", a, b)

    def mul(self, a: str, b: str) -> str:
        return self._float("fmul", a, b)

    def div(self, a: str, b: str) -> str:
        return self._float("fdiv", a, b)

    def negate(self, a: str) -> str:
        return self.code.emit(f"fneg {self.shape.float_type} {a}")

    def fma(self, a: str, b: str, c: str) -> str:
        """Return a * b + c, rounded once where the machine can."""
        return self.call("fma", a, b, c) if self.shape.has_fma else self.add(self.mul(a, b), c)

    def call(self, intrinsic: str, *args: str) -> str:
        """Call an LLVM intrinsic on values and giving one."""
        kind, name = self.shape.float_type, f"@llvm.{intrinsic}.{self.shape.suffix}"
        kinds = ", ".join([kind] * len(args))
        self.code.declarations[f"declare {kind} {name}({kinds})"] = None
        return self.code.emit(f"call {kind} {name}({', '.join(f'{kind} {a}' for a in args)})")

    def polynomial(self, coefficients: Sequence[float], x: str) -> str:
        """Return c[0] + c[1] x + c[2] x² …, even and odd powers apart to halve the waiting."""
        if len(coefficients) < 6:
            return self._horner(coefficients, x)
        square = self.mul(x, x)
        even = self._horner(coefficients[::2], square)
        return self.fma(self._horner(coefficients[1::2], square), x, even)

    def compare(self, test: str, a: str, b: str) -> str:
        """Return a mask; `test` is a condition of LLVM's fcmp, such as `olt`."""
        return self.code.emit(f"fcmp {test} {self.shape.float_type} {a}, {b}")

    def both(self, a: str, b: str) -> str:
        return self.code.emit(f"and {self.shape.mask_type} {a}, {b}")

    def either(self, a: str, b: str) -> str:
        return self.code.emit(f"or {self.shape.mask_type} {a}, {b}")

    def select(self, mask: str, a: str, b: str) -> str:
        return self._select(self.shape.float_type, mask, a, b)

    def at_most(self, x: str, bound: float) -> str:
        """Return the smaller of the two; NaN stays NaN."""
        limit = self.number(bound)
        return self.select(self.compare("ogt", x, limit), limit, x)

    def at_least(self, x: str, bound: float) -> str:
        """Return the larger of the two; NaN stays NaN."""
        limit = self.number(bound)
        return self.select(self.compare("olt", x, limit), limit, x)

    def to_bits(self, a: str) -> str:
        return self.code.emit(f"bitcast {self.shape.float_type} {a} to {self.shape.int_type}")

    def from_bits(self, a: str) -> str:
        return self.code.emit(f"bitcast {self.shape.int_type} {a} to {self.shape.float_type}")

    def bitwise(self, operation: str, a: str, b: str) -> str:
        """Return the LLVM integer operation (`add`, `and`, `lshr` …) on two operands' bits."""
        return self.code.emit(f"{operation} {self.shape.int_type} {a}, {b}")

    def has_bit(self, a: str, bit: int) -> str:
        """Return the mask of the integers with a bit that is set in `bit`."""
        masked = self.bitwise("and", a, self.integer(bit))
        return self.code.emit(f"icmp ne {self.shape.int_type} {masked}, {self.integer(0)}")

    def select_bits(self, mask: str, a: str, b: str) -> str:
        return self._select(self.shape.int_type, mask, a, b)

    def sign_of(self, x: str) -> str:
        """Return the bits of `x` without all but the sign."""
        return self.bitwise("and", self.to_bits(x), self.integer(-(1 << (self.shape.bits - 1))))

    def flip_sign(self, x: str, sign: str) -> str:
        """Return `x` with its sign changed where the bits `sign` have it set."""
        return self.from_bits(self.bitwise("xor", self.to_bits(x), sign))

    def whole(self, x: str, bias: int, steps: int = 1) -> tuple[str, str]:
        """Return `x` (small) rounded to n, and an integer whose low bits are (n + bias) * steps.

        n is a multiple of 1 / steps: adding a large number pushes the digits behind it out.
        """
        magic = self.number(1.5 * 2.0**self.shape.mantissa / steps + bias)
        shifted = self.add(x, magic)
        return self.sub(shifted, magic), self.to_bits(shifted)

    def whole_product(self, x: str, factor: float, bias: int, steps: int = 1) -> tuple[str, str]:
        """Do what `whole` does, with x * factor."""
        magic = self.number(1.5 * 2.0**self.shape.mantissa / steps + bias)
        shifted = self.fma(x, self.number(factor), magic)
        return self.sub(shifted, magic), self.to_bits(shifted)

    def power_of_two(self, low_bits: str) -> str:
        """Return 2**n, a normal number, of an integer whose low bits are n + the format's bias."""
        return self.from_bits(self.bitwise("shl", low_bits, self.integer(self.shape.mantissa)))

    def _horner(self, coefficients: Sequence[float], x: str) -> str:
        value = self.number(coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            value = self.fma(value, x, self.number(coefficient))
        return value

    def _float(self, operation: str, a: str, b: str) -> str:
        return self.code.emit(f"{operation} {self.shape.float_type} {a}, {b}")

    def _select(self, kind: str, mask: str, a: str, b: str) -> str:
        return self.code.emit(f"select {self.shape.mask_type} {mask}, {kind} {a}, {kind} {b}")
