// Products with packed weights: rows are prepared once (converted, quantised), then every worker takes pairs of tiles of outputs.
#include "backend/cpu/fused/linear.h"

#include <math.h>

#include "backend/cpu/fused/gate.h"
#include "backend/cpu/fused/linear_direct.h"
#include "backend/cpu/fused/terms.h"
#include "backend/cpu/kernels/rows/rows.h"
#include "backend/cpu/ref/elements.h"
#include "backend/cpu/ref/gather.h"
#include "backend/cpu/ref/ref.h"
#include "base/checked.h"

enum { UNIT = 2, UNIT_OUTPUTS = UNIT * CRN_LINEAR_TILE, MOST_UNITS = 8, FEW_ROWS = 4, MANY_ROWS = 128 };
enum { LINE = 64, LEAST_BYTES = 48 << 10, PIECE_BYTES = 16 << 10 };

// --- rows -------------------------------------------------------------------------------------------------------------------

static int64_t count_rows(const crn_tensor *t, int axis) {
  int64_t rows = 1;
  for (int d = 0; d < t->rank; d++) rows *= d == axis ? 1 : t->dims[d];
  return rows;
}

// --- inference --------------------------------------------------------------------------------------------------------------

static cairn_status infer_rows_of_added(const crn_infer_args *args, int64_t rows) {
  const crn_fused_linear *f = args->fused;
  const crn_tensor *added = &args->operands[1];
  if (added->rank < 1 || added->dims[added->rank - 1] != f->n || count_rows(added, added->rank - 1) != rows)
    return CRN_FAIL(INVALID_ARGUMENT, "%lld rows of %lld values cannot be added to what was given", (long long)rows, (long long)f->n);
  return crn_infer_finish(args, 0, added->dtype, added->rank, added->dims);
}

cairn_status crn_infer_fused_linear(const crn_infer_args *args) {
  const crn_fused_linear *f = args->fused;
  const crn_tensor *x = &args->operands[0];
  int axis = x->rank - 1 - f->axis;
  if (axis < 0 || x->dims[axis] != f->weights.k) {
    return CRN_FAIL(INVALID_ARGUMENT, "rows of %lld values, the weights take %lld", axis >= 0 ? (long long)x->dims[axis] : 0LL,
                    (long long)f->weights.k);
  }
  crn_tensor product = *x, out;
  product.dims[axis] = f->n;
  if (f->out_rank) {
    product.rank = f->out_rank;
    for (int d = 0; d < f->out_rank; d++) product.dims[d] = d == f->out_row_axis ? count_rows(x, axis) : 1;
    product.dims[f->out_rank - 1] = f->n;
  }
  for (int i = 0; i < f->n_joined; i++) {
    product.dims[axis] = f->joined[i];
    CRN_TRY(crn_infer_finish(args, i, x->dtype, product.rank, product.dims));
  }
  if (f->n_joined) return CAIRN_OK;
  if (f->has_rows_of_added) return infer_rows_of_added(args, count_rows(x, axis));
  out = product;
  if (f->epilogue == CRN_LINEAR_ADD) CRN_TRY(crn_infer_broadcast_dims(args, &product, &args->operands[1], &out));
  return crn_infer_finish(args, 0, x->dtype, out.rank, out.dims);
}

// --- the rows of a run --------------------------------------------------------------------------------------------------------

/// The rows of one run of the plan: all there are, or those of one of several sequences.
typedef struct linear_part {
  const crn_tensor *x, *added, *out;
  int64_t first, rows;  ///< among all rows, and how many
  bool is_as_one;       ///< each row gets the bits of a run of one
  bool added_is_plain;  ///< its rows lie one after the other
  const crn_linear_kernel *kernel;
} linear_part;

/// Parts whose kernels agree.
typedef struct linear_group {
  int64_t first, rows;
  bool is_apart;  ///< a product has rows of one part only
  crn_prepared prepared;
} linear_group;

typedef struct linear_run {
  const crn_fused_linear *f;
  const linear_part *parts;
  linear_group *groups;
  int n_groups;
  int64_t rows, units, step;  ///< units a worker takes together
  bool has_long_calls;        ///< a call gets all units a worker has; `step` of them are in its sums at a time
  int64_t ld;                 ///< of sums
  const crn_rows_kernels *row_kernels;
  float *row_buffers;  ///< k values a worker
  char *worker_memory;
  size_t worker_bytes, scratch_bytes;
} linear_run;

