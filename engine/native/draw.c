/* Drawing tokens from rows of logits under temperature, top-k, top-p and min-p, without sorting a vocabulary.
 *
 * The same rules as engine/draw.py: all limits are thresholds on the scaled logit, so equal tokens stay or go
 * together; the draw inverts the cumulative distribution of what stays, in order of token id.
 */

#include <float.h>
#include <omp.h>
#include <stdlib.h>

#include "vectors.h"

#define BLOCK 64
#define CANDIDATES 256 /* at least so many of the likeliest tokens are looked at before all are */
#define BINS 512
#define LOG2_E 1.44269504088896341f

typedef struct {
    const float *logits; /* [vocab], -inf where forbidden, finite somewhere */
    double top_p, min_p, random; /* random: in [0, 1) */
    float temperature;
    int32_t top_k; /* 0: no limit */
} Draw;

/* Some tokens' (logit - best) / temperature, and its exponential. */
typedef struct {
    float *values, *weights;
    long count;
} Tokens;

/* A row on its way: all its tokens, padded to whole blocks with some of no weight; the largest value of each block;
 * space for some of the tokens, twice. */
typedef struct {
    Tokens all, some, fewer;
    float *best;
} Row;

#define ARRAYS 6

static long padded(long count) { return (count + BLOCK - 1) / BLOCK * BLOCK; }

static Row lay_out_row(float *memory, long size) {
    Tokens t[3];
    for (int i = 0; i < 3; i++) t[i] = (Tokens){memory + 2 * i * size, memory + (2 * i + 1) * size, size};
    return (Row){t[0], t[1], t[2], memory + ARRAYS * size};
}

static void scale_and_weigh(const Draw *d, long vocab, Row *row) {
    float *values = row->all.values;
    vfloat largest = splat(-INFINITY);
    memcpy(values, d->logits, vocab * sizeof *values);
    for (long i = vocab; i < row->all.count; i++) values[i] = -INFINITY;
    for (long i = 0; i < row->all.count; i += LANES) largest = larger(largest, load(values + i));
    float most = largest_of(largest);
    for (long start = 0; start < row->all.count; start += BLOCK) {
        vfloat best = splat(-INFINITY);
        for (long i = start; i < start + BLOCK; i += LANES) {
            vfloat scaled = (load(values + i) - most) / d->temperature;
            best = larger(best, scaled);
            store(values + i, scaled);
            store(row->all.weights + i, exp2_of(scaled * LOG2_E));
        }
        row->best[start / BLOCK] = largest_of(best);
    }
}

/* What those in the block from `start` on weigh whose values are at least `least`. */
static double block_sum(const Row *row, long start, float least) {
    if (row->best[start / BLOCK] < least) return 0;
    vfloat sum = {0};
    for (long i = start; i < start + BLOCK; i += LANES)
        sum += blend(load(row->all.values + i) >= least, load(row->all.weights + i), (vfloat){0});
    return sum_of(sum);
}

INLINE double sum_from(const Row *row, float least) {
    double sum = 0;
    for (long start = 0; start < row->all.count; start += BLOCK) sum += block_sum(row, start, least);
    return sum;
}

/* The largest of the values such that those not below it weigh `target` together, the least of them if all weigh
 * less. Narrows the range it lies in, a histogram at a time; scratch may be t. */
static float crossing(Tokens t, int by_weight, double target, Tokens scratch) {
    for (double above = 0;;) {
        float low = INFINITY, high = -INFINITY;
        for (long i = 0; i < t.count; i++) {
            high = t.values[i] > high ? t.values[i] : high;
            low = t.values[i] < low && t.values[i] > -INFINITY ? t.values[i] : low;
        }
        float per_bin = BINS / (high - low);
        if (!(low < high && per_bin < 1e30f)) return low; /* equal, as near as makes no difference */
#define BIN_OF(value) ((int)((high - (value)) * per_bin) < BINS ? (int)((high - (value)) * per_bin) : BINS - 1)
        double mass[BINS] = {0};
        for (long i = 0; i < t.count; i++)
            if (t.values[i] >= low) mass[BIN_OF(t.values[i])] += by_weight ? t.weights[i] : 1;
        int bin = 0;
        while (bin < BINS && above + mass[bin] < target) above += mass[bin++];
        if (bin == BINS) return low;
        scratch.count = 0;
        for (long i = 0; i < t.count; i++) {
            if (!(t.values[i] >= low) || BIN_OF(t.values[i]) != bin) continue;
            scratch.values[scratch.count] = t.values[i];
            scratch.weights[scratch.count++] = t.weights[i];
        }
        t = scratch;
#undef BIN_OF
    }
}

