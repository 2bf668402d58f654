/* Products of rows with a large matrix: of few rows, bound by reading the matrix once; of many, by arithmetic.
 *
 * A packed matrix [out, in] lies as tiles of 32 outputs, each [in][32] float32 or [in / 2][32][2] bfloat16, so a
 * tile is one stream and every load of it serves several rows. A row's sums run over `in` in the same order
 * whatever the number of rows, so its result does not depend on them.
 */

#ifndef INTARSIA_MATMUL_H
#define INTARSIA_MATMUL_H

#include "vectors.h"

#define TILE (2 * LANES)

/* Rows whose sums stay in registers: two vectors each, beside the weights. */
#ifdef __AVX512F__
#define ROWS_AT_ONCE 12
#else
#define ROWS_AT_ONCE 2
#endif

#if defined(__AVX512F__) && defined(__AVX512BF16__)
#define DOT_BFLOAT16 1
#else
#define DOT_BFLOAT16 0
#endif

/* How far ahead of its use a weight is asked for: the hardware's own prefetching stops at each page.
 * On Zen 5, 8 rows take 1.0 times the read floor with it, 1.3 with a third of it, 1.8 without. */
#define PREFETCH_BYTES 12288

typedef struct {
    const void *tiles;
    int32_t type, num_outputs, num_inputs; /* outputs are padded to whole tiles in `tiles` */
} Matrix;

/* Rows of a left operand are bfloat16 where the machine multiplies those, else float32, whatever the weights. */
INLINE int operand_type(int weight_type) { return DOT_BFLOAT16 ? weight_type : FLOAT32; }
INLINE long operand_bytes(int weight_type) { return operand_type(weight_type) == BFLOAT16 ? 2 : 4; }

INLINE int num_tiles(const Matrix *w) { return (w->num_outputs + TILE - 1) / TILE; }
INLINE int num_lines(const Matrix *w) { return w->type == BFLOAT16 ? w->num_inputs / 2 : w->num_inputs; }

/* Lines of a right operand. Line k: 64 bytes at first + k * step and 64 at second + k * step. The next pointers say
 * what to ask the memory for meanwhile. */
typedef struct {
    const char *first, *second, *next_first, *next_second;
    long step;
} Lines;

#define EACH_ROW _Pragma("GCC unroll 12") for (int r = 0; r < num_rows; r++)

/* left, right [rows] += x [rows][..] times `count` lines; both begin at the same input. x_stride: elements. */
#ifdef __AVX512F__
/* One pointer serves three rows: with one for each, some would be fetched from memory for each line. */
INLINE void add_lines(int type, int num_rows, const void *x, long x_stride, Lines l, int count, vfloat *left,
                      vfloat *right) {
    for (long k = 0, at = 0; k < count; k++, at += l.step) {
        __builtin_prefetch(l.next_first + at);
        __builtin_prefetch(l.next_second + at);
        if (type == FLOAT32) {
            vfloat a = load((const float *)(l.first + at)), b = load((const float *)(l.second + at));
            EACH_ROW {
                float scalar = ((const float *)x)[r * x_stride + k];
                left[r] += a * scalar, right[r] += b * scalar;
            }
            continue;
        }
        vuint a, b;
        memcpy(&a, l.first + at, sizeof a), memcpy(&b, l.second + at, sizeof b);
#if DOT_BFLOAT16
        __asm__("" : "+v"(a), "+v"(b)); /* or GCC loads them anew for each row */
        long stride = x_stride / 2;
        const int32_t *x0 = (const int32_t *)x + k, *x3 = x0 + 3 * stride, *x6 = x3 + 3 * stride, *x9 = x6 + 3 * stride;
        EACH_ROW {
            const int32_t *third = r < 3 ? x0 : r < 6 ? x3 : r < 9 ? x6 : x9;
            __m512bh pair = (__m512bh)_mm512_set1_epi32(third[r % 3 * stride]);
            left[r] = (vfloat)_mm512_dpbf16_ps((__m512)left[r], (__m512bh)a, pair);
            right[r] = (vfloat)_mm512_dpbf16_ps((__m512)right[r], (__m512bh)b, pair);
        }
#else
        EACH_ROW {
            const float *pair = (const float *)x + r * x_stride + 2 * k;
            left[r] += (vfloat)(a << 16) * pair[0], right[r] += (vfloat)(b << 16) * pair[0];
            left[r] += (vfloat)(a & 0xffff0000u) * pair[1], right[r] += (vfloat)(b & 0xffff0000u) * pair[1];
        }
#endif
    }
}
#else
/* GCC keeps vectors that are wider than the machine's in memory, so sums are halves of them here. */
typedef float vhalves __attribute__((vector_size(32)));
typedef uint32_t vwords __attribute__((vector_size(32)));

