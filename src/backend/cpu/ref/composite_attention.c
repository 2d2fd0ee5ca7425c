// scaled_dot_product_attention: softmax(q · kᵀ · scale + mask) · v for grouped heads, in f32 with one rounding of the result.
//
// Sums over positions run in the order of absolute positions: the denominator in lanes by position, the output one position
// after the other. So the bits of a row depend neither on the other rows of the call nor on positions that are masked.
// Masked positions are left out; their weight would be exp(-10000 + …), which is 0 in f32. Only when all positions of a row
// are masked do they count, all with the same large negative number added, as in the body of the composite.
#include <math.h>
#include <string.h>

#include "backend/cpu/kernels/dot/dot.h"
#include "backend/cpu/ref/composite.h"
#include "backend/cpu/ref/elements.h"
#include "backend/cpu/ref/gemm.h"
#include "backend/cpu/ref/spans.h"
#include "base/checked.h"

enum { BLOCK = 12, LANES = 8 };

// What the body adds where a boolean, causal or window mask is false; and the distance to the largest mask value of a row
// from which on a position cannot matter.
static const float masked_value = -10000.0f, dead_distance = -9000.0f;

typedef struct attention {
  crn_tensor q, k, v;
  const crn_tensor *out, *mask, *sinks;  ///< mask and sinks may be NULL
  int64_t batch, heads, kv_heads, group, rows, positions, key_size, value_size;
  float scale;
  bool causal;
  int64_t window;  ///< 0 = none
  int64_t mask_strides[CAIRN_MAX_RANK];
  crn_dot_fn dot;
  crn_axpy_fn axpy;
  size_t worker_floats;
  float *buffers;
} attention;

// One row of queries in work: row number and head, the positions it looks at, and its parts of the buffers.
typedef struct row_state {
  int64_t row, head, low, high;
  bool all_masked, has_holes;
  float *query, *weights, *sums;  ///< weights[j - low of the block]
  float denominator;
} row_state;

typedef struct block_state {
  const attention *a;
  int64_t batch, kv_head, low, high;  ///< low and high: of all its rows
  int n;
  row_state rows[BLOCK];
  float *mask;  ///< of one row, by absolute position
} block_state;

static void visible_range(const attention *a, row_state *r) {
  int64_t position = r->row + a->positions - a->rows;
  r->low = 0;
  r->high = a->positions;
  if (a->causal) r->high = position + 1;
  if (a->window > 0) {
    r->low = position - a->window + 1;
    if (!a->causal) r->high = position + a->window;
  }
  if (r->low < 0) r->low = 0;
  if (r->high > a->positions) r->high = a->positions;
  r->all_masked = r->high <= r->low;
  if (r->all_masked) {
    r->low = 0;
    r->high = a->positions;
  }
}

static void start_block(block_state *b, int64_t job, int worker) {
  const attention *a = b->a;
  int64_t per_head = (a->rows * a->group + BLOCK - 1) / BLOCK, first = job % per_head * BLOCK, total = a->rows * a->group;
  b->kv_head = job / per_head % a->kv_heads;
  b->batch = job / per_head / a->kv_heads;
  b->n = total - first < BLOCK ? (int)(total - first) : BLOCK;
  float *buffer = a->buffers + (size_t)worker * a->worker_floats;
  b->mask = buffer;
  buffer += a->positions;
  b->low = a->positions;
  b->high = 0;
  for (int i = 0; i < b->n; i++) {
    row_state *r = &b->rows[i];
    *r = (row_state){.row = (first + i) / a->group, .head = b->kv_head * a->group + (first + i) % a->group};
    r->query = buffer;
    r->weights = r->query + a->key_size;
    r->sums = r->weights + a->positions;
    buffer = r->sums + a->value_size;
    visible_range(a, r);
    if (r->low < b->low) b->low = r->low;
    if (r->high > b->high) b->high = r->high;
    int64_t at = b->batch * a->q.strides[0] + r->head * a->q.strides[1] + r->row * a->q.strides[2];
    const float *q = crn_elements_f32(&a->q, at, a->q.strides[3], a->key_size, r->query);
    for (int64_t d = 0; d < a->key_size; d++) r->query[d] = q[d] * a->scale;
    memset(r->sums, 0, (size_t)a->value_size * sizeof(float));
  }
}

