// Products with packed stacks of matrices. Rows of all runs of a step are sorted by the matrix they choose, so that each is read once.
#include "backend/cpu/fused/gather.h"

#include <string.h>

#include "backend/cpu/fused/gate.h"
#include "backend/cpu/fused/linear.h"
#include "backend/cpu/fused/terms.h"
#include "backend/cpu/ref/composite.h"
#include "backend/cpu/ref/elements.h"
#include "base/checked.h"

enum {
  MAX_OPERANDS = 4,
  UNIT = 2,
  TILE = CRN_LINEAR_TILE,
  UNIT_OUTPUTS = UNIT * TILE,
  MOST_UNITS = 8,
  FEW_ROWS = 16,
  LEAST_BYTES = 48 << 10
};

// --- inference ----------------------------------------------------------------------------------------------------------------

// The operands gather_mm itself would have; how many.
static int restore_operands(const crn_fused_gather *f, const crn_tensor *given, crn_tensor *out) {
  out[0] = given[0];
  out[1] = f->rhs;
  for (int i = 1; i < f->n_operands && i + 1 < MAX_OPERANDS; i++) out[i + 1] = given[i];
  return f->n_operands + 1;
}

// What gather_mm gives.
static cairn_status infer_product(const crn_infer_args *args, crn_tensor *out) {
  const crn_fused_gather *f = args->fused;
  crn_tensor operands[MAX_OPERANDS];
  crn_infer_args whole = *args;
  *out = f->product;
  whole.n_operands = restore_operands(f, args->operands, operands);
  whole.operands = operands;
  whole.n_results = 1;
  whole.results = out;
  return f->infer(&whole);
}

// The sum has the leading dimensions of the factors.
static cairn_status infer_sum(const crn_infer_args *args, const crn_tensor *product) {
  const crn_fused_gather *f = args->fused;
  const crn_tensor *factors = &args->operands[f->n_operands];
  const int rank = factors->rank - (f->sum.keeps_axis ? 0 : 1);
  int64_t n_rows = 1, n_factors = 1, dims[CAIRN_MAX_RANK];
  for (int d = 0; d < product->rank - 1; d++) n_rows *= product->dims[d];
  for (int d = 0; d < factors->rank; d++) n_factors *= factors->dims[d];
  if (factors->rank < 2 || factors->dims[factors->rank - 2] != f->sum.n || factors->dims[factors->rank - 1] != 1 || n_factors != n_rows)
    return CRN_FAIL(INVALID_ARGUMENT, "%lld factors for %lld rows of experts", (long long)n_factors, (long long)n_rows);
  for (int d = 0; d < factors->rank - 2; d++) dims[d] = factors->dims[d];
  if (f->sum.keeps_axis) dims[rank - 2] = 1;
  dims[rank - 1] = f->n;
  CRN_TRY(crn_infer_finish(args, 0, crn_infer_declared_dtype(args, 0, f->sum.dtype), rank, dims));
  if (!f->sum.has_added) return CAIRN_OK;
  const crn_tensor *added = &args->operands[f->n_operands + 1];
  bool same = added->rank == rank;
  for (int d = 0; same && d < rank; d++) same = added->dims[d] == dims[d];
  return same ? CAIRN_OK : CRN_FAIL(INVALID_ARGUMENT, "what is added to a sum of experts has another shape");
}

cairn_status crn_infer_fused_gather(const crn_infer_args *args) {
  const crn_fused_gather *f = args->fused;
  crn_tensor product;
  CRN_TRY(infer_product(args, &product));
  if (f->sum.n) return infer_sum(args, &product);
  return crn_infer_finish(args, 0, product.dtype, product.rank, product.dims);
}

// --- rows ---------------------------------------------------------------------------------------------------------------------

/// What one run asks for.
typedef struct gather_part {
  const crn_kernel_args *args;
  crn_gemm list;   ///< rows and matrices only
  crn_tensor x;    ///< what the rows lie in, in order
  crn_tensor out;  ///< of the products: the result, or memory for what is added up then
  const crn_linear_kernel *kernel;
} gather_part;

