/* Attention over pages of 16 keys, grouped query heads, cut into parts of 256 keys.
 *
 * Neighbouring rows of a sequence go together, so that a page's keys are turned and its values widened once for
 * all of them. Parts are cut at multiples of 256 from the start of a sequence, and a key that a row doesn't see has
 * the weight zero in its sums, so a row's result depends neither on its neighbours nor on the number of threads.
 * Keys that no row of a unit sees are never multiplied: pages may hold anything past their sequence's end.
 */

#ifndef INTARSIA_ATTENTION_H
#define INTARSIA_ATTENTION_H

#include "matmul.h"

#define PAGE 16
#define PART 256
#define PAGES_AHEAD 2 /* asked for before they are used: their rows lie too far apart for the hardware to guess */
#define QUERIES_TOGETHER 32 /* heads times rows of a unit of work */
#ifdef __AVX512F__
#define QUERIES_AT_ONCE 4 /* whose sums stay in registers */
#else
#define QUERIES_AT_ONCE 1
#endif

typedef struct {
    int32_t num_heads, num_kv_heads, head_dim, type; /* type: of keys and values */
    float scale;
} Heads;

/* What a step's rows see. Row r: keys [first[r], until[r]) of the pages listed at tables + table_starts[r]. */
typedef struct {
    const int32_t *tables, *table_starts, *first, *until;
} Sight;

/* Rows [first_row, first_row + num_rows) of one sequence on the keys [from, to), which is in one part: the unit of
 * work, for each key head. num_parts: how many units, one after the other, these rows have. slot: the number of the
 * unit's first result, one a row, counted over units. */
typedef struct {
    int32_t first_row, num_rows, from, to, num_parts, slot;
} Unit;

typedef struct {
    Unit *units;
    int32_t num_units, num_slots;
} Work;

static int rows_together(const Heads *h) {
    int group = h->num_heads / h->num_kv_heads;
    return group < QUERIES_TOGETHER ? QUERIES_TOGETHER / group : 1;
}

/* Lists the units, or only counts where `units` is null. */
static void plan_work(const Heads *h, const Sight *sight, int num_rows, Work *work) {
    work->num_units = work->num_slots = 0;
    for (int row = 0, rows; row < num_rows; row += rows) {
        int from = sight->first[row], until = sight->until[row];
        for (rows = 1; rows < rows_together(h) && row + rows < num_rows; rows++) {
            if (sight->table_starts[row + rows] != sight->table_starts[row]) break;
            if (sight->first[row + rows] < from) from = sight->first[row + rows];
            if (sight->until[row + rows] > until) until = sight->until[row + rows];
        }
        int parts = (until - 1) / PART - from / PART + 1;
        for (int to; from < until; from = to, work->num_units++, work->num_slots += rows) {
            to = (from / PART + 1) * PART < until ? (from / PART + 1) * PART : until;
            if (work->units) work->units[work->num_units] = (Unit){row, rows, from, to, parts, work->num_slots};
        }
    }
}

/* One unit under one key head. Queries are numbered row by row, then head by head of the group. */
typedef struct {
    const int32_t *pages;
    int num_pages, ld;                /* scores of one query: num_pages * 16 */
    int num_queries, first_key, last; /* of the ld keys, [first_key, last) are seen by some row */
    long page_size, stride;           /* elements from page to page, from key to key */
} Pages;

INLINE void prefetch_page(int type, int dim, const Pages *p, int page, const void *base) {
    if (page >= p->num_pages) return;
    long bytes = type == BFLOAT16 ? 2 : 4;
    const char *start = (const char *)base + p->pages[page] * p->page_size * bytes;
    for (int t = 0; t < PAGE; t++)
        for (long at = 0; at < dim * bytes; at += 64) __builtin_prefetch(start + t * p->stride * bytes + at);
}

/* turned [words][16] = keys [16][words]: 32 bits are one float32 or two bfloat16. */
INLINE void turn_page(const uint32_t *keys, long stride, int words, uint32_t *turned) {
    for (int w = 0; w < words; w += LANES) {
#ifdef __AVX512F__
        vint v[LANES];
        for (int t = 0; t < PAGE; t++) memcpy(&v[t], keys + t * stride + w, sizeof v[t]);
        transpose_16(v);
        memcpy(turned + w * PAGE, v, sizeof v);
#else
        for (int t = 0; t < PAGE; t++)
            for (int i = 0; i < LANES; i++) turned[(w + i) * PAGE + t] = keys[t * stride + w + i];
#endif
    }
}

