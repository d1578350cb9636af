"""SearchOptions: every number of the search, with its unit and its default."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, get_args

from ansorc.errors import OptionError
from ansorc.search.cost_model import CostModel

StrategyName = Literal["evolution", "random", "beam"]
SpaceName = Literal["full", "paper", "limited"]
SchedulerName = Literal["gradient", "round-robin", "equal"]
ObjectiveName = Literal["f1", "f2", "f3", "f4"]


@dataclass(frozen=True)
class SearchOptions:
    """How programs are drawn, changed, chosen and learned from.

    The defaults follow the paper where it gives a number, and the machine where the machine knows
    better; `PAPER` has what the implementation of the paper did.
    """

    strategy: StrategyName = "evolution"
    """How programs are found (`ansorc.search.proposals`): by evolution; drawn at random,
    without a model; or built up decision by decision, dropping all but the most promising
    incomplete ones."""
    space: SpaceName = "full"
    """`paper`: its Table 1 and its computation locations alone, with no packing inside the kernel
    and no dot-product instructions. `limited`: what templates written by hand hold, see
    `ansorc.search.paper.space`."""
    starts_from_default: bool = True
    """Measure the untuned default program first. It is the outcome of a search of its own, which
    the paper's variants do not have."""
    structure: str = "SSRSRS"
    """The multi-level tiling, outermost level first: S for space, R for reduce loops."""
    is_simd_aware: bool = True
    """Prefer tiles that fill vectors, registers and cores; False draws uniformly (the paper)."""
    max_innermost_factor: int = 64
    """The largest innermost tile length of a space axis that is not vectorised."""
    max_innermost_reduce: int = 1024
    """The largest innermost tile length of a reduce axis. On a Zen 4 the products of 1024³ that go
    over k once reached 92 to 97 % of the peak, in steps of 512 the same tile 92."""
    max_register_ratio: float = 2.0
    """A register tile has at most this many times as many vectors as the machine has registers."""
    unroll_limits: tuple[int, ...] = (0, 8, 32)
    """Copies of the loop body up to which the inner reduce loops are unrolled. With the register
    tile explicit, more (the paper has 512) only makes code that takes seconds to compile."""
    parallel_ratios: tuple[int, ...] = (1, 2, 4, 16)
    """Outer loops are made parallel until they have this many times as many chunks as cores."""
    serial_share: float = 0.05
    """Share of the programs that are drawn without parallel loops."""
    rewrite_layout: bool = True
    """Lay out constant operands of tiles in the order of the tile, before the first call and so
    outside of the time. False: they are copied to panels inside the kernel, in the time."""
    redefine: bool = True
    """Let other definitions of a stage compete with its own, such as Winograd convolutions
    (`ansorc.lang.definitions`). They round otherwise, within the tolerance of every program, and
    transform constants before the first call, outside of the time."""
    max_locations: int = 24
    """Sketches of one computation after the stages that are not tiled were placed."""
    beam_width: int = 64
    """Incomplete programs that are kept after each decision, by the strategy `beam`. Each of them
    is tried with `population / beam_width` values of the next decision."""
    population: int = 2720
    """Programs in one generation."""
    generations: int = 3
    """Times that a generation is scored and varied before programs are measured."""
    mutation_rate: float = 0.85
    """Share of the crossed children that are mutated as well; those with one parent all are."""
    crossover_rate: float = 0.15
    """Share of the children that take whole nodes from a second parent; 0: no crossover."""
    crossover_chance: float = 0.25
    """Share of the nodes that come from any parent, not from the one with the better statement."""
    location_rate: float = 0.05
    """Share of the children that compute one stage which is not tiled in another place."""
    sketch_rate: float = 0.05
    """Share of the children that take their tile lengths to a sketch of another structure."""
    second_move_rate: float = 0.25
    """Share of the mutations that make a second change in the same program."""
    choice_mutation_rate: float = 0.1
    """Share of the changes that alter a choice (parallel loops, unrolling) instead of a tile."""
    preselected_share: float = 0.5
    """Share of the children, those with the best analytic estimates, that the learned model is
    asked about; 1: all of them."""
    elite_share: float = 0.05
    """Share of a generation that goes on unchanged because it scores best."""
    measured_share: float = 0.2
    """Share of the first generation that comes from the best programs measured so far."""
    trials_per_round: int = 64
    """Programs measured before the cost model learns again."""
    optimism: float = 2.0
    """By what share a structure of which nothing was measured may be faster than expected. It falls
    with the square root of the number of its programs that were measured; 0: the paper."""
    epsilon: float = 0.05
    """Share of the measured programs that are drawn at random instead of by score."""
    cost_model: str | CostModel = "trees"
    """The model that scores programs: "trees" learns from measurements, "roofline" is the analytic
    estimate alone, "random" asks nobody; or an object of the user's own. One that fails is
    replaced by the analytic model, and the result says so."""
    polish_share: float = 0.15
    """Share of the trials of a run, the last ones, that go to the neighbours of the fastest
    programs instead of to what evolution finds; 0: none."""
    transferred: int = 4
    """Programs measured in the first round because they were fast with other settings of this
    machine (threads, caches), or their like was for other extents of the same computation, if the
    record file has any; 0: none."""

    def __post_init__(self) -> None:
        """Raise OptionError for a name that is not known."""
        for field, known in {"strategy": StrategyName, "space": SpaceName}.items():
            if getattr(self, field) not in get_args(known):
                raise OptionError(
                    f"SearchOptions.{field} is {getattr(self, field)!r}; "
                    f"it can be {', '.join(get_args(known))}"
                )


