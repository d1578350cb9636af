/* The thread pool that parallel kernels call; programs need it only to choose the number of threads.
 *
 * Every function may be called from any thread at any time. */
#ifndef ANSORC_RUNTIME_H
#define ANSORC_RUNTIME_H

#include <stdint.h>

#define ANSORC_RUNTIME_VERSION "0.3.0"

#ifdef __cplusplus
extern "C" {
#endif

/* One part of a parallel loop: the iterations begin … end - 1. */
typedef void (*ansorc_body)(void *closure, int64_t begin, int64_t end);

/* Run `body` over 0 … extent - 1, cut into contiguous parts of nearly equal length, one for each
 * thread that takes part; the calling thread is one of them. Returns 0, after all parts are done.
 * Where a thread has to be woken, they are at most four for each, and whoever is awake takes the next.
 *
 * `threads` is the most that may take part: 0 means ansorc_num_threads(), 1 calls `body` directly.
 * Fewer take part if other calls keep them busy; a call from inside `body` runs alone. */
int32_t ansorc_parallel_for(ansorc_body body, void *closure, int64_t extent, int32_t threads);

/* The same, but cut into parts of `chunk` iterations, the last one maybe shorter: a thread that is done
 * with one takes the next. For iterations of unequal cost; `chunk` < 1 means 1. */
int32_t ansorc_parallel_for_dynamic(ansorc_body body, void *closure, int64_t extent, int64_t chunk,
                                    int32_t threads);

/* Keep workers awake for the parallel loops that this thread runs until ansorc_team_end: many short
 * ones, as the kernels of a network. They spin between two loops, for milliseconds if nothing else
 * needs their core, so beginning and ending a loop costs less than a microsecond.
 *
 * `threads` is the most that take part, as above, this thread included; a loop that asks for fewer gets
 * fewer, one that asks for more gets the team. Workers that are busy when the team begins join it at
 * the first loop that finds them idle. Returns the threads that the team has so far, at least 1.
 *
 * What a loop computes does not depend on it, whatever is called: a second begin in the same thread is
 * counted and does nothing else, nor does an end without begin; loops of other threads are as before.
 * A thread that exits ends its team, and the child of a fork has none. Where `threads` is 1 or in the
 * body of a loop there is no team. */
int32_t ansorc_team_begin(int32_t threads);

/* End what the matching ansorc_team_begin began; the workers go back to the pool. */
void ansorc_team_end(void);

/* What `threads == 0` means: the last ansorc_set_num_threads, else the environment variable
 * ANSORC_NUM_THREADS, else the cores that the process was allowed to use when this was first asked:
 * those in its affinity mask, but no more than its control group's CPU quota pays for, rounded up. */
int32_t ansorc_num_threads(void);

/* Set what `threads == 0` means; 0 or less looks at the environment and the allowed cores again. */
void ansorc_set_num_threads(int32_t threads);

/* Set for how many microseconds an idle worker, or a caller that waits for one, spins before it sleeps;
 * 0 sleeps at once, less than 0 goes back to the environment variable ANSORC_SPIN_US, else 250.
 *
 * A call that comes while workers spin begins in about a microsecond, one that must wake them in tens.
 * Where something else needs the cores they spin for 40 us at most: other processes, more threads than
 * cores, a CPU quota. Teams (above) have their own, longer spin. */
void ansorc_set_spin_us(int32_t microseconds);

/* ANSORC_RUNTIME_VERSION of the code that runs. */
const char *ansorc_runtime_version(void);

#ifdef __cplusplus
}
#endif

#endif
