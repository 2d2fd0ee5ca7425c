// Masked and shifted updates of states: only what changes is written.
#include "backend/cpu/fused/state.h"

#include <math.h>
#include <string.h>

#include "backend/cpu/ref/elements.h"
#include "backend/cpu/ref/gather.h"
#include "backend/cpu/ref/move.h"
#include "backend/cpu/ref/ref.h"
#include "backend/cpu/ref/spans.h"
#include "base/checked.h"
#include "program/infer/dims.h"
#include "tensor/pages.h"

cairn_status crn_infer_fused_state(const crn_infer_args *args) {
  const crn_tensor *old = &args->operands[0];
  return crn_infer_finish(args, 0, old->dtype, old->rank, old->dims);
}

/// The elements of a value seen as boxes: one for each element of a mask that varies over some of the dimensions.
typedef struct boxes {
  int rank;
  int64_t mask_dims[CAIRN_MAX_RANK];  ///< of the walk over the mask
  crn_tensor target, update;          ///< a box, at its first place
  int64_t target_strides[CAIRN_MAX_RANK], update_strides[CAIRN_MAX_RANK];
} boxes;

static cairn_status seen_as(const crn_tensor *t, const crn_tensor *target, crn_tensor *out) {
  int64_t strides[CAIRN_MAX_RANK];
  CRN_TRY(crn_broadcast_strides(t, target->dims, target->rank, strides));
  *out = *target;
  out->dtype = t->dtype;
  out->data = t->data;
  out->pages = t->pages;
  out->packed = false;
  memcpy(out->strides, strides, sizeof strides);
  return CAIRN_OK;
}

// A dimension that no mask varies over belongs to the box.
static void make_boxes(const crn_tensor *target, const crn_tensor *update, const crn_tensor *a, const crn_tensor *b, boxes *out) {
  out->rank = target->rank;
  out->target = *target;
  out->update = *update;
  for (int d = 0; d < target->rank; d++) {
    bool varies = target->dims[d] > 1 && (a->strides[d] != 0 || b->strides[d] != 0);
    out->mask_dims[d] = varies ? target->dims[d] : target->dims[d] == 0 ? 0 : 1;
    out->target_strides[d] = target->strides[d];
    out->update_strides[d] = update->strides[d];
    if (varies) out->target.dims[d] = out->update.dims[d] = 1;
  }
}

static int64_t box_bytes(const boxes *b) { return crn_tensor_count(&b->target) * (int64_t)cairn_dtype_bytes(b->target.dtype); }

static void box_at(const boxes *b, int64_t target, int64_t update, crn_tensor *out_target, crn_tensor *out_update) {
  *out_target = b->target;
  *out_update = b->update;
  out_target->data = crn_tensor_at(&b->target, target);
  out_update->data = crn_tensor_at(&b->update, update);
}

static cairn_status copy_old(const crn_kernel_args *args) {
  crn_move_tensor(args->pool, &args->operands[0], &args->results[0]);
  return CAIRN_OK;
}

// The rows of pages that an update changes.
typedef struct rows {
  int64_t first, end;
} rows;

static cairn_status own_rows(const crn_tensor *to, rows *r) {
  int64_t first, end;
  if (!to->pages) return CAIRN_OK;
  crn_paged_rows(to, &first, &end);
  if (r->end == 0 || first < r->first) r->first = first;
  if (end > r->end) r->end = end;
  return crn_pages_own(to->pages, first, end);
}

static void end_rows(const crn_tensor *target, const rows *r) {
  if (target->pages) crn_pages_advance(target->pages, r->first, r->end);
}

// --- where ------------------------------------------------------------------------------------------------------------------

