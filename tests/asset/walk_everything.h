/// Walks everything an asset has, for tests that feed damaged files: whatever the bytes are, each step must end with
/// success or a status, and within the memory the caller's allocator allows.
#ifndef CRN_TESTS_ASSET_WALK_EVERYTHING_H
#define CRN_TESTS_ASSET_WALK_EVERYTHING_H

#include <stdlib.h>
#include <string.h>

#include "asset/asset.h"

/// An allocator that counts, refuses to hold more than `limit` bytes and fails at call number `fail_at` (0 = never).
typedef struct test_allocator {
  cairn_allocator allocator;
  size_t live, peak, limit;
  long calls, fail_at;
  bool hit_limit;
} test_allocator;

static void *counting_alloc(void *self, size_t bytes, size_t align) {
  test_allocator *t = self;
  if (++t->calls == t->fail_at) return NULL;
  if (bytes > t->limit || t->live > t->limit - bytes) {
    t->hit_limit = true;
    return NULL;
  }
  void *p = NULL;
  if (posix_memalign(&p, align < sizeof p ? sizeof p : align, bytes ? bytes : 1)) return NULL;
  t->live += bytes;
  if (t->live > t->peak) t->peak = t->live;
  return p;
}

static void counting_free(void *self, void *pointer, size_t bytes) {
  test_allocator *t = self;
  t->live -= bytes;
  free(pointer);
}

static inline void test_allocator_initialize(test_allocator *t) {
  *t = (test_allocator){.limit = SIZE_MAX};
  t->allocator = (cairn_allocator){t, counting_alloc, counting_free};
}

/// Memory a file of that size may need at most: a byte of a file can stand for a whole value or the descriptor of one,
/// which is why the factor is not small, but nothing is allocated that no byte of the file pays for.
static inline size_t walk_memory_limit(size_t file_bytes) { return (1u << 20) + 600 * file_bytes; }

typedef struct walk_sink {
  size_t bytes, limit;
} walk_sink;

static cairn_status walk_write(void *user, const char *text, size_t bytes) {
  (void)text;
  walk_sink *s = user;
  s->bytes += bytes;
  return s->bytes > s->limit ? CAIRN_CANCELLED : CAIRN_OK;
}

static cairn_status walk_count(void *user, const char *name, int64_t count) {
  *(size_t *)user += strlen(name) + (size_t)count;
  return CAIRN_OK;
}

static cairn_status walk_weight(void *user, const cairn_weight_info *w) {
  *(size_t *)user += strlen(w->name) + (size_t)w->rank;
  return CAIRN_OK;
}

typedef struct walk_constants {
  crn_bc_module *module;
  size_t sum;
} walk_constants;

static cairn_status walk_constant(void *user, const crn_bc_op *op) {
  walk_constants *w = user;
  crn_bc_constant c;
  if (op->n_results != 1 || strcmp(op->name, "primitive.constant_v1") != 0) return CAIRN_OK;
  // A constant that cannot be read is not the end: later ones are looked at too.
  if (crn_bc_constant_data(w->module, crn_bc_op_property(op, "value"), op->results[0]->type, &c) != CAIRN_OK) return CAIRN_OK;
  if (c.bytes) w->sum += (size_t)c.data[0] + c.data[c.bytes - 1];
  return CAIRN_OK;
}

static cairn_status walk_all_constants(const cairn_asset *asset) {
  walk_constants w = {0};
  CRN_TRY(crn_asset_open_module(asset, &w.module));
  cairn_status status = crn_bc_walk(w.module, crn_bc_module_top(w.module), true, walk_constant, &w);
  crn_bc_module_close(w.module);
  return status;
}

/// Runs every step on an opened asset and returns the first failure. At most `print_limit` bytes are printed.
static inline cairn_status walk_everything(const cairn_asset *asset, size_t print_limit) {
  size_t sum = 0;
  walk_sink sink = {.limit = print_limit};
  const cairn_print_options all = {.bodies = true, .locations = true, .large_data = true}, none = {0};
  cairn_status first = CAIRN_OK, status[5];
  for (int i = 0; i < cairn_asset_function_count(asset); i++) sum += strlen(cairn_asset_function(asset, i)->name);
  status[0] = cairn_asset_count_operations(asset, walk_count, &sum);
  status[1] = cairn_asset_visit_weights(asset, walk_weight, &sum);
  status[2] = cairn_asset_print(asset, &none, walk_write, &sink);
  status[3] = cairn_asset_print(asset, &all, walk_write, &sink);
  status[4] = walk_all_constants(asset);
  for (int i = 0; i < 5 && first == CAIRN_OK; i++) first = status[i];
  return first;
}

#endif
