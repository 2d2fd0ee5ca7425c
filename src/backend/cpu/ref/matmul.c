#include "backend/cpu/ref/elements.h"
#include "backend/cpu/ref/gemm.h"
#include "backend/cpu/ref/ref.h"
#include "backend/cpu/ref/spans.h"
#include "base/checked.h"

// A product of two stacks of matrices: what both forms of the op are about.
typedef struct matmul {
  const crn_tensor *a, *b, *out;
  int64_t m, n, k, batches;
  int64_t a_strides[CAIRN_MAX_RANK], b_strides[CAIRN_MAX_RANK];  ///< of the batch dimensions of the result
} matmul;

static cairn_status batch_strides(const crn_tensor *t, const crn_tensor *out, int64_t *strides) {
  crn_tensor batch = *t;
  batch.rank -= 2;
  return crn_broadcast_strides(&batch, out->dims, out->rank - 2, strides);
}

static cairn_status describe(const crn_kernel_args *args, matmul *m) {
  const crn_tensor *a = m->a = &args->operands[0], *b = m->b = &args->operands[1], *out = m->out = &args->results[0];
  if (a->rank < 2 || b->rank < 2 || out->rank < 2)
    return CRN_FAIL(INVALID_ARGUMENT, "%s: matrices of rank 2 or more are needed", crn_ref_name(args));
  m->m = a->dims[a->rank - 2];
  m->k = a->dims[a->rank - 1];
  m->n = b->dims[b->rank - 1];
  if (b->dims[b->rank - 2] != m->k || out->dims[out->rank - 2] != m->m || out->dims[out->rank - 1] != m->n) {
    return CRN_FAIL(INVALID_ARGUMENT, "%s: the inner dimensions of the matrices differ", crn_ref_name(args));
  }
  if (a->dtype != b->dtype || a->dtype != out->dtype) {
    return CRN_FAIL(INVALID_ARGUMENT, "%s of %s and %s to %s: the types must be equal", crn_ref_name(args), cairn_dtype_name(a->dtype),
                    cairn_dtype_name(b->dtype), cairn_dtype_name(out->dtype));
  }
  m->batches = 1;
  for (int d = 0; d < out->rank - 2; d++) m->batches *= out->dims[d];
  CRN_TRY_NOTE(batch_strides(a, out, m->a_strides), "in %s", crn_ref_name(args));
  CRN_TRY_NOTE(batch_strides(b, out, m->b_strides), "in %s", crn_ref_name(args));
  return CAIRN_OK;
}

static int64_t batch_offset(const matmul *m, const int64_t *strides, int64_t batch) {
  int64_t offset = 0;
  for (int d = m->out->rank - 3; d >= 0; d--) {
    offset += batch % m->out->dims[d] * strides[d];
    batch /= m->out->dims[d];
  }
  return offset;
}

// --- f32, f16, bf16: the dot kernels ------------------------------------------------------------------------------------

static cairn_status run_gemm(const crn_kernel_args *args, matmul *m) {
  crn_gemm g = {.n_groups = m->batches,
                .n = m->n,
                .k = m->k,
                .b_dtype = m->b->dtype,
                .out_dtype = m->out->dtype,
                .out = m->out->data,
                .out_stride_n = 1};
  CRN_TRY(crn_rows_f32(args, m->a, &g.a));
  crn_tensor a = crn_tensor_make(CAIRN_F32, m->a->dims, m->a->rank, NULL), b;
  CRN_TRY(crn_matrix_ready(args, m->b, &b));
  m->a = &a;
  m->b = &b;
  CRN_TRY(batch_strides(&a, m->out, m->a_strides));
  CRN_TRY(batch_strides(&b, m->out, m->b_strides));
  g.b = b.data;
  g.b_stride_k = b.strides[b.rank - 2];
  g.b_stride_n = b.strides[b.rank - 1];
  // A dimension of size 1 may come with any stride.
  if (m->k == 1 && g.b_stride_n != 1) g.b_stride_k = 1;

  // When all batches share the weights, their rows form one group: fewer and larger jobs.
  bool shared = true;
  for (int d = 0; d < m->out->rank - 2; d++) shared = shared && (m->b_strides[d] == 0 || m->out->dims[d] == 1);
  if (shared && m->batches > 0) g.n_groups = 1;
  int64_t rows, *table;
  size_t bytes;
  if (!crn_mul_i64(m->batches, m->m, &rows) || !crn_mul_size((size_t)rows + (size_t)m->batches, 2 * sizeof *table, &bytes)) {
    return CRN_FAIL(OUT_OF_RANGE, "%s: too many rows", crn_ref_name(args));
  }
  CRN_TRY(args->scratch->take(args->scratch, bytes + sizeof *table, &table));
  int64_t *a_at = table, *out_at = a_at + rows, *b_at = out_at + rows, *first_row = b_at + m->batches;
  for (int64_t i = 0; i < m->batches; i++) {
    int64_t base = batch_offset(m, m->a_strides, i);
    for (int64_t r = 0; r < m->m; r++) {
      a_at[i * m->m + r] = base + r * m->k;
      out_at[i * m->m + r] = (i * m->m + r) * m->n;
    }
    b_at[i] = batch_offset(m, m->b_strides, i);
    first_row[i] = i * m->m;
  }
  first_row[g.n_groups] = rows;
  g.a_at = a_at, g.out_at = out_at, g.b_at = b_at, g.first_row = first_row;
  crn_gemm_run(&g, args->pool);
  return CAIRN_OK;
}

