// cairn_ndarray over pages.
#include "tensor/ndarray.h"
#include "tensor/pages.h"

cairn_status cairn_ndarray_create_segmented(cairn_context *c, cairn_dtype dtype, const int64_t *shape, int rank,
                                            const cairn_segments *segments, cairn_ndarray **out_array) {
  CRN_REQUIRE(out_array);
  *out_array = NULL;
  CRN_REQUIRE_NAMED(c, "context");
  CRN_REQUIRE_SOME(shape, rank);
  CRN_REQUIRE(segments);
  const cairn_allocator *a = &c->allocator;
  if (cairn_dtype_bytes(dtype) == 0) return CRN_FAIL(INVALID_ARGUMENT, "%d is not an element type", (int)dtype);
  if (rank < 1 || rank > CAIRN_MAX_RANK) return CRN_FAIL(INVALID_ARGUMENT, "rank %d is outside of 1 to %d", rank, CAIRN_MAX_RANK);
  for (int i = 0; i < rank; i++) {
    if (shape[i] < 0) return CRN_FAIL(INVALID_ARGUMENT, "dim %d is %lld: sizes must not be negative", i, (long long)shape[i]);
  }
  crn_storage *s;
  CRN_TRY(crn_alloc_zero(a, sizeof *s, &s));
  crn_tensor view = {.dtype = dtype, .rank = rank, .data = crn_pages_origin()};
  for (int i = 0; i < rank; i++) view.dims[i] = shape[i];
  cairn_status status = crn_pages_create(c, dtype, shape, rank, segments, view.strides, &s->pages);
  if (status != CAIRN_OK) {
    crn_free(a, s, sizeof *s);
    return status;
  }
  atomic_init(&s->references, 1);
  s->context = c;
  cairn_context_retain(c);
  view.pages = s->pages;
  return crn_ndarray_create_over(s, &view, NULL, false, out_array);
}

bool crn_ndarray_is_whole_segmented(const cairn_ndarray *a) {
  const crn_pages *p = a->view.pages;
  if (!p || a->is_read_only || a->view.data != crn_pages_origin() || a->view.rank <= p->axis || a->view.strides[p->axis] != p->span)
    return false;
  int64_t elements = (int64_t)1 << p->shift;
  for (int d = 0; d < a->view.rank; d++) elements *= d == p->axis ? 1 : a->view.dims[d];
  return elements == p->page_elements;
}

static cairn_status check_whole(const cairn_ndarray *a) {
  if (!a->view.pages) return CRN_FAIL(FAILED_PRECONDITION, "the array is not segmented");
  if (!crn_ndarray_is_whole_segmented(a)) return CRN_FAIL(FAILED_PRECONDITION, "a view of a segmented array is only for elements");
  return CAIRN_OK;
}

// Changes are for whole arrays that nothing runs on.
static cairn_status check(const cairn_ndarray *a) {
  CRN_TRY(check_whole(a));
  if (atomic_load(&a->storage->busy_owner)) return CRN_FAIL(BUSY, "a run has the segmented array");
  return CAIRN_OK;
}

static cairn_status check_range(const cairn_ndarray *a, int64_t first, int64_t end) {
  int64_t rows = a->view.dims[a->view.pages->axis];
  if (first >= 0 && first <= end && end <= rows) return CAIRN_OK;
  return CRN_FAIL(INVALID_ARGUMENT, "positions [%lld, %lld) of a segmented axis of %lld", (long long)first, (long long)end,
                  (long long)rows);
}

cairn_status cairn_ndarray_grow(cairn_ndarray *a, int64_t rows) {
  CRN_REQUIRE_NAMED(a, "array");
  CRN_TRY(check(a));
  int64_t *now = &a->view.dims[a->view.pages->axis];
  if (rows < *now)
    return CRN_FAIL(INVALID_ARGUMENT, "a segmented axis of %lld positions cannot shrink to %lld", (long long)*now, (long long)rows);
  CRN_TRY(crn_pages_extend(a->view.pages, rows));
  *now = rows;
  return CAIRN_OK;
}

cairn_status cairn_ndarray_reserve_rows(cairn_ndarray *a, int64_t first, int64_t end) {
  CRN_REQUIRE_NAMED(a, "array");
  CRN_TRY(check_whole(a));
  CRN_TRY(check_range(a, first, end));
  // Where nothing is missing nothing changes, so a run may go on meanwhile.
  if (crn_pages_are_own(a->view.pages, first, end)) return CAIRN_OK;
  CRN_TRY(check(a));
  return crn_pages_own(a->view.pages, first, end);
}

cairn_status cairn_ndarray_keep_ready(cairn_ndarray *a, int n) {
  CRN_REQUIRE_NAMED(a, "array");
  CRN_TRY(check(a));
  crn_page_store_keep_ready(a->view.pages->store, n);
  return CAIRN_OK;
}