@dataclass(frozen=True)
class Scheduling:
    """How trials are shared out among the tasks of networks (paper §6).

    A round is the unit of the paper's formula: `t` of a task is its trials / `trials_per_round`.
    """

    strategy: SchedulerName = "gradient"
    """Who gets the next round: the task that is expected to gain most; the one with the fewest
    trials ("round-robin"); or one after the other, each with its share of the trials ("equal")."""
    objective: ObjectiveName | Callable[[Sequence[float]], float] = "f1"
    """The quantity to minimise, named as in the paper's Table 2: the sum of the networks' latencies
    (f1); the same, but what is below a requirement counts as that (f2); minus the geometric mean of
    the speed-up against references (f3); the sum, without tasks that have stopped gaining (f4). Or
    a function of the networks' latencies in seconds; it may be asked often."""
    requirements: tuple[float, ...] = ()
    """For f2: seconds that suffice for each network."""
    references: tuple[float, ...] = ()
    """For f3: seconds that each network takes otherwise."""
    early_stop: int = 10
    """For f4: rounds without any gain after which a task has stopped."""
    trials: int | None = None
    """Programs to measure in all, those in the record file counted in; None: `TuneOptions.trials`
    for each task on average."""
    trials_per_round: int = 8
    """Programs of a task that are measured before it is asked again who gains most. The paper's
    implementation has 64: here the untuned default and the estimate make the first ones count."""
    warm_up: int = 1
    """Programs of each task that are measured before it is asked who gains most, the tasks with the
    most work first: the untuned default alone says how long each takes. A round at most."""
    alpha: float = 0.2
    """The weight of what was gained in the last rounds, against what is expected of the next; that
    of the paper's implementation, as are the next two."""
    beta: float = 2.0
    """A task is expected to come within this factor of the speed of similar ones."""
    backward_window: int = 3
    """Rounds over which the last gain is taken."""
    similarity_lead: int = 10
    """Rounds that a task may be ahead of all similar ones, still slower by `beta`, before they say
    nothing about it; the paper's implementation has 5, of eight times as many trials."""
    epsilon: float = 0.05
    """Share of the rounds that go to any of the tasks (paper §6.2, which gives no number)."""
    least_gain: float = 0.0002
    """A task rests while the second half of its trials made the objective smaller by less than this
    share, or all of its time is less; 0: no task rests. Tuning ends where all of them rest."""
    rest_after: int = 12
    """Rounds over which the gain is taken at least."""
    most_failures: int = 32
    """A task of which so many programs failed and none succeeded is given up."""
    local_search_every: int = 5
    """Every so many rounds of a task are a local search around its best programs, besides the last
    `SearchOptions.polish_share` of all trials; 0: none are."""

    def __post_init__(self) -> None:
        """Raise OptionError for a name that is not known, and numbers that make no sense."""
        if self.strategy not in get_args(SchedulerName):
            known = ", ".join(get_args(SchedulerName))
            raise OptionError(f"Scheduling.strategy is {self.strategy!r}; it can be {known}")
        if not callable(self.objective) and self.objective not in get_args(ObjectiveName):
            known = ", ".join(get_args(ObjectiveName))
            raise OptionError(
                f"Scheduling.objective is {self.objective!r}; it can be {known} or a function"
            )
        for name in ("trials_per_round", "warm_up", "backward_window", "rest_after", "early_stop"):
            if getattr(self, name) < 1:
                raise OptionError(f"Scheduling.{name} is {getattr(self, name)}; it is 1 or more")
        if any(seconds <= 0 for seconds in (*self.requirements, *self.references)):
            raise OptionError("requirements and references are seconds, more than 0")


