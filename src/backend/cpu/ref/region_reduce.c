// reduce and reduce_index: reductions by a region of the program. What is one of the usual reductions is computed as such, with
// wide accumulation; anything else by evaluating the region, for many results at a time.
#include <string.h>

#include "backend/cpu/ref/move.h"
#include "backend/cpu/ref/region.h"

enum { ELEMENT_BYTES = 16 };

// --- the usual ones ----------------------------------------------------------------------------------------------------

static bool direct_reduction(crn_op_id id, bool logical, crn_reduction *out_kind) {
  switch (id) {
    case CRN_OP_add:
    case CRN_OP_broadcasting_add:
      *out_kind = logical ? CRN_REDUCE_ANY : CRN_REDUCE_SUM;
      return true;
    case CRN_OP_mul:
    case CRN_OP_broadcasting_mul:
      *out_kind = logical ? CRN_REDUCE_ALL : CRN_REDUCE_PRODUCT;
      return true;
    case CRN_OP_maximum:
    case CRN_OP_broadcasting_maximum:
      *out_kind = CRN_REDUCE_MAX;
      return !logical;
    case CRN_OP_minimum:
    case CRN_OP_broadcasting_minimum:
      *out_kind = CRN_REDUCE_MIN;
      return !logical;
    case CRN_OP_and:
    case CRN_OP_broadcasting_and:
      *out_kind = CRN_REDUCE_ALL;
      return logical;
    case CRN_OP_or:
    case CRN_OP_broadcasting_or:
      *out_kind = CRN_REDUCE_ANY;
      return logical;
    default:
      return false;
  }
}

// A region of one op over both arguments, in either order, that is yielded.
static bool is_direct(const crn_kernel_args *args, crn_reduction *out_kind) {
  const crn_block *b = args->region && args->region->n_blocks == 1 ? args->region->blocks[0] : NULL;
  cairn_dtype dtype = args->operands[0].dtype;
  if (!b || b->first->next != b->last || b->first->n_operands != 2 || crn_dtype_is_complex(dtype)) return false;
  const crn_op *op = b->first;
  const crn_value *x = op->operands[0], *y = op->operands[1], *p = &b->arguments[0], *q = &b->arguments[1];
  bool both = (x == p && y == q) || (x == q && y == p);
  return both && b->last->operands[0] == &op->results[0] && direct_reduction(op->id, dtype == CAIRN_BOOL, out_kind);
}

// --- by evaluating the region --------------------------------------------------------------------------------------------

typedef struct fold {
  crn_region_eval eval;
  const crn_tensor *x, *out;
  int64_t kept_dims[CAIRN_MAX_RANK], kept_strides[CAIRN_MAX_RANK];  ///< reduced dimensions count as 1
  int64_t dims[CAIRN_MAX_RANK];                                     ///< kept dimensions count as 1
  size_t bytes;                                                     ///< of an element
  int64_t at[CRN_REGION_LANES];                                     ///< where the first element of each result lies
  char *best, *element;
} fold;

static cairn_status fold_begin(const crn_kernel_args *args, const bool *mask, fold *f) {
  f->x = &args->operands[0];
  f->out = &args->results[0];
  f->bytes = cairn_dtype_bytes(f->x->dtype);
  for (int d = 0; d < f->x->rank; d++) {
    f->kept_dims[d] = mask[d] ? 1 : f->x->dims[d];
    f->dims[d] = mask[d] ? f->x->dims[d] : 1;
    f->kept_strides[d] = mask[d] ? 0 : f->x->strides[d];
  }
  CRN_TRY(crn_region_eval_begin(args, &f->eval));
  CRN_TRY(args->scratch->take(args->scratch, (size_t)CRN_REGION_LANES * ELEMENT_BYTES, &f->best));
  return args->scratch->take(args->scratch, (size_t)CRN_REGION_LANES * ELEMENT_BYTES, &f->element);
}

static int64_t lanes_of(const fold *f, int64_t left) {
  int64_t most = f->eval.elementwise ? CRN_REGION_LANES : 1;
  return left < most ? left : most;
}

