#include "tensor/ndarray.h"

#include <string.h>

#include "base/checked.h"
#include "tensor/pages.h"

// --- storage ---------------------------------------------------------------------------------------------------------

static cairn_status storage_create(cairn_context *context, size_t bytes, bool clear, crn_storage **out) {
  crn_storage *s;
  const cairn_allocator *a = &context->allocator;
  CRN_TRY(crn_alloc_zero(a, sizeof *s, &s));
  cairn_status status = clear ? crn_alloc_zero(a, bytes, &s->data) : crn_alloc(a, bytes, &s->data);
  if (status != CAIRN_OK) {
    crn_free(a, s, sizeof *s);
    return status;
  }
  atomic_init(&s->references, 1);
  s->context = context;
  s->bytes = bytes;
  cairn_context_retain(context);
  *out = s;
  return CAIRN_OK;
}

static void storage_release(crn_storage *s) {
  if (atomic_fetch_sub_explicit(&s->references, 1, memory_order_acq_rel) != 1) return;
  cairn_context *context = s->context;
  if (s->pages) {
    crn_pages_destroy(s->pages);
  } else if (!s->is_wrapped) {
    crn_free(&context->allocator, s->data, s->bytes);
  } else if (s->release) {
    s->release(s->user);
  }
  crn_free(&context->allocator, s, sizeof *s);
  cairn_context_release(context);
}

cairn_status crn_ndarray_create_over(crn_storage *storage, const crn_tensor *view, const int64_t *interleave, bool read_only,
                                     cairn_ndarray **out) {
  cairn_ndarray *a;
  cairn_status status = crn_recycle_take(&storage->context->blocks, sizeof *a, &a);
  if (status != CAIRN_OK) {
    storage_release(storage);
    return status;
  }
  atomic_init(&a->references, 1);
  a->storage = storage;
  a->view = *view;
  a->is_read_only = read_only;
  for (int i = 0; i < CAIRN_MAX_RANK; i++) {
    a->interleave[i] = interleave && i < view->rank ? interleave[i] : 1;
    if (a->interleave[i] != 1) a->is_interleaved = true;
  }
  *out = a;
  return CAIRN_OK;
}

static cairn_status check_type_and_rank(cairn_dtype dtype, const int64_t *shape, int rank) {
  if (cairn_dtype_bytes(dtype) == 0) return CRN_FAIL(INVALID_ARGUMENT, "%d is not an element type", (int)dtype);
  if (rank < 0 || rank > CAIRN_MAX_RANK) return CRN_FAIL(INVALID_ARGUMENT, "rank %d is outside of 0 to %d", rank, CAIRN_MAX_RANK);
  for (int i = 0; i < rank; i++) {
    if (shape[i] < 0) return CRN_FAIL(INVALID_ARGUMENT, "dim %d is %lld: sizes must not be negative", i, (long long)shape[i]);
  }
  return CAIRN_OK;
}

static cairn_status create_with_layout(cairn_context *context, cairn_dtype dtype, const int64_t *shape, const int64_t *interleave, int rank,
                                       bool clear, cairn_ndarray **out) {
  int64_t plain[CAIRN_MAX_RANK];
  for (int i = 0; i < CAIRN_MAX_RANK; i++) plain[i] = 1;
  *out = NULL;
  CRN_TRY(check_type_and_rank(dtype, shape, rank));
  crn_tensor view = crn_tensor_make(dtype, (const int64_t[CAIRN_MAX_RANK]){0}, 0, NULL);
  view.rank = rank;
  for (int i = 0; i < rank; i++) view.dims[i] = shape[i];
  int64_t span;
  size_t bytes;
  if (!crn_layout_strides(shape, interleave ? interleave : plain, rank, view.strides, &span) ||
      !crn_mul_size((size_t)span, cairn_dtype_bytes(dtype), &bytes) || bytes > INT64_MAX) {
    return CRN_FAIL(OUT_OF_RANGE, "an array of this shape is too large for memory");
  }
  crn_storage *storage;
  CRN_TRY(storage_create(context, bytes, clear, &storage));
  view.data = storage->data;
  return crn_ndarray_create_over(storage, &view, interleave, false, out);
}

