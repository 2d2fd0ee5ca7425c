#include "backend/cpu/ref/gemm.h"

#include <string.h>

#include "backend/cpu/kernels/dot/dot.h"
#include "backend/cpu/ref/elements.h"
#include "base/checked.h"

enum { ROW_BLOCK = 192, DOT_BLOCK = 32, AXPY_BLOCK = 128 };

bool crn_gemm_takes(cairn_dtype dtype) { return dtype == CAIRN_F32 || dtype == CAIRN_F16 || dtype == CAIRN_BF16; }

static int kernel_type(cairn_dtype dtype) { return dtype == CAIRN_F16 ? CRN_DOT_F16 : dtype == CAIRN_BF16 ? CRN_DOT_BF16 : CRN_DOT_F32; }

typedef struct gemm_run {
  const crn_gemm *g;
  const crn_dot_kernels *kernels;
  int64_t row_blocks, col_blocks, col_block;  ///< the grid of one group
} gemm_run;

static const void *weights_at(const crn_gemm *g, int64_t offset) {
  return (const char *)g->b + offset * (int64_t)cairn_dtype_bytes(g->b_dtype);
}

// Stores a row of results from column `col` on.
static void store_row(const crn_gemm *g, int64_t row, int64_t col, int64_t n, const float *values) {
  int64_t at = g->out_at[row] + col * g->out_stride_n;
  if (g->out_stride_n == 1) {
    crn_tensor out = {.dtype = g->out_dtype, .data = g->out};
    crn_elements_put_f32(&out, at, n, values);
  } else {
    for (int64_t j = 0; j < n; j++) crn_put_one_f32(g->out_dtype, g->out, at + j * g->out_stride_n, values[j]);
  }
}

// Weights with K next to each other: tiles of up to 6 rows and 4 columns.
static void dot_block(const gemm_run *r, int64_t group, int64_t row, int64_t row_end, int64_t col, int64_t col_end) {
  const crn_gemm *g = r->g;
  crn_dot_fn dot = r->kernels->dot[kernel_type(g->b_dtype)];
  float sums[CRN_DOT_ROWS][DOT_BLOCK];
  for (; row < row_end; row += CRN_DOT_ROWS) {
    int n_rows = row_end - row < CRN_DOT_ROWS ? (int)(row_end - row) : CRN_DOT_ROWS;
    const float *a[CRN_DOT_ROWS];
    for (int i = 0; i < n_rows; i++) a[i] = g->a + g->a_at[row + i];
    for (int64_t c = col; c < col_end; c += CRN_DOT_COLS) {
      int n_cols = col_end - c < CRN_DOT_COLS ? (int)(col_end - c) : CRN_DOT_COLS;
      float tile[CRN_DOT_ROWS * CRN_DOT_COLS];
      dot(a, n_rows, weights_at(g, g->b_at[group] + c * g->b_stride_n), g->b_stride_n, n_cols, g->k, tile);
      for (int i = 0; i < n_rows; i++) memcpy(sums[i] + (c - col), tile + i * CRN_DOT_COLS, CRN_DOT_COLS * sizeof(float));
    }
    for (int i = 0; i < n_rows; i++) store_row(g, row + i, col, col_end - col, sums[i]);
  }
}

// Weights with N next to each other: each result adds up over k in order.
static void axpy_block(const gemm_run *r, int64_t group, int64_t row, int64_t row_end, int64_t col, int64_t col_end) {
  const crn_gemm *g = r->g;
  crn_axpy_fn axpy = r->kernels->axpy[kernel_type(g->b_dtype)];
  int64_t n = col_end - col;
  float sums[CRN_AXPY_ROWS][AXPY_BLOCK];
  for (; row < row_end; row += CRN_AXPY_ROWS) {
    int n_rows = row_end - row < CRN_AXPY_ROWS ? (int)(row_end - row) : CRN_AXPY_ROWS;
    const float *a[CRN_AXPY_ROWS];
    float *y[CRN_AXPY_ROWS];
    for (int i = 0; i < n_rows; i++) {
      a[i] = g->a + g->a_at[row + i];
      y[i] = sums[i];
      memset(sums[i], 0, (size_t)n * sizeof(float));
    }
    axpy(a, n_rows, weights_at(g, g->b_at[group] + col), g->b_stride_k, g->k, n, y);
    for (int i = 0; i < n_rows; i++) store_row(g, row + i, col, n, sums[i]);
  }
}

