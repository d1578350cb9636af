"""CompileCache: equal LLVM text is compiled once in a process."""

from __future__ import annotations

import hashlib
from collections import OrderedDict

from ansorc.codegen.llvm.binding import compile_object
from ansorc.target import Target

_CAPACITY_BYTES = 64 << 20


class CompileCache:
    """Object code by the hash of the LLVM text and target it was made of, the latest used kept.

    Different schedules often give the same loops: of extent 1, in another order, or not unrolled
    after all. Emitting the text is cheap; optimising it is most of a build.
    """

    def __init__(self, capacity_bytes: int = _CAPACITY_BYTES) -> None:
        self._capacity = capacity_bytes
        self._size = 0
        self._known: OrderedDict[bytes, bytes] = OrderedDict()
        self.hits = 0

    def compile(self, llvm_text: str, target: Target) -> bytes:
        """Return the object code of `llvm_text`; raise BuildError with LLVM's words."""
        key = hashlib.sha256(f"{target.text}\n{llvm_text}".encode()).digest()
        code = self._known.get(key)
        if code is not None:
            self.hits += 1
            self._known.move_to_end(key)
            return code
        code = compile_object(llvm_text, target)
        self._known[key] = code
        self._size += len(code)
        while self._size > self._capacity and len(self._known) > 1:
            self._size -= len(self._known.popitem(last=False)[1])
        return code