// The part that has a row, which becomes its number there.
static const linear_part *part_of(const linear_run *r, int64_t *in_out_row) {
  const linear_part *p = r->parts;
  while (*in_out_row >= p->first + p->rows) p++;
  *in_out_row -= p->first;
  return p;
}

// The bits are those of the separate op (composite_norm.c) where the mode is exact.
static const float *norm_row(const linear_run *r, const crn_tensor *x, const float *values, float *buffer) {
  const crn_linear_norm *norm = r->f->norm;
  int64_t k = r->f->weights.k;
  float factor = 1.0f / sqrtf((float)(r->row_kernels->squares(values, k) / (double)k) + norm->eps);
  bool is_exact = r->f->mode == CRN_LINEAR_EXACT;
  if (norm->scale && !(is_exact && norm->rounds_before)) {
    r->row_kernels->scale_by(values, factor, norm->scale, buffer, k);
  } else {
    r->row_kernels->scale(values, factor, buffer, k);
    if (is_exact && norm->scale) crn_round_f32(x->dtype, buffer, k);
    if (norm->scale) r->row_kernels->multiply(buffer, norm->scale, buffer, k);
  }
  if (is_exact) crn_round_f32(x->dtype, buffer, k);
  return buffer;
}

static void prepare_rows(void *user, int64_t begin, int64_t end, int worker) {
  const linear_run *r = user;
  int64_t k = r->f->weights.k;
  float *buffer = r->row_buffers + worker * k;
  const linear_group *g = r->groups;
  for (int64_t row = begin; row < end; row++) {
    int64_t at = row;
    while (row >= g->first + g->rows) g++;
    const crn_tensor *x = part_of(r, &at)->x;
    int axis = x->rank - 1 - r->f->axis;
    const float *values = crn_elements_f32(x, crn_row_offset(x, axis, at), x->strides[axis], k, buffer);
    if (r->f->norm) values = norm_row(r, x, values, buffer);
    crn_prepare_row(&g->prepared, row - g->first, values, worker);
  }
}

// --- what happens to the sums -------------------------------------------------------------------------------------------------

// What separate ops would round in between. Modes that round operands leave that out: it would only add to their error.
static void round_between(const linear_run *r, float *values, int64_t n) {
  if (r->f->mode == CRN_LINEAR_EXACT) crn_round_f32(r->parts->out->dtype, values, n);
}

static void finish_gated(const linear_run *r, const crn_tensor *out, int64_t row, int64_t unit, int64_t n_units, float *values) {
  int64_t column = unit * CRN_LINEAR_TILE, n = n_units * CRN_LINEAR_TILE;
  crn_gate_pairs(r->f->gate, r->f->mode == CRN_LINEAR_EXACT, r->parts->out->dtype, values, n_units);
  crn_elements_put_f32(out, row * r->f->n + column, r->f->n - column < n ? r->f->n - column : n, values);
}

// Outputs of joined products go to results of their own, which lie next to each other.
static void put_joined(const crn_fused_linear *f, const crn_tensor *out, int64_t row, int64_t column, int64_t n, const float *values) {
  for (int64_t i = 0, begin = 0; i < f->n_joined; begin += f->joined[i++]) {
    int64_t from = column > begin ? column : begin, end = begin + f->joined[i] < column + n ? begin + f->joined[i] : column + n;
    if (from < end) crn_elements_put_f32(&out[i], row * f->joined[i] + from - begin, end - from, values + from - column);
  }
}

static int64_t added_offset(const crn_fused_linear *f, const linear_part *p, int64_t row) {
  return p->added_is_plain ? row * f->n : crn_row_offset(p->added, p->added->rank - 1, row);
}

