"""erf: a polynomial up to 1; above, 1 - erfc(x) with erfc(x) = exp(q(x)), q a polynomial too.

erfc falls as fast as exp(-x²), so log(erfc(x)) is nearly a parabola, and the larger x the less its
error matters: q has the least error in erfc. Where erf rounds to 1, x is cut off.
"""

from __future__ import annotations

from ansorc.codegen.vector_math.exponential import exp_of_negative
from ansorc.codegen.vector_math.vector_writer import VectorWriter

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


def erf(w: VectorWriter, x: str) -> str:
    """Return the error function of x."""
    size = w.at_most(w.call("fabs", x), 4.0 if w.shape.bits == 32 else 6.0)
    near = w.fma(x, w.polynomial(ERF_RATIO[w.shape.bits], w.mul(x, x)), x)
    rest = exp_of_negative(w, w.polynomial(LOG_ERFC[w.shape.bits], size))
    far = w.call("copysign", w.sub(w.number(1.0), rest), x)
    return w.select(w.compare("olt", size, w.number(1.0)), near, far)
