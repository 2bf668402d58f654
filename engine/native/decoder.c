/* All layers of a decoder in one parallel region: no interpreter and no allocation between operations.
 *
 * Knows packed weights, pages and rows; a step's own arrays come from the caller, scratch memory is taken once a
 * call. Activations are float32 between operations and are rounded to the weights' type where a product reads them.
 */

#include <stdlib.h>

#include "attention.h"
#include "shares.h"

typedef struct {
    Matrix qkv, o, gate_up, down; /* gate_up: a tile is 16 outputs of gate, then the same 16 of up */
    const float *input_norm, *post_norm;
    const float *q_norm, *k_norm, *qkv_bias, *o_bias, *gate_up_bias, *down_bias; /* each may be null */
    void *keys, *values;
    int32_t sight; /* which of the step's sights: layers differ in their windows */
} Layer;

typedef struct {
    Heads heads;
    int32_t hidden_size, intermediate_size, num_layers;
    float eps;
    const Layer *layers;
    const float *final_norm;   /* null: rows are not normed */
    const float *frequencies;  /* [head_dim / 2]: what a position is multiplied with to get an angle */
    const int32_t *axes;       /* [head_dim / 2]: which of a row's positions turns this frequency */
    float rotary_scale;
} Decoder;

/* Added to rows of hidden states after a layer. */
typedef struct {
    int32_t layer, first_row, num_rows;
    long stride;        /* from row to row, in elements */
    const void *values; /* [num_rows][hidden_size], of the weights' type */
} Added;

typedef struct {
    int32_t num_rows, num_sights;
    const void *hidden;     /* [rows][hidden_size], of the weights' type */
    void *output;           /* the same, [num_read] */
    const int64_t *positions; /* [axes][rows], or [rows] where one position stands for all axes */
    int32_t num_axes;
    const int64_t *slots;   /* [rows] */
    const Sight *sights;
    int32_t num_added;
    const Added *added;
    int32_t num_read, read_sight; /* read_sight: what the rows that are read see in the last layer */
    const int64_t *read;          /* [num_read], ascending: rows whose output is wanted; null if all are */
} Step;

typedef struct {
    int num_threads;
    float *hidden, *qkv, *results;
    float *cos, *sin; /* [rows][head_dim / 2] */
    void *attended, *activated, *operands;
    long operand_stride; /* from a thread's piece of operands to the next's; 0: all threads share one */
    Work *work; /* one for each sight */
    Share *shares; /* one for each thread */
} Scratch;

#define ROWS_NORMED_ALONE 32

static int weight_type(const Decoder *d) { return d->layers[0].qkv.type; }

static long rounded(long bytes) { return (bytes + 63) / 64 * 64; }

static long lay_out(const Decoder *d, const Step *s, int num_threads, Scratch *x, char *memory) {
    long rows = s->num_rows, used = 0, type = weight_type(d);
    const Heads *h = &d->heads;
    long attended = (long)h->num_heads * h->head_dim;
    long most_results = 0;
#define TAKE(field, bytes) x->field = (void *)(memory + used), used += rounded(bytes)
    TAKE(hidden, rows * d->hidden_size * 4);
    TAKE(qkv, rows * (attended + 2L * h->num_kv_heads * h->head_dim) * 4);
    TAKE(attended, rows * attended * operand_bytes(type));
    TAKE(activated, rows * d->intermediate_size * operand_bytes(type));
    x->operand_stride = rows > ROWS_NORMED_ALONE ? 0 : rounded(rows * d->hidden_size * operand_bytes(type));
    TAKE(operands, x->operand_stride ? num_threads * x->operand_stride : rows * d->hidden_size * operand_bytes(type));
    TAKE(cos, rows * h->head_dim * 2);
    TAKE(sin, rows * h->head_dim * 2);
    TAKE(work, s->num_sights * sizeof(Work));
    TAKE(shares, num_threads * sizeof(Share));
    for (int i = 0; i < s->num_sights; i++) {
        Work counted = {0};
        plan_work(h, &s->sights[i], &counted);
        long results = num_results(h, &counted, num_threads);
        if (results > most_results) most_results = results;
        Work w = {.units = (void *)(memory + used)};
        used += rounded(counted.num_units * sizeof(Unit));
        if (memory) plan_work(h, &s->sights[i], &w), x->work[i] = w;
    }
    TAKE(results, most_results * 4);
#undef TAKE
    return used;
}

