"""`ansorc report`: the page is whole, says what the records say, and needs no network."""

from __future__ import annotations

import html
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import ansorc as ac
from ansorc.graph.network import Network
from ansorc.report.history import History, retrain
from ansorc.report.sections import task_sections
from ansorc.schedule import replay
from ansorc.search.measure.result import FailureKind
from ansorc.search.programs import program_key, program_of_record
from ansorc.search.record import Records, current_environment
from ansorc.search.task import Task
from ansorc.target.units import seconds_text
from tests.cli.small_onnx import write_model
from tests.search.record.examples import record_of, task_of
from tests.support.command_line import WORKLOADS, CommandLine

vl_convert: Any = pytest.importorskip(
    "vl_convert", reason="vl-convert draws the charts: pip install 'ansorc[report]'"
)
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, _BROWSERS)), "")
SECTIONS = (
    "Result", "Best time by trial", "Where the time went", "Failures by class",
    "How well the model predicted", "Roofline", "The best loops and those of the untuned default",
    "The instructions of its assembly", "Environment",
)  # fmt: skip
HOSTILE = "</script><script>alert(1)</script><b>&\"'"


@pytest.fixture(scope="module")
def tuned_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Records of a short run, with a failure whose message is hostile."""
    folder = tmp_path_factory.mktemp("tuned")
    (folder / "ops.py").write_text(WORKLOADS)
    task = Task(ac.load_workload(folder / "ops.py", "product"), "native", "product")
    ac.tune(task, trials=28, records=folder / "tune.db")
    with Records.open(folder / "tune.db") as records:
        failed = replace(
            records.all(task.key)[-1], program_key="f" * 24, median_s=None, checked=False,
            failure=FailureKind.CRASH, message=HOSTILE,
        )  # fmt: skip
        records.add(failed)
    return folder / "tune.db"


@pytest.fixture
def reported(cli: CommandLine, tuned_file: Path) -> CommandLine:
    shutil.copy(tuned_file, "tune.db")
    return cli


class Page(HTMLParser):
    """What is in a page: headings, texts, addresses, and the specifications of its charts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.headings: list[str] = []
        self.words = ""
        self.marked: list[str] = []
        self.addresses: list[str] = []
        self.tags: list[str] = []
        self._open: list[str] = []
        self.specs: list[dict[str, Any]] = []
        self.charts = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        found = dict(attrs)
        self.charts += found.get("class") == "chart"
        self.addresses += [found[name] or "" for name in ("src", "href") if name in found]
        self._open.append("specs" if found.get("id") == "specs" else tag)

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop() not in {tag, "specs"}:
            pass

    def handle_data(self, data: str) -> None:
        place = self._open[-1] if self._open else ""
        if place == "specs":
            self.specs = json.loads(data)
        elif place == "h2":
            self.headings.append(data)
        elif place == "mark":
            self.marked.append(data)
        if place not in {"script", "style", "specs"}:
            self.words += data


def page_of(cli: CommandLine, *arguments: str) -> Page:
    ended = cli.run("report", *arguments, "-o", "page.html")
    assert ended.code == 0, ended
    return Page(Path("page.html").read_text())


def test_every_section_is_there(reported: CommandLine) -> None:
    page = page_of(reported, "tune.db", "--task", "ops.py:product")
    assert tuple(page.headings) == SECTIONS
    with Records.open("tune.db") as records:
        (holding,) = records.holdings()
        history = History.of(records, holding)
    assert history.best is not None
    assert history.best.median_s is not None
    for words in (
        seconds_text(history.best.median_s), "untuned default", history.environment.cpu,
        "innermost loops", "GB/s", "1 trial" if not history.failures else "crash", HOSTILE,
    ):  # fmt: skip
        assert words in page.words
    assert history.default is not None
    with Records.open("tune.db") as records:
        task = records.task(holding.task_key)
    is_default = history.best.program_key == program_key(task, history.default)
    assert bool(page.marked) is not is_default
    assert len(Path("page.html").read_text()) < 3e6


