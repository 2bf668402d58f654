/* Vectors of 16 floats, in the compiler's own terms: two, four or one register each, whatever the machine has. */

#ifndef INTARSIA_VECTORS_H
#define INTARSIA_VECTORS_H

#include <math.h>
#include <stdint.h>
#include <string.h>
#ifdef __AVX512F__
#include <immintrin.h>
#endif

#define LANES 16
#define INLINE static inline __attribute__((always_inline))

typedef float vfloat __attribute__((vector_size(64)));
typedef int32_t vint __attribute__((vector_size(64)));
typedef uint32_t vuint __attribute__((vector_size(64)));
typedef uint16_t vhalf __attribute__((vector_size(32)));

/* Element types of weights, keys and values. */
enum { FLOAT32 = 0, BFLOAT16 = 1 };

/* a where the mask's lanes are all ones, b where they are zeros. */
INLINE vfloat blend(vint mask, vfloat a, vfloat b) { return (vfloat)(((vint)a & mask) | ((vint)b & ~mask)); }

INLINE vfloat load(const float *p) {
    vfloat v;
    memcpy(&v, p, sizeof v);
    return v;
}

INLINE void store(float *p, vfloat v) { memcpy(p, &v, sizeof v); }

INLINE vfloat widen(const uint16_t *p) {
    vhalf h;
    memcpy(&h, p, sizeof h);
    return (vfloat)(__builtin_convertvector(h, vuint) << 16);
}

/* To the nearest bfloat16, ties to even. NaN stays NaN: its upper half keeps the quiet bit. */
INLINE void narrow(uint16_t *p, vfloat v) {
    vuint bits = (vuint)v;
    vuint rounded = bits + 0x7fff + ((bits >> 16) & 1);
    rounded = (vuint)blend(v != v, (vfloat)(bits | 0x400000), (vfloat)rounded);
    vhalf h = __builtin_convertvector(rounded >> 16, vhalf);
    memcpy(p, &h, sizeof h);
}

INLINE vfloat load_as_float(int type, const void *base, long index) {
    return type == BFLOAT16 ? widen((const uint16_t *)base + index) : load((const float *)base + index);
}

INLINE void store_from_float(int type, void *base, long index, vfloat v) {
    if (type == BFLOAT16)
        narrow((uint16_t *)base + index, v);
    else
        store((float *)base + index, v);
}

INLINE vfloat splat(float x) { return x - (vfloat){0}; }

INLINE vfloat larger(vfloat a, vfloat b) { return blend(a > b, a, b); }

INLINE float sum_of(vfloat v) {
    float s = 0;
    for (int i = 0; i < LANES; i++) s += v[i];
    return s;
}

INLINE float largest_of(vfloat v) {
    float m = v[0];
    for (int i = 1; i < LANES; i++) m = v[i] > m ? v[i] : m;
    return m;
}

/* e^x for x <= 88 (below -87: e^-87), relative error below 2e-7, NaN for NaN: 2^n times a polynomial for the rest,
 * with the coefficients of Cephes' expf. */
INLINE vfloat exp_of(vfloat x) {
    x = blend(x < -87.0f, splat(-87.0f), x);
    vfloat shifted = x * 1.44269504088896341f + 12582912.0f; /* 1.5 * 2^23 rounds to an integer in the low bits */
    vfloat n = shifted - 12582912.0f;
    vfloat r = x - n * 0.693359375f + n * 2.12194440e-4f;
    vfloat p = r * 1.9875691500e-4f + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    return (vfloat)((vint)p + (__builtin_convertvector(n, vint) << 23));
}

#ifdef __AVX512F__
/* Rows become columns: for each bit, rows that differ in it swap the lanes that differ in it. */
#define SWAP(step, LOW, HIGH)                                                           \
    _Pragma("GCC unroll 16") for (int i = 0; i < LANES; i++) if (!(i & (step))) {       \
        vint a = v[i], b = v[i + (step)];                                               \
        v[i] = __builtin_shuffle(a, b, ((vint)LOW));                                    \
        v[i + (step)] = __builtin_shuffle(a, b, ((vint)HIGH));                          \
    }
#define LANES_OF(...) {__VA_ARGS__}

INLINE void transpose_16(vint v[LANES]) {
    SWAP(8, LANES_OF(0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23),
         LANES_OF(8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31))
    SWAP(4, LANES_OF(0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27),
         LANES_OF(4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31))
    SWAP(2, LANES_OF(0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29),
         LANES_OF(2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31))
    SWAP(1, LANES_OF(0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30),
         LANES_OF(1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31))
}
#undef SWAP
#undef LANES_OF
#endif

#endif