INLINE void add_lines(int type, int num_rows, const void *x, long x_stride, Lines l, int count, vfloat *left,
                      vfloat *right) {
    vhalves sums[ROWS_AT_ONCE][4];
#define EACH_QUARTER _Pragma("GCC unroll 4") for (int h = 0; h < 4; h++)
#define QUARTER_OF(left, right) ((char *)(h < 2 ? (left) : (right)) + h % 2 * sizeof(vhalves))
    EACH_ROW EACH_QUARTER memcpy(&sums[r][h], QUARTER_OF(left + r, right + r), sizeof(vhalves));
    for (long k = 0, at = 0; k < count; k++, at += l.step) {
        __builtin_prefetch(l.next_first + at);
        __builtin_prefetch(l.next_second + at);
        vwords line[4];
        EACH_QUARTER memcpy(&line[h], QUARTER_OF(l.first + at, l.second + at), sizeof(vwords));
        if (type == FLOAT32) {
            EACH_ROW EACH_QUARTER sums[r][h] += (vhalves)line[h] * ((const float *)x)[r * x_stride + k];
            continue;
        }
        EACH_ROW {
            const float *pair = (const float *)x + r * x_stride + 2 * k;
            EACH_QUARTER sums[r][h] += (vhalves)(line[h] << 16) * pair[0];
            EACH_QUARTER sums[r][h] += (vhalves)(line[h] & 0xffff0000u) * pair[1];
        }
    }
    EACH_ROW EACH_QUARTER memcpy(QUARTER_OF(left + r, right + r), &sums[r][h], sizeof(vhalves));
#undef QUARTER_OF
#undef EACH_QUARTER
}
#endif

/* CALL(type, rows) for a number of rows that the compiler knows. */
#define CASE(CALL, n)                        \
    case n:                                  \
        if (type == FLOAT32)                 \
            CALL(FLOAT32, n);                \
        else                                 \
            CALL(BFLOAT16, n);               \
        break;
#if ROWS_AT_ONCE == 12
#define WITH_ROWS(CALL, n)                                                                                 \
    switch (n) {                                                                                           \
        CASE(CALL, 1) CASE(CALL, 2) CASE(CALL, 3) CASE(CALL, 4) CASE(CALL, 5) CASE(CALL, 6) CASE(CALL, 7)  \
        CASE(CALL, 8) CASE(CALL, 9) CASE(CALL, 10) CASE(CALL, 11) CASE(CALL, 12)                           \
    }
#else
#define WITH_ROWS(CALL, n)              \
    switch (n) {                        \
        CASE(CALL, 1) CASE(CALL, 2)     \
    }
#endif

/* sums [num_rows][32] = x [num_rows][in] times one tile, at most ROWS_AT_ONCE rows. */
INLINE void multiply_rows(int type, int num_rows, const void *x, long x_stride, const char *lines, int count,
                          float *sums) {
    vfloat left[ROWS_AT_ONCE], right[ROWS_AT_ONCE];
    EACH_ROW left[r] = right[r] = (vfloat){0};
    const char *next = lines + PREFETCH_BYTES;
    add_lines(type, num_rows, x, x_stride, (Lines){lines, lines + 64, next, next + 64, 128}, count, left, right);
    EACH_ROW store(sums + r * TILE, left[r]), store(sums + r * TILE + LANES, right[r]);
}

/* sums [num_rows][32] = x [num_rows][in] times one tile of w, at most ROWS_AT_ONCE rows. A tile that several groups
 * of rows pass over stays in the L2 cache, which is fast enough. */
static void multiply_tile(const Matrix *w, int tile, const void *x, int num_rows, float *sums) {
    int type = w->type, lines = num_lines(w);
    const char *start = (const char *)w->tiles + (long)tile * lines * 128;
#define CALL(type, n) multiply_rows(type, n, x, w->num_inputs, start, lines, sums)
    WITH_ROWS(CALL, num_rows)
#undef CALL
}

/* How many rows to take at once, so that all groups are about as large. */
INLINE int even_group(int num_rows) {
    int groups = (num_rows + ROWS_AT_ONCE - 1) / ROWS_AT_ONCE;
    return (num_rows + groups - 1) / groups;
}

INLINE long at_most(long x, long most) { return x < most ? x : most; }

/* Rows of a left operand are taken in blocks that stay in the L2 cache beside a tile, one row at least. */
#define BLOCK_BYTES (384 << 10)

INLINE long num_blocks(const Matrix *w, long num_rows) {
    return at_most((num_rows * w->num_inputs * operand_bytes(w->type) + BLOCK_BYTES - 1) / BLOCK_BYTES, num_rows);
}

/* `count` rows from `first` on, in turn over the block's: never more than ROWS_AT_ONCE. */
#define EACH_GROUP(num_rows, block, num_blocks, first, count)                                                  \
    for (long first = (num_rows) * (block) / (num_blocks), until_ = (num_rows) * ((block) + 1) / (num_blocks),     \
              at_once_ = even_group(until_ - first), count;                                                    \
         first < until_ && (count = at_most(until_ - first, at_once_)); first += count)

#endif