/// A row of a product: where its values lie, and where its outputs go.
typedef struct gather_row {
  const gather_part *part;
  int64_t at, out_at;
} gather_row;

/// The rows of parts whose kernels agree, in the order of matrices. No matrix need have any.
typedef struct gather_set {
  int n_parts;
  gather_row *rows;
  int64_t n_rows, *first_row;           ///< by matrix; one entry more than matrices
  const crn_linear_kernel **by_matrix;  ///< the kernel for as many rows as a matrix has
  crn_prepared prepared;
} gather_set;

typedef struct gather_run {
  const crn_fused_gather *f;
  gather_set *sets;
  int n_sets;
  int64_t n_matrices, *matrices;  ///< those that some row chose
  int64_t tiles, units, step;     ///< of one matrix, pairs of them, and how many pairs a worker takes together
  char *worker_memory;
  size_t worker_bytes, scratch_bytes;
} gather_run;

typedef struct gather_prepare {
  const gather_set *set;
  float *buffers;  ///< k values a worker
} gather_prepare;

static bool is_same_row(const gather_row *a, const gather_row *b) { return a->part == b->part && a->at == b->at; }

// A few rows come several times, once for each matrix they chose: what is prepared already is copied.
static void prepare_rows(void *user, int64_t begin, int64_t end, int worker) {
  const gather_prepare *g = user;
  const gather_set *s = g->set;
  for (int64_t i = begin; i < end; i++) {
    const gather_row *row = &s->rows[i];
    int64_t same = end - begin <= FEW_ROWS ? begin : i;
    while (same < i && !is_same_row(&s->rows[same], row)) same++;
    if (same < i) {
      crn_prepare_copy(&s->prepared, same, i);
    } else {
      const float *values = crn_elements_f32(&row->part->x, row->at, 1, s->prepared.k, g->buffers + worker * s->prepared.k);
      crn_prepare_row(&s->prepared, i, values, worker);
    }
  }
}

// --- products -----------------------------------------------------------------------------------------------------------------

/// The rows whose sums are made, and with which matrix.
typedef struct gather_finish {
  const gather_run *r;
  const gather_row *rows;
  int64_t first_tile;
} gather_finish;

static void finish_rows(void *user, int64_t row, int64_t n_rows, int64_t tile, int64_t n_tiles, float *sums, int64_t ld) {
  const gather_finish *g = user;
  const crn_fused_gather *f = g->r->f;
  int64_t column = (tile - g->first_tile) * TILE, n = n_tiles * TILE;
  if (f->is_gated) column /= 2, n /= 2;
  for (int64_t i = 0; i < n_rows; i++) {
    const gather_row *to = &g->rows[row + i];
    float *values = sums + i * ld;
    if (f->is_gated) crn_gate_pairs(f->gate, f->mode == CRN_LINEAR_EXACT, to->part->args->results[0].dtype, values, n_tiles / 2);
    crn_elements_put_f32(&to->part->out, to->out_at + column, n, values);
  }
}

// The rows of a matrix from `row` on that one product takes.
static int64_t rows_together(const gather_set *s, int64_t matrix, int64_t row) {
  int64_t n = 1, most = s->first_row[matrix + 1] - row;
  if (most > CRN_ROW_BLOCK) most = CRN_ROW_BLOCK;
  if (crn_prepared_is_rowwise(s->prepared.kernel)) return most;
  if (s->rows[row].part->args->rows_as_one) return 1;
  while (n < most && s->rows[row + n].part == s->rows[row].part) n++;
  return n;
}

