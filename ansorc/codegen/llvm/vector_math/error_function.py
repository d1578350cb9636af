"""erf: a polynomial up to 1; above, 1 - erfc(x) with erfc(x) = exp(q(x)), q a polynomial too.

erfc falls as fast as exp(-x²), so log(erfc(x)) is nearly a parabola, and the larger x the less its
error matters: q has the least error in erfc. Where erf rounds to 1, x is cut off. In float32, where
an instruction finds one of 16 numbers for each lane, 16 parts of x have their own polynomials.
"""

from __future__ import annotations

from ansorc.codegen.llvm.vector_math.exponential import exp_of_negative
from ansorc.codegen.llvm.vector_math.vector_writer import VectorWriter
from ansorc.codegen.llvm.vector_math.whole_registers import look_up

ERF_RATIO = {
    32: (
        0.1283791657268959, -0.3761262582465787, 0.11283585150468704, -0.02685381196452193,
        0.005188327691803805, -0.0008010193377532346, 7.853859729796067e-05,
    ),
    64: (
        0.12837916709551256, -0.3761263890318352, 0.11283791670944185, -0.026866170643111448,
        0.005223977606118318, -0.0008548325929307153, 0.0001205529357668895,
        -1.4924712298122012e-05, 1.6447131525496877e-06, -1.6206313423431281e-07,
        1.37109790097102e-08, -7.779466000125114e-10,
    ),
}  # fmt: skip
"""erf(x) / x - 1 of u = x² for x <= 1, by the format's bits; from bench/minimax.py."""

LOG_ERFC = {
    32: (
        -0.00035374618936393496, -1.1270399266767308, -0.6382258599338638, -0.10303720956333572,
        0.021805242103454935, -0.0029395883060212903, 0.0001855720861797113,
    ),
    64: (
        -5.132429440842615e-07, -1.128373991707411, -0.6366440550685302, -0.1027022900137513,
        0.018988042687990443, 0.0004135353300477751, -0.0019189439819324438,
        0.0007730414762277342, -0.00013655300103825304, -1.952448846693296e-05,
        2.2533558366533093e-05, -8.57900223209776e-06, 2.1148543418593977e-06,
        -3.695755243395674e-07, 4.5934570783709475e-08, -3.890138968874419e-09,
        2.020414387624797e-10, -4.865290109434379e-12,
    ),
}  # fmt: skip
"""log(erfc(x)) for 1 <= x <= 4 (32 bits) and 6; from bench/minimax.py."""


ERF_PARTS = (
    (
        0.0, 0.280463008, 0.527338479, 0.718623808, 0.849086035, 0.927408147, 0.968796352,
        0.988047501, 0.995929182, 0.998769434, 0.999670306, 0.999921801, 0.999983596, 0.999996959,
        0.999999502, 0.999999928,
    ),
    (
        1.12837917, 1.05792976, 0.871890675, 0.631641573, 0.402237775, 0.22516375, 0.110794337,
        0.0479225724, 0.0182207466, 0.00608969739, 0.0017890761, 0.000462025069, 0.000104883215,
        2.09290881e-05, 3.67112073e-06, 5.66045472e-07,
    ),
    (
        2.41447299e-07, -0.268610446, -0.442751419, -0.481130378, -0.408523416, -0.28585484,
        -0.168790323, -0.0851757694, -0.0370108748, -0.013915573, -0.0045422799, -0.00129025583,
        -0.00031949585, -6.90584933e-05, -1.30430038e-05, -2.15426722e-06,
    ),
    (
        -0.376140359, -0.307197277, -0.140754095, 0.03376934, 0.142521142, 0.166877911,
        0.134495903, 0.0849508778, 0.0440461021, 0.019170234, 0.00709272669, 0.00224855792,
        0.000614060992, 0.000145001183, 2.96885245e-05, 5.28173904e-06,
    ),
    (
        0.000269990898, 0.127623359, 0.18220811, 0.146944743, 0.0639362291, -0.0101582764,
        -0.045769082, -0.0469243878, -0.0324010531, -0.0173325181, -0.00754966202, -0.00274317639,
        -0.000843033999, -0.000221060092, -4.97555597e-05, -9.65376391e-06,
    ),
    (
        0.111033385, 0.0800076548, 0.00589037904, -0.0543067358, -0.0682505482, -0.0446177853,
        -0.0123824785, 0.00781509266, 0.0130190461, 0.0100172821, 0.00549852321, 0.00237212843,
        0.000836851481, 0.000246476635, 6.13652581e-05, 1.30209714e-05,
    ),
)  # fmt: skip
"""Coefficients of erf(x) for 16 parts of x <= 3.93, each of the distance from its middle, for 32
bits: those of the lowest power first, erf of the middles; from bench/minimax.py."""

_PART = 65 / 256
"""From middle to middle: the last part ends where erf(x) rounds to 1."""


def erf(w: VectorWriter, x: str) -> str:
    """Return the error function of x."""
    if w.shape.bits == 32 and w.shape.table == 16:
        return _erf_in_parts(w, x)
    size = w.at_most(w.call("fabs", x), 4.0 if w.shape.bits == 32 else 6.0)
    near = w.fma(x, w.polynomial(ERF_RATIO[w.shape.bits], w.mul(x, x)), x)
    rest = exp_of_negative(w, w.polynomial(LOG_ERFC[w.shape.bits], size))
    far = w.call("copysign", w.sub(w.number(1.0), rest), x)
    return w.select(w.compare("olt", size, w.number(1.0)), near, far)


def _erf_in_parts(w: VectorWriter, x: str) -> str:
    """Return the polynomial of the part in which x lies, its coefficients looked up."""
    size = w.at_most(w.call("fabs", x), 15.49 * _PART)
    part, bits = w.whole_product(size, 1 / _PART, 0)
    distance = w.fma(part, w.number(-_PART), size)
    *rest, value = (look_up(w, coefficients, bits) for coefficients in ERF_PARTS)
    for coefficient in reversed(rest):
        value = w.fma(value, distance, coefficient)
    return w.call("copysign", value, x)
