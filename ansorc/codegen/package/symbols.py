"""Symbols of ELF object files: renamed and hidden, so that many kernels fit into one library."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from ansorc.errors import BuildError

_HEADER_OFFSET, _SECTION_TABLE = 0x28, struct.Struct("<Q10xHHH")
_SECTION, _SYMBOL = struct.Struct("<IIQQQQIIQQ"), struct.Struct("<IBBHQQ")
_SYMTAB, _HIDDEN, _UNDEFINED = 2, 2, 0


@dataclass(frozen=True)
class _Section:
    """The part of a section's header that is read here."""

    at: int
    """The offset of the header itself, in bytes from the file's beginning."""
    kind: int
    offset: int
    size: int
    link: int
    info: int


def hide_with_prefix(code: bytes, prefix: str) -> bytes:
    """Return the object file with every function and array that it shows renamed and hidden.

    `prefix` is put before their names; what it calls elsewhere stays. Hidden is what other parts of
    the same library see alone. Raise BuildError for what is no ELF file of 64 bits.
    """
    if code[:6] != b"\x7fELF\x02\x01":
        raise BuildError("networks are made of ELF object files of 64 bits, and this is none")
    sections = _sections(code)
    result = bytearray(code)
    for table in [section for section in sections if section.kind == _SYMTAB]:
        names = sections[table.link]
        strings = bytearray(code[names.offset : names.offset + names.size])
        first = table.offset + table.info * _SYMBOL.size
        for at in range(first, table.offset + table.size, _SYMBOL.size):
            name, info, other, index, value, size = _SYMBOL.unpack_from(code, at)
            if index == _UNDEFINED:
                continue
            old = code[names.offset + name : code.index(b"\0", names.offset + name)]
            renamed = len(strings)
            strings += prefix.encode() + old + b"\0"
            _SYMBOL.pack_into(result, at, renamed, info, other & ~3 | _HIDDEN, index, value, size)
        struct.pack_into("<QQ", result, names.at + 0x18, len(result), len(strings))
        result += strings
    return bytes(result)


def _sections(code: bytes) -> list[_Section]:
    start, each, count, _ = _SECTION_TABLE.unpack_from(code, _HEADER_OFFSET)
    sections: list[_Section] = []
    for at in range(start, start + count * each, each):
        _, kind, _, _, offset, size, link, info, _, _ = _SECTION.unpack_from(code, at)
        sections.append(_Section(at, kind, offset, size, link, info))
    return sections
