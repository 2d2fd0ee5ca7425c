/// Notices a function without states that is given a longer and longer sequence and takes longer each time: it computes
/// at every step what a model that keeps states would remember.
#ifndef CRN_EXECUTE_WIDENING_H
#define CRN_EXECUTE_WIDENING_H

#include <pthread.h>

#include "cairn/model.h"

enum { CRN_WIDENING_RUNS = 24, CRN_WIDENING_EDGE = 6 };

/// A series of runs, each with more input elements than the one before. Guarded by a lock of its own; the series that
/// several threads make together is as good as any.
typedef struct crn_widening {
  pthread_mutex_t lock;
  int64_t elements;                   ///< of the last run
  int64_t n_runs, stride;             ///< runs of the series; every so many are kept
  int n;                              ///< kept ones
  double seconds[CRN_WIDENING_RUNS];  ///< spread over the whole series
  bool has_warned;
} crn_widening;

/// Called before a run. Nanoseconds when it belongs to a series, 0 when it need not be timed.
int64_t crn_widening_begin(crn_widening *w, const cairn_function_info *info, const cairn_run_args *args);
/// Called after such a run. Warns once.
void crn_widening_end(crn_widening *w, const cairn_context *context, const char *function, int64_t started);

/// The rule: whether a full series widens. `out_first` and `out_last` are typical times of its two ends.
bool crn_widening_is_seen(const double *seconds, double *out_first, double *out_last);

#endif