cairn_status crn_fused_choose_update(const crn_kernel_args *args, const crn_tensor *target, int64_t *out_bytes) {
  const crn_fused_choose *f = args->fused;
  crn_tensor mask, update;
  boxes b;
  rows changed = {0, 0};
  CRN_TRY(seen_as(&args->operands[2], target, &mask));
  CRN_TRY(seen_as(&args->operands[1], target, &update));
  make_boxes(target, &update, &mask, &mask, &b);
  *out_bytes = 0;
  crn_nd_iter it;
  crn_nd_initialize(&it, b.rank, b.mask_dims);
  crn_nd_operand(&it, mask.strides);
  crn_nd_operand(&it, b.target_strides);
  crn_nd_operand(&it, b.update_strides);
  for (crn_nd_begin(&it); !it.done; crn_nd_next(&it)) {
    bool is_set = *(const uint8_t *)crn_tensor_at(&mask, it.offset[0]) != 0;
    if (is_set == f->is_inverted) continue;
    crn_tensor to, from;
    box_at(&b, it.offset[1], it.offset[2], &to, &from);
    CRN_TRY(own_rows(&to, &changed));
    crn_tensor_copy(&from, &to);
    *out_bytes += box_bytes(&b);
  }
  end_rows(target, &changed);
  return CAIRN_OK;
}

cairn_status crn_fused_choose_run(const crn_kernel_args *args) {
  int64_t bytes;
  CRN_TRY(copy_old(args));
  return crn_fused_choose_update(args, &args->results[0], &bytes);
}

// --- blend ------------------------------------------------------------------------------------------------------------------

static bool all_finite(const crn_tensor *t) {
  crn_nd_iter it;
  crn_nd_initialize(&it, t->rank, t->dims);
  crn_nd_operand(&it, t->strides);
  for (crn_nd_begin(&it); !it.done; crn_nd_next(&it)) {
    if (!isfinite(crn_load_f64(t->dtype, crn_tensor_at(t, it.offset[0])))) return false;
  }
  return true;
}

static float rounded(cairn_dtype dtype, float value) {
  crn_round_f32(dtype, &value, 1);
  return value;
}

static void blend_plain(const crn_tensor *to, const crn_tensor *from, float keep, float take) {
  crn_nd_iter it;
  crn_nd_initialize(&it, to->rank, to->dims);
  crn_nd_operand(&it, to->strides);
  crn_nd_operand(&it, from->strides);
  for (crn_nd_begin(&it); !it.done; crn_nd_next(&it)) {
    void *element = crn_tensor_at(to, it.offset[0]);
    float old = (float)crn_load_f64(to->dtype, element), new = (float)crn_load_f64(from->dtype, crn_tensor_at(from, it.offset[1]));
    crn_put_one_f32(to->dtype, element, 0, rounded(to->dtype, old * keep) + rounded(to->dtype, new *take));
  }
}

// Blends a box, a run of rows of one page after the other where it lies in pages.
typedef struct blending {
  float keep, take;
} blending;

static void blend_run(void *user, const crn_page_run *run) {
  const blending *b = user;
  blend_plain(&run->part, run->other, b->keep, b->take);
}

static void blend_box(const crn_tensor *to, const crn_tensor *from, float keep, float take) {
  blending b = {keep, take};
  if (to->pages) {
    crn_paged_visit(to, from, blend_run, &b);
  } else {
    blend_plain(to, from, keep, take);
  }
}

cairn_status crn_fused_blend_update(const crn_kernel_args *args, const crn_tensor *target, int64_t *out_bytes) {
  crn_tensor keep, update, take;
  boxes b;
  rows changed = {0, 0};
  *out_bytes = -1;
  // Blended again and again, what is kept with fewer bits would drift.
  if (target->pages && target->pages->is_quantized) return CAIRN_OK;
  CRN_TRY(seen_as(&args->operands[2], target, &keep));
  CRN_TRY(seen_as(&args->operands[1], target, &update));
  CRN_TRY(seen_as(&args->operands[3], target, &take));
  // What is not finite reaches all elements: 0 * NaN is NaN.
  bool skips = all_finite(&args->operands[1]);
  make_boxes(target, &update, &keep, &take, &b);
  *out_bytes = 0;
  crn_nd_iter it;
  crn_nd_initialize(&it, b.rank, b.mask_dims);
  crn_nd_operand(&it, keep.strides);
  crn_nd_operand(&it, take.strides);
  crn_nd_operand(&it, b.target_strides);
  crn_nd_operand(&it, b.update_strides);
  for (crn_nd_begin(&it); !it.done; crn_nd_next(&it)) {
    float k = (float)crn_load_f64(keep.dtype, crn_tensor_at(&keep, it.offset[0]));
    float t = (float)crn_load_f64(take.dtype, crn_tensor_at(&take, it.offset[1]));
    if (skips && k == 1 && t == 0) continue;
    crn_tensor to, from;
    box_at(&b, it.offset[2], it.offset[3], &to, &from);
    CRN_TRY(own_rows(&to, &changed));
    blend_box(&to, &from, k, t);
    *out_bytes += box_bytes(&b);
  }
  end_rows(target, &changed);
  return CAIRN_OK;
}