static void finish_row(const linear_run *r, int64_t row, int64_t unit, int64_t n_units, float *values) {
  const crn_fused_linear *f = r->f;
  const linear_part *p = part_of(r, &row);
  int64_t column = unit * UNIT_OUTPUTS, n = f->weights.n - column;
  if (n > n_units * UNIT_OUTPUTS) n = n_units * UNIT_OUTPUTS;
  if (f->bias) {
    round_between(r, values, n);
    for (int64_t i = 0; i < n; i++) values[i] += f->bias[column + i];
  }
  if (f->epilogue == CRN_LINEAR_GATED) {
    finish_gated(r, p->out, row, unit, n_units, values);
    return;
  }
  if (f->epilogue == CRN_LINEAR_ADD) {
    float buffer[MOST_UNITS * UNIT_OUTPUTS];
    const int64_t stride = p->added->strides[p->added->rank - 1];
    const float *more = crn_elements_f32(p->added, added_offset(f, p, row) + column * stride, stride, n, buffer);
    round_between(r, values, n);
    r->row_kernels->add(values, more, values, n);
  }
  if (f->activation) {
    round_between(r, values, n);
    crn_activate(f->activation, values, n);
  }
  if (f->n_joined) {
    put_joined(f, p->out, row, column, n, values);
    return;
  }
  crn_elements_put_f32(p->out, row * f->n + column, n, values);
}

// --- the run ------------------------------------------------------------------------------------------------------------------

// The rows from `row` on that one product takes.
static int64_t rows_together(const linear_run *r, const linear_group *g, int64_t row) {
  int64_t n = g->first + g->rows - row, at = row;
  if (g->is_apart) {
    const linear_part *p = part_of(r, &at);
    n = p->is_as_one ? 1 : p->rows - at;
  }
  return n < CRN_ROW_BLOCK ? n : CRN_ROW_BLOCK;
}

/// Rows whose sums are made.
typedef struct linear_finish {
  const linear_run *r;
  int64_t row;  ///< the first one of the call
} linear_finish;

static void finish_rows(void *user, int64_t row, int64_t n_rows, int64_t tile, int64_t n_tiles, float *sums, int64_t ld) {
  const linear_finish *f = user;
  for (int64_t i = 0; i < n_rows; i++) finish_row(f->r, f->row + row + i, tile / UNIT, (n_tiles + UNIT - 1) / UNIT, sums + i * ld);
}

static void ask_for(const crn_tensor *t, int64_t offset, int64_t n, bool to_write) {
  const char *p = crn_tensor_at(t, offset);
  const int64_t bytes = n * (int64_t)cairn_dtype_bytes(t->dtype);
  for (int64_t i = 0; i < bytes; i += LINE) {
    // Compilers want to know which at once.
    if (to_write) {
      __builtin_prefetch(p + i, 1, 2);
    } else {
      __builtin_prefetch(p + i, 0, 2);
    }
  }
}

// What is added to the sums of some rows, and where they go, are far away: other workers wrote there last.
static void expect_rows(void *user, int64_t row, int64_t n_rows, int64_t tile, int64_t n_tiles) {
  const linear_finish *finish = user;
  const linear_run *r = finish->r;
  const crn_fused_linear *f = r->f;
  int64_t column = tile * CRN_LINEAR_TILE, n = n_tiles * CRN_LINEAR_TILE;
  if (n > f->weights.n - column) n = f->weights.n - column;
  for (int64_t i = 0; i < n_rows; i++) {
    int64_t at = finish->row + row + i;
    const linear_part *p = part_of(r, &at);
    if (f->epilogue == CRN_LINEAR_ADD && p->added_is_plain) ask_for(p->added, at * f->n + column, n, false);
    if (f->epilogue == CRN_LINEAR_GATED) {
      ask_for(p->out, at * f->n + column / 2, n / 2, true);
    } else if (!f->n_joined) {
      ask_for(p->out, at * f->n + column, n, true);
    }
  }
}

// The outputs of some units for the rows of a group.
static void run_group(const linear_run *r, const linear_group *g, int64_t unit, int64_t tile_end, char *memory) {
  float *sums = (float *)(void *)(memory + r->scratch_bytes);
  for (int64_t row = g->first, n_rows; row < g->first + g->rows; row += n_rows) {
    n_rows = rows_together(r, g, row);
    linear_finish finish = {r, row};
    const crn_linear_sink sink = {.take = finish_rows, .user = &finish, .expect = r->has_long_calls ? expect_rows : NULL};
    crn_run_prepared_into(&r->f->weights, &g->prepared, row - g->first, n_rows, unit * UNIT, tile_end, sums, r->ld, memory, &sink);
  }
}

