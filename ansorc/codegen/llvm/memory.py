"""Loads and stores: where an element is, and how a vector of elements is moved."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import TypeGuard

from ansorc.codegen.llvm.index import IndexWriter
from ansorc.codegen.llvm.lane_index import LaneIndex, Symbol, bounds, by_depth, depth_of
from ansorc.codegen.llvm.types import Value, in_memory, literal, memory_type, suffix
from ansorc.codegen.llvm.vector import any_lane, extract, pack, shuffle, splat
from ansorc.codegen.llvm.writer import STREAMED, FunctionWriter
from ansorc.ir.arith.affine import Linear
from ansorc.ir.buffer import Buffer, Scope
from ansorc.ir.dtype import INT32, INT64, UINT8, DType
from ansorc.ir.expr import Binary, BinaryOp, Broadcast, Cast, Const, Expr, dtype_of
from ansorc.ir.passes.queries import LINE_BYTES
from ansorc.ir.stmt import Store

_Loading = Callable[[Buffer, LaneIndex[Symbol]], Value]
_Flat = LaneIndex[Symbol] | list[Linear[Symbol]]
"""Elements from the start of a buffer: evenly spaced, or one for each lane."""
_APART_STEPS, _APART_BYTES, _NARROW_STEPS = 4, 4, 2
"""Elements so far apart at most are picked out of vectors. Of narrower ones every other one is:
others are not by few instructions everywhere."""
_NARROW_ELEMENTS = (1 << 31) - 1
_ZERO_BYTES = 512
_ZEROS = f"@zeros = private unnamed_addr constant [{_ZERO_BYTES} x i8] zeroinitializer, align 64"


class MemoryWriter:
    """The memory accesses of one function. Buffers never overlap each other."""

    def __init__(self, writer: FunctionWriter, index: IndexWriter) -> None:
        self._writer = writer
        self._index = index
        self.bases: dict[str, str] = {}
        """The pointer to the first element of each buffer in sight."""

    def load(self, buffer: Buffer, indices: tuple[Expr, ...], mask: Value | None) -> Value:
        """Load `buffer[indices]`; where a lane of `mask` is false, nothing is read."""
        flat = self._flat(buffer, indices)
        if isinstance(flat, list):
            return self._gather(buffer, flat, mask)
        if mask is not None and flat.lanes == 1:  # of a mask that lets the element be any other
            known = self._loaded(buffer, flat, None)
            mask = mask if known is None else None
        if mask is not None and _inside(flat.first, buffer, flat.reach):
            mask = None
        return self._once(buffer, flat, mask and mask.text, partial(self._load_flat, mask=mask))

    def load_or_zero(
        self, buffer: Buffer, indices: tuple[Expr, ...], condition: Value
    ) -> Value | None:
        """Load `buffer[indices]` if the scalar `condition` holds, else zeros from elsewhere.

        None where the address cannot be chosen: of elements apart, or in registers.
        """
        flat = self._flat(buffer, indices)
        if isinstance(flat, list) or (flat.lanes > 1 and flat.step != 1):
            return None
        if buffer.scope is Scope.REGISTER or flat.lanes * buffer.dtype.bytes > _ZERO_BYTES:
            return None
        self._writer.module.declare(_ZEROS)
        chosen = partial(self._load_chosen, condition=condition, other="@zeros")
        return self._once(buffer, flat, f"if {condition.text}", chosen)

    def _once(
        self, buffer: Buffer, flat: LaneIndex[Symbol], wanted: str | None, load: _Loading
    ) -> Value:
        """Return what was loaded from `flat` on the condition `wanted`, else `load` it now."""
        if (loaded := self._loaded(buffer, flat, wanted)) is not None:
            return loaded
        value = load(buffer, flat)
        key = _load_key(flat, wanted)
        self._writer.scopes[-1].loads.setdefault(buffer.name, {})[key] = value
        self._writer.scopes[-1].used[value.text] = self._writer.step
        return value

    def _loaded(self, buffer: Buffer, flat: LaneIndex[Symbol], wanted: str | None) -> Value | None:
        """Return what was loaded from `flat` on the condition `wanted`; None if nothing was."""
        key = _load_key(flat, wanted)
        for scope in reversed(self._writer.scopes):
            loads = scope.loads.get(buffer.name)
            if loads and (loaded := loads.get(key)) is not None:
                scope.used[loaded.text] = self._writer.step
                return loaded
        return None

    def store(self, store: Store, value: Value, mask: Value | None = None) -> None:
        """Store `value` where `store` does; of lanes with one address the last one counts.

        Where a lane of `mask` is false, nothing is written.
        """
        buffer = store.buffer
        flat = self._flat(buffer, store.indices)
        if mask is not None:
            self._store_lanes(buffer, flat, splat(self._writer, value, mask.dtype.lanes), mask)
            places = []
        elif isinstance(flat, list):
            places = flat
        else:
            count = max(flat.lanes, value.dtype.lanes)
            if flat.step == 1 and flat.lanes == count:
                write = self._stream_at if store.is_streamed else self._store_at
                write(buffer, flat.first, splat(self._writer, value, count))
                places = []
            else:
                places = [flat.lane(number) for number in range(count)]
        for number, element in enumerate(places):
            self._store_at(buffer, element, extract(self._writer, value, number))
        self._writer.forget_loads((buffer.name,))

    def _store_lanes(self, buffer: Buffer, flat: _Flat, value: Value, mask: Value) -> None:
        if isinstance(flat, LaneIndex) and flat.step == 1:
            pointer = self.pointer(buffer, flat.first)
            if buffer.scope is Scope.REGISTER:  # A masked access would need an address.
                old = self._load_flat(buffer, flat, None)
                text = f"select {mask.typed}, {value.typed}, {old.typed}"
                self._store_at(buffer, flat.first, Value(self._writer.emit(text), value.dtype))
                return
            name, where = "masked.store", f"ptr {pointer}"
        else:
            lanes = range(mask.dtype.lanes)
            places = [flat.lane(n) for n in lanes] if isinstance(flat, LaneIndex) else flat
            name, where = "masked.scatter", self._pointers(buffer, places)
        kind = in_memory(value.dtype)
        ends = f"{suffix(kind)}.p0" if name == "masked.store" else f"{suffix(kind)}.v{kind.lanes}p0"
        self._writer.module.declare(
            f"declare void @llvm.{name}.{ends}({memory_type(kind)}, {where.partition(' %')[0]}, "
            f"i32 immarg, <{kind.lanes} x i1>)"
        )
        self._writer.line(
            f"call void @llvm.{name}.{ends}({self._to_memory(value)}, {where}, "
            f"i32 {kind.element.bytes}, {mask.typed})"
        )

    def prefetch(self, buffer: Buffer, indices: tuple[Expr, ...]) -> None:
        """Ask for the cache line of `buffer[indices]`; an address of nothing is no error."""
        flat = self._flat(buffer, indices)
        element = flat[0] if isinstance(flat, list) else flat.first
        self._writer.module.declare(
            "declare void @llvm.prefetch.p0(ptr, i32 immarg, i32 immarg, i32 immarg)"
        )
        operands = f"ptr {self.pointer(buffer, element)}, i32 0, i32 3, i32 1"
        self._writer.line(f"call void @llvm.prefetch.p0({operands})")

    def is_inside(self, buffer: Buffer, indices: tuple[Expr, ...]) -> bool:
        """Whether `buffer[indices]` can be shown to lie in the buffer whatever the condition."""
        flat = self._flat(buffer, indices)
        return not isinstance(flat, list) and _inside(flat.first, buffer, flat.reach)

    def _flat(self, buffer: Buffer, indices: tuple[Expr, ...]) -> _Flat:
        """The distance in elements from the start."""
        return self._index.distance(buffer, indices) or self._lanes(buffer, indices)

    def _lanes(self, buffer: Buffer, indices: tuple[Expr, ...]) -> _Flat:
        count = max(dtype_of(index).lanes for index in indices)
        totals: list[Linear[Symbol]] = [Linear()] * count
        for index, stride in _join_narrow(buffer, indices):
            parts = self._index.lanes(index, count)
            totals = [t.plus(p, stride) for t, p in zip(totals, parts, strict=True)]
        steps = [b.plus(a, -1) for a, b in pairwise(totals)]
        if all(not s.terms and s.constant == steps[0].constant for s in steps):
            return LaneIndex(totals[0], count, steps[0].constant)
        return totals

    def _load_flat(self, buffer: Buffer, flat: LaneIndex[Symbol], mask: Value | None) -> Value:
        if flat.step == 0:
            scalar = self._load_at(buffer, flat.first, mask and any_lane(self._writer, mask))
            return splat(self._writer, scalar, flat.lanes)
        if flat.step != 1:
            is_memory = buffer.scope is not Scope.REGISTER
            steps = _APART_STEPS if buffer.dtype.bytes >= _APART_BYTES else _NARROW_STEPS
            if flat.step == 2 and mask is None and _holds_pairs(buffer, flat.first):
                return self._load_parts(buffer, flat)
            if 1 < flat.step <= steps and is_memory:
                return self._load_apart(buffer, flat, mask)
            return self._gather(buffer, [flat.lane(n) for n in range(flat.lanes)], mask)
        pointer = self.pointer(buffer, flat.first)
        if mask is None:
            return self._load_near(buffer, pointer, flat.lanes)
        name = suffix(in_memory(buffer.dtype.vector(flat.lanes)))
        return self._call_masked(f"masked.load.{name}.p0", buffer, f"ptr {pointer}", mask)

    def _load_apart(self, buffer: Buffer, flat: LaneIndex[Symbol], mask: Value | None) -> Value:
        """Load all between elements that are a few steps apart, and leave out the others."""
        lanes, step = flat.lanes, flat.step
        last = (lanes - 1) * (step - 1)  # ends with an element
        if buffer.dtype.bytes < _APART_BYTES and _inside(flat.first, buffer, step * lanes - 1):
            last = (step - 1) * lanes  # the parts are alike
        joined: Value | None = None
        for number in range(step):
            start = min(number * lanes, last)
            wanted = None if mask is None else self._spread_mask(mask, step, start)
            part = self._load_flat(buffer, LaneIndex(flat.first.offset_by(start), lanes, 1), wanted)
            places = [lane * step - start for lane in range(lanes)]
            if joined is None:
                order = [min(at, lanes - 1) for at in places]
            else:
                order = [n if at < 0 else lanes + min(at, lanes - 1) for n, at in enumerate(places)]
            joined = shuffle(self._writer, part if joined is None else joined, part, order)
        assert joined is not None
        return joined

    def _spread_mask(self, mask: Value, step: int, start: int) -> Value:
        """Return the lanes of `mask` for a vector of all elements between, from `start` on."""
        lanes = mask.dtype.lanes
        none = Value("zeroinitializer", mask.dtype)
        parts = [divmod(start + position, step) for position in range(lanes)]
        order = [lanes if rest or lane >= lanes else lane for lane, rest in parts]
        return shuffle(self._writer, mask, none, order)

    def _gather(self, buffer: Buffer, places: list[Linear[Symbol]], mask: Value | None) -> Value:
        if mask is None or all(_inside(element, buffer) for element in places):
            if (near := self._load_vectors(buffer, places)) is not None:
                return near
            values = [self._load_at(buffer, element, None) for element in places]
            return pack(self._writer, values)
        lanes = len(places)
        name = f"masked.gather.{suffix(in_memory(buffer.dtype.vector(lanes)))}.v{lanes}p0"
        return self._call_masked(name, buffer, self._pointers(buffer, places), mask)

    def _load_vectors(self, buffer: Buffer, places: list[Linear[Symbol]]) -> Value | None:
        """Load a few vectors and choose from their lanes; None if `places` are too irregular."""
        offsets = [place.plus(places[0], -1) for place in places]
        if buffer.scope is Scope.REGISTER or any(offset.terms for offset in offsets):
            return None
        numbers = [offset.constant for offset in offsets]
        repeated = self._load_repeated(buffer, places, numbers)
        return repeated or self._load_interleaved(buffer, places, numbers)

    def _load_repeated(
        self, buffer: Buffer, places: list[Linear[Symbol]], numbers: list[int]
    ) -> Value | None:
        """Load neighbours and repeat each, like `x[j // 2]`, or one part of complex numbers.

        `numbers` are the distances of `places` from the first. None if they are others.
        """
        lanes = len(places)
        copies = lanes // (max(numbers) + 1) if max(numbers) >= 0 else 0
        if copies > 1 and numbers == [lane // copies for lane in range(lanes)]:
            start, count = places[0], lanes // copies
        elif _holds_pairs(buffer, places[0]) and numbers == [n - n % 2 for n in range(lanes)]:
            skipped = places[0].constant % 2
            start, count = places[0].offset_by(-skipped), lanes
            numbers = [number + skipped for number in numbers]
        else:
            return None
        if count == 1:
            return None
        loaded = self._load_once(buffer, LaneIndex(start, count, 1))
        return shuffle(self._writer, loaded, loaded, numbers)

    def _load_interleaved(
        self, buffer: Buffer, places: list[Linear[Symbol]], numbers: list[int]
    ) -> Value | None:
        """Load elements of 2 or 4 rows in turns, as `x[k + l % 2, j + l // 2]` of l does.

        `numbers` are the distances of `places` from the first. None if they are others.
        """
        for rows in (2, 4):
            count = len(places) // rows
            starts = numbers[:rows]
            wanted = [start + column for column in range(count) for start in starts]
            if count > 1 and numbers == wanted:
                parts = [
                    self._load_once(buffer, LaneIndex(places[row], count, 1)) for row in range(rows)
                ]
                return self._interleave(parts)
        return None

    def _interleave(self, parts: list[Value]) -> Value:
        """Return the first lanes of all `parts`, which are a power of two, then the second ones."""
        if len(parts) == 1:
            return parts[0]
        half, lanes = len(parts) // 2, parts[0].dtype.lanes
        first, second = self._interleave(parts[:half]), self._interleave(parts[half:])
        length = half * lanes
        order = [
            side * length + column * half + row
            for column in range(lanes)
            for side in (0, 1)
            for row in range(half)
        ]
        return shuffle(self._writer, first, second, order)

    def _load_parts(self, buffer: Buffer, flat: LaneIndex[Symbol]) -> Value:
        """Load complex numbers, and leave out their parts of one kind."""
        lanes, skipped = flat.lanes, flat.first.constant % 2
        start = flat.first.offset_by(-skipped)
        first, second = (
            self._load_once(buffer, LaneIndex(start.offset_by(number * lanes), lanes, 1))
            for number in (0, 1)
        )
        return shuffle(self._writer, first, second, [2 * lane + skipped for lane in range(lanes)])

    def _load_once(self, buffer: Buffer, flat: LaneIndex[Symbol]) -> Value:
        return self._once(buffer, flat, None, self._load_all)

    def _load_all(self, buffer: Buffer, flat: LaneIndex[Symbol]) -> Value:
        return self._load_flat(buffer, flat, None)

    def _pointers(self, buffer: Buffer, places: list[Linear[Symbol]]) -> str:
        """Return the vector of the addresses of `places`, with its type."""
        vector, kind = "poison", f"<{len(places)} x ptr>"
        for number, element in enumerate(places):
            pointer = self.pointer(buffer, element)
            vector = self._writer.emit(
                f"insertelement {kind} {vector}, ptr {pointer}, i64 {number}"
            )
        return f"{kind} {vector}"

    def _call_masked(self, name: str, buffer: Buffer, pointer: str, mask: Value) -> Value:
        """Call a masked load or gather; lanes switched off hold zero."""
        kind = in_memory(buffer.dtype.vector(mask.dtype.lanes))
        lanes, result = kind.lanes, memory_type(kind)
        pointers = pointer.partition(" %")[0]
        self._writer.module.declare(
            f"declare {result} @llvm.{name}({pointers}, i32 immarg, <{lanes} x i1>, {result})"
        )
        text = (
            f"call {result} @llvm.{name}({pointer}, i32 {kind.element.bytes}, {mask.typed}, "
            f"{result} zeroinitializer)"
        )
        return self._from_memory(self._writer.emit(text), buffer.dtype.vector(lanes))

    def _load_at(self, buffer: Buffer, element: Linear[Symbol], condition: Value | None) -> Value:
        """Load one element; where `condition` fails, the first element instead of any other."""
        if condition is not None and not _inside(element, buffer):
            return self._load_chosen(buffer, LaneIndex(element), condition, self.bases[buffer.name])
        return self._load_near(buffer, self.pointer(buffer, element), 1)

    def _load_chosen(
        self, buffer: Buffer, flat: LaneIndex[Symbol], condition: Value, other: str
    ) -> Value:
        """Load from `flat` if the scalar `condition` holds, else from the address `other`."""
        pointer = self.pointer(buffer, flat.first)
        chosen = self._writer.emit(f"select {condition.typed}, ptr {pointer}, ptr {other}")
        return self._load_near(buffer, chosen, flat.lanes)

    def _load_near(self, buffer: Buffer, pointer: str, lanes: int) -> Value:
        """Load `lanes` elements that are next to each other."""
        dtype = buffer.dtype.vector(lanes)
        text = f"load {memory_type(in_memory(dtype))}, ptr {pointer}, align {buffer.dtype.bytes}"
        return self._from_memory(self._writer.emit(text), dtype)

    def _store_at(self, buffer: Buffer, element: Linear[Symbol], value: Value) -> None:
        pointer = self.pointer(buffer, element)
        text = self._to_memory(value)
        self._writer.line(f"store {text}, ptr {pointer}, align {buffer.dtype.bytes}")

    def _stream_at(self, buffer: Buffer, element: Linear[Symbol], value: Value) -> None:
        """Store a vector past the caches if the array, a caller's perhaps, begins with a line."""
        aligned = min(value.dtype.lanes * buffer.dtype.bytes, LINE_BYTES)
        if any(
            n * buffer.dtype.bytes % aligned for n in (element.constant, *element.terms.values())
        ):
            self._store_at(buffer, element, value)
            return
        writer, pointer, text = self._writer, self.pointer(buffer, element), self._to_memory(value)
        past, through, join = writer.name("past"), writer.name("through"), writer.name("join")
        is_line = self._begins_with_line(buffer)
        writer.line(f"br i1 {is_line}, label {past}, label {through}")
        writer.start_block(past)
        writer.line(f"store {text}, ptr {pointer}, align {aligned}, !nontemporal {STREAMED}")
        writer.line(f"br label {join}")
        writer.start_block(through)
        writer.line(f"store {text}, ptr {pointer}, align {buffer.dtype.bytes}")
        writer.line(f"br label {join}")
        writer.start_block(join)
        writer.has_streams = True

    def _begins_with_line(self, buffer: Buffer) -> str:
        base, memo = self.bases[buffer.name], self._writer.scopes[0].memo
        key = ("begins with a line", base)
        if key not in memo:
            start = self._writer.emit_at(0, f"ptrtoint ptr {base} to i64")
            rest = self._writer.emit_at(0, f"and i64 {start}, {LINE_BYTES - 1}")
            memo[key] = self._writer.emit_at(0, f"icmp eq i64 {rest}, 0")
        return memo[key]

    def _to_memory(self, value: Value) -> str:
        """Return `value` as it is in memory, with its type."""
        if not value.dtype.is_bool:
            return value.typed
        wide = memory_type(value.dtype)
        return f"{wide} {self._writer.emit(f'zext {value.typed} to {wide}')}"

    def _from_memory(self, name: str, dtype: DType) -> Value:
        if not dtype.is_bool:
            return Value(name, dtype)
        zero = literal(0, UINT8.vector(dtype.lanes)).text
        return Value(self._writer.emit(f"icmp ne {memory_type(dtype)} {name}, {zero}"), dtype)

    def pointer(self, buffer: Buffer, element: Linear[Symbol]) -> str:
        """Return the address of element `place`: a pointer hoisted out of the loops that do not
        change it, plus a constant number of bytes."""
        depth = depth_of(element)
        memo = self._writer.scopes[depth].memo
        key = (self.bases[buffer.name], *element.terms.items())
        base = memo.get(key)
        if base is None:
            base = memo[key] = self._base(buffer, element)
        if not element.constant:
            return base
        offset = element.constant * buffer.dtype.bytes
        pointer = memo.get((base, offset))
        if pointer is None:
            is_inside = _inside(element, buffer, -element.constant)  # the base and what is between
            flag = " inbounds" if is_inside else ""
            text = f"getelementptr{flag} i8, ptr {base}, i64 {offset}"
            pointer = memo[base, offset] = self._writer.emit_at(depth, text)
        return pointer

    def _base(self, buffer: Buffer, element: Linear[Symbol]) -> str:
        """Follow the terms of `place`, those of outer loops first."""
        pointer = self.bases[buffer.name]
        depth = 0
        part: Linear[Symbol] = Linear()
        for symbol, coefficient in by_depth(element):
            is_deeper, depth = symbol.depth > depth, max(depth, symbol.depth)
            term = Linear({symbol: coefficient})
            part = part.plus(term)
            counters = self._writer.scopes[depth].counters if is_deeper else None
            if counters is not None and counters.variable == symbol.name:
                pointer = self._advancing(pointer, coefficient * buffer.dtype.bytes, depth)
            else:
                pointer = self._step(buffer, pointer, (term, part), depth)
        return pointer

    def _step(
        self, buffer: Buffer, pointer: str, way: tuple[Linear[Symbol], Linear[Symbol]], depth: int
    ) -> str:
        """Advance `pointer` by the elements `way[0]`, to `way[1]` elements from the start."""
        term, part = way
        offset = self._index.materialize(term)
        flag = " inbounds" if _inside(part, buffer) else ""
        text = f"getelementptr{flag} {memory_type(buffer.dtype)}, ptr {pointer}, {offset.typed}"
        memo = self._writer.scopes[depth].memo
        name = memo.get(text)
        if name is None:
            name = memo[text] = self._writer.emit_at(depth, text)
        return name

    def _advancing(self, start: str, step: int, depth: int) -> str:
        """Return the pointer that the loop at `depth` moves from `start` by `step` bytes a time."""
        scope = self._writer.scopes[depth]
        assert scope.counters is not None
        key = ("advancing", start, step)
        if key not in scope.memo:
            scope.memo[key] = self._writer.name("step")
            scope.counters.add((scope.memo[key], self._writer.name("step")), start, step)
        return scope.memo[key]


