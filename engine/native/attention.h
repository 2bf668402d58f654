/* Attention of single rows over pages of 16 keys, grouped query heads, cut into parts of 256 keys.
 *
 * Parts are cut at multiples of 256 from the start of a sequence, so a row's result depends neither on the batch
 * nor on the number of threads. Only keys that a row sees enter its sums: stale pages are never multiplied.
 */

#ifndef INTARSIA_ATTENTION_H
#define INTARSIA_ATTENTION_H

#include "matmul.h"

#define PAGE 16
#define PART 256
#define PAGES_AHEAD 2 /* asked for before they are used: their rows lie too far apart for the hardware to guess */

#define EACH_KEY _Pragma("GCC unroll 16") for (int t = 0; t < PAGE; t++)

typedef struct {
    int32_t num_heads, num_kv_heads, head_dim, type; /* type: of keys and values */
    float scale;
} Heads;

/* What a step's rows see. Row r: keys [first[r], until[r]) of the pages listed at tables + table_starts[r]. */
typedef struct {
    const int32_t *tables, *table_starts, *first, *until;
} Sight;

/* One part of one row's keys: the unit of work, for each key head. */
typedef struct {
    int32_t row, from, to;
} Part;

static int count_parts(const Sight *sight, int num_rows) {
    int count = 0;
    for (int r = 0; r < num_rows; r++) count += (sight->until[r] - 1) / PART - sight->first[r] / PART + 1;
    return count;
}

/* starts[r] is the number of row r's first part, starts[num_rows] the number of all. */
static void list_parts(const Sight *sight, int num_rows, Part *parts, int32_t *starts) {
    int count = 0;
    for (int r = 0; r < num_rows; r++) {
        starts[r] = count;
        for (int from = sight->first[r]; from < sight->until[r];) {
            int end = (from / PART + 1) * PART;
            int to = end < sight->until[r] ? end : sight->until[r];
            parts[count++] = (Part){r, from, to};
            from = to;
        }
    }
    starts[num_rows] = count;
}

/* What one unit of work reads. At compile time: type and dim, where they are among the usual ones. */
typedef struct {
    const int32_t *pages; /* numbers of its pages */
    int num_pages, skipped, end; /* of the keys on them, [skipped, end) count */
    int group, ld;               /* query heads; scores of one head */
    long page_size, stride;      /* elements from page to page, from key to key */
} Work;

INLINE void prefetch_page(int type, int dim, const Work *w, int page, const void *base) {
    if (page >= w->num_pages) return;
    long bytes = type == BFLOAT16 ? 2 : 4;
    const char *start = (const char *)base + w->pages[page] * w->page_size * bytes;
    for (int t = 0; t < PAGE; t++)
        for (long at = 0; at < dim * bytes; at += 64) __builtin_prefetch(start + t * w->stride * bytes + at);
}

/* scores [group][ld], from column page * 16 on: q [group][dim] times the keys of one page. */
INLINE void score_page(int type, int dim, const Work *w, int page, const float *q, const uint16_t *q_half,
                       const void *keys, float scale, float *scores) {
    long at = w->pages[page] * w->page_size;
    for (int g = 0; g < w->group; g++) {
        vfloat sums[LANES];
        EACH_KEY sums[t] = (vfloat){0};
#if DOT_BFLOAT16
        if (type == BFLOAT16 && dim % 32 == 0) {
            for (int d = 0; d < dim; d += 32) {
                const uint16_t *k = (const uint16_t *)keys + at + d;
                __m512bh part = (__m512bh)_mm512_loadu_si512(q_half + g * dim + d);
                EACH_KEY sums[t] = (vfloat)_mm512_dpbf16_ps((__m512)sums[t], part,
                                                           (__m512bh)_mm512_loadu_si512(k + t * w->stride));
            }
        } else
#endif
            for (int d = 0; d < dim; d += LANES) {
                vfloat part = load(q + g * dim + d);
                EACH_KEY sums[t] += part * load_as_float(type, keys, at + t * w->stride + d);
            }
        store(scores + (long)g * w->ld + page * PAGE, sums_of_16(sums) * scale);
    }
}

/* Scores become weights relative to the largest; largest and sum of weights go behind each head's output. */
INLINE void weigh(int dim, const Work *w, float *scores, float *out) {
    for (int g = 0; g < w->group; g++, scores += w->ld, out += dim + 2) {
        for (int t = 0; t < w->skipped; t++) scores[t] = -INFINITY;
        for (int t = w->end; t < w->ld; t++) scores[t] = -INFINITY;
        vfloat most = load(scores), total = {0};
        for (int t = LANES; t < w->ld; t += LANES) most = larger(load(scores + t), most);
        float largest = largest_of(most);
        for (int t = 0; t < w->ld; t += LANES) {
            vfloat weights = exp_of(load(scores + t) - largest);
            store(scores + t, weights);
            total += weights;
        }
        out[dim] = largest, out[dim + 1] = sum_of(total);
    }
}