static void run_blocks(void *user, int64_t begin, int64_t end, int worker) {
  (void)worker;
  const gemm_run *r = user;
  const crn_gemm *g = r->g;
  for (int64_t job = begin; job < end; job++) {
    int64_t col = job % r->col_blocks * r->col_block, rest = job / r->col_blocks;
    int64_t group = rest / r->row_blocks, row = g->first_row[group] + rest % r->row_blocks * ROW_BLOCK, row_end = g->first_row[group + 1];
    if (row >= row_end) continue;
    if (row_end - row > ROW_BLOCK) row_end = row + ROW_BLOCK;
    int64_t col_end = g->n - col < r->col_block ? g->n : col + r->col_block;
    if (g->b_stride_k == 1) {
      dot_block(r, group, row, row_end, col, col_end);
    } else {
      axpy_block(r, group, row, row_end, col, col_end);
    }
  }
}

void crn_gemm_run(const crn_gemm *g, crn_pool *pool) {
  if (g->n_groups == 0 || g->n == 0) return;
  int64_t most_rows = 0;
  for (int64_t i = 0; i < g->n_groups; i++) {
    int64_t rows = g->first_row[i + 1] - g->first_row[i];
    if (rows > most_rows) most_rows = rows;
  }
  if (most_rows == 0) return;
  gemm_run r = {.g = g, .kernels = crn_dot_select()};
  r.col_block = g->b_stride_k == 1 ? DOT_BLOCK : AXPY_BLOCK;
  r.col_blocks = (g->n + r.col_block - 1) / r.col_block;
  r.row_blocks = (most_rows + ROW_BLOCK - 1) / ROW_BLOCK;
  // Below some 128 K products a second thread costs more than it brings.
  int64_t rows = most_rows < ROW_BLOCK ? most_rows : ROW_BLOCK;
  int64_t grain = 131072 / (rows * r.col_block * (g->k + 1)) + 1;
  crn_pool_run(pool, g->n_groups * r.row_blocks * r.col_blocks, grain, run_blocks, &r);
}

cairn_status crn_rows_f32(const crn_kernel_args *args, const crn_tensor *t, const float **out_rows) {
  if (t->dtype == CAIRN_F32 && crn_tensor_is_contiguous(t)) {
    *out_rows = t->data;
    return CAIRN_OK;
  }
  int64_t n = crn_tensor_count(t);
  size_t bytes;
  if (!crn_mul_size((size_t)n, sizeof(float), &bytes))
    return CRN_FAIL(OUT_OF_RANGE, "%s: an operand is too large", crn_op_info_of(args->id)->name);
  float *rows;
  CRN_TRY(args->scratch->take(args->scratch, bytes, &rows));
  int inner = t->rank - 1;
  int64_t length = t->rank ? t->dims[inner] : 1, stride = t->rank ? t->strides[inner] : 0, index[CAIRN_MAX_RANK] = {0};
  for (int64_t at = 0; at < n; at += length) {
    int64_t offset = 0;
    for (int d = 0; d < inner; d++) offset += index[d] * t->strides[d];
    const float *run = crn_elements_f32(t, offset, stride, length, rows + at);
    if (run != rows + at) memcpy(rows + at, run, (size_t)length * sizeof *run);
    for (int d = inner - 1; d >= 0 && ++index[d] == t->dims[d]; d--) index[d] = 0;
  }
  *out_rows = rows;
  return CAIRN_OK;
}

cairn_status crn_matrix_ready(const crn_kernel_args *args, const crn_tensor *t, crn_tensor *out_ready) {
  *out_ready = *t;
  if (t->strides[t->rank - 1] == 1 || t->strides[t->rank - 2] == 1) return CAIRN_OK;
  size_t bytes;
  if (!crn_shape_bytes(t->dtype, t->dims, t->rank, &bytes))
    return CRN_FAIL(OUT_OF_RANGE, "%s: an operand is too large", crn_op_info_of(args->id)->name);
  void *copy;
  CRN_TRY(args->scratch->take(args->scratch, bytes, &copy));
  *out_ready = crn_tensor_make(t->dtype, t->dims, t->rank, copy);
  crn_tensor_copy(t, out_ready);
  return CAIRN_OK;
}
