#include "base/context.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cache.h"
#include "base/cpu.h"
#include "base/log.h"
#include "base/trace.h"

const char *cairn_version(void) { return CAIRN_VERSION; }

static const char *const g_levels[] = {"off", "warning", "info", "debug"};

static int level_of(const char *text) {
  for (int i = 0; i < 4; i++) {
    if (!strcmp(text, g_levels[i])) return i;
  }
  return -1;
}

static cairn_log_level level_from_environment(void) {
  const char *text = getenv("CAIRN_LOG");
  int level = text && *text ? level_of(text) : -1;
  return level < 0 ? CAIRN_LOG_WARNING : (cairn_log_level)level;
}

static cairn_status threads_from_environment(int *out_threads) {
  const char *text = getenv("CAIRN_THREADS");
  char *end;
  *out_threads = crn_usable_cores();
  if (!text || !*text) return CAIRN_OK;
  long n = strtol(text, &end, 10);
  if (*end || n < 1 || n > CRN_MAX_THREADS)
    return CRN_FAIL(INVALID_ARGUMENT, "CAIRN_THREADS is '%s', a number from 1 to %d expected", text, CRN_MAX_THREADS);
  *out_threads = (int)n;
  return CAIRN_OK;
}

// A setting that is misspelt must not be taken for one that is absent.
static cairn_status check_environment(void) {
  const char *text = getenv("CAIRN_LOG");
  if (text && *text && level_of(text) < 0)
    return CRN_FAIL(INVALID_ARGUMENT, "CAIRN_LOG is '%s'; off, warning, info or debug expected", text);
  CRN_TRY(crn_cache_check_environment());
  return crn_cpu_check_mask();
}

void cairn_context_options_initialize(cairn_context_options *options) {
  if (!options) return;
  *options = (cairn_context_options){.log_level = level_from_environment()};
}

static void free_context(cairn_context *c) {
  crn_trace_drop(c);
  pthread_mutex_destroy(&c->work.lock);
  pthread_mutex_destroy(&c->page_lock);
  pthread_cond_destroy(&c->work.changed);
  crn_recycler_deinitialize(&c->blocks);
  cairn_allocator a = c->allocator;
  crn_free(&a, c, sizeof *c);
}

cairn_status cairn_context_create(const cairn_context_options *options, cairn_context **out_context) {
  CRN_REQUIRE(out_context);
  *out_context = NULL;
  cairn_context_options defaults;
  if (!options) {
    cairn_context_options_initialize(&defaults);
    options = &defaults;
  }
  const cairn_allocator *a = options->allocator ? options->allocator : crn_default_allocator();
  if (!a->alloc || !a->free) return CRN_FAIL(INVALID_ARGUMENT, "an allocator needs both alloc and free");
  if (options->n_threads < 0) return CRN_FAIL(INVALID_ARGUMENT, "%d threads asked for, 0 (automatic) or more expected", options->n_threads);
  int n_threads = options->n_threads;
  CRN_TRY(check_environment());
  if (!n_threads) CRN_TRY(threads_from_environment(&n_threads));
  cairn_context *c;
  CRN_TRY(crn_alloc_zero(a, sizeof *c, &c));
  atomic_init(&c->references, 1);
  pthread_mutex_init(&c->work.lock, NULL);
  pthread_mutex_init(&c->page_lock, NULL);
  pthread_cond_init(&c->work.changed, NULL);
  c->allocator = *a;
  crn_recycler_initialize(&c->blocks, &c->allocator);
  c->log_level = options->log_level;
  c->log = options->log;
  c->log_user = options->log_user;
  cairn_status status = crn_pool_create(&c->allocator, n_threads, &c->pool);
  if (status != CAIRN_OK) {
    free_context(c);
    return status;
  }
  *out_context = c;
  return CAIRN_OK;
}

void cairn_context_retain(cairn_context *c) {
  if (!c) return;
  atomic_fetch_add_explicit(&c->references, 1, memory_order_relaxed);
}

void cairn_context_release(cairn_context *c) {
  if (!c || atomic_fetch_sub_explicit(&c->references, 1, memory_order_acq_rel) != 1) return;
  crn_pool_destroy(c->pool);
  free_context(c);
}

int cairn_context_threads(const cairn_context *c) { return c ? crn_pool_threads(c->pool) : 0; }

void crn_log(const cairn_context *c, cairn_log_level level, const char *fmt, ...) {
  if (!c || !c->log || level > c->log_level) return;
  char line[1024];
  va_list args;
  va_start(args, fmt);
  vsnprintf(line, sizeof line, fmt, args);
  va_end(args);
  c->log(c->log_user, level, line);
}