/* scores of `count` queries [count][ld] on one page. q: rows of `dim` elements, float32 or, for dots, bfloat16. */
INLINE void score_queries(int type, int count, int dim, const void *q, const uint32_t *turned, float scale, int ld,
                          float *scores) {
    vfloat sums[QUERIES_AT_ONCE];
    for (int i = 0; i < count; i++) sums[i] = (vfloat){0};
    for (int w = 0; w < (type == BFLOAT16 ? dim / 2 : dim); w++) {
        vuint keys;
        memcpy(&keys, turned + w * PAGE, sizeof keys);
#pragma GCC unroll 4
        for (int i = 0; i < count; i++) {
#if DOT_BFLOAT16
            if (type == BFLOAT16) {
                __m512bh pair = (__m512bh)_mm512_set1_epi32(((const int32_t *)q)[(long)i * dim / 2 + w]);
                sums[i] = (vfloat)_mm512_dpbf16_ps((__m512)sums[i], (__m512bh)keys, pair);
                continue;
            }
#endif
            if (type == BFLOAT16) {
                const float *pair = (const float *)q + (long)i * dim + 2 * w;
                sums[i] += (vfloat)(keys << 16) * pair[0];
                sums[i] += (vfloat)(keys & 0xffff0000u) * pair[1];
            } else {
                sums[i] += (vfloat)keys * ((const float *)q)[(long)i * dim + w];
            }
        }
    }
    for (int i = 0; i < count; i++) store(scores + (long)i * ld, sums[i] * scale);
}

/* out [count][dim + 2] += weights [count][ld] of `keys` keys times values [keys][dim]. */
INLINE void add_weighted(int count, int dim, const float *weights, int ld, const float *values, int keys, float *out) {
    for (int d = 0; d < dim; d += LANES) {
        int width = d + 4 * LANES <= dim ? 4 : 1;
        vfloat sums[QUERIES_AT_ONCE][4];
#define EACH_SUM                                                       \
    _Pragma("GCC unroll 4") for (int i = 0; i < count; i++)            \
        _Pragma("GCC unroll 4") for (int j = 0; j < width; j++)
        if (width == 4) {
            EACH_SUM sums[i][j] = load(out + i * (dim + 2L) + d + j * LANES);
            for (int t = 0; t < keys; t++)
                EACH_SUM sums[i][j] += weights[(long)i * ld + t] * load(values + (long)t * dim + d + j * LANES);
            EACH_SUM store(out + i * (dim + 2L) + d + j * LANES, sums[i][j]);
            d += 3 * LANES;
        } else {
            for (int i = 0; i < count; i++) {
                vfloat sum = load(out + i * (dim + 2L) + d);
                for (int t = 0; t < keys; t++) sum += weights[(long)i * ld + t] * load(values + (long)t * dim + d);
                store(out + i * (dim + 2L) + d, sum);
            }
        }
#undef EACH_SUM
    }
}

/* One query's scores become weights relative to the largest; what it doesn't see, [0, low) and [high, ld), weighs
 * nothing. Behind its output: the largest score and the sum of weights. */
INLINE void weigh(int dim, int low, int high, int ld, float *scores, float *out) {
    for (int t = 0; t < low; t++) scores[t] = -INFINITY;
    for (int t = high; t < ld; t++) scores[t] = -INFINITY;
    vfloat most = load(scores), total = {0};
    for (int t = LANES; t < ld; t += LANES) most = larger(load(scores + t), most);
    float largest = largest_of(most);
    for (int t = 0; t < ld; t += LANES) {
        vfloat score = load(scores + t), weights = blend(score == -INFINITY, (vfloat){0}, exp_of(score - largest));
        store(scores + t, weights);
        total += weights;
    }
    memset(out, 0, dim * sizeof *out);
    out[dim] = largest, out[dim + 1] = sum_of(total);
}

