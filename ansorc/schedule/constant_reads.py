"""Check that the layout of a tensor may follow its reader: one stage, which steps along axes."""

from __future__ import annotations

from ansorc.ir.arith.affine import affine
from ansorc.ir.expr import Load
from ansorc.ir.node import walk
from ansorc.ir.printer import expr_text
from ansorc.schedule.state import State


def unfit_read(state: State, tensor: str) -> str:
    """Return why the layout of the input `tensor` cannot follow its reader; "" if it can.

    Each index must be affine, and no axis of the reader may move two of them.
    """
    readers = state.readers(tensor)
    if len(readers) != 1:
        names = " and ".join(f"'{reader.name}'" for reader in readers)
        return f"'{tensor}' is read by {names or 'no stage'}; a layout follows the loops of one"
    (reader,) = readers
    loads = {load for load in reader.op.loads if load.buffer.name == tensor}
    if len({load.indices for load in loads}) > 1:
        texts = " and ".join(sorted(expr_text(load) for load in loads))
        return f"'{reader.name}' reads it as {texts}; one layout cannot follow both"
    if reader.op.scan is not None:
        nodes = (node for init in reader.op.inits for node in walk(init))
        if any(isinstance(node, Load) and node in loads for node in nodes):
            return f"'{reader.name}' is a scan that reads it before its first step"
        if reader.op.scan.is_reversed:
            return f"'{reader.name}' is a scan that begins at the end"
        terms = (node for each in reader.op.step_sums for node in walk(each.body))
        if any(isinstance(node, Load) and node in loads for node in terms):
            return f"'{reader.name}' is a scan that reads it in a reduction in its steps"
    return _unfit_index(next(iter(loads)))


def _unfit_index(load: Load) -> str:
    seen: set[str] = set()
    for index in load.indices:
        form = affine(index)
        if form is None:
            return f"the index {expr_text(index)} of {expr_text(load)} does not step along axes"
        if twice := ", ".join(sorted(seen & form.terms.keys())):
            return f"the axis {twice} moves two indices of {expr_text(load)}"
        seen |= form.terms.keys()
    return ""
