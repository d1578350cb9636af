"""Files of workloads: how they are found, set and refused."""

from pathlib import Path

import pytest

import ansorc.lang as ac
from ansorc.errors import LanguageError
from ansorc.lang.workload import Workload, load_workload, load_workloads

HEAD = "import ansorc.lang as ac\nfrom ansorc.lang import operators as ops\n"
GEMM = (
    HEAD
    + """
@ac.workload
def matmul(n: int = 8, k: int = 4):
    a, b = ac.placeholder((n, k), "A"), ac.placeholder((k, n), "B")
    return [a, b, ops.matmul(a, b, name="C")]
"""
)
TWO = (
    GEMM
    + """
@ac.workload
def relu(n: int = 8):
    a = ac.placeholder(n, "A")
    return [a, ops.relu(a, name="B")]
"""
)


def write(folder: Path, text: str) -> Path:
    path = folder / "file.py"
    path.write_text(text)
    return path


def test_settings_replace_defaults(tmp_path: Path) -> None:
    path = write(tmp_path, TWO)
    assert list(load_workloads(path)) == ["matmul", "relu"]
    assert load_workloads(path)["matmul"].defaults == {"n": 8, "k": 4}
    dag = load_workload(path, "matmul", {"n": 16})
    assert [buffer.shape for buffer in dag.params] == [(16, 4), (4, 16), (16, 16)]
    assert load_workload(path, "relu").outputs[0].shape == (8,)


def test_the_name_may_be_left_out_if_there_is_one(tmp_path: Path) -> None:
    assert load_workload(write(tmp_path, GEMM)).outputs[0].name == "C"


@pytest.mark.parametrize(
    ("text", "name", "settings", "words"),
    [
        (TWO, "", {}, "has several workloads; choose one.*matmul, relu"),
        (TWO, "conv", {}, "has no workload 'conv'; it has matmul, relu"),
        (TWO, "matmul", {"m": 3}, "'matmul' has no setting 'm'; it has n=8, k=4"),
        (HEAD, "", {}, "has no workload; put @ac.workload"),
        ("1 / 0", "", {}, "cannot be run: ZeroDivisionError"),
        ("def f(:", "", {}, "cannot be run: SyntaxError"),
        (HEAD + "@ac.workload\ndef f(n):\n    return []", "", {}, "'n' of the workload 'f' needs"),
        (HEAD + "@ac.workload\ndef f(*n):\n    return []", "", {}, "'n' of the workload 'f' needs"),
        (
            HEAD + "@ac.workload\ndef f():\n    return 3",
            "",
            {},
            "'f' returned int; return",
        ),
        (HEAD + "@ac.workload\ndef f():\n    return []", "", {}, "there is no output"),
        (HEAD + "ac.placeholder(0)", "", {}, "shape \\(0,\\) of 'placeholder' is empty"),
        (TWO, "matmul", {"n": 0}, "is empty"),
    ],
)
def test_refused_files(
    tmp_path: Path, text: str, name: str, settings: dict[str, int], words: str
) -> None:
    with pytest.raises(LanguageError, match=words):
        load_workload(write(tmp_path, text), name, settings)


def test_a_missing_file_is_named() -> None:
    with pytest.raises(LanguageError, match=r"there is no file 'nowhere\.py'"):
        load_workload("nowhere.py")


def test_a_workload_can_be_called() -> None:
    @ac.workload
    def copy(n: int = 3) -> list[ac.Tensor]:
        a = ac.placeholder(n, "A")
        return [a, ac.compute(n, lambda i: a[i], "B")]

    assert isinstance(copy, Workload)
    assert [tensor.shape for tensor in copy(n=5)] == [(5,), (5,)]
