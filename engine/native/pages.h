/* Pages of 16 keys and values, and one head of some pages met by some queries.
 *
 * A page keeps each head in the order in which its products read it, so that attending is two products of matmul.h
 * with weights in between. Keys: [head_dim][16], for bfloat16 two elements at a time, [head_dim / 2][16][2]. Values:
 * tiles of 32 elements, [16][32], for bfloat16 two keys at a time, [8][32][2]; the last tile may have 16 elements.
 * Knows no rows and no sequences.
 */

#ifndef INTARSIA_PAGES_H
#define INTARSIA_PAGES_H

#include "matmul.h"

#define PAGE 16
#define PAGES_AHEAD 4 /* asked for before they are used */

/* Floats that a query's result takes: an element for each of the head's, the largest exponent, the sum of weights. */
#define RESULT(dim) ((dim) + LANES)

INLINE long bytes_of(int type) { return type == BFLOAT16 ? 2 : 4; }

/* One head of a page of keys gets its key number t, float32 [dim]. */
INLINE void write_key(int type, int dim, const float *key, int t, void *page) {
    if (type == FLOAT32) {
        for (int d = 0; d < dim; d++) ((float *)page)[d * PAGE + t] = key[d];
        return;
    }
    uint32_t words[dim / 2];
    for (int d = 0; d < dim; d += LANES) narrow((uint16_t *)words + d, load(key + d));
    for (int w = 0; w < dim / 2; w++) ((uint32_t *)page)[w * PAGE + t] = words[w];
}

/* One head of a page of values gets the value of its key number t, float32 [dim]. */
INLINE void write_value(int type, int dim, const float *value, int t, void *page) {
    for (int d = 0; d < dim; d += TILE) {
        int width = dim - d < TILE ? LANES : TILE;
        if (type == FLOAT32) {
            memcpy((float *)page + d * PAGE + t * width, value + d, width * sizeof *value);
            continue;
        }
        uint16_t halves[TILE], *line = (uint16_t *)page + d * PAGE + t / 2 * width * 2 + t % 2;
        for (int i = 0; i < width; i += LANES) narrow(halves + i, load(value + d + i));
        for (int i = 0; i < width; i++) line[2 * i] = halves[i];
    }
}

/* One head of a page of values with zeros for the keys outside [low, high): their memory may hold anything. */
INLINE void copy_seen(int type, int dim, const uint32_t *page, int low, int high, uint32_t *out) {
    int together = type == BFLOAT16 ? 2 : 1;
    for (int d = 0; d < dim; d += TILE) {
        int width = dim - d < TILE ? LANES : TILE;
        for (int t = 0; t < PAGE; t += together, page += width, out += width) {
            uint32_t first = low <= t && t < high, second = low <= t + 1 && t + 1 < high;
            uint32_t mask = together == 2 ? first * 0xffffu | second * 0xffff0000u : first * 0xffffffffu;
            for (int i = 0; i < width; i += LANES) {
                vuint words;
                memcpy(&words, page + i, sizeof words);
                words &= mask;
                memcpy(out + i, &words, sizeof words);
            }
        }
    }
}

/* One head of some pages. keys, values: [pages], where the head begins in each. Of these keys, [first_key, last) are
 * seen by some query. */
typedef struct {
    const char **keys, **values;
    int num_pages, num_queries, first_key, last;
} Pages;

/* scores [queries][ld], two pages at a time, at most ROWS_AT_ONCE queries. */
INLINE void score(int type, int num_rows, int dim, const void *q, Lines l, int ld, float *scores) {
    vfloat left[ROWS_AT_ONCE], right[ROWS_AT_ONCE];
    EACH_ROW left[r] = right[r] = (vfloat){0};
    add_lines(type, num_rows, q, dim, l, type == BFLOAT16 ? dim / 2 : dim, left, right);
    EACH_ROW store(scores + (long)r * ld, left[r]), store(scores + (long)r * ld + LANES, right[r]);
}

static void score_pages(int type, int dim, const Pages *p, const void *q, int ld, float *scores) {
    int at_once = even_group(p->num_queries);
    for (int n = 0; n < p->num_pages; n += 2) {
        const char *page = p->keys[n], *other = n + 1 < p->num_pages ? p->keys[n + 1] : page;
        Lines l = {page, other, page, page, 64};
        int ahead = n + PAGES_AHEAD - p->num_pages; /* after the keys, the values are next */
        if (ahead < p->num_pages) l.next_first = ahead < 0 ? p->keys[n + PAGES_AHEAD] : p->values[ahead];
        if (ahead + 1 < p->num_pages)
            l.next_second = ahead + 1 < 0 ? p->keys[n + PAGES_AHEAD + 1] : p->values[ahead + 1];
        for (int r = 0; r < p->num_queries; r += at_once) {
            int rows = p->num_queries - r < at_once ? p->num_queries - r : at_once;
            const char *operand = (const char *)q + (long)r * dim * operand_bytes(type);
#define CALL(type, n_rows) score(type, n_rows, dim, operand, l, ld, scores + (long)r * ld + n * PAGE)
            WITH_ROWS(CALL, rows)
#undef CALL
            l.next_first = l.next_second = page; /* asked for once */
        }
    }
}

