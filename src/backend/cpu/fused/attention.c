// Spelled-out attention: operands are brought into the form of scaled_dot_product_attention by strides, and its kernel does the work.
#include "backend/cpu/fused/attention.h"

#include <math.h>
#include <string.h>

#include "backend/cpu/ref/ref.h"
#include "base/checked.h"
#include "program/infer/dims.h"
#include "tensor/pages.h"

// --- attention --------------------------------------------------------------------------------------------------------------

// Takes leading dimensions apart: a matter of strides. One of size 1 stands for ones. Dimensions that an operand lacks are those in front.
static bool take_apart(const crn_fused_attention *f, const crn_fused_leading *own, crn_tensor *t) {
  const crn_tensor from = *t;
  int n = 0;
  if (!own->n) return true;
  for (int d = 0; d < own->n; d++) n += own->parts[d];
  if (from.rank != own->n + 2 || n > f->n_leading) return false;
  t->rank = n + 2;
  for (int d = 0; d < 2; d++) {
    t->dims[n + d] = from.dims[own->n + d];
    t->strides[n + d] = from.strides[own->n + d];
  }
  for (int d = own->n - 1, at = n - 1; d >= 0; d--) {
    int64_t count = 1;
    for (int k = 0; k < own->parts[d]; k++, at--) {
      t->dims[at] = from.dims[d] == 1 ? 1 : f->leading[f->n_leading - n + at];
      t->strides[at] = from.strides[d] * count;
      count *= t->dims[at];
    }
    if (count != from.dims[d]) return false;
  }
  return true;
}

// Operands with their leading dimensions apart, and keys the way that products have them.
static cairn_status take_operands_apart(const crn_fused_attention *f, const crn_tensor *given, int n, crn_tensor *out) {
  static const crn_fused_leading none = {0};
  const crn_fused_leading *const own[] = {&f->query, &f->key, &f->value, &f->mask_leading, &none};
  for (int i = 0; i < n; i++) {
    out[i] = given[i];
    if (!take_apart(f, own[i], &out[i]))
      return CRN_FAIL(INVALID_ARGUMENT, "operand %d of attention does not have the batch and heads it was declared with", i);
  }
  if (f->has_plain_keys) {
    crn_tensor *k = &out[1];
    const int64_t dim = k->dims[k->rank - 1], stride = k->strides[k->rank - 1];
    k->dims[k->rank - 1] = k->dims[k->rank - 2], k->strides[k->rank - 1] = k->strides[k->rank - 2];
    k->dims[k->rank - 2] = dim, k->strides[k->rank - 2] = stride;
  }
  return CAIRN_OK;
}

// The result's leading dimensions as the program has them.
static void put_together(const crn_fused_leading *own, crn_tensor *t) {
  const crn_tensor from = *t;
  if (!own->n) return;
  for (int d = 0, at = 0; d < own->n; d++) {
    t->dims[d] = 1;
    for (int k = 0; k < own->parts[d]; k++) t->dims[d] *= from.dims[at++];
  }
  t->dims[own->n] = from.dims[from.rank - 2];
  t->dims[own->n + 1] = from.dims[from.rank - 1];
  t->rank = own->n + 2;
}

cairn_status crn_infer_fused_attention(const crn_infer_args *args) {
  const crn_fused_attention *f = args->fused;
  crn_tensor operands[3], *q = &operands[0], *k = &operands[1], *v = &operands[2];
  crn_tensor scores, out;
  CRN_TRY(take_operands_apart(f, args->operands, 3, operands));
  CRN_TRY(crn_infer_matmul_dims(args, q, k, true, &scores));
  CRN_TRY(crn_infer_matmul_dims(args, &scores, v, true, &out));
  if (f->n_leading && out.rank != f->n_leading + 2) return CRN_FAIL(INVALID_ARGUMENT, "attention lost batch or heads");
  put_together(&f->out, &out);
  return crn_infer_finish(args, 0, q->dtype, out.rank, out.dims);
}

/// Operands of one rank: leading dimensions broadcast to those of the result.
typedef struct spelled {
  const crn_fused_attention *f;
  int leading;  ///< dimensions in front of rows
  int64_t dims[CAIRN_MAX_RANK];
  crn_tensor q, k, v, mask, out;
} spelled;