cairn_status crn_fused_blend_run(const crn_kernel_args *args) {
  int64_t bytes;
  CRN_TRY(copy_old(args));
  return crn_fused_blend_update(args, &args->results[0], &bytes);
}

// --- shift ------------------------------------------------------------------------------------------------------------------

// The window's start along the axis, when it lies inside and is as long as the old value.
static cairn_status find_shift(const crn_kernel_args *args, const crn_tensor *old, int64_t *out_start) {
  const crn_fused_shift *f = args->fused;
  int64_t start[CAIRN_MAX_RANK], end[CAIRN_MAX_RANK], stride[CAIRN_MAX_RANK];
  int64_t added = args->operands[1].dims[f->axis], total = old->dims[f->axis] + (f->cuts_old ? 0 : added);
  CRN_TRY(crn_ref_vector_of(args, 2, old->rank, start));
  CRN_TRY(crn_ref_vector_of(args, 3, old->rank, end));
  CRN_TRY(crn_ref_vector_of(args, 4, old->rank, stride));
  for (int d = 0; d < old->rank; d++) {
    int64_t first, count, size = d == f->axis ? total : old->dims[d];
    if (stride[d] == 0) return CRN_FAIL(INVALID_ARGUMENT, "a slice with the stride 0 in dimension %d", d);
    crn_slice_bounds(size, start[d], end[d], stride[d], &first, &count);
    // What is cut off at the end of old would be a gap in front of new.
    if (d == f->axis && f->cuts_old && first + count == size) count += added;
    if (count != old->dims[d] || (stride[d] != 1 && count > 1) || (d != f->axis && first != 0)) {
      return CRN_FAIL(INVALID_ARGUMENT, "the window takes %lld elements of dimension %d, the state has %lld", (long long)count, d,
                      (long long)old->dims[d]);
    }
    if (d == f->axis) *out_start = first;
  }
  return CAIRN_OK;
}

// Copies the last elements of the window, which come from the new value.
static void append(const crn_kernel_args *args, int axis, int64_t start, const crn_tensor *target) {
  int64_t n = target->dims[axis], kept = start < n ? n - start : 0;
  crn_tensor from = args->operands[1], to = *target;
  from.dims[axis] = to.dims[axis] = n - kept;
  if (n == kept) return;
  from.data = crn_tensor_at(&from, (kept + start - n) * from.strides[axis]);
  to.data = crn_tensor_at(&to, kept * to.strides[axis]);
  crn_tensor_copy(&from, &to);
}

cairn_status crn_fused_shift_run(const crn_kernel_args *args) {
  const crn_fused_shift *f = args->fused;
  const crn_tensor *old = &args->operands[0], *out = &args->results[0];
  int64_t start = 0, n = out->dims[f->axis];
  CRN_TRY(find_shift(args, old, &start));
  if (start < n) {
    crn_tensor from = *old, to = *out;
    from.dims[f->axis] = to.dims[f->axis] = n - start;
    from.data = crn_tensor_at(&from, start * from.strides[f->axis]);
    crn_move_tensor(args->pool, &from, &to);
  }
  append(args, f->axis, start, out);
  return CAIRN_OK;
}

