"""`GraphVariants`: one network for several shapes of its inputs, a graph for each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

from ansorc.errors import GraphError
from ansorc.graph.graph import Graph

Shape: TypeAlias = Sequence[int]
ShapeChoice: TypeAlias = Shape | Sequence[Shape]
"""The shape of an input, or one for each variant."""


@dataclass(frozen=True, eq=False)
class GraphVariants:
    """The graphs of one network, in the order in which their shapes were given.

    They have the same inputs and outputs by name; raise GraphError where they have not, and where
    two of them have the same shapes.
    """

    graphs: tuple[Graph, ...]

    def __post_init__(self) -> None:
        first, shapes = self.graphs[0], set[tuple[object, ...]]()
        for graph in self.graphs:
            if list(graph.inputs) != list(first.inputs) or graph.outputs != first.outputs:
                raise GraphError(
                    f"'{first.name}' has other inputs or outputs for {shapes_text(graph)} than for "
                    f"{shapes_text(first)}; import them one by one"
                )
            own_shapes = tuple(kind.shape for kind in graph.inputs.values())
            if own_shapes in shapes:
                raise GraphError(
                    f"the shapes {shapes_text(graph)} of '{first.name}' are given twice"
                )
            shapes.add(own_shapes)

    @property
    def name(self) -> str:
        """The name of the network."""
        return self.graphs[0].name

    def __str__(self) -> str:
        return "\n".join(f"{self.name} for {shapes_text(graph)}\n{graph}" for graph in self)

    def __repr__(self) -> str:
        shapes = " | ".join(map(shapes_text, self.graphs))
        return f"<GraphVariants {self.name} for {shapes}>"

    def __iter__(self) -> Iterator[Graph]:
        return iter(self.graphs)

    def suffixes(self) -> tuple[str, ...]:
        """Return a suffix of C names for each graph: "1x3x32x32", from the inputs that differ."""
        listed = [list(graph.inputs.values()) for graph in self.graphs]
        differing = [
            position
            for position in range(len(listed[0]))
            if len({kinds[position].shape for kinds in listed}) > 1
        ] or list(range(len(listed[0])))
        return tuple(
            "_".join(
                "x".join(map(str, kinds[position].shape)) or "scalar" for position in differing
            )
            for kinds in listed
        )


def shapes_text(graph: Graph) -> str:
    """Return the inputs' shapes for people: "x: 1x3x32x32, mask: 1x7"."""
    return ", ".join(f"{n}: {'x'.join(map(str, t.shape))}" for n, t in graph.inputs.items())


def shape_combinations(
    given: Mapping[str, ShapeChoice],
) -> Sequence[Mapping[str, Shape]] | None:
    """Return the shapes of each variant that `given` asks for; None where it asks for one graph.

    Lists of shapes go together, the first with the first; other shapes are those of all variants.
    Raise GraphError for lists of different lengths.
    """
    lists = {name: choice for name, choice in given.items() if _is_list_of_shapes(choice)}
    if not lists:
        return None
    lengths = {name: len(choice) for name, choice in lists.items()}
    if len(set(lengths.values())) > 1:
        words = ", ".join(f"{count} for '{name}'" for name, count in lengths.items())
        raise GraphError(f"as many shapes are needed of each input that has a list: {words}")
    count = next(iter(lengths.values()))
    return [
        {
            name: cast(Shape, choice[n] if name in lists else choice)
            for name, choice in given.items()
        }
        for n in range(count)
    ]


def _is_list_of_shapes(choice: Any) -> bool:
    if not isinstance(choice, (list, tuple)) or not choice:
        return False
    return all(isinstance(shape, (list, tuple)) for shape in cast("Sequence[object]", choice))