static bool is_alike(const cairn_ndarray *a, const cairn_ndarray *b) {
  const crn_pages *p = a->view.pages, *q = b->view.pages;
  if (p->store != q->store || p->axis != q->axis || p->shift != q->shift || p->is_quantized != q->is_quantized ||
      a->view.dtype != b->view.dtype || a->view.rank != b->view.rank)
    return false;
  for (int d = 0; d < a->view.rank; d++) {
    if (d != p->axis && a->view.dims[d] != b->view.dims[d]) return false;
  }
  return true;
}

cairn_status cairn_ndarray_share_rows(cairn_ndarray *source, int64_t rows, cairn_ndarray *target) {
  CRN_REQUIRE(source);
  CRN_REQUIRE(target);
  CRN_TRY(check(source));
  CRN_TRY(check(target));
  if (source->storage == target->storage || !is_alike(source, target))
    return CRN_FAIL(INVALID_ARGUMENT, "pages can be shared between two arrays that are segmented alike");
  CRN_TRY(check_range(source, 0, rows));
  CRN_TRY(check_range(target, 0, rows));
  const crn_pages *from = source->view.pages;
  crn_pages *to = target->view.pages;
  int64_t n = rows >> from->shift;
  if (n << from->shift < rows) n++;
  for (int64_t i = 0; i < n; i++) {
    crn_page *old = to->table[i];
    to->table[i] = from->table[i];
    if (to->table[i]) crn_page_retain(to->table[i]);
    crn_page_release(to->store, old);
  }
  to->dropped_first = from->dropped_first < rows ? from->dropped_first : 0;
  to->dropped_end = to->dropped_first < from->dropped_end && from->dropped_first < rows ? from->dropped_end : 0;
  return CAIRN_OK;
}

cairn_status cairn_ndarray_drop_rows(cairn_ndarray *a, int64_t first, int64_t end) {
  CRN_REQUIRE_NAMED(a, "array");
  CRN_TRY(check(a));
  CRN_TRY(check_range(a, first, end));
  crn_pages *p = a->view.pages;
  int64_t rows = (int64_t)1 << p->shift;
  for (int64_t i = (first + rows - 1) >> p->shift; i < p->n; i++) {
    // The last page of the axis may be a part of one.
    bool is_inside = (i + 1) << p->shift <= end || end == a->view.dims[p->axis];
    if (!is_inside) break;
    crn_page_release(p->store, p->table[i]);
    p->table[i] = NULL;
  }
  if (first == 0 && end == a->view.dims[p->axis]) p->dropped_first = p->dropped_end = p->end = 0;
  return CAIRN_OK;
}

cairn_status cairn_ndarray_set_window(cairn_ndarray *a, const cairn_ndarray_window *w) {
  CRN_REQUIRE_NAMED(a, "array");
  CRN_REQUIRE_NAMED(w, "window");
  CRN_TRY(check(a));
  if (w->sinks < 0 || w->kept < 0) return CRN_FAIL(INVALID_ARGUMENT, "a window with negative sizes");
  a->view.pages->window = *w;
  return CAIRN_OK;
}

bool cairn_ndarray_is_segmented(const cairn_ndarray *a) { return a && a->view.pages != NULL; }

void cairn_ndarray_count_segments(const cairn_ndarray *a, cairn_segment_counts *out) {
  if (!out) return;
  if (!a) {
    *out = (cairn_segment_counts){0};
    return;
  }
  *out = (cairn_segment_counts){0};
  const crn_pages *p = a->view.pages;
  if (!p) return;
  crn_page_counts idle = crn_page_store_count(p->store);
  *out = (cairn_segment_counts){.axis = p->axis,
                                .page_rows = (int64_t)1 << p->shift,
                                .page_bytes = p->page_bytes,
                                .n_pages = p->n,
                                .n_copied = p->n_copied,
                                .dropped_first = p->dropped_first,
                                .dropped_end = p->dropped_end,
                                .bytes_read = atomic_load(&p->bytes_read),
                                .n_idle = idle.ready + idle.idle,
                                .n_waited = idle.waited};
  for (int64_t i = 0; i < p->n; i++) {
    if (!p->table[i]) continue;
    out->n_held++;
    out->n_shared += atomic_load_explicit(&p->table[i]->references, memory_order_relaxed) > 1;
  }
}

const void *cairn_ndarray_page(const cairn_ndarray *a, int64_t i) {
  if (!a) return NULL;
  const crn_pages *p = a->view.pages;
  return p && i >= 0 && i < p->n && p->table[i] ? crn_page_data(p->table[i]) : NULL;
}