// Weights that one group has read are in the cache for the next one.
static void run_units(void *user, int64_t begin, int64_t end, int worker) {
  const linear_run *r = user;
  char *memory = r->worker_memory + (size_t)worker * r->worker_bytes;
  int64_t tiles = (r->f->weights.n + CRN_LINEAR_TILE - 1) / CRN_LINEAR_TILE;
  const int64_t step = r->has_long_calls ? end - begin : r->step;
  for (int64_t unit = begin; unit < end; unit += step) {
    int64_t n_units = end - unit < step ? end - unit : step, tile_end = (unit + n_units) * UNIT;
    if (tile_end > tiles) tile_end = tiles;
    for (int i = 0; i < r->n_groups; i++) run_group(r, &r->groups[i], unit, tile_end, memory);
  }
}

static cairn_status take_memory(const crn_kernel_args *args, linear_run *r) {
  size_t threads = (size_t)crn_pool_threads(args->pool), sums_bytes = 0;
  for (int i = 0; i < r->n_groups; i++) {
    const crn_prepared *p = &r->groups[i].prepared;
    const int64_t block = r->groups[i].rows < CRN_ROW_BLOCK ? r->groups[i].rows : CRN_ROW_BLOCK;
    const size_t scratch_bytes = crn_prepared_scratch_bytes(p), bytes = (size_t)(block * p->terms * r->ld) * sizeof(float);
    if (scratch_bytes > r->scratch_bytes) r->scratch_bytes = scratch_bytes;
    if (bytes > sums_bytes) sums_bytes = bytes;
  }
  r->worker_bytes = r->scratch_bytes + sums_bytes;
  CRN_TRY(args->scratch->take(args->scratch, threads * (size_t)r->f->weights.k * sizeof(float), &r->row_buffers));
  return args->scratch->take(args->scratch, threads * r->worker_bytes, &r->worker_memory);
}

// A group of parts whose kernels agree, behind the rows of those before it.
static cairn_status make_group(const crn_kernel_args *args, linear_run *r, linear_part *parts, int n_parts) {
  linear_group *g = &r->groups[r->n_groups++];
  *g = (linear_group){.first = r->rows};
  for (int i = 0; i < n_parts; i++) {
    parts[i].first = g->first + g->rows;
    g->rows += parts[i].rows;
  }
  r->rows += g->rows;
  const crn_linear_weights *w = &r->f->weights;
  CRN_TRY(crn_prepared_create_for(args, w, crn_prepared_join(w, parts->kernel, g->rows), g->rows, &g->prepared));
  g->is_apart = (n_parts > 1 || parts->is_as_one) && !crn_prepared_is_rowwise(g->prepared.kernel);
  return CAIRN_OK;
}

static int64_t count_units(const crn_linear_weights *w) { return (w->n + UNIT_OUTPUTS - 1) / UNIT_OUTPUTS; }

// A product must be worth waking somebody: some ten thousand bytes of weights, fewer when many rows use them. Then also a piece that takes
// a microsecond to read is worth being done by whoever is done first.
static int64_t least_units(const crn_linear_weights *w, int64_t rows) {
  int64_t units = count_units(w), unit_bytes = (int64_t)w->bytes / units * (rows < 32 ? rows : 32) + 1;
  return unit_bytes * units <= LEAST_BYTES ? units : PIECE_BYTES / unit_bytes + 1;
}

// The caller begins with the first tiles, some side by side, of which kernels ask only for what lies further on.
static void ask_for_first(const crn_linear_weights *w) {
  enum { TILES = 4, BYTES = 2048 };
  size_t tile_bytes = w->bytes / (size_t)crn_linear_tiles(w->n), n = tile_bytes < BYTES ? tile_bytes : BYTES;
  for (size_t tile = 0; tile < TILES && (tile + 1) * tile_bytes <= w->bytes; tile++) {
    for (size_t at = 0; at < n; at += LINE) __builtin_prefetch((const char *)w->data + tile * tile_bytes + at, 0, 2);
  }
}

// With many rows weights are the smaller part of what is read.
crn_pool_ahead crn_linear_ahead(const crn_linear_weights *w, int64_t rows) {
  if (!w || !w->n || rows > FEW_ROWS) return (crn_pool_ahead){0};
  int64_t n = count_units(w);
  return (crn_pool_ahead){w->data, w->bytes / (size_t)n, n, least_units(w, rows)};
}

