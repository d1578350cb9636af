"""The guide of docs/fleet.md from its key to its tuning, with servers that are folders here.

`ssh`, `scp`, `sbatch` and `kubectl` are stand-ins that look at what they are told and then do it:
servers, nodes and pods are workers of this machine. `dask`, `ansorc` and the scheduler are real.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

pytest.importorskip("distributed", reason="a fleet needs the package distributed")

PAGE = Path(__file__).parents[2] / "docs/fleet.md"
_BLOCK = re.compile(
    r"^(?P<word><!-- illustrative[^\n]*-->\n)?```(?P<language>\w+)\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
WORKLOAD = """import ansorc as ac

@ac.workload
def matmul():
    a = ac.placeholder((32, 32), name="A")
    b = ac.placeholder((32, 32), name="B")
    return [a, b, ac.ops.matmul(a, b)]
"""
PROGRAMS = {
    # The probe's time is given: this machine is busy with tests.
    "ansorc": """import sys
from ansorc.cli.main import main
main(sys.argv[1:] + ["--probe-s", "1e-3"] * (sys.argv[1] == "worker"))
""",
    "dask": "from dask.__main__ import main; main()",
    "python3": """import os, pathlib, shutil, sys
assert sys.argv[1:3] == ["-m", "venv"], sys.argv
place = pathlib.Path(sys.argv[3], "bin")
place.mkdir(parents=True)
shutil.copy(shutil.which("ansorc"), place / "ansorc")
(place / "pip").write_text("#!/bin/sh\\necho $* >> ~/installed\\n")
(place / "pip").chmod(0o755)
""",
    "ssh": """import os, subprocess, sys
home = os.path.join(os.environ["SERVERS"], sys.argv[1])
os.makedirs(home, exist_ok=True)
sys.exit(subprocess.call(["sh", "-c", sys.argv[2]], cwd=home, env={**os.environ, "HOME": home}))
""",
    "scp": """import os, shutil, sys
options, source, (host, place) = sys.argv[1], sys.argv[2], sys.argv[3].split(":")
assert "p" in options, "the key is for its owner alone"
shutil.copy2(source, os.path.join(os.environ["SERVERS"], host, place))
""",
    "sbatch": """import os, re, subprocess, sys
text = open(sys.argv[1]).read()
assert text.startswith("#!"), text
found = dict(re.findall(r"^#SBATCH --([a-z-]+)=?(.*)$", text, re.M))
assert {"job-name", "array", "exclusive", "time"} == set(found), found
first, last = map(int, found["array"].split("-"))
assert last - first + 1 == 8
home = os.environ["SERVERS"] + "/s1"
subprocess.Popen(["sh", os.path.abspath(sys.argv[1])], cwd=home, start_new_session=True)
""",
    "kubectl": """import os, subprocess, sys, yaml
if sys.argv[1:4] == ["create", "secret", "generic"]:
    name, path = sys.argv[4], sys.argv[5].removeprefix("--from-file=")
    assert os.path.basename(path) == "fleet.key" and os.path.exists(path)
    open("secret", "w").write(name + " " + path)
else:
    assert sys.argv[1:3] == ["apply", "-f"], sys.argv
    made = yaml.safe_load(open(sys.argv[3]))
    assert (made["apiVersion"], made["kind"]) == ("apps/v1", "DaemonSet")
    spec = made["spec"]["template"]["spec"]
    assert made["spec"]["selector"]["matchLabels"] == made["spec"]["template"]["metadata"]["labels"]
    (container,), (volume,) = spec["containers"], spec["volumes"]
    (mount,), (variable,) = container["volumeMounts"], container["env"]
    name, path = open("secret").read().split()
    assert mount["name"] == volume["name"] and volume["secret"]["secretName"] == name
    assert variable["value"] == mount["mountPath"] + "/fleet.key"
    assert container["resources"]["requests"] == container["resources"]["limits"]
    os.environ[variable["name"]] = path
    subprocess.Popen(container["command"], start_new_session=True)
""",
}


@pytest.fixture
def guide(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of the guide's commands; what they started is killed in the end."""
    (tmp_path / "bin").mkdir()
    for name, text in PROGRAMS.items():
        program = tmp_path / "bin" / name
        program.write_text(f"#!{sys.executable}\n{text}")
        program.chmod(0o755)
    (tmp_path / "gemm.py").write_text(WORKLOAD)
    environment = {
        **os.environ, "HOME": str(tmp_path), "SERVERS": str(tmp_path / "servers"),
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": str(PAGE.parents[1]),
    }  # fmt: skip
    environment.pop("ANSORC_FLEET_KEY", None)
    yield environment
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"SERVERS={environment['SERVERS']}".encode() in (place / "environ").read_bytes():
                os.kill(int(place.name), signal.SIGKILL)


def commands() -> Iterator[list[str]]:
    """What runs each block of the guide, with fewer servers and trials, at a port that is free."""
    page = PAGE.read_text()
    begin = page.index("## Eight servers")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    for found in _BLOCK.finditer(page[begin : page.index("\n## ", begin)]):
        assert not found["word"], "all of the guide is run"
        text = (
            found["text"].replace("8786", str(port)).replace('"s1 s2 s3 s4 s5 s6 s7 s8"', '"s1 s2"')
        )
        text = text.replace("--trials 100", "--trials 2")
        shell = ["bash", "-euo", "pipefail", "-c", text]
        yield shell if found["language"] == "sh" else [sys.executable, "-c", text]


@pytest.mark.nightly
def test_the_guide_from_zero_to_a_tuning(guide: dict[str, str], tmp_path: Path) -> None:
    blocks = list(commands())
    assert len(blocks) == 6
    for number, command in enumerate(blocks):
        if number == 4:  # all devices are asked for: two servers, a node and a pod
            status = command[-1].splitlines()[0]
            wait_for_devices(status, 4, guide, tmp_path)
        with (tmp_path / f"out-{number}").open(
            "w+"
        ) as out:  # what goes on in the background holds it
            done = subprocess.run(
                command, env=guide, cwd=tmp_path, stdout=out, stderr=out, check=False, timeout=120
            )
            out.seek(0)
            assert done.returncode == 0, f"{command[-1]}\n{out.read()}"
    assert (tmp_path / "servers/s2/installed").read_text() == "install -q ansorc[fleet]\n"
    assert (tmp_path / "servers/s2/.config/ansorc/fleet.key").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "tune.db").exists()


def wait_for_devices(command: str, count: int, environment: dict[str, str], place: Path) -> None:
    deadline = time.monotonic() + 60
    while True:
        done = subprocess.run(
            ["bash", "-c", f"{command} --json"], env=environment, cwd=place, capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        if done.stdout.count('"epyc"') == count:
            return
        assert time.monotonic() < deadline, done.stdout + done.stderr
        time.sleep(0.3)
