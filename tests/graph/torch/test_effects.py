"""What a graph does besides computing results happens at every call, or is refused in words."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ansorc as ac
from ansorc.errors import GraphError
from ansorc.graph.torch.compile_backend import torch_backend
from ansorc.graph.torch.torch_state import keep_state
from tests.graph.torch.torch_oracle import module_of, tensors_in, torch

pytestmark = [pytest.mark.nightly, pytest.mark.filterwarnings("ignore")]
F: Any = torch.nn.functional


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch.manual_seed(0)
    torch.compiler.reset()
    with torch.no_grad():
        yield


def compiled(function: Any, **options: Any) -> Any:
    return torch.compile(function, backend=torch_backend, **options)


def words_of(call: Callable[[], object]) -> list[str]:
    """The warnings of ansorc that `call` gives."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(one.message) for one in caught if "ansorc" in str(one.message)]


SAMPLERS: dict[str, Callable[[Any], Any]] = {
    "alpha_dropout": lambda x: F.alpha_dropout(x, 0.5, training=True),
    "bernoulli": lambda x: x + torch.bernoulli(torch.full((4, 8), 0.5)),
    "bernoulli_": lambda x: x + torch.empty(4, 8).bernoulli_(0.5),
    "beta": lambda x: x + torch.distributions.Beta(torch.full((4, 8), 2.0), 1.0).sample(),
    "binomial": lambda x: x + torch.binomial(torch.full((4, 8), 9.0), torch.full((4, 8), 0.5)),
    "cauchy_": lambda x: x + torch.zeros(4, 8).cauchy_(),
    "dirichlet": lambda x: x[0] + torch.distributions.Dirichlet(torch.ones(8)).sample(),
    "dropout": lambda x: F.dropout(x + 9, 0.5),
    "dropout2d": lambda x: F.dropout2d(x[None, :, None] + 9, 0.5),
    "exponential_": lambda x: x / torch.empty_like(x).exponential_(1),
    "geometric_": lambda x: x + torch.zeros(4, 8).geometric_(0.3),
    "gumbel_softmax": F.gumbel_softmax,
    "log_normal_": lambda x: x + torch.zeros(4, 8).log_normal_(),
    "multinomial": lambda x: x[0, torch.multinomial(torch.ones(8), 8)],
    "normal": lambda x: x + torch.normal(torch.zeros(4, 8), 1.0),
    "normal_": lambda x: x + torch.empty(4, 8).normal_(),
    "poisson": lambda x: x + torch.poisson(torch.full((4, 8), 4.0)),
    "rand_like": lambda x: x + torch.rand_like(x),
    "randint": lambda x: x + torch.randint(99, (4, 8)),
    "randint_like": lambda x: x + torch.randint_like(x, 99),
    "randn": lambda x: x + torch.randn(4, 8),
    "random_": lambda x: x + torch.zeros(4, 8).random_(99),
    "randperm": lambda x: x[:, torch.randperm(8)],
    "rrelu": lambda x: F.rrelu(-x.abs() - 1, training=True),
    "sdpa": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], dropout_p=0.5),
    "uniform_": lambda x: x + torch.empty(4, 8).uniform_(-1, 1),
    "unused": lambda x: (torch.rand(3), x + torch.rand(1))[1],
}


@pytest.mark.parametrize("name", SAMPLERS)
def test_samplers_draw_at_every_call(name: str) -> None:
    function, given = SAMPLERS[name], torch.randn(4, 8)
    run = compiled(function)
    first, second = run(given), run(given)
    assert not torch.equal(first, second)
    torch.manual_seed(7)
    found = run(given), torch.rand(2)
    torch.manual_seed(7)
    wanted = function(given), torch.rand(2)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other)
    with pytest.raises(GraphError, match="it is random"):
        ac.from_torch(module_of(function), (given,))


def test_what_may_draw_but_does_not_is_compiled() -> None:
    def quiet(x: Any) -> Any:
        shares = F.dropout(x, 0.5, training=False)
        return F.scaled_dot_product_attention(shares, x, x) + F.dropout(x, 0.0)

    given = torch.randn(1, 4, 8)
    run = compiled(quiet)
    assert not words_of(lambda: torch.testing.assert_close(run(given), quiet(given)))


def test_a_module_that_draws_in_python_is_refused() -> None:
    for draw, words in (
        (random.random, "Python's random numbers"),
        (np.random.rand, "NumPy's random numbers"),
        (lambda: torch.manual_seed(3) and 1, "torch's random numbers"),
    ):

        def function(x: Any, draw: Callable[[], Any] = draw) -> Any:
            return x + draw()

        given = torch.randn(3)
        state = torch.get_rng_state(), random.getstate()
        with pytest.raises(GraphError, match=words):
            ac.from_torch(module_of(function), (given,))
        assert torch.equal(state[0], torch.get_rng_state())
        assert state[1] == random.getstate()


Module: Any = torch.nn.Module


