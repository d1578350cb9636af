"""Arguments that are bound, new outputs, and plain arrays in the place of weights."""

from __future__ import annotations

import gc
import warnings
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ansorc.codegen.call.library import load_kernel
from ansorc.codegen.call.module import Module
from ansorc.errors import BuildError, CallError, PackingWarning
from tests.codegen.call.test_packed_inputs import arrays, check, product
from tests.codegen.kernels import PARALLEL_TWICE, TWICE, WORKSPACE_SQUARE, Floats, arguments, build


def part(array: Floats) -> Floats:
    return array[3:, ::2]


def of_a_subclass(array: Floats) -> Any:
    return array.ravel().view(np.recarray)


def of_another_type(array: Floats) -> Any:
    return array.view(np.uint8)[0]


def exported(array: Any) -> memoryview:
    return memoryview(array)


def items(array: Floats) -> Any:
    return array.flat


VIEWS: tuple[Callable[[Floats], Any], ...] = (
    part, of_a_subclass, of_another_type, items, exported, np.transpose, np.from_dlpack,
)  # fmt: skip


def begin(array: Any) -> int:
    return array.ctypes.data


def reshape(array: Any, shape: tuple[int, ...]) -> None:
    with warnings.catch_warnings(action="ignore"):  # NumPy 2.5 says that one should not
        array.shape = shape


def test_inputs_alone_give_new_outputs() -> None:
    module = build(TWICE)
    a, b = arguments()
    found = [module(a) for _ in range(9)]
    assert len({begin(one) for one in found}) == 9
    module(a, b)
    for one in found:
        assert (one.dtype, one.shape, begin(one) % 64) == (b.dtype, b.shape, 0)
        np.testing.assert_array_equal(one, b)


def test_memory_of_outputs_is_used_again_once_nobody_refers_to_it() -> None:
    module = build(TWICE)
    a, _ = arguments()
    places = {begin(module(a)) for _ in range(50)}
    assert len(places) == 1
    held = module(a)
    assert {begin(held)} == places
    assert begin(module(a)) != begin(held)
    for kind in VIEWS:
        view = kind(module(a))
        kept = np.asarray(view).copy()
        taken = [module(2 * a) for _ in range(8)]
        np.testing.assert_array_equal(np.asarray(view), kept)
        del view, taken
    assert begin(module(a)) not in {begin(held)}


def test_what_is_done_to_an_output_does_not_reach_the_next_one() -> None:
    module = build(TWICE)
    a, b = arguments()
    module(a, b)
    found = module(a)
    place, watch = begin(found), weakref.ref(found)
    found.flags.writeable = False
    reshape(found, (40, 24))
    del found
    assert watch() is None
    again = module(a)
    assert begin(again) == place
    assert again.flags.writeable
    np.testing.assert_array_equal(again, b)


def test_of_several_memories_the_one_that_was_used_last_comes_first() -> None:
    module = build(TWICE)
    a, _ = arguments()
    held = [module(a) for _ in range(3)]
    del held
    place = begin(module(a))
    assert {begin(module(a)) for _ in range(9)} == {place}


def test_a_refused_call_keeps_no_output() -> None:
    module = build(TWICE)
    a, _ = arguments()
    place = begin(module(a))
    with pytest.raises(CallError, match="'A' has shape"):
        module(a[:3])
    assert begin(module(a)) == place


@pytest.mark.parametrize("text", [TWICE, PARALLEL_TWICE, WORKSPACE_SQUARE])
def test_all_arguments_are_bound(text: str) -> None:
    module = build(text)
    a, b = arguments()
    run = module.bind(a, b, threads=2)
    assert repr(run) == f"<{module.signature.name} on 2 arrays>"
    a[:] = 3
    assert run() is None
    assert (b == (9 if text is WORKSPACE_SQUARE else 6)).all()
    watch = weakref.ref(a)
    del a
    gc.collect()
    assert watch() is not None
    b[:] = 0
    run()
    assert (b == (9 if text is WORKSPACE_SQUARE else 6)).all()


