"""The records of all that was measured.

In: one `Record` for each trial. Out: what need not be measured again, and the best program.
"""

from ansorc.search.record.database import KernelThreads, Records
from ansorc.search.record.lines import ImportSummary, export_lines, import_lines
from ansorc.search.record.record import Environment, Record, current_environment
from ansorc.search.record.store import (
    RecordLocation,
    RecordUrl,
    is_missing,
    parse_record_uri,
    text_of,
)

__all__ = [
    "Environment",
    "ImportSummary",
    "KernelThreads",
    "Record",
    "RecordLocation",
    "RecordUrl",
    "Records",
    "current_environment",
    "export_lines",
    "import_lines",
    "is_missing",
    "parse_record_uri",
    "text_of",
]