class Stateful(Module):
    """A module with an attribute, which a function changes when it runs."""

    def __init__(self, state: Any, function: Callable[[Any, Any], Any]) -> None:
        Module.__init__(self)
        self.state, self.function = state, function

    def forward(self, x: Any) -> Any:
        return self.function(self, x)


def _counted(module: Any, x: Any) -> Any:
    module.state += 1
    return x * module.state


def _counted_as_tensor(module: Any, x: Any) -> Any:
    module.state += 1
    return x * torch.tensor(float(module.state))


def _noted(module: Any, x: Any) -> Any:
    module.state = x.shape[0]
    return x * 2


STATES: dict[str, tuple[Any, Callable[[Any, Any], Any]]] = {
    "counter": (0, _counted),
    "counter as a tensor": (0, _counted_as_tensor),
    "generator of Python": (random.Random(3), lambda m, x: x + m.state.random()),
    "generator of NumPy": (np.random.default_rng(3), lambda m, x: x * m.state.random()),
}


@pytest.mark.parametrize("name", STATES)
def test_a_module_that_counts_or_draws_in_an_attribute_is_refused(name: str) -> None:
    module = torch.nn.Sequential(torch.nn.ReLU(), Stateful(*STATES[name]))
    with pytest.raises(GraphError, match="changes its attribute 'state' when it runs"):
        ac.from_torch(module, (torch.randn(2, 3),))


def test_an_attribute_that_changes_no_result_is_let_be() -> None:
    module = Stateful(0, _noted)
    assert ac.from_torch(module, (torch.randn(2, 3),)).outputs
    assert module.state == 0


def test_the_state_of_pytorch_is_left_as_it_was() -> None:
    def disturb() -> None:
        torch.set_default_dtype(torch.float64)
        torch.set_grad_enabled(True)
        torch.set_autocast_enabled("cpu", True)
        torch.use_deterministic_algorithms(True)
        torch._C._functorch._vmap_increment_nesting(3, "different")
        torch.autograd.forward_ad.enter_dual_level()
        torch.rand(1)
        random.random()
        np.random.rand()

    before = torch.rand(3), torch.get_rng_state()
    words = "levels of torch.func and the level of forward .* and NumPy's random numbers"
    with pytest.raises(GraphError, match=words), keep_state():
        disturb()

    def fail() -> None:
        disturb()
        raise ValueError("own")

    with pytest.raises(ValueError, match="own"), keep_state():
        fail()
    assert torch.get_default_dtype() == torch.float32
    assert not torch.is_grad_enabled()
    assert not torch.is_autocast_enabled("cpu")
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch._C._functorch.get_dynamic_layer_stack_depth() == 0
    assert torch.equal(before[1], torch.get_rng_state())
    with torch.autograd.forward_ad.dual_level():
        pass


def test_a_refused_hessian_leaves_forward_differentiation_as_it_was() -> None:
    def cubes(t: Any) -> Any:
        return (t**3).sum()

    def hessian(x: Any) -> Any:
        return torch.func.hessian(cubes)(x)

    given = torch.arange(3.0)
    for _ in range(2):
        torch.testing.assert_close(compiled(hessian)(given), torch.diag(6 * given))
    torch.testing.assert_close(hessian(given), torch.diag(6 * given))


def test_assertions_are_raised() -> None:
    def positive(x: Any) -> Any:
        assert (x > 0).all(), "must be positive"
        return x.log()

    run = compiled(positive)
    right, wrong = torch.tensor([1.0, 2.0]), torch.tensor([1.0, -1.0])
    assert not words_of(lambda: torch.testing.assert_close(run(right), right.log()))
    for _ in range(2):
        with pytest.raises(RuntimeError, match="must be positive"):
            run(wrong)
    torch.testing.assert_close(run(right), right.log())
    with pytest.raises(GraphError, match="decides by the values of a tensor"):
        ac.from_torch(module_of(positive), (right,))

    def asserted(x: Any) -> Any:
        torch._assert_async((x > 0).all(), "must be positive")
        return x.log()

    with pytest.raises(GraphError, match="asserts something about values"):
        ac.from_torch(module_of(asserted), (right,))


def test_what_an_assertion_stops_is_not_written() -> None:
    def count(x: Any) -> Any:
        assert (x < 3).all(), "too many"
        return x.add_(1) * 2

    run, given, wanted = compiled(count), torch.zeros(2), torch.zeros(2)
    for _ in range(3):
        torch.testing.assert_close(run(given), count(wanted))
    for one, other in ((run, given), (count, wanted)):
        with pytest.raises((RuntimeError, AssertionError), match="too many"):
            one(other)
    torch.testing.assert_close(given, wanted)


WRITES: dict[str, Callable[[Any], Any]] = {
    "a part of an expanded tensor": lambda x: _written(x.sum(0, keepdim=True).expand(4, -1)),
    "a row of it": lambda x: _written(x.sum(0, keepdim=True).expand(4, -1), 0),
    "its base, afterwards": lambda x: _base_written(x * 2),
    "windows": lambda x: _written((x * 2).unfold(0, 2, 1), 0),
}


