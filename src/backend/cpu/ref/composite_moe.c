// gather_mm: matrices chosen by index on one or both sides, multiplied. With indices of shape I a side of shape
// [batch.., E, R, C] becomes [batch.., I.., R, C]; then the leading dimensions broadcast as in a matrix product. Nothing is
// gathered in memory: rows that use the same right matrix are computed together, so that each is read once.
#include <stdlib.h>
#include <string.h>

#include "backend/cpu/ref/composite.h"
#include "backend/cpu/ref/elements.h"
#include "backend/cpu/ref/gemm.h"
#include "backend/cpu/ref/spans.h"

// One side of the product: where the matrix of each element of the result's batch dimensions lies.
typedef struct side {
  crn_tensor t;
  const crn_tensor *index;                ///< NULL: not gathered
  int n_batch;                            ///< leading dimensions in front of the gathered one
  int64_t strides[CAIRN_MAX_RANK];        ///< over the batch dimensions of the result: of what is not gathered
  int64_t index_strides[CAIRN_MAX_RANK];  ///< and of the indices
} side;

typedef struct product {
  int64_t b_at, batch;
} product;

static cairn_status prepare_side(const crn_kernel_args *args, const char *name, side *s) {
  const crn_tensor *out = &args->results[0];
  int batch_rank = out->rank - 2;
  if (!s->index) {
    crn_tensor batch = s->t;
    batch.rank -= 2;
    return crn_broadcast_strides(&batch, out->dims, batch_rank, s->strides);
  }
  const crn_tensor *index = s->index;
  if (!crn_dtype_is_integer(index->dtype))
    return CRN_FAIL(UNSUPPORTED, "gather_mm: the indices of '%s' are %s", name, cairn_dtype_name(index->dtype));
  if (s->t.rank != s->n_batch + 3 || s->n_batch + index->rank > batch_rank) {
    return CRN_FAIL(UNSUPPORTED, "gather_mm: '%s' of rank %d with %d batch axes has no kernel", name, s->t.rank, s->n_batch);
  }
  // The dimensions the side would have once gathered, seen as two views: what the batch axes add and what the indices add.
  crn_tensor batch = {.rank = s->n_batch + index->rank}, chosen = batch;
  for (int d = 0; d < batch.rank; d++) {
    bool is_batch = d < s->n_batch;
    batch.dims[d] = chosen.dims[d] = is_batch ? s->t.dims[d] : index->dims[d - s->n_batch];
    batch.strides[d] = is_batch ? s->t.strides[d] : 0;
    chosen.strides[d] = is_batch ? 0 : index->strides[d - s->n_batch];
  }
  CRN_TRY_NOTE(crn_broadcast_strides(&batch, out->dims, batch_rank, s->strides), "in gather_mm");
  return crn_broadcast_strides(&chosen, out->dims, batch_rank, s->index_strides);
}

// Offset of the matrix that belongs to a batch element of the result.
static cairn_status matrix_at(const crn_tensor *out, const side *s, int64_t batch, int64_t *out_at) {
  int64_t at = 0, index_at = 0;
  for (int d = out->rank - 3; d >= 0; d--) {
    int64_t i = batch % out->dims[d];
    batch /= out->dims[d];
    at += i * s->strides[d];
    if (s->index) index_at += i * s->index_strides[d];
  }
  if (s->index) {
    int64_t n = s->t.dims[s->n_batch], i = crn_load_i64(s->index->dtype, crn_tensor_at(s->index, index_at));
    if (i < -n || i >= n)
      return CRN_FAIL(INVALID_ARGUMENT, "gather_mm: index %lld is outside of %lld matrices", (long long)i, (long long)n);
    at += (i < 0 ? i + n : i) * s->t.strides[s->n_batch];
  }
  *out_at = at;
  return CAIRN_OK;
}

static int by_matrix(const void *x, const void *y) {
  const product *a = x, *b = y;
  if (a->b_at != b->b_at) return a->b_at < b->b_at ? -1 : 1;
  return a->batch < b->batch ? -1 : a->batch > b->batch;
}

static cairn_status check(const crn_kernel_args *args) {
  static const char *const names[] = {"lhs_indices", "rhs_indices", NULL};
  const crn_tensor *lhs = &args->operands[0], *rhs = &args->operands[1], *out = &args->results[0];
  CRN_TRY(crn_composite_names(args, 2, names));
  if (!crn_gemm_takes(lhs->dtype) || rhs->dtype != lhs->dtype || out->dtype != lhs->dtype) {
    return CRN_FAIL(UNSUPPORTED, "gather_mm of %s and %s to %s has no kernel", cairn_dtype_name(lhs->dtype), cairn_dtype_name(rhs->dtype),
                    cairn_dtype_name(out->dtype));
  }
  bool fits = lhs->rank >= 2 && rhs->rank >= 2 && out->rank >= 2 && lhs->dims[lhs->rank - 1] == rhs->dims[rhs->rank - 2] &&
              out->dims[out->rank - 2] == lhs->dims[lhs->rank - 2] && out->dims[out->rank - 1] == rhs->dims[rhs->rank - 1];
  return fits ? CAIRN_OK : CRN_FAIL(INVALID_ARGUMENT, "gather_mm: the matrices do not go together");
}

