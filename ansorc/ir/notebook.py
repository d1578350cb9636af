"""Show values in a notebook: HTML with its own style and without scripts.

Texts of loops have colours, and hovering over a line shows its context; a curve is SVG. Colours
follow the theme of the notebook (an attribute of JupyterLab, else the preference of the browser).
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Sequence

from ansorc.target.units import seconds_text

_STYLE = """<style>
.ansorc { --word: #0a58a8; --mark: #a0158c; --number: #1a7f37; --faint: #5a6270; }
@media (prefers-color-scheme: dark) { .ansorc { --word: #6cb6ff; --mark: #d2a8ff;
  --number: #7ee787; --faint: #a4acb8; } }
body[data-jp-theme-light=true] .ansorc { --word: #0a58a8; --mark: #a0158c; --number: #1a7f37;
  --faint: #5a6270; }
body[data-jp-theme-light=false] .ansorc { --word: #6cb6ff; --mark: #d2a8ff; --number: #7ee787;
  --faint: #a4acb8; }
.ansorc pre { line-height: 1.45; overflow-x: auto; margin: .3em 0; }
.ansorc .line:hover { text-decoration: underline dotted; }
.ansorc .word { color: var(--word); } .ansorc .mark { color: var(--mark); font-weight: bold; }
.ansorc .number { color: var(--number); } .ansorc .faint { color: var(--faint); }
.ansorc svg { width: 100%; max-width: 36em; color: var(--word); }
</style>"""
_MARKS = "parallel|vectorized|unrolled|matrix|bound|bind|vectorize|unroll"
_TOKEN = re.compile(
    rf"(?P<mark>\b(?:{_MARKS})\b)|(?P<word>\b(?:kernel|for|in|if|else|alloc|seq|pass|barrier)\b)"
    r"|(?P<number>(?<![\w.])\d[\d.e-]*(?![\w.]))"
)
_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 560, 200, 70, 30


def frame(title: str, *parts: str) -> str:
    """Return the HTML `parts` under the text `title`."""
    head = f"<div class='faint'>{html.escape(title)}</div>"
    return f"{_STYLE}<div class='ansorc'>{head}{''.join(parts)}</div>"


def code(lines: Iterable[tuple[str, str]]) -> str:
    """Return lines of a program in colours, each with its text on hover ("" for none)."""
    shown = [
        f"<span class='line' title='{html.escape(hover)}'>{_colour(text)}</span>"
        for text, hover in lines
    ]
    return f"<pre>{chr(10).join(shown)}</pre>"


def inside(text: str) -> list[tuple[str, str]]:
    """Return the lines of an indented program, each with the loops around it."""
    lines_: list[tuple[str, str]] = []
    heads: list[tuple[int, str]] = []
    for line in text.splitlines():
        depth = len(line) - len(line.lstrip())
        heads = [head for head in heads if head[0] < depth]
        lines_.append((line, "inside " + " · ".join(head for _, head in heads) if heads else ""))
        if re.match(rf"\s*(?:for|{_MARKS})\b", line):
            heads.append((depth, line.strip().rstrip(":")))
    return lines_


def table(rows: Sequence[tuple[str, str]]) -> str:
    """Return a table with rows of a name and a text."""
    cells = (f"<tr><th>{html.escape(a)}</th><td>{html.escape(b)}</td></tr>" for a, b in rows)
    return f"<table>{''.join(cells)}</table>"


def curve(points: Sequence[tuple[int, float]], last: int) -> str:
    """Return a step curve through (trial, seconds) as SVG, with times on a logarithmic scale.

    `points` has at least one element, with times above 0, in the order of trials. The curve ends
    at trial `last`.
    """
    values = [math.log(value) for _, value in points]
    low, high, end = min(values), max(values), max(last, points[-1][0])

    def place(trial: int, value: float) -> tuple[float, float]:
        share = (value - low) / (high - low) if high > low else 0.0
        x = _LEFT + (_WIDTH - _LEFT - 10) * (trial / end if end else 0.0)
        return x, _HEIGHT - _BOTTOM - (_HEIGHT - _BOTTOM - 15) * share

    path = ""
    for (trial, _), value in zip(points, values, strict=True):
        x, y = place(trial, value)
        path += f"H{x:.1f}V{y:.1f}" if path else f"M{x:.1f} {y:.1f}"
    path += f"H{place(end, low)[0]:.1f}"
    dots = "".join(
        _dot(*place(trial, math.log(v)), f"trial {trial}: {seconds_text(v)}") for trial, v in points
    )
    ends = [(place(0, high), max(v for _, v in points)), (place(0, low), min(v for _, v in points))]
    labels = "".join(_label(_LEFT - 8, y + 4, seconds_text(v)) for (_, y), v in dict.fromkeys(ends))
    labels += _label(_WIDTH - 10, _HEIGHT - 8, f"trial {end}")
    return (
        f"<svg viewBox='0 0 {_WIDTH} {_HEIGHT}' role='img' aria-label='best time by "
        f"trial'><path d='{path}' fill='none' stroke='currentColor' stroke-width='2'/>"
        f"{dots}{labels}</svg>"
    )


def _dot(x: float, y: float, text: str) -> str:
    return (
        f"<circle cx='{x:.1f}' cy='{y:.1f}' r='3.5' fill='currentColor'>"
        f"<title>{html.escape(text)}</title></circle>"
    )


def _label(x: float, y: float, text: str) -> str:
    return (
        f"<text x='{x:.1f}' y='{y:.1f}' text-anchor='end' font-size='12' fill='var(--faint)'>"
        f"{html.escape(text)}</text>"
    )


def _colour(text: str) -> str:
    """Return the text as HTML with its words in colours."""
    parts: list[str] = []
    done = 0
    for token in _TOKEN.finditer(text):
        parts.append(html.escape(text[done : token.start()]))
        parts.append(f"<span class='{token.lastgroup}'>{html.escape(token.group())}</span>")
        done = token.end()
    return "".join((*parts, html.escape(text[done:])))
