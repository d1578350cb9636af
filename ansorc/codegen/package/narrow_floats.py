"""The C types of floats of 16 bits in headers, and functions that convert them."""

from __future__ import annotations

NARROW_FLOATS = """\
#ifndef ANSORC_NARROW_FLOATS
#define ANSORC_NARROW_FLOATS
#include <string.h>

typedef uint16_t ansorc_f16;  /* the bits of IEEE binary16, as of _Float16 */
typedef uint16_t ansorc_bf16; /* the upper half of the bits of a float */

static inline float ansorc_float_of_bf16(ansorc_bf16 narrow) {
    uint32_t bits = (uint32_t)narrow << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Rounded to nearest even; a NaN stays one. */
static inline ansorc_bf16 ansorc_bf16_of_float(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) {
        return (ansorc_bf16)((bits >> 16) | 0x40u);
    }
    return (ansorc_bf16)((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

static inline float ansorc_float_of_f16(ansorc_f16 narrow) {
    uint32_t size = narrow & 0x7FFFu, sign = (uint32_t)(narrow & 0x8000u) << 16, bits;
    float value = (float)size * 5.9604644775390625e-8f; /* below 2^-14: times 2^-24 */
    memcpy(&bits, &value, sizeof bits);
    if (size >= 0x7C00u) {
        bits = 0x7F800000u | (size << 13);
    } else if (size >= 0x400u) {
        bits = (size << 13) + 0x38000000u;
    }
    bits |= sign;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Rounded to nearest even; beyond 65504 infinite; a NaN stays one. */
static inline ansorc_f16 ansorc_f16_of_float(float value) {
    uint32_t bits, sign, size;
    memcpy(&bits, &value, sizeof bits);
    sign = (bits >> 16) & 0x8000u;
    size = bits & 0x7FFFFFFFu;
    if (size > 0x7F800000u) {
        return (ansorc_f16)(sign | 0x7E00u | ((size >> 13) & 0x3FFu));
    }
    if (size >= 0x47800000u) {
        return (ansorc_f16)(sign | 0x7C00u);
    }
    if (size >= 0x38800000u) {
        return (ansorc_f16)(sign | ((size - 0x38000000u + 0xFFFu + ((size >> 13) & 1u)) >> 13));
    }
    memcpy(&value, &size, sizeof value);
    value += 0.5f; /* whose last bit is 2^-24 */
    memcpy(&size, &value, sizeof size);
    return (ansorc_f16)(sign | (size - 0x3F000000u));
}
#endif"""
"""For C99 and C++17; it may stand in several headers."""
