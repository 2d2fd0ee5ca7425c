/// Helps unit tests call reference kernels directly: tensors on the heap, scratch memory, attributes of composites.
/// Included by test programs only, after cmocka.
#ifndef CRN_BACKEND_CPU_REF_KERNEL_TESTING_H
#define CRN_BACKEND_CPU_REF_KERNEL_TESTING_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/ref/ref.h"

enum { KT_BLOCKS = 4096 };

static void *kt_blocks[KT_BLOCKS];
static int kt_n_blocks;

/// Memory that lives until kt_free_all.
static inline void *kt_memory(size_t bytes) {
  assert_true(kt_n_blocks < KT_BLOCKS);
  void *block = aligned_alloc(64, (bytes + 64) / 64 * 64);
  assert_non_null(block);
  memset(block, 0xee, (bytes + 64) / 64 * 64);
  return kt_blocks[kt_n_blocks++] = block;
}

static inline int kt_free_all(void **state) {
  (void)state;
  while (kt_n_blocks > 0) free(kt_blocks[--kt_n_blocks]);
  return 0;
}

static inline cairn_status kt_take(crn_scratch *self, size_t bytes, void *out_pointer) {
  (void)self;
  void *block = kt_memory(bytes);
  memcpy(out_pointer, &block, sizeof block);
  return CAIRN_OK;
}

static inline crn_tensor kt_tensor(cairn_dtype dtype, int rank, const int64_t *dims) {
  crn_tensor t = crn_tensor_make(dtype, dims, rank, NULL);
  t.data = kt_memory((size_t)crn_tensor_count(&t) * cairn_dtype_bytes(dtype));
  return t;
}
#define KT_DIMS(...) \
  (const int64_t[]) { __VA_ARGS__ }
#define KT(dtype, ...) kt_tensor(dtype, (int)(sizeof(KT_DIMS(__VA_ARGS__)) / sizeof(int64_t)), KT_DIMS(__VA_ARGS__))

static uint32_t kt_seed = 12345;
static inline double kt_random(void) {
  kt_seed = kt_seed * 1664525u + 1013904223u;
  return (double)(int32_t)kt_seed * 0x1p-31;
}

/// Random values in (-size, size); integers are rounded.
static inline void kt_fill(const crn_tensor *t, double size) {
  for (int64_t i = 0; i < crn_tensor_count(t); i++) {
    double v = kt_random() * size;
    crn_store_f64(t->dtype, crn_tensor_at(t, i), crn_dtype_is_float(t->dtype) ? v : floor(v));
  }
}

static inline crn_tensor kt_random_tensor(cairn_dtype dtype, double size, int rank, const int64_t *dims) {
  crn_tensor t = kt_tensor(dtype, rank, dims);
  kt_fill(&t, size);
  return t;
}
#define KT_RANDOM(dtype, size, ...) \
  kt_random_tensor(dtype, size, (int)(sizeof(KT_DIMS(__VA_ARGS__)) / sizeof(int64_t)), KT_DIMS(__VA_ARGS__))

/// A vector or scalar operand of integers.
static inline crn_tensor kt_ints(cairn_dtype dtype, int n, const int64_t *values) {
  int64_t dims[1] = {n};
  crn_tensor t = kt_tensor(dtype, 1, dims);
  for (int i = 0; i < n; i++) crn_store_i64(dtype, crn_tensor_at(&t, i), values[i]);
  return t;
}
#define KT_INTS(dtype, ...) kt_ints(dtype, (int)(sizeof(KT_DIMS(__VA_ARGS__)) / sizeof(int64_t)), KT_DIMS(__VA_ARGS__))

/// The same elements seen with two dimensions exchanged.
static inline crn_tensor kt_swapped(crn_tensor t, int a, int b) {
  int64_t dim = t.dims[a], stride = t.strides[a];
  t.dims[a] = t.dims[b], t.strides[a] = t.strides[b];
  t.dims[b] = dim, t.strides[b] = stride;
  return t;
}

/// A copy of `t` in which every dimension lies in a larger buffer, so that no stride is the contiguous one.
static inline crn_tensor kt_spread(const crn_tensor *t, int64_t last_step) {
  crn_tensor s = *t;
  int64_t stride = last_step;
  for (int d = t->rank - 1; d >= 0; d--) {
    s.strides[d] = stride;
    stride *= t->dims[d] + 1;
  }
  s.data = kt_memory((size_t)(stride + 1) * cairn_dtype_bytes(t->dtype));
  crn_tensor_copy(t, &s);
  return s;
}

static inline double kt_at(const crn_tensor *t, int64_t i) { return crn_load_f64(t->dtype, crn_tensor_at(t, i)); }

typedef struct kt_call {
  crn_op_id id;
  cairn_status (*kernel)(const crn_kernel_args *args);
  int n;
  const crn_tensor *operands;
  crn_tensor *result;
  int mode;
  const crn_attr *attrs;
  const char *const *names;
  crn_pool *pool;
} kt_call;

static inline cairn_status kt_try(const kt_call *c) {
  crn_scratch scratch = {kt_take};
  crn_kernel_args args = {.id = c->id,
                          .mode = c->mode,
                          .attrs = c->attrs,
                          .input_names = c->names,
                          .n_operands = c->n,
                          .operands = c->operands,
                          .n_results = 1,
                          .results = c->result,
                          .pool = c->pool,
                          .scratch = &scratch};
  return c->kernel(&args);
}

static inline void kt_run(const kt_call *c) {
  if (kt_try(c) != CAIRN_OK) fail_msg("%s: %s", crn_op_info_of(c->id)->name, cairn_last_error()->message);
}

static inline bool kt_same_bytes(const crn_tensor *a, const crn_tensor *b) {
  return !memcmp(a->data, b->data, (size_t)crn_tensor_count(a) * cairn_dtype_bytes(a->dtype));
}

// --- attributes -----------------------------------------------------------------------------------------------------------

static inline crn_attr kt_int(const char *key, int64_t value) { return (crn_attr){.kind = CRN_ATTR_INT, .key = key, .i = value}; }
static inline crn_attr kt_float(const char *key, double value) { return (crn_attr){.kind = CRN_ATTR_FLOAT, .key = key, .f = value}; }
static inline crn_attr kt_dict(const crn_attr *items, uint32_t n) {
  crn_attr dict = {.kind = CRN_ATTR_DICT};
  dict.list.items = items;
  dict.list.n = n;
  return dict;
}

#endif
