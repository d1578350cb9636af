"""Count the bits of words in vectors, for machines that have no instruction for it.

Full adders turn three words of one weight into a word of that weight and one of the next, bit by
bit (Harley and Seal; Warren, Hacker's Delight, section 5-1). What is left is counted in bytes by
LLVM's popcount, of half a byte at a time by a table in a register.
"""

from __future__ import annotations

from collections.abc import Sequence

from ansorc.codegen.llvm.types import Value, literal, register_type
from ansorc.codegen.llvm.writer import FunctionWriter
from ansorc.ir.dtype import UINT8, DType


def joins_words(writer: FunctionWriter, words: Sequence[Value]) -> bool:
    """Return whether adding up bits before they are counted is faster on the machine."""
    target, dtype = writer.module.target, words[0].dtype
    is_instruction = "avx512vpopcntdq" in target.features and dtype.bits >= 32
    return target.is_x86 and dtype.lanes > 1 and len(words) > 2 and not is_instruction


def count_bits(writer: FunctionWriter, words: Sequence[Value]) -> Value:
    """Write the sum of the popcounts of up to 31 words, vectors of one dtype, in that dtype."""
    levels = _add_bits(writer, [word.text for word in words], register_type(words[0].dtype))
    dtype = words[0].dtype
    lanes = UINT8.vector(dtype.lanes * dtype.bits // 8)
    kind, total = register_type(lanes), ""
    for level in reversed(levels):
        total = writer.emit(f"add {kind} {total}, {total}") if total else ""
        for word in level:
            count = _count_bytes(writer, word, dtype, kind, lanes.lanes)
            total = writer.emit(f"add {kind} {total}, {count}") if total else count
    whole = writer.emit(f"bitcast {kind} {total} to {register_type(dtype)}")
    return _add_bytes(writer, Value(whole, dtype))


def _add_bits(writer: FunctionWriter, words: Sequence[str], kind: str) -> list[list[str]]:
    """Return one or two words of each weight 1, 2, 4, … that together have the bits of all."""
    levels: list[list[str]] = [[]]
    for word in words:
        place, carried = 0, word
        while True:
            if place == len(levels):
                levels.append([])
            levels[place].append(carried)
            if len(levels[place]) < 3:
                break
            a, b, c = levels[place]
            half = writer.emit(f"xor {kind} {a}, {b}")
            levels[place] = [writer.emit(f"xor {kind} {half}, {c}")]
            both = writer.emit(f"and {kind} {a}, {b}")
            rest = writer.emit(f"and {kind} {half}, {c}")
            carried = writer.emit(f"or {kind} {both}, {rest}")
            place += 1
    return levels


def _count_bytes(writer: FunctionWriter, word: str, dtype: DType, kind: str, lanes: int) -> str:
    name = f"@llvm.ctpop.v{lanes}i8"
    writer.module.declare(f"declare {kind} {name}({kind})")
    parts = writer.emit(f"bitcast {register_type(dtype)} {word} to {kind}")
    return writer.emit(f"call {kind} {name}({kind} {parts})")


def _add_bytes(writer: FunctionWriter, value: Value) -> Value:
    """Return the sum of the bytes of each lane, which is below 256."""
    dtype, text = value.dtype, value.text
    kind, bits = register_type(dtype), value.dtype.bits
    if bits == 64 and dtype.lanes == 4 and "avx2" in writer.module.target.features:
        name, bytes_ = "@llvm.x86.avx2.psad.bw", "<32 x i8>"
        writer.module.declare(f"declare {kind} {name}({bytes_}, {bytes_})")
        parts = writer.emit(f"bitcast {kind} {text} to {bytes_}")
        call = f"call {kind} {name}({bytes_} {parts}, {bytes_} zeroinitializer)"
        return Value(writer.emit(call), dtype)
    step = 8
    while step < bits:
        moved = writer.emit(f"lshr {kind} {text}, {literal(step, dtype).text}")
        if step == 8:
            low = literal(int("00ff" * (bits // 16), 16), dtype).text
            text = writer.emit(f"and {kind} {text}, {low}")
            moved = writer.emit(f"and {kind} {moved}, {low}")
        text = writer.emit(f"add {kind} {text}, {moved}")
        step *= 2
    if bits > 16:
        text = writer.emit(f"and {kind} {text}, {literal(0xFFFF, dtype).text}")
    return Value(text, dtype)
