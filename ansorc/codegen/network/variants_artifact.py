"""Write networks for several shapes as one library, with one header and one manifest."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ansorc.codegen.network.artifact import (
    MakeObjects,
    link_network_library,
    path_of_embedded_weights,
    require_embeddable,
    write_weights,
)
from ansorc.codegen.network.header import network_header_text
from ansorc.codegen.network.plan import NetworkPlan
from ansorc.codegen.network.variants import VariantsPlan, choosing_extents, joint_signature
from ansorc.codegen.package.artifact import Artifact, artifact_at
from ansorc.codegen.package.c_names import c_names
from ansorc.codegen.package.files import replace_together, write_synced
from ansorc.codegen.package.header import declaration
from ansorc.codegen.package.manifest import (
    NetworkManifest,
    VariantsManifest,
    kernel_version,
    variants_manifest_text,
)
from ansorc.codegen.package.signature import NO_SUCH_SHAPE
from ansorc.target import Target


def write_variants(
    path: Path, plan: VariantsPlan, make_objects: MakeObjects, target: Target
) -> Artifact:
    """Write `path` (.so, .a or .o) with a .h and a .json beside it, replacing older ones.

    The weights are inside, once. Raises BuildError as `write_network` does.
    """
    artifact = artifact_at(path)
    require_embeddable(plan.plans[0])
    with replace_together([artifact.header, artifact.manifest, path]) as (header, json, made):
        digest = write_weights(path_of_embedded_weights(made), plan.weights, has_header=False)
        objects = make_objects(digest)
        version = kernel_version(b"".join([*objects.files, digest]))
        manifests = [_manifest(each, version, target) for each in plan.plans]
        manifest = VariantsManifest(plan.name, target, version, tuple(manifests))
        needs_runtime = any(each.needs_runtime for each in plan.plans)
        link_network_library(
            made, plan.name, objects, target, has_weights=True, needs_runtime=needs_runtime,
            version=version,
        )  # fmt: skip
        write_synced(header, _header_text(plan.name, manifests).encode())
        write_synced(json, variants_manifest_text(manifest, made).encode())
    return artifact


def _manifest(plan: NetworkPlan, version: str, target: Target) -> NetworkManifest:
    names = tuple(call.name for call in plan.calls)
    size, precision = plan.weights.nbytes, plan.precision
    return NetworkManifest(plan.signature, target, version, names, size, None, precision)


def _header_text(name: str, manifests: Sequence[NetworkManifest]) -> str:
    """The headers of all networks, and the function that picks one."""
    signatures = [manifest.signature for manifest in manifests]
    joint, choices = joint_signature(name, signatures), choosing_extents(signatures)
    extents = [f"{joint.params[number].name}_dim{d}" for number, d in choices]
    names = c_names([*(param.name for param in joint.params), *extents])
    arrays, more = names[: len(joint.params)], names[len(joint.params) :]
    prefix = name.upper()
    declarations = [
        f"#ifndef ANSORC_VARIANTS_{name}_H\n#define ANSORC_VARIANTS_{name}_H",
        f"#ifndef ANSORC_NO_SUCH_SHAPE\n#define ANSORC_NO_SUCH_SHAPE {NO_SUCH_SHAPE}"
        " /* there is no network for these extents */\n#endif",
        f"#define {prefix}_VARIANTS {len(manifests)}\n"
        f"#define {prefix}_WORKSPACE_BYTES {joint.workspace_bytes} /* enough for each of them */",
        '#ifdef __cplusplus\nextern "C" {\n#endif',
        "/* Run the network above whose inputs have the extents that come last, as a call of it\n"
        "   does; ANSORC_NO_SUCH_SHAPE if there is none. */\n"
        + declaration(joint, arrays, name, *(f"int64_t {each}" for each in more)),
        "/* What a status means, for people; never NULL. */\n"
        f"const char *{name}_status_text(int32_t status);",
        "#ifdef __cplusplus\n}\n#endif",
        "#endif",
    ]
    return "\n".join([*map(network_header_text, manifests), "\n\n".join(declarations) + "\n"])