/* out = x / rms(x) * weight, each [size]. */
static void norm_row(const float *x, const float *weight, float eps, int size, int type, void *out) {
    vfloat squares = {0};
    for (int i = 0; i < size; i += LANES) squares += load(x + i) * load(x + i);
    float factor = 1.0f / sqrtf(sum_of(squares) / size + eps);
    for (int i = 0; i < size; i += LANES) store_from_float(type, out, i, load(x + i) * factor * load(weight + i));
}

/* Few rows each thread norms for itself, which is cheaper than waiting for others; many they share. */
static void norm_operand(const Decoder *d, const Step *s, const Scratch *x, const float *weight, char *out) {
    int type = operand_type(weight_type(d));
#define NORM(r)                                                                                 \
    norm_row(x->hidden + (r) * d->hidden_size, weight, d->eps, d->hidden_size, type,            \
             out + (r) * d->hidden_size * bytes_of(type))
    if (x->operand_stride) {
        for (long r = 0; r < s->num_rows; r++) NORM(r);
        return;
    }
#pragma omp for schedule(static)
    for (long r = 0; r < s->num_rows; r++) NORM(r);
#undef NORM
}

INLINE vfloat load_or_zero(const float *maybe, long at) { return maybe ? load(maybe + at) : (vfloat){0}; }

/* This thread's share of a product: a tile and a group of rows at a time, tile after tile of a block of rows. */
#define EACH_PIECE(worker, w, num_rows, tile, first, count)                                                    \
    EACH_TILE(worker, num_tiles(w) * num_blocks(w, num_rows), piece_)                                          \
    for (long tile = piece_ % num_tiles(w), more_ = 1; more_; more_ = 0)                                       \
    EACH_GROUP(num_rows, piece_ / num_tiles(w), num_blocks(w, num_rows), first, count)

/* Where each 16 of a tile's 32 sums go, row by row: padding past the outputs goes nowhere. */
#define EACH_HALF(w, tile)                                                                             \
    for (int half = 0, at = (tile) * TILE; half < 2 && at < (w)->num_outputs; half++, at += LANES)

INLINE const char *row_of(const Matrix *w, const void *operand, long row) {
    return (const char *)operand + row * w->num_inputs * operand_bytes(w->type);
}

static void project_qkv(const Layer *l, const Step *s, const Scratch *x, const void *operand, Worker *worker) {
    long outputs = l->qkv.num_outputs;
    EACH_PIECE(worker, &l->qkv, s->num_rows, tile, first, count) {
        float sums[ROWS_AT_ONCE * TILE];
        multiply_tile(&l->qkv, tile, row_of(&l->qkv, operand, first), count, sums);
        EACH_HALF(&l->qkv, tile) {
            vfloat bias = load_or_zero(l->qkv_bias, at);
            for (long r = 0; r < count; r++)
                store(x->qkv + (first + r) * outputs + at, load(sums + r * TILE + half * LANES) + bias);
        }
    }
    end_phase(worker);
}

static void add_product(const Matrix *w, const float *maybe_bias, const Step *s, const Scratch *x,
                        const void *operand, Worker *worker) {
    EACH_PIECE(worker, w, s->num_rows, tile, first, count) {
        float sums[ROWS_AT_ONCE * TILE];
        multiply_tile(w, tile, row_of(w, operand, first), count, sums);
        EACH_HALF(w, tile) {
            vfloat bias = load_or_zero(maybe_bias, at);
            for (long r = 0; r < count; r++) {
                float *hidden = x->hidden + (first + r) * w->num_outputs + at;
                store(hidden, load(hidden) + load(sums + r * TILE + half * LANES) + bias);
            }
        }
    }
    end_phase(worker);
}

INLINE vfloat silu(vfloat x) { return x / (1.0f + exp_of(blend(x < -87.0f, splat(87.0f), -x))); }

static void gate_and_up(const Layer *l, const Step *s, const Scratch *x, const void *operand, Worker *worker) {
    long size = l->gate_up.num_outputs / 2;
    EACH_PIECE(worker, &l->gate_up, s->num_rows, tile, first, count) {
        float sums[ROWS_AT_ONCE * TILE];
        multiply_tile(&l->gate_up, tile, row_of(&l->gate_up, operand, first), count, sums);
        vfloat gate_bias = load_or_zero(l->gate_up_bias, tile * TILE);
        vfloat up_bias = load_or_zero(l->gate_up_bias, tile * TILE + LANES);
        for (long r = 0; r < count; r++) {
            vfloat gate = load(sums + r * TILE) + gate_bias, up = load(sums + r * TILE + LANES) + up_bias;
            store_from_float(operand_type(l->gate_up.type), x->activated, (first + r) * size + tile * LANES,
                             silu(gate) * up);
        }
    }
    end_phase(worker);
}