/* out [dim] += weights [count] times values [count][dim]. */
INLINE void add_weighted(const float *weights, const float *values, int count, int dim, float *out) {
    int d = 0;
    for (; d + 4 * LANES <= dim; d += 4 * LANES) {
        vfloat a = load(out + d), b = load(out + d + 16), c = load(out + d + 32), e = load(out + d + 48);
        for (int t = 0; t < count; t++) {
            const float *v = values + (long)t * dim + d;
            a += weights[t] * load(v), b += weights[t] * load(v + 16);
            c += weights[t] * load(v + 32), e += weights[t] * load(v + 48);
        }
        store(out + d, a), store(out + d + 16, b), store(out + d + 32, c), store(out + d + 48, e);
    }
    for (; d < dim; d += LANES) {
        vfloat a = load(out + d);
        for (int t = 0; t < count; t++) a += weights[t] * load(values + (long)t * dim + d);
        store(out + d, a);
    }
}

INLINE void add_page(int type, int dim, const Work *w, int page, const void *values, const float *scores, float *out) {
    float rows[PAGE * dim] __attribute__((aligned(64)));
    long at = w->pages[page] * w->page_size;
    int low = page ? 0 : w->skipped, high = w->end - page * PAGE < PAGE ? w->end - page * PAGE : PAGE;
    for (int t = low; t < high; t++)
        for (int d = 0; d < dim; d += LANES) store(rows + t * dim + d, load_as_float(type, values, at + t * w->stride + d));
    for (int g = 0; g < w->group; g++)
        add_weighted(scores + (long)g * w->ld + page * PAGE + low, rows + low * dim, high - low, dim, out + g * (dim + 2L));
}

INLINE void attend_work(int type, int dim, const Work *w, const float *q, const void *keys, const void *values,
                        float scale, float *out) {
    float scores[(long)w->group * w->ld] __attribute__((aligned(64)));
    uint16_t q_half[(long)w->group * dim] __attribute__((aligned(64)));
    for (int i = 0; i < w->group * dim; i += LANES) narrow(q_half + i, load(q + i));
    for (int g = 0; g < w->group; g++) memset(out + g * (dim + 2L), 0, dim * sizeof *out);
    for (int p = 0; p < PAGES_AHEAD; p++) prefetch_page(type, dim, w, p, keys);
    for (int p = 0; p < w->num_pages; p++) {
        prefetch_page(type, dim, w, p + PAGES_AHEAD, keys);
        if (p + PAGES_AHEAD >= w->num_pages) prefetch_page(type, dim, w, p + PAGES_AHEAD - w->num_pages, values);
        score_page(type, dim, w, p, q, q_half, keys, scale, scores);
    }
    weigh(dim, w, scores, out);
    for (int p = 0; p < w->num_pages; p++) {
        prefetch_page(type, dim, w, p + PAGES_AHEAD, values);
        add_page(type, dim, w, p, values, scores, out);
    }
}

/* One part under one key head. q [group][head_dim]. out [group][head_dim + 2]: weighted sum of values, largest
 * score, sum of weights. */
static void attend_part(const Heads *h, const int32_t *table, int from, int to, int kv_head, const float *q,
                        const void *keys, const void *values, float *out) {
    long dim = h->head_dim, stride = h->num_kv_heads * dim, skip = kv_head * dim * (h->type == BFLOAT16 ? 2 : 4);
    int first = from / PAGE, pages = (to - 1) / PAGE - first + 1;
    Work w = {table + first, pages, from - first * PAGE, to - first * PAGE, h->num_heads / h->num_kv_heads,
              pages * PAGE, PAGE * stride, stride};
    const void *k = (const char *)keys + skip, *v = (const char *)values + skip;
    if (h->type == BFLOAT16 && dim == 64)
        attend_work(BFLOAT16, 64, &w, q, k, v, h->scale, out);
    else if (h->type == BFLOAT16 && dim == 128)
        attend_work(BFLOAT16, 128, &w, q, k, v, h->scale, out);
    else
        attend_work(h->type, dim, &w, q, k, v, h->scale, out);
}

/* out [head_dim] from the parts of one row and head, in their order; they lie part_stride floats apart. */
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
