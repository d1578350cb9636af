"""The recipes of docs/extending.md: the changes that each asks for, made to a copy of the tree.

Code is that of the page, of docs/language.md and of the dry runs beside this file.
"""

from __future__ import annotations

import inspect
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ansorc.search.features import ESTIMATE_COLUMN
from tests.e2e.extending.test_new_graph_pass import cancel_negations, twice_negated
from tests.e2e.extending.test_new_pass import BEFORE, unroll_by_two
from tests.e2e.extending.test_new_step import Interchange

ROOT = Path(__file__).parents[3]
PAGE = "docs/extending.md"


@dataclass
class Tree:
    """A copy of the repository, and which of its files a recipe has changed."""

    root: Path
    changed: list[str] = field(default_factory=list[str])

    @staticmethod
    def copy(root: Path) -> Tree:
        """Copy the files that git knows, as they are now, to `root`, with what is compiled of them.

        Files keep their times, so that modules that no recipe changes are not compiled again.
        """
        listed = subprocess.run(
            ["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        for name in filter(None, listed.stdout.split("\0")):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / name).is_symlink():
                (root / name).symlink_to((ROOT / name).readlink())
            elif (ROOT / name).is_file():
                shutil.copy2(ROOT / name, root / name)
        for compiled in (ROOT / "ansorc").rglob(f"*.{sys.implementation.cache_tag}.pyc"):
            copied = root / compiled.relative_to(ROOT)
            if copied.parents[1].is_dir():
                copied.parent.mkdir(exist_ok=True)
                shutil.copy2(compiled, copied)
        return Tree(root)

    def write(self, path: str, text: str) -> None:
        """Write a new file."""
        assert not (self.root / path).exists(), path
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)
        self.changed.append(path)

    def after(self, path: str, line: str, added: str) -> None:
        """Write `added` behind the first `line` of a file: whole lines, or a part of one."""
        text = (self.root / path).read_text()
        assert line in text, f"{path} has no {line!r}"
        (self.root / path).write_text(text.replace(line, line + added, 1))
        self.changed.append(path)

    def append(self, path: str, text: str) -> None:
        """Write `text` to the end of a file."""
        self.after(path, (self.root / path).read_text(), text)

    def run(self, *arguments: str) -> str:
        """Run a module of the copy by `python -m`; return what it prints, and fail if it fails."""
        done = subprocess.run(
            [sys.executable, "-m", *arguments], cwd=self.root, text=True, capture_output=True,
            env={**os.environ, "PYTHONPATH": str(self.root)}, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{arguments}\n{done.stdout[-6000:]}{done.stderr[-3000:]}"
        return done.stdout

    def check(self, tests: Sequence[str], words: Sequence[str] = ()) -> str:
        """Run tests of the copy: those of the files, or of them those with a word in their name."""
        chosen = ["-k", " or ".join(words)] if words else []
        return self.run("pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *tests, *chosen)


@dataclass(frozen=True)
class Recipe:
    """One recipe: what is changed, and the tests that it names."""

    title: str
    change: Callable[[Tree], None]
    tests: tuple[str, ...]
    words: tuple[str, ...]
    """In the names of those of the tests that are about what was added."""

    def perform(self, tree: Tree) -> None:
        """Make the changes; each file must be named by the page, or a folder that it is in."""
        tree.changed.clear()
        self.change(tree)
        named = set(re.findall(r"[\w./-]+", section(self.title)))
        for path in tree.changed:
            names = {path, *(f"{parent}/" for parent in Path(path).parents)}
            names |= {name.removeprefix("docs/") for name in names}
            assert names & named, f"{self.title}: {path} is not named"


def section(title: str) -> str:
    """Return the text of a recipe of the page."""
    return (ROOT / PAGE).read_text().partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def _operator(tree: Tree) -> None:
    code = section("An operator").partition("```python\n")[2].partition("```")[0]
    code = code.replace("import ansorc as ac\n", "").replace("ac.abs", "scalar.abs")
    tree.append("ansorc/lang/operators/normalization.py", code.replace("ac.", ""))
    path = "ansorc/lang/operators/__init__.py"
    tree.after(path, "    rms_norm,\n", "    scale_rows,\n")
    tree.after(path, '    "rms_norm",\n', '    "scale_rows",\n')
    tree.after(
        "tests/e2e/hostile/test_hostile_operators.py",
        '    "rms_norm": ([M, V, 1e-5, "y"], {}),',
        ' "scale_rows": ([M, "y"], {}),',
    )
    tree.after("docs/language.md", "`rms_norm`, ", "`scale_rows`, ")
    tree.after(
        "tests/lang/operators/test_network_operators.py",
        '    ("softmax", lambda x: ops.softmax(x, 1), S, lambda x: softmax(x, 1)),\n',
        '    ("scale_rows", ops.scale_rows, [(3, 5)],\n'
        "     lambda x: x / abs(x).max(1, keepdims=True)),\n",
    )


def _step(tree: Tree) -> None:
    tree.append("ansorc/schedule/steps/order.py", f"\n\n{inspect.getsource(Interchange)}")
    path = "ansorc/schedule/steps/__init__.py"
    tree.after(path, "order import Fuse", ", Interchange")
    tree.after(path, "        Split, Fuse,", " Interchange,")
    tree.after(path, ' "Fuse",', ' "Interchange",')
    path = "ansorc/schedule/schedule.py"
    tree.after(path, "    Fuse,\n", "    Interchange,\n")
    tree.after(
        path, "        return self.then(Unroll(stage, iterator))\n",
        "\n    def interchange(self, stage: str, one: str, other: str) -> Self:\n"
        '        """Swap two loops of a stage; see Interchange."""\n'
        "        return self.then(Interchange(stage, one, other))\n",
    )  # fmt: skip
    tree.after(
        "docs/site/step_pictures.py",
        '    "Unroll": (elementwise, \'.unroll("C", "i")\'),\n',
        '    "Interchange": (elementwise, \'.interchange("C", "i", "j")\'),\n',
    )
    tree.append(
        "tests/schedule/steps/test_steps.py",
        """

def test_interchange_swaps_loops() -> None:
    loops = matmul().interchange("C", "i", "k").stage("C").iterators
    assert [loop.name for loop in loops] == ["k", "j", "i"]
""",
    )
    tree.append(
        "tests/schedule/steps/test_refusals.py",
        """

def test_interchange_of_one_loop_is_refused() -> None:
    with pytest.raises(ScheduleError, match="'i' cannot change places with itself"):
        matmul().interchange("C", "i", "i")
""",
    )
    path = "tests/support/schedule_strategies.py"
    tree.after(path, "    ComputeRoot,\n", "    Interchange,\n")
    tree.after(
        path,
        '    "storage align": _storage_align,\n',
        '    "interchange": lambda draw, state, stage: Interchange(\n'
        "        stage.name, _iterator(draw, stage), _iterator(draw, stage)\n    ),\n",
    )


def _pass(tree: Tree) -> None:
    module = inspect.getmodule(unroll_by_two)
    assert module is not None
    source = inspect.getsource(module)
    helper = source.partition("def _halved")[2].partition("\n\n\n")[0]
    tree.write(
        "ansorc/ir/passes/unroll_by_two.py",
        f'''"""Do two iterations of a serial loop in one.

    for i in 0..8:               for i in 0..4:
        B[i] = A[i]       ->         B[i * 2] = A[i * 2]
                                     B[i * 2 + 1] = A[i * 2 + 1]
"""

from __future__ import annotations

from dataclasses import replace

from ansorc.ir.arith.simplify import simplify
from ansorc.ir.expr import Var, const
from ansorc.ir.node import Node, rewrite
from ansorc.ir.stmt import For, Function, LoopKind, Seq
from ansorc.ir.substitute import substitute


{inspect.getsource(unroll_by_two)}

def _halved{helper}
''',
    )
    path = "ansorc/ir/passes/pipeline.py"
    tree.after(
        path,
        "import transpose_copies\n",
        "from ansorc.ir.passes.unroll_by_two import unroll_by_two\n",
    )
    tree.after(
        path,
        '    ("insert_checks", lambda f, _: insert_checks(f)),\n',
        '    ("unroll_by_two", lambda f, _: simplify_stmt(unroll_by_two(f))),\n',
    )
    path = "tests/ir/passes/test_pass_meaning.py"
    tree.after(
        path,
        "import transpose_copies\n",
        "from ansorc.ir.passes.unroll_by_two import unroll_by_two\n",
    )
    tree.after(
        path, '    "transpose_copies": transpose_copies,\n', '    "unroll_by_two": unroll_by_two,\n'
    )
    tree.write("tests/ir/passes/golden/unroll_by_two/scale.ir", BEFORE)
    tree.run("pytest", "-q", "-n", "0", "tests/ir/passes/test_golden.py", "--update-golden")


def _onnx_operator(tree: Tree) -> None:
    path = "ansorc/graph/onnx/converters/activation.py"
    tree.after(
        path,
        "    return call.add(operator, [call.input(0)], **given)\n\n    return convert\n",
        '''

def _soft_cap(call: NodeCall) -> str:
    """SoftCap(x, bias): the bias is added first; the attribute `cap` is positive."""
    cap = float(call.attribute("cap", 30.0))
    if cap <= 0:
        call.refuse(f"its cap is {cap:g}, but it must be positive")
    data = call.input(0)
    if call.has(1):
        data = call.add("add", [data, call.input(1)])
    return call.add("saturate", [data], limit=cap)
''',
    )
    tree.after(
        path, '    "Softsign": _with("softsign"),\n', '    "com.example::SoftCap": _soft_cap,\n'
    )
    path = "ansorc/graph/operators/activation.py"
    tree.after(
        path,
        "from ansorc.lang.scalar import any_of, const, equal, expm1, "
        "if_then_else, maximum, minimum, sigmoid",
        ", tanh",
    )
    tree.after(path, '    "shrink": shrink,\n', '    "saturate": saturate,\n')
    tree.after(
        path,
        "from ansorc.lang.tensor import Tensor\n",
        '''

def saturate(data: Tensor, limit: float) -> Tensor:
    """Return limit * tanh(data / limit)."""
    return map_elements(data, lambda x: limit * tanh(x * (1.0 / limit)), AutoName("saturate"))
''',
    )
    tree.run("tests.graph.onnx.onnx_table")
    assert "SoftCap" in (tree.root / "docs/onnx.md").read_text()
    dry_run = (ROOT / "tests/e2e/extending/test_new_onnx_operator.py").read_text()
    tables = dry_run.index("@pytest.fixture"), dry_run.index("def model(")
    tree.write(
        "tests/graph/onnx/converters/test_soft_cap.py", dry_run[: tables[0]] + dry_run[tables[1] :]
    )


def _graph_pass(tree: Tree) -> None:
    module = inspect.getmodule(cancel_negations)
    assert module is not None
    helper = inspect.getsource(module).partition("def _is_negation")[2].partition("\n\n\n")[0]
    helper = helper.replace("str(node.operator)", "node.builtin")
    tree.write(
        "ansorc/graph/passes/cancel_negations.py",
        f'''"""Read x where -(-x) was read."""

from __future__ import annotations

from ansorc.graph.graph import Graph, GraphNode
from ansorc.graph.rewriter import Rewriter


{inspect.getsource(cancel_negations)}

def _is_negation{helper}
''',
    )
    path = "ansorc/graph/passes/pipeline.py"
    line = "from ansorc.graph.passes.channels_last import channels_last\n"
    tree.after(
        path,
        "from ansorc.graph.graph import Graph, GraphPass\n",
        "from ansorc.graph.passes.cancel_negations import cancel_negations\n",
    )
    tree.after(
        path, '    ("fold_affine", fold_affine),\n', '    ("cancel_negations", cancel_negations),\n'
    )
    path = "tests/graph/small_networks.py"
    tree.after(path, 'NETWORKS = {"residual": residual_network,', ' "negations": twice_negated,')
    text = f"{inspect.getsource(twice_negated)}\n\nNETWORKS = {{"
    tree.after(path, '    return b.graph([b.add("add", [y, x], "y")])\n', f"\n\n{text[:-12]}")
    path = "tests/graph/passes/test_pipeline.py"
    tree.after(path, line, "")
    tree.append(
        path,
        """

def test_two_negations_disappear() -> None:
    assert operators(optimize_graph(NETWORKS["negations"]())) == ["exp", "relu"]
""",
    )


def _sketch_rule(tree: Tree) -> None:
    page = (ROOT / "docs/language.md").read_text().partition("# Rules of one's own")[2]
    found = re.search(r"^class Interchange:.*?(?=\n\n\n)", page, re.DOTALL | re.MULTILINE)
    assert found is not None
    code = found[0].replace("class Interchange", "class InterchangeMany")
    code = code.replace("op.axes and op.reduce_axes", "op.axes and len(op.reduce_axes) > 3")
    code = code.replace("stage: str):", "stage: str) -> Iterator[PartialSketch]:")
    for name, says in (
        ("verdict", "Ask for sums along many axes alone."),
        ("expand", "Return the sketch with the reduce loops outside."),
    ):
        code = re.sub(rf"(    def {name}\(.*\n)", rf'\1        """{says}"""\n', code)
    tree.write(
        "ansorc/search/sketch/interchange.py",
        f'''"""Sums along many axes, axis by axis."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ansorc.schedule.steps import Reorder
from ansorc.search.sketch.rule import PartialSketch, Verdict


@dataclass(frozen=True)
{code}
''',
    )
    path = "ansorc/search/cpu/rules.py"
    tree.after(
        path,
        "import TensorizeDotProduct, is_tensorized\n",
        "from ansorc.search.sketch.interchange import InterchangeMany\n",
    )
    tree.after(path, "        AddCacheWrite(),\n", "        InterchangeMany(),\n")
    tree.append(
        "tests/search/sketch/test_rules.py",
        """

def test_interchange_of_sums_along_many_axes() -> None:
    data = ac.placeholder((2, 2, 2, 2, 8), "x")
    computation = ac.ComputeDAG([data, ops.sum(data, axis=(0, 1, 2, 3), name="y")])
    names = [sketch.name for sketch in generate(computation, ZEN3, RULES)]
    assert any("interchange y" in name for name in names)
""",
    )


def _feature(tree: Tree) -> None:
    path = "ansorc/search/features/loops.py"
    tree.after(
        path,
        '    """1 if the innermost loop adds up terms, else 0."""\n',
        '    reduce_share: FloatArray\n    """Loops that add up terms, as a share of all."""\n',
    )
    tree.after(
        path,
        "        innermost_is_reduce=is_reduce,\n",
        "        reduce_share=nest.is_loop[[loop.is_reduce for loop in loops]].sum(axis=0)\n"
        "        / np.maximum(nest.is_loop.sum(axis=0), 1),\n",
    )
    path = "ansorc/search/features/machine.py"
    text = (tree.root / path).read_text()
    found = re.search(r'FeatureSet\("machine", (\d+)', text)
    assert found is not None
    (tree.root / path).write_text(text.replace(found[0], found[0][: -len(found[1])] + "999"))
    tree.changed.append(path)
    path = "ansorc/search/features/feature_set.py"
    line = f"\nESTIMATE_COLUMN = {ESTIMATE_COLUMN}"
    tree.after(path, line, " + 1")
    tree.run("tests.search.features.feature_table")
    tree.append(
        "tests/search/features/test_by_hand.py",
        """

def test_reduce_share_of_a_product() -> None:
    assert numbers(schedule(matmul(16, 16, 16)))["loops.reduce_share"] == pytest.approx(1 / 3)
""",
    )


def _machine(tree: Tree) -> None:
    path = "ansorc/target/presets.py"
    tree.after(
        path,
        '        _x86("haswell", _V3, (32, 256, 8192)),\n',
        '        _x86("broadwell", _V3, (32, 256, 20480)),\n',
    )
    tree.after(
        path,
        '    **dict.fromkeys((60, 63, 69, 70, 61, 71, 79, 86), "haswell"),\n',
        '    79: "broadwell",\n',
    )
    tree.append(
        "tests/target/test_machine.py",
        """

def test_broadwell_by_its_numbers() -> None:
    assert x86_model_name("GenuineIntel", 6, 79) == "broadwell"
    target = Target.parse("x86_64-linux-gnu -mcpu=broadwell -cores=4")
    assert Target.parse(target.text) == target
""",
    )


def _back_end(tree: Tree) -> None:
    (tree.root / "my_backend.py").write_text((ROOT / "tests/e2e/toy_backend.py").read_text())
    page = (ROOT / "docs/start.md").read_text()
    (tree.root / "gemm.py").write_text(page.partition("```python\n")[2].partition("```")[0])
    extents = ("--set", "n=16", "--set", "m=16", "--set", "k=16")
    target = "native -backend=my_backend"
    said = tree.run("ansorc", "run", "gemm.py:matmul", "--default", *extents, "--target", target)
    assert "right: the largest error" in said


def _decision(tree: Tree) -> None:
    folder = tree.root / "docs/decisions"
    number = 1 + max(int(page.name[:4]) for page in folder.glob("[0-9]*.md"))
    name = f"{number:04}-loops-are-swapped.md"
    parts = ("Context", "Decision", "Evidence", "Consequence")
    text = "\n".join(f"\n## {part}\n\nOne sentence." for part in parts)
    title = "Loops are swapped"
    tree.write(f"docs/decisions/{name}", f"# {number:04}. {title}\n\nStatus: accepted.\n{text}\n")
    tree.append("docs/decisions/README.md", f"* [{number:04}]({name}) {title}\n")


PICTURES = "test_every_step_has_a_picture_in_which_something_changes"
RECIPES = (
    Recipe("An operator", _operator,
           ("tests/docs/test_language_page.py", "tests/lang/operators/test_network_operators.py",
            "tests/e2e/hostile/test_hostile_operators.py", "tests/docs/test_public_docs.py"),
           ("scale_rows", "test_language_page")),
    Recipe("A step", _step,
           ("tests/schedule/steps/test_steps.py", "tests/schedule/steps/test_refusals.py",
            f"tests/docs/test_docs_code.py::{PICTURES}"),
           ("interchange", PICTURES)),
    Recipe("A pass", _pass,
           ("tests/ir/passes/test_golden.py", "tests/ir/passes/test_pass_meaning.py"),
           ("unroll_by_two",)),
    Recipe("An ONNX operator", _onnx_operator,
           ("tests/graph/onnx/converters/test_soft_cap.py", "tests/graph/onnx/test_node_tests.py"),
           ("soft_cap",)),
    Recipe("A graph pass", _graph_pass, ("tests/graph/passes/test_pipeline.py",), ("negations",)),
    Recipe("A sketch rule", _sketch_rule,
           ("tests/search/sketch/test_rules.py", "tests/search/sketch/test_all_valid.py"),
           ("interchange",)),
    Recipe("A feature", _feature,
           ("tests/search/features",),
           ("reduce_share",)),
    Recipe("A machine", _machine, ("tests/target/test_machine.py",), ("broadwell",)),
    Recipe("A back end", _back_end, ("tests/e2e/test_toy_backend.py",), ()),
    Recipe("A decision", _decision, ("tests/docs/test_pages.py",), ("decision",)),
)  # fmt: skip
