#include "tensor/pages.h"

#include <string.h>

#include "base/checked.h"

// Addresses from here on are not valid on any processor cairn runs on: a pointer of 64 bits names at most 48 of them.
#define SPACE_BEGIN ((uintptr_t)1 << 50)
enum { SPACE_BITS = 48, SPARE_ROWS = 16 };

void *crn_pages_origin(void) { return (void *)SPACE_BEGIN; }

// --- the layout of a page -------------------------------------------------------------------------------------------------

// The axis behind which nothing lies apart: the last one with more than one element.
static int innermost(const int64_t *dims, int rank, int axis) {
  for (int d = rank - 1; d >= 0; d--) {
    if (d != axis && dims[d] > 1) return d;
  }
  return -1;
}

// Rows keep their place among the axes, but are never the innermost ones: what is read and written together is one row.
static void lay_out(crn_pages *p, const int64_t *dims, int rank, int64_t *strides) {
  int inner = innermost(dims, rank, p->axis);
  int64_t step = 1, rows = (int64_t)1 << p->shift;
  // Heads that lie behind one another in one axis get scales of their own where that divides.
  p->group = inner < 0 ? 1 : dims[inner];
  while (p->group > CRN_PAGE_LARGEST_GROUP && p->group % 2 == 0) p->group /= 2;
  for (int d = rank - 1; d >= 0; d--) {
    if (d == p->axis && inner >= 0 && inner < p->axis) continue;  // its place is in front of `inner`, below
    if (d == p->axis) {
      p->row_stride = step;
      step *= rows;
      continue;
    }
    strides[d] = step;
    step *= dims[d];
    if (d == inner && inner < p->axis) {
      p->row_stride = step;
      step *= rows;
    }
  }
  p->page_elements = step;
  p->span = 2 * step + 1;
  strides[p->axis] = p->span;
}

static cairn_status check(cairn_dtype dtype, const int64_t *dims, int rank, const cairn_segments *s, int *out_shift,
                          int64_t *out_elements) {
  if (sizeof(void *) < 8) return CRN_FAIL(UNSUPPORTED, "segmented arrays need a processor of 64 bits");
  if (s->axis < 0 || s->axis >= rank)
    return CRN_FAIL(INVALID_ARGUMENT, "axis %d of an array of rank %d cannot be segmented", s->axis, rank);
  *out_shift = CRN_PAGE_MIN_SHIFT;
  while (*out_shift < CRN_PAGE_MAX_SHIFT && (int64_t)1 << *out_shift != s->page_rows) ++*out_shift;
  if ((int64_t)1 << *out_shift != s->page_rows) {
    return CRN_FAIL(INVALID_ARGUMENT, "pages of %lld rows; 64, 128 or 256 expected", (long long)s->page_rows);
  }
  if (s->stored != CAIRN_DTYPE_NONE && s->stored != dtype && s->stored != CAIRN_SI8)
    return CRN_FAIL(INVALID_ARGUMENT, "segments can be kept as they are or as int8, not as %s", cairn_dtype_name(s->stored));
  if (s->stored == CAIRN_SI8 && dtype != CAIRN_SI8 && dtype != CAIRN_F16 && dtype != CAIRN_BF16 && dtype != CAIRN_F32)
    return CRN_FAIL(INVALID_ARGUMENT, "elements of %s cannot be kept as int8", cairn_dtype_name(dtype));
  *out_elements = s->page_rows;
  for (int d = 0; d < rank; d++) {
    if (d == s->axis) continue;
    if (dims[d] < 1)
      return CRN_FAIL(INVALID_ARGUMENT, "dim %d is %lld: an array without elements cannot be segmented", d, (long long)dims[d]);
    if (!crn_mul_i64(*out_elements, dims[d], out_elements)) return CRN_FAIL(OUT_OF_RANGE, "a page of this shape is too large");
  }
  if (*out_elements > (int64_t)1 << 40) return CRN_FAIL(OUT_OF_RANGE, "a page of this shape is too large");
  return CAIRN_OK;
}