static int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Kernels that hand out parts of a call make ready meanwhile what they need for the next one: with many rows they get long calls. Others
// take units together that read the rows once; but there must be work for all, several times over, lest one waits for another.
static void share_units(linear_run *r, int threads) {
  const crn_prepared *p = &r->groups->prepared;
  r->has_long_calls = r->n_groups == 1 && r->rows >= MANY_ROWS && p->terms == 1 && crn_linear_parts_of(p->kernel);
  if (r->has_long_calls) {
    int64_t each = divide_up(r->units, threads);
    r->step = divide_up(each, divide_up(each, MOST_UNITS));
    // Rows of a power of two would meet in the same sets of the cache.
    r->ld = MOST_UNITS * UNIT_OUTPUTS + CRN_LINEAR_TILE;
  } else {
    r->step = r->units / (threads * 4);
    r->step = r->step < 1 ? 1 : r->step > MOST_UNITS ? MOST_UNITS : r->step;
    r->ld = r->step * UNIT_OUTPUTS;
  }
}

static cairn_status run_groups(const crn_kernel_args *args, const linear_run *groups) {
  linear_run r = *groups;
  const crn_fused_linear *f = r.f;
  r.row_kernels = crn_rows_select();
  r.units = count_units(&f->weights);
  share_units(&r, crn_pool_threads(args->pool));
  CRN_TRY(take_memory(args, &r));
  if (r.rows <= FEW_ROWS) ask_for_first(&f->weights);
  crn_pool_run(args->pool, r.rows, 16384 / (f->weights.k + 1) + 1, prepare_rows, &r);
  const crn_pool_ahead ahead = crn_linear_ahead(f->next, r.rows);
  const int64_t least = least_units(&f->weights, r.rows);
  crn_pool_run_before(args->pool, r.units, r.has_long_calls && least < r.step ? r.step : least, run_units, &r, &ahead);
  return CAIRN_OK;
}

static linear_part make_part(const crn_kernel_args *args, const crn_tensor *added, const crn_tensor *out) {
  const crn_fused_linear *f = args->fused;
  const crn_tensor *x = &args->operands[0];
  linear_part p = {.x = x, .added = added, .out = out, .rows = count_rows(x, x->rank - 1 - f->axis), .is_as_one = args->rows_as_one};
  p.added_is_plain = added && crn_tensor_is_contiguous(added) && added->dims[added->rank - 1] == f->n;
  p.kernel = crn_prepared_select(&f->weights, f->mode, args->rows_as_one ? 1 : p.rows);
  return p;
}

static cairn_status run_product(const crn_kernel_args *args, const crn_tensor *added, const crn_tensor *out) {
  if (crn_linear_direct_takes(args, added, out)) return crn_linear_direct_run(args, added, out);
  linear_part part = make_part(args, added, out);
  linear_group group;
  linear_run r = {.f = args->fused, .parts = &part, .groups = &group};
  if (!part.rows) return CAIRN_OK;
  CRN_TRY(make_group(args, &r, &part, 1));
  return run_groups(args, &r);
}

// The sum has another shape than the product: both ops one after the other.
static cairn_status run_broadcast_add(const crn_kernel_args *args) {
  const crn_fused_linear *f = args->fused;
  const crn_tensor *x = &args->operands[0];
  crn_tensor product = *x;
  size_t bytes;
  product.rank = 2;
  product.dims[0] = count_rows(x, x->rank - 1 - f->axis);
  if (!f->out_rank) {
    product.rank = x->rank;
    for (int d = 0; d < x->rank; d++) product.dims[d] = x->dims[d];
  }
  product.dims[product.rank - 1] = f->n;
  product.packed = false;
  if (!crn_shape_bytes(product.dtype, product.dims, product.rank, &bytes)) return CRN_FAIL(OUT_OF_RANGE, "a product is too large");
  CRN_TRY(args->scratch->take(args->scratch, bytes, &product.data));
  crn_tensor_set_contiguous(&product);
  crn_fused_linear plain = *f;
  plain.epilogue = CRN_LINEAR_PLAIN;
  crn_kernel_args first = *args;
  first.fused = &plain;
  CRN_TRY(run_product(&first, NULL, &product));
  crn_kernel_args second = *args;
  crn_tensor operands[2] = {product, args->operands[1]};
  second.fused = NULL;
  second.id = CRN_OP_broadcasting_add;
  second.operands = operands;
  return crn_ref_broadcasting_add(&second);
}