static void score_block(block_state *b) {
  const attention *a = b->a;
  int64_t ld = a->k.strides[2];
  for (int first = 0; first < b->n; first += CRN_DOT_ROWS) {
    int n_rows = b->n - first < CRN_DOT_ROWS ? b->n - first : CRN_DOT_ROWS;
    const float *q[CRN_DOT_ROWS];
    int64_t low = b->high, high = b->low;
    for (int i = 0; i < n_rows; i++) {
      const row_state *r = &b->rows[first + i];
      q[i] = r->query;
      if (r->low < low) low = r->low;
      if (r->high > high) high = r->high;
    }
    for (int64_t j = low; j < high; j += CRN_DOT_COLS) {
      int n_cols = high - j < CRN_DOT_COLS ? (int)(high - j) : CRN_DOT_COLS;
      float tile[CRN_DOT_ROWS * CRN_DOT_COLS];
      const void *keys = crn_tensor_at(&a->k, b->batch * a->k.strides[0] + b->kv_head * a->k.strides[1] + j * ld);
      a->dot(q, n_rows, keys, ld, n_cols, a->key_size, tile);
      for (int i = 0; i < n_rows; i++) {
        memcpy(b->rows[first + i].weights + (j - b->low), tile + i * CRN_DOT_COLS, (size_t)n_cols * sizeof(float));
      }
    }
  }
}

// Adds a mask to the scores of a row. Positions that cannot matter get -inf, which marks them as holes; a row of positions
// that are all masked is rounded the way the body rounds, for there the large number swallows bits of the scores.
static void mask_row(block_state *b, row_state *r) {
  const attention *a = b->a;
  float *weights = r->weights - b->low, top = -INFINITY;
  if (a->mask) {
    int64_t at = b->batch * a->mask_strides[0] + r->head * a->mask_strides[1] + r->row * a->mask_strides[2];
    for (int64_t j = r->low; j < r->high; j++) {
      const void *element = crn_tensor_at(a->mask, at + j * a->mask_strides[3]);
      float m =
          a->mask->dtype == CAIRN_BOOL ? (*(const uint8_t *)element ? 0.0f : masked_value) : (float)crn_load_f64(a->mask->dtype, element);
      b->mask[j] = m;
      if (m > top || m != m) top = m;
    }
  } else {
    for (int64_t j = r->low; j < r->high; j++) b->mask[j] = masked_value;
    top = masked_value;
  }
  if (top <= dead_distance) {
    int64_t n = r->high - r->low;
    crn_round_f32(a->out->dtype, b->mask + r->low, n);
    crn_round_f32(a->out->dtype, weights + r->low, n);
    for (int64_t j = r->low; j < r->high; j++) weights[j] += b->mask[j];
    crn_round_f32(a->out->dtype, weights + r->low, n);
    return;
  }
  for (int64_t j = r->low; j < r->high; j++) {
    bool dead = b->mask[j] - top <= dead_distance;
    weights[j] = dead ? -INFINITY : weights[j] + b->mask[j];
    r->has_holes = r->has_holes || dead;
  }
}

static void softmax_row(block_state *b, row_state *r) {
  const attention *a = b->a;
  if (a->mask || r->all_masked) mask_row(b, r);
  float *weights = r->weights - b->low, top = -INFINITY, sink = 0;
  if (a->sinks) {
    float value;
    sink = top = *crn_elements_f32(a->sinks, r->head * a->sinks->strides[0], 0, 1, &value);
  }
  for (int64_t j = r->low; j < r->high; j++) top = weights[j] > top || weights[j] != weights[j] ? weights[j] : top;
  double lane[LANES] = {0};
  for (int64_t j = r->low; j < r->high; j++) {
    weights[j] = expf(weights[j] - top);
    lane[j % LANES] += (double)weights[j];
  }
  for (int half = LANES / 2; half > 0; half /= 2) {
    for (int l = 0; l < half; l++) lane[l] += lane[l + half];
  }
  if (a->sinks) lane[0] += (double)expf(sink - top);
  r->denominator = (float)lane[0];
}

// Adds the values of positions [low, high) to the sums of up to 4 rows.
static void add_values(const block_state *b, row_state *const *rows, int n, int64_t low, int64_t high) {
  if (low >= high) return;
  const attention *a = b->a;
  const float *weights[CRN_AXPY_ROWS];
  float *sums[CRN_AXPY_ROWS];
  for (int i = 0; i < n; i++) {
    weights[i] = rows[i]->weights + (low - b->low);
    sums[i] = rows[i]->sums;
  }
  const void *values = crn_tensor_at(&a->v, b->batch * a->v.strides[0] + b->kv_head * a->v.strides[1] + low * a->v.strides[2]);
  a->axpy(weights, n, values, a->v.strides[2], high - low, a->value_size, sums);
}

// A row with holes: its runs of positions that count, one after the other.
static void add_runs(const block_state *b, row_state *r) {
  const float *weights = r->weights - b->low;
  for (int64_t j = r->low; j < r->high;) {
    while (j < r->high && weights[j] == 0) j++;
    int64_t from = j;
    while (j < r->high && weights[j] != 0) j++;
    add_values(b, (row_state *const[]){r}, 1, from, j);
  }
}