cairn_status crn_pages_create(cairn_context *c, cairn_dtype dtype, const int64_t *dims, int rank, const cairn_segments *s,
                              int64_t *out_strides, crn_pages **out_pages) {
  int shift;
  int64_t elements;
  crn_pages *p;
  *out_pages = NULL;
  CRN_TRY(check(dtype, dims, rank, s, &shift, &elements));
  CRN_TRY(crn_alloc_zero(&c->allocator, sizeof *p, &p));
  p->context = c;
  p->dtype = dtype;
  p->is_quantized = s->stored == CAIRN_SI8 && dtype != CAIRN_SI8;
  p->axis = s->axis;
  p->shift = shift;
  lay_out(p, dims, rank, out_strides);
  if (p->group > CRN_PAGE_LARGEST_GROUP && p->is_quantized) {
    crn_free(&c->allocator, p, sizeof *p);
    return CRN_FAIL(INVALID_ARGUMENT, "rows of %lld elements cannot be kept as int8", (long long)dims[innermost(dims, rank, s->axis)]);
  }
  p->page_bytes = (size_t)elements * (p->is_quantized ? 1 : cairn_dtype_bytes(dtype));
  if (p->is_quantized) {
    p->scale_offset = (p->page_bytes + CRN_ALIGN - 1) / CRN_ALIGN * CRN_ALIGN;
    p->page_bytes = p->scale_offset + (size_t)(elements / p->group) * sizeof(float);
  }
  cairn_status status = crn_page_store_acquire(c, p->page_bytes, &p->store);
  if (status == CAIRN_OK) status = crn_pages_extend(p, dims[s->axis]);
  if (status != CAIRN_OK) {
    crn_pages_destroy(p);
    return status;
  }
  *out_pages = p;
  return CAIRN_OK;
}

void crn_pages_destroy(crn_pages *p) {
  if (!p) return;
  const cairn_allocator *a = &p->context->allocator;
  for (int64_t i = 0; i < p->n; i++) crn_page_release(p->store, p->table[i]);
  if (p->store) crn_page_store_release(p->store);
  crn_free(a, p->table, (size_t)p->capacity * sizeof *p->table);
  crn_free(a, p, sizeof *p);
}

cairn_status crn_pages_extend(crn_pages *p, int64_t rows) {
  int64_t n = rows / ((int64_t)1 << p->shift) + (rows % ((int64_t)1 << p->shift) != 0);
  if (n <= p->n) return CAIRN_OK;
  if (rows > ((int64_t)1 << SPACE_BITS) / (p->span * (int64_t)cairn_dtype_bytes(p->dtype)))
    return CRN_FAIL(OUT_OF_RANGE, "%lld rows are too many for a segmented array of this shape", (long long)rows);
  if (n > p->capacity) {
    int64_t capacity = 2 * p->capacity > n ? 2 * p->capacity : n;
    CRN_TRY(crn_realloc(&p->context->allocator, &p->table, (size_t)p->capacity * sizeof *p->table, (size_t)capacity * sizeof *p->table));
    p->capacity = capacity;
  }
  for (int64_t i = p->n; i < n; i++) p->table[i] = NULL;
  p->n = n;
  return CAIRN_OK;
}

// --- pages to write to ------------------------------------------------------------------------------------------------------

static bool is_own(const crn_page *page) { return page && atomic_load_explicit(&page->references, memory_order_acquire) == 1; }

bool crn_pages_are_own(const crn_pages *p, int64_t first, int64_t end) {
  for (int64_t i = first >> p->shift; first < end && i <= (end - 1) >> p->shift; i++) {
    if (!is_own(p->table[i])) return false;
  }
  return true;
}

static cairn_status own_page(crn_pages *p, int64_t i) {
  crn_page *old = p->table[i], *fresh;
  if (is_own(old)) return CAIRN_OK;
  CRN_TRY(crn_page_take(p->store, &fresh));
  if (old) {
    memcpy(crn_page_data(fresh), crn_page_data(old), p->page_bytes);
    p->n_copied++;
  }
  p->table[i] = fresh;
  crn_page_release(p->store, old);
  return CAIRN_OK;
}

