#include "base/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

enum { SPINS = 2000 };

/// The gate of the current loop: its number in the upper half, whether it is closed, and how many workers are inside. One
/// word, so that a worker enters only a loop that is still open. A worker that wakes too late finds the gate closed and
/// nobody waits for it: on a busy machine a loop is never slower than one thread alone.
enum { GATE_EPOCH_SHIFT = 32 };
#define GATE_CLOSED ((uint64_t)1 << 31)
#define GATE_INSIDE (GATE_CLOSED - 1)

typedef struct job {
  crn_pool_fn fn;
  void *user;
  int64_t n, chunk;
} job;

struct crn_pool {
  const cairn_allocator *allocator;
  int n_threads;  // with the caller
  pthread_t *threads;
  int n_started;
  pthread_mutex_t turn;  // held by the caller whose loop is running
  pthread_mutex_t lock;  // guards sleeping and waking
  pthread_cond_t wake, idle;
  job job;               // changed only while the gate is closed and nobody is inside
  _Atomic int64_t next;  // first index nobody took yet
  _Atomic uint64_t gate;
  _Atomic int n_sleeping;  // workers that need a signal
  _Atomic bool stop;
};

typedef struct worker_start {
  crn_pool *pool;
  int worker;
} worker_start;

static void relax(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static void take_chunks(crn_pool *p, int worker) {
  const job *j = &p->job;
  for (;;) {
    int64_t begin = atomic_fetch_add_explicit(&p->next, j->chunk, memory_order_relaxed);
    if (begin >= j->n) return;
    int64_t end = begin + j->chunk < j->n ? begin + j->chunk : j->n;
    j->fn(j->user, begin, end, worker);
  }
}

static bool may_enter(const crn_pool *p, uint32_t seen) {
  uint64_t gate = atomic_load(&p->gate);
  return atomic_load(&p->stop) || (!(gate & GATE_CLOSED) && (uint32_t)(gate >> GATE_EPOCH_SHIFT) != seen);
}

// Spins a little, then sleeps until there is a loop that the worker has not been in.
static void await_loop(crn_pool *p, uint32_t seen) {
  for (int i = 0; i < SPINS; i++) {
    if (may_enter(p, seen)) return;
    relax();
  }
  pthread_mutex_lock(&p->lock);
  // The count is raised before the gate is looked at again, and the caller looks at it after opening the gate: one of
  // both sees the other.
  atomic_fetch_add(&p->n_sleeping, 1);
  while (!may_enter(p, seen)) pthread_cond_wait(&p->wake, &p->lock);
  atomic_fetch_sub(&p->n_sleeping, 1);
  pthread_mutex_unlock(&p->lock);
}

static bool enter(crn_pool *p, uint32_t *in_out_seen) {
  uint64_t gate = atomic_load(&p->gate);
  while (!(gate & GATE_CLOSED) && (uint32_t)(gate >> GATE_EPOCH_SHIFT) != *in_out_seen) {
    if (!atomic_compare_exchange_weak(&p->gate, &gate, gate + 1)) continue;
    *in_out_seen = (uint32_t)(gate >> GATE_EPOCH_SHIFT);
    return true;
  }
  return false;
}

static void leave(crn_pool *p) {
  uint64_t before = atomic_fetch_sub(&p->gate, 1);
  if (!(before & GATE_CLOSED) || (before & GATE_INSIDE) != 1) return;
  pthread_mutex_lock(&p->lock);
  pthread_cond_signal(&p->idle);
  pthread_mutex_unlock(&p->lock);
}

static void *worker_main(void *argument) {
  worker_start start = *(worker_start *)argument;
  crn_free(start.pool->allocator, argument, sizeof start);
  crn_pool *p = start.pool;
  uint32_t seen = 0;
  for (;;) {
    await_loop(p, seen);
    if (atomic_load(&p->stop)) return NULL;
    if (!enter(p, &seen)) continue;
    take_chunks(p, start.worker);
    leave(p);
  }
}

static void wake_sleepers(crn_pool *p) {
  if (atomic_load(&p->n_sleeping) == 0) return;
  pthread_mutex_lock(&p->lock);
  pthread_cond_broadcast(&p->wake);
  pthread_mutex_unlock(&p->lock);
}

// Closes the gate and waits for those who are inside.
static void close_gate(crn_pool *p) {
  uint64_t gate = atomic_fetch_or(&p->gate, GATE_CLOSED);
  for (int i = 0; i < SPINS && (gate & GATE_INSIDE); i++) {
    relax();
    gate = atomic_load(&p->gate);
  }
  if (!(gate & GATE_INSIDE)) return;
  pthread_mutex_lock(&p->lock);
  while (atomic_load(&p->gate) & GATE_INSIDE) pthread_cond_wait(&p->idle, &p->lock);
  pthread_mutex_unlock(&p->lock);
}

static cairn_status start_worker(crn_pool *p, int worker) {
  worker_start *start;
  CRN_TRY(crn_alloc(p->allocator, sizeof *start, &start));
  *start = (worker_start){p, worker};
  if (pthread_create(&p->threads[p->n_started], NULL, worker_main, start)) {
    crn_free(p->allocator, start, sizeof *start);
    return CRN_FAIL(OUT_OF_MEMORY, "cannot start worker thread %d of %d", worker, p->n_threads);
  }
  p->n_started++;
  return CAIRN_OK;
}

cairn_status crn_pool_create(const cairn_allocator *allocator, int n_threads, crn_pool **out_pool) {
  *out_pool = NULL;
  if (n_threads < 1 || n_threads > CRN_MAX_THREADS)
    return CRN_FAIL(INVALID_ARGUMENT, "%d threads asked for, 1 to %d are possible", n_threads, CRN_MAX_THREADS);
  crn_pool *p;
  CRN_TRY(crn_alloc_zero(allocator, sizeof *p, &p));
  p->allocator = allocator;
  p->n_threads = n_threads;
  pthread_mutex_init(&p->turn, NULL);
  pthread_mutex_init(&p->lock, NULL);
  pthread_cond_init(&p->wake, NULL);
  pthread_cond_init(&p->idle, NULL);
  atomic_init(&p->gate, GATE_CLOSED);
  cairn_status status = crn_alloc_array(allocator, (size_t)n_threads, sizeof *p->threads, &p->threads);
  for (int i = 1; i < n_threads && status == CAIRN_OK; i++) status = start_worker(p, i);
  if (status != CAIRN_OK) {
    crn_pool_destroy(p);
    return status;
  }
  *out_pool = p;
  return CAIRN_OK;
}

void crn_pool_destroy(crn_pool *p) {
  if (!p) return;
  atomic_store(&p->stop, true);
  pthread_mutex_lock(&p->lock);
  pthread_cond_broadcast(&p->wake);
  pthread_mutex_unlock(&p->lock);
  for (int i = 0; i < p->n_started; i++) pthread_join(p->threads[i], NULL);
  pthread_mutex_destroy(&p->turn);
  pthread_mutex_destroy(&p->lock);
  pthread_cond_destroy(&p->wake);
  pthread_cond_destroy(&p->idle);
  crn_free(p->allocator, p->threads, (size_t)p->n_threads * sizeof *p->threads);
  crn_free(p->allocator, p, sizeof *p);
}

int crn_pool_threads(const crn_pool *p) { return p ? p->n_threads : 1; }

void crn_pool_run(crn_pool *p, int64_t n, int64_t grain, crn_pool_fn fn, void *user) {
  if (n <= 0) return;
  if (grain < 1) grain = 1;
  if (!p || p->n_started == 0 || n <= grain) {
    fn(user, 0, n, 0);
    return;
  }
  pthread_mutex_lock(&p->turn);
  // About four chunks a worker: enough to even out a slow core, few enough to keep the counter quiet.
  int64_t chunk = (n + p->n_threads * 4 - 1) / (p->n_threads * 4);
  p->job = (job){fn, user, n, chunk < grain ? grain : chunk};
  atomic_store_explicit(&p->next, 0, memory_order_relaxed);
  // A new number opens the gate with nobody inside. Zero is what workers start with, so it is never used.
  uint32_t epoch = (uint32_t)(atomic_load(&p->gate) >> GATE_EPOCH_SHIFT) + 1;
  atomic_store(&p->gate, (uint64_t)(epoch ? epoch : 1) << GATE_EPOCH_SHIFT);
  wake_sleepers(p);
  take_chunks(p, 0);
  close_gate(p);
  pthread_mutex_unlock(&p->turn);
}

// Cores a cgroup v2 quota allows ("max 100000" or "150000 100000"), or a large number.
static int cgroup_cores(void) {
  FILE *f = fopen("/sys/fs/cgroup/cpu.max", "r");
  if (!f) return CRN_MAX_THREADS;
  long long quota = 0, period = 0;
  int n = fscanf(f, "%lld %lld", &quota, &period);
  fclose(f);
  if (n != 2 || quota <= 0 || period <= 0) return CRN_MAX_THREADS;
  int cores = (int)((quota + period - 1) / period);
  return cores < 1 ? 1 : cores;
}

int crn_usable_cores(void) {
  int cores = 0;
  cpu_set_t set;
  if (!sched_getaffinity(0, sizeof set, &set)) cores = CPU_COUNT(&set);
  if (cores < 1) cores = (int)sysconf(_SC_NPROCESSORS_ONLN);
  int quota = cgroup_cores();
  if (quota < cores) cores = quota;
  if (cores > CRN_MAX_THREADS) cores = CRN_MAX_THREADS;
  return cores < 1 ? 1 : cores;
}