def _join_narrow(buffer: Buffer, indices: tuple[Expr, ...]) -> list[tuple[Expr, int]]:
    """Return the indices with their strides, those that are vectors of narrow numbers as one.

    What they add up to is worked out in vectors then, and not for each lane.
    """
    pairs = list(zip(indices, buffer.strides, strict=True))
    narrow = [(index.operand, stride) for index, stride in pairs if _is_narrow(index)]
    if len(narrow) < 2 or buffer.elements > _NARROW_ELEMENTS:
        return pairs
    total: Expr | None = None
    for operand, stride in narrow:
        factor = Broadcast(Const(stride, INT32), dtype_of(operand).lanes)
        scaled = Binary(BinaryOp.MUL, Cast(INT32, operand), factor)
        total = scaled if total is None else Binary(BinaryOp.ADD, total, scaled)
    assert total is not None
    return [(Cast(INT64, total), 1), *(pair for pair in pairs if not _is_narrow(pair[0]))]


def _is_narrow(index: Expr) -> TypeGuard[Cast]:
    """Whether an index is a vector of integers of 32 bits or fewer, each alone in its range."""
    if not isinstance(index, Cast) or dtype_of(index).lanes == 1:
        return False
    source = dtype_of(index.operand)
    return source.is_integer and source.bits <= INT32.bits


def _holds_pairs(buffer: Buffer, element: Linear[Symbol]) -> bool:
    """Whether `buffer` has complex numbers, and the parity of the place `element` is known."""
    is_known = all(factor % 2 == 0 for factor in element.terms.values())
    return buffer.is_complex and is_known and buffer.scope is not Scope.REGISTER


def _load_key(flat: LaneIndex[Symbol], wanted: str | None) -> tuple[object, ...]:
    """Return what tells the load of `flat` on the condition `wanted` from others."""
    first = flat.first
    return (*first.terms.items(), first.constant, flat.step, flat.lanes, wanted)


def _inside(element: Linear[Symbol], buffer: Buffer, reach: int = 0) -> bool:
    """Whether the elements from `place` to `place + reach` are known to be in `buffer`."""
    ends = bounds(element, reach)
    return ends is not None and ends[0] >= 0 and ends[1] < buffer.least_elements
