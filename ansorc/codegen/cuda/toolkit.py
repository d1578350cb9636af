"""NVIDIA's compilers, from wheels and without a driver: NVRTC, ptxas, nvdisasm, fatbinary.

The only module that knows `cuda.bindings` and `cuda.pathfinder`, which are imported when they are
first needed.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

from ansorc.codegen.cuda.disk_cache import DiskCache
from ansorc.codegen.package.runtime_library import cache_directory
from ansorc.errors import BuildError

_INSTALL = "pip install 'ansorc[cuda]'"
_OLD_WHEELS = (
    "pip install 'cuda-bindings<13' 'nvidia-cuda-nvrtc-cu12<13' 'nvidia-cuda-nvcc-cu12<13' "
    "'nvidia-cuda-runtime-cu12<13'"
)
_OLDEST_OF_13 = 75
_OPTIONS = ("-std=c++17", "-w", "--fmad=true", "--prec-div=true", "--prec-sqrt=true")
"""No fast-math: divisions and roots are rounded correctly, small numbers are kept."""
_FUNCTION = re.compile(r"Compiling entry function '(?P<name>\w+)'")
_FRAME = re.compile(
    r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, "
    r"(?P<loads>\d+) bytes spill loads"
)
_USED = re.compile(r"Used (?P<registers>\d+) registers(?P<rest>.*)")
_PLACE = re.compile(
    r"^kernel\.cu\((?P<line>\d+)\): (error|catastrophic error): (?P<what>.*)$", re.M
)


@dataclass(frozen=True)
class Resources:
    """Resources that a thread, or a block, of one kernel needs, as ptxas reports them."""

    name: str
    registers: int
    """The registers of a thread, 32 bits each."""
    spill_store_bytes: int
    spill_load_bytes: int
    stack_bytes: int
    """The stack of a thread: spilled registers, and arrays whose indices are not constant."""
    shared_bytes: int
    """The shared memory of a block, in arrays that are declared in the kernel."""
    barriers: int


@dataclass(frozen=True)
class Cubin:
    """Machine code for one architecture, and what its kernels need."""

    image: bytes
    resources: tuple[Resources, ...]


def compile_cubin(text: str, arch: str) -> Cubin:
    """Compile CUDA C to machine code for `arch`; raise BuildError with the compiler's words."""
    options = (f"-arch={arch}", *_OPTIONS, "--ptxas-options=-v", *_include(text))

    def make() -> bytes:
        log, image = _nvrtc_compile(text, arch, options, is_ptx=False)
        return len(log).to_bytes(8, "little") + log + image

    made = _compile_once(text, options, make)
    end = 8 + int.from_bytes(made[:8], "little")
    return Cubin(made[end:], resources_of(made[8:end].decode(errors="replace")))


def compile_ptx(text: str, arch: str) -> str:
    """Compile CUDA C to PTX for `arch`; raise BuildError with the compiler's words."""
    options = (f"-arch=compute_{arch.removeprefix('sm_')}", *_OPTIONS, *_include(text))

    def make() -> bytes:
        return _nvrtc_compile(text, arch, options, is_ptx=True)[1]

    return _compile_once(text, options, make).rstrip(b"\0").decode()


def assemble(ptx: str, arch: str) -> Cubin:
    """Assemble PTX for `arch`, which may be newer than that of the PTX; raise BuildError."""
    _require_arch(arch)
    with tempfile.TemporaryDirectory(prefix="ansorc-") as directory:
        source, output = Path(directory, "kernel.ptx"), Path(directory, "kernel.cubin")
        source.write_text(ptx)
        log = _run("ptxas", [f"-arch={arch}", "-v", str(source), "-o", str(output)])
        return Cubin(output.read_bytes(), resources_of(log))


def disassemble(cubin: bytes) -> str:
    """Return the SASS of machine code, with the offset of each instruction as a comment."""
    with tempfile.TemporaryDirectory(prefix="ansorc-") as directory:
        source = Path(directory, "kernel.cubin")
        source.write_bytes(cubin)
        return _run("nvdisasm", ["-c", str(source)])


def fat_binary(cubins: Mapping[str, bytes], ptx: Mapping[str, str]) -> bytes:
    """Return one image of machine code and PTX, each for the architecture that it is named by.

    A driver takes the machine code for its GPU, or else compiles the newest PTX that it can.
    """
    with tempfile.TemporaryDirectory(prefix="ansorc-") as directory:
        output = Path(directory, "kernel.fatbin")
        arguments = ["-64", f"--create={output}"]
        for arch, image in cubins.items():
            path = Path(directory, f"{arch}.cubin")
            path.write_bytes(image)
            arguments.append(f"--image3=kind=elf,sm={arch.removeprefix('sm_')},file={path}")
        for arch, text in ptx.items():
            path = Path(directory, f"{arch}.ptx")
            path.write_text(text)
            arguments.append(f"--image3=kind=ptx,sm={arch.removeprefix('sm_')},file={path}")
        _run("fatbinary", arguments)
        return output.read_bytes()


def resources_of(log: str) -> tuple[Resources, ...]:
    """Return what `ptxas -v` says in `log`, a kernel each, in its order."""
    resources: list[Resources] = []
    name, stack, stores, loads = "", 0, 0, 0
    for line in log.splitlines():
        if function := _FUNCTION.search(line):
            name, stack, stores, loads = function["name"], 0, 0, 0
        elif frame := _FRAME.search(line):
            stack, stores, loads = int(frame["stack"]), int(frame["stores"]), int(frame["loads"])
        elif (used := _USED.search(line)) and name:
            shared = re.search(r"(\d+) bytes smem", used["rest"])
            barriers = re.search(r"used (\d+) barriers", used["rest"])
            resources.append(
                Resources(
                    name, int(used["registers"]), stores, loads, stack,
                    int(shared[1]) if shared else 0, int(barriers[1]) if barriers else 0,
                )
            )  # fmt: skip
            name = ""
    return tuple(resources)


