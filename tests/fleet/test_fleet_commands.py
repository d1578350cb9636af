"""`ansorc tune --fleet` and `ansorc fleet status` with a real scheduler and worker."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from machines_here import FleetHere

from ansorc.cli.main import main
from ansorc.fleet.signing import FleetKey
from ansorc.report.sections import fleet_sections
from ansorc.search.record import Records

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
        (["--fleet", "here", "--device", "a76"], "no address of a scheduler"),
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