// `t` with the leading dimensions of the result, by strides of 0 where it has one element.
static bool widen(const spelled *s, const crn_tensor *t, crn_tensor *out) {
  int rank = s->leading + 2;
  *out = *t;
  out->rank = rank;
  for (int d = 0; d < rank; d++) {
    int from = d - (rank - t->rank);
    out->dims[d] = from < 0 ? 1 : t->dims[from];
    out->strides[d] = from < 0 ? 0 : t->strides[from];
    if (d >= s->leading || out->dims[d] == s->dims[d]) continue;
    if (out->dims[d] != 1) return false;
    out->dims[d] = s->dims[d];
    out->strides[d] = 0;
  }
  return true;
}

// Merges the dimensions [begin, end) into one; false when no stride walks them.
static bool merge(crn_tensor *t, int begin, int end) {
  int64_t count = 1, step = 0;
  for (int d = end - 1; d >= begin; d--) {
    if (t->dims[d] == 1) continue;
    if (count == 1)
      step = t->strides[d];
    else if (t->strides[d] != step * count)
      return false;
    count *= t->dims[d];
  }
  if (begin == end) {
    for (int d = t->rank; d > begin; d--) t->dims[d] = t->dims[d - 1], t->strides[d] = t->strides[d - 1];
    t->rank++;
  } else {
    for (int d = end; d < t->rank; d++) t->dims[begin + 1 + d - end] = t->dims[d], t->strides[begin + 1 + d - end] = t->strides[d];
    t->rank -= end - begin - 1;
  }
  t->dims[begin] = count;
  t->strides[begin] = step;
  return true;
}

static cairn_status copy_plain(const crn_kernel_args *args, crn_tensor *t) {
  size_t bytes;
  void *memory;
  if (t->pages && t->pages->window.kept)
    return CRN_FAIL(UNSUPPORTED, "attention that cannot leave out what the window of its cache dropped");
  if (!crn_shape_bytes(t->dtype, t->dims, t->rank, &bytes)) return CRN_FAIL(OUT_OF_RANGE, "an operand of attention is too large");
  CRN_TRY(args->scratch->take(args->scratch, bytes, &memory));
  crn_tensor copy = crn_tensor_make(t->dtype, t->dims, t->rank, memory);
  crn_tensor_copy(t, &copy);
  *t = copy;
  return CAIRN_OK;
}

// The leading dimensions [0, outer) become the batch and [outer, leading) the heads.
static cairn_status to_heads(const crn_kernel_args *args, const spelled *s, int outer, int leading, crn_tensor *t) {
  for (int attempt = 0; attempt < 2; attempt++) {
    crn_tensor merged = *t;
    if (merge(&merged, outer, leading) && merge(&merged, 0, outer)) {
      *t = merged;
      return CAIRN_OK;
    }
    if (attempt == 0) CRN_TRY(copy_plain(args, t));
  }
  (void)s;
  return CRN_FAIL(INTERNAL, "an operand of attention cannot be seen as heads");
}

// How many of the last leading dimensions keys and values do not vary over: the query heads of a group.
static int count_grouped(const spelled *s) {
  int n = 0;
  while (n < s->leading) {
    int d = s->leading - 1 - n;
    if (s->dims[d] != 1 && (s->k.strides[d] != 0 || s->v.strides[d] != 0)) break;
    n++;
  }
  return n;
}

static void drop_dims(crn_tensor *t, int begin, int end) {
  for (int d = end; d < t->rank; d++) t->dims[begin + d - end] = t->dims[d], t->strides[begin + d - end] = t->strides[d];
  t->rank -= end - begin;
}

