"""TVM's MetaSchedule: as many trials as every tuner has; its records are kept and gone on from."""

from __future__ import annotations

import importlib
import inspect
import logging
import os
import sys
import time
from collections.abc import Iterator
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

_WITHOUT_TORCH = str(Path(__file__).parent / "without_torch")
sys.path.insert(0, _WITHOUT_TORCH)
os.environ["PYTHONPATH"] = os.pathsep.join(
    [_WITHOUT_TORCH, *filter(None, [os.environ.get("PYTHONPATH")])]
)

import tvm  # noqa: E402 - its workers find the same path
from tvm.s_tir import meta_schedule  # noqa: E402
from tvm.target import codegen  # noqa: E402
from tvm.te import create_prim_func  # noqa: E402

from bench.peers.program import Make, Program, Request, Unsupported  # noqa: E402
from bench.peers.tvm_definitions import definition  # noqa: E402

_ROUND = 64
_BUILD_S = 60.0
_BATCHES = 5
_BATCH_MS = 1.0
_NAME = "main"


def versions() -> dict[str, str]:
    """Return the version of TVM; raise ImportError if the cost model's library is missing."""
    import_intrinsics()
    return {"tvm": tvm.__version__, "xgboost": metadata.version("xgboost")}


def import_intrinsics() -> None:
    """Import what tuning and each of its builders import, without the time that takes else.

    TVM parses hundreds of intrinsics there, and for each looks up the module of every frame among
    all modules of the process: on a busy machine longer than a build may take.
    """
    with mock.patch.object(inspect, "getmodule", return_value=None):
        importlib.import_module("tvm.s_tir.tensor_intrin")


def programs(request: Request) -> Iterator[tuple[str, Make]]:
    """Yield the best program that was found."""
    if not request.case:
        raise Unsupported("its calls are repeated by machine code")
    yield "tuned", lambda: _tuned(request)


def _tuned(request: Request) -> Program:
    tensors, arrays = definition(request.problem)
    function = create_prim_func(tensors).with_attr("global_symbol", _NAME)
    module = tvm.IRModule({_NAME: function})
    target = tvm.target.Target(
        {"kind": "llvm", "mcpu": codegen.llvm_get_system_cpu(), "num-cores": request.threads}
    )
    directory = request.directory / "tvm" / f"{request.case}-{request.threads}"
    spent = _tune(module, target, directory, request.trials)
    database = meta_schedule.database.JSONDatabase(work_dir=str(directory))
    schedule = meta_schedule.tir_integration.compile_tir(database, module, target)
    if schedule is None:
        raise RuntimeError(f"none of its {_recorded(directory)} programs could be measured")
    built = tvm.compile(schedule.mod, target)
    output = np.full([int(n) for n in tensors[-1].shape], np.nan, np.float32)
    device = tvm.cpu()
    held = [tvm.runtime.tensor(array, device) for array in (*arrays, output)]

    def timed(seconds: float) -> list[float]:
        batch_ms = max(_BATCH_MS, seconds * 1e3 / _BATCHES)
        evaluate = built.mod.time_evaluator(
            _NAME, device, number=1, repeat=1, min_repeat_ms=int(batch_ms)
        )
        return [evaluate(*held).mean for _ in range(_BATCHES if seconds else 1)]

    run = partial(built[_NAME], *held)
    return Program("tuned", run, held[-1].numpy, timed, spent, _recorded(directory))


def _tune(module: Any, target: Any, directory: Path, trials: int) -> float:
    """Measure what is missing to `trials` programs; return the seconds that it took."""
    asked = directory / "asked"  # a space may hold fewer programs than were asked for
    if asked.exists() and int(asked.read_text()) >= trials:
        return 0.0
    directory.mkdir(parents=True, exist_ok=True)
    logging.getLogger("tvm").setLevel(logging.INFO)
    begin = time.perf_counter()
    missing = trials - _recorded(directory)
    if missing > 0:
        rounds = min(_ROUND, missing)
        builder = meta_schedule.builder.LocalBuilder(
            timeout_sec=_BUILD_S, initializer=import_intrinsics
        )
        meta_schedule.tune_tir(
            module, target, str(directory), missing,
            num_trials_per_iter=rounds, builder=builder, seed=1,
        )  # fmt: skip
    asked.write_text(str(trials))
    return time.perf_counter() - begin


def _recorded(directory: Path) -> int:
    path = directory / "database_tuning_record.json"
    return len(path.read_text().splitlines()) if path.exists() else 0
