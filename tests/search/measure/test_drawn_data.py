"""The data that programs are measured with: places that there are, over all of a tensor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

import ansorc as ac
from ansorc.errors import LanguageError, MeasureError, OptionError, PromiseError
from ansorc.fleet.drawn_inputs import DrawnTask
from ansorc.graph.graph_reference import run_reference
from ansorc.graph.onnx.importer import from_onnx
from ansorc.graph.random_inputs import random_inputs
from ansorc.ir.aligned import Array
from ansorc.lang.dag import ComputeDAG
from ansorc.lang.reference import evaluate
from ansorc.lang.tensor import Tensor
from ansorc.lang.wanted_values import find_wanted_values
from ansorc.search.measure.check import expectations
from ansorc.search.measure.drawn_data import describe_data, draw_data, require_inputs, value_spans
from tests.e2e.places.gathers import gather

T = ac.placeholder((40,), "T")
M = ac.placeholder((40, 8), "M")
I = ac.placeholder((64,), "I", "int64")  # noqa: E741
J = ac.placeholder((64,), "J", "int64")
X = ac.placeholder((64,), "X")
Index = Callable[[ac.Scalar], ac.Scalar]


def taken(index: Index) -> ComputeDAG:
    """T at the places that `index` says."""
    c = ac.compute((64,), lambda a: T[index(a)], "C")
    read = [tensor for tensor in (I, J, X) if tensor.name in {b.name for b in c.definition.reads}]  # pyright: ignore[reportOptionalMemberAccess]
    return ComputeDAG([T, *read, c])


WANTED: list[tuple[Index, Mapping[str, tuple[int, int]]]] = [
    (lambda a: I[a], {"I": (0, 39)}),
    (lambda a: I[a] * 4 + a % 4, {"I": (0, 9)}),
    (lambda a: I[a] + 3, {"I": (-3, 36)}),
    (lambda a: 39 - I[a], {"I": (0, 39)}),
    (lambda a: I[a] // 2, {"I": (0, 79)}),
    (lambda a: I[a] % 40, {"I": (0, 39)}),
    (lambda a: ac.minimum(ac.maximum(I[a], 0), 39), {"I": (0, 39)}),
    (lambda a: I[a] * 4 + J[a], {"I": (0, 9), "J": (0, 3)}),
    (lambda a: I[a] + J[a], {"I": (0, 19), "J": (0, 19)}),
    (lambda a: I[a] - J[a], {"I": (20, 39), "J": (0, 19)}),
    (lambda a: ac.checked(I[a], I[a] < 60, "I is small"), {"I": (0, 39)}),
]


@pytest.mark.parametrize(("index", "wanted"), WANTED)
def test_what_is_wanted_of_inputs(index: Index, wanted: Mapping[str, tuple[int, int]]) -> None:
    assert find_wanted_values(taken(index)) == wanted


def test_places_are_drawn_over_all_of_a_tensor() -> None:
    inputs, _ = draw_data(taken(lambda a: I[a] * 4 + a % 4), np.random.default_rng(0), {})
    assert set(inputs[1].tolist()) == set(range(10))


def test_places_of_a_stage_between() -> None:
    j = ac.compute((64,), lambda a: I[a] * 2 + 1, "J2")
    dag = ComputeDAG([T, I, ac.compute((64,), lambda a: T[j[a]], "C")])
    assert find_wanted_values(dag) == {"I": (0, 19)}


def test_floats_that_say_places() -> None:
    dag = taken(lambda a: ac.cast(X[a] * 2.0 + 1.0, "int64"))
    for seed in range(20):
        inputs, _ = draw_data(dag, np.random.default_rng(seed), {})
        assert inputs[1].min() < 2
        assert inputs[1].max() > 16


def test_a_gather_from_a_computed_tensor() -> None:
    a, b = ac.placeholder((40, 8), "A"), ac.placeholder((8, 8), "B")
    dag = ComputeDAG([a, b, I, ac.ops.take(ac.ops.matmul(a, b), I, 0)])
    assert find_wanted_values(dag) == {"I": (0, 39)}


def csr(*, is_sorted: bool) -> ComputeDAG:
    """A product of a matrix of compressed rows and a vector."""
    first = ac.placeholder((9,), "first", "int32", sorted=is_sorted)
    values, columns = ac.placeholder((30,), "values"), ac.placeholder((30,), "columns", "int32")
    x, k = ac.placeholder((17,), "x"), ac.reduce_axis(30, "k")

    def term(row: ac.Scalar) -> ac.Reduction:
        at = ac.cast(first[row], "int64") + k
        end = ac.cast(first[row + 1], "int64")
        return ac.sum(ac.if_then_else(at < end, values[at] * x[columns[at]], 0.0), axis=k)

    y = ac.compute((8,), term, "y")
    return ComputeDAG([first, values, columns, x, y])


def test_rows_that_are_compressed() -> None:
    inputs, tensors = draw_data(csr(is_sorted=True), np.random.default_rng(0), {})
    assert (np.diff(inputs[0]) >= 0).all()
    assert inputs[0].max() > 20
    assert 13 < inputs[2].max() < 17
    assert np.count_nonzero(tensors["y"]) > 4
    assert describe_data(csr(is_sorted=True), {}) == "first 0 to 29 sorted; columns 0 to 16"


def test_declared_values_are_drawn() -> None:
    i = ac.placeholder((500,), "i", "int32", range=(5, 9), sorted=True)
    x = ac.placeholder((500,), "x", range=(2.0, 3.0))
    c = ac.compute((500,), lambda a: T[i[a]] * x[a], "C")
    (_, places, factors), _ = draw_data(ComputeDAG([T, i, x, c]), np.random.default_rng(0), {})
    assert set(places.tolist()) == {5, 6, 7, 8, 9}
    assert (np.diff(places) >= 0).all()
    assert 2 <= factors.min() < 2.1
    assert 2.9 < factors.max() < 3


def declared(low: int, high: int) -> tuple[Tensor, ComputeDAG]:
    i = ac.placeholder((64,), "i", "int64", range=(low, high))
    return i, ComputeDAG([T, i, ac.compute((64,), lambda a: T[i[a]], "C")])


def test_a_declared_range_is_a_promise() -> None:
    _, dag = declared(3, 30)
    assert ComputeDAG.from_text(dag.to_text()) == dag
    assert dag.key == taken(lambda a: I[a]).key
    t = np.arange(40, dtype=np.float32)
    module = ac.build(dag, name="pick")
    assert [site.kind.value for site in module.signature.faults] == ["value_out_of_range"]
    for threads in (1, 0):
        assert (module(t, np.full(64, 30), threads=threads) == 30).all()
        for wrong in (31, 2, 10**12):
            places = np.full(64, 30)
            places[63] = wrong
            words = f"pick got {wrong} in 'i', whose values were promised to be 3 to 30"
            with pytest.raises(PromiseError, match=words):
                module(t, places, threads=threads)
    with pytest.raises(PromiseError, match=r"'i' was declared with range=\(3, 30\), but has 31"):
        evaluate(dag, [t, np.full(64, 31)])


@pytest.mark.parametrize("shape", [(), (1,), (3,), (16, 19), (2, 3, 33), (5, 64)])
@pytest.mark.parametrize("dtype", ["int8", "int32", "uint64"])
def test_every_element_of_a_promise_is_checked(shape: tuple[int, ...], dtype: str) -> None:
    i = ac.placeholder(shape, "i", dtype, range=(1, 39))
    module = ac.build(ComputeDAG([T, i, ac.compute(shape, lambda *a: T[i[a]], "C")]))
    t, rng = np.arange(40, dtype=np.float32), np.random.default_rng(len(shape))
    places = rng.integers(1, 40, shape).astype(dtype)
    places = np.asarray(places, dtype)
    assert (module(t, places) == places).all()
    for _ in range(4):
        wrong = places.copy()
        wrong[tuple(int(rng.integers(n)) for n in shape)] = rng.choice([0, 40, 100])
        with pytest.raises(PromiseError, match="whose values were promised to be 1 to 39"):
            module(t, wrong)


def test_a_promise_on_a_gpu() -> None:
    i = ac.placeholder((300,), "i", "int64", range=(1, 39))
    dag = ComputeDAG([T, i, ac.compute((300,), lambda a: T[i[a]], "C")])
    module = ac.build(dag, "cuda-emulated -arch=sm_80", name="pick")
    arrays = [ac.aligned_empty(b.shape, b.dtype.numpy) for b in dag.params]
    arrays[0][...], arrays[1][...] = np.arange(40), 39
    module(*arrays)
    assert (arrays[2] == 39).all()
    arrays[1][299] = 10**13
    with pytest.raises(PromiseError, match="got 10000000000000 in 'i'"):
        module(*arrays)


def test_a_promise_that_leaves_a_tensor_is_refused() -> None:
    with pytest.raises(LanguageError, match=r"that is 3\.\.40 by what is promised of the values"):
        declared(3, 40)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"range": (3, 1)}, "the least value comes first"),
        ({"range": (0, 300), "dtype": "uint8"}, r"the range \(0, 300\) of 'x' is none of uint8"),
        ({"range": (0.5, 1), "dtype": "int32"}, "is not a pair of numbers of int32"),
        ({"range": (0, float("inf"))}, "is none of float32"),
        ({"range": 3}, "is not a pair of numbers of float32"),
        ({"sorted": True, "dtype": "bool"}, "which has no order; leave out sorted=True"),
    ],
)
def test_declarations_that_mean_nothing(given: Mapping[str, object], words: str) -> None:
    with pytest.raises(LanguageError, match=words):
        ac.placeholder((4,), "x", **given)  # pyright: ignore[reportArgumentType]


def task() -> ac.Task:
    c = ac.compute((64, 8), lambda a, b: M[I[a], b] * 2.0, "C")
    return ac.Task(ComputeDAG([M, I, c]), name="rows")


def test_a_record_says_which_data_it_was_measured_with(tmp_path: Path) -> None:
    file = tmp_path / "records.db"
    result = ac.tune(task(), trials=2, records=file)
    assert result.best is not None
    assert result.best.data == "I 0 to 39"
    other = ac.tune(
        task(), trials=2, records=tmp_path / "other.db", inputs={"I": np.arange(64) % 7}
    )
    assert other.best is not None
    assert other.best.data.startswith("I given (")
    assert other.best.checked


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"K": np.zeros(64)}, "inputs: there is no input 'K'; there are 'M', 'I'"),
        ({"I": np.zeros(63, np.int64)}, r"inputs: 'I' is int64\[63\], but the definition has int"),
        ({"I": np.zeros(64)}, r"inputs: 'I' is float64\[64\], but the definition has int64\[64\]"),
        ({"I": [0] * 64}, "inputs: 'I' is a list; it must be a NumPy array"),
    ],
)  # fmt: skip
def test_inputs_that_do_not_fit(given: Mapping[str, object], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        require_inputs([task().dag], given)


def test_inputs_without_dimensions() -> None:
    factor = ac.placeholder((), "F")
    dag = ComputeDAG([factor, X, ac.compute((64,), lambda a: X[a] * factor[()], "C")])
    for given in (np.float32(3), np.array(3, np.float32)):
        found = require_inputs([dag], {"F": given})
        assert found["F"].shape == ()
        inputs, _ = draw_data(dag, np.random.default_rng(0), found)
        assert inputs[0] == 3
    with pytest.raises(OptionError, match="'F' is float64"):
        require_inputs([dag], {"F": np.float64(3)})


def test_given_inputs_keep_what_is_promised() -> None:
    sorted_places = ac.placeholder((64,), "I", "int64", sorted=True)
    dag = ComputeDAG([T, sorted_places, ac.compute((64,), lambda a: T[sorted_places[a]], "C")])
    places = np.arange(64) % 40
    require_inputs([dag], {"I": np.sort(places)})
    with pytest.raises(OptionError, match=r"'I' was declared with sorted=True.*sort the array"):
        require_inputs([dag], {"I": places})


def test_ranges_end_at_the_largest_number() -> None:
    half = ac.placeholder((64,), "H", "float16", range=(0, 1e6))
    assert half.buffer.promised == (0.0, 65504.0)
    with pytest.raises(LanguageError, match="is none of float16"):
        ac.placeholder((64,), "H", "float16", range=(0, float("inf")))


@pytest.mark.parametrize("kind", ["int64", "uint64"])
def test_all_bits_of_wide_integers_are_compared(kind: str, tmp_path: Path) -> None:
    low, high = (-(2**63), 2**63 - 1) if kind == "int64" else (0, 2**64 - 1)
    wide = ac.placeholder((64,), "W", kind, range=(low, high))
    dag = ComputeDAG([wide, ac.compute((64,), lambda a: wide[a] * 3, "C")])
    result = ac.tune(ac.Task(dag, target="native", name="wide"), trials=2, records=tmp_path / "r")
    assert result.best is not None
    inputs, tensors = draw_data(dag, np.random.default_rng(0), {})
    (expectation,) = expectations(dag, [tensors["C"]], [None])
    right = inputs[0] * np.array(3, kind)
    assert not expectation.compare(right).complaint
    right[5] += np.array(1, kind)  # far below what a float64 tells apart
    assert f"[5] is {right[5]}" in expectation.compare(right).complaint


def test_inputs_that_the_definition_refuses() -> None:
    given = {"I": np.full(64, 40)}
    with pytest.raises(MeasureError, match="'C' reads 'M' outside of it: index 0 is 40"):
        draw_data(task().dag, np.random.default_rng(0), given)


@pytest.mark.parametrize("kind", ["int8", "int32", "uint16"])
def test_divisors_are_drawn_above_0(kind: str, tmp_path: Path) -> None:
    a, b = (ac.placeholder((200,), name, kind) for name in "AB")
    dag = ComputeDAG([a, b, ac.compute((200,), lambda i: a[i] // b[i] + a[i] % b[i], "C")])
    inputs, tensors = draw_data(dag, np.random.default_rng(0), {})
    assert inputs[1].min() > 0
    np.testing.assert_array_equal(tensors["C"], inputs[0] // inputs[1] + inputs[0] % inputs[1])
    assert DrawnTask.of(ac.Task(dag, target="native"), 3).inputs["B"].min() > 0
    given = {"B": np.zeros(200, kind)}
    with pytest.raises(MeasureError, match="divides an integer by zero, in 'B"):
        draw_data(dag, np.random.default_rng(0), given)
    if kind == "int32":
        result = ac.tune(ac.Task(dag, target="native", name="d"), trials=2, records=tmp_path / "r")
        assert result.best is not None


def test_arrays_that_no_memory_holds() -> None:
    vast = ac.placeholder((2**50,), "A", "int8")
    dag = ComputeDAG([vast, ac.compute((2**50,), lambda i: vast[i], "C")])
    with pytest.raises(MeasureError, match=r"take 2\.1e\+06 GiB.*tune it at a smaller size"):
        draw_data(dag, np.random.default_rng(0), {})


def test_assertions_hold_of_what_is_drawn() -> None:
    root = ac.compute((64,), lambda i: ac.checked(ac.sqrt(X[i]), X[i] >= 0.0, "X >= 0"), "C")
    inputs, _ = draw_data(ComputeDAG([X, root]), np.random.default_rng(0), {})
    assert inputs[0].min() > 0


def test_what_cannot_be_drawn_is_said() -> None:
    dag = taken(lambda a: I[a] * I[a] + 50)
    with pytest.raises(MeasureError, match="no data that fits the definition can be drawn"):
        draw_data(dag, np.random.default_rng(0), {})


def test_boards_get_places_that_there_are() -> None:
    drawn = DrawnTask.of(task(), 3)
    assert set(drawn.draws) == {"M"}
    assert 30 < drawn.inputs["I"].max() < 40
    assert drawn.inputs["I"].min() >= 0


def test_random_gathers_are_drawn() -> None:
    """What is drawn is right for every form of gather that the tests have, or refused in words."""
    refused = 0
    for seed in range(60):
        case = gather(seed)
        try:
            draw_data(case.dag, np.random.default_rng(seed), {})
        except MeasureError:
            refused += 1
            assert case.title.startswith(("_twice", "_computed", "_checked"))
    assert refused < 8


def test_places_in_networks() -> None:
    onnx = pytest.importorskip("onnx")
    helper, kind = onnx.helper, onnx.TensorProto
    nodes = [
        helper.make_node("Cast", ["ids"], ["wide"], to=kind.INT64),
        helper.make_node("Gather", ["table", "wide"], ["rows"]),
        helper.make_node("Relu", ["rows"], ["y"]),
    ]
    table = onnx.numpy_helper.from_array(np.ones((3000, 4), np.float32), "table")
    graph = helper.make_graph(
        nodes, "net", [helper.make_tensor_value_info("ids", kind.INT32, [400])],
        [helper.make_tensor_value_info("y", kind.FLOAT, [400, 4])], [table],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    network = from_onnx(model)
    inputs: dict[str, Array] = random_inputs(network)
    assert inputs["ids"].max() > 2500
    assert inputs["ids"].min() >= 0
    assert (run_reference(network, inputs)["y"] == 1).all()
    given = random_inputs(network, {"ids": np.full(400, 7, np.int32)})
    assert (given["ids"] == 7).all()
    with pytest.raises(ac.AnsorcError, match="inputs: 'net' has no input 'x'; it has 'ids'"):
        random_inputs(network, {"x": np.zeros(3)})
    assert value_spans(task().dag) == {"I": (0, 39)}