def _written(made: Any, place: Any = slice(1, 3)) -> Any:
    made[place].zero_()
    return made * 1, made


def _base_written(made: Any) -> Any:
    wide = made[:1].expand(3, -1)
    made.add_(1)
    return wide * 2, made


@pytest.mark.parametrize("name", WRITES)
def test_what_a_tensor_has_several_times_is_not_written(name: str) -> None:
    function, given = WRITES[name], torch.randn(4, 8)
    run, found = compiled(function), list[Any]()
    words = words_of(lambda: found.append(run(given)))
    for one, other in zip(found[0], function(given), strict=True):
        torch.testing.assert_close(one, other)
    assert "memory that a tensor has several times" in words[0]
    with pytest.raises(GraphError, match="memory that a tensor has several times"):
        ac.from_torch(module_of(function), (given,))


def test_writes_beside_expanded_tensors_are_compiled() -> None:
    def function(x: Any) -> Any:
        made = x * 2
        made[1:].add_(x[:1].expand(3, -1))
        return made, made.sum(0, keepdim=True).expand(4, -1)

    given = torch.randn(4, 8)
    run = compiled(function)
    found: list[Any] = []
    assert not words_of(lambda: found.append(run(given)))
    for one, other in zip(found[0], function(given), strict=True):
        torch.testing.assert_close(one, other)


def test_memory_that_nobody_wrote_is_the_same_in_every_build() -> None:
    def half(x: Any) -> Any:
        made = torch.empty(4, 6)
        made[:, :3] = x
        return made

    found = ac.build(ac.from_torch(module_of(half), (torch.ones(4, 3),)))(np.ones((4, 3), "f"))
    np.testing.assert_array_equal(found[:, 3:], 0)
    np.testing.assert_array_equal(found[:, :3], 1)


def test_what_is_known_is_computed_outside_of_autocast() -> None:
    weight = torch.randn(8, 8)

    def function(x: Any) -> Any:
        with torch.autocast("cpu", enabled=False):
            known = weight @ weight
        return x + known

    given = torch.randn(8, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        graph = ac.from_torch(module_of(function), (given,))
        found = compiled(function)(given)
    torch.testing.assert_close(found, given + weight @ weight)
    np.testing.assert_allclose(ac.build(graph)(given.numpy()), found.numpy(), atol=1e-5)


def test_faults_of_our_own_are_pytorchs_to_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise KeyError("a pass")

    def doubled(x: Any) -> Any:
        return x * 2

    monkeypatch.setattr("ansorc.graph.network.optimize_graph", broken)
    given = torch.randn(3)
    run = compiled(doubled)
    words = words_of(lambda: torch.testing.assert_close(run(given), given * 2))
    assert len(words) == 1
    assert "a fault of ansorc, please report it with the graph: KeyError: 'a pass'" in words[0]
    assert not words_of(lambda: run(given))


@pytest.mark.parametrize("is_first", [False, True])
@pytest.mark.parametrize("masked", [None, "padding", "square", "both"])
def test_transformer_encoders_compile_by_their_fast_path(is_first: Any, masked: Any) -> None:
    layer = torch.nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=is_first)
    model = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=not is_first).eval()
    given, masks = torch.randn(2, 5, 16), dict[str, Any]()
    if masked in ("padding", "both"):
        masks["src_key_padding_mask"] = torch.arange(5)[None] >= torch.tensor([[5], [3]])
    if masked in ("square", "both"):
        masks["mask"] = torch.ones(5, 5, dtype=torch.bool).triu(1)
    run = compiled(model)
    wanted = model(given, **masks)
    found: list[Any] = []
    assert not words_of(lambda: found.append(run(given, **masks)))
    kept = ~masks.get("src_key_padding_mask", torch.zeros(2, 5, dtype=torch.bool))
    torch.testing.assert_close(found[0][kept], wanted[kept], atol=2e-5, rtol=1e-4)
    if masked is None:
        graph = ac.from_torch(model, (given,))
        np.testing.assert_allclose(ac.build(graph)(given.numpy()), wanted.numpy(), atol=2e-5)


@pytest.mark.parametrize("needs_weights", [False, True])
def test_attention_modules_compile_by_their_fast_path(needs_weights: Any) -> None:
    model = torch.nn.MultiheadAttention(8, 2, batch_first=True).eval()
    given = torch.randn(2, 3, 8)
    padding = torch.tensor([[False, False, True], [False, False, False]])

    def function(x: Any) -> Any:
        return model(x, x, x, key_padding_mask=padding, need_weights=needs_weights)

    run, found = compiled(function), list[Any]()
    assert not words_of(lambda: found.append(run(given)))
    pairs = zip(tensors_in(found), tensors_in(function(given)), strict=True)
    for one, other in pairs:
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)