// In place only where runs behind the axis are contiguous: those are moved down, front to back.
static void move_down(const crn_kernel_args *args, int axis, int64_t start, const crn_tensor *target, int64_t *out_bytes) {
  int64_t n = target->dims[axis], block = 1, outer = 1;
  size_t bytes = cairn_dtype_bytes(target->dtype);
  for (int d = 0; d < axis; d++) outer *= target->dims[d];
  for (int d = axis + 1; d < target->rank; d++) block *= target->dims[d];
  for (int64_t i = 0; i < outer && start < n && start > 0; i++) {
    char *run = (char *)target->data + (size_t)(i * n * block) * bytes;
    memmove(run, run + (size_t)(start * block) * bytes, (size_t)((n - start) * block) * bytes);
  }
  append(args, axis, start, target);
  *out_bytes = start == 0 ? 0 : crn_tensor_count(target) * (int64_t)bytes;
}

cairn_status crn_fused_shift_update(const crn_kernel_args *args, const crn_tensor *target, int64_t *out_bytes) {
  const crn_fused_shift *f = args->fused;
  int64_t start = 0;
  *out_bytes = -1;
  if (!crn_tensor_is_contiguous(target)) return CAIRN_OK;
  CRN_TRY(find_shift(args, target, &start));
  move_down(args, f->axis, start, target, out_bytes);
  return CAIRN_OK;
}

// --- roll -------------------------------------------------------------------------------------------------------------------

// Whether the indices are start, start + 1, … along the axis, whatever the other dimensions.
static bool find_roll(const crn_tensor *index, const crn_tensor *target, int64_t total, int axis, int64_t *out_start) {
  if (!crn_tensor_same_shape(index, target)) return false;
  for (int d = 0; d < index->rank; d++) {
    if (d != axis && index->dims[d] != 1 && index->strides[d] != 0) return false;
  }
  for (int64_t i = 0; i < index->dims[axis]; i++) {
    int64_t at;
    if (!crn_gather_index(crn_gather_load(index->dtype, index->data, i * index->strides[axis]), total, &at)) return false;
    if (i == 0) *out_start = at;
    if (at != *out_start + i) return false;
  }
  return index->dims[axis] > 0;
}

cairn_status crn_fused_roll_update(const crn_kernel_args *args, const crn_tensor *target, int64_t *out_bytes) {
  const crn_fused_shift *f = args->fused;
  int64_t start = 0, total = target->dims[f->axis] + args->operands[1].dims[f->axis];
  *out_bytes = -1;
  if (crn_tensor_is_contiguous(target) && find_roll(&args->operands[2], target, total, f->axis, &start))
    move_down(args, f->axis, start, target, out_bytes);
  return CAIRN_OK;
}

cairn_status crn_fused_roll_run(const crn_kernel_args *args) {
  const crn_fused_shift *f = args->fused;
  crn_tensor parts[2] = {args->operands[0], args->operands[1]}, both = parts[0];
  size_t bytes;
  int64_t axis = f->axis, one = 1;
  both.dims[axis] += parts[1].dims[axis];
  if (!crn_shape_bytes(both.dtype, both.dims, both.rank, &bytes))
    return CRN_FAIL(OUT_OF_RANGE, "a state with what is put behind it is too large");
  CRN_TRY(args->scratch->take(args->scratch, bytes, &both.data));
  crn_tensor_set_contiguous(&both);
  for (int i = 0; i < 2; i++) {
    crn_tensor window = both;
    window.dims[axis] = parts[i].dims[axis];
    window.data = crn_tensor_at(&both, i * parts[0].dims[axis] * both.strides[axis]);
    crn_move_tensor(args->pool, &parts[i], &window);
  }
  crn_tensor operands[3] = {both, args->operands[2], crn_tensor_make(CAIRN_SI64, &one, 0, &axis)};
  crn_kernel_args inner = *args;
  inner.id = CRN_OP_gather_along_axis;
  inner.fused = NULL;
  inner.operands = operands;
  return crn_ref_gather_along_axis(&inner);
}

// --- scatter ----------------------------------------------------------------------------------------------------------------