// Some units of one matrix for the rows of a set.
static void run_set(const gather_run *r, const gather_set *s, int64_t matrix, int64_t unit, int64_t n_units, char *memory) {
  float *sums = (float *)(void *)(memory + r->scratch_bytes);
  const int64_t first = r->matrices[matrix] * r->tiles, begin = unit * UNIT, ld = n_units * UNIT_OUTPUTS;
  const int64_t end = begin + n_units * UNIT < r->tiles ? begin + n_units * UNIT : r->tiles;
  crn_prepared prepared = s->prepared;
  prepared.kernel = s->by_matrix[matrix];
  for (int64_t row = s->first_row[matrix], n_rows; row < s->first_row[matrix + 1]; row += n_rows) {
    n_rows = rows_together(s, matrix, row);
    gather_finish finish = {r, s->rows + row, first};
    const crn_linear_sink sink = {.take = finish_rows, .user = &finish};
    crn_run_prepared_into(&r->f->weights, &prepared, row, n_rows, first + begin, first + end, sums, ld, memory, &sink);
  }
}

// What one set has read is in the cache for the next one.
static void run_units(void *user, int64_t begin, int64_t end, int worker) {
  const gather_run *r = user;
  char *memory = r->worker_memory + (size_t)worker * r->worker_bytes;
  for (int64_t at = begin, n_units; at < end; at += n_units) {
    const int64_t matrix = at / r->units, unit = at % r->units, left = end - at < r->units - unit ? end - at : r->units - unit;
    n_units = left < r->step ? left : r->step;
    for (int i = 0; i < r->n_sets; i++) run_set(r, &r->sets[i], matrix, unit, n_units, memory);
  }
}

static int64_t rows_of(const gather_set *s, int64_t matrix) { return s->first_row[matrix + 1] - s->first_row[matrix]; }

static int64_t most_rows_of(const gather_run *r, const gather_set *s) {
  int64_t most = 0;
  for (int64_t i = 0; i < r->n_matrices; i++) {
    if (rows_of(s, i) > most) most = rows_of(s, i);
  }
  return most;
}

// The kernel for a matrix's rows among those that take what is prepared for the set, with the same bits.
static const crn_linear_kernel *kernel_for(const crn_fused_gather *f, const crn_linear_kernel *kernel, int64_t n_rows) {
  const crn_linear_kernel *least = crn_prepared_select(&f->weights, f->mode, 1);
  return crn_prepared_join(&f->weights, crn_prepared_agree(least, kernel) ? least : kernel, n_rows);
}

static cairn_status prepare_set(const crn_kernel_args *args, gather_run *r, gather_set *s, const crn_linear_kernel *kernel) {
  const int64_t most = most_rows_of(r, s), block = most < CRN_ROW_BLOCK ? most : CRN_ROW_BLOCK;
  CRN_TRY(crn_prepared_create_for(args, &r->f->weights, kernel, s->n_rows, &s->prepared));
  gather_prepare prepare = {.set = s};
  CRN_TRY(
      args->scratch->take(args->scratch, (size_t)crn_pool_threads(args->pool) * (size_t)r->f->weights.k * sizeof(float), &prepare.buffers));
  crn_pool_run(args->pool, s->n_rows, 16384 / (r->f->weights.k + 1) + 1, prepare_rows, &prepare);
  for (int64_t i = 0; i < r->n_matrices; i++) {
    crn_prepared p = s->prepared;
    p.kernel = s->by_matrix[i] = kernel_for(r->f, kernel, rows_of(s, i));
    const size_t scratch_bytes = crn_prepared_scratch_bytes(&p);
    if (scratch_bytes > r->scratch_bytes) r->scratch_bytes = scratch_bytes;
  }
  const size_t sums_bytes = (size_t)(block * s->prepared.terms * r->step * UNIT_OUTPUTS) * sizeof(float);
  if (sums_bytes > r->worker_bytes) r->worker_bytes = sums_bytes;
  return CAIRN_OK;
}

