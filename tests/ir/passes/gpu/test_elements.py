"""Where threads meet, as the pass that inserts barriers finds it, against counting."""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from hypothesis import example, given
from hypothesis import strategies as st

from ansorc.ir.buffer import Buffer, Scope
from ansorc.ir.dtype import FLOAT32
from ansorc.ir.expr import Expr, Var, const
from ansorc.ir.passes.gpu.elements import Meetings, Touch
from tests.support.nightly import examples

THREADS = {"t": 6, "u": 2}
LOOPS = {"i": 3, "j": 4, "k": 5}
S = Buffer("S", (1 << 12,), FLOAT32, Scope.SHARED)
T, U, ROW, COLUMN, K = map(Var, (*THREADS, *LOOPS))
ATOMS: list[tuple[Expr, Callable[[Mapping[str, int]], int]]] = [
    (T, lambda at: at["t"]),
    (U, lambda at: at["u"]),
    (ROW, lambda at: at["i"]),
    (COLUMN, lambda at: at["j"]),
    (K % 2, lambda at: at["k"] % 2),
    ((K + 1) % 3, lambda at: (at["k"] + 1) % 3),
    (T // 2, lambda at: at["t"] // 2),
    (T % 2, lambda at: at["t"] % 2),
    (COLUMN // 2, lambda at: at["j"] // 2),
    (COLUMN % 2, lambda at: at["j"] % 2),
    (T % 3, lambda at: at["t"] % 3),
]


@dataclass(frozen=True)
class Access:
    """Of `S`, at the sum of `factors` times `ATOMS`, and a constant."""

    factors: tuple[int, ...]
    constant: int
    guard: tuple[int, int, int] = (0, 0, 1)
    """Factors of `i` and `t`, whose sum is less than the last number where there is an access."""
    rows: int = LOOPS["i"]
    """The extent of the loop over `i`, of which each access has one for itself."""

    def touch(self, *, is_store: bool) -> Touch:
        index: Expr = const(self.constant)
        for factor, (atom, _) in zip(self.factors, ATOMS, strict=True):
            index = index + atom * factor if factor else index
        of_row, of_thread, bound = self.guard
        guards = ((ROW * of_row + T * of_thread) < bound,) if of_row or of_thread else ()
        free = {"i": self.rows, "j": LOOPS["j"]}
        return Touch(S, (index,), is_store, 0, guards, fixed={"k": LOOPS["k"]}, free=free)

    def is_made(self, at: Mapping[str, int]) -> bool:
        of_row, of_thread, bound = self.guard
        return not (of_row or of_thread) or of_row * at["i"] + of_thread * at["t"] < bound

    def place(self, at: Mapping[str, int]) -> int:
        terms = zip(self.factors, ATOMS, strict=True)
        return self.constant + sum(factor * value(at) for factor, (_, value) in terms)


factors = st.sampled_from([0, 0, 1, 2, 3, 4, 12, 48])
accesses = st.builds(
    Access, st.tuples(*[factors] * len(ATOMS)), st.sampled_from([0, 0, 1, 24, 100]),
    st.one_of(
        st.just((0, 0, 1)), st.tuples(st.integers(-2, 6), st.integers(-2, 2), st.integers(-2, 12))
    ),
    st.sampled_from([LOOPS["i"], 2, 5]),
)  # fmt: skip


DIGITS = Access((2, 12, 1, *[0] * 8), 0, rows=2)
"""Of loops over two rows each thread has its own elements."""


def meet(old: Access, new: Access) -> bool:
    """Whether two threads touch one element, both in one iteration of k, i and j being any."""
    threads = list(itertools.product(*map(range, THREADS.values())))
    for k in range(LOOPS["k"]):
        places: list[dict[int, set[tuple[int, ...]]]] = []
        for access in (old, new):
            found: dict[int, set[tuple[int, ...]]] = {}
            inner = itertools.product(range(access.rows), range(LOOPS["j"]))
            for (t, u), (i, j) in itertools.product(threads, inner):
                at = {"t": t, "u": u, "i": i, "j": j, "k": k}
                if not access.is_made(at):
                    continue
                place = access.place(at)
                found.setdefault(place, set()).add((t, u))
            places.append(found)
        for place, visitors in places[0].items():
            others = places[1].get(place, set())
            if len(visitors | others) > 1 and others:
                return True
    return False


@examples(60, nightly=300)
@given(accesses, st.one_of(st.none(), accesses))
@example(replace(DIGITS, rows=5), DIGITS)  # of the shorter loop alone no two threads meet
def test_no_meeting_is_missed(old: Access, new: Access | None) -> None:
    """And none is made up, where what all threads share differs by few values."""
    other = new or old
    said = Meetings(THREADS).may_meet(old.touch(is_store=True), other.touch(is_store=False))
    assert said == meet(old, other)


@examples(60, nightly=300)
@given(accesses.filter(lambda access: access.guard[:2] == (0, 0)))
def test_an_element_that_several_store_is_found(access: Access) -> None:
    first = {"i": 0, "j": 0, "k": 0}
    places = [
        access.place({"t": t, "u": u, **first})
        for t, u in itertools.product(*map(range, THREADS.values()))
    ]
    said = Meetings(THREADS).is_stored_by_several(access.touch(is_store=True))
    assert said == (len(set(places)) < len(places))
