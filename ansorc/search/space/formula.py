"""Formulas: arithmetic on the programs of a population, recorded once and repeated for others.

Where code expects an array [rows] of numbers, one for each program, it may be given a `Formula`. A
`Tape` records what is computed of it, without what was recorded before and without what changes
nothing, as a factor 1. A `Program` then repeats the recorded steps for other populations, those
alone that its results need. Constants are arrays of one element, which fit any number of rows.

Code may ask whether something holds in all rows (`np.all`). Some random programs, the probe, answer
that; where they say yes, each population is checked to agree.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from operator import itemgetter, methodcaller
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
Operand: TypeAlias = "Formula | Array | float"
Function: TypeAlias = Callable[..., Array]
_Step: TypeAlias = tuple[Any, ...]
"""A function, and the numbers of its operands."""
_Task: TypeAlias = tuple[int, Function, Callable[[Sequence[Any]], Sequence[Any]]]
"""A slot for the result of a function, and what picks the operands out of all slots."""
_Simpler: TypeAlias = "Callable[..., object]"
_PYTHON_KINDS: dict[type, int] = {bool: -1, int: -2, float: -3}
"""Numbers of Python take the type of what they are joined with."""
_BOOL, _FLOAT32, _FLOAT64 = (np.dtype(t).num for t in (np.bool_, np.float32, np.float64))


@dataclass
class Tape:
    """The arithmetic of one analysis, in order; all that it has numbers for has one of its own."""

    probe: Sequence[Array]
    """What the first numbers are in some random programs, [rows] each."""
    constants: dict[int, Array | float] = field(default_factory=dict[int, "Array | float"])
    known: dict[int, Any] = field(default_factory=dict[int, Any])
    """The constants as numbers of Python."""
    steps: dict[int, _Step] = field(default_factory=dict[int, "_Step"])
    """The function and the operands of each result."""
    kinds: list[int] = field(default_factory=list[int])
    """The type of each number: NumPy's number of it, or below 0 of a number of Python."""
    guards: dict[int, None] = field(default_factory=dict[int, None])
    """Results that were taken for true in all rows, as they are in the probe."""
    results: dict[_Step, Any] = field(default_factory=dict["_Step", Any])
    """What is known to be the result of each step: a formula or a constant."""
    _numbers: dict[Hashable, int] = field(default_factory=dict[Hashable, int])
    _kinds: dict[tuple[Any, ...], int] = field(default_factory=dict[tuple[Any, ...], int])
    _probed: dict[int, Any] = field(default_factory=dict[int, Any])

    def __post_init__(self) -> None:
        self.kinds += [column.dtype.num for column in self.probe]

    def inputs(self) -> tuple[Formula, ...]:
        """Return the formulas that an analysis begins with, one for each array of the probe."""
        return tuple(Formula(self, number) for number in range(len(self.probe)))

    def record(self, function: Function, *operands: Operand) -> Formula:
        """Return the result of an elementwise `function`, recorded if it is new.

        It is an operand or a constant where that is known to be the result.
        """
        numbers = [each.number if type(each) is Formula else self.number_of(each)
                   for each in operands]  # fmt: skip
        return self.result((function, *numbers))

    def result(self, step: _Step) -> Formula:
        """Return the result of a step, which is recorded if it is new."""
        result: Any = self.results.get(step)
        if result is None:
            simpler = _SIMPLER.get(step[0])
            result = None if simpler is None else simpler(self, *step[1:])
            if result is None:
                result = self._append(step)
            self.results[step] = result
        return result

    def number_of(self, value: Operand) -> int:
        """Return the number of a formula or a constant; raise TypeError for anything else."""
        if type(value) is Formula:
            return value.number
        is_array = isinstance(value, np.ndarray | np.generic)
        kind = value.dtype.num if is_array else _PYTHON_KINDS.get(type(value))
        if kind is None or (is_array and value.size != 1):
            raise TypeError(f"a constant beside formulas is one number, not {value!r}")
        known = value.item() if is_array else value
        number = self._numbers.get((kind, known))
        if number is None:
            number = self._numbers[kind, known] = len(self.kinds)
            self.known[number] = known
            self.constants[number] = cast("Array | float", value)
            self.kinds.append(kind)
        return number

    def is_true(self, formula: Formula) -> bool:
        """Return whether it is true in all rows of the probe; note that it was taken for it."""
        is_true = bool(np.all(self._probe(formula.number)))
        if is_true:
            self.guards[formula.number] = None
        return is_true

    def program(self, results: Iterable[Operand]) -> Program:
        """Return what computes `results`."""
        return _compile(self, [self.number_of(each) for each in results])

    def _append(self, step: _Step) -> Formula:
        """Return a new number, whose type follows from those of the operands."""
        function, numbers = step[0], cast("tuple[int, ...]", step[1:])
        kinds = [self.kinds[number] for number in numbers]
        if _FLOAT64 in kinds and _FLOAT32 in kinds:  # converted once, not in each step
            return self.result((function, *[self._as_float64(number) for number in numbers]))
        key = (function, *kinds)
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = function(*map(_example, kinds)).dtype.num
        number = len(self.kinds)
        self.kinds.append(kind)
        self.steps[number] = step
        return Formula(self, number)

    def _as_float64(self, number: int) -> int:
        """Return the number as float64, if it is float32."""
        if self.kinds[number] != _FLOAT32:
            return number
        if number in self.known:
            return self.number_of(np.float64(self.known[number]))
        return Formula(self, number).astype(np.float64).number

    def _probe(self, number: int) -> Any:
        """Return what a number is in the probe."""
        waiting = [number]
        while waiting:  # no recursion: a chain of steps may be longer than calls are deep
            operands = self.steps.get(waiting[-1], ())[1:]
            missing = [operand for operand in operands if operand not in self._probed]
            waiting += missing
            if not missing:
                last = waiting.pop()
                if last not in self._probed:
                    self._probed[last] = self._probe_next(last)
        return self._probed[number]

    def _probe_next(self, number: int) -> Any:
        """Return what a number is in the probe, where its operands are known."""
        if number < len(self.probe):
            return self.probe[number]
        if number in self.constants:
            return self.constants[number]
        function, *operands = self.steps[number]
        return function(*[self._probed[operand] for operand in operands])