static cairn_status run_sets(const crn_kernel_args *args, const gather_part *parts, gather_run *r) {
  const crn_fused_gather *f = r->f;
  const int threads = crn_pool_threads(args->pool);
  int64_t n_rows = 0, most = 0;
  r->tiles = f->n / TILE * (f->is_gated ? 2 : 1);
  r->units = (r->tiles + UNIT - 1) / UNIT;
  r->step = r->n_matrices * r->units / (threads * 4);
  r->step = r->step < 1 ? 1 : r->step > MOST_UNITS ? MOST_UNITS : r->step;
  for (int i = 0; i < r->n_sets; parts += r->sets[i++].n_parts) {
    CRN_TRY(prepare_set(args, r, &r->sets[i], parts->kernel));
    if (most_rows_of(r, &r->sets[i]) > most) most = most_rows_of(r, &r->sets[i]);
    n_rows += r->sets[i].n_rows;
  }
  r->worker_bytes += r->scratch_bytes;
  CRN_TRY(args->scratch->take(args->scratch, (size_t)threads * r->worker_bytes, &r->worker_memory));
  // A piece of work must be worth waking somebody.
  int64_t unit_bytes = (int64_t)(f->weights.bytes / (size_t)(f->weights.n / UNIT_OUTPUTS + 1)) * (most < 32 ? most : 32) + 1;
  const crn_pool_ahead ahead = crn_linear_ahead(f->next, f->sum.n ? n_rows / f->sum.n : n_rows);
  crn_pool_run_before(args->pool, r->n_matrices * r->units, LEAST_BYTES / unit_bytes + 1, run_units, r, &ahead);
  return CAIRN_OK;
}

// --- which rows go with which matrix ------------------------------------------------------------------------------------------

static int64_t largest_group(const crn_gemm *list) {
  int64_t most = 0;
  for (int64_t i = 0; i < list->n_groups; i++) {
    if (list->first_row[i + 1] - list->first_row[i] > most) most = list->first_row[i + 1] - list->first_row[i];
  }
  return most;
}

