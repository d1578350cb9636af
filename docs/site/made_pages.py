"""A hook of mkdocs: pages made from code and from files beside docs/, and links between them.

Nothing that the code knows is written twice: the command line's page comes from its parsers, the
steps' from programs that they are applied to, the C interface's from its header.
"""

from __future__ import annotations

import inspect
import posixpath
import re
import sys
from pathlib import Path

import click
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).parent))

from step_pictures import pictures

from ansorc.cli.main import cli
from ansorc.lang import operators as ops
from ansorc.schedule.steps import STEPS

ROOT = Path(__file__).parents[2]
OUTSIDE = {
    "index.md": "README.md",
    "project/architecture.md": "ARCHITECTURE.md",
    "project/contributing.md": "CONTRIBUTING.md",
    "project/security.md": "SECURITY.md",
    "project/changelog.md": "CHANGELOG.md",
    "project/benchmarks.md": "bench/README.md",
    "reference/runtime.md": "runtime/README.md",
}
"""Pages of the site that are files of the repository."""
MAX_WIDTH = 76
"""Of two programs beside each other, in characters."""
_LINK = re.compile(r"!?\[([^\]]*)\]\(([^)\s]+)\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """List every decision in the navigation."""
    decisions = sorted(path.name for path in (ROOT / "docs" / "decisions").glob("[0-9]*.md"))
    assert config.nav is not None
    project = next(part["Project"] for part in config.nav if "Project" in part)
    project[-1]["Decisions"] += [f"decisions/{name}" for name in decisions]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made, and the pictures of those that are outside of docs/."""
    made = {page: (ROOT / source).read_text() for page, source in OUTSIDE.items()}
    made["reference/runtime.md"] += _header()
    made["reference/operators.md"] = operators_page()
    made["reference/cli.md"] = command_line_page()
    made["reference/steps.md"] = steps_page()
    for name, text in made.items():
        files.append(File.generated(config, name, content=text))
    for picture in (ROOT / "bench").rglob("*.png"):
        name = picture.relative_to(ROOT).as_posix()
        files.append(File.generated(config, name, abs_src_path=str(picture)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links and pictures from their places in the repository to those of the site.

    What is no page of the site, such as a file of code, stays as text.
    """
    del config
    uri = page.file.src_uri
    place = OUTSIDE.get(uri, f"docs/{uri}")
    pages = {source: made for made, source in OUTSIDE.items()}

    def led(found: re.Match[str]) -> str:
        text, link = found.groups()
        name, hash_, anchor = link.partition("#")
        if "://" in link or not name:
            return found.group()
        target = posixpath.normpath(posixpath.join(posixpath.dirname(place), name))
        wanted = pages.get(target, target.removeprefix("docs/"))
        if files.get_file_from_path(wanted) is None:
            return text
        to = posixpath.relpath(wanted, posixpath.dirname(uri) or ".")
        mark = "!" if found.group().startswith("!") else ""
        return f"{mark}[{text}]({to}{hash_}{anchor})"

    parts = re.split(r"(^```.*?^```)", markdown, flags=re.DOTALL | re.MULTILINE)
    return "".join(part if part.startswith("```") else _LINK.sub(led, part) for part in parts)


def operators_page() -> str:
    """Return the reference of `ac.ops`, by the files of its operators."""
    groups: dict[str, list[str]] = {}
    for name in ops.__all__:
        operator = getattr(ops, name)
        groups.setdefault(operator.__module__, []).append(operator.__name__)
    parts = ["# Operators\n\nEach takes tensors and returns one. Data is channels-last, unless "
             "`layout` says otherwise; what an operator does not take it refuses.\n"]  # fmt: skip
    for module, names in groups.items():
        title = module.rpartition(".")[2].replace("_", " ").capitalize()
        members = ", ".join(sorted(names))
        parts.append(
            f"## {title}\n\n::: {module}\n    options:\n      show_root_heading: false\n"
            f"      show_root_toc_entry: false\n      members: [{members}]\n"
        )
    return "\n".join(parts)


def command_line_page() -> str:
    """Return the reference of the command line, from its parsers."""
    parts = ["# The command line\n"]
    for path, command in _commands(cli, "ansorc"):
        help_text = command.get_help(click.Context(command, info_name=path, terminal_width=96))
        parts.append(f"## {path}\n\n```text\n{help_text}\n```\n")
    return "\n".join(parts)


def _commands(command: click.Command, path: str) -> list[tuple[str, click.Command]]:
    found = [(path, command)]
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            found += _commands(inner, f"{path} {name}")
    return found


def steps_page() -> str:
    """Return the reference of the steps: what each says of itself, and what it did to a program."""
    shown = pictures()
    parts = [
        "# Steps\n\nA schedule is a definition and a list of steps. Below, "
        "each is applied to a small program; the loops before and after are what `ac.lower` makes, "
        "printed when this page is built ([how to read them](../language.md)).\n"
    ]
    for step in sorted(STEPS.values(), key=lambda one: one.__name__):
        text = inspect.getdoc(step) or ""
        first, _, rest = text.partition("\n\n")
        parts.append(f"## {step.__name__}\n\n{first}\n")
        if rest:
            parts.append(f"```text\n{rest}\n```\n")
        for picture in shown[step.__name__]:
            parts.append(f"`{picture.call}`\n")
            parts.append(f"```text\n{_beside(picture.before, picture.after)}\n```\n")
    return "\n".join(parts)


def _beside(before: str, after: str) -> str:
    """Two programs without their first line, beside each other if there is room."""
    left, right = ([line[4:] for line in text.splitlines()[1:]] for text in (before, after))
    if max(map(len, left)) + max(map(len, right)) > MAX_WIDTH:
        return "\n".join((*left, "\n->\n", *right))
    height, width = max(len(left), len(right)), max(map(len, left))
    left += [""] * (height - len(left))
    right += [""] * (height - len(right))
    lines = [
        f"{one:<{width}}  {'->' if place == 0 else '  '}  {other}".rstrip()
        for place, (one, other) in enumerate(zip(left, right, strict=True))
    ]
    return "\n".join(lines)


def _header() -> str:
    """The thread pool's header, as it is."""
    text = (ROOT / "runtime/include/ansorc/runtime.h").read_text()
    return f"\n## The header `ansorc/runtime.h`\n\n```c\n{text}```\n"
