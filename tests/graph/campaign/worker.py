"""`python -m tests.graph.campaign.worker SOURCE FIRST LAST`: compare networks.

A line of JSON for each of the networks FIRST to LAST - 1.
SOURCE is `own`, `nnsmith`, or `tuned`: networks of our own, with programs of a short search. It is
a process of its own, so that a crash costs one network.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import asdict

import onnx

import ansorc as ac
from ansorc.ir.aligned import Array
from tests.graph.campaign.compare_networks import Outcome, compare
from tests.graph.campaign.nnsmith_models import NnsmithModels
from tests.graph.campaign.random_networks import random_network
from tests.graph.campaign.tuned_network import build_tuned


def source(name: str) -> Callable[[int], tuple[onnx.ModelProto, dict[str, Array], bool]]:
    """Return what draws a network by its seed."""
    if name in ("own", "tuned"):
        return random_network
    models = NnsmithModels()
    return lambda seed: (*models.draw(seed), False)


def main() -> None:
    draw = source(sys.argv[1])
    build = build_tuned if sys.argv[1] == "tuned" else ac.build
    for seed in range(int(sys.argv[2]), int(sys.argv[3])):
        print(json.dumps({"seed": seed, "kind": "started"}), flush=True)  # noqa: T201
        try:
            model, inputs, is_quantised = draw(seed)
        except Exception as error:  # noqa: BLE001, a fuzzer that fails is no fault of ansorc
            outcome = Outcome("not drawn", 0.0, f"{type(error).__name__}: {error}"[:200])
        else:
            outcome = compare(model, inputs, is_quantised=is_quantised, build=build)
        print(json.dumps({"seed": seed, **asdict(outcome)}), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