cairn_status cairn_ndarray_create(cairn_context *context, cairn_dtype dtype, const int64_t *shape, int rank, cairn_ndarray **out_array) {
  CRN_REQUIRE(out_array);
  *out_array = NULL;
  CRN_REQUIRE(context);
  CRN_REQUIRE_SOME(shape, rank);
  return create_with_layout(context, dtype, shape, NULL, rank, true, out_array);
}

cairn_status crn_ndarray_create_uninitialized(cairn_context *context, cairn_dtype dtype, const int64_t *shape, int rank,
                                              cairn_ndarray **out_array) {
  return create_with_layout(context, dtype, shape, NULL, rank, false, out_array);
}

cairn_status cairn_ndarray_create_ordered(cairn_context *context, cairn_dtype dtype, const int64_t *shape, int rank, const int *order,
                                          cairn_ndarray **out_array) {
  CRN_REQUIRE(out_array);
  *out_array = NULL;
  CRN_REQUIRE(context);
  CRN_REQUIRE_SOME(shape, rank);
  CRN_REQUIRE_SOME(order, rank);
  int64_t dims[CAIRN_MAX_RANK] = {0};
  unsigned seen = 0;
  CRN_TRY(check_type_and_rank(dtype, shape, rank));
  for (int i = 0; i < rank; i++) {
    if (order[i] < 0 || order[i] >= rank || seen >> order[i] & 1)
      return CRN_FAIL(INVALID_ARGUMENT, "entry %d of the order is %d: each dim from 0 to %d is expected once", i, order[i], rank - 1);
    seen |= 1u << order[i];
    dims[i] = shape[order[i]];
  }
  CRN_TRY(cairn_ndarray_create(context, dtype, dims, rank, out_array));
  crn_tensor *view = &(*out_array)->view, ordered = *view;
  for (int i = 0; i < rank; i++) {
    view->dims[order[i]] = ordered.dims[i];
    view->strides[order[i]] = ordered.strides[i];
  }
  return CAIRN_OK;
}

cairn_status cairn_ndarray_create_from_descriptor(cairn_context *context, const cairn_descriptor *d, const int64_t *shape, int rank,
                                                  cairn_ndarray **out_array) {
  CRN_REQUIRE(out_array);
  *out_array = NULL;
  CRN_REQUIRE(context);
  CRN_REQUIRE_NAMED(d, "descriptor");
  CRN_TRY(cairn_descriptor_resolve(d, shape, rank, NULL, NULL));
  return create_with_layout(context, d->dtype, shape ? shape : d->shape, d->interleave, d->rank, true, out_array);
}

// The elements reached from element 0 must end inside the caller's block.
static cairn_status check_extent(const cairn_ndarray_wrap_options *o, const crn_tensor *view) {
  int64_t last = 0, inner = 1;
  bool empty = false;
  for (int i = 0; i < view->rank; i++) {
    int64_t block = o->interleave ? o->interleave[i] : 1, blocks, reach;
    if (block < 1) return CRN_FAIL(INVALID_ARGUMENT, "interleave %d is %lld, 1 or more expected", i, (long long)block);
    if (view->strides[i] < 0) return CRN_FAIL(INVALID_ARGUMENT, "stride %d is negative", i);
    if (view->dims[i] == 0) {
      empty = true;
      continue;
    }
    blocks = (view->dims[i] - 1) / block;
    if (!crn_mul_i64(blocks, view->strides[i], &reach) || !crn_add_i64(last, reach, &last) || !crn_mul_i64(inner, block, &inner)) {
      return CRN_FAIL(OUT_OF_RANGE, "the strides reach outside of memory");
    }
  }
  size_t end = 0;
  if (!crn_add_i64(last, inner, &last) || !crn_mul_size((size_t)last, cairn_dtype_bytes(o->dtype), &end) ||
      !crn_add_size(end, o->byte_offset, &end)) {
    return CRN_FAIL(OUT_OF_RANGE, "the strides reach outside of memory");
  }
  if (!empty && end > o->bytes) return CRN_FAIL(INVALID_ARGUMENT, "shape and strides need %zu bytes, the block has %zu", end, o->bytes);
  return CAIRN_OK;
}

