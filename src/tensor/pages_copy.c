// Copies in and out of pages, plain ones and those of int8 with scales.
#include <math.h>
#include <string.h>

#include "tensor/pages.h"

// --- plain pages --------------------------------------------------------------------------------------------------------------

static void read_zeros(const crn_tensor *target) {
  static const char zero[16] = {0};
  crn_tensor source = *target;
  source.pages = NULL;
  source.data = (void *)zero;
  for (int d = 0; d < source.rank; d++) source.strides[d] = 0;
  crn_tensor_copy(&source, target);
}

// --- int8 -----------------------------------------------------------------------------------------------------------------------

// Axes in the order of their strides in the page, so that elements come group by group.
static void order_axes(crn_tensor *a, crn_tensor *b) {
  for (int i = 1; i < a->rank; i++) {
    for (int k = i; k > 0; k--) {
      int64_t x = a->strides[k - 1] < 0 ? -a->strides[k - 1] : a->strides[k - 1], y = a->strides[k] < 0 ? -a->strides[k] : a->strides[k];
      if (x >= y) break;
      int64_t dim = a->dims[k], stride_a = a->strides[k], stride_b = b->strides[k];
      a->dims[k] = a->dims[k - 1], a->strides[k] = a->strides[k - 1], b->strides[k] = b->strides[k - 1];
      a->dims[k - 1] = dim, a->strides[k - 1] = stride_a, b->strides[k - 1] = stride_b;
      b->dims[k] = a->dims[k], b->dims[k - 1] = a->dims[k - 1];
    }
  }
}

static void read_quantized(const crn_pages *p, const crn_page_run *run) {
  crn_tensor part = run->part, to = *run->other;
  order_axes(&part, &to);
  const int8_t *codes = crn_page_data(run->page);
  const float *scales = crn_page_scales(p, run->page);
  crn_nd_iter it;
  crn_nd_initialize(&it, part.rank, part.dims);
  crn_nd_operand(&it, part.strides);
  crn_nd_operand(&it, to.strides);
  for (crn_nd_begin(&it); !it.done; crn_nd_next(&it)) {
    int64_t at = run->first + it.offset[0];
    crn_store_f64(to.dtype, crn_tensor_at(&to, it.offset[1]), (double)((float)codes[at] * scales[at / p->group]));
  }
}

/// A group that is being filled.
typedef struct filling {
  int64_t group;  ///< -1 = none
  float values[CRN_PAGE_LARGEST_GROUP];
} filling;

// A group with a value that is not finite has such a scale: all of it reads as NaN.
static void put_group(const crn_pages *p, crn_page *page, const filling *f, int64_t first, int64_t n) {
  int8_t *codes = (int8_t *)crn_page_data(page) + first;
  float top = 0;
  bool is_finite = true;
  for (int64_t i = 0; i < n; i++) {
    float size = fabsf(f->values[i]);
    if (!isfinite(size)) is_finite = false;
    if (size > top) top = size;
  }
  float scale = is_finite ? top / 127 : NAN, inverse = is_finite && scale > 0 ? 1 / scale : 0;
  if (!isfinite(inverse)) scale = inverse = 0;
  crn_page_scales(p, page)[first / p->group] = is_finite ? scale : NAN;
  for (int64_t i = 0; i < n; i++) codes[i] = is_finite ? (int8_t)lrintf(f->values[i] * inverse) : 0;
}

static void take_group(const crn_pages *p, const crn_page *page, filling *f, int64_t group) {
  const int8_t *codes = (const int8_t *)crn_page_data(page) + group * p->group;
  float scale = crn_page_scales(p, page)[group];
  for (int64_t i = 0; i < p->group; i++) f->values[i] = (float)codes[i] * scale;
  f->group = group;
}

