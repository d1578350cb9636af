"""Permission to use the tile registers of AMX, which Linux gives to a process that asks for it.

The first use without it ends the process. The machine code of kernels asks by itself
(`ansorc/codegen/llvm/guard.py`), and so do the threads of the runtime's pool; here it is asked
whether this machine counts as one that has the instructions.
"""

from __future__ import annotations

import ctypes
import mmap
import platform

ARCH_PRCTL = 158
"""The number of the system call on x86-64 (Linux, asm/unistd_64.h)."""
REQUEST_PERMISSION = 0x1023
"""ARCH_REQ_XCOMP_PERM of Linux, asm/prctl.h."""
TILE_DATA = 18
"""The number of the tile registers among the states that the system saves: bit 18 of xcr0."""
PALETTE_LEAF = 0x1D
"""The leaf of `cpuid` whose eax is the largest palette: 0 where a hypervisor announces AMX, but
has no tiles."""

_PALETTES = bytes.fromhex("53 b8 1d000000 31c9 0fa2 5b c3")
"""push rbx; mov eax, 0x1d; xor ecx, ecx; cpuid; pop rbx; ret"""


def may_use_tiles() -> bool:
    """Return whether this process may use tile registers, and there are some.

    Asks the system for them, for all threads of the process. The processor must have `amx-tile`.
    """
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return False
    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    words = (ctypes.c_long(number) for number in (ARCH_PRCTL, REQUEST_PERMISSION, TILE_DATA))
    return library.syscall(*words) == 0 and largest_palette() >= 1


def largest_palette() -> int:
    """Return the number of the largest palette that x86 `cpuid` states; 0 without tiles."""
    with mmap.mmap(
        -1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
    ) as code:
        code.write(_PALETTES)
        place = ctypes.c_char.from_buffer(code)
        number = ctypes.CFUNCTYPE(ctypes.c_uint32)(ctypes.addressof(place))()
        del place
    return number