// Lists the rows of all products, those of one right matrix behind each other.
static cairn_status list_rows(const crn_kernel_args *args, const side *lhs, const side *rhs, int64_t batches, crn_gemm *g) {
  const crn_tensor *out = &args->results[0];
  int64_t m = out->dims[out->rank - 2], n = out->dims[out->rank - 1], row_stride = lhs->t.strides[lhs->t.rank - 2];
  product *products;
  int64_t *table, rows = batches * m;
  CRN_TRY(args->scratch->take(args->scratch, (size_t)batches * sizeof *products, &products));
  CRN_TRY(args->scratch->take(args->scratch, ((size_t)rows * 2 + (size_t)batches * 2 + 1) * sizeof *table, &table));
  int64_t *a_at = table, *out_at = a_at + rows, *b_at = out_at + rows, *first_row = b_at + batches, row = 0;
  for (int64_t i = 0; i < batches; i++) {
    products[i].batch = i;
    CRN_TRY(matrix_at(out, rhs, i, &products[i].b_at));
  }
  qsort(products, (size_t)batches, sizeof *products, by_matrix);
  g->n_groups = 0;
  for (int64_t i = 0; i < batches; i++) {
    if (i == 0 || products[i].b_at != products[i - 1].b_at) {
      b_at[g->n_groups] = products[i].b_at;
      first_row[g->n_groups++] = row;
    }
    int64_t a_base;
    CRN_TRY(matrix_at(out, lhs, products[i].batch, &a_base));
    for (int64_t r = 0; r < m; r++, row++) {
      a_at[row] = a_base + r * row_stride;
      out_at[row] = (products[i].batch * m + r) * n;
    }
  }
  first_row[g->n_groups] = row;
  g->a_at = a_at, g->out_at = out_at, g->b_at = b_at, g->first_row = first_row;
  return CAIRN_OK;
}

cairn_status crn_gather_mm_list(const crn_kernel_args *args, const crn_tensor *rhs_matrix, crn_gemm *g) {
  int64_t n_batch;
  CRN_TRY(crn_attr_get_int(args->attrs, "num_batch_axes", 0, &n_batch));
  if (n_batch < 0 || n_batch > CAIRN_MAX_RANK) return CRN_FAIL(UNSUPPORTED, "gather_mm: num_batch_axes is %lld", (long long)n_batch);
  const crn_tensor *out = &args->results[0];
  int64_t batches = 1;
  for (int d = 0; d < out->rank - 2; d++) batches *= out->dims[d];
  side lhs = {.index = crn_composite_operand(args, "lhs_indices"), .n_batch = (int)n_batch};
  side rhs = {.t = *rhs_matrix, .index = crn_composite_operand(args, "rhs_indices"), .n_batch = (int)n_batch};
  lhs.t = crn_tensor_make(CAIRN_F32, args->operands[0].dims, args->operands[0].rank, NULL);
  CRN_TRY(prepare_side(args, "lhs", &lhs));
  CRN_TRY(prepare_side(args, "rhs", &rhs));
  return list_rows(args, &lhs, &rhs, batches, g);
}

cairn_status crn_ref_gather_mm(const crn_kernel_args *args) {
  CRN_TRY(check(args));
  const crn_tensor *out = &args->results[0];
  if (crn_tensor_count(out) == 0) return CAIRN_OK;
  crn_tensor rhs;
  crn_gemm g = {.n = out->dims[out->rank - 1],
                .k = args->operands[0].dims[args->operands[0].rank - 1],
                .b_dtype = args->operands[1].dtype,
                .out_dtype = out->dtype,
                .out = out->data,
                .out_stride_n = 1};
  CRN_TRY(crn_rows_f32(args, &args->operands[0], &g.a));
  CRN_TRY(crn_matrix_ready(args, &args->operands[1], &rhs));
  g.b = rhs.data;
  g.b_stride_k = rhs.strides[rhs.rank - 2];
  g.b_stride_n = rhs.strides[rhs.rank - 1];
  if (g.k == 1 && g.b_stride_n != 1) g.b_stride_k = 1;
  CRN_TRY(crn_gather_mm_list(args, &rhs, &g));
  crn_gemm_run(&g, args->pool);
  return CAIRN_OK;
}
