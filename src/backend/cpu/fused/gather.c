#include "backend/cpu/fused/gather.h"

#include <string.h>

#include "backend/cpu/fused/terms.h"
#include "backend/cpu/ref/composite.h"
#include "backend/cpu/ref/elements.h"
#include "base/checked.h"

enum { MAX_OPERANDS = 4, UNIT = 2, UNIT_OUTPUTS = UNIT * CRN_LINEAR_TILE, LEAST_BYTES = 48 << 10 };

// The operands gather_mm itself would have.
static void restore_operands(const crn_fused_gather *f, const crn_tensor *given, int n, crn_tensor *out) {
  out[0] = given[0];
  out[1] = f->rhs;
  for (int i = 1; i < n && i + 1 < MAX_OPERANDS; i++) out[i + 1] = given[i];
}

cairn_status crn_infer_fused_gather(const crn_infer_args *args) {
  const crn_fused_gather *f = args->fused;
  crn_tensor operands[MAX_OPERANDS];
  crn_infer_args whole = *args;
  restore_operands(f, args->operands, args->n_operands, operands);
  whole.operands = operands;
  whole.n_operands = args->n_operands + 1;
  return f->infer(&whole);
}

typedef struct gather_run {
  const crn_fused_gather *f;
  const crn_gemm *list;
  crn_prepared rows;  ///< in the order of the list
  const crn_tensor *out;
  int64_t units;  ///< pairs of tiles of one matrix
  char *worker_memory;
  size_t worker_bytes, scratch_bytes;
} gather_run;

static void prepare_rows(void *user, int64_t begin, int64_t end, int worker) {
  const gather_run *r = user;
  for (int64_t i = begin; i < end; i++) crn_prepare_row(&r->rows, i, r->list->a + r->list->a_at[i], worker);
}

// One unit of one group: the rows that chose the same matrix.
static void run_unit(const gather_run *r, int64_t group, int64_t unit, char *memory) {
  const crn_gemm *g = r->list;
  const crn_fused_gather *f = r->f;
  float *sums = (float *)(void *)(memory + r->scratch_bytes);
  int64_t tiles = f->n / CRN_LINEAR_TILE, first = g->b_at[group] * tiles, begin = unit * UNIT,
          end = begin + UNIT < tiles ? begin + UNIT : tiles;
  for (int64_t row = g->first_row[group]; row < g->first_row[group + 1]; row += CRN_ROW_BLOCK) {
    int64_t n_rows = g->first_row[group + 1] - row < CRN_ROW_BLOCK ? g->first_row[group + 1] - row : CRN_ROW_BLOCK;
    crn_run_prepared(&f->weights, &r->rows, row, n_rows, first + begin, first + end, sums, UNIT_OUTPUTS, memory);
    for (int64_t i = 0; i < n_rows; i++) {
      crn_elements_put_f32(r->out, g->out_at[row + i] + begin * CRN_LINEAR_TILE, (end - begin) * CRN_LINEAR_TILE, sums + i * UNIT_OUTPUTS);
    }
  }
}

static void run_units(void *user, int64_t begin, int64_t end, int worker) {
  const gather_run *r = user;
  for (int64_t i = begin; i < end; i++) run_unit(r, i / r->units, i % r->units, r->worker_memory + (size_t)worker * r->worker_bytes);
}

static cairn_status run_list(const crn_kernel_args *args, const crn_fused_gather *f, const crn_gemm *list) {
  gather_run r = {.f = f, .list = list, .out = &args->results[0]};
  int64_t rows = list->first_row[list->n_groups], most = 0;
  for (int64_t i = 0; i < list->n_groups; i++) {
    int64_t n = list->first_row[i + 1] - list->first_row[i];
    if (n > most) most = n;
  }
  CRN_TRY(crn_prepared_create(args, &f->weights, f->mode, rows, most, &r.rows));
  crn_pool_run(args->pool, rows, 16384 / (f->weights.k + 1) + 1, prepare_rows, &r);
  r.units = (f->n / CRN_LINEAR_TILE + UNIT - 1) / UNIT;
  r.scratch_bytes = crn_prepared_scratch_bytes(&r.rows);
  r.worker_bytes = r.scratch_bytes + (size_t)((most < CRN_ROW_BLOCK ? most : CRN_ROW_BLOCK) * r.rows.terms * UNIT_OUTPUTS) * sizeof(float);
  CRN_TRY(args->scratch->take(args->scratch, (size_t)crn_pool_threads(args->pool) * r.worker_bytes, &r.worker_memory));
  int64_t unit_bytes = (int64_t)(f->weights.bytes / (size_t)(f->weights.n / UNIT_OUTPUTS + 1)) * (most < 32 ? most : 32) + 1;
  crn_pool_run(args->pool, list->n_groups * r.units, LEAST_BYTES / unit_bytes + 1, run_units, &r);
  return CAIRN_OK;
}

cairn_status crn_fused_gather_run(const crn_kernel_args *args) {
  const crn_fused_gather *f = args->fused;
  crn_tensor operands[MAX_OPERANDS];
  crn_kernel_args whole = *args;
  crn_gemm list = {.k = f->weights.k};
  if (crn_tensor_count(&args->results[0]) == 0) return CAIRN_OK;
  restore_operands(f, args->operands, args->n_operands, operands);
  whole.operands = operands;
  whole.n_operands = args->n_operands + 1;
  whole.input_names = f->input_names;
  CRN_TRY(crn_rows_f32(args, &args->operands[0], &list.a));
  CRN_TRY(crn_gather_mm_list(&whole, &f->rhs, &list));
  return run_list(args, f, &list);
}
