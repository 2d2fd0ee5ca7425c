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
#include "tensor/pages.h"

typedef struct attention {
  crn_tensor q, k, v;
  const crn_tensor *out, *mask, *sinks;  ///< mask and sinks may be NULL
  int64_t batch, heads, kv_heads, rows, positions, key_size, value_size;
  bool causal;
  int64_t window;  ///< 0 = none
  int64_t mask_strides[CAIRN_MAX_RANK];
  bool has_extent;            ///< the caller knows which positions the mask leaves
  cairn_ndarray_window kept;  ///< of caches in pages
  int64_t end;                ///< behind the last row of queries there
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

static cairn_status check_masks(attention *a) {
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
  if (t->pages || t->strides[3] == 1 || t->dims[3] == 1) return CAIRN_OK;
  size_t bytes;
  void *copy;
  if (!crn_shape_bytes(t->dtype, t->dims, 4, &bytes))
    return CRN_FAIL(OUT_OF_RANGE, "scaled_dot_product_attention: an operand is too large");
  CRN_TRY(args->scratch->take(args->scratch, bytes, &copy));
  crn_tensor ready = crn_tensor_make(t->dtype, t->dims, 4, copy);
  crn_tensor from = *t, to = ready;
  if (extent) {
    from.dims[2] = to.dims[2] = extent->high - extent->low;
    from.data = crn_tensor_at(t, extent->low * t->strides[2]);
    to.data = crn_tensor_at(&ready, extent->low * ready.strides[2]);
  }
  crn_move_tensor(args->pool, &from, &to);
  *t = ready;
  return CAIRN_OK;
}

// --- keys and values in pages -------------------------------------------------------------------------------------------------

// Kernels read pages whose positions are those of the table. Other looks at pages are copied.
static cairn_status pages_ready(const crn_kernel_args *args, crn_tensor *t) {
  int64_t row, in_page;
  if (!t->pages) return CAIRN_OK;
  int axis = crn_paged_axis(t, &row, &in_page);
  bool is_aligned = (row & (((int64_t)1 << t->pages->shift) - 1)) == 0;
  if ((axis == 2 || (axis == -1 && t->dims[2] == 1)) && is_aligned && (t->strides[3] == 1 || t->dims[3] == 1)) return CAIRN_OK;
  size_t bytes;
  void *copy;
  if (!crn_shape_bytes(t->dtype, t->dims, 4, &bytes))
    return CRN_FAIL(OUT_OF_RANGE, "scaled_dot_product_attention: an operand is too large");
  CRN_TRY(args->scratch->take(args->scratch, bytes, &copy));
  crn_tensor plain = crn_tensor_make(t->dtype, t->dims, 4, copy);
  crn_tensor_copy(t, &plain);
  *t = plain;
  return CAIRN_OK;
}

// Whether no row sees a position of [first, end).
static bool is_hidden(const attention *a, int64_t first, int64_t end) {
  return a->kept.kept > 0 && first >= a->kept.sinks && end <= a->end - a->rows + 1 - a->kept.kept;
}

// The pages of a cache as the kernels want them. Those that no row looks at need not exist: something else stands in their place.
static cairn_status list_pages(const crn_kernel_args *args, const attention *a, const crn_tensor *t, const crn_attention_extent *extent,
                               const void ***out_list) {
  crn_pages *p = t->pages;
  int64_t row, in_page, size = (int64_t)1 << p->shift, n = (t->dims[2] + size - 1) >> p->shift;
  const void **list, *other = NULL;
  crn_paged_axis(t, &row, &in_page);
  CRN_TRY(args->scratch->take(args->scratch, (size_t)n * sizeof *list, &list));
  for (int64_t i = 0; i < n; i++) {
    int64_t first = i * size, end = first + size, at = (row >> p->shift) + i;
    bool is_seen = !is_hidden(a, first, end) && (!extent || (first < extent->high && end > extent->low));
    // What was never written reads as zeros.
    if (!p->table[at] && is_seen) CRN_TRY(crn_pages_own(p, row + first, row + first + 1));
    list[i] = p->table[at] ? crn_page_data(p->table[at]) : NULL;
    if (list[i]) other = list[i];
  }
  if (!other) {
    CRN_TRY(crn_pages_own(p, row, row + 1));
    other = crn_page_data(p->table[row >> p->shift]);
  }
  for (int64_t i = 0; i < n; i++) list[i] = list[i] ? list[i] : other;
  *out_list = list;
  return CAIRN_OK;
}

// Pointers to where the keys or values of one sequence of the batch begin in each page.
static void aim_pages(const attention *a, const crn_tensor *t, const void *const *pages, const void **out_list) {
  int64_t row, in_page, n = (t->dims[2] + ((int64_t)1 << t->pages->shift) - 1) >> t->pages->shift;
  crn_paged_axis(t, &row, &in_page);
  size_t size = t->pages->is_quantized ? 1 : cairn_dtype_bytes(t->dtype);
  for (int64_t i = 0; i < n; i++) out_list[i] = (const char *)pages[i] + (size_t)(in_page + a->at * t->strides[0]) * size;
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
    if (!a->has_extent) crn_attention_find_mask_extent(&a->call);
  }
  crn_pool_run(pool, rows, 32768 / (a->key_size + 1) + 1, read_queries, a);
  // Work worth having somebody else do: some ten thousand products, whose keys and values take a microsecond or two to read.
  int64_t cost = rows * a->positions * (a->key_size + a->value_size) / (a->plan.jobs + 1) + 1;
  crn_pool_run(pool, a->plan.jobs, 16384 / cost + 1, run_jobs, a);
  if (a->plan.merge_jobs) crn_pool_run(pool, a->plan.merge_jobs, 16384 / cost + 1, run_merges, a);
  crn_elements_put_f32(a->out, a->at * rows * a->value_size, rows * a->value_size, a->sums);
}

