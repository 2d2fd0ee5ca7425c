// scaled_dot_product_attention: softmax(q · kᵀ · scale + mask) · v for grouped heads, by the attention kernels, which read keys and
// values where they lie. Queries go in as f32, sums come out as f32 and are rounded once.
#include <math.h>

#include "backend/cpu/fused/attention.h"
#include "backend/cpu/kernels/attention/attention.h"
#include "backend/cpu/ref/composite.h"
#include "backend/cpu/ref/elements.h"
#include "backend/cpu/ref/gemm.h"
#include "backend/cpu/ref/move.h"
#include "backend/cpu/ref/spans.h"
#include "base/checked.h"

typedef struct attention {
  crn_tensor q, k, v;
  const crn_tensor *out, *mask, *sinks;  ///< mask and sinks may be NULL
  int64_t batch, heads, kv_heads, rows, positions, key_size, value_size;
  bool causal;
  int64_t window;  ///< 0 = none
  int64_t mask_strides[CAIRN_MAX_RANK];
  // Of the batch that is being computed:
  int64_t at;
  crn_attention call;
  crn_attention_plan plan;
  const crn_attention_kernel *kernel;
  float *queries, *sums;
  char *workers, *shared;
} attention;

// --- what is asked for --------------------------------------------------------------------------------------------------------

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
    if (a->mask->dtype != CAIRN_BOOL && !crn_gemm_takes(a->mask->dtype)) {
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

// The kernels want the elements of a key or value next to each other. Positions that no row sees are not copied.
static cairn_status rows_ready(const crn_kernel_args *args, const crn_attention_extent *extent, crn_tensor *t) {
  if (t->strides[3] == 1 || t->dims[3] == 1) return CAIRN_OK;
  size_t bytes;
  void *copy;
  if (!crn_shape_bytes(t->dtype, t->dims, 4, &bytes))
    return CRN_FAIL(OUT_OF_RANGE, "scaled_dot_product_attention: an operand is too large");
  CRN_TRY(args->scratch->take(args->scratch, bytes, &copy));
  crn_tensor ready = crn_tensor_make(t->dtype, t->dims, 4, copy);
  crn_tensor from = *t, to = ready;
  if (extent && extent->low >= 0 && extent->low < extent->high && extent->high <= t->dims[2]) {
    from.dims[2] = to.dims[2] = extent->high - extent->low;
    from.data = crn_tensor_at(t, extent->low * t->strides[2]);
    to.data = crn_tensor_at(&ready, extent->low * ready.strides[2]);
  }
  crn_move_tensor(args->pool, &from, &to);
  *t = ready;
  return CAIRN_OK;
}

// --- one sequence of the batch ------------------------------------------------------------------------------------------------

static int cache_type(cairn_dtype dtype) {
  return dtype == CAIRN_F16 ? CRN_CACHE_F16 : dtype == CAIRN_BF16 ? CRN_CACHE_BF16 : dtype == CAIRN_BOOL ? CRN_MASK_BOOL : CRN_CACHE_F32;
}

static void read_queries(void *user, int64_t begin, int64_t end, int worker) {
  (void)worker;
  const attention *a = user;
  for (int64_t i = begin; i < end; i++) {
    int64_t head = i / a->rows, row = i % a->rows;
    float *to = a->queries + i * a->key_size;
    const float *q =
        crn_elements_f32(&a->q, a->at * a->q.strides[0] + head * a->q.strides[1] + row * a->q.strides[2], a->q.strides[3], a->key_size, to);
    for (int64_t d = 0; q != to && d < a->key_size; d++) to[d] = q[d];
  }
}

static void run_jobs(void *user, int64_t begin, int64_t end, int worker) {
  const attention *a = user;
  char *scratch = a->workers + (size_t)worker * a->plan.worker_bytes;
  for (int64_t job = begin; job < end; job++) a->kernel->run(a->kernel, &a->call, &a->plan, job, scratch, a->shared);
}

static void run_merges(void *user, int64_t begin, int64_t end, int worker) {
  const attention *a = user;
  char *scratch = a->workers + (size_t)worker * a->plan.worker_bytes;
  for (int64_t job = begin; job < end; job++) a->kernel->merge(a->kernel, &a->call, &a->plan, job, scratch, a->shared);
}

static void run_one(attention *a, const void *const *k_page, const void *const *v_page, crn_pool *pool) {
  int64_t rows = a->heads * a->rows;
  a->call.k.pages = k_page;
  a->call.v.pages = v_page;
  if (a->mask) {
    a->call.mask = crn_tensor_at(a->mask, a->at * a->mask_strides[0]);
    crn_attention_find_mask_extent(&a->call);
  }
  crn_pool_run(pool, rows, 32768 / (a->key_size + 1) + 1, read_queries, a);
  // Work worth waking somebody for: some hundred thousand products.
  int64_t cost = rows * a->positions * (a->key_size + a->value_size) / (a->plan.jobs + 1) + 1;
  crn_pool_run(pool, a->plan.jobs, 131072 / cost + 1, run_jobs, a);
  if (a->plan.merge_jobs) crn_pool_run(pool, a->plan.merge_jobs, 131072 / cost + 1, run_merges, a);
  crn_elements_put_f32(a->out, a->at * rows * a->value_size, rows * a->value_size, a->sums);
}

static void describe_call(attention *a, float scale, const float *sinks) {
  a->call = (crn_attention){
      .heads = a->heads,
      .kv_heads = a->kv_heads,
      .rows = a->rows,
      .key_size = a->key_size,
      .value_size = a->value_size,
      .positions = a->positions,
      .causal = a->causal,
      .window = a->window,
      .scale = scale,
      .q = a->queries,
      .q_row_stride = a->key_size,
      .q_head_stride = a->rows * a->key_size,
      .k = {cache_type(a->k.dtype), NULL, CRN_CACHE_ONE_PAGE, a->k.strides[1], a->k.strides[2]},
      .v = {cache_type(a->v.dtype), NULL, CRN_CACHE_ONE_PAGE, a->v.strides[1], a->v.strides[2]},
      .sinks = sinks,
      .value_type = cache_type(a->out->dtype),
      .out = a->sums,
      .out_row_stride = a->value_size,
      .out_head_stride = a->rows * a->value_size,
  };
  if (!a->mask) return;
  a->call.mask = a->mask->data;
  a->call.mask_type = cache_type(a->mask->dtype);
  a->call.mask_head_stride = a->mask_strides[1];
  a->call.mask_row_stride = a->mask_strides[2];
  a->call.mask_position_stride = a->mask_strides[3];
}

static cairn_status take_memory(const crn_kernel_args *args, attention *a) {
  size_t queries, sums, rows = (size_t)(a->heads * a->rows);
  if (!crn_mul_size(rows, (size_t)a->key_size * sizeof(float), &queries) ||
      !crn_mul_size(rows, (size_t)a->value_size * sizeof(float), &sums))
    return CRN_FAIL(OUT_OF_RANGE, "scaled_dot_product_attention: %zu rows are too many", rows);
  CRN_TRY(args->scratch->take(args->scratch, queries, &a->queries));
  return args->scratch->take(args->scratch, sums, &a->sums);
}

cairn_status crn_ref_scaled_dot_product_attention(const crn_kernel_args *args) {
  static const char *const names[] = {"attn_mask", "sinks", NULL};
  attention a = {.out = &args->results[0], .mask = crn_composite_operand(args, "attn_mask"), .sinks = crn_composite_operand(args, "sinks")};
  CRN_TRY(crn_composite_names(args, 3, names));
  CRN_TRY(check_shapes(args, &a));
  CRN_TRY(check_masks(args, &a));
  if (crn_tensor_count(a.out) == 0) return CAIRN_OK;
  double scale;
  const float *sinks = NULL;
  CRN_TRY(crn_attr_get_float(args->attrs, "scale", 1.0 / sqrt((double)a.key_size), &scale));
  const crn_attention_extent *extent = a.mask ? args->fused : NULL;
  CRN_TRY(rows_ready(args, extent, &a.k));
  CRN_TRY(rows_ready(args, extent, &a.v));
  if (a.sinks) CRN_TRY(crn_rows_f32(args, a.sinks, &sinks));
  CRN_TRY(take_memory(args, &a));
  describe_call(&a, (float)scale, sinks);
  if (extent) a.call.mask_low = extent->low, a.call.mask_high = extent->high;
  a.kernel = crn_attention_select(args->is_rounded ? CRN_ATTENTION_BF16 : CRN_ATTENTION_EXACT, &a.call);
  if (!a.kernel) return CRN_FAIL(UNSUPPORTED, "scaled_dot_product_attention: no kernel for these sizes");
  int threads = crn_pool_threads(args->pool);
  a.kernel->plan(a.kernel, &a.call, threads, &a.plan);
  CRN_TRY(args->scratch->take(args->scratch, (size_t)threads * a.plan.worker_bytes, &a.workers));
  CRN_TRY(args->scratch->take(args->scratch, a.plan.shared_bytes, &a.shared));
  for (a.at = 0; a.at < a.batch; a.at++) {
    const void *k = crn_tensor_at(&a.k, a.at * a.k.strides[0]), *v = crn_tensor_at(&a.v, a.at * a.v.strides[0]);
    run_one(&a, &k, &v, args->pool);
  }
  return CAIRN_OK;
}
