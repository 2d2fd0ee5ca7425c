/// Short forms for the tests of inference.
#ifndef CRN_PROGRAM_INFER_TESTING_H
#define CRN_PROGRAM_INFER_TESTING_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "program/infer/dims.h"

#define DIMS(...) ((const int64_t[]){__VA_ARGS__}), (int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

enum { ANY = CAIRN_DYNAMIC };

/// A tensor of which only the shape is known.
static inline crn_tensor shaped(cairn_dtype dtype, const int64_t *dims, int rank) { return crn_tensor_make(dtype, dims, rank, NULL); }

/// A scalar of unknown value.
static inline crn_tensor scalar(cairn_dtype dtype) { return crn_tensor_make(dtype, NULL, 0, NULL); }

/// si32 and ui32 vectors and a si32 scalar with data that the caller keeps.
#define I32(...) vector_over(CAIRN_SI32, (int32_t[]){__VA_ARGS__}, (int)(sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t)))
#define U32(...) vector_over(CAIRN_UI32, (uint32_t[]){__VA_ARGS__}, (int)(sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t)))
#define I32_SCALAR(v) crn_tensor_make(CAIRN_SI32, NULL, 0, (int32_t[]){v})

static inline crn_tensor vector_over(cairn_dtype dtype, void *data, int n) {
  int64_t dims = n;
  return crn_tensor_make(dtype, &dims, 1, data);
}

/// Infers with nothing declared but the element type (NONE for that, too).
static inline cairn_status infer_as(crn_op_id id, int mode, cairn_dtype declared, const crn_tensor *operands, int n, crn_tensor *out) {
  *out = (crn_tensor){.dtype = declared, .rank = -1};
  crn_infer_args args = {.id = id, .mode = mode, .n_operands = n, .operands = operands, .n_results = 1, .results = out};
  return crn_infer_of(id)(&args);
}

#define INFER(id, out, ...)                                                     \
  infer_as(CRN_OP_##id, 0, CAIRN_DTYPE_NONE, (const crn_tensor[]){__VA_ARGS__}, \
           (int)(sizeof((const crn_tensor[]){__VA_ARGS__}) / sizeof(crn_tensor)), out)
#define INFER_MODE(id, mode, out, ...)                                             \
  infer_as(CRN_OP_##id, mode, CAIRN_DTYPE_NONE, (const crn_tensor[]){__VA_ARGS__}, \
           (int)(sizeof((const crn_tensor[]){__VA_ARGS__}) / sizeof(crn_tensor)), out)
#define INFER_DTYPE(id, dtype, out, ...)                             \
  infer_as(CRN_OP_##id, 0, dtype, (const crn_tensor[]){__VA_ARGS__}, \
           (int)(sizeof((const crn_tensor[]){__VA_ARGS__}) / sizeof(crn_tensor)), out)

static inline void assert_shape(const crn_tensor *t, cairn_dtype dtype, const int64_t *dims, int rank) {
  assert_int_equal(t->dtype, dtype);
  assert_int_equal(t->rank, rank);
  for (int i = 0; i < rank; i++) assert_int_equal(t->dims[i], dims[i]);
}

/// The failure of the last call has this code, and its text names what it is about.
static inline void assert_failure(cairn_status got, cairn_status wanted, const char *part) {
  char text[512];
  assert_int_equal(got, wanted);
  cairn_last_error_text(text, sizeof text);
  if (!strstr(text, part)) fail_msg("'%s' is not in '%s'", part, text);
}

#endif
