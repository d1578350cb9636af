"""The sides of the comparison: one module each, run in a process of its own by `serve`.

A module says which `versions` it has and makes `programs` of a problem. Only the modules of ansorc
itself import ansorc: a peer's process holds the peer's libraries and NumPy, nothing else.
"""

from __future__ import annotations

from pathlib import Path

from ansorc.compare.side import PeerInfo

__all__ = ["LIMIT", "OWN", "PEERS", "ROOT", "PeerInfo"]
ROOT = Path(__file__).parents[2]
"""Of the checkout, where `python -m bench` finds its modules."""
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
