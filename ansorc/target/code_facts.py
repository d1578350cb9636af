"""Properties of generated code that passes ensure and other parts rely on, for any machine.

Schedules, estimates and probes read them here, because they do not import passes.
"""

from __future__ import annotations

INDEPENDENT_SUMS = 8
"""Vectors of sums that keep two units with a latency of four cycles busy."""
MAX_UNROLLED_CHUNKS = 16
"""More vectors than this run in a loop, lest the code outgrow the instruction cache."""
LEAST_TRANSPOSED_ROWS = 4
"""Rows of a block that is transposed in registers, at least."""
JOINED_RESULTS = (4, 2)
"""Threads of a GPU that exchange results to store them together: the first number that fits."""
ASYNC_COPY_BYTES = (4, 8, 16)
"""Bytes that one asynchronous copy of a GPU may move."""
