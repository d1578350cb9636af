"""A process that adds records number FIRST, FIRST + 1, …: `record_writer PLACE FIRST END`.

It says "first" when its first record is kept, and goes on, none too fast, when it gets a line.
"""

from __future__ import annotations

import sys
import time

from ansorc.search.record import Records
from tests.search.record.examples import record_of

PAUSE_S = 2e-3
"""After a record: the server is stopped before the last one."""


def main() -> None:
    """Add them, one after another."""
    place, first, end = sys.argv[1:]
    with Records.open(place) as records:
        for number in range(int(first), int(end)):
            records.add(record_of("t", number))
            if number == int(first):
                sys.stdout.write("first\n")
                sys.stdout.flush()
                sys.stdin.readline()
            time.sleep(PAUSE_S)


if __name__ == "__main__":
    main()
