"""What instructions and bytes cost a current core: the machine's numbers in all estimates.

Measured: by `python -m bench.core_costs`, with what it gave on a Zen 3, median and best where they
differ. Stated: docs/decisions/0055 names where. Chosen: put timed programs in the right order.
Assumed: neither looked up nor measured. No value was fitted to what was measured. Two numbers for
one thing belong to two models: the estimate of the untuned default adds times up, that of the
features takes the longest of them and leaves the rest to the trained model.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CoreCosts:
    """Costs of one core; a cycle is one of its clock."""

    add_latency: float = 4.0
    """Cycles until the result of a multiply-add can be added to again (measured: 4.0; of an
    addition 3.0)."""
    dot_latency: float = 5.0
    """Cycles until the result of a dot product can be added to again (assumed)."""
    memory_add_latency: float = 11.0
    """Cycles until a sum in memory that was loaded, added to and stored can be loaded again
    (measured: 13)."""
    flops: float = 4.0
    """Vector operations started in a cycle: two multiply-adds count as four (measured: 1.9 to 2.0
    multiply-adds)."""
    dots: float = 2.0
    """Dot products started in a cycle (assumed)."""
    loads: float = 2.0
    """Vectors or scalars loaded in a cycle (measured: 1.8 to 2.0 vectors)."""
    instructions: float = 4.0
    """Instructions of any kind started in a cycle, where arithmetic reads no memory, as on Arm
    (assumed)."""
    scalar_ports: float = 2.0
    """Instructions of loop control started in a cycle beside those of vectors (measured: 2.4 to
    3.6)."""
    call_instructions: float = 2.0
    """Instructions of `exp`, `tanh`, … started in a cycle (chosen)."""
    window: float = 250.0
    """Instructions that are looked ahead: short sums overlap with the ones that follow
    (stated: 256, by the guide to Zen 3)."""
    code_limit: float = 1500.0
    """Instructions of straight-line code that the instruction caches hold (chosen)."""
    fill_bytes: tuple[float, float, float] = (32.0, 12.0, 4.0)
    """Bytes per cycle into the first cache, into the second, and from memory, of each core: what
    one transfer after another gets (measured: 30 to 32, 22 to 25, and 6.2 to 7.3)."""
    memory_bytes: float = 8.0
    """Bytes per cycle from memory, of all cores together (measured: 6 to 10)."""
    fork: float = 15_000.0
    """Cycles to start the other cores and to wait for the last one (measured: 800 to 1,400 where
    they wait for it, 51,000 and more where they sleep)."""
    loop: float = 1.0
    """Cycles of loop control for each step of a register tile; adds up (chosen)."""
    visit: float = 10.0
    """Cycles lost where a register tile begins and ends, besides filling and storing it; adds up
    (chosen)."""
    dot_visit: float = 12.0
    """The same where the tile is made by dot products (chosen)."""
    dot_spill: float = 8.0
    """Cycles of each step for a sum of dot products in memory, which the register allocator
    shuffles others for (chosen)."""
    far_load: float = 2.0
    """Extra cycles for a vector of a matrix whose rows collide in the first cache (chosen)."""
    gather: int = 3
    """Loads that each element of a vector counts as, if they do not adjoin: to put it in its place
    takes instructions besides the load (chosen)."""
    step_instructions: float = 2.0
    """Instructions of loop control for each step that is not unrolled (assumed: an addition, and a
    comparison with its jump)."""
    tile: float = 4.0
    """Cycles of loop control and addresses for each register tile, one for each vector not counted;
    of the features (chosen)."""
    combine_lanes: float = 12.0
    """Cycles to add up the lanes of a vector of sums (measured: 18.5, one after another)."""
    spill: float = 2.0
    """Cycles of each step for each vector that does not fit into the registers (chosen)."""
    overlap: float = 0.25
    """Share of the other roofs' time that adds to the highest roof's (chosen)."""


CORE = CoreCosts()
"""Of every target: what matters is the order of programs, and cores differ less than programs."""
