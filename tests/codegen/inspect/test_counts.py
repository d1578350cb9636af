"""The loops of small handwritten assembly texts, and what their instructions count as."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ansorc.codegen.inspect.assembly import innermost_loops, loops, mark_loops
from ansorc.codegen.inspect.counts import Counts

ATT = """
	.text
	.p2align	4                               # -- Begin function kernel
kernel:                                 # @kernel
# %bb.0:                                # %entry
	pushq	%rbp
	movq	%rdi, 8(%rsp)                   # 8-byte Spill
.LBB0_1:                                # %loop
	xorl	%ecx, %ecx
.LBB0_2:                                # =>This Inner Loop Header: Depth=2
	vmovups	(%rsi,%rcx), %ymm0
	vfmadd231ps	32(%rsi,%rcx), %ymm0, %ymm1 # ymm1 = (ymm0 * mem) + ymm1
	vbroadcastss	(%rdx,%rcx), %ymm2
	vfmadd231ps	128(%rsp), %ymm2, %ymm3 # 32-byte Folded Reload
	vfmadd213ss	(%rdx), %xmm4, %xmm5
	vmovaps	%ymm3, 160(%rsp)                # 32-byte Spill
	vmovups	%ymm1, 64(%rsp)
	movq	8(%rsp), %rax                   # 8-byte Reload
	addq	$96, 16(%rsp)                   # 8-byte Folded Spill
	leaq	(%rax,%rcx), %rbx
	prefetcht0	(%rbx)
	vmovss	%xmm5, (%rbx)
	cmpq	%rcx, (%rbx)
	jne	.LBB0_2
# %bb.3:
	decq	%rdi
	jne	.LBB0_1
	vzeroupper
	retq
"""

INTEL = """
	.intel_syntax noprefix
kernel:
.LBB0_1:
	xor	ecx, ecx
.LBB0_2:
	vmovups	ymm0, ymmword ptr [rsi + rcx]
	vfmadd231ps	ymm1, ymm0, ymmword ptr [rsi + rcx + 32]
	vbroadcastss	ymm2, dword ptr [rdx + rcx]
	vfmadd231ps	ymm3, ymm2, ymmword ptr [rsp + 128]
	vfmadd213ss	xmm5, xmm4, dword ptr [rdx]
	vmovaps	ymmword ptr [rsp + 160], ymm3
	vmovups	ymmword ptr [rsp + 8*rcx + 64], ymm1
	mov	rax, qword ptr [rsp + 8]
	add	qword ptr [rsp + 16], 96
	lea	rbx, [rax + rcx]
	prefetcht0	byte ptr [rbx]
	vmovss	dword ptr [rbx], xmm5
	cmp	qword ptr [rbx], rcx
	jne	.LBB0_2
	dec	rdi
	jne	.LBB0_1
	ret