cairn_status cairn_ndarray_wrap(cairn_context *context, const cairn_ndarray_wrap_options *o, cairn_ndarray **out_array) {
  CRN_REQUIRE(out_array);
  *out_array = NULL;
  CRN_REQUIRE(context);
  CRN_REQUIRE_NAMED(o, "options");
  CRN_TRY(check_type_and_rank(o->dtype, o->shape, o->rank));
  int64_t n;
  if (!crn_shape_count(o->shape, o->rank, &n)) return CRN_FAIL(OUT_OF_RANGE, "an array of this shape is too large for memory");
  crn_tensor view = crn_tensor_make(o->dtype, o->shape, o->rank, (char *)o->data + o->byte_offset);
  if (o->strides) {
    for (int i = 0; i < o->rank; i++) view.strides[i] = o->strides[i];
  } else if (o->interleave) {
    int64_t span;
    if (!crn_layout_strides(o->shape, o->interleave, o->rank, view.strides, &span)) return CRN_FAIL(INVALID_ARGUMENT, "bad interleave");
  }
  CRN_TRY(check_extent(o, &view));
  size_t element = cairn_dtype_bytes(o->dtype), align = crn_dtype_is_complex(o->dtype) ? element / 2 : element;
  if (n && !o->data) return CRN_FAIL(INVALID_ARGUMENT, "no memory was given to wrap");
  if (n && (uintptr_t)view.data % align) return CRN_FAIL(INVALID_ARGUMENT, "the data is not aligned to its %zu-byte elements", align);
  crn_storage *s;
  CRN_TRY(crn_alloc_zero(&context->allocator, sizeof *s, &s));
  atomic_init(&s->references, 1);
  s->context = context;
  s->data = o->data;
  s->bytes = o->bytes;
  s->is_wrapped = true;
  cairn_context_retain(context);
  CRN_TRY(crn_ndarray_create_over(s, &view, o->interleave, o->read_only, out_array));
  // Only from here on the caller's memory is ours to release.
  s->release = o->release;
  s->user = o->user;
  return CAIRN_OK;
}

static cairn_status find_slice(const cairn_ndarray *array, const int64_t *start, const int64_t *end, crn_tensor *out_view) {
  crn_tensor view = array->view;
  int64_t offset = 0;
  for (int i = 0; i < view.rank; i++) {
    int64_t from = start ? start[i] : 0, to = end ? end[i] : view.dims[i];
    if (from < 0 || to < from || to > view.dims[i]) {
      return CRN_FAIL(INVALID_ARGUMENT, "slice [%lld, %lld) of dim %d with size %lld", (long long)from, (long long)to, i,
                      (long long)view.dims[i]);
    }
    if (from % array->interleave[i])
      return CRN_FAIL(INVALID_ARGUMENT, "slice of dim %d must start at a multiple of its interleave %lld", i,
                      (long long)array->interleave[i]);
    offset += from / array->interleave[i] * view.strides[i];
    view.dims[i] = to - from;
  }
  view.data = crn_tensor_at(&view, offset);
  *out_view = view;
  return CAIRN_OK;
}

cairn_status cairn_ndarray_slice(cairn_ndarray *array, const int64_t *start, const int64_t *end, cairn_ndarray **out_view) {
  CRN_REQUIRE(out_view);
  *out_view = NULL;
  CRN_REQUIRE(array);
  crn_tensor view;
  CRN_TRY(find_slice(array, start, end, &view));
  atomic_fetch_add_explicit(&array->storage->references, 1, memory_order_relaxed);
  return crn_ndarray_create_over(array->storage, &view, array->interleave, array->is_read_only, out_view);
}