def test_bound_arguments_are_refused_as_those_of_a_call() -> None:
    module = build(TWICE)
    a, b = arguments()
    for values, words in (
        ((a, a), "the output 'B' overlaps 'A'"),
        ((a, b.T), "argument 2 'B' has shape"),
        ((a,), "takes 2 arrays .* but 1 were given"),
    ):
        with pytest.raises(CallError, match=words):
            module.bind(*values)
    with pytest.raises(CallError, match="threads is 1025"):
        module.bind(a, b, threads=1025)
    with pytest.raises(CallError, match="no weight 'A' to pack"):
        module.bind(A=a)


@pytest.fixture(params=["built", "loaded"])
def module(request: pytest.FixtureRequest, tmp_path: Path) -> Module:
    built = product()
    if request.param == "built":
        return built
    built.save(tmp_path / "product.so")
    return load_kernel(tmp_path / "product.so")


def test_constant_inputs_are_bound(module: Module) -> None:
    a, weight, bias, out = arrays()
    less = module.bind(B=weight)
    assert repr(less).startswith("<kernel product(A: float32[6, 5], b.ias: float32[21], C: ")
    weight.fill(np.nan)  # it was packed
    for _ in range(3):
        out.fill(np.nan)
        less(a, bias, out)
        check(out)
    packed: dict[str, Any] = {"b.ias": less.pack("b.ias", bias)}
    least = less.bind(**packed)
    bias.fill(np.nan)
    for _ in range(3):
        check(least(a))
        out.fill(np.nan)
        least(a, out)
        check(out)
    out.fill(np.nan)
    least.bind(a, out)()
    check(out)
    assert least.time(a, out, min_time_s=0.001).calls >= 1
    with pytest.raises(CallError, match=r"takes 2 arrays \(A: .*, C: .*\), but 3 were given"):
        least(a, out, out)
    with pytest.raises(CallError, match="argument 2 'C' has shape"):
        least(a, out[:3])
    with pytest.raises(BuildError, match="save the module that they were bound of"):
        least.save("least.so")


def test_constant_inputs_and_all_others_are_bound_at_once(module: Module) -> None:
    a, weight, bias, out = arrays()
    module.bind(a, bias, out, B=weight)()
    check(out)


def test_a_read_only_weight_is_packed_once(module: Module) -> None:
    a, weight, bias, out = arrays()
    weight.flags.writeable = False
    for _ in range(4):
        out.fill(np.nan)
        module(a, weight, bias, out)
        check(out)
        check(module(a, weight, bias))
    weight.flags.writeable = True  # and so it is packed again
    weight *= 2
    with pytest.warns(PackingWarning):
        module(a, weight, bias, out)
    np.testing.assert_allclose(out, a.astype(np.float64) @ weight + bias, 1e-5, 1e-5)


def test_a_read_only_view_of_what_may_be_written_is_packed_again() -> None:
    a, weight, bias, _ = arrays()
    view = weight[:]
    view.flags.writeable = False
    with pytest.warns(PackingWarning):
        check(product()(a, view, bias))


def test_the_warning_says_what_it_costs_and_what_to_write(module: Module) -> None:
    a, weight, bias, out = arrays()
    with pytest.warns(PackingWarning) as caught:
        module(a, weight, bias, out)
    assert caught[0].filename == __file__
    words = str(caught[0].message)
    start = "product: argument 2 'B' is a constant input that each call packs again (0.00042 MB, "
    assert words.startswith(start)
    assert "bind(B=…) once, or pass what pack('B', …) returned" in words
    with warnings.catch_warnings(action="error"):
        module(a, weight, bias, out)  # only the first time
        module.time(a, weight, bias, out, min_time_s=0.001)


def test_each_time_another_read_only_weight_is_told_too(module: Module) -> None:
    a, weight, bias, out = arrays()
    weight.flags.writeable = False
    module(a, weight, bias, out)
    other = weight.copy()
    other.flags.writeable = False
    del weight
    with pytest.warns(PackingWarning):
        module(a, other, bias, out)
    check(out)


def test_a_known_weight_that_was_reshaped_is_refused(module: Module) -> None:
    a, weight, bias, out = arrays()
    weight.flags.writeable = False
    module(a, weight, bias, out)
    reshape(weight, (21, 5))
    with pytest.raises(CallError, match=r"'B' has shape \(21, 5\), but the kernel wants \(5, 21\)"):
        module(a, weight, bias, out)
