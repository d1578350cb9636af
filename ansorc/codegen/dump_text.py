"""The source of a kernel and what its compiler makes of it, in the files of `ANSORC_DUMP`."""

from __future__ import annotations

from ansorc.codegen.base import Source, backend_of
from ansorc.errors import BuildError
from ansorc.ir.dump import DumpFolder
from ansorc.target import Target

_SUFFIXES = {
    "llvm": "ll", "optimized": "ll", "asm": "s", "cuda": "cu", "ptx": "ptx", "sass": "sass",
}  # fmt: skip
"""File suffixes by view, for editors; other views are plain text."""


def write_source(dump: DumpFolder, source: Source, target: Target) -> None:
    """Write `source`, which a back end emitted, as text, and all that it lists of it.

    Where a listing cannot be made, as for want of a tool, the file says why.
    """
    for view, listing in backend_of(target).listings.items():
        try:
            shown = listing(source, target)
        except BuildError as error:
            shown = f"not made: {error}"
        dump.write(view, shown, _SUFFIXES.get(view, "txt"))
