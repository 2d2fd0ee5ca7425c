/// Running one reference kernel in a test: inference, result memory full of rubbish, scratch, kernel.
#ifndef CRN_BACKEND_CPU_REF_TESTING_H
#define CRN_BACKEND_CPU_REF_TESTING_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "backend/cpu/ref/ref.h"

#define DIMS(...) ((const int64_t[]){__VA_ARGS__}), (int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))
#define COUNT_OF(...) ((int)(sizeof((__VA_ARGS__)) / sizeof((__VA_ARGS__)[0])))

#define I32(...) over(CAIRN_SI32, (int32_t[]){__VA_ARGS__}, (int)(sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t)))
#define U32(...) over(CAIRN_UI32, (uint32_t[]){__VA_ARGS__}, (int)(sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t)))
#define F32(...) over(CAIRN_F32, (float[]){__VA_ARGS__}, (int)(sizeof((float[]){__VA_ARGS__}) / sizeof(float)))
#define I32_SCALAR(v) crn_tensor_make(CAIRN_SI32, NULL, 0, (int32_t[]){v})
#define F32_SCALAR(v) crn_tensor_make(CAIRN_F32, NULL, 0, (float[]){v})
#define BOOL_SCALAR(v) crn_tensor_make(CAIRN_BOOL, NULL, 0, (uint8_t[]){v})
#define OPERANDS(...) (const crn_tensor[]){__VA_ARGS__}, (int)(sizeof((const crn_tensor[]){__VA_ARGS__}) / sizeof(crn_tensor))

static inline crn_tensor over(cairn_dtype dtype, void *data, int n) {
  int64_t dims = n;
  return crn_tensor_make(dtype, &dims, 1, data);
}

/// A contiguous tensor with another shape over the same data.
static inline crn_tensor shape_as(crn_tensor t, const int64_t *dims, int rank) { return crn_tensor_make(t.dtype, dims, rank, t.data); }

enum { TEST_BLOCKS = 64 };

typedef struct test_scratch {
  crn_scratch base;
  void *blocks[TEST_BLOCKS];
  int n;
} test_scratch;

static inline cairn_status test_take(crn_scratch *self, size_t bytes, void *out_pointer) {
  test_scratch *s = (test_scratch *)self;
  if (s->n == TEST_BLOCKS) return CRN_FAIL(OUT_OF_MEMORY, "too many scratch blocks");
  // aligned_alloc wants a multiple; the kernel must not rely on cleared memory.
  void *block = aligned_alloc(64, (bytes + 64) / 64 * 64 + 64);
  if (!block) return CRN_FAIL(OUT_OF_MEMORY, "%zu bytes", bytes);
  memset(block, 0xA5, bytes);
  s->blocks[s->n++] = block;
  *(void **)out_pointer = block;
  return CAIRN_OK;
}

typedef struct test_call {
  crn_op_id id;
  int mode;
  cairn_dtype dtype;  ///< of the result where the op does not derive it
  crn_pool *pool;
  int n_results;  ///< 0 counts as 1
} test_call;

static inline cairn_status test_compute(const test_call *call, crn_kernel_args *args) {
  test_scratch scratch = {.base = {test_take}};
  args->scratch = &scratch.base;
  cairn_status status = crn_ref_kernel_of(call->id)(args);
  for (int i = 0; i < scratch.n; i++) free(scratch.blocks[i]);
  return status;
}

static inline void test_release(crn_tensor *results, int n) {
  for (int i = 0; i < n; i++) {
    free(results[i].data);
    results[i].data = NULL;
  }
}

/// Infers and computes. On success the caller releases the results.
static inline cairn_status test_run(test_call call, const crn_tensor *operands, int n, crn_tensor *out_results) {
  int n_results = call.n_results ? call.n_results : 1;
  for (int i = 0; i < n_results; i++) out_results[i] = (crn_tensor){.dtype = call.dtype, .rank = -1};
  crn_infer_args infer = {
      .id = call.id, .mode = call.mode, .n_operands = n, .operands = operands, .n_results = n_results, .results = out_results};
  CRN_TRY(crn_infer_of(call.id)(&infer));
  for (int i = 0; i < n_results; i++) {
    size_t bytes;
    assert_true(crn_shape_bytes(out_results[i].dtype, out_results[i].dims, out_results[i].rank, &bytes));
    out_results[i].data = malloc(bytes ? bytes : 1);
    assert_non_null(out_results[i].data);
    memset(out_results[i].data, 0xA5, bytes);
    out_results[i].packed = false;
    crn_tensor_set_contiguous(&out_results[i]);
  }
  crn_kernel_args args = {.id = call.id,
                          .mode = call.mode,
                          .n_operands = n,
                          .operands = operands,
                          .n_results = n_results,
                          .results = out_results,
                          .pool = call.pool};
  cairn_status status = test_compute(&call, &args);
  if (status != CAIRN_OK) test_release(out_results, n_results);
  return status;
}

static inline void assert_dims(const crn_tensor *t, const int64_t *dims, int rank) {
  assert_int_equal(t->rank, rank);
  for (int i = 0; i < rank; i++) assert_int_equal(t->dims[i], dims[i]);
}

/// Compares all elements in row-major order (through f64) and releases the tensor. NaN equals NaN.
static inline void assert_values(crn_tensor *t, const double *wanted, int n) {
  assert_int_equal(crn_tensor_count(t), n);
  for (int i = 0; i < n; i++) {
    double v = crn_load_f64(t->dtype, crn_tensor_at(t, i));
    if (v != wanted[i] && !(v != v && wanted[i] != wanted[i])) fail_msg("element %d is %.9g, wanted %.9g", i, v, wanted[i]);
  }
  test_release(t, 1);
}
#define VALUES(...) ((const double[]){__VA_ARGS__}), (int)(sizeof((const double[]){__VA_ARGS__}) / sizeof(double))

static inline void assert_failure(cairn_status got, cairn_status wanted, const char *part) {
  char text[512];
  assert_int_equal(got, wanted);
  cairn_last_error_text(text, sizeof text);
  if (!strstr(text, part)) fail_msg("'%s' is not in '%s'", part, text);
}

/// A small generator, the same numbers on every run.
static inline uint32_t test_random(uint32_t *state) {
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

#endif