/* How far each row's positions turn its pairs. One row after the other and one function for all of them, so that a
 * position's angles are the same bits in every step. */
static void find_turns(const Decoder *d, const Step *s, const Scratch *x) {
    int half = d->heads.head_dim / 2;
#pragma omp for schedule(static)
    for (long r = 0; r < s->num_rows; r++)
        for (int i = 0; i < half; i++) {
            long axis = s->num_axes > 1 ? d->axes[i] : 0;
            float angle = (float)s->positions[axis * s->num_rows + r] * d->frequencies[i];
            x->cos[r * half + i] = cosf(angle) * d->rotary_scale;
            x->sin[r * half + i] = sinf(angle) * d->rotary_scale;
        }
}

static void turn(const float *cos, const float *sin, int half, float *head) {
    for (int i = 0; i < half; i++) {
        float a = head[i], b = head[i + half];
        head[i] = a * cos[i] - b * sin[i];
        head[i + half] = b * cos[i] + a * sin[i];
    }
}

/* Norms and turns queries and keys in place, and writes keys and values at their slots. */
static void rotate_and_write(const Decoder *d, const Layer *l, const Step *s, const Scratch *x) {
    const Heads *h = &d->heads;
    int dim = h->head_dim, turned = h->num_heads + h->num_kv_heads, all = turned + h->num_kv_heads;
#pragma omp for collapse(2) schedule(static)
    for (long r = 0; r < s->num_rows; r++)
        for (int head = 0; head < all; head++) {
            float *vector = x->qkv + (r * all + head) * dim;
            if (head < turned) {
                const float *weight = head < h->num_heads ? l->q_norm : l->k_norm;
                if (weight) norm_row(vector, weight, d->eps, dim, FLOAT32, vector);
                turn(x->cos + r * (dim / 2), x->sin + r * (dim / 2), dim / 2, vector);
            }
            if (head < h->num_heads) continue;
            int kv_head = (head - h->num_heads) % h->num_kv_heads;
            long page = s->slots[r] / PAGE, t = s->slots[r] % PAGE;
            if (head < turned)
                write_key(h->type, dim, vector, t, page_head(h, l->keys, page, kv_head));
            else
                write_value(h->type, dim, vector, t, page_head(h, l->values, page, kv_head));
        }
}

static void add_rows(const Decoder *d, const Step *s, const Scratch *x, int layer) {
    int type = weight_type(d);
    for (const Added *a = s->added; a < s->added + s->num_added; a++) {
        if (a->layer != layer) continue;
#pragma omp for schedule(static)
        for (long r = 0; r < a->num_rows; r++) {
            float *hidden = x->hidden + (a->first_row + r) * d->hidden_size;
            for (int i = 0; i < d->hidden_size; i += LANES)
                store(hidden + i, load(hidden + i) + load_as_float(type, a->values, r * a->stride + i));
        }
    }
}

/* The step of those rows alone that are read, moved to the front. */
static Step keep_read(const Decoder *d, const Step *s, const Scratch *x) {
    long width = d->hidden_size, outputs = d->layers[0].qkv.num_outputs;
#pragma omp single
    for (long r = 0; r < s->num_read; r++) {
        memmove(x->hidden + r * width, x->hidden + s->read[r] * width, width * sizeof(float));
        memmove(x->qkv + r * outputs, x->qkv + s->read[r] * outputs, outputs * sizeof(float));
    }
    Step narrowed = *s;
    narrowed.num_rows = s->num_read;
    return narrowed;
}

/* In the last layer all rows get their keys and values; the rest is computed for rows that are read. */
static void run_layers(const Decoder *d, const Step *all, const Scratch *x) {
    Worker worker = begin_work(x->shares);
    char *operand = (char *)x->operands + worker.thread * x->operand_stride;
    Step step = *all, *s = &step;
    find_turns(d, s, x);
    for (int i = 0; i < d->num_layers; i++) {
        const Layer *l = &d->layers[i];
        int sight = l->sight;
        norm_operand(d, s, x, l->input_norm, operand);
        project_qkv(l, s, x, operand, &worker);
        rotate_and_write(d, l, s, x);
        if (i + 1 == d->num_layers && s->read) step = keep_read(d, s, x), sight = s->read_sight;
        attend(&(Attention){&d->heads, &s->sights[sight], &x->work[sight], x->qkv, l->qkv.num_outputs, l->keys, l->values,
                            x->results, x->attended, operand_type(l->o.type), x->num_threads});
        add_product(&l->o, l->o_bias, s, x, x->attended, &worker);
        norm_operand(d, s, x, l->post_norm, operand);
        gate_and_up(l, s, x, operand, &worker);
        add_product(&l->down, l->down_bias, s, x, x->activated, &worker);
        add_rows(d, s, x, i);
    }
}