// Whether what is added has the shape of the product, so that rows can be added to rows.
static bool is_plain(const crn_kernel_args *args) {
  const crn_fused_linear *f = args->fused;
  if (f->epilogue != CRN_LINEAR_ADD) return true;
  const crn_tensor *x = &args->operands[0], *added = &args->operands[1];
  int64_t product = f->n * count_rows(x, x->rank - 1 - f->axis), sum = crn_tensor_count(&args->results[0]);
  return product == sum && crn_tensor_count(added) == sum && added->rank >= 1 && added->dims[added->rank - 1] == f->n;
}

static const crn_tensor *added_of(const crn_kernel_args *args) {
  return ((const crn_fused_linear *)args->fused)->epilogue == CRN_LINEAR_ADD ? &args->operands[1] : NULL;
}

cairn_status crn_fused_linear_run(const crn_kernel_args *args) {
  return is_plain(args) ? run_product(args, added_of(args), &args->results[0]) : run_broadcast_add(args);
}

cairn_status crn_fused_linear_run_joint(const crn_kernel_args *const *args, int n) {
  linear_part *parts;
  linear_run r = {.f = args[0]->fused};
  int n_parts = 0;
  CRN_TRY(args[0]->scratch->take(args[0]->scratch, (size_t)n * sizeof *parts, &parts));
  CRN_TRY(args[0]->scratch->take(args[0]->scratch, (size_t)n * sizeof *r.groups, &r.groups));
  r.parts = parts;
  for (int i = 0; i < n; i++) {
    linear_part part = make_part(args[i], added_of(args[i]), &args[i]->results[0]);
    if (part.rows && is_plain(args[i])) {
      parts[n_parts++] = part;
    } else {
      CRN_TRY(crn_fused_linear_run(args[i]));
    }
  }
  // Those that agree with the first come next to it.
  for (int begin = 0, end; begin < n_parts; begin = end) {
    end = begin + 1;
    for (int i = end; i < n_parts; i++) {
      if (!crn_prepared_agree(parts[begin].kernel, parts[i].kernel)) continue;
      linear_part other = parts[end];
      parts[end++] = parts[i];
      parts[i] = other;
    }
    CRN_TRY(make_group(args[0], &r, parts + begin, end - begin));
  }
  return n_parts ? run_groups(args[0], &r) : CAIRN_OK;
}

// --- lookups ------------------------------------------------------------------------------------------------------------------

cairn_status crn_infer_fused_lookup(const crn_infer_args *args) {
  const crn_fused_lookup *f = args->fused;
  const crn_tensor *index = &args->operands[0];
  if (index->rank < 1 || index->dims[index->rank - 1] != 1) return CRN_FAIL(INVALID_ARGUMENT, "the indices need a last dimension of 1");
  crn_tensor out = *index;
  out.dims[out.rank - 1] = f->weights.k;
  return crn_infer_finish(args, 0, crn_infer_declared_dtype(args, 0, CAIRN_F32), out.rank, out.dims);
}

cairn_status crn_fused_lookup_run(const crn_kernel_args *args) {
  const crn_fused_lookup *f = args->fused;
  const crn_tensor *index = &args->operands[0], *out = &args->results[0];
  int64_t n = crn_tensor_count(index), k = f->weights.k;
  float *row;
  CRN_TRY(args->scratch->take(args->scratch, ((size_t)k + CRN_LINEAR_GROUP) * sizeof *row, &row));
  for (int64_t i = 0; i < n; i++) {
    int64_t given = crn_load_i64(index->dtype, crn_tensor_at(index, crn_row_offset(index, index->rank - 1, i))), at;
    if (!crn_gather_index(given, f->weights.n, &at)) return crn_gather_fail(args, given, 0, f->weights.n);
    crn_linear_unpack_row(&f->weights, at, row);
    crn_elements_put_f32(out, i * k, k, row);
  }
  return CAIRN_OK;
}
