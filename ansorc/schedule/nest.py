"""The loop nest of one stage, with the stages computed inside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import cast

from ansorc.ir.arith.interval import bounds, prove
from ansorc.ir.arith.scalar import conjunction
from ansorc.ir.buffer import Buffer, Scope
from ansorc.ir.dim import least_of
from ansorc.ir.expr import CompareOp, Expr, Load, Select, Var, compare, const
from ansorc.ir.node import Node, rewrite
from ansorc.ir.size_expr import size_expr
from ansorc.ir.stmt import For, If, LoopKind, Seq, Stmt, Store
from ansorc.ir.substitute import free_vars, substitute
from ansorc.lang.compute_op import StateBuffer, StepSum
from ansorc.lang.ragged import checked_end
from ansorc.lang.update import stores, update, with_temporaries
from ansorc.schedule.bounds import axis_boxes, region, runs_over_threads
from ansorc.schedule.c_call import call_of_c_function
from ansorc.schedule.dot_body import TERM, dot_update
from ansorc.schedule.in_place import Writing, read_buffers, store_together, written_buffers
from ansorc.schedule.initial import first_pass
from ansorc.schedule.layout import load_packed
from ansorc.schedule.loops import allocated, loop_of, sequence, stages_ahead, starts_threads, under
from ansorc.schedule.memory import memory_shape, memory_sizes
from ansorc.schedule.needed import Need, find_needs
from ansorc.schedule.placed import Placed, axis_values_of, indices_in_memory, is_at_once
from ansorc.schedule.scan_state import (
    ScanStates,
    advance,
    first_step,
    last_step,
    renew,
    states_of,
)
from ansorc.schedule.scattered import (
    adds_atomically,
    initial_loops,
    start_of_results,
    store_identities,
)
from ansorc.schedule.skipping import before_end, where_needed
from ansorc.schedule.sliding import warm_ups
from ansorc.schedule.stage import At, AxisKind, Loop, Mark, Root, Stage
from ansorc.schedule.state import State
from ansorc.schedule.step_tile import Leaves, tile_of_steps
from ansorc.schedule.thread_reduction import ThreadRow, find_thread_row, reduce_across
from ansorc.schedule.unrolling import loops_to_unroll
from ansorc.schedule.values import SplitPredicate, as_int, plus, quotient, times

_LEAST_TESTED = 256
"""A test that may skip fewer terms than this is not worth its cost."""


@dataclass
class Nests:
    """Builds the nests of one state, from the outside in."""

    state: State
    placed: dict[str, Placed] = field(default_factory=dict[str, "Placed"])
    ranges: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    names: dict[str, int] = field(default_factory=dict[str, int])
    is_threaded: bool = False
    """Whether the nest being built lies inside a parallel or bound loop."""
    threads: dict[str, tuple[str, int]] = field(default_factory=dict[str, tuple[str, int]])
    """The variable and the extent of each loop over threads that the nest lies in."""
    is_in_block: bool = False
    """Whether it lies inside a loop over GPU blocks, and none over threads."""

    def nest(self, stage: Stage) -> Stmt:
        """Return the loops that compute `stage` inside the loops that are being built."""
        placed = self._place(stage)
        if stage.op.c_call is not None:
            return call_of_c_function(stage.op, self.placed)
        if adds_atomically(stage):
            update = self._loops(placed, 0, frozenset(), lambda: self._update(placed))
            return Seq((store_identities(stage, placed.buffers), update))
        by_pragma = loops_to_unroll(stage, self.state)
        unrolled = frozenset(name for name, is_unrolled in by_pragma.items() if is_unrolled)
        steps = first_step(stage)
        if steps is not None:
            return self._loops(
                placed, 0, unrolled, lambda: self._scan(placed, steps, unrolled), end=steps
            )
        kinds = [iterator.kind for iterator in stage.iterators]
        if AxisKind.REDUCE not in kinds:
            return self._loops(placed, 0, unrolled, lambda: self._assign(placed))
        reduce = kinds.index(AxisKind.REDUCE)
        reduce = min(reduce, int(start_of_results(stage, reduce)))
        return self._loops(
            placed, 0, unrolled, lambda: self._reduction(placed, reduce, unrolled), end=reduce
        )

    def _place(self, stage: Stage) -> Placed:
        leaves: dict[str, Expr] = {}
        for iterator in stage.iterators:
            is_one = as_int(iterator.extent) == 1 and not stage.is_ragged(iterator)
            if is_one and iterator.mark is not Mark.BIND:
                leaves[iterator.name] = const(0)
            elif iterator.mark is Mark.TENSORIZE:
                leaves[iterator.name] = TERM
            else:
                leaves[iterator.name] = self._fresh(iterator)
        leaves |= {place.axis: const(0) for place in stage.op.places}
        zeros = tuple(const(0) for _ in stage.op.axes)
        is_shared = stage.scope == "shared"
        is_attached = isinstance(stage.attach, At)
        lows = self._lows(stage, is_shared=is_shared) if is_attached else zeros
        placed = Placed(stage, self._buffers(stage), lows, leaves)
        self.placed |= {buffer.name: placed for buffer in stage.op.buffers}
        return placed

    def _fresh(self, iterator: Loop) -> Var:
        count = self.names.get(iterator.name, 0)
        self.names[iterator.name] = count + 1
        name = iterator.name if count == 0 else f"{iterator.name}_{count}"
        self.ranges[name] = (0, as_int(iterator.extent) - 1)
        return Var(name)

    def _buffers(self, stage: Stage) -> tuple[Buffer, ...]:
        shape = tuple(as_int(extent) for extent in memory_shape(stage))
        sizes, is_root = memory_sizes(stage), isinstance(stage.attach, Root)
        if is_root and stage.name in self.state.writings:
            return written_buffers(stage, self.state.writings[stage.name])
        scope, buffers = Scope.GLOBAL if is_root else self._scope(stage), stage.op.buffers
        return tuple(replace(b, shape=shape, sizes=sizes, scope=scope) for b in buffers)

    def _scope(self, stage: Stage) -> Scope:
        """Return the memory of what is held for a part of the nest that is being built."""
        if stage.scope == "shared" or self.is_in_block:
            return Scope.SHARED
        return Scope.LOCAL if self.is_threaded or not self._has_threads() else Scope.GLOBAL

    def _has_threads(self) -> bool:
        """Return whether a stage may start threads inside."""
        return any(
            starts_threads(iterator) for other in self.state.stages for iterator in other.iterators
        )

    def _lows(self, stage: Stage, *, is_shared: bool) -> tuple[Expr, ...]:
        """Return the start of the region of the attached `stage`, for one thread or for all."""
        assert isinstance(stage.attach, At)
        target = self.placed[stage.attach.stage]
        position = target.stage.position(stage.attach.iterator)
        assert position is not None
        anchors = self._anchors(target, position + 1, is_shared=is_shared)
        lows: list[Expr] = []
        for box in region(self.state, stage.name, target.stage, position + 1, is_shared=is_shared):
            low: Expr = const(0)
            if box.low is not None:
                for (anchor, divisor), factor in box.low.terms.items():
                    low = plus(low, times(quotient(anchors[anchor], divisor), factor))
                low = plus(low, const(as_int(box.start)))
            lows.append(low)
        return tuple(lows)

    def _anchors(self, target: Placed, depth: int, *, is_shared: bool) -> dict[str, Expr]:
        inner = {iterator.name for iterator in target.stage.iterators[depth:]}
        if is_shared:
            inner |= {it.name for it in target.stage.iterators if runs_over_threads(it)}
            if isinstance(target.stage.attach, At):
                target = replace(target, lows=self._lows(target.stage, is_shared=True))
        leaves = {n: const(0) if n in inner else v for n, v in target.leaves.items()}
        values = axis_values_of(target, leaves)[0]
        scan = target.stage.op.scan
        if scan is not None and scan.is_reversed:  # the loops inside go on to lower places
            width = axis_boxes(target.stage, depth, is_shared=is_shared)[scan.axis].width
            values[scan.axis] = plus(values[scan.axis], const(1 - as_int(width)))
        return values

    def _loops(
        self,
        placed: Placed,
        start: int,
        unrolled: frozenset[str],
        body: Callable[[], Stmt],
        end: int | None = None,
    ) -> Stmt:
        iterators = placed.stage.iterators[start:end]
        if not iterators:
            return body()
        first = iterators[0]
        var = placed.leaves[first.name]
        was_in = self.threads
        if first.thread.startswith("threadIdx") and isinstance(var, Var):
            self.threads = {**was_in, first.thread: (var.name, as_int(first.extent))}
        was_threaded, was_in_block = self.is_threaded, self.is_in_block
        self.is_threaded = was_threaded or (starts_threads(first) and isinstance(var, Var))
        if first.mark is Mark.BIND:
            self.is_in_block = not runs_over_threads(first) and (was_in_block or not was_threaded)
        inside = self.state.stages_inside(placed.stage.name, first.name)
        warm_up = self._warm_up(placed, first, inside)
        nests = [self.nest(inner) for inner in inside]
        nests = before_end(self.state, placed, inside, nests, self.ranges)
        stmt = sequence(*nests, self._loops(placed, start + 1, unrolled, body, end))
        held = [b for stage in inside if not stage.ring for b in self.placed[stage.name].buffers]
        stmt = allocated(held, stmt)
        self.is_threaded, self.is_in_block = was_threaded, was_in_block
        self.threads = was_in
        if placed.stage.is_ragged(first) and isinstance(var, Var):
            return self._ragged(placed, var, stmt)
        loop = loop_of(
            first,
            var,
            stmt,
            is_unrolled=first.name in unrolled,
            stages=stages_ahead(placed.stage, inside),
        )
        kept = [b for stage in inside if stage.ring for b in self.placed[stage.name].buffers]
        return allocated(kept, sequence(*warm_up, loop))

    def _warm_up(self, placed: Placed, loop: Loop, inside: Sequence[Stage]) -> list[Stmt]:
        """Return the iterations of `loop` before its first one, for stages that keep something.

        Those `inside` it begin one after another, each as early as its readers need.
        """
        early = {name: as_int(turns) for name, turns in warm_ups(self.state, inside).items()}
        turns = max(early.values(), default=0)
        if not turns:
            return []
        var, leaf = self._fresh(replace(loop, extent=turns)), placed.leaves[loop.name]
        placed.leaves[loop.name] = plus(var, const(-turns))
        early_stages = [stage for stage in inside if early[stage.name]]
        nests: list[Stmt] = []
        for stage in early_stages:
            first = compare(CompareOp.GE, var, const(turns - early[stage.name]))
            nests.append(under([first] if early[stage.name] < turns else [], self.nest(stage)))
        held = [b for s in early_stages if not s.ring for b in self.placed[s.name].buffers]
        stmt = sequence(*before_end(self.state, placed, early_stages, nests, self.ranges))
        placed.leaves[loop.name] = leaf
        return [For(var, turns, LoopKind.SERIAL, allocated(held, stmt))]

    def _ragged(self, placed: Placed, var: Var, body: Stmt) -> Stmt:
        """Return the loop over a range that is data, which is checked once for each row."""
        axis = placed.stage.op.ragged_axis
        assert axis is not None
        values, guards = axis_values_of(placed, placed.leaves)
        begin, end = self._expressions(placed, values, axis.bounds)
        ends = (checked_end(axis, begin), checked_end(axis, end))
        loop = For(var, axis.extent, LoopKind.RAGGED, body, begin=ends[0], end=ends[1])
        inner = placed.stage.iterators[(placed.stage.position(axis.name) or 0) + 1 :]
        names = {name for it in inner for name in free_vars(placed.leaves[it.name])}
        conditions = self._conditions(placed, values, guards)
        return under([c for c in conditions if names.isdisjoint(free_vars(c))], loop)

    def _reduction(self, placed: Placed, reduce: int, unrolled: frozenset[str]) -> Stmt:
        """Return the loops from position `reduce` on, with the initialisation of the results."""
        start = int(start_of_results(placed.stage, reduce))

        def inner() -> Stmt:
            update = self._updates(placed, start, unrolled)
            initial = [] if is_at_once(placed) else self._initial(placed, start)
            first = first_pass(placed.stage.iterators[reduce:start], placed.leaves)
            if first is not None:
                initial = [If(first, sequence(*initial))]
            return sequence(*initial, update)

        return self._loops(placed, reduce, unrolled, inner, end=start)

    def _scan(self, placed: Placed, first: int, unrolled: frozenset[str]) -> Stmt:
        """Return the loops from the first one along the axis of a scan on, and its states."""
        states = states_of(placed.stage, first, self._scope(placed.stage))
        tile = tile_of_steps(self.state, placed.stage.name, unrolled, self._scope(placed.stage))

        def step() -> Stmt:
            values, guards = axis_values_of(placed, placed.leaves)
            results = placed.buffers, self._store_indices(placed, values)
            bodies = states.put_in(self._values(placed, values), placed.leaves)
            stmt = advance(states, placed.leaves, results, tile.put_in(bodies, placed.leaves))
            return self._guard(placed, values, guards, stmt)

        def added(each: StepSum, at: Leaves, terms: Leaves) -> Stmt:
            leaves = {**placed.leaves, **at}
            values, guards = axis_values_of(placed, leaves)
            (term,) = self._expressions(placed, {**values, **terms}, [each.body], tuple(terms))
            (term,) = states.put_in([term], leaves)
            return self._guard(placed, values, guards, tile.add(each, term, leaves))

        def elements() -> Stmt:
            stmt = self._loops(placed, tile.start, unrolled, step)
            return tile.around(stmt, self._fresh, added)

        def inside(start: int) -> Stmt:
            return self._loops(placed, start, unrolled, elements, end=tile.start)

        def steps() -> Stmt:
            stmt = inside(turn)
            return sequence(stmt, *self._initial(placed, turn, states, is_again=True))

        turn = last_step(placed.stage.iterators) + 1
        if placed.stage.op.mixed_axes:
            loops = self._loops(placed, first, unrolled, steps, end=turn)
        else:
            loops = inside(first)
        stmt = sequence(*self._initial(placed, first, states), loops)
        return allocated(states.buffers, stmt)

    def _updates(self, placed: Placed, start: int, unrolled: frozenset[str]) -> Stmt:
        """Return the loops from `start` on, skipped where none of their iterations matters.

        Bounds that are data are tested again in the outermost loop of a reduction.
        """
        stage, iterators = placed.stage, placed.stage.iterators
        is_long = [it.kind is AxisKind.REDUCE and as_int(it.extent) > 1 for it in iterators]
        turn = is_long.index(True, start) + 1 if any(is_long[start:]) else start
        if prod(as_int(it.extent) for it in iterators[turn:]) < _LEAST_TESTED:
            turn = start
        needs = self._needs(stage, iterators[turn:])
        moved = {part.axis for it in iterators[start:turn] for part in stage.parts[it.name]}
        of_data = [need for need in needs if need.most != const(0)]
        again = [need for need in of_data if moved & need.total.terms.keys()]

        def inside() -> Stmt:
            stmt = self._loops(placed, turn, unrolled, lambda: self._update(placed))
            return where_needed(placed, turn, stmt, again, self.ranges)

        stmt = self._loops(placed, start, unrolled, inside, end=turn)
        return where_needed(placed, start, stmt, needs, self.ranges)

    def _needs(self, stage: Stage, inner: Sequence[Loop]) -> tuple[Need, ...]:
        """Return the conditions by which a test around the loops `inner` may skip iterations.

        Threads of a GPU wait for each other, so they skip nothing.
        """
        marks = {iterator.mark for iterator in stage.iterators}
        is_fixed = marks & {Mark.BIND, Mark.TENSORIZE, Mark.MATRIX}
        is_whole = all(part.is_whole for it in inner for part in stage.parts[it.name])
        is_whole &= not stage.op.places and stage.op.ragged_axis is None
        if self.is_in_block or self.threads or is_fixed or not is_whole:
            return ()
        return find_needs(self.state, stage)

    def _initial(
        self,
        placed: Placed,
        reduce: int,
        states: ScanStates | None = None,
        *,
        is_again: bool = False,
    ) -> list[Stmt]:
        """Return the statements that store the identities, with their own loops.

        Or the first `states` of a scan; with `is_again` those for its next step.
        """
        op = placed.stage.op
        leaves = dict(placed.leaves)
        space_loops = initial_loops(placed.stage, reduce)
        for iterator in space_loops:
            is_scattered = placed.stage.position(iterator.name) is None and iterator.extent != 1
            if isinstance(leaves[iterator.name], Var) or is_scattered:
                leaves[iterator.name] = self._fresh(iterator)
        if states is not None and not is_again:
            steps = [it.name for it in placed.stage.iterators if it.kind is AxisKind.SCAN]
            leaves |= dict.fromkeys(steps, const(0))
        values, guards = axis_values_of(placed, leaves)
        space = [guard for guard in guards if is_again or guard.kind is AxisKind.SPACE]
        if states is not None and is_again:
            first = renew(states, leaves, (placed.buffers, self._store_indices(placed, values)))
        elif states is None:
            indices = self._store_indices(placed, values)
            first = stores(placed.buffers, indices, op.identities)
        else:
            firsts = self._expressions(placed, values, op.inits)
            first = stores(states.buffers, states.indices(leaves), firsts)
        nests: list[Stmt] = []
        for store in first:
            stmt = self._guard(placed, values, space, store)
            for iterator in reversed(space_loops):
                stmt = loop_of(iterator, leaves[iterator.name], stmt, is_unrolled=False)
            nests.append(stmt)
        return nests

    def _assign(self, placed: Placed) -> Stmt:
        op = placed.stage.op
        values, guards = axis_values_of(placed, placed.leaves)
        indices, parts = self._store_indices(placed, values), self._values(placed, values)
        first, elements = parts[: len(op.temporaries)], parts[len(op.temporaries) :]
        make = store_together if op.overwrites else stores
        stmt = with_temporaries(
            op, first, lambda held: make(placed.buffers, indices, [held(e) for e in elements])
        )
        return self._guard(placed, values, guards, stmt)

    def _update(self, placed: Placed) -> Stmt:
        values, guards = axis_values_of(placed, placed.leaves)
        indices, terms = self._update_indices(placed, values), self._values(placed, values)
        last = placed.stage.iterators[-1]
        row = find_thread_row(placed, self.threads)
        if row is not None:
            return self._across_threads(placed, values, guards, row)
        if last.mark is Mark.TENSORIZE:
            stmt = dot_update(placed.buffers[0], indices, terms[0], last.function, self.ranges)
        else:
            stmt = update(placed.stage.op, placed.buffers, indices, terms)
        if isinstance(stmt, Store) and adds_atomically(placed.stage):
            stmt = replace(stmt, is_atomic=True)
        return self._guard(placed, values, guards, stmt)

    def _across_threads(
        self,
        placed: Placed,
        values: Mapping[str, Expr],
        guards: list[SplitPredicate],
        row: ThreadRow,
    ) -> Stmt:
        op = placed.stage.op
        terms = self._values(placed, values)
        inside = [
            guard.condition for guard in guards if prove(guard.condition, self.ranges) is not True
        ]
        if inside:
            pairs = zip(terms, op.identities, strict=True)
            terms = [Select(conjunction(inside), term, nothing) for term, nothing in pairs]
        space = [guard for guard in guards if guard.kind is AxisKind.SPACE]
        indices = self._store_indices(placed, values)

        def finish(results: Sequence[Expr]) -> Stmt:
            if is_at_once(placed):
                stmt = sequence(*stores(placed.buffers, indices, results))
            else:
                stmt = update(op, placed.buffers, indices, results)
            return self._guard(placed, values, space, stmt)

        return reduce_across(op, row, terms, finish)

    def overwritten(self, placed: Placed, values: Mapping[str, Expr]) -> tuple[Expr, ...]:
        """Return the place in an input of what an update writes for `values` of its axes."""
        (element,) = self._expressions(placed, values, placed.stage.op.overwrites[:1])
        return cast(Load, element).indices

    def _store_indices(self, placed: Placed, values: Mapping[str, Expr]) -> tuple[Expr, ...]:
        if self.state.writings.get(placed.stage.name, Writing.PART) is not Writing.PART:
            return self.overwritten(placed, values)
        return indices_in_memory(placed, [values[axis.name] for axis in placed.stage.op.axes])

    def _update_indices(self, placed: Placed, values: Mapping[str, Expr]) -> tuple[Expr, ...]:
        """Return where a term goes: along scattered axes to its places."""
        places = placed.stage.op.places
        if not places:
            return self._store_indices(placed, values)
        indices = self._expressions(placed, values, [place.index for place in places])
        pairs = zip(places, indices, strict=True)
        return self._store_indices(placed, {**values, **{p.axis: index for p, index in pairs}})

    def _values(self, placed: Placed, values: Mapping[str, Expr]) -> list[Expr]:
        return self._expressions(placed, values, placed.stage.op.parts)

    def _expressions(
        self,
        placed: Placed,
        values: Mapping[str, Expr],
        exprs: Sequence[Expr],
        inner: Sequence[str] = (),
    ) -> list[Expr]:
        """Return `exprs` of a stage in terms of the loops, reading what is in memory."""
        op = placed.stage.op
        axes = (*(axis.name for axis in (*op.axes, *op.reduce_axes)), *inner)
        axis_values = {name: values[name] for name in axes}

        def rule(node: Node) -> Node | None:
            if isinstance(node, Load) and node.buffer.name in self.state.rewritten:
                return load_packed(self.state, node.buffer.name, self.placed)
            if not isinstance(node, Load) or isinstance(node.buffer, StateBuffer):
                return None
            source = self.placed.get(node.buffer.name)
            if source is None:
                return None
            names = [buffer.name for buffer in source.stage.op.buffers]
            number = names.index(node.buffer.name)
            if source.stage.op.overwrites:
                held = read_buffers(source.stage, self.state.writings[source.stage.name])
                return Load(held[number], node.indices)
            return Load(source.buffers[number], indices_in_memory(source, node.indices))

        return [rewrite(substitute(expr, axis_values), rule) for expr in exprs]

    def _guard(
        self, placed: Placed, values: Mapping[str, Expr], guards: list[SplitPredicate], stmt: Stmt
    ) -> Stmt:
        return under(self._conditions(placed, values, guards), stmt)

    def _conditions(
        self, placed: Placed, values: Mapping[str, Expr], guards: list[SplitPredicate]
    ) -> list[Expr]:
        """Return the conditions of splits, and those by which all axes are inside the tensor."""
        conditions = [guard.condition for guard in guards]
        if isinstance(placed.stage.attach, At):
            for axis, low in zip(placed.stage.op.axes, placed.lows, strict=True):
                value, size = values[axis.name], placed.stage.size_of(axis)
                range_ = bounds(value, self.ranges)
                to_end = low == const(0) and size is not None  # so do the loops go
                if range_ is None or (not to_end and range_[1] >= least_of(axis.length)):
                    conditions.append(compare(CompareOp.LT, value, size_expr(axis.length)))
                if range_ is None or range_[0] < 0:
                    conditions.append(compare(CompareOp.GE, value, const(0)))
        return [c for c in conditions if prove(c, self.ranges) is not True]
