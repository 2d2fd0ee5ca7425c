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

/// A row of the result: its values, and where its outputs go.
typedef struct gather_row {
  const float *values;
  const crn_tensor *out;
  int64_t out_at;
  bool is_as_one;  ///< it gets the bits of a run of one
} gather_row;

/// Rows of one run, or of several runs of the plan: those that chose one matrix are behind one another.
typedef struct gather_run {
  const crn_fused_gather *f;
  const gather_row *rows;
  const int64_t *first_row, *matrices;  ///< of each group of rows; one entry more than groups
  int64_t n_rows, n_groups;
  crn_prepared prepared;
  int64_t units;  ///< pairs of tiles of one matrix
  char *worker_memory;
  size_t worker_bytes, scratch_bytes;
} gather_run;

static void prepare_rows(void *user, int64_t begin, int64_t end, int worker) {
  const gather_run *r = user;
  for (int64_t i = begin; i < end; i++) crn_prepare_row(&r->prepared, i, r->rows[i].values, worker);
}

// The rows of a group from `row` on that one product takes.
static int64_t rows_together(const gather_run *r, int64_t group, int64_t row) {
  int64_t n = 1, most = r->first_row[group + 1] - row;
  if (most > CRN_ROW_BLOCK) most = CRN_ROW_BLOCK;
  if (crn_prepared_is_rowwise(r->prepared.kernel)) return most;
  if (r->rows[row].is_as_one) return 1;
  while (n < most && r->rows[row + n].out == r->rows[row].out) n++;
  return n;
}

// One unit of one group.
static void run_unit(const gather_run *r, int64_t group, int64_t unit, char *memory) {
  const crn_fused_gather *f = r->f;
  float *sums = (float *)(void *)(memory + r->scratch_bytes);
  int64_t tiles = f->n / CRN_LINEAR_TILE, first = r->matrices[group] * tiles, begin = unit * UNIT,
          end = begin + UNIT < tiles ? begin + UNIT : tiles;
  for (int64_t row = r->first_row[group], n_rows; row < r->first_row[group + 1]; row += n_rows) {
    n_rows = rows_together(r, group, row);
    crn_run_prepared(&f->weights, &r->prepared, row, n_rows, first + begin, first + end, sums, UNIT_OUTPUTS, memory);
    for (int64_t i = 0; i < n_rows; i++) {
      const gather_row *to = &r->rows[row + i];
      crn_elements_put_f32(to->out, to->out_at + begin * CRN_LINEAR_TILE, (end - begin) * CRN_LINEAR_TILE, sums + i * UNIT_OUTPUTS);
    }
  }
}

static void run_units(void *user, int64_t begin, int64_t end, int worker) {
  const gather_run *r = user;
  for (int64_t i = begin; i < end; i++) run_unit(r, i / r->units, i % r->units, r->worker_memory + (size_t)worker * r->worker_bytes);
}

static int64_t largest_group(int64_t n_groups, const int64_t *first_row) {
  int64_t most = 0;
  for (int64_t i = 0; i < n_groups; i++) {
    if (first_row[i + 1] - first_row[i] > most) most = first_row[i + 1] - first_row[i];
  }
  return most;
}

static cairn_status run_rows(const crn_kernel_args *args, gather_run *r, const crn_linear_kernel *kernel) {
  const crn_fused_gather *f = r->f;
  const int64_t most = largest_group(r->n_groups, r->first_row), block = most < CRN_ROW_BLOCK ? most : CRN_ROW_BLOCK;
  CRN_TRY(crn_prepared_create_for(args, &f->weights, crn_prepared_join(&f->weights, kernel, most), r->n_rows, &r->prepared));
  crn_pool_run(args->pool, r->n_rows, 16384 / (f->weights.k + 1) + 1, prepare_rows, r);
  r->units = (f->n / CRN_LINEAR_TILE + UNIT - 1) / UNIT;
  r->scratch_bytes = crn_prepared_scratch_bytes(&r->prepared);
  r->worker_bytes = r->scratch_bytes + (size_t)(block * r->prepared.terms * UNIT_OUTPUTS) * sizeof(float);
  CRN_TRY(args->scratch->take(args->scratch, (size_t)crn_pool_threads(args->pool) * r->worker_bytes, &r->worker_memory));
  int64_t unit_bytes = (int64_t)(f->weights.bytes / (size_t)(f->weights.n / UNIT_OUTPUTS + 1)) * (most < 32 ? most : 32) + 1;
  crn_pool_run(args->pool, r->n_groups * r->units, LEAST_BYTES / unit_bytes + 1, run_units, r);
  return CAIRN_OK;
}

// --- which rows go with which matrix ------------------------------------------------------------------------------------------