// Elements come group by group where the target is a whole row; a part of a group keeps what the rest of it had.
static void write_quantized(const crn_pages *p, const crn_page_run *run) {
  crn_tensor part = run->part, from = *run->other;
  filling f = {.group = -1};
  order_axes(&part, &from);
  crn_nd_iter it;
  crn_nd_initialize(&it, part.rank, part.dims);
  crn_nd_operand(&it, part.strides);
  crn_nd_operand(&it, from.strides);
  for (crn_nd_begin(&it); !it.done; crn_nd_next(&it)) {
    int64_t at = run->first + it.offset[0], group = at / p->group;
    if (group != f.group) {
      if (f.group >= 0) put_group(p, run->page, &f, f.group * p->group, p->group);
      take_group(p, run->page, &f, group);
    }
    f.values[at % p->group] = (float)crn_load_f64(from.dtype, crn_tensor_at(&from, it.offset[1]));
  }
  if (f.group >= 0) put_group(p, run->page, &f, f.group * p->group, p->group);
}

// --- both -----------------------------------------------------------------------------------------------------------------------

static void read_run(void *user, const crn_page_run *run) {
  const crn_pages *p = user;
  if (!run->page) {
    read_zeros(run->other);
  } else if (p->is_quantized) {
    read_quantized(p, run);
  } else {
    crn_tensor_copy(&run->part, run->other);
  }
}

static void write_run(void *user, const crn_page_run *run) {
  const crn_pages *p = user;
  if (!p->is_quantized) {
    crn_tensor_copy(run->other, &run->part);
  } else {
    write_quantized(p, run);
  }
}

enum { MIDDLE_ELEMENTS = 4096 };

// Where to cut what is too large for the middle: through the longest axis but that of the groups, which is cut between groups only.
static int cut(const crn_pages *p, const crn_tensor *part, int64_t *out_n) {
  int longest = -1, inner = -1;
  for (int d = 0; d < part->rank; d++) {
    if (part->dims[d] > 1 && part->strides[d] == 1) {
      inner = d;
    } else if (longest < 0 || part->dims[d] > part->dims[longest]) {
      longest = d;
    }
  }
  if (longest < 0 || part->dims[longest] == 1) longest = inner;
  *out_n = part->dims[longest] / 2;
  if (longest == inner && *out_n > p->group) *out_n = *out_n / p->group * p->group;
  return longest;
}

// From pages to pages of int8, by way of a few groups in plain memory.
static void write_from_pages(void *user, const crn_page_run *run) {
  const crn_pages *p = user;
  crn_page_run sub = *run;
  crn_tensor middle = *run->other;
  float memory[MIDDLE_ELEMENTS];
  if (!p->is_quantized) {
    write_run(user, run);
  } else if (crn_tensor_count(&middle) <= MIDDLE_ELEMENTS) {
    middle.pages = NULL;
    middle.data = memory;
    crn_tensor_set_contiguous(&middle);
    crn_paged_copy(run->other, &middle);
    sub.other = &middle;
    write_run(user, &sub);
  } else {
    int64_t n;
    int d = cut(p, &run->part, &n);
    crn_tensor piece = *run->other;
    sub.other = &piece;
    sub.part.dims[d] = piece.dims[d] = n;
    write_from_pages(user, &sub);
    sub.part.dims[d] = piece.dims[d] = run->part.dims[d] - n;
    sub.first += n * sub.part.strides[d];
    piece.data = crn_tensor_at(&piece, n * piece.strides[d]);
    write_from_pages(user, &sub);
  }
}

void crn_paged_copy(const crn_tensor *source, const crn_tensor *target) {
  if (source->pages) {
    int64_t bytes = crn_tensor_count(source) * (int64_t)cairn_dtype_bytes(source->dtype);
    atomic_fetch_add_explicit(&source->pages->bytes_read, bytes, memory_order_relaxed);
  }
  if (!target->pages) {
    crn_paged_visit(source, target, read_run, source->pages);
  } else {
    crn_paged_visit(target, source, source->pages ? write_from_pages : write_run, target->pages);
  }
}