cairn_status cairn_ndarray_reslice(cairn_ndarray *array, const int64_t *start, const int64_t *end, cairn_ndarray **in_out_view) {
  CRN_REQUIRE(array);
  CRN_REQUIRE(in_out_view);
  cairn_ndarray *old = *in_out_view;
  bool is_ours = old && old != array && old->storage == array->storage && !array->is_interleaved && !old->is_interleaved &&
                 old->is_read_only == array->is_read_only && atomic_load_explicit(&old->references, memory_order_acquire) == 1;
  if (is_ours && find_slice(array, start, end, &old->view) == CAIRN_OK) return CAIRN_OK;
  *in_out_view = NULL;
  cairn_ndarray_release(old);
  return cairn_ndarray_slice(array, start, end, in_out_view);
}

cairn_status cairn_ndarray_const_view(cairn_ndarray *array, cairn_ndarray **out_view) {
  CRN_REQUIRE(out_view);
  *out_view = NULL;
  CRN_REQUIRE(array);
  atomic_fetch_add_explicit(&array->storage->references, 1, memory_order_relaxed);
  return crn_ndarray_create_over(array->storage, &array->view, array->interleave, true, out_view);
}

void cairn_ndarray_retain(cairn_ndarray *a) {
  if (!a) return;
  atomic_fetch_add_explicit(&a->references, 1, memory_order_relaxed);
}

void cairn_ndarray_release(cairn_ndarray *a) {
  if (!a || atomic_fetch_sub_explicit(&a->references, 1, memory_order_acq_rel) != 1) return;
  crn_storage *storage = a->storage;
  crn_recycle_give(&storage->context->blocks, a, sizeof *a);
  storage_release(storage);
}

// --- facts -----------------------------------------------------------------------------------------------------------

cairn_dtype cairn_ndarray_dtype(const cairn_ndarray *a) { return a ? a->view.dtype : CAIRN_DTYPE_NONE; }
int cairn_ndarray_rank(const cairn_ndarray *a) { return a ? a->view.rank : 0; }
const int64_t *cairn_ndarray_shape(const cairn_ndarray *a) { return a ? a->view.dims : NULL; }
const int64_t *cairn_ndarray_strides(const cairn_ndarray *a) { return a ? a->view.strides : NULL; }
const int64_t *cairn_ndarray_interleave(const cairn_ndarray *a) { return a ? a->interleave : NULL; }
int64_t cairn_ndarray_count(const cairn_ndarray *a) { return a ? crn_tensor_count(&a->view) : 0; }
bool cairn_ndarray_is_contiguous(const cairn_ndarray *a) { return a && !a->is_interleaved && crn_tensor_is_contiguous(&a->view); }
bool cairn_ndarray_is_read_only(const cairn_ndarray *a) { return a && a->is_read_only; }
const void *cairn_ndarray_data(const cairn_ndarray *a) {
  if (!a) return NULL;
  return a->view.pages ? NULL : a->view.data;
}
void *cairn_ndarray_mutable_data(cairn_ndarray *a) {
  if (!a) return NULL;
  return a->is_read_only || a->view.pages ? NULL : a->view.data;
}

// --- elements --------------------------------------------------------------------------------------------------------

static cairn_status check_size(const cairn_ndarray *a, size_t bytes) {
  size_t need = (size_t)crn_tensor_count(&a->view) * cairn_dtype_bytes(a->view.dtype);
  if (bytes != need) return CRN_FAIL(INVALID_ARGUMENT, "the array holds %zu bytes, %zu were given", need, bytes);
  return CAIRN_OK;
}

static cairn_status check_writable(const cairn_ndarray *a) {
  return a->is_read_only ? CRN_FAIL(FAILED_PRECONDITION, "the array is read-only") : CAIRN_OK;
}

