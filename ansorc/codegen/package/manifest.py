"""The manifest of a saved kernel: what a program must know to call it, as a JSON file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from ansorc.codegen.package.signature import Signature
from ansorc.errors import AnsorcError, BuildError
from ansorc.target import Target

FORMAT = 3
"""Since 2 weights may be packed: `shape` is what the kernel reads, `packing` how to get there.
Since 3 they may be transformed before."""
_SAMPLES, _SAMPLE_BYTES = 64, 1 << 14
"""Blocks of a library, and bytes of each, that are hashed when it is loaded: 1 MiB in all."""


@dataclass(frozen=True)
class Manifest:
    """The content of the manifest of a saved kernel."""

    signature: Signature
    target: Target
    version: str
    """The release of ansorc and the first digits of the object code's hash."""


@dataclass(frozen=True)
class NetworkManifest(Manifest):
    """The content of the manifest of a saved network."""

    call_names: tuple[str, ...]
    """The names of the kernels' calls, in their order."""
    weights_bytes: int
    weights_file: str | None
    """Where the weights are, from the library's directory; None: inside it."""
    precision: str = "f32"
    """The type that weights and tensors between kernels are kept in, as that of a `NetworkPlan`."""


@dataclass(frozen=True)
class VariantsManifest:
    """The content of the manifest of networks for several shapes in one library."""

    name: str
    target: Target
    version: str
    networks: tuple[NetworkManifest, ...]


def kernel_version(object_code: bytes) -> str:
    """Return the release of ansorc and a hash of the code, such as `0.1.0+1f3a5c7e9b2d`."""
    metadata = import_module("importlib.metadata")  # slow, and nothing is loaded by it
    return f"{metadata.version('ansorc')}+{hashlib.sha256(object_code).hexdigest()[:12]}"


def manifest_text(manifest: Manifest, library: Path) -> str:
    """Return the JSON text for the library in the file `library`."""
    document = {
        "format": FORMAT,
        "version": manifest.version,
        "target": manifest.target.text,
        **manifest.signature.to_json(),
        "workspace_alignment": 64,
        **_hashes(library),
    }
    if isinstance(manifest, NetworkManifest):
        weights = {"bytes": manifest.weights_bytes, "file": manifest.weights_file}
        told = {"calls": manifest.call_names, "weights": weights, "precision": manifest.precision}
        document |= {"network": told}
    return json.dumps(document, indent=2) + "\n"


def variants_manifest_text(manifest: VariantsManifest, library: Path) -> str:
    """Return the JSON text for the library of several networks in the file `library`."""
    networks = [
        {**n.signature.to_json(), "calls": n.call_names, "precision": n.precision}
        for n in manifest.networks
    ]
    document = {
        "format": FORMAT,
        "version": manifest.version,
        "target": manifest.target.text,
        "name": manifest.name,
        "variants": networks,
        "weights": {"bytes": manifest.networks[0].weights_bytes, "file": None},
        "workspace_alignment": 64,
        **_hashes(library),
    }
    return json.dumps(document, indent=2) + "\n"


def read_manifest(library: Path, *, verify: bool = False) -> Manifest | VariantsManifest:
    """Return the manifest beside `library`, of a kernel, a network or several.

    Raise BuildError if the two do not fit together. Of a large library only samples are read, its
    beginning with the linker's build ID among them; with `verify` every byte is.
    """
    path = library.with_suffix(".json")
    try:
        text, sample = path.read_text(encoding="utf-8"), _sample(library)
    except (OSError, UnicodeDecodeError) as error:
        raise BuildError(
            f"{library} cannot be loaded: {error}; it and its .json must lie side by side"
        ) from error
    try:
        document = json.loads(text)
        known = document["sha256"], document.get("sample")
        manifest = _manifest(document)
    except (ValueError, KeyError, TypeError, AttributeError, AnsorcError) as error:
        raise BuildError(
            f"{path} is not the manifest of a kernel ({type(error).__name__}: {error}); "
            "save the kernel again"
        ) from error
    is_whole = verify or known[1] is None  # older releases wrote no sample
    if known[1] not in (sample, None) or (is_whole and known[0] != _sha256(library)):
        raise BuildError(f"{path} describes another build of {library}; save the kernel again")
    return manifest


def _hashes(library: Path) -> dict[str, str]:
    return {"sha256": _sha256(library), "sample": _sample(library)}


def _sample(library: Path) -> str:
    """The hash of a file's size and of blocks spread evenly over it, the first and last included.

    Two builds differ in their build IDs, at the beginning, whatever else they have in common.
    """
    with library.open("rb") as file:
        size = file.seek(0, 2)
        digest = hashlib.sha256(size.to_bytes(8, "little"))
        last = max(0, size - _SAMPLE_BYTES)
        for number in range(_SAMPLES):
            file.seek(last * number // (_SAMPLES - 1))
            digest.update(file.read(_SAMPLE_BYTES))
    return digest.hexdigest()


def _sha256(library: Path) -> str:
    """The hash of a file, which may be too large to be held in memory."""
    with library.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _manifest(document: Mapping[str, Any]) -> Manifest | VariantsManifest:
    if document["format"] != FORMAT:
        raise ValueError(f"its format is {document['format']}, this release reads {FORMAT}")
    target, version = Target.parse(document["target"]), str(document["version"])
    if "variants" in document:
        size, networks = int(document["weights"]["bytes"]), list[NetworkManifest]()
        for each in document["variants"]:
            called = Signature.from_json(each), target, version, tuple(map(str, each["calls"]))
            networks.append(NetworkManifest(*called, size, None, _precision(each)))
        return VariantsManifest(str(document["name"]), target, version, tuple(networks))
    signature = Signature.from_json(document)
    network = document.get("network")
    if network is None:
        return Manifest(signature, target, version)
    names, weights = tuple(map(str, network["calls"])), network["weights"]
    file = None if weights["file"] is None else str(weights["file"])
    size = int(weights["bytes"])
    return NetworkManifest(signature, target, version, names, size, file, _precision(network))


def _precision(network: Mapping[str, Any]) -> str:
    """Return the precision in the manifest of a network; earlier releases computed in float32."""
    return str(network.get("precision", "f32"))