/* lows, highs [queries]: which of the ld keys a query sees. */
INLINE void attend_pages(int type, int dim, const Pages *p, const int *lows, const int *highs, const float *q,
                         const void *keys, const void *values, float scale, float *out) {
    int queries = p->num_queries, ld = p->ld;
    float scores[(long)queries * ld] __attribute__((aligned(64)));
    float page_values[PAGE * dim] __attribute__((aligned(64)));
    uint32_t turned[PAGE * dim] __attribute__((aligned(64)));
    char operand[(long)queries * dim * 4] __attribute__((aligned(64)));
    long bytes = type == BFLOAT16 ? 2 : 4, query_bytes = dim * operand_bytes(type);
    for (long i = 0; i < (long)queries * dim; i += LANES) store_from_float(operand_type(type), operand, i, load(q + i));
#define SOME_QUERIES(CALL)                                                                    \
    {                                                                                         \
        int i = 0;                                                                            \
        for (; i + QUERIES_AT_ONCE <= queries; i += QUERIES_AT_ONCE) CALL(QUERIES_AT_ONCE);   \
        for (; i < queries; i++) CALL(1);                                                     \
    }
    for (int n = 0; n < PAGES_AHEAD; n++) prefetch_page(type, dim, p, n, keys);
    for (int n = 0; n < p->num_pages; n++) {
        prefetch_page(type, dim, p, n + PAGES_AHEAD, keys);
        if (n + PAGES_AHEAD >= p->num_pages) prefetch_page(type, dim, p, n + PAGES_AHEAD - p->num_pages, values);
        const char *page = (const char *)keys + p->pages[n] * p->page_size * bytes;
        turn_page((const uint32_t *)page, p->stride * bytes / 4, dim * bytes / 4, turned);
#define SCORE(count) \
    score_queries(type, count, dim, operand + i * query_bytes, turned, scale, ld, scores + (long)i * ld + n * PAGE)
        SOME_QUERIES(SCORE)
    }
    for (int i = 0; i < queries; i++) weigh(dim, lows[i], highs[i], ld, scores + (long)i * ld, out + i * (dim + 2L));
    for (int n = 0; n < p->num_pages; n++) {
        prefetch_page(type, dim, p, n + PAGES_AHEAD, values);
        int low = n ? 0 : p->first_key, high = p->last - n * PAGE < PAGE ? p->last - n * PAGE : PAGE;
        long at = p->pages[n] * p->page_size;
        for (int t = low; t < high; t++)
            for (int d = 0; d < dim; d += LANES)
                store(page_values + t * dim + d, load_as_float(type, values, at + t * p->stride + d));
#define ADD(count)                                                                                        \
    add_weighted(count, dim, scores + (long)i * ld + n * PAGE + low, ld, page_values + low * dim, high - low, \
                 out + i * (dim + 2L))
        SOME_QUERIES(ADD)
    }
#undef SCORE
#undef ADD
#undef SOME_QUERIES
}

INLINE int between(int low, int x, int high) { return x < low ? low : x > high ? high : x; }

/* One unit under one key head. q: the first row's queries of that head, q_stride floats from row to row.
 * out [rows][group][head_dim + 2]: weighted sum of values, largest score, sum of weights. */
static void attend_unit(const Heads *h, const Sight *sight, const Unit *u, int kv_head, const float *q, long q_stride,
                        const void *keys, const void *values, float *out) {
    long dim = h->head_dim, stride = h->num_kv_heads * dim, skip = kv_head * dim * (h->type == BFLOAT16 ? 2 : 4);
    int group = h->num_heads / h->num_kv_heads, queries = group * u->num_rows;
    int first = u->from / PAGE, pages = (u->to - 1) / PAGE - first + 1, origin = first * PAGE;
    int lows[queries], highs[queries];
    float together[queries * dim] __attribute__((aligned(64)));
    for (int r = 0; r < u->num_rows; r++) {
        memcpy(together + r * group * dim, q + r * q_stride, group * dim * sizeof *q);
        for (int g = 0; g < group; g++) {
            lows[r * group + g] = between(u->from, sight->first[u->first_row + r], u->to) - origin;
            highs[r * group + g] = between(u->from, sight->until[u->first_row + r], u->to) - origin;
        }
    }
    Pages p = {sight->tables + sight->table_starts[u->first_row] + first, pages, pages * PAGE, queries,
               u->from - origin, u->to - origin, PAGE * stride, stride};
    const void *k = (const char *)keys + skip, *v = (const char *)values + skip;
    if (h->type == BFLOAT16 && dim == 64)
        attend_pages(BFLOAT16, 64, &p, lows, highs, together, k, v, h->scale, out);
    else if (h->type == BFLOAT16 && dim == 128)
        attend_pages(BFLOAT16, 128, &p, lows, highs, together, k, v, h->scale, out);
    else if (h->type == BFLOAT16)
        attend_pages(BFLOAT16, dim, &p, lows, highs, together, k, v, h->scale, out);
    else
        attend_pages(FLOAT32, dim, &p, lows, highs, together, k, v, h->scale, out);
}

/* out [head_dim] from the parts of one row and head, in their order; they lie part_stride floats apart. A part of
 * which the row sees nothing has the largest score -inf, so it adds zeros. */
static void join_parts(const float *parts, int count, long part_stride, int dim, float *out) {
    float largest = parts[dim];
    for (int p = 1; p < count; p++) largest = fmaxf(largest, parts[p * part_stride + dim]);
    float total = 0;
    for (int d = 0; d < dim; d += LANES) store(out + d, (vfloat){0});
    for (int p = 0; p < count; p++) {
        const float *part = parts + p * part_stride;
        float factor = expf(part[dim] - largest);
        total += factor * part[dim + 1];
        for (int d = 0; d < dim; d += LANES) store(out + d, load(out + d) + factor * load(part + d));
    }
    for (int d = 0; d < dim; d += LANES) store(out + d, load(out + d) / total);
}

#endif