@lru_cache(maxsize=1)
def list_architectures() -> tuple[str, ...]:
    """Return those that NVRTC makes code for; raise BuildError saying what to install."""
    library = _nvrtc()
    return tuple(f"sm_{number}" for number in _value(library.nvrtcGetSupportedArchs()))


@lru_cache(maxsize=1)
def compiler_version() -> tuple[int, int]:
    """Return the version of NVRTC; raise BuildError saying what to install."""
    library = _nvrtc()
    status, major, minor = library.nvrtcVersion()
    _require(status)
    return major, minor


def _compile_once(text: str, options: Sequence[str], make: Callable[[], bytes]) -> bytes:
    cache = DiskCache(cache_directory() / "cuda")
    version = compiler_version()
    return cache.get("\0".join(["nvrtc", str(version), *options, text]), make)


def _nvrtc_compile(
    text: str, arch: str, options: Sequence[str], *, is_ptx: bool
) -> tuple[bytes, bytes]:
    """Return what NVRTC says, and what it makes."""
    _require_arch(arch)
    library = _nvrtc()
    program = _value(library.nvrtcCreateProgram(text.encode(), b"kernel.cu", 0, [], []))
    try:
        words = [option.encode() for option in options]
        (status,) = library.nvrtcCompileProgram(program, len(words), words)
        log = bytearray(_value(library.nvrtcGetProgramLogSize(program)))
        _require(*library.nvrtcGetProgramLog(program, log))
        if status:
            raise BuildError(_refusal(log.rstrip(b"\0\n ").decode(errors="replace"), text))
        if is_ptx:
            made = bytearray(_value(library.nvrtcGetPTXSize(program)))
            _require(*library.nvrtcGetPTX(program, made))
        else:
            made = bytearray(_value(library.nvrtcGetCUBINSize(program)))
            _require(*library.nvrtcGetCUBIN(program, made))
    finally:
        library.nvrtcDestroyProgram(program)
    return bytes(log), bytes(made)


def _refusal(log: str, text: str) -> str:
    """The words of an error, with the first line that NVRTC complains of in front."""
    first = _PLACE.search(log)
    if first is None:
        return f"NVRTC refuses the text:\n{log}"
    number = int(first["line"])
    lines = text.splitlines()
    line = lines[number - 1].strip() if number <= len(lines) else ""
    return f"NVRTC refuses line {number} of the text, '{line}': {first['what']}\n{log}"


def _include(text: str) -> tuple[str, ...]:
    """The option that finds NVIDIA's headers, where the text includes any."""
    if "#include" not in text:
        return ()
    pathfinder = _pathfinder()
    directory = pathfinder.find_nvidia_header_directory("cudart")
    if not directory:
        raise BuildError(
            f"the text needs NVIDIA's headers (nvidia-cuda-runtime), and there are none; {_INSTALL}"
        )
    return (f"-I{directory}",)


def _require_arch(arch: str) -> None:
    known = list_architectures()
    if arch in known:
        return
    major, minor = compiler_version()
    advice = ""
    if major >= 13 and int(arch.removeprefix("sm_")) < _OLDEST_OF_13:
        advice = f"; CUDA 12 is the last that does: {_OLD_WHEELS}"
    raise BuildError(
        f"NVRTC {major}.{minor} makes no code for {arch}; it does for {', '.join(known)}{advice}"
    )


def _run(tool: str, arguments: Sequence[str]) -> str:
    """Run one of NVIDIA's programs and return what it printed; raise BuildError if it failed."""
    pathfinder = _pathfinder()
    path = pathfinder.find_nvidia_binary_utility(tool)
    if path is None:
        raise BuildError(f"NVIDIA's {tool} was not found; {_INSTALL}")
    done = subprocess.run([path, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        words = f"{done.stdout}{done.stderr}".strip()
        raise BuildError(f"{tool} failed with status {done.returncode}:\n{words}")
    return f"{done.stdout}{done.stderr}"


@lru_cache(maxsize=1)
def _nvrtc() -> Any:
    """The module of NVRTC, whose library is loaded too."""
    pathfinder = _pathfinder()
    try:
        nvrtc = import_module("cuda.bindings.nvrtc")
        pathfinder.load_nvidia_dynamic_lib("nvrtc")
    except ImportError as error:
        raise BuildError(f"compiling for GPUs needs cuda-bindings; {_INSTALL}") from error
    except pathfinder.DynamicLibNotFoundError as error:
        raise BuildError(
            f"compiling for GPUs needs NVRTC (nvidia-cuda-nvrtc), and there is none; {_INSTALL}"
        ) from error
    return nvrtc


@lru_cache(maxsize=1)
def _pathfinder() -> Any:
    try:
        return import_module("cuda.pathfinder")
    except ImportError as error:
        raise BuildError(
            f"compiling for GPUs needs NVIDIA's compiler as Python wheels; {_INSTALL}"
        ) from error


def _value(answer: tuple[Any, Any]) -> Any:
    status, value = answer
    _require(status)
    return value


def _require(status: Any) -> None:
    if status:
        raise BuildError(f"NVRTC failed: {status.name}")