static cairn_status make_part(const crn_kernel_args *args, gather_part *part) {
  const crn_fused_gather *f = args->fused;
  crn_tensor operands[MAX_OPERANDS];
  crn_kernel_args whole = *args;
  *part = (gather_part){.args = args, .list = {.k = f->weights.k}, .out = args->results[0]};
  whole.n_operands = restore_operands(f, args->operands, operands);
  whole.operands = operands;
  whole.input_names = f->input_names;
  if (f->sum.n) {
    crn_infer_args infer = {.id = args->id, .attrs = args->attrs, .fused = f, .operands = args->operands, .n_operands = args->n_operands};
    size_t bytes;
    CRN_TRY(infer_product(&infer, &part->out));
    part->out.dtype = CAIRN_F32;
    part->out.packed = false;
    if (!crn_shape_bytes(CAIRN_F32, part->out.dims, part->out.rank, &bytes)) return CRN_FAIL(OUT_OF_RANGE, "a product is too large");
    CRN_TRY(args->scratch->take(args->scratch, bytes, &part->out.data));
    crn_tensor_set_contiguous(&part->out);
  }
  whole.results = &part->out;
  part->x = args->operands[0];
  if (!crn_tensor_is_contiguous(&part->x)) {
    const float *rows;
    CRN_TRY(crn_rows_f32(args, &args->operands[0], &rows));
    part->x = crn_tensor_make(CAIRN_F32, part->x.dims, part->x.rank, (void *)rows);
  }
  CRN_TRY(crn_gather_mm_list(&whole, &f->rhs, &part->list));
  part->kernel = crn_prepared_select(&f->weights, f->mode, args->rows_as_one ? 1 : largest_group(&part->list));
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

static void add_rows(gather_set *s, const gather_part *part, int64_t group) {
  const crn_gemm *g = &part->list;
  for (int64_t row = g->first_row[group]; row < g->first_row[group + 1]; row++)
    s->rows[s->n_rows++] = (gather_row){part, g->a_at[row], g->out_at[row]};
}

// Merges the lists of the parts, each of which is in the order of matrices. Those of a set follow one another.
static void merge_parts(const gather_part *parts, int n, int64_t *at, gather_run *r) {
  int64_t matrix = 0;
  memset(at, 0, (size_t)n * sizeof *at);
  for (; next_matrix(parts, at, n, &matrix); r->n_matrices++) {
    r->matrices[r->n_matrices] = matrix;
    for (int i = 0, k = 0; i < r->n_sets; k += r->sets[i++].n_parts) {
      gather_set *s = &r->sets[i];
      s->first_row[r->n_matrices] = s->n_rows;
      for (int j = k; j < k + s->n_parts; j++) {
        if (at[j] < parts[j].list.n_groups && parts[j].list.b_at[at[j]] == matrix) add_rows(s, &parts[j], at[j]++);
      }
    }
  }
  for (int i = 0; i < r->n_sets; i++) r->sets[i].first_row[r->n_matrices] = r->sets[i].n_rows;
}

static cairn_status make_tables(const crn_kernel_args *args, const gather_part *parts, int n, gather_run *r) {
  int64_t n_groups = 0, *at;
  for (int i = 0; i < n; i++) n_groups += parts[i].list.n_groups;
  CRN_TRY(args->scratch->take(args->scratch, (size_t)n_groups * sizeof *r->matrices, &r->matrices));
  CRN_TRY(args->scratch->take(args->scratch, (size_t)n * sizeof *at, &at));
  for (int i = 0, k = 0; i < r->n_sets; k += r->sets[i++].n_parts) {
    gather_set *s = &r->sets[i];
    int64_t n_rows = 0;
    for (int j = k; j < k + s->n_parts; j++) n_rows += parts[j].list.first_row[parts[j].list.n_groups];
    CRN_TRY(args->scratch->take(args->scratch, (size_t)n_rows * sizeof *s->rows, &s->rows));
    CRN_TRY(args->scratch->take(args->scratch, (size_t)(n_groups + 1) * sizeof *s->first_row, &s->first_row));
    CRN_TRY(args->scratch->take(args->scratch, (size_t)n_groups * sizeof *s->by_matrix, &s->by_matrix));
  }
  merge_parts(parts, n, at, r);
  return CAIRN_OK;
}

static cairn_status run_parts(const crn_kernel_args *args, const gather_part *parts, int n, gather_run *r) {
  CRN_TRY(make_tables(args, parts, n, r));
  CRN_TRY(run_sets(args, parts, r));
  for (int i = 0; i < n && r->f->sum.n; i++) CRN_TRY(crn_gather_sum_run(parts[i].args, parts[i].out.data));
  return CAIRN_OK;
}

cairn_status crn_fused_gather_run(const crn_kernel_args *args) {
  gather_part part;
  gather_set set = {.n_parts = 1};
  gather_run r = {.f = args->fused, .sets = &set, .n_sets = 1};
  if (crn_tensor_count(&args->results[0]) == 0) return CAIRN_OK;
  CRN_TRY(make_part(args, &part));
  return run_parts(args, &part, 1, &r);
}

cairn_status crn_fused_gather_run_joint(const crn_kernel_args *const *args, int n) {
  gather_part *parts;
  gather_run r = {.f = args[0]->fused};
  int n_parts = 0;
  CRN_TRY(args[0]->scratch->take(args[0]->scratch, (size_t)n * sizeof *parts, &parts));
  CRN_TRY(args[0]->scratch->take(args[0]->scratch, (size_t)n * sizeof *r.sets, &r.sets));
  for (int i = 0; i < n; i++) {
    if (crn_tensor_count(&args[i]->results[0]) > 0) CRN_TRY(make_part(args[i], &parts[n_parts++]));
  }
  // Those that agree with the first come next to it.
  for (int begin = 0, end; begin < n_parts; begin = end) {
    end = begin + 1;
    for (int i = end; i < n_parts; i++) {
      if (!crn_prepared_agree(parts[begin].kernel, parts[i].kernel)) continue;
      gather_part other = parts[end];
      parts[end++] = parts[i];
      parts[i] = other;
    }
    r.sets[r.n_sets++] = (gather_set){.n_parts = end - begin};
  }
  return n_parts ? run_parts(args[0], parts, n_parts, &r) : CAIRN_OK;
}
