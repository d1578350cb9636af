"""From a loop program to machine code: the one way, for builds and for what is measured."""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence

from ansorc.codegen.base import Source, backend_of, network_backend_of
from ansorc.codegen.dump_text import write_source
from ansorc.codegen.package.signature import (
    packing_functions,
    signature_of,
    without_plain_packings,
)
from ansorc.codegen.program.compiled import Compiled, CompiledProgram
from ansorc.codegen.size_branches import SizeBranches
from ansorc.errors import BuildError
from ansorc.ir.dim import Dim
from ansorc.ir.dump import DumpFolder
from ansorc.ir.packing import Packing
from ansorc.ir.passes.fill_memory import VARIABLE as FILL_VARIABLE
from ansorc.ir.passes.fill_memory import fill_memory
from ansorc.ir.passes.pipeline import run_passes
from ansorc.ir.printer import to_text
from ansorc.ir.stmt import Function
from ansorc.target import Target

_LOG = logging.getLogger(__name__)
_CAPACITY_BYTES = 64 << 20


class CompileCache:
    """Code by the hash of the source and target that it was made of, the latest used kept.

    Different schedules often give the same loops: of extent 1, in another order, or not unrolled
    after all. Emitting is cheap; optimising it is most of a build.
    """

    def __init__(self, capacity_bytes: int = _CAPACITY_BYTES) -> None:
        self._capacity = capacity_bytes
        self._size = 0
        self._known: OrderedDict[bytes, CompiledProgram] = OrderedDict()
        self.hits = 0

    def compile(self, source: Source, target: Target) -> CompiledProgram:
        """Return the code of `source`; raise BuildError with the compiler's words."""
        key = hashlib.sha256(f"{target.text}\n{source!r}".encode()).digest()
        code = self._known.get(key)
        if code is not None:
            self.hits += 1
            self._known.move_to_end(key)
            return code
        code = backend_of(target).compile(source, target)
        self._known[key] = code
        self._size += code.nbytes
        while self._size > self._capacity and len(self._known) > 1:
            self._size -= self._known.popitem(last=False)[1].nbytes
        return code


def prepare(
    function: Function,
    target: Target,
    trace: Callable[[str, Function], None] | None = None,
    dump: DumpFolder | None = None,
) -> Function:
    """Return `function` after its back end's passes; `trace` gets each one's name and result.

    It is written to `dump` as it was, and after each pass that changed it.
    """
    if dump is not None:
        dump.write("lowered", to_text(function), "ir")
    return run_passes(backend_of(target).passes, function, target, trace, dump)


def compile_function(
    function: Function | SizeBranches,
    target: Target,
    *,
    flops: float | None = None,
    packings: Sequence[Packing] = (),
    cache: CompileCache | None = None,
    is_part: bool = False,
    dump: DumpFolder | None = None,
) -> Compiled:
    """Compile `function`, one kernel, whose constants are packed as `packings` say.
    The code has functions that pack them, too, unless it `is_part` of a network. With a `cache` it
    is for measuring here: it has none, and no test of the processor if this one will do. All
    stages are written to `dump`. Raise
    BuildError for what the target or C cannot do, TargetError where there are no networks.
    """
    backend, clock = backend_of(target), time.perf_counter
    compiled = network_backend_of(target).compile_part if is_part else (cache or backend).compile
    can = backend.capabilities(target)
    begin = clock()
    prepared = _prepare_all(function, target, dump)
    is_filled = bool(os.environ.get(FILL_VARIABLE))
    if is_filled:  # before its size is known: what is filled shares no memory
        prepared = fill_memory(prepared, has_threads=target.is_gpu)
    size = backend.workspace_bytes(prepared)
    signature = signature_of(
        prepared, size, flops, packings, has_threads=can.threads, declared=function.params
    )
    packers: list[Function] = []
    if not is_part and cache is None:
        if not can.packs_constants:
            signature = without_plain_packings(signature)
        packers = [
            prepare(packer, target, dump=dump and dump.folder(packer.name))
            for packer in packing_functions(signature)
        ]
    passed = clock()
    is_guarded = cache is None or bool(can.obstacle)
    if is_filled:
        packers = [fill_memory(each, has_threads=target.is_gpu) for each in packers]
    source = backend.emit(prepared, target, packers, is_guarded=is_guarded)
    emitted = clock()
    if dump is not None:
        write_source(dump, source, target)
        emitted = clock()
    code = compiled(source, target)
    built = Compiled(code, signature, passed - begin, emitted - passed, clock() - emitted)
    _LOG.debug("%s: %s", prepared.name, built)
    return built


def require_sizes_allowed(dims: Sequence[Dim], target: Target) -> None:
    """Raise BuildError for sizes that the caller of a GPU kernel would give."""
    if dims and target.is_gpu:
        raise BuildError(
            "sizes that the caller gives are for CPUs: fix "
            f"{', '.join(map(str, dims))} to build for '{target.text}'"
        )


def _prepare_all(
    function: Function | SizeBranches, target: Target, dump: DumpFolder | None
) -> Function:
    """Return what is compiled as one function, after the passes.

    Raise BuildError for sizes that the caller of a GPU kernel would give.
    """
    require_sizes_allowed(function.dims, target)
    if isinstance(function, Function):
        return prepare(function, target, dump=dump)
    folders = [dump and dump.folder(f"sizes{number}") for number in range(len(function.functions))]
    pairs = zip(function.functions, folders, strict=True)
    return function.join([prepare(each, target, dump=folder) for each, folder in pairs])