cairn_status cairn_ndarray_read(const cairn_ndarray *a, void *out_data, size_t bytes) {
  CRN_REQUIRE_NAMED(a, "array");
  CRN_REQUIRE_SOME(out_data, bytes);
  CRN_TRY(check_size(a, bytes));
  crn_tensor plain = crn_tensor_make(a->view.dtype, a->view.dims, a->view.rank, out_data);
  crn_ndarray_copy_out(a, &plain);
  return CAIRN_OK;
}

cairn_status cairn_ndarray_write(cairn_ndarray *a, const void *data, size_t bytes) {
  CRN_REQUIRE_NAMED(a, "array");
  CRN_REQUIRE_SOME(data, bytes);
  CRN_TRY(check_writable(a));
  CRN_TRY(check_size(a, bytes));
  crn_tensor plain = crn_tensor_make(a->view.dtype, a->view.dims, a->view.rank, (void *)data);
  return crn_ndarray_copy_in(a, &plain);
}

cairn_status cairn_ndarray_copy(const cairn_ndarray *source, cairn_ndarray *target) {
  CRN_REQUIRE(source);
  CRN_REQUIRE(target);
  CRN_TRY(check_writable(target));
  if (source->view.dtype != target->view.dtype || !crn_tensor_same_shape(&source->view, &target->view)) {
    return CRN_FAIL(INVALID_ARGUMENT, "arrays of unequal type or shape");
  }
  if (!source->is_interleaved) return crn_ndarray_copy_in(target, &source->view);
  CRN_TRY(crn_tensor_own(&target->view));
  if (!target->is_interleaved) {
    crn_ndarray_copy_out(source, &target->view);
  } else {
    const cairn_allocator *a = &source->storage->context->allocator;
    size_t bytes = (size_t)crn_tensor_count(&source->view) * cairn_dtype_bytes(source->view.dtype);
    void *plain;
    CRN_TRY(crn_alloc(a, bytes, &plain));
    crn_tensor middle = crn_tensor_make(source->view.dtype, source->view.dims, source->view.rank, plain);
    crn_ndarray_copy_out(source, &middle);
    cairn_status status = crn_ndarray_copy_in(target, &middle);
    crn_free(a, plain, bytes);
    return status;
  }
  return CAIRN_OK;
}

cairn_status cairn_ndarray_zero(cairn_ndarray *a) {
  CRN_REQUIRE_NAMED(a, "array");
  CRN_TRY(check_writable(a));
  if (crn_ndarray_is_whole_segmented(a)) return cairn_ndarray_drop_rows(a, 0, a->view.dims[a->storage->pages->axis]);
  if (cairn_ndarray_is_contiguous(a)) {
    memset(a->view.data, 0, (size_t)crn_tensor_count(&a->view) * cairn_dtype_bytes(a->view.dtype));
    return CAIRN_OK;
  }
  // A tensor of strides 0 over one zero element stands for the whole source.
  static const char zero[16] = {0};
  crn_tensor source = crn_tensor_make(a->view.dtype, a->view.dims, a->view.rank, (void *)zero);
  for (int i = 0; i < source.rank; i++) source.strides[i] = 0;
  return crn_ndarray_copy_in(a, &source);
}

// --- use as a state ----------------------------------------------------------------------------------------------------

cairn_status crn_ndarray_acquire(cairn_ndarray *array, const void *owner, const char *name, bool *out_taken) {
  const void *seen = NULL;
  *out_taken = atomic_compare_exchange_strong(&array->storage->busy_owner, &seen, owner);
  if (*out_taken || seen == owner) return CAIRN_OK;
  return CRN_FAIL(BUSY, "state '%s' is in use by another run", name);
}

void crn_ndarray_unlock(cairn_ndarray *array, const void *owner) {
  const void *mine = owner;
  atomic_compare_exchange_strong(&array->storage->busy_owner, &mine, NULL);
}
