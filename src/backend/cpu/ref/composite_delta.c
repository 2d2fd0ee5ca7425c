// gated_delta_update: a linear attention whose state is a matrix for each head. For each position t, with k, q of size K and v of
// size V and everything in f32:
//   state *= exp(g[t]);  delta = (v - state^T k) * beta[t];  state += k delta^T;  output[t] = state^T (q / sqrt(K))
// With use_qk_l2_norm query and key are divided by their lengths first, in the type of the input.
#include <math.h>
#include <string.h>

#include "backend/cpu/ref/composite.h"
#include "backend/cpu/ref/elements.h"

typedef struct delta {
  const crn_tensor *query, *key, *value, *g, *beta, *initial, *out, *state;
  int64_t heads, steps, k, v;  ///< sizes
  bool normalize;
  float scale;
  float *memory;  ///< of each worker: a state and the rows of one step
  int64_t memory_each;
} delta;

// A row of the last dimension of query, key or value, at (batch, head, step).
static void load_row(const crn_tensor *t, int64_t b, int64_t h, int64_t s, int64_t n, float *row) {
  int64_t at = b * t->strides[0] + h * t->strides[1] + s * t->strides[2];
  const float *run = crn_elements_f32(t, at, t->strides[3], n, row);
  if (run != row) memcpy(row, run, (size_t)n * sizeof *row);
}

static float load_one(const crn_tensor *t, int64_t b, int64_t h, int64_t s) {
  return (float)crn_load_f64(t->dtype, crn_tensor_at(t, b * t->strides[0] + h * t->strides[1] + s * t->strides[2]));
}

// Each step is rounded to the type of the input, as the ops of the body round.
static void normalize(cairn_dtype dtype, float *row, float *squares, int64_t n) {
  for (int64_t i = 0; i < n; i++) squares[i] = row[i] * row[i];
  crn_round_f32(dtype, squares, n);
  float factor = (float)crn_sum_f32(squares, n);
  crn_round_f32(dtype, &factor, 1);
  factor += 1e-6f;
  crn_round_f32(dtype, &factor, 1);
  factor = 1.0f / sqrtf(factor);
  crn_round_f32(dtype, &factor, 1);
  for (int64_t i = 0; i < n; i++) row[i] *= factor;
  crn_round_f32(dtype, row, n);
}

// Adds up the rows of the state, weighted, in the order of the rows.
static void weigh_rows(const float *state, const float *weights, int64_t k, int64_t v, double *sums, float *out) {
  for (int64_t j = 0; j < v; j++) sums[j] = 0;
  for (int64_t i = 0; i < k; i++) {
    const float *row = state + i * v;
    double w = (double)weights[i];
    for (int64_t j = 0; j < v; j++) sums[j] += w * (double)row[j];
  }
  for (int64_t j = 0; j < v; j++) out[j] = (float)sums[j];
}

typedef struct rows {
  float *state, *query, *key, *value, *squares, *remembered;
  double *sums;
} rows;

static rows rows_of(const delta *d, int worker) {
  float *p = d->memory + d->memory_each * worker;
  rows r = {.sums = (double *)p};
  p += 2 * d->v;
  r.state = p, p += d->k * d->v;
  r.query = p, p += d->k;
  r.key = p, p += d->k;
  r.squares = p, p += d->k;
  r.value = p, p += d->v;
  r.remembered = p;
  return r;
}

static void one_step(const delta *d, const rows *r, int64_t b, int64_t h, int64_t s) {
  load_row(d->query, b, h, s, d->k, r->query);
  load_row(d->key, b, h, s, d->k, r->key);
  load_row(d->value, b, h, s, d->v, r->value);
  if (d->normalize) {
    normalize(d->query->dtype, r->query, r->squares, d->k);
    normalize(d->key->dtype, r->key, r->squares, d->k);
  }
  for (int64_t i = 0; i < d->k; i++) r->query[i] *= d->scale;
  float decay = expf(load_one(d->g, b, h, s)), beta = load_one(d->beta, b, h, s);
  for (int64_t i = 0; i < d->k * d->v; i++) r->state[i] *= decay;
  weigh_rows(r->state, r->key, d->k, d->v, r->sums, r->remembered);
  for (int64_t j = 0; j < d->v; j++) r->value[j] = (r->value[j] - r->remembered[j]) * beta;
  for (int64_t i = 0; i < d->k; i++) {
    for (int64_t j = 0; j < d->v; j++) r->state[i * d->v + j] += r->key[i] * r->value[j];
  }
  weigh_rows(r->state, r->query, d->k, d->v, r->sums, r->remembered);
  crn_elements_put_f32(d->out, ((b * d->steps + s) * d->heads + h) * d->v, d->v, r->remembered);
}

static void run_heads(void *user, int64_t begin, int64_t end, int worker) {
  const delta *d = user;
  rows r = rows_of(d, worker);
  for (int64_t item = begin; item < end; item++) {
    int64_t b = item / d->heads, h = item % d->heads;
    for (int64_t i = 0; i < d->k; i++) load_row(d->initial, b, h, i, d->v, r.state + i * d->v);
    for (int64_t s = 0; s < d->steps; s++) one_step(d, &r, b, h, s);
    crn_elements_put_f32(d->state, item * d->k * d->v, d->k * d->v, r.state);
  }
}

cairn_status crn_ref_gated_delta_update(const crn_kernel_args *args) {
  static const char *const names[] = {"query", "key", "value", "g", "beta", "initial_state", NULL};
  const crn_tensor *x[6];
  for (int i = 0; i < 6; i++) {
    x[i] = crn_composite_operand(args, names[i]);
    if (!x[i] || x[i] != &args->operands[i] || !crn_computes_f32(x[i]->dtype))
      return CRN_FAIL(UNSUPPORTED, "%s: no kernel for these operands", crn_ref_name(args));
  }
  delta d = {.query = x[0],
             .key = x[1],
             .value = x[2],
             .g = x[3],
             .beta = x[4],
             .initial = x[5],
             .out = &args->results[0],
             .state = &args->results[1]};
  int64_t normalizes, batch = x[0]->dims[0];
  CRN_TRY(crn_attr_get_int(args->attrs, "use_qk_l2_norm", 1, &normalizes));
  // The body gives both results the type of the query.
  if (d.out->dtype != x[0]->dtype || d.state->dtype != x[0]->dtype || x[1]->dtype != x[0]->dtype)
    return CRN_FAIL(UNSUPPORTED, "%s from %s to %s has no kernel", crn_ref_name(args), cairn_dtype_name(x[0]->dtype),
                    cairn_dtype_name(d.out->dtype));
  d.normalize = normalizes != 0;
  d.heads = x[0]->dims[1];
  d.steps = x[0]->dims[2];
  d.k = x[0]->dims[3];
  d.v = x[2]->dims[3];
  d.scale = (float)(1 / sqrt((double)d.k));
  // One state fits into memory as a result, so these sums do not overflow. An even count keeps every worker's sums aligned.
  d.memory_each = (d.k * d.v + 4 * d.v + 3 * d.k + 15) / 16 * 16;
  int n_workers = crn_pool_threads(args->pool);
  CRN_TRY(args->scratch->take(args->scratch, (size_t)d.memory_each * sizeof(float) * (size_t)n_workers, &d.memory));
  crn_pool_run(args->pool, batch * d.heads, 65536 / (d.k * d.v * (d.steps + 1) + 1) + 1, run_heads, &d);
  return CAIRN_OK;
}
