"""The real pycuda on an emulated driver: what a process needs to run it, or why it cannot."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import ParamSpec, TypeVar

from tests.e2e.cuda.build_pycuda import default_folder

FIXTURE = Path(__file__).parent
SOURCES = FIXTURE / "emulated"
FLAGS = ("-std=c++17", "-O1", "-fPIC", "-shared", "-U_FORTIFY_SOURCE", "-Wl,-soname,libcuda.so.1")
P = ParamSpec("P")
R = TypeVar("R")


def obstacle() -> str:
    """Return why nothing can be run here; empty if it can."""
    if sys.platform != "linux" or shutil.which("g++") is None:
        return "the emulated driver is made by g++ on Linux"
    if not default_folder().exists():
        return f"there is no {default_folder()}; python -m tests.e2e.cuda.build_pycuda makes it"
    return ""


@lru_cache(maxsize=1)
def driver_folder() -> Path:
    """Return the folder with the emulated `libcuda.so.1`, which is compiled once."""
    files = sorted(SOURCES.iterdir())
    digest = hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()[:16]
    folder = default_folder().parent / f"emulated-driver-{digest}"
    if not folder.exists():
        with tempfile.TemporaryDirectory(dir=folder.parent) as name:
            made = Path(name, "made")
            made.mkdir()
            sources = [str(file) for file in files if file.suffix == ".cc"]
            command = ["g++", *FLAGS, *sources, "-o", str(made / "libcuda.so.1"), "-ldl"]
            subprocess.run(command, check=True)
            try:
                made.rename(folder)
            except OSError:
                assert folder.exists()  # another process was faster
    return folder


@contextmanager
def environment(**settings: object) -> Generator[None]:
    """Let processes that start meanwhile find pycuda and the driver, which gets `settings`."""
    before = dict(os.environ)
    places = [str(default_folder()), str(FIXTURE.parents[2]), before.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, places))
    os.environ["LD_LIBRARY_PATH"] = str(driver_folder())
    os.environ.update(
        {f"EMULATED_CUDA_{key.upper()}": str(value) for key, value in settings.items()}
    )
    sys.path.append(str(default_folder()))
    try:
        yield
    finally:
        sys.path.remove(str(default_folder()))
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def process(**settings: object) -> Generator[ProcessPoolExecutor]:
    """A process with a driver of its own, which does what is submitted."""
    with environment(**settings):
        pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))
        with pool:
            pool.submit(os.getpid).result()  # it has started, in this environment
            yield pool


def in_process(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Return what `function` does in a process with a driver of its own."""
    with process() as pool:
        return pool.submit(function, *args, **kwargs).result()
