"""The pages: what they name exists, their links lead somewhere, decisions have all their parts."""

from __future__ import annotations

import pkgutil
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
INDEX = ROOT / "docs" / "decisions" / "README.md"
MAPS = [
    ROOT / name
    for name in (
        "ARCHITECTURE.md",
        "README.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "bench/README.md",
        "runtime/README.md",
    )
] + sorted(page for page in (ROOT / "docs").rglob("*.md") if page.parent.name != "decisions")
MADE = {ROOT / "docs/reference" / f"{name}.md" for name in ("cli", "operators", "runtime", "steps")}
"""Pages of the site that its hook makes (docs/site/made_pages.py)."""
"""Pages that are kept true: what they name exists. Decisions are history; only their links are."""
STATUSES = ("Status: accepted", "Status: superseded by", "Status: rejected")
PARTS = ["## Context", "## Decision", "## Evidence", "## Consequence"]
MAX_DECISION_LINES, MAX_ARCHITECTURE_LINES = 80, 150

_FOLDERS = ("ansorc", "bench", "docs", "runtime", "tests", "typings")
_PATH = re.compile(rf"(?<![\w/.-])(?:{'|'.join(_FOLDERS)})/[\w./-]*")
_MODULE = re.compile(r"-m (bench[\w.]*)")
_NAME = re.compile(r"ansorc(?:\.\w+)+(?<!\.db)")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def quoted(page: Path) -> Iterator[str]:
    """What stands between single backticks, blocks of code left out."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    yield from (" ".join(words.split()) for words in re.findall(r"`([^`]+)`", text))


def anchors(page: Path) -> set[str]:
    """The anchors of the headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", MAPS, ids=relative)
def test_a_page_names_files_that_exist(page: Path) -> None:
    for words in quoted(page):
        for name in _PATH.findall(words):
            places = (base / name.rstrip(".") for base in (ROOT, page.parent))
            assert any(map(Path.exists, places)), f"{relative(page)} names {name}"
        for name in _MODULE.findall(words):
            place = ROOT / name.replace(".", "/")
            assert place.is_dir() or place.with_suffix(".py").exists(), f"{relative(page)}: {name}"


@pytest.mark.parametrize("page", MAPS, ids=relative)
def test_a_page_names_modules_and_functions_that_exist(page: Path) -> None:
    for words in quoted(page):
        if _NAME.fullmatch(words) and not (ROOT / words).exists():
            try:
                pkgutil.resolve_name(words)
            except (ImportError, AttributeError):
                pytest.fail(f"{relative(page)} names {words}")


@pytest.mark.parametrize("page", [*MAPS, INDEX, *DECISIONS], ids=relative)
def test_links_lead_somewhere(page: Path) -> None:
    for link in _LINK.findall(page.read_text()):
        if link.startswith(("http://", "https://")):
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if target.resolve() in MADE:
            continue
        assert target.exists(), f"{relative(page)} links to {link}"
        assert not anchor or anchor in anchors(target), f"{relative(page)}: no heading for {link}"


@pytest.mark.parametrize("page", DECISIONS, ids=relative)
def test_a_decision_has_its_status_and_four_parts(page: Path) -> None:
    lines = page.read_text().splitlines()
    assert lines[0].startswith(f"# {page.name[:4]}. ")
    assert lines[2].startswith(STATUSES), f"{relative(page)} has no status: {lines[2]}"
    assert [line for line in lines if line.startswith("## ")] == PARTS
    assert len(lines) <= MAX_DECISION_LINES
    sections = re.split(r"^## .*$", page.read_text(), flags=re.MULTILINE)[1:]
    assert all(section.strip() for section in sections)


def test_decisions_have_numbers_of_their_own_and_their_titles_in_the_index() -> None:
    numbers = [page.name[:4] for page in DECISIONS]
    assert len(set(numbers)) == len(numbers)
    listed = [link for link in _LINK.findall(INDEX.read_text()) if link[:4].isdigit()]
    assert sorted(listed) == [page.name for page in DECISIONS]
    for page in DECISIONS:
        title = page.read_text().partition("\n")[0].removeprefix(f"# {page.name[:4]}. ")
        assert f"* [{page.name[:4]}]({page.name}) {title}" in INDEX.read_text()


def test_the_architecture_is_a_map() -> None:
    assert len((ROOT / "ARCHITECTURE.md").read_text().splitlines()) <= MAX_ARCHITECTURE_LINES


def test_the_version_is_one() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"\n## [{version}]" in (ROOT / "CHANGELOG.md").read_text()


def test_code_refers_to_decisions_that_exist() -> None:
    numbers = {page.name[:4] for page in DECISIONS}
    for path in sorted((ROOT / "ansorc").rglob("*.py")):
        for number in re.findall(r"docs/decisions/(\d+)", path.read_text()):
            assert number in numbers, f"{relative(path)} refers to decision {number}"