def test_lines_of_one_program_alone_are_marked(tuned_file: Path) -> None:
    with Records.open(tuned_file, read_only=True) as records:
        (holding,) = records.holdings()
        history = History.of(records, holding)
    task, untuned = history.task, history.default
    assert task is not None
    assert untuned is not None
    texts = {
        record.program_key: str(replay(task.dag, program_of_record(task, record).steps))
        for record in history.records[:28]
    }
    default = str(replay(task.dag, untuned.steps))
    other = next(one for one in history.records if texts.get(one.program_key, default) != default)
    parts = {part.title: part for part in task_sections(replace(history, best=other), None)}
    marked = Page(parts["The best loops and those of the untuned default"].body).marked
    assert marked
    columns = default.splitlines() + texts[other.program_key].splitlines()
    assert set(marked) <= set(columns)


def test_a_page_loads_nothing_and_runs_nothing_of_a_record(reported: CommandLine) -> None:
    page = page_of(reported, "tune.db", "--no-limits")
    text = Path("page.html").read_text()
    assert page.addresses == ["data:,"]
    assert page.tags.count("script") == 3
    assert "default-src 'none'" in text
    assert "alert(1)</script>" not in text
    assert "width=device-width" in text
    assert "The limits of the machine are not known here" in page.words


def test_every_chart_is_valid_vega_lite(reported: CommandLine) -> None:
    page = page_of(reported, "tune.db")
    assert len(page.specs) == page.charts == 6
    for spec in page.specs:
        drawn = vl_convert.vegalite_to_vega({**spec, "width": 300}, vl_version="6.4")
        assert drawn["marks"]
        assert spec["description"]
    curve = page.specs[0]["data"]["values"]
    assert [row["trial"] for row in curve] == list(range(1, 30))
    bests = [row["best"] for row in curve if row["best"] is not None]
    assert bests == sorted(bests, reverse=True)
    assert curve[-1]["what"] == "crash"


def test_a_model_is_asked_only_of_what_it_has_not_seen(tuned_file: Path) -> None:
    with Records.open(tuned_file, read_only=True) as records:
        (holding,) = records.holdings()
        history = History.of(records, holding)
    forecasts, qualities = retrain(history)
    first = next(begin for begin, _ in history.rounds if begin >= 8)
    assert [one.trial for one in forecasts] == list(range(first + 1, 29))
    assert all(0.0 <= one.quality.pairwise <= 1.0 for one in qualities)
    for one in forecasts:
        assert one.measured_s == history.records[one.trial - 1].median_s
    early = replace(history, records=history.records[: forecasts[0].trial])
    again, _ = retrain(early)
    assert again == forecasts[:1]  # later trials change nothing


def network_records() -> Network:
    """Records for each task of a small network, and of one that is not in it, in files here."""
    write_model(Path("net.onnx"))
    network = Network.of(ac.from_onnx("net.onnx", inputs={"x": (2, 12)}), "native")
    here = current_environment()
    with Records.open("net.db") as records:
        for number, task in enumerate((*network.tasks.values(), task_of())):
            records.add_task(task)
            for trial in range(3):
                record = record_of(task.key, trial, 1e-3 * (number + 1 + trial))
                records.add(replace(record, environment=here))
    return network


def test_a_network_has_the_share_of_each_task(cli: CommandLine) -> None:
    network = network_records()
    page = page_of(cli, "net.db", "--task", "net.onnx", "--input", "x=2x12")
    assert page.headings == ["Share of each task", "Trials of each task", "Environment"]
    values = [row["ms"] for row in page.specs[0]["data"]["values"]]
    expected = [network.weights[key] * (number + 1.0) for number, key in enumerate(network.tasks)]
    assert sorted(values) == pytest.approx(sorted(expected))
    assert len(page.specs[1]["data"]["values"]) == 3 * len(network.tasks)
    assert "of one call of the network" in page.words
    page = page_of(cli, "net.db")
    assert len(page.specs[0]["data"]["values"]) == len(network.tasks) + 1
    assert "each task counted once" in page.words


def test_names_are_only_text(cli: CommandLine) -> None:
    task = Task(task_of().dag, task_of().target, HOSTILE)
    with Records.open("tune.db") as records:
        records.add_task(task)
        for number in range(3):
            records.add(record_of(task.key, number))
    page = page_of(cli, "tune.db")
    assert HOSTILE in page.words
    assert page.tags.count("script") == 3
    assert "this version cannot read it" in page.words  # its steps are no program


