"""Layout rewrite: constant operands of tiles are kept in the order in which the tile reads them.

Unlike a panel that is packed inside the kernel (`ansorc.search.sketch.packing`) this costs no time
there: the operand is packed once, before the first call, and its packing is not timed.
"""

from __future__ import annotations

from dataclasses import replace

from ansorc.errors import ScheduleError
from ansorc.schedule.steps import RewriteLayout
from ansorc.search.sketch.sketch import Sketch


def laid_out(sketch: Sketch) -> Sketch:
    """Return `sketch` with the layout of every constant that a tile reads rewritten.

    A constant that is not read by one stage alone, along its axes, stays as it is. (Paper, section
    4.2; there it is done to every sampled program.)
    """
    state = sketch.state
    words = [sketch.name] if sketch.name else []
    for tile in sketch.register_tiles:
        for buffer in state.stage(tile.stage).op.reads:
            if not buffer.constant:
                continue
            try:
                state = state.then(RewriteLayout(tile.stage, buffer.name))
            except ScheduleError:
                continue  # another stage reads it too, or by indices that do not step along axes
            words.append(f"lay out {buffer.name}")
    return replace(sketch, name=", ".join(words), steps=state.steps)