// Rows that look at contiguous ranges share the part all of them look at.
static void add_shared(const block_state *b, row_state *const *rows, int n) {
  int64_t low = rows[0]->low, high = rows[0]->high;
  for (int i = 1; i < n; i++) {
    if (rows[i]->low > low) low = rows[i]->low;
    if (rows[i]->high < high) high = rows[i]->high;
  }
  if (low >= high) {
    for (int i = 0; i < n; i++) add_values(b, &rows[i], 1, rows[i]->low, rows[i]->high);
    return;
  }
  for (int i = 0; i < n; i++) add_values(b, &rows[i], 1, rows[i]->low, low);
  add_values(b, rows, n, low, high);
  for (int i = 0; i < n; i++) add_values(b, &rows[i], 1, high, rows[i]->high);
}

static void sum_block(block_state *b) {
  row_state *together[CRN_AXPY_ROWS];
  int n = 0;
  for (int i = 0; i < b->n; i++) {
    if (b->rows[i].has_holes) {
      add_runs(b, &b->rows[i]);
    } else {
      together[n++] = &b->rows[i];
    }
    if (n == CRN_AXPY_ROWS || (n > 0 && i == b->n - 1)) {
      add_shared(b, together, n);
      n = 0;
    }
  }
}

static void run_jobs(void *user, int64_t begin, int64_t end, int worker) {
  const attention *a = user;
  block_state b = {.a = a};
  for (int64_t job = begin; job < end; job++) {
    start_block(&b, job, worker);
    score_block(&b);
    for (int i = 0; i < b.n; i++) softmax_row(&b, &b.rows[i]);
    sum_block(&b);
    for (int i = 0; i < b.n; i++) {
      row_state *r = &b.rows[i];
      for (int64_t d = 0; d < a->value_size; d++) r->sums[d] /= r->denominator;
      crn_elements_put_f32(a->out, ((b.batch * a->heads + r->head) * a->rows + r->row) * a->value_size, a->value_size, r->sums);
    }
  }
}

// A view of rank 4; [batch, rows, size] becomes [batch, 1, rows, size].
static crn_tensor with_heads(const crn_tensor *t) {
  crn_tensor r = *t;
  if (t->rank == 3) {
    r.rank = 4;
    r.dims[3] = t->dims[2], r.dims[2] = t->dims[1], r.dims[1] = 1;
    r.strides[3] = t->strides[2], r.strides[2] = t->strides[1], r.strides[1] = 0;
  }
  return r;
}

static cairn_status check_shapes(const crn_kernel_args *args, attention *a) {
  const crn_tensor *q = &args->operands[0], *k = &args->operands[1], *v = &args->operands[2];
  if ((q->rank != 3 && q->rank != 4) || k->rank != q->rank || v->rank != q->rank || a->out->rank != q->rank) {
    return CRN_FAIL(UNSUPPORTED, "scaled_dot_product_attention of ranks %d, %d and %d has no kernel", q->rank, k->rank, v->rank);
  }
  if (!crn_gemm_takes(q->dtype) || k->dtype != q->dtype || v->dtype != q->dtype || a->out->dtype != q->dtype) {
    return CRN_FAIL(UNSUPPORTED, "scaled_dot_product_attention of %s, %s and %s has no kernel", cairn_dtype_name(q->dtype),
                    cairn_dtype_name(k->dtype), cairn_dtype_name(v->dtype));
  }
  a->q = with_heads(q), a->k = with_heads(k), a->v = with_heads(v);
  crn_tensor out = with_heads(a->out);
  a->batch = a->q.dims[0], a->heads = a->q.dims[1], a->rows = a->q.dims[2], a->key_size = a->q.dims[3];
  a->kv_heads = a->k.dims[1], a->positions = a->k.dims[2], a->value_size = a->v.dims[3];
  bool fits = a->k.dims[0] == a->batch && a->v.dims[0] == a->batch && a->v.dims[1] == a->kv_heads && a->v.dims[2] == a->positions &&
              a->k.dims[3] == a->key_size && a->kv_heads > 0 && a->heads % a->kv_heads == 0 && out.dims[0] == a->batch &&
              out.dims[1] == a->heads && out.dims[2] == a->rows && out.dims[3] == a->value_size && a->positions > 0;
  if (!fits) return CRN_FAIL(UNSUPPORTED, "scaled_dot_product_attention: the shapes of query, key and value have no kernel");
  a->group = a->heads / a->kv_heads;
  return CAIRN_OK;
}