def test_no_module_is_imported_because_a_file_names_it(cli: CommandLine) -> None:
    Path("hostile_backend.py").write_text("raise SystemExit('hostile code ran')")
    sys.path.insert(0, str(Path.cwd()))
    task = Task(task_of().dag, f"{task_of().target.text} -backend=hostile_backend", "product")
    with Records.open("tune.db") as records:
        records.add_task(task)
        records.add(record_of(task.key, 1))
    try:
        assert "The task is not known" in page_of(cli, "tune.db").words
        assert cli.run("records", "best", "tune.db").code == 0
        assert cli.run("records", "verify", "tune.db").code == 0
        assert "hostile_backend" not in sys.modules
    finally:
        sys.path.remove(str(Path.cwd()))


def test_what_cannot_be_reported(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "there is no record file none.db" in cli.run("report", "none.db").refused()
    with Records.open("tune.db"):
        pass
    assert "tune.db holds no record" in cli.run("report", "tune.db").refused()
    with Records.open("tune.db") as records:
        records.add_task(task_of())
        records.add(record_of(task_of().key, 1))
    error = cli.run("report", "tune.db", "--task", "x").refused()
    assert error == "error: tune.db holds nothing of 'x'; see: ansorc records list tune.db"
    assert "No such file" in cli.run("report", "tune.db", "-o", "no/page.html").refused()
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    assert "pip install 'ansorc[report]'" in cli.run("report", "tune.db").refused()


def test_records_of_an_earlier_version_say_less(cli: CommandLine) -> None:
    task = task_of()
    with Records.open("tune.db") as records:
        records.add_task(task)
        for number in range(3):
            records.add(replace(record_of(task.key, number), build_s=0.0))
    assert "they are of an earlier version" in page_of(cli, "tune.db").words


def in_browser(*words: str) -> subprocess.CompletedProcess[str]:
    """Run Chromium without a window."""
    browser = [
        CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
        f"--user-data-dir={Path('profile').absolute()}", "--virtual-time-budget=20000",
    ]  # fmt: skip
    command = [*browser, *words]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)


@pytest.mark.skipif(not CHROMIUM, reason="no Chromium is installed to open the page in")
def test_a_browser_draws_every_chart(reported: CommandLine) -> None:
    """A picture of the page is kept in the directory that ANSORC_TEST_ARTEFACTS names."""
    page = page_of(reported, "tune.db")
    kept = Path(os.environ.get("ANSORC_TEST_ARTEFACTS", "artefacts")).absolute()
    kept.mkdir(parents=True, exist_ok=True)
    url = Path("page.html").absolute().as_uri()
    done = in_browser("--dump-dom", url)
    picture = kept / "report.png"
    in_browser("--window-size=1100,4200", f"--screenshot={picture}", url)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert f'data-drawn="{len(page.specs)}"' in done.stdout
    assert len(re.findall(r"<svg [^>]*marks", done.stdout)) == len(page.specs)
    assert not [line for line in done.stderr.splitlines() if ":CONSOLE" in line]


AXE = """<script>setTimeout(() => axe.run(document, {resultTypes: ["violations"]}).then(found =>
document.body.setAttribute("data-axe", JSON.stringify(found.violations.map(
one => [one.impact, one.id, one.nodes[0].html])))), 3000)</script></body>"""


@pytest.mark.nightly
@pytest.mark.skipif(not CHROMIUM, reason="no Chromium is installed to open the page in")
def test_axe_finds_nothing_that_keeps_readers_out(reported: CommandLine) -> None:
    """axe-core, which checks pages for readers who hear or zoom them, finds nothing at all."""
    wheel = importlib.util.find_spec("axe_core_python")
    if wheel is None or wheel.origin is None:
        pytest.skip("axe-core is not installed: pip install axe-core-python")
    page_of(reported, "tune.db")
    text = re.sub(r"<meta[^>]*Content-Security-Policy[^>]*>", "", Path("page.html").read_text())
    script = Path(wheel.origin).with_name("axe.min.js").read_text()
    Path("axe.html").write_text(text.replace("</body>", f"<script>{script}</script>{AXE}"))
    done = in_browser("--dump-dom", Path("axe.html").absolute().as_uri())
    (found,) = re.findall(r'data-axe="([^"]*)"', done.stdout)
    assert json.loads(html.unescape(found)) == []
