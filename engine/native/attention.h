/* Attention over pages of 16 keys, grouped query heads, cut into parts of 256 keys.
 *
 * Neighbouring rows of a sequence go together, so that a page is read once for all of them. Parts are cut at
 * multiples of 256 from the start of a sequence, and a key that a row doesn't see has the weight zero in its sums, so
 * a row's result depends neither on its neighbours nor on the number of threads.
 * Values that no row of a unit sees are never multiplied: pages may hold anything past their sequence's end.
 */

#ifndef INTARSIA_ATTENTION_H
#define INTARSIA_ATTENTION_H

#include "pages.h"

#define PART 256
#define QUERIES_TOGETHER 32 /* heads times rows of a unit of work */

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

/* Where a head of a page begins: pages are [kv heads][16 keys' elements], in the order of pages.h. */
INLINE char *page_head(const Heads *h, void *pages, long page, int kv_head) {
    return (char *)pages + (page * h->num_kv_heads + kv_head) * PAGE * h->head_dim * bytes_of(h->type);
}

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

INLINE int between(int low, int x, int high) { return x < low ? low : x > high ? high : x; }

/* One unit under one key head. q: the first row's queries of that head, q_stride floats from row to row.
 * out [rows][group][head_dim + 2]: weighted sum of values, largest exponent, sum of weights. */
static void attend_unit(const Heads *h, const Sight *sight, const Unit *u, int kv_head, const float *q, long q_stride,
                        void *keys, void *values, float *out) {
    long dim = h->head_dim;
    int group = h->num_heads / h->num_kv_heads, queries = group * u->num_rows;
    int first = u->from / PAGE, pages = (u->to - 1) / PAGE - first + 1, origin = first * PAGE;
    const int32_t *table = sight->tables + sight->table_starts[u->first_row] + first;
    int lows[queries], highs[queries];
    float together[queries * dim] __attribute__((aligned(64)));
    for (int r = 0; r < u->num_rows; r++) {
        memcpy(together + r * group * dim, q + r * q_stride, group * dim * sizeof *q);
        for (int g = 0; g < group; g++) {
            lows[r * group + g] = between(u->from, sight->first[u->first_row + r], u->to) - origin;
            highs[r * group + g] = between(u->from, sight->until[u->first_row + r], u->to) - origin;
        }
    }
    const char *page_keys[pages], *page_values[pages];
    for (int n = 0; n < pages; n++) {
        page_keys[n] = page_head(h, keys, table[n], kv_head);
        page_values[n] = page_head(h, values, table[n], kv_head);
    }
    Pages p = {page_keys, page_values, pages, queries, u->from - origin, u->to - origin};
    attend_pages(h->type, dim, &p, lows, highs, together, h->scale, out);
}

/* out [head_dim] from the parts of one row and head, in their order; they lie part_stride floats apart. A part of
 * which the row sees nothing has the largest exponent -inf, so it adds zeros. */
static void join_parts(const float *parts, int count, long part_stride, int dim, float *out) {
    float largest = parts[dim];
    for (int p = 1; p < count; p++) largest = fmaxf(largest, parts[p * part_stride + dim]);
    float total = 0;
    for (int d = 0; d < dim; d += LANES) store(out + d, (vfloat){0});
    for (int p = 0; p < count; p++) {
        const float *part = parts + p * part_stride;
        float factor = exp2f(part[dim] - largest);
        total += factor * part[dim + 1];
        for (int d = 0; d < dim; d += LANES) store(out + d, load(out + d) + factor * load(part + d));
    }
    for (int d = 0; d < dim; d += LANES) store(out + d, load(out + d) / total);
}

#endif