@cache
def _dtype(kind: int) -> np.dtype[Any]:
    """Return the type that has a number of NumPy's."""
    return next(np.dtype(char) for char in np.typecodes["All"] if np.dtype(char).num == kind)


def _example(kind: int) -> Array | float:
    """Return a number of a kind."""
    if kind < 0:
        return next(python(1) for python, number in _PYTHON_KINDS.items() if number == kind)
    return np.ones(1, _dtype(kind))


def _recorded(function: Function) -> Any:
    """Return the method of an operator that records `function`."""

    def method(self: Formula, other: Operand) -> Formula:
        tape = self.tape
        second = other.number if type(other) is Formula else tape.number_of(other)
        step = function, self.number, second
        result = tape.results.get(step)
        return tape.result(step) if result is None else result

    return method


def _reflected(function: Function) -> Any:
    """Return the method of an operator whose second operand is the formula."""

    def method(self: Formula, other: Operand) -> Formula:
        return self.tape.record(function, other, self)

    return method


def _unary(function: Function) -> Any:
    """Return the method of an operator of one operand."""

    def method(self: Formula) -> Formula:
        return self.tape.record(function, self)

    return method


def _raise(base: Array, exponent: float) -> Array:
    """Return a power; squares are products, unlike those of `np.power`."""
    return base**exponent


