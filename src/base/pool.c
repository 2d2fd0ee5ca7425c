#include "base/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

/// How long a worker looks out for the next loop, and a caller for those who are still inside, before it sleeps. Between the products of a
/// language model lie tens of microseconds of single steps, between tokens some hundred; a sleep and its end cost two system calls and some
/// tens of microseconds more.
enum { WORKER_SPIN_NS = 500000, CALLER_SPIN_NS = 100000, LOOKS = 32 };
/// Chunks a worker gets at least, where the loop is long enough. Loops of which it is known what comes behind them wait for memory: they
/// are cut finer, for what the last piece takes longer than the others' is lost, and a piece of less reads costs nothing else.
enum { CHUNKS_EACH = 8, FINE_CHUNKS_EACH = 64, LINE = 64, LINES_AT_ONCE = 8 };

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
  int64_t n_chunks;
  crn_pool_ahead ahead;
} job;

/// Chunks of one worker that nobody took yet: the first in the upper half, the end in the lower one. The worker takes from the front, so
/// that it walks through memory in order; those who have done theirs take from the end.
typedef struct share {
  _Alignas(LINE) _Atomic uint64_t left;
} share;

struct crn_pool {
  const cairn_allocator *allocator;
  int n_threads;  // with the caller
  pthread_t *threads;
  int n_started;
  pthread_mutex_t turn;  // held by the caller whose loop is running
  pthread_mutex_t lock;  // guards sleeping and waking
  pthread_cond_t wake, idle;
  job job;            // changed only while the gate is closed and nobody is inside
  share *shares;      // of the workers
  size_t most_ahead;  // bytes a worker asks for
  _Atomic int caller_cpu;
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

// --- shares -------------------------------------------------------------------------------------------------------------------

static int64_t chunk_of(const crn_pool *p, int64_t n, int64_t grain, bool is_fine) {
  int64_t most = (int64_t)p->n_threads * (is_fine ? FINE_CHUNKS_EACH : CHUNKS_EACH), chunk = (n + most - 1) / most;
  return chunk < grain ? grain : chunk;
}

static int64_t share_begin(const crn_pool *p, int64_t n_chunks, int worker) { return n_chunks * worker / p->n_threads; }

static void deal(crn_pool *p) {
  for (int i = 0; i < p->n_threads; i++) {
    uint64_t begin = (uint64_t)share_begin(p, p->job.n_chunks, i), end = (uint64_t)share_begin(p, p->job.n_chunks, i + 1);
    atomic_store_explicit(&p->shares[i].left, begin << 32 | end, memory_order_relaxed);
  }
}

// A third of what is left: pieces are long at first and short at the end, when it matters who ends last.
static bool take(share *s, bool is_own, int64_t *out_begin, int64_t *out_end) {
  uint64_t left = atomic_load_explicit(&s->left, memory_order_relaxed);
  for (;;) {
    uint64_t begin = left >> 32, end = (uint32_t)left;
    if (begin >= end) return false;
    uint64_t n = (end - begin + 2) / 3, rest = is_own ? (begin + n) << 32 | end : begin << 32 | (end - n);
    *out_begin = (int64_t)(is_own ? begin : end - n);
    *out_end = *out_begin + (int64_t)n;
    if (atomic_compare_exchange_weak_explicit(&s->left, &left, rest, memory_order_relaxed, memory_order_relaxed)) return true;
  }
}

static void take_chunks(crn_pool *p, int worker) {
  const job *j = &p->job;
  for (int i = 0; i < p->n_threads; i++) {
    int64_t begin, end;
    while (take(&p->shares[(worker + i) % p->n_threads], i == 0, &begin, &end))
      j->fn(j->user, begin * j->chunk, end * j->chunk < j->n ? end * j->chunk : j->n, worker);
  }
}

// --- memory ahead -------------------------------------------------------------------------------------------------------------

/// What a worker asks for while it waits.
typedef struct asking {
  const char *at, *end;
} asking;

// What the worker will most likely get of the loop that is announced.
static void begin_asking(const crn_pool *p, int worker, asking *a) {
  const crn_pool_ahead *ahead = &p->job.ahead;
  if (!ahead->data || ahead->n < 1) return;
  int64_t chunk = chunk_of(p, ahead->n, ahead->grain < 1 ? 1 : ahead->grain, true), n_chunks = (ahead->n + chunk - 1) / chunk;
  size_t begin = (size_t)(share_begin(p, n_chunks, worker) * chunk) * ahead->item_bytes;
  size_t end = (size_t)(share_begin(p, n_chunks, worker + 1) * chunk) * ahead->item_bytes;
  if (end - begin > p->most_ahead) end = begin + p->most_ahead;
  *a = (asking){(const char *)ahead->data + begin, (const char *)ahead->data + end};
}

static void ask_for_some(asking *a) {
  for (int i = 0; i < LINES_AT_ONCE && a->at < a->end; i++, a->at += LINE) __builtin_prefetch(a->at, 0, 2);
}

// A third of the second-level cache: what a worker did before and does meanwhile has its place there, too.
static size_t find_most_ahead(void) {
  long bytes = 0;
#ifdef _SC_LEVEL2_CACHE_SIZE
  bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
#endif
  return bytes > 0 ? (size_t)bytes / 3 : (size_t)64 << 10;
}

// --- waiting ------------------------------------------------------------------------------------------------------------------

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static bool may_enter(const crn_pool *p, uint32_t seen) {
  uint64_t gate = atomic_load(&p->gate);
  return atomic_load(&p->stop) || (!(gate & GATE_CLOSED) && (uint32_t)(gate >> GATE_EPOCH_SHIFT) != seen);
}

// Looks out for a loop that the worker has not been in, for a while; says whether there is one. On the processor of the caller it would
// only keep the caller from what it is waited for.
static bool look_out(crn_pool *p, uint32_t seen, asking *a) {
  int64_t end = now_ns() + WORKER_SPIN_NS;
  for (int i = 1; !may_enter(p, seen); i++) {
    if (a->at < a->end) {
      ask_for_some(a);
    } else {
      relax();
    }
    if (i % LOOKS) continue;
    if (now_ns() > end || sched_getcpu() == atomic_load_explicit(&p->caller_cpu, memory_order_relaxed)) return false;
  }
  return true;
}

// Looks out, then sleeps until there is a loop that the worker has not been in.
static void await_loop(crn_pool *p, uint32_t seen, asking *a) {
  if (look_out(p, seen, a)) return;
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
  asking ahead = {NULL, NULL};
  for (;;) {
    await_loop(p, seen, &ahead);
    if (atomic_load(&p->stop)) return NULL;
    if (!enter(p, &seen)) continue;
    take_chunks(p, start.worker);
    begin_asking(p, start.worker, &ahead);
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
  int64_t end = gate & GATE_INSIDE ? now_ns() + CALLER_SPIN_NS : 0;
  for (int i = 1; gate & GATE_INSIDE; i++) {
    relax();
    gate = atomic_load(&p->gate);
    if (i % LOOKS == 0 && now_ns() > end) break;
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
  atomic_init(&p->caller_cpu, -1);
  p->most_ahead = find_most_ahead();
  cairn_status status = crn_alloc_array(allocator, (size_t)n_threads, sizeof *p->threads, &p->threads);
  if (status == CAIRN_OK) status = crn_alloc_array(allocator, (size_t)n_threads, sizeof *p->shares, &p->shares);
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
  crn_free(p->allocator, p->shares, (size_t)p->n_threads * sizeof *p->shares);
  crn_free(p->allocator, p, sizeof *p);
}

int crn_pool_threads(const crn_pool *p) { return p ? p->n_threads : 1; }

void crn_pool_run(crn_pool *p, int64_t n, int64_t grain, crn_pool_fn fn, void *user) { crn_pool_run_before(p, n, grain, fn, user, NULL); }

void crn_pool_run_before(crn_pool *p, int64_t n, int64_t grain, crn_pool_fn fn, void *user, const crn_pool_ahead *ahead) {
  if (n <= 0) return;
  if (grain < 1) grain = 1;
  if (!p || p->n_started == 0 || n <= grain) {
    fn(user, 0, n, 0);
    return;
  }
  pthread_mutex_lock(&p->turn);
  int64_t chunk = chunk_of(p, n, grain, ahead && ahead->data);
  p->job = (job){fn, user, n, chunk, (n + chunk - 1) / chunk, ahead ? *ahead : (crn_pool_ahead){0}};
  deal(p);
  atomic_store_explicit(&p->caller_cpu, sched_getcpu(), memory_order_relaxed);
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
