"""The only importer of llvmlite: text of LLVM IR in; machine code, assembly and addresses out."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module

import llvmlite.binding as llvm

from ansorc.errors import BuildError
from ansorc.target import Target


def llvm_version() -> str:
    """Return the version of LLVM and of the package that brings it."""
    metadata = import_module("importlib.metadata")  # slow, and nothing is loaded by it
    major, minor, patch = llvm.llvm_version_info
    return f"LLVM {major}.{minor}.{patch} (llvmlite {metadata.version('llvmlite')})"


def compile_object(llvm_text: str, target: Target) -> bytes:
    """Return the optimised relocatable object file; raise BuildError with LLVM's words."""
    module, machine = _optimize(llvm_text, target)
    with _as_written(target):
        return machine.emit_object(module)


def assembly(llvm_text: str, target: Target) -> str:
    """Return the optimised assembly with LLVM's notes on blocks, loops and spills as comments.

    Raises BuildError with LLVM's words.
    """
    module, machine = _optimize(llvm_text, target)
    machine.set_asm_verbosity(True)
    with _as_written(target):
        return machine.emit_assembly(module)


def optimize_llvm(llvm_text: str, target: Target) -> str:
    """Return the LLVM IR after optimisation; raise BuildError with LLVM's words."""
    return str(_optimize(llvm_text, target)[0])


def load_object_code(object_bytes: bytes, symbols: Mapping[str, int]) -> LoadedCode:
    """Link an object file into this process, with `symbols` (name: address) besides libc/libm.

    Raises BuildError if it is not an object file of this machine.
    """
    return link_object_code([object_bytes], symbols)


def link_object_code(objects: Sequence[bytes], symbols: Mapping[str, int]) -> LoadedCode:
    """Do the same with several object files, which may refer to each other.

    The sections of each lie together, by LLVM's JITLink: its older linker takes free addresses one
    by one, and ends the process where code cannot reach its constants within 2 GiB.
    """
    _initialize()
    try:
        engine = llvm.create_lljit_compiler(use_jit_link=True, suppress_errors=True)
        library = llvm.JITLibraryBuilder().add_current_process()
        for code in objects:
            library.add_object_img(code)
        for name, address in symbols.items():
            library.import_symbol(name, address)
        return LoadedCode(engine, library.link(engine, _LIBRARY))
    except RuntimeError as error:
        raise BuildError(f"the object code cannot be loaded: {error}") from error


class LoadedCode:
    """Machine code in this process; its addresses are valid until `close`."""

    def __init__(self, engine: llvm.LLJIT, library: llvm.ResourceTracker) -> None:
        self._engine = engine
        self._trackers = [library]

    def address(self, name: str) -> int:
        """Return the address of the function `name`; raise BuildError if there is none."""
        if self._engine.closed:
            raise BuildError(f"the code that held '{name}' has been closed")
        try:
            tracker = self._engine.lookup(_LIBRARY, name)
        except RuntimeError as error:
            raise BuildError(f"the object code has no usable '{name}': {error}") from error
        self._trackers.append(tracker)
        return tracker[name]

    def close(self) -> None:
        """Free the code; none of its functions may run now or be called later."""
        for tracker in reversed(self._trackers):
            tracker.close()
        self._trackers.clear()
        self._engine.close()


_LIBRARY = "kernel"
_BASELINE_CPUS = {True: "x86-64", False: ""}


@lru_cache(maxsize=1)
def _initialize() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    llvm.initialize_native_asmparser()


def _optimize(llvm_text: str, target: Target) -> tuple[llvm.ModuleRef, llvm.TargetMachine]:
    _initialize()
    try:
        module = llvm.parse_assembly(llvm_text, llvm.create_context())
        module.verify()
        machine = _machine(target)
    except RuntimeError as error:
        raise BuildError(f"LLVM refuses the generated code: {error}") from error
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options())
    _passes().run(module, builder)
    return module, machine


@contextmanager
def _as_written(target: Target) -> Generator[None]:
    """Leave the loops as the code generator wrote them.

    It advances pointers itself, so loop strength reduction, a quarter of LLVM's time, has nothing
    to give. And it writes register tiles in the order that needs the fewest registers: the
    scheduler, which moves loads up, makes a tile that fills the registers spill. Processors that
    execute in order (ARM has some) need that scheduler. The switches are those of the process:
    afterwards they are as other users of LLVM expect.
    """
    switches = [("-disable-lsr=true", "-disable-lsr=false")]
    if target.real.is_x86:
        switches.append(("-enable-misched=false", "-enable-misched=true"))
    for ours, _ in switches:
        llvm.set_option("ansorc", ours)
    try:
        yield
    finally:
        for _, theirs in switches:
            llvm.set_option("ansorc", theirs)


def _machine(target: Target) -> llvm.TargetMachine:
    """Code outside the kernel's body must run on any CPU; the body has its own attributes."""
    return llvm.Target.from_triple(target.real.triple).create_target_machine(
        cpu=_BASELINE_CPUS[target.real.is_x86], opt=3, reloc="pic", codemodel="default"
    )


def _passes() -> llvm.ModulePassManager:
    """Registers for stack slots, and plainer branches and arithmetic.

    Nothing more: the schedule alone decides on vectors and unrolling, and what a loop does not
    change is computed before it: values by `hoist_values`, addresses by the code generator. LLVM's
    own list for level 1 takes three times as long and gives the same inner loops.
    """
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    passes.add_instruction_combine_pass()
    return passes