static cairn_status scatter(const crn_kernel_args *args, crn_kernel_fn kernel, const crn_tensor *target, int64_t *out_bytes) {
  crn_kernel_args inner = *args;
  crn_tensor result = *target, operands[4];
  for (int i = 0; i < args->n_operands && i < 4; i++) operands[i] = args->operands[i];
  operands[0] = *target;
  inner.operands = operands;
  inner.results = &result;
  *out_bytes = crn_tensor_count(&args->operands[2]) * (int64_t)cairn_dtype_bytes(target->dtype);
  // These kernels know no pages.
  if (target->pages) *out_bytes = -1;
  return target->pages ? CAIRN_OK : kernel(&inner);
}

cairn_status crn_scatter_along_axis_update(const crn_kernel_args *args, const crn_tensor *target, int64_t *out_bytes) {
  return scatter(args, crn_ref_scatter_along_axis, target, out_bytes);
}

cairn_status crn_scatter_nd_update(const crn_kernel_args *args, const crn_tensor *target, int64_t *out_bytes) {
  const crn_tensor *index = &args->operands[1];
  int length = (int)index->dims[index->rank - 1], wrong;
  int64_t vectors = 1, offset;
  for (int d = 0; d < index->rank - 1; d++) vectors *= index->dims[d];
  // A place that does not exist is for the general way to report: it leaves the state as it was.
  *out_bytes = -1;
  if (target->pages) return CAIRN_OK;
  for (int64_t v = 0; v < vectors; v++) {
    int64_t where = crn_move_unravel(index->rank - 1, index->dims, index->strides, v, NULL);
    if (!crn_gather_nd_offset(target, index, length, where, &offset, &wrong)) return CAIRN_OK;
  }
  return scatter(args, crn_ref_scatter_nd, target, out_bytes);
}

// --- windows ----------------------------------------------------------------------------------------------------------------

cairn_status crn_slice_update_in_place(const crn_kernel_args *args, const crn_tensor *target, int64_t *out_bytes) {
  crn_tensor base = *target, window;
  CRN_TRY(crn_ref_slice_window(args, &base, &window));
  // Steps that specialization made have no inference that looks at the bounds.
  if (!crn_tensor_same_shape(&args->operands[4], &window))
    return CRN_FAIL(INVALID_ARGUMENT, "slice_update: the new value has another shape than the slice it is written to");
  if (window.pages) {
    int64_t first, end;
    crn_paged_rows(&window, &first, &end);
    CRN_TRY(crn_pages_own(window.pages, first, end));
    crn_pages_advance(window.pages, first, end);
  }
  crn_tensor_copy(&args->operands[4], &window);
  *out_bytes = crn_tensor_count(&window) * (int64_t)cairn_dtype_bytes(window.dtype);
  return CAIRN_OK;
}

// --- layers -----------------------------------------------------------------------------------------------------------------

cairn_status crn_fused_layer_update(const crn_kernel_args *args, const crn_tensor *target, int64_t *out_bytes) {
  const crn_fused_layer *f = args->fused;
  crn_tensor layer = *target, operands[5];
  if (f->index >= target->dims[f->axis])
    return CRN_FAIL(INVALID_ARGUMENT, "index %lld of a dimension of size %lld", (long long)f->index, (long long)target->dims[f->axis]);
  layer.data = crn_tensor_at(target, f->index * target->strides[f->axis]);
  layer.rank--;
  for (int d = f->axis; d < layer.rank; d++) layer.dims[d] = target->dims[d + 1], layer.strides[d] = target->strides[d + 1];
  for (int i = 0; i < 5; i++) operands[i] = args->operands[i];
  operands[0] = layer;
  crn_kernel_args inner = *args;
  inner.id = CRN_OP_slice_update;
  inner.fused = NULL;
  inner.operands = operands;
  return crn_slice_update_in_place(&inner, &layer, out_bytes);
}

cairn_status crn_fused_layer_run(const crn_kernel_args *args) {
  int64_t bytes;
  CRN_TRY(copy_old(args));
  return crn_fused_layer_update(args, &args->results[0], &bytes);
}
