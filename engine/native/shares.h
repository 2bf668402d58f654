/* The tiles of a product among the threads of a step.
 *
 * Each thread begins with a range of its own, so that it reads one stream of memory: two that took turns would each
 * ask ahead for what the other reads. Then it takes tiles from the ends of the others' ranges, so that a thread
 * that was put aside, even before it began, keeps nobody waiting for more than its one tile.
 */

#ifndef INTARSIA_SHARES_H
#define INTARSIA_SHARES_H

#include <omp.h>
#include <stdatomic.h>
#include <stdint.h>

/* What is left of a thread's range, and in which phase: phase << 48 | first << 24 | end. In an earlier phase than a
 * reader's the whole range is left. One to a cache line, zeros at first. */
typedef struct {
    _Atomic uint64_t state;
    char padding[56];
} Share;

/* A thread's own view. All threads go through the same phases, with a barrier after each; the first is 1. */
typedef struct {
    Share *shares;
    uint64_t phase;
    int thread, num_threads;
} Worker;

static Worker begin_work(Share *shares) {
    return (Worker){shares, 1, omp_get_thread_num(), omp_get_num_threads()};
}

/* The first tile of what is left of [first, end), or the last; -1 if nothing is. */
static int take_from(Share *share, uint64_t phase, uint64_t first, uint64_t end, int last) {
    const uint64_t mask = (1 << 24) - 1;
    uint64_t old = atomic_load_explicit(&share->state, memory_order_relaxed), left;
    int tile;
    do {
        if (old >> 48 == phase) first = old >> 24 & mask, end = old & mask;
        if (first >= end) return -1;
        tile = last ? end - 1 : first;
        left = last ? first << 24 | (end - 1) : (first + 1) << 24 | end;
    } while (!atomic_compare_exchange_weak_explicit(&share->state, &old, phase << 48 | left, memory_order_relaxed,
                                                    memory_order_relaxed));
    return tile;
}

/* The next of `count` tiles for this thread, -1 if all are taken. */
static int take_tile(const Worker *w, long count) {
    for (int i = 0; i < w->num_threads; i++) {
        long of = (w->thread + i) % w->num_threads;
        int tile = take_from(&w->shares[of], w->phase, count * of / w->num_threads,
                             count * (of + 1) / w->num_threads, i > 0);
        if (tile >= 0) return tile;
    }
    return -1;
}

#define EACH_TILE(worker, count, tile) for (int tile; (tile = take_tile(worker, count)) >= 0;)

/* Wait until all tiles are done. */
static void end_phase(Worker *w) {
    w->phase++;
#pragma omp barrier
}

#endif