"""

X86 = Counts(
    instructions=14, fma=2, scalar_fma=1, loads=2, broadcasts=1, scalar_loads=2, stores=1,
    scalar_stores=1, vector_spills=1, vector_reloads=1, scalar_spills=1, scalar_reloads=2,
)  # fmt: skip

ARM = """
kernel:
	stp	x29, x30, [sp, #-16]!           // 16-byte Folded Spill
// %bb.0:
.LBB0_1:
	mov	x8, xzr
.LBB0_2:
	ldp	q0, q1, [x0, #-64]
	ldr	q2, [x1], #16
	ldr	s3, [x2, x8]
	ld1r	{ v4.4s }, [x2]
	ld1	{ v5.4s, v6.4s }, [x3]
	ld1	{ v7.s }[1], [x3]
	fmla	v16.4s, v0.4s, v3.s[0]
	fmls	v17.4s, v1.4s, v4.4s
	fmla	s18, s3, v4.s[1]
	fmadd	s19, s3, s4, s5
	sdot	v20.4s, v21.16b, v22.4b[0]
	fmul	v23.4s, v0.4s, v1.4s
	stp	q16, q17, [x4]
	str	q20, [sp, #32]                  // 16-byte Spill
	ldp	q21, q22, [sp, #64]             // 32-byte Folded Reload
	ldr	x9, [sp, #8]                    // 8-byte Reload
	str	w10, [x4, #4]
	prfm	pldl1keep, [x4]
	subs	x8, x8, #1
	b.ne	.LBB0_2
	cbnz	x1, .LBB0_1
	ret
"""

ARM_COUNTS = Counts(
    instructions=20, fma=3, scalar_fma=2, loads=5, broadcasts=1, scalar_loads=2, stores=2,
    scalar_stores=1, vector_spills=1, vector_reloads=2, scalar_reloads=1,
)  # fmt: skip

APPLE = """
_kernel:                                ; @kernel
; %bb.0:
LBB0_1:
	fmla.4s	v16, v0, v3[0]
	ld1r.4s	{ v4 }, [x2]
	ldr	q0, [x8], #16
	str	q16, [sp, #16]                  ; 16-byte Spill
	tbnz	w8, #0, LBB0_1
	ret
"""


@pytest.mark.parametrize("text", [ATT, INTEL], ids=["att", "intel"])
def test_what_x86_instructions_count_as(text: str) -> None:
    outer, inner = loops(text)
    assert (outer.label, outer.depth, outer.is_innermost) == (".LBB0_1", 1, False)
    assert (inner.label, inner.depth, inner.is_innermost) == (".LBB0_2", 2, True)
    assert inner.counts == X86
    assert inner.name == "kernel:.LBB0_2"
    assert (inner.fma, inner.loads, inner.stores, inner.spills) == (2, 5, 2, 5)
    assert outer.counts.instructions == inner.counts.instructions + 3
    lines = text.splitlines()
    assert "vmovups" in lines[inner.first_line - 1]
    assert "jne" in lines[inner.lines[-1] - 1]


def test_what_arm_instructions_count_as() -> None:
    (inner,) = innermost_loops(ARM)
    assert inner.counts == ARM_COUNTS
    assert (inner.fma, inner.loads, inner.stores, inner.spills) == (3, 8, 3, 4)


def test_apple_writes_the_lanes_behind_the_mnemonic() -> None:
    (inner,) = innermost_loops(APPLE)
    assert inner.name == "_kernel:LBB0_1"
    assert inner.counts == Counts(5, fma=1, loads=1, broadcasts=1, vector_spills=1)


def test_without_notes_a_fixed_place_on_the_stack_counts_as_a_spill() -> None:
    bare = "\n".join(line.split("//")[0] for line in ARM.splitlines())
    (inner,) = innermost_loops(bare)
    assert inner.counts == ARM_COUNTS
    local_array = ATT.replace("vmovups	%ymm1, 64(%rsp)", "vmovups	%ymm1, 64(%rsp,%rcx)")
    bare = "\n".join(line.split("#")[0] for line in local_array.splitlines())
    (inner,) = innermost_loops(bare)
    assert inner.counts == X86


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        ("vpdpbusd	(%rax){1to16}, %zmm1, %zmm2", Counts(1, fma=1, broadcasts=1)),
        ("vpdpwssd	%zmm0, %zmm1, %zmm2", Counts(1, fma=1)),
        ("vdpbf16ps	(%rax), %zmm1, %zmm2", Counts(1, fma=1, loads=1)),
        ("vfnmadd231pd	%ymm0, %ymm1, %ymm2", Counts(1, fma=1)),
        ("vpmaxsd	(%rax), %ymm1, %ymm2", Counts(1, loads=1)),
        ("vaddsd	(%rax), %xmm1, %xmm2", Counts(1, scalar_loads=1)),
        ("vmovups	(%rax), %zmm1 {%k1} {z}", Counts(1, loads=1)),
        ("vmovups	%zmm1, (%rax) {%k1}", Counts(1, stores=1)),
        ("kmovw	%k1, 4(%rax)", Counts(1, scalar_stores=1)),
        ("movl	$1, (%rax)", Counts(1, scalar_stores=1)),
        ("incl	(%rax)", Counts(1, scalar_loads=1, scalar_stores=1)),
        ("testb	$1, (%rax)", Counts(1, scalar_loads=1)),
        ("vcvtps2ph	$4, %zmm1, (%rax)", Counts(1, stores=1)),
        ("vcvtph2ps	(%rax), %zmm1", Counts(1, loads=1)),
        ("vpmovzxbd	(%rax), %zmm1", Counts(1, loads=1)),
        ("vucomiss	(%rax), %xmm1", Counts(1, scalar_loads=1)),
        ("imulq	(%rax), %rcx", Counts(1, scalar_loads=1)),
        ("vbroadcastss	%xmm0, %zmm1", Counts(1)),
        ("callq	*8(%rax)", Counts(1)),
        ("mulps	(%rax), %xmm1", Counts(1, loads=1)),
    ],
)
def test_single_x86_instructions(line: str, counts: Counts) -> None:
    (loop,) = loops(f"f:\n.L1:\n\t{line}\n\tjmp\t.L1\n")
    assert loop.counts == replace(counts, instructions=2)


@pytest.mark.parametrize(
    ("line", "counts"),
    [
        ("udot	v0.4s, v1.16b, v2.4b[1]", Counts(1, fma=1)),
        ("bfmmla	v0.4s, v1.8h, v2.8h", Counts(1, fma=1)),
        ("fmlal2	v0.4s, v1.4h, v2.4h", Counts(1, fma=1)),
        ("mla	v0.4s, v1.4s, v2.4s", Counts(1, fma=1)),
        ("fmax	v0.4s, v1.4s, v2.4s", Counts(1)),
        ("st1	{ v0.4s, v1.4s }, [x0], #32", Counts(1, stores=2)),
        ("ldur	q0, [x0, #-3]", Counts(1, loads=1)),
        ("ldp	x0, x1, [x2]", Counts(1, scalar_loads=2)),
        ("ldrb	w0, [x1, x2]", Counts(1, scalar_loads=1)),
        ("fnmsub	d0, d1, d2, d3", Counts(1, scalar_fma=1)),
    ],
)
def test_single_arm_instructions(line: str, counts: Counts) -> None:
    (loop,) = loops(f"f:\n.L1:\n\t{line}\n\tb\t.L1\n")
    assert loop.counts == replace(counts, instructions=2)


def test_marked_shows_each_innermost_loop_and_nothing_else() -> None:
    shown = mark_loops(ATT).splitlines()
    (summary,) = [line for line in shown if line.startswith("| ==")]
    assert summary == (
        "| == innermost loop kernel:.LBB0_2, depth 2: 14 instructions, 2 FMA, 1 scalar FMA, "
        "5 loads (2 vector, 1 broadcast, 2 scalar), 2 stores, 2 vector and 3 scalar spills and "
        "reloads, 0.40 FMA per load"
    )
    bars = [line for line in shown if line.startswith("|")]
    assert len(bars) == 1 + X86.instructions
    assert "\n".join(line.removeprefix("|") for line in shown if line != summary) == ATT.rstrip(
        "\n"
    )