cairn_status crn_pages_own(crn_pages *p, int64_t first, int64_t end) {
  if (first >= end) return CAIRN_OK;
  for (int64_t i = first >> p->shift; i <= (end - 1) >> p->shift; i++) CRN_TRY_NOTE(own_page(p, i), "page %lld", (long long)i);
  return CAIRN_OK;
}

// The address of element 0 in elements behind the begin of the space.
static int64_t place_of(const crn_tensor *t) { return (int64_t)(((uintptr_t)t->data - SPACE_BEGIN) / cairn_dtype_bytes(t->dtype)); }

void crn_paged_rows(const crn_tensor *t, int64_t *out_first, int64_t *out_end) {
  int64_t low = place_of(t), high = low;
  *out_first = *out_end = 0;
  for (int d = 0; d < t->rank; d++) {
    if (t->dims[d] == 0) return;
    int64_t reach = (t->dims[d] - 1) * t->strides[d];
    if (reach < 0) {
      low += reach;
    } else {
      high += reach;
    }
  }
  *out_first = low / t->pages->span;
  *out_end = high / t->pages->span + 1;
}

cairn_status crn_tensor_own(const crn_tensor *t) {
  int64_t first, end;
  if (!t->pages) return CAIRN_OK;
  crn_paged_rows(t, &first, &end);
  return crn_pages_own(t->pages, first, end);
}

// A view of an array has no element twice, so it covers its rows when it has as many elements as they have.
static bool covers_its_rows(const crn_tensor *t, int64_t n_rows) {
  for (int d = 0; d < t->rank; d++) {
    if (t->dims[d] > 1 && t->strides[d] == 0) return false;
  }
  return crn_tensor_count(t) == n_rows * (t->pages->page_elements >> t->pages->shift);
}

cairn_status crn_tensor_own_anew(const crn_tensor *t) {
  int64_t first, end;
  if (!t->pages) return CAIRN_OK;
  crn_paged_rows(t, &first, &end);
  if (first >= end) return CAIRN_OK;
  crn_pages *p = t->pages;
  const bool covers = covers_its_rows(t, end - first);
  for (int64_t i = first >> p->shift; i <= (end - 1) >> p->shift; i++) {
    crn_page *old = p->table[i], *fresh;
    const bool is_inside = first <= i << p->shift && (i + 1) << p->shift <= end;
    if (!covers || !is_inside) {
      CRN_TRY_NOTE(own_page(p, i), "page %lld", (long long)i);
    } else if (!is_own(old)) {
      CRN_TRY_NOTE(crn_page_take_uncleared(p->store, &fresh), "page %lld", (long long)i);
      p->table[i] = fresh;
      crn_page_release(p->store, old);
    }
  }
  return CAIRN_OK;
}

void crn_pages_advance(crn_pages *p, int64_t first, int64_t end) {
  if (p->window.kept == 0 || first >= end) return;
  // Some rows more are kept, so that going back a few steps stays possible.
  int64_t rows = (int64_t)1 << p->shift, hidden = first + 1 - p->window.kept - SPARE_ROWS;
  p->end = end;
  // From `first` on everything is written anew.
  if (p->dropped_end > first) p->dropped_end = first;
  if (p->dropped_end <= p->dropped_first) p->dropped_first = p->dropped_end = 0;
  for (int64_t i = (p->window.sinks + rows - 1) >> p->shift; i < p->n && (i + 1) << p->shift <= hidden; i++) {
    if (!p->table[i]) continue;
    crn_page_release(p->store, p->table[i]);
    p->table[i] = NULL;
    if (p->dropped_end == 0 || i << p->shift < p->dropped_first) p->dropped_first = i << p->shift;
    if ((i + 1) << p->shift > p->dropped_end) p->dropped_end = (i + 1) << p->shift;
  }
}

// --- looks ------------------------------------------------------------------------------------------------------------------

