"""`ShapedNetworks`: one network for several shapes of its inputs, each prepared for one target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ansorc.graph.graph_variants import GraphVariants
from ansorc.graph.network import Network
from ansorc.target import Target


@dataclass(frozen=True, eq=False)
class ShapedNetworks:
    """The graphs of `variants` as networks, in their order."""

    variants: GraphVariants
    networks: tuple[Network, ...]

    @staticmethod
    def of(variants: GraphVariants, target: Target | str = "native") -> ShapedNetworks:
        """Prepare each graph for `target`; nothing is measured or compiled."""
        return ShapedNetworks(
            variants, tuple(Network.of(graph, target) for graph in variants.graphs)
        )

    @property
    def target(self) -> Target:
        """The machine that all of them are made for."""
        return self.networks[0].target

    def by_name(self, title: str) -> Mapping[str, Network]:
        """Return the networks by their names in C, which begin with `title`."""
        pairs = zip(self.variants.suffixes(), self.networks, strict=True)
        return {f"{title}_{suffix}": network for suffix, network in pairs}
