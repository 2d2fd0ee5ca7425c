// Layouts: preferred strides of descriptors and copies in and out of interleaved arrays.
#include <string.h>

#include "base/checked.h"
#include "tensor/ndarray.h"
#include "tensor/pages.h"

bool crn_layout_strides(const int64_t *dims, const int64_t *interleave, int rank, int64_t *out_strides, int64_t *out_span) {
  int64_t step = 1;
  for (int i = 0; i < rank; i++) {
    if (interleave[i] < 1 || !crn_mul_i64(step, interleave[i], &step)) return false;
  }
  for (int i = rank - 1; i >= 0; i--) {
    if (dims[i] < 0) return false;
    out_strides[i] = step;
    int64_t blocks = dims[i] / interleave[i] + (dims[i] % interleave[i] != 0);
    if (!crn_mul_i64(step, blocks, &step)) return false;
  }
  *out_span = step;
  return true;
}

bool cairn_descriptor_is_dynamic(const cairn_descriptor *d) {
  if (!d) return false;
  for (int i = 0; i < d->rank; i++) {
    if (d->shape[i] < 0) return true;
  }
  return false;
}

static cairn_status check_shape(const cairn_descriptor *d, const int64_t *shape, int rank) {
  if (rank != d->rank) return CRN_FAIL(INVALID_ARGUMENT, "'%s' has rank %d, a shape of rank %d was given", d->name, d->rank, rank);
  for (int i = 0; i < rank; i++) {
    if (shape[i] < 0) return CRN_FAIL(FAILED_PRECONDITION, "dim %d of '%s' is not resolved: give a size for it", i, d->name);
    if (d->shape[i] >= 0 && d->shape[i] != shape[i]) {
      return CRN_FAIL(INVALID_ARGUMENT, "dim %d of '%s' must be %lld, %lld was given", i, d->name, (long long)d->shape[i],
                      (long long)shape[i]);
    }
  }
  return CAIRN_OK;
}

cairn_status cairn_descriptor_resolve(const cairn_descriptor *d, const int64_t *shape, int rank, int64_t *out_strides, size_t *out_bytes) {
  CRN_REQUIRE_NAMED(d, "descriptor");
  if (!shape) {
    shape = d->shape;
    rank = d->rank;
  }
  CRN_TRY(check_shape(d, shape, rank));
  int64_t strides[CAIRN_MAX_RANK], span;
  size_t bytes;
  if (!crn_layout_strides(shape, d->interleave, rank, strides, &span) || !crn_mul_size((size_t)span, cairn_dtype_bytes(d->dtype), &bytes) ||
      bytes > INT64_MAX) {
    return CRN_FAIL(OUT_OF_RANGE, "'%s' is too large for memory", d->name);
  }
  if (out_strides) memcpy(out_strides, strides, (size_t)rank * sizeof *strides);
  if (out_bytes) *out_bytes = bytes;
  return CAIRN_OK;
}

typedef void (*block_fn)(const crn_tensor *array_block, const crn_tensor *plain_block);

// Visits the blocks of every interleaved dimension from `dim` on; inside a block the array is plainly strided. The
// in-block stride of a dimension is the product of the block sizes of the later ones.
static void visit_blocks(const cairn_ndarray *a, int dim, crn_tensor array_block, crn_tensor plain_block, block_fn fn) {
  while (dim < a->view.rank && a->interleave[dim] == 1) dim++;
  if (dim == a->view.rank) {
    fn(&array_block, &plain_block);
    return;
  }
  int64_t inner = 1, block = a->interleave[dim], n = a->view.dims[dim];
  for (int i = dim + 1; i < a->view.rank; i++) inner *= a->interleave[i];
  for (int64_t start = 0; start < n; start += block) {
    crn_tensor x = array_block, y = plain_block;
    x.data = crn_tensor_at(&array_block, start / block * array_block.strides[dim]);
    y.data = crn_tensor_at(&plain_block, start * plain_block.strides[dim]);
    x.dims[dim] = y.dims[dim] = n - start < block ? n - start : block;
    x.strides[dim] = inner;
    visit_blocks(a, dim + 1, x, y, fn);
  }
}

static void block_out(const crn_tensor *array_block, const crn_tensor *plain) { crn_tensor_copy(array_block, plain); }
static void block_in(const crn_tensor *array_block, const crn_tensor *plain) { crn_tensor_copy(plain, array_block); }

void crn_ndarray_copy_out(const cairn_ndarray *a, const crn_tensor *target) {
  if (a->is_interleaved) {
    visit_blocks(a, 0, a->view, *target, block_out);
  } else {
    crn_tensor_copy(&a->view, target);
  }
}

cairn_status crn_ndarray_copy_in(cairn_ndarray *a, const crn_tensor *source) {
  CRN_TRY(a->view.pages == source->pages ? crn_tensor_own(&a->view) : crn_tensor_own_anew(&a->view));
  if (a->is_interleaved) {
    visit_blocks(a, 0, a->view, *source, block_in);
  } else {
    crn_tensor_copy(source, &a->view);
  }
  return CAIRN_OK;
}
