"""Space: every sketch of a computation, ready to draw programs from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ansorc.lang.arguments import check_arguments
from ansorc.lang.dag import ComputeDAG
from ansorc.schedule.names import Steps, without_numbers
from ansorc.search.options import DEFAULTS, SearchOptions
from ansorc.search.sketch.generate import RuleFailure, generate, reason_of
from ansorc.search.sketch.rule import SketchRule
from ansorc.search.sketch.sketch import Application, Sketch
from ansorc.search.sketch.user_rules import user_rule_of, with_user_rules
from ansorc.search.space.registry import search_space
from ansorc.target import Target


@dataclass(frozen=True, eq=False)
class Space:
    """The programs of `dag` that the search may propose, as sketches with holes."""

    dag: ComputeDAG
    target: Target
    sketches: tuple[Sketch, ...]
    failures: tuple[RuleFailure, ...] = ()
    """The rules that raised an error, each having cost its own sketches only."""
    seed: int = 0
    """The seed of the random programs that all evolutions begin with."""

    @cached_property
    def structures(self) -> tuple[int, ...]:
        """The number of the derived sketch that each sketch is a variant of."""
        numbers: dict[tuple[Application, ...], int] = {}
        for sketch in self.sketches:
            numbers.setdefault(sketch.derivation, len(numbers))
        return tuple(numbers[sketch.derivation] for sketch in self.sketches)

    def sketches_like(self, program: Steps) -> list[int]:
        """Return the numbers of the sketches that have the loops of `program`, but for lengths."""
        loops = tuple(map(without_numbers, program))
        lengths = {len(begin) for begin in self._by_loops}
        return sorted({n for length in lengths for n in self._by_loops.get(loops[:length], ())})

    @cached_property
    def _by_loops(self) -> dict[Steps, list[int]]:
        """The numbers of the sketches by their steps without lengths, as a program begins."""
        numbers: dict[Steps, list[int]] = {}
        for number, sketch in enumerate(self.sketches):
            numbers.setdefault(tuple(map(without_numbers, sketch.steps)), []).append(number)
        return numbers


def design_space(
    dag: ComputeDAG,
    target: Target,
    options: SearchOptions = DEFAULTS,
    rules: Sequence[SketchRule] | None = None,
) -> Space:
    """Return the space of `dag` for `target`, derived by `rules` (default: `sketch_rules`).

    Each derived sketch appears in all ways to complete it, see `SearchSpace.complete`. Raise
    OptionError as `require_options`.
    """
    require_options(options, target)
    failures: list[RuleFailure] = []
    rules = sketch_rules(options, target) if rules is None else rules
    derived = generate(dag, target, rules, failures)
    sketches: list[Sketch] = []
    for sketch, whole in search_space(target).complete(derived, options):
        try:
            sketches += whole
        except Exception as error:
            user_rule = user_rule_of(sketch)
            if user_rule is None:
                raise
            failures.append(RuleFailure(*user_rule, reason_of(error)))
    return Space(dag, target, tuple(sketches), tuple(failures))


@check_arguments
def sketch_rules(
    options: SearchOptions = DEFAULTS, target: Target | None = None
) -> tuple[SketchRule, ...]:
    """Return the rules that a search with `options` asks, in their order, registered ones too.

    Raise OptionError as `require_options`; without a target they are those of this machine.
    """
    machine = Target.parse("native") if target is None else target
    require_options(options, machine)
    return with_user_rules(search_space(machine).rules(options))


def require_options(options: SearchOptions, target: Target) -> None:
    """Raise OptionError for options that mean nothing for `target`."""
    search_space(target).require_options(options)