// --- all other types: one element at a time, adding up in order of k -----------------------------------------------------

static const void *element(const crn_tensor *t, int64_t base, int64_t i, int64_t j) {
  return crn_tensor_at(t, base + i * t->strides[t->rank - 2] + j * t->strides[t->rank - 1]);
}

static void one_float(const matmul *m, const int64_t *base, int64_t i, int64_t j, void *out) {
  bool wide = m->a->dtype == CAIRN_F64;
  double sum = 0;
  for (int64_t k = 0; k < m->k; k++) {
    double p = crn_load_f64(m->a->dtype, element(m->a, base[0], i, k)) * crn_load_f64(m->b->dtype, element(m->b, base[1], k, j));
    sum = wide ? sum + p : (double)(float)(sum + (double)(float)p);
  }
  crn_store_f64(m->out->dtype, out, sum);
}

static void one_integer(const matmul *m, const int64_t *base, int64_t i, int64_t j, void *out) {
  uint64_t sum = 0;
  for (int64_t k = 0; k < m->k; k++) {
    sum += (uint64_t)crn_load_i64(m->a->dtype, element(m->a, base[0], i, k)) *
           (uint64_t)crn_load_i64(m->b->dtype, element(m->b, base[1], k, j));
  }
  crn_store_i64(m->out->dtype, out, (int64_t)sum);
}

static void one_complex(const matmul *m, const int64_t *base, int64_t i, int64_t j, void *out) {
  double sum[2] = {0, 0}, a[2], b[2];
  for (int64_t k = 0; k < m->k; k++) {
    crn_load_pair(m->a->dtype, element(m->a, base[0], i, k), a);
    crn_load_pair(m->b->dtype, element(m->b, base[1], k, j), b);
    crn_add_product(a, b, sum);
  }
  crn_store_pair(m->out->dtype, out, sum);
}

static void run_rows(void *user, int64_t begin, int64_t end, int worker) {
  (void)worker;
  const matmul *m = user;
  for (int64_t row = begin; row < end; row++) {
    int64_t batch = row / m->m, base[2] = {batch_offset(m, m->a_strides, batch), batch_offset(m, m->b_strides, batch)};
    for (int64_t j = 0; j < m->n; j++) {
      void *out = crn_tensor_at(m->out, row * m->n + j);
      if (m->a->dtype == CAIRN_C64) {
        one_complex(m, base, row % m->m, j, out);
      } else if (crn_dtype_is_float(m->a->dtype)) {
        one_float(m, base, row % m->m, j, out);
      } else {
        one_integer(m, base, row % m->m, j, out);
      }
    }
  }
}

static cairn_status matrix_product(const crn_kernel_args *args) {
  matmul m = {0};
  CRN_TRY(describe(args, &m));
  cairn_dtype dtype = m.a->dtype;
  if (crn_gemm_takes(dtype)) return run_gemm(args, &m);
  if (!crn_dtype_is_float(dtype) && !crn_dtype_is_integer(dtype) && dtype != CAIRN_C64) {
    return CRN_FAIL(UNSUPPORTED, "%s of %s has no kernel", crn_ref_name(args), cairn_dtype_name(dtype));
  }
  crn_pool_run(args->pool, m.batches * m.m, 4096 / (m.n * m.k + 1) + 1, run_rows, &m);
  return CAIRN_OK;
}

cairn_status crn_ref_batch_matmul(const crn_kernel_args *args) { return matrix_product(args); }
cairn_status crn_ref_broadcasting_batch_matmul(const crn_kernel_args *args) { return matrix_product(args); }
