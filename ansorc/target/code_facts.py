"""Facts of the code that is made for any machine: passes see to them, and others count on them.

Schedules, estimates and probes read them here, for they know no passes.
"""

from __future__ import annotations

INDEPENDENT_SUMS = 8
"""Vectors of sums that keep two units busy that add in four cycles."""
MAX_UNROLLED_CHUNKS = 16
"""More vectors than this run in a loop, lest the code outgrow the instruction cache."""
LEAST_TRANSPOSED_ROWS = 4
"""Rows of a block that is transposed in registers, at least."""
JOINED_RESULTS = (4, 2)
"""How many threads of a GPU exchange results to store them together, the first if rows allow it."""
ASYNC_COPY_BYTES = (4, 8, 16)
"""What one asynchronous copy of a GPU may move."""