class Formula:
    """One number of a tape; it goes where an analysis expects an array [rows]."""

    __slots__ = ("number", "tape")
    ndim, shape = 1, (1,)

    def __init__(self, tape: Tape, number: int) -> None:
        self.tape, self.number = tape, number

    def __bool__(self) -> bool:
        raise TypeError("a formula is one number for each program; ask np.all")

    def __array__(self, *_: object, **__: object) -> Array:
        raise TypeError("a formula is no array")

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of its numbers."""
        return _dtype(self.tape.kinds[self.number])

    def astype(self, dtype: Any, *, copy: bool = True) -> Formula:
        """Return it as numbers of another type."""
        wanted = np.dtype(dtype)
        return self if wanted == self.dtype else self.tape.record(_conversion(wanted), self)

    def __array_ufunc__(
        self, function: np.ufunc, method: str, *operands: Operand, **options: object
    ) -> Formula:
        if method != "__call__" or options:
            return NotImplemented
        return self.tape.record(function, *operands)

    def __array_function__(
        self, function: Any, types: object, arguments: Any, options: Any
    ) -> object:
        if options:
            return NotImplemented
        if function is np.where and len(arguments) == 3:
            return self.tape.record(function, *arguments)
        if function is np.clip and len(arguments) == 3:
            values, least, most = arguments
            return np.minimum(np.maximum(values, least), most)
        if function is np.all and len(arguments) == 1:
            return self.tape.is_true(self)
        if function in (np.ndim, np.shape):
            return getattr(self, function.__name__)
        return self if function is np.broadcast_to else NotImplemented

    __add__, __radd__ = _recorded(np.add), _reflected(np.add)
    __sub__, __rsub__ = _recorded(np.subtract), _reflected(np.subtract)
    __mul__, __rmul__ = _recorded(np.multiply), _reflected(np.multiply)
    __truediv__, __rtruediv__ = _recorded(np.divide), _reflected(np.divide)
    __floordiv__, __rfloordiv__ = _recorded(np.floor_divide), _reflected(np.floor_divide)
    __mod__, __rmod__ = _recorded(np.remainder), _reflected(np.remainder)
    __pow__ = _recorded(_raise)
    __and__, __rand__ = _recorded(np.bitwise_and), _reflected(np.bitwise_and)
    __or__, __ror__ = _recorded(np.bitwise_or), _reflected(np.bitwise_or)
    __rshift__ = _recorded(np.right_shift)
    __xor__, __rxor__ = _recorded(np.bitwise_xor), _reflected(np.bitwise_xor)
    __lt__, __le__ = _recorded(np.less), _recorded(np.less_equal)
    __gt__, __ge__ = _recorded(np.greater), _recorded(np.greater_equal)
    __eq__, __ne__ = _recorded(np.equal), _recorded(np.not_equal)
    __neg__, __invert__, __abs__ = _unary(np.negative), _unary(np.invert), _unary(np.absolute)
    __hash__ = object.__hash__


def apply(function: Function, *operands: Array) -> Array:
    """Return `function` of arrays, one number for each program in each, or the formula for it.

    Recorded, it is called with arrays of which some may have one element for all programs.
    """
    for operand in operands:
        if isinstance(operand, Formula):
            return cast(Array, operand.tape.record(function, *operands))
    return function(*operands)


@cache
def _conversion(dtype: np.dtype[Any]) -> Function:
    return methodcaller("astype", dtype)


# What knows results without computing them: each returns the result, or None.


def _neutral(value: float, *, is_either: bool) -> _Simpler:
    """Return what knows that with `value`, in the second place or either, the other is the result.

    It is, if it has the type that the result has.
    """

    def simplify(tape: Tape, first: int, second: int) -> Formula | None:
        if tape.known.get(second) == value and _keeps_type(tape, first, second):
            return Formula(tape, first)
        if is_either and tape.known.get(first) == value and _keeps_type(tape, second, first):
            return Formula(tape, second)
        return None

    return simplify


def _keeps_type(tape: Tape, rest: int, constant: int) -> bool:
    """Return whether arithmetic of a result with a constant has the type of the former.

    A number of Python takes the type of the others.
    """
    kind, other = tape.kinds[rest], tape.kinds[constant]
    if rest in tape.known:
        return False
    if other < 0:
        name = _dtype(kind).kind
        return name == "f" or (name == "i" and other != _PYTHON_KINDS[float])
    return kind == other or np.promote_types(_dtype(kind), _dtype(other)).num == kind


_divide_by_one = _neutral(1, is_either=False)


def _floor_divide(tape: Tape, first: int, second: int) -> object:
    """Return the first operand of a division by 1, if it has whole numbers."""
    kind = tape.kinds[first]
    is_whole = kind >= 0 and _dtype(kind).kind != "f"
    return _divide_by_one(tape, first, second) if is_whole else None


def _logical(*, absorbing: bool) -> _Simpler:
    """Return what knows results of "and" (False absorbs) and "or" (True absorbs)."""

    def simplify(tape: Tape, first: int, second: int) -> object:
        if first == second:
            return Formula(tape, first)
        for rest, constant in ((first, second), (second, first)):
            known = tape.known.get(constant)
            if isinstance(known, bool) and tape.kinds[rest] == _BOOL:
                return np.array([absorbing]) if known is absorbing else Formula(tape, rest)
        return None

    return simplify


def _choose(tape: Tape, condition: int, first: int, second: int) -> object:
    """Return the side that a known condition of `np.where` chooses."""
    if condition not in tape.known:
        return None
    chosen = first if tape.known[condition] else second
    dtype = np.result_type(_example(tape.kinds[first]), _example(tape.kinds[second]))
    if chosen in tape.known:
        return np.array([tape.known[chosen]], dtype)
    return Formula(tape, chosen).astype(dtype)


def _same(tape: Tape, first: int, second: int) -> Formula | None:
    """Return the number that both operands of a minimum or a maximum are."""
    return Formula(tape, first) if first == second else None


def _equal(tape: Tape, first: int, second: int) -> object:
    return np.array([True]) if first == second else None


_SIMPLER: dict[Function, _Simpler] = {
    np.multiply: _neutral(1, is_either=True),
    np.floor_divide: _floor_divide,
    np.add: _neutral(0, is_either=True),  # the sign of a zero apart
    np.subtract: _neutral(0, is_either=False),
    np.bitwise_and: _logical(absorbing=False),
    np.bitwise_or: _logical(absorbing=True),
    np.where: _choose,
    np.minimum: _same,
    np.maximum: _same,
    np.equal: _equal,
}


@dataclass(frozen=True, eq=False)
class Program:
    """The steps of a tape that some results need, over slots that hold one number after another."""

    inputs: tuple[int, ...]
    """Which of the numbers that the tape begins with it needs; they are the first slots."""
    slots: tuple[Any, ...]
    """What is in the slots at the beginning: constants after the inputs."""
    steps: tuple[_Task, ...]
    guards: tuple[int, ...]
    """Slots with what must be true in all rows."""
    results: tuple[int, ...]

    def run(self, inputs: Iterable[Array]) -> list[Array] | None:
        """Return the results of `inputs`; None where the probe was no guide to them."""
        slots = list(self.slots)
        slots[: len(self.inputs)] = inputs
        for slot, function, pick in self.steps:  # thousands of them a second: no further calls
            slots[slot] = function(*pick(slots))
        if not all(np.all(slots[guard]) for guard in self.guards):
            return None
        return [slots[result] for result in self.results]


def _compile(tape: Tape, results: Sequence[int]) -> Program:
    """Return the steps of `tape` that `results` and guards need.

    A slot is used again after the last step that reads it, so that few arrays are held at a time.
    """
    needed = {*results, *tape.guards}
    backwards: list[tuple[int, list[int]]] = []
    for number, step in reversed(tape.steps.items()):
        if number in needed:
            last_read: list[int] = []
            for operand in step[1:]:
                if operand not in needed:
                    needed.add(operand)
                    last_read.append(operand)
            backwards.append((number, last_read))
    inputs = [number for number in range(len(tape.probe)) if number in needed]
    constants = [number for number in tape.constants if number in needed]
    place = {number: slot for slot, number in enumerate([*inputs, *constants])}
    slots: list[Any] = [None] * len(inputs) + [tape.constants[number] for number in constants]
    steps = _allocate(tape, reversed(backwards), place, slots)
    return Program(
        tuple(inputs), tuple(slots), tuple(steps),
        tuple(place[number] for number in tape.guards),
        tuple(place[number] for number in results),
    )  # fmt: skip


def _allocate(
    tape: Tape, numbers: Iterable[tuple[int, list[int]]], place: dict[int, int], slots: list[Any]
) -> list[_Task]:
    """Return the steps whose results are `numbers`, with slots to read and to write.

    With each number are those that no later step reads. The slots of results are noted in `place`,
    where those of all others are.
    """
    free: list[int] = []
    steps: list[_Task] = []
    for number, last_read in numbers:
        function, *operands = tape.steps[number]
        read = [place[operand] for operand in operands]
        free += [place[operand] for operand in last_read if operand in tape.steps]
        if not free:
            free.append(len(slots))
            slots.append(None)
        slot = place[number] = free.pop()
        pick = itemgetter(*read) if len(read) > 1 else itemgetter(slice(read[0], read[0] + 1))
        steps.append((slot, function, pick))
    return steps
