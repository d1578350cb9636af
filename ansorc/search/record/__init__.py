"""What was measured, kept for ever.

In: one `Record` for each trial. Out: what need not be measured again, and the best program.
"""

from ansorc.search.record.database import KernelThreads, Records
from ansorc.search.record.lines import ImportSummary, export_lines, import_lines
from ansorc.search.record.record import Environment, Record, current_environment
from ansorc.search.record.store import (
    RecordPlace,
    RecordUrl,
    is_missing,
    place_of,
    text_of,
)

__all__ = [
    "Environment",
    "ImportSummary",
    "KernelThreads",
    "Record",
    "RecordPlace",
    "RecordUrl",
    "Records",
    "current_environment",
    "export_lines",
    "import_lines",
    "is_missing",
    "place_of",
    "text_of",
]
