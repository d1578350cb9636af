"""Libraries in this process: all that a saved kernel or network needs to run on a CPU."""

from __future__ import annotations

import ctypes
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from ansorc.codegen.base import Capabilities, Opener
from ansorc.codegen.llvm.native import NativeKernel
from ansorc.codegen.package.signature import Signature
from ansorc.errors import BuildError
from ansorc.ir.aligned import Array
from ansorc.target import Target, detect


class NativeNetwork(NativeKernel):
    """The network whose functions are at `address` and `profile`; see `base.LoadedNetwork`."""

    def __init__(self, address: int, profile: int, calls: int, free: Callable[[], object]) -> None:
        super().__init__(address, free)
        self._profile, self._calls = profile, calls

    def profile(
        self, arrays: Sequence[Array], workspace: int | None, threads: int
    ) -> tuple[int, list[float]]:
        """Run the network once; return its status and the seconds of each of its calls."""
        pointers = [ctypes.c_void_p] * (len(arrays) + 1)
        kind = ctypes.CFUNCTYPE(ctypes.c_int32, *pointers, ctypes.c_int32, ctypes.c_void_p)
        seconds = (ctypes.c_double * max(1, self._calls))()
        places = [array.ctypes.data for array in arrays]
        status = kind(self._profile)(*places, workspace, threads, ctypes.addressof(seconds))
        return status, list(seconds)[: self._calls]


class NativeOpener:
    """The back end without its compiler; see `base.Opener`."""

    def capabilities(self, target: Target) -> Capabilities:
        real = target.real
        can_evict = real.is_x86 or real.triple.startswith("aarch64")
        return Capabilities(
            threads=True, dot_products=True, cold_caches=can_evict, packs_constants=True,
            obstacle=_obstacle(real),
        )  # fmt: skip

    def open(self, library: Path, signature: Signature, target: Target) -> NativeKernel:
        require_this_machine(signature.name, target)
        loaded = _load_copy(library, shutil.copyfile)
        return NativeKernel(_address(loaded, signature.name), lambda: loaded)

    def open_network(
        self, library: Path, signature: Signature, calls: int, weights: Path | None, target: Target
    ) -> NativeNetwork:
        name = signature.name
        require_this_machine(name, target)
        loaded = _load_copy(library, os.symlink)  # it may be large
        if weights is not None:
            status = loaded[f"{name}_open"](os.fsencode(weights))
            if status:
                what = _FILE_STATUS.get(status, f"could not be opened (status {status})")
                raise BuildError(f"{weights}, the weights of {library}, {what}")
        run, profile = _address(loaded, name), _address(loaded, f"{name}_profile")
        return NativeNetwork(run, profile, calls, lambda: loaded)


OPENER: Opener = NativeOpener()


def _load_copy(library: Path, put: Callable[[Path, Path], object]) -> ctypes.CDLL:
    """The library, which `put` puts in a place of its own.

    A path that is open already would give what was loaded from it then.
    """
    with tempfile.TemporaryDirectory(prefix="ansorc-") as directory:
        copy = Path(directory) / library.name
        try:
            put(library.absolute(), copy)
            return ctypes.CDLL(str(copy))
        except OSError as error:
            raise BuildError(f"{library} cannot be loaded: {error}") from error


def _address(loaded: ctypes.CDLL, symbol: str) -> int:
    return ctypes.cast(loaded[symbol], ctypes.c_void_p).value or 0


_FILE_STATUS = {
    4: "cannot be read; it must lie where it was saved, seen from the library",
    5: "is no file of weights, or one of another build; save the network again",
}


def _obstacle(target: Target) -> str:
    here = detect()
    if target.triple.partition("-")[0] != here.triple.partition("-")[0]:
        return f"on this {here.triple}"
    missing = sorted(set(target.features) - set(here.features))
    return f"here, because this CPU lacks {', '.join(missing)}" if missing else ""


def require_this_machine(name: str, target: Target) -> None:
    """Raise BuildError if what was built for `target` cannot run here."""
    host, real = detect(), target.real
    if real.triple.split("-")[0] != host.triple.split("-")[0]:
        raise BuildError(
            f"'{name}' was built for {real.triple} and cannot run on this machine "
            f"({host.triple}); save it and run it there"
        )
