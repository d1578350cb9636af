"""`ansorc tune --fleet` and `ansorc fleet status` with a real scheduler and worker."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from ansorc.cli.main import main
from ansorc.fleet.signing import FleetKey
from ansorc.report.sections import fleet_sections
from ansorc.search.record import Records
from tests.fleet.machines_here import COMMAND, FleetHere

pytest.importorskip("distributed", reason="a fleet needs the package distributed")

WORKLOAD = """
import ansorc as ac

@ac.workload
def product(n: int = 24):
    a, b = ac.placeholder((n, n), name="A"), ac.placeholder((n, n), name="B")
    return [a, b, ac.ops.matmul(a, b, name="C")]
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FleetHere]:
    key = FleetKey.create(tmp_path / "fleet.key")
    monkeypatch.setenv("ANSORC_FLEET_KEY", str(key))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ops.py").write_text(WORKLOAD)
    made = FleetHere(tmp_path, key)
    try:
        yield made
    finally:
        made.close()


def ansorc(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """(exit code, standard output, standard error) of a command."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert isinstance(ended.value.code, int)
    out, err = capsys.readouterr()
    return ended.value.code, out, err


def test_a_fleet_is_tuned_on_and_seen_from_the_command_line(
    here: FleetHere, capsys: pytest.CaptureFixture[str]
) -> None:
    here.start_worker("a76")
    here.wait_for_devices(1)
    tune = ("tune", "ops.py:product", "--fleet", here.address, "--device", "a76")
    code, out, err = ansorc(capsys, *tune, "--trials", "6")
    assert code == 0, err
    assert "1 device, " in err
    assert "build it with: ansorc build ops.py:product" in out
    with Records.open(Path("tune.db")) as records:
        assert records.count() >= 6
    code, out, _ = ansorc(capsys, "build", "ops.py:product", "-o", "product.so")
    assert code == 0
    deadline = time.monotonic() + 20
    device: dict[str, Any] = {"done": 0}
    while device["done"] < 6 or device["state"] != "free" or device["waiting"]:
        # it reports every half second
        assert time.monotonic() < deadline, str(device) + here.logs()
        code, out, _ = ansorc(capsys, "fleet", "status", here.address, "--json")
        (device,) = json.loads(out)["devices"]
    assert (device["label"], device["waiting"], device["faults"]) == ("a76", 0, 0)
    code, out, _ = ansorc(capsys, "fleet", "status", here.address)
    assert code == 0
    assert "1 devices, 0 jobs" in out
    page = ("report", "tune.db", "--no-limits", "--fleet", here.address)
    assert ansorc(capsys, *page)[0] == 0
    text = Path("report.html").read_text()
    assert f"{here.address}, when this page was made: 1 devices, 0 jobs there" in text
    assert "<th scope='row'>a76</th><td>free</td>" in text


def made_certificates(place: Path) -> None:
    """An authority, ca.pem, and what it has signed: cert.pem with key.pem."""
    for words in (
        "req -x509 -newkey rsa:2048 -nodes -days 2 -keyout ca.key -out ca.pem -subj /CN=ca",
        "req -newkey rsa:2048 -nodes -keyout key.pem -out request -subj /CN=fleet",
        "x509 -req -in request -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -out cert.pem",
    ):
        subprocess.run(("openssl", *words.split()), cwd=place, check=True, capture_output=True)


@pytest.mark.nightly
@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_a_fleet_is_encrypted_by_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made_certificates(tmp_path)
    key = FleetKey.create(tmp_path / "fleet.key")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ops.py").write_text(WORKLOAD)
    tls = "DASK_DISTRIBUTED__COMM__TLS__"
    names = {f"{tls}CA_FILE": "ca.pem", "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "True"}
    for who in ("SCHEDULER", "WORKER", "CLIENT"):
        names |= {f"{tls}{who}__CERT": "cert.pem", f"{tls}{who}__KEY": "key.pem"}
    status = (*COMMAND, "fleet", "status")
    with monkeypatch.context() as patched:
        for name, value in names.items():
            patched.setenv(name, value)
        here = FleetHere(tmp_path, key, "tls")
    try:
        here.start_worker("a76")
        here.wait_for("serves tls")
        tune = (*COMMAND, "tune", "ops.py:product", "--device", "a76", "--trials", "4", "--fleet")
        subprocess.run((*tune, here.address), env=here.environment, check=True, timeout=120)
        plain = {**os.environ, "ANSORC_FLEET_KEY": str(key)}
        worker = (*COMMAND, "worker", here.address, "--device", "b", "--probe-s", "1e-3")
        for arguments, words in (
            ((*status, here.address), "tls.client.cert"),
            (worker, "tls.worker.cert"),
            ((*status, here.address.replace("tls", "tcp")), "no scheduler answers at"),
        ):
            done = subprocess.run(arguments, env=plain, capture_output=True, text=True, check=False)
            assert done.returncode != 0
            assert re.search(f"error: .*{words}", done.stderr), done.stderr
    finally:
        here.close()


def test_a_page_says_why_it_shows_no_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANSORC_FLEET_KEY", "missing.key")
    (part,) = fleet_sections("tcp://127.0.0.1:1")
    assert part.title == "Fleet"
    assert "ansorc fleet key" in part.body
    assert fleet_sections("") == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--device", "a76"], "name it by --fleet"),
        (["--fleet", "tcp://127.0.0.1:1"], "ansorc fleet status"),
        (["--fleet", "here", "--device", "a76"], "not the address of a scheduler"),
        (["--fleet", "tcp://127.0.0.1:1", "--device", "a76"], "ansorc fleet key"),
    ],
)
def test_what_cannot_be_is_refused_in_words(
    arguments: Sequence[str],
    words: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("ANSORC_FLEET_KEY", str(tmp_path / "none"))
    code, out, err = ansorc(capsys, "tune", "ops.py:product", *arguments)
    assert code in (1, 2)
    assert not out
    assert words in err
