"""TVM's MetaSchedule: as many trials as every tuner has; its records are kept and gone on from."""

from __future__ import annotations

import importlib
import inspect
import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import tvm
from tvm.s_tir import meta_schedule
from tvm.target import codegen
from tvm.te import create_prim_func

from bench.peers.program import Make, Program, Request, Unsupported
from bench.peers.tvm_definitions import definition

_ROUND = 64
_BATCH_MS = 1.0
_NAME = "main"


def versions() -> dict[str, str]:
    """Return the version of TVM; raise ImportError if the cost model's library is missing."""
    import xgboost  # noqa: PLC0415 - TVM imports it when it tunes, too late to say so

    _import_intrinsics()
    return {"tvm": tvm.__version__, "xgboost": xgboost.__version__}


def _import_intrinsics() -> None:
    """Import what tuning imports, without the minute that looking up modules would take.

    TVM parses hundreds of intrinsics there, and for each asks for the module of every frame.
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
    begin = time.perf_counter()
    has_tuned = _tune(module, target, directory, request.trials)
    spent = time.perf_counter() - begin
    database = meta_schedule.database.JSONDatabase(work_dir=str(directory))
    schedule = meta_schedule.tir_integration.compile_tir(database, module, target)
    if schedule is None:
        raise RuntimeError(f"none of its {_recorded(directory)} programs could be measured")
    built = tvm.compile(schedule.mod, target)
    output = np.full([int(n) for n in tensors[-1].shape], np.nan, np.float32)
    device = tvm.cpu()
    held = [tvm.runtime.tensor(array, device) for array in (*arrays, output)]
    run = built[_NAME]

    def timed(seconds: float) -> list[float]:
        evaluate = built.mod.time_evaluator(
            _NAME, device, number=1, repeat=1, min_repeat_ms=int(max(_BATCH_MS, seconds * 200))
        )
        return [evaluate(*held).mean for _ in range(5 if seconds else 1)]

    return Program(
        "tuned",
        lambda: run(*held),
        held[-1].numpy,
        timed,
        spent if has_tuned else 0.0,
        _recorded(directory),
    )


def _tune(module: Any, target: Any, directory: Path, trials: int) -> bool:
    """Measure what is missing to `trials` programs; return whether there was something."""
    asked = directory / "asked"  # a space may hold fewer programs than were asked for
    if asked.exists() and int(asked.read_text()) >= trials:
        return False
    directory.mkdir(parents=True, exist_ok=True)
    logging.getLogger("tvm").setLevel(logging.INFO)
    missing = trials - _recorded(directory)
    if missing > 0:
        meta_schedule.tune_tir(
            module,
            target,
            str(directory),
            missing,
            num_trials_per_iter=min(_ROUND, missing),
            seed=1,
        )
    asked.write_text(str(trials))
    return missing > 0


def _recorded(directory: Path) -> int:
    path = directory / "database_tuning_record.json"
    return len(path.read_text().splitlines()) if path.exists() else 0
