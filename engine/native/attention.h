/* Attention over pages of 16 keys, grouped query heads, cut into parts of 256 keys.
 *
 * Neighbouring rows of a sequence go together, so that a page is read once for all of them. Parts are cut at
 * multiples of 256 from the start of a sequence, and a key that a row doesn't see has the weight zero in its sums, so
 * a row's result depends neither on its neighbours nor on the number of threads.
 * Values that no row of a unit sees are never multiplied: pages may hold anything past their sequence's end.
 */

#ifndef INTARSIA_ATTENTION_H
#define INTARSIA_ATTENTION_H

#include <omp.h>

#include "pages.h"

#define PART 256
#define QUERIES_TOGETHER 32 /* heads times rows of a unit of work */

typedef struct {
    int32_t num_heads, num_kv_heads, head_dim, type; /* type: of keys and values */
    float scale;
} Heads;

/* What rows of a step see. Row r: keys [first[r], until[r]) of the pages listed at tables + table_starts[r]. */
typedef struct {
    const int32_t *tables, *table_starts, *first, *until;
    int32_t num_rows;
} Sight;

/* Rows [first_row, first_row + num_rows) of one sequence on the keys [from, to), which is in one part: the unit of
 * work, for each key head. num_parts: how many units, one after the other, these rows have. slot: the number of the
 * unit's first result, one a row, counted over units. */
typedef struct {
    int32_t first_row, num_rows, from, to, num_parts, slot;
} Unit;

/* groups: of neighbouring rows that go together. most_parts: units of one of them. */
typedef struct {
    Unit *units;
    int32_t num_units, num_slots, num_groups, most_parts;
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
static void plan_work(const Heads *h, const Sight *sight, Work *work) {
    int num_rows = sight->num_rows;
    work->num_units = work->num_slots = work->num_groups = work->most_parts = 0;
    for (int row = 0, rows; row < num_rows; row += rows) {
        int from = sight->first[row], until = sight->until[row];
        for (rows = 1; rows < rows_together(h) && row + rows < num_rows; rows++) {
            if (sight->table_starts[row + rows] != sight->table_starts[row]) break;
            if (sight->first[row + rows] < from) from = sight->first[row + rows];
            if (sight->until[row + rows] > until) until = sight->until[row + rows];
        }
        int parts = (until - 1) / PART - from / PART + 1;
        if (parts > work->most_parts) work->most_parts = parts;
        work->num_groups++;
        for (int to; from < until; from = to, work->num_units++, work->num_slots += rows) {
            to = (from / PART + 1) * PART < until ? (from / PART + 1) * PART : until;
            if (work->units) work->units[work->num_units] = (Unit){row, rows, from, to, parts, work->num_slots};
        }
    }
}

INLINE int between(int low, int x, int high) { return x < low ? low : x > high ? high : x; }

/* One unit under one key head. q: the first row's queries of that head, q_stride floats from row to row.
 * out [rows][group][RESULT(head_dim)]: weighted sum of values, largest exponent, sum of weights. */
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
static void join_parts(const float *parts, int count, long part_stride, int dim, int out_type, void *out) {
    float largest = parts[dim], total = 0, factors[count];
    for (int p = 1; p < count; p++) largest = fmaxf(largest, parts[p * part_stride + dim]);
    for (int p = 0; p < count; p++) {
        const float *part = parts + p * part_stride;
        factors[p] = exp2f(part[dim] - largest);
        total += factors[p] * part[dim + 1];
    }
    for (int d = 0; d < dim; d += LANES) {
        vfloat sum = {0};
        for (int p = 0; p < count; p++) sum += factors[p] * load(parts + p * part_stride + d);
        store_from_float(out_type, out, d, sum / total);
    }
}

/* One layer's attention of a step. */
typedef struct {
    const Heads *heads;
    const Sight *sight;
    const Work *work;
    const float *q; /* rows are q_stride floats apart */
    long q_stride;
    void *keys, *values;
    float *results; /* num_results of work */
    void *out;      /* [rows][heads][head_dim] of out_type */
    int out_type;
    int num_threads; /* for which results were laid out: no fewer than there are */
} Attention;

/* With many groups of rows each is a piece of work, whose parts are joined while they are in the cache; of few
 * groups, each part is. */
INLINE int groups_suffice(const Heads *h, const Work *w, int num_threads) {
    return w->num_groups * h->num_kv_heads >= 4 * num_threads;
}

/* Floats of a thread's own results. */
INLINE long own_results(const Heads *h, const Work *w) {
    return (long)w->most_parts * rows_together(h) * (h->num_heads / h->num_kv_heads) * RESULT(h->head_dim);
}

INLINE long num_results(const Heads *h, const Work *w, int num_threads) {
    return groups_suffice(h, w, num_threads) ? num_threads * own_results(h, w)
                                             : (long)w->num_slots * h->num_heads * RESULT(h->head_dim);
}

static void attend_part(const Attention *a, const Unit *u, int kv_head, float *results) {
    const Heads *h = a->heads;
    long first_head = (long)kv_head * (h->num_heads / h->num_kv_heads);
    attend_unit(h, a->sight, u, kv_head, a->q + u->first_row * a->q_stride + first_head * h->head_dim, a->q_stride,
                a->keys, a->values, results);
}

/* Results of the group of rows whose first unit is u, its parts part_stride floats apart. */
static void join_group(const Attention *a, const Unit *u, int kv_head, const float *results, long part_stride) {
    const Heads *h = a->heads;
    int group = h->num_heads / h->num_kv_heads, dim = h->head_dim;
    for (int i = 0; i < u->num_rows * group; i++) {
        long at = (long)(u->first_row + i / group) * h->num_heads + kv_head * group + i % group;
        join_parts(results + i * RESULT(dim), u->num_parts, part_stride, dim, a->out_type,
                   (char *)a->out + at * dim * bytes_of(a->out_type));
    }
}

/* Called by all threads. */
static void attend(const Attention *a) {
    const Heads *h = a->heads;
    const Unit *units = a->work->units;
    int group = h->num_heads / h->num_kv_heads, by_groups = groups_suffice(h, a->work, a->num_threads);
    long size = RESULT(h->head_dim);
    float *own = a->results + omp_get_thread_num() * own_results(h, a->work);
#define IS_FIRST(i) (!(i) || units[i].first_row != units[(i) - 1].first_row)
#define RESULTS(u) (a->results + ((long)(u)->slot * h->num_heads + (long)kv_head * (u)->num_rows * group) * size)
#pragma omp for collapse(2) schedule(dynamic, 1)
    for (int i = 0; i < a->work->num_units; i++)
        for (int kv_head = 0; kv_head < h->num_kv_heads; kv_head++) {
            const Unit *u = &units[i];
            if (!by_groups) {
                attend_part(a, u, kv_head, RESULTS(u));
            } else if (IS_FIRST(i)) {
                long part_stride = u->num_rows * group * size;
                for (int p = 0; p < u->num_parts; p++) attend_part(a, u + p, kv_head, own + p * part_stride);
                join_group(a, u, kv_head, own, part_stride);
            }
        }
    if (by_groups) return;
#pragma omp for collapse(2) schedule(static)
    for (int i = 0; i < a->work->num_units; i++)
        for (int kv_head = 0; kv_head < h->num_kv_heads; kv_head++) {
            const Unit *u = &units[i];
            if (IS_FIRST(i)) join_group(a, u, kv_head, RESULTS(u), (long)u->num_rows * h->num_heads * size);
        }
#undef IS_FIRST
#undef RESULTS
}

#endif