static cairn_status run_kernel(const crn_kernel_args *args, spelled *s) {
  int group = count_grouped(s), heads_end = s->leading, outer = 0;
  // Keys and values: groups as heads; the query heads of a group are behind one another.
  drop_dims(&s->k, heads_end - group, heads_end);
  drop_dims(&s->v, heads_end - group, heads_end);
  int64_t swapped = s->k.dims[s->k.rank - 1], swapped_stride = s->k.strides[s->k.rank - 1];
  s->k.dims[s->k.rank - 1] = s->k.dims[s->k.rank - 2], s->k.strides[s->k.rank - 1] = s->k.strides[s->k.rank - 2];
  s->k.dims[s->k.rank - 2] = swapped, s->k.strides[s->k.rank - 2] = swapped_stride;
  // One dimension of heads next to the groups, the others count as a batch.
  if (heads_end - group > 1) outer = heads_end - group - 1;
  CRN_TRY(to_heads(args, s, outer, heads_end, &s->q));
  CRN_TRY(to_heads(args, s, outer, heads_end - group, &s->k));
  CRN_TRY(to_heads(args, s, outer, heads_end - group, &s->v));
  if (s->f->mask != CRN_FUSED_NO_MASK) CRN_TRY(to_heads(args, s, outer, heads_end, &s->mask));
  CRN_TRY(to_heads(args, s, outer, heads_end, &s->out));
  crn_tensor operands[4] = {s->q, s->k, s->v, s->mask};
  crn_kernel_args inner = *args;
  crn_attention_extent extent = {0, 0};
  inner.id = CRN_OP_scaled_dot_product_attention;
  inner.attrs = s->f->attrs;
  inner.input_names = s->f->input_names;
  inner.fused = NULL;
  inner.n_operands = s->f->mask == CRN_FUSED_NO_MASK ? 3 : 4;
  inner.operands = operands;
  inner.results = &s->out;
  if (s->f->mask != CRN_FUSED_NO_MASK) {
    const int64_t *found = args->operands[4].data;
    extent = (crn_attention_extent){found[0], found[1]};
    if (found[2]) inner.fused = &extent;
  }
  return crn_ref_scaled_dot_product_attention(&inner);
}

// --- op by op: for rows that see nothing, whose result depends on how the program masks, and for what the kernel declines -----

static cairn_status take_tensor(const crn_kernel_args *args, cairn_dtype dtype, const int64_t *dims, int rank, crn_tensor *out) {
  size_t bytes;
  void *memory;
  if (!crn_shape_bytes(dtype, dims, rank, &bytes)) return CRN_FAIL(OUT_OF_RANGE, "the scores of attention are too large");
  CRN_TRY(args->scratch->take(args->scratch, bytes, &memory));
  *out = crn_tensor_make(dtype, dims, rank, memory);
  return CAIRN_OK;
}

static cairn_status call(const crn_kernel_args *args, crn_op_id id, crn_kernel_fn kernel, const crn_tensor *operands, int n,
                         crn_tensor *result) {
  crn_kernel_args inner = *args;
  inner.id = id;
  inner.fused = NULL;
  inner.attrs = NULL;
  inner.input_names = NULL;
  inner.operands = operands;
  inner.n_operands = n;
  inner.results = result;
  return kernel(&inner);
}

// A copy of another type; one of the same type is the value itself.
static cairn_status convert(const crn_kernel_args *args, cairn_dtype dtype, crn_tensor *t) {
  crn_tensor from = *t;
  if (t->dtype == dtype) return CAIRN_OK;
  CRN_TRY(take_tensor(args, dtype, from.dims, from.rank, t));
  return call(args, CRN_OP_cast, crn_ref_cast, &from, 1, t);
}