static cairn_status check_masks(const crn_kernel_args *args, attention *a) {
  int64_t causal;
  CRN_TRY(crn_attr_get_int(args->attrs, "is_causal", 0, &causal));
  CRN_TRY(crn_attr_get_int(args->attrs, "window_size", 0, &a->window));
  a->causal = causal != 0;
  if (a->window < 0) return CRN_FAIL(UNSUPPORTED, "scaled_dot_product_attention: window_size is %lld", (long long)a->window);
  if (a->mask) {
    if (a->causal || a->window || a->sinks)
      return CRN_FAIL(UNSUPPORTED, "scaled_dot_product_attention: a mask beside is_causal, window_size or sinks");
    if (a->mask->dtype != CAIRN_BOOL && !crn_computes_f32(a->mask->dtype)) {
      return CRN_FAIL(UNSUPPORTED, "scaled_dot_product_attention: a mask of %s", cairn_dtype_name(a->mask->dtype));
    }
    crn_tensor mask = *a->mask;
    if (a->out->rank == 3 && mask.rank == 3) mask = with_heads(&mask);
    int64_t dims[4] = {a->batch, a->heads, a->rows, a->positions};
    CRN_TRY_NOTE(crn_broadcast_strides(&mask, dims, 4, a->mask_strides), "in the mask of scaled_dot_product_attention");
  }
  if (a->sinks && (a->out->rank != 4 || a->sinks->rank != 1 || a->sinks->dims[0] != a->heads || !crn_computes_f32(a->sinks->dtype))) {
    return CRN_FAIL(UNSUPPORTED, "scaled_dot_product_attention: sinks must be one number a head");
  }
  return CAIRN_OK;
}

// The kernels want the elements of a key or value next to each other.
static cairn_status rows_ready(const crn_kernel_args *args, crn_tensor *t) {
  if (t->strides[3] == 1 || t->dims[3] == 1) return CAIRN_OK;
  size_t bytes;
  void *copy;
  if (!crn_shape_bytes(t->dtype, t->dims, 4, &bytes))
    return CRN_FAIL(OUT_OF_RANGE, "scaled_dot_product_attention: an operand is too large");
  CRN_TRY(args->scratch->take(args->scratch, bytes, &copy));
  crn_tensor ready = crn_tensor_make(t->dtype, t->dims, 4, copy);
  crn_tensor_copy(t, &ready);
  *t = ready;
  return CAIRN_OK;
}

cairn_status crn_ref_scaled_dot_product_attention(const crn_kernel_args *args) {
  static const char *const names[] = {"attn_mask", "sinks", NULL};
  attention a = {.out = &args->results[0], .mask = crn_composite_operand(args, "attn_mask"), .sinks = crn_composite_operand(args, "sinks")};
  CRN_TRY(crn_composite_names(args, 3, names));
  CRN_TRY(check_shapes(args, &a));
  CRN_TRY(check_masks(args, &a));
  if (crn_tensor_count(a.out) == 0) return CAIRN_OK;
  double scale;
  CRN_TRY(crn_attr_get_float(args->attrs, "scale", 1.0 / sqrt((double)a.key_size), &scale));
  a.scale = (float)scale;
  CRN_TRY(rows_ready(args, &a.k));
  CRN_TRY(rows_ready(args, &a.v));
  int type = a.q.dtype == CAIRN_F16 ? CRN_DOT_F16 : a.q.dtype == CAIRN_BF16 ? CRN_DOT_BF16 : CRN_DOT_F32;
  const crn_dot_kernels *kernels = crn_dot_select();
  a.dot = kernels->dot[type];
  a.axpy = kernels->axpy[type];
  int64_t row_floats = a.key_size + a.positions + a.value_size;
  a.worker_floats = (size_t)(a.positions + BLOCK * row_floats + 15) / 16 * 16;
  size_t bytes;
  if (!crn_mul_size(a.worker_floats * sizeof(float), (size_t)crn_pool_threads(args->pool), &bytes)) {
    return CRN_FAIL(OUT_OF_RANGE, "scaled_dot_product_attention: %lld positions are too many", (long long)a.positions);
  }
  CRN_TRY(args->scratch->take(args->scratch, bytes, &a.buffers));
  int64_t jobs = a.batch * a.kv_heads * ((a.rows * a.group + BLOCK - 1) / BLOCK);
  int64_t rows = a.rows * a.group < BLOCK ? a.rows * a.group : BLOCK, cost = rows * a.positions * (a.key_size + a.value_size);
  crn_pool_run(args->pool, jobs, 131072 / (cost + 1) + 1, run_jobs, &a);
  return CAIRN_OK;
}
