/// The memory of segmented arrays: a table of pages along one axis, each of which holds everything else for a fixed number of rows.
///
/// A tensor over pages (crn_tensor.pages) looks like a plain one whose addresses lie in a space where nobody else is: row r begins
/// r * span elements behind its start, and no element of a row reaches into the next. So slices, transpositions, reshapes and
/// broadcasts are the same arithmetic on dims, strides and data as for plain tensors, and they are right as long as only what is
/// declared here turns such an address into memory. Anything else that reads one gets a fault and not a wrong number.
///
/// Pages may be held by several tables; one that is to be written is made the table's own first. A page never written is no memory.
#ifndef CRN_TENSOR_PAGES_H
#define CRN_TENSOR_PAGES_H

#include "tensor/page_store.h"
#include "tensor/tensor.h"

enum { CRN_PAGE_MIN_SHIFT = 6, CRN_PAGE_MAX_SHIFT = 8, CRN_PAGE_LARGEST_GROUP = 256 };

typedef struct crn_pages {
  crn_page_store *store;
  cairn_context *context;  ///< borrowed: the storage holds it
  cairn_dtype dtype;       ///< of the elements as everybody sees them
  bool is_quantized;       ///< kept as int8 with an f32 scale for each run of `group` elements
  int axis, shift;         ///< of the array; rows a page holds, as a power of two
  int64_t span;            ///< between rows, in the space of addresses
  int64_t row_stride;      ///< between rows of a page, in elements
  int64_t page_elements;
  int64_t group;        ///< elements that share a scale
  size_t scale_offset;  ///< of the scales in a page
  size_t page_bytes;
  int64_t n, capacity;  ///< pages of the table
  crn_page **table;     ///< NULL = zeros that were never written
  cairn_ndarray_window window;
  int64_t end;                         ///< behind the last row of the last update
  int64_t dropped_first, dropped_end;  ///< rows that the window gave back
  _Atomic int64_t bytes_read;          ///< copied out, for whoever takes no pages
  int64_t n_copied;                    ///< pages that were copied because somebody else held them
} crn_pages;

/// Where element 0 of a whole array lies in the space of addresses.
void *crn_pages_origin(void);

/// A table for arrays of these dims. `out_strides` receives those of the array. Errors: INVALID_ARGUMENT, OUT_OF_RANGE, OUT_OF_MEMORY.
cairn_status crn_pages_create(cairn_context *context, cairn_dtype dtype, const int64_t *dims, int rank, const cairn_segments *segments,
                              int64_t *out_strides, crn_pages **out_pages);
void crn_pages_destroy(crn_pages *p);
/// Makes the table long enough for `rows`. Errors: OUT_OF_RANGE, OUT_OF_MEMORY.
cairn_status crn_pages_extend(crn_pages *p, int64_t rows);

/// Makes the pages of rows [first, end) the table's own, so that they can be written. Errors: OUT_OF_MEMORY (some may be done).
cairn_status crn_pages_own(crn_pages *p, int64_t first, int64_t end);
/// Whether they are already.
bool crn_pages_are_own(const crn_pages *p, int64_t first, int64_t end);
/// The rows [*out_first, *out_end) a tensor over pages reaches; empty when it has no elements.
void crn_paged_rows(const crn_tensor *t, int64_t *out_first, int64_t *out_end);
/// The same for the rows a tensor reaches; nothing for a plain one.
cairn_status crn_tensor_own(const crn_tensor *t);
/// The same for a tensor of which every element is about to be written, with what no tensor over the same pages holds: pages that lie
/// in it wholly are neither cleared nor copied.
cairn_status crn_tensor_own_anew(const crn_tensor *t);
/// An update changes rows [first, end): what a window hides from all of them is given back. Nothing without a window.
void crn_pages_advance(crn_pages *p, int64_t first, int64_t end);

/// The axis of `t` that runs along rows one by one, -1 when it has one row, -2 when it is a look that pages do not give (several axes
/// along rows, or steps). `*out_row` is the row of element 0 and `*out_in_page` its place behind the start of its row 0.
int crn_paged_axis(const crn_tensor *t, int64_t *out_row, int64_t *out_in_page);

/// A run of rows of one page.
typedef struct crn_page_run {
  crn_page *page;           ///< NULL = zeros
  crn_tensor part;          ///< its dims and strides in the page; data only where the page is plain memory
  int64_t first;            ///< element 0 behind the start of the page
  const crn_tensor *other;  ///< the same elements of the other tensor
} crn_page_run;

/// Calls `fn` for the runs of `t`, with the same part of `other` (of equal dims).
void crn_paged_visit(const crn_tensor *t, const crn_tensor *other, void (*fn)(void *user, const crn_page_run *run), void *user);

/// crn_tensor_copy where either is over pages. Those of the target are the table's own.
void crn_paged_copy(const crn_tensor *source, const crn_tensor *target);
/// A plain tensor for the same elements when they lie in one page that is plain memory; else `t` itself.
crn_tensor crn_tensor_resolve(const crn_tensor *t);

static inline float *crn_page_scales(const crn_pages *p, const crn_page *page) {
  return (float *)((char *)crn_page_data(page) + p->scale_offset);
}

#endif
