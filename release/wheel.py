"""`make wheel`: the source distribution, and of it one wheel with the runtime compiled in.

    python release/wheel.py DIRECTORY

The wheel has the runtime for x86-64 and AArch64 and says so in its tags. Objects are compiled by
g++ and aarch64-linux-gnu-g++; the ziglang package links the shared libraries, against the C library
that the tags promise. Then the wheel is installed in a virtual environment of its own and tried
without any compiler (`first_steps.py`), in a root directory that has nothing but Python and the C
library (`own_root.py`), and the source distribution is installed in another environment.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from own_root import make_root, obstacle, run_in_root

REPOSITORY = Path(__file__).resolve().parents[1]
FIRST_STEPS = Path(__file__).with_name("first_steps.py")
GLIBC = (2, 17)
"""manylinux_2_17, which is manylinux2014: what NumPy's and llvmlite's wheels need at least."""
PRECOMPILE = """
import sys
from pathlib import Path
from ansorc.codegen.package.runtime_library import PREBUILT, precompile
from ansorc.codegen.package.toolchain import Toolchain
from ansorc.target import Target

package, glibc = Path(sys.argv[1]), sys.argv[2]
for architecture in PREBUILT:
    target = Target.parse(f"{architecture}-linux-gnu")
    zig = (sys.executable, "-m", "ziglang")
    link = (*zig, "cc", "-s", "-target", f"{architecture}-linux-gnu.{glibc}")
    made = precompile(package, target, Toolchain(link, link, (*zig, "ar")))
    (made / "exports.map").unlink()
"""


def run(*command: str | Path, **variables: str) -> None:
    print("+", *command, flush=True)
    subprocess.run([str(word) for word in command], check=True, env={**os.environ, **variables})


def only(directory: Path, pattern: str) -> Path:
    (found,) = directory.glob(pattern)
    return found


def check_symbols(library: Path) -> None:
    """End the program if a shared library needs a newer C library than the tags promise."""
    said = subprocess.run(
        ["readelf", "--version-info", str(library)], check=True, capture_output=True, text=True
    )
    needed = {tuple(map(int, one)) for one in re.findall(r"GLIBC_(\d+)\.(\d+)", said.stdout)}
    if not needed or max(needed) > GLIBC:
        sys.exit(f"{library} needs the C library {sorted(needed)}, but at most {GLIBC} is promised")


def build(directory: Path, unpacked: Path) -> tuple[Path, Path]:
    """Return the source distribution and the wheel, which is built of it."""
    run(sys.executable, "-m", "build", "--sdist", "--outdir", directory, REPOSITORY)
    sdist = only(directory, "ansorc-*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(unpacked, filter="data")
    source, glibc = only(unpacked, "ansorc-*"), ".".join(map(str, GLIBC))
    run(sys.executable, "-c", PRECOMPILE, source / "ansorc", glibc, PYTHONPATH=str(source))
    for library in source.glob("ansorc/runtime_prebuilt/*/*.so"):
        check_symbols(library)
    run(sys.executable, "-m", "build", "--wheel", "--outdir", directory, source)
    major, minor = GLIBC
    tags = ".".join(f"manylinux_{major}_{minor}_{one}" for one in ("x86_64", "aarch64"))
    plain = only(directory, "ansorc-*-py3-none-any.whl")
    run(sys.executable, "-m", "wheel", "tags", "--remove", "--platform-tag", tags, plain)
    return sdist, only(directory, "ansorc-*manylinux*.whl")


def try_without_compiler(wheel: Path, scratch: Path) -> None:
    """Install the wheel alone, and do a newcomer's first steps with nothing on PATH."""
    run(sys.executable, "-m", "venv", scratch / "venv")
    python = scratch / "venv/bin/python"
    run(python, "-m", "pip", "install", "--quiet", wheel)
    nothing = scratch / "nothing"
    nothing.mkdir()
    variables = (f"PATH={nothing}", f"HOME={scratch}", f"TMPDIR={nothing}")
    run("env", "-i", *variables, python, FIRST_STEPS, "no-compiler")
    run(python, "-m", "pip", "install", "--quiet", f"{wheel}[cross]")
    run("env", "-i", *variables, python, FIRST_STEPS, "ziglang")


def try_in_own_root(wheel: Path, scratch: Path) -> None:
    """The same where the file system holds Python, the C library and what the wheel asked for."""
    if reason := obstacle():
        print(f"NOT TRIED in a root of its own, which needs root or user namespaces: {reason}")
        return
    root = scratch / "root"
    python = make_root(root)
    run(sys.executable, "-m", "pip", "install", "--quiet", "--target", root / "wheels", wheel)
    shutil.copy2(FIRST_STEPS, root)
    steps = f"/{FIRST_STEPS.name}"
    run_in_root(root, python, steps, "no-compiler", PYTHONPATH="/wheels", HOME="/home")


def try_source(sdist: Path, scratch: Path) -> None:
    """Install the source distribution; its runtime is compiled when it is first needed."""
    run(sys.executable, "-m", "venv", scratch / "from-source")
    python = scratch / "from-source/bin/python"
    run(python, "-m", "pip", "install", "--quiet", sdist)
    run(python, FIRST_STEPS, "compiler", XDG_CACHE_HOME=str(scratch / "cache"))


def main() -> None:
    directory = Path(sys.argv[1]).resolve()
    directory.mkdir(parents=True, exist_ok=True)
    for old in directory.glob("ansorc-*"):
        old.unlink()
    with tempfile.TemporaryDirectory(prefix="ansorc-wheel-") as name:
        scratch = Path(name)
        sdist, wheel = build(directory, scratch / "source")
        try_without_compiler(wheel, scratch)
        try_in_own_root(wheel, scratch)
        try_source(sdist, scratch)
    print(f"{wheel}\n{sdist}")


if __name__ == "__main__":
    main()
