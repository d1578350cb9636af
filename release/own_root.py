"""A root directory with Python, the C library and nothing else, and a program run in it.

What an import finds on a developer's machine by accident (a compiler, an OpenMP runtime, fonts) is
not there. Linux only; needs root, or user namespaces.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

BASICS = ("libstdc++.so.6", "libgcc_s.so.1")
"""What wheels of NumPy's kind expect of each system; the smallest images of Debian have them."""
ENTER = """
set -e
for part in proc dev sys; do mount --rbind /$part "$1/$part"; done
root=$1; shift
exec chroot "$root" "$@"
"""


def obstacle() -> str:
    """Return why no program can be run in a root of its own here; "" if one can."""
    tried = ["unshare", "--mount", "--map-root-user", "true"]
    try:
        done = subprocess.run(tried, check=False, capture_output=True, text=True)
    except FileNotFoundError as error:
        return str(error)
    return "" if done.returncode == 0 else done.stderr.strip()


def make_root(root: Path) -> Path:
    """Copy the Python that runs this, its standard library and what both are linked with.

    Returns the path of the interpreter, which is the same inside.
    """
    interpreter = Path(sys._base_executable).resolve()  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownArgumentType]
    for part in ("proc", "dev", "sys", "tmp", "home"):
        (root / part).mkdir(parents=True)
    _copy(root, interpreter)
    stdlib = Path(sysconfig.get_path("stdlib"))
    shutil.copytree(stdlib, _inside(root, stdlib), ignore=_ignored, symlinks=False)
    extensions = [one for one in stdlib.glob("lib-dynload/*.so") if "_tkinter" not in one.name]
    for library in {*_linked([interpreter, *extensions]), *_basics()}:
        _copy(root, library)
    return interpreter


def run_in_root(root: Path, *command: str | Path, **variables: str) -> None:
    """Run `command` with `root` as its file system and only `variables` in its environment.

    Raises subprocess.CalledProcessError if it fails.
    """
    words = [f"{name}={value}" for name, value in variables.items()]
    namespaces = ["unshare", "--mount", "--map-root-user"]
    enter = [*namespaces, "sh", "-c", ENTER, "enter", str(root), "/usr/bin/env", "-i", *words]
    print("+", f"(in {root})", *command, flush=True)
    _copy(root, Path("/usr/bin/env"))
    subprocess.run([*enter, *map(str, command)], check=True)


def _inside(root: Path, path: Path) -> Path:
    return root / path.relative_to("/")


def _copy(root: Path, path: Path) -> None:
    to = _inside(root, path)
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(path, to)


def _ignored(directory: str, names: list[str]) -> set[str]:
    return {"site-packages", "dist-packages", "test", "__pycache__"} & set(names)


def _linked(programs: Iterable[Path]) -> Iterator[Path]:
    """The shared libraries that `programs` need, and the loader."""
    said = subprocess.run(
        ["ldd", *map(str, programs)], check=False, capture_output=True, text=True
    ).stdout
    yield from (Path(one) for one in re.findall(r"(?:=> |^\s+)(/\S+) \(0x", said, re.MULTILINE))


def _basics() -> Iterator[Path]:
    """BASICS, and the C library's parts that older programs name, as the loader here finds them."""
    said = subprocess.run(["/sbin/ldconfig", "-p"], check=True, capture_output=True, text=True)
    machine = "x86-64" if sysconfig.get_platform().endswith("x86_64") else "AArch64"
    names = (*BASICS, "libpthread.so.0", "libdl.so.2", "librt.so.1", "libutil.so.1", "libm.so.6")
    for line in said.stdout.splitlines():
        name, _, path = line.strip().partition(" => ")
        if name.split(" ")[0] in names and machine in name:
            yield Path(path)
