"""Space: every sketch of a computation, ready to draw programs from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

from ansorc.lang.arguments import check_arguments
from ansorc.lang.dag import ComputeDAG
from ansorc.search.gpu.rules import completed_on_gpu, gpu_rules, require_gpu_options
from ansorc.search.options import DEFAULTS, SearchOptions, SpaceName
from ansorc.search.paper.space import PAPER_PLACEMENT, limited_rules, paper_rules
from ansorc.search.sketch.complete import BEST_PLACES, Placement, completed
from ansorc.search.sketch.dot_product import is_tensorized
from ansorc.search.sketch.generate import (
    RuleFailure,
    cpu_rules,
    generate,
    reason_of,
    user_rule_of,
    with_user_rules,
)
from ansorc.search.sketch.operand_layout import laid_out, packed
from ansorc.search.sketch.redefined import Redefined, definitions_of, is_redefined
from ansorc.search.sketch.rfactor import with_lengths
from ansorc.search.sketch.rule import SketchRule
from ansorc.search.sketch.sketch import Application, Sketch
from ansorc.search.sketch.tiling import Tiling
from ansorc.target import Target

_SPACES: Mapping[SpaceName, tuple[Callable[[Tiling], tuple[SketchRule, ...]], Placement]] = (
    MappingProxyType({
        "full": (cpu_rules, BEST_PLACES),
        "paper": (paper_rules, PAPER_PLACEMENT),
        "limited": (limited_rules, BEST_PLACES),
    })
)  # fmt: skip
"""The rules of each space, and the places of its stages."""


@dataclass(frozen=True, eq=False)
class Space:
    """The programs of `dag` that the search may propose, as sketches with holes."""

    dag: ComputeDAG
    target: Target
    sketches: tuple[Sketch, ...]
    failures: tuple[RuleFailure, ...] = ()
    """The rules that raised an error, each having cost its own sketches only."""
    seed: int = 0
    """What the random programs that all evolutions begin with are drawn by."""

    @cached_property
    def structures(self) -> tuple[int, ...]:
        """The number of the derived sketch that each sketch is a variant of."""
        numbers: dict[tuple[Application, ...], int] = {}
        for sketch in self.sketches:
            numbers.setdefault(sketch.derivation, len(numbers))
        return tuple(numbers[sketch.derivation] for sketch in self.sketches)


def design_space(
    dag: ComputeDAG,
    target: Target,
    options: SearchOptions = DEFAULTS,
    rules: Sequence[SketchRule] | None = None,
) -> Space:
    """Return the space of `dag` for `target`, derived by `rules` (default: `sketch_rules`).

    Each derived sketch appears once for each way to place the stages that are not tiled, at most
    `options.max_locations` in all unless there are more derived sketches than that (and half as
    many again of each other definition); and so do their variants with an operand packed in the
    kernel. Constant operands of tiles are laid out in the tiles' order, unless the options say
    otherwise. Those of a dot-product instruction have neither: their rule decides what is packed.
    The limited space has none of these but the layout. Raise OptionError as `require_options`.
    """
    require_options(options, target)
    failures: list[RuleFailure] = []
    rules = sketch_rules(options, target) if rules is None else rules
    derived = generate(dag, target, rules, failures)
    if options.space == "paper":
        limit, most = options.max_innermost_reduce, options.max_locations // max(1, len(derived))
        derived = tuple(s for d in derived for s in with_lengths(d, limit, max(1, most)))
    share = max(1, options.max_locations // max(1, sum(map(_is_usual, derived))))
    others = Counter(map(definitions_of, derived))
    sketches: list[Sketch] = []
    for sketch in derived:
        try:
            made = definitions_of(sketch)
            few = max(1, options.max_locations // (2 * others[made]))
            sketches += _programs(sketch, few if made else share, options)
        except Exception as error:
            own = user_rule_of(sketch)
            if own is None:
                raise
            failures.append(RuleFailure(*own, reason_of(error)))
    return Space(dag, target, tuple(sketches), tuple(failures))


def _is_usual(sketch: Sketch) -> bool:
    """Whether `sketch` is of the definition itself, by rules that are always there."""
    is_special = is_redefined(sketch) or is_tensorized(sketch)
    return not is_special and user_rule_of(sketch) is None


def _programs(sketch: Sketch, share: int, options: SearchOptions) -> Iterator[Sketch]:
    """Yield the whole sketches that `sketch` is the structure of."""
    if sketch.target.kind == "cuda":
        yield from completed_on_gpu(sketch)
        return
    _, placement = _SPACES[options.space]
    first = laid_out(sketch) if options.rewrite_layout and not is_tensorized(sketch) else sketch
    is_packed = options.space != "full" or is_tensorized(sketch)
    for variant in (first, *(() if is_packed else packed(first))):
        yield from completed(variant, share, options.unroll_limits, placement)


@check_arguments
def sketch_rules(
    options: SearchOptions = DEFAULTS, target: Target | None = None
) -> tuple[SketchRule, ...]:
    """Return the rules that a search with `options` asks, in their order, registered ones too.

    Raise OptionError as `require_options`; without a target they are those of a CPU.
    """
    if target is not None and target.kind == "cuda":
        require_options(options, target)
        return with_user_rules(gpu_rules())
    rules_of, _ = _SPACES[options.space]
    rules = rules_of(tiling_of(options))
    if not options.redefine:
        rules = tuple(rule for rule in rules if not isinstance(rule, Redefined))
    return with_user_rules(rules)


def require_options(options: SearchOptions, target: Target) -> None:
    """Raise OptionError for options that mean nothing for `target`."""
    if target.kind == "cuda":
        require_gpu_options(options)


def tiling_of(options: SearchOptions) -> Tiling:
    """Return the multi-level tiling that `options` ask for."""
    is_wide = options.is_simd_aware and options.space == "full"
    return Tiling(
        options.structure, options.max_innermost_factor, options.max_innermost_reduce,
        innermost_vectors=32 if is_wide else 0, has_ragged_tiles=is_wide,
    )  # fmt: skip
