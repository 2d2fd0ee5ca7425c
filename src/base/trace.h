/// Recording of spans for cairn_trace_start. Off, a span costs a load and a branch at each end.
///
///   int64_t start = crn_trace_begin(context);
///   … the work …
///   CRN_TRACE_END(context, start, "inference", NULL, "Run %s", name);
#ifndef CRN_BASE_TRACE_H
#define CRN_BASE_TRACE_H

#include <stdint.h>

#include "base/context.h"
#include "cairn/trace.h"

/// Nanoseconds of a clock that never goes back, never 0.
int64_t crn_trace_now(void);

/// The start of a span, 0 when no trace is made. A build with CRN_WITHOUT_TRACE has no such places, to measure what they cost.
static inline int64_t crn_trace_begin(const cairn_context *context) {
#ifdef CRN_WITHOUT_TRACE
  (void)context;
  return 0;
#endif
  return atomic_load_explicit(&context->is_tracing, memory_order_relaxed) ? crn_trace_now() : 0;
}

/// Records [start, now). `category` must be a constant, `detail` may be NULL. What there is no memory for is counted and
/// reported in the file.
void crn_trace_span(cairn_context *context, int64_t start, const char *category, const char *detail, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

#define CRN_TRACE_END(context, start, ...)                      \
  do {                                                          \
    if (start) crn_trace_span((context), (start), __VA_ARGS__); \
  } while (0)

/// Names the calling thread in the trace.
void crn_trace_name_thread(cairn_context *context, const char *name);

/// Used by cairn_context_release.
void crn_trace_drop(cairn_context *context);

#endif
