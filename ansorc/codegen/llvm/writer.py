"""Collect the text of an LLVM module and of one function of it, with code hoisted out of loops."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager

from ansorc.codegen.llvm.loops import Counters
from ansorc.codegen.llvm.types import Value
from ansorc.ir.fault import FaultSite
from ansorc.target import Target

Lines = list["str | list[str]"]


_ROOM_IN_PLACE = 200
"""Instructions of math functions that a module has in place. A call costs about as many cycles as
exp on one vector; but copies at every use would take longer to compile than they save."""


ONCE = "noinline optnone nounwind"
"""The attributes of what runs once a call or a part of a parallel loop: not worth LLVM's time,
which is about 1 ms a function."""


STREAMED = "!2"
"""The metadata of a store past the caches."""


RARE = "!3"
"""The metadata of a branch that is hardly ever taken."""


class ModuleWriter:
    """The parts of a module: functions, declarations and metadata."""

    def __init__(
        self, target: Target, *, is_guarded: bool = False, has_tiles: bool = False
    ) -> None:
        self.target = target
        self.is_guarded = is_guarded
        self.has_tiles = has_tiles
        """Whether its code uses the tile registers of AMX."""
        self.functions: list[str] = []
        self._library: dict[str, str] = {}
        self._room = _ROOM_IN_PLACE
        self._declarations: dict[str, None] = {}
        self._metadata = [
            '!0 = !{!"llvm.loop.unroll.disable"}',
            '!1 = !{!"llvm.loop.vectorize.enable", i1 false}',
            f"{STREAMED} = !{{i32 1}}",
            f'{RARE} = !{{!"branch_weights", i32 1, i32 1048576}}',
        ]
        self.fault_sites: tuple[FaultSite, ...] = ()
        """The subjects of the kernel's checks."""
        self.tile_shapes: dict[str, int] = {}
        """The configurations of tile registers, and their numbers."""
        self.fault_function = ""
        """The function that a failed check calls."""

    @property
    def rounds_to_bfloat(self) -> bool:
        """Whether the machine converts float32 to bfloat16 exactly as the IR means it."""
        return not self.target.is_x86 and "bf16" in self.target.features

    def declare(self, text: str) -> None:
        """Add a declaration, once."""
        self._declarations[text] = None

    def define(self, symbol: str, definition: str) -> None:
        """Add a function that several places call, once."""
        self._library[symbol] = definition

    def has_room(self, instructions: int) -> bool:
        """Whether a function of that length may be written in place; takes the room if so."""
        if not 0 < instructions <= self._room:
            return False
        self._room -= instructions
        return True

    def loop_metadata(self) -> str:
        """Return a fresh `!llvm.loop` node: the schedule has unrolled and vectorised already."""
        number = len(self._metadata)
        self._metadata.append(f"!{number} = distinct !{{!{number}, !0, !1}}")
        return f"!{number}"

    def text(self) -> str:
        """The whole module."""
        parts = [*self.functions, *self._library.values(), *self._declarations, *self._metadata]
        return "\n".join([*parts, ""])


class CodeRegion:
    """Code that runs as a whole: a function, one iteration of a loop, or an arm of an if."""

    def __init__(self) -> None:
        self.landing: list[str] | None = None
        """Where code for this scope goes while an inner scope is being written."""
        self.memo: dict[object, str] = {}
        """Names of values computed in this scope."""
        self.loads: dict[str, dict[object, Value]] = {}
        """For each buffer, the values loaded from it since it was last stored to."""
        self.used: dict[str, int] = {}
        """For each of these values, by its name, the step of a tile that used it last."""
        self.counters: Counters | None = None
        """The counters that the iterations of an innermost loop advance, inside of one."""