/* One query's scores [ld] become weights relative to the largest, of the type that products take; what it doesn't
 * see, [0, low) and [high, ld), weighs nothing. extent: the largest exponent of two, and the sum of weights. */
INLINE void weigh(int type, float scale, int low, int high, int ld, float *scores, void *weights, float *extent) {
    for (int t = 0; t < low; t++) scores[t] = -INFINITY;
    for (int t = high; t < ld; t++) scores[t] = -INFINITY;
    vfloat most = load(scores), most_too = load(scores + LANES), total = {0};
    for (int t = TILE; t < ld; t += TILE)
        most = larger(load(scores + t), most), most_too = larger(load(scores + t + LANES), most_too);
    float largest = largest_of(larger(most, most_too)), log2_scale = scale * 1.44269504088896341f;
    extent[0] = largest * log2_scale;
    float subtracted = largest == -INFINITY ? 0 : extent[0];
#pragma GCC unroll 4
    for (int t = 0; t < ld; t += LANES) {
        vfloat weight = exp2_of(load(scores + t) * log2_scale - subtracted);
        store_from_float(operand_type(type), weights, t, weight);
        total += load_as_float(operand_type(type), weights, t); /* what was rounded away is in neither sum */
    }
    extent[1] = sum_of(total);
}

/* out [queries][RESULT(dim)], `width` elements from `at` on: values weighted, at most ROWS_AT_ONCE queries. */
INLINE void add_weighted(int type, int num_rows, int dim, const Pages *p, const char *weights, int ld, int at,
                         int width, int prefetches, float *out) {
    int lines = type == BFLOAT16 ? PAGE / 2 : PAGE;
    long line_bytes = width * 4, offset = at * PAGE * bytes_of(type);
    vfloat left[ROWS_AT_ONCE], right[ROWS_AT_ONCE];
    EACH_ROW left[r] = right[r] = (vfloat){0};
    for (int n = 0; n < p->num_pages; n++) {
        const char *line = p->values[n] + offset, *next = line;
        if (prefetches && n + PAGES_AHEAD < p->num_pages) next = p->values[n + PAGES_AHEAD] + offset;
        Lines l = {line, line + line_bytes - 64, next, next + line_bytes - 64, line_bytes};
        add_lines(type, num_rows, weights + n * PAGE * operand_bytes(type), ld, l, lines, left, right);
    }
    EACH_ROW {
        store(out + r * (long)RESULT(dim) + at, left[r]);
        if (width == TILE) store(out + r * (long)RESULT(dim) + at + LANES, right[r]);
    }
}

static void add_values(int type, int dim, const Pages *p, const char *weights, int ld, float *out) {
    int at_once = even_group(p->num_queries);
    for (int at = 0; at < dim; at += TILE)
        for (int r = 0; r < p->num_queries; r += at_once) {
            int width = dim - at < TILE ? LANES : TILE;
            int rows = p->num_queries - r < at_once ? p->num_queries - r : at_once;
            const char *operand = weights + (long)r * ld * operand_bytes(type);
#define CALL(type, n_rows) \
    add_weighted(type, n_rows, dim, p, operand, ld, at, width, r == 0, out + r * (long)RESULT(dim))
            WITH_ROWS(CALL, rows)
#undef CALL
        }
}

/* q [queries][dim] float32. lows, highs [queries]: which of the pages' keys a query sees.
 * out [queries][RESULT(dim)]: weighted sum of values, largest exponent, sum of weights. */
static void attend_pages(int type, int dim, Pages *p, const int *lows, const int *highs, const float *q, float scale,
                         float *out) {
    int queries = p->num_queries, ld = (p->num_pages + 1) / 2 * TILE;
    float scores[(long)queries * ld] __attribute__((aligned(64)));
    char operand[(long)queries * dim * 4] __attribute__((aligned(64)));
    char weights[(long)queries * ld * 4] __attribute__((aligned(64)));
    uint32_t first_seen[PAGE * dim] __attribute__((aligned(64)));
    uint32_t last_seen[PAGE * dim] __attribute__((aligned(64)));
    for (long i = 0; i < (long)queries * dim; i += LANES) store_from_float(operand_type(type), operand, i, load(q + i));
    score_pages(type, dim, p, operand, ld, scores);
    for (int i = 0; i < queries; i++)
        weigh(type, scale, lows[i], highs[i], ld, scores + (long)i * ld, weights + (long)i * ld * operand_bytes(type),
              out + i * (long)RESULT(dim) + dim);
    int end = p->num_pages - 1, before_end = end * PAGE;
    if (p->last < p->num_pages * PAGE) {
        const uint32_t *page = (const uint32_t *)p->values[end];
        copy_seen(type, dim, page, p->first_key - before_end, p->last - before_end, last_seen);
        p->values[end] = (char *)last_seen;
    }
    if (p->first_key > 0 && (end > 0 || p->values[0] != (char *)last_seen)) {
        copy_seen(type, dim, (const uint32_t *)p->values[0], p->first_key, PAGE, first_seen);
        p->values[0] = (char *)first_seen;
    }
    add_values(type, dim, p, weights, ld, out);
}

#endif
