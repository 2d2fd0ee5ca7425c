#include "execute/widening.h"

#include "base/log.h"
#include "base/trace.h"

// The input elements of a run, 0 when the function is none to watch.
static int64_t count_elements(const cairn_function_info *info, const cairn_run_args *args) {
  if (info->n_states) return 0;
  int64_t n = 0;
  bool is_dynamic = false;
  for (int i = 0; i < info->n_inputs; i++) is_dynamic = is_dynamic || cairn_descriptor_is_dynamic(&info->inputs[i]);
  for (int i = 0; i < args->n_inputs && is_dynamic; i++) n += cairn_ndarray_count(args->inputs[i].array);
  return n;
}

int64_t crn_widening_begin(crn_widening *w, const cairn_function_info *info, const cairn_run_args *args) {
  int64_t elements = count_elements(info, args);
  if (!elements) return 0;
  pthread_mutex_lock(&w->lock);
  bool grows = elements > w->elements && w->stride;
  if (!grows) {
    w->n = 0;
    w->n_runs = 0;
    w->stride = 1;  // also of the first run of all
  }
  w->elements = elements;
  bool is_timed = grows && !w->has_warned;
  pthread_mutex_unlock(&w->lock);
  return is_timed ? crn_trace_now() : 0;
}

static double median(const double *values) {
  double sorted[CRN_WIDENING_EDGE];
  for (int i = 0; i < CRN_WIDENING_EDGE; i++) {
    int at = i;
    for (; at > 0 && sorted[at - 1] > values[i]; at--) sorted[at] = sorted[at - 1];
    sorted[at] = values[i];
  }
  return sorted[CRN_WIDENING_EDGE / 2];
}

// Medians, so that one slow run (the first of all, or another program's turn) decides nothing.
bool crn_widening_is_seen(const double *seconds, double *out_first, double *out_last) {
  double quarter = median(seconds + CRN_WIDENING_RUNS / 2 - CRN_WIDENING_EDGE);
  *out_first = median(seconds);
  *out_last = median(seconds + CRN_WIDENING_RUNS - CRN_WIDENING_EDGE);
  return *out_last > 1.25 * *out_first && *out_last > quarter && quarter > *out_first;
}

void crn_widening_end(crn_widening *w, const cairn_context *context, const char *function, int64_t started) {
  double seconds = (double)(crn_trace_now() - started) * 1e-9, first = 0, last = 0;
  bool warns = false;
  pthread_mutex_lock(&w->lock);
  if (w->n_runs++ % w->stride == 0) w->seconds[w->n++] = seconds;
  if (w->n == CRN_WIDENING_RUNS) {
    if (!w->has_warned) warns = w->has_warned = crn_widening_is_seen(w->seconds, &first, &last);
    // The series goes on: half of it makes room, so that its beginning is never forgotten.
    w->n /= 2;
    for (int i = 0; i < w->n; i++) w->seconds[i] = w->seconds[i * 2];
    w->stride *= 2;
  }
  int64_t n_runs = w->n_runs;
  pthread_mutex_unlock(&w->lock);
  if (!warns) return;
  CRN_WARN(context,
           "function '%s' keeps no states, and its runs take longer as its inputs grow step by step (%.3g ms, %lld runs later %.3g ms): it "
           "computes the whole sequence again each time, which a model that keeps states would not",
           function, first * 1e3, (long long)n_runs, last * 1e3);
}
