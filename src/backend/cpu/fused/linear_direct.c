#include "backend/cpu/fused/linear_direct.h"

#include <string.h>

#include "backend/cpu/kernels/tiles/tiles.h"
#include "backend/cpu/ref/elements.h"
#include "base/checked.h"

enum {
  TILE = CRN_LINEAR_TILE,
  PAIR = 2 * TILE,
  STRIP = 56,             ///< rows whose sums are kept until they are finished
  LEAST_ROWS = 4,         ///< fewer are left to kernels that read weights ahead
  BLOCK_BYTES = 1 << 20,  ///< of rows, which the second-level cache holds while all weights pass
  SET_BYTES = 4096,       ///< rows at such distances meet in one set of the first-level cache
  PAD = 16                ///< elements between copied rows
};

typedef struct direct_run {
  const crn_fused_linear *f;
  const crn_tensor *x, *outs;
  const crn_tile_kernels *kernels;
  const float *added;
  int64_t added_step;
  int64_t rows, row_step;
  bool is_copied;  ///< rows of a block are put next to each other first
  int64_t block_rows, blocks, pairs, groups;
  char *memory;
  size_t worker_bytes;
} direct_run;

typedef struct direct_worker {
  int64_t block;  ///< whose rows were copied last, + 1
} direct_worker;

// The elements from a row to the next; false when they differ or a row's elements are apart.
static bool find_row_step(const crn_tensor *t, int64_t *out_step, int64_t *out_rows) {
  int last = t->rank - 1;
  int64_t step = 0, rows = 1;
  if (t->rank < 1 || (t->dims[last] > 1 && t->strides[last] != 1)) return false;
  for (int d = last - 1; d >= 0; d--) {
    if (t->dims[d] == 1) continue;
    if (step && t->strides[d] != step * rows) return false;
    if (!step) step = t->strides[d];
    rows *= t->dims[d];
  }
  *out_step = step;
  *out_rows = rows;
  return true;
}

bool crn_linear_direct_takes(const crn_kernel_args *args, const crn_tensor *added, const crn_tensor *outs) {
  const crn_fused_linear *f = args->fused;
  const crn_tensor *x = &args->operands[0];
  int64_t step, rows;
  if (f->mode != CRN_LINEAR_EXACT || f->weights.format != CRN_LINEAR_F32 || f->axis || f->norm || f->epilogue == CRN_LINEAR_GATED)
    return false;
  if (x->dtype != CAIRN_F32 || x->packed || x->pages || outs->dtype != CAIRN_F32) return false;
  if (!find_row_step(x, &step, &rows) || rows < LEAST_ROWS || args->rows_as_one) return false;
  int64_t added_rows;
  return !added || (added->dtype == CAIRN_F32 && !added->packed && !added->pages && find_row_step(added, &step, &added_rows) &&
                    added_rows == rows && added->dims[added->rank - 1] == f->n);
}

// Stores n columns from `column` on of n_rows rows from `row` on.
static void finish(const direct_run *r, const float *sums, int64_t row, int64_t n_rows, int64_t column, int64_t n) {
  const crn_fused_linear *f = r->f;
  for (int64_t i = 0, begin = 0; i < (f->n_joined ? f->n_joined : 1); i++) {
    int64_t width = f->n_joined ? f->joined[i] : f->n, end = begin + width;
    int64_t from = column > begin ? column : begin, to = end < column + n ? end : column + n;
    if (from < to) {
      float *out = (float *)r->outs[i].data + row * width + from - begin;
      const float *added = r->added ? r->added + row * r->added_step + from : NULL;
      r->kernels->finish(sums + from - column, PAIR, n_rows, to - from, f->bias ? f->bias + from : NULL, added, r->added_step,
                         f->activation == CRN_ACTIVATION_RELU, out, width);
      for (int64_t k = 0; f->activation > CRN_ACTIVATION_RELU && k < n_rows; k++) crn_activate(f->activation, out + k * width, to - from);
    }
    begin = end;
  }
}

static void copy_block(const direct_run *r, int64_t row, int64_t n_rows, float *to) {
  int64_t k = r->f->weights.k;
  for (int64_t i = 0; i < n_rows; i++)
    memcpy(to + i * (k + PAD), (const float *)r->x->data + (row + i) * r->row_step, (size_t)k * sizeof *to);
}

