"""The sides of the comparison: one module each, run in a process of its own by `serve`.

A module says which `versions` it has and makes `programs` of a problem. Only the modules of ansorc
itself import ansorc: a peer's process holds the peer's libraries and NumPy, nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PeerInfo:
    """An entry of the table of peers."""

    name: str
    """What `--peers` takes."""
    module: str
    label: str
    """In tables and charts."""
    install: str = ""
    """What to do where it is missing."""


_ALL = "pip install -e '.[peers]'"

OWN = PeerInfo("ansorc", "bench.peers.own", "ansorc")
LIMIT = PeerInfo("limit", "bench.peers.limit", "limit of the machine")
PEERS: tuple[PeerInfo, ...] = (
    PeerInfo("torch", "bench.peers.pytorch", "PyTorch", "pip install -e '.[bench]'"),
    PeerInfo("torch-compile", "bench.peers.pytorch_compiled", "torch.compile", _ALL),
    PeerInfo("onnxruntime", "bench.peers.onnx_runtime", "ONNX Runtime", _ALL),
    PeerInfo("openvino", "bench.peers.open_vino", "OpenVINO", _ALL),
    PeerInfo("numpy", "bench.peers.numpy_blas", "NumPy"),
    PeerInfo("tvm", "bench.peers.meta_schedule", "TVM MetaSchedule", _ALL),
    PeerInfo("halide", "bench.peers.halide_adams", "Halide Adams2019", _ALL),
)
"""Whom ansorc is compared with, in the order of tables and charts."""