static void start_lanes(fold *f, int64_t first, int64_t n, const void *init) {
  for (int64_t i = 0; i < n; i++) {
    f->at[i] = crn_move_unravel(f->x->rank, f->kept_dims, f->kept_strides, first + i, NULL);
    memcpy(f->best + (size_t)i * f->bytes, init, f->bytes);
  }
}

static void load_lanes(fold *f, int64_t offset, int64_t n) {
  for (int64_t i = 0; i < n; i++) memcpy(f->element + (size_t)i * f->bytes, crn_tensor_at(f->x, f->at[i] + offset), f->bytes);
}

// Combines the best values with the elements in hand.
static cairn_status combine_lanes(fold *f, int64_t n, crn_tensor *out) {
  crn_tensor best = crn_tensor_make(f->x->dtype, &n, 1, f->best), element = crn_tensor_make(f->x->dtype, &n, 1, f->element);
  return crn_region_eval_run(&f->eval, &best, &element, n, out);
}

static cairn_status fold_lanes(fold *f, int64_t n) {
  crn_nd_iter it;
  crn_nd_initialize(&it, f->x->rank, f->dims);
  crn_nd_operand(&it, f->x->strides);
  for (crn_nd_begin(&it); !it.done; crn_nd_next(&it)) {
    crn_tensor r;
    load_lanes(f, it.offset[0], n);
    CRN_TRY(combine_lanes(f, n, &r));
    for (int64_t i = 0; i < n; i++) memmove(f->best + (size_t)i * f->bytes, crn_tensor_at(&r, i * r.strides[0]), f->bytes);
  }
  return CAIRN_OK;
}

cairn_status crn_ref_reduce(const crn_kernel_args *args) {
  crn_reduction kind;
  const crn_tensor *init = &args->operands[2];
  if (is_direct(args, &kind)) return crn_reduce_from(args, kind, init);
  bool mask[CAIRN_MAX_RANK];
  fold *f;
  CRN_TRY(crn_ref_axes(args, 1, args->operands[0].rank, mask));
  CRN_TRY(args->scratch->take(args->scratch, sizeof *f, &f));
  CRN_TRY(fold_begin(args, mask, f));
  int64_t count = crn_tensor_count(f->out);
  for (int64_t first = 0, n; first < count; first += n) {
    n = lanes_of(f, count - first);
    start_lanes(f, first, n, init->data);
    CRN_TRY(fold_lanes(f, n));
    memcpy(crn_tensor_at(f->out, first), f->best, (size_t)n * f->bytes);
  }
  return CAIRN_OK;
}

// The candidate takes the place of the best value where the region says so.
static cairn_status find_lanes(fold *f, int axis, int64_t n, int64_t *places) {
  for (int64_t k = 0; k < f->x->dims[axis]; k++) {
    crn_tensor r;
    load_lanes(f, k * f->x->strides[axis], n);
    CRN_TRY(combine_lanes(f, n, &r));
    for (int64_t i = 0; i < n; i++) {
      if (!crn_load_i64(CAIRN_BOOL, crn_tensor_at(&r, i * r.strides[0]))) continue;
      memcpy(f->best + (size_t)i * f->bytes, f->element + (size_t)i * f->bytes, f->bytes);
      places[i] = k;
    }
  }
  return CAIRN_OK;
}

cairn_status crn_ref_reduce_index(const crn_kernel_args *args) {
  const crn_tensor *x = &args->operands[0], *out = &args->results[0], *place = &args->operands[3];
  bool mask[CAIRN_MAX_RANK] = {false};
  int axis;
  fold *f;
  CRN_TRY(crn_ref_axis(args, 1, x->rank, &axis));
  mask[axis] = true;
  CRN_TRY(args->scratch->take(args->scratch, sizeof *f, &f));
  CRN_TRY(fold_begin(args, mask, f));
  int64_t count = crn_tensor_count(out), places[CRN_REGION_LANES];
  for (int64_t first = 0, n; first < count; first += n) {
    n = lanes_of(f, count - first);
    start_lanes(f, first, n, args->operands[2].data);
    for (int64_t i = 0; i < n; i++) places[i] = crn_load_i64(place->dtype, place->data);
    CRN_TRY(find_lanes(f, axis, n, places));
    for (int64_t i = 0; i < n; i++) crn_store_i64(out->dtype, crn_tensor_at(out, first + i), places[i]);
  }
  return CAIRN_OK;
}