static cairn_status run_spelled(const crn_kernel_args *args, const crn_fused_attention *f) {
  crn_tensor plain_q = args->operands[0], plain_k = args->operands[1], plain_v = args->operands[2];
  crn_tensor *q = &plain_q, *k = &plain_k, *v = &plain_v;
  if (k->pages) CRN_TRY(copy_plain(args, k));
  if (v->pages) CRN_TRY(copy_plain(args, v));
  if (f->is_widened) {
    CRN_TRY(convert(args, CAIRN_F32, q));
    CRN_TRY(convert(args, CAIRN_F32, k));
  }
  crn_infer_args infer = crn_ref_operands(args);
  crn_tensor shape, scores, masked, weights, out = args->results[0];
  int64_t one = 1, axis = -1;
  uint64_t scale = 0, fill = 0;
  CRN_TRY(crn_infer_matmul_dims(&infer, q, k, true, &shape));
  CRN_TRY(take_tensor(args, q->dtype, shape.dims, shape.rank, &scores));
  CRN_TRY(call(args, CRN_OP_broadcasting_batch_matmul, crn_ref_broadcasting_batch_matmul, (crn_tensor[]){*q, *k}, 2, &scores));
  if (f->scale != 1) {
    crn_tensor scaled, factor = crn_tensor_make(q->dtype, &one, 1, &scale);
    crn_store_f64(q->dtype, &scale, f->scale);
    CRN_TRY(take_tensor(args, q->dtype, shape.dims, shape.rank, &scaled));
    CRN_TRY(call(args, CRN_OP_broadcasting_mul, crn_ref_broadcasting_mul, (crn_tensor[]){scores, factor}, 2, &scaled));
    scores = scaled;
  }
  if (f->mask != CRN_FUSED_NO_MASK) {
    crn_tensor mask = args->operands[3], other = crn_tensor_make(q->dtype, &one, 1, &fill);
    crn_store_f64(q->dtype, &fill, f->masked);
    if (f->mask == CRN_FUSED_MASK_ADDED) CRN_TRY(convert(args, q->dtype, &mask));
    CRN_TRY(take_tensor(args, q->dtype, shape.dims, shape.rank, &masked));
    if (f->mask == CRN_FUSED_MASK_ADDED)
      CRN_TRY(call(args, CRN_OP_broadcasting_add, crn_ref_broadcasting_add, (crn_tensor[]){scores, mask}, 2, &masked));
    else
      CRN_TRY(call(args, CRN_OP_broadcasting_where, crn_ref_broadcasting_where, (crn_tensor[]){mask, scores, other}, 3, &masked));
    scores = masked;
  }
  crn_tensor last = crn_tensor_make(CAIRN_SI64, &one, 0, &axis);
  CRN_TRY(take_tensor(args, q->dtype, shape.dims, shape.rank, &weights));
  CRN_TRY(call(args, CRN_OP_softmax, crn_ref_softmax, (crn_tensor[]){scores, last}, 2, &weights));
  CRN_TRY(convert(args, v->dtype, &weights));
  return call(args, CRN_OP_broadcasting_batch_matmul, crn_ref_broadcasting_batch_matmul, (crn_tensor[]){weights, *v}, 2, &out);
}

static cairn_status run_attention(const crn_kernel_args *args) {
  const crn_fused_attention *f = args->fused;
  const crn_tensor *out = &args->results[0];
  spelled s = {.f = f, .leading = out->rank - 2, .out = *out};
  // What rows that see nothing get depends on how the program masks, and where it adds, on the type it adds in.
  const bool depends = f->mask == CRN_FUSED_MASK_CHOSEN || (f->mask == CRN_FUSED_MASK_ADDED && f->is_widened);
  bool fits = crn_tensor_count(out) > 0 && (!depends || ((const int64_t *)args->operands[4].data)[2]);
  memcpy(s.dims, out->dims, sizeof s.dims);
  fits = fits && widen(&s, &args->operands[0], &s.q) && widen(&s, &args->operands[1], &s.k) && widen(&s, &args->operands[2], &s.v);
  if (fits && f->mask != CRN_FUSED_NO_MASK) {
    // A mask that is the same for all positions has no extent among them.
    const crn_tensor *mask = &args->operands[3];
    fits = mask->rank >= 1 && mask->rank <= out->rank && mask->dims[mask->rank - 1] == s.k.dims[s.k.rank - 1] && widen(&s, mask, &s.mask);
  }
  if (!fits) return run_spelled(args, f);
  cairn_status status = run_kernel(args, &s);
  if (status != CAIRN_UNSUPPORTED) return status;
  crn_error_clear();
  return run_spelled(args, f);
}

cairn_status crn_fused_attention_run(const crn_kernel_args *args) {
  const crn_fused_attention *f = args->fused;
  crn_tensor operands[5], out = args->results[0];
  crn_kernel_args inner = *args;
  if (!f->n_leading) return run_attention(args);
  CRN_TRY(take_operands_apart(f, args->operands, (int)args->n_operands, operands));
  if (!take_apart(f, &f->out, &out)) return CRN_FAIL(INTERNAL, "the result of attention has another size");
  inner.operands = operands;
  inner.results = &out;
  return run_attention(&inner);
}
