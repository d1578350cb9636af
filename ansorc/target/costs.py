"""Costs of instructions and bytes on one core: the machine's numbers in the estimate.

Presets without their own costs use these defaults: only the order of programs matters, and cores
differ less than programs.

Measured: by `python -m bench.core_costs`, with the results on a Zen 3, median and best where they
differ. Stated: docs/decisions/0055 names the source. Chosen: puts timed programs in the right
order. Assumed: neither looked up nor measured.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CoreCosts:
    """Costs of one core; a cycle is one of its clock."""

    add_latency: float = 4.0
    """Cycles until the result of a multiply-add can be added to again (measured: 4.0; of an
    addition 3.0)."""
    late: float = 1.2
    """Factor on that latency: a sum that is ready is not always added to at once (chosen)."""
    dot_latency: float = 5.0
    """Cycles until the result of a dot product can be added to again (assumed)."""
    dot_in_two: float = 0.85
    """Instructions that take as long as each dot product of two instructions, as on AVX2, and each
    load of its factors (chosen; docs/decisions/0189)."""
    memory_add_latency: float = 11.0
    """Cycles until a sum in memory that was loaded, added to and stored can be loaded again
    (measured: 13)."""
    instructions: float = 4.0
    """Instructions of any kind started in a cycle, where arithmetic reads no memory, as on Arm
    (assumed)."""
    scalar_ports: float = 2.0
    """Instructions of loop control started in a cycle in addition to those of vectors (measured:
    2.4 to 3.6)."""
    division: float = 7.0
    """Cost of a division or square root of a vector, in instructions that start twice in a cycle
    (measured: 3.5 cycles of a division, 5 of a root)."""
    window: float = 250.0
    """Instructions in flight: short sums overlap with the ones that follow
    (stated: 256, by the guide to Zen 3)."""
    code_limit: float = 4000.0
    """Instructions of straight-line code that the instruction caches hold (assumed)."""
    fill_bytes: tuple[float, float] = (32.0, 12.0)
    """Bytes per cycle into the first cache and into the second, of each core (measured: 30 to 32,
    22 to 25)."""
    piece: float = 20.0
    """Additional cycles for each piece of memory, a page at most, that is fetched into the second
    cache: its beginning is not prefetched (chosen; docs/decisions/0141)."""
    streams: float = 32.0
    """Pieces of memory, touched in turns, that the machine goes on prefetching (chosen)."""
    page_bytes: float = 4096.0
    """Prefetching ends at a page (stated; docs/decisions/0141 names the source)."""
    memory_bytes: float = 8.0
    """Bytes per cycle from memory, of all cores together (measured: 6 to 10)."""
    handed_bytes: float = 6.0
    """Bytes per cycle into one core, of data that another core has just written (measured: 5 to
    7)."""
    fork: float = 3_000.0
    """Cycles to start the other cores and to wait for the last one (measured: 800 to 1,400 where
    they wait for it, 51,000 and more where they sleep)."""
    loop: float = 1.0
    """Cycles of loop control for each step of a tile of dot products; adds up (chosen)."""
    dot_visit: float = 12.0
    """Cycles lost at the begin and end of such a tile, besides filling and storing it (chosen)."""
    dot_spill: float = 8.0
    """Cycles of each step for a sum of dot products in memory, for which the register allocator
    moves others (chosen)."""
    tile_load: float = 8.0
    """Cycles to load a tile of 16 rows of a cache line into a matrix unit (stated: two lines a
    cycle, by Intel's optimization manual)."""
    tile_visit: float = 40.0
    """Cycles lost at the begin and end of a register tile of a matrix unit, besides storing it
    (assumed)."""
    far_load: float = 2.0
    """Extra cycles for a vector of a matrix whose rows collide in the first cache (chosen)."""
    tile_ratio: float = 2.0
    """Sums that are kept in registers at most, in vector registers: a few spills cost little
    (chosen)."""
    step_instructions: float = 2.0
    """Instructions of loop control for each step that is not unrolled (assumed: an addition, and a
    comparison with its jump)."""
    tile: float = 4.0
    """Cycles of loop control and addresses for each register tile, one for each vector not counted
    (chosen)."""
    combine_lanes: float = 12.0
    """Cycles to add up the lanes of a vector of sums (measured: 18.5, one after another)."""
    widen_float16: float = 2.0
    """Instructions that load a vector of float16 as float32 (assumed: a load and a conversion)."""
    widen_bfloat: float = 2.0
    """The same of bfloat16: a load that makes room, and a shift (counted)."""
    widen_element: float = 2.0
    """Times as many for one element that goes to all lanes (counted: 3 to 4 instructions)."""
    spill: float = 2.0
    """Cycles of each step for each vector that does not fit into the registers (chosen)."""
    crowding: float = 1.25
    """Registers for each sum of a tile and its operands; each missing register costs cycles of each
    step (chosen)."""
    overlap: float = 0.25
    """Share of the other roofs' time that adds to the highest roof's (chosen)."""


CALL_INSTRUCTIONS = {
    "exp": 25, "exp2": 25, "expm1": 30, "sigmoid": 35, "tanh": 35, "log": 40, "log2": 40,
    "log1p": 50, "erf": 50, "sin": 40, "cos": 40, "pow": 150,
    "fmod": 30, "mod": 35, "floor_divide": 50, "popcount": 10, "clz": 15, "ctz": 15,
}  # fmt: skip
"""Instructions for a vector of float32; dependent ones count more (bench/vector_math.py)."""