static crn_cache_view view_of(const crn_tensor *t) {
  crn_cache_view view = {cache_type(t->dtype), NULL, CRN_CACHE_ONE_PAGE, t->strides[1], t->strides[2], NULL, 0, 0};
  if (!t->pages) return view;
  view.page_shift = t->pages->shift;
  view.position_stride = t->pages->row_stride;
  view.group = t->pages->group;
  if (t->pages->is_quantized) view.type = CRN_CACHE_I8;
  return view;
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
      .spared = a->kept.sinks,
      .kept = a->kept.kept,
      .end = a->end,
      .scale = scale,
      .q = a->queries,
      .q_row_stride = a->key_size,
      .q_head_stride = a->rows * a->key_size,
      .k = view_of(&a->k),
      .v = view_of(&a->v),
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

/// The pages of keys or of values: one for a plain tensor.
typedef struct cache {
  const void **pages, **aimed, *one;
  const float **scales;
} cache;

typedef struct caches {
  cache k, v;
} caches;

static cairn_status open_cache(const crn_kernel_args *args, const attention *a, const crn_tensor *t, const crn_attention_extent *extent,
                               cache *out) {
  *out = (cache){0};
  if (!t->pages) return CAIRN_OK;
  CRN_TRY(list_pages(args, a, t, extent, &out->pages));
  size_t n = (size_t)((t->dims[2] >> t->pages->shift) + 1);
  CRN_TRY(args->scratch->take(args->scratch, n * sizeof *out->aimed, &out->aimed));
  if (!t->pages->is_quantized) return CAIRN_OK;
  CRN_TRY(args->scratch->take(args->scratch, n * sizeof *out->scales, &out->scales));
  n = (size_t)((t->dims[2] + ((int64_t)1 << t->pages->shift) - 1) >> t->pages->shift);
  for (size_t i = 0; i < n; i++) out->scales[i] = (const float *)((const char *)out->pages[i] + t->pages->scale_offset);
  return CAIRN_OK;
}

static const void *const *aim(const attention *a, const crn_tensor *t, cache *c, crn_cache_view *view) {
  if (t->pages) {
    int64_t row, in_page;
    crn_paged_axis(t, &row, &in_page);
    view->base = in_page + a->at * t->strides[0];
    view->scales = c->scales;
    aim_pages(a, t, c->pages, c->aimed);
    return c->aimed;
  }
  c->one = crn_tensor_at(t, a->at * t->strides[0]);
  return &c->one;
}

static cairn_status take_memory(const crn_kernel_args *args, attention *a) {
  size_t queries, sums, rows = (size_t)(a->heads * a->rows);
  if (!crn_mul_size(rows, (size_t)a->key_size * sizeof(float), &queries) ||
      !crn_mul_size(rows, (size_t)a->value_size * sizeof(float), &sums))
    return CRN_FAIL(OUT_OF_RANGE, "scaled_dot_product_attention: %zu rows are too many", rows);
  CRN_TRY(args->scratch->take(args->scratch, queries, &a->queries));
  return args->scratch->take(args->scratch, sums, &a->sums);
}

cairn_status crn_attention_read_terms(const crn_kernel_args *args, crn_attention_terms *out) {
  static const char *const names[] = {"attn_mask", "sinks", NULL};
  int64_t causal;
  CRN_TRY(crn_composite_names(args, 3, names));
  const crn_tensor *mask = crn_composite_operand(args, "attn_mask"), *sinks = crn_composite_operand(args, "sinks");
  *out = (crn_attention_terms){.mask = (int8_t)(mask ? mask - args->operands : 0), .sinks = (int8_t)(sinks ? sinks - args->operands : 0)};
  CRN_TRY(crn_attr_get_int(args->attrs, "is_causal", 0, &causal));
  CRN_TRY(crn_attr_get_int(args->attrs, "window_size", 0, &out->window));
  out->causal = causal != 0;
  if (out->window < 0) return CRN_FAIL(UNSUPPORTED, "scaled_dot_product_attention: window_size is %lld", (long long)out->window);
  CRN_TRY(crn_attr_get_float(args->attrs, "scale", -1, &out->scale));
  const crn_attr *scale = crn_attr_find(args->attrs, "scale");
  out->has_scale = scale && scale->kind != CRN_ATTR_NONE;
  return CAIRN_OK;
}

cairn_status crn_ref_scaled_dot_product_attention(const crn_kernel_args *args) {
  crn_attention_terms terms;
  CRN_TRY(crn_attention_read_terms(args, &terms));
  return crn_attention_run(args, &terms);
}

cairn_status crn_attention_run(const crn_kernel_args *args, const crn_attention_terms *terms) {
  attention a = {.out = &args->results[0], .causal = terms->causal, .window = terms->window};
  if (terms->mask) a.mask = &args->operands[terms->mask];
  if (terms->sinks) a.sinks = &args->operands[terms->sinks];
  CRN_TRY(check_shapes(args, &a));
  CRN_TRY(check_masks(&a));
  if (crn_tensor_count(a.out) == 0) return CAIRN_OK;
  const double scale = terms->has_scale ? terms->scale : 1.0 / sqrt((double)a.key_size);
  const float *sinks = NULL;
  const crn_attention_extent *extent = a.mask ? args->fused : NULL;
  // Behind the last position that is seen there might as well be nothing: so much for caches with room to spare.
  if (extent) a.has_extent = true, a.positions = a.k.dims[2] = a.v.dims[2] = extent->high;
  if (a.k.pages) a.kept = a.k.pages->window, a.end = a.k.pages->end;
  CRN_TRY(pages_ready(args, &a.k));
  CRN_TRY(pages_ready(args, &a.v));
  CRN_TRY(rows_ready(args, extent, &a.k));
  CRN_TRY(rows_ready(args, extent, &a.v));
  if (a.sinks) CRN_TRY(crn_rows_f32(args, a.sinks, &sinks));
  CRN_TRY(take_memory(args, &a));
  describe_call(&a, (float)scale, sinks);
  if (extent) a.call.mask_low = extent->low, a.call.mask_high = extent->high;
  caches c;
  CRN_TRY(open_cache(args, &a, &a.k, extent, &c.k));
  CRN_TRY(open_cache(args, &a, &a.v, extent, &c.v));
  a.call.k.scales = c.k.scales;
  a.call.v.scales = c.v.scales;
  crn_attention chosen_by = a.call;
  if (args->rows_as_one) chosen_by.rows = 1;
  a.kernel = crn_attention_select(args->is_rounded ? CRN_ATTENTION_BF16 : CRN_ATTENTION_EXACT, &chosen_by);
  if (!a.kernel) return CRN_FAIL(UNSUPPORTED, "scaled_dot_product_attention: no kernel for these sizes");
  int threads = crn_pool_threads(args->pool);
  a.kernel->plan(a.kernel, &a.call, threads, &a.plan);
  CRN_TRY(args->scratch->take(args->scratch, (size_t)threads * a.plan.worker_bytes, &a.workers));
  CRN_TRY(args->scratch->take(args->scratch, a.plan.shared_bytes, &a.shared));
  for (a.at = 0; a.at < a.batch; a.at++) run_one(&a, aim(&a, &a.k, &c.k, &a.call.k), aim(&a, &a.v, &c.v, &a.call.v), args->pool);
  return CAIRN_OK;
}