/* The likeliest tokens: `wanted` or a few more, all that are not forbidden if those are fewer. As many blocks have a
 * token at least as likely as the least of them; where only so few blocks have any, all of theirs are taken. */
static Tokens likeliest(Row *row, long wanted) {
    long num_blocks = row->all.count / BLOCK, allowed = 0;
    for (long block = 0; block < num_blocks; block++) allowed += row->best[block] > -INFINITY;
    Tokens blocks = {row->best, row->best, num_blocks};
    float least = allowed < wanted ? -FLT_MAX : crossing(blocks, 0, wanted, row->fewer);
    Tokens found = row->some;
    found.count = 0;
    for (long block = 0; block < num_blocks; block++) {
        if (row->best[block] < least) continue;
        for (long i = block * BLOCK; i < (block + 1) * BLOCK; i++) {
            found.values[found.count] = row->all.values[i];
            found.weights[found.count] = row->all.weights[i];
            found.count += row->all.values[i] >= least;
        }
    }
    return found;
}

INLINE double weight_from(Tokens t, float least) {
    double sum = 0;
    for (long i = 0; i < t.count; i++) sum += t.values[i] >= least ? t.weights[i] : 0;
    return sum;
}

static float log_rounded_up(double x) {
    float rounded = (float)log(x);
    return rounded < log(x) ? nextafterf(rounded, INFINITY) : rounded;
}

/* The least value that may be drawn. Top-p counts what top-k keeps. */
static float threshold(const Draw *d, long vocab, Row *row) {
    float least = d->min_p > 0 ? log_rounded_up(d->min_p) : -INFINITY;
    int by_count = d->top_k > 0 && d->top_k < vocab, by_mass = d->top_p < 1;
    if (!by_count && !by_mass) return least;
    Tokens tokens = likeliest(row, by_count && d->top_k > CANDIDATES ? d->top_k : CANDIDATES);
    float kth = by_count ? crossing(tokens, 0, d->top_k, row->fewer) : -INFINITY;
    least = least > kth ? least : kth;
    if (!by_mass) return least;
    double target = d->top_p * (by_count ? weight_from(tokens, kth) : sum_from(row, -INFINITY));
    if (!by_count && weight_from(tokens, -INFINITY) < target) tokens = row->all;
    float nucleus = crossing(tokens, 1, target, row->fewer);
    return least > nucleus ? least : nucleus;
}

static long draw_row(const Draw *d, long vocab, Row *row) {
    scale_and_weigh(d, vocab, row);
    float least = threshold(d, vocab, row);
    double target = d->random * sum_from(row, least), before = 0, until = 0;
    long first = 0, drawn = 0;
    for (long start = 0; start < row->all.count && until <= target; start += BLOCK) {
        double sum = block_sum(row, start, least);
        if (sum > 0) first = start, before = until; /* so that rounding can't lead past the last token */
        until += sum;
    }
    for (long i = first; i < row->all.count && before <= target; i++)
        if (row->all.values[i] >= least && row->all.weights[i] > 0) drawn = i, before += row->all.weights[i];
    return drawn;
}

/* tokens [rows]: one drawn from each. -1 if there is no memory. */
int draw_rows(const Draw *draws, int num_rows, long vocab, int64_t *tokens, int num_threads) {
    long size = padded(vocab);
    if (num_threads > num_rows) num_threads = num_rows;
    long each = padded(ARRAYS * size + size / BLOCK);
    float *memory = aligned_alloc(64, each * num_threads * sizeof *memory);
    if (!memory) return -1;
#pragma omp parallel num_threads(num_threads)
    {
        Row row = lay_out_row(memory + each * omp_get_thread_num(), size);
#pragma omp for schedule(dynamic, 1)
        for (int r = 0; r < num_rows; r++) tokens[r] = draw_row(&draws[r], vocab, &row);
    }
    free(memory);
    return 0;
}
