"""Run a CUDA program once with its threads as threads of the system, watched by a sanitizer.

ThreadSanitizer finds what threads of a block access side by side; AddressSanitizer and
UndefinedBehaviorSanitizer find accesses outside of arrays and misaligned vectors.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from ansorc.codegen.cuda.emulation.compiler import compile_cxx_text
from ansorc.codegen.cuda.emulation.source import sanitizer_source
from ansorc.codegen.program.device_program import DeviceProgram
from ansorc.errors import BuildError
from ansorc.ir.aligned import Array

Sanitizer: TypeAlias = Literal["thread", "address"]
_FLAGS = {
    "thread": ("-fsanitize=thread",),
    "address": (
        "-fsanitize=address,undefined,float-cast-overflow", "-fno-sanitize=vptr",
        "-fno-sanitize-recover=all", "-ftrivial-auto-var-init=pattern",
    ),
}  # fmt: skip
_OPTIONS = {
    "TSAN_OPTIONS": "halt_on_error=1 exitcode=66 report_signal_unsafe=0",
    "ASAN_OPTIONS": "halt_on_error=1 exitcode=66 detect_leaks=0 detect_stack_use_after_return=0",
    "UBSAN_OPTIONS": "halt_on_error=1 exitcode=66 print_stacktrace=0",
}
_KIND = re.compile(
    r"WARNING: ThreadSanitizer: (?P<race>[\w -]+?) \(|ERROR: AddressSanitizer: (?P<memory>[\w-]+)|"
    r"runtime error: (?P<undefined>[^\n]+)|EMULATION: (?P<own>[^\n]+)"
)
_LINE = re.compile(r"kernel\.cu:(?P<line>\d+)|line (?P<own>\d+):")


@dataclass(frozen=True)
class Finding:
    """A fault that a sanitizer found in a program."""

    kind: str
    """In its words: "data race", "heap-buffer-overflow", "index 8 out of bounds for type …"."""
    lines: tuple[int, ...]
    """The lines of the text that take part, the one that was caught first."""
    report: str

    def __str__(self) -> str:
        places = ", ".join(map(str, self.lines)) or "unknown"
        return f"{self.kind} (line {places} of the text)"


def check_program(
    program: DeviceProgram,
    arrays: Sequence[Array],
    sanitizer: Sanitizer,
    *,
    seed: int = 1,
    blocks: int = 1 << 62,
) -> Finding | None:
    """Run `program` on `arrays`, in place; return what the sanitizer finds first, or None.

    At most `blocks` blocks of each launch are run, those that come first in the order of `seed`.
    Raise BuildError if the program cannot be compiled or ends by itself.
    """
    source = sanitizer_source(program, [array.nbytes for array in arrays])
    binary = compile_cxx_text(source, "-O1", "-g", "-fno-omit-frame-pointer", *_FLAGS[sanitizer])
    with tempfile.TemporaryDirectory(prefix="ansorc-") as directory:
        path, before, after = (Path(directory, name) for name in ("kernel", "before", "after"))
        path.write_bytes(binary)
        path.chmod(0o700)
        before.write_bytes(b"".join(np.ascontiguousarray(array).tobytes() for array in arrays))
        command = [str(path), str(before), str(after), str(seed), str(blocks)]
        if sanitizer == "thread" and (setarch := shutil.which("setarch")):
            command = [setarch, platform.machine(), "-R", *command]  # where TSan's shadow fits
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", check=False,
            env={**os.environ, **_OPTIONS},
        )  # fmt: skip
        if match := _KIND.search(done.stderr):
            kind = next(filter(None, match.groups()))
            return Finding(kind, _lines(done.stderr), done.stderr)
        if done.returncode:
            raise BuildError(f"the emulated program ended with {done.returncode}: {done.stderr}")
        _read(after.read_bytes(), arrays)
    return None


def _lines(report: str) -> tuple[int, ...]:
    numbers = (int(line["line"] or line["own"]) for line in _LINE.finditer(report))
    return tuple(dict.fromkeys(numbers))[:2]


def _read(content: bytes, arrays: Sequence[Array]) -> None:
    start = 0
    for array in arrays:
        part = np.frombuffer(content, array.dtype, array.size, start)
        array[...] = part.reshape(array.shape)
        start += array.nbytes
