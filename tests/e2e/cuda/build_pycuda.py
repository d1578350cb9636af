"""Build pycuda from its source distribution on a machine without a GPU: a folder for PYTHONPATH.

    python -m tests.e2e.cuda.build_pycuda [FOLDER]

There are no wheels of pycuda. It is compiled against headers from NVIDIA's wheels and linked with
a `libcuda.so` of one function, which takes a minute or two, once; then the folder is found by the
tests in `tests/e2e/cuda/`, which run it on an emulated driver. Needs a C++ compiler and a
package index.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
from pathlib import Path

VERSION = "2026.1"
BUILD_WITH = (
    "setuptools>=77", "wheel", f"numpy=={__import__('numpy').__version__}", "nvidia-cuda-runtime",
    "nvidia-cuda-crt", "nvidia-cuda-profiler-api",
)  # fmt: skip
RUN_WITH = ("pytools", "platformdirs")
SETTINGS = """\
CUDA_ROOT = {root!r}
CUDA_INC_DIR = [{root!r} + "/include"]
CUDADRV_LIB_DIR = [{stub!r}]
CUDADRV_LIBNAME = ["cuda"]
CUDART_LIB_DIR = []
CUDART_LIBNAME = []
CUDA_ENABLE_CURAND = False
CURAND_LIB_DIR = []
CURAND_LIBNAME = []
CXXFLAGS = ["-O1"]
LDFLAGS = []
"""


def default_folder() -> Path:
    """Return where the built pycuda of this Python lies; ANSORC_PYCUDA names another place."""
    if chosen := os.environ.get("ANSORC_PYCUDA"):
        return Path(chosen)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "ansorc" / f"pycuda-{VERSION}-{sysconfig.get_config_var('SOABI')}"


def build(folder: Path) -> None:
    """Build pycuda into `folder`, unless it is there; it appears whole or not at all."""
    if folder.exists():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="pycuda-", dir=folder.parent) as name:
        work = Path(name)
        venv.create(work / "venv", with_pip=True)
        python = work / "venv" / "bin" / "python"
        pip = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check"]
        run([*pip, "install", *BUILD_WITH])
        root = next((work / "venv").glob("lib/python*/site-packages/nvidia/*/include")).parent
        stub = work / "stub"
        stub.mkdir()
        (stub / "stub.c").write_text("int cuInit(unsigned flags) { return flags != 0; }\n")
        command = ["cc", "-shared", "-fPIC", str(stub / "stub.c"), "-Wl,-soname,libcuda.so.1"]
        run([*command, "-o", str(stub / "libcuda.so")])
        settings = SETTINGS.format(root=str(root), stub=str(stub))
        (work / ".aksetup-defaults.py").write_text(settings)
        made = work / "made"
        options = ["--target", str(made), "--no-deps", "--no-cache-dir"]
        run([*pip, "install", *options, *RUN_WITH])
        source = ["--no-build-isolation", "--no-binary", "pycuda", f"pycuda=={VERSION}"]
        run([*pip, "install", *options, *source], HOME=str(work), CUDA_ROOT=str(root))
        made.rename(folder)


def run(command: list[str], **environment: str) -> None:
    subprocess.run(command, check=True, env={**os.environ, **environment})


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else default_folder()
    if shutil.which("c++") is None:
        sys.exit("pycuda cannot be built: there is no C++ compiler (c++)")
    build(folder)
    print(folder)  # noqa: T201


if __name__ == "__main__":
    main()