static bool runs_along_rows(const crn_tensor *t, int d) {
  int64_t stride = t->strides[d] < 0 ? -t->strides[d] : t->strides[d];
  return t->dims[d] > 1 && stride >= t->pages->span - t->pages->page_elements;
}

int crn_paged_axis(const crn_tensor *t, int64_t *out_row, int64_t *out_in_page) {
  int axis = -1;
  int64_t place = place_of(t), span = t->pages->span;
  *out_row = place / span;
  *out_in_page = place % span;
  for (int d = 0; d < t->rank; d++) {
    if (!runs_along_rows(t, d)) continue;
    if (axis >= 0 || t->strides[d] != span) return -2;
    axis = d;
  }
  return axis;
}

typedef struct visit {
  void (*fn)(void *user, const crn_page_run *run);
  void *user;
} visit;

static crn_tensor part_of(const crn_tensor *t, int axis, int64_t first, int64_t n) {
  crn_tensor part = *t;
  if (axis < 0) return part;
  part.dims[axis] = n;
  part.data = crn_tensor_at(t, first * t->strides[axis]);
  return part;
}

static void give_run(const visit *v, const crn_tensor *t, int axis, int64_t row, int64_t in_page, const crn_tensor *other) {
  const crn_pages *p = t->pages;
  int64_t in = row & (((int64_t)1 << p->shift) - 1);
  crn_page_run run = {.page = p->table[row >> p->shift], .part = *t, .first = in_page + in * p->row_stride, .other = other};
  run.part.pages = NULL;
  if (axis >= 0) run.part.strides[axis] = p->row_stride;
  run.part.data = run.page && !p->is_quantized ? (char *)crn_page_data(run.page) + run.first * (int64_t)cairn_dtype_bytes(t->dtype) : NULL;
  v->fn(v->user, &run);
}

static void visit_runs(const visit *v, const crn_tensor *t, const crn_tensor *other) {
  int64_t row, in_page;
  int axis = crn_paged_axis(t, &row, &in_page);
  if (axis == -1) {
    give_run(v, t, -1, row, in_page, other);
    return;
  }
  if (axis == -2) {
    // One of the axes along rows, element by element.
    int d = 0;
    while (!runs_along_rows(t, d)) d++;
    for (int64_t i = 0; i < t->dims[d]; i++) {
      crn_tensor a = part_of(t, d, i, 1), b = part_of(other, d, i, 1);
      visit_runs(v, &a, &b);
    }
    return;
  }
  int64_t rows = (int64_t)1 << t->pages->shift;
  for (int64_t i = 0; i < t->dims[axis];) {
    int64_t left = rows - ((row + i) & (rows - 1)), n = t->dims[axis] - i < left ? t->dims[axis] - i : left;
    crn_tensor a = part_of(t, axis, i, n), b = part_of(other, axis, i, n);
    give_run(v, &a, axis, row + i, in_page, &b);
    i += n;
  }
}

void crn_paged_visit(const crn_tensor *t, const crn_tensor *other, void (*fn)(void *user, const crn_page_run *run), void *user) {
  if (crn_tensor_count(t) == 0) return;
  const visit v = {fn, user};
  visit_runs(&v, t, other);
}

crn_tensor crn_tensor_resolve(const crn_tensor *t) {
  int64_t row, in_page;
  if (!t->pages || t->pages->is_quantized || crn_tensor_count(t) == 0 || crn_paged_axis(t, &row, &in_page) != -1) return *t;
  const crn_pages *p = t->pages;
  const crn_page *page = p->table[row >> p->shift];
  if (!page) return *t;
  crn_tensor plain = *t;
  int64_t first = in_page + (row & (((int64_t)1 << p->shift) - 1)) * p->row_stride;
  plain.pages = NULL;
  plain.data = (char *)crn_page_data(page) + first * (int64_t)cairn_dtype_bytes(t->dtype);
  // Steps along an axis of one element are never taken.
  for (int d = 0; d < t->rank; d++) {
    if (t->dims[d] == 1) plain.strides[d] = 0;
  }
  return plain;
}