/// What one run asks for.
typedef struct gather_part {
  crn_gemm list;  ///< rows and matrices only
  const crn_tensor *out;
  const crn_linear_kernel *kernel;
  bool is_as_one;
} gather_part;

static cairn_status make_part(const crn_kernel_args *args, gather_part *part) {
  const crn_fused_gather *f = args->fused;
  crn_tensor operands[MAX_OPERANDS];
  crn_kernel_args whole = *args;
  *part = (gather_part){.list = {.k = f->weights.k}, .out = &args->results[0], .is_as_one = args->rows_as_one};
  restore_operands(f, args->operands, args->n_operands, operands);
  whole.operands = operands;
  whole.n_operands = args->n_operands + 1;
  whole.input_names = f->input_names;
  CRN_TRY(crn_rows_f32(args, &args->operands[0], &part->list.a));
  CRN_TRY(crn_gather_mm_list(&whole, &f->rhs, &part->list));
  part->kernel =
      crn_prepared_select(&f->weights, f->mode, args->rows_as_one ? 1 : largest_group(part->list.n_groups, part->list.first_row));
  return CAIRN_OK;
}

// The smallest matrix that some part has at its place in its list; false at the end of all.
static bool next_matrix(const gather_part *parts, const int64_t *at, int n, int64_t *out_matrix) {
  bool found = false;
  for (int i = 0; i < n; i++) {
    if (at[i] == parts[i].list.n_groups) continue;
    const int64_t matrix = parts[i].list.b_at[at[i]];
    if (!found || matrix < *out_matrix) *out_matrix = matrix;
    found = true;
  }
  return found;
}

// Merges the lists of the parts, each of which is in the order of matrices.
static void merge_parts(const gather_part *parts, int n, int64_t *at, gather_row *rows, int64_t *first_row, int64_t *matrices,
                        gather_run *r) {
  int64_t matrix = 0;
  memset(at, 0, (size_t)n * sizeof *at);
  while (next_matrix(parts, at, n, &matrix)) {
    matrices[r->n_groups] = matrix;
    first_row[r->n_groups++] = r->n_rows;
    for (int i = 0; i < n; i++) {
      const crn_gemm *g = &parts[i].list;
      if (at[i] == g->n_groups || g->b_at[at[i]] != matrix) continue;
      for (int64_t row = g->first_row[at[i]]; row < g->first_row[at[i] + 1]; row++)
        rows[r->n_rows++] = (gather_row){g->a + g->a_at[row], parts[i].out, g->out_at[row], parts[i].is_as_one};
      at[i]++;
    }
  }
  first_row[r->n_groups] = r->n_rows;
  r->rows = rows;
  r->first_row = first_row;
  r->matrices = matrices;
}

static cairn_status run_parts(const crn_kernel_args *args, const gather_part *parts, int n) {
  gather_run r = {.f = args->fused};
  int64_t n_rows = 0, n_groups = 0, *table;
  gather_row *rows;
  for (int i = 0; i < n; i++) {
    n_rows += parts[i].list.first_row[parts[i].list.n_groups];
    n_groups += parts[i].list.n_groups;
  }
  CRN_TRY(args->scratch->take(args->scratch, (size_t)n_rows * sizeof *rows, &rows));
  CRN_TRY(args->scratch->take(args->scratch, ((size_t)n_groups * 2 + 1 + (size_t)n) * sizeof *table, &table));
  merge_parts(parts, n, table + 2 * n_groups + 1, rows, table, table + n_groups + 1, &r);
  return run_rows(args, &r, parts->kernel);
}

cairn_status crn_fused_gather_run(const crn_kernel_args *args) {
  gather_part part;
  if (crn_tensor_count(&args->results[0]) == 0) return CAIRN_OK;
  CRN_TRY(make_part(args, &part));
  return run_parts(args, &part, 1);
}

cairn_status crn_fused_gather_run_joint(const crn_kernel_args *const *args, int n) {
  gather_part *parts;
  int n_parts = 0;
  CRN_TRY(args[0]->scratch->take(args[0]->scratch, (size_t)n * sizeof *parts, &parts));
  for (int i = 0; i < n; i++) {
    if (crn_tensor_count(&args[i]->results[0]) > 0) CRN_TRY(make_part(args[i], &parts[n_parts++]));
  }
  for (int begin = 0, end; begin < n_parts; begin = end) {
    end = begin + 1;
    for (int i = end; i < n_parts; i++) {
      if (!crn_prepared_agree(parts[begin].kernel, parts[i].kernel)) continue;
      gather_part other = parts[end];
      parts[end++] = parts[i];
      parts[i] = other;
    }
    CRN_TRY(run_parts(args[0], parts + begin, end - begin));
  }
  return CAIRN_OK;
}