class FunctionWriter:
    """The body of one LLVM function, written front to back.

    Addresses are hoisted: `emit_at(depth, …)` puts code just before the inner scope now being
    written, in the scope that is `depth` scopes deep.
    """

    def __init__(self, module: ModuleWriter) -> None:
        self.module = module
        self.scopes = [CodeRegion()]
        self.allocas: list[str] = []
        self._lines: Lines = []
        self._count = 0
        self.block = "%entry"
        self.step = 0
        """Steps of register tiles written so far."""
        self.has_streams = False
        """Whether it stores past the caches."""

    @property
    def depth(self) -> int:
        """How many scopes surround the code being written."""
        return len(self.scopes) - 1

    def name(self, prefix: str = "t") -> str:
        """Return a fresh name."""
        self._count += 1
        return f"%{prefix}{self._count}"

    def line(self, text: str) -> None:
        """Write an instruction without result."""
        self._lines.append(f"  {text}")

    def emit(self, text: str) -> str:
        """Write an instruction here; return the name of its result."""
        self._count += 1
        name = f"%t{self._count}"
        self._lines.append(f"  {name} = {text}")
        return name

    def emit_at(self, depth: int, text: str) -> str:
        """Write a pure instruction in the scope at `depth`; return the name of its result."""
        landing = self.scopes[depth].landing
        if landing is None:
            return self.emit(text)
        name = self.name()
        landing.append(f"  {name} = {text}")
        return name

    def start_block(self, name: str) -> None:
        """Begin the basic block `name`."""
        self._lines.append(f"{name[1:]}:")
        self.block = name

    @contextmanager
    def inner_scope(self) -> Generator[None]:
        """Open the landing of the current scope, and a scope inside it; write its jump first."""
        self.scopes.append(CodeRegion())
        yield
        self.scopes.pop()

    def fence(self) -> None:
        """Keep the loads after this after those before.

        LLVM would put loads of neighbouring addresses together, at any distance, and so make
        unrolled steps hold more registers than each of them needs. Processors that execute in
        order gain by earlier loads.
        """
        if self.module.target.is_x86:
            self.line('call void asm sideeffect "", "~{memory}"()')

    def next_step(self, tile: int) -> None:
        """Begin another step of a register tile of `tile` vectors.

        What the steps before have loaded is loaded again unless it has room beside the tile.
        """
        self.fence()
        scope, target = self.scopes[-1], self.module.target
        room = 8 * target.vector_bytes * (target.vector_registers - tile)
        groups: dict[int, int] = {}
        for loads in scope.loads.values():
            for value in loads.values():
                step = scope.used[value.text]
                groups[step] = groups.get(step, 0) + value.dtype.bits * value.dtype.lanes
        kept = set[int]()
        for step in sorted(groups, reverse=True):
            room -= groups[step]
            if room < 0:
                break
            kept.add(step)
        for name, loads in scope.loads.items():
            reused = {key: value for key, value in loads.items() if scope.used[value.text] in kept}
            scope.loads[name] = reused
        self.step += 1

    def finish_streams(self) -> None:
        """Let other threads see what was stored past the caches, which x86 does not order."""
        if self.has_streams and self.module.target.is_x86:
            self.module.declare("declare void @llvm.x86.sse.sfence()")
            self.line("call void @llvm.x86.sse.sfence()")

    def insert(self, lines: list[str]) -> None:
        """Write, here, what `lines` will hold in the end."""
        self._lines.append(lines)

    def open_landing(self) -> None:
        """Reserve a place, here, for code of the current scope that inner scopes will need."""
        landing: list[str] = []
        self._lines.append(landing)
        self.scopes[-1].landing = landing

    def close_landing(self) -> None:
        """Code of the current scope goes to where the writer is again."""
        self.scopes[-1].landing = None

    def forget_loads(self, buffers: Iterable[str]) -> None:
        """Loads of `buffers` must not be reused from here on."""
        for buffer in buffers:
            for scope in self.scopes:
                scope.loads.pop(buffer, None)

    def text(self) -> str:
        """The body, entry block first, without the function's braces."""
        lines: list[str] = ["entry:", *self.allocas]
        for item in self._lines:
            if isinstance(item, str):
                lines.append(item)
            else:
                lines.extend(item)
        return "\n".join(lines)
