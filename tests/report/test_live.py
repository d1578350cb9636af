"""`ansorc tune --live`: the report's page while a run goes on, on this machine alone."""

from __future__ import annotations

import re
import socket
import time
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import pytest

from tests.support.command_line import CommandLine

pytest.importorskip("vl_convert", reason="vl-convert draws the charts: ansorc[report]")


def fetched(address: str, **headers: str) -> tuple[str, str]:
    """A page and when the browser is asked to come again."""
    with urlopen(Request(address, headers=headers), timeout=20) as answer:
        return answer.read().decode(), answer.headers["Refresh"]


def test_a_run_shows_its_page_until_it_ends(cli: CommandLine) -> None:
    words = ("tune", "ops.py:product", "--trials", "2000", "--time-budget", "30", "--live")
    with cli.start(*words) as process:
        assert process.stderr is not None
        line = next(line for line in process.stderr if line.startswith("live: "))
        address = re.fullmatch(r"live: (http://127\.0\.0\.1:\d+/)\n", line)
        assert address is not None
        text, refresh = fetched(address[1])
        assert int(refresh) > 0
        deadline = time.monotonic() + 60
        while "Best time by trial" not in text and time.monotonic() < deadline:
            time.sleep(0.2)
            text, _ = fetched(address[1])
        assert "Best time by trial" in text
        assert "default-src 'none'" in text
        with pytest.raises(HTTPError, match="403") as refusal:
            fetched(address[1], Host="elsewhere.example:80")
        refusal.value.close()
        with pytest.raises(HTTPError, match="404") as refusal:
            fetched(address[1] + "tune.db")
        refusal.value.close()
        process.terminate()
        process.communicate(timeout=60)
    with pytest.raises(URLError, match="refused"):
        fetched(address[1])
    assert Path("tune.db").exists()


def test_a_port_that_is_taken_is_refused(cli: CommandLine) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        refused = cli.run("tune", "ops.py:product", "--trials", "2", "--live", str(port)).refused()
    assert re.search(
        rf"port {port} cannot be served \(Address already in use\); name another", refused
    )
