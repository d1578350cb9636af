"""`torch.compile(model, backend="ansorc")` computes what PyTorch does, or says that it does not."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ansorc.graph.torch.compile_backend import torch_backend
from tests.graph.torch.torch_oracle import tensors_in, torch

pytestmark = [pytest.mark.nightly, pytest.mark.filterwarnings("ignore")]
F: Any = torch.nn.functional


Module: Any = torch.nn.Module


class Small(Module):
    def __init__(self) -> None:
        Module.__init__(self)
        self.conv = torch.nn.Conv2d(3, 8, 3)
        self.norm = torch.nn.BatchNorm2d(8)
        self.register_buffer("factor", torch.full((8, 1, 1), 1.5))
        self.offset = torch.ones(1)
        self.head = torch.nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        hidden = F.relu(self.norm(self.conv(x))) * self.factor + self.offset
        return self.head(hidden.mean((2, 3))), hidden.permute(0, 2, 3, 1), x.shape[2]


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch.manual_seed(0)
    torch.compiler.reset()
    with torch.no_grad():
        yield


def compiled(model: Any, **options: Any) -> Any:
    return torch.compile(model, backend=torch_backend, options=options)


def assert_same(run: Any, model: Any, *arguments: Any) -> None:
    found, wanted = run(*arguments), model(*arguments)
    pairs = list(zip(tensors_in(found), tensors_in(wanted), strict=True))
    assert pairs
    for one, other in pairs:
        assert (one.dtype, one.stride()) == (other.dtype, other.stride())
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def quiet(function: Callable[[], None]) -> list[str]:
    """The warnings of ansorc that `function` gives."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function()
    return [str(one.message) for one in caught if "ansorc" in str(one.message)]


def test_it_compiles_for_each_shape_and_for_changed_weights() -> None:
    model = Small().eval()
    run = compiled(model)

    def calls() -> None:
        assert_same(run, model, torch.randn(1, 3, 8, 8))
        assert_same(run, model, torch.randn(1, 3, 8, 8).to(memory_format=torch.channels_last))
        assert_same(run, model, torch.randn(1, 3, 9, 8))
        assert_same(run, model, torch.randn(2, 3, 11, 9))
        model.head.weight.add_(1)
        model.norm.running_var.mul_(2)
        assert_same(run, model, torch.randn(1, 3, 8, 8))
        model.load_state_dict({k: v * 0.5 for k, v in model.state_dict().items()})
        assert_same(run, model, torch.randn(1, 3, 8, 8))

    assert not quiet(calls)


def test_gradients_are_left_to_pytorch() -> None:
    model = Small().eval()
    run = compiled(model)
    with torch.enable_grad():
        found = quiet(lambda: run(torch.randn(1, 3, 8, 8))[0].sum().backward())
    assert "requires gradients" in found[0]
    assert model.head.weight.grad is not None


LEFT: list[tuple[Callable[[Any], Any], str]] = [
    (lambda x: (torch.fft.fft(x).abs() * 2,), "aten._fft_r2c"),
    (lambda x: (x + 1, torch.rand(3) * 0), "random"),
    (lambda x: (x.view(torch.int32), x + 1), "as another dtype"),
]


@pytest.mark.parametrize(("function", "words"), LEFT)
def test_what_is_not_known_is_left_to_pytorch(function: Any, words: str) -> None:
    found = quiet(lambda: assert_same(compiled(function), function, torch.randn(4, 4)))
    assert len(found) == 1
    assert words in found[0]


def test_dtypes_cross_the_border() -> None:
    def function(x: Any, b: Any, i: Any) -> Any:
        return (x * 2).to(torch.bfloat16), b & (x > 0), i * 3, x + 1, (x.float() + i).double()

    arguments = [torch.randn(4, 4).half(), torch.ones(4, dtype=torch.bool), torch.arange(4)]
    assert not quiet(lambda: assert_same(compiled(function), function, *arguments))
    narrow = torch.randn(4, 4).bfloat16()
    assert not quiet(lambda: assert_same(compiled(torch.sin), torch.sin, narrow))


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(Exception, match="there is no option 'trial'; there are records, trials"):
        compiled(Small().eval(), trial=3)(torch.randn(1, 3, 8, 8))


@pytest.mark.parametrize(
    ("mode", "words"), [("max-autotune", '"trials": 1000'), ("reduce-overhead", "is small already")]
)
def test_a_mode_is_ignored_in_words(mode: str, words: str) -> None:
    model = Small().eval()
    run = torch.compile(model, backend=torch_backend, mode=mode)
    (found,) = quiet(lambda: assert_same(run, model, torch.randn(1, 3, 8, 8)))
    assert f"ansorc ignores mode='{mode}': " in found
    assert words in found


def test_it_tunes_and_reads_records(tmp_path: Path) -> None:
    model, records = torch.nn.Linear(8, 4), str(tmp_path / "tune.db")
    given = torch.randn(2, 8)
    run = compiled(model, trials=2, records=records, threads=1)
    assert not quiet(lambda: assert_same(run, model, given))
    torch.compiler.reset()
    run = compiled(model, records=records, threads=1)
    assert not quiet(lambda: assert_same(run, model, given))
