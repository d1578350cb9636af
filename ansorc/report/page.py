"""The page: HTML with its style, its charts and the chart library (Vega-Lite) in one text."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import cast

from ansorc.errors import ReportError
from ansorc.report.charts import Spec
from ansorc.report.sections import PagePart, as_script

_STYLE = """
:root { color-scheme: light dark; --back: #fff; --text: #1c2024; --faint: #5a6270;
  --line: #d8dce2; --mark: #fff0b8; }
@media (prefers-color-scheme: dark) { :root { --back: #14171a; --text: #e6e8ea;
  --faint: #a4acb8; --line: #343a42; --mark: #4d4210; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 62rem; padding: 1rem; background: var(--back);
  color: var(--text); font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; overflow-wrap: anywhere; } h2 { font-size: 1.15rem; margin-top: 2rem; }
.faint, figcaption { color: var(--faint); }
.wide, pre { overflow-x: auto; } table { border-collapse: collapse; }
th, td { padding: .2rem .9rem .2rem 0; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--line); font-weight: normal; }
th[scope=col], th[scope=row] { color: var(--faint); white-space: nowrap; }
.chart { width: 100%; min-width: 0; } .chart.vega-embed { display: block; padding-right: 0; }
.beside { display: grid; gap: 1rem; grid-template-columns: repeat(auto-fit, minmax(18rem, 1fr)); }
figure { margin: 0; min-width: 0; } pre { border: 1px solid var(--line); padding: .6rem;
  font-size: .8rem; margin: .3rem 0; } mark { background: var(--mark); color: inherit; }
"""
_SCRIPT = """
(() => {
const specs = JSON.parse(document.getElementById("specs").textContent);
const dark = window.matchMedia("(prefers-color-scheme: dark)");
async function draw() {
  const text = dark.matches ? "#e6e8ea" : "#1c2024", line = dark.matches ? "#343a42" : "#d8dce2";
  const range = dark.matches ? ["#6cb6ff", "#ff9e64", "#7ee787", "#f2cc60", "#d2a8ff", "#ff7b72"]
    : ["#0a58a8", "#b34700", "#1a7f37", "#a0158c", "#00797d", "#6a5acd"];
  const axis = { labelColor: text, titleColor: text, gridColor: line, domainColor: line,
    tickColor: line };
  const config = { background: null, axis, view: { stroke: null },
    legend: { labelColor: text, titleColor: text }, range: { category: range },
    bar: { color: range[0] }, line: { color: range[0] }, point: { color: range[0] } };
  await Promise.all(specs.map((spec, place) => vegaEmbed("#chart" + place, spec, { config,
    renderer: "svg", actions: false })));
  document.documentElement.dataset.drawn = specs.length;
}
dark.addEventListener("change", draw);
draw();
})();
"""
"""It defines its names in its own scope: those of the library are global."""
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:; "
    "script-src 'unsafe-inline' 'unsafe-eval'"
)
"""Policy of the page: no network. Vega compiles its expressions, hence eval."""


def page(title: str, subtitle: str, sections: Sequence[PagePart]) -> str:
    """Return the HTML of a report; raise ReportError if the chart library is not installed."""
    specs: list[Spec] = []
    parts: list[str] = []
    for section in sections:
        parts.append(f"<section><h2>{html.escape(section.title)}</h2>")
        for spec in section.specs:
            parts.append(f"<div class='chart' id='chart{len(specs)}'></div>")
            specs.append(spec)
        parts.append(f"{section.body}</section>")
    drawing = _library().replace("</script", "<\\/script")
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<link rel='icon' href='data:,'><title>{html.escape(title)}</title>"
        f"<style>{_STYLE}</style></head>\n<body><main><h1>{html.escape(title)}</h1>"
        f"<p class='faint'>{html.escape(subtitle)}</p>\n{chr(10).join(parts)}\n</main>\n"
        f"<script type='application/json' id='specs'>{as_script(specs)}</script>\n"
        f"<script>{drawing}</script>\n<script>{_SCRIPT}</script></body></html>\n"
    )


PICTURES = (".svg", ".png")
_PICTURE_WIDTH = 640


def picture(spec: Spec, path: Path) -> bytes:
    """Return a chart in the format of the suffix of `path`; raise ReportError as `page` does."""
    wide = {**spec, "width": _PICTURE_WIDTH, "autosize": "pad", "background": "white"}
    if path.suffix == ".svg":
        draw = cast("Callable[[Spec], str]", _vl_convert().vegalite_to_svg)
        return draw(wide).encode()
    draw_png = cast("Callable[..., bytes]", _vl_convert().vegalite_to_png)
    return draw_png(wide, scale=2)


def _library() -> str:
    """Return Vega, Vega-Lite and vega-embed as one script, from `vl_convert`."""
    bundle = cast("Callable[[], str]", _vl_convert().javascript_bundle)
    return bundle()


def _vl_convert() -> ModuleType:
    try:
        return import_module("vl_convert")
    except ModuleNotFoundError as error:
        raise ReportError(
            "reports and pictures need vl-convert, which is not installed; "
            "pip install 'ansorc[report]'"
        ) from error