/* hidden -> output, after the final norm. -1 if there is no memory. */
int run_decoder(const Decoder *d, const Step *s, int num_threads) {
    Scratch x = {.num_threads = num_threads};
    long bytes = lay_out(d, s, num_threads, &x, NULL);
    char *memory = aligned_alloc(64, bytes);
    if (!memory) return -1;
    lay_out(d, s, num_threads, &x, memory);
    memset(x.shares, 0, num_threads * sizeof *x.shares);
    int type = weight_type(d);
    for (long i = 0; i < (long)s->num_rows * d->hidden_size; i += LANES)
        store(x.hidden + i, load_as_float(type, s->hidden, i));
#pragma omp parallel num_threads(num_threads)
    run_layers(d, s, &x);
    for (long r = 0; r < s->num_read; r++) {
        char *output = (char *)s->output + r * d->hidden_size * bytes_of(type);
        if (d->final_norm)
            norm_row(x.hidden + r * d->hidden_size, d->final_norm, d->eps, d->hidden_size, type, output);
        else
            for (int i = 0; i < d->hidden_size; i += LANES)
                store_from_float(type, output, i, load(x.hidden + r * d->hidden_size + i));
    }
    free(memory);
    return 0;
}

/* out float32 [rows][num_outputs] = x [rows][num_inputs], of w's type, times w. -1 if there is no memory. */
int multiply(const Matrix *w, const void *x, int num_rows, float *out, int num_threads) {
    long count = (long)num_rows * w->num_inputs, operand = rounded(count * operand_bytes(w->type));
    char *memory = aligned_alloc(64, operand + num_threads * sizeof(Share));
    if (!memory) return -1;
    Share *shares = (void *)(memory + operand);
    memset(shares, 0, num_threads * sizeof *shares);
    for (long i = 0; i < count; i += LANES)
        store_from_float(operand_type(w->type), memory, i, load_as_float(w->type, x, i));
#pragma omp parallel num_threads(num_threads)
    {
        Worker worker = begin_work(shares);
        EACH_PIECE(&worker, w, num_rows, tile, first, count) {
            float sums[ROWS_AT_ONCE * TILE];
            multiply_tile(w, tile, row_of(w, memory, first), count, sums);
            long at = (long)tile * TILE, width = at_most(w->num_outputs - at, TILE);
            for (long r = 0; r < count; r++) memcpy(out + (first + r) * w->num_outputs + at, sums + r * TILE, width * 4);
        }
    }
    free(memory);
    return 0;
}

/* Writes k, v float32 [rows][kv heads][head_dim] at their slots. */
void write_rows(const Heads *h, int num_rows, const int64_t *slots, const float *k, const float *v, void *keys,
                void *values) {
    for (long i = 0; i < (long)num_rows * h->num_kv_heads; i++) {
        long slot = slots[i / h->num_kv_heads], head = i % h->num_kv_heads, dim = h->head_dim;
        write_key(h->type, dim, k + i * dim, slot % PAGE, page_head(h, keys, slot / PAGE, head));
        write_value(h->type, dim, v + i * dim, slot % PAGE, page_head(h, values, slot / PAGE, head));
    }
}

/* out float32 [rows][heads][head_dim]: rows of q, float32 of the same shape, attend to pages that hold their keys. */
int attend_rows(const Heads *h, const Sight *sight, const float *q, void *keys, void *values,
                float *out, int num_threads) {
    Work w = {0};
    plan_work(h, sight, &w);
    long units = rounded(w.num_units * sizeof(Unit));
    char *memory = aligned_alloc(64, units + rounded(num_results(h, &w, num_threads) * sizeof(float)));
    if (!memory) return -1;
    w.units = (void *)memory;
    plan_work(h, sight, &w);
#pragma omp parallel num_threads(num_threads)
    attend(&(Attention){h, sight, &w, q, (long)h->num_heads * h->head_dim, keys, values, (float *)(memory + units), out,
                        FLOAT32, num_threads});
    free(memory);
    return 0;
}