DEFAULTS = SearchOptions()
"""The options that are used unless others are given."""

PAPER = SearchOptions(
    space="paper", max_locations=192, parallel_ratios=(16,), serial_share=0.0,
    is_simd_aware=False, max_innermost_reduce=64, population=2048, generations=4,
    crossover_rate=0.05, crossover_chance=1.0, sketch_rate=0.0, second_move_rate=0.0,
    elite_share=0.0, optimism=0.0, trials_per_round=64, preselected_share=1.0, polish_share=0.0,
    transferred=0, unroll_limits=(0, 16, 64, 512),
)  # fmt: skip
"""The space and the numbers of the paper's implementation, for comparison.

Four things remain as they are here, because the code is made differently: the innermost tile is
computed in registers (so it has a limit), unrolling is bounded, the innermost space loop is
vectorised whole, and random programs are drawn once for all rounds.
"""

BEAM = SearchOptions(strategy="beam", starts_from_default=False, polish_share=0.0, transferred=0)
"""Prune incomplete programs by the cost model, without fine-tuning (Figure 7 of the paper)."""
NO_FINE_TUNING = SearchOptions(
    strategy="random", starts_from_default=False, polish_share=0.0, transferred=0
)
"""Measure random programs (Figure 7)."""
LIMITED_SPACE = SearchOptions(
    space="limited", structure="SRS", max_innermost_factor=16, max_locations=1,
    starts_from_default=False, transferred=0,
)  # fmt: skip
"""The space of manual templates: fewer tile levels, small innermost tiles, fixed locations (Figure
7). Two levels of space loops around one of reduce loops, 16 elements a side."""
NO_CROSSOVER = SearchOptions(crossover_rate=0.0)
"""Mutations alone."""
NO_COST_MODEL = SearchOptions(cost_model="random")
"""Proposal without knowing which programs are better, but for those that were measured."""
NO_LEARNING = SearchOptions(cost_model="roofline")
"""Proposal by the analytic estimate alone."""
NO_DEFAULT = SearchOptions(starts_from_default=False)
"""Without the untuned default as the first program."""

NO_LOCAL_SEARCH = SearchOptions(polish_share=0.0)
"""Proposal to the end, without a local search around what it found."""

AS_DEFINED = SearchOptions(redefine=False)
"""Every stage by the arithmetic of its own definition."""

ABLATIONS: Mapping[str, SearchOptions] = MappingProxyType({
    "beam": BEAM,
    "no-fine-tuning": NO_FINE_TUNING,
    "limited-space": LIMITED_SPACE,
    "no-crossover": NO_CROSSOVER,
    "no-cost-model": NO_COST_MODEL,
    "no-learning": NO_LEARNING,
    "no-default": NO_DEFAULT,
    "no-polish": NO_LOCAL_SEARCH,
    "as-defined": AS_DEFINED,
    "paper": PAPER,
})  # fmt: skip
"""The search without one of its parts, by what is missing; the first three are the paper's."""
