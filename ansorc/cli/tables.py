"""Tables for people: framed on a terminal, plain lines when piped."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table


def new_table(console: Console, title: str, *headings: str) -> Table:
    """Return an empty table; columns after the first are for figures.

    Without headings it has no header. Add rows by `add_row`.
    """
    frame = box.HEAVY_HEAD if console.is_terminal else None
    table = Table(title=title, title_justify="left", box=frame, show_header=bool(headings))
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="right" if number else "left")
    return table
