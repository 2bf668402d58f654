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
#ifdef __AVX512F__
    return (vfloat)((vuint)_mm512_cvtepu16_epi32((__m256i)h) << 16); /* GCC makes five instructions of the below */
#else
    return (vfloat)(__builtin_convertvector(h, vuint) << 16);
#endif
}

/* To the nearest bfloat16, ties to even. NaN stays NaN: its upper half keeps the quiet bit. */
INLINE void narrow(uint16_t *p, vfloat v) {
#ifdef __AVX512BF16__
    __m256bh h = _mm512_cvtneps_pbh((__m512)v);
    memcpy(p, &h, sizeof h);
#else
    vuint bits = (vuint)v;
    vuint rounded = bits + 0x7fff + ((bits >> 16) & 1);
    rounded = (vuint)blend(v != v, (vfloat)(bits | 0x400000), (vfloat)rounded);
    vhalf h = __builtin_convertvector(rounded >> 16, vhalf);
    memcpy(p, &h, sizeof h);
#endif
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

/* a where it is larger, else b: also where one of them is NaN. */
#ifdef __AVX512F__
INLINE vfloat larger(vfloat a, vfloat b) { return (vfloat)_mm512_max_ps((__m512)a, (__m512)b); }
#else
INLINE vfloat larger(vfloat a, vfloat b) { return blend(a > b, a, b); }
#endif

#ifdef __AVX512F__
INLINE float sum_of(vfloat v) { return _mm512_reduce_add_ps((__m512)v); }
INLINE float largest_of(vfloat v) { return _mm512_reduce_max_ps((__m512)v); }
#else
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
#endif

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

/* 2^x for x <= 126, zero below -150, NaN for NaN; relative error below 2e-7 where the result is normal: 2^n times
 * a polynomial for the rest, the best of its degree on [-0.5, 0.5]. */
INLINE vfloat exp2_of(vfloat x) {
    x = larger(splat(-160.0f), x);
#ifdef __AVX512F__
    vfloat n = (vfloat)_mm512_roundscale_ps((__m512)x, 8);
#else
    vfloat n = x + 12582912.0f - 12582912.0f; /* 1.5 * 2^23: what is left is an integer */
#endif
    vfloat r = x - n;
    vfloat p = r * 1.3276467e-3f + 9.6755413e-3f;
    p = p * r + 5.5507133e-2f;
    p = p * r + 2.4022120e-1f;
    p = p * r + 6.9314697e-1f;
    p = p * r + 1.0f;
#ifdef __AVX512F__
    return (vfloat)_mm512_scalef_ps((__m512)p, (__m512)n);
#else
    return blend(n < -126.0f, (vfloat){0}, (vfloat)((vint)p + (__builtin_convertvector(n, vint) << 23)));
#endif
}

#endif