static void run_item(const direct_run *r, int64_t item, direct_worker *worker, float *sums, float *copy) {
  const crn_linear_weights *w = &r->f->weights;
  static const int64_t start = 0;
  int64_t block = item / r->groups, group = item % r->groups, row = block * r->block_rows;
  int64_t n_rows = r->rows - row < r->block_rows ? r->rows - row : r->block_rows;
  int64_t tile = (int64_t)(w->bytes / sizeof(float)) / crn_linear_tiles(w->n), step = r->is_copied ? w->k + PAD : r->row_step;
  if (r->is_copied && worker->block != block + 1) copy_block(r, row, n_rows, copy);
  worker->block = block + 1;
  const float *x = r->is_copied ? copy : (const float *)r->x->data + row * r->row_step;
  const int64_t end = r->pairs * (group + 1) / r->groups;
  for (int64_t pair = r->pairs * group / r->groups; pair < end; pair++) {
    int64_t column = pair * PAIR, n = w->n - column < PAIR ? w->n - column : PAIR;
    const float *w0 = (const float *)w->data + 2 * pair * tile, *w1 = n > TILE ? w0 + tile : w0;
    for (int64_t at = 0; at < n_rows; at += STRIP) {
      int64_t strip = n_rows - at < STRIP ? n_rows - at : STRIP;
      crn_tile_rows rows = {.x = x + at * step, .step = step, .length = w->k, .n_runs = 1, .run_at = &start};
      if (at == 0 && pair + 1 < end) rows.ahead = w0 + 2 * tile;
      r->kernels->pair(w0, w1, &rows, strip, sums, PAIR);
      finish(r, sums, row + at, strip, column, n);
    }
  }
}

static void run_items(void *user, int64_t begin, int64_t end, int worker) {
  const direct_run *r = user;
  char *memory = r->memory + (size_t)worker * r->worker_bytes;
  float *sums = (float *)(void *)(memory + 64);
  for (int64_t item = begin; item < end; item++) run_item(r, item, (direct_worker *)(void *)memory, sums, sums + STRIP * PAIR);
}

static void set_blocks(const crn_kernel_args *args, direct_run *r) {
  enum { PART = 14 };  // what kernels keep in registers at best
  int64_t threads = crn_pool_threads(args->pool), row_bytes = r->f->weights.k * (int64_t)sizeof(float);
  r->block_rows = BLOCK_BYTES / row_bytes / PART * PART;
  if (r->block_rows < STRIP) r->block_rows = STRIP;
  r->blocks = (r->rows + r->block_rows - 1) / r->block_rows;
  r->block_rows = ((r->rows + r->blocks - 1) / r->blocks + PART - 1) / PART * PART;
  r->blocks = (r->rows + r->block_rows - 1) / r->block_rows;
  r->pairs = (r->f->weights.n + PAIR - 1) / PAIR;
  r->groups = threads > 1 ? (4 * threads + r->blocks - 1) / r->blocks : 1;
  if (r->groups > r->pairs) r->groups = r->pairs;
}

cairn_status crn_linear_direct_run(const crn_kernel_args *args, const crn_tensor *added, const crn_tensor *outs) {
  direct_run r = {.f = args->fused, .x = &args->operands[0], .outs = outs, .kernels = crn_tiles_select()};
  size_t threads = (size_t)crn_pool_threads(args->pool);
  int64_t added_rows;
  find_row_step(r.x, &r.row_step, &r.rows);
  if (added) {
    r.added = added->data;
    find_row_step(added, &r.added_step, &added_rows);
  }
  r.is_copied = r.row_step * (int64_t)sizeof(float) % SET_BYTES == 0;
  set_blocks(args, &r);
  int64_t copied = r.is_copied ? r.block_rows * (r.f->weights.k + PAD) : 0;
  r.worker_bytes = ((size_t)(STRIP * PAIR + copied) * sizeof(float) + 128) / 64 * 64;
  CRN_TRY(args->scratch->take(args->scratch, r.worker_bytes * threads, &r.memory));
  for (size_t i = 0; i < threads; i++) ((direct_worker *)(void *)(r.memory + i * r.worker_bytes))->block = 0;
  crn_pool_run(args->pool, r.blocks * r.groups, 1, run_items, &r);
  return CAIRN_OK;
}
